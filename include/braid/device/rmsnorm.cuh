/*
 * Epilogue of a reduction over rows: residual add and RMSNorm, by one CTA a row, on values that are still float32 in registers.
 *     h = sum + residual          (rounded once to NUMBER, stored as the new residual by the caller)
 *     y = h / sqrt(mean(h^2) + epsilon) * weight
 * h is rounded before it is squared, so that y is the norm of the stored residual, as separate kernels would compute it.
 * Registers and 32 words of shared memory; no global memory but the vectors that the caller passes, no waiting for peers.
 */
#ifndef BRAID_DEVICE_RMSNORM_CUH
#define BRAID_DEVICE_RMSNORM_CUH

#include "number.cuh"

/* Adds 16 bytes of residual to sum[0 .. lanes), rounds to NUMBER, leaves the rounded numbers in `sum`; returns them packed. */
template <int NUMBER>
BRAID_FN struct braid_vec16 braid_add_residual16(float *sum, const struct braid_vec16 &residual)
{
    struct braid_vec16 h;

    braid_add16<NUMBER>(sum, residual);
    h = braid_pack16<NUMBER>(sum);
    braid_unpack16<NUMBER>(h, sum);
    return h;
}

template <int NUMBER> BRAID_FN float braid_square_sum16(const float *v)
{
    float sum = 0.0f;

    BRAID_UNROLL
    for (int i = 0; i < braid_number<NUMBER>::lanes; i++)
        sum += v[i] * v[i];
    return sum;
}

/* The sum of `v` over all threads of the CTA, the same bits in every thread. `shared` is 32 floats; two barriers of the CTA. */
BRAID_FN float braid_sum_cta(float v, float *shared)
{
    uint32_t warps = braid_ptx_threads() / BRAID_WARP_THREADS;
    uint32_t lane = braid_ptx_lane();

    BRAID_UNROLL
    for (uint32_t mask = 16; mask > 0; mask /= 2)
        v += braid_ptx_exchange_lanes(v, mask);
    if (lane == 0)
        shared[braid_ptx_thread() / BRAID_WARP_THREADS] = v;
    braid_ptx_sync_cta();
    v = lane < warps ? shared[lane] : 0.0f;
    BRAID_UNROLL
    for (uint32_t mask = 16; mask > 0; mask /= 2)
        v += braid_ptx_exchange_lanes(v, mask);
    braid_ptx_sync_cta(); /* `shared` may be used again */
    return v;
}

/* What to multiply with: 1 / sqrt(squares / count + epsilon). */
BRAID_FN float braid_rms_scale(float squares, uint32_t count, float epsilon)
{
    return braid_ptx_rsqrt(squares / (float)count + epsilon);
}

/* 16 bytes of h * scale * weight. */
template <int NUMBER>
BRAID_FN struct braid_vec16 braid_norm16(const float *h, float scale,
                                         const struct braid_vec16 &weight)
{
    float y[braid_number<NUMBER>::lanes];

    braid_unpack16<NUMBER>(weight, y);
    BRAID_UNROLL
    for (int i = 0; i < braid_number<NUMBER>::lanes; i++)
        y[i] *= h[i] * scale;
    return braid_pack16<NUMBER>(y);
}

#endif
