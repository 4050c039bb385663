/*
 * Times cuBLASLt's proposals for the products of one object, on random numbers in memory of its own: the matrix units draw less power
 * on zeros and run faster then. What is found goes into the settings, so that a profile can keep it, and is remembered for the
 * process, because a search makes many objects of one shape whose parts are often equal. Threading: any; a lock guards the memory.
 */
#include "device/ops/gemm.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

#define PATTERN_BYTES ((size_t)4 << 20)
#define REPEATS       5
#define ROUNDS        3

struct trial {
    struct braid_gemm *g;
    CUstream stream;
    CUevent begin, end;
    CUdeviceptr x, w, y, acc;
};

/* A product that was timed before. */
struct finding {
    struct finding *next;
    CUdevice device;
    int dtype, turned, sms;
    uint32_t alignment;
    int64_t rows, n, k;
    bool adds;
    int best;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct finding *findings;

static struct finding question(const struct braid_gemm *g, const struct braid_gemm_product *p)
{
    return (struct finding){.device = g->device,
                            .dtype = g->desc.dtype,
                            .turned = (int)(g->desc.flags & BRAID_GEMM_W_TRANSPOSED),
                            .sms = g->desc.settings.sm_margin,
                            .alignment = g->blas.alignment,
                            .rows = p->rows,
                            .n = g->desc.n,
                            .k = g->desc.k,
                            .adds = p->adds};
}

/* The proposal that was the fastest for this product, or -1. */
static int recall(const struct finding *q)
{
    int best = -1;

    pthread_mutex_lock(&lock);
    for (const struct finding *f = findings; f != NULL && best < 0; f = f->next)
        if (f->device == q->device && f->dtype == q->dtype && f->turned == q->turned &&
            f->sms == q->sms && f->alignment == q->alignment && f->rows == q->rows &&
            f->n == q->n && f->k == q->k && f->adds == q->adds)
            best = f->best;
    pthread_mutex_unlock(&lock);
    return best;
}

static void remember(struct finding finding)
{
    struct finding *f = malloc(sizeof(*f));

    if (f == NULL)
        return; /* it is timed again */
    *f = finding;
    pthread_mutex_lock(&lock);
    f->next = findings;
    findings = f;
    pthread_mutex_unlock(&lock);
}

/* Numbers in [-1, 1): a bf16 or fp16 of exponent field so that no value is large, random sign and mantissa. */
static void fill_pattern(uint16_t *pattern, size_t count, int dtype)
{
    uint64_t state = 0x9e3779b97f4a7c15u;

    for (size_t i = 0; i < count; i++) {
        uint16_t exponent;

        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        exponent = (uint16_t)(dtype == BRAID_GEMM_FP16 ? (11 + (state >> 40) % 4) << 10
                                                       : (123 + (state >> 40) % 4) << 7);
        pattern[i] =
            (uint16_t)((state & (dtype == BRAID_GEMM_FP16 ? 0x83ffu : 0x807fu)) | exponent);
    }
}

static int random_matrix(struct trial *t, CUdeviceptr *address, size_t bytes, const void *pattern)
{
    const struct braid_gemm_cuda *cuda = t->g->cuda;
    int rc = braid_gemm_cuda_check(cuda->mem_alloc(address, bytes), "memory for tuning");

    for (size_t at = 0; rc == 0 && at < bytes; at += PATTERN_BYTES)
        rc = braid_gemm_cuda_check(
            cuda->copy_to_device(*address + at, pattern, MIN(PATTERN_BYTES, bytes - at), t->stream),
            "copy for tuning");
    return rc;
}

static int open_trial(struct trial *t)
{
    struct braid_gemm *g = t->g;
    size_t rows = (size_t)g->desc.m, n = (size_t)g->desc.n, k = (size_t)g->desc.k;
    uint16_t *pattern = malloc(PATTERN_BYTES);
    int rc = pattern ? 0 : -ENOMEM;

    if (rc == 0) {
        fill_pattern(pattern, PATTERN_BYTES / 2, g->desc.dtype);
        rc = random_matrix(t, &t->x, rows * k * 2, pattern);
    }
    if (rc == 0)
        rc = random_matrix(t, &t->w, n * k * 2, pattern);
    if (rc == 0)
        rc = random_matrix(t, &t->acc, rows * n * 2, pattern);
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->mem_alloc(&t->y, rows * n * 2), "memory for tuning");
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->event_create(&t->begin, 0), "event");
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->event_create(&t->end, 0), "event");
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->stream_synchronize(t->stream), "tuning");
    free(pattern);
    return rc;
}

