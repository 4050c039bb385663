/*
 * braid-tune calibrate: measure this machine, fit its profile, say how good it is. Called by: main.c.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
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

struct arguments {
    const char *ranks, *minutes, *comms, *coll, *bytes, *sweep, *out, *name, *nccl, *port, *judge;
    bool fake_nodes, again, dry_run;
};

static int parse_list(struct calibrate *calibrate, const struct arguments *args)
{
    const char *text = args->coll;

    while (*text) {
        size_t length = strcspn(text, ",");
        char word[32];
        int coll;

        snprintf(word, sizeof(word), "%.*s", (int)length, text);
        coll = braid_kind_find(braid_coll_names, BRAID_COLLS, word);
        if (coll < 0 || calibrate->coll_count == BRAID_COLLS) {
            fprintf(stderr, "braid-tune: unknown collective '%s'\n", word);
            return -EINVAL;
        }
        calibrate->colls[calibrate->coll_count++] = coll;
        text += length + (text[length] == ',');
    }
    calibrate->size_count = tune_sizes(args->bytes, calibrate->sizes, CALIBRATE_SIZES_MAX);
    calibrate->comms = atoi(args->comms);
    calibrate->minutes = atof(args->minutes);
    if (calibrate->size_count < 1 || calibrate->comms < 1 || calibrate->comms > 1000 ||
        !(calibrate->minutes > 0)) {
        fprintf(stderr, "braid-tune: --bytes, --comms or --minutes is not understood\n");
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
    snprintf(sweep->machine, sizeof(sweep->machine), "%d ranks on %d nodes, %s",
             calibrate->group.ranks, calibrate->group.nodes, calibrate->group.gpu);
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
                                     .bytes = 64 << 20,
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
    return group_disconnect(&calibrate->group);
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
            fprintf(stderr, "braid-tune: %s\nbraid-tune: --again starts the file over\n", why);
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
    return 0;
}

/* Where a job finds it: the user's profile folder. */
static void default_out(const char *name, char *path, size_t path_bytes)
{
    char dirs[2048], *dir = dirs, *end;

    braid_profile_dirs(dirs, sizeof(dirs));
    end = strchr(dirs, ':');
    if (end)
        *end = 0;
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(dir, 0777);
        *slash = '/';
    }
    mkdir(dir, 0777);
    snprintf(path, path_bytes, "%.1800s/%s.profile", dir, name);
}

/* Of "folder/" in "folder/file", 0 without a folder. */
static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? (int)(slash - path + 1) : 0;
}

/* The shipped files that a profile includes must lie beside it. */
static void copy_included(const char *from_path, const char *to_path)
{
    static const char *const names[] = {"generic.profile", "generic-socket.profile", "nccl.facts"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char *from = NULL, *to = NULL, text[4096];
        FILE *in = NULL, *out = NULL;
        size_t n;

        if (asprintf(&from, "%.*s%s", folder_length(from_path), from_path, names[i]) < 0)
            from = NULL;
        if (asprintf(&to, "%.*s%s", folder_length(to_path), to_path, names[i]) < 0)
            to = NULL;
        if (from && to && access(to, F_OK) && (in = fopen(from, "re")))
            out = fopen(to, "we");
        while (out && (n = fread(text, 1, sizeof(text), in)) > 0)
            fwrite(text, 1, n, out);
        if (out)
            fclose(out);
        if (in)
            fclose(in);
        free(from);
        free(to);
    }
}

