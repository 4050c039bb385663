/*
 * All-gather and all-to-all by copy engines on the fake CUDA driver: two to four ranks as threads, in place and apart, operations back
 * to back in random order, against what every rank must have; and the watchdog when a rank does not come. Streams run at once there, so
 * this proves addresses, the protocol of the flags and its reuse, and errors; the overlap of streams is the GPU's matter.
 */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "braid/ops.h"
#include "common/util.h"
#include "tests/unit/device/fake_cuda_ops.h"

#define MAX_RANKS 4
#define MOST      (8u << 20) /* of a block */
#define ROUNDS    40

struct meeting {
    pthread_barrier_t barrier;
    unsigned char slots[MAX_RANKS][8192];
};

struct task {
    struct meeting *meeting;
    int rank, ranks;
    uint64_t timeout_ns;
    int (*body)(struct task *task, struct braid_comm *comm, struct braid_ops *ops, char *window);
    int line; /* 0 fine, else where it failed */
};

static int boot_rank(void *context)
{
    return ((struct task *)context)->rank;
}

static int boot_ranks(void *context)
{
    return ((struct task *)context)->ranks;
}

static int boot_allgather(void *context, const void *mine, void *all, size_t bytes)
{
    struct task *t = context;

    if (bytes > sizeof(t->meeting->slots[0]))
        return -EMSGSIZE;
    memcpy(t->meeting->slots[t->rank], mine, bytes);
    pthread_barrier_wait(&t->meeting->barrier);
    for (int i = 0; i < t->ranks; i++)
        memcpy((char *)all + (size_t)i * bytes, t->meeting->slots[i], bytes);
    pthread_barrier_wait(&t->meeting->barrier);
    return 0;
}

static void *task_main(void *argument)
{
    struct task *t = argument;
    struct braid_bootstrap boot = {t, boot_rank, boot_ranks, boot_allgather};
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;
    struct braid_ops_config ops_config = BRAID_OPS_CONFIG_INIT;
    struct braid_comm *comm = NULL;
    struct braid_ops *ops = NULL;
    struct braid_window *window = NULL;

    config.device = t->rank % fake_cuda.gpus;
    config.timeout_ns = 60000000000ull; /* the bound is for the operations */
    ops_config.packet_bytes = 64 << 10;
    ops_config.staging_bytes = (size_t)MOST * (size_t)(t->ranks - 1);
    t->line = braid_comm_create(&comm, &boot, &config) == 0 ? 0 : __LINE__;
    if (t->line == 0 && braid_ops_create(&ops, comm, &ops_config) != 0)
        t->line = __LINE__;
    if (t->line == 0 && braid_window_alloc(comm, (size_t)MOST * MAX_RANKS, &window) != 0)
        t->line = __LINE__;
    if (t->line == 0)
        t->line = braid_comm_set_timeout_ns(comm, t->timeout_ns) == 0 ? 0 : __LINE__;
    if (t->line == 0)
        t->line = t->body(t, comm, ops, braid_window_address(window, t->rank));
    pthread_barrier_wait(&t->meeting->barrier);
    braid_comm_set_timeout_ns(comm, 60000000000ull);
    braid_ops_destroy(ops);
    braid_comm_destroy(comm);
    return NULL;
}

static void run_ranks(int ranks,
                      int (*body)(struct task *, struct braid_comm *, struct braid_ops *, char *),
                      uint64_t timeout_ns)
{
    struct meeting *meeting = calloc(1, sizeof(*meeting));
    struct task tasks[MAX_RANKS];
    pthread_t threads[MAX_RANKS];

    pthread_barrier_init(&meeting->barrier, NULL, (unsigned)ranks);
    for (int i = 0; i < ranks; i++) {
        tasks[i] = (struct task){meeting, i, ranks, timeout_ns, body, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, task_main, &tasks[i]), 0);
    }
    for (int i = 0; i < ranks; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < ranks; i++)
        assert_int_equal(tasks[i].line, 0);
    pthread_barrier_destroy(&meeting->barrier);
    free(meeting);
}

