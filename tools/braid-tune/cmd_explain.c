/*
 * braid-tune explain: the decisions of the plugin, by the plugin's own code, for any machine and communicator, with the prediction,
 * NCCL's choice and the lower bound beside them. NCCL's table is made by its restated model, since no NCCL runs here.
 * Called by: main.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/param.h"
#include "common/util.h"
#include "tools/braid-tune/tune.h"
#include "tuner-plugin/machine.h"
#include "tuner-plugin/tuner_setup.h"

static const char usage[] =
    "braid-tune explain [--profile NAME|FILE] [--machine live|FILE|LINE] [--ranks N,..] [--nodes "
    "N] "
    "[--coll NAME,..]\n"
    "                   [--bytes LIST|FROM:TO[:xN]]\n"
    "                   [--budget CHANNELS] [--overlap] [--all] [--format table|json|csv]\n"
    "Says what the tuner would choose and why. --all lists every combination with its "
    "prediction.\n"
    "--machine takes link rates, ranks and nodes from a topology, as braid-info topo does; without "
    "--profile\n"
    "the profile is the one that a job there would get. BRAID_TUNER_PROFILE, BRAID_SM_BUDGET, "
    "BRAID_OVERLAP,\n"
    "NCCL_ALGO and NCCL_PROTO count as in a job; options go before them.\n";

enum format { TABLE, JSON, CSV };

struct explain {
    struct braid_profile *profile;
    const char *name; /* --profile, else BRAID_TUNER_PROFILE; NULL: the plugin's choice */
    bool name_from_environment;
    struct tune_machine *machine; /* NULL without --machine */
    struct braid_profile_set set; /* what fits the machine */
    struct braid_tuner_settings settings;
    int colls[BRAID_COLLS], coll_count;
    enum format format;
    bool all;
    int printed;
};

struct line {
    struct braid_shape shape;
    enum braid_coll coll;
    uint64_t bytes;
    struct braid_tuner_decision decision;
    double bound_us;
    struct braid_prediction part; /* of the chosen one */
    int nccl_channels;
};

static double bus_GBps(const struct line *line, double us)
{
    double n = line->shape.ranks, factor = 1;

    if (line->coll == BRAID_ALL_REDUCE)
        factor = 2 * (n - 1) / n;
    else if (line->coll == BRAID_ALL_GATHER || line->coll == BRAID_REDUCE_SCATTER)
        factor = (n - 1) / n;
    return (double)line->bytes * factor / us / 1e3;
}

static const char *bytes_text(uint64_t bytes, char *buf, size_t buf_bytes)
{
    static const char unit[] = " KMGT";
    int u = 0;

    while (bytes >= 1024 && bytes % 1024 == 0 && u < 4) {
        bytes /= 1024;
        u++;
    }
    snprintf(buf, buf_bytes, u ? "%llu%c" : "%llu", (unsigned long long)bytes, unit[u]);
    return buf;
}

static const char *choice_text(enum braid_algo algo, enum braid_proto proto, int channels,
                               char *buf, size_t buf_bytes)
{
    if (channels)
        snprintf(buf, buf_bytes, "%s/%s/%d", braid_algo_names[algo], braid_proto_names[proto],
                 channels);
    else
        snprintf(buf, buf_bytes, "%s/%s", braid_algo_names[algo], braid_proto_names[proto]);
    return buf;
}

static void print_table(const struct explain *explain, const struct line *line)
{
    const struct braid_tuner_decision *d = &line->decision;
    char size[24], nccl[48], chosen[48];

    if (!explain->printed)
        printf("%-14s %6s %5s %7s  %-20s %9s  %-20s %9s %6s %8s %9s  %s\n", "collective", "ranks",
               "nodes", "bytes", "NCCL's choice", "us", "chosen", "us", "gain", "busGB/s",
               "bound us", "why");
    printf("%-14s %6d %5d %7s  %-20s %9.1f  %-20s %9.1f %6.2f %8.1f %9.1f  %s; waits for %s\n",
           braid_coll_names[line->coll], line->shape.ranks, line->shape.nodes,
           bytes_text(line->bytes, size, sizeof(size)),
           choice_text(d->nccl_algo, d->nccl_proto, line->nccl_channels, nccl, sizeof(nccl)),
           (double)d->nccl_us, choice_text(d->algo, d->proto, d->channels, chosen, sizeof(chosen)),
           (double)d->us, (double)(d->nccl_us / d->us), bus_GBps(line, d->us), line->bound_us,
           braid_tuner_reasons[d->reason],
           line->part.latency_us > line->part.transfer_us + line->part.fill_us
               ? "latency"
               : braid_resource_names[line->part.limit]);
}

