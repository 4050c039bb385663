/*
 * Parts of nccl_sockets, which runs real NCCL as two ranks that pose as two nodes. The parent (nccl_sockets.c) starts
 * two processes for every transport, tells them what to run and writes the results down; a rank (nccl_sockets_rank.c)
 * owns a GPU and a communicator; nccl_sockets_raw.c measures what TCP itself can do.
 * A rank reads one command after the other from descriptor 3 and answers each on the same descriptor.
 */
#ifndef NCCL_SOCKETS_H
#define NCCL_SOCKETS_H

#include <stddef.h>
#include <stdint.h>

#define RANKS      2
#define COMMAND_FD 3

enum operation {
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE,
    SEND_RECV,
    OPERATIONS
};

extern const char *const operation_names[OPERATIONS];

enum verb {
    VERB_ID,      /* rank 0 answers with a new unique id */
    VERB_INIT,    /* make a communicator from `id` */
    VERB_CHECK,   /* run `op` once on `count` elements and compare with the host's result */
    VERB_TIME,    /* run `op` on `bytes` `iterations` times */
    VERB_PCIE,    /* copy to and from the GPU at once; `us` is then GB/s each way */
    VERB_DESTROY, /* the communicator */
    VERB_EXIT,
};

struct command {
    int verb;
    int op;
    int is_bytes;   /* VERB_CHECK: elements are uint8 instead of float32 */
    int iterations; /* VERB_TIME */
    uint64_t bytes; /* VERB_TIME: the larger of the send and receive buffers */
    uint64_t count; /* VERB_CHECK: elements a rank contributes (or, for reduce-scatter, receives) */
    unsigned char id[128];
};

struct answer {
    int failed;
    double us;    /* of one operation */
    double cpu_s; /* user and system time of this process for one operation */
    int nccl_version;
    int gpus;
    char text[256]; /* why it failed; name of the GPU after VERB_INIT */
    unsigned char id[128];
};

/* Never returns. `buffer_bytes` is the size of the send and of the receive buffer. */
void rank_main(int rank, uint64_t buffer_bytes);

/* Bytes a second in each direction that two processes reach over loopback, with `streams` connections each way. */
double raw_tcp_rate(int streams, double seconds);

#endif
