/*
 * Failures: a rank that never comes, one that dies, the host's abort, very many waits for a rank that is late. The others get a status within the bound, the reason is
 * readable, the communicator is unusable, the process and a new communicator are fine.
 */
#include "tests/gpu/device/harness.h"

#include <signal.h>

/* Each CTA waits for something else of rank 1. statuses[block] is what it got. */
__global__ void lonely(const __grid_constant__ struct braid_devcomm c,
                       const __grid_constant__ struct braid_devwin w, int *statuses)
{
    struct braid_tiles tiles = {6u << 20, 8, 1};
    uint64_t data;
    int status = 0;

    switch (blockIdx.x) {
    case 0: status = braid_barrier_cta(&c, 5); break;
    case 1: status = braid_wait_signal_cta(&c, 9, 1); break;
    case 2: status = braid_take_signal_cta(&c, 10, 1); break;
    case 3: status = braid_tile_wait_cta(&c, &w, &tiles, 3, 7); break;
    case 4:
        status = braid_get_packets_cta(&c, &w, 1, 0, (void *)(w.local + 65536), 1000, 77);
        break;
    case 5:
        status = threadIdx.x < 32 ? braid_barrier_warp(&c, 6) : 0;
        status = threadIdx.x == 0 ? status : 0;
        break;
    case 6:
        if (threadIdx.x == 0)
            status = braid_packet_load_thread(&c, (const void *)w.local, 99, &data, 1, 0);
        break;
    default: /* many waits one after the other: only the first may take the whole bound */
        for (int i = 0; i < 200; i++)
            status = braid_wait_signal_cta(&c, 11, 1);
    }
    if (threadIdx.x == 0)
        statuses[blockIdx.x] = status;
}
#define LONELY_CTAS 8

__global__ void hello(const __grid_constant__ struct braid_devcomm c,
                      const __grid_constant__ struct braid_devwin w, struct verdict *v)
{
    int n = c.world.ranks, right = (c.world.rank + 1) % n, left = (c.world.rank + n - 1) % n;

    braid_put_value_signal_thread(&c, &w, right, 0, 1000 + c.world.rank, 8, 0, BRAID_SIGNAL_ADD, 1);
    SEE(v, 0, 0, 0, braid_take_signal_thread(&c, 0, 1));
    SEE(v, 0, 1, 1000 + left, *(volatile uint64_t *)w.local);
    SEE(v, 0, 2, 0, braid_barrier_thread(&c, 0));
}

/* What the ranks that are left find, `bound_s` = the waits' bound. `expected` is the status. */
static void check_failure(struct rank *r, double begin, double bound_s, int expected,
                          const int *statuses)
{
    struct braid_devcomm_error reason;
    int got[LONELY_CTAS] = {0};
    double took;
    char text[256];

    settle(r, bound_s + 10, 0);
    took = now_s() - begin;
    EXPECT(r, took < bound_s + 2, "the kernel took %.2f s, the bound is %.2f s", took, bound_s);
    EXPECT(r, braid_comm_error(r->comm, &reason) == expected, "error %d, expected %d",
           braid_comm_error(r->comm, NULL), expected);
    EXPECT(r,
           reason.wait != 0 && reason.block < LONELY_CTAS &&
               reason.waited_ns < (uint64_t)((bound_s + 1) * 1e9),
           "reason: %s", braid_comm_error_text(&reason, text, sizeof(text)));
    if (reason.wait == BRAID_WAIT_BARRIER || reason.wait == BRAID_WAIT_PACKET)
        EXPECT(r, reason.peer == 1, "peer %d", reason.peer);
    EXPECT(r, reason.expected != reason.seen);
    if (r->rank == 0)
        printf("      %s\n", braid_comm_error_text(&reason, text, sizeof(text)));
    CUDA(r, cudaMemcpy(got, statuses, sizeof(got), cudaMemcpyDeviceToHost));
    for (int i = 0; i < LONELY_CTAS; i++)
        EXPECT(r, got[i] != 0, "CTA %d ended with status %d", i, got[i]);
}

/* A new communicator in the same process works. */
static void start_over(struct rank *r)
{
    struct braid_bootstrap callbacks = boot_callbacks(&r->boot);
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;
    int rc;

    rc = braid_comm_destroy(r->comm);
    EXPECT(r, rc == 0, "destroy after the failure: %s", strerror(-rc));
    r->comm = NULL;
    config.timeout_ns = 5000000000ull;
    rc = braid_comm_create(&r->comm, &callbacks, &config);
    if (!EXPECT(r, rc == 0, "a new communicator: %s", strerror(-rc)))
        return;
    rc = braid_window_alloc(r->comm, WINDOW_BYTES, &r->window);
    if (!EXPECT(r, rc == 0, "a new window: %s", strerror(-rc)))
        return;
    r->c = braid_comm_device(r->comm);
    r->w = braid_window_device(r->window);
    hello<<<1, 1, 0, r->stream>>>(*r->c, *r->w, r->verdict);
    settle(r, 10, 1);
}

