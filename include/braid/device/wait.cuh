/*
 * The one bounded wait that every operation uses, and the sticky error behind it.
 *
 * A wait polls one word and acquires at system scope. Once in BRAID_WAIT_POLLS polls (a cold path) it looks at the communicator's
 * sticky error, and if no other warp of this GPU is doing so, at the clock and at the host's abort word. It ends with
 *   BRAID_DEV_OK       the word has reached the expected value; what its writer did before is visible to this thread
 *   BRAID_DEV_TIMEOUT  the communicator's timeout_ns passed since this wait's first look at the clock
 *   BRAID_DEV_ABORTED  the host called braid_comm_abort or braid_comm_destroy
 *   or the status of the first failed wait of this communicator, when another wait failed while this one was waiting.
 * The first failure of a communicator is recorded once, in host memory, with what was waited for, expected and seen; the host reads
 * it with braid_comm_error. After a failure the communicator is unusable, but kernels that use it still end: return, or run on with
 * garbage where control flow must not change (warp-specialised kernels).
 * A kernel that runs on must tell nobody: what it signals, sends in packets or announces as a tile after a failed wait makes the wait of a
 * peer that was only late succeed, on garbage, with status 0. So keep the status and skip what tells, or ask braid_failed_thread
 * before it (also where a kernel begins: the failure may be an earlier kernel's). Then the peer's own wait ends with a status as well.
 * Braid's collectives keep this; signals, tiles and barriers themselves do not look, because the caller knows the status for nothing.
 *
 * Threading: any lane may wait; lanes of a warp that wait for different words leave the loop one by one. All lanes of a warp that wait
 * for one word make one request a poll, as one lane would; but one lane for which the others wait takes turns with them at every poll.
 * So _warp waits poll with all lanes, and _cta waits with those of warp 0 (that its lanes go the same way says a vote, for the compiler).
 */
#ifndef BRAID_DEVICE_WAIT_CUH
#define BRAID_DEVICE_WAIT_CUH

#include "arith.cuh"

/* The status of the first failed wait, 0 if none failed. One load; use it to leave a long kernel early. */
BRAID_FN int braid_failed_thread(const struct braid_devcomm *c)
{
    const struct braid_devcomm_state *state = (const struct braid_devcomm_state *)c->state;

    return (int)braid_ptx_load_relaxed_gpu_u32(&state->error);
}

/*
 * Records a failure: `status` becomes the communicator's sticky error and, if it is the first, goes to the host with the reason.
 * When it returns, the sticky error is set and the host has been told, whichever thread did it.
 * For a kernel author's own waits use wait >= BRAID_WAIT_USER. Returns `status`, or the sticky error if another failure was first.
 */
BRAID_FN int braid_fail_thread(const struct braid_devcomm *c, int status, uint32_t wait, int peer,
                               uint32_t index, uint64_t expected, uint64_t seen, uint64_t waited_ns)
{
    struct braid_devcomm_state *state = (struct braid_devcomm_state *)c->state;
    struct braid_devcomm_error *error = (struct braid_devcomm_error *)c->error;
    int first;

    if (braid_ptx_cas_gpu_u32(&state->claim, 0, 1) == 0) {
        braid_ptx_store4(&error->wait, wait);
        braid_ptx_store4(&error->peer, (uint32_t)peer);
        braid_ptx_store4(&error->index, index);
        braid_ptx_store8(&error->expected, expected);
        braid_ptx_store8(&error->seen, seen);
        braid_ptx_store8(&error->waited_ns, waited_ns);
        braid_ptx_store4(&error->block, braid_ptx_block());
        braid_ptx_store4(&error->thread, braid_ptx_thread());
        braid_ptx_store_release_sys_u32(&error->status, (uint32_t)status);
        braid_ptx_store_relaxed_gpu_u32(&state->error, (uint32_t)status);
    }
    do { /* here the lanes meet again, not behind the caller's wait; the one that was first may still be writing */
        first = braid_failed_thread(c);
    } while (first == 0);
    return first;
}

/*
 * The cold path of a wait, for a kernel author's own polling loops: call it once in BRAID_WAIT_POLLS polls (or more) with *start_ns = 0
 * at first. Returns 0 while the wait may go on, otherwise the status to end with (then call braid_fail_thread).
 *
 * Only one warp of a communicator looks at the clock and at the abort word at a time; the others find `looking` taken and go back to
 * their polls. The reason: the GPU reads both for one warp at a time, 0.5 to 0.65 us each. If every warp that waits for a late peer reads
 * them, the last one is late by half a microsecond a warp, and then the peer's warps wait, and read, and so on without end (seen: 176
 * warps 101 us an operation instead of 4.5, 1408 warps 727 us instead of 11). This way at most one warp of a GPU can miss its data for the time
 * of one look, however many wait. Bounds hold because the first thread that sees the time or the abort word ends all waits: by the sticky
 * error. A wait's own time begins with its first look, a few milliseconds late when thousands of warps take turns.
 *
 * Nothing here may differ between the lanes of a warp that wait for one word, as far as the compiler can see (hence the vote on what
 * the exchange has returned, and the look at the sticky error at the end of braid_fail_thread). Otherwise it takes every loop around
 * for divergent and has the lanes meet and yield in each round: a wait then ends 0.05 to 0.1 us later.
 */
