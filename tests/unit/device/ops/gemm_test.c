/*
 * Fused products end to end on the fake CUDA driver and the fake cuBLASLt: two and three ranks as threads, every operation and method,
 * against products made here; the watchdog; what create and run refuse. Streams run at once there, so this proves addresses, flags,
 * agreement and errors; the order of streams is gemm_plan_test.c's and the GPU's matter.
 */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <braid/gemm_ops.h>

#include "common/clock.h"
#include "common/util.h"
#include "device/ops/gemm_flags.h"
#include "tests/unit/device/fake_cuda_ops.h"

#define MAX_RANKS 3
#define ROWS      24 /* of a rank */
#define N         16
#define K         8
#define RUNS      3

/* Bootstrap of threads. */
struct meeting {
    pthread_barrier_t barrier;
    unsigned char slots[MAX_RANKS][8192];
};

struct task {
    struct meeting *meeting;
    int rank, ranks;
    struct braid_gemm_desc desc;
    uint64_t timeout_ns;
    int (*body)(struct task *task, struct braid_comm *comm);
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

    for (size_t at = 0; at == 0 || at < bytes; at += sizeof(t->meeting->slots[0])) {
        size_t now = MIN(bytes - at, sizeof(t->meeting->slots[0]));

        memcpy(t->meeting->slots[t->rank], (const char *)mine + at, now);
        pthread_barrier_wait(&t->meeting->barrier);
        for (int i = 0; i < t->ranks; i++)
            memcpy((char *)all + (size_t)i * bytes + at, t->meeting->slots[i], now);
        pthread_barrier_wait(&t->meeting->barrier);
    }
    return 0;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d: line %d: %s\n", task->rank, __LINE__, #condition);           \
            _exit(1); /* the others wait in barriers */                                            \
        }                                                                                          \
    } while (0)

static void *task_main(void *argument)
{
    struct task *t = argument;
    struct braid_bootstrap boot = {t, boot_rank, boot_ranks, boot_allgather};
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;
    struct braid_comm *comm = NULL;

    config.device = t->rank % fake_cuda.gpus;
    config.timeout_ns = t->timeout_ns;
    t->line = braid_comm_create(&comm, &boot, &config) == 0 ? 0 : __LINE__;
    if (t->line == 0)
        t->line = t->body(t, comm);
    pthread_barrier_wait(&t->meeting->barrier);
    braid_comm_set_timeout_ns(
        comm, 60000000000u); /* a thread of destroy's own may start late on a busy machine */
    braid_comm_destroy(comm);
    return NULL;
}

static void run_ranks(int ranks, const struct braid_gemm_desc *desc,
                      int (*body)(struct task *, struct braid_comm *), uint64_t timeout_ns)
{
    struct meeting *meeting = calloc(1, sizeof(*meeting));
    struct task tasks[MAX_RANKS];
    pthread_t threads[MAX_RANKS];

    pthread_barrier_init(&meeting->barrier, NULL, (unsigned)ranks);
    for (int i = 0; i < ranks; i++) {
        tasks[i] = (struct task){meeting, i, ranks, *desc, timeout_ns, body, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, task_main, &tasks[i]), 0);
    }
    for (int i = 0; i < ranks; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < ranks; i++)
        assert_int_equal(tasks[i].line, 0);
    pthread_barrier_destroy(&meeting->barrier);
    free(meeting);
    assert_int_equal(fake_cuda_ops.events, 0);
    assert_int_equal(fake_cuda.live, 0);
}

/* Small whole numbers, so that every sum is exact in bf16 and fp16. */
static float number(int which, int run, int rank, int64_t i)
{
    uint32_t h =
        (uint32_t)(i * 2654435761u + (uint32_t)(which * 97 + run * 31 + rank * 7) * 40503u);

    return (float)((int)(h >> 13) % 3 - 1);
}

