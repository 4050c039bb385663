/*
 * NCCL's side of the tuner interface, v2 to v6: loads the plugin as NCCL does, builds tables as NCCL builds them, and checks every
 * promise of the plugin under many settings. A scenario is an environment; the plugin is loaded afresh for each.
 * usage: contract PLUGIN.so PROFILE_FOLDER. Single-threaded but for the scenario that says otherwise.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "braid/wire/tuner_id.h"
#include "common/tuner_id.h"
#include "common/util.h"
#include "nccl/tuner_v2.h"
#include "nccl/tuner_v3.h"
#include "nccl/tuner_v4.h"
#include "nccl/tuner_v6.h"

#define ENTRIES (NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS)

static int checks, failures, warnings;
static char last_warning[512];
static const char *plugin_path, *folder, *scenario_name;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);                                          \
        if (!(condition)) {                                                                        \
            if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) < 20) {                         \
                printf("%s:%d: %s: %s: ", __FILE__, __LINE__, scenario_name, #condition);          \
                printf(__VA_ARGS__);                                                               \
                printf("\n");                                                                      \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static void logger(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                   const char *fmt, ...)
{
    va_list args;

    (void)flags;
    (void)file;
    (void)line;
    if (level != NCCL_LOG_WARN)
        return;
    warnings++;
    va_start(args, fmt);
    vsnprintf(last_warning, sizeof(last_warning), fmt, args);
    va_end(args);
}

/* ---- The plugin through any version, as NCCL's newest form ---- */

struct tuner {
    int version;
    void *context;
    const ncclTuner_v2_t *v2;
    const ncclTuner_v3_t *v3;
    const ncclTuner_v4_t *v4;
    const ncclTuner_v5_t *v5;
    const ncclTuner_v6_t *v6;
};

static void *library;

static const void *table_of(int version)
{
    char name[40];
    const void *table;

    snprintf(name, sizeof(name), "ncclTunerPlugin_v%d", version);
    table = dlsym(library, name);
    CHECK(table, "%s is exported", name);
    return table;
}

static _Thread_local ncclTunerConstants_v5_t constants_now;

static void open_tuner(struct tuner *tuner, int version, size_t ranks, size_t nodes)
{
    ncclNvlDomainInfo_v5_t domain = {(int)nodes, (int)(ranks / nodes), (int)(ranks / nodes)};
    const void *table = table_of(version);
    ncclResult_t result = ncclInternalError;

    memset(tuner, 0, sizeof(*tuner));
    tuner->version = version;
    for (size_t i = 0; i < sizeof(constants_now) / sizeof(double); i++)
        ((double *)&constants_now)[i] = 1000 + (double)i;
    if (!table)
        exit(1);
    switch (version) {
    case 2:
        tuner->v2 = table;
        result = tuner->v2->init(ranks, nodes, logger, &tuner->context);
        break;
    case 3:
        tuner->v3 = table;
        result = tuner->v3->init(ranks, nodes, logger, &tuner->context);
        break;
    case 4:
        tuner->v4 = table;
        result = tuner->v4->init(ranks, nodes, logger, &tuner->context);
        break;
    case 5:
        tuner->v5 = table;
        result = tuner->v5->init(&tuner->context, 7, ranks, nodes, logger, &domain, &constants_now);
        break;
    default:
        tuner->v6 = table;
        result = tuner->v6->init(&tuner->context, 7, ranks, nodes, logger, &domain, &constants_now);
    }
    CHECK(result == ncclSuccess, "v%d init of %zu ranks", version, ranks);
}

static void close_tuner(struct tuner *tuner)
{
    ncclResult_t result = tuner->v2   ? tuner->v2->destroy(tuner->context)
                          : tuner->v3 ? tuner->v3->destroy(tuner->context)
                          : tuner->v4 ? tuner->v4->destroy(tuner->context)
                          : tuner->v5 ? tuner->v5->finalize(tuner->context)
                                      : tuner->v6->finalize(tuner->context);

    CHECK(result == ncclSuccess, "v%d finalize", tuner->version);
}

