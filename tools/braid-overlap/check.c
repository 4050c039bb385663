/*
 * Checks of the fused products, see check.h: numbers against a float32 reference, equality from run to run, random arrival, reuse without
 * a pause, graph replay with changing inputs, odd row counts, a late rank, and a rank that never comes.
 */
#include "tools/braid-overlap/check.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/util.h"
#include "tools/braid-overlap/gpu.h"

#define REUSE 6 /* operations in a row, each with its own result */

struct check {
    struct session *s;
    struct braid_gemm_desc desc;
    struct braid_gemm *gemm;
    int64_t x_rows, y_rows,
        first; /* this rank's rows of x and y, and where y's begin in the whole result */
    void *x[REUSE], *w, *y[REUSE], *send, *recv;
    uint32_t *verdict; /* device: ratio bits, wrong count; then two 64-bit hashes */
    uint32_t seed;     /* of the inputs; equal on all ranks */
    uint32_t noise;    /* of the pauses */
    bool bulk;
    char name[96];
    int failed, done;
};

static void report(struct check *c, bool good, const char *what, const char *detail)
{
    c->done++;
    c->failed += !good;
    if (c->s->rank == 0 && (!good || !c->s->options->quiet))
        printf("%s %-58s %s%s%s\n", good ? "ok  " : "FAIL", c->name, what, detail[0] ? ": " : "",
               detail);
    fflush(stdout);
}

static int fill_inputs(struct check *c, int slot)
{
    const struct braid_gemm_desc *d = &c->desc;
    int half = d->dtype == BRAID_GEMM_FP16, rc;

    rc = gpu_fill(c->x[slot], c->x_rows * d->k,
                  c->seed + 64u * (uint32_t)slot + (uint32_t)c->s->rank, half, c->s->stream);
    return rc ? rc
              : (int)cudaMemsetAsync(c->y[slot], 0xff, (size_t)(c->y_rows * d->n) * 2,
                                     c->s->stream);
}

static int run(struct check *c, int slot)
{
    const void *x = c->x[slot];
    void *y = c->y[slot];

    switch (c->desc.op) {
    case BRAID_AG_GEMM: return braid_ag_gemm(c->gemm, x, c->w, y, c->s->stream);
    case BRAID_GEMM_RS: return braid_gemm_rs(c->gemm, x, c->w, y, c->s->stream);
    default: return braid_gemm_ar(c->gemm, x, c->w, y, c->s->stream);
    }
}

/* Largest error over its bound of all ranks; negative when something is wrong. */
static double compare(struct check *c, int slot)
{
    struct gpu_reference f = {.op = c->desc.op,
                              .half = c->desc.dtype == BRAID_GEMM_FP16,
                              .ranks = c->s->ranks,
                              .rank = c->s->rank,
                              .m = c->desc.m,
                              .n = c->desc.n,
                              .k = c->desc.k,
                              .seed_x = c->seed + 64u * (uint32_t)slot,
                              .seed_w = 77777,
                              .w_transposed = c->desc.flags & BRAID_GEMM_W_TRANSPOSED};
    uint32_t host[2] = {0, 0};
    float ratio;
    int rc;

    if (c->bulk) { /* the product is this rank's alone */
        f.op = BRAID_GEMM_RS;
        f.ranks = 1;
        f.rank = 0;
        f.seed_x += (uint32_t)c->s->rank;
        f.seed_w += (uint32_t)c->s->rank;
    }
    rc = (int)cudaMemsetAsync(c->verdict, 0, 8, c->s->stream);

    rc = rc ? rc : gpu_compare(&f, c->y[slot], c->first, c->y_rows, c->verdict, c->s->stream);
    rc = rc ? rc : (int)cudaMemcpyAsync(host, c->verdict, 8, cudaMemcpyDeviceToHost, c->s->stream);
    rc = rc ? rc : (int)cudaStreamSynchronize(c->s->stream);
    memcpy(&ratio, &host[0], sizeof(ratio));
    if (cuda_check(rc, "comparison") != 0)
        ratio = -1;
    else if (host[1] != 0)
        ratio = -(float)host[1] - 1;
    return ranks_max(c->s->self, ratio);
}

