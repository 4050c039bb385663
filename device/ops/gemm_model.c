/*
 * What a schedule is expected to take, see gemm_choice.h. A product is tiles; tiles go to the SMs in order, so that the next product
 * on another lane begins where the last wave of the one before leaves SMs idle. Beside it runs one copy engine. The constants are
 * fitted to times of two H200 over NVLink 4 (CUDA graphs, tests/gpu/results/overlap-*); gemm_choice_test holds the model within 8 % of them.
 * Other shapes and more than two ranks have not been measured.
 * Threading: pure functions. Called by: gemm_choice.c.
 */
#include "device/ops/gemm_choice.h"

#include <math.h>
#include <string.h>

#include "common/util.h"
#include "device/ops/gemm_plan.h"

#define SM_FLOP_PER_US  6.25e6 /* bf16 on one SM, large tiles */
#define TILE_US         1.0    /* a tile, beside its arithmetic */
#define MEMORY_B_PER_US 4.0e6  /* device memory, reading */
#define ADDEND_B_PER_US 1.7e6  /* the partial result that a product adds: little of it hides */
#define LAUNCH_US       2.5
#define LINK_B_PER_US   3.74e5 /* one copy engine over NVLink, beside products */
#define PART_US         5.1    /* a part on the link, beside its bytes: the flag behind it */
#define TO_ENGINE_US    18.4   /* from the end of a product to the copy engine's first byte */
#define ARRIVE_US       14.4   /* from the last byte to the product that waits for the flag */
#define KERNEL_TO_US    8.0    /* TO_ENGINE_US and ARRIVE_US when kernels wait and post */
#define KERNEL_ARRIVE   5.0
#define DIRECT_US       7.0   /* ARRIVE_US when the product itself wrote the rows */
#define DIRECT_B_PER_US 2.9e5 /* which takes it longer than a copy engine */
#define JOIN_US         3.5
#define EXCHANGE_US     18.0 /* a whole collective by copy engines, beside its bytes */
#define EXCHANGE_PART   6.5
#define ADD_B_PER_US    3.0e6
#define KERNEL_US       3.5 /* a collective by SMs, beside the bytes */
#define KERNEL_B_PER_US 2.4e5
#define ELEMENT_BYTES   2.0
#define MAX_SMS         512
#define MAX_LANES       4

/* Tiles that cuBLASLt chooses from, and how much of the arithmetic rate they reach. */
static const struct {
    int rows, columns;
    double rate;
} tiles[] = {{128, 256, 1.0}, {128, 128, 0.85}, {64, 128, 0.65}, {64, 64, 0.5}};

/* A product as tiles of equal time. */
struct work {
    int64_t count;
    double us; /* of one tile */
};

static struct work cut_tiles(int64_t rows, int64_t n, int64_t k, int sms)
{
    double bytes = ELEMENT_BYTES *
                   ((double)rows * (double)k + (double)n * (double)k + (double)rows * (double)n);
    struct work best = {0, 0};
    double best_us = INFINITY;

    for (size_t i = 0; i < ARRAY_SIZE(tiles); i++) {
        struct work w = {.count = (rows + tiles[i].rows - 1) / tiles[i].rows *
                                  ((n + tiles[i].columns - 1) / tiles[i].columns)};
        double waves = (double)((w.count + sms - 1) / sms);

        w.us = TILE_US + 2.0 * tiles[i].rows * tiles[i].columns * (double)k /
                             (SM_FLOP_PER_US * tiles[i].rate);
        w.us = MAX(w.us, bytes / MEMORY_B_PER_US / waves);
        if (waves * w.us < best_us) {
            best_us = waves * w.us;
            best = w;
        }
    }
    return best;
}

double braid_gemm_model_product_us(int64_t rows, int64_t n, int64_t k, int sms)
{
    struct work w = cut_tiles(rows, n, k, MAX(1, sms));

    return (double)((w.count + sms - 1) / MAX(1, sms)) * w.us + LAUNCH_US;
}

/* When what is free, microseconds since the operation began. */
struct timeline {
    const struct braid_gemm_desc *d;
    int sms, lanes, next;
    double free[MAX_SMS]; /* a heap, the earliest first */
    double lane[MAX_LANES];
    double begun; /* the last product: blocks are given out in order */
    double link;
};

static void start(struct timeline *t, const struct braid_gemm_desc *d,
                  const struct braid_gemm_machine *on, const struct braid_gemm_settings *set)
{
    memset(t, 0, sizeof(*t));
    t->d = d;
    t->sms = MAX(1, MIN(on->sms - set->sm_margin, MAX_SMS));
    t->lanes = MAX(1, MIN(set->lanes, MAX_LANES));
}

/* The earliest SM is free at `at` from now on. */
static void replace_first(struct timeline *t, double at)
{
    int i = 0;

    for (int child = 1; child < t->sms; child = 2 * i + 1) {
        child += child + 1 < t->sms && t->free[child + 1] < t->free[child];
        if (t->free[child] >= at)
            break;
        t->free[i] = t->free[child];
        i = child;
    }
    t->free[i] = at;
}

/* A product on the next lane, not before `ready`; returns its end. */
static double product(struct timeline *t, int64_t rows, double ready, bool adds)
{
    struct work w = cut_tiles(rows, t->d->n, t->d->k, t->sms);
    double *lane = &t->lane[t->next], end = 0;
    double begin = MAX(MAX(*lane, ready), t->begun) + LAUNCH_US;

    if (adds)
        w.us += (double)rows * (double)t->d->n * ELEMENT_BYTES / ADDEND_B_PER_US /
                (double)((w.count + t->sms - 1) / t->sms);
    t->next = (t->next + 1) % t->lanes;
    t->begun = begin;
    if (w.count >= 2 * t->sms) { /* whole waves at once; the order of the heap stays */
        double waves = (double)(w.count / t->sms - 1);

        for (int i = 0; i < t->sms; i++)
            t->free[i] = MAX(t->free[i], begin) + waves * w.us;
        w.count -= (int64_t)waves * t->sms;
    }
    for (; w.count > 0; w.count--) {
        double at = MAX(t->free[0], begin) + w.us;

        replace_first(t, at);
        end = MAX(end, at);
    }
    *lane = end;
    return end;
}