struct answer {
    float table[ENTRIES];
    int channels, algo, proto;
};

static int least(const float *table, int entries)
{
    int best = -1;

    for (int i = 0; i < entries; i++) {
        if (table[i] >= 0 && (best < 0 || table[i] < table[best]))
            best = i;
    }
    return best;
}

/* Asks as NCCL does; for v2 NCCL sets the chosen entry to 0 unless it is off. */
static void ask(const struct tuner *tuner, ncclFunc_t coll, size_t bytes, int ops, int algos,
                int reg, struct answer *answer)
{
    float **table = (float **)(void *)answer->table;
    int algorithm = -1, protocol = -1, entries = algos * NCCL_NUM_PROTOCOLS, best;
    int collnet = answer->table[NCCL_ALGO_COLLNET_DIRECT * NCCL_NUM_PROTOCOLS + 2] >= 0 ||
                  answer->table[NCCL_ALGO_COLLNET_CHAIN * NCCL_NUM_PROTOCOLS + 2] >= 0;
    int nvls = answer->table[NCCL_ALGO_NVLS * NCCL_NUM_PROTOCOLS + 2] >= 0;
    ncclResult_t result = ncclSuccess;

    answer->channels = 0;
    if (tuner->v2) {
        result = tuner->v2->getCollInfo(tuner->context, coll, bytes, collnet, nvls, ops, &algorithm,
                                        &protocol, &answer->channels);
        CHECK((algorithm < 0) == (protocol < 0), "both or none: %d %d", algorithm, protocol);
        if (algorithm >= 0 && algorithm < algos && protocol < NCCL_NUM_PROTOCOLS &&
            answer->table[algorithm * NCCL_NUM_PROTOCOLS + protocol] >= 0)
            answer->table[algorithm * NCCL_NUM_PROTOCOLS + protocol] = 0;
    } else if (tuner->v3) {
        result = tuner->v3->getCollInfo(tuner->context, coll, bytes, ops, table, algos,
                                        NCCL_NUM_PROTOCOLS, &answer->channels);
    } else if (tuner->v4) {
        result = tuner->v4->getCollInfo(tuner->context, coll, bytes, ops, table, algos,
                                        NCCL_NUM_PROTOCOLS, reg, &answer->channels);
    } else if (tuner->v5) {
        result = tuner->v5->getCollInfo(tuner->context, coll, bytes, ops, table, algos,
                                        NCCL_NUM_PROTOCOLS, reg, &answer->channels);
    } else {
        result = tuner->v6->getCollInfo(tuner->context, coll, bytes, ops, table, algos,
                                        NCCL_NUM_PROTOCOLS, reg, &answer->channels);
    }
    CHECK(result == ncclSuccess, "v%d getCollInfo", tuner->version);
    best = least(answer->table, entries);
    answer->algo = best < 0 ? -1 : best / NCCL_NUM_PROTOCOLS;
    answer->proto = best < 0 ? -1 : best % NCCL_NUM_PROTOCOLS;
}

/* ---- Tables as NCCL makes them ---- */

static unsigned random_state = 12345;

