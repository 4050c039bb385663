/*
 * The four-way measurement, see bench.h. Every variant is a CUDA graph of a few operations. A round replays each of them once in random
 * order; all ranks queue their work behind a gate in pinned memory and a rendezvous, so that neither launch time nor the skew of the
 * hosts is inside. The slower rank counts.
 */
#include "tools/braid-overlap/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tools/braid-overlap/gpu.h"

#define ALIGNMENT   256 /* of cudaMalloc */
#define WARM_ROUNDS 2
#define TUNE_ROUNDS 5
#define KEEP        5    /* candidates that enter the play-off */
#define WORTH       0.99 /* what a candidate must reach there beside the present choice */
#define LONG_FLOP   4e11 /* a product that power limits: its time needs more rounds */

#define CANDIDATES_MAX 44

static int nccl_type(const struct bench *b)
{
    return b->s->options->dtype == BRAID_GEMM_FP16 ? NCCL_HALF : NCCL_BFLOAT16;
}

static int nccl_gather(struct bench *b, cudaStream_t stream)
{
    return b->s->nccl.all_gather(b->send, b->full, (size_t)(b->part * b->shape.k), nccl_type(b),
                                 b->s->nccl_comm, stream);
}

static int nccl_reduce(struct bench *b, cudaStream_t stream)
{
    size_t count = (size_t)(b->shape.m * b->shape.n);

    if (b->shape.op == BRAID_GEMM_AR)
        return b->s->nccl.all_reduce(b->partial, b->full, count, nccl_type(b), NCCL_SUM,
                                     b->s->nccl_comm, stream);
    return b->s->nccl.reduce_scatter(b->partial, b->recv, count / (size_t)b->s->ranks, nccl_type(b),
                                     NCCL_SUM, b->s->nccl_comm, stream);
}

static int run_a(struct bench *b, struct variant *v, cudaStream_t stream)
{
    return braid_gemm_compute(v->gemm, b->x, b->w, b->y, stream);
}

static int run_b_nccl(struct bench *b, struct variant *v, cudaStream_t stream)
{
    return b->shape.op == BRAID_AG_GEMM ? nccl_gather(b, stream) : nccl_reduce(b, stream);
}

static int run_b_braid(struct bench *b, struct variant *v, cudaStream_t stream)
{
    return braid_gemm_bulk(v->gemm, b->shape.op == BRAID_AG_GEMM ? b->send : b->partial, b->recv,
                           NULL, NULL, NULL, stream);
}

static int run_c_nccl(struct bench *b, struct variant *v, cudaStream_t stream)
{
    int rc;

    if (b->shape.op == BRAID_AG_GEMM) {
        rc = nccl_gather(b, stream);
        return rc ? rc : braid_gemm_compute(v->gemm, b->full, b->w, b->y, stream);
    }
    rc = braid_gemm_compute(v->gemm, b->x, b->w, b->partial, stream);
    return rc ? rc : nccl_reduce(b, stream);
}

static int run_d(struct bench *b, struct variant *v, cudaStream_t stream)
{
    switch (b->shape.op) {
    case BRAID_AG_GEMM: return braid_ag_gemm(v->gemm, b->send, b->w, b->y, stream);
    case BRAID_GEMM_RS: return braid_gemm_rs(v->gemm, b->x, b->w, b->recv, stream);
    default: return braid_gemm_ar(v->gemm, b->x, b->w, b->y, stream);
    }
}

static int run_e(struct bench *b, struct variant *v, cudaStream_t stream)
{
    return braid_gemm_products(v->gemm, b->shape.op == BRAID_AG_GEMM ? b->send : b->x, b->w, b->y,
                               stream);
}

static int allocate(void **p, int64_t elements)
{
    return cuda_check(cudaMalloc(p, (size_t)elements * 2), "memory for the operands");
}

