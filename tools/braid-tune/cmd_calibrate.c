/*
 * braid-tune calibrate: measure this machine, fit its profile, say how good it is. Called by: main.c.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/util.h"
#include "tools/braid-tune/calibrate.h"
#include "tools/braid-tune/fit.h"
#include "tools/braid-tune/tune.h"
#include "tuner-plugin/machine.h"

static const char usage[] = "braid-tune calibrate [--ranks N] [--fake-nodes] [--minutes M] "
                            "[--comms N] [--coll NAME,..] [--bytes LIST|FROM:TO[:xN]]\n"
                            "                     [--sweep FILE] [--out PROFILE] [--name NAME] "
                            "[--nccl FILE] [--port N] [--again] [--dry-run]\n"
                            "                     [--judge PROFILE]\n"
                            "Measures every algorithm, protocol and channel count that a tuner can "
                            "reach, through NCCL itself, and fits a profile. Starts one\n"
                            "process a GPU of this host, or joins those of torchrun, mpirun or "
                            "srun. An interrupted run goes on where it stopped.\n"
                            "--fake-nodes: each rank poses as a node, so all bytes take the "
                            "network transport. --judge: also measure what the tuner\n"
                            "decides with that profile, and fit nothing.\n";

#define PROBE_BYTES (64ull << 20) /* large enough for all channels */

struct arguments {
    const char *coll, *bytes, *sweep, *out, *name, *judge;
    struct group_options group;
    bool again, dry_run;
};

static int parse_lists(struct calibrate *calibrate, const struct arguments *args)
{
    calibrate->coll_count = tune_colls(args->coll, calibrate->colls);
    if (calibrate->coll_count < 1)
        return -EINVAL;
    calibrate->size_count = tune_sizes(args->bytes, calibrate->sizes, CALIBRATE_SIZES_MAX);
    if (calibrate->size_count < 1) {
        fprintf(stderr, "braid-tune: --bytes: expected LIST or FROM:TO[:xN], found '%s'\n",
                args->bytes);
        return -EINVAL;
    }
    if (args->name[0] && !fit_name_good(args->name)) {
        fprintf(stderr, "braid-tune: --name takes letters, digits, '.', '_' and '-'\n");
        return -EINVAL;
    }
    return 0;
}