BRAID_FN int braid_wait_check_thread(const struct braid_devcomm *c, uint64_t *start_ns)
{
    struct braid_devcomm_state *state = (struct braid_devcomm_state *)c->state;
    int status = braid_failed_thread(c);
    uint64_t now;

    if (status != 0)
        return status;
    if (!braid_ptx_any_active(braid_ptx_cas_gpu_u32(&state->looking, 0, 1) == 0))
        return 0;
    now = braid_ptx_now_ns();
    if (*start_ns == 0)
        *start_ns = now;
    if (braid_ptx_load_relaxed_sys_u32((const void *)c->abort) != 0)
        status = BRAID_DEV_ABORTED;
    else if (now - *start_ns > c->timeout_ns)
        status = BRAID_DEV_TIMEOUT;
    braid_ptx_store_release_gpu_u32(&state->looking, 0); /* after the abort word is here */
    return status;
}

/*
 * Waits until the 32-bit counter at `word` has reached `expected`. The last three arguments only say what is waited for.
 * The polls are relaxed, because an acquire empties the SM's L1 cache at each of them; the acquire is one more load when the word has
 * come (the compiler leaves only the emptying of it). It reads the value that the poll has seen or a later one of the same writer, so
 * what was released with that value is visible.
 */
BRAID_FN int braid_wait_u32_thread(const struct braid_devcomm *c, const uint32_t *word,
                                   uint32_t expected, uint32_t wait, int peer, uint32_t index)
{
    uint64_t start_ns = 0;
    uint32_t seen;
    int polls, status;

    for (;;) {
        polls = 0;
        BRAID_NO_UNROLL
        do {
            seen = braid_ptx_load_relaxed_sys_u32(word);
            polls++;
        } while (!braid_reached_u32(seen, expected) && polls < BRAID_WAIT_POLLS);
        if (BRAID_LIKELY(braid_reached_u32(seen, expected))) {
            braid_ptx_load_acquire_sys_u32(word);
            return BRAID_DEV_OK;
        }
        status = braid_wait_check_thread(c, &start_ns);
        if (BRAID_UNLIKELY(status != 0))
            return braid_fail_thread(c, status, wait, peer, index, expected, seen,
                                     braid_ptx_now_ns() - start_ns);
    }
}

/* The same for a 64-bit counter. */
BRAID_FN int braid_wait_u64_thread(const struct braid_devcomm *c, const uint64_t *word,
                                   uint64_t expected, uint32_t wait, int peer, uint32_t index)
{
    uint64_t start_ns = 0;
    uint64_t seen;
    int polls, status;

    for (;;) {
        polls = 0;
        BRAID_NO_UNROLL
        do {
            seen = braid_ptx_load_relaxed_sys_u64(word);
            polls++;
        } while (!braid_reached_u64(seen, expected) && polls < BRAID_WAIT_POLLS);
        if (BRAID_LIKELY(braid_reached_u64(seen, expected))) {
            braid_ptx_load_acquire_sys_u64(word);
            return BRAID_DEV_OK;
        }
        status = braid_wait_check_thread(c, &start_ns);
        if (BRAID_UNLIKELY(status != 0))
            return braid_fail_thread(c, status, wait, peer, index, expected, seen,
                                     braid_ptx_now_ns() - start_ns);
    }
}

/* A thread of the group has failed: the own status, or else what the other one has recorded. Cold. */
BRAID_FN int braid_status_of_another(const struct braid_devcomm *c, int status)
{
    if (status == 0)
        status = braid_failed_thread(c);
    return status != 0 ? status
                       : BRAID_DEV_TIMEOUT; /* recorded, but the sticky word is not stored yet */
}

/*
 * Tells a warp (CTA) what its polling lanes found: call it with their status, and 0 in the other threads. All threads return 0, or
 * all return a failure; what the polling lanes have acquired is visible to all of them.
 */
BRAID_FN int braid_share_status_warp(const struct braid_devcomm *c, int status)
{
    braid_ptx_sync_warp(); /* the vote below orders no memory */
    if (BRAID_LIKELY(braid_ptx_any_in_warp(status) == 0))
        return BRAID_DEV_OK;
    return braid_status_of_another(c, status);
}

BRAID_FN int braid_share_status_cta(const struct braid_devcomm *c, int status)
{
    if (BRAID_LIKELY(braid_ptx_sync_cta_any(status) == 0))
        return BRAID_DEV_OK;
    return braid_status_of_another(c, status);
}

/* A range check that is compiled in by BRAID_DEVICE_CHECKS only. Nonzero: out of range, recorded, skip the operation. */
BRAID_FN int braid_bad_index(const struct braid_devcomm *c, uint32_t wait, uint64_t index,
                             uint64_t limit)
{
#if BRAID_DEVICE_CHECKS
    if (index >= limit) {
        braid_fail_thread(c, BRAID_DEV_INVALID, wait, -1, (uint32_t)index, limit, index, 0);
        return 1;
    }
#endif
    (void)c, (void)wait, (void)index, (void)limit;
    return 0;
}

#endif