static int make_operands(struct bench *b)
{
    const struct shape *h = &b->shape;
    int half = b->s->options->dtype == BRAID_GEMM_FP16;
    int rc = allocate(&b->x, h->m * h->k);

    rc = rc ? rc : allocate(&b->w, h->k * h->n);
    rc = rc ? rc : allocate(&b->y, h->m * h->n);
    rc = rc ? rc : allocate(&b->send, b->part * h->k);
    rc = rc ? rc : allocate(&b->recv, b->part * h->n);
    rc = rc ? rc : allocate(&b->full, h->m * MAX(h->k, h->op == BRAID_GEMM_AR ? h->n : 0));
    rc = rc ? rc : allocate(&b->partial, h->m * h->n);
    if (rc != 0)
        return rc;
    rc = gpu_fill(b->x, h->m * h->k, 1, half, b->s->stream);
    rc = rc ? rc : gpu_fill(b->w, h->k * h->n, 2, half, b->s->stream);
    rc = rc ? rc : gpu_fill(b->send, b->part * h->k, 3, half, b->s->stream);
    rc = rc ? rc : gpu_fill(b->partial, h->m * h->n, 4, half, b->s->stream);
    rc = rc ? rc : gpu_fill(b->full, h->m * h->k, 5, half, b->s->stream);
    return cuda_check(rc ? rc : (int)cudaStreamSynchronize(b->s->stream), "operands");
}

static void describe_shape(const struct bench *b, struct braid_gemm_desc *desc)
{
    *desc = (struct braid_gemm_desc){.size = sizeof(*desc),
                                     .op = b->shape.op,
                                     .dtype = b->s->options->dtype,
                                     .m = b->shape.m,
                                     .n = b->shape.n,
                                     .k = b->shape.k,
                                     .alignment = ALIGNMENT};
}

/* An object with these settings, tuned when asked. */
static int make_gemm(struct bench *b, const struct braid_gemm_settings *set, bool tune,
                     struct braid_gemm **gemm_p)
{
    struct braid_gemm_desc desc;
    int rc;

    describe_shape(b, &desc);
    desc.settings = *set;
    if (set->method == BRAID_GEMM_BULK) {
        desc.bulk_m = desc.m;
        desc.bulk_n = desc.op == BRAID_AG_GEMM ? desc.k : desc.n;
    }
    rc = braid_gemm_create(b->s->comm, &desc, gemm_p);
    if (rc != 0 || !tune)
        return rc;
    return ranks_agree(b->s->self, braid_gemm_tune(*gemm_p, b->s->stream));
}

static struct variant *add(struct bench *b, enum role role, const char *name,
                           int (*enqueue)(struct bench *, struct variant *, cudaStream_t),
                           struct braid_gemm *gemm, bool owned)
{
    struct variant *v = &b->variants[b->count];

    if (b->count == VARIANTS_MAX)
        return NULL;
    b->count++;
    memset(v, 0, sizeof(*v));
    snprintf(v->name, sizeof(v->name), "%s", name);
    v->role = role;
    v->enqueue = enqueue;
    v->gemm = gemm;
    v->owned = owned;
    return v;
}

/* Runs it twice, then captures it. */
static int capture(struct bench *b, struct variant *v)
{
    struct session *s = b->s;
    cudaGraph_t graph = NULL;
    int rc = 0;

    for (int i = 0; rc == 0 && i < 2; i++)
        rc = v->enqueue(b, v, s->stream);
    rc = ranks_agree(s->self, rc);
    if (rc != 0)
        return rc;
    rc = cuda_check(cudaStreamSynchronize(s->stream), v->name);
    rc = rc ? rc
            : cuda_check(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal),
                         "capture");
    for (int i = 0; rc == 0 && i < s->options->repeats; i++)
        rc = v->enqueue(b, v, s->stream);
    if (cudaStreamEndCapture(s->stream, &graph) != cudaSuccess || graph == NULL)
        rc = rc ? rc : -EIO;
    rc = rc ? rc : cuda_check(cudaGraphInstantiate(&v->graph, graph, 0), "graph");
    if (graph != NULL)
        cudaGraphDestroy(graph);
    return ranks_agree(s->self, rc);
}

