/*
 * Tile flags: a producer says that a tile of data is there, and a consumer (often a peer's kernel) uses it the moment it arrives.
 *
 * A set of tiles is an array of 32-bit words, one a tile, in a window (the same offset on every rank), described by
 *     struct braid_tiles tiles = { offset, count, arrivals };   // host or device; offset in bytes, 4-byte aligned
 * The words start at 0 (windows of braid_window_alloc are zeroed) and are never reset: generation g (1, 2, ...; take it from an epoch
 * slot, epoch.cuh) of a tile is ready when its word has reached g * arrivals, by signed difference.
 *   arrivals = 1   braid_tile_ready stores the generation: one producer a tile
 *   arrivals > 1   counted tiles: each of `arrivals` producers adds 1 in each generation (several CTAs, several ranks)
 * The epoch of a slot is 1 in the first kernel (unless braid_comm_config.first_epoch says otherwise), so it can be the generation.
 *
 * Reuse: a tile's data may be overwritten for generation g + 1 only when its consumer has said that it is done with g. Either a
 * second tile set in the other direction (consumers call braid_tile_ready on it, producers wait for generation g before they write
 * g + 1), or two data buffers used in turn with one such word an operation, or a barrier between operations.
 *
 * A pipeline: rank 0 produces, rank 1 consumes, each block has a ring of DEPTH tiles in rank 1's memory (device/examples/02, whole):
 *     host      braid_window_alloc(comm, bytes of all tiles + words of both sets, &window);     on both ranks; zeroed: generation 0
 *               braid_comm_check_launch(comm, kernel, blocks, threads, 0);                      all CTAs that wait must run together
 *     kernel    struct braid_tiles full = { words, blocks * DEPTH, 1 }, empty = { words + 4 * blocks * DEPTH, blocks * DEPTH, 1 };
 *               launch = braid_epoch_begin(&c, 0);                                              1, 2, ...
 *               for (n = 0; n < TILES; n++) {                                                   TILES is a multiple of DEPTH
 *                   slot = blockIdx.x * DEPTH + n % DEPTH;
 *                   generation = (launch - 1) * (TILES / DEPTH) + n / DEPTH + 1;                of this slot
 *     rank 0        braid_tile_wait_cta(&c, &w, &empty, slot, generation - 1);                  true at once in generation 1
 *                   all threads: store the tile through braid_window_pointer(&w, 1, ...)
 *                   braid_tile_ready_cta(&c, &w, &full, 1, slot, generation);
 *     rank 1        braid_tile_wait_cta(&c, &w, &full, slot, generation);
 *                   all threads: use the tile at braid_window_local(&w, ...)
 *                   braid_tile_ready_cta(&c, &w, &empty, 0, slot, generation);                  begins with the barrier: all have read
 *               }
 *               braid_epoch_end_cta(&c, 0);
 * (Where a wait may fail and the kernel goes on: keep its status, and no braid_tile_ready after it. See wait.cuh.)
 */
#ifndef BRAID_DEVICE_TILE_CUH
#define BRAID_DEVICE_TILE_CUH

#include "signal.cuh"

struct braid_tiles {
    uint64_t offset;   /* of the first word, in the window */
    uint32_t count;    /* tiles */
    uint32_t arrivals; /* that make a tile ready, in each generation */
};

/*
 * Announces tile `tile` of `generation` to `peer` (this rank included). Release at system scope: what this thread (_warp: any lane;
 * _cta: any thread of the block) has written before is visible to whoever has waited for the tile. _warp and _cta begin with the
 * group's barrier; thread 0 announces.
 * Data written by TMA: the thread that committed the stores calls braid_tile_ready_tma_thread instead, which first waits until they
 * are written.
 */
BRAID_FN void braid_tile_ready_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                      const struct braid_tiles *tiles, int peer, uint32_t tile,
                                      uint32_t generation)
{
    void *word = braid_window_pointer(w, peer, tiles->offset + 4ull * tile);

    if (braid_bad_index(c, BRAID_WAIT_TILE, tile, tiles->count))
        return;
    if (tiles->arrivals > 1)
        braid_ptx_add_release_sys_u32(word, 1);
    else
        braid_ptx_store_release_sys_u32(word, generation);
}