/* libnccl-tuner-braid-sweep.so lies in ../lib of the program, or beside the tuner as installed. */
static int find_plugin(char *path, size_t path_bytes)
{
    static const char *const places[] = {"../lib/libnccl-tuner-braid-sweep.so",
                                         "../lib/x86_64-linux-gnu/libnccl-tuner-braid-sweep.so",
                                         "../lib64/libnccl-tuner-braid-sweep.so"};
    char here[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
    char *slash;

    here[n > 0 ? n : 0] = 0;
    slash = strrchr(here, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        snprintf(path, path_bytes, "%.3000s/%s", here, places[i]);
        if (!access(path, R_OK))
            return 0;
    }
    fprintf(stderr, "braid-tune: libnccl-tuner-braid-sweep.so is not in ../lib of %s\n", here);
    return -ENOENT;
}

static void describe(struct calibrate *calibrate)
{
    struct braid_machine_key key;
    struct sweep *sweep = &calibrate->sweep;
    time_t now = time(NULL);
    struct tm day;

    braid_machine_key_read(&key);
    snprintf(sweep->gpu, sizeof(sweep->gpu), "%s", key.gpu);
    if (!key.gpu[0])
        braid_machine_model(calibrate->group.gpu, sweep->gpu, sizeof(sweep->gpu));
    if (calibrate->group.nodes > 1)
        snprintf(sweep->net, sizeof(sweep->net), "%s", key.net);
    snprintf(sweep->nccl, sizeof(sweep->nccl), "%s", calibrate->group.nccl);
    snprintf(sweep->machine, sizeof(sweep->machine), "%d ranks on %d node%s, %s",
             calibrate->group.ranks, calibrate->group.nodes, calibrate->group.nodes == 1 ? "" : "s",
             calibrate->group.gpu);
    sweep->ranks = calibrate->group.ranks;
    sweep->nodes = calibrate->group.nodes;
    localtime_r(&now, &day);
    strftime(sweep->date, sizeof(sweep->date), "%Y-%m-%d", &day);
}

/* The channels that NCCL has, and whether NVLink SHARP is on: one large collective tells. */
static int probe(struct calibrate *calibrate)
{
    struct worker_command command = {.verb = WORKER_MEASURE,
                                     .coll = BRAID_ALL_REDUCE,
                                     .bytes = PROBE_BYTES,
                                     .mode = 1,
                                     .algo = BRAID_RING,
                                     .proto = BRAID_SIMPLE,
                                     .repeat = 1,
                                     .launches = 1};
    const struct worker_reply *reply = &calibrate->group.reply[0];
    int rc = group_connect(&calibrate->group);

    if (!rc)
        rc = group_run(&calibrate->group, &command);
    if (rc)
        return rc;
    calibrate->sweep.channels = reply->grid;
    calibrate->sweep.nvls = reply->table[BRAID_NVLS * BRAID_PROTOS + BRAID_SIMPLE] >= 0;
    return group_keep(&calibrate->group);
}

/* Opens the sweep file: what is in it of this same machine stays. */
static int open_sweep(struct calibrate *calibrate, const char *path, bool again)
{
    struct sweep *now = &calibrate->sweep, before;
    char why[256];
    int rc;

    if (!again && !access(path, F_OK)) {
        rc = sweep_read(path, &before, why, sizeof(why));
        if (rc) {
            fprintf(stderr, "braid-tune: %s%s\n", why,
                    rc == -EINVAL ? "; --again starts the file over" : "");
            return rc;
        }
        if (before.ranks != now->ranks || before.nodes != now->nodes ||
            strcmp(before.gpu, now->gpu) || strcmp(before.nccl, now->nccl)) {
            fprintf(stderr,
                    "braid-tune: %s is of %d ranks on %d nodes, %s, NCCL %s; this is %d on %d, %s, "
                    "NCCL %s. --again starts over\n",
                    path, before.ranks, before.nodes, before.gpu, before.nccl, now->ranks,
                    now->nodes, now->gpu, now->nccl);
            sweep_free(&before);
            return -EINVAL;
        }
        fprintf(stderr, "braid-tune: going on with %zu rows of %s\n", before.count, path);
        *now = before;
        if (truncate(path, before.whole_bytes)) {
            fprintf(stderr, "braid-tune: %s: %s\n", path, strerror(errno));
            return -errno;
        }
        calibrate->out = fopen(path, "ae");
    } else {
        calibrate->out = fopen(path, "we");
        if (calibrate->out)
            sweep_write_head(calibrate->out, now,
                             "CUDA graphs, slower rank, median of launches; each comm is a "
                             "communicator of its own");
    }
    if (!calibrate->out) {
        fprintf(stderr, "braid-tune: %s: %s\n", path, strerror(errno));
        return -errno;
    }
    /* A cell goes out in one write, so that a kill leaves whole cells. */
    setvbuf(calibrate->out, NULL, _IOFBF, 1 << 16);
    return 0;
}

/* ---- The profile ---- */

/* "h200x2-socket", or what --name says. */
static void profile_name(const struct calibrate *calibrate, const struct arguments *args,
                         char *name, size_t bytes)
{
    const struct sweep *sweep = &calibrate->sweep;

    if (args->name[0])
        snprintf(name, bytes, "%s", args->name);
    else
        snprintf(name, bytes, "%.30sx%d-%.16s", sweep->gpu[0] ? sweep->gpu : "gpu", sweep->ranks,
                 sweep->nodes > 1 ? sweep->net : "node");
}

static void make_folders(char *dir)
{
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(dir, 0777);
        *slash = '/';
    }
    mkdir(dir, 0777);
}

/*
 * Where the profile goes: --out, else the first of the folders where jobs look. Said before anything is measured when it cannot be
 * written there. Returns 0 or a negative errno.
 */
static int find_out(const char *name, const char *out, char *path, size_t path_bytes)
{
    char dirs[2048], folder[2048] = ".";
    const char *slash = strrchr(out, '/');

    if (out[0] && slash)
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - out + 1), out);
    if (!out[0]) {
        braid_profile_dirs(dirs, sizeof(dirs));
        snprintf(folder, sizeof(folder), "%.*s", (int)strcspn(dirs, ":"), dirs);
        make_folders(folder);
    }
    if (access(folder, W_OK)) {
        fprintf(stderr,
                "braid-tune: no profile can be written to %s: %s. --out names another place\n",
                folder, strerror(errno));
        return -errno;
    }
    if (out[0])
        snprintf(path, path_bytes, "%s", out);
    else
        snprintf(path, path_bytes, "%s/%s.profile", folder, name);
    return 0;
}

/* All or nothing: a job that starts now reads the old profile or the new one. */
static int write_profile(const struct calibrate *calibrate, const char *name, const char *path,
                         const struct braid_profile *base, const struct braid_profile *fitted,
                         const struct fit_result *result, const char *sweep_path)
{
    char fresh[2500];
    FILE *out;
    int rc = -EIO;

    snprintf(fresh, sizeof(fresh), "%.2400s.new", path);
    out = fopen(fresh, "we");
    if (out)
        rc = fit_write(out, name, NULL, &calibrate->sweep, base, fitted, result, sweep_path);
    if (out && fclose(out))
        rc = -EIO;
    if (!rc && rename(fresh, path))
        rc = -EIO;
    if (rc) {
        fprintf(
            stderr,
            "braid-tune: %s: %s; `braid-tune fit %s` makes the profile from what was measured\n",
            path, strerror(errno), sweep_path);
        unlink(fresh);
    }
    return rc;
}

