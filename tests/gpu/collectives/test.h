/*
 * What the files of the collectives' GPU test share; see main.cu for what it is. Threading: a thread a rank; struct rank is that
 * thread's own, the globals are set before the threads start or counted atomically.
 */
#ifndef BRAID_TESTS_GPU_COLLECTIVES_TEST_H
#define BRAID_TESTS_GPU_COLLECTIVES_TEST_H

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <braid/braid.h>

#define MAX_TEST_RANKS 8
#define BUFFER_BYTES   (96u << 20)
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        cudaError_t e_ = (x);                                                                      \
        if (e_ != cudaSuccess) {                                                                   \
            printf("FATAL rank %d line %d: %s\n", r->rank, __LINE__, cudaGetErrorString(e_));      \
            fflush(stdout);                                                                        \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

/* What the check kernels find; device memory, one a rank. */
struct findings {
    unsigned long long wrong;  /* elements outside the bound, or bytes that differ */
    unsigned long long first;  /* index of one of them */
    unsigned long long digest; /* of all results, order-independent a case, to compare ranks */
    unsigned int worst;        /* error over bound, in 1/1000 */
    unsigned int iteration;    /* counted by graphs */
};

struct rank {
    int rank, gpu;
    struct braid_comm *comm;
    struct braid_ops *ops;
    struct braid_window *window;
    char *win; /* the window's memory, BUFFER_BYTES */
    char *in;  /* plain memory */
    char *out; /* plain memory */
    struct findings *found;
    cudaStream_t stream;
    unsigned seed;
};

extern int ranks, gpus;
extern int failures, cases;
extern pthread_mutex_t print_lock;
extern pthread_barrier_t barrier;
extern const char *const number_names[], *const method_names[];
extern const int number_bytes[];

__host__ __device__ static inline uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

/* values.cu. Kernels take the iteration from memory, so that graphs can change their input. */
__global__ void fill_numbers(char *p, uint64_t count, int number, int rank,
                             const struct findings *f, uint32_t it);
__global__ void fill_bytes(char *p, uint64_t bytes, int rank, uint64_t from,
                           const struct findings *f, uint32_t it);
__global__ void check_sum(const char *out, uint64_t count, uint64_t base, int number, int ranks,
                          double scale, struct findings *f, uint32_t it);
__global__ void check_bytes(const char *out, uint64_t bytes, int rank, uint64_t from,
                            struct findings *f, uint32_t it);
__global__ void check_value(const unsigned char *p, uint64_t bytes, int value, struct findings *f);
__global__ void delay_kernel(unsigned us);
__global__ void count_kernel(struct findings *f);
__global__ void hold_kernel(volatile int *held, volatile const int *let_go);

/* main.cu */
double now_s(void);
unsigned chance(struct rank *r, unsigned n); /* below n */
void skew(struct rank *r);                   /* sometimes delays the stream */
void fail(struct rank *r, const char *format, ...);

/* Ends a case: synchronises, reads what was found, compares digests between ranks. Nonzero: the communicator is broken. */
int settle(struct rank *r, const char *text, int rc, int same_bits);

/* Nonzero on all ranks when `mine` is on any. */
int anyone_broken(int mine);
void open_comm(struct rank *r, uint64_t bound_ns, size_t window_bytes);
void close_comm(struct rank *r);

/* The stages. `until` (now_s) bounds the time; nonzero: given up. */
int stage_sums(struct rank *r, double until);
int stage_copies(struct rank *r, double until);
int stage_graph(struct rank *r, double until);
int stage_engine(struct rank *r, double until);
int stage_fail(struct rank *r, double until);
int stage_late(struct rank *r, double until);

#endif