BRAID_FN void braid_tile_ready_warp(const struct braid_devcomm *c, const struct braid_devwin *w,
                                    const struct braid_tiles *tiles, int peer, uint32_t tile,
                                    uint32_t generation)
{
    braid_ptx_sync_warp();
    if (braid_ptx_lane() == 0)
        braid_tile_ready_thread(c, w, tiles, peer, tile, generation);
}

BRAID_FN void braid_tile_ready_cta(const struct braid_devcomm *c, const struct braid_devwin *w,
                                   const struct braid_tiles *tiles, int peer, uint32_t tile,
                                   uint32_t generation)
{
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0)
        braid_tile_ready_thread(c, w, tiles, peer, tile, generation);
}

BRAID_FN void braid_tile_ready_tma_thread(const struct braid_devcomm *c,
                                          const struct braid_devwin *w,
                                          const struct braid_tiles *tiles, int peer, uint32_t tile,
                                          uint32_t generation)
{
    braid_ptx_bulk_wait_written();
    braid_tile_ready_thread(c, w, tiles, peer, tile, generation);
}

/* Is the tile ready? Acquire at system scope when it is. Does not wait. One thread. */
BRAID_FN int braid_tile_test_thread(const struct braid_devwin *w, const struct braid_tiles *tiles,
                                    uint32_t tile, uint32_t generation)
{
    const void *word = braid_window_local(w, tiles->offset + 4ull * tile);

    return braid_reached_u32(braid_ptx_load_acquire_sys_u32(word),
                             braid_tile_target(generation, tiles->arrivals));
}

/*
 * Waits until tile `tile` of this rank's window is ready in `generation`. Returns a status (wait.cuh); inside a warp-specialised
 * kernel ignore it and go on, so that control flow does not change. After BRAID_DEV_OK the thread (all lanes, all threads) sees the
 * tile by ordinary loads. _warp and _cta: called by all, the (first) warp polls, all return 0 or all a failure; they end with the group's
 * barrier. A thread that then reads the tile by TMA calls the _tma form: it adds the proxy fence, which must be in the thread that
 * issues the copy.
 */
BRAID_FN int braid_tile_wait_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                    const struct braid_tiles *tiles, uint32_t tile,
                                    uint32_t generation)
{
    if (braid_bad_index(c, BRAID_WAIT_TILE, tile, tiles->count))
        return BRAID_DEV_INVALID;
    return braid_wait_u32_thread(
        c, (const uint32_t *)braid_window_local(w, tiles->offset + 4ull * tile),
        braid_tile_target(generation, tiles->arrivals), BRAID_WAIT_TILE, -1, tile);
}

BRAID_FN int braid_tile_wait_tma_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                        const struct braid_tiles *tiles, uint32_t tile,
                                        uint32_t generation)
{
    int status = braid_tile_wait_thread(c, w, tiles, tile, generation);

    braid_ptx_fence_proxy_async_global();
    return status;
}

BRAID_FN int braid_tile_wait_warp(const struct braid_devcomm *c, const struct braid_devwin *w,
                                  const struct braid_tiles *tiles, uint32_t tile,
                                  uint32_t generation)
{
    return braid_share_status_warp(c, braid_tile_wait_thread(c, w, tiles, tile, generation));
}

BRAID_FN int braid_tile_wait_cta(const struct braid_devcomm *c, const struct braid_devwin *w,
                                 const struct braid_tiles *tiles, uint32_t tile,
                                 uint32_t generation)
{
    int status = 0;

    if (braid_ptx_any_active(braid_ptx_thread() < BRAID_WARP_THREADS))
        status = braid_tile_wait_thread(c, w, tiles, tile, generation);
    return braid_share_status_cta(c, status);
}

#endif