static double last_product(const struct timeline *t)
{
    double last = 0;

    for (int i = 0; i < t->lanes; i++)
        last = MAX(last, t->lane[i]);
    return last;
}

static double to_engine_us(const struct braid_gemm_settings *set)
{
    return set->signal == BRAID_GEMM_BY_KERNEL ? KERNEL_TO_US : TO_ENGINE_US;
}

static double arrive_us(const struct braid_gemm_settings *set)
{
    return set->signal == BRAID_GEMM_BY_KERNEL ? KERNEL_ARRIVE : ARRIVE_US;
}

static double link_us(int64_t rows, int64_t width)
{
    return (double)rows * (double)width * ELEMENT_BYTES / LINK_B_PER_US;
}

double braid_gemm_model_link_us(const struct braid_gemm_desc *desc,
                                const struct braid_gemm_machine *on)
{
    int64_t width = desc->op == BRAID_AG_GEMM ? desc->k : desc->n;

    return (on->ranks - 1) * link_us(desc->m / on->ranks, width);
}

static double serial_us(const struct braid_gemm_desc *d, const struct braid_gemm_machine *on,
                        bool by_sms)
{
    double part = (double)d->m / on->ranks, peers = on->ranks - 1;
    double whole = braid_gemm_model_product_us(d->m, d->n, d->k, on->sms);
    double width = (double)(d->op == BRAID_AG_GEMM ? d->k : d->n);
    double add = LAUNCH_US + part * (double)d->n * ELEMENT_BYTES * (peers + 2) / ADD_B_PER_US;
    double push = EXCHANGE_PART + part * width * ELEMENT_BYTES / LINK_B_PER_US;

    if (peers == 0)
        return whole;
    if (by_sms)
        return whole + KERNEL_US +
               peers * part * width * ELEMENT_BYTES / KERNEL_B_PER_US *
                   (d->op == BRAID_GEMM_AR ? 2 : 1);
    if (d->op == BRAID_AG_GEMM)
        return whole + EXCHANGE_US + peers * push;
    return whole + EXCHANGE_US + add + peers * push * (d->op == BRAID_GEMM_AR ? 2 : 1);
}

static double gather_us(struct timeline *t, int64_t part, int ranks,
                        const struct braid_gemm_settings *set)
{
    int64_t bounds[BRAID_GEMM_MAX_SPLITS + 1];
    uint32_t count = braid_gemm_split(part, (uint32_t)set->own_splits, 0, bounds);

    for (uint32_t c = 0; c < count; c++)
        product(t, bounds[c + 1] - bounds[c], 0, false);
    count = braid_gemm_split(part, (uint32_t)set->num_splits,
                             braid_gemm_taper(BRAID_AG_GEMM, set->taper), bounds);
    for (int peer = 1; peer < ranks; peer++)
        for (uint32_t c = 0; c < count; c++) {
            int64_t rows = bounds[c + 1] - bounds[c];

            t->link += PART_US + link_us(rows, t->d->k);
            product(t, rows, t->link + arrive_us(set), false);
        }
    return last_product(t) + JOIN_US;
}

static double reduce_us(struct timeline *t, int64_t part, int ranks,
                        const struct braid_gemm_settings *set)
{
    int64_t bounds[BRAID_GEMM_MAX_SPLITS + 1];
    uint32_t count = braid_gemm_split(part, (uint32_t)set->num_splits,
                                      braid_gemm_taper(BRAID_GEMM_RS, set->taper), bounds);
    double arrived[BRAID_GEMM_MAX_SPLITS] = {0};
    bool all = t->d->op == BRAID_GEMM_AR;

    if (set->direct)
        t->begun = t->link = DIRECT_US; /* the peer's credit comes first */
    for (int s = 0; s < ranks; s++)
        for (uint32_t c = 0; c < count; c++) {
            int64_t rows = bounds[c + 1] - bounds[c];
            int before = t->next;
            double end = product(t, rows, arrived[c], s > 0);

            if (s == ranks - 1 && !all)
                continue;
            if (set->direct && s < ranks - 1) { /* a product ends when its rows are there */
                t->link += link_us(rows, t->d->n) * (LINK_B_PER_US / DIRECT_B_PER_US);
                t->lane[before] = t->link = MAX(t->link, end);
                arrived[c] = t->link + DIRECT_US;
                continue;
            }
            t->link = MAX(t->link, end + to_engine_us(set)) +
                      (PART_US + link_us(rows, t->d->n)) * (s == ranks - 1 ? ranks - 1 : 1);
            arrived[c] = t->link + arrive_us(set);
        }
    return MAX(last_product(t), all ? t->link + arrive_us(set) : 0) + JOIN_US;
}

double braid_gemm_model_us(const struct braid_gemm_desc *desc, const struct braid_gemm_machine *on,
                           const struct braid_gemm_settings *settings)
{
    struct timeline t;

    if (settings->method == BRAID_GEMM_SERIAL || on->ranks == 1)
        return serial_us(desc, on, settings->num_sm > 0);
    start(&t, desc, on, settings);
    return desc->op == BRAID_AG_GEMM ? gather_us(&t, desc->m / on->ranks, on->ranks, settings)
                                     : reduce_us(&t, desc->m / on->ranks, on->ranks, settings);
}
