/*
 * Runs the schedules of all ranks against each other on small numbers. Every lane is a queue; a random scheduler advances one row of
 * one instruction at a time, so that a buffer that is reused too early, a missing edge or a wrong flag shows as a wrong result or as
 * a deadlock. Several operations follow each other without a pause and with other inputs, as replays of a graph do.
 */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "device/ops/gemm_plan.h"

#define MAX_RANKS 5
#define N_COLS    2
#define K_COLS    3
#define RUNS      3
#define POISON    1e30

struct event_mark {
    size_t from; /* instruction index of an edge */
};

struct sim_rank {
    struct braid_gemm_program program;
    double *buffer[BRAID_GEMM_B_COUNT];
    uint32_t *flags;
    double *x[RUNS], *y[RUNS], *send[RUNS], *recv[RUNS];
    int run[BRAID_GEMM_MAX_LANES];     /* which operation the lane is in */
    size_t at[BRAID_GEMM_MAX_LANES];   /* next instruction to look at */
    int64_t row[BRAID_GEMM_MAX_LANES]; /* progress inside the instruction */
    uint8_t *edge_done;                /* [RUNS * count]: the edge's source side has been passed */
};

struct sim {
    struct braid_gemm_desc desc;
    struct braid_gemm_settings set;
    int ranks;
    int late;    /* a rank that hardly gets on, or -1 */
    bool serial; /* all lanes of a rank in program order */
    int64_t x_rows, y_rows, part, bulk_part;
    double w[K_COLS][N_COLS];
    struct sim_rank rank[MAX_RANKS];
    unsigned seed;
};

static int width(int buffer, const struct braid_gemm_desc *desc)
{
    bool bulk = desc->settings.method == BRAID_GEMM_BULK;

    switch (buffer) {
    case BRAID_GEMM_B_X: return K_COLS;
    case BRAID_GEMM_B_GATHER: return bulk ? (int)desc->bulk_n : K_COLS;
    case BRAID_GEMM_B_SEND:
    case BRAID_GEMM_B_RECV: return (int)desc->bulk_n;
    case BRAID_GEMM_B_PART: return bulk ? (int)desc->bulk_n : N_COLS;
    default: return N_COLS;
    }
}

static double *row_at(struct sim *s, int rank, int run, int buffer, int64_t row)
{
    struct sim_rank *r = &s->rank[rank];
    double *base = buffer == BRAID_GEMM_B_X      ? r->x[run]
                   : buffer == BRAID_GEMM_B_Y    ? r->y[run]
                   : buffer == BRAID_GEMM_B_SEND ? r->send[run]
                   : buffer == BRAID_GEMM_B_RECV ? r->recv[run]
                                                 : r->buffer[buffer];

    assert_non_null(base);
    return base + row * width(buffer, &s->desc);
}

static double number(struct sim *s)
{
    return (double)(rand_r(&s->seed) % 17) - 8;
}

static double *numbers(struct sim *s, int64_t count)
{
    double *v = malloc((size_t)count * sizeof(*v));

    for (int64_t i = 0; i < count; i++)
        v[i] = number(s);
    return v;
}

static double *poisoned(int64_t count)
{
    double *v = malloc((size_t)count * sizeof(*v));

    for (int64_t i = 0; i < count; i++)
        v[i] = POISON;
    return v;
}

static void one_row(struct sim *s, int rank, int run, const struct braid_gemm_instr *i, int64_t k)
{
    int to = i->kind == BRAID_GEMM_I_PUSH || (i->kind == BRAID_GEMM_I_GEMM && i->peer >= 0)
                 ? i->peer
                 : rank;
    const double *src = row_at(s, rank, run, i->src, i->src_row + k);
    double *dst = row_at(s, to, run, i->dst, i->dst_row + k);
    int w = width(i->dst, &s->desc);

    if (i->kind == BRAID_GEMM_I_GEMM) {
        const double *acc = i->acc ? row_at(s, rank, run, i->acc, i->acc_row + k) : NULL;

        for (int n = 0; n < N_COLS; n++) {
            double sum = acc ? acc[n] : 0;

            for (int j = 0; j < K_COLS; j++)
                sum += src[j] * s->w[j][n] * (rank + 1);
            dst[n] = sum;
        }
        return;
    }
    assert_int_equal(w, width(i->src, &s->desc));
    for (int n = 0; n < w; n++) {
        double sum = src[n];

        for (int p = 0; i->kind == BRAID_GEMM_I_ADD && p < s->ranks; p++)
            if (p != rank) {
                int64_t part = s->set.method == BRAID_GEMM_BULK ? s->bulk_part : s->part;

                sum += row_at(s, rank, run, i->acc, p * part + i->acc_row + k)[n];
            }
        dst[n] = sum;
    }
}

