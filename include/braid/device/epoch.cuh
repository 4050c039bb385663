/*
 * Epoch slots: which operation is this? A counter in device memory that every CTA of a kernel reads and the last CTA advances, so
 * that flags, parities and packet flags need no kernel argument and a captured graph can be replayed. The grid may differ from
 * launch to launch. One slot (0 <= slot < c->slot_count), one stream at a time; slots are the user's to hand out.
 * Kernels of one slot must not overlap: with programmatic dependent launch, begin only after cudaGridDependencySynchronize.
 */
#ifndef BRAID_DEVICE_EPOCH_CUH
#define BRAID_DEVICE_EPOCH_CUH

#include "window.cuh"
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#include "ptx/local.cuh"
#endif

/* The epoch of this operation: 1 in the first one, then 2, ...; wraps through 0. Any thread, any number of times before the end. */
BRAID_FN uint32_t braid_epoch_begin(const struct braid_devcomm *c, uint32_t slot)
{
    const struct braid_devslot *s = (const struct braid_devslot *)c->slots + slot;

    if (braid_bad_index(c, BRAID_WAIT_USER, slot, c->slot_count))
        return 0;
    return braid_ptx_load_relaxed_gpu_u32(&s->epoch);
}

/*
 * One of `parties` is done with the slot for this operation; the last one advances it. The calling thread must be ordered after
 * every braid_epoch_begin of its party (a barrier of the group, if others called it).
 */
BRAID_FN void braid_epoch_end_thread(const struct braid_devcomm *c, uint32_t slot, uint32_t parties)
{
    struct braid_devslot *s = (struct braid_devslot *)c->slots + slot;
    uint32_t epoch;

    if (braid_bad_index(c, BRAID_WAIT_USER, slot, c->slot_count))
        return;
    if (braid_ptx_fetch_add_acq_rel_gpu_u32(&s->arrived, 1) != parties - 1)
        return;
    epoch = braid_ptx_load_relaxed_gpu_u32(&s->epoch);
    braid_ptx_store_relaxed_gpu_u32(&s->arrived, 0);
    braid_ptx_store_relaxed_gpu_u32(&s->epoch, epoch + 1);
}

/* The same for a whole grid: every CTA calls it once, all its threads; begins with the CTA's barrier. */
BRAID_FN void braid_epoch_end_cta(const struct braid_devcomm *c, uint32_t slot)
{
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0)
        braid_epoch_end_thread(c, slot, braid_ptx_blocks());
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
/*
 * The end in two steps, for kernels whose time matters: nothing waits for the atomic. First, early: one thread of each CTA counts the
 * CTA as one that has read the epoch, after a barrier of the CTA that follows every braid_epoch_begin. Then, at any later time, the
 * same thread hands over what it got and the epoch, and the CTA that was counted last advances the slot. A launch uses either this
 * or braid_epoch_end, in all its CTAs. No ordering: what the operation wrote is ordered by the end of the kernel.
 */
BRAID_FN uint32_t braid_epoch_count_thread(const struct braid_devcomm *c, uint32_t slot)
{
    struct braid_devslot *s = (struct braid_devslot *)c->slots + slot;
    uint32_t last = braid_ptx_blocks() - 1;

    return last == 0 ? 0 : braid_ptx_count_gpu_u32(&s->arrived, last);
}

BRAID_FN void braid_epoch_advance_thread(const struct braid_devcomm *c, uint32_t slot,
                                         uint32_t epoch, uint32_t counted)
{
    struct braid_devslot *s = (struct braid_devslot *)c->slots + slot;

    if (counted == braid_ptx_blocks() - 1)
        braid_ptx_store_relaxed_gpu_u32(&s->epoch, epoch + 1);
}
#endif

#endif