static unsigned draw(unsigned below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static bool exists(ncclFunc_t coll, int algo, int proto)
{
    if (algo != NCCL_ALGO_RING && algo != NCCL_ALGO_TREE && proto != NCCL_PROTO_SIMPLE)
        return false;
    if (coll == ncclFuncBroadcast || coll == ncclFuncReduce)
        return algo == NCCL_ALGO_RING;
    if (coll == ncclFuncAllReduce)
        return algo != NCCL_ALGO_PAT;
    return algo != NCCL_ALGO_TREE && algo != NCCL_ALGO_COLLNET_CHAIN && algo != NCCL_ALGO_NVLS_TREE;
}

/* Usable combinations at random, at least one, with plausible times; some exactly 0, some relegated (fp8). */
static void make_table(ncclFunc_t coll, size_t bytes, int algos, float *table)
{
    int usable = 0;

    for (int i = 0; i < ENTRIES; i++)
        table[i] = -1;
    while (!usable) {
        for (int i = 0; i < algos * NCCL_NUM_PROTOCOLS; i++) {
            int algo = i / NCCL_NUM_PROTOCOLS, proto = i % NCCL_NUM_PROTOCOLS;

            if (!exists(coll, algo, proto) || draw(4) == 0)
                continue;
            table[i] = 5 + (float)draw(200) / 10 + (float)bytes / (float)(1000 + draw(300000));
            if (draw(40) == 0)
                table[i] = 0;
            usable++;
        }
    }
}

struct limits {
    int budget;      /* 0 = none */
    bool untouched;  /* nothing may change */
    ncclFunc_t only; /* with untouched: only for this collective; NCCL_NUM_FUNCTIONS = all */
};

static void check_call(const struct tuner *tuner, const struct tuner *twin, ncclFunc_t coll,
                       size_t bytes, const struct limits *limits)
{
    int algos = draw(5) ? NCCL_NUM_ALGORITHMS : NCCL_ALGO_PAT, ops = 1 + (int)draw(20);
    int reg = (int)draw(2), ceiling = tuner->version < 5 ? 32 : 64;
    struct answer before, answer, again;
    bool frozen = limits->untouched && (limits->only == NCCL_NUM_FUNCTIONS || limits->only == coll);

    make_table(coll, bytes, algos, before.table);
    answer = again = before;
    ask(tuner, coll, bytes, ops, algos, reg, &answer);
    ask(twin, coll, bytes, ops, algos, reg, &again);
    CHECK(!memcmp(answer.table, again.table, sizeof(answer.table)) &&
              answer.channels == again.channels,
          "the same answer on every call: coll %d %zu bytes", coll, bytes);
    CHECK(answer.channels >= 0 && answer.channels <= ceiling, "%d channels", answer.channels);
    CHECK(!limits->budget || answer.channels <= limits->budget, "%d channels", answer.channels);
    CHECK(answer.algo >= 0, "one entry is left");
    CHECK(answer.channels == 0 ||
              (answer.algo != NCCL_ALGO_COLLNET_DIRECT && answer.algo != NCCL_ALGO_COLLNET_CHAIN),
          "channels of CollNet are NCCL's");
    if (frozen)
        CHECK(!memcmp(answer.table, before.table, sizeof(before.table)) && !answer.channels,
              "nothing changes: coll %d %zu bytes", coll, bytes);
    for (int i = 0; i < ENTRIES; i++) {
        if (before.table[i] < 0)
            CHECK(!memcmp(&answer.table[i], &before.table[i], sizeof(float)),
                  "entry %d was off and became %f", i, (double)answer.table[i]);
        else
            CHECK(isfinite(answer.table[i]) && answer.table[i] >= 0, "entry %d is %f", i,
                  (double)answer.table[i]);
    }
}

static void check_relegated(const struct tuner *tuner)
{
    for (size_t bytes = 64; bytes < 1ull << 34; bytes *= 3) {
        struct answer answer = {{0}, 0, 0, 0};

        for (int i = 0; i < ENTRIES; i++)
            answer.table[i] = -1;
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            answer.table[NCCL_ALGO_TREE * 3 + p] = 20 + (float)bytes / 1e5f;
            answer.table[NCCL_ALGO_RING * 3 + p] = 1024 * (18 + (float)bytes / 2e5f);
        }
        ask(tuner, ncclFuncAllReduce, bytes, 1, NCCL_NUM_ALGORITHMS, 0, &answer);
        CHECK(tuner->v2 || answer.algo == NCCL_ALGO_TREE,
              "a relegated ring is not chosen at %zu bytes", bytes);
    }
}

