/*
 * Small collectives by LL packets: one crossing, no fence. Each rank writes its data, with the operation's flag in every packet, into
 * the packet area of every peer, then polls its own area.
 *
 * A packet is one 128-bit element: 12 bytes of data, then the flag. The PTX memory model reads and writes such an element whole, so
 * data and flag need no ordering. A warp moves 96 vectors of 16 bytes in 128 packets: packet (j, lane), j < 3, holds the first 12
 * bytes of vector (j, lane), and packet (3, lane) the last 4 bytes of vectors (0, lane), (1, lane), (2, lane). The mapping does not
 * depend on the grid, so ranks may use different ones. Packets whose vectors are all beyond the end are not sent.
 */
#ifndef BRAID_DEVICE_OPS_LL_CUH
#define BRAID_DEVICE_OPS_LL_CUH

#include <braid/device/reduce.cuh>

#include "common.cuh"

/* The three vectors of a lane. */
struct ll_vectors {
    struct braid_vec16 v[3];
};

/* Where a lane's vectors of a tile are: vector j begins at `offset` + 512 j of its block, and is there if `left` > 512 j. */
struct ll_spot {
    uint64_t offset;
    uint64_t packet; /* of packet (0, lane) in the packet area */
    int32_t left;    /* bytes from `offset` to the end of the block, at most 2048 */
};

BRAID_FN struct ll_spot ll_find(uint64_t bytes, uint64_t tile, uint32_t lane)
{
    struct ll_spot s;

    s.offset = 16 * (tile * BRAID_OPS_LL_VECTOR + lane);
    s.packet = 16 * (tile * BRAID_OPS_LL_PACKET + lane);
    s.left = s.offset >= bytes ? 0 : bytes - s.offset < 2048 ? (int32_t)(bytes - s.offset) : 2048;
    return s;
}

BRAID_FN int ll_has(const struct ll_spot *s, int j)
{
    return s->left > 512 * j;
}

/* WHOLE: the block is aligned and a multiple of 16 bytes. */
template <bool WHOLE> BRAID_FN struct ll_vectors ll_load(uint64_t block, const struct ll_spot *s)
{
    struct ll_vectors x = {};

    BRAID_UNROLL
    for (int j = 0; j < 3; j++) {
        uint64_t p = block + s->offset + 512 * j;

        if constexpr (WHOLE)
            braid_ptx_load16_if(&x.v[j], (const void *)p, ll_has(s, j));
        else if (ll_has(s, j))
            x.v[j] = braid_load_part(p, s->left - 512 * j);
    }
    return x;
}

template <bool WHOLE>
BRAID_FN void ll_store(uint64_t block, const struct ll_spot *s, int j, const struct braid_vec16 &v)
{
    uint64_t p = block + s->offset + 512 * j;

    if (!ll_has(s, j))
        return;
    if constexpr (WHOLE)
        braid_ptx_store16((void *)p, v);
    else
        braid_store_part(p, s->left - 512 * j, v);
}

BRAID_FN struct braid_vec16 ll_pack(uint64_t first, uint32_t third, uint32_t flag)
{
    struct braid_vec16 p;

    p.lo = first;
    p.hi = (uint64_t)flag << 32 | third;
    return p;
}

/* Sends the lane's vectors of a tile to the packet area at `packets`. */
BRAID_FN void ll_send(uint64_t packets, const struct ll_spot *s, const struct ll_vectors &x,
                      uint32_t flag)
{
    uint64_t to = packets + s->packet;
    uint64_t rest = (x.v[0].hi >> 32) | (x.v[1].hi & 0xffffffff00000000ull);

    BRAID_UNROLL
    for (int j = 0; j < 3; j++)
        braid_ptx_store_whole16_if((void *)(to + 512 * j),
                                   ll_pack(x.v[j].lo, (uint32_t)x.v[j].hi, flag), ll_has(s, j));
    braid_ptx_store_whole16_if((void *)(to + 512 * 3),
                               ll_pack(rest, (uint32_t)(x.v[2].hi >> 32), flag), ll_has(s, 0));
}