/* May lane `lane` of `rank` pass the instruction at `at`? Edges into it must have been passed on their source lane. */
static bool try_step(struct sim *s, int rank, uint32_t lane)
{
    struct sim_rank *r = &s->rank[rank];
    struct braid_gemm_program *p = &r->program;
    size_t at = r->at[lane];
    int run = r->run[lane];
    const struct braid_gemm_instr *i;

    while (at < p->count && p->instr[at].lane != lane && p->instr[at].lane2 != lane)
        at++;
    r->at[lane] = at;
    if (at == p->count) {
        /* Lanes other than the caller's enter an operation by an edge from lane 0, so that running ahead is harmless. */
        if (run + 1 == RUNS)
            return false;
        r->run[lane]++;
        r->at[lane] = 0;
        return true;
    }
    i = &p->instr[at];
    switch (i->kind) {
    case BRAID_GEMM_I_EDGE:
        if (i->lane == lane)
            r->edge_done[(size_t)run * p->count + at] = 1;
        else if (!r->edge_done[(size_t)run * p->count + at])
            return false;
        break;
    case BRAID_GEMM_I_WAIT:
        if (r->flags[i->flag] != 1)
            return false;
        r->flags[i->flag] = 0;
        break;
    case BRAID_GEMM_I_POST:
        assert_in_range(i->peer, 0, s->ranks - 1);
        assert_true(i->flag < p->flags);
        assert_int_equal(s->rank[i->peer].flags[i->flag], 0); /* never set twice */
        s->rank[i->peer].flags[i->flag] = 1;
        break;
    case BRAID_GEMM_I_GEMM:
    case BRAID_GEMM_I_PUSH:
    case BRAID_GEMM_I_COPY:
    case BRAID_GEMM_I_ADD:
        if (r->row[lane] < i->rows) {
            one_row(s, rank, run, i, r->row[lane]++);
            return true;
        }
        r->row[lane] = 0;
        break;
    default: break;
    }
    r->at[lane]++;
    return true;
}

static bool finished(const struct sim *s)
{
    for (int rank = 0; rank < s->ranks; rank++)
        for (uint32_t lane = 0; lane < BRAID_GEMM_MAX_LANES; lane++)
            if (s->rank[rank].run[lane] + 1 < RUNS ||
                s->rank[rank].at[lane] < s->rank[rank].program.count)
                return false;
    return true;
}

/* In serial mode a lane may only go on when no other lane has an earlier instruction left. */
static bool is_earliest(const struct sim *s, int rank, uint32_t lane)
{
    const struct sim_rank *r = &s->rank[rank];

    for (uint32_t other = 0; other < BRAID_GEMM_MAX_LANES; other++)
        if (r->run[other] < r->run[lane] ||
            (r->run[other] == r->run[lane] && r->at[other] < r->at[lane]))
            return false;
    return true;
}

static void run_all(struct sim *s)
{
    int stuck = 0, late = s->late;

    while (!finished(s)) {
        int rank = rand_r(&s->seed) % s->ranks;
        uint32_t lane = (uint32_t)rand_r(&s->seed) % BRAID_GEMM_MAX_LANES;
        bool moved = false;

        if (rank == late &&
            rand_r(&s->seed) % 32 != 0) /* the others get as far ahead as they can */
            continue;
        for (uint32_t j = 0; !moved && j < BRAID_GEMM_MAX_LANES; j++) {
            uint32_t l = (lane + j) % BRAID_GEMM_MAX_LANES;

            if (s->serial && !is_earliest(s, rank, l))
                continue;
            moved = try_step(s, rank, l);
        }
        stuck = moved ? 0 : stuck + 1;
        assert_true(stuck < 10000); /* a deadlock */
    }
}