static void check_version(int version, const struct limits *limits)
{
    static const size_t shapes[][2] = {{2, 1}, {2, 2}, {8, 1}, {16, 2}, {72, 1}, {100000, 12500}};

    for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
        struct tuner tuner, twin;
        size_t chunk = 131072;

        open_tuner(&tuner, version, shapes[s][0], shapes[s][1]);
        open_tuner(&twin, version, shapes[s][0], shapes[s][1]);
        for (int coll = 0; coll < NCCL_NUM_FUNCTIONS; coll++) {
            for (size_t bytes = 1; bytes < 1ull << 43; bytes = bytes * 2 + draw(2) * (bytes / 2))
                check_call(&tuner, &twin, (ncclFunc_t)coll, bytes, limits);
        }
        if (!limits->untouched)
            check_relegated(&tuner);
        if (tuner.v6) {
            CHECK(tuner.v6->getChunkSize(tuner.context, ncclFuncAllReduce, 1 << 20, NCCL_ALGO_RING,
                                         NCCL_PROTO_SIMPLE, 4, &chunk) == ncclSuccess &&
                      chunk == 131072,
                  "no rule, no change: %zu", chunk);
        }
        close_tuner(&twin);
        close_tuner(&tuner);
    }
}

/* ---- Scenarios ---- */

static char temporary[300];

static const char *write_profile(const char *name, const char *text)
{
    static char path[400];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", temporary, name);
    file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file))
        exit(1);
    return path;
}

static void load(const char *name)
{
    scenario_name = name;
    warnings = 0;
    last_warning[0] = 0;
    library = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("%s\n", dlerror());
        exit(1);
    }
}

static uint64_t identity(void)
{
    const struct braid_wire_tuner_id *id = dlsym(library, BRAID_WIRE_TUNER_ID_SYMBOL);

    struct braid_wire_tuner_id copy;

    CHECK(id && braid_tuner_id_find(&copy) && !memcmp(&copy, id, sizeof(copy)),
          "the identity is found through the loaded objects");
    CHECK(id && id->magic == BRAID_WIRE_TUNER_ID_MAGIC && id->bytes == sizeof(*id) && id->hash,
          "the identity is published");
    return id ? id->hash : 0;
}

/* The promises for all versions in one environment; returns the identity's hash. */
static uint64_t scenario(const char *name, const char *const *env, const struct limits *limits,
                         int expected_warnings)
{
    uint64_t hash;

    for (int i = 0; env[i]; i += 2)
        setenv(env[i], env[i + 1], 1);
    load(name);
    for (int version = 2; version <= 6; version++)
        check_version(version, limits);
    hash = identity();
    CHECK(warnings == expected_warnings, "%d warnings, the last: %s", warnings, last_warning);
    dlclose(library);
    for (int i = 0; env[i]; i += 2)
        unsetenv(env[i]);
    return hash;
}

#define ENV(...)                                                                                   \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static const char trusted[] =
    "braid-profile 1\ninclude generic.profile\nname trusted\nsource me \"test\"\ntrust 1 @me\n";

