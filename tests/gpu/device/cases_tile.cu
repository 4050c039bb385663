/* Tiles: plain and counted, freed by their consumer, by ordinary stores and by bulk copies (TMA), across the wrap of generations. */
#include "tests/gpu/device/harness.h"

#define TILES       12
#define TILE_BYTES  8192u
#define PRODUCERS   3 /* CTAs that write a tile together */
#define FULL_WORDS  (6u << 20)
#define EMPTY_WORDS ((6u << 20) + 4096)

/*
 * CTAs 0..2 write a third of each of the peer's tiles; CTA 3 consumes the own ones and frees them. The generation comes from an
 * epoch slot, so that launches follow each other without the host.
 */
__global__ void counted(const __grid_constant__ struct braid_devcomm c,
                        const __grid_constant__ struct braid_devwin w,
                        const __grid_constant__ struct braid_tiles full,
                        const __grid_constant__ struct braid_tiles empty, uint8_t *src,
                        struct verdict *v)
{
    uint32_t generation = braid_epoch_begin(&c, 30), me = (uint32_t)c.world.rank;
    int peer = c.world.rank ^ 1;

    if (blockIdx.x < PRODUCERS) {
        for (uint32_t t = 0; t < TILES; t++) {
            uint32_t part = (TILE_BYTES / PRODUCERS) & ~15u, begin = blockIdx.x * part;
            uint32_t bytes = blockIdx.x == PRODUCERS - 1 ? TILE_BYTES - begin : part;
            uint64_t at = (uint64_t)t * TILE_BYTES + begin;

            SEE(v, generation, t, 0, braid_tile_wait_cta(&c, &w, &empty, t, generation - 1));
            for (uint32_t i = threadIdx.x; i < bytes; i += blockDim.x)
                src[at + i] = pattern(me, generation + t, begin + i);
            if (threadIdx.x == 0)
                skew(me * 8 + blockIdx.x, generation + t);
            __syncthreads();
            braid_put_cta(&c, &w, peer, at, src + at, bytes);
            braid_tile_ready_cta(&c, &w, &full, peer, t, generation);
        }
    } else {
        for (uint32_t t = 0; t < TILES; t++) {
            const volatile uint8_t *in =
                (const volatile uint8_t *)braid_window_local(&w, (uint64_t)t * TILE_BYTES);

            SEE(v, generation, t, 0, braid_tile_wait_cta(&c, &w, &full, t, generation));
            SEE(v, generation, t, 1, braid_tile_test_thread(&w, &full, t, generation));
            for (uint32_t i = threadIdx.x; i < TILE_BYTES; i += blockDim.x)
                SEE(v, generation, t * TILE_BYTES + i, pattern((uint32_t)peer, generation + t, i),
                    in[i]);
            braid_tile_ready_cta(&c, &w, &empty, peer, t, generation);
        }
    }
    braid_epoch_end_cta(&c, 30);
}