static void close_trial(struct trial *t)
{
    const struct braid_gemm_cuda *cuda = t->g->cuda;
    CUdeviceptr all[] = {t->x, t->w, t->acc, t->y};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (all[i])
            cuda->mem_free(all[i]);
    if (t->begin)
        cuda->event_destroy(t->begin);
    if (t->end)
        cuda->event_destroy(t->end);
}

static int enqueue(struct trial *t, int product)
{
    struct braid_gemm *g = t->g;

    return braid_gemm_blas_run(&g->blas, product, (void *)(uintptr_t)t->x, (void *)(uintptr_t)t->w,
                               g->blas.products[product].adds ? (void *)(uintptr_t)t->acc : NULL,
                               (void *)(uintptr_t)t->y, (void *)(uintptr_t)g->workspace[0],
                               t->stream);
}

/* The fastest of ROUNDS rounds of REPEATS products; a negative number when the proposal does not run. */
static double time_product(struct trial *t, int product)
{
    const struct braid_gemm_cuda *cuda = t->g->cuda;
    double best = -1;

    if (enqueue(t, product) != 0)
        return -1;
    for (int round = 0; round < ROUNDS; round++) {
        float ms = 0;

        cuda->event_record(t->begin, t->stream);
        for (int i = 0; i < REPEATS; i++)
            if (enqueue(t, product) != 0)
                return -1;
        cuda->event_record(t->end, t->stream);
        if (cuda->event_synchronize(t->end) != CUDA_SUCCESS ||
            cuda->event_elapsed(&ms, t->begin, t->end) != CUDA_SUCCESS)
            return -1;
        if (best < 0 || ms < best)
            best = ms;
    }
    return best * 1e3 / REPEATS;
}

static int tune_product(struct trial *t, int index)
{
    struct braid_gemm_product *p = &t->g->blas.products[index];
    double best_us = -1;
    int best = 0;

    for (int i = 0; i < p->count; i++) {
        double us;

        p->use = i;
        us = time_product(t, index);
        if (us > 0 && (best_us < 0 || us < best_us * 0.995)) { /* an earlier proposal wins a tie */
            best_us = us;
            best = i;
        }
    }
    p->use = best;
    if (best_us < 0)
        return -EPROTO;
    BRAID_INFO(BRAID_LOG_TUNING, "product of %ld x %ld x %ld%s: proposal %d of %d, %.1f us",
               (long)p->rows, (long)t->g->desc.n, (long)t->g->desc.k, p->adds ? " + c" : "", best,
               p->count, best_us);
    return 0;
}

static bool named(const struct braid_gemm_settings *set, const struct braid_gemm_product *p)
{
    for (int i = 0; i < BRAID_GEMM_MAX_ALGOS; i++)
        if (set->algos[i].rows == p->rows && (set->algos[i].adds != 0) == p->adds)
            return true;
    return false;
}

static void keep(struct braid_gemm_settings *set, const struct braid_gemm_product *p)
{
    for (int i = 0; i < BRAID_GEMM_MAX_ALGOS; i++)
        if (set->algos[i].rows == 0) {
            set->algos[i] = (struct braid_gemm_algo){p->rows, p->adds, p->use};
            return;
        }
}

int braid_gemm_tune(struct braid_gemm *g, void *stream)
{
    struct trial t = {.g = g, .stream = stream};
    struct braid_gemm_settings *set = &g->desc.settings;
    bool opened = false;
    int rc = braid_gemm_enter(g);

    if (rc != 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < g->blas.count; i++) {
        struct braid_gemm_product *p = &g->blas.products[i];
        struct finding q = question(g, p);

        if (named(set, p))
            continue;
        q.best = recall(&q);
        if (q.best < 0 || q.best >= p->count) {
            if (!opened)
                rc = open_trial(&t);
            opened = true;
            if (rc == 0)
                rc = tune_product(&t, (int)i);
            if (rc == 0) {
                q.best = p->use;
                remember(q);
            }
        }
        if (rc == 0) {
            p->use = q.best;
            keep(set, p);
        }
    }
    g->info.settings = *set;
    if (opened)
        close_trial(&t);
    braid_gemm_leave(g);
    return rc;
}