static void check_settings(void)
{
    const struct limits none = {0, false, NCCL_NUM_FUNCTIONS};
    const struct limits frozen = {0, true, NCCL_NUM_FUNCTIONS};
    const struct limits frozen_reduce = {0, true, ncclFuncAllReduce};
    const struct limits four = {4, false, NCCL_NUM_FUNCTIONS};
    const char *path = write_profile("trusted.profile", trusted);
    uint64_t hash, other;

    hash = scenario("a trusted profile", ENV("BRAID_TUNER_PROFILE", path), &none, 0);
    other = scenario("again", ENV("BRAID_TUNER_PROFILE", path), &none, 0);
    CHECK(hash == other, "equal settings, equal identity");
    other = scenario("budget", ENV("BRAID_TUNER_PROFILE", path, "BRAID_SM_BUDGET", "4"), &four, 0);
    CHECK(hash != other, "a budget changes the identity");
    other = scenario("overlap", ENV("BRAID_TUNER_PROFILE", path, "BRAID_OVERLAP", "1"), &none, 0);
    CHECK(hash != other, "overlap changes the identity");
    scenario("budget and overlap",
             ENV("BRAID_TUNER_PROFILE", path, "BRAID_SM_BUDGET", "4", "BRAID_OVERLAP", "1"), &four,
             0);
    scenario("no profile", ENV("BRAID_TUNER_PROFILE", "none"), &frozen, 0);
    scenario("NCCL_ALGO", ENV("BRAID_TUNER_PROFILE", path, "NCCL_ALGO", "ring"), &frozen, 0);
    scenario("NCCL_PROTO", ENV("BRAID_TUNER_PROFILE", path, "NCCL_PROTO", "^LL128"), &frozen, 0);
    other = scenario("NCCL_ALGO of one",
                     ENV("BRAID_TUNER_PROFILE", path, "NCCL_ALGO", "AllReduce:tree"),
                     &frozen_reduce, 0);
    CHECK(hash != other, "standing down changes the identity");
    scenario("NCCL_PROTO of one",
             ENV("BRAID_TUNER_PROFILE", path, "NCCL_PROTO", "allreduce:LL;broadcast:^LL"),
             &frozen_reduce, 0);
}

static void check_bad_input(void)
{
    const struct limits frozen = {0, true, NCCL_NUM_FUNCTIONS};
    const char *path;

    scenario("a missing profile", ENV("BRAID_TUNER_PROFILE", "/nowhere/x.profile"), &frozen, 1);
    CHECK(strstr(last_warning, "/nowhere/x.profile"), "%s", last_warning);
    path =
        write_profile("broken.profile", "braid-profile 1\nname x\nbase_us all_reduce ring ll 5\n");
    scenario("a malformed profile", ENV("BRAID_TUNER_PROFILE", path), &frozen, 1);
    CHECK(strstr(last_warning, "broken.profile:3"), "file and line: %s", last_warning);
    scenario("a folder as a profile", ENV("BRAID_TUNER_PROFILE", temporary), &frozen, 1);
    path = write_profile("binary.profile", "\x7f"
                                           "ELF\n");
    scenario("a binary profile", ENV("BRAID_TUNER_PROFILE", path), &frozen, 1);
    unlink(path);
    unlink(write_profile("broken.profile", ""));
}

static void check_edits(void)
{
    const char *path =
        write_profile("edits.profile", "braid-profile 1\ninclude trusted.profile\nname edits\n"
                                       "set_base_us ring ll128 9.5 @me\n"
                                       "set_table_GBps ring_ll128 blackwell 1node 24 @me\n"
                                       "rule_chunk all_reduce tree ll128 1M 1G 1 8 65536 @me\n");
    const double *now = (const double *)&constants_now;
    struct tuner tuner;
    size_t chunk = 1000;

    setenv("BRAID_TUNER_PROFILE", path, 1);
    load("edits");
    open_tuner(&tuner, 6, 16, 2);
    for (size_t i = 0; i < sizeof(constants_now) / sizeof(double); i++) {
        if (&now[i] == &constants_now.baseLatencies[NCCL_ALGO_RING][NCCL_PROTO_LL128])
            CHECK(now[i] == 9.5, "%f", now[i]);
        else if (&now[i] == &constants_now.perChMaxRingLL128Bws[NCCL_BLACKWELL_COMPCAP_IDX][0])
            CHECK(now[i] == 24, "%f", now[i]);
        else
            CHECK(now[i] == 1000 + (double)i, "constant %zu became %f", i, now[i]);
    }
    tuner.v6->getChunkSize(tuner.context, ncclFuncAllReduce, 2 << 20, NCCL_ALGO_TREE,
                           NCCL_PROTO_LL128, 4, &chunk);
    CHECK(chunk == 65536, "%zu", chunk);
    chunk = 1000;
    tuner.v6->getChunkSize(tuner.context, ncclFuncAllReduce, 1024, NCCL_ALGO_TREE, NCCL_PROTO_LL128,
                           4, &chunk);
    CHECK(chunk == 1000, "outside of the rule: %zu", chunk);
    close_tuner(&tuner);
    dlclose(library);
    unsetenv("BRAID_TUNER_PROFILE");
}

