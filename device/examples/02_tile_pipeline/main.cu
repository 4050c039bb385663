/*
 * A pipeline of two stages on two ranks: rank 0 computes tiles and writes each into rank 1's memory, rank 1 uses a tile the moment
 * it is there. A ring of DEPTH buffers per block lies between them; tile flags say "full" in one direction and "empty" in the other.
 */
#include "../ranks.h"

#include <braid/device.cuh>

#define BLOCKS  4
#define THREADS 256
#define TILE    4096 /* floats */
#define TILES   64   /* per block and launch */
#define DEPTH   4

/* What the window holds, in bytes: data of all rings, then one word a ring slot for each direction. */
#define FULL_WORDS   ((uint64_t)BLOCKS * DEPTH * TILE * 4)
#define EMPTY_WORDS  (FULL_WORDS + 4096)
#define WINDOW_BYTES (EMPTY_WORDS + 4096)

__device__ float stage_1(uint32_t launch, uint32_t block, uint32_t n, uint32_t i)
{
    return (float)(launch * 3 + block * 5 + n * 7 + i % 1000);
}

__global__ void pipeline(const __grid_constant__ struct braid_devcomm c,
                         const __grid_constant__ struct braid_devwin w, float *out)
{
    const struct braid_tiles full = {FULL_WORDS, BLOCKS * DEPTH, 1},
                             empty = {EMPTY_WORDS, BLOCKS * DEPTH, 1};
    uint32_t launch = braid_epoch_begin(
        &c, 0); /* 1, 2, ...: counted in device memory, so that graphs can replay this */
    int peer = c.world.rank ^ 1, failed = 0;

    for (uint32_t n = 0; n < TILES; n++) {
        uint32_t slot = blockIdx.x * DEPTH + n % DEPTH;
        uint32_t generation =
            (launch - 1) * (TILES / DEPTH) + n / DEPTH + 1; /* of this slot, from 1 */
        uint64_t offset = (uint64_t)slot * TILE * 4;

        if (c.world.rank == 0) {
            float *remote = (float *)braid_window_pointer(&w, peer, offset);

            /* Free again? The word "empty" has reached the last generation; true at once in the first one. */
            failed |= braid_tile_wait_cta(&c, &w, &empty, slot, generation - 1);
            for (uint32_t i = threadIdx.x; i < TILE; i += THREADS)
                remote[i] = stage_1(launch, blockIdx.x, n, i); /* plain stores travel to the peer */
            if (!failed)
                braid_tile_ready_cta(&c, &w, &full, peer, slot, generation);
        } else {
            const volatile float *tile = (const volatile float *)braid_window_local(&w, offset);

            failed |= braid_tile_wait_cta(&c, &w, &full, slot, generation);
            for (uint32_t i = threadIdx.x; i < TILE; i += THREADS)
                out[((uint64_t)blockIdx.x * TILES + n) * TILE + i] = 2 * tile[i] + 1; /* stage 2 */
            if (!failed)
                braid_tile_ready_cta(&c, &w, &empty, peer, slot, generation);
        }
        /*
         * After a failed wait the kernel runs to its end with garbage, every later wait ends quickly, the host reports. But it tells the
         * peer nothing more, or a peer that was only late would take the garbage for tiles.
         */
    }
    braid_epoch_end_cta(&c, 0);
}

static void check(const float *out, uint32_t launch)
{
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (uint32_t n = 0; n < TILES; n++)
            for (uint32_t i = 0; i < TILE; i++) {
                float wanted = 2 * (float)(launch * 3 + b * 5 + n * 7 + i % 1000) + 1;
                float seen = out[((uint64_t)b * TILES + n) * TILE + i];

                if (seen != wanted) {
                    fprintf(stderr, "launch %u, block %u, tile %u, element %u: %f, expected %f\n",
                            launch, b, n, i, seen, wanted);
                    exit(1);
                }
            }
}

static void rank_main(struct member *self)
{
    struct braid_comm *comm = make_comm(self);
    size_t bytes = (size_t)BLOCKS * TILES * TILE * 4;
    struct braid_window *window;
    cudaEvent_t begin, end;
    cudaStream_t stream;
    cudaFunction_t function;
    float *out, *host = (float *)malloc(bytes), ms;

    CHECK(braid_window_alloc(comm, WINDOW_BYTES,
                             &window)); /* zeroed: all tile words are at generation 0 */
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&out, bytes));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaGetFuncBySymbol(&function, (const void *)pipeline));
    CHECK(braid_comm_check_launch(comm, function, BLOCKS, THREADS,
                                  0)); /* all blocks of all ranks must run together */
    for (uint32_t launch = 1; launch <= 5; launch++) {
        CHECK(braid_comm_sync(comm));
        CHECK(cudaEventRecord(begin, stream));
        pipeline<<<BLOCKS, THREADS, 0, stream>>>(*braid_comm_device(comm),
                                                 *braid_window_device(window), out);
        CHECK(cudaEventRecord(end, stream));
        finish(comm, stream);
        CHECK(cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost));
        if (self->rank == 1)
            check(host, launch);
    }
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (self->rank == 1)
        printf("%d tiles of %d KiB through %d blocks: %.1f us, %.1f GB/s\n", BLOCKS * TILES,
               TILE * 4 / 1024, BLOCKS, ms * 1e3, (double)bytes / ms * 1e-6);
    CHECK(braid_comm_sync(comm));
    CHECK(braid_comm_destroy(comm));
    free(host);
}

int main(void)
{
    return run_ranks(rank_main);
}
