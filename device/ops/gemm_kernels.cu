/*
 * The kernels beside cuBLASLt: a copy by SMs (settings.num_sm), the sum at the end of a serial reduce-scatter, and flags by one thread
 * (settings.signal 3). Loaded as an image by gemm.c. Addresses and lengths are multiples of 16 bytes, except that the last vector of a copy may be short.
 */
#include <stdint.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device/ops/gemm_flags.h"

#define UNROLL 4

/* dst and src do not overlap. */
extern "C" __global__ void __launch_bounds__(512)
    braid_gemm_copy(uint4 *__restrict__ dst, const uint4 *__restrict__ src, uint64_t bytes)
{
    uint64_t vectors = bytes / 16, stride = (uint64_t)gridDim.x * blockDim.x;
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const uint8_t *from = (const uint8_t *)src;
    uint8_t *to = (uint8_t *)dst;

    for (; i + (UNROLL - 1) * stride < vectors; i += UNROLL * stride) {
        uint4 v[UNROLL];

#pragma unroll
        for (int k = 0; k < UNROLL; k++)
            v[k] = src[i + k * stride];
#pragma unroll
        for (int k = 0; k < UNROLL; k++)
            dst[i + k * stride] = v[k];
    }
    for (; i < vectors; i += stride)
        dst[i] = src[i];
    if (blockIdx.x == 0 && threadIdx.x < bytes % 16)
        to[vectors * 16 + threadIdx.x] = from[vectors * 16 + threadIdx.x];
}

static __device__ __forceinline__ float2 pair_to_float(uint32_t pair, int half)
{
    if (half) {
        __half2 v = *reinterpret_cast<__half2 *>(&pair);

        return __half22float2(v);
    }
    __nv_bfloat162 v = *reinterpret_cast<__nv_bfloat162 *>(&pair);

    return __bfloat1622float2(v);
}

static __device__ __forceinline__ uint32_t pair_from_float(float2 f, int half)
{
    uint32_t pair;

    if (half) {
        __half2 v = __float22half2_rn(f);

        pair = *reinterpret_cast<uint32_t *>(&v);
    } else {
        __nv_bfloat162 v = __float22bfloat162_rn(f);

        pair = *reinterpret_cast<uint32_t *>(&v);
    }
    return pair;
}

static __device__ __forceinline__ void add_vector(float2 sum[4], uint4 v, int half)
{
    const uint32_t pairs[4] = {v.x, v.y, v.z, v.w};

#pragma unroll
    for (int j = 0; j < 4; j++) {
        float2 f = pair_to_float(pairs[j], half);

        sum[j].x += f.x;
        sum[j].y += f.y;
    }
}

/*
 * dst[i] = src[i] + sum over the ranks p != rank, ascending, of slots[p * stride + i]; float sums, rounded once. `elements` is even;
 * what is beyond the last whole vector of 8 is done by single pairs. dst may be src.
 */
extern "C" __global__ void __launch_bounds__(256)
    braid_gemm_add(uint4 *dst, const uint4 *src, const uint8_t *slots, uint64_t stride,
                   uint64_t elements, int rank, int ranks, int half)
{
    uint64_t vectors = elements / 8, step = (uint64_t)gridDim.x * blockDim.x;
    uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

    for (uint64_t i = first; i < vectors; i += step) {
        float2 sum[4] = {};
        uint4 v;

        add_vector(sum, src[i], half);
        for (int p = 0; p < ranks; p++)
            if (p != rank)
                add_vector(sum, *(const uint4 *)(slots + p * stride + i * 16), half);
        v.x = pair_from_float(sum[0], half);
        v.y = pair_from_float(sum[1], half);
        v.z = pair_from_float(sum[2], half);
        v.w = pair_from_float(sum[3], half);
        dst[i] = v;
    }
    for (uint64_t i = vectors * 4 + first; i < elements / 2; i += step) {
        float2 sum = pair_to_float(((const uint32_t *)src)[i], half);

        for (int p = 0; p < ranks; p++)
            if (p != rank) {
                float2 f = pair_to_float(*(const uint32_t *)(slots + p * stride + i * 4), half);

                sum.x += f.x;
                sum.y += f.y;
            }
        ((uint32_t *)dst)[i] = pair_from_float(sum, half);
    }
}

/*
 * One thread; few registers and no shared memory, so that it fits beside what leaves some of an SM. A product that needs all of one
 * waits for it: device/ops/README.md says what that cost.
 */
extern "C" __global__ void __launch_bounds__(32)
    braid_gemm_flags(const __grid_constant__ struct braid_gemm_flag_list list)
{
    for (uint32_t i = 0; i < list.count; i++) {
        uint64_t word = list.step[i].word;
        uint32_t value = list.step[i].value, seen;

        if (list.step[i].kind == BRAID_GEMM_F_WAIT)
            do
                asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                             : "=r"(seen)
                             : "l"(word)
                             : "memory");
            while (seen != value);
        else if (list.step[i].kind == BRAID_GEMM_F_POST) {
            asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(list.go)
                         : "memory");
            asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(seen & value)
                         : "memory");
        } else
            asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
    }
}
