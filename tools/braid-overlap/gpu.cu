/* Kernels of braid-overlap, see gpu.h. */
#include "tools/braid-overlap/gpu.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <braid/device.cuh>

static __device__ __forceinline__ uint32_t mix(uint32_t seed, uint64_t index)
{
    uint64_t h = (index + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;

    h ^= h >> 31;
    h *= 0x94d049bb133111ebull;
    h ^= h >> 29;
    return (uint32_t)(h >> 16);
}

static __device__ __forceinline__ float number(uint32_t seed, uint64_t index)
{
    return (float)((int)(mix(seed, index) & 255) - 128) / 128.0f;
}

static __global__ void fill(uint16_t *dst, int64_t count, uint32_t seed, int half)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        float v = number(seed, (uint64_t)i);

        if (half)
            dst[i] = __half_as_ushort(__float2half_rn(v));
        else
            dst[i] = __bfloat16_as_ushort(__float2bfloat16_rn(v));
    }
}

static __device__ float activation(const struct gpu_reference &f, int rank, int64_t row, int64_t j)
{
    int64_t part = f.m / f.ranks;

    if (f.op == 0)
        return number(f.seed_x + (uint32_t)(row / part), (uint64_t)((row % part) * f.k + j));
    return number(f.seed_x + (uint32_t)rank, (uint64_t)(row * f.k + j));
}

static __device__ float weight(const struct gpu_reference &f, int rank, int64_t j, int64_t column)
{
    int64_t index = f.w_transposed ? column * f.k + j : j * f.n + column;

    return number(f.seed_w + (uint32_t)rank, (uint64_t)index);
}

static __global__ void compare(struct gpu_reference f, const uint16_t *y, int64_t first,
                               int64_t rows, uint32_t *out)
{
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    int from = f.op == 0 ? f.rank : 0, to = f.op == 0 ? f.rank + 1 : f.ranks;
    float expected = 0, parts = 0, all = 0, got, bound, error;

    if (column >= f.n || row >= rows)
        return;
    for (int rank = from; rank < to; rank++) {
        float sum = 0;

        for (int64_t j = 0; j < f.k; j++) {
            float p = activation(f, rank, first + row, j) * weight(f, rank, j, column);

            sum += p;
            all += fabsf(p);
        }
        expected += sum;
        parts += fabsf(sum);
    }
    got = f.half ? __half2float(__ushort_as_half(y[row * f.n + column]))
                 : __bfloat162float(__ushort_as_bfloat16(y[row * f.n + column]));
    bound = (f.op == 0 ? 1 : f.ranks) * (f.half ? 1.0f / 2048 : 1.0f / 256) * parts +
            all / 1048576 + 1e-7f;
    error = fabsf(got - expected) / bound;
    if (!(error <= 1.0f))
        atomicAdd(out + 1, 1);
    if (error == error)
        atomicMax(out, __float_as_uint(error));
}

static __global__ void hash(const uint16_t *data, int64_t count, unsigned long long *out)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    unsigned long long sum = 0;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        sum +=
            (unsigned long long)(data[i] + 1) * (2 * (unsigned long long)i + 0x9e3779b97f4a7c15ull);
    for (int o = 16; o > 0; o /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, sum);
}

static __global__ void gate(const volatile uint32_t *word, uint32_t value)
{
    uint64_t start = braid_ptx_now_ns();

    while ((int32_t)(*word - value) < 0 && braid_ptx_now_ns() - start < 1000000000ull)
        ;
}

static __global__ void stamp(struct gpu_stamp *out)
{
    uint32_t sm;

    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    out->sm = sm;
    out->cycles = (uint64_t)clock64();
    out->ns = braid_ptx_now_ns();
}

static __global__ void delay(uint64_t ns)
{
    uint64_t start = braid_ptx_now_ns();

    while (braid_ptx_now_ns() - start < ns)
        ;
}

int gpu_fill(void *dst, int64_t count, uint32_t seed, int half, struct CUstream_st *stream)
{
    fill<<<1024, 256, 0, stream>>>((uint16_t *)dst, count, seed, half);
    return (int)cudaGetLastError();
}

int gpu_compare(const struct gpu_reference *reference, const void *y, int64_t first, int64_t rows,
                uint32_t *out, struct CUstream_st *stream)
{
    dim3 grid((unsigned)((reference->n + 127) / 128), (unsigned)rows);

    compare<<<grid, 128, 0, stream>>>(*reference, (const uint16_t *)y, first, rows, out);
    return (int)cudaGetLastError();
}

int gpu_hash(const void *data, int64_t elements, uint64_t *out, struct CUstream_st *stream)
{
    hash<<<264, 256, 0, stream>>>((const uint16_t *)data, elements, (unsigned long long *)out);
    return (int)cudaGetLastError();
}

int gpu_gate(const uint32_t *word, uint32_t value, struct CUstream_st *stream)
{
    gate<<<1, 1, 0, stream>>>(word, value);
    return (int)cudaGetLastError();
}

int gpu_take_stamp(struct gpu_stamp *out, struct CUstream_st *stream)
{
    stamp<<<1, 1, 0, stream>>>(out);
    return (int)cudaGetLastError();
}

int gpu_delay(uint64_t ns, struct CUstream_st *stream)
{
    delay<<<1, 1, 0, stream>>>(ns);
    return (int)cudaGetLastError();
}