/* The product of global row `row` of run `run`; for a reduction summed over the ranks. */
static double expect(struct sim *s, int run, int rank, int64_t row, int n)
{
    double sum = 0;
    bool gather = s->desc.op == BRAID_AG_GEMM && s->set.method != BRAID_GEMM_BULK;

    for (int r = 0; r < s->ranks; r++) {
        bool reduce = s->desc.op != BRAID_AG_GEMM && s->set.method != BRAID_GEMM_BULK;
        int from = gather ? (int)(row / s->part) : r;
        const double *x = s->rank[from].x[run] + (gather ? row % s->part : row) * K_COLS;

        if (!reduce && r != rank)
            continue;
        for (int j = 0; j < K_COLS; j++)
            sum += x[j] * s->w[j][n] * (r + 1);
    }
    return sum;
}

static void check_bulk(struct sim *s, int run, int rank)
{
    struct sim_rank *r = &s->rank[rank];
    int w = (int)s->desc.bulk_n;

    if (s->desc.op == BRAID_AG_GEMM) {
        for (int64_t row = 0; run == RUNS - 1 && row < s->desc.bulk_m; row++)
            for (int n = 0; n < w; n++)
                assert_true(r->buffer[BRAID_GEMM_B_GATHER][row * w + n] ==
                            s->rank[row / s->bulk_part].send[run][row % s->bulk_part * w + n]);
        return;
    }
    for (int64_t row = 0; row < s->bulk_part; row++)
        for (int n = 0; n < w; n++) {
            double sum = 0;

            for (int p = 0; p < s->ranks; p++)
                sum += s->rank[p].send[run][(rank * s->bulk_part + row) * w + n];
            assert_true(r->recv[run][row * w + n] == sum);
        }
}

static void check(struct sim *s)
{
    bool bulk = s->set.method == BRAID_GEMM_BULK;

    for (int run = 0; run < RUNS; run++)
        for (int rank = 0; rank < s->ranks; rank++) {
            int64_t first = s->desc.op == BRAID_GEMM_RS && !bulk ? rank * s->part : 0;

            for (int64_t row = 0; row < s->y_rows; row++)
                for (int n = 0; n < N_COLS; n++)
                    assert_true(s->rank[rank].y[run][row * N_COLS + n] ==
                                expect(s, run, rank, first + row, n));
            if (bulk)
                check_bulk(s, run, rank);
            if (s->desc.flags & BRAID_GEMM_KEEP_GATHERED && run == RUNS - 1)
                for (int64_t i = 0; i < s->desc.m * K_COLS; i++)
                    assert_true(s->rank[rank].buffer[BRAID_GEMM_B_GATHER][i] ==
                                s->rank[i / (s->part * K_COLS)].x[run][i % (s->part * K_COLS)]);
        }
}

static void set_up_rank(struct sim *s, int rank)
{
    struct sim_rank *r = &s->rank[rank];
    int64_t rows = MAX(s->desc.m, s->desc.bulk_m);

    assert_int_equal(braid_gemm_program_make(&s->desc, &s->set, rank, s->ranks, &r->program), 0);
    r->flags = calloc(r->program.flags, sizeof(uint32_t));
    r->edge_done = calloc(RUNS * r->program.count, 1);
    for (int b = BRAID_GEMM_B_STAGE; b < BRAID_GEMM_B_COUNT; b++)
        r->buffer[b] = poisoned((rows + s->part) * 8);
    for (int run = 0; run < RUNS; run++) {
        r->x[run] = numbers(s, s->x_rows * K_COLS);
        r->y[run] = poisoned(s->desc.m * N_COLS);
        r->send[run] = numbers(s, MAX(1, s->desc.bulk_m) * 8);
        r->recv[run] = poisoned(MAX(1, s->desc.bulk_m) * 8);
    }
}

static void tear_down_rank(struct sim_rank *r)
{
    for (int b = 0; b < BRAID_GEMM_B_COUNT; b++)
        free(r->buffer[b]);
    for (int run = 0; run < RUNS; run++) {
        free(r->x[run]);
        free(r->y[run]);
        free(r->send[run]);
        free(r->recv[run]);
    }
    free(r->flags);
    free(r->edge_done);
    braid_gemm_program_free(&r->program);
}

