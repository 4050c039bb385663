/*
 * How long the tuner takes: getCollInfo (median over batches of calls with changing sizes and tables) and init on 8 GPUs, through
 * the exported interface as NCCL uses it. Prints rows of results as JSON lines. A measurement, not a test: it fails only when the
 * plugin does not load.
 * usage: call_time PLUGIN.so PROFILE_FOLDER COMMIT   (the folder holds trusted.profile)
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "nccl/tuner_v6.h"

#define BATCHES 20000
#define BATCH   16

static const ncclTuner_v6_t *tuner;

static void quiet(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                  const char *fmt, ...)
{
    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    (void)fmt;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void *start(size_t ranks, size_t nodes)
{
    ncclNvlDomainInfo_v6_t domain = {(int)nodes, (int)(ranks / nodes), (int)(ranks / nodes)};
    static ncclTunerConstants_v6_t constants;
    void *context = NULL;

    tuner->init(&context, 1, ranks, nodes, quiet, &domain, &constants);
    return context;
}

/* An all-reduce on 8 GPUs: trees, rings and NVLS are usable. */
static double call_ns(void *context, double *low_p, double *high_p)
{
    static double ns[BATCHES];
    static float base[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS] = {
        {15, 31, 64}, {15.5f, 40, 56}, {-1, -1, -1}, {-1, -1, -1},
        {-1, -1, 25}, {-1, -1, -1},    {-1, -1, -1}};

    for (int b = 0; b < BATCHES; b++) {
        float table[BATCH][NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
        uint64_t begin;

        for (int i = 0; i < BATCH; i++)
            memcpy(table[i], base, sizeof(base));
        begin = braid_now_ns();
        for (int i = 0; i < BATCH; i++) {
            int channels = 0;

            tuner->getCollInfo(context, ncclFuncAllReduce, 1000ull << ((b + i) % 24), 1,
                               (float **)(void *)table[i], NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS,
                               0, &channels);
        }
        ns[b] = (double)(braid_now_ns() - begin) / BATCH;
    }
    qsort(ns, BATCHES, sizeof(ns[0]), compare);
    *low_p = ns[BATCHES / 20];
    *high_p = ns[BATCHES - BATCHES / 20];
    return ns[BATCHES / 2];
}

static void row(const char *name, double value, double low, double high, int runs, double limit,
                const char *commit)
{
    time_t now = time(NULL);
    struct tm day;
    char date[16];

    localtime_r(&now, &day);
    strftime(date, sizeof(date), "%Y-%m-%d", &day);
    printf("{\"bench\": \"tuner_call\", \"case\": \"%s\", \"metric\": \"time_ns\", \"value\": "
           "%.0f, \"spread\": [%.0f, %.0f], "
           "\"runs\": %d, \"limit\": %.0f, \"limit_name\": \"target\", \"machine\": \"shared "
           "2-core container\", \"versions\": {\"interface\": \"v6\"}, "
           "\"commit\": \"%s\", \"date\": \"%s\"}\n",
           name, value, low, high, runs, limit, commit, date);
}

int main(int argc, char **argv)
{
    double init[21], low = 0, high = 0, ns = 0;
    void *library = argc == 4 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

    if (library)
        tuner = dlsym(library, "ncclTunerPlugin_v6");
    if (!tuner) {
        fprintf(stderr, "usage: call_time PLUGIN.so PROFILE_FOLDER COMMIT\n");
        return 2;
    }
    setenv("BRAID_PROFILE_DIRS", argv[2], 1);
    setenv("BRAID_TUNER_PROFILE", "trusted", 1);
    for (int i = 0; i < 21; i++) {
        uint64_t begin = braid_now_ns();
        void *context = start(8, 1);

        init[i] = (double)(braid_now_ns() - begin);
        if (i < 20)
            tuner->finalize(context); /* the next one computes its tables again */
        else
            ns = call_ns(context, &low, &high);
    }
    row("get_coll_info", ns, low, high, BATCHES, 500, argv[3]);
    qsort(init, 21, sizeof(init[0]), compare);
    row("init_8gpu", init[10], init[0], init[20], 21, 50e6, argv[3]);
    return 0;
}
