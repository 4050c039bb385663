/*
 * Tiles by LL packets with 12 bytes of data in 16: the same idea as packet.cuh for more data, 4/3 of the bytes on the wire instead of
 * twice. A warp moves a tile of 96 vectors of 16 bytes (1536 bytes) in 128 packets (2048 bytes).
 *
 * A packet is one 128-bit element: 12 bytes of data, then the flag. The PTX memory model reads and writes such an element whole, so
 * data and flag need no ordering and no fence. Packet (j, lane), j < 3, holds the first 12 bytes of vector (j, lane), and packet
 * (3, lane) the last 4 bytes of vectors (0, lane), (1, lane), (2, lane). Packets whose vectors are all beyond the end are not sent.
 * Flags (braid_packet_flag), reuse (two parities) and visibility are as in packet.cuh; nothing else may ever be written to memory
 * that serves for packets. All functions are called by a whole, converged warp; none has a barrier.
 */
#ifndef BRAID_DEVICE_LL_CUH
#define BRAID_DEVICE_LL_CUH

#include "number.cuh"
#include "ptx/local.cuh"
#include "wait.cuh"

#define BRAID_LL_VECTORS 96u  /* 16-byte vectors of a tile */
#define BRAID_LL_PACKETS 128u /* and the packets that carry them */
#define BRAID_LL_POLLS   1024 /* of packets, between two calls of the cold path: about 0.1 ms */

/* Tiles of a block of `bytes`; its packets take 2048 bytes a tile. */
BRAID_FN uint64_t braid_ll_tiles(uint64_t bytes)
{
    return (bytes + 16 * BRAID_LL_VECTORS - 1) / (16 * BRAID_LL_VECTORS);
}

/* The three vectors of a lane. */
struct braid_ll_vectors {
    struct braid_vec16 v[3];
};

/* Where a lane's vectors of a tile are: vector j begins at `offset` + 512 j of its block, and is there if `left` > 512 j. */
struct braid_ll_spot {
    uint64_t offset;
    uint64_t packet; /* of packet (0, lane) in the packet area */
    int32_t left;    /* bytes from `offset` to the end of the block, at most 2048 */
};

BRAID_FN struct braid_ll_spot braid_ll_find(uint64_t bytes, uint64_t tile, uint32_t lane)
{
    struct braid_ll_spot s;

    s.offset = 16 * (tile * BRAID_LL_VECTORS + lane);
    s.packet = 16 * (tile * BRAID_LL_PACKETS + lane);
    s.left = s.offset >= bytes ? 0 : bytes - s.offset < 2048 ? (int32_t)(bytes - s.offset) : 2048;
    return s;
}

BRAID_FN int braid_ll_has(const struct braid_ll_spot *s, int j)
{
    return s->left > 512 * j;
}

/* WHOLE: the block is aligned and a multiple of 16 bytes. */
template <bool WHOLE>
BRAID_FN struct braid_ll_vectors braid_ll_load(uint64_t block, const struct braid_ll_spot *s)
{
    struct braid_ll_vectors x = {};

    BRAID_UNROLL
    for (int j = 0; j < 3; j++) {
        uint64_t p = block + s->offset + 512 * j;

        if constexpr (WHOLE)
            braid_ptx_load16_if(&x.v[j], (const void *)p, braid_ll_has(s, j));
        else if (braid_ll_has(s, j))
            x.v[j] = braid_load_part(p, s->left - 512 * j);
    }
    return x;
}

template <bool WHOLE>
BRAID_FN void braid_ll_store(uint64_t block, const struct braid_ll_spot *s, int j,
                             const struct braid_vec16 &v)
{
    uint64_t p = block + s->offset + 512 * j;

    if (!braid_ll_has(s, j))
        return;
    if constexpr (WHOLE)
        braid_ptx_store16((void *)p, v);
    else
        braid_store_part(p, s->left - 512 * j, v);
}

BRAID_FN struct braid_vec16 braid_ll_pack(uint64_t first, uint32_t third, uint32_t flag)
{
    struct braid_vec16 p;

    p.lo = first;
    p.hi = (uint64_t)flag << 32 | third;
    return p;
}

