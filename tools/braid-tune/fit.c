/*
 * Least squares in the logarithm of time, one combination of collective, algorithm and protocol after the other: four numbers each
 * (start, cost of a channel, rate of a channel, reachable part of the shared rate). What a channel costs is mostly the transport's
 * doing, so it is fitted twice, the second time drawn towards what all combinations say of it. What is left at each size is kept as
 * two corrections, with all channels and with one, drawn towards none where few measurements speak.
 * Equal configurations are pooled first: points, not rows, are fitted. Called by: cmd_fit.c, cmd_calibrate.c. Single-threaded.
 */
#include "tools/braid-tune/fit.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tools/braid-tune/simplex.h"

#define DIMS      SIMPLEX_DIMS
#define RATIO_MAX 10.0 /* the largest noise and guard that a profile takes */

/* One configuration at one size, over the communicators that measured it. */
struct point {
    int coll, algo, proto, channels;
    uint64_t bytes;
    int n;
    double sum, square; /* of ln(us) */
    bool use;           /* or held out */
};

struct problem {
    const struct sweep *sweep;
    struct braid_profile *profile;
    struct braid_shape shape;
    enum braid_link link;
    struct point *points;
    int count;

    /* The combination being fitted. */
    int coll, algo, proto;
    const struct point **mine;
    int mine_count;
    double prior[DIMS], pull[DIMS]; /* where each number is drawn to, how strongly */
    double scale_us;                /* of its latency: what a channel may cost is measured by it */
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

/* ---- Points ---- */

static struct point *find_point(struct problem *problem, const struct sweep_row *row, int channels)
{
    for (int i = 0; i < problem->count; i++) {
        struct point *point = &problem->points[i];

        if (point->coll == row->coll && point->bytes == row->bytes && point->algo == row->algo &&
            point->proto == row->proto && point->channels == channels)
            return point;
    }
    problem->points[problem->count] =
        (struct point){row->coll, row->algo, row->proto, channels, row->bytes, 0, 0, 0, true};
    return &problem->points[problem->count++];
}

/* Rows that a tuner can reach, equal ones together. */
static void pool_rows(struct problem *problem)
{
    const struct sweep *sweep = problem->sweep;

    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_row *row = &sweep->rows[i];
        struct point *point;

        if (row->algo < 0 || row->channels > sweep->channels)
            continue;
        point = find_point(
            problem, row,
            fit_effective_channels(problem->profile, &problem->shape, row, sweep->channels));
        point->n++;
        point->sum += log(row->us);
        point->square += log(row->us) * log(row->us);
    }
}

/* Every size of a collective has its rank, so that "every second size" means the same for all combinations. */
static void hold_out(struct problem *problem, int parity)
{
    for (int i = 0; i < problem->count; i++) {
        uint64_t below = 0, size = problem->points[i].bytes;
        int rank = -1;

        /* Counts the sizes up to this one, smallest first. */
        while (below < size) {
            uint64_t next = size;

            for (int j = 0; j < problem->count; j++) {
                if (problem->points[j].coll == problem->points[i].coll &&
                    problem->points[j].bytes > below && problem->points[j].bytes < next)
                    next = problem->points[j].bytes;
            }
            below = next;
            rank++;
        }
        problem->points[i].use = rank % 2 == parity;
    }
}

static double measured(const struct point *point)
{
    return point->sum / point->n;
}

static double residual(const struct problem *problem, const struct point *point)
{
    double us = braid_cost_predict(problem->profile, &problem->shape, (enum braid_coll)point->coll,
                                   (double)point->bytes, (enum braid_algo)point->algo,
                                   (enum braid_proto)point->proto, point->channels, 0)
                    .us;

    return log(us) - measured(point);
}

/* ---- One combination ---- */

static void set_numbers(const struct problem *problem, const double *x)
{
    struct braid_profile *profile = problem->profile;
    int c = problem->coll, a = problem->algo, p = problem->proto;

    profile->base_us[c][a][p] = exp(x[0]);
    profile->channel_us[c][a][p] = x[1];
    profile->channel_GBps[c][a][p] = exp(x[2]);
    profile->reach_ratio[problem->link][c][a][p] = exp(x[3]);
}