/* NCCL gives up this policy when a tuner is loaded, so the tuner must keep it. */
static void check_efficiency(void)
{
    setenv("BRAID_TUNER_PROFILE", "generic", 1);
    setenv("BRAID_PROFILE_DIRS", folder, 1);
    for (int on = 0; on < 2; on++) {
        struct answer answer = {{0}, 0, 0, 0};
        struct tuner tuner;

        if (on)
            setenv("NCCL_CTA_POLICY", "EFFICIENCY", 1);
        load(on ? "efficiency policy" : "no efficiency policy");
        open_tuner(&tuner, 5, 8, 1);
        for (int i = 0; i < ENTRIES; i++)
            answer.table[i] = exists(ncclFuncAllGather, i / 3, i % 3) && i / 3 != NCCL_ALGO_PAT
                                  ? 30 + (float)i
                                  : -1;
        ask(&tuner, ncclFuncAllGather, 64 << 20, 1, NCCL_NUM_ALGORITHMS, 1, &answer);
        CHECK((answer.algo == NCCL_ALGO_NVLS) == (on == 1), "algorithm %d", answer.algo);
        CHECK(!on || answer.channels == 4, "%d channels", answer.channels);
        close_tuner(&tuner);
        dlclose(library);
    }
    unsetenv("NCCL_CTA_POLICY");
    unsetenv("BRAID_TUNER_PROFILE");
    unsetenv("BRAID_PROFILE_DIRS");
}

static void *many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct tuner tuner;
        struct answer answer = {.table = {12, 14, 16, 11, 13, 15}};

        open_tuner(&tuner, 4, 2 + (size_t)(i % 3), 1);
        ask(&tuner, ncclFuncAllReduce, 1 << 20, 1, 2, 0, &answer);
        close_tuner(&tuner);
    }
    return NULL;
}

/* One process may drive several GPUs, each with a thread that makes communicators. */
static void check_threads(void)
{
    pthread_t threads[4];

    setenv("BRAID_TUNER_PROFILE", "trusted", 1);
    setenv("BRAID_PROFILE_DIRS", temporary, 1);
    load("threads");
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        pthread_create(&threads[i], NULL, many, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    dlclose(library);
    unsetenv("BRAID_TUNER_PROFILE");
    unsetenv("BRAID_PROFILE_DIRS");
}

static void copy_profile(const char *name)
{
    char path[500], text[65536];
    size_t bytes;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "r");
    if (!file) {
        printf("%s is missing\n", path);
        exit(1);
    }
    bytes = fread(text, 1, sizeof(text) - 1, file);
    text[bytes] = 0;
    fclose(file);
    write_profile(name, text);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    plugin_path = argv[1];
    folder = argv[2];
    snprintf(temporary, sizeof(temporary), "%s/braid-tuner-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(temporary))
        return 1;
    copy_profile("nccl.facts");
    copy_profile("generic.profile");
    scenario_name = "nothing loaded";
    {
        struct braid_wire_tuner_id none;

        CHECK(!braid_tuner_id_find(&none) && !none.magic && !none.hash, "no tuner, no identity");
    }
    check_settings();
    check_bad_input();
    check_edits();
    check_efficiency();
    check_threads();
    for (const char *const *name = (const char *const[]){"nccl.facts", "generic.profile",
                                                         "trusted.profile", "edits.profile", NULL};
         *name; name++)
        unlink(write_profile(*name, ""));
    rmdir(temporary);
    printf("%d checks, %d failed\n", checks, failures);
    return failures != 0;
}