static bool judge_numbers(struct check *c, int slot, const char *what)
{
    double ratio = compare(c, slot);
    char detail[80];

    if (ratio < 0)
        snprintf(detail, sizeof(detail), "%.0f numbers of a rank are out of bound", -ratio - 1);
    else
        snprintf(detail, sizeof(detail), "largest error %.2f of its bound", ratio);
    report(c, ratio >= 0, what, detail);
    return ratio >= 0;
}

static int64_t hash(struct check *c, int slot)
{
    uint64_t host = 0;
    uint64_t *device = (uint64_t *)(c->verdict + 4);

    cudaMemsetAsync(device, 0, 8, c->s->stream);
    gpu_hash(c->y[slot], c->y_rows * c->desc.n, device, c->s->stream);
    cudaMemcpyAsync(&host, device, 8, cudaMemcpyDeviceToHost, c->s->stream);
    cudaStreamSynchronize(c->s->stream);
    return (int64_t)host;
}

/* A random pause of up to 200 us on this rank's stream. */
static int skew(struct check *c)
{
    c->noise = c->noise * 1664525u + 1013904223u;
    return gpu_delay(c->noise & 0x40000000u ? (c->noise >> 8) % 200000u : 0, c->s->stream);
}

/* Every slot filled with new numbers; all ranks ready. */
static int prepare(struct check *c)
{
    int rc = 0;

    c->seed += 1000;
    for (int slot = 0; slot < REUSE && rc == 0; slot++)
        rc = fill_inputs(c, slot);
    rc = rc ? rc : (int)cudaStreamSynchronize(c->s->stream);
    return ranks_agree(c->s->self, cuda_check(rc, "inputs"));
}

static int enqueue_all(struct check *c, bool with_skew)
{
    int rc = 0;

    for (int slot = 0; slot < REUSE && rc == 0; slot++) {
        rc = with_skew ? skew(c) : 0;
        rc = rc ? rc : run(c, slot);
    }
    return rc;
}

static bool judge_all(struct check *c, int rc, const char *what)
{
    rc = ranks_agree(c->s->self,
                     rc ? rc : cuda_check((int)cudaStreamSynchronize(c->s->stream), what));
    if (rc == 0)
        rc = ranks_agree(c->s->self, braid_gemm_status(c->gemm, NULL));
    if (rc != 0) {
        report(c, false, what, strerror(-rc));
        return false;
    }
    for (int slot = 0; slot < REUSE; slot++)
        if (compare(c, slot) < 0)
            return judge_numbers(c, slot, what);
    return judge_numbers(c, REUSE - 1, what);
}

/* One operation, then several without a pause and with random arrival; then the same again, which must give the same bits. */
static bool check_runs(struct check *c)
{
    int64_t before[REUSE];
    bool same = true, good;

    if (prepare(c) != 0)
        return false;
    good = judge_all(c, enqueue_all(c, false), "back to back");
    for (int slot = 0; slot < REUSE; slot++)
        before[slot] = hash(c, slot);
    if (!good)
        return false;
    good = judge_all(c, enqueue_all(c, true), "random arrival");
    for (int slot = 0; slot < REUSE; slot++)
        same = same && before[slot] == hash(c, slot);
    report(c, ranks_agree(c->s->self, same ? 0 : -EBADMSG) == 0, "equal bits from run to run", "");
    return good && same;
}

/* A graph of one operation, replayed with other inputs each time. */
static bool check_graph(struct check *c)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    bool good = true;
    int rc = prepare(c);

    rc = rc ? rc : (int)cudaStreamBeginCapture(c->s->stream, cudaStreamCaptureModeThreadLocal);
    rc = rc ? rc : run(c, 0);
    if (cudaStreamEndCapture(c->s->stream, &graph) != cudaSuccess)
        rc = rc ? rc : -EIO;
    rc = rc ? rc : (int)cudaGraphInstantiate(&exec, graph, 0);
    rc = ranks_agree(c->s->self, rc);
    for (int i = 0; rc == 0 && i < 300 && good; i++) {
        c->seed += 1;
        rc = fill_inputs(c, 0);
        rc = rc ? rc : skew(c);
        rc = rc ? rc : (int)cudaGraphLaunch(exec, c->s->stream);
        if (i % 100 == 99)
            good = compare(c, 0) >= 0;
    }
    rc = ranks_agree(c->s->self, rc);
    if (rc == 0)
        good = judge_numbers(c, 0, "300 replays of a graph") && good;
    else
        report(c, false, "300 replays of a graph", "CUDA refused");
    if (exec != NULL)
        cudaGraphExecDestroy(exec);
    if (graph != NULL)
        cudaGraphDestroy(graph);
    return rc == 0 && good;
}

