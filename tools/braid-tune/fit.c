/*
 * Least squares in the logarithm of time, one combination of collective, algorithm and protocol after the other, by Nelder-Mead:
 * four numbers each (start, cost of a channel, rate of a channel, reachable part of the shared rate). What is left at each size is
 * kept as a correction, drawn towards none where few rows speak. Called by: cmd_fit.c, calibrate. Single-threaded.
 */
#include "tools/braid-tune/fit.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define DIMS  4
#define STEPS 600

struct problem {
    const struct sweep *sweep;
    struct braid_profile *profile;
    struct braid_shape shape;
    enum braid_link link;
    int coll, algo, proto;
    const bool *use;
};

int fit_effective_channels(const struct braid_profile *profile, const struct braid_shape *shape,
                           const struct sweep_row *row, int own)
{
    static struct braid_profile limited; /* large, and only one field of it changes */

    limited = *profile;
    limited.channels = row->channels ? row->channels : own;
    return braid_nccl_channels(&limited, shape, (double)row->bytes, (enum braid_algo)row->algo,
                               (enum braid_proto)row->proto);
}

static void set_point(const struct problem *problem, const double *x)
{
    struct braid_profile *profile = problem->profile;
    int c = problem->coll, a = problem->algo, p = problem->proto;

    profile->base_us[c][a][p] = exp(x[0]);
    profile->channel_us[c][a][p] = x[1];
    profile->channel_GBps[c][a][p] = exp(x[2]);
    profile->reach_ratio[problem->link][c][a][p] = exp(x[3]);
}

static bool row_of(const struct problem *problem, size_t i)
{
    const struct sweep_row *row = &problem->sweep->rows[i];

    return problem->use[i] && row->coll == problem->coll && row->algo == problem->algo &&
           row->proto == problem->proto;
}

static double residual(const struct problem *problem, const struct sweep_row *row, int channels)
{
    double us = braid_cost_predict(problem->profile, &problem->shape, (enum braid_coll)row->coll,
                                   (double)row->bytes, (enum braid_algo)row->algo,
                                   (enum braid_proto)row->proto, channels, 0)
                    .us;

    return log(us) - log(row->us);
}

/* Sum of squares plus a pull of the parameters towards where the generic profile has them, so that few rows do not run away. */
static double loss(const struct problem *problem, const double *x, const double *prior,
                   const int *channels)
{
    static const double pull[DIMS] = {0.002, 0.05, 0.01, 0.01};
    double sum = 0;

    if (x[0] > 12 || x[2] > 8 || x[2] < -8 || x[3] > 4.5 || x[3] < -6 || x[1] > 5 || x[1] < -0.5)
        return 1e6;
    set_point(problem, x);
    for (size_t i = 0; i < problem->sweep->count; i++) {
        if (row_of(problem, i)) {
            double r = residual(problem, &problem->sweep->rows[i], channels[i]);

            /* Huber: a row that was disturbed pulls with limited force. */
            sum += fabs(r) < 0.2 ? r * r : 0.4 * fabs(r) - 0.04;
        }
    }
    for (int d = 0; d < DIMS; d++)
        sum += pull[d] * (x[d] - prior[d]) * (x[d] - prior[d]);
    return sum;
}

static void order(double (*x)[DIMS], double *f)
{
    for (int i = 1; i <= DIMS; i++) {
        for (int j = i; j > 0 && f[j] < f[j - 1]; j--) {
            double t = f[j], y[DIMS];

            f[j] = f[j - 1];
            f[j - 1] = t;
            memcpy(y, x[j], sizeof(y));
            memcpy(x[j], x[j - 1], sizeof(y));
            memcpy(x[j - 1], y, sizeof(y));
        }
    }
}

static void along(const double (*x)[DIMS], const double *centre, double t, double *out)
{
    for (int d = 0; d < DIMS; d++)
        out[d] = centre[d] + t * (x[DIMS][d] - centre[d]);
}

