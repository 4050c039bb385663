/*
 * Copies by the SM's bulk copy engine (TMA): one thread keeps a ring of pieces in shared memory in flight, from global memory to one
 * place or to several; the other warps of the CTA are free for other work. Fewest instructions and few SMs for full NVLink rate.
 *
 * Shapes: pieces of at most BRAID_BULK_PIECE bytes, multiples of 16, source and destinations 16-byte aligned. sm_90 and newer.
 * Shared memory: BRAID_BULK_SHARED bytes a ring, 128-byte aligned. Several threads of a CTA may have a ring each: while one waits until
 * its pieces are written, others keep the link busy.
 * Before: the copying thread sees the source data. Data that ordinary stores wrote in this kernel, or that a peer wrote and this
 *         thread acquired, needs braid_ptx_fence_proxy_async_global by this thread first.
 * After:  braid_bulk_drain (all), or braid_bulk_settle (all but the last few pieces): the pieces are written, and a release by this
 *         thread announces them. Waiting for less (`.read`) would let a flag overtake the data.
 * One thread uses a ring from open to the end of the kernel.
 */
#ifndef BRAID_DEVICE_BULK_CUH
#define BRAID_DEVICE_BULK_CUH

#include "ptx/bulk.cuh"

#ifndef BRAID_BULK_PIECE
#define BRAID_BULK_PIECE 16384u
#endif
#ifndef BRAID_BULK_STAGES
#define BRAID_BULK_STAGES 8 /* pieces in shared memory */
#endif
#define BRAID_BULK_AHEAD  (BRAID_BULK_STAGES / 2) /* of them, being loaded */
#define BRAID_BULK_SHARED (BRAID_BULK_STAGES * BRAID_BULK_PIECE + 128u)

struct braid_bulk {
    uint32_t buffers;  /* shared address of the stages */
    uint32_t barriers; /* of one mbarrier a stage */
    uint32_t loads;    /* pieces asked for */
    uint32_t stores;   /* pieces handed on */
};

/* The one thread that uses the ring. No other thread needs to know, so there is no barrier. */
BRAID_FN struct braid_bulk braid_bulk_open_thread(void *shared)
{
    struct braid_bulk b;

    b.buffers = braid_ptx_shared(shared);
    b.barriers = b.buffers + BRAID_BULK_STAGES * BRAID_BULK_PIECE;
    b.loads = 0;
    b.stores = 0;
    BRAID_UNROLL
    for (uint32_t i = 0; i < BRAID_BULK_STAGES; i++)
        braid_ptx_mbarrier_init(b.barriers + 8 * i, 1);
    braid_ptx_mbarrier_init_fence();
    return b;
}

/* Can another piece be loaded before the next one is stored? */
BRAID_FN int braid_bulk_room(const struct braid_bulk *b)
{
    return b->loads - b->stores < BRAID_BULK_AHEAD;
}

/* Starts to load a piece; only with room. */
BRAID_FN void braid_bulk_load(struct braid_bulk *b, uint64_t src, uint32_t bytes)
{
    uint32_t stage = b->loads % BRAID_BULK_STAGES;
    uint32_t barrier = b->barriers + 8 * stage;

    /* This is piece stores + AHEAD - 1 at most, and its stage was that of the piece STAGES before: of the committed pieces the last
     * STAGES - AHEAD came after that one. */
    if (b->loads >= BRAID_BULK_STAGES)
        braid_ptx_bulk_wait_read<BRAID_BULK_STAGES - BRAID_BULK_AHEAD>();
    braid_ptx_mbarrier_expect(barrier, bytes);
    braid_ptx_bulk_load(b->buffers + stage * BRAID_BULK_PIECE, (const void *)src, bytes, barrier);
    b->loads++;
}

/* Waits for the oldest loaded piece and returns its shared address; store it with braid_ptx_bulk_store, then braid_bulk_next. */
BRAID_FN uint32_t braid_bulk_piece(const struct braid_bulk *b)
{
    uint32_t stage = b->stores % BRAID_BULK_STAGES;
    uint32_t parity = (b->stores / BRAID_BULK_STAGES) & 1;

    while (braid_ptx_mbarrier_try(b->barriers + 8 * stage, parity) == 0) {
    } /* the SM's own copy engine: ends without any peer's help */
    return b->buffers + stage * BRAID_BULK_PIECE;
}

BRAID_FN void braid_bulk_next(struct braid_bulk *b)
{
    braid_ptx_bulk_commit();
    b->stores++;
}

/* Waits until every piece but the last `pieces` is written; with more than 8, until every piece is. */
BRAID_FN void braid_bulk_settle(uint32_t pieces)
{
    switch (pieces) {
    case 1: braid_ptx_bulk_wait_written_but<1>(); break;
    case 2: braid_ptx_bulk_wait_written_but<2>(); break;
    case 3: braid_ptx_bulk_wait_written_but<3>(); break;
    case 4: braid_ptx_bulk_wait_written_but<4>(); break;
    case 5: braid_ptx_bulk_wait_written_but<5>(); break;
    case 6: braid_ptx_bulk_wait_written_but<6>(); break;
    case 7: braid_ptx_bulk_wait_written_but<7>(); break;
    case 8: braid_ptx_bulk_wait_written_but<8>(); break;
    default: braid_ptx_bulk_wait_written_but<0>(); break;
    }
}

/* Waits until every piece is written. */
BRAID_FN void braid_bulk_drain(void)
{
    braid_ptx_bulk_wait_written_but<0>();
}

/*
 * Copies `bytes` (a multiple of 16) from `src` to `copies` destinations to[0 ..]: loads each piece once. One thread. Returns when the
 * pieces are on their way; drain before you announce them.
 */
BRAID_FN void braid_bulk_copy_thread(struct braid_bulk *b, const uint64_t *to, int copies,
                                     uint64_t src, uint64_t bytes)
{
    uint64_t loaded = 0;

    BRAID_NO_UNROLL
    for (uint64_t done = 0; done < bytes;) {
        uint32_t piece =
            bytes - done < BRAID_BULK_PIECE ? (uint32_t)(bytes - done) : BRAID_BULK_PIECE;
        uint32_t shared;

        BRAID_NO_UNROLL
        while (loaded < bytes && braid_bulk_room(b)) {
            uint32_t next =
                bytes - loaded < BRAID_BULK_PIECE ? (uint32_t)(bytes - loaded) : BRAID_BULK_PIECE;

            braid_bulk_load(b, src + loaded, next);
            loaded += next;
        }
        shared = braid_bulk_piece(b);
        BRAID_NO_UNROLL
        for (int i = 0; i < copies; i++)
            braid_ptx_bulk_store((void *)(to[i] + done), shared, piece);
        braid_bulk_next(b);
        done += piece;
    }
}

#endif