static int open_check(struct check *c, struct session *s, const struct braid_gemm_desc *desc)
{
    const struct braid_gemm_desc *d = desc;
    int64_t part = d->m / s->ranks;
    char settings[48];
    int rc = 0;

    memset(c, 0, sizeof(*c));
    c->s = s;
    c->desc = *desc;
    c->seed = 1000;
    c->noise = 12345u + (uint32_t)s->rank;
    c->bulk = d->settings.method == BRAID_GEMM_BULK;
    c->x_rows = d->op == BRAID_AG_GEMM && !c->bulk ? part : d->m;
    c->y_rows = d->op == BRAID_GEMM_RS && !c->bulk ? part : d->m;
    c->first = d->op == BRAID_GEMM_RS && !c->bulk ? part * s->rank : 0;
    setting_name(&d->settings, settings, sizeof(settings));
    snprintf(c->name, sizeof(c->name), "%s %ldx%ldx%ld %s%s %s", op_name(d->op), (long)d->m,
             (long)d->n, (long)d->k, dtype_name(d->dtype),
             d->flags & BRAID_GEMM_W_TRANSPOSED ? "/t" : "", settings);
    for (int slot = 0; slot < REUSE && rc == 0; slot++) {
        rc = (int)cudaMalloc(&c->x[slot], (size_t)(c->x_rows * d->k) * 2);
        rc = rc ? rc : (int)cudaMalloc(&c->y[slot], (size_t)(c->y_rows * d->n) * 2);
    }
    rc = rc ? rc : (int)cudaMalloc(&c->w, (size_t)(d->k * d->n) * 2);
    rc = rc ? rc : (int)cudaMalloc((void **)&c->verdict, 64);
    rc = rc ? rc
            : gpu_fill(c->w, d->k * d->n, 77777u + (uint32_t)s->rank, d->dtype == BRAID_GEMM_FP16,
                       s->stream);
    rc = rc ? rc : (int)cudaStreamSynchronize(s->stream);
    rc = ranks_agree(s->self, cuda_check(rc, "memory for a check"));
    return rc ? rc : braid_gemm_create(s->comm, desc, &c->gemm);
}

static void close_check(struct check *c)
{
    cudaStreamSynchronize(c->s->stream);
    braid_gemm_destroy(c->gemm);
    for (int slot = 0; slot < REUSE; slot++) {
        cudaFree(c->x[slot]);
        cudaFree(c->y[slot]);
    }
    cudaFree(c->w);
    cudaFree(c->verdict);
}

static void add_up(struct check *c, int *done, int *failed)
{
    *done += c->done;
    *failed += c->failed;
}

static int check_one(struct session *s, const struct braid_gemm_desc *desc, int *done, int *failed)
{
    struct check c;
    int rc = open_check(&c, s, desc);

    if (rc != 0)
        report(&c, false, "create", strerror(-rc));
    else if (check_runs(&c))
        check_graph(&c);
    add_up(&c, done, failed);
    if (rc == 0)
        close_check(&c);
    return c.failed ? -EBADMSG : 0;
}