/* One Nelder-Mead step. */
static void step(const struct problem *problem, const double *prior, const int *channels,
                 double (*x)[DIMS], double *f)
{
    double centre[DIMS] = {0}, y[DIMS], z[DIMS], fy, fz;

    for (int i = 0; i < DIMS; i++) {
        for (int d = 0; d < DIMS; d++)
            centre[d] += x[i][d] / DIMS;
    }
    along((const double(*)[DIMS])x, centre, -1, y);
    fy = loss(problem, y, prior, channels);
    along((const double(*)[DIMS])x, centre, fy < f[0] ? -2 : fy < f[DIMS] ? -0.5 : 0.5, z);
    fz = fy < f[DIMS - 1] && fy >= f[0] ? fy + 1 : loss(problem, z, prior, channels);
    if (fz < fy) {
        memcpy(y, z, sizeof(y));
        fy = fz;
    }
    if (fy < f[DIMS]) {
        memcpy(x[DIMS], y, sizeof(y));
        f[DIMS] = fy;
    } else {
        for (int i = 1; i <= DIMS; i++) {
            for (int d = 0; d < DIMS; d++)
                x[i][d] = x[0][d] + (x[i][d] - x[0][d]) / 2;
            f[i] = loss(problem, x[i], prior, channels);
        }
    }
    order(x, f);
}

static void minimise(const struct problem *problem, const double *start, const double *prior,
                     const int *channels, double *best)
{
    static const double width[DIMS] = {0.5, 0.2, 0.5, 0.5};
    double x[DIMS + 1][DIMS], f[DIMS + 1];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i <= DIMS; i++) {
            memcpy(x[i], round ? best : start, sizeof(x[i]));
            if (i)
                x[i][i - 1] += width[i - 1] / (1 << round);
            f[i] = loss(problem, x[i], prior, channels);
        }
        order(x, f);
        for (int i = 0; i < STEPS; i++)
            step(problem, prior, channels, x, f);
        memcpy(best, x[0], sizeof(x[0]));
    }
}

/* What remains at each size, on average over channels; near the count that the tuner would mostly use counts more. */
static void correct(const struct problem *problem, const int *channels)
{
    double *ratio = problem->profile->correct_ratio[problem->coll][problem->algo][problem->proto];
    double sum[BRAID_SIZES] = {0}, weight[BRAID_SIZES] = {0};

    for (int z = 0; z < BRAID_SIZES; z++)
        ratio[z] = 1;
    for (size_t i = 0; i < problem->sweep->count; i++) {
        const struct sweep_row *row = &problem->sweep->rows[i];
        int z = braid_log2_floor(row->bytes);

        if (!row_of(problem, i))
            continue;
        sum[z] -= channels[i] * residual(problem, row, channels[i]);
        weight[z] += channels[i];
    }
    for (int z = 0; z < BRAID_SIZES; z++)
        ratio[z] = weight[z] ? exp(0.8 * sum[z] / weight[z]) : NAN;
}

/* The parser does this for files; here the numbers never were one. */
static void fill_corrections(double *ratio)
{
    int last = -1;

    for (int z = 0; z < BRAID_SIZES; z++) {
        if (isnan(ratio[z]))
            continue;
        for (int gap = last + 1; gap < z; gap++)
            ratio[gap] = last < 0
                             ? ratio[z]
                             : ratio[last] + (ratio[z] - ratio[last]) * (gap - last) / (z - last);
        last = z;
    }
    for (int z = last + 1; z < BRAID_SIZES; z++)
        ratio[z] = last < 0 ? 1 : ratio[last];
}

static void fit_combo(const struct problem *problem, const int *channels)
{
    struct braid_profile *profile = problem->profile;
    int c = problem->coll, a = problem->algo, p = problem->proto, rows = 0;
    double prior[DIMS], best[DIMS], least = INFINITY, smallest = INFINITY, start[DIMS];
    struct braid_load load =
        braid_load_of(&problem->shape, (enum braid_coll)c, (enum braid_algo)a, 1);
    double hops = load.intra_hops * profile->hop_us[(int)profile->intra_link][a][p] +
                  (load.net_hops ? load.net_hops * profile->hop_us[BRAID_NET][a][p] : 0);

    for (size_t i = 0; i < problem->sweep->count; i++) {
        if (!row_of(problem, i))
            continue;
        rows++;
        smallest = fmin(smallest, problem->sweep->rows[i].us);
    }
    if (!rows) {
        profile->base_us[c][a][p] = NAN;
        return;
    }
    /* Hops and start cannot be told apart on one communicator: a hop may not be more than what was measured. */
    if (hops > 0.8 * smallest) {
        for (int link = 0; link < BRAID_LINKS; link++)
            profile->hop_us[link][a][p] *= 0.6 * smallest / hops;
        hops = 0.6 * smallest;
    }
    prior[0] = log(fmax(smallest - hops, 0.1));
    prior[1] = 0;
    prior[2] = log(profile->channel_GBps[c][a][p]);
    prior[3] = log(profile->reach_ratio[problem->link][c][a][p]);
    memcpy(best, prior, sizeof(best));
    for (int try = 0; try < 3; try++) {
        double x[DIMS], f;

        memcpy(start, prior, sizeof(start));
        start[2] += 1.5 * (try - 1);
        minimise(problem, start, prior, channels, x);
        f = loss(problem, x, prior, channels);
        if (f < least) {
            least = f;
            memcpy(best, x, sizeof(best));
        }
    }
    set_point(problem, best);
    correct(problem, channels);
    fill_corrections(profile->correct_ratio[c][a][p]);
}

