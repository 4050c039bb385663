/*
 * Large collectives: chunks travel through staging buffers (or straight into the result) with a flag each. One CTA is four roles that
 * only meet in shared memory:
 *   pushers  four threads; bulk copies of this rank's chunks to the peers, a flag behind each chunk. A flag needs its chunk to be written
 *            there, which takes longer than sending the next; so they take turns
 *   waiter   one warp; waits for peers' chunk flags, in order, and counts what has arrived
 *   flagger  one warp; when all workers are done with a chunk whose result goes to peers, stores the flags
 *   workers  the other warps; sum or copy arrived chunks
 * Chunk c belongs to CTA c mod grid here; flags are per chunk, so ranks may run different grids. Nobody waits for another CTA of its
 * own GPU, chunks are taken in ascending order, and pushes wait for nothing but `ready`, so any number of CTAs makes progress.
 * A failed wait changes no control flow: all roles run to the end and the host finds the reason.
 */
#ifndef BRAID_DEVICE_OPS_EXCHANGE_CUH
#define BRAID_DEVICE_OPS_EXCHANGE_CUH

#define BRAID_BULK_PIECE  8192u
#define BRAID_BULK_STAGES 4
#include <braid/device/bulk.cuh>
#include <braid/device/reduce.cuh>

#include "common.cuh"

#define EXCHANGE_WARPS 32u /* of a CTA, at most */

/* The pushers' rings: BRAID_BULK_SHARED bytes each, dynamic (BRAID_OPS_RING_BYTES on the host). */
extern __shared__ __align__(128) uint8_t exchange_memory[];