static void print_json(const struct explain *explain, const struct line *line)
{
    const struct braid_tuner_decision *d = &line->decision;

    printf(
        "%s\n {\"collective\": \"%s\", \"ranks\": %d, \"nodes\": %d, \"bytes\": %llu, "
        "\"nccl\": {\"algorithm\": \"%s\", \"protocol\": \"%s\", \"channels\": %d, \"us\": %.3f}, "
        "\"chosen\": {\"algorithm\": \"%s\", \"protocol\": \"%s\", \"channels\": %d, \"us\": "
        "%.3f}, "
        "\"latency_us\": %.3f, \"transfer_us\": %.3f, \"fill_us\": %.3f, \"limit\": \"%s\", "
        "\"bus_GBps\": %.3f, \"bound_us\": %.3f, \"why\": \"%s\"}",
        explain->printed ? "," : "[", braid_coll_names[line->coll], line->shape.ranks,
        line->shape.nodes, (unsigned long long)line->bytes, braid_algo_names[d->nccl_algo],
        braid_proto_names[d->nccl_proto], line->nccl_channels, (double)d->nccl_us,
        braid_algo_names[d->algo], braid_proto_names[d->proto], d->channels, (double)d->us,
        line->part.latency_us, line->part.transfer_us, line->part.fill_us,
        braid_resource_names[line->part.limit], bus_GBps(line, d->us), line->bound_us,
        braid_tuner_reasons[d->reason]);
}

static void print_csv(const struct explain *explain, const struct line *line)
{
    const struct braid_tuner_decision *d = &line->decision;

    if (!explain->printed)
        printf("coll,ranks,nodes,bytes,nccl_algo,nccl_proto,nccl_channels,nccl_us,algo,proto,"
               "channels,us,bus_GBps,bound_us,why\n");
    printf("%s,%d,%d,%llu,%s,%s,%d,%.3f,%s,%s,%d,%.3f,%.3f,%.3f,%s\n", braid_coll_names[line->coll],
           line->shape.ranks, line->shape.nodes, (unsigned long long)line->bytes,
           braid_algo_names[d->nccl_algo], braid_proto_names[d->nccl_proto], line->nccl_channels,
           (double)d->nccl_us, braid_algo_names[d->algo], braid_proto_names[d->proto], d->channels,
           (double)d->us, bus_GBps(line, d->us), line->bound_us, braid_tuner_reasons[d->reason]);
}

static void print_all(const struct explain *explain, const struct line *line)
{
    for (int a = 0; a < BRAID_ALGOS; a++) {
        for (int p = 0; p < BRAID_PROTOS; p++) {
            enum braid_algo algo = (enum braid_algo)a;
            enum braid_proto proto = (enum braid_proto)p;
            double nccl = braid_nccl_predict(explain->profile, &line->shape, line->coll,
                                             (double)line->bytes, algo, proto);
            struct braid_prediction mine =
                braid_cost_predict(explain->profile, &line->shape, line->coll, (double)line->bytes,
                                   algo, proto, explain->settings.sm_budget, 0);

            if (braid_kind_valid(line->coll, algo, proto) && mine.us == mine.us)
                printf("    %-14s %-7s %4d channels %10.1f us = latency %.1f + transfer %.1f + "
                       "fill %.1f"
                       " (%s); NCCL's model %.1f\n",
                       braid_algo_names[a], braid_proto_names[p],
                       braid_nccl_channels(explain->profile, &line->shape, (double)line->bytes,
                                           algo, proto),
                       mine.us, mine.latency_us, mine.transfer_us, mine.fill_us,
                       braid_resource_names[mine.limit], nccl);
        }
    }
}

