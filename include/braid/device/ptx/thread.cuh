/* Who and when: thread and block numbers, the clock, and the barriers inside a warp and a CTA. Blocks are one-dimensional. */
#ifndef BRAID_DEVICE_PTX_THREAD_CUH
#define BRAID_DEVICE_PTX_THREAD_CUH

#include "../config.cuh"

BRAID_FN uint32_t braid_ptx_thread(void)
{
    return threadIdx.x;
}

BRAID_FN uint32_t braid_ptx_threads(void)
{
    return blockDim.x;
}

BRAID_FN uint32_t braid_ptx_block(void)
{
    return blockIdx.x;
}

BRAID_FN uint32_t braid_ptx_blocks(void)
{
    return gridDim.x * gridDim.y * gridDim.z;
}

BRAID_FN uint32_t braid_ptx_lane(void)
{
    uint32_t lane;

    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

/* Nanoseconds of a clock that all SMs of this GPU share and that runs on while a context is switched out. Coarse: about 1 us. */
BRAID_FN uint64_t braid_ptx_now_ns(void)
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

/* All 32 lanes; orders memory among them. */
BRAID_FN void braid_ptx_sync_warp(void)
{
    __syncwarp();
}

/* Nonzero in all 32 lanes if `v` is nonzero in any. */
BRAID_FN int braid_ptx_any_in_warp(int v)
{
    return __any_sync(0xffffffffu, v);
}

/*
 * Nonzero in all lanes that run this together if `v` is nonzero in any of them. Lanes of a warp that are elsewhere take no part, so it
 * says nothing about them; the compiler knows that these lanes go the same way afterwards.
 */
BRAID_FN int braid_ptx_any_active(int v)
{
    uint32_t any;

    asm volatile("{\n .reg .pred p, q;\n .reg .u32 m;\n activemask.b32 m;\n setp.ne.s32 p, %1, 0;\n"
                 " vote.sync.any.pred q, p, m;\n selp.u32 %0, 1, 0, q;\n}"
                 : "=r"(any)
                 : "r"(v)
                 : "memory");
    return (int)any;
}

/* All threads of the CTA; orders memory among them. */
BRAID_FN void braid_ptx_sync_cta(void)
{
    __syncthreads();
}

/* The same, and nonzero in all threads if `v` is nonzero in any. */
BRAID_FN int braid_ptx_sync_cta_any(int v)
{
    return __syncthreads_or(v);
}

#endif
