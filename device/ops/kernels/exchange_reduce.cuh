/*
 * Reduce-scatter and the two large all-reduces, over the roles of exchange.cuh.
 *   reduce-scatter      every rank pushes block p to rank p; workers sum block `rank` of all
 *   one-shot all-reduce every rank pushes everything to everyone; workers sum it all (stride 0)
 *   two-shot all-reduce reduce-scatter, and workers also store their sums into every peer's result, chunk by chunk
 * Two-shot needs no word from a peer before it stores there: the peer's contribution to that very chunk has arrived, so the peer has
 * begun the operation, and where it works in place it has read what is overwritten. If it has not arrived in time, nothing is stored.
 */
#ifndef BRAID_DEVICE_OPS_EXCHANGE_REDUCE_CUH
#define BRAID_DEVICE_OPS_EXCHANGE_REDUCE_CUH

#include "exchange.cuh"

/* Bytes of the block of `rank`. */
BRAID_FN uint64_t reduce_block(const struct braid_exchange_args *a, uint32_t rank)
{
    uint64_t begin = a->stride * rank;

    return begin >= a->total ? 0 : a->total - begin < a->bytes ? a->total - begin : a->bytes;
}

struct reduce_plan {
    const struct braid_devcomm *c;
    const struct braid_devwin *w;
    const struct braid_exchange_args *a;
    const struct op *op;
    uint32_t chunks;
    int same;

    __device__ __forceinline__ struct piece piece(uint32_t chunk, uint32_t peer) const
    {
        struct piece p;

        p.from = a->in + a->stride * peer + (uint64_t)chunk * a->chunk;
        p.to = op_staging(w, &a->layout, op, a->layout.rank, peer) +
               (uint64_t)(chunk % a->slots) * a->chunk;
        p.bytes = exchange_part(reduce_block(a, peer), a->chunk, chunk);
        return p;
    }

    __device__ __forceinline__ int room(uint32_t chunk, uint32_t peer) const
    {
        return exchange_room(w, &a->layout, op, a->slots, chunk, peer);
    }

    __device__ __forceinline__ int begin(uint32_t chunk, uint32_t peer) const
    {
        return exchange_await_room(c, w, &a->layout, op, a->slots, chunk, peer);
    }

    __device__ __forceinline__ void flag(uint32_t chunk, uint32_t peer) const
    {
        braid_ptx_store_relaxed_sys_u32(op_flag(w, &a->layout, op, 0, a->layout.rank, peer, chunk),
                                        op->flag);
    }
};

/* The waiter: this rank's chunks from every peer, then every peer's results. */
BRAID_FN void reduce_wait(const struct braid_devcomm *c, const struct braid_devwin *w,
                          const struct braid_exchange_args *a, const struct op *op,
                          struct exchange_shared *s, uint32_t chunks)
{
    const struct braid_ops_layout *l = &a->layout;

    if (braid_ptx_block() == 0 && op_hear_warp(c, w, l, op, [&](uint32_t) { return a->tag; }) != 0)
        exchange_fail(s);
    exchange_wait(c, w, l, op, s, 0, exchange_share(chunks), [](uint32_t, uint32_t) { return 1; });
    if (a->results)
        exchange_wait(c, w, l, op, s, 1, exchange_share(exchange_chunks(a->bytes, a->chunk)),
                      [&](uint32_t chunk, uint32_t peer) {
                          return exchange_part(reduce_block(a, peer), a->chunk, chunk) != 0;
                      });
}

