/*
 * The decision tables. At init the cost model is evaluated once for every collective, algorithm, protocol, size bucket (two an
 * octave) and channel count; a call only looks up, compares and rewrites NCCL's table, well under a microsecond.
 *
 * The guard: NCCL's own choice (the minimum of the incoming table) stays unless the model predicts a gain above guard_ratio, which
 * a fitted profile derives from how far its predictions are off. It is compared by the model's own numbers for both, never by NCCL's.
 * Owns struct braid_tuner, constant after creation: any thread. Called by: abi/, tuner_setup.c, tools/braid-tune.
 */
#include "tuner-plugin/tuner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define FIRST_LOG 6  /* 64 bytes */
#define LAST_LOG  40 /* 1 TiB */
#define POINTS    (2 * (LAST_LOG - FIRST_LOG) + 1)
#define COMBOS    10 /* the most combinations of algorithm and protocol that a collective has */

/* NCCL multiplies an entry by 1024 to say "only if nothing else works" (rings that would lose precision in fp8). */
#define RELEGATED_RATIO 64.0f

static const uint8_t channel_grid[] = {1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64};
#define GRID ARRAY_SIZE(channel_grid)

const char *const braid_tuner_reasons[BRAID_WHY_COUNT] = {
    "no profile fits",
    "NCCL_ALGO or NCCL_PROTO is set",
    "the profile is a guess: NCCL's choice",
    "the profile does not cover NCCL's choice",
    "no gain above the guard",
    "predicted faster",
    "best within the SM budget",
    "costs the compute beside it least",
    "registered buffers, efficiency policy"};

/* One combination at one size. */
struct point {
    float us[GRID]; /* at each channel count; infinity beyond what NCCL or the cap allows */
    float own_us;   /* at NCCL's own count, or the cap if that is less */
    float latency_us;
    uint8_t own;  /* that count */
    uint8_t best; /* index into the grid of the fastest, after the guard; GRID = own */
};

struct combo {
    uint8_t algo, proto;
    bool covered;
    struct point points[POINTS];
};

struct braid_tuner {
    struct braid_shape shape;
    struct braid_tuner_settings settings;
    bool have_profile, trust, ll128;
    float guard, group_batch;
    float exposed, sm_share; /* of a collective's time that a step pays: always, and a channel */
    uint8_t combos[BRAID_COLLS];
    uint8_t cap[BRAID_COLLS][POINTS]; /* channels; 0 = none */
    uint8_t nccl_algo[BRAID_COLLS]
                     [POINTS]; /* NCCL's own choice by its model; BRAID_ALGOS = unknown */
    uint8_t nccl_proto[BRAID_COLLS][POINTS];
    uint8_t efficiency[BRAID_COLLS]; /* channels for registered NVLS; 0 = off */
    struct braid_rule chunk[BRAID_RULES_MAX];
    int chunks;
    struct braid_const_edits edits;
    struct combo combo[BRAID_COLLS][COMBOS];
};

static double point_bytes(int point)
{
    double bytes = (double)(1ull << (FIRST_LOG + point / 2));

    return point % 2 ? bytes * 1.5 : bytes;
}

/* The last point at or below `bytes`, and how far it is to the next one. */
static int find_point(uint64_t bytes, float *part_p)
{
    int log = bytes < (1ull << FIRST_LOG) ? 0 : 63 - __builtin_clzll(bytes) - FIRST_LOG, point;

    *part_p = 0;
    if (bytes <= (1ull << FIRST_LOG))
        return 0;
    if (log >= LAST_LOG - FIRST_LOG)
        return POINTS - 1;
    point = 2 * log + (bytes >= 3ull << (log + FIRST_LOG - 1));
    *part_p = (float)(((double)bytes - point_bytes(point)) /
                      (point_bytes(point + 1) - point_bytes(point)));
    return point;
}

static int cap_of(const struct braid_profile *profile, const struct braid_tuner_settings *settings,
                  enum braid_coll coll, double bytes)
{
    int cap = settings->sm_budget;

    for (int i = 0; i < profile->budgets; i++) {
        const struct braid_rule *rule = &profile->budget[i];

        if ((rule->coll < 0 || rule->coll == (int)coll) && bytes >= (double)rule->from_bytes &&
            bytes <= (double)rule->to_bytes && (!cap || rule->value < cap))
            cap = (int)rule->value;
    }
    return cap;
}

/* CollNet uses the count as it is, so a count above NCCL's own would run past its channels: leave those alone. */
static bool channels_free(enum braid_algo algo)
{
    return algo == BRAID_RING || algo == BRAID_TREE || algo == BRAID_NVLS ||
           algo == BRAID_NVLS_TREE;
}