static uint16_t encode(float f, int dtype)
{
    uint32_t bits;

    if (dtype == BRAID_GEMM_FP16)
        return f == 0 ? 0 : f == 1 ? 0x3c00 : f == 2 ? 0x4000 : 0xbc00;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static float decode(uint16_t v, int dtype)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;

    if (dtype == BRAID_GEMM_FP16) {
        int exponent = v >> 10 & 31;

        f = exponent == 0 ? 0 : (float)((v & 1023) + 1024) * (float)(1u << exponent) / 33554432.0f;
        return v >> 15 ? -f : f;
    }
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static uint16_t *matrix(int which, int run, int rank, int64_t count, int dtype)
{
    uint16_t *v = aligned_alloc(64, (size_t)(count * 2 + 63) / 64 * 64);

    for (int64_t i = 0; i < count; i++)
        v[i] = encode(number(which, run, rank, i), dtype);
    return v;
}

static float expect(const struct task *t, int run, int64_t row, int64_t n)
{
    bool gather = t->desc.op == BRAID_AG_GEMM, turned = t->desc.flags & BRAID_GEMM_W_TRANSPOSED;
    float sum = 0;

    for (int r = gather ? t->rank : 0; r < (gather ? t->rank + 1 : t->ranks); r++)
        for (int64_t k = 0; k < K; k++) {
            int from = gather ? (int)(row / ROWS) : r;

            sum += number(0, run, from, (gather ? row % ROWS : row) * K + k) *
                   number(1, 0, r, turned ? n * K + k : k * N + n);
        }
    return sum;
}

static int call(struct braid_gemm *g, int op, const void *x, const void *w, void *y)
{
    switch (op) {
    case BRAID_AG_GEMM: return braid_ag_gemm(g, x, w, y, NULL);
    case BRAID_GEMM_RS: return braid_gemm_rs(g, x, w, y, NULL);
    default: return braid_gemm_ar(g, x, w, y, NULL);
    }
}

static int body_numbers(struct task *task, struct braid_comm *comm)
{
    const struct braid_gemm_desc *d = &task->desc;
    int64_t x_rows = d->op == BRAID_AG_GEMM ? ROWS : d->m;
    int64_t y_rows = d->op == BRAID_GEMM_RS ? ROWS : d->m;
    int64_t first = d->op == BRAID_GEMM_RS ? task->rank * ROWS : 0;
    uint16_t *w = matrix(1, 0, task->rank, (int64_t)K * N, d->dtype);
    struct braid_gemm *g = NULL;

    CHECK(braid_gemm_create(comm, d, &g) == 0);
    for (int run = 0; run < RUNS; run++) {
        uint16_t *x = matrix(0, run, task->rank, x_rows * K, d->dtype);
        uint16_t *y = matrix(2, run, task->rank, y_rows * N, d->dtype);

        CHECK(call(g, d->op, x, w, y) == 0);
        for (int64_t i = 0; i < y_rows * N; i++)
            CHECK(decode(y[i], d->dtype) == expect(task, run, first + i / N, i % N));
        if (d->flags & BRAID_GEMM_KEEP_GATHERED) {
            const uint16_t *all = braid_gemm_gathered(g);

            CHECK(all != NULL);
            for (int64_t i = 0; i < d->m * K; i++)
                CHECK(decode(all[i], d->dtype) ==
                      number(0, run, (int)(i / (ROWS * K)), i % (ROWS * K)));
        } else {
            CHECK(braid_gemm_gathered(g) == NULL);
        }
        free(x);
        free(y);
    }
    CHECK(braid_gemm_status(g, NULL) == 0);
    braid_gemm_destroy(g);
    free(w);
    return 0;
}

static void numbers(int op, int method, int ranks, int dtype, uint32_t flags, int num_sm,
                    int direct)
{
    struct braid_gemm_desc desc = {.size = sizeof(desc),
                                   .op = op,
                                   .dtype = dtype,
                                   .flags = flags,
                                   .m = (int64_t)ROWS * ranks,
                                   .n = N,
                                   .k = K,
                                   .settings = {.method = method,
                                                .num_sm = num_sm,
                                                .signal = (op + method + ranks) % 4,
                                                .direct = direct}};

    desc.settings.num_splits = method == BRAID_GEMM_AUTO ? 0 : 1 + (ranks + op + method) % 3;
    run_ranks(ranks, &desc, body_numbers, 30000000000u);
}

static void test_every_operation_and_method(void **state)
{
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (int op = BRAID_AG_GEMM; op <= BRAID_GEMM_AR; op++)
            for (int method = BRAID_GEMM_AUTO; method <= BRAID_GEMM_PIPELINE; method++)
                numbers(op, method, ranks, method % 2, 0, 0, 0);
}

static void test_options(void **state)
{
    numbers(BRAID_AG_GEMM, BRAID_GEMM_RING_EXCHANGE, 2, BRAID_GEMM_BF16, BRAID_GEMM_W_TRANSPOSED, 0,
            0);
    numbers(BRAID_GEMM_RS, BRAID_GEMM_RING_EXCHANGE, 3, BRAID_GEMM_BF16, BRAID_GEMM_W_TRANSPOSED, 4,
            0);
    numbers(BRAID_AG_GEMM, BRAID_GEMM_PIPELINE, 3, BRAID_GEMM_FP16, BRAID_GEMM_KEEP_GATHERED, 0, 0);
    numbers(BRAID_AG_GEMM, BRAID_GEMM_SERIAL, 2, BRAID_GEMM_BF16, BRAID_GEMM_KEEP_GATHERED, 0, 0);
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (int op = BRAID_GEMM_RS; op <= BRAID_GEMM_AR; op++) {
            numbers(op, BRAID_GEMM_RING_EXCHANGE, ranks, BRAID_GEMM_BF16, 0, 0, 1);
            numbers(op, BRAID_GEMM_PIPELINE, ranks, BRAID_GEMM_FP16, 0, 0, 1);
        }
}

static int body_bulk(struct task *task, struct braid_comm *comm)
{
    const struct braid_gemm_desc *d = &task->desc;
    bool gather = d->op == BRAID_AG_GEMM;
    int64_t part = d->bulk_m / task->ranks, count = part * d->bulk_n;
    uint16_t *x = matrix(0, 0, task->rank, d->m * K, 0), *w = matrix(1, 0, task->rank, K * N, 0);
    uint16_t *y = matrix(2, 0, task->rank, d->m * N, 0), *recv = matrix(2, 0, 0, count, 0);
    struct braid_gemm *g = NULL;

    CHECK(braid_gemm_create(comm, d, &g) == 0);
    for (int run = 0; run < RUNS; run++) {
        uint16_t *send = matrix(3, run, task->rank, gather ? count : count * task->ranks, 0);

        CHECK(braid_gemm_bulk(g, send, recv, run == 1 ? NULL : x, w, y, NULL) == 0);
        for (int64_t i = 0; i < d->m * N; i++) {
            float sum = 0;

            for (int64_t k = 0; k < K; k++)
                sum += number(0, 0, task->rank, i / N * K + k) *
                       number(1, 0, task->rank, k * N + i % N);
            CHECK(decode(y[i], 0) == sum);
        }
        for (int64_t i = 0; gather && i < count * task->ranks; i++)
            CHECK(decode(((uint16_t *)braid_gemm_gathered(g))[i], 0) ==
                  number(3, run, (int)(i / count), i % count));
        for (int64_t i = 0; !gather && i < count; i++) {
            float sum = 0;

            for (int r = 0; r < task->ranks; r++)
                sum += number(3, run, r, task->rank * count + i);
            CHECK(decode(recv[i], 0) == sum);
        }
        free(send);
    }
    CHECK(braid_ag_gemm(g, x, w, y, NULL) == -EINVAL);
    braid_gemm_destroy(g);
    free(x);
    free(w);
    free(y);
    free(recv);
    return 0;
}

static void test_bulk(void **state)
{
    struct braid_gemm_desc desc = {.size = sizeof(desc),
                                   .m = 20,
                                   .n = N,
                                   .k = K,
                                   .bulk_n = 24,
                                   .settings = {.method = BRAID_GEMM_BULK, .num_splits = 2}};

    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (int op = BRAID_AG_GEMM; op <= BRAID_GEMM_RS; op++) {
            desc.op = op;
            desc.m = 20 * ranks;
            desc.bulk_m = 10 * ranks;
            run_ranks(ranks, &desc, body_bulk, 30000000000u);
        }
}

/* The last rank stays away: the others get a status within the bound, and nothing hangs afterwards. */
static int body_absent(struct task *task, struct braid_comm *comm)
{
    const struct braid_gemm_desc *d = &task->desc;
    uint16_t *x = matrix(0, 0, task->rank, d->m * K, 0), *w = matrix(1, 0, task->rank, K * N, 0);
    uint16_t *y = matrix(2, 0, task->rank, d->m * N, 0);
    struct braid_gemm_error error;
    struct braid_gemm *g = NULL;
    uint64_t start;

    CHECK(braid_gemm_create(comm, d, &g) == 0);
    start = braid_now_ns();
    if (task->rank + 1 < task->ranks) {
        CHECK(call(g, d->op, x, w, y) == 0);
        CHECK(braid_now_ns() - start > task->timeout_ns / 2);
        CHECK(braid_now_ns() - start < 30 * task->timeout_ns); /* a busy machine */
        CHECK(braid_gemm_status(g, &error) == -EIO);
        CHECK(error.status == -ETIMEDOUT && strstr(error.text, "waited") != NULL);
        CHECK(task->ranks > 2 || error.peer == 1);
        CHECK(call(g, d->op, x, w, y) == -EIO);
    } else {
        CHECK(braid_gemm_status(g, &error) == 0 && error.status == 0);
    }
    pthread_barrier_wait(&task->meeting->barrier);
    braid_gemm_destroy(g);
    free(x);
    free(w);
    free(y);
    return 0;
}

static void test_absent_rank(void **state)
{
    struct braid_gemm_desc desc = {
        .size = sizeof(desc),
        .n = N,
        .k = K,
        .settings = {.method = BRAID_GEMM_RING_EXCHANGE, .num_splits = 2}};

    for (int op = BRAID_AG_GEMM; op <= BRAID_GEMM_AR; op++) {
        desc.op = op;
        desc.m = 2 * ROWS;
        run_ranks(2, &desc, body_absent, 300000000u);
    }
    desc.m = 3 * ROWS;
    run_ranks(3, &desc, body_absent, 300000000u);
    desc.settings.direct = 1;
    run_ranks(3, &desc, body_absent, 300000000u);
}

/*
 * The last rank comes when the others have given up: it gets a status, or else every number right. The others left their rows and flags
 * in its window, made without its own.
 */
static int body_late(struct task *task, struct braid_comm *comm)
{
    const struct braid_gemm_desc *d = &task->desc;
    int64_t y_rows = d->op == BRAID_GEMM_RS ? ROWS : d->m;
    int64_t first = d->op == BRAID_GEMM_RS ? task->rank * ROWS : 0;
    uint16_t *x = matrix(0, 0, task->rank, d->m * K, 0), *w = matrix(1, 0, task->rank, K * N, 0);
    uint16_t *y = matrix(2, 0, task->rank, d->m * N, 0);
    bool late = task->rank + 1 == task->ranks;
    struct braid_gemm *g = NULL;

    CHECK(braid_gemm_create(comm, d, &g) == 0);
    if (!late) {
        CHECK(call(g, d->op, x, w, y) == 0);
        CHECK(braid_gemm_status(g, NULL) == -EIO);
    }
    pthread_barrier_wait(&task->meeting->barrier);
    if (late)
        CHECK(call(g, d->op, x, w, y) == 0);
    for (int64_t i = 0; late && braid_gemm_status(g, NULL) == 0 && i < y_rows * N; i++)
        CHECK(decode(y[i], 0) == expect(task, 0, first + i / N, i % N));
    pthread_barrier_wait(&task->meeting->barrier);
    braid_gemm_destroy(g);
    free(x);
    free(w);
    free(y);
    return 0;
}

static void test_late_rank(void **state)
{
    struct braid_gemm_desc desc = {.size = sizeof(desc), .n = N, .k = K};

    for (int op = BRAID_AG_GEMM; op <= BRAID_GEMM_AR; op++)
        for (int how = 0; how < 6; how++) {
            int ranks = 2 + how / 4;

            desc.op = op;
            desc.m = (int64_t)ranks * ROWS;
            desc.settings = (struct braid_gemm_settings){
                .method = how == 5 ? BRAID_GEMM_PIPELINE : BRAID_GEMM_RING_EXCHANGE,
                .num_splits = 2,
                .signal = how % 4,
                .direct = op != BRAID_AG_GEMM && how % 2,
            };
            run_ranks(ranks, &desc, body_late, 50000000u);
        }
}

static int body_disagree(struct task *task, struct braid_comm *comm)
{
    struct braid_gemm_desc desc = task->desc;
    struct braid_gemm *g = NULL;

    desc.n += 8 * (task->rank == 1);
    CHECK(braid_gemm_create(comm, &desc, &g) == -EINVAL && g == NULL);
    desc = task->desc;
    desc.settings.num_splits = 1 + task->rank; /* rank 0 decides */
    CHECK(braid_gemm_create(comm, &desc, &g) == 0);
    {
        struct braid_gemm_info info;

        CHECK(braid_gemm_describe(g, &info) == 0 && info.settings.num_splits == 1);
        CHECK(strcmp(info.reason, "caller") == 0 && info.window_bytes > 0);
        CHECK(braid_gemm_tune(g, NULL) == 0);
        CHECK(braid_gemm_describe(g, &info) == 0 && info.settings.algos[0].rows > 0);
        CHECK(braid_ag_gemm(g, (void *)8, (void *)16, (void *)16, NULL) == -EINVAL);
        CHECK(braid_gemm_rs(g, (void *)16, (void *)16, (void *)16, NULL) == -EINVAL);
    }
    braid_gemm_destroy(g);
    g = NULL;
    desc.settings.method = BRAID_GEMM_TILE;
    CHECK(braid_gemm_create(comm, &desc, &g) == -EOPNOTSUPP);
    desc = task->desc;
    desc.k = 12;
    CHECK(braid_gemm_create(comm, &desc, &g) == -EINVAL);
    desc.size = 4;
    CHECK(braid_gemm_create(comm, &desc, &g) == -EINVAL);
    return 0;
}

static void test_agreement(void **state)
{
    struct braid_gemm_desc desc = {.size = sizeof(desc),
                                   .op = BRAID_AG_GEMM,
                                   .m = 2 * ROWS,
                                   .n = N,
                                   .k = K,
                                   .settings = {.method = BRAID_GEMM_RING_EXCHANGE}};

    run_ranks(2, &desc, body_disagree, 30000000000u);
}

/* Every call of the driver fails once: create or run says so, and nothing is left behind. */
static int body_failures(struct task *task, struct braid_comm *comm)
{
    uint16_t *x = matrix(0, 0, 0, task->desc.m * K, 0), *w = matrix(1, 0, 0, K * N, 0);
    uint16_t *y = matrix(2, 0, 0, task->desc.m * N, 0), *send = matrix(3, 0, 0, ROWS * 24, 0);
    int before = fake_cuda.live, failed = 0;

    for (int n = 1;; n++) {
        struct braid_gemm *g = NULL;
        int rc, left;

        fake_cuda.fail_at = n;
        rc = braid_gemm_create(comm, &task->desc, &g);
        CHECK((rc == 0) == (g != NULL));
        if (rc == 0)
            rc = task->desc.settings.method == BRAID_GEMM_BULK
                     ? braid_gemm_bulk(g, send, send, x, w, y, NULL)
                     : braid_ag_gemm(g, x, w, y, NULL);
        left = fake_cuda.fail_at;
        fake_cuda.fail_at = 0;
        braid_gemm_destroy(g);
        CHECK(fake_cuda.live == before && fake_cuda_ops.events == 0);
        if (left > 0) /* all calls came before it */
            break;
        CHECK(rc != 0);
        failed += rc != 0;
    }
    CHECK(failed > 10);
    free(x);
    free(w);
    free(y);
    free(send);
    return 0;
}

static void test_every_call_fails_once(void **state)
{
    struct braid_gemm_desc desc = {.size = sizeof(desc),
                                   .op = BRAID_AG_GEMM,
                                   .m = ROWS,
                                   .n = N,
                                   .k = K,
                                   .flags = BRAID_GEMM_KEEP_GATHERED,
                                   .settings = {.method = BRAID_GEMM_RING_EXCHANGE}};

    run_ranks(1, &desc, body_failures, 30000000000u);
    desc.flags = 0;
    desc.bulk_m = ROWS;
    desc.bulk_n = 24;
    desc.settings.method = BRAID_GEMM_BULK;
    run_ranks(1, &desc, body_failures, 30000000000u);
}

static void test_nothing_is_left(void **state)
{
    assert_int_equal(fake_cuda_ops.events, 0);
    assert_int_equal(fake_cuda.live, 0);
}

static void kernel_copy(void **a, unsigned ctas, unsigned threads)
{
    memcpy((void *)*(uintptr_t *)a[0], (const void *)*(uintptr_t *)a[1], *(uint64_t *)a[2]);
}

static void kernel_add(void **a, unsigned ctas, unsigned threads)
{
    uint16_t *dst = (void *)*(uintptr_t *)a[0];
    const uint16_t *src = (const void *)*(uintptr_t *)a[1];
    const char *slots = (const void *)*(uintptr_t *)a[2];
    uint64_t stride = *(uint64_t *)a[3], elements = *(uint64_t *)a[4];
    int rank = *(int32_t *)a[5], ranks = *(int32_t *)a[6], dtype = *(int32_t *)a[7];

    for (uint64_t i = 0; i < elements; i++) {
        float sum = decode(src[i], dtype);

        for (int p = 0; p < ranks; p++)
            if (p != rank)
                sum += decode(((const uint16_t *)(slots + (uint64_t)p * stride))[i], dtype);
        if (dtype == BRAID_GEMM_FP16) { /* exact: search the code of a small whole number */
            for (uint32_t v = 0; v < 0x10000; v++)
                if (decode((uint16_t)v, dtype) == sum) {
                    dst[i] = (uint16_t)v;
                    break;
                }
        } else {
            dst[i] = encode(sum, dtype);
        }
    }
}

static void kernel_flags(void **a, unsigned ctas, unsigned threads)
{
    const struct braid_gemm_flag_list *list = a[0];

    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t *word = (uint32_t *)(uintptr_t)list->step[i].word;

        if (list->step[i].kind == BRAID_GEMM_F_POST)
            __atomic_store_n(word,
                             list->step[i].value &
                                 __atomic_load_n((uint32_t *)(uintptr_t)list->go, __ATOMIC_ACQUIRE),
                             __ATOMIC_RELEASE);
        else if (list->step[i].kind == BRAID_GEMM_F_WRITE)
            __atomic_store_n(word, list->step[i].value, __ATOMIC_RELEASE);
        else
            while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != list->step[i].value)
                usleep(20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation_and_method),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_absent_rank),
        cmocka_unit_test(test_late_rank),
        cmocka_unit_test(test_agreement),
        cmocka_unit_test(test_every_call_fails_once),
        cmocka_unit_test(test_nothing_is_left),
    };

    fake_cuda_ops.functions[0].name = "braid_gemm_copy";
    fake_cuda_ops.functions[0].function.run = kernel_copy;
    fake_cuda_ops.functions[1].name = "braid_gemm_add";
    fake_cuda_ops.functions[1].function.run = kernel_add;
    fake_cuda_ops.functions[2].name = "braid_gemm_flags";
    fake_cuda_ops.functions[2].function.run = kernel_flags;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