/* Fits all sizes into `fitted`, and each half of them to see how far off the other half is then. */
static int fit_thrice(const struct sweep *sweep, const struct braid_profile *base,
                      struct braid_profile *fitted, struct fit_result *all,
                      struct fit_result *halves)
{
    struct fit_options options = {-1, 1};
    int rc = 0;

    for (options.parity = 0; options.parity < 2 && !rc; options.parity++) {
        *fitted = *base;
        rc = fit_profile(sweep, &options, fitted, &halves[options.parity]);
    }
    options.parity = -1;
    *fitted = *base;
    return rc ? rc : fit_profile(sweep, &options, fitted, all);
}

static int fit_and_report(struct calibrate *calibrate, const struct arguments *args,
                          const struct braid_profile *base, const char *name, const char *path)
{
    struct braid_profile *fitted = malloc(sizeof(*fitted));
    struct fit_result all, halves[2];
    int rc = fitted ? fit_thrice(&calibrate->sweep, base, fitted, &all, halves) : -ENOMEM;

    if (rc)
        goto out;
    if (all.pairs < 10) {
        fitted->trust = 0;
        printf("Too few repeats to tell a gain from noise (%d): the profile will only serve SM "
               "budgets. Run more communicators.\n",
               all.pairs);
    }
    rc = write_profile(calibrate, name, path, base, fitted, &all, args->sweep);
    calibrate_report(&calibrate->sweep, fitted, stdout);
    printf("fit: rms %.1f %% on its %d rows", 100 * all.fit_error, all.used);
    if (halves[0].held_out && halves[1].held_out)
        printf("; %.1f %% and %.1f %% on every second size when the others are left out",
               100 * halves[0].held_out_error, 100 * halves[1].held_out_error);
    if (all.pairs)
        printf("; noise between\ncommunicators %.1f %% (%d repeats)", 100 * all.noise, all.pairs);
    printf("; a predicted gain below %.1f %% changes nothing\n%s %s\n", 100 * fitted->guard_ratio,
           rc ? "NOT written:" : "written:", path);
    if (!rc && calibrate->group.nodes > 1 && !args->group.fake_nodes)
        printf("Copy it to the same place on the other nodes: all ranks must read the same one.\n");
    printf("`braid-tune plot %s --profile %s` draws it.\n", args->sweep, path);
out:
    free(fitted);
    return rc;
}

static int estimate(struct calibrate *calibrate, const struct braid_profile *base, int ranks,
                    int nodes)
{
    int count;
    double seconds = calibrate_estimate(calibrate, base, ranks, nodes, &count);

    printf("about %d measurements over %d communicators of %d ranks, about %.0f s; at most %.1f "
           "minutes\n",
           count, calibrate->comms, ranks, seconds, calibrate->minutes);
    return 0;
}

/* Rows are kept cell by cell, so nothing is lost but the cell that was being measured. */
static void interrupted(int number)
{
    static const char text[] =
        "\nbraid-tune: interrupted; what was measured is kept, the same command goes on with it\n";

    if (write(2, text, sizeof(text) - 1) < 0)
        _exit(1);
    _exit(128 + number);
}

static int measure_all(struct calibrate *calibrate, const struct arguments *args,
                       const struct braid_profile *base)
{
    struct sigaction action = {.sa_handler = interrupted};
    struct braid_profile *here = malloc(sizeof(*here));
    int rc = here ? open_sweep(calibrate, args->sweep, args->again) : -ENOMEM;

    if (!rc) {
        /* By now NCCL has said what it has here. */
        *here = *base;
        here->nccl.nvls = calibrate->sweep.nvls;
        here->channels = calibrate->sweep.channels;
        estimate(calibrate, here, calibrate->group.ranks, calibrate->group.nodes);
    }
    free(here);
    if (rc)
        return rc;
    fflush(stdout);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return calibrate_run(calibrate);
}

/* Every rank needs an element of its own. */
static int large_enough(const struct calibrate *calibrate, uint64_t bytes)
{
    uint64_t least = 2 * (uint64_t)calibrate->group.ranks;

    if (bytes >= least)
        return 0;
    fprintf(stderr, "braid-tune: --bytes: %d ranks need at least %llu bytes\n",
            calibrate->group.ranks, (unsigned long long)least);
    return -EINVAL;
}

