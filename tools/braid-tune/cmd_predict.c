/*
 * braid-tune predict: predictions in bulk for evaluation scripts. Reads "coll,ranks,nodes,bytes,algo,proto[,channels]" lines from
 * stdin, algorithm and protocol may be "*" (the fastest that is covered) or "nccl" (NCCL's choice by its model), and writes us,
 * NCCL's own estimate of the same, and what was meant. Called by: main.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tools/braid-tune/tune.h"
#include "tuner-plugin/cost/cost.h"

static const char usage[] =
    "braid-tune predict --profile NAME|FILE [--machine live|FILE|LINE] <QUERIES\n";

struct query {
    char coll[24], algo[24], proto[24];
    int ranks, nodes, channels;
    double bytes;
};

struct answer {
    enum braid_algo algo;
    enum braid_proto proto;
    double us, nccl_us;
};

static int wanted(const char *text, const char *const *names, int count, int index)
{
    return !strcmp(text, "*") || braid_kind_find(names, count, text) == index;
}

static void predict(const struct braid_profile *profile, const struct query *query,
                    enum braid_coll coll, struct answer *answer)
{
    struct braid_shape shape = braid_shape_make((size_t)query->ranks, (size_t)query->nodes);
    enum braid_algo algo = BRAID_RING;
    enum braid_proto proto = BRAID_SIMPLE;
    int nccl = !strcmp(query->algo, "nccl") &&
               !braid_nccl_choice(profile, &shape, coll, query->bytes, &algo, &proto);

    answer->us = answer->nccl_us = NAN;
    for (int i = 0; i < BRAID_ALGOS * BRAID_PROTOS; i++) {
        enum braid_algo a = (enum braid_algo)(i / BRAID_PROTOS);
        enum braid_proto p = (enum braid_proto)(i % BRAID_PROTOS);
        double us;

        if (nccl ? a != algo || p != proto
                 : !wanted(query->algo, braid_algo_names, BRAID_ALGOS, (int)a) ||
                       !wanted(query->proto, braid_proto_names, BRAID_PROTOS, (int)p))
            continue;
        /* Where nothing is named, only what NCCL would consider. */
        if (!strcmp(query->algo, "*") &&
            isnan(braid_nccl_predict(profile, &shape, coll, query->bytes, a, p)))
            continue;
        us = braid_cost_predict(profile, &shape, coll, query->bytes, a, p, query->channels, 0).us;
        if (isnan(us) || us >= answer->us)
            continue;
        answer->us = us;
        answer->algo = a;
        answer->proto = p;
        answer->nccl_us = braid_nccl_predict(profile, &shape, coll, query->bytes, a, p);
    }
}

static int answer_lines(const struct braid_profile *profile)
{
    char line[256];
    int number = 0;

    printf("us,nccl_us,algo,proto\n");
    while (fgets(line, sizeof(line), stdin)) {
        struct query query = {.channels = 0};
        struct answer answer = {BRAID_RING, BRAID_SIMPLE, NAN, NAN};
        int coll;

        number++;
        if (sscanf(line, "%23[^,],%d,%d,%lf,%23[^,],%23[^,\n],%d", query.coll, &query.ranks,
                   &query.nodes, &query.bytes, query.algo, query.proto, &query.channels) < 6 ||
            (coll = braid_kind_find(braid_coll_names, BRAID_COLLS, query.coll)) < 0 ||
            query.ranks < 2 || query.nodes < 1 || !(query.bytes >= 1)) {
            fprintf(stderr, "braid-tune: line %d: expected coll,ranks,nodes,bytes,algo,proto\n",
                    number);
            return 1;
        }
        predict(profile, &query, (enum braid_coll)coll, &answer);
        printf("%.4f,%.4f,%s,%s\n", answer.us, answer.nccl_us, braid_algo_names[answer.algo],
               braid_proto_names[answer.proto]);
    }
    return 0;
}

int cmd_predict(int argc, char **argv)
{
    const char *name = "generic", *where = NULL;
    const struct tune_option options[] = {TUNE_TEXT("--profile", &name),
                                          TUNE_TEXT("--machine", &where)};
    struct braid_profile *profile = malloc(sizeof(*profile));
    struct tune_machine machine;
    int rc = 2;

    if (!profile || tune_options(argc, argv, options, ARRAY_SIZE(options), NULL, 0) < 0)
        rc = tune_usage(usage);
    else if (!tune_profile(name, profile) && (!where || !tune_machine_load(where, &machine))) {
        if (where)
            tune_machine_apply(&machine, profile);
        rc = answer_lines(profile);
    }
    free(profile);
    return rc;
}