static void fill_point(struct braid_tuner *tuner, const struct braid_profile *profile,
                       enum braid_coll coll, struct combo *combo, int at)
{
    struct point *point = &combo->points[at];
    double bytes = point_bytes(at);
    enum braid_algo algo = (enum braid_algo)combo->algo;
    enum braid_proto proto = (enum braid_proto)combo->proto;
    int own = braid_nccl_channels(profile, &tuner->shape, bytes, algo, proto);
    int cap = tuner->cap[coll][at], most = MIN(own, (int)profile->channels_max);
    struct braid_prediction prediction;

    own = cap && cap < own ? cap : own;
    own = MIN(own, tuner->settings.channel_ceiling);
    prediction = braid_cost_predict(profile, &tuner->shape, coll, bytes, algo, proto, own, 0);
    point->own = (uint8_t)own;
    point->own_us = (float)prediction.us;
    point->latency_us = (float)prediction.latency_us;
    point->best = GRID;
    combo->covered = prediction.us == prediction.us;
    for (size_t i = 0; i < GRID; i++) {
        point->us[i] = __builtin_inff();
        if (channel_grid[i] > most || (cap && channel_grid[i] > cap) || !channels_free(algo) ||
            channel_grid[i] > tuner->settings.channel_ceiling || !combo->covered)
            continue;
        point->us[i] = (float)braid_cost_predict(profile, &tuner->shape, coll, bytes, algo, proto,
                                                 channel_grid[i], 0)
                           .us;
        if (point->us[i] * (1 + tuner->guard) < point->own_us &&
            (point->best == GRID || point->us[i] < point->us[point->best]))
            point->best = (uint8_t)i;
    }
}

static void fill_coll(struct braid_tuner *tuner, const struct braid_profile *profile,
                      enum braid_coll coll)
{
    int count = 0;

    for (int at = 0; at < POINTS; at++) {
        enum braid_algo algo = BRAID_ALGOS;
        enum braid_proto proto = BRAID_LL;

        tuner->cap[coll][at] = (uint8_t)cap_of(profile, &tuner->settings, coll, point_bytes(at));
        if (braid_nccl_choice(profile, &tuner->shape, coll, point_bytes(at), &algo, &proto))
            algo = BRAID_ALGOS;
        tuner->nccl_algo[coll][at] = (uint8_t)algo;
        tuner->nccl_proto[coll][at] = (uint8_t)proto;
    }
    for (int algo = 0; algo < BRAID_ALGOS; algo++) {
        for (int proto = 0; proto < BRAID_PROTOS; proto++) {
            struct combo *combo = &tuner->combo[coll][count];

            if (!braid_kind_valid(coll, (enum braid_algo)algo, (enum braid_proto)proto))
                continue;
            combo->algo = (uint8_t)algo;
            combo->proto = (uint8_t)proto;
            for (int at = 0; at < POINTS; at++)
                fill_point(tuner, profile, coll, combo, at);
            count++;
        }
    }
    tuner->combos[coll] = (uint8_t)count;
}

/* NCCL's rule for registered NVLS buffers: so many SMs for eight heads saturate the switch, fewer heads need more each. */
static int efficiency_channels(const struct braid_tuner *tuner, const struct braid_profile *profile,
                               enum braid_coll coll)
{
    int scale = tuner->shape.nodes > 1 ? 1 : 0, heads = tuner->shape.node_ranks;
    double ctas = profile->efficiency_ctas[coll][scale];

    /* The rule knows nodes of at most eight GPUs; larger NVLink domains are multi-node NVLink, where NCCL does not apply it. */
    if (!tuner->settings.efficiency || ctas != ctas || heads > 8 || heads < 2)
        return 0;
    return ((int)ctas * 8 + heads - 1) / heads;
}

int braid_tuner_create(const struct braid_profile *profile, const struct braid_shape *shape,
                       const struct braid_tuner_settings *settings, struct braid_tuner **tuner_p)
{
    struct braid_tuner *tuner = calloc(1, sizeof(*tuner));

    if (!tuner)
        return -ENOMEM;
    tuner->shape = *shape;
    tuner->settings = *settings;
    tuner->have_profile = profile != NULL;
    if (profile) {
        tuner->trust = profile->trust != 0;
        tuner->ll128 = profile->nccl.ll128 == 1;
        tuner->guard = (float)profile->guard_ratio;
        tuner->group_batch = (float)profile->group_batch;
        tuner->exposed = profile->exposed_ratio >= 0 ? (float)profile->exposed_ratio : 0;
        tuner->sm_share = profile->gpu_sms >= 1 ? 1 / (float)profile->gpu_sms : 1;
        tuner->edits = profile->edits;
        memcpy(tuner->chunk, profile->chunk, sizeof(tuner->chunk));
        tuner->chunks = profile->chunks;
        for (int coll = 0; coll < BRAID_COLLS; coll++) {
            fill_coll(tuner, profile, (enum braid_coll)coll);
            tuner->efficiency[coll] =
                (uint8_t)efficiency_channels(tuner, profile, (enum braid_coll)coll);
        }
    }
    *tuner_p = tuner;
    return 0;
}