/* The ranks' streams leave together: a small all-reduce, or only the gate where there is no NCCL. */
static int rendezvous(struct session *s)
{
    if (s->nccl_comm == NULL)
        return 0;
    return s->nccl.all_reduce(s->token, s->token, 1, NCCL_FLOAT, NCCL_SUM, s->nccl_comm, s->stream);
}

static int replay(struct bench *b, struct variant *v, bool count)
{
    struct session *s = b->s;
    float ms = 0;
    double us;
    int rc = gpu_gate(s->gpu_gate, ++s->gate_value, s->stream);

    rc = rc ? rc : rendezvous(s);
    rc = rc ? rc : gpu_take_stamp(&s->gpu_stamp[0], s->stream);
    rc = rc ? rc : (int)cudaEventRecord(s->begin, s->stream);
    rc = rc ? rc : (int)cudaGraphLaunch(v->graph, s->stream);
    rc = rc ? rc : (int)cudaEventRecord(s->end, s->stream);
    rc = rc ? rc : gpu_take_stamp(&s->gpu_stamp[1], s->stream);
    ranks_barrier(s->self);
    __atomic_store_n(s->gate, s->gate_value, __ATOMIC_RELEASE);
    rc = rc ? rc : (int)cudaStreamSynchronize(s->stream);
    rc = rc ? rc : (int)cudaEventElapsedTime(&ms, s->begin, s->end);
    us = ranks_max(s->self, cuda_check(rc, v->name) == 0 ? ms * 1e3 / s->options->repeats : -1);
    if (us < 0)
        return -EIO;
    if (v->gemm != NULL && braid_gemm_status(v->gemm, NULL) != 0)
        return -EIO;
    if (count)
        stats_add(&v->us, us);
    if (count && s->stamp[0].sm == s->stamp[1].sm && s->stamp[1].ns > s->stamp[0].ns)
        stats_add(&v->mhz, 1e3 * (double)(s->stamp[1].cycles - s->stamp[0].cycles) /
                               (double)(s->stamp[1].ns - s->stamp[0].ns));
    return 0;
}