static int fit_and_report(struct calibrate *calibrate, const struct arguments *args,
                          const struct braid_profile *base)
{
    struct braid_profile *two = malloc(2 * sizeof(*two));
    struct fit_options options = {-1, 1};
    struct fit_result all, even, odd;
    char out_path[2400], include[64], name[64];
    const char *slash = strrchr(base->path, '/');
    FILE *out;
    int rc = -ENOMEM;

    if (!two)
        return rc;
    snprintf(name, sizeof(name), "%.30s%s%d-%.16s",
             calibrate->sweep.gpu[0] ? calibrate->sweep.gpu : "gpu", "x", calibrate->sweep.ranks,
             calibrate->sweep.nodes > 1 ? calibrate->sweep.net : "node");
    if (args->name[0])
        snprintf(name, sizeof(name), "%.63s", args->name);
    if (args->out[0])
        snprintf(out_path, sizeof(out_path), "%.2000s", args->out);
    else
        default_out(name, out_path, sizeof(out_path));
    two[0] = *base;
    for (options.parity = 0; options.parity < 2; options.parity++) {
        two[1] = *base;
        rc = fit_profile(&calibrate->sweep, &options, &two[1], options.parity ? &odd : &even);
        if (rc)
            goto out;
    }
    options.parity = -1;
    two[1] = *base;
    rc = fit_profile(&calibrate->sweep, &options, &two[1], &all);
    if (rc)
        goto out;
    if (all.pairs < 10) {
        two[1].trust = 0;
        printf("Too few repeats to tell a gain from noise (%d): the profile will only serve SM "
               "budgets. Run more communicators.\n",
               all.pairs);
    }
    snprintf(include, sizeof(include), "%.63s", slash ? slash + 1 : base->path);
    out = fopen(out_path, "we");
    if (!out ||
        fit_write(out, name, include, &calibrate->sweep, base, &two[1], &all, args->sweep)) {
        fprintf(stderr, "braid-tune: %s: %s\n", out_path, strerror(errno));
        rc = -EIO;
    }
    if (out && fclose(out))
        rc = -EIO;
    if (!rc)
        copy_included(base->path, out_path);
    calibrate_report(&calibrate->sweep, &two[1], stdout);
    printf("fit: rms %.1f %% on its %d rows; %.1f %% and %.1f %% on every second size when the "
           "others are left out; noise between\n"
           "communicators %.1f %% (%d repeats); a predicted gain below %.1f %% changes nothing\n%s "
           "%s\n",
           100 * all.fit_error, all.used, 100 * even.held_out_error, 100 * odd.held_out_error,
           100 * all.noise, all.pairs, 100 * two[1].guard_ratio,
           rc ? "NOT written:" : "written:", out_path);
out:
    free(two);
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

/* After the ranks are there. */
static int lead(struct calibrate *calibrate, const struct arguments *args,
                const struct braid_profile *base)
{
    int rc;

    describe(calibrate);
    rc = probe(calibrate);
    if (!rc)
        rc = open_sweep(calibrate, args->sweep, args->again);
    if (!rc) {
        estimate(calibrate, base, calibrate->group.ranks, calibrate->group.nodes);
        fflush(stdout);
        rc = calibrate_run(calibrate);
    }
    if (calibrate->out)
        fclose(calibrate->out);
    group_stop(&calibrate->group);
    if (rc == 1)
        printf("The time is over: %d of %d cells are measured. Run it again to go on, or with more "
               "--minutes.\n",
               calibrate->cells_done, calibrate->cells_all);
    if (rc < 0)
        return 1;
    if (args->judge[0])
        return 0;
    return fit_and_report(calibrate, args, base) ? 1 : 0;
}

static int run(struct calibrate *calibrate, const struct arguments *args,
               struct braid_profile *base)
{
    char plugin[4096], base_name[64];
    struct group_options options = {
        atoi(args->ranks), args->fake_nodes, atoi(args->port), 0, args->nccl, plugin};
    int rc;

    calibrate->launches = 7;
    calibrate->slowest = 8;
    calibrate->judge = args->judge[0] != 0;
    if (parse_list(calibrate, args))
        return 2;
    for (int i = 0; i < calibrate->size_count; i++)
        options.max_bytes = MAX(options.max_bytes, calibrate->sizes[i]);
    options.max_bytes = MAX(options.max_bytes, 64u << 20);
    snprintf(base_name, sizeof(base_name), "%s", args->fake_nodes ? "generic-socket" : "generic");
    if (tune_profile(base_name, base))
        return 1;
    if (args->dry_run)
        return estimate(calibrate, base, options.ranks ? options.ranks : 2,
                        args->fake_nodes ? (options.ranks ? options.ranks : 2) : 1);
    if (find_plugin(plugin, sizeof(plugin)))
        return 1;
    setenv("BRAID_TUNER_PROFILE", args->judge[0] ? args->judge : "none", 1);
    rc = group_start(&options, &calibrate->group);
    if (rc)
        return rc == 1 ? 0 : 1;
    return lead(calibrate, args, base);
}

int cmd_calibrate(int argc, char **argv)
{
    struct arguments args = {"0",       "4",
                             "5",       "all_reduce,all_gather,reduce_scatter",
                             "1K:256M", "braid.sweep.csv",
                             "",        "",
                             "",        "0",
                             "",        false,
                             false,     false};
    const struct tune_option options[] = {
        {"--ranks", &args.ranks, NULL}, {"--minutes", &args.minutes, NULL},
        {"--comms", &args.comms, NULL}, {"--coll", &args.coll, NULL},
        {"--bytes", &args.bytes, NULL}, {"--sweep", &args.sweep, NULL},
        {"--out", &args.out, NULL},     {"--name", &args.name, NULL},
        {"--nccl", &args.nccl, NULL},   {"--port", &args.port, NULL},
        {"--judge", &args.judge, NULL}, {"--fake-nodes", NULL, &args.fake_nodes},
        {"--again", NULL, &args.again}, {"--dry-run", NULL, &args.dry_run}};
    struct calibrate *calibrate = calloc(1, sizeof(*calibrate));
    struct braid_profile *base = calloc(1, sizeof(*base));
    int rc = 2;

    if (!calibrate || !base || tune_options(argc, argv, options, ARRAY_SIZE(options), NULL, 0) < 0)
        fputs(usage, stderr);
    else
        rc = run(calibrate, &args, base);
    sweep_free(&calibrate->sweep);
    free(calibrate);
    free(base);
    return rc;
}
