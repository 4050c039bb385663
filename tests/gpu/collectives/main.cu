/*
 * Collectives against a reference: every operation, method, number format, odd sizes and alignments, in place and apart, inside a
 * window and not, back to back, under random delays, in graphs, across the wrap of epochs; failures that must end with a status; and
 * the proof that copy engines need no SM. One process, a thread a rank; rank r uses GPU r mod the number of GPUs.
 * Usage: gpu_collectives [--ranks N] [--seconds S] [--epoch FIRST] [--bound SECONDS of one wait] [STAGE ...]; stages: sums copies graph engine fail late. Exit code 77
 * without a GPU. Every case prints a line only when it fails; a summary a stage.
 */
#include "test.h"

int ranks = 2, gpus;
static double budget_s = 100;
static unsigned first_epoch = 1;
static uint64_t timeout_ns = 5000000000ull;
int failures, cases;
pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t barrier;
static unsigned char gathered[2][MAX_TEST_RANKS * 4096];

const char *const number_names[] = {"f32", "f16", "bf16", "f8e4m3", "f8e5m2"};
const int number_bytes[] = {4, 2, 2, 1, 1};
const char *const method_names[] = {"auto",   "packets", "one_shot", "two_shot",
                                    "staged", "direct",  "engine",   "pull"};

double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the bootstrap: threads of one process ---- */
static int boot_rank(void *context)
{
    return ((struct rank *)context)->rank;
}

static int boot_ranks(void *)
{
    return ranks;
}

static int boot_allgather(void *context, const void *mine, void *all, size_t bytes)
{
    struct rank *r = (struct rank *)context;
    static __thread int turn;

    if (bytes > 4096)
        return -EINVAL;
    turn ^= 1;
    memcpy(gathered[turn] + r->rank * bytes, mine, bytes);
    pthread_barrier_wait(&barrier);
    memcpy(all, gathered[turn], bytes * ranks);
    pthread_barrier_wait(&barrier);
    return 0;
}

unsigned chance(struct rank *r, unsigned n)
{
    r->seed = r->seed * 1664525u + 1013904223u;
    return (r->seed >> 8) % n;
}

void skew(struct rank *r)
{
    if (chance(r, 3) == 0)
        delay_kernel<<<1, 1, 0, r->stream>>>(chance(r, 60));
}

void fail(struct rank *r, const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&print_lock);
    failures++;
    if (failures < 60) {
        printf("FAIL rank %d: ", r->rank);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n");
        fflush(stdout);
    }
    pthread_mutex_unlock(&print_lock);
}

/* Ends a case: synchronises, reads what was found, compares digests between ranks. Returns nonzero to give up on the communicator. */
int settle(struct rank *r, const char *text, int rc, int same_bits)
{
    static struct findings all[MAX_TEST_RANKS];
    struct findings f;
    struct braid_devcomm_error reason;
    char why[256];
    int broken = 0;

    if (rc != 0)
        fail(r, "%s: returned %d (%s)", text, rc, strerror(-rc));
    CHECK(cudaMemcpyAsync(&f, r->found, sizeof(f), cudaMemcpyDeviceToHost, r->stream));
    CHECK(cudaStreamSynchronize(r->stream));
    CHECK(cudaGetLastError());
    if (braid_comm_error(r->comm, &reason) != 0) {
        fail(r, "%s: %s", text, braid_comm_error_text(&reason, why, sizeof(why)));
        broken = 1;
    } else if (f.wrong != 0) {
        fail(r, "%s: %llu wrong, one at %llu", text, f.wrong, f.first);
    }
    all[r->rank] = f;
    pthread_barrier_wait(&barrier);
    for (int i = 0; same_bits && r->rank == 0 && i < ranks; i++) {
        if (all[i].digest != all[0].digest && all[i].wrong == 0)
            fail(r, "%s: rank %d has other bits than rank 0", text, i);
    }
    if (r->rank == 0)
        __atomic_add_fetch(&cases, 1, __ATOMIC_RELAXED);
    CHECK(cudaMemsetAsync(r->found, 0, sizeof(f), r->stream));
    CHECK(cudaStreamSynchronize(r->stream));
    pthread_barrier_wait(&barrier);
    return broken;
}

int anyone_broken(int mine)
{
    static int votes[2];
    static __thread int turn;
    int all;

    turn ^= 1;
    if (mine)
        __atomic_store_n(&votes[turn], 1, __ATOMIC_RELAXED);
    pthread_barrier_wait(&barrier);
    all = votes[turn];
    votes[turn ^ 1] = 0;
    pthread_barrier_wait(&barrier);
    return all;
}