static int measure(struct bench *b, int first, int rounds)
{
    int order[VARIANTS_MAX], count = b->count - first, rc = 0;
    uint64_t state = 1;

    for (int i = first; i < b->count; i++)
        b->variants[i].us.count = b->variants[i].mhz.count = 0;
    for (int round = 0; round < WARM_ROUNDS + rounds; round++) {
        shuffle(order, count, &state);
        for (int i = 0; i < count && rc == 0; i++)
            rc = replay(b, &b->variants[first + order[i]], round >= WARM_ROUNDS);
        rc = ranks_agree(b->s->self, rc);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static void drop(struct variant *v)
{
    if (v->graph != NULL)
        cudaGraphExecDestroy(v->graph);
    if (v->owned)
        braid_gemm_destroy(v->gemm);
    v->graph = NULL;
    v->gemm = NULL;
}

struct candidate {
    struct braid_gemm_settings set;
    char name[48];
};

static void add_candidate(struct candidate *list, int *count, struct braid_gemm_settings set)
{
    struct candidate *c = &list[*count];

    if (*count == CANDIDATES_MAX)
        return;
    (*count)++;
    c->set = set;
    if (c->set.lanes == 0)
        c->set.lanes = 2;
    setting_name(&c->set, c->name, sizeof(c->name));
}

/* Schedules with parts of `splits`, as far as the rows of a rank have so many parts of 128 rows. */
struct trial {
    int32_t splits, taper, lanes, signal, num_sm, direct, method;
};

#define RING 0 /* method of a trial */

/* What the model of one copy engine beside products says is close, and what it does not know: flags by copy, pushes by SMs. */
static const struct trial gather_trials[] = {
    {1, 0, 1, 0, 0, 0, RING},  {1, 0, 2, 0, 0, 0, RING},  {2, 0, 2, 0, 0, 0, RING},
    {2, 0, 2, 1, 0, 0, RING},  {2, 0, 1, 0, 0, 0, RING},  {3, 1, 2, 0, 0, 0, RING},
    {4, 0, 2, 0, 0, 0, RING},  {4, 1, 2, 1, 0, 0, RING},  {4, 2, 2, 1, 0, 0, RING},
    {6, 2, 2, 0, 0, 0, RING},  {6, 2, 3, 1, 0, 0, RING},  {8, 1, 2, 1, 0, 0, RING},
    {2, 0, 2, 0, 16, 0, RING}, {4, 2, 2, 0, 16, 0, RING}, {4, 0, 2, 0, 0, 0, BRAID_GEMM_PIPELINE},
    {1, 0, 1, 3, 0, 0, RING},  {2, 0, 2, 3, 0, 0, RING},  {3, 1, 2, 3, 0, 0, RING},
    {4, 1, 2, 3, 0, 0, RING},  {4, 1, 1, 3, 0, 0, RING},  {4, 2, 2, 3, 0, 0, RING},
    {6, 2, 2, 3, 0, 0, RING},  {6, 2, 3, 3, 0, 0, RING},
};

/* Likewise, and products that write to the peer themselves. */
static const struct trial reduce_trials[] = {
    {2, 0, 2, 0, 0, 0, RING},  {2, 0, 2, 1, 0, 0, RING},
    {3, 0, 2, 0, 0, 0, RING},  {4, 0, 2, 0, 0, 0, RING},
    {4, 0, 2, 1, 0, 0, RING},  {4, 1, 2, 1, 0, 0, RING},
    {6, 0, 2, 0, 0, 0, RING},  {6, 2, 2, 1, 0, 0, RING},
    {8, 0, 2, 0, 0, 0, RING},  {8, 1, 2, 1, 0, 0, RING},
    {4, 0, 2, 0, 16, 0, RING}, {1, 0, 1, 0, 0, 1, RING},
    {2, 0, 2, 0, 0, 1, RING},  {3, 0, 3, 0, 0, 1, RING},
    {4, 0, 2, 0, 0, 1, RING},  {4, 0, 2, 0, 0, 0, BRAID_GEMM_PIPELINE},
    {2, 0, 2, 3, 0, 0, RING},  {3, 0, 2, 3, 0, 0, RING},
    {4, 0, 2, 3, 0, 0, RING},  {6, 0, 2, 3, 0, 0, RING},
    {4, 1, 2, 3, 0, 0, RING},  {6, 2, 2, 3, 0, 0, RING},
    {8, 1, 2, 3, 0, 0, RING},  {2, 0, 2, 3, 0, 1, RING},
};

static void add_trials(const struct bench *b, struct candidate *list, int *count,
                       const struct trial *trials, size_t trial_count)
{
    for (size_t i = 0; i < trial_count; i++) {
        const struct trial *t = &trials[i];

        if (t->splits > 1 && b->part < 128 * t->splits)
            continue;
        add_candidate(list, count,
                      (struct braid_gemm_settings){
                          .method = t->method == RING ? BRAID_GEMM_RING_EXCHANGE : t->method,
                          .num_splits = t->splits,
                          .lanes = t->lanes,
                          .taper = t->taper,
                          .num_sm = t->num_sm,
                          .signal = t->signal,
                          .direct = t->direct});
    }
}

/* What is worth trying for a shape: serial ones, then schedules. */
static int list_candidates(const struct bench *b, struct candidate *list)
{
    struct braid_gemm_settings serial = {.method = BRAID_GEMM_SERIAL, .num_splits = 1};
    int count = 0;

    add_candidate(list, &count, serial);
    if (b->part * MAX(b->shape.k, b->shape.n) <= (int64_t)4 << 20)
        for (serial.num_sm = 16; serial.num_sm <= 128; serial.num_sm *= 2)
            add_candidate(list, &count, serial);
    if (b->shape.op == BRAID_AG_GEMM)
        add_trials(b, list, &count, gather_trials, ARRAY_SIZE(gather_trials));
    else
        add_trials(b, list, &count, reduce_trials, ARRAY_SIZE(reduce_trials));
    return count;
}

/* Adds the candidates with tuned products; those that do not run are left out. */
static int add_all(struct bench *b, const struct candidate *list, int count)
{
    int first = b->count, rc;

    for (int i = 0; i < count; i++) {
        struct braid_gemm *gemm = NULL;
        struct variant *v;

        rc = ranks_agree(b->s->self, make_gemm(b, &list[i].set, true, &gemm));
        v = rc == 0 ? add(b, ROLE_D, list[i].name, run_d, gemm, true) : NULL;
        if (v != NULL && capture(b, v) != 0) {
            drop(v);
            b->count--;
        } else if (v == NULL) {
            braid_gemm_destroy(gemm);
        }
        progress(b->s, i, 2 * count, list[i].name);
    }
    return b->count == first ? -ENOTSUP : 0;
}

/* Tries the candidates and leaves the fastest ones in the list of variants. */
static int search(struct bench *b)
{
    struct candidate list[CANDIDATES_MAX];
    int count = list_candidates(b, list), first = b->count;
    int rc = add_all(b, list, count);

    rc = rc ? rc : measure(b, first, TUNE_ROUNDS);
    if (rc != 0)
        return rc;
    while (b->count - first > KEEP) {
        int slowest = first;

        for (int i = first; i < b->count; i++)
            if (stats_median(&b->variants[i].us) > stats_median(&b->variants[slowest].us))
                slowest = i;
        drop(&b->variants[slowest]);
        b->variants[slowest] = b->variants[--b->count];
    }
    return 0;
}

/* What the caller named, and the cut products of each. */
static int add_also(struct bench *b)
{
    const struct options *o = b->s->options;
    struct candidate list[ALSO_MAX];
    int count = 0, first = b->count, rc;

    for (int i = 0; i < o->also_count; i++)
        add_candidate(list, &count, o->also[i]);
    rc = count > 0 ? add_all(b, list, count) : 0;
    for (int i = first, end = b->count; rc == 0 && i < end; i++) {
        char name[64];

        snprintf(name, sizeof(name), "%s, products", b->variants[i].name);
        if (add(b, ROLE_E, name, run_e, b->variants[i].gemm, false) == NULL)
            rc = -ENOSPC;
    }
    return rc;
}

static int save_best(struct bench *b)
{
    struct variant *best = bench_fastest(b, ROLE_D), *present = bench_default(b);
    struct braid_gemm_desc desc;
    struct braid_gemm_info info;
    int rc = 0;

    if (best == NULL || stats_median(&best->us) > WORTH * stats_median(&present->us))
        best = present; /* whose products may be untuned */
    if (b->s->rank == 0 && b->s->options->profile != NULL &&
        braid_gemm_describe(best->gemm, &info) == 0) {
        describe_shape(b, &desc);
        desc.settings = info.settings;
        rc = braid_gemm_profile_save(b->s->options->profile, b->s->comm, &desc);
        if (rc != 0)
            fprintf(stderr, "braid-overlap: %s: %s\n", b->s->options->profile, strerror(-rc));
    }
    return ranks_agree(b->s->self, rc);
}

/* The default choice; and, of the one that is reported, the cut products alone. */
static int add_overlapped(struct bench *b)
{
    struct braid_gemm_settings automatic = {.method = BRAID_GEMM_AUTO};
    struct braid_gemm_info info;
    struct braid_gemm *gemm = NULL;
    struct variant *v;
    int rc = make_gemm(b, &automatic, false, &gemm);

    if (rc != 0)
        return rc;
    v = add(b, ROLE_D, "default", run_d, gemm, true);
    if (v == NULL)
        return -ENOSPC;
    v->is_default = true;
    braid_gemm_describe(gemm, &info);
    snprintf(b->reason, sizeof(b->reason), "%s", info.reason);
    v = add(b, ROLE_E, "default, products only", run_e, gemm, false);
    return v ? 0 : -ENOSPC;
}

/* Undoes add_overlapped, which came last. */
static void drop_overlapped(struct bench *b)
{
    while (b->count > 0 && bench_default(b) != NULL)
        drop(&b->variants[--b->count]);
}

static int add_parts(struct bench *b)
{
    struct braid_gemm_settings serial = {.method = BRAID_GEMM_SERIAL};
    struct braid_gemm_settings bulk = {.method = BRAID_GEMM_BULK};
    struct braid_gemm *whole = NULL, *engine = NULL, *sms = NULL;
    int rc = make_gemm(b, &serial, true, &whole);

    if (rc != 0)
        return rc;
    add(b, ROLE_A, "product", run_a, whole, true);
    if (b->s->nccl_comm != NULL) {
        add(b, ROLE_B, "nccl", run_b_nccl, NULL, false);
        add(b, ROLE_C, "serial, nccl", run_c_nccl, whole, false);
    }
    if (b->shape.op == BRAID_GEMM_AR)
        return 0;
    bulk.num_splits = b->shape.op == BRAID_GEMM_RS && b->part >= 1024 ? 4 : 1;
    rc = make_gemm(b, &bulk, false, &engine);
    if (rc != 0)
        return rc;
    add(b, ROLE_B, "copy engine", run_b_braid, engine, true);
    bulk.num_sm = 16;
    rc = make_gemm(b, &bulk, false, &sms);
    if (rc == 0)
        add(b, ROLE_B, "16 SMs", run_b_braid, sms, true);
    return rc;
}

static int capture_all(struct bench *b)
{
    int rc = 0;

    for (int i = 0; i < b->count && rc == 0; i++)
        if (b->variants[i].graph == NULL)
            rc = capture(b, &b->variants[i]);
    return rc;
}

/* Has the profile settings for the shape? */
static bool is_known(struct bench *b)
{
    struct braid_gemm_settings automatic = {.method = BRAID_GEMM_AUTO};
    struct braid_gemm *gemm = NULL;
    struct braid_gemm_info info = {.reason = ""};

    if (make_gemm(b, &automatic, false, &gemm) == 0)
        braid_gemm_describe(gemm, &info);
    braid_gemm_destroy(gemm);
    return strncmp(info.reason, "profile", 7) == 0;
}

int bench_run(struct bench *b, struct session *s, const struct shape *shape)
{
    bool tune = s->options->tune;
    double flop = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k;
    int rounds = MIN(STATS_MAX, s->options->rounds * (flop > LONG_FLOP ? 3 : 1)), rc;

    memset(b, 0, sizeof(*b));
    b->s = s;
    b->shape = *shape;
    b->part = shape->m / s->ranks;
    rc = make_operands(b);
    rc = ranks_agree(s->self, rc);
    rc = rc ? rc : add_parts(b);
    if (rc == 0 && tune && s->options->resume && is_known(b))
        tune = false;
    if (rc == 0 && tune)
        rc = search(b);
    if (rc == 0 && tune) {
        rc = add_overlapped(b); /* the choice without this search takes part */
        rc = rc ? rc : capture_all(b);
        rc = rc ? rc : measure(b, 0, rounds);
        rc = rc ? rc : save_best(b);
        drop_overlapped(b);
    }
    rc = rc ? rc : add_overlapped(b);
    rc = rc ? rc : add_also(b);
    rc = rc ? rc : capture_all(b);
    return rc ? rc : measure(b, 0, rounds);
}

void bench_close(struct bench *b)
{
    void *all[] = {b->x, b->w, b->y, b->full, b->partial, b->send, b->recv};

    cudaStreamSynchronize(b->s->stream);
    for (int i = b->count - 1; i >= 0; i--)
        drop(&b->variants[i]);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        cudaFree(all[i]);
}

struct variant *bench_find(struct bench *b, const char *name)
{
    for (int i = 0; i < b->count; i++)
        if (strcmp(b->variants[i].name, name) == 0)
            return &b->variants[i];
    return NULL;
}

struct variant *bench_fastest(struct bench *b, enum role role)
{
    struct variant *best = NULL;

    for (int i = 0; i < b->count; i++)
        if (b->variants[i].role == role && !b->variants[i].is_default &&
            (best == NULL || stats_median(&b->variants[i].us) < stats_median(&best->us)))
            best = &b->variants[i];
    return best;
}

struct variant *bench_default(struct bench *b)
{
    for (int i = 0; i < b->count; i++)
        if (b->variants[i].is_default)
            return &b->variants[i];
    return NULL;
}
