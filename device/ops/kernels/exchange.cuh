/*
 * Large collectives: chunks travel through staging buffers (or straight into the result) with a flag each. One CTA is five roles that
 * only meet in shared memory:
 *   pushers    four threads; bulk copies of this rank's chunks to the peers
 *   announcer  one warp; stores the flag of each chunk once it is written there. The fence that this takes would stop a pusher
 *   waiter     one warp; watches peers' chunk flags, 32 at a time, and counts what has arrived
 *   workers    four groups of four warps, each with a chunk of its own; sum or copy arrived chunks
 *   flagger    one warp; tells the peers which chunks the workers have finished: results that are theirs now, or staging that is free
 * Chunk c belongs to CTA c mod grid here; flags are per chunk, so ranks may run different grids. Staging is a ring of `slots` chunks,
 * small enough to stay in the L2 cache; chunk c waits until chunk c - slots has been finished at its destination. Nobody waits for
 * another CTA of its own GPU, and all waits are for chunks of lower numbers or of peers, taken in ascending order, so any number of
 * CTAs makes progress. A failed wait changes no control flow: all roles run to the end and the host finds the reason. But it sets the
 * CTA's word `failed`, before what the wait was for is passed on as arrived or written; and whoever tells a peer something, or stores
 * into a peer's memory, looks at that word after it has acquired what it tells. So nothing is ever told that depends on a failed wait.
 */
#ifndef BRAID_DEVICE_OPS_EXCHANGE_CUH
#define BRAID_DEVICE_OPS_EXCHANGE_CUH

#include "../args.h"

#define BRAID_BULK_PIECE  BRAID_OPS_PIECE
#define BRAID_BULK_STAGES BRAID_OPS_STAGES
#include <braid/device/bulk.cuh>
#include <braid/device/reduce.cuh>

#include "common.cuh"

/* Warps of a CTA, in this order: pushers, announcer, waiter, flagger, workers. */
#define ANNOUNCER     BRAID_OPS_PUSHERS
#define WAITER        (BRAID_OPS_PUSHERS + 1u)
#define FLAGGER       (BRAID_OPS_PUSHERS + 2u)
#define GROUPS        4u /* of workers */
#define GROUP_WARPS   (BRAID_OPS_WORKERS / GROUPS)
#define GROUP_THREADS (32u * GROUP_WARPS)

/* The pushers' rings: BRAID_BULK_SHARED bytes each, dynamic (BRAID_OPS_RING_BYTES on the host). */
extern __shared__ __align__(128) uint8_t exchange_memory[];

/* What the roles tell each other about this CTA's chunks, which they count from 0. Each word has one writer and only grows. */
struct exchange_shared {
    uint32_t failed;  /* 1: a wait of this CTA, or of this GPU before the operation, has failed */
    uint32_t arrived; /* chunks whose data from every peer is here */
    uint32_t written
        [BRAID_OPS_PUSHERS]; /* by pusher: chunks (for a peer, or for all) that are written there */
    uint32_t done[BRAID_OPS_WORKERS]; /* by worker warp: chunks of its group that it has finished */
};

/* One chunk of one block. */
struct piece {
    uint64_t from;
    uint64_t to;
    uint32_t bytes;
};

BRAID_FN uint32_t exchange_chunks(uint64_t bytes, uint32_t chunk)
{
    return (uint32_t)((bytes + chunk - 1) / chunk);
}

/* Bytes of chunk `index` in a block of `bytes`; 0 beyond its end. */
BRAID_FN uint32_t exchange_part(uint64_t bytes, uint32_t chunk, uint32_t index)
{
    uint64_t begin = (uint64_t)index * chunk;

    return begin >= bytes ? 0 : bytes - begin < chunk ? (uint32_t)(bytes - begin) : chunk;
}

/* How many of `chunks` chunks are this CTA's. */
BRAID_FN uint32_t exchange_share(uint32_t chunks)
{
    uint32_t block = braid_ptx_block(), blocks = braid_ptx_blocks();

    return chunks <= block ? 0 : (chunks - block + blocks - 1) / blocks;
}

/* This CTA's chunk number `k` in the block. */
BRAID_FN uint32_t exchange_chunk(uint32_t k)
{
    return braid_ptx_block() + k * braid_ptx_blocks();
}