/* Sum of squares plus a pull of the numbers towards where they are likely, so that few points do not run away. */
static double loss(const void *arg, const double *x)
{
    const struct problem *problem = arg;
    double sum = 0;

    if (x[0] > 16 || x[2] > 8 || x[2] < -8 || x[3] > 4.5 || x[3] < -6 ||
        x[1] > 0.6 * problem->scale_us || x[1] < -0.05 * problem->scale_us)
        return 1e6;
    set_numbers(problem, x);
    for (int i = 0; i < problem->mine_count; i++) {
        double r = residual(problem, problem->mine[i]);

        /* Huber: what was disturbed pulls with limited force. */
        sum += problem->mine[i]->n * (fabs(r) < 0.2 ? r * r : 0.4 * fabs(r) - 0.04);
    }
    for (int d = 0; d < DIMS; d++)
        sum += problem->pull[d] * (x[d] - problem->prior[d]) * (x[d] - problem->prior[d]);
    return sum;
}

/* The two corrections of one size: sums of products of their weights and of what remains. */
struct remainder {
    double one_one, one_all, all_all, one_rest, all_rest;
    int n;
};

/* How much of the correction at one channel a point takes; the model's own formula (cost.c). */
static double one_share(const struct problem *problem, const struct point *point)
{
    int most = braid_nccl_channels(problem->profile, &problem->shape, (double)point->bytes,
                                   (enum braid_algo)point->algo, (enum braid_proto)point->proto);

    return point->channels >= most
               ? 0
               : (double)(most - point->channels) / ((double)point->channels * (most - 1));
}

/* Within what a profile's row takes. */
static double bounded_exp(double x)
{
    return fmin(fmax(exp(x), 0.05), 20);
}

/*
 * Both at once, each drawn towards 1 and towards the other as by a quarter of a measurement: one measurement takes 0.8 of what
 * remains, ten nearly all.
 */
static void solve(const struct remainder *r, double *all_p, double *one_p)
{
    const double quarter = 0.25;
    double a = r->all_all + 2 * quarter, b = r->one_all - quarter, c = r->one_one + 2 * quarter;
    double determinant = a * c - b * b;

    *all_p = bounded_exp((c * r->all_rest - b * r->one_rest) / determinant);
    *one_p = bounded_exp((a * r->one_rest - b * r->all_rest) / determinant);
}

static void correct(const struct problem *problem)
{
    int c = problem->coll, a = problem->algo, p = problem->proto;
    double *all = problem->profile->correct_ratio[c][a][p];
    double *one = problem->profile->correct_one_ratio[c][a][p];
    struct remainder at[BRAID_SIZES] = {{0}};

    for (int i = 0; i < problem->mine_count; i++) {
        const struct point *point = problem->mine[i];
        struct remainder *r = &at[braid_log2_floor(point->bytes)];
        double share = one_share(problem, point), rest = -residual(problem, point);

        r->one_one += point->n * share * share;
        r->one_all += point->n * share * (1 - share);
        r->all_all += point->n * (1 - share) * (1 - share);
        r->one_rest += point->n * share * rest;
        r->all_rest += point->n * (1 - share) * rest;
        r->n += point->n;
    }
    for (int z = 0; z < BRAID_SIZES; z++) {
        all[z] = one[z] = NAN;
        if (at[z].n)
            solve(&at[z], &all[z], &one[z]);
    }
}

static int hops_of(const struct problem *problem)
{
    struct braid_load load = braid_load_of(&problem->shape, (enum braid_coll)problem->coll,
                                           (enum braid_algo)problem->algo, 1);

    return MAX(load.intra_hops + load.net_hops, 1);
}

/* Hops and start cannot be told apart on one communicator: a hop may not be more than what was measured. Returns the hops' us. */
static double limit_hops(const struct problem *problem, double smallest)
{
    struct braid_profile *profile = problem->profile;
    int a = problem->algo, p = problem->proto;
    struct braid_load load =
        braid_load_of(&problem->shape, (enum braid_coll)problem->coll, (enum braid_algo)a, 1);
    double hops = load.intra_hops * profile->hop_us[(int)profile->intra_link][a][p] +
                  (load.net_hops ? load.net_hops * profile->hop_us[BRAID_NET][a][p] : 0);

    if (hops <= 0.8 * smallest)
        return hops;
    for (int link = 0; link < BRAID_LINKS; link++)
        profile->hop_us[link][a][p] *= 0.6 * smallest / hops;
    return 0.6 * smallest;
}