static unsigned char value(int round, int source, int dest, size_t i)
{
    return (unsigned char)(i * 31 + (size_t)(round * 7 + source * 101 + dest * 13) + (i >> 9));
}

/* Is block `source` at `p` what `source` sent to `dest` in `round`? Looks at a few bytes. */
static int right(const char *p, size_t block, int round, int source, int dest)
{
    for (size_t i = 0; i < block; i += 1 + block / 97) {
        if ((unsigned char)p[i] != value(round, source, dest, i))
            return 0;
    }
    return (unsigned char)p[block - 1] == value(round, source, dest, block - 1);
}

static void fill(char *p, size_t block, int round, int source, int dest)
{
    for (size_t i = 0; i < block; i++)
        p[i] = (char)value(round, source, dest, i);
}

static int one_round(struct task *t, struct braid_ops *ops, char *window, char *plain, int round)
{
    static const size_t sizes[] = {1, 17, 4096, 100003, (2u << 20) + 5, 3u << 20, MOST};
    struct braid_op_options engine = BRAID_OP_OPTIONS_INIT;
    size_t block = sizes[round % ARRAY_SIZE(sizes)];
    int in_place = round / 2 % 2;

    engine.method = BRAID_METHOD_ENGINE;
    memset(window, 0xee, block * (size_t)t->ranks);
    if (round % 2 == 0) { /* dest 0: an all-gather sends the same to everyone */
        char *in = in_place ? window + block * (size_t)t->rank : plain;

        fill(in, block, round, t->rank, 0);
        if (braid_all_gather(ops, in, window, block, &engine, NULL) != 0)
            return __LINE__;
    } else {
        char *in = in_place ? window : plain;

        for (int r = 0; r < t->ranks; r++)
            fill(in + block * (size_t)r, block, round, t->rank, r);
        if (braid_all_to_all(ops, in, window, block, &engine, NULL) != 0)
            return __LINE__;
    }
    for (int r = 0; r < t->ranks; r++) {
        if (!right(window + block * (size_t)r, block, round, r, round % 2 == 0 ? 0 : t->rank))
            return __LINE__;
    }
    return 0;
}

static int body_rounds(struct task *t, struct braid_comm *comm, struct braid_ops *ops, char *window)
{
    char *plain = malloc((size_t)MOST * MAX_RANKS);
    int line = 0;

    for (int round = 0; round < ROUNDS && line == 0; round++)
        line = one_round(t, ops, window, plain, round);
    if (line == 0 && braid_comm_error(comm, NULL) != 0)
        line = __LINE__;
    free(plain);
    return line;
}

static void test_rounds(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MAX_RANKS; ranks++)
        run_ranks(ranks, body_rounds, 20000000000ull);
}

static int body_absent(struct task *t, struct braid_comm *comm, struct braid_ops *ops, char *window)
{
    struct braid_op_options engine = BRAID_OP_OPTIONS_INIT;
    struct braid_devcomm_error reason;
    char text[256];

    engine.method = BRAID_METHOD_ENGINE;
    if (t->rank == t->ranks - 1)
        return 0; /* never comes */
    if (braid_all_to_all(ops, window, window, 4096, &engine, NULL) != 0)
        return __LINE__;
    if (braid_comm_error(comm, &reason) != BRAID_DEV_TIMEOUT)
        return __LINE__;
    if (reason.waited_ns < 150000000ull || reason.waited_ns > 5000000000ull)
        return __LINE__;
    if (strstr(braid_comm_error_text(&reason, text, sizeof(text)), "timed out") == NULL)
        return __LINE__;
    return braid_all_gather(ops, window, window, 16, &engine, NULL) == -EIO ? 0 : __LINE__;
}

/* The watchdog ends the waits of the others, which then know; nothing of theirs hangs. */
static void test_absent_rank(void **state)
{
    (void)state;
    run_ranks(2, body_absent, 150000000ull);
    run_ranks(3, body_absent, 150000000ull);
}