BRAID_FN void exchange_open(const struct braid_devcomm *c, struct exchange_shared *s)
{
    uint32_t t = braid_ptx_thread();

    if (t == 0) {
        s->arrived = 0;
        s->failed = braid_failed_thread(c) != 0;
    }
    if (t < BRAID_OPS_PUSHERS)
        s->written[t] = 0;
    if (t < BRAID_OPS_WORKERS)
        s->done[t] = 0;
}

BRAID_FN uint32_t exchange_read(const uint32_t *word)
{
    return braid_ptx_load_acquire_cta_shared(braid_ptx_shared(word));
}

BRAID_FN void exchange_count(uint32_t *word, uint32_t count)
{
    braid_ptx_store_release_cta_shared(braid_ptx_shared(word), count);
}

/* A wait of this CTA has failed: before anything that was to follow it is counted. */
BRAID_FN void exchange_fail(struct exchange_shared *s)
{
    exchange_count(&s->failed, 1);
}

BRAID_FN int exchange_failed(const struct exchange_shared *s)
{
    return exchange_read(&s->failed) != 0;
}

/* Waits until a count is above `index`. Its writer is a role of this CTA, whose own waits are bounded. */
BRAID_FN void exchange_await(const uint32_t *word, uint32_t index)
{
    while (exchange_read(word) <= index) {
    }
}

BRAID_FN uint32_t exchange_peer(uint32_t rank, uint32_t ranks, uint32_t hop)
{
    return rank + hop < ranks ? rank + hop : rank + hop - ranks;
}

/*
 * A walk over what one pusher moves: its chunks, and for each the peers from the next rank on, so that ranks do not all push to the same
 * one; hops = 1 when all peers get the same bytes at once. Plan says what to move:
 *   plan.chunks                 chunks of the longest block
 *   plan.same                   every peer gets the same bytes (loaded once)
 *   plan.piece(chunk, peer)     from, to, bytes of that chunk for that peer (bytes 0: nothing)
 *   plan.room(chunk, peer)      is there room for the chunk at the peer now?
 *   plan.begin(chunk, peer)     waits until there is; a status
 *   plan.flag(chunk, peer)      after the chunk is written there
 */
struct cursor {
    uint32_t chunk;  /* index in the block */
    uint32_t hop;    /* peer = rank + hop */
    uint32_t offset; /* in the chunk */
};

template <class Plan> struct walk {
    const Plan &plan;
    uint32_t rank, ranks, hops;

    __device__ __forceinline__ struct cursor begin(uint32_t turn) const
    {
        return {braid_ptx_block() + turn * braid_ptx_blocks(), 1, 0};
    }

    __device__ __forceinline__ uint32_t peer(uint32_t hop) const
    {
        return exchange_peer(rank, ranks, hop);
    }

    /* To the next chunk and peer. */
    __device__ __forceinline__ void skip(struct cursor &at) const
    {
        at.offset = 0;
        at.hop++;
        if (at.hop > hops) {
            at.hop = 1;
            at.chunk += braid_ptx_blocks() * BRAID_OPS_PUSHERS;
        }
    }

    /* To the first chunk and peer from here on that has something to move; 0 at the end. */
    __device__ __forceinline__ int seek(struct cursor &at) const
    {
        BRAID_NO_UNROLL
        for (; at.chunk < plan.chunks; skip(at)) {
            if (plan.piece(at.chunk, peer(at.hop)).bytes != 0)
                return 1;
        }
        return 0;
    }

    /* The next piece for the bulk copies; `last`: it ends its chunk. Moves the cursor on. 0 at the end. */
    __device__ __forceinline__ int next(struct cursor &at, struct piece &p, int &last) const
    {
        struct piece whole;

        if (!seek(at))
            return 0;
        whole = plan.piece(at.chunk, peer(at.hop));
        p.from = whole.from + at.offset;
        p.to = whole.to + at.offset;
        p.bytes =
            whole.bytes - at.offset < BRAID_BULK_PIECE ? whole.bytes - at.offset : BRAID_BULK_PIECE;
        last = at.offset + p.bytes == whole.bytes;
        if (last)
            skip(at);
        else
            at.offset += p.bytes;
        return 1;
    }
};