void braid_tuner_destroy(struct braid_tuner *tuner)
{
    free(tuner);
}

/* ---- A call ---- */

/* A usable combination of the call with its predictions. */
struct option {
    const struct combo *combo;
    float *entry; /* in the table */
    float was;    /* NCCL's estimate */
    float us;     /* predicted, at `channels` */
    int channels; /* 0 = NCCL's own */
};

struct question {
    const struct braid_tuner *tuner;
    const struct braid_tuner_call *call;
    struct option options[COMBOS];
    int count, nccl; /* options; NCCL's choice among them, -1 if none */
    int point;
    float part;
};

static float between(float low, float high, float part)
{
    return low + (high - low) * part;
}

/* Predicted us of a combination at a grid index (GRID = NCCL's own count) for the call's size and group. */
static float option_us(const struct question *q, const struct combo *combo, size_t grid)
{
    const struct point *low = &combo->points[q->point];
    const struct point *high = q->part > 0 ? low + 1 : low;
    float low_us = grid < GRID ? low->us[grid] : low->own_us;
    float high_us = grid < GRID ? high->us[grid] : high->own_us;
    int ops = q->call->ops > 1 ? q->call->ops : 1;
    int batch = (int)q->tuner->group_batch;
    int paid = combo->algo == BRAID_RING ? ops : (ops + batch - 1) / batch;

    /* Beyond the table time grows with the bytes. */
    if (q->point == POINTS - 1 && q->call->bytes > (1ull << LAST_LOG))
        low_us = high_us = low_us * ((float)q->call->bytes / (float)(1ull << LAST_LOG));
    if (!(high_us < __builtin_inff()))
        high_us = low_us;
    return between(low_us, high_us, q->part) +
           (float)(paid - 1) * between(low->latency_us, high->latency_us, q->part);
}

/* The usable entries and NCCL's choice: the first minimum in table order, as NCCL takes it. */
static void collect(struct question *q)
{
    const struct braid_tuner_call *call = q->call;
    const struct braid_tuner *tuner = q->tuner;
    float least = __builtin_inff();

    q->count = 0;
    q->nccl = -1;
    q->point = find_point(call->bytes, &q->part);
    for (int i = 0; i < tuner->combos[call->coll]; i++) {
        const struct combo *combo = &tuner->combo[call->coll][i];
        struct option *option = &q->options[q->count];
        float *entry;

        if (combo->algo >= call->algos || combo->proto >= call->protos)
            continue;
        entry = &call->table[combo->algo * call->protos + combo->proto];
        if (!(*entry >= 0))
            continue;
        option->combo = combo;
        option->entry = entry;
        option->was = *entry;
        option->channels = 0;
        option->us = combo->covered ? option_us(q, combo, GRID) : __builtin_nanf("");
        if (*entry < least) {
            least = *entry;
            q->nccl = q->count;
        }
        q->count++;
    }
}

static bool may_choose(const struct question *q, const struct option *option)
{
    return option->combo->covered && option->was <= RELEGATED_RATIO * q->options[q->nccl].was + 1;
}

/* Each option at its fastest allowed count, and the fastest of them. */
static int fastest(struct question *q)
{
    int best = q->nccl;
    bool capped = q->tuner->cap[q->call->coll][q->point] != 0;

    for (int i = 0; i < q->count; i++) {
        struct option *option = &q->options[i];
        const struct point *point = &option->combo->points[q->point];

        if (!option->combo->covered)
            continue;
        if (point->best < GRID) {
            option->us = option_us(q, option->combo, point->best);
            option->channels = channel_grid[point->best];
        } else if (capped && channels_free((enum braid_algo)option->combo->algo)) {
            option->channels = point->own;
        }
        if (may_choose(q, option) && option->us < q->options[best].us)
            best = i;
    }
    return best;
}

/* An option at one channel count, as BRAID_OVERLAP weighs it. */
struct lean {
    float cost, us;
    int option; /* -1 = none */
    size_t grid;
};

