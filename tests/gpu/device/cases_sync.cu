/* Barriers of every scope and epoch slots, with skew, many CTAs, across the 32-bit wrap, and two communicators at once. */
#include "tests/gpu/device/harness.h"

/* Every CTA writes a number into every rank's row and finds everybody's after a barrier of its own slot. */
__global__ void barriers(const __grid_constant__ struct braid_devcomm c,
                         const __grid_constant__ struct braid_devwin w, uint32_t rounds,
                         struct verdict *v)
{
    uint32_t n = (uint32_t)c.world.ranks, me = (uint32_t)c.world.rank, block = blockIdx.x;
    struct braid_barrier b = braid_barrier_open(&c, block);

    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t row = block * 4096 + round % 2 * 1024;
        int status;

        if (threadIdx.x == 0)
            skew(me * 1000 + block, round);
        for (uint32_t p = threadIdx.x; p < n; p += blockDim.x)
            *(volatile uint32_t *)braid_window_pointer(&w, (int)p, row + 4 * me) = round * 256 + me;
        if (round % 4 == 0) {
            status = braid_barrier_cta(&c, 200 + block);
        } else if (round % 4 == 1) { /* arrive and wait apart */
            braid_barrier_arrive_cta(&c, &b);
            status = braid_barrier_wait_cta(&c, &b);
        } else {
            status = braid_barrier_sync_cta(&c, &b);
        }
        SEE(v, round, block, 0, status);
        for (uint32_t p = threadIdx.x; p < n; p += blockDim.x)
            SEE(v, round, p, round * 256 + p,
                *(volatile uint32_t *)braid_window_local(&w, row + 4 * p));
    }
    SEE(v, rounds, block, 0, braid_barrier_sync_cta(&c, &b));
    braid_barrier_close_cta(&c, &b);
}

/* The same with one warp and with one thread. */
__global__ void small_barriers(const __grid_constant__ struct braid_devcomm c,
                               const __grid_constant__ struct braid_devwin w, uint32_t rounds,
                               struct verdict *v)
{
    uint32_t n = (uint32_t)c.world.ranks, me = (uint32_t)c.world.rank;

    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t row = (1u << 20) + round % 2 * 1024;
        int status = 0;

        if (threadIdx.x == 0)
            skew(me, round);
        for (uint32_t p = threadIdx.x; p < n; p += blockDim.x)
            *(volatile uint32_t *)braid_window_pointer(&w, (int)p, row + 4 * me) = round * 256 + me;
        if (blockDim.x == 32)
            status = braid_barrier_warp(&c, 450);
        else
            status = braid_barrier_thread(&c, 451);
        SEE(v, round, 0, 0, status);
        for (uint32_t p = threadIdx.x; p < n; p += blockDim.x)
            SEE(v, round, p, round * 256 + p,
                *(volatile uint32_t *)braid_window_local(&w, row + 4 * p));
    }
    if (blockDim.x == 32)
        braid_barrier_warp(&c, 450);
    else
        braid_barrier_thread(&c, 451);
}

static void barrier_case(struct rank *r)
{
    poison(r);
    if (r->option[0] == 's') { /* small */
        barriers<<<2, 64, 0, r->stream>>>(*r->c, *r->w, 9, r->verdict);
        small_barriers<<<1, 32, 0, r->stream>>>(*r->c, *r->w, 5, r->verdict);
        settle(r, 40, 1);
        return;
    }
    barriers<<<16, 128, 0, r->stream>>>(*r->c, *r->w, 500, r->verdict);
    settle(r, 20, 1);
    barriers<<<3, 32, 0, r->stream>>>(*r->c, *r->w, 101, r->verdict);
    settle(r, 20, 1);
    barriers<<<2, 7, 0, r->stream>>>(*r->c, *r->w, 33, r->verdict);
    settle(r, 20, 1);
    small_barriers<<<1, 32, 0, r->stream>>>(*r->c, *r->w, 500, r->verdict);
    small_barriers<<<1, 1, 0, r->stream>>>(*r->c, *r->w, 500, r->verdict);
    settle(r, 20, 1);
    /* back to back without the host, other grids in between */
    for (int i = 0; i < 300; i++)
        barriers<<<1 + i % 5, 64, 0, r->stream>>>(*r->c, *r->w, 1 + i % 3, r->verdict);
    settle(r, 30, 1);
    CUDA(r, cudaGetLastError());
}

/* Adds the epoch it sees, in every CTA, to a sum; late CTAs must see the same epoch as early ones. */
__global__ void count_epochs(const __grid_constant__ struct braid_devcomm c, uint32_t slot,
                             unsigned long long *sums)
{
    uint32_t epoch;

    if (threadIdx.x == 0)
        skew(blockIdx.x, (uint32_t)sums[2]);
    __syncthreads();
    epoch = braid_epoch_begin(&c, slot);
    if (threadIdx.x == 0) {
        atomicAdd(&sums[0], (unsigned long long)epoch);
        atomicAdd(&sums[1], 1ull);
    }
    braid_epoch_end_cta(&c, slot);
}

