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
#include <stdio.h>

#define RANKS       2
#define COMMAND_FD  3
#define MAX_THREADS 512

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

/* How VERB_TIME is looked at. The last three note what each thread did. */
enum pass {
    PASS_PLAIN,
    PASS_THREADS, /* without the profiler */
    PASS_STEPS,   /* operations and steps are profiled */
    PASS_KERNELS, /* kernels too */
};

struct command {
    int verb;
    int op;
    int is_bytes;   /* VERB_CHECK: elements are uint8 instead of float32 */
    int iterations; /* VERB_TIME */
    int pass;       /* VERB_TIME: PASS_ */
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

/* What a thread has used so far, or a kind of threads in some stretch. */
struct thread_use {
    int id;
    int threads;
    char kind[16];
    uint64_t cpu_ns;
    uint64_t wait_ns; /* runnable, without a processor */
    uint64_t user_ns; /* in ticks, so coarse */
    uint64_t system_ns;
    uint64_t voluntary;
    uint64_t involuntary;
};

/* Of all threads of this process; returns how many. */
int threads_read(struct thread_use *threads, int room);

/* Writes a JSON list of what each kind of thread did between the two readings. Changes `now`. */
void threads_write(FILE *file, const struct thread_use *then, int then_count,
                   struct thread_use *now, int now_count);

/* Bytes a second in each direction that two processes reach over loopback, with `streams` connections each way. */
double raw_tcp_rate(int streams, double seconds);

#endif