/* A pusher: one thread with a ring of its own. */
template <class Plan> struct pusher {
    struct walk<Plan> w;
    struct braid_bulk ring;
    struct exchange_shared *s;
    int failed; /* nothing is stored any more, though everything is counted */

    /* Starts loads as far as the ring has room. */
    __device__ __forceinline__ void load(struct cursor &at)
    {
        struct piece p;
        int last;

        BRAID_NO_UNROLL
        while (braid_bulk_room(&ring) && w.next(at, p, last)) {
            if (p.bytes >= 16)
                braid_bulk_load(&ring, p.from, p.bytes & ~15u);
        }
    }

    /* Stores one piece, `offset` bytes into its chunk, to its peer or to all; the last few bytes of an odd length go by ordinary stores. */
    __device__ __forceinline__ void store(const struct piece &p, uint32_t chunk, uint32_t hop,
                                          uint32_t offset)
    {
        uint32_t bulk = p.bytes & ~15u;
        uint32_t shared = bulk != 0 ? braid_bulk_piece(&ring) : 0;
        struct braid_vec16 rest = braid_load_part(p.from + bulk, p.bytes - bulk);

        BRAID_NO_UNROLL
        for (uint32_t i = hop; i < (w.plan.same ? w.ranks : hop + 1); i++) {
            uint64_t to = i == hop ? p.to : w.plan.piece(chunk, w.peer(i)).to + offset;

            if (offset == 0 && !failed && w.plan.begin(chunk, w.peer(i)) != 0) {
                exchange_fail(s);
                failed = 1;
            }
            if (BRAID_UNLIKELY(failed))
                break;
            if (bulk != 0)
                braid_ptx_bulk_store((void *)to, shared, bulk);
            if (p.bytes != bulk)
                braid_store_part(to + bulk, p.bytes - bulk, rest);
        }
        if (bulk != 0)
            braid_bulk_next(&ring);
    }

    /* May the chunk go to its peers without waiting? */
    __device__ __forceinline__ int room(uint32_t chunk, uint32_t hop)
    {
        int all = 1;

        BRAID_NO_UNROLL
        for (uint32_t i = hop; i < (w.plan.same ? w.ranks : hop + 1); i++)
            all &= w.plan.room(chunk, w.peer(i));
        return all;
    }

    /* Moves the chunks of pusher `turn`. A chunk counts as written when the next one is on its way, so that the link never drains; but
     * before a wait for room everything is written and counted, because the room may depend on it. */
    __device__ __forceinline__ void run(uint32_t turn)
    {
        uint32_t *written = &s->written[turn];
        struct cursor loads = w.begin(turn), stores = loads;
        uint32_t pieces = 0, count = 0, offset = 0;
        struct piece p;
        int last;

        load(loads);
        BRAID_NO_UNROLL
        while (w.seek(stores)) {
            uint32_t chunk = stores.chunk, hop = stores.hop;

            if (offset == 0 && count != 0 && !room(chunk, hop)) {
                braid_bulk_drain();
                exchange_count(written, count);
            }
            w.next(stores, p, last);
            store(p, chunk, hop, offset);
            offset = last ? 0 : offset + p.bytes;
            pieces += p.bytes >= 16;
            if (last) {
                braid_bulk_settle(pieces);
                exchange_count(written, count++);
                pieces = 0;
            }
            load(loads);
        }
        braid_bulk_drain();
        exchange_count(written, count);
    }
};

/* The same by a whole warp, for addresses that bulk copies cannot take. */
template <class Plan>
BRAID_FN void push_unaligned(const struct walk<Plan> &w, uint32_t turn, struct exchange_shared *s)
{
    struct cursor at = w.begin(turn);
    uint32_t count = 0;
    int failed = exchange_failed(s);

    BRAID_NO_UNROLL
    for (; w.seek(at); w.skip(at)) {
        BRAID_NO_UNROLL
        for (uint32_t i = at.hop; i < (w.plan.same ? w.ranks : at.hop + 1); i++) {
            struct piece p = w.plan.piece(at.chunk, w.peer(i));

            if (braid_ptx_lane() == 0 && !failed && w.plan.begin(at.chunk, w.peer(i)) != 0) {
                exchange_fail(s);
                failed = 1;
            }
            braid_ptx_sync_warp(); /* the vote below orders no memory */
            failed = braid_ptx_any_in_warp(failed);
            BRAID_NO_UNROLL
            for (uint32_t o = 16 * braid_ptx_lane(); o < p.bytes && !failed; o += 512)
                braid_store_part(p.to + o, p.bytes - o, braid_load_part(p.from + o, p.bytes - o));
        }
        braid_ptx_sync_warp();
        if (braid_ptx_lane() == 0)
            exchange_count(&s->written[turn], ++count);
    }
}