static void explain_one(struct explain *explain, const struct braid_tuner *tuner, struct line *line)
{
    float table[BRAID_ALGOS * BRAID_PROTOS];
    struct braid_tuner_call call = {line->coll, line->bytes, 1,           false,
                                    table,      BRAID_ALGOS, BRAID_PROTOS};
    struct braid_tuner_decision *d = &line->decision;

    if (!tune_nccl_table(explain->profile, &line->shape, line->coll, line->bytes, table))
        return;
    braid_tuner_decide(tuner, &call, d);
    line->nccl_channels = braid_nccl_channels(explain->profile, &line->shape, (double)line->bytes,
                                              d->nccl_algo, d->nccl_proto);
    line->part = braid_cost_predict(explain->profile, &line->shape, line->coll, (double)line->bytes,
                                    d->algo, d->proto, d->channels, 0);
    line->bound_us =
        braid_cost_bound_us(explain->profile, &line->shape, line->coll, (double)line->bytes);
    if (explain->format == TABLE)
        print_table(explain, line);
    else if (explain->format == JSON)
        print_json(explain, line);
    else
        print_csv(explain, line);
    explain->printed++;
    if (explain->all && explain->format == TABLE)
        print_all(explain, line);
}

/* The profiles that the plugin would find on the machine, from the folders that it searches. Returns 0 or -1 after saying why. */
static int load_set(struct explain *explain)
{
    struct braid_profile_error error;
    char dirs[2048];

    braid_profile_dirs(dirs, sizeof(dirs));
    if (braid_profile_set_load(dirs, &explain->machine->key, &explain->set, &error)) {
        fprintf(stderr, "braid-tune: out of memory\n");
        return -1;
    }
    if (error.line >= 0)
        fprintf(stderr, "braid-tune: profile %s:%d: %s; passed over\n", error.file, error.line,
                error.text);
    return 0;
}

/* The profile that was named. Returns 0 or -1 after saying why. */
static int named_profile(struct explain *explain)
{
    const char *gpu = explain->machine ? explain->machine->key.gpu : "";

    if (explain->name_from_environment && !strcmp(explain->name, "none")) {
        fprintf(stderr, "braid-tune: BRAID_TUNER_PROFILE=none: NCCL decides by itself\n");
        return -1;
    }
    if (tune_profile(explain->name, explain->profile))
        return -1;
    if (explain->name_from_environment && gpu[0] &&
        !braid_profile_fits(explain->profile->match_gpu, gpu)) {
        fprintf(stderr,
                "braid-tune: BRAID_TUNER_PROFILE=%s is for GPU '%s', the machine has '%s': NCCL "
                "decides by itself\n",
                explain->name, explain->profile->match_gpu, gpu);
        return -1;
    }
    return 0;
}

/* The profile of a shape into explain->profile. Returns 0 or -1 after saying why. */
static int choose_profile(struct explain *explain, const struct braid_shape *shape)
{
    const struct braid_profile *found;
    const char *file;

    if (!explain->machine)
        return explain->name ? named_profile(explain) : tune_profile("generic", explain->profile);
    if (explain->name) {
        if (named_profile(explain))
            return -1;
    } else {
        found = braid_profile_set_pick(&explain->set, shape->ranks, shape->nodes);
        if (!found) {
            fprintf(stderr,
                    "braid-tune: no profile for %d ranks on %d nodes of GPU '%s', network '%s': "
                    "NCCL decides by itself\n",
                    shape->ranks, shape->nodes, explain->machine->key.gpu,
                    explain->machine->key.net);
            return -1;
        }
        *explain->profile = *found;
    }
    file = strrchr(explain->profile->path, '/');
    file = file ? file + 1 : explain->profile->path;
    fprintf(stderr, "machine %s, %d ranks, %d node%s, profile %.*s\n",
            explain->machine->summary.key, shape->ranks, shape->nodes, shape->nodes == 1 ? "" : "s",
            (int)strcspn(file, "."), file);
    tune_machine_apply(explain->machine, explain->profile);
    return 0;
}

static int explain_shape(struct explain *explain, int ranks, int nodes, const uint64_t *sizes,
                         int count)
{
    struct braid_shape shape = braid_shape_make((size_t)ranks, (size_t)nodes);
    struct braid_tuner *tuner;

    if (choose_profile(explain, &shape))
        return 2;
    if (braid_tuner_create(explain->profile, &shape, &explain->settings, &tuner))
        return 1;
    for (int i = 0; i < explain->coll_count * count; i++) {
        struct line line = {.shape = shape,
                            .coll = (enum braid_coll)explain->colls[i / count],
                            .bytes = sizes[i % count]};

        explain_one(explain, tuner, &line);
    }
    braid_tuner_destroy(tuner);
    return 0;
}