static double take_points(struct problem *problem)
{
    double smallest = INFINITY;

    problem->mine_count = 0;
    for (int i = 0; i < problem->count; i++) {
        const struct point *point = &problem->points[i];

        if (!point->use || point->coll != problem->coll || point->algo != problem->algo ||
            point->proto != problem->proto)
            continue;
        problem->mine[problem->mine_count++] = point;
        smallest = fmin(smallest, exp(measured(point)));
    }
    return smallest;
}

static void fit_combo(struct problem *problem, double channel_us, double channel_pull)
{
    struct braid_profile *profile = problem->profile;
    int c = problem->coll, a = problem->algo, p = problem->proto;
    double best[DIMS], least = INFINITY, smallest = take_points(problem), hops;

    if (!problem->mine_count) {
        profile->base_us[c][a][p] = NAN;
        return;
    }
    hops = limit_hops(problem, smallest);
    problem->scale_us = fmax(smallest, 1);
    problem->prior[0] = log(fmax(smallest - hops, 0.1));
    problem->prior[1] = channel_us * hops_of(problem);
    problem->prior[2] = log(profile->channel_GBps[c][a][p]);
    problem->prior[3] = log(profile->reach_ratio[problem->link][c][a][p]);
    problem->pull[0] = 0.002;
    problem->pull[1] = channel_pull / (problem->scale_us * problem->scale_us);
    problem->pull[2] = problem->pull[3] = 0.01;
    memcpy(best, problem->prior, sizeof(best));
    for (int try = 0; try < 3; try++) {
        const double width[DIMS] = {0.5, 0.02 * problem->scale_us, 0.5, 0.5};
        double x[DIMS], f;

        memcpy(x, problem->prior, sizeof(x));
        x[1] = fmin(fmax(x[1], 0), 0.5 * problem->scale_us);
        x[2] += 1.5 * (try - 1);
        f = simplex_minimise(loss, problem, width, x);
        if (f < least) {
            least = f;
            memcpy(best, x, sizeof(best));
        }
    }
    set_numbers(problem, best);
}

/* ---- All of them ---- */

static void each_combo(struct problem *problem, void (*visit)(struct problem *problem, void *arg),
                       void *arg)
{
    for (problem->coll = 0; problem->coll < BRAID_COLLS; problem->coll++) {
        for (problem->algo = 0; problem->algo < BRAID_ALGOS; problem->algo++) {
            for (problem->proto = 0; problem->proto < BRAID_PROTOS; problem->proto++)
                visit(problem, arg);
        }
    }
}

/* The cost of a channel a hop: what the combinations say. */
struct channel_costs {
    double us[BRAID_COLLS * BRAID_ALGOS * BRAID_PROTOS];
    int count;
    double middle_us;
};

static void fit_freely(struct problem *problem, void *arg)
{
    (void)arg;
    fit_combo(problem, 0, 0.05);
}

static void note_cost(struct problem *problem, void *arg)
{
    struct channel_costs *costs = arg;
    int counts = 0;

    take_points(problem);
    for (int i = 0; i < problem->mine_count; i++)
        counts += problem->mine[i]->channels != problem->mine[0]->channels;
    if (counts)
        costs->us[costs->count++] =
            problem->profile->channel_us[problem->coll][problem->algo][problem->proto] /
            hops_of(problem);
}

/* How much combinations may differ in it: a fifth of the latency weighs as much as a tenth in a measured time, which is noise. */
static void fit_drawn(struct problem *problem, void *arg)
{
    fit_combo(problem, ((struct channel_costs *)arg)->middle_us, 0.3);
}

