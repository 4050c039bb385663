/*
 * What a sweep found, as a table: see calibrate.h. A difference counts only when the intervals over communicators are apart.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tools/braid-tune/calibrate.h"
#include "tuner-plugin/tuner.h"

#define CONFIGS_MAX 512
#define COMMS_MAX   64

/* One configuration at one size, over communicators. */
struct config {
    int algo, proto, channels, count;
    double sum_log, sum_square;
    double comm_log[COMMS_MAX]; /* sum on each communicator */
    int comm_count[COMMS_MAX];
};

struct summary {
    struct config config[CONFIGS_MAX];
    int count;
    int nccl; /* index of NCCL's choice, -1 */
};

static double centre(const struct config *config)
{
    return exp(config->sum_log / config->count);
}

/* Half of a 95 % interval of a mean, by Student's t for few repeats; infinite for one. */
static double half_width(double sum, double square, int n)
{
    static const double t[] = {0, 12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26};

    if (n < 2)
        return INFINITY;
    return (n - 1 < (int)ARRAY_SIZE(t) ? t[n - 1] : 2) *
           sqrt(fmax(square - sum * sum / n, 0) / (n - 1) / n);
}

static double spread(const struct config *config)
{
    return half_width(config->sum_log, config->sum_square, config->count);
}

/*
 * Whether `best` is faster than `nccl` beyond doubt. Compared on each communicator by itself, so that what one communicator does to
 * all its candidates cancels.
 */
static bool really_faster(const struct config *nccl, const struct config *best)
{
    double sum = 0, square = 0;
    int n = 0;

    for (int i = 0; i < COMMS_MAX; i++) {
        double ratio;

        if (!nccl->comm_count[i] || !best->comm_count[i])
            continue;
        ratio = nccl->comm_log[i] / nccl->comm_count[i] - best->comm_log[i] / best->comm_count[i];
        sum += ratio;
        square += ratio * ratio;
        n++;
    }
    return n > 1 && sum / n > half_width(sum, square, n);
}

static void add(struct summary *summary, const struct sweep_row *row)
{
    struct config *config = summary->config;
    int i = 0;

    while (i < summary->count && (config[i].algo != row->algo || config[i].proto != row->proto ||
                                  config[i].channels != row->channels))
        i++;
    if (i == CONFIGS_MAX)
        return;
    if (i == summary->count) {
        memset(&config[i], 0, sizeof(config[i]));
        config[i].algo = row->algo;
        config[i].proto = row->proto;
        config[i].channels = row->channels;
        summary->count++;
    }
    config[i].count++;
    config[i].sum_log += log(row->us);
    config[i].sum_square += log(row->us) * log(row->us);
    if (row->comm < COMMS_MAX) {
        config[i].comm_log[row->comm] += log(row->us);
        config[i].comm_count[row->comm]++;
    }
    if (row->what == SWEEP_ROW_NCCL)
        summary->nccl = i;
}

static void summarise(const struct sweep *sweep, int coll, uint64_t bytes, struct summary *summary)
{
    memset(summary, 0, sizeof(*summary));
    summary->nccl = -1;
    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_row *row = &sweep->rows[i];

        if (row->coll == coll && row->bytes == bytes && row->algo >= 0)
            add(summary, row);
    }
}

static const char *name(int algo, int proto, int channels, char *buf, size_t bytes)
{
    if (channels)
        snprintf(buf, bytes, "%s/%s/%d", braid_algo_names[algo], braid_proto_names[proto],
                 channels);
    else
        snprintf(buf, bytes, "%s/%s/own", braid_algo_names[algo], braid_proto_names[proto]);
    return buf;
}

/* What the tuner decides with the fitted profile when NCCL prefers `nccl` and all measured combinations are usable. */
static void decide(const struct braid_profile *profile, const struct sweep *sweep, int coll,
                   uint64_t bytes, const struct summary *summary, int budget,
                   struct braid_tuner_decision *decision)
{
    struct braid_shape shape = braid_shape_make((size_t)sweep->ranks, (size_t)sweep->nodes);
    struct braid_tuner_settings settings = {.channel_ceiling = 64, .sm_budget = budget};
    float table[BRAID_ALGOS * BRAID_PROTOS];
    struct braid_tuner_call call = {(enum braid_coll)coll, bytes,       1, false, table,
                                    BRAID_ALGOS,           BRAID_PROTOS};
    struct braid_tuner *tuner;