/* The last rank starts late: nothing may fail. */
static void check_late(struct session *s, int *done, int *failed)
{
    struct braid_gemm_desc desc = {.size = sizeof(desc),
                                   .op = BRAID_GEMM_RS,
                                   .m = 512,
                                   .n = 256,
                                   .k = 256,
                                   .settings = {.method = BRAID_GEMM_RING_EXCHANGE}};
    struct check c;
    int rc = open_check(&c, s, &desc);

    rc = rc ? rc : prepare(&c);
    if (rc == 0 && s->rank == s->ranks - 1)
        rc = gpu_delay(s->options->check_timeout_ns / 2, s->stream);
    if (rc == 0)
        judge_all(&c, enqueue_all(&c, false), "a late rank");
    add_up(&c, done, failed);
    close_check(&c);
}

/* Waits for the stream, at most four bounds; ends the program when that was not enough, because nothing could be freed. */
static int bounded_synchronize(struct check *c)
{
    uint64_t start = braid_now_ns();
    int rc;

    while ((rc = (int)cudaStreamQuery(c->s->stream)) == cudaErrorNotReady)
        if (braid_now_ns() - start > 4 * c->s->options->check_timeout_ns) {
            report(c, false, "a rank that never comes", "the wait was never ended");
            fflush(NULL);
            _exit(1);
        }
    return rc;
}

/* The last rank never runs the operation: the others come back within the bound and say whom they waited for. */
static void check_absent(struct session *s, int op, int direct, int signal, int *done, int *failed)
{
    struct braid_gemm_desc desc = {
        .size = sizeof(desc),
        .op = op,
        .m = 512,
        .n = 256,
        .k = 256,
        .settings = {.method = BRAID_GEMM_RING_EXCHANGE, .direct = direct, .signal = signal}};
    struct braid_gemm_error error = {0};
    struct check c;
    uint64_t start;
    double seconds;
    int rc = open_check(&c, s, &desc), status = -EIO;

    rc = rc ? rc : prepare(&c);
    start = braid_now_ns();
    if (rc == 0 && s->rank != s->ranks - 1) {
        rc = run(&c, 0);
        rc = rc ? rc : bounded_synchronize(&c);
        status = braid_gemm_status(c.gemm, &error);
        if (rc == 0 && run(&c, 0) != -EIO)
            status = 0; /* it must refuse now */
    }
    seconds = (double)(braid_now_ns() - start) * 1e-9;
    rc = ranks_agree(s->self, rc);
    report(&c,
           rc == 0 && status == -EIO && seconds < 4e-9 * (double)s->options->check_timeout_ns + 1,
           "a rank that never comes", error.text);
    add_up(&c, done, failed);
    close_check(&c);
}

#define BULK_ROWS  600 /* of one rank */
#define BULK_WIDTH 384
#define BULK_COUNT (BULK_ROWS * BULK_WIDTH)

/* All ranks sent the same numbers: every rank's block must equal the own one. */
static int judge_gathered(struct check *c)
{
    const char *all = braid_gemm_gathered(c->gemm);
    uint16_t *got = malloc(BULK_COUNT * 2), *sent = malloc(BULK_COUNT * 2);
    int rc = (int)cudaMemcpy(sent, c->send, BULK_COUNT * 2, cudaMemcpyDeviceToHost);

    for (int r = 0; r < c->s->ranks && rc == 0; r++) {
        rc = (int)cudaMemcpy(got, all + (size_t)r * BULK_COUNT * 2, BULK_COUNT * 2,
                             cudaMemcpyDeviceToHost);
        if (rc == 0 && memcmp(got, sent, BULK_COUNT * 2) != 0)
            rc = -EBADMSG;
    }
    free(got);
    free(sent);
    return rc;
}

/* The sum of two equal numbers doubles them: one more in the exponent of a bf16 that is not zero. */
static int judge_reduced(struct check *c)
{
    uint16_t *got = malloc(BULK_COUNT * 2), *sent = malloc(BULK_COUNT * 2);
    const char *own = (const char *)c->send + (size_t)c->s->rank * BULK_COUNT * 2;
    int rc = (int)cudaMemcpy(sent, own, BULK_COUNT * 2, cudaMemcpyDeviceToHost);

    rc = rc ? rc : (int)cudaMemcpy(got, c->recv, BULK_COUNT * 2, cudaMemcpyDeviceToHost);
    for (int i = 0; i < BULK_COUNT && rc == 0 && c->s->ranks == 2; i++)
        if (got[i] != ((sent[i] & 0x7fff) == 0 ? 0 : sent[i] + 0x80))
            rc = -EBADMSG;
    free(got);
    free(sent);
    return rc;
}