static void simulate(int op, int method, int ranks, int splits, int lanes, uint32_t flags,
                     int direct, unsigned seed)
{
    struct sim *s = calloc(1, sizeof(*s));
    bool bulk = method == BRAID_GEMM_BULK;

    s->ranks = ranks;
    s->seed = seed;
    s->serial = seed % 4 == 3;
    s->late = (int)(seed % 5) - 1; /* sometimes none */
    s->part = 1 + (int64_t)(seed % 9);
    s->bulk_part = 2 + (int64_t)(seed % 5);
    s->set = (struct braid_gemm_settings){.method = method,
                                          .num_splits = splits,
                                          .lanes = lanes,
                                          .own_splits = 1 + (int)(seed % 2),
                                          .signal = (int)(seed % 4),
                                          .taper = (int)(seed / 2 % 3),
                                          .direct = direct};
    s->desc = (struct braid_gemm_desc){.op = op,
                                       .m = s->part * ranks,
                                       .n = N_COLS,
                                       .k = K_COLS,
                                       .bulk_m = bulk ? s->bulk_part * ranks : 0,
                                       .bulk_n = bulk ? 5 : 0,
                                       .flags = flags,
                                       .settings = s->set};
    s->x_rows = op == BRAID_AG_GEMM && !bulk ? s->part : s->desc.m;
    s->y_rows = op == BRAID_GEMM_RS && !bulk ? s->part : s->desc.m;
    for (int j = 0; j < K_COLS; j++)
        for (int n = 0; n < N_COLS; n++)
            s->w[j][n] = number(s);
    for (int rank = 0; rank < ranks; rank++)
        set_up_rank(s, rank);
    run_all(s);
    check(s);
    for (int rank = 0; rank < ranks; rank++)
        tear_down_rank(&s->rank[rank]);
    free(s);
}

static void simulate_many(int op, int method, uint32_t flags, int direct)
{
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (int splits = 1; splits <= 4; splits++)
            for (unsigned seed = 0; seed < 24; seed++)
                simulate(op, method, ranks, splits, 1 + (int)(seed % 4), flags, direct,
                         seed + 100 * (unsigned)splits);
}

static void test_ring_exchange(void **state)
{
    for (int op = BRAID_AG_GEMM; op <= BRAID_GEMM_AR; op++)
        simulate_many(op, BRAID_GEMM_RING_EXCHANGE, 0, 0);
}

static void test_pipeline(void **state)
{
    for (int op = BRAID_AG_GEMM; op <= BRAID_GEMM_AR; op++)
        simulate_many(op, BRAID_GEMM_PIPELINE, 0, 0);
}

/* Products that write into the peer's window themselves; three ranks add and pass on. */
static void test_direct(void **state)
{
    for (int op = BRAID_GEMM_RS; op <= BRAID_GEMM_AR; op++) {
        simulate_many(op, BRAID_GEMM_RING_EXCHANGE, 0, 1);
        simulate_many(op, BRAID_GEMM_PIPELINE, 0, 1);
    }
    simulate_many(BRAID_AG_GEMM, BRAID_GEMM_RING_EXCHANGE, 0, 1); /* has no meaning there */
    simulate_many(BRAID_GEMM_RS, BRAID_GEMM_SERIAL, 0, 1);
}

static void test_direct_needs_no_staging(void **state)
{
    struct braid_gemm_desc desc = {.op = BRAID_GEMM_RS, .m = 1024, .n = 8, .k = 8};
    struct braid_gemm_settings set = {
        .method = BRAID_GEMM_RING_EXCHANGE, .num_splits = 2, .lanes = 2, .direct = 1};
    struct braid_gemm_program p;
    int written = 0;

    assert_int_equal(braid_gemm_program_make(&desc, &set, 0, 2, &p), 0);
    for (size_t i = 0; i < p.count; i++) {
        assert_int_not_equal(p.instr[i].kind, BRAID_GEMM_I_PUSH);
        assert_int_not_equal(p.instr[i].dst, BRAID_GEMM_B_STAGE);
        written += p.instr[i].kind == BRAID_GEMM_I_GEMM && p.instr[i].peer == 1;
    }
    assert_int_equal(written, 2);
    braid_gemm_program_free(&p);
}