static void correct_combo(struct problem *problem, void *arg)
{
    (void)arg;
    take_points(problem);
    if (problem->mine_count)
        correct(problem);
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* `start` is what the profile was; a second fit begins there too. */
static void fit_all(struct problem *problem, const struct braid_profile *start)
{
    double sharpness = problem->profile->sharpness;
    struct channel_costs costs = {.count = 0};

    each_combo(problem, fit_freely, NULL);
    each_combo(problem, note_cost, &costs);
    if (costs.count) {
        qsort(costs.us, (size_t)costs.count, sizeof(costs.us[0]), compare_double);
        costs.middle_us = costs.us[costs.count / 2];
        *problem->profile = *start;
        problem->profile->sharpness = sharpness;
        each_combo(problem, fit_drawn, &costs);
    }
    each_combo(problem, correct_combo, NULL);
    braid_profile_fill(problem->profile);
}

static void score(const struct problem *problem, struct fit_result *result)
{
    double used = 0, held = 0, means = 0, noise = 0;
    int points = 0;

    for (int i = 0; i < problem->count; i++) {
        const struct point *point = &problem->points[i];
        double r = residual(problem, point);
        double within = point->square - point->sum * point->sum / point->n;
        double rows = point->n * r * r + within;

        noise += point->n > 1 ? within : 0;
        result->pairs += point->n - 1;
        if (point->use) {
            used += rows;
            means += r * r;
            result->used += point->n;
            points++;
        } else {
            held += rows;
            result->held_out += point->n;
        }
    }
    result->noise = result->pairs ? sqrt(noise / result->pairs) : NAN;
    result->fit_error = result->used ? sqrt(used / result->used) : NAN;
    result->held_out_error = result->held_out ? sqrt(held / result->held_out) : NAN;
    result->point_error = points ? sqrt(means / points) : NAN;
    result->repeats = points ? (double)result->used / points : NAN;
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

/* How abruptly bottlenecks take over is the machine's too: the sharpness with the least error on the rows used. */
static int fit_sharpness(struct problem *problem, struct fit_result *result)
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
        fit_all(problem, start);
        score(problem, &here);
        if (here.fit_error < result->fit_error) {
            *result = here;
            *best = *problem->profile;
        }
    }
    *problem->profile = *best;
    free(start);
    return 0;
}

/*
 * A gain is believed when it is larger than what a prediction is off by: its distance from the means of what was measured, and no
 * less than what noise leaves of such a mean.
 */
static double guard_of(const struct fit_result *result, double noise_ratio)
{
    double left = noise_ratio / sqrt(fmax(result->repeats, 1));

    return fmax(result->point_error, left);
}

int fit_profile(const struct sweep *sweep, const struct fit_options *options,
                struct braid_profile *profile, struct fit_result *result)
{
    struct problem problem = {.sweep = sweep, .profile = profile};
    int rc = -ENOMEM;

    memset(result, 0, sizeof(*result));
    problem.points = calloc(sweep->count, sizeof(*problem.points));
    problem.mine = calloc(sweep->count, sizeof(const struct point *));
    if (!problem.points || !problem.mine)
        goto out;
    set_machine(sweep, profile);
    problem.shape = braid_shape_make((size_t)sweep->ranks, (size_t)sweep->nodes);
    problem.link = sweep->nodes > 1 ? BRAID_NET : (enum braid_link)(int)profile->intra_link;
    pool_rows(&problem);
    if (options->parity >= 0)
        hold_out(&problem, options->parity);
    rc = fit_sharpness(&problem, result);
    if (rc)
        goto out;
    if (!isnan(result->noise))
        profile->noise_ratio = fmin(result->noise, RATIO_MAX);
    profile->guard_ratio = fmin(options->guard * guard_of(result, profile->noise_ratio), RATIO_MAX);
out:
    free(problem.points);
    free(problem.mine);
    return rc;
}

/* ---- Writing ---- */

struct base_row {
    char key[160];
    double value;
};

struct writer {
    struct base_row *base; /* what the starting point says */
    size_t count;
    const struct sweep *sweep;
    FILE *out;
    bool whole; /* also what the starting point says */
};

/* Corrections between measured sizes are interpolated by whoever reads the file. */
static bool wanted(const struct writer *writer, const char *key)
{
    uint64_t bytes;

    if (strncmp(key, "correct_", 8))
        return true;
    bytes = strtoull(strrchr(key, ' ') + 1, NULL, 10);
    for (size_t i = 0; i < writer->sweep->count; i++) {
        if (braid_log2_floor(writer->sweep->rows[i].bytes) == braid_log2_floor(bytes))
            return true;
    }
    return false;
}

