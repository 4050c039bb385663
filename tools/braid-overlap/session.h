/*
 * What a rank of braid-overlap holds for its whole life: GPU, communicators, streams, options. And CUDA checks.
 * Threading: one thread a rank. Called by: main.c, bench.c, check.c.
 */
#ifndef BRAID_OVERLAP_SESSION_H
#define BRAID_OVERLAP_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <cuda_runtime_api.h>

#include <braid/braid.h>
#include <braid/gemm_ops.h>

#include "tools/braid-overlap/gpu.h"
#include "tools/braid-overlap/nccl.h"
#include "tools/braid-overlap/ranks.h"
#include "tools/braid-overlap/shapes.h"

#define SHAPES_MAX 64
#define ALSO_MAX   12

struct options {
    struct shape shapes[SHAPES_MAX];
    int shape_count;
    struct braid_gemm_settings also[ALSO_MAX]; /* measured beside the default choice */
    int also_count;
    int ranks, dtype;
    int rounds;       /* measured rounds of the final comparison */
    int repeats;      /* operations in one graph */
    bool tune;        /* search settings; else the default choice only */
    bool resume;      /* no search for shapes that the profile has */
    bool check;       /* correctness instead of speed */
    bool quiet;       /* no progress */
    const char *json; /* file for rows, NULL none */
    const char *profile;
    const char *commit; /* for the rows */
    uint64_t check_timeout_ns;
};

struct session {
    const struct options *options;
    struct ranks_self *self;
    int rank, ranks;
    struct braid_comm *comm;
    struct nccl nccl;
    void *nccl_comm;
    int nccl_version;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    uint32_t *gate; /* pinned */
    const uint32_t *gpu_gate;
    uint32_t gate_value;
    struct gpu_stamp *stamp, *gpu_stamp; /* pinned: before and after a replay */
    void *token;                         /* device, 16 bytes, for a NCCL rendezvous */
    struct cudaDeviceProp gpu;
    FILE *json;
};

/* Opens everything; 0 or a negative errno (explained on stderr). */
int session_open(struct session *s, const struct options *options, struct ranks_self *self);
void session_close(struct session *s);

/* 0, or says what failed and returns -EIO. */
int cuda_check(int error, const char *what);

/* "ag_gemm", "gemm_rs", "gemm_ar" */
const char *op_name(int op);

/* Settings as short text, ring_exchange/4/taper; what is not said is the default. Parse returns 0 or -EINVAL. */
void setting_name(const struct braid_gemm_settings *set, char *text, size_t bytes);
int setting_parse(const char *text, struct braid_gemm_settings *set);
const char *dtype_name(int dtype);

/* Progress on stderr, rank 0, unless quiet: a bar and `text`. done == total ends the line. */
void progress(const struct session *s, int done, int total, const char *text);

#endif
