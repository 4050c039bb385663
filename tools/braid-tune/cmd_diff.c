/*
 * braid-tune diff: the numbers that two profiles set differently, then the calls that they decide differently. Called by: main.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tools/braid-tune/tune.h"
#include "tuner-plugin/tuner.h"

static const char usage[] =
    "braid-tune diff PROFILE PROFILE [--ranks N] [--nodes N] [--budget CHANNELS]\n"
    "Numbers that differ, then decisions that differ at that shape. Exit status 0: same decisions, "
    "1: not.\n";

struct rows {
    struct {
        char key[160];
        double value;
        bool seen;
    } row[BRAID_ROWS_MAX];
    int count, differ;
};

/* Corrections hold beyond the sizes that were measured; listing them there says nothing new. */
static bool filled_in(const char *key)
{
    uint64_t bytes = strtoull(strrchr(key, ' ') ? strrchr(key, ' ') + 1 : "0", NULL, 10);

    return !strncmp(key, "correct_", 8) && (bytes < 1024 || bytes > 1u << 30);
}

static void keep(void *arg, const char *key, double value)
{
    struct rows *rows = arg;

    if (rows->count == BRAID_ROWS_MAX || filled_in(key))
        return;
    snprintf(rows->row[rows->count].key, sizeof(rows->row[0].key), "%s", key);
    rows->row[rows->count++].value = value;
}

static void compare(void *arg, const char *key, double value)
{
    struct rows *rows = arg;

    if (filled_in(key))
        return;
    for (int i = 0; i < rows->count; i++) {
        if (strcmp(rows->row[i].key, key))
            continue;
        rows->row[i].seen = true;
        if (rows->row[i].value != value) {
            printf("  %-48s %12.6g %12.6g\n", key, rows->row[i].value, value);
            rows->differ++;
        }
        return;
    }
    printf("  %-48s %12s %12.6g\n", key, "-", value);
    rows->differ++;
}

static void decide(const struct braid_profile *profile, const struct braid_tuner *tuner,
                   const struct braid_shape *shape, enum braid_coll coll, uint64_t bytes,
                   struct braid_tuner_decision *decision)
{
    float table[BRAID_ALGOS * BRAID_PROTOS];
    struct braid_tuner_call call = {coll, bytes, 1, false, table, BRAID_ALGOS, BRAID_PROTOS};

    tune_nccl_table(profile, shape, coll, bytes, table);
    braid_tuner_decide(tuner, &call, decision);
}

static int compare_decisions(const struct braid_profile *two, const struct braid_shape *shape,
                             const struct braid_tuner_settings *settings)
{
    struct braid_tuner *tuner[2] = {NULL, NULL};
    int differ = -1;

    if (braid_tuner_create(&two[0], shape, settings, &tuner[0]) ||
        braid_tuner_create(&two[1], shape, settings, &tuner[1]))
        goto out;
    differ = 0;
    for (int coll = 0; coll < BRAID_COLLS; coll++) {
        for (uint64_t bytes = 1024; bytes <= 1ull << 33; bytes *= 2) {
            struct braid_tuner_decision d[2];

            decide(&two[0], tuner[0], shape, (enum braid_coll)coll, bytes, &d[0]);
            decide(&two[1], tuner[1], shape, (enum braid_coll)coll, bytes, &d[1]);
            if (d[0].algo == d[1].algo && d[0].proto == d[1].proto &&
                d[0].channels == d[1].channels)
                continue;
            printf("  %-14s %11llu  %s/%s/%d %.1f us   %s/%s/%d %.1f us\n", braid_coll_names[coll],
                   (unsigned long long)bytes, braid_algo_names[d[0].algo],
                   braid_proto_names[d[0].proto], d[0].channels, (double)d[0].us,
                   braid_algo_names[d[1].algo], braid_proto_names[d[1].proto], d[1].channels,
                   (double)d[1].us);
            differ++;
        }
    }
out:
    braid_tuner_destroy(tuner[0]);
    braid_tuner_destroy(tuner[1]);
    return differ;
}

int cmd_diff(int argc, char **argv)
{
    int ranks = 8, nodes = 1, differ, rc = 2;
    const char *words[2];
    struct braid_profile *two = calloc(2, sizeof(*two));
    struct rows *rows = calloc(1, sizeof(*rows));
    struct braid_tuner_settings settings = {.channel_ceiling = BRAID_CHANNELS};
    const struct tune_option options[] = {
        TUNE_INT("--ranks", &ranks, 2, 1 << 30), TUNE_INT("--nodes", &nodes, 1, 1 << 30),
        TUNE_INT("--budget", &settings.sm_budget, 0, BRAID_CHANNELS)};
    struct braid_shape shape;

    if (!two || !rows || tune_options(argc, argv, options, ARRAY_SIZE(options), words, 2) != 2) {
        rc = tune_usage(usage);
        goto out;
    }
    if (tune_profile(words[0], &two[0]) || tune_profile(words[1], &two[1]))
        goto out;
    printf("numbers (%s, %s):\n", two[0].name, two[1].name);
    braid_profile_each(&two[0], keep, rows);
    braid_profile_each(&two[1], compare, rows);
    for (int i = 0; i < rows->count; i++) {
        if (!rows->row[i].seen) {
            printf("  %-48s %12.6g %12s\n", rows->row[i].key, rows->row[i].value, "-");
            rows->differ++;
        }
    }
    shape = braid_shape_make((size_t)ranks, (size_t)nodes);
    printf("%d differ\ndecisions at %d ranks on %d nodes:\n", rows->differ, ranks, nodes);
    differ = compare_decisions(two, &shape, &settings);
    printf("%d differ\n", differ);
    rc = differ != 0;
out:
    free(two);
    free(rows);
    return rc;
}