static void never_comes_case(struct rank *r)
{
    struct braid_window *window;
    int *statuses = (int *)r->dst, rc;
    double begin;

    poison(r);
    CUDA(r, cudaMemsetAsync(statuses, 0, 64, r->stream));
    CUDA(r, cudaMemsetAsync((char *)braid_window_address(r->window, r->rank) + (6u << 20), 0, 64,
                            r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    hello<<<1, 1, 0, r->stream>>>(*r->c, *r->w, r->verdict);
    settle(r, 10, 1);
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    if (r->rank != 1) {
        begin = now_s();
        lonely<<<LONELY_CTAS, 64, 0, r->stream>>>(*r->c, *r->w, statuses);
        check_failure(r, begin, 0.4, BRAID_DEV_TIMEOUT, statuses);
        /* unusable: the next kernel ends at once, windows are refused */
        begin = now_s();
        lonely<<<LONELY_CTAS, 64, 0, r->stream>>>(*r->c, *r->w, statuses);
        settle(r, 5, 0);
        EXPECT(r, now_s() - begin < 0.3, "a kernel after the failure took %.3f s", now_s() - begin);
    }
    rc = braid_window_alloc(r->comm, 4096, &window);
    EXPECT(r, rc == -EIO, "window after a failure: %d", rc);
    start_over(r);
}

/* Rank 1 ends as a process after a first exchange, without a word. */
static void dies_case(struct rank *r)
{
    int *statuses = (int *)r->dst;
    double begin;

    poison(r);
    CUDA(r, cudaMemsetAsync(statuses, 0, 64, r->stream));
    CUDA(r, cudaMemsetAsync((char *)braid_window_address(r->window, r->rank) + (6u << 20), 0, 64,
                            r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    hello<<<1, 1, 0, r->stream>>>(*r->c, *r->w, r->verdict);
    settle(r, 10, 1);
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    if (r->rank == 1) {
        r->report->done = 1;
        fflush(stdout);
        if (r->option[0] == 'k')
            raise(SIGKILL);
        _exit(0);
    }
    usleep(200000); /* its memory is still mapped here: writes to it must not fault */
    begin = now_s();
    lonely<<<LONELY_CTAS, 64, 0, r->stream>>>(*r->c, *r->w, statuses);
    check_failure(r, begin, 0.4, BRAID_DEV_TIMEOUT, statuses);
    CUDA(r, cudaDeviceSynchronize());
}

/* Rank 1 is killed while its kernel waits; rank 0's kernel must end with a status. */
static void killed_case(struct rank *r)
{
    int *statuses = (int *)r->dst;
    double begin;

    poison(r);
    CUDA(r, cudaMemsetAsync(statuses, 0, 64, r->stream));
    CUDA(r, cudaMemsetAsync((char *)braid_window_address(r->window, r->rank) + (6u << 20), 0, 64,
                            r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    if (r->rank == 1) {
        lonely<<<LONELY_CTAS, 64, 0, r->stream>>>(
            *r->c, *r->w, statuses); /* waits for packets of itself, and so on */
        usleep(100000);
        raise(SIGKILL);
    }
    usleep(300000);
    begin = now_s();
    lonely<<<LONELY_CTAS, 64, 0, r->stream>>>(*r->c, *r->w, statuses);
    settle(r, 10, 0);
    EXPECT(r, now_s() - begin < 3);
    EXPECT(r, braid_comm_error(r->comm, NULL) != 0);
}

/* Every warp tells its counterpart on the peer and waits for it: far more waits than one word of the host can be read for in time. */
#define CROWD_CTAS    128
#define CROWD_THREADS 352
#define CROWD_WORDS   (4u << 20)
#define CROWD_ROUNDS  300

__global__ void crowd(const __grid_constant__ struct braid_devcomm c,
                      const __grid_constant__ struct braid_devwin w, uint32_t round, uint32_t *bad)
{
    uint64_t word = CROWD_WORDS + 4ull * ((blockIdx.x * blockDim.x + threadIdx.x) / 32);

    if (threadIdx.x % 32 != 0)
        return;
    braid_signal_word32_thread(&c, &w, c.world.rank ^ 1, word, BRAID_SIGNAL_SET, round);
    if (braid_wait_word32_thread(&c, &w, word, round) != 0)
        atomicAdd(bad, 1);
}

/*
 * Rank 1 is late once; the rounds after that must be as fast as if it had not been (where every wait looks at the clock, 1408 warps keep
 * each other late: 700 us a round). Then it does not come at all: the bound holds for a crowd, too.
 */
static void crowd_case(struct rank *r)
{
    uint32_t *bad = (uint32_t *)r->dst, got = 0;
    cudaEvent_t begin, end;
    float ms = 0;
    double start;

    CUDA(r, cudaEventCreate(&begin));
    CUDA(r, cudaEventCreate(&end));
    CUDA(r, cudaMemsetAsync(bad, 0, 4, r->stream));
    CUDA(r, cudaMemsetAsync((char *)braid_window_address(r->window, r->rank) + CROWD_WORDS, 0,
                            65536, r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    if (r->rank == 1)
        usleep(20000);
    for (uint32_t round = 1; round <= CROWD_ROUNDS; round++) {
        crowd<<<CROWD_CTAS, CROWD_THREADS, 0, r->stream>>>(*r->c, *r->w, round, bad);
        if (round == 1 || round == CROWD_ROUNDS)
            CUDA(r, cudaEventRecord(round == 1 ? begin : end, r->stream));
    }
    settle(r, 10, 1);
    CUDA(r, cudaMemcpy(&got, bad, 4, cudaMemcpyDeviceToHost));
    EXPECT(r, got == 0, "%u waits failed", got);
    CUDA(r, cudaEventElapsedTime(&ms, begin, end));
    if (r->rank == 0)
        printf("      a crowd of %d warps after a late rank: %.1f us a round\n",
               CROWD_CTAS * CROWD_THREADS / 32, ms * 1e3 / (CROWD_ROUNDS - 1));
    EXPECT(r, ms * 1e3 / (CROWD_ROUNDS - 1) < 100, "%.1f us a round",
           ms * 1e3 / (CROWD_ROUNDS - 1));
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    if (r->rank == 1)
        return;
    start = now_s();
    crowd<<<CROWD_CTAS, CROWD_THREADS, 0, r->stream>>>(*r->c, *r->w, CROWD_ROUNDS + 1, bad);
    settle(r, 5, 0);
    EXPECT(r, now_s() - start > 0.4 && now_s() - start < 0.6, "the crowd's waits took %.3f s",
           now_s() - start);
    EXPECT(r, braid_comm_error(r->comm, NULL) == BRAID_DEV_TIMEOUT);
}

__global__ void endless(const __grid_constant__ struct braid_devcomm c, int *statuses)
{
    int status = braid_wait_signal_cta(&c, 9, 1);

    if (threadIdx.x == 0)
        statuses[blockIdx.x] = status;
}

/* The host ends kernels whose waits would last a minute; then the same through braid_comm_destroy. */
static void abort_case(struct rank *r)
{
    struct braid_devcomm_error reason;
    int *statuses = (int *)r->dst, got[4] = {0};
    double begin;
    int rc;

    CUDA(r, cudaMemsetAsync(statuses, 0, 64, r->stream));
    endless<<<4, 64, 0, r->stream>>>(*r->c, statuses);
    usleep(50000);
    EXPECT(r, cudaStreamQuery(r->stream) == cudaErrorNotReady, "the kernel should still wait");
    begin = now_s();
    braid_comm_abort(r->comm);
    settle(r, 10, 0);
    EXPECT(r, now_s() - begin < 0.5, "the abort took %.3f s", now_s() - begin);
    EXPECT(r, braid_comm_error(r->comm, &reason) == BRAID_DEV_ABORTED &&
                  reason.wait == BRAID_WAIT_SIGNAL && reason.index == 9);
    CUDA(r, cudaMemcpy(got, statuses, sizeof(got), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 4; i++)
        EXPECT(r, got[i] == BRAID_DEV_ABORTED, "CTA %d: status %d", i, got[i]);
    start_over(r);
    EXPECT(r, braid_comm_set_timeout_ns(r->comm, 60000000000ull) == 0);
    endless<<<4, 64, 0, r->stream>>>(*r->c, statuses);
    usleep(20000);
    begin = now_s();
    rc = braid_comm_destroy(r->comm);
    r->comm = NULL;
    EXPECT(r, rc == 0, "destroy under a waiting kernel: %s", strerror(-rc));
    EXPECT(r, now_s() - begin < 2, "it took %.3f s", now_s() - begin);
    CUDA(r, cudaStreamSynchronize(r->stream));
    CUDA(r, cudaMemcpy(got, statuses, sizeof(got), cudaMemcpyDeviceToHost));
    EXPECT(r, got[0] == BRAID_DEV_ABORTED, "status %d", got[0]);
}

const struct test_case fail_cases[] = {
    {"never_comes", never_comes_case, 2, 30, 400, 0xffffffffu, "", 0},
    {"never_comes/3_ranks", never_comes_case, 3, 30, 400, 1, "", 0},
    {"crowd", crowd_case, 2, 30, 400, 1, "", CASE_TWO_GPUS},
    {"dies", dies_case, 2, 30, 400, 1, "", 0},
    {"abort", abort_case, 2, 30, 60000, 1, "", 0},
    {"dies/killed", dies_case, 2, 30, 400, 1, "kill", CASE_DEATH},
    {"killed_in_kernel", killed_case, 2, 30, 400, 1, "", CASE_DEATH},
    {NULL, NULL, 0, 0, 0, 0, NULL, 0},
};
