/*
 * What the threads of one CTA, or two kernels of one stream, tell each other, as PTX: words in shared memory with acquire and
 * release, programmatic dependent launch, and relaxed atomic counters of this GPU. See also thread.cuh.
 */
#ifndef BRAID_DEVICE_PTX_LOCAL_CUH
#define BRAID_DEVICE_PTX_LOCAL_CUH

#include "../config.cuh"

/* A word in shared memory (32-bit shared address) that one warp stores and others poll. */
BRAID_FN uint32_t braid_ptx_load_acquire_cta_shared(uint32_t word)
{
    uint32_t v;

    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(word) : "memory");
    return v;
}

BRAID_FN void braid_ptx_store_release_cta_shared(uint32_t word, uint32_t v)
{
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(word), "r"(v) : "memory");
}

/* Waits until the kernel before this one in the stream is complete and its writes are visible, when this kernel was launched with
 * programmatic stream serialisation; otherwise returns at once. */
BRAID_FN void braid_ptx_wait_previous_kernel(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Allows the next kernel of the stream to be placed on the GPU, if it was launched so. It still has to wait for this one. */
BRAID_FN void braid_ptx_allow_next_kernel(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Adds one to a counter that runs from 0 to `limit` and then starts at 0 again; returns what it was. No ordering. */
BRAID_FN uint32_t braid_ptx_count_gpu_u32(void *p, uint32_t limit)
{
    uint32_t old;

    asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(p), "r"(limit)
                 : "memory");
    return old;
}

/* Gives the thread's issue slots to others for about `ns` nanoseconds, at most twice as long. */
BRAID_FN void braid_ptx_sleep_ns(uint32_t ns)
{
    asm volatile("nanosleep.u32 %0;" ::"r"(ns));
}

/* Nonzero in all 32 lanes if `v` is nonzero in all. Orders no memory. */
BRAID_FN int braid_ptx_all_in_warp(int v)
{
    return __all_sync(0xffffffffu, v);
}

/* The smallest `v` of the 32 lanes, in all of them. Orders no memory. */
BRAID_FN int braid_ptx_min_in_warp(int v)
{
    return __reduce_min_sync(0xffffffffu, v);
}

/* A bit for each lane with nonzero `v`, and lane `lane`'s `v`. Order no memory. */
BRAID_FN uint32_t braid_ptx_vote_warp(int v)
{
    return __ballot_sync(0xffffffffu, v);
}

BRAID_FN uint32_t braid_ptx_from_lane(uint32_t v, uint32_t lane)
{
    return __shfl_sync(0xffffffffu, v, (int)lane);
}

/* Barrier `barrier` (1 to 15) among `threads` threads of the CTA, a multiple of 32; orders memory among them. */
BRAID_FN void braid_ptx_sync_some(uint32_t barrier, uint32_t threads)
{
    asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* 16 bytes that are read and written whole: one 128-bit element, not a vector of smaller ones. */
BRAID_FN struct braid_vec16 braid_ptx_load_whole16(const void *p)
{
    struct braid_vec16 v;

    asm volatile(
        "{\n .reg .b128 t;\n ld.relaxed.sys.global.b128 t, [%2];\n mov.b128 {%0, %1}, t;\n}"
        : "=l"(v.lo), "=l"(v.hi)
        : "l"(p)
        : "memory");
    return v;
}

BRAID_FN void braid_ptx_store_whole16(void *p, struct braid_vec16 v)
{
    asm volatile(
        "{\n .reg .b128 t;\n mov.b128 t, {%1, %2};\n st.relaxed.sys.global.b128 [%0], t;\n}" ::"l"(
            p),
        "l"(v.lo), "l"(v.hi)
        : "memory");
}

/* The same and a plain 16-byte load, only if `wanted`; otherwise *v stays as it is. No branch, so several can be in flight. */
BRAID_FN void braid_ptx_load_whole16_if(struct braid_vec16 *v, const void *p, int wanted)
{
    asm volatile("{\n .reg .b128 t;\n .reg .pred q;\n setp.ne.s32 q, %3, 0;\n"
                 " @q ld.relaxed.sys.global.b128 t, [%2];\n @q mov.b128 {%0, %1}, t;\n}"
                 : "+l"(v->lo), "+l"(v->hi)
                 : "l"(p), "r"(wanted)
                 : "memory");
}

BRAID_FN void braid_ptx_load16_if(struct braid_vec16 *v, const void *p, int wanted)
{
    asm volatile("{\n .reg .pred q;\n setp.ne.s32 q, %3, 0;\n"
                 " @q ld.global.L1::no_allocate.v2.u64 {%0, %1}, [%2];\n}"
                 : "+l"(v->lo), "+l"(v->hi)
                 : "l"(p), "r"(wanted)
                 : "memory");
}

BRAID_FN void braid_ptx_store_whole16_if(void *p, struct braid_vec16 v, int wanted)
{
    asm volatile(
        "{\n .reg .b128 t;\n .reg .pred q;\n setp.ne.s32 q, %3, 0;\n mov.b128 t, {%1, %2};\n"
        " @q st.relaxed.sys.global.b128 [%0], t;\n}" ::"l"(p),
        "l"(v.lo), "l"(v.hi), "r"(wanted)
        : "memory");
}

#endif