static void epochs_case(struct rank *r)
{
    unsigned long long *sums = (unsigned long long *)r->dst, got[3];
    unsigned long long expected = 0, ctas = 0;
    uint32_t epoch = 0xfffffff0u;

    CUDA(r, cudaMemsetAsync(sums, 0, 24, r->stream));
    for (uint32_t i = 0; i < 400; i++, epoch++) {
        uint32_t grid = 1 + mix(i) % 96;

        count_epochs<<<grid, 32 + i % 3 * 64, 0, r->stream>>>(*r->c, 7, sums);
        expected += (unsigned long long)grid * epoch;
        ctas += grid;
    }
    settle(r, 20, 1);
    CUDA(r, cudaMemcpy(got, sums, 24, cudaMemcpyDeviceToHost));
    EXPECT(r, got[1] == ctas, "CTAs %llu, expected %llu", got[1], ctas);
    EXPECT(r, got[0] == expected, "sum of epochs %llu, expected %llu", got[0], expected);
    CUDA(r, cudaGetLastError());
}

/* One round of everything on one communicator; run on two streams of two communicators at the same time. */
__global__ void mixed(const __grid_constant__ struct braid_devcomm c,
                      const __grid_constant__ struct braid_devwin w, uint32_t tag, uint32_t rounds,
                      struct verdict *v)
{
    int peer = c.world.rank ^ 1;
    volatile uint64_t *in = (volatile uint64_t *)braid_window_local(&w, 0);

    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t mine = ((uint64_t)tag << 40) + ((uint64_t)c.world.rank << 32) + round;
        uint64_t his = ((uint64_t)tag << 40) + ((uint64_t)peer << 32) + round;

        skew((uint32_t)c.world.rank + tag * 17, round);
        braid_put_value_signal_thread(&c, &w, peer, 8 * (round & 1), mine, 8, 0, BRAID_SIGNAL_ADD,
                                      1);
        SEE(v, round, 0, 0, braid_take_signal_thread(&c, 0, 1));
        SEE(v, round, 1, his, in[round & 1]);
        if (round % 8 == 7)
            SEE(v, round, 2, 0, braid_barrier_thread(&c, 3));
    }
}

static void two_comms_case(struct rank *r)
{
    struct braid_bootstrap callbacks = boot_callbacks(&r->boot);
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;
    struct braid_comm *other = NULL;
    struct braid_window *window = NULL;
    struct verdict *verdict;
    struct verdict seen;
    cudaStream_t stream;
    int rc;

    config.timeout_ns = 5000000000ull;
    config.signals = 8;
    config.first_epoch = 77;
    rc = braid_comm_create(&other, &callbacks, &config);
    if (!EXPECT(r, rc == 0, "second communicator: %s", strerror(-rc)))
        return;
    rc = braid_window_alloc(other, 4096, &window);
    if (!EXPECT(r, rc == 0, "its window: %s", strerror(-rc)))
        return;
    CUDA(r, cudaMalloc((void **)&verdict, sizeof(*verdict)));
    CUDA(r, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(r, cudaMemsetAsync(verdict, 0, sizeof(*verdict), stream));
    CUDA(r, cudaStreamSynchronize(stream));
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    for (int i = 0; i < 20; i++) { /* the two ranks start them in different order */
        if ((i + r->rank) % 2 == 0)
            mixed<<<1, 1, 0, r->stream>>>(*r->c, *r->w, 1, 100, r->verdict);
        mixed<<<1, 1, 0, stream>>>(*braid_comm_device(other), *braid_window_device(window), 2, 100,
                                   verdict);
        if ((i + r->rank) % 2 != 0)
            mixed<<<1, 1, 0, r->stream>>>(*r->c, *r->w, 1, 100, r->verdict);
    }
    settle(r, 30, 1);
    CUDA(r, cudaStreamSynchronize(stream));
    EXPECT(r, braid_comm_error(other, NULL) == 0);
    CUDA(r, cudaMemcpy(&seen, verdict, sizeof(seen), cudaMemcpyDeviceToHost));
    EXPECT(r, seen.bad == 0, "second communicator: %u wrong, round %u: expected %llx, seen %llx",
           seen.bad, seen.round, (unsigned long long)seen.expected, (unsigned long long)seen.seen);
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    rc = braid_comm_destroy(other);
    EXPECT(r, rc == 0, "destroy of the second: %s", strerror(-rc));
    /* the first one still works */
    mixed<<<1, 1, 0, r->stream>>>(*r->c, *r->w, 3, 50, r->verdict);
    settle(r, 10, 1);
    CUDA(r, cudaGetLastError());
}

const struct test_case sync_cases[] = {
    {"barrier", barrier_case, 2, 30, 5000, 0xfffffff0u, "", 0},
    {"barrier/3_ranks", barrier_case, 3, 30, 5000, 1, "", 0},
    {"barrier/threads", barrier_case, 2, 30, 5000, 0x7ffffff0u, "", CASE_THREADS},
    {"barrier/small", barrier_case, 1, 30, 20000, 1, "small", CASE_SMALL},
    {"barrier/small_threads", barrier_case, 2, 30, 5000, 1, "small", CASE_SMALL | CASE_THREADS},
    {"epochs", epochs_case, 1, 30, 5000, 0xfffffff0u, "", 0},
    {"two_comms", two_comms_case, 2, 30, 5000, 1, "", 0},
    {NULL, NULL, 0, 0, 0, 0, NULL, 0},
};
