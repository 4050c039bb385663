/* Fences and the wait for bulk copies as PTX, one function an instruction. */
#ifndef BRAID_DEVICE_PTX_ORDER_CUH
#define BRAID_DEVICE_PTX_ORDER_CUH

#include "../config.cuh"

/* All earlier accesses of this thread, and those it has observed, before all later ones, for every GPU and the host. */
BRAID_FN void braid_ptx_fence_sys(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/*
 * Between an acquire by this thread and its own TMA or bulk copy that reads the acquired data from global memory: the copy engine
 * of the SM is another proxy, which ordinary acquires do not cover. Needs sm_90; nothing below that has such a proxy.
 */
BRAID_FN void braid_ptx_fence_proxy_async_global(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}

/*
 * Waits until every bulk store that this thread committed has been WRITTEN, not only read from shared memory: with `.read` a flag
 * that is stored afterwards could overtake the data.
 */
BRAID_FN void braid_ptx_bulk_wait_written(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

#endif
