/*
 * fakenccl: plays NCCL against a net plugin, without NCCL and without a GPU. Loads any library that
 * exports ncclNetPlugin_v6..v12, forks ranks, drives the plugin as NCCL's service and progress
 * threads do, and checks every byte. Exit status: 0 all scenarios right, 1 one failed, 77 nothing
 * could be played.
 */
#include "scenario.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct scenario_table *const tables[] = {
    &traffic_scenarios, &life_scenarios, &error_scenarios, &peer_scenarios, &wire_scenarios};

struct request {
    struct fake_options options;
    const char *scenarios;
    const char *except;
    int first_version;
    int last_version;
    bool newest;
};

static void print_help(void)
{
    printf(
        "Usage: fakenccl --plugin PATH|NAME [options]\n"
        "  --plugin P       library, or NAME for libnccl-net-NAME.so, as NCCL_NET_PLUGIN\n"
        "  --version V      6..12, newest (default), or all: every version that it exports\n"
        "  --scenario LIST  names separated by commas, or all (default)\n"
        "  --except LIST    names to leave out of all\n"
        "  --ranks N        2..16 (default 4); some scenarios need exactly two\n"
        "  --channels N     connections for each pair and direction (default 1)\n"
        "  --depth N        receives posted ahead, up to 32 (default: the scenario's)\n"
        "  --group N        receives in a group (default: what the plugin allows)\n"
        "  --iterations N   multiplies the messages of a scenario (default 1)\n"
        "  --max-bytes B    largest message (default 16M; K, M, G are known)\n"
        "  --device N       device of the plugin (default 0)\n"
        "  --env R:NAME=V   set a variable in rank R before it loads the plugin; may be repeated\n"
        "  --cuda LIB       messages in GPU memory of a fake CUDA driver (tests/fakecuda), shared "
        "with\n"
        "                   the plugin through BRAID_CUDA_LIBRARY\n"
        "  --fuse N         makeVDevice of N devices, or as many as there are, from --device on "
        "(v9..)\n"
        "  --timeout S      bound of every single wait (default 30)\n"
        "  --seed N         other contents and sizes\n"
        "  --no-sizes       give test no place for the sizes, for plugins that never fill it\n"
        "  --close-together all ranks are done before one closes; without it a rank closes at "
        "once,\n"
        "                   as NCCL does, and its peers' last requests must still end well\n"
        "  --keep-order     never run a tag ahead of its group\n"
        "  --log LEVEL      what the plugin may print: none, warn (default), info\n"
        "  --verbose        say what is going on\n\n"
        "Scenarios:\n");
    for (size_t t = 0; t < FAKE_COUNT(tables); t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            printf("  %-18s %s%s\n", tables[t]->list[i].name, tables[t]->list[i].help,
                   tables[t]->list[i].extra ? " (not in all)" : "");
}

static void usage(const char *what, const char *value)
{
    fprintf(stderr, "fakenccl: %s '%s'; --help says what there is\n", what, value);
    exit(2);
}

static long number(const char *what, const char *text, long low, long high)
{
    char *end;
    long value = strtol(text, &end, 10);

    for (const char *unit = "KMG"; *unit && *end; unit++) {
        value *= 1024;
        if (*end == *unit) {
            end++;
            break;
        }
    }
    if (end == text || *end || value < low || value > high)
        usage(what, text);
    return value;
}

static void set_version(struct request *q, const char *text)
{
    if (strcmp(text, "newest") == 0)
        return;
    q->newest = false;
    if (strcmp(text, "all") == 0)
        return;
    q->first_version = q->last_version = (int)number("version", text, FAKE_OLDEST, FAKE_NEWEST);
}

static void set_log(const char *text)
{
    static const char *const levels[] = {"none", "warn", "info"};

    for (int i = 0; i < 3; i++)
        if (strcmp(text, levels[i]) == 0) {
            fake_log_level = i;
            return;
        }
    usage("log level", text);
}

static void add_env(struct fake_options *o, const char *text)
{
    const char *colon = strchr(text, ':');

    if (colon == NULL || strchr(colon, '=') == NULL || o->env_count == FAKE_MAX_ENV)
        usage("rank's variable", text);
    o->env[o->env_count++] = text;
}

enum {
    OPT_ENV = 200,
    OPT_CUDA,
    OPT_FUSE,
    OPT_EXCEPT = 256,
    OPT_KEEP,
    OPT_NO_SIZES,
    OPT_NETNS,
    OPT_HOOK,
    OPT_TOGETHER,
    OPT_VERBOSE,
    OPT_LOG,
    OPT_HELP
};

static const struct option long_options[] = {{"plugin", 1, NULL, 'p'},
                                             {"version", 1, NULL, 'v'},
                                             {"scenario", 1, NULL, 's'},
                                             {"pattern", 1, NULL, 's'},
                                             {"ranks", 1, NULL, 'n'},
                                             {"channels", 1, NULL, 'c'},
                                             {"depth", 1, NULL, 'd'},
                                             {"group", 1, NULL, 'g'},
                                             {"iterations", 1, NULL, 'i'},
                                             {"max-bytes", 1, NULL, 'b'},
                                             {"device", 1, NULL, 'D'},
                                             {"timeout", 1, NULL, 't'},
                                             {"seed", 1, NULL, 'S'},
                                             {"env", 1, NULL, OPT_ENV},
                                             {"cuda", 1, NULL, OPT_CUDA},
                                             {"fuse", 1, NULL, OPT_FUSE},
                                             {"log", 1, NULL, OPT_LOG},
                                             {"except", 1, NULL, OPT_EXCEPT},
                                             {"keep-order", 0, NULL, OPT_KEEP},
                                             {"no-sizes", 0, NULL, OPT_NO_SIZES},
                                             {"netns", 1, NULL, OPT_NETNS},
                                             {"hook", 1, NULL, OPT_HOOK},
                                             {"close-together", 0, NULL, OPT_TOGETHER},
                                             {"verbose", 0, NULL, OPT_VERBOSE},
                                             {"help", 0, NULL, OPT_HELP},
                                             {NULL, 0, NULL, 0}};

static void set_option(struct request *q, int opt, const char *value)
{
    struct fake_options *o = &q->options;

    switch (opt) {
    case 'p': o->plugin = value; break;
    case 'v': set_version(q, value); break;
    case 's': q->scenarios = value; break;
    case 'n': o->ranks = (int)number("ranks", value, 2, FAKE_MAX_RANKS); break;
    case 'c': o->channels = (int)number("channels", value, 1, FAKE_MAX_CHANNELS); break;
    case 'd': o->depth = (int)number("depth", value, 1, 32); break;
    case 'g': o->group = (int)number("group", value, 1, FAKE_MAX_GROUP); break;
    case 'i': o->iterations = (int)number("iterations", value, 1, 1000000); break;
    case 'b': o->max_bytes = (size_t)number("max-bytes", value, 0, 1L << 40); break;
    case 'D': o->device = (int)number("device", value, 0, 1000); break;
    case 't': o->timeout_s = (unsigned)number("timeout", value, 1, 86400); break;
    case 'S': o->seed = (unsigned)number("seed", value, 0, 1L << 31); break;
    case OPT_ENV: add_env(o, value); break;
    case OPT_CUDA: o->cuda = value; break;
    case OPT_FUSE: o->fuse = (int)number("fuse", value, 0, 8); break;
    case OPT_EXCEPT: q->except = value; break;
    case OPT_KEEP: o->keep_order = true; break;
    case OPT_TOGETHER: o->close_together = true; break;
    case OPT_NETNS: o->netns = value; break;
    case OPT_HOOK: o->hook = value; break;
    case OPT_NO_SIZES: o->no_sizes = true; break;
    case OPT_VERBOSE: o->verbose = true; break;
    case OPT_LOG: set_log(value); break;
    case OPT_HELP: print_help(); exit(0);
    default: exit(2);
    }
}

/* Is `name` one of the comma-separated words? */
static bool among(const char *words, const char *name)
{
    size_t length = strlen(name);

    for (const char *p = words; p && *p;) {
        size_t word = strcspn(p, ",");

        if (word == length && strncmp(p, name, word) == 0)
            return true;
        p += word + (p[word] == ',');
    }
    return false;
}

static void check_names(const char *words)
{
    char name[64];

    for (const char *p = words; p && *p;) {
        size_t word = strcspn(p, ",");
        bool known = word == 3 && strncmp(p, "all", 3) == 0;

        snprintf(name, sizeof(name), "%.*s", (int)word, p);
        for (size_t t = 0; t < FAKE_COUNT(tables); t++)
            for (size_t i = 0; i < tables[t]->count; i++)
                known |= strcmp(tables[t]->list[i].name, name) == 0;
        if (!known)
            usage("scenario", name);
        p += word + (p[word] == ',');
    }
}

/* The versions that the plugin exports, found in a child so that the parent stays clean. */
static unsigned exported_versions(const char *plugin)
{
    struct fake_net net;
    char why[512];
    unsigned mask = 0;
    int fds[2];
    pid_t pid;

    if (pipe(fds) != 0 || (pid = fork()) < 0)
        return 0;
    if (pid == 0) {
        if (fake_net_open(plugin, 0, &net, why, sizeof(why)) != 0)
            fprintf(stderr, "fakenccl: cannot open the plugin: %s\n", why);
        else
            for (int v = FAKE_OLDEST; v <= FAKE_NEWEST; v++)
                mask |= fake_net_has(&net, v) ? 1u << v : 0;
        _exit(write(fds[1], &mask, sizeof(mask)) == (ssize_t)sizeof(mask) ? 0 : 1);
    }
    close(fds[1]);
    if (read(fds[0], &mask, sizeof(mask)) != (ssize_t)sizeof(mask))
        mask = 0;
    close(fds[0]);
    waitpid(pid, NULL, 0);
    return mask;
}

struct tally {
    int right;
    int wrong;
    int skipped;
    char names[512]; /* of the wrong ones */
};

static void count(struct tally *tally, int version, const struct scenario *s, int rc)
{
    size_t used = strlen(tally->names);

    tally->right += rc == 0;
    tally->skipped += rc == 77;
    if (rc == 0 || rc == 77)
        return;
    tally->wrong++;
    snprintf(tally->names + used, sizeof(tally->names) - used, "%sv%d %s", used > 0 ? ", " : "",
             version, s->name);
}

static void play_version(const struct request *q, int version, struct tally *tally)
{
    static const char *const words[] = {"right", "WRONG", "skipped"};
    struct fake_options o = q->options;

    o.version = version;
    for (size_t t = 0; t < FAKE_COUNT(tables); t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct scenario *s = &tables[t]->list[i];
            bool all = among(q->scenarios, "all") && !s->extra && !among(q->except, s->name);
            uint64_t start = fake_now_ns();
            int rc;

            if (!all && !among(q->scenarios, s->name))
                continue;
            rc = s->run(&o, s);
            count(tally, version, s, rc);
            printf("v%-2d %-18s %-7s %6.2f s\n", version, s->name,
                   words[rc == 0    ? 0
                         : rc == 77 ? 2
                                    : 1],
                   (double)(fake_now_ns() - start) / 1e9);
            fflush(stdout);
        }
}

int main(int argc, char **argv)
{
    struct request q = {
        .options = {.ranks = 4, .channels = 1, .max_bytes = 16 << 20, .timeout_s = 30},
        .scenarios = "all",
        .first_version = FAKE_OLDEST,
        .last_version = FAKE_NEWEST,
        .newest = true};
    struct tally tally = {0};
    unsigned mask;
    int opt;

    while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        set_option(&q, opt, optarg);
    if (!q.options.plugin || optind != argc) {
        print_help();
        return 2;
    }
    check_names(q.scenarios);
    check_names(q.except);
    mask = exported_versions(q.options.plugin);
    if (!mask)
        return 1;
    for (int v = q.last_version; v >= q.first_version; v--) {
        if (!((mask >> v) & 1))
            continue;
        play_version(&q, v, &tally);
        if (q.newest)
            break;
    }
    if (tally.wrong)
        printf("wrong: %s\n", tally.names);
    printf("%d right, %d wrong, %d skipped\n", tally.right, tally.wrong, tally.skipped);
    if (tally.wrong)
        return 1;
    if (tally.right)
        return 0;
    /* The last line is what a report of skipped tests shows. */
    fflush(stderr);
    printf("skipped: %s\n",
           fake_skip_reason[0] ? fake_skip_reason : "the plugin has none of these versions");
    return 77;
}