/* A collective beside a product that does not depend on it: both results are right. */
static void check_bulk(struct session *s, int op, int *done, int *failed)
{
    struct braid_gemm_desc desc = {.size = sizeof(desc),
                                   .op = op,
                                   .m = 512,
                                   .n = 384,
                                   .k = 256,
                                   .bulk_m = BULK_ROWS * s->ranks,
                                   .bulk_n = BULK_WIDTH,
                                   .settings = {.method = BRAID_GEMM_BULK, .num_splits = 3}};
    int64_t count = op == BRAID_AG_GEMM ? BULK_COUNT : (int64_t)s->ranks * BULK_COUNT;
    struct check c;
    int rc = open_check(&c, s, &desc);

    rc = rc ? rc : prepare(&c);
    rc = rc ? rc : (int)cudaMalloc(&c.send, (size_t)count * 2);
    rc = rc ? rc : (int)cudaMalloc(&c.recv, BULK_COUNT * 2);
    rc = rc ? rc : gpu_fill(c.send, count, 9, 0, s->stream);
    for (int i = 0; i < 3 && rc == 0; i++)
        rc = braid_gemm_bulk(c.gemm, c.send, c.recv, c.x[0], c.w, c.y[0], s->stream);
    rc = rc ? rc : (int)cudaStreamSynchronize(s->stream);
    rc = rc ? rc : op == BRAID_AG_GEMM ? judge_gathered(&c) : judge_reduced(&c);
    rc = ranks_agree(s->self, rc);
    report(&c, rc == 0, "collective beside a product", "");
    if (rc == 0)
        judge_numbers(&c, 0, "the product beside it");
    add_up(&c, done, failed);
    cudaFree(c.send);
    cudaFree(c.recv);
    close_check(&c);
}

/* What a search may choose beside the methods' defaults. */
static void check_options(struct session *s, int *done, int *failed)
{
    static const struct braid_gemm_settings all[] = {
        {.num_splits = 4, .taper = 2, .lanes = 3},
        {.num_splits = 3, .taper = 1, .num_sm = 8, .signal = 1},
        {.num_splits = 1, .direct = 1, .lanes = 1},
        {.num_splits = 3, .direct = 1, .taper = 1},
        {.num_splits = 5, .direct = 1, .taper = 2, .signal = 2, .lanes = 3},
        {.num_splits = 3, .taper = 1, .signal = 3},
        {.num_splits = 3, .num_sm = 8, .signal = 3},
        {.num_splits = 2, .direct = 1, .signal = 3, .lanes = 3},
    };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        for (int op = all[i].direct ? BRAID_GEMM_RS : BRAID_AG_GEMM; op <= BRAID_GEMM_AR; op++) {
            struct braid_gemm_desc desc = {.size = sizeof(desc),
                                           .op = op,
                                           .m = 1000 * s->ranks,
                                           .n = 512 + 8 * (int64_t)i,
                                           .k = 1024,
                                           .settings = all[i]};

            desc.settings.method = BRAID_GEMM_RING_EXCHANGE;
            check_one(s, &desc, done, failed);
        }
}