/* A worker's part of one chunk. */
template <int NUMBER, int RANKS>
BRAID_FN void reduce_chunk(const struct braid_devwin *w, const struct braid_devwin *result,
                           const struct braid_exchange_args *a, const struct op *op, uint32_t chunk,
                           uint32_t bytes)
{
    const struct braid_ops_layout *l = &a->layout;
    uint64_t offset = (uint64_t)chunk * a->chunk;
    uint64_t slot = (uint64_t)(chunk % a->slots) * a->chunk;
    uint64_t local = a->in + a->stride * l->rank + offset;
    uint64_t out = a->out + offset;
    uint64_t remote = a->result + a->stride * l->rank + offset;
    uint64_t other = RANKS == 2 ? op_staging(w, l, op, l->rank ^ 1u, l->rank) + slot : 0;
    uint64_t peer_out = a->results ? braid_window_base(result, (int)(l->rank ^ 1u)) + remote : 0;

    auto source = [&](int i) -> uint64_t {
        if constexpr (RANKS == 2)
            return (uint32_t)i == l->rank ? local : other;
        return (uint32_t)i == l->rank ? local : op_staging(w, l, op, (uint32_t)i, l->rank) + slot;
    };
    auto sink = [&](uint64_t at, uint64_t part, const struct braid_vec16 &v) {
        if (a->results) {
            if constexpr (RANKS == 2) {
                op_put(peer_out + at, part, a->aligned, v);
            } else {
                BRAID_NO_UNROLL
                for (uint32_t hop = 1; hop < l->ranks; hop++)
                    op_put(braid_window_base(result, (int)exchange_peer(l->rank, l->ranks, hop)) +
                               remote + at,
                           part, a->aligned, v);
            }
        }
        op_put(out + at, part, a->aligned, v);
    };

    braid_reduce_group<NUMBER, RANKS>(source, (int)l->ranks, bytes, a->scale, (int)a->aligned, sink,
                                      exchange_group_thread(), GROUP_THREADS);
}

template <int NUMBER, int RANKS>
BRAID_FN void reduce_work(const struct braid_devwin *w, const struct braid_devwin *result,
                          const struct braid_exchange_args *a, const struct op *op,
                          struct exchange_shared *s, uint64_t mine)
{
    uint32_t total = exchange_share(exchange_chunks(mine, a->chunk));

    BRAID_NO_UNROLL
    for (uint32_t k = exchange_group(); k < total; k += GROUPS) {
        uint32_t chunk = exchange_chunk(k);

        exchange_await(&s->arrived, k);
        if (a->in_place)
            exchange_await_pushed(s, k, 1);
        braid_ptx_sync_warp();
        if (BRAID_LIKELY(!exchange_failed(s)))
            reduce_chunk<NUMBER, RANKS>(w, result, a, op, chunk,
                                        exchange_part(mine, a->chunk, chunk));
        exchange_done(s, k);
    }
}

template <int NUMBER, int RANKS>
BRAID_FN void exchange_reduce(const struct braid_devcomm *c, const struct braid_devwin *w,
                              const struct braid_devwin *result,
                              const struct braid_exchange_args *a)
{
    __shared__ struct exchange_shared shared;
    const struct braid_ops_layout *l = &a->layout;
    struct op op = op_begin(c, l);
    struct reduce_plan plan = {c, w, a, &op, exchange_chunks(a->bytes, a->chunk), a->stride == 0};
    struct walk<struct reduce_plan> walk = {
        plan, l->rank, l->ranks, plan.same ? 1 : l->ranks - 1
    };
    uint64_t mine = a->stride == 0 ? a->bytes : reduce_block(a, l->rank);
    uint32_t chunks = exchange_chunks(mine, a->chunk);
    uint32_t warp = braid_ptx_thread() / 32;

    exchange_open(c, &shared);
    if (warp == FLAGGER && braid_ptx_block() == 0)
        op_tell_warp(c, w, l, &op, [&](uint32_t) { return a->tag; });
    braid_ptx_sync_cta();
    braid_ptx_allow_next_kernel();
    if (warp < BRAID_OPS_PUSHERS) {
        exchange_push(walk, warp, a->aligned, &shared);
    } else if (warp == ANNOUNCER) {
        exchange_announce(walk, &shared);
    } else if (warp == WAITER) {
        reduce_wait(c, w, a, &op, &shared, chunks);
    } else if (warp == FLAGGER) {
        uint32_t count = braid_ptx_lane() == 0 ? op_count_thread(c, l) : 0;

        if (a->results ||
            chunks > a->slots) /* a peer wants the result, or the slot for its chunk + slots */
            exchange_flag(
                w, l, &op, &shared, exchange_share(chunks),
                [&](uint32_t chunk, uint32_t) { return a->results || chunk + a->slots < chunks; });
        if (braid_ptx_lane() == 0)
            op_end_thread(c, l, &op, count);
    } else {
        reduce_work<NUMBER, RANKS>(w, result, a, &op, &shared, mine);
    }
}

#endif
