/*
 * One-sided data movement without notification: put, get, put_value, flush.
 *
 * Scopes: _thread is called by one thread; _warp by all 32 lanes, _cta by all threads of the block, with equal arguments.
 * Peers are world ranks (this rank included); offsets and lengths are bytes, any alignment (16 for full speed).
 * None of these waits, so none can fail.
 */
#ifndef BRAID_DEVICE_PUT_CUH
#define BRAID_DEVICE_PUT_CUH

#include "copy.cuh"
#include "window.cuh"

/*
 * Copies `bytes` from `src` (any global memory of this GPU) to byte `offset` of the peer's window.
 * Before: the calling threads see the source data (a _warp or _cta put of data that other threads of the group have just written
 *         needs a barrier of the group first; put does not begin with one).
 * After:  the peer sees the data once it has waited for a later signal, tile or barrier of this group (the _warp and _cta forms of
 *         those begin with the barrier that collects all threads' stores). The source may be overwritten after the group's next
 *         barrier.
 * Reuse:  the destination may be written again only when the peer has said that it has read it (a credit: a signal or tile back,
 *         or a barrier); two buffers used in turn (braid_epoch_parity) let that word travel during the next operation.
 */
BRAID_FN void braid_put_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                               int peer, uint64_t offset, const void *src, uint64_t bytes)
{
    (void)c;
    braid_copy_group(braid_window_pointer(w, peer, offset), src, bytes, 0, 1);
}

BRAID_FN void braid_put_warp(const struct braid_devcomm *c, const struct braid_devwin *w, int peer,
                             uint64_t offset, const void *src, uint64_t bytes)
{
    (void)c;
    braid_copy_group(braid_window_pointer(w, peer, offset), src, bytes, braid_ptx_lane(),
                     BRAID_WARP_THREADS);
}

BRAID_FN void braid_put_cta(const struct braid_devcomm *c, const struct braid_devwin *w, int peer,
                            uint64_t offset, const void *src, uint64_t bytes)
{
    (void)c;
    braid_copy_group(braid_window_pointer(w, peer, offset), src, bytes, braid_ptx_thread(),
                     braid_ptx_threads());
}

/*
 * Copies `bytes` from byte `offset` of the peer's window to `dst` (any global memory of this GPU). Blocking: when a thread returns,
 * its part has been read.
 * Before: the peer's data is complete, and one thread of the group has waited for the word that says so, followed by a barrier of
 *         the group (every _warp and _cta wait ends with it).
 * After:  a thread sees what it has copied itself; others after a barrier of the group.
 */
BRAID_FN void braid_get_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                               int peer, uint64_t offset, void *dst, uint64_t bytes)
{
    (void)c;
    braid_copy_group(dst, braid_window_pointer(w, peer, offset), bytes, 0, 1);
}

BRAID_FN void braid_get_warp(const struct braid_devcomm *c, const struct braid_devwin *w, int peer,
                             uint64_t offset, void *dst, uint64_t bytes)
{
    (void)c;
    braid_copy_group(dst, braid_window_pointer(w, peer, offset), bytes, braid_ptx_lane(),
                     BRAID_WARP_THREADS);
}

BRAID_FN void braid_get_cta(const struct braid_devcomm *c, const struct braid_devwin *w, int peer,
                            uint64_t offset, void *dst, uint64_t bytes)
{
    (void)c;
    braid_copy_group(dst, braid_window_pointer(w, peer, offset), bytes, braid_ptx_thread(),
                     braid_ptx_threads());
}

/*
 * Stores the low `bytes` (1, 2, 4 or 8; a constant costs nothing) of `value` at byte `offset` of the peer's window, which must be
 * aligned to `bytes`. One thread. Visible to the peer as with put; the store is never torn.
 */
BRAID_FN void braid_put_value_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                     int peer, uint64_t offset, uint64_t value, uint32_t bytes)
{
    void *p = braid_window_pointer(w, peer, offset);

    (void)c;
    if (bytes == 8)
        braid_ptx_store8(p, value);
    else if (bytes == 4)
        braid_ptx_store4(p, (uint32_t)value);
    else if (bytes == 2)
        braid_ptx_store2(p, (uint16_t)value);
    else
        braid_ptx_store1(p, (uint8_t)value);
}

/*
 * After it, everything this thread (warp, CTA) has put to any peer is complete: no later access of the group, by whatever means
 * (also a relaxed store, a host flag, a stream memory operation after the kernel), can become visible before it, and sources may
 * be overwritten. Signals, tiles and barriers of this library do it themselves; flush is for words of your own.
 */
BRAID_FN void braid_flush_thread(const struct braid_devcomm *c)
{
    (void)c;
    braid_ptx_fence_sys();
}

BRAID_FN void braid_flush_warp(const struct braid_devcomm *c)
{
    (void)c;
    braid_ptx_sync_warp();
    braid_ptx_fence_sys();
    braid_ptx_sync_warp();
}

BRAID_FN void braid_flush_cta(const struct braid_devcomm *c)
{
    (void)c;
    braid_ptx_sync_cta();
    braid_ptx_fence_sys();
    braid_ptx_sync_cta();
}

#endif