/* The pushers' warps. */
template <class Plan>
BRAID_FN void exchange_push(const struct walk<Plan> &w, uint32_t turn, uint32_t aligned,
                            struct exchange_shared *s)
{
    if (!aligned) {
        push_unaligned(w, turn, s);
    } else if (braid_ptx_lane() == 0) {
        struct pusher<Plan> p = {
            w, braid_bulk_open_thread(exchange_memory + turn * BRAID_BULK_SHARED), s,
                exchange_failed(s)
        };

        p.run(turn);
    }
}

/* Waits until this CTA's chunk number `k` has been read for every peer. */
BRAID_FN void exchange_await_pushed(const struct exchange_shared *s, uint32_t k, uint32_t hops)
{
    exchange_await(&s->written[k % BRAID_OPS_PUSHERS], (k / BRAID_OPS_PUSHERS + 1) * hops - 1);
}

/*
 * The announcer: lane q follows pusher q. One fence covers what all pushers have written by then: a pusher's writes are complete when it
 * counts them, the lane has acquired the count, and its flags follow its fence. After a failure nothing is announced.
 */
template <class Plan>
BRAID_FN void exchange_announce(const struct walk<Plan> &w, const struct exchange_shared *s)
{
    uint32_t lane = braid_ptx_lane();
    struct cursor at = w.begin(lane);
    uint32_t announced = 0;
    int more = lane < BRAID_OPS_PUSHERS && w.seek(at);

    BRAID_NO_UNROLL
    while (braid_ptx_any_in_warp(more)) {
        uint32_t written = more ? exchange_read(&s->written[lane]) : announced;
        int failed;

        if (!braid_ptx_any_in_warp(written != announced))
            continue;
        failed = exchange_failed(s);
        braid_ptx_fence_sys();
        BRAID_NO_UNROLL
        for (; announced != written; announced++) {
            for (uint32_t i = at.hop; i < (w.plan.same ? w.ranks : at.hop + 1) && !failed; i++)
                w.plan.flag(at.chunk, w.peer(i));
            w.skip(at);
            more = w.seek(at);
        }
        braid_ptx_sync_warp();
    }
}

/*
 * The waiter: lane i watches chunk number base + i of this CTA, from each peer in turn that sends it (has(chunk, peer)); s->arrived counts
 * the chunks of kind 0 without a gap. kind as in op_flag. All lanes of one warp.
 */
template <class Has>
BRAID_FN void exchange_wait(const struct braid_devcomm *c, const struct braid_devwin *w,
                            const struct braid_ops_layout *l, const struct op *op,
                            struct exchange_shared *s, uint32_t kind, uint32_t total, Has has)
{
    uint32_t lane = braid_ptx_lane();
    uint32_t base = 0, hop = 1, seen = 0;
    uint64_t start_ns = 0;
    int polls = 0, status = 0;

    BRAID_NO_UNROLL
    while (base < total) {
        uint32_t chunk = exchange_chunk(base + lane);
        uint32_t here, step;

        BRAID_NO_UNROLL
        while (base + lane < total && hop < l->ranks) {
            uint32_t peer = exchange_peer(l->rank, l->ranks, hop);

            if (has(chunk, peer)) {
                seen =
                    braid_ptx_load_acquire_sys_u32(op_flag(w, l, op, kind, peer, l->rank, chunk));
                if (seen != op->flag && status == 0)
                    break;
            }
            hop++;
        }
        here = braid_ptx_vote_warp(base + lane >= total || hop >= l->ranks);
        step = here == 0xffffffffu ? 32 : (uint32_t)__ffs((int)~here) - 1;
        if (step != 0) {
            braid_ptx_sync_warp(); /* what any lane has acquired, before lane 0 counts it */
            base = base + step < total ? base + step : total;
            if (lane == 0 && kind == 0)
                exchange_count(&s->arrived, base);
            hop = braid_ptx_from_lane(hop, (lane + step) & 31);
            if (lane + step >= 32)
                hop = 1;
            polls = 0;
            start_ns = 0;
        } else if (++polls == BRAID_LL_POLLS) {
            polls = 0;
            status = braid_wait_check_warp(c, &start_ns);
            if (status != 0 && lane == 0) {
                exchange_fail(s);
                braid_fail_thread(c, status, kind == 0 ? BRAID_WAIT_CHUNK : BRAID_WAIT_RESULT,
                                  (int)exchange_peer(l->rank, l->ranks, hop), chunk, op->flag, seen,
                                  braid_ptx_now_ns() - start_ns);
            }
        }
    }
}