/* Graphs of two objects replayed at once on two streams: what one object needs, no other may touch. */
static void check_two(struct session *s, int *done, int *failed)
{
    struct braid_gemm_desc desc = {
        .size = sizeof(desc),
        .op = BRAID_GEMM_RS,
        .m = 2048 * s->ranks,
        .n = 512,
        .k = 2048,
        .settings = {.method = BRAID_GEMM_RING_EXCHANGE, .num_splits = 4}};
    struct check c[2];
    cudaStream_t own = s->stream, second = NULL, stream[2];
    cudaGraphExec_t exec[2] = {NULL, NULL};
    int rc = (int)cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);

    stream[0] = own;
    stream[1] = second;
    rc = ranks_agree(s->self, cuda_check(rc, "stream"));
    for (int i = 0; i < 2; i++) {
        cudaGraph_t graph = NULL;
        int made = open_check(&c[i], s, &desc);

        rc = rc ? rc : made;
        rc = rc ? rc : prepare(&c[i]);
        rc = rc ? rc : (int)cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal);
        rc = rc ? rc : run(&c[i], 0);
        if (rc == 0 && cudaStreamEndCapture(own, &graph) != cudaSuccess)
            rc = -EIO;
        rc = rc ? rc : (int)cudaGraphInstantiate(&exec[i], graph, 0);
        if (graph != NULL)
            cudaGraphDestroy(graph);
        rc = ranks_agree(s->self, rc);
    }
    for (int n = 0; n < 100 && rc == 0; n++)
        rc = (int)cudaGraphLaunch(exec[n % 2], stream[n % 2]);
    for (int i = 0; i < 2 && second != NULL; i++)
        rc = rc ? rc : (int)cudaStreamSynchronize(stream[i]);
    for (int i = 0; i < 2; i++)
        rc = rc ? rc : braid_gemm_status(c[i].gemm, NULL);
    rc = ranks_agree(s->self, rc);
    report(&c[0], rc == 0, "two graphs at once", rc ? strerror(rc < 0 ? -rc : EIO) : "");
    for (int i = 0; i < 2; i++) {
        if (rc == 0)
            judge_numbers(&c[i], 0, i ? "the second of two graphs" : "the first of two graphs");
        if (exec[i] != NULL)
            cudaGraphExecDestroy(exec[i]);
        add_up(&c[i], done, failed);
        close_check(&c[i]);
    }
    if (second != NULL)
        cudaStreamDestroy(second);
}

int check_run(struct session *s)
{
    static const int methods[] = {BRAID_GEMM_SERIAL, BRAID_GEMM_RING_EXCHANGE, BRAID_GEMM_PIPELINE,
                                  BRAID_GEMM_AUTO};
    uint64_t kept = braid_comm_timeout_ns(s->comm);
    int done = 0, failed = 0;

    for (int op = BRAID_AG_GEMM; op <= BRAID_GEMM_AR; op++)
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
            struct braid_gemm_desc desc = {.size = sizeof(desc),
                                           .op = op,
                                           .dtype = (int)(i % 2),
                                           .m = 1000 * s->ranks, /* not a multiple of any part */
                                           .n = 512 + 8 * (int64_t)i,
                                           .k = 1024,
                                           .flags = i == 1 ? BRAID_GEMM_W_TRANSPOSED : 0,
                                           .settings = {.method = methods[i],
                                                        .num_splits = 3,
                                                        .signal = (int)(i + (size_t)op) % 3}};

            if (methods[i] == BRAID_GEMM_AUTO)
                desc.settings.num_splits = 0;
            if (methods[i] == BRAID_GEMM_PIPELINE && op == BRAID_AG_GEMM)
                desc.flags |= BRAID_GEMM_KEEP_GATHERED;
            check_one(s, &desc, &done, &failed);
            desc.m = 16 * s->ranks; /* decoding */
            desc.settings.num_sm = methods[i] == BRAID_GEMM_SERIAL ? 4 : 0;
            check_one(s, &desc, &done, &failed);
        }
    check_options(s, &done, &failed);
    check_bulk(s, BRAID_AG_GEMM, &done, &failed);
    check_bulk(s, BRAID_GEMM_RS, &done, &failed);
    check_two(s, &done, &failed);
    braid_comm_set_timeout_ns(s->comm, s->options->check_timeout_ns);
    check_late(s, &done, &failed);
    for (int op = BRAID_AG_GEMM; s->ranks > 1 && op <= BRAID_GEMM_AR; op++)
        check_absent(s, op, 0, 0, &done, &failed);
    if (s->ranks > 1) {
        check_absent(s, BRAID_GEMM_RS, 1, 0, &done, &failed);
        check_absent(s, BRAID_GEMM_RS, 0, 3, &done, &failed);
    }
    braid_comm_set_timeout_ns(s->comm, kept);
    if (s->rank == 0)
        printf("%d checks, %d failed\n", done, failed);
    return failed;
}
