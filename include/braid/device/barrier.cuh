/*
 * Barriers across the ranks of c->local (all that reach each other by memory): one CTA, warp or thread of every rank meets its
 * counterparts in barrier slot `slot` (0 <= slot < c->barrier_count). Slots are independent: give each CTA of a kernel its own
 * (first + blockIdx.x); a slot belongs to one stream at a time.
 *
 * A barrier is release and acquire at system scope: what any thread of the group wrote or put before it is visible to every thread
 * of every group after it. Epochs live in device memory, so kernels and captured graphs run back to back without any reset; a rank
 * may run one epoch ahead, and the comparison is by signed difference.
 *
 * Two forms. A session keeps the epoch in a register, which saves a load on the critical path of each barrier:
 *     struct braid_barrier b = braid_barrier_open(&c, slot);
 *     status = braid_barrier_sync_cta(&c, &b); ... any number of times ...
 *     braid_barrier_close_cta(&c, &b);
 * braid_barrier_cta(&c, slot) is one barrier in one call. Arrive and wait can be apart, with work between them that neither reads
 * what peers write nor overwrites what peers may still read.
 *
 * Failure: a status (wait.cuh); recorded with the rank that did not come. All ranks must call the same barriers of a slot in the
 * same order.
 */
#ifndef BRAID_DEVICE_BARRIER_CUH
#define BRAID_DEVICE_BARRIER_CUH

#include "window.cuh"

struct braid_barrier {
    uint32_t slot;
    uint32_t epoch; /* of the last barrier that this rank has arrived at */
    uint64_t tell;  /* the peer's word that this lane of a warp stores to, 0 = none */
    uint64_t hear;  /* the own word that this lane waits for, 0 = none */
};

/* Is there a member `i` of the local team other than this rank? */
BRAID_FN int braid_barrier_peer(const struct braid_devcomm *c, uint32_t i)
{
    return i < (uint32_t)c->local.ranks && i != (uint32_t)c->local.rank;
}

/* Member i's word for this rank, and the own word for member i; 0 for none. */
BRAID_FN uint64_t braid_barrier_tell_word(const struct braid_devcomm *c, uint32_t slot, uint32_t i)
{
    uint64_t offset = c->inbox_offset + 4ull * (slot * c->inbox_stride + c->world.rank);

    if (!braid_barrier_peer(c, i))
        return 0;
    return braid_window_base(&c->control, braid_team_peer(&c->local, (int)i)) + offset;
}

BRAID_FN uint64_t braid_barrier_hear_word(const struct braid_devcomm *c, uint32_t slot, uint32_t i)
{
    if (!braid_barrier_peer(c, i))
        return 0;
    return c->barrier_inbox + 4ull * (slot * c->inbox_stride + braid_team_peer(&c->local, (int)i));
}

/* Opens a session; every thread of the group calls it. */
BRAID_FN struct braid_barrier braid_barrier_open(const struct braid_devcomm *c, uint32_t slot)
{
    struct braid_barrier b;

    b.slot = slot;
    b.epoch = braid_ptx_load_relaxed_gpu_u32((const uint32_t *)c->barrier_epochs + slot);
    b.tell = braid_barrier_tell_word(c, slot, braid_ptx_lane());
    b.hear = braid_barrier_hear_word(c, slot, braid_ptx_lane());
    return b;
}

/* Lane `i` of `lanes` tells its share of the peers (one, unless there are more than lanes) that this rank has arrived; `word` is
 * the first one's. */
BRAID_FN void braid_barrier_tell(const struct braid_devcomm *c, const struct braid_barrier *b,
                                 uint64_t word, uint32_t i, uint32_t lanes)
{
    for (;;) {
        if (word != 0)
            braid_ptx_store_release_sys_u32((void *)word, b->epoch);
        i += lanes;
        if (BRAID_LIKELY(i >= (uint32_t)c->local.ranks))
            return;
        word = braid_barrier_tell_word(c, b->slot, i);
    }
}

/* Lane `i` of `lanes` waits for its share of the peers. */
BRAID_FN int braid_barrier_hear(const struct braid_devcomm *c, const struct braid_barrier *b,
                                uint64_t word, uint32_t i, uint32_t lanes)
{
    int status = BRAID_DEV_OK;

    for (;;) {
        if (word != 0)
            status = braid_wait_u32_thread(c, (const uint32_t *)word, b->epoch, BRAID_WAIT_BARRIER,
                                           braid_team_peer(&c->local, (int)i), b->slot);
        i += lanes;
        if (BRAID_LIKELY(i >= (uint32_t)c->local.ranks || status != 0))
            return status;
        word = braid_barrier_hear_word(c, b->slot, i);
    }
}

/* A lane of a warp tells its share of the peers and waits for it: one branch and no loop for teams of a warp's size. `fenced`: this thread
 * has run the release's fence already. */
BRAID_FN int braid_barrier_meet(const struct braid_devcomm *c, const struct braid_barrier *b,
                                int fenced)
{
    uint32_t lane = braid_ptx_lane();

    if (BRAID_UNLIKELY(c->local.ranks > (int)BRAID_WARP_THREADS)) {
        braid_barrier_tell(c, b, b->tell, lane, BRAID_WARP_THREADS);
        return braid_barrier_hear(c, b, b->hear, lane, BRAID_WARP_THREADS);
    }
    if (b->tell == 0)
        return BRAID_DEV_OK;
    if (fenced)
        braid_ptx_store_relaxed_sys_u32((void *)b->tell, b->epoch);
    else
        braid_ptx_store_release_sys_u32((void *)b->tell, b->epoch);
    return braid_wait_u32_thread(c, (const uint32_t *)b->hear, b->epoch, BRAID_WAIT_BARRIER,
                                 braid_team_peer(&c->local, (int)lane), b->slot);
}