static void keep(void *arg, const char *key, double value)
{
    struct writer *writer = arg;

    if (writer->count == BRAID_ROWS_MAX || !wanted(writer, key))
        return;
    snprintf(writer->base[writer->count].key, sizeof(writer->base[0].key), "%s", key);
    writer->base[writer->count++].value = value;
}

static bool is_base(const struct writer *writer, const char *key, double value)
{
    for (size_t i = 0; i < writer->count; i++) {
        if (!strcmp(writer->base[i].key, key))
            return fabs(writer->base[i].value - value) < 1e-12;
    }
    return false;
}

static void write_row(void *arg, const char *key, double value)
{
    struct writer *writer = arg;
    bool same;

    if (!wanted(writer, key))
        return;
    same = is_base(writer, key, value);
    /* Starts say what was measured, so they are there even when they did not change. */
    if (!writer->whole && same && strncmp(key, "base_us ", 8))
        return;
    if (!strncmp(key, "correct_", 8) && same && writer->whole)
        return;
    fprintf(writer->out, "%s %.6g @%s\n", key, value, same && writer->whole ? "base" : "fit");
}

/* A quotation mark inside would end the text. */
static void write_text(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc(*text == '"' || (unsigned char)*text < ' ' ? '\'' : *text, out);
}

static void write_head(const struct writer *writer, const char *name, const char *from,
                       const struct fit_result *result)
{
    const struct sweep *sweep = writer->sweep;
    FILE *out = writer->out;

    fprintf(out, "# Made by `braid-tune fit` from ");
    write_text(out, from);
    fprintf(out, ". Of ");
    write_text(out, sweep->machine);
    fprintf(out, ".\n# rms of ln(predicted / measured): %.3f over %d rows", result->fit_error,
            result->used);
    if (result->held_out)
        fprintf(out, ", %.3f over %d rows of sizes held out", result->held_out_error,
                result->held_out);
    if (result->pairs)
        fprintf(out, "; between equal configurations %.3f (%d pairs)", result->noise,
                result->pairs);
    fprintf(out, ".\nbraid-profile 1\nname %s\n", name);
}

static void write_source(const struct writer *writer, const char *from)
{
    FILE *out = writer->out;

    fprintf(out, "source fit \"");
    write_text(out, from);
    fprintf(out, ", NCCL ");
    write_text(out, writer->sweep->nccl);
    fprintf(out, ", ");
    write_text(out, writer->sweep->date);
    fprintf(out, "; least squares by braid-tune fit\"\n");
    if (writer->sweep->gpu[0]) {
        fprintf(out, "match_gpu \"");
        write_text(out, writer->sweep->gpu);
        fprintf(out, "\"\n");
    }
    if (writer->sweep->net[0]) {
        fprintf(out, "match_net \"");
        write_text(out, writer->sweep->net);
        fprintf(out, "\"\n");
    }
}

int fit_write(FILE *out, const char *name, const char *include, const struct sweep *sweep,
              const struct braid_profile *base, const struct braid_profile *profile,
              const struct fit_result *result, const char *sweep_path)
{
    struct writer writer = {calloc(BRAID_ROWS_MAX, sizeof(struct base_row)), 0, sweep, out,
                            include == NULL};
    const char *slash = strrchr(sweep_path, '/'), *from = slash ? slash + 1 : sweep_path;

    if (!writer.base)
        return -ENOMEM;
    braid_profile_each(base, keep, &writer);
    write_head(&writer, name, from, result);
    if (include)
        fprintf(out, "include %s\n", include);
    else
        fprintf(out, "source base \"profile %s (%016llx), from where the fit began\"\n", base->name,
                (unsigned long long)base->hash);
    write_source(&writer, from);
    /* Nothing that was not measured here. */
    if (include)
        fprintf(out, "uncover * * *\n");
    braid_profile_each(profile, write_row, &writer);
    free(writer.base);
    return ferror(out) ? -EIO : 0;
}

bool fit_name_good(const char *name)
{
    return name[0] && strlen(name) < sizeof(((struct braid_profile *)NULL)->name) &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               strlen(name);
}