    memset(decision, 0, sizeof(*decision));
    for (int i = 0; i < BRAID_ALGOS * BRAID_PROTOS; i++)
        table[i] = -1;
    for (int i = 0; i < summary->count; i++) {
        const struct config *config = &summary->config[i];

        table[config->algo * BRAID_PROTOS + config->proto] = i == summary->nccl ? 1 : 2;
    }
    table[summary->config[summary->nccl].algo * BRAID_PROTOS +
          summary->config[summary->nccl].proto] = 1;
    if (!braid_tuner_create(profile, &shape, &settings, &tuner))
        braid_tuner_decide(tuner, &call, decision);
    braid_tuner_destroy(tuner);
}

/* "254.7 +- 2.6%", or without the interval where one measurement has none. */
static const char *time_text(const struct config *config, char *text, size_t bytes)
{
    if (config->count > 1)
        snprintf(text, bytes, "%9.1f +-%4.1f%%", centre(config), 100 * spread(config));
    else
        snprintf(text, bytes, "%9.1f        ", centre(config));
    return text;
}

static void report_cell(const struct sweep *sweep, const struct braid_profile *profile, int coll,
                        uint64_t bytes, FILE *out)
{
    static struct summary summary;
    struct braid_tuner_decision d;
    const struct config *nccl, *best = NULL;
    char a[48], b[48], c[48], their_us[32], best_us[32];
    double gain;

    summarise(sweep, coll, bytes, &summary);
    if (summary.nccl < 0)
        return;
    nccl = &summary.config[summary.nccl];
    for (int i = 0; i < summary.count; i++) {
        if (!best || centre(&summary.config[i]) < centre(best))
            best = &summary.config[i];
    }
    decide(profile, sweep, coll, bytes, &summary, 0, &d);
    gain = centre(nccl) / centre(best);
    fprintf(out, "%-14s %11llu  %-20s %s  %-20s %s  %5.2f %-11s %-20s\n", braid_coll_names[coll],
            (unsigned long long)bytes, name(nccl->algo, nccl->proto, nccl->channels, a, sizeof(a)),
            time_text(nccl, their_us, sizeof(their_us)),
            name(best->algo, best->proto, best->channels, b, sizeof(b)),
            time_text(best, best_us, sizeof(best_us)), gain,
            best == nccl                ? "same"
            : really_faster(nccl, best) ? "real"
                                        : "within noise",
            name((int)d.algo, (int)d.proto, d.channels, c, sizeof(c)));
}

static bool first_of_cell(const struct sweep *sweep, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (sweep->rows[j].coll == sweep->rows[i].coll &&
            sweep->rows[j].bytes == sweep->rows[i].bytes)
            return false;
    }
    return true;
}

void calibrate_report(const struct sweep *sweep, const struct braid_profile *profile, FILE *out)
{
    fprintf(out, "%-14s %11s  %-20s %9s %7s  %-20s %9s %7s  %5s %-11s %-20s\n", "collective",
            "bytes", "NCCL's choice", "us", "", "best measured", "us", "", "gain", "",
            "the tuner takes");
    for (size_t i = 0; i < sweep->count; i++) {
        if (first_of_cell(sweep, i))
            report_cell(sweep, profile, sweep->rows[i].coll, sweep->rows[i].bytes, out);
    }
}

void calibrate_judge(const struct sweep *sweep, const struct braid_profile *profile, int budget,
                     FILE *out)
{
    static struct summary summary;

    fprintf(out, "coll,bytes,nccl_algo,nccl_proto,nccl_channels,algo,proto,channels,us,nccl_us\n");
    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_row *row = &sweep->rows[i];
        struct braid_tuner_decision d;
        const struct config *nccl;

        if (!first_of_cell(sweep, i))
            continue;
        summarise(sweep, row->coll, row->bytes, &summary);
        if (summary.nccl < 0)
            continue;
        nccl = &summary.config[summary.nccl];
        decide(profile, sweep, row->coll, row->bytes, &summary, budget, &d);
        fprintf(out, "%s,%llu,%s,%s,%d,%s,%s,%d,%.3f,%.3f\n", braid_coll_names[row->coll],
                (unsigned long long)row->bytes, braid_algo_names[nccl->algo],
                braid_proto_names[nccl->proto], nccl->channels, braid_algo_names[d.algo],
                braid_proto_names[d.proto], d.channels, (double)d.us, (double)d.nccl_us);
    }
}