/* After the ranks are there. */
static int lead(struct calibrate *calibrate, const struct arguments *args,
                const struct braid_profile *base)
{
    char name[64], path[2200];
    int rc = 0;

    for (int i = 0; i < calibrate->size_count && !rc; i++)
        rc = large_enough(calibrate, calibrate->sizes[i]);
    if (rc) {
        group_stop(&calibrate->group);
        return 2;
    }
    rc = probe(calibrate);
    /* NCCL has loaded its plugins by now: whose sockets these are is part of the machine's key. */
    describe(calibrate);
    profile_name(calibrate, args, name, sizeof(name));
    if (!rc && !args->judge[0])
        rc = find_out(name, args->out, path, sizeof(path));
    if (!rc)
        rc = measure_all(calibrate, args, base);
    if (calibrate->out)
        fclose(calibrate->out);
    group_stop(&calibrate->group);
    if (rc == 1)
        printf("The time is over: %d of %d cells are measured. Run it again to go on, or with more "
               "--minutes.\n",
               calibrate->cells_done, calibrate->cells_all);
    if (rc < 0 && calibrate->sweep.count)
        fprintf(stderr,
                "braid-tune: what was measured is kept in %s, the same command goes on with it\n",
                args->sweep);
    if (rc < 0)
        return 1;
    if (args->judge[0])
        return 0;
    if (!calibrate->sweep.count) {
        printf("Nothing was measured.\n");
        return 1;
    }
    return fit_and_report(calibrate, args, base, name, path) ? 1 : 0;
}

static int run(struct calibrate *calibrate, struct arguments *args, struct braid_profile *base)
{
    struct group_options *how = &args->group;
    char plugin[4096], judged[PATH_MAX];
    int ranks, rc;

    calibrate->launches = 7;
    calibrate->slowest = 8;
    calibrate->judge = args->judge[0] != 0;
    if (parse_lists(calibrate, args))
        return 2;
    for (int i = 0; i < calibrate->size_count; i++)
        how->max_bytes = MAX(how->max_bytes, calibrate->sizes[i]);
    how->max_bytes = MAX(how->max_bytes, PROBE_BYTES);
    how->judge = args->judge;
    /* Jobs look for a name without a folder among the profiles only; here a file of this folder may be meant. */
    if (args->judge[0] && tune_profile(args->judge, base))
        return 1;
    if (args->judge[0] && realpath(base->path, judged))
        setenv("BRAID_TUNER_PROFILE", judged, 1);
    else
        setenv("BRAID_TUNER_PROFILE", "none", 1);
    if (tune_profile(how->fake_nodes ? "generic-socket" : "generic", base))
        return 1;
    if (args->dry_run) {
        ranks = how->ranks ? how->ranks : MAX(worker_gpu_count(), 2);
        return estimate(calibrate, base, ranks, how->fake_nodes ? ranks : 1);
    }
    if (find_plugin(plugin, sizeof(plugin)))
        return 1;
    how->plugin_path = plugin;
    rc = group_start(how, &calibrate->group);
    if (rc)
        return rc == 1 ? 0 : 1;
    return lead(calibrate, args, base);
}

int cmd_calibrate(int argc, char **argv)
{
    struct arguments args = {.coll = "all_reduce,all_gather,reduce_scatter",
                             .bytes = "1K:256M",
                             .sweep = "braid.sweep.csv",
                             .out = "",
                             .name = "",
                             .judge = "",
                             .group = {.nccl_path = ""}};
    struct calibrate *calibrate = calloc(1, sizeof(*calibrate));
    struct braid_profile *base = calloc(1, sizeof(*base));
    const struct tune_option options[] = {
        TUNE_INT("--ranks", &args.group.ranks, 0, GROUP_RANKS_MAX),
        TUNE_REAL("--minutes", &calibrate->minutes, 0.001, 1e6),
        TUNE_INT("--comms", &calibrate->comms, 1, 1000),
        TUNE_TEXT("--coll", &args.coll),
        TUNE_TEXT("--bytes", &args.bytes),
        TUNE_TEXT("--sweep", &args.sweep),
        TUNE_TEXT("--out", &args.out),
        TUNE_TEXT("--name", &args.name),
        TUNE_TEXT("--nccl", &args.group.nccl_path),
        TUNE_INT("--port", &args.group.port, 0, 65535),
        TUNE_TEXT("--judge", &args.judge),
        TUNE_FLAG("--fake-nodes", &args.group.fake_nodes),
        TUNE_FLAG("--again", &args.again),
        TUNE_FLAG("--dry-run", &args.dry_run)};
    int rc = 1;

    if (!calibrate || !base) {
        fprintf(stderr, "braid-tune: out of memory\n");
        goto out;
    }
    calibrate->minutes = 4;
    calibrate->comms = 5;
    if (tune_options(argc, argv, options, ARRAY_SIZE(options), NULL, 0) < 0)
        rc = tune_usage(usage);
    else
        rc = run(calibrate, &args, base);
    sweep_free(&calibrate->sweep);
out:
    free(calibrate);
    free(base);
    return rc;
}