static void test_serial(void **state)
{
    for (int op = BRAID_AG_GEMM; op <= BRAID_GEMM_AR; op++)
        simulate_many(op, BRAID_GEMM_SERIAL, 0, 0);
}

static void test_bulk(void **state)
{
    simulate_many(BRAID_AG_GEMM, BRAID_GEMM_BULK, 0, 0);
    simulate_many(BRAID_GEMM_RS, BRAID_GEMM_BULK, 0, 0);
}

static void test_gathered_rows_stay(void **state)
{
    simulate_many(BRAID_AG_GEMM, BRAID_GEMM_RING_EXCHANGE, BRAID_GEMM_KEEP_GATHERED, 0);
    simulate_many(BRAID_AG_GEMM, BRAID_GEMM_PIPELINE, BRAID_GEMM_KEEP_GATHERED, 0);
    simulate_many(BRAID_AG_GEMM, BRAID_GEMM_SERIAL, BRAID_GEMM_KEEP_GATHERED, 0);
}

static void test_split_covers_all_rows(void **state)
{
    for (int64_t rows = 1; rows < 3000; rows = rows * 5 / 4 + 1)
        for (uint32_t splits = 1; splits <= BRAID_GEMM_MAX_SPLITS; splits++)
            for (int shape = BRAID_GEMM_EVEN; shape <= BRAID_GEMM_BOTH_HALVED; shape++) {
                int64_t bounds[BRAID_GEMM_MAX_SPLITS + 1];
                uint32_t count =
                    braid_gemm_split(rows, splits, (enum braid_gemm_shape)shape, bounds);

                assert_in_range(count, 1, splits);
                assert_int_equal(bounds[0], 0);
                assert_int_equal(bounds[count], rows);
                for (uint32_t i = 0; i < count; i++)
                    assert_true(bounds[i] < bounds[i + 1]);
            }
}

static void test_split_prefers_tiles(void **state)
{
    int64_t bounds[BRAID_GEMM_MAX_SPLITS + 1];

    assert_int_equal(braid_gemm_split(4096, 4, 0, bounds), 4);
    assert_int_equal(bounds[1], 1024);
    assert_int_equal(braid_gemm_split(1000, 2, 0, bounds), 2);
    assert_int_equal(bounds[1], 512);
    assert_int_equal(braid_gemm_split(4096, 3, 1, bounds), 3);
    assert_int_equal(bounds[1], 2048);
    assert_int_equal(bounds[2], 3456);
    assert_int_equal(braid_gemm_split(4096, 4, BRAID_GEMM_HALVING, bounds), 4);
    assert_int_equal(bounds[1], 2176);
    assert_int_equal(bounds[3], 3840);
    assert_int_equal(braid_gemm_split(4096, 4, BRAID_GEMM_BOTH_HALVED, bounds), 4);
    assert_int_equal(bounds[1], 640);
    assert_int_equal(bounds[2], 2048);
}

static void test_refuses_nonsense(void **state)
{
    struct braid_gemm_program p;
    struct braid_gemm_desc desc = {.op = BRAID_AG_GEMM, .m = 7, .n = 8, .k = 8};
    struct braid_gemm_settings set = {.method = BRAID_GEMM_RING_EXCHANGE, .lanes = 1};

    assert_int_equal(braid_gemm_program_make(&desc, &set, 0, 2, &p), -EINVAL);
    desc.m = 8;
    assert_int_equal(braid_gemm_program_make(&desc, &set, 2, 2, &p), -EINVAL);
    set.method = BRAID_GEMM_AUTO;
    assert_int_equal(braid_gemm_program_make(&desc, &set, 0, 2, &p), -EINVAL);
    set.method = BRAID_GEMM_BULK;
    assert_int_equal(braid_gemm_program_make(&desc, &set, 0, 2, &p), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_covers_all_rows),
        cmocka_unit_test(test_split_prefers_tiles),
        cmocka_unit_test(test_refuses_nonsense),
        cmocka_unit_test(test_ring_exchange),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_direct_needs_no_staging),
        cmocka_unit_test(test_serial),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_gathered_rows_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
