/*
 * Small collectives by LL packets: one crossing, no fence. Each rank writes its data, with the operation's flag in every packet, into
 * the packet area of every peer, then polls its own area. After a failure of its communicator a rank sends nothing, and its peers'
 * waits end with a status, too.
 * The mapping of data to packets (braid/device/ll.cuh) does not depend on the grid, so ranks may use different ones.
 */
#ifndef BRAID_DEVICE_OPS_PACKETS_CUH
#define BRAID_DEVICE_OPS_PACKETS_CUH

#include <braid/device/ll.cuh>
#include <braid/device/reduce.cuh>

#include "common.cuh"

/* This warp's number in the grid, and how many there are. */
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
                             const struct braid_ll_spot *s)
{
    constexpr int LANES = braid_number<NUMBER>::lanes;
    const struct braid_ops_layout *l = &a->layout;
    struct braid_ll_vectors mine = braid_ll_load<WHOLE>(a->in + a->stride * l->rank, s);
    float sum[3][LANES];

    if constexpr (RANKS == 2) {
        struct braid_ll_vectors other;

        braid_ll_receive_warp(c, op_packets(w, l, op, l->rank ^ 1u, l->rank), s, op->flag,
                              l->rank ^ 1u, &other);
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
            struct braid_ll_vectors x = mine;

            if (r != l->rank)
                braid_ll_receive_warp(c, op_packets(w, l, op, r, l->rank), s, op->flag, r, &x);
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
        braid_ll_store<WHOLE>(a->out, s, j, braid_pack16<NUMBER>(sum[j]));
    }
}

template <bool WHOLE>
BRAID_FN void ll_reduce_send(const struct braid_devwin *w, const struct braid_ll_reduce_args *a,
                             const struct op *op, const struct braid_ll_spot *s)
{
    const struct braid_ops_layout *l = &a->layout;
    struct braid_ll_vectors x;

    if (a->stride == 0)
        x = braid_ll_load<WHOLE>(a->in, s);
    BRAID_NO_UNROLL
    for (uint32_t i = 1; i < l->ranks; i++) {
        uint32_t peer = l->rank + i < l->ranks ? l->rank + i : l->rank + i - l->ranks;

        if (a->stride != 0)
            x = braid_ll_load<WHOLE>(a->in + a->stride * peer, s);
        braid_ll_send_warp(op_packets(w, l, op, l->rank, peer), s, x, op->flag);
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
    uint64_t tiles = braid_ll_tiles(a->bytes);
    int failed = braid_failed_thread(c);
    uint32_t count = 0;

    BRAID_NO_UNROLL
    for (uint64_t tile = ll_warp(); tile < tiles && failed == 0; tile += ll_warps()) {
        struct braid_ll_spot s = braid_ll_find(a->bytes, tile, lane);

        ll_reduce_send<WHOLE>(w, a, &op, &s);
    }
    braid_ptx_allow_next_kernel();
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0)
        count = op_count_thread(c, l);
    BRAID_NO_UNROLL
    for (uint64_t tile = ll_warp(); tile < tiles; tile += ll_warps()) {
        struct braid_ll_spot s = braid_ll_find(a->bytes, tile, lane);

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
        braid_ptx_store_whole16((void *)packets, braid_ll_pack(0, 0, flag));
}

BRAID_FN void ll_receive_empty(const struct braid_devcomm *c, uint64_t packets, uint32_t lane,
                               uint32_t flag, uint32_t peer)
{
    /* The flag is the last word of the packet. */
    op_wait_warp(c, lane == 0 ? (const uint32_t *)(packets + 12) : nullptr, flag, BRAID_WAIT_PACKET,
                 peer, 0);
}

template <bool WHOLE>
BRAID_FN void ll_copy_send(const struct braid_devwin *w, const struct braid_ll_copy_args *a,
                           const struct op *op, uint32_t peer, uint32_t first, uint32_t lane)
{
    const struct braid_copy_peer *p = &a->peer[peer];
    uint64_t packets = op_packets(w, &a->layout, op, a->layout.rank, peer);
    uint64_t tiles = braid_ll_tiles(p->from_bytes);

    if (p->from_bytes == 0 && first == 0)
        ll_send_empty(packets, lane, op->flag);
    BRAID_NO_UNROLL
    for (uint64_t tile = first; tile < tiles; tile += ll_warps()) {
        struct braid_ll_spot s = braid_ll_find(p->from_bytes, tile, lane);

        braid_ll_send_warp(packets, &s, braid_ll_load<WHOLE>(p->from, &s), op->flag);
    }
}

template <bool WHOLE>
BRAID_FN void ll_copy_receive(const struct braid_devcomm *c, const struct braid_devwin *w,
                              const struct braid_ll_copy_args *a, const struct op *op,
                              uint32_t peer, uint32_t first, uint32_t lane)
{
    const struct braid_copy_peer *p = &a->peer[peer];
    uint64_t packets = op_packets(w, &a->layout, op, peer, a->layout.rank);
    uint64_t tiles = braid_ll_tiles(p->into_bytes != 0 ? p->into_bytes : 1);

    BRAID_NO_UNROLL
    for (uint64_t tile = first; tile < tiles; tile += ll_warps()) {
        struct braid_ll_spot s = braid_ll_find(p->into_bytes, tile, lane);
        struct braid_ll_vectors x;

        if (p->into_bytes == 0) { /* one lane's worth: an empty packet is packet 0 alone */
            ll_receive_empty(c, packets, lane, op->flag, peer);
            return;
        }
        braid_ll_receive_warp(c, packets, &s, op->flag, peer, &x);
        BRAID_UNROLL
        for (int j = 0; j < 3; j++)
            braid_ll_store<WHOLE>(p->into, &s, j, x.v[j]);
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
    uint32_t told = braid_failed_thread(c) == 0 ? l->ranks : 0;
    uint32_t count = 0;

    BRAID_NO_UNROLL
    for (uint32_t i = 1; i < told; i++) {
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
