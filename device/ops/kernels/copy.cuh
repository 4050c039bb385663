/*
 * Copying collectives: all-gather, all-to-all(-v), broadcast; small ones by packets (packets.cuh), large ones over the roles of
 * exchange.cuh. Chunks go into the peers' result memory (direct) or into their staging buffers, from which their workers copy.
 * Direct: a peer's result may still be in use by what ran before this operation, so its `ready` flag is awaited first.
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
    mutable uint64_t begun; /* a bit a peer: its ready flag has been seen */

    __device__ __forceinline__ struct piece piece(uint32_t chunk, uint32_t peer) const
    {
        const struct braid_copy_peer *to = &a->peer[peer];
        uint64_t offset = (uint64_t)chunk * a->chunk;
        struct piece p;

        p.from = to->from + offset;
        p.to =
            (to->to != 0 ? to->to : op_staging(w, &a->layout, op, a->layout.rank, peer)) + offset;
        p.bytes = exchange_part(to->from_bytes, a->chunk, chunk);
        return p;
    }

    __device__ __forceinline__ void begin(uint32_t peer) const
    {
        if (!a->direct || (begun >> peer & 1) != 0)
            return;
        op_wait_thread(c, (const uint32_t *)op_ready(w, &a->layout, op, peer, a->layout.rank) + 1,
                       op->flag, BRAID_WAIT_BEGIN, peer, 0);
        begun |= 1ull << peer;
    }

    __device__ __forceinline__ void begin_all(uint32_t peer) const
    {
        if (!a->direct)
            return;
        if (braid_ptx_thread() == 0)
            begin(peer);
        braid_ptx_sync_cta();
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
    uint32_t k = 0;

    if (braid_ptx_block() == 0)
        op_hear_warp(c, w, l, op, [&](uint32_t peer) {
            return a->tag != 0 ? a->tag : (uint32_t)a->peer[peer].into_bytes;
        });
    BRAID_NO_UNROLL
    for (uint32_t chunk = braid_ptx_block(); chunk < a->in_chunks; chunk += braid_ptx_blocks()) {
        exchange_wait(c, w, l, op, 0, chunk, [&](uint32_t peer) {
            return exchange_part(a->peer[peer].into_bytes, a->chunk, chunk) != 0;
        });
        if (braid_ptx_lane() == 0)
            exchange_count(&s->arrived, ++k);
    }
}

/* The workers: this rank's own copy, then what arrives in staging. */
BRAID_FN void copy_work(const struct braid_devwin *w, const struct braid_copy_args *a,
                        const struct op *op, struct exchange_shared *s)
{
    const struct braid_ops_layout *l = &a->layout;
    uint32_t thread = braid_ptx_thread() - 32 * BRAID_OPS_SERVICE;
    uint32_t threads = braid_ptx_threads() - 32 * BRAID_OPS_SERVICE;
    uint32_t k = 0;

    BRAID_NO_UNROLL
    for (uint32_t chunk = braid_ptx_block(); chunk < a->in_chunks; chunk += braid_ptx_blocks()) {
        uint64_t offset = (uint64_t)chunk * a->chunk;

        braid_copy_group((void *)(a->peer[l->rank].into + offset),
                         (const void *)(a->peer[l->rank].from + offset),
                         exchange_part(a->peer[l->rank].from_bytes, a->chunk, chunk), thread,
                         threads);
        if (a->direct)
            continue;
        exchange_await(&s->arrived, k);
        if (a->in_place)
            exchange_await_pushed(s, k);
        braid_ptx_sync_warp();
        k++;
        BRAID_NO_UNROLL
        for (uint32_t hop = 1; hop < l->ranks; hop++) {
            uint32_t peer = exchange_peer(l->rank, l->ranks, hop);

            braid_copy_group((void *)(a->peer[peer].into + offset),
                             (const void *)(op_staging(w, l, op, peer, l->rank) + offset),
                             exchange_part(a->peer[peer].into_bytes, a->chunk, chunk), thread,
                             threads);
        }
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
    uint32_t warp = braid_ptx_thread() / 32;

    exchange_open(&shared);
    if (warp == BRAID_OPS_PUSHERS + 1 && braid_ptx_block() == 0)
        op_tell_warp(&w, l, &op, [&](uint32_t peer) {
            return a.tag != 0 ? a.tag : (uint32_t)a.peer[peer].from_bytes;
        });
    braid_ptx_sync_cta();
    braid_ptx_allow_next_kernel();
    if (!a.aligned)
        push_unaligned(plan, l->rank, l->ranks, &shared);
    if (warp < BRAID_OPS_PUSHERS) {
        if (a.aligned)
            push_bulk(plan, l->rank, l->ranks, warp, &shared);
    } else if (warp == BRAID_OPS_PUSHERS) {
        copy_wait(&c, &w, &a, &op, &shared);
    } else if (warp == BRAID_OPS_PUSHERS + 1) {
        if (braid_ptx_lane() == 0)
            op_end_thread(&c, l, &op, op_count_thread(&c, l));
    } else {
        copy_work(&w, &a, &op, &shared);
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