static int count_at(const struct question *q, const struct combo *combo, size_t grid)
{
    return grid < GRID ? channel_grid[grid] : combo->points[q->point].own;
}

/* The count at which an option within the limit costs a step least: fewer channels leave SMs to it, more of them end sooner. */
static struct lean leanest_count(const struct question *q, int option, float limit)
{
    const struct braid_tuner *tuner = q->tuner;
    struct lean lean = {__builtin_inff(), 0, -1, GRID};

    for (size_t grid = 0; grid <= GRID && may_choose(q, &q->options[option]); grid++) {
        const struct combo *combo = q->options[option].combo;
        float us = option_us(q, combo, grid);
        float cost = us * (tuner->exposed + (float)count_at(q, combo, grid) * tuner->sm_share);

        if (us <= limit && cost < lean.cost)
            lean = (struct lean){cost, us, option, grid};
    }
    return lean;
}

/* Of all options and counts within the tolerance of the best the one that costs a step least. */
static int leanest(struct question *q, int best)
{
    float limit = q->options[best].us * (1 + (float)q->tuner->settings.overlap_ratio);
    struct lean lean = leanest_count(q, q->nccl, limit), own = lean;
    struct option *taken;

    for (int i = 0; i < q->count; i++) {
        struct lean other = leanest_count(q, i, limit);

        if (other.option >= 0 && other.cost < lean.cost)
            lean = other;
    }
    if (lean.option < 0)
        return best;
    /* As ever, NCCL's own algorithm unless another gains more than the guard. */
    if (own.option >= 0 && own.cost <= lean.cost * (1 + q->tuner->guard))
        lean = own;
    taken = &q->options[lean.option];
    taken->us = lean.us;
    taken->channels = 0;
    if (channels_free((enum braid_algo)taken->combo->algo) &&
        (lean.grid < GRID || q->tuner->cap[q->call->coll][q->point]))
        taken->channels = count_at(q, taken->combo, lean.grid);
    return lean.option;
}

/* Predictions into the table; the chosen entry ends up strictly below all others. */
static void write_table(struct question *q, int chosen)
{
    float floor_us = q->options[chosen].us, above;

    if (!(floor_us >= 0))
        return;
    above = floor_us * 1.000001f + 1e-6f;
    for (int i = 0; i < q->count; i++) {
        struct option *option = &q->options[i];
        float us = may_choose(q, option) ? option->us : option->was;

        *option->entry = i == chosen ? floor_us : us > above ? us : above;
    }
}

static int find_option(const struct question *q, enum braid_algo algo, enum braid_proto proto)
{
    for (int i = 0; i < q->count; i++) {
        if (q->options[i].combo->algo == algo && q->options[i].combo->proto == proto)
            return i;
    }
    return -1;
}

/* What NCCL does by itself for registered buffers when no tuner is loaded. */
static int efficient(struct question *q)
{
    const struct braid_tuner_call *call = q->call;
    int channels = q->tuner->efficiency[call->coll];
    int option = find_option(q, BRAID_NVLS, BRAID_SIMPLE);
    const struct option *nccl = &q->options[q->nccl];

    if (!channels || !call->reg_buff || option < 0 ||
        (call->coll != BRAID_ALL_GATHER && call->coll != BRAID_REDUCE_SCATTER) ||
        channels > nccl->combo->points[q->point].own)
        return -1;
    q->options[option].channels = channels;
    if (!q->options[option].combo->covered)
        q->options[option].us = q->options[option].was;
    return option;
}

/* The option to take and why; the options' channels are set. */
static int choose(struct question *q, enum braid_tuner_reason *reason_p)
{
    const struct braid_tuner *tuner = q->tuner;
    bool capped = tuner->cap[q->call->coll][q->point] != 0;
    struct option own;
    int best = efficient(q);

    *reason_p = BRAID_WHY_EFFICIENCY;
    if (best >= 0)
        return best;
    *reason_p = BRAID_WHY_NOT_COVERED;
    best = q->nccl;
    if (!q->options[best].combo->covered)
        goto budget;
    own = q->options[q->nccl];
    best = tuner->trust ? fastest(q) : q->nccl;
    if (tuner->settings.overlap && tuner->trust) {
        *reason_p = BRAID_WHY_OVERLAP;
        return leanest(q, best);
    }
    *reason_p = tuner->trust ? BRAID_WHY_GUARD : BRAID_WHY_UNTRUSTED;
    if (best == q->nccl && q->options[best].channels == 0)
        goto budget;
    if (best != q->nccl && q->options[best].us * (1 + tuner->guard) >= q->options[q->nccl].us)
        best = q->nccl;
    if (best != q->nccl || q->options[best].us * (1 + tuner->guard) < own.us)
        *reason_p = BRAID_WHY_FASTER;
    else if (!capped)
        q->options[best].channels = 0;
budget:
    if (capped && channels_free((enum braid_algo)q->options[best].combo->algo)) {
        if (!q->options[best].channels)
            q->options[best].channels = q->options[best].combo->points[q->point].own;
        *reason_p = BRAID_WHY_BUDGET;
    }
    return best;
}