/* Every size of a collective gets its rank, so that "every second size" means the same for all combinations. */
static int size_rank(const struct sweep *sweep, const struct sweep_row *row)
{
    int rank = 0;

    for (size_t i = 0; i < sweep->count; i++) {
        bool first = sweep->rows[i].coll == row->coll && sweep->rows[i].bytes < row->bytes;

        for (size_t j = 0; first && j < i; j++)
            first =
                sweep->rows[j].coll != row->coll || sweep->rows[j].bytes != sweep->rows[i].bytes;
        rank += first;
    }
    return rank;
}

static double measure_noise(const struct sweep *sweep, const int *channels, const bool *reach,
                            int *pairs_p)
{
    double sum = 0;
    int degrees = 0;

    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_row *a = &sweep->rows[i];
        double mean = 0, square = 0;
        int n = 0;
        bool first = reach[i];

        for (size_t j = 0; first && j < sweep->count; j++) {
            const struct sweep_row *b = &sweep->rows[j];

            if (!reach[j] || a->coll != b->coll || a->bytes != b->bytes || a->algo != b->algo ||
                a->proto != b->proto || channels[i] != channels[j])
                continue;
            first = j >= i;
            mean += log(b->us);
            square += log(b->us) * log(b->us);
            n++;
        }
        if (!first || n < 2)
            continue;
        sum += square - mean * mean / n;
        degrees += n - 1;
    }
    *pairs_p = degrees;
    return degrees ? sqrt(sum / degrees) : NAN;
}

static void score(const struct problem *problem, const bool *reach, const int *channels,
                  struct fit_result *result)
{
    double used = 0, held = 0;

    for (size_t i = 0; i < problem->sweep->count; i++) {
        double r;

        if (!reach[i])
            continue;
        r = residual(problem, &problem->sweep->rows[i], channels[i]);
        if (problem->use[i]) {
            used += r * r;
            result->used++;
        } else {
            held += r * r;
            result->held_out++;
        }
    }
    result->fit_error = result->used ? sqrt(used / result->used) : NAN;
    result->held_out_error = result->held_out ? sqrt(held / result->held_out) : NAN;
}

/* What the sweep's head says about the machine. */
static void set_machine(const struct sweep *sweep, struct braid_profile *profile)
{
    profile->channels = profile->channels_max = sweep->channels;
    profile->trust = 1;
    profile->nccl.nvls = sweep->nvls;
    snprintf(profile->match_gpu, sizeof(profile->match_gpu), "%s", sweep->gpu);
    snprintf(profile->match_net, sizeof(profile->match_net), "%s", sweep->net);
    profile->match_ranks[0] = profile->match_ranks[1] = sweep->ranks;
    profile->match_nodes[0] = profile->match_nodes[1] = sweep->nodes;
}

static void fit_all(struct problem *problem, const bool *reach, const int *channels,
                    struct fit_result *result)
{
    for (problem->coll = 0; problem->coll < BRAID_COLLS; problem->coll++) {
        for (problem->algo = 0; problem->algo < BRAID_ALGOS; problem->algo++) {
            for (problem->proto = 0; problem->proto < BRAID_PROTOS; problem->proto++)
                fit_combo(problem, channels);
        }
    }
    score(problem, reach, channels, result);
}

/* How abruptly bottlenecks take over is the machine's too: the sharpness with the least error on the rows used. */
static int fit_sharpness(struct problem *problem, const bool *reach, const int *channels,
                         struct fit_result *result)
{
    struct braid_profile *start = malloc(2 * sizeof(*start)), *best = start + 1;

    if (!start)
        return -ENOMEM;
    *start = *problem->profile;
    result->fit_error = INFINITY;
    for (int sharpness = 2; sharpness <= 8; sharpness *= 2) {
        struct fit_result here = {0};

        *problem->profile = *start;
        problem->profile->sharpness = sharpness;
        fit_all(problem, reach, channels, &here);
        if (here.fit_error < result->fit_error) {
            *result = here;
            *best = *problem->profile;
        }
    }
    *problem->profile = *best;
    free(start);
    return 0;
}

