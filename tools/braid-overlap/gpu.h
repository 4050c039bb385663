/*
 * The GPU side of braid-overlap: numbers made from a seed, a gate that starts queued work at once, a delay, and float32 references.
 * Every function enqueues on `stream` and returns a cudaError_t as int. Threading: any. Called by: bench.c, check.c.
 */
#ifndef BRAID_OVERLAP_GPU_H
#define BRAID_OVERLAP_GPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Where and when a kernel ran: two of them give the mean clock of an SM in between. */
struct gpu_stamp {
    uint64_t cycles, ns;
    uint32_t sm, reserved;
};

/* What is computed, for the reference; see gpu_compare. */
struct gpu_reference {
    int op;   /* enum braid_gemm_op */
    int half; /* fp16 instead of bf16 */
    int ranks, rank;
    int64_t m, n, k;
    /* rank r's activations have seed_x + r; with AG row i of all is row i % (m / ranks) of rank i / (m / ranks) */
    uint32_t seed_x;
    uint32_t seed_w; /* rank r's weights have seed_w + r */
    int w_transposed;
};

/* count numbers k / 128, -128 <= k < 128, which bf16 and fp16 hold exactly; element i is a function of seed and i. */
int gpu_fill(void *dst, int64_t count, uint32_t seed, int half, struct CUstream_st *stream);

/*
 * Compares `rows` rows of y, which begin at row `first` of the whole result, with the product in float32. out[0] becomes the largest
 * error over its bound (float bits), out[1] counts wrong or missing numbers (error above the bound, or not a number). The bound of
 * an element is ranks * u * sum_r |partial_r| + 2^-20 * sum |x w|, u = 2^-8 (bf16) or 2^-11 (fp16).
 */
int gpu_compare(const struct gpu_reference *reference, const void *y, int64_t first, int64_t rows,
                uint32_t *out, struct CUstream_st *stream);

/* Adds a hash of all bits to out[0], so that two results can be compared for equality; out is 8-byte aligned. */
int gpu_hash(const void *data, int64_t elements, uint64_t *out, struct CUstream_st *stream);

/* Waits until *gate (pinned host memory) is at least `value`, at most a second. */
int gpu_gate(const uint32_t *gate, uint32_t value, struct CUstream_st *stream);

/* Writes *out (pinned host memory). */
int gpu_take_stamp(struct gpu_stamp *out, struct CUstream_st *stream);

/* Spins for about so many nanoseconds. */
int gpu_delay(uint64_t ns, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
