/*
 * Copying collectives: all-gather, all-to-all(-v), broadcast; small ones by packets (packets.cuh), large ones over the roles of
 * exchange.cuh. Chunks go into the peers' result memory (direct) or into their staging buffers, from which their workers copy.
 * Direct: a peer's result may still be in use by what ran before this operation, so its `ready` flag is awaited first; a peer that has
 * not come in time gets nothing.
 */
#ifndef BRAID_DEVICE_OPS_COPY_CUH
#define BRAID_DEVICE_OPS_COPY_CUH

#include "exchange.cuh"
#include "packets.cuh"

struct copy_plan {
    const struct braid_devcomm *c;
    const struct braid_devwin *w;
    const struct braid_copy_args *a;
    const struct op *op;
    uint32_t chunks;
    int same;
    mutable uint64_t begun; /* a bit a peer: its ready word has been seen (direct) */

    __device__ __forceinline__ struct piece piece(uint32_t chunk, uint32_t peer) const
    {
        const struct braid_copy_peer *to = &a->peer[peer];
        struct piece p;

        p.from = to->from + (uint64_t)chunk * a->chunk;
        p.to = to->to != 0 ? to->to + (uint64_t)chunk * a->chunk
                           : op_staging(w, &a->layout, op, a->layout.rank, peer) +
                                 (uint64_t)(chunk % a->slots) * a->chunk;
        p.bytes = exchange_part(to->from_bytes, a->chunk, chunk);
        return p;
    }

    __device__ __forceinline__ int room(uint32_t chunk, uint32_t peer) const
    {
        return a->direct || exchange_room(w, &a->layout, op, a->slots, chunk, peer);
    }

    __device__ __forceinline__ int begin(uint32_t chunk, uint32_t peer) const
    {
        if (!a->direct)
            return exchange_await_room(c, w, &a->layout, op, a->slots, chunk, peer);
        if ((begun >> peer & 1) != 0)
            return BRAID_DEV_OK;
        begun |= 1ull << peer;
        return op_wait_thread(
            c, (const uint32_t *)op_ready(w, &a->layout, op, peer, a->layout.rank) + 1, op->flag,
            BRAID_WAIT_BEGIN, peer, 0);
    }

    __device__ __forceinline__ void flag(uint32_t chunk, uint32_t peer) const
    {
        braid_ptx_store_relaxed_sys_u32(op_flag(w, &a->layout, op, 0, a->layout.rank, peer, chunk),
                                        op->flag);
    }
};

/* The waiter: every peer's chunks; the first CTA also hears that every peer has begun. */
BRAID_FN void copy_wait(const struct braid_devcomm *c, const struct braid_devwin *w,
                        const struct braid_copy_args *a, const struct op *op,
                        struct exchange_shared *s)
{
    const struct braid_ops_layout *l = &a->layout;

    if (braid_ptx_block() == 0 && op_hear_warp(c, w, l, op, [&](uint32_t peer) {
                                      return a->tag != 0 ? a->tag
                                                         : (uint32_t)a->peer[peer].into_bytes;
                                  }) != 0)
        exchange_fail(s);
    exchange_wait(c, w, l, op, s, 0, exchange_share(a->in_chunks),
                  [&](uint32_t chunk, uint32_t peer) {
                      return exchange_part(a->peer[peer].into_bytes, a->chunk, chunk) != 0;
                  });
}

/* The workers: this rank's own copy, then what arrives in staging. */
BRAID_FN void copy_work(const struct braid_devwin *w, const struct braid_copy_args *a,
                        const struct op *op, struct exchange_shared *s, uint32_t hops)
{
    const struct braid_ops_layout *l = &a->layout;
    uint32_t total = exchange_share(a->in_chunks);
    uint32_t thread = exchange_group_thread();

    BRAID_NO_UNROLL
    for (uint32_t k = exchange_group(); k < total; k += GROUPS) {
        uint32_t chunk = exchange_chunk(k);
        uint64_t offset = (uint64_t)chunk * a->chunk;
        uint64_t slot = (uint64_t)(chunk % a->slots) * a->chunk;

        braid_copy_group((void *)(a->peer[l->rank].into + offset),
                         (const void *)(a->peer[l->rank].from + offset),
                         exchange_part(a->peer[l->rank].from_bytes, a->chunk, chunk), thread,
                         GROUP_THREADS);
        if (a->direct)
            continue;
        exchange_await(&s->arrived, k);
        if (a->in_place)
            exchange_await_pushed(s, k, hops);
        braid_ptx_sync_warp();
        BRAID_NO_UNROLL
        for (uint32_t hop = 1; hop < l->ranks; hop++) {
            uint32_t peer = exchange_peer(l->rank, l->ranks, hop);

            braid_copy_group((void *)(a->peer[peer].into + offset),
                             (const void *)(op_staging(w, l, op, peer, l->rank) + slot),
                             exchange_part(a->peer[peer].into_bytes, a->chunk, chunk), thread,
                             GROUP_THREADS);
        }
        exchange_done(s, k);
    }
}

BRAID_KERNEL __launch_bounds__(32 * BRAID_OPS_WARPS, 1)
    braid_exchange_copy(const __grid_constant__ struct braid_devcomm c,
                        const __grid_constant__ struct braid_devwin w,
                        const __grid_constant__ struct braid_copy_args a)
{
    __shared__ struct exchange_shared shared;
    const struct braid_ops_layout *l = &a.layout;
    struct op op = op_begin(&c, l);
    struct copy_plan plan = {&c, &w, &a, &op, a.out_chunks, (int)a.same, 0};
    struct walk<struct copy_plan> walk = {
        plan, l->rank, l->ranks, plan.same ? 1 : l->ranks - 1
    };
    uint32_t warp = braid_ptx_thread() / 32;

    exchange_open(&c, &shared);
    if (warp == FLAGGER && braid_ptx_block() == 0)
        op_tell_warp(&c, &w, l, &op, [&](uint32_t peer) {
            return a.tag != 0 ? a.tag : (uint32_t)a.peer[peer].from_bytes;
        });
    braid_ptx_sync_cta();
    braid_ptx_allow_next_kernel();
    if (warp < BRAID_OPS_PUSHERS) {
        exchange_push(walk, warp, a.aligned, &shared);
    } else if (warp == ANNOUNCER) {
        exchange_announce(walk, &shared);
    } else if (warp == WAITER) {
        copy_wait(&c, &w, &a, &op, &shared);
    } else if (warp == FLAGGER) {
        uint32_t count = braid_ptx_lane() == 0 ? op_count_thread(&c, l) : 0;

        if (!a.direct && a.in_chunks > a.slots)
            exchange_flag(&w, l, &op, &shared, exchange_share(a.in_chunks),
                          [&](uint32_t chunk, uint32_t peer) {
                              return exchange_part(a.peer[peer].into_bytes, a.chunk,
                                                   chunk + a.slots) != 0;
                          });
        if (braid_ptx_lane() == 0)
            op_end_thread(&c, l, &op, count);
    } else {
        copy_work(&w, &a, &op, &shared, walk.hops);
    }
}

BRAID_KERNEL __launch_bounds__(512, 1)
    braid_ll_copy(const __grid_constant__ struct braid_devcomm c,
                  const __grid_constant__ struct braid_devwin w,
                  const __grid_constant__ struct braid_ll_copy_args a)
{
    if (a.aligned)
        ll_copy<true>(&c, &w, &a);
    else
        ll_copy<false>(&c, &w, &a);
}

#endif
