/*
 * Signals: 64-bit counters in the communicator (c->signal_count of them on every rank), which any rank may add to or set and their
 * owner waits for; and the same operations on words of the user's own windows.
 *
 * Values are cumulative and compared by signed difference, so a signal never needs a reset and survives the wrap. What a signal
 * announces must not depend on a kernel argument (a CUDA graph freezes it): either derive `expected` from an epoch slot
 * (epoch.cuh), or use braid_take_signal, which remembers in device memory how much it has consumed.
 * One thread at a time takes from a signal (braid_take_signal: one group of one kernel, or kernels of one stream one after the
 * other); any number may wait for it. Signal numbers are the user's to hand out.
 */
#ifndef BRAID_DEVICE_SIGNAL_CUH
#define BRAID_DEVICE_SIGNAL_CUH

#include "put.cuh"

/* The word of signal `signal` on `peer`, and on this rank. */
BRAID_FN uint64_t *braid_signal_pointer(const struct braid_devcomm *c, int peer, uint32_t signal)
{
    return (uint64_t *)braid_window_pointer(&c->control, peer, c->signals_offset + 8ull * signal);
}

BRAID_FN void braid_signal_word(uint64_t *word, uint32_t op, uint64_t value)
{
    if (op == BRAID_SIGNAL_ADD)
        braid_ptx_add_release_sys_u64(word, value);
    else
        braid_ptx_store_release_sys_u64(word, value);
}

/*
 * Signals `peer`: adds `value` to its signal, or sets it (op BRAID_SIGNAL_ADD or BRAID_SIGNAL_SET; only one rank may set a signal).
 * Release at system scope: everything this thread (_warp: any lane, _cta: any thread of the block) has written or put before, to
 * that peer or elsewhere, is visible to whoever sees the signal. _warp and _cta begin with the group's barrier; thread 0 signals.
 */
BRAID_FN void braid_signal_thread(const struct braid_devcomm *c, int peer, uint32_t signal,
                                  uint32_t op, uint64_t value)
{
    if (braid_bad_index(c, BRAID_WAIT_SIGNAL, signal, c->signal_count))
        return;
    braid_signal_word(braid_signal_pointer(c, peer, signal), op, value);
}

BRAID_FN void braid_signal_warp(const struct braid_devcomm *c, int peer, uint32_t signal,
                                uint32_t op, uint64_t value)
{
    braid_ptx_sync_warp();
    if (braid_ptx_lane() == 0)
        braid_signal_thread(c, peer, signal, op, value);
}

BRAID_FN void braid_signal_cta(const struct braid_devcomm *c, int peer, uint32_t signal,
                               uint32_t op, uint64_t value)
{
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0)
        braid_signal_thread(c, peer, signal, op, value);
}

/*
 * Put, then signal the same peer: braid_put_* followed by braid_signal_*, with their rules. The peer that has waited for the signal
 * sees the data.
 */
BRAID_FN void braid_put_signal_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                      int peer, uint64_t offset, const void *src, uint64_t bytes,
                                      uint32_t signal, uint32_t op, uint64_t value)
{
    braid_put_thread(c, w, peer, offset, src, bytes);
    braid_signal_thread(c, peer, signal, op, value);
}

BRAID_FN void braid_put_signal_warp(const struct braid_devcomm *c, const struct braid_devwin *w,
                                    int peer, uint64_t offset, const void *src, uint64_t bytes,
                                    uint32_t signal, uint32_t op, uint64_t value)
{
    braid_put_warp(c, w, peer, offset, src, bytes);
    braid_signal_warp(c, peer, signal, op, value);
}

BRAID_FN void braid_put_signal_cta(const struct braid_devcomm *c, const struct braid_devwin *w,
                                   int peer, uint64_t offset, const void *src, uint64_t bytes,
                                   uint32_t signal, uint32_t op, uint64_t value)
{
    braid_put_cta(c, w, peer, offset, src, bytes);
    braid_signal_cta(c, peer, signal, op, value);
}

/* The cheapest notified message: up to 8 bytes from a register (see braid_put_value_thread), then the signal. One thread. */
BRAID_FN void braid_put_value_signal_thread(const struct braid_devcomm *c,
                                            const struct braid_devwin *w, int peer, uint64_t offset,
                                            uint64_t data, uint32_t bytes, uint32_t signal,
                                            uint32_t op, uint64_t value)
{
    braid_put_value_thread(c, w, peer, offset, data, bytes);
    braid_signal_thread(c, peer, signal, op, value);
}

/* This rank's signal now, with acquire at system scope. Does not wait. */
BRAID_FN uint64_t braid_read_signal_thread(const struct braid_devcomm *c, uint32_t signal)
{
    return braid_ptx_load_acquire_sys_u64((const uint64_t *)c->signals + signal);
}

/*
 * Waits until this rank's signal has reached `expected`. Returns a status (wait.cuh). After BRAID_DEV_OK the thread (all lanes, all
 * threads of the CTA) sees what the signalling thread released. _warp and _cta: called by all with equal arguments, the (first)
 * warp polls, all return 0 or all return a failure; they end with the group's barrier.
 */