/*
 * Ranks and nodes that were not given: those of the machine, or what the other one means on nodes like its own. `nodes` is 0 when not
 * given. Returns the number of nodes.
 */
static int fill_shape(const struct tune_machine *machine, int nodes, int *ranks_p)
{
    if (!machine) {
        *ranks_p = *ranks_p ? *ranks_p : 8;
        return nodes ? nodes : 1;
    }
    if (!*ranks_p)
        *ranks_p = nodes ? nodes * machine->node_ranks
                         : machine->summary.nodes * machine->summary.gpus_per_node;
    return nodes ? nodes : (*ranks_p + machine->node_ranks - 1) / machine->node_ranks;
}

static int find_format(const char *text, enum format *format_p)
{
    static const char *const names[] = {"table", "json", "csv"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!strcmp(text, names[i])) {
            *format_p = (enum format)i;
            return 0;
        }
    }
    fprintf(stderr, "braid-tune: --format: expected table, json or csv, found '%s'\n", text);
    return -1;
}

static int explain_all(struct explain *explain, int *ranks, int rank_count, int nodes,
                       const uint64_t *sizes, int count)
{
    int rc = 0;

    for (int i = 0; i < rank_count && !rc; i++) {
        int shape_nodes = fill_shape(explain->machine, nodes, &ranks[i]);

        rc = explain_shape(explain, ranks[i], shape_nodes, sizes, count);
    }
    if (explain->format == JSON)
        printf(explain->printed ? "\n]\n" : "[]\n");
    return rc;
}

/* Options, else what the environment of a job would say. Returns 0 or -1 after saying what is wrong. */
static int read_options(int argc, char **argv, struct explain *explain, const char **where_p,
                        int *nodes_p, const char **ranks_p, const char **sizes_p)
{
    const char *colls = "all_reduce,all_gather,reduce_scatter", *format = "table";
    const struct tune_option options[] = {
        TUNE_TEXT("--profile", &explain->name),
        TUNE_TEXT("--machine", where_p),
        TUNE_TEXT("--ranks", ranks_p),
        TUNE_INT("--nodes", nodes_p, 1, 1 << 30),
        TUNE_TEXT("--coll", &colls),
        TUNE_TEXT("--bytes", sizes_p),
        TUNE_INT("--budget", &explain->settings.sm_budget, 0, BRAID_CHANNELS),
        TUNE_TEXT("--format", &format),
        TUNE_FLAG("--overlap", &explain->settings.overlap),
        TUNE_FLAG("--all", &explain->all)};

    braid_tuner_settings_read(&explain->settings);
    explain->settings.channel_ceiling = BRAID_CHANNELS;
    if (tune_options(argc, argv, options, ARRAY_SIZE(options), NULL, 0) < 0 ||
        find_format(format, &explain->format))
        return -1;
    if (!explain->name && braid_param_str(BRAID_P_TUNER_PROFILE)[0]) {
        explain->name = braid_param_str(BRAID_P_TUNER_PROFILE);
        explain->name_from_environment = true;
    }
    explain->coll_count = tune_colls(colls, explain->colls);
    return explain->coll_count < 1 ? -1 : 0;
}

int cmd_explain(int argc, char **argv)
{
    const char *ranks_text = NULL, *sizes_text = "1K:1G", *where = NULL;
    struct explain explain = {.format = TABLE};
    struct tune_machine machine;
    uint64_t sizes[64];
    int ranks[64] = {0}, rank_count = 1, nodes = 0, count, rc = 2;

    if (read_options(argc, argv, &explain, &where, &nodes, &ranks_text, &sizes_text))
        return tune_usage(usage);
    count = tune_sizes(sizes_text, sizes, ARRAY_SIZE(sizes));
    if (ranks_text)
        rank_count = tune_numbers(ranks_text, ranks, ARRAY_SIZE(ranks));
    if (count < 1 || rank_count < 1) {
        fprintf(stderr, "braid-tune: --bytes or --ranks is not understood\n%s", usage);
        return 2;
    }
    explain.profile = malloc(sizeof(*explain.profile));
    explain.machine = where ? &machine : NULL;
    if (explain.profile && (!where || !tune_machine_load(where, &machine)) &&
        (!where || explain.name || !load_set(&explain)))
        rc = explain_all(&explain, ranks, rank_count, nodes, sizes, count);
    braid_profile_set_free(&explain.set);
    free(explain.profile);
    return rc;
}