/* What the roles tell each other; counts of this CTA's chunks. Each word has one writer. */
struct exchange_shared {
    uint32_t arrived; /* chunks whose data from every peer is here */
    uint32_t
        pushed[BRAID_OPS_PUSHERS]; /* by pusher: its chunks that have been read for every peer */
    uint32_t done[EXCHANGE_WARPS]; /* by worker warp: chunks finished */
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

BRAID_FN void exchange_open(struct exchange_shared *s)
{
    uint32_t t = braid_ptx_thread();

    if (t == 0)
        s->arrived = 0;
    if (t < BRAID_OPS_PUSHERS)
        s->pushed[t] = 0;
    if (t < EXCHANGE_WARPS)
        s->done[t] = 0;
}

/* Waits until a count in shared memory is above `index`. Its writer is a role of this CTA, whose own waits are bounded. */
BRAID_FN void exchange_await(const uint32_t *word, uint32_t index)
{
    uint32_t shared = braid_ptx_shared(word);

    while (braid_ptx_load_acquire_cta_shared(shared) <= index) {
    }
}

BRAID_FN void exchange_count(uint32_t *word, uint32_t count)
{
    braid_ptx_store_release_cta_shared(braid_ptx_shared(word), count);
}

/* Waits until chunk number `k` of this CTA has been read for every peer. */
BRAID_FN void exchange_await_pushed(const struct exchange_shared *s, uint32_t k)
{
    exchange_await(&s->pushed[k % BRAID_OPS_PUSHERS], k / BRAID_OPS_PUSHERS);
}

/* A worker warp has finished this CTA's chunk number `k`. */
BRAID_FN void exchange_done(struct exchange_shared *s, uint32_t k)
{
    braid_ptx_sync_warp();
    if (braid_ptx_lane() == 0)
        exchange_count(&s->done[braid_ptx_thread() / 32], k + 1);
}

/* The flagger waits until all worker warps have finished chunk number `k`; all its lanes then see what the workers wrote. */
BRAID_FN void exchange_await_workers(const struct exchange_shared *s, uint32_t k)
{
    uint32_t lane = braid_ptx_lane();
    uint32_t warps = braid_ptx_threads() / 32;
    uint32_t word = braid_ptx_shared(&s->done[lane]);
    int worker = lane >= BRAID_OPS_SERVICE && lane < warps;
    uint32_t seen = k + 1;

    do {
        if (worker)
            seen = braid_ptx_load_acquire_cta_shared(word);
    } while (!braid_ptx_all_in_warp(seen > k));
    braid_ptx_sync_warp();
}

/*
 * The pusher's walk over (chunk, peer) and the pieces inside: a cursor. Peers are visited from the next rank on, so that ranks do
 * not all push to the same one.
 */
struct cursor {
    uint32_t chunk;  /* index in the block */
    uint32_t hop;    /* peer = rank + hop */
    uint32_t offset; /* in the chunk */
};

BRAID_FN uint32_t exchange_peer(uint32_t rank, uint32_t ranks, uint32_t hop)
{
    return rank + hop < ranks ? rank + hop : rank + hop - ranks;
}

/*
 * A pusher: one thread, one in BRAID_OPS_PUSHERS of the CTA's chunks. Plan gives what to move:
 *   plan.chunks                       chunks of the longest block
 *   plan.piece(chunk, peer)           from, to, bytes of that chunk for that peer (bytes 0: nothing)
 *   plan.same                         every peer gets the same bytes (loaded once)
 *   plan.begin(peer)                  before the first store to a peer
 *   plan.flag(chunk, peer)            after the chunk is written there
 * With `same`, a hop is a chunk for all peers at once.
 */
template <class Plan> struct pusher {
    const Plan &plan;
    struct braid_bulk ring;
    uint32_t rank, ranks;
    uint32_t hops; /* groups of a chunk: 1 when all peers get the same, else ranks - 1 */

    /* The piece at a cursor; moves the cursor to the next one. Returns 0 at the end of the walk. */
    __device__ __forceinline__ int next(struct cursor &at, struct piece &p, uint32_t &chunk,
                                        uint32_t &hop, int &last)
    {
        BRAID_NO_UNROLL
        while (at.chunk < plan.chunks) {
            struct piece whole = plan.piece(at.chunk, exchange_peer(rank, ranks, at.hop));

            chunk = at.chunk;
            hop = at.hop;
            p.from = whole.from + at.offset;
            p.to = whole.to + at.offset;
            p.bytes = whole.bytes - at.offset < BRAID_BULK_PIECE ? whole.bytes - at.offset
                                                                 : BRAID_BULK_PIECE;
            last = at.offset + p.bytes == whole.bytes;
            at.offset += p.bytes;
            if (last) {
                at.offset = 0;
                at.hop++;
                if (at.hop > hops) {
                    at.hop = 1;
                    at.chunk += braid_ptx_blocks() * BRAID_OPS_PUSHERS;
                }
            }
            if (whole.bytes != 0)
                return 1;
        }
        return 0;
    }

    /* Starts loads as far as the ring has room. */
    __device__ __forceinline__ void load(struct cursor &at)
    {
        struct piece p;
        uint32_t chunk, hop;
        int last;

        BRAID_NO_UNROLL
        while (braid_bulk_room(&ring) && next(at, p, chunk, hop, last)) {
            if (p.bytes >= 16)
                braid_bulk_load(&ring, p.from, p.bytes & ~15u);
        }
    }

    /* Stores one piece to its peer, or to all; the last few bytes of an odd length go by ordinary stores. */
    __device__ __forceinline__ void store(const struct piece &p, uint32_t chunk, uint32_t hop)
    {
        uint32_t bulk = p.bytes & ~15u;
        uint32_t shared = bulk != 0 ? braid_bulk_piece(&ring) : 0;
        struct braid_vec16 rest = braid_load_part(p.from + bulk, p.bytes - bulk);

        BRAID_NO_UNROLL
        for (uint32_t i = hop; i < (plan.same ? ranks : hop + 1); i++) {
            uint32_t peer = exchange_peer(rank, ranks, i);
            uint64_t to = p.to;

            if (i != hop) {
                struct piece first = plan.piece(chunk, exchange_peer(rank, ranks, hop));

                to = plan.piece(chunk, peer).to + (p.to - first.to);
            }
            plan.begin(peer);
            if (bulk != 0)
                braid_ptx_bulk_store((void *)to, shared, bulk);
            if (p.bytes != bulk)
                braid_store_part(to + bulk, p.bytes - bulk, rest);
        }
        if (bulk != 0)
            braid_bulk_next(&ring);
    }

    __device__ __forceinline__ void flag(uint32_t chunk, uint32_t hop)
    {
        braid_ptx_fence_sys();
        BRAID_NO_UNROLL
        for (uint32_t i = hop; i < (plan.same ? ranks : hop + 1); i++)
            plan.flag(chunk, exchange_peer(rank, ranks, i));
    }

    /*
     * Moves the chunks of pusher `turn`. The flag of a chunk is stored when the next one is on its way, so that the link never drains;
     * *pushed counts the chunks that all peers' copies have been read from.
     */
    __device__ __forceinline__ void run(uint32_t turn, uint32_t *pushed)
    {
        struct cursor loads = {braid_ptx_block() + turn * braid_ptx_blocks(), 1, 0};
        struct cursor stores = loads;
        struct piece p;
        uint32_t chunk, hop, before_chunk = 0, before_hop = 0, pieces = 0, groups = 0;
        int last, before = 0;

        load(loads);
        BRAID_NO_UNROLL
        while (next(stores, p, chunk, hop, last)) {
            store(p, chunk, hop);
            pieces += p.bytes >= 16;
            if (last) {
                if (before) {
                    braid_bulk_settle(pieces);
                    flag(before_chunk, before_hop);
                    exchange_count(pushed, ++groups / hops);
                }
                before = 1;
                before_chunk = chunk;
                before_hop = hop;
                pieces = 0;
            }
            load(loads);
        }
        braid_bulk_drain();
        if (before)
            flag(before_chunk, before_hop);
        exchange_count(pushed, 0xffffffffu);
    }
};

/* The same work by all threads of the CTA, for addresses that bulk copies cannot take. Ends with a barrier. */
template <class Plan>
BRAID_FN void push_unaligned(const Plan &plan, uint32_t rank, uint32_t ranks,
                             struct exchange_shared *s)
{
    BRAID_NO_UNROLL
    for (uint32_t chunk = braid_ptx_block(); chunk < plan.chunks; chunk += braid_ptx_blocks()) {
        BRAID_NO_UNROLL
        for (uint32_t hop = 1; hop < ranks; hop++) {
            uint32_t peer = exchange_peer(rank, ranks, hop);
            struct piece p = plan.piece(chunk, peer);

            if (p.bytes == 0)
                continue;
            plan.begin_all(peer);
            braid_copy_group((void *)p.to, (const void *)p.from, p.bytes, braid_ptx_thread(),
                             braid_ptx_threads());
            braid_ptx_sync_cta();
            if (braid_ptx_thread() == 0) {
                braid_ptx_fence_sys();
                plan.flag(chunk, peer);
            }
        }
    }
    if (braid_ptx_thread() < BRAID_OPS_PUSHERS)
        exchange_count(&s->pushed[braid_ptx_thread()], 0xffffffffu);
    braid_ptx_sync_cta();
}

/* The pushers' warps: the first lane of each pushes. */
template <class Plan>
BRAID_FN void push_bulk(const Plan &plan, uint32_t rank, uint32_t ranks, uint32_t turn,
                        struct exchange_shared *s)
{
    if (braid_ptx_lane() == 0) {
        struct pusher<Plan> p = {
            plan, braid_bulk_open_thread(exchange_memory + turn * BRAID_BULK_SHARED), rank, ranks,
                plan.same ? 1 : ranks - 1
        };

        p.run(turn, &s->pushed[turn]);
    }
}

/*
 * A warp waits for chunk `chunk` from every peer that sends it; has(peer) says which do. One flag a lane, 32 peers at a time.
 */
template <class Has>
BRAID_FN void exchange_wait(const struct braid_devcomm *c, const struct braid_devwin *w,
                            const struct braid_ops_layout *l, const struct op *op, uint32_t kind,
                            uint32_t chunk, Has has)
{
    BRAID_NO_UNROLL
    for (uint32_t first = 0; first < l->ranks; first += 32) {
        uint32_t peer = first + braid_ptx_lane();
        const uint32_t *word = nullptr;

        if (peer < l->ranks && peer != l->rank && has(peer))
            word = op_flag(w, l, op, kind, peer, l->rank, chunk);
        op_wait_warp(c, word, op->flag, kind == 0 ? BRAID_WAIT_CHUNK : BRAID_WAIT_RESULT, peer,
                     chunk);
    }
}

#endif