/* One look at the lane's packets of a tile; nonzero when all that will come have arrived. */
BRAID_FN int ll_poll(uint64_t packets, const struct ll_spot *s, uint32_t flag,
                     struct braid_vec16 *p)
{
    uint64_t from = packets + s->packet;
    int here = 1;

    BRAID_UNROLL
    for (int j = 0; j < 4; j++)
        braid_ptx_load_whole16_if(&p[j], (const void *)(from + 512 * j), ll_has(s, j < 3 ? j : 0));
    BRAID_UNROLL
    for (int j = 0; j < 4; j++)
        here &= !ll_has(s, j < 3 ? j : 0) | ((uint32_t)(p[j].hi >> 32) == flag);
    return here;
}

BRAID_FN struct ll_vectors ll_unpack(const struct braid_vec16 *p)
{
    struct ll_vectors x;

    x.v[0].lo = p[0].lo;
    x.v[0].hi = (p[3].lo << 32) | (uint32_t)p[0].hi;
    x.v[1].lo = p[1].lo;
    x.v[1].hi = (p[3].lo & 0xffffffff00000000ull) | (uint32_t)p[1].hi;
    x.v[2].lo = p[2].lo;
    x.v[2].hi = (p[3].hi << 32) | (uint32_t)p[2].hi;
    return x;
}

/* Receives the lane's vectors of a tile: all 32 lanes poll until every one has its own. Returns a status; garbage on failure. */
BRAID_FN int ll_receive(const struct braid_devcomm *c, uint64_t packets, const struct ll_spot *s,
                        uint32_t flag, uint32_t peer, struct ll_vectors *x)
{
    struct braid_vec16 p[4] = {};
    uint64_t start_ns = 0;
    int status;
    int here;

    do {
        BRAID_NO_UNROLL
        for (int poll = 0; poll < BRAID_WAIT_POLLS; poll++) {
            here = ll_poll(packets, s, flag, p);
            if (braid_ptx_all_in_warp(here)) {
                *x = ll_unpack(p);
                return BRAID_DEV_OK;
            }
        }
        status = braid_ptx_any_in_warp(braid_wait_check_thread(c, &start_ns));
    } while (status == 0);
    if (!here) {
        status = braid_wait_check_thread(c, &start_ns);
        braid_fail_thread(c, status != 0 ? status : BRAID_DEV_TIMEOUT, BRAID_WAIT_OPS_PACKET,
                          (int)peer, (uint32_t)(s->packet / 16), flag, p[0].hi >> 32,
                          braid_ptx_now_ns() - start_ns);
    }
    braid_ptx_sync_warp();
    *x = ll_unpack(p);
    return BRAID_DEV_TIMEOUT;
}

/* Tiles of a block, and this warp's first and step. */
BRAID_FN uint64_t ll_tiles(uint64_t bytes)
{
    return (bytes + 16 * BRAID_OPS_LL_VECTOR - 1) / (16 * BRAID_OPS_LL_VECTOR);
}

BRAID_FN uint32_t ll_warp(void)
{
    return braid_ptx_block() * (braid_ptx_threads() / 32) + braid_ptx_thread() / 32;
}

BRAID_FN uint32_t ll_warps(void)
{
    return braid_ptx_blocks() * (braid_ptx_threads() / 32);
}