int fit_profile(const struct sweep *sweep, const struct fit_options *options,
                struct braid_profile *profile, struct fit_result *result)
{
    struct problem problem = {.sweep = sweep, .profile = profile};
    bool *use = calloc(sweep->count, 2 * sizeof(*use)), *reach = use + sweep->count;
    int *channels = calloc(sweep->count, sizeof(*channels));
    int rc = use && channels ? 0 : -ENOMEM;

    memset(result, 0, sizeof(*result));
    if (rc)
        goto out;
    set_machine(sweep, profile);
    problem.shape = braid_shape_make((size_t)sweep->ranks, (size_t)sweep->nodes);
    problem.link = sweep->nodes > 1 ? BRAID_NET : (enum braid_link)(int)profile->intra_link;
    problem.use = use;
    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_row *row = &sweep->rows[i];

        reach[i] = row->algo >= 0 && row->channels <= sweep->channels;
        if (!reach[i])
            continue;
        channels[i] = fit_effective_channels(profile, &problem.shape, row, sweep->channels);
        use[i] = options->parity < 0 || size_rank(sweep, row) % 2 == options->parity;
    }
    rc = fit_sharpness(&problem, reach, channels, result);
    if (rc)
        goto out;
    result->noise = measure_noise(sweep, channels, reach, &result->pairs);
    if (!isnan(result->noise))
        profile->noise_ratio = result->noise;
    /* A model that does not fit knows no small gains either. */
    profile->guard_ratio = options->guard_noise * fmax(profile->noise_ratio, result->fit_error);
out:
    free(use);
    free(channels);
    return rc;
}

/* ---- Writing ---- */

struct base_row {
    char key[160];
    double value;
};

struct base_rows {
    struct base_row *rows;
    size_t count, room;
    FILE *out;
    const struct sweep *sweep;
};

/* Corrections between measured sizes are interpolated by whoever reads the file. */
static bool measured_size(const struct sweep *sweep, const char *key)
{
    uint64_t bytes = strtoull(strrchr(key, ' ') + 1, NULL, 10);

    for (size_t i = 0; i < sweep->count; i++) {
        if (braid_log2_floor(sweep->rows[i].bytes) == braid_log2_floor(bytes))
            return true;
    }
    return false;
}

static void keep(void *arg, const char *key, double value)
{
    struct base_rows *base = arg;

    if (base->count == base->room)
        return;
    snprintf(base->rows[base->count].key, sizeof(base->rows[0].key), "%s", key);
    base->rows[base->count++].value = value;
}

static void write_row(void *arg, const char *key, double value)
{
    struct base_rows *base = arg;

    if (!strncmp(key, "correct_ratio ", 14) && !measured_size(base->sweep, key))
        return;
    for (size_t i = 0; i < base->count && strncmp(key, "base_us ", 8); i++) {
        if (!strcmp(base->rows[i].key, key) && fabs(base->rows[i].value - value) < 1e-12)
            return;
    }
    fprintf(base->out, "%s %.6g @%s\n", key, value, "fit");
}

int fit_write(FILE *out, const char *name, const char *include, const struct sweep *sweep,
              const struct braid_profile *base, const struct braid_profile *profile,
              const struct fit_result *result, const char *sweep_path)
{
    struct base_rows rows = {calloc(BRAID_ROWS_MAX, sizeof(struct base_row)), 0, BRAID_ROWS_MAX,
                             out, sweep};
    const char *slash = strrchr(sweep_path, '/');

    if (!rows.rows)
        return -ENOMEM;
    braid_profile_each(base, keep, &rows);
    fprintf(out,
            "# Made by `braid-tune fit` from %s. Of %s.\n"
            "# rms of ln(predicted / measured): %.3f over %d rows used, %.3f over %d held out; "
            "between equal configurations %.3f "
            "(%d pairs).\n"
            "braid-profile 1\nname %s\ninclude %s\n"
            "source fit \"%s, NCCL %s, %s; least squares by braid-tune fit\"\n",
            slash ? slash + 1 : sweep_path, sweep->machine, result->fit_error, result->used,
            result->held_out_error, result->held_out, result->noise, result->pairs, name, include,
            slash ? slash + 1 : sweep_path, sweep->nccl, sweep->date);
    if (sweep->gpu[0])
        fprintf(out, "match_gpu %s\n", sweep->gpu);
    if (sweep->net[0])
        fprintf(out, "match_net %s\n", sweep->net);
    /* Nothing that was not measured here. */
    fprintf(out, "uncover * * *\n");
    braid_profile_each(profile, write_row, &rows);
    free(rows.rows);
    return ferror(out) ? -EIO : 0;
}