BRAID_FN int braid_wait_signal_thread(const struct braid_devcomm *c, uint32_t signal,
                                      uint64_t expected)
{
    if (braid_bad_index(c, BRAID_WAIT_SIGNAL, signal, c->signal_count))
        return BRAID_DEV_INVALID;
    return braid_wait_u64_thread(c, (const uint64_t *)c->signals + signal, expected,
                                 BRAID_WAIT_SIGNAL, -1, signal);
}

BRAID_FN int braid_wait_signal_warp(const struct braid_devcomm *c, uint32_t signal,
                                    uint64_t expected)
{
    return braid_share_status_warp(c, braid_wait_signal_thread(c, signal, expected));
}

BRAID_FN int braid_wait_signal_cta(const struct braid_devcomm *c, uint32_t signal,
                                   uint64_t expected)
{
    int status = 0;

    if (braid_ptx_any_active(braid_ptx_thread() < BRAID_WARP_THREADS))
        status = braid_wait_signal_thread(c, signal, expected);
    return braid_share_status_cta(c, status);
}

/*
 * Waits until `count` units beyond what was taken before have been added to this rank's signal, then takes them. The amount taken
 * is kept in device memory, so a captured graph can be replayed. Otherwise as braid_wait_signal; a failed take takes nothing.
 */
BRAID_FN int braid_take_signal_thread(const struct braid_devcomm *c, uint32_t signal,
                                      uint64_t count)
{
    uint64_t *consumed = (uint64_t *)c->consumed + signal;
    uint64_t expected;
    int status;

    if (braid_bad_index(c, BRAID_WAIT_SIGNAL, signal, c->signal_count))
        return BRAID_DEV_INVALID;
    expected = braid_ptx_load_relaxed_gpu_u64(consumed) + count;
    status = braid_wait_signal_thread(c, signal, expected);
    if (status == 0)
        braid_ptx_store_relaxed_gpu_u64(consumed, expected);
    return status;
}

/*
 * Thread 0 alone stores what is taken, after the barrier that ends the wait. Another thread that does not see the last call's store waits for
 * less than thread 0, and then for thread 0.
 */
BRAID_FN int braid_take_signal_warp(const struct braid_devcomm *c, uint32_t signal, uint64_t count)
{
    uint64_t *consumed = (uint64_t *)c->consumed + signal;
    uint64_t expected;
    int status;

    if (braid_bad_index(c, BRAID_WAIT_SIGNAL, signal, c->signal_count))
        return BRAID_DEV_INVALID;
    expected = braid_ptx_load_relaxed_gpu_u64(consumed) + count;
    status = braid_wait_signal_warp(c, signal, expected);
    if (status == 0 && braid_ptx_lane() == 0)
        braid_ptx_store_relaxed_gpu_u64(consumed, expected);
    return status;
}

BRAID_FN int braid_take_signal_cta(const struct braid_devcomm *c, uint32_t signal, uint64_t count)
{
    uint64_t *consumed = (uint64_t *)c->consumed + signal;
    uint64_t expected = 0;
    int status = 0;

    if (braid_bad_index(c, BRAID_WAIT_SIGNAL, signal, c->signal_count))
        return BRAID_DEV_INVALID;
    if (braid_ptx_any_active(braid_ptx_thread() < BRAID_WARP_THREADS)) {
        expected = braid_ptx_load_relaxed_gpu_u64(consumed) + count;
        status = braid_wait_signal_thread(c, signal, expected);
    }
    status = braid_share_status_cta(c, status);
    if (status == 0 && braid_ptx_thread() == 0)
        braid_ptx_store_relaxed_gpu_u64(consumed, expected);
    return status;
}

/*
 * Words of the user's own windows. `offset` is aligned to the word. _word is 64 bits, _word32 is 32 bits (the size that
 * cuStreamWriteValue32 writes after a copy engine's transfer). Release and acquire as above.
 */
BRAID_FN void braid_signal_word_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                       int peer, uint64_t offset, uint32_t op, uint64_t value)
{
    (void)c;
    braid_signal_word((uint64_t *)braid_window_pointer(w, peer, offset), op, value);
}

BRAID_FN void braid_signal_word32_thread(const struct braid_devcomm *c,
                                         const struct braid_devwin *w, int peer, uint64_t offset,
                                         uint32_t op, uint32_t value)
{
    void *word = braid_window_pointer(w, peer, offset);

    (void)c;
    if (op == BRAID_SIGNAL_ADD)
        braid_ptx_add_release_sys_u32(word, value);
    else
        braid_ptx_store_release_sys_u32(word, value);
}

BRAID_FN int braid_wait_word_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                    uint64_t offset, uint64_t expected)
{
    return braid_wait_u64_thread(c, (const uint64_t *)braid_window_local(w, offset), expected,
                                 BRAID_WAIT_WORD, -1, (uint32_t)(offset / 4));
}

BRAID_FN int braid_wait_word32_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                      uint64_t offset, uint32_t expected)
{
    return braid_wait_u32_thread(c, (const uint32_t *)braid_window_local(w, offset), expected,
                                 BRAID_WAIT_WORD, -1, (uint32_t)(offset / 4));
}

#endif