/* Sums the lane's vectors over all ranks, in rank order, and stores the rounded result. RANKS is 2, or 0: any number. */
template <int NUMBER, int RANKS, bool WHOLE>
BRAID_FN void ll_reduce_tile(const struct braid_devcomm *c, const struct braid_devwin *w,
                             const struct braid_ll_reduce_args *a, const struct op *op,
                             const struct ll_spot *s)
{
    constexpr int LANES = braid_number<NUMBER>::lanes;
    const struct braid_ops_layout *l = &a->layout;
    struct ll_vectors mine = ll_load<WHOLE>(a->in + a->stride * l->rank, s);
    float sum[3][LANES];

    if constexpr (RANKS == 2) {
        struct ll_vectors other;

        ll_receive(c, op_packets(w, l, op, l->rank ^ 1u, l->rank), s, op->flag, l->rank ^ 1u,
                   &other);
        BRAID_UNROLL
        for (int j = 0; j < 3; j++) { /* of two numbers the order does not matter */
            braid_unpack16<NUMBER>(mine.v[j], sum[j]);
            braid_add16<NUMBER>(sum[j], other.v[j]);
        }
    } else {
        BRAID_UNROLL
        for (int j = 0; j < 3; j++) {
            BRAID_UNROLL
            for (int i = 0; i < LANES; i++)
                sum[j][i] = 0.0f;
        }
        BRAID_NO_UNROLL
        for (uint32_t r = 0; r < l->ranks; r++) {
            struct ll_vectors x = mine;

            if (r != l->rank)
                ll_receive(c, op_packets(w, l, op, r, l->rank), s, op->flag, r, &x);
            BRAID_UNROLL
            for (int j = 0; j < 3; j++)
                braid_add16<NUMBER>(sum[j], x.v[j]);
        }
    }
    BRAID_UNROLL
    for (int j = 0; j < 3; j++) {
        BRAID_UNROLL
        for (int i = 0; i < LANES; i++)
            sum[j][i] *= a->scale;
        ll_store<WHOLE>(a->out, s, j, braid_pack16<NUMBER>(sum[j]));
    }
}

template <bool WHOLE>
BRAID_FN void ll_reduce_send(const struct braid_devwin *w, const struct braid_ll_reduce_args *a,
                             const struct op *op, const struct ll_spot *s)
{
    const struct braid_ops_layout *l = &a->layout;
    struct ll_vectors x;

    if (a->stride == 0)
        x = ll_load<WHOLE>(a->in, s);
    BRAID_NO_UNROLL
    for (uint32_t i = 1; i < l->ranks; i++) {
        uint32_t peer = l->rank + i < l->ranks ? l->rank + i : l->rank + i - l->ranks;

        if (a->stride != 0)
            x = ll_load<WHOLE>(a->in + a->stride * peer, s);
        ll_send(op_packets(w, l, op, l->rank, peer), s, x, op->flag);
    }
}

/*
 * All-reduce (stride 0) and reduce-scatter. In place is allowed: a tile of `in` is overwritten only by the warp that has sent it; with
 * a stride, `out` is this rank's own block of `in`, which nobody else gets, or apart from `in` (the host checks).
 */
template <int NUMBER, int RANKS, bool WHOLE>
BRAID_FN void ll_reduce(const struct braid_devcomm *c, const struct braid_devwin *w,
                        const struct braid_ll_reduce_args *a)
{
    const struct braid_ops_layout *l = &a->layout;
    struct op op = op_begin(c, l);
    uint32_t lane = braid_ptx_lane();
    uint64_t tiles = ll_tiles(a->bytes);
    uint32_t count = 0;

    BRAID_NO_UNROLL
    for (uint64_t tile = ll_warp(); tile < tiles; tile += ll_warps()) {
        struct ll_spot s = ll_find(a->bytes, tile, lane);

        ll_reduce_send<WHOLE>(w, a, &op, &s);
    }
    braid_ptx_allow_next_kernel();
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0)
        count = op_count_thread(c, l);
    BRAID_NO_UNROLL
    for (uint64_t tile = ll_warp(); tile < tiles; tile += ll_warps()) {
        struct ll_spot s = ll_find(a->bytes, tile, lane);

        ll_reduce_tile<NUMBER, RANKS, WHOLE>(c, w, a, &op, &s);
    }
    if (braid_ptx_thread() == 0)
        op_end_thread(c, l, &op, count);
}

/* The first tile that this warp moves to and from `peer`: different warps begin for different peers. */
BRAID_FN uint32_t ll_first(uint32_t rank, uint32_t peer)
{
    uint32_t warps = ll_warps();

    return (ll_warp() + (peer > rank ? peer - rank : rank - peer)) % warps;
}

/* Sends one empty packet, so that the peer hears from this rank; and waits for one. */
BRAID_FN void ll_send_empty(uint64_t packets, uint32_t lane, uint32_t flag)
{
    if (lane == 0)
        braid_ptx_store_whole16((void *)packets, ll_pack(0, 0, flag));
}