/*
 * The last rank comes when the others have given up: it gets a status, or else what it asked for. Their copies went into its `out`
 * before it came, and it wrote there since.
 */
static int body_late(struct task *t, struct braid_comm *comm, struct braid_ops *ops, char *window)
{
    struct braid_op_options engine = BRAID_OP_OPTIONS_INIT;
    size_t block = 100003;
    char *plain = malloc(block * MAX_RANKS);
    int late = t->rank == t->ranks - 1, line = 0;

    engine.method = BRAID_METHOD_ENGINE;
    for (int gather = 0; gather < 2; gather++) { /* the second one must not begin */
        for (int r = 0; r < t->ranks; r++)
            fill(plain + block * (size_t)r, block, 0, t->rank, gather ? 0 : r);
        if (late) {
            pthread_barrier_wait(&t->meeting->barrier);
            memset(window, 0xee, block * (size_t)t->ranks);
        }
        if ((gather ? braid_all_gather(ops, plain, window, block, &engine, NULL)
                    : braid_all_to_all(ops, plain, window, block, &engine, NULL)) !=
            (gather ? -EIO : 0))
            line = __LINE__;
        if (!late) {
            if (braid_comm_error(comm, NULL) != BRAID_DEV_TIMEOUT)
                line = __LINE__;
            pthread_barrier_wait(&t->meeting->barrier);
        }
        for (int r = 0; r < t->ranks && braid_comm_error(comm, NULL) == 0; r++) {
            if (!right(window + block * (size_t)r, block, 0, r, t->rank))
                line = __LINE__;
        }
    }
    free(plain);
    return line;
}

static void test_late_rank(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MAX_RANKS; ranks++)
        run_ranks(ranks, body_late, 50000000ull);
}

/* What a rank has after a kernel of its has failed is no result: its copies are not announced, though no wait of theirs is late. */
static int body_failed_before(struct task *t, struct braid_comm *comm, struct braid_ops *ops,
                              char *window)
{
    struct braid_op_options engine = BRAID_OP_OPTIONS_INIT;
    struct braid_devcomm_state *state =
        (struct braid_devcomm_state *)(uintptr_t)braid_comm_device(comm)->state;

    engine.method = BRAID_METHOD_ENGINE;
    if (t->rank == 0) /* recorded on the device; the host has not heard of it, so it enqueues */
        state->error = BRAID_DEV_TIMEOUT;
    if (braid_all_gather(ops, window, window + 4096, 64, &engine, NULL) != 0)
        return __LINE__;
    return t->rank == 0 || braid_comm_error(comm, NULL) == BRAID_DEV_TIMEOUT ? 0 : __LINE__;
}

static void test_failed_before(void **state)
{
    (void)state;
    run_ranks(3, body_failed_before, 150000000ull);
}

static void no_kernel(void **arguments, unsigned ctas, unsigned threads)
{
    (void)arguments, (void)ctas, (void)threads;
}

/* The module's kernels by name; none of them runs in these tests. */
static int set_up(void **state)
{
    static char names[FAKE_FUNCTIONS][64];
    static const char *const kinds[] = {"ll", "exchange", "pull"};
    static const char *const numbers[] = {"f32", "f16", "bf16", "f8e4m3", "f8e5m2"};
    int n = 0;

    (void)state;
    snprintf(names[n++], 64, "braid_ll_copy");
    snprintf(names[n++], 64, "braid_exchange_copy");
    for (size_t i = 0; i < 6 * ARRAY_SIZE(numbers); i++)
        snprintf(names[n++], 64, "braid_%s_reduce_%s_%c", kinds[i % 3], numbers[i / 6],
                 i / 3 % 2 == 0 ? '2' : 'n');
    for (int i = 0; i < n; i++) {
        fake_cuda_ops.functions[i].name = names[i];
        fake_cuda_ops.functions[i].function.run = no_kernel;
    }
    fake_cuda.gpus = 4;
    fake_cuda.max_ctas_per_sm = 1;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_absent_rank),
        cmocka_unit_test(test_late_rank),
        cmocka_unit_test(test_failed_before),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