void open_comm(struct rank *r, uint64_t bound_ns, size_t window_bytes)
{
    struct braid_bootstrap boot = {r, boot_rank, boot_ranks, boot_allgather};
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;
    struct braid_ops_config ops_config = BRAID_OPS_CONFIG_INIT;
    int rc;

    config.device = r->gpu;
    config.timeout_ns = bound_ns;
    config.first_epoch = first_epoch;
    rc = braid_comm_create(&r->comm, &boot, &config);
    if (rc == 0)
        rc = braid_ops_create(&r->ops, r->comm, &ops_config);
    if (rc == 0 && window_bytes != 0) {
        rc = braid_window_alloc(r->comm, window_bytes, &r->window);
        if (rc == 0)
            r->win = (char *)braid_window_address(r->window, r->rank);
    }
    if (rc != 0) {
        printf("FATAL rank %d: communicator or collectives: %s\n", r->rank, strerror(-rc));
        fflush(stdout);
        _exit(3);
    }
}

void close_comm(struct rank *r)
{
    int rc;

    braid_ops_destroy(r->ops);
    rc = braid_comm_destroy(r->comm);
    if (rc != 0)
        fail(r, "braid_comm_destroy: %s", strerror(-rc));
    r->comm = NULL;
    r->ops = NULL;
    r->window = NULL;
    pthread_barrier_wait(&barrier);
}

static const struct {
    const char *name;
    int (*run)(struct rank *r, double until);
    double share; /* of the time */
} stages[] = {
    {"sums", stage_sums, 0.35},     {"copies", stage_copies, 0.25}, {"graph", stage_graph, 0.2},
    {"engine", stage_engine, 0.05}, {"fail", stage_fail, 0.05},     {"late", stage_late, 0.1},
};
static const char *wanted[16];
static int wanted_count;

static void *rank_main(void *argument)
{
    struct rank *r = (struct rank *)argument;

    CHECK(cudaSetDevice(r->gpu));
    CHECK(cudaFree(0));
    CHECK(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&r->in, BUFFER_BYTES + 64));
    CHECK(cudaMalloc(&r->out, BUFFER_BYTES + 64));
    CHECK(cudaMalloc(&r->found, sizeof(*r->found)));
    CHECK(cudaMemset(r->found, 0, sizeof(*r->found)));
    CHECK(cudaMemset(r->in, 1, BUFFER_BYTES));
    r->seed = 77 + r->rank;
    pthread_barrier_wait(&barrier);
    for (unsigned s = 0; s < sizeof(stages) / sizeof(stages[0]); s++) {
        int run = wanted_count == 0, before = failures, cases_before = cases,
            own_comm = stages[s].run == stage_fail || stages[s].run == stage_late;
        double begin = now_s();

        for (int i = 0; i < wanted_count; i++)
            run |= strcmp(wanted[i], stages[s].name) == 0;
        if (!run)
            continue;
        if (!own_comm)
            open_comm(r, timeout_ns, BUFFER_BYTES);
        pthread_barrier_wait(&barrier);
        stages[s].run(r, begin + budget_s * stages[s].share);
        pthread_barrier_wait(&barrier);
        if (!own_comm)
            close_comm(r);
        if (r->rank == 0)
            printf("stage %-7s %s: %d cases, %d failures, %.1f s\n", stages[s].name,
                   failures == before ? "passed" : "FAILED", cases - cases_before,
                   failures - before, now_s() - begin);
        fflush(stdout);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct rank all[MAX_TEST_RANKS];
    pthread_t threads[MAX_TEST_RANKS];

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--ranks") == 0 && i + 1 < argc)
            ranks = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            budget_s = atof(argv[++i]);
        else if (strcmp(argv[i], "--epoch") == 0 && i + 1 < argc)
            first_epoch = (unsigned)strtoul(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--bound") == 0 && i + 1 < argc)
            timeout_ns = (uint64_t)(1e9 * atof(argv[++i]));
        else if (wanted_count < 16)
            wanted[wanted_count++] = argv[i];
    }
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        printf("skipped: no GPU\n");
        return 77;
    }
    if (ranks < 2 || ranks > MAX_TEST_RANKS)
        return 2;
    pthread_barrier_init(&barrier, NULL, ranks);
    for (int i = 0; i < ranks; i++) {
        all[i].rank = i;
        all[i].gpu = i % gpus;
        pthread_create(&threads[i], NULL, rank_main, &all[i]);
    }
    for (int i = 0; i < ranks; i++)
        pthread_join(threads[i], NULL);
    printf("gpu_collectives: %d ranks on %d GPU(s), first epoch 0x%x: %d cases, %d failures\n",
           ranks, gpus < ranks ? gpus : ranks, first_epoch, cases, failures);
    return failures != 0;
}
