/*
 * One rank of a measurement: CUDA and NCCL opened at run time, one GPU, one communicator at a time, collectives captured into CUDA
 * graphs and timed. A leader (rank 0) sends the same command to all ranks; each answers. See worker.c.
 */
#ifndef BRAID_TUNE_WORKER_H
#define BRAID_TUNE_WORKER_H

#include <stddef.h>
#include <stdint.h>

enum worker_verb { WORKER_COMM, WORKER_MEASURE, WORKER_CLOSE, WORKER_KEEP, WORKER_QUIT };

struct worker_command {
    uint32_t verb;
    int32_t coll;
    uint64_t bytes;
    int32_t mode, algo, proto, channels; /* see sweep_control.h */
    int32_t repeat;                      /* collectives in a graph */
    int32_t launches;                    /* timed launches of it */
    int32_t check;                       /* also compare the result */
    char unique_id[128];
};

struct worker_reply {
    int32_t rc;   /* 0 or a negative errno */
    int32_t grid; /* channels that the kernel really had */
    int32_t nccl_algo, nccl_proto, braid_algo, braid_proto, braid_channels;
    double us; /* of one collective, median over launches */
    float table[7 * 3];
    char text[160]; /* what went wrong */
};

struct worker_setup {
    int rank, ranks, gpu;
    uint64_t max_bytes;
    const char *nccl_path; /* "" = libnccl.so.2 */
    /* the sweep plugin; "" = whatever the environment says, and no control */
    const char *plugin_path;
};

struct worker;

/* Returns 0 or a negative errno with `why` filled. */
int worker_open(const struct worker_setup *setup, struct worker **worker_p, char *why,
                size_t why_bytes);
void worker_run(struct worker *worker, const struct worker_command *command,
                struct worker_reply *reply);
/* On rank 0 only, before WORKER_COMM. */
int worker_unique_id(struct worker *worker, char *id);
/* "2.28.9" and the GPU's name. */
void worker_describe(struct worker *worker, char *nccl, size_t nccl_bytes, char *gpu,
                     size_t gpu_bytes);
void worker_close(struct worker *worker);

/* GPUs of this host; -1 without a driver. Creates no context. */
int worker_gpu_count(void);

#endif
