/*
 * What the GPU tests of the device library share. A case is a function that every rank runs in a process (or thread) of its own
 * with a communicator and a window ready; main.cu forks the ranks, bounds them and collects what they found. Device code reports
 * its first wrong value in struct verdict. After a failure a case may go on or return; other cases run in any event.
 */
#ifndef BRAID_TESTS_GPU_DEVICE_HARNESS_H
#define BRAID_TESTS_GPU_DEVICE_HARNESS_H

#include <cuda_runtime.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <braid/braid.h>
#include <braid/device.cuh>

#include "tests/gpu/device/boot.h"

#define WINDOW_BYTES (8u << 20)
#define POISON       0xa5

/* The first wrong value that a kernel of this rank saw. Device memory. */
struct verdict {
    uint32_t bad;   /* number of wrong values */
    uint32_t where; /* line of the check */
    uint32_t round;
    uint32_t index;
    uint64_t expected, seen;
};

/* Shared memory between the runner and a rank. */
struct report {
    int done;
    int failed;       /* number of failed expectations */
    char first[400];  /* the first of them */
    double value[16]; /* what the case measured */
    char name[16][40];
    double peer[16]; /* its bare counterpart, 0 = none */
    double low[16], high[16];
    int runs[16];
    int values;
};

struct rank {
    int rank, ranks, gpu, gpus;
    struct boot boot;
    struct report *report;
    struct braid_comm *comm;
    struct braid_window *window;
    const struct braid_devcomm *c;
    const struct braid_devwin *w;
    cudaStream_t stream;
    struct verdict *verdict;
    uint8_t *src, *dst; /* WINDOW_BYTES of plain device memory each */
    const char *option; /* of the case */
};

/* One row of the table of cases. */
struct test_case {
    const char *name;
    void (*run)(struct rank *r);
    int ranks;
    int bound_s;         /* the runner ends it after that */
    uint64_t timeout_ms; /* of device waits */
    uint32_t first_epoch;
    const char *option;
    unsigned flags;
};
#define CASE_THREADS  1u /* ranks are threads of one process */
#define CASE_NO_SETUP 2u /* the case makes its own communicator */
#define CASE_TWO_GPUS 4u /* only with two GPUs */
#define CASE_LATENCY  8u
#define CASE_SMALL    32u /* short, for compute-sanitizer: only when named */
#define CASE_DEATH    16u /* a rank is killed: in a run of its own, because MPS may not survive it */

/* Records a failed expectation; returns 0 so that it can end an expression. */
int fail(struct rank *r, const char *file, int line, const char *format, ...);

#define EXPECT(r, condition, ...)                                                                  \
    ((condition) ? 1 : fail((r), __FILE__, __LINE__, "(" #condition ") " __VA_ARGS__))
/* For CUDA calls. */
#define CUDA(r, call)                                                                              \
    do {                                                                                           \
        cudaError_t e_ = (call);                                                                   \
        if (e_ != cudaSuccess)                                                                     \
            fail((r), __FILE__, __LINE__, "%s: %s", #call, cudaGetErrorString(e_));                \
    } while (0)

/* Waits for the rank's stream at most `seconds`; then checks the communicator's health (when `healthy`) and the verdict. */
int settle(struct rank *r, double seconds, int healthy);
/* Poisons the own part of the window and meets the others. */
void poison(struct rank *r);
void setup(struct rank *r, uint64_t timeout_ms, uint32_t first_epoch);
void measured(struct rank *r, const char *name, double value, double low, double high, double peer,
              int runs);
double now_s(void);

extern const struct test_case data_cases[], sync_cases[], tile_cases[], graph_cases[], fail_cases[],
    host_cases[], piece_cases[], latency_cases[]; /* each ends with a NULL name */

#ifdef __CUDACC__
/* Value of byte i of what `rank` sends in `round`. */
static __host__ __device__ __forceinline__ uint8_t pattern(uint32_t rank, uint32_t round,
                                                           uint32_t i)
{
    return (uint8_t)(rank * 31 + round * 7 + i * 3 + (i >> 8) * 5);
}

static __host__ __device__ __forceinline__ uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ x >> 16;
}

/* Up to about 8 us of doing nothing, different on every rank and in every round. */
static __device__ __forceinline__ void skew(uint32_t rank, uint32_t round)
{
    long long end = clock64() + (mix(rank * 7919 + round + 1) & 16383);

    while (clock64() < end)
        ;
}

static __device__ __forceinline__ void wrong(struct verdict *v, uint32_t line, uint32_t round,
                                             uint32_t index, uint64_t expected, uint64_t seen)
{
    if (atomicAdd(&v->bad, 1u) == 0) {
        v->where = line;
        v->round = round;
        v->index = index;
        v->expected = expected;
        v->seen = seen;
    }
}

/* A device expectation. */
#define SEE(v, round, index, expected, seen)                                                       \
    do {                                                                                           \
        uint64_t e_ = (uint64_t)(expected), s_ = (uint64_t)(seen);                                 \
        if (e_ != s_)                                                                              \
            wrong((v), __LINE__, (round), (index), e_, s_);                                        \
    } while (0)
#endif

#endif
