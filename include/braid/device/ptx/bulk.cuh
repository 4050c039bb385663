/*
 * Bulk copies (the SM's copy engine, TMA) and the shared-memory barriers that they complete on, as PTX, one function an instruction.
 * sm_90 and newer; below that these functions must not be called (they trap). Shared addresses are 32-bit numbers from
 * braid_ptx_shared. All sizes are bytes and multiples of 16; all addresses are 16-byte aligned.
 */
#ifndef BRAID_DEVICE_PTX_BULK_CUH
#define BRAID_DEVICE_PTX_BULK_CUH

#include "../config.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define BRAID_PTX_BULK(...) asm volatile("trap;")
#else
#define BRAID_PTX_BULK(...) asm volatile(__VA_ARGS__)
#endif

BRAID_FN uint32_t braid_ptx_shared(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* A barrier for `arrivals` arrivals a phase. Before another thread or the copy engine uses it: braid_ptx_mbarrier_init_fence and a
 * barrier of the threads. */
BRAID_FN void braid_ptx_mbarrier_init(uint32_t barrier, uint32_t arrivals)
{
    BRAID_PTX_BULK("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                   : "memory");
}

BRAID_FN void braid_ptx_mbarrier_init_fence(void)
{
    BRAID_PTX_BULK("fence.proxy.async.shared::cta;" ::: "memory");
}

/* This thread arrives and announces `bytes` that bulk loads will complete in this phase. */
BRAID_FN void braid_ptx_mbarrier_expect(uint32_t barrier, uint32_t bytes)
{
    BRAID_PTX_BULK("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                   "r"(bytes)
                   : "memory");
}

/* Nonzero when the phase with this parity is complete; suspends the thread for a time that the hardware chooses. */
BRAID_FN uint32_t braid_ptx_mbarrier_try(uint32_t barrier, uint32_t parity)
{
    uint32_t done = 0;

    BRAID_PTX_BULK("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                   " selp.u32 %0, 1, 0, p;\n}"
                   : "+r"(done)
                   : "r"(barrier), "r"(parity)
                   : "memory");
    return done;
}

/* Global memory (this GPU's or a peer's) to shared memory; completes on `barrier`. */
BRAID_FN void braid_ptx_bulk_load(uint32_t shared, const void *global, uint32_t bytes,
                                  uint32_t barrier)
{
    BRAID_PTX_BULK("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                   "[%0], [%1], %2, [%3];" ::"r"(shared),
                   "l"(global), "r"(bytes), "r"(barrier)
                   : "memory");
}

/* Shared memory to global memory (this GPU's or a peer's); belongs to the bulk group that the thread commits next. */
BRAID_FN void braid_ptx_bulk_store(void *global, uint32_t shared, uint32_t bytes)
{
    BRAID_PTX_BULK("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                   "r"(shared), "r"(bytes)
                   : "memory");
}

BRAID_FN void braid_ptx_bulk_commit(void)
{
    BRAID_PTX_BULK("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until at most N of the thread's bulk groups have not READ their shared memory yet (it may then be overwritten). */
template <int N> BRAID_FN void braid_ptx_bulk_wait_read(void)
{
    BRAID_PTX_BULK("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/* Waits until at most N of the thread's bulk groups have not WRITTEN yet: the older ones are complete and visible to this thread,
 * so a release by it covers them. */
template <int N> BRAID_FN void braid_ptx_bulk_wait_written_but(void)
{
    BRAID_PTX_BULK("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

#undef BRAID_PTX_BULK
#endif