static void report(const struct question *q, int chosen, enum braid_tuner_reason reason,
                   float nccl_us, struct braid_tuner_decision *decision)
{
    const struct option *option = &q->options[chosen], *nccl = &q->options[q->nccl];

    decision->algo = (enum braid_algo)option->combo->algo;
    decision->proto = (enum braid_proto)option->combo->proto;
    decision->nccl_algo = (enum braid_algo)nccl->combo->algo;
    decision->nccl_proto = (enum braid_proto)nccl->combo->proto;
    decision->channels = option->channels;
    decision->us = option->us;
    decision->nccl_us = nccl_us;
    decision->reason = reason;
}

int braid_tuner_decide(const struct braid_tuner *tuner, const struct braid_tuner_call *call,
                       struct braid_tuner_decision *decision)
{
    struct question q = {.tuner = tuner, .call = call};
    enum braid_tuner_reason reason;
    float nccl_us;
    int chosen;

    if (decision)
        memset(decision, 0, sizeof(*decision));
    if (!tuner || !tuner->have_profile || (unsigned)call->coll >= BRAID_COLLS)
        return 0;
    collect(&q);
    if (q.nccl < 0)
        return 0;
    nccl_us = q.options[q.nccl].us;
    if (tuner->settings.forced[call->coll]) {
        if (decision)
            report(&q, q.nccl, BRAID_WHY_FORCED, nccl_us, decision);
        return 0;
    }
    chosen = choose(&q, &reason);
    if (tuner->trust || reason == BRAID_WHY_EFFICIENCY)
        write_table(&q, chosen);
    if (decision)
        report(&q, chosen, reason, nccl_us, decision);
    return q.options[chosen].channels;
}

size_t braid_tuner_chunk(const struct braid_tuner *tuner, enum braid_coll coll, uint64_t bytes,
                         enum braid_algo algo, enum braid_proto proto, size_t bytes_now)
{
    if (!tuner || !tuner->trust || (unsigned)coll >= BRAID_COLLS || tuner->settings.forced[coll])
        return bytes_now;
    for (int i = tuner->chunks - 1; i >= 0; i--) {
        const struct braid_rule *rule = &tuner->chunk[i];

        if ((rule->coll < 0 || rule->coll == (int)coll) &&
            (rule->algo < 0 || rule->algo == (int)algo) &&
            (rule->proto < 0 || rule->proto == (int)proto) && bytes >= rule->from_bytes &&
            bytes <= rule->to_bytes && tuner->shape.nodes >= rule->nodes_min &&
            tuner->shape.nodes <= rule->nodes_max)
            return (size_t)rule->value;
    }
    return bytes_now;
}

int braid_tuner_nccl_choice(const struct braid_tuner *tuner, enum braid_coll coll, uint64_t bytes,
                            enum braid_algo *algo_p, enum braid_proto *proto_p)
{
    float part;
    int point = find_point(bytes, &part);

    if (!tuner || !tuner->have_profile || (unsigned)coll >= BRAID_COLLS ||
        tuner->nccl_algo[coll][point] == BRAID_ALGOS)
        return -ENODATA;
    *algo_p = (enum braid_algo)tuner->nccl_algo[coll][point];
    *proto_p = (enum braid_proto)tuner->nccl_proto[coll][point];
    return 0;
}

bool braid_tuner_safe(const struct braid_tuner *tuner, enum braid_coll coll, enum braid_algo algo,
                      enum braid_proto proto)
{
    return (algo == BRAID_RING || algo == BRAID_TREE) && braid_kind_valid(coll, algo, proto) &&
           (proto != BRAID_LL128 || (tuner && tuner->ll128));
}

int braid_tuner_edit_constants(const struct braid_tuner *tuner, double *constants, size_t count)
{
    const double *edits = tuner ? (const double *)&tuner->edits : NULL;
    int changed = 0;

    if (!tuner || !tuner->have_profile || !tuner->trust ||
        count != sizeof(tuner->edits) / sizeof(double))
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (edits[i] == edits[i]) {
            constants[i] = edits[i];
            changed++;
        }
    }
    return changed;
}