/* Sends the lane's vectors of a tile to the packet area at `packets`. */
BRAID_FN void braid_ll_send_warp(uint64_t packets, const struct braid_ll_spot *s,
                                 const struct braid_ll_vectors &x, uint32_t flag)
{
    uint64_t to = packets + s->packet;
    uint64_t rest = (x.v[0].hi >> 32) | (x.v[1].hi & 0xffffffff00000000ull);

    BRAID_UNROLL
    for (int j = 0; j < 3; j++)
        braid_ptx_store_whole16_if((void *)(to + 512 * j),
                                   braid_ll_pack(x.v[j].lo, (uint32_t)x.v[j].hi, flag),
                                   braid_ll_has(s, j));
    braid_ptx_store_whole16_if((void *)(to + 512 * 3),
                               braid_ll_pack(rest, (uint32_t)(x.v[2].hi >> 32), flag),
                               braid_ll_has(s, 0));
}

/* One look at the lane's packets of a tile; nonzero when all that will come have arrived. */
BRAID_FN int braid_ll_poll(uint64_t packets, const struct braid_ll_spot *s, uint32_t flag,
                           struct braid_vec16 *p)
{
    uint64_t from = packets + s->packet;
    int here = 1;

    BRAID_UNROLL
    for (int j = 0; j < 4; j++)
        braid_ptx_load_whole16_if(&p[j], (const void *)(from + 512 * j),
                                  braid_ll_has(s, j < 3 ? j : 0));
    BRAID_UNROLL
    for (int j = 0; j < 4; j++)
        here &= !braid_ll_has(s, j < 3 ? j : 0) | ((uint32_t)(p[j].hi >> 32) == flag);
    return here;
}

BRAID_FN struct braid_ll_vectors braid_ll_unpack(const struct braid_vec16 *p)
{
    struct braid_ll_vectors x;

    x.v[0].lo = p[0].lo;
    x.v[0].hi = (p[3].lo << 32) | (uint32_t)p[0].hi;
    x.v[1].lo = p[1].lo;
    x.v[1].hi = (p[3].lo & 0xffffffff00000000ull) | (uint32_t)p[1].hi;
    x.v[2].lo = p[2].lo;
    x.v[2].hi = (p[3].hi << 32) | (uint32_t)p[2].hi;
    return x;
}

/*
 * braid_wait_check_thread for a whole, converged warp that waits together: lane 0 looks for all. Returns a status, the same in all lanes;
 * when it is a failure, *start_ns is lane 0's in all lanes, so that any lane can record it.
 */
BRAID_FN int braid_wait_check_warp(const struct braid_devcomm *c, uint64_t *start_ns)
{
    int status = braid_ptx_lane() == 0 ? braid_wait_check_thread(c, start_ns) : 0;

    status = braid_ptx_min_in_warp(status);
    if (status != 0)
        *start_ns = (uint64_t)braid_ptx_from_lane((uint32_t)(*start_ns >> 32), 0) << 32 |
                    braid_ptx_from_lane((uint32_t)*start_ns, 0);
    return status;
}

/* Receives the lane's vectors of a tile: all 32 lanes poll until every one has its own. Returns a status; garbage on failure. */
BRAID_FN int braid_ll_receive_warp(const struct braid_devcomm *c, uint64_t packets,
                                   const struct braid_ll_spot *s, uint32_t flag, uint32_t peer,
                                   struct braid_ll_vectors *x)
{
    struct braid_vec16 p[4] = {};
    uint64_t start_ns = 0;
    int status;
    int here;

    do {
        BRAID_NO_UNROLL
        for (int poll = 0; poll < BRAID_LL_POLLS; poll++) {
            here = braid_ll_poll(packets, s, flag, p);
            if (braid_ptx_all_in_warp(here)) {
                *x = braid_ll_unpack(p);
                return BRAID_DEV_OK;
            }
        }
        status = braid_wait_check_warp(c, &start_ns);
    } while (status == 0);
    if (!here)
        braid_fail_thread(c, status, BRAID_WAIT_PACKET, (int)peer, (uint32_t)(s->packet / 16), flag,
                          p[0].hi >> 32, braid_ptx_now_ns() - start_ns);
    braid_ptx_sync_warp();
    *x = braid_ll_unpack(p);
    return status;
}

#endif