/* A worker warp has finished this CTA's chunk number `k`. */
BRAID_FN void exchange_done(struct exchange_shared *s, uint32_t k)
{
    braid_ptx_sync_warp();
    if (braid_ptx_lane() == 0)
        exchange_count(&s->done[braid_ptx_thread() / 32 - BRAID_OPS_SERVICE], k / GROUPS + 1);
}

/*
 * The flagger: chunk after chunk, once all warps of its group have finished it, tell(chunk, peer) decides whether the peer wants to know,
 * and its kind 1 flag is stored there, unless something has failed. Group g has the chunks g, g + GROUPS, ...: the first one that some warp
 * has not finished is the smallest g + GROUPS * done.
 */
template <class Tell>
BRAID_FN void exchange_flag(const struct braid_devwin *w, const struct braid_ops_layout *l,
                            const struct op *op, const struct exchange_shared *s, uint32_t total,
                            Tell tell)
{
    uint32_t lane = braid_ptx_lane();
    uint32_t base = 0;

    BRAID_NO_UNROLL
    while (base < total) {
        uint32_t next = total;
        int failed;

        if (lane < BRAID_OPS_WORKERS)
            next = lane / GROUP_WARPS + GROUPS * exchange_read(&s->done[lane]);
        next = (uint32_t)braid_ptx_min_in_warp((int)(next < total ? next : total));
        if (next == base)
            continue;
        braid_ptx_sync_warp();
        failed = exchange_failed(s);
        braid_ptx_fence_sys(); /* each lane: what it, or the lane beside it, has seen of the workers, before its own flags */
        BRAID_NO_UNROLL
        for (uint32_t k = base + lane; k < next && !failed; k += 32) {
            uint32_t chunk = exchange_chunk(k);

            for (uint32_t hop = 1; hop < l->ranks; hop++) {
                uint32_t peer = exchange_peer(l->rank, l->ranks, hop);

                if (tell(chunk, peer))
                    braid_ptx_store_relaxed_sys_u32(op_flag(w, l, op, 1, l->rank, peer, chunk),
                                                    op->flag);
            }
        }
        base = next;
    }
}

/* Has `peer` finished chunk `chunk` - slots, whose place in its staging chunk `chunk` takes? One thread. */
BRAID_FN int exchange_room(const struct braid_devwin *w, const struct braid_ops_layout *l,
                           const struct op *op, uint32_t slots, uint32_t chunk, uint32_t peer)
{
    return chunk < slots || braid_ptx_load_acquire_sys_u32(
                                op_flag(w, l, op, 1, peer, l->rank, chunk - slots)) == op->flag;
}

/* Waits until it has. Returns a status. */
BRAID_FN int exchange_await_room(const struct braid_devcomm *c, const struct braid_devwin *w,
                                 const struct braid_ops_layout *l, const struct op *op,
                                 uint32_t slots, uint32_t chunk, uint32_t peer)
{
    return chunk < slots ? BRAID_DEV_OK
                         : op_wait_thread(c, op_flag(w, l, op, 1, peer, l->rank, chunk - slots),
                                          op->flag, BRAID_WAIT_RESULT, peer, chunk - slots);
}

/* A worker's number in its group, and the group's. */
BRAID_FN uint32_t exchange_group(void)
{
    return (braid_ptx_thread() / 32 - BRAID_OPS_SERVICE) / GROUP_WARPS;
}

BRAID_FN uint32_t exchange_group_thread(void)
{
    return braid_ptx_thread() - 32 * (BRAID_OPS_SERVICE + GROUP_WARPS * exchange_group());
}

#endif
