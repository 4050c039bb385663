/* Inputs of the collectives' test and the checks of results, as kernels: what rank r contributes is a hash, the reference is float64. */
#include "test.h"

/* The bytes that rank `rank` contributes at byte `i` in iteration `it`; word-wise. */
__device__ static inline uint32_t raw_word(int rank, uint64_t i, uint32_t it)
{
    return mix((uint32_t)i * 2654435761u + (uint32_t)(i >> 32) + rank * 0x9e3779b9u +
               it * 0x85ebca6bu + 1);
}

/* A number in [-2, 2) before rounding to its format. */
__device__ static inline float raw_float(int rank, uint64_t i, uint32_t it)
{
    return (float)(int32_t)raw_word(rank, i, it) * (2.0f / 2147483648.0f);
}

__device__ static inline double rounded(float v, int number)
{
    switch (number) {
    case BRAID_F16: return (double)__half2float(__float2half_rn(v));
    case BRAID_BF16: return (double)__bfloat162float(__float2bfloat16_rn(v));
    case BRAID_F8E4M3: return (double)(float)__nv_fp8_e4m3(v);
    case BRAID_F8E5M2: return (double)(float)__nv_fp8_e5m2(v);
    default: return (double)v;
    }
}

__device__ static inline void store_number(char *p, uint64_t i, float v, int number)
{
    switch (number) {
    case BRAID_F16: ((__half *)p)[i] = __float2half_rn(v); break;
    case BRAID_BF16: ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn(v); break;
    case BRAID_F8E4M3: ((__nv_fp8_e4m3 *)p)[i] = __nv_fp8_e4m3(v); break;
    case BRAID_F8E5M2: ((__nv_fp8_e5m2 *)p)[i] = __nv_fp8_e5m2(v); break;
    default: ((float *)p)[i] = v;
    }
}

__device__ static inline double load_number(const char *p, uint64_t i, int number)
{
    switch (number) {
    case BRAID_F16: return (double)__half2float(((const __half *)p)[i]);
    case BRAID_BF16: return (double)__bfloat162float(((const __nv_bfloat16 *)p)[i]);
    case BRAID_F8E4M3: return (double)(float)((const __nv_fp8_e4m3 *)p)[i];
    case BRAID_F8E5M2: return (double)(float)((const __nv_fp8_e5m2 *)p)[i];
    default: return (double)((const float *)p)[i];
    }
}

__device__ static inline double unit_of(int number)
{
    const double u[] = {0x1p-24, 0x1p-11, 0x1p-8, 0x1p-4, 0x1p-3};

    return u[number];
}

/* Kernels take the iteration from memory, so that graphs can change their input. */
__global__ void fill_numbers(char *p, uint64_t count, int number, int rank,
                             const struct findings *f, uint32_t it)
{
    it += f->iteration;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * blockDim.x)
        store_number(p, i, raw_float(rank, i, it), number);
}

__global__ void fill_bytes(char *p, uint64_t bytes, int rank, uint64_t from,
                           const struct findings *f, uint32_t it)
{
    it += f->iteration;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < bytes;
         i += (uint64_t)gridDim.x * blockDim.x)
        p[i] = (char)raw_word(rank, from + i, it);
}

__device__ static void report(struct findings *f, uint64_t i)
{
    if (atomicAdd(&f->wrong, 1ull) == 0)
        f->first = i;
}

/* out[i] is scale * the sum over ranks of element base + i. */
__global__ void check_sum(const char *out, uint64_t count, uint64_t base, int number, int ranks,
                          double scale, struct findings *f, uint32_t it)
{
    unsigned long long digest = 0;

    it += f->iteration;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * blockDim.x) {
        double sum = 0, size = 0, got = load_number(out, i, number), bound;

        for (int r = 0; r < ranks; r++) {
            double v = rounded(raw_float(r, base + i, it), number);

            sum += v;
            size += fabs(v);
        }
        sum *= scale;
        size *= fabs(scale);
        bound = size * ((ranks + 1) * 0x1p-24) + fabs(sum) * unit_of(number) +
                0x1p-17 * (number >= BRAID_F8E4M3 ? 128
                           : number == BRAID_F16  ? 0.004
                                                  : 0);
        if (!(fabs(got - sum) <= bound + 1e-30))
            report(f, i);
        else if (bound > 0)
            atomicMax(&f->worst, (unsigned)(1000 * fabs(got - sum) / (bound + 1e-30)));
        digest += (unsigned long long)__double_as_longlong(got) * (2 * (base + i) + 1);
    }
    atomicAdd(&f->digest, digest);
}

__global__ void check_bytes(const char *out, uint64_t bytes, int rank, uint64_t from,
                            struct findings *f, uint32_t it)
{
    it += f->iteration;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < bytes;
         i += (uint64_t)gridDim.x * blockDim.x) {
        if (out[i] != (char)raw_word(rank, from + i, it))
            report(f, i);
    }
}

__global__ void check_value(const unsigned char *p, uint64_t bytes, int value, struct findings *f)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < bytes;
         i += (uint64_t)gridDim.x * blockDim.x) {
        if (p[i] != value)
            report(f, i);
    }
}

__global__ void delay_kernel(unsigned us)
{
    uint64_t begin, now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < us * 1000ull);
}

__global__ void count_kernel(struct findings *f)
{
    f->iteration++;
}

/* Holds an SM until the host says so. */
__global__ void hold_kernel(volatile int *held, volatile const int *let_go)
{
    uint64_t begin, now;

    if (threadIdx.x == 0)
        atomicAdd((int *)held, 1);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (*let_go == 0 && now - begin < 8000000000ull);
}