BRAID_FN void ll_receive_empty(const struct braid_devcomm *c, uint64_t packets, uint32_t lane,
                               uint32_t flag, uint32_t peer)
{
    /* The flag is the last word of the packet. */
    op_wait_warp(c, lane == 0 ? (const uint32_t *)(packets + 12) : nullptr, flag,
                 BRAID_WAIT_OPS_PACKET, peer, 0);
}

template <bool WHOLE>
BRAID_FN void ll_copy_send(const struct braid_devwin *w, const struct braid_ll_copy_args *a,
                           const struct op *op, uint32_t peer, uint32_t first, uint32_t lane)
{
    const struct braid_copy_peer *p = &a->peer[peer];
    uint64_t packets = op_packets(w, &a->layout, op, a->layout.rank, peer);
    uint64_t tiles = ll_tiles(p->from_bytes);

    if (p->from_bytes == 0 && first == 0)
        ll_send_empty(packets, lane, op->flag);
    BRAID_NO_UNROLL
    for (uint64_t tile = first; tile < tiles; tile += ll_warps()) {
        struct ll_spot s = ll_find(p->from_bytes, tile, lane);

        ll_send(packets, &s, ll_load<WHOLE>(p->from, &s), op->flag);
    }
}

template <bool WHOLE>
BRAID_FN void ll_copy_receive(const struct braid_devcomm *c, const struct braid_devwin *w,
                              const struct braid_ll_copy_args *a, const struct op *op,
                              uint32_t peer, uint32_t first, uint32_t lane)
{
    const struct braid_copy_peer *p = &a->peer[peer];
    uint64_t packets = op_packets(w, &a->layout, op, peer, a->layout.rank);
    uint64_t tiles = ll_tiles(p->into_bytes != 0 ? p->into_bytes : 1);

    BRAID_NO_UNROLL
    for (uint64_t tile = first; tile < tiles; tile += ll_warps()) {
        struct ll_spot s = ll_find(p->into_bytes, tile, lane);
        struct ll_vectors x;

        if (p->into_bytes == 0) { /* one lane's worth: an empty packet is packet 0 alone */
            ll_receive_empty(c, packets, lane, op->flag, peer);
            return;
        }
        ll_receive(c, packets, &s, op->flag, peer, &x);
        BRAID_UNROLL
        for (int j = 0; j < 3; j++)
            ll_store<WHOLE>(p->into, &s, j, x.v[j]);
    }
}

/*
 * All-gather, all-to-all(-v), broadcast. A tile to and from the same peer belongs to one warp, which sends before it receives: so in
 * place is allowed where equal tiles are exchanged.
 */
template <bool WHOLE>
BRAID_FN void ll_copy(const struct braid_devcomm *c, const struct braid_devwin *w,
                      const struct braid_ll_copy_args *a)
{
    const struct braid_ops_layout *l = &a->layout;
    struct op op = op_begin(c, l);
    uint32_t lane = braid_ptx_lane();
    uint32_t count = 0;

    BRAID_NO_UNROLL
    for (uint32_t i = 1; i < l->ranks; i++) {
        uint32_t peer = l->rank + i < l->ranks ? l->rank + i : l->rank + i - l->ranks;

        ll_copy_send<WHOLE>(w, a, &op, peer, ll_first(l->rank, peer), lane);
    }
    braid_ptx_allow_next_kernel();
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0)
        count = op_count_thread(c, l);
    braid_copy_group((void *)a->peer[l->rank].into, (const void *)a->peer[l->rank].from,
                     a->peer[l->rank].from_bytes, ll_warp() * 32 + lane, ll_warps() * 32);
    BRAID_NO_UNROLL
    for (uint32_t i = 1; i < l->ranks; i++) {
        uint32_t peer = l->rank + i < l->ranks ? l->rank + i : l->rank + i - l->ranks;

        ll_copy_receive<WHOLE>(c, w, a, &op, peer, ll_first(l->rank, peer), lane);
    }
    if (braid_ptx_thread() == 0)
        op_end_thread(c, l, &op, count);
}

#endif