/* Words of a tile set as if `generation` - 1 generations had passed. */
static void preset(struct rank *r, const struct braid_tiles *tiles, uint32_t generation)
{
    uint32_t words[TILES];

    for (int t = 0; t < TILES; t++)
        words[t] = (generation - 1) * tiles->arrivals;
    CUDA(r, cudaMemcpyAsync((char *)braid_window_address(r->window, r->rank) + tiles->offset, words,
                            sizeof(words), cudaMemcpyHostToDevice, r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
}

static void counted_case(struct rank *r)
{
    struct braid_tiles full = {FULL_WORDS, TILES, PRODUCERS}, empty = {EMPTY_WORDS, TILES, 1};

    poison(r);
    preset(r, &full, 0xfffffff0u);
    preset(r, &empty, 0xfffffff0u);
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    for (int i = 0; i < 300; i++)
        counted<<<PRODUCERS + 1, 128, 0, r->stream>>>(*r->c, *r->w, full, empty, r->src,
                                                      r->verdict);
    settle(r, 30, 1);
    CUDA(r, cudaGetLastError());
}

static __device__ __forceinline__ uint32_t smem(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Warp scope and one thread, one tile at a time. */
__global__ void plain(const __grid_constant__ struct braid_devcomm c,
                      const __grid_constant__ struct braid_devwin w,
                      const __grid_constant__ struct braid_tiles full, uint8_t *src,
                      uint32_t rounds, struct verdict *v)
{
    uint32_t me = (uint32_t)c.world.rank;
    int peer = c.world.rank ^ 1;

    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t generation = 0xfffffff0u + round, t = round % TILES;
        uint64_t at = (uint64_t)(round % 2) * TILE_BYTES;
        const volatile uint8_t *in = (const volatile uint8_t *)braid_window_local(&w, at);

        for (uint32_t i = threadIdx.x; i < 777; i += 32)
            src[at + i] = pattern(me, round, i);
        if (threadIdx.x == 0)
            skew(me, round);
        __syncwarp();
        braid_put_warp(&c, &w, peer, at, src + at, 777);
        braid_tile_ready_warp(&c, &w, &full, peer, t, generation);
        SEE(v, round, t, 0, braid_tile_wait_warp(&c, &w, &full, t, generation));
        for (uint32_t i = threadIdx.x; i < 777; i += 32)
            SEE(v, round, i, pattern((uint32_t)peer, round, i), in[i]);
        __syncwarp();
    }
}

/*
 * One thread moves a tile of the peer's by bulk copy from shared memory, another tile comes back and is read by bulk copy: the
 * generic-proxy flag orders the asynchronous proxy on both sides.
 */
__global__ void bulk(const __grid_constant__ struct braid_devcomm c,
                     const __grid_constant__ struct braid_devwin w,
                     const __grid_constant__ struct braid_tiles full, uint32_t rounds,
                     struct verdict *v)
{
    __shared__ __align__(128) uint8_t out[TILE_BYTES];
    __shared__ __align__(128) uint8_t in[TILE_BYTES];
    __shared__ __align__(8) uint64_t arrived;
    uint32_t me = (uint32_t)c.world.rank, phase = 0;
    int peer = c.world.rank ^ 1;

    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&arrived)) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t generation = 0xfffffff0u + round, t = round % TILES;
        uint64_t at = (uint64_t)(round % 2) * TILE_BYTES;

        for (uint32_t i = threadIdx.x; i < TILE_BYTES; i += blockDim.x)
            out[i] = pattern(me, round, i);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            skew(me, round);
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                             braid_window_pointer(&w, peer, at)),
                         "r"(smem(out)), "r"(TILE_BYTES)
                         : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            braid_tile_ready_tma_thread(&c, &w, &full, peer, t, generation);
            SEE(v, round, t, 0, braid_tile_wait_tma_thread(&c, &w, &full, t, generation));
            asm volatile(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&arrived)),
                "r"(TILE_BYTES)
                : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                         "[%1], %2, [%3];" ::"r"(smem(in)),
                         "l"(braid_window_local(&w, at)), "r"(TILE_BYTES), "r"(smem(&arrived))
                         : "memory");
        }
        for (uint32_t tries = 0, done = 0; !done && tries < 1000000; tries++)
            asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                         "selp.u32 %0, 1, 0, p;}"
                         : "=r"(done)
                         : "r"(smem(&arrived)), "r"(phase)
                         : "memory");
        phase ^= 1;
        for (uint32_t i = threadIdx.x; i < TILE_BYTES; i += blockDim.x)
            SEE(v, round, i, pattern((uint32_t)peer, round, i), in[i]);
        __syncthreads();
    }
}

static void plain_case(struct rank *r)
{
    struct braid_tiles full = {FULL_WORDS, TILES, 1};

    poison(r);
    preset(r, &full, 0xfffffff0u);
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    plain<<<1, 32, 0, r->stream>>>(*r->c, *r->w, full, r->src, 600, r->verdict);
    settle(r, 20, 1);
    CUDA(r, cudaGetLastError());
}

static void bulk_case(struct rank *r)
{
    struct braid_tiles full = {FULL_WORDS, TILES, 1};

    poison(r);
    preset(r, &full, 0xfffffff0u);
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    bulk<<<1, 128, 0, r->stream>>>(*r->c, *r->w, full, r->option[0] == 's' ? 12 : 600, r->verdict);
    settle(r, 20, 1);
    CUDA(r, cudaGetLastError());
}

const struct test_case tile_cases[] = {
    {"tiles/counted", counted_case, 2, 30, 5000, 0xfffffff0u, "", 0},
    {"tiles/plain", plain_case, 2, 30, 5000, 1, "", 0},
    {"tiles/small_threads", bulk_case, 2, 30, 5000, 1, "small", CASE_SMALL | CASE_THREADS},
    {"tiles/bulk", bulk_case, 2, 30, 5000, 1, "", 0},
    {NULL, NULL, 0, 0, 0, 0, NULL, 0},
};