/* Arrive: what the group has written is released to every peer. Does not wait. */
BRAID_FN void braid_barrier_arrive_thread(const struct braid_devcomm *c, struct braid_barrier *b)
{
    b->epoch++;
    braid_barrier_tell(c, b, braid_barrier_tell_word(c, b->slot, 0), 0, 1);
}

BRAID_FN void braid_barrier_arrive_warp(const struct braid_devcomm *c, struct braid_barrier *b)
{
    b->epoch++;
    braid_ptx_sync_warp();
    braid_barrier_tell(c, b, b->tell, braid_ptx_lane(), BRAID_WARP_THREADS);
}

BRAID_FN void braid_barrier_arrive_cta(const struct braid_devcomm *c, struct braid_barrier *b)
{
    b->epoch++;
    braid_ptx_sync_cta();
    if (braid_ptx_thread() < BRAID_WARP_THREADS)
        braid_barrier_tell(c, b, b->tell, braid_ptx_thread(), BRAID_WARP_THREADS);
}

/* Wait for the epoch of the last arrive. */
BRAID_FN int braid_barrier_wait_thread(const struct braid_devcomm *c, const struct braid_barrier *b)
{
    return braid_barrier_hear(c, b, braid_barrier_hear_word(c, b->slot, 0), 0, 1);
}

BRAID_FN int braid_barrier_wait_warp(const struct braid_devcomm *c, const struct braid_barrier *b)
{
    return braid_share_status_warp(
        c, braid_barrier_hear(c, b, b->hear, braid_ptx_lane(), BRAID_WARP_THREADS));
}

BRAID_FN int braid_barrier_wait_cta(const struct braid_devcomm *c, const struct braid_barrier *b)
{
    int status = 0;

    if (braid_ptx_thread() < BRAID_WARP_THREADS)
        status = braid_barrier_hear(c, b, b->hear, braid_ptx_thread(), BRAID_WARP_THREADS);
    return braid_share_status_cta(c, status);
}

/* Arrive and wait. */
BRAID_FN int braid_barrier_sync_thread(const struct braid_devcomm *c, struct braid_barrier *b)
{
    braid_barrier_arrive_thread(c, b);
    return braid_barrier_wait_thread(c, b);
}

BRAID_FN int braid_barrier_sync_warp(const struct braid_devcomm *c, struct braid_barrier *b)
{
    b->epoch++;
    braid_ptx_sync_warp();
    return braid_share_status_warp(c, braid_barrier_meet(c, b, 0));
}

BRAID_FN int braid_barrier_sync_cta(const struct braid_devcomm *c, struct braid_barrier *b)
{
    int status = 0;

    b->epoch++;
    braid_ptx_sync_cta();
    if (braid_ptx_thread() < BRAID_WARP_THREADS)
        status = braid_barrier_meet(c, b, 0);
    return braid_share_status_cta(c, status);
}

/*
 * Closes a session: stores the epoch for the next kernel. Called by every thread of the group, after the last sync or wait and
 * also after a failure. The slot may be opened again by the same group after the group's next barrier, or by a later kernel.
 */
BRAID_FN void braid_barrier_close_thread(const struct braid_devcomm *c,
                                         const struct braid_barrier *b)
{
    braid_ptx_store_relaxed_gpu_u32((uint32_t *)c->barrier_epochs + b->slot, b->epoch);
}

BRAID_FN void braid_barrier_close_warp(const struct braid_devcomm *c, const struct braid_barrier *b)
{
    if (braid_ptx_lane() == 0)
        braid_barrier_close_thread(c, b);
}

BRAID_FN void braid_barrier_close_cta(const struct braid_devcomm *c, const struct braid_barrier *b)
{
    if (braid_ptx_thread() == 0)
        braid_barrier_close_thread(c, b);
}

/* One barrier in one call; may be called again at once. Returns a status. */
BRAID_FN int braid_barrier_thread(const struct braid_devcomm *c, uint32_t slot)
{
    struct braid_barrier b = braid_barrier_open(c, slot);
    int status = braid_barrier_sync_thread(c, &b);

    braid_barrier_close_thread(c, &b);
    return status;
}

BRAID_FN int braid_barrier_warp(const struct braid_devcomm *c, uint32_t slot)
{
    struct braid_barrier b = braid_barrier_open(c, slot);

    braid_barrier_arrive_warp(c, &b);
    braid_barrier_close_warp(c, &b); /* before the wait's barrier, so that the next call reads it */
    return braid_barrier_wait_warp(c, &b);
}

/* The release's fence runs while the epoch is on its way here. */
BRAID_FN int braid_barrier_cta(const struct braid_devcomm *c, uint32_t slot)
{
    struct braid_barrier b = braid_barrier_open(c, slot);
    int status = 0;

    b.epoch++;
    braid_ptx_sync_cta();
    if (braid_ptx_thread() < BRAID_WARP_THREADS) {
        braid_ptx_fence_sys();
        status = braid_barrier_meet(c, &b, 1);
    }
    braid_barrier_close_cta(c, &b); /* before the barrier, so that the next call reads it */
    return braid_share_status_cta(c, status);
}

#endif
