/* CUDA graphs: one captured operation replayed 10 000 times with inputs that change, and the same launches back to back without. */
#include "tests/gpu/device/harness.h"

#define CTAS       4
#define THREADS    128
#define PART       1024u /* bytes a CTA exchanges by packets, and again by put and tile */
#define TILE_WORDS (6u << 20)
#define DATA       (2u << 20)

/* Changes the input: a counter in device memory, and every byte of the message from it. */
__global__ void change_input(uint32_t *counter, uint32_t rank, uint8_t *src)
{
    uint32_t round = *counter + 1;

    __syncthreads();
    for (uint32_t i = threadIdx.x; i < CTAS * PART; i += blockDim.x)
        src[i] = pattern(rank, round * 13, i);
    if (threadIdx.x == 0)
        *counter = round;
}

/* Packets in two buffers in turn, put and tile, a barrier in every third epoch, signals: all derived from one epoch slot. */
__global__ void exchange(const __grid_constant__ struct braid_devcomm c,
                         const __grid_constant__ struct braid_devwin w,
                         const __grid_constant__ struct braid_tiles tiles, const uint32_t *counter,
                         const uint8_t *src, uint8_t *dst, struct verdict *v)
{
    uint32_t epoch = braid_epoch_begin(&c, 50), round = *counter, block = blockIdx.x;
    uint32_t flag = braid_packet_flag(epoch), parity = braid_epoch_parity(epoch);
    uint64_t packets = parity * (CTAS * 2 * PART) + block * 2 * PART;
    uint64_t data = DATA + parity * (CTAS * PART) + block * PART;
    const volatile uint8_t *in = (const volatile uint8_t *)braid_window_local(&w, data);
    int peer = c.world.rank ^ 1;

    if (threadIdx.x == 0 && epoch % 16 == 3)
        skew((uint32_t)c.world.rank * 64 + block, epoch);
    braid_put_packets_cta(&c, &w, peer, packets, src + block * PART, PART, flag);
    braid_put_cta(&c, &w, peer, data, src + block * PART, PART);
    braid_tile_ready_cta(&c, &w, &tiles, peer, block, epoch);
    SEE(v, round, 1, 0,
        braid_get_packets_cta(&c, &w, peer, packets, dst + block * PART, PART, flag));
    for (uint32_t i = threadIdx.x; i < PART; i += blockDim.x)
        SEE(v, round, block * PART + i, pattern((uint32_t)peer, round * 13, block * PART + i),
            ((volatile uint8_t *)dst)[block * PART + i]);
    SEE(v, round, 2, 0, braid_tile_wait_cta(&c, &w, &tiles, block, epoch));
    for (uint32_t i = threadIdx.x; i < PART; i += blockDim.x)
        SEE(v, round, block * PART + i, pattern((uint32_t)peer, round * 13, block * PART + i),
            in[i]);
    if (epoch % 3 == 0)
        SEE(v, round, 3, 0, braid_barrier_cta(&c, 100 + block));
    if (threadIdx.x == 0) {
        braid_signal_thread(&c, peer, 60 + block, BRAID_SIGNAL_ADD, 2);
        SEE(v, round, 4, 0, braid_take_signal_thread(&c, 60 + block, 2));
    }
    braid_epoch_end_cta(&c, 50);
}

static void launch(struct rank *r, uint32_t *counter)
{
    struct braid_tiles tiles = {TILE_WORDS, CTAS, 1};

    change_input<<<1, 256, 0, r->stream>>>(counter, (uint32_t)r->rank, r->src);
    exchange<<<CTAS, THREADS, 0, r->stream>>>(*r->c, *r->w, tiles, counter, r->src, r->dst,
                                              r->verdict);
}

static void preset_tiles(struct rank *r, uint32_t first_epoch)
{
    uint32_t words[CTAS];

    for (int i = 0; i < CTAS; i++)
        words[i] = first_epoch - 1;
    CUDA(r, cudaMemcpyAsync((char *)braid_window_address(r->window, r->rank) + TILE_WORDS, words,
                            sizeof(words), cudaMemcpyHostToDevice, r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    EXPECT(r, braid_comm_sync(r->comm) == 0);
}

static void graph_case(struct rank *r)
{
    uint32_t *counter = (uint32_t *)(r->src + WINDOW_BYTES / 2), rounds = 0;
    cudaGraphExec_t executable = NULL;
    cudaGraph_t graph = NULL;
    double begin;

    poison(r);
    preset_tiles(r, 0xfffff000u);
    CUDA(r, cudaMemsetAsync(counter, 0, 4, r->stream));
    launch(r, counter); /* loads the kernels */
    settle(r, 10, 1);
    CUDA(r, cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal));
    launch(r, counter);
    CUDA(r, cudaStreamEndCapture(r->stream, &graph));
    CUDA(r, cudaGraphInstantiate(&executable, graph, 0));
    if (executable == NULL)
        return;
    begin = now_s();
    for (int i = 0; i < 10000; i++)
        CUDA(r, cudaGraphLaunch(executable, r->stream));
    settle(r, 60, 1);
    CUDA(r, cudaMemcpy(&rounds, counter, 4, cudaMemcpyDeviceToHost));
    EXPECT(r, rounds == 10001, "the graph ran %u times", rounds);
    if (r->rank == 0)
        printf("      10000 replays: %.2f us each\n", (now_s() - begin) * 100);
    launch(r, counter); /* and eager after it */
    settle(r, 10, 1);
    CUDA(r, cudaGraphExecDestroy(executable));
    CUDA(r, cudaGraphDestroy(graph));
}

static void back_to_back_case(struct rank *r)
{
    uint32_t *counter = (uint32_t *)(r->src + WINDOW_BYTES / 2);

    poison(r);
    preset_tiles(r, 0xfffffff0u);
    CUDA(r, cudaMemsetAsync(counter, 0, 4, r->stream));
    for (int i = 0; i < 2000; i++)
        launch(r, counter);
    settle(r, 60, 1);
    CUDA(r, cudaGetLastError());
}

const struct test_case graph_cases[] = {
    {"graph/10000", graph_case, 2, 90, 5000, 0xfffff000u, "", 0},
    {"back_to_back", back_to_back_case, 2, 30, 5000, 0xfffffff0u, "", 0},
    {NULL, NULL, 0, 0, 0, 0, NULL, 0},
};
