/*
 * Real NCCL as two ranks that pose as two nodes, so that every byte goes through a net plugin.
 *   check   Braid only: every collective over sizes from 0 elements to 256 MiB, results compared with the host's, communicators
 *           made and destroyed twice; fails unless NCCL's own log says that it uses the network Braid
 *   sweep   Braid, and NCCL beside it, under up to nine settings, one of the tables below (--table), no rows
 *   steps   NCCL and Braid, two settings each, with a profiler plugin in NCCL: files for nccl_steps.py in the folder
 *   bench   Braid beside NCCL's own sockets (default and six settings by hand), all processes alive at once and taking turns;
 *           writes one JSON row a case. "braid" is what users get, the net plugin and the tuner; "net_alone" is without the tuner
 * The parent has no CUDA and no NCCL in it. Every answer of a rank is waited for with a bound; who is late is named and
 * everything is ended. The two ranks use GPU 0 and 1, or one GPU (then under MPS: tests/gpu/run_nccl_sockets.sh).
 */
#include "nccl_sockets.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ROUNDS 11
#define MAX_CASES  32

const char *const operation_names[OPERATIONS] = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv"};

/* A way to communicate: two processes and their environment. */
struct transport {
    const char *name;
    const char *threads; /* of NCCL's sockets or Braid's I/O threads, NULL: the default */
    const char *sockets; /* NCCL's sockets a thread, Braid's streams */
    const char *speed;   /* BRAID_SOCKET_SPEED_MBPS, NULL: the default */
    const char *also;    /* NAME=VALUE, NULL: nothing else */
    int braid;           /* NET_ALONE or WITH_TUNER; 0: NCCL's own sockets */
    pid_t pids[RANKS];
    int fds[RANKS];
    char logs[RANKS][512];
};

enum { NET_ALONE = 1, WITH_TUNER = 2 };

#define MAX_TRANSPORTS 9
#define DEFAULT        1
#define FIRST_HAND     2
#define HANDS          6

static const struct transport bench_table[MAX_TRANSPORTS] = {
    {.name = "braid", .braid = WITH_TUNER},
    {.name = "default"},
    {.name = "1x1", .threads = "1", .sockets = "1"},
    {.name = "2x4", .threads = "2", .sockets = "4"},
    {.name = "4x4", .threads = "4", .sockets = "4"},
    {.name = "8x4", .threads = "8", .sockets = "4"},
    {.name = "4x8", .threads = "4", .sockets = "8"},
    {.name = "8x8", .threads = "8", .sockets = "8"},
    {.name = "net_alone", .braid = NET_ALONE}};

/*
 * What NCCL is told of the interface's speed, with the tuner and without. On Hopper and Blackwell NCCL makes of 10 Gbit/s 2 channels, of
 * 39 (also on Ampere) and 400 it makes 4, of 80 it makes 8.
 */
static const struct transport channels_table[MAX_TRANSPORTS] = {
    {.name = "s10", .speed = "10000", .braid = NET_ALONE},
    {.name = "s10t", .speed = "10000", .braid = WITH_TUNER},
    {.name = "s39", .speed = "39000", .braid = NET_ALONE},
    {.name = "s39t", .speed = "39000", .braid = WITH_TUNER},
    {.name = "s80", .speed = "80000", .braid = NET_ALONE},
    {.name = "s80t", .speed = "80000", .braid = WITH_TUNER},
    {.name = "s400", .speed = "400000", .braid = NET_ALONE},
    {.name = "s400t", .speed = "400000", .braid = WITH_TUNER}};

/*
 * Streams and threads where NCCL has more channels: t16s2c4 is 16 threads, 2 streams, 4 channels; auto is what users get with 2 channels,
 * auto4 and auto8 with more.
 */
static const struct transport streams_table[MAX_TRANSPORTS] = {
    {.name = "auto", .braid = NET_ALONE},
    {.name = "auto4", .speed = "400000", .braid = NET_ALONE},
    {.name = "auto8", .speed = "80000", .braid = NET_ALONE},
    {.name = "t16s2c4", .threads = "16", .sockets = "2", .speed = "400000", .braid = NET_ALONE},
    {.name = "t16s4c4", .threads = "16", .sockets = "4", .speed = "400000", .braid = NET_ALONE},
    {.name = "t16s1c8", .threads = "16", .sockets = "1", .speed = "80000", .braid = NET_ALONE},
    {.name = "t16s2c8", .threads = "16", .sockets = "2", .speed = "80000", .braid = NET_ALONE},
    {.name = "t16s3c8", .threads = "16", .sockets = "3", .speed = "80000", .braid = NET_ALONE},
    {.name = "2x4", .threads = "2", .sockets = "4"}};

/* What NCCL's own variables change, for Braid and under two of NCCL's settings by hand: p and nch for all-to-all, c and b for the others. */
static const struct transport nccl_table[MAX_TRANSPORTS] = {
    {.name = "auto", .braid = NET_ALONE},
    {.name = "p512", .also = "NCCL_P2P_NET_CHUNKSIZE=524288", .braid = NET_ALONE},
    {.name = "nch4", .also = "NCCL_NCHANNELS_PER_NET_PEER=4", .braid = NET_ALONE},
    {.name = "nch8", .also = "NCCL_NCHANNELS_PER_NET_PEER=8", .braid = NET_ALONE},
    {.name = "c16", .also = "NCCL_MIN_NCHANNELS=16", .braid = NET_ALONE},
    {.name = "b2m", .also = "NCCL_BUFFSIZE=2097152", .braid = NET_ALONE},
    {.name = "2x4", .threads = "2", .sockets = "4"},
    {.name = "2x4nch8", .threads = "2", .sockets = "4", .also = "NCCL_NCHANNELS_PER_NET_PEER=8"},
    {.name = "4x8nch8", .threads = "4", .sockets = "8", .also = "NCCL_NCHANNELS_PER_NET_PEER=8"}};

/* "best" is NCCL's fastest setting by hand at 4 MiB in the committed rows; s10 makes 2 channels of Braid's 8. */
static struct transport steps_table[MAX_TRANSPORTS] = {
    {.name = "default"},
    {.name = "best", .threads = "2", .sockets = "4"},
    {.name = "braid", .braid = NET_ALONE},
    {.name = "braid_s10", .speed = "10000", .braid = NET_ALONE}};

static const struct {
    const char *name;
    const struct transport *table;
} tables[] = {{"channels", channels_table}, {"streams", streams_table}, {"nccl", nccl_table}};

static struct transport transports[MAX_TRANSPORTS];
static int transports_count;

struct bench_case {
    int op;
    uint64_t bytes;
    int iterations;
    int rounds;
    double us[MAX_TRANSPORTS][MAX_ROUNDS];
    double cpu[MAX_TRANSPORTS][MAX_ROUNDS];
};

static struct {
    const char *program;
    const char *plugin;
    const char *table;  /* of sweep */
    int profiled;       /* steps: NCCL gets the profiler plugin that lies beside the net plugin */
    const char *folder; /* for NCCL's logs and the rows */
    double seconds;     /* budget of the benchmark rounds */
    uint64_t max_bytes;
    int answer_s;
    int nccl_version;
    int gpus;
    char gpu[256];
    double tcp_GBps;
    double pcie_GBps;
} run = {.plugin = "build/dev/lib/libnccl-net-braid.so",
         .table = "streams",
         .folder = "build/gpu-results",
         .seconds = 100,
         .max_bytes = (uint64_t)512 << 20,
         .answer_s = 60};

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void end_all(void)
{
    for (int t = 0; t < transports_count; t++)
        for (int r = 0; r < RANKS; r++)
            if (transports[t].pids[r] > 0) {
                kill(transports[t].pids[r], SIGKILL);
                waitpid(transports[t].pids[r], NULL, 0);
                transports[t].pids[r] = 0;
            }
}

static void on_signal(int number)
{
    end_all();
    _exit(128 + number);
}

/* The last lines of a rank's NCCL log, for a person who has to find out why. */
static void show_log(const char *path)
{
    char line[600];
    char last[12][600] = {{0}};
    int count = 0;
    FILE *file = fopen(path, "r");

    while (file && fgets(line, sizeof(line), file))
        memcpy(last[count++ % 12], line, sizeof(line));
    for (int i = count > 12 ? count - 12 : 0; i < count; i++)
        fprintf(stderr, "    %s", last[i % 12]);
    if (file)
        fclose(file);
}

__attribute__((noreturn)) static void die(const struct transport *t, int rank, const char *what,
                                          const char *why)
{
    fprintf(stderr, "nccl_sockets: FAILED: %s, rank %d, %s: %s\n", t->name, rank, what, why);
    for (int r = 0; r < RANKS; r++) {
        fprintf(stderr, "  end of %s:\n", t->logs[r]);
        show_log(t->logs[r]);
    }
    end_all();
    exit(1);
}

/* The tuner and the profiler lie beside the net plugin. */
static void set_neighbours(const struct transport *t)
{
    char path[1024];
    const char *slash = strrchr(run.plugin, '/');
    int length = slash ? (int)(slash + 1 - run.plugin) : 0;

    snprintf(path, sizeof(path), "%.*slibnccl-tuner-braid.so", length, run.plugin);
    setenv("NCCL_TUNER_PLUGIN", t->braid == WITH_TUNER ? path : "none", 1);
    snprintf(path, sizeof(path), "%.*slibnccl_steps.so", length, run.plugin);
    setenv("NCCL_PROFILER_PLUGIN", run.profiled ? path : "none", 1);
    snprintf(path, sizeof(path), "%s/steps-%s", run.folder, t->name);
    setenv("NCCL_STEPS_FILE", path, 1);
    setenv("NCCL_STEPS_SECTIONS", "1", 1);
}

static void set_environment(const struct transport *t, int rank)
{
    char host[32];

    snprintf(host, sizeof(host), "node%d", rank);
    setenv("NCCL_HOSTID", host, 1);
    setenv("LOCAL_WORLD_SIZE", "2", 0); /* as launchers say; else those of other columns count */
    setenv("NCCL_MNNVL_ENABLE", "0", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_CUMEM_HOST_ENABLE", "0", 0);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,ENV", 0);
    setenv("NCCL_DEBUG_FILE", t->logs[rank], 1);
    setenv("NCCL_NET_PLUGIN", t->braid ? run.plugin : "none", 1);
    setenv("NCCL_NET_PLUGIN_REF_COUNT", "1", 1);
    set_neighbours(t);
    unsetenv("NCCL_NET");
    if (!t->braid)
        setenv("NCCL_NET", "Socket", 1);
    if (t->threads && t->braid) {
        setenv("BRAID_SOCKET_THREADS", t->threads, 1);
        setenv("BRAID_SOCKET_STREAMS", t->sockets, 1);
    } else if (t->threads) {
        setenv("NCCL_SOCKET_NTHREADS", t->threads, 1);
        setenv("NCCL_NSOCKS_PERTHREAD", t->sockets, 1);
    }
    if (t->speed)
        setenv("BRAID_SOCKET_SPEED_MBPS", t->speed, 1);
    if (t->also)
        putenv((char *)(uintptr_t)t->also);
}

static void start_rank(struct transport *t, int rank)
{
    char number[16];
    char bytes[32];
    int fds[2];

    snprintf(t->logs[rank], sizeof(t->logs[rank]), "%s/nccl-%s-%d.log", run.folder, t->name, rank);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        die(t, rank, "start", strerror(errno));
    t->pids[rank] = fork();
    if (t->pids[rank] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        set_environment(t, rank);
        dup2(fds[1], COMMAND_FD);
        snprintf(number, sizeof(number), "%d", rank);
        snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)run.max_bytes);
        execl("/proc/self/exe", run.program, "--rank", number, "--max-bytes", bytes, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    t->fds[rank] = fds[0];
}

static void tell(struct transport *t, int rank, const struct command *c)
{
    if (write(t->fds[rank], c, sizeof(*c)) != (ssize_t)sizeof(*c))
        die(t, rank, "command", strerror(errno));
}

static void hear(struct transport *t, int rank, const char *what, struct answer *a)
{
    struct pollfd p = {.fd = t->fds[rank], .events = POLLIN};
    char why[128];
    int rc = poll(&p, 1, run.answer_s * 1000);

    if (rc == 0) {
        snprintf(why, sizeof(why), "no answer for %d s", run.answer_s);
        die(t, rank, what, why);
    }
    if (rc < 0 || read(t->fds[rank], a, sizeof(*a)) != (ssize_t)sizeof(*a))
        die(t, rank, what, "the process ended");
    if (a->failed)
        die(t, rank, what, a->text);
}

/* The same command to both ranks; the slower one's time, the sum of their CPU time. */
static struct answer both(struct transport *t, const struct command *c, const char *what)
{
    struct answer a[RANKS];

    for (int r = 0; r < RANKS; r++)
        tell(t, r, c);
    for (int r = 0; r < RANKS; r++)
        hear(t, r, what, &a[r]);
    if (a[1].us > a[0].us)
        a[0].us = a[1].us;
    a[0].cpu_s += a[1].cpu_s;
    return a[0];
}

static void make_communicator(struct transport *t)
{
    struct command c = {.verb = VERB_ID};
    struct answer a;

    tell(t, 0, &c);
    hear(t, 0, "ncclGetUniqueId", &a);
    c.verb = VERB_INIT;
    memcpy(c.id, a.id, sizeof(c.id));
    a = both(t, &c, "ncclCommInitRank");
    run.nccl_version = a.nccl_version;
    if (a.gpus) {
        run.gpus = a.gpus;
        memcpy(run.gpu, a.text, sizeof(run.gpu));
    }
}

/* NCCL's own word on the network that it uses, from both logs. */
static void must_use(struct transport *t, const char *network)
{
    char line[1024];
    char want[64];
    char said[1024];

    snprintf(want, sizeof(want), "Using network %s", network);
    for (int r = 0; r < RANKS; r++) {
        FILE *file = fopen(t->logs[r], "r");
        int found = 0;

        snprintf(said, sizeof(said), "NCCL's log does not name a network");
        while (file && fgets(line, sizeof(line), file)) {
            char *at = strstr(line, "Using network ");

            if (!at)
                continue;
            found |= strncmp(at, want, strlen(want)) == 0;
            snprintf(said, sizeof(said), "NCCL's log says '%.*s'", (int)strcspn(at, "\n"), at);
        }
        if (file)
            fclose(file);
        if (!found)
            die(t, r, want, said);
    }
}

static void stop(struct transport *t)
{
    struct command c = {.verb = VERB_DESTROY};

    both(t, &c, "ncclCommDestroy");
    c.verb = VERB_EXIT;
    both(t, &c, "exit");
    for (int r = 0; r < RANKS; r++) {
        int status = 0;

        close(t->fds[r]);
        waitpid(t->pids[r], &status, 0);
        t->pids[r] = 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            die(t, r, "exit", "the process did not end well");
    }
}

static uint64_t smallest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void check_sizes(struct transport *t, int *checked)
{
    static const uint64_t counts[] = {
        0, 1, 2, 3, 17, 1000, 4097, 65536, 1 << 20, (1 << 20) + 1, 1 << 24, 1 << 26};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (int op = 0; op < OPERATIONS; op++)
            for (int is_bytes = 0; is_bytes < 2; is_bytes++) {
                int wide = op == ALL_GATHER || op == REDUCE_SCATTER || op == ALL_TO_ALL ? RANKS : 1;
                uint64_t size = is_bytes ? 1 : 4;
                uint64_t limit = smallest(run.max_bytes, (uint64_t)256 << 20);
                struct command c = {.verb = VERB_CHECK,
                                    .op = op,
                                    .is_bytes = is_bytes,
                                    .count = smallest(counts[i], limit / size / (uint64_t)wide)};

                /* Bytes exist for odd sizes; large ones are checked as floats. */
                if (is_bytes && counts[i] > 65536)
                    continue;
                both(t, &c, operation_names[op]);
                ++*checked;
            }
}

static int use_table(const struct transport *table)
{
    memcpy(transports, table, sizeof(transports));
    for (transports_count = 0; transports_count < MAX_TRANSPORTS; transports_count++) {
        if (!transports[transports_count].name)
            break;
        for (int r = 0; r < RANKS; r++)
            transports[transports_count].fds[r] = -1;
    }
    return transports_count;
}

static int check(void)
{
    struct transport *t = &transports[0];
    struct command destroy = {.verb = VERB_DESTROY};
    double begin = now_s();
    int checked = 0;

    use_table(bench_table);
    for (int r = 0; r < RANKS; r++)
        start_rank(t, r);
    make_communicator(t);
    must_use(t, "Braid");
    check_sizes(t, &checked);
    both(t, &destroy, "ncclCommDestroy");
    make_communicator(t);
    check_sizes(t, &checked);
    stop(t);
    must_use(t, "Braid");
    printf("check: %d collectives right over network Braid on %s (%d GPU(s)), NCCL %d, "
           "communicators made twice, %.0f s\n",
           checked, run.gpu, run.gpus, run.nccl_version, now_s() - begin);
    return 0;
}

static int make_cases(struct bench_case *cases)
{
    static const int ops[] = {ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL};
    static const struct {
        uint64_t bytes;
        int iterations;
    } bulk[] = {{4 << 20, 20}, {64 << 20, 4}, {(uint64_t)512 << 20, 1}};
    static const uint64_t small[] = {8, 1024, 8192, 65536};
    int count = 0;

    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
        cases[count++] =
            (struct bench_case){.op = ALL_REDUCE, .bytes = small[i], .iterations = 200};
    for (size_t b = 0; b < sizeof(bulk) / sizeof(bulk[0]); b++)
        for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++)
            if (bulk[b].bytes <= run.max_bytes)
                cases[count++] = (struct bench_case){
                    .op = ops[o], .bytes = bulk[b].bytes, .iterations = bulk[b].iterations};
    return count;
}

static void measure_limits(void)
{
    static const int streams[] = {1, 2, 4, 8};
    struct command c = {.verb = VERB_PCIE};

    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        double rate = raw_tcp_rate(streams[i], 0.5) / 1e9;

        if (rate > run.tcp_GBps)
            run.tcp_GBps = rate;
    }
    /* Both ranks at once: they may share the GPU's link. The slower one counts. */
    for (int r = 0; r < RANKS; r++)
        tell(&transports[0], r, &c);
    for (int r = 0; r < RANKS; r++) {
        struct answer a;

        hear(&transports[0], r, "copies", &a);
        if (r == 0 || a.us < run.pcie_GBps)
            run.pcie_GBps = a.us;
    }
}

/* One round: every case once on every transport, another transport first each time. */
static void one_round(struct bench_case *cases, int count, int round, double deadline)
{
    for (int k = 0; k < count; k++) {
        struct bench_case *b = &cases[k];

        if (now_s() > deadline)
            return;
        for (int i = 0; i < transports_count; i++) {
            int t = (i + round + k) % transports_count;
            struct command c = {
                .verb = VERB_TIME, .op = b->op, .bytes = b->bytes, .iterations = b->iterations};
            struct answer a = both(&transports[t], &c, operation_names[b->op]);

            b->us[t][b->rounds] = a.us;
            b->cpu[t][b->rounds] = a.cpu_s;
        }
        b->rounds++;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values, int count, double *low, double *high)
{
    double sorted[MAX_ROUNDS];

    memcpy(sorted, values, sizeof(double) * (size_t)count);
    qsort(sorted, (size_t)count, sizeof(double), by_value);
    if (low)
        *low = sorted[count / 4];
    if (high)
        *high = sorted[count - 1 - count / 4];
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* Bytes that each rank sends for one operation on two ranks. */
static double wire_bytes(const struct bench_case *b)
{
    return b->op == ALL_REDUCE ? (double)b->bytes : (double)b->bytes / 2;
}

/* Of NCCL's settings by hand, also where another quantity than time is compared. */
static int fastest_by_hand(const struct bench_case *b)
{
    int best = FIRST_HAND;

    for (int t = FIRST_HAND; t < FIRST_HAND + HANDS; t++)
        if (median(b->us[t], b->rounds, NULL, NULL) < median(b->us[best], b->rounds, NULL, NULL))
            best = t;
    return best;
}

static void write_machine(FILE *file)
{
    fprintf(file, "\"machine\": \"%s%s%s\", \"versions\": {\"nccl\": \"%d.%d.%d\"}",
            run.gpus > 1 ? "2x " : "1x ", run.gpu[0] ? run.gpu : "GPU",
            run.gpus > 1 ? "" : ", two ranks under MPS", run.nccl_version / 10000,
            run.nccl_version / 100 % 100, run.nccl_version % 100);
}

static void write_row(FILE *file, const struct bench_case *b, const char *metric, double scale,
                      int inverse, int limited)
{
    double middle[MAX_TRANSPORTS];
    double low = 0;
    double high = 0;
    int best = fastest_by_hand(b);
    const char *commit = getenv("COMMIT");
    char date[16];
    time_t seconds = time(NULL);

    for (int t = 0; t < transports_count; t++) {
        const double *values = strcmp(metric, "cpu_s_per_GiB") == 0 ? b->cpu[t] : b->us[t];

        middle[t] = median(values, b->rounds, t ? NULL : &low, t ? NULL : &high);
        middle[t] = inverse ? scale / middle[t] : middle[t] * scale;
    }
    strftime(date, sizeof(date), "%Y-%m-%d", gmtime(&seconds));
    fprintf(file,
            "{\"bench\": \"nccl_over_sockets\", \"case\": \"%s/%llu\", \"metric\": \"%s\", "
            "\"value\": %.4g, \"spread\": [%.4g, "
            "%.4g], \"runs\": %d, \"peers\": {\"nccl_default\": %.4g, \"nccl_best\": %.4g, "
            "\"braid_net_alone\": %.4g}, ",
            operation_names[b->op], (unsigned long long)b->bytes, metric, middle[0],
            inverse ? scale / high : low * scale, inverse ? scale / low : high * scale, b->rounds,
            middle[DEFAULT], middle[best], middle[FIRST_HAND + HANDS]);
    if (limited)
        fprintf(file, "\"limit\": %.4g, \"limit_name\": \"%s\", ",
                run.tcp_GBps < run.pcie_GBps ? run.tcp_GBps : run.pcie_GBps,
                run.tcp_GBps < run.pcie_GBps ? "raw TCP over loopback, several streams, both ways"
                                             : "PCIe copies, both ways");
    fprintf(file, "\"note\": \"nccl_best is %s (threads x sockets)\", ", transports[best].name);
    write_machine(file);
    fprintf(file, ", \"commit\": \"%s\", \"date\": \"%s\"}\n",
            commit && *commit ? commit : "unknown", date);
}

static void write_rows(const struct bench_case *cases, int count)
{
    char path[600];
    FILE *file;

    snprintf(path, sizeof(path), "%s/nccl_over_sockets.jsonl", run.folder);
    file = fopen(path, "w");
    for (int k = 0; file && k < count; k++) {
        const struct bench_case *b = &cases[k];

        if (b->rounds == 0)
            continue;
        if (b->bytes < (1 << 20)) {
            write_row(file, b, "time_us", 1, 0, 0);
            continue;
        }
        write_row(file, b, "busbw_GBps", wire_bytes(b) / 1e3, 1, 1);
        write_row(file, b, "cpu_s_per_GiB", (1 << 30) / wire_bytes(b), 0, 0);
    }
    if (!file || fclose(file) != 0)
        fprintf(stderr, "nccl_sockets: cannot write %s: %s\n", path, strerror(errno));
}

static void print_heads(const char *what)
{
    printf("%-26s %6s", what, "rounds");
    for (int t = 0; t < transports_count; t++)
        printf(" %8s", transports[t].name);
    printf("\n");
}

static void print_line(const struct bench_case *b, double values[][MAX_ROUNDS], double scale,
                       int inverse)
{
    char name[64];

    snprintf(name, sizeof(name), "%s/%llu", operation_names[b->op], (unsigned long long)b->bytes);
    printf("%-26s %6d", name, b->rounds);
    for (int t = 0; t < transports_count; t++) {
        double middle = median(values[t], b->rounds, NULL, NULL);

        printf(" %8.*f", inverse || scale == 1 ? 2 : 3, inverse ? scale / middle : scale * middle);
    }
    printf("\n");
}

static void print_table(struct bench_case *cases, int count)
{
    print_heads("us; GB/s if >= 1 MiB");
    for (int k = 0; k < count; k++)
        if (cases[k].rounds > 0 && cases[k].bytes < (1 << 20))
            print_line(&cases[k], cases[k].us, 1, 0);
        else if (cases[k].rounds > 0)
            print_line(&cases[k], cases[k].us, wire_bytes(&cases[k]) / 1e3, 1);
    print_heads("CPU s/GiB");
    for (int k = 0; k < count; k++)
        if (cases[k].rounds > 0 && cases[k].bytes >= (1 << 20))
            print_line(&cases[k], cases[k].cpu, (1 << 30) / wire_bytes(&cases[k]), 0);
    printf("limits: raw TCP both ways %.2f GB/s, PCIe copies both ways %.1f GB/s (each way)\n",
           run.tcp_GBps, run.pcie_GBps);
}

static void start_table(const struct transport *table)
{
    use_table(table);
    for (int t = 0; t < transports_count; t++)
        for (int r = 0; r < RANKS; r++)
            start_rank(&transports[t], r);
    for (int t = 0; t < transports_count; t++) {
        make_communicator(&transports[t]);
        must_use(&transports[t], transports[t].braid ? "Braid" : "Socket");
    }
}

static int measure(const struct transport *table)
{
    static struct bench_case cases[MAX_CASES];
    int count = make_cases(cases);
    double deadline;

    start_table(table);
    measure_limits();
    deadline = now_s() + run.seconds;
    for (int round = 0; round < MAX_ROUNDS && now_s() < deadline; round++) {
        one_round(cases, count, round, deadline);
        fprintf(stderr, "round %d, %.0f s left\n", round + 1, deadline - now_s());
    }
    if (table == bench_table)
        write_rows(cases, count);
    for (int t = 0; t < transports_count; t++)
        stop(&transports[t]);
    print_table(cases, count);
    return 0;
}

/* What nccl_steps.py says of its rows. */
static void write_about(void)
{
    char path[600];
    FILE *file;

    snprintf(path, sizeof(path), "%s/steps.json", run.folder);
    file = fopen(path, "w");
    if (file) {
        fprintf(file, "{");
        write_machine(file);
        fprintf(file, "}\n");
        fclose(file);
    }
}

/* Short rounds unprofiled, one with steps, one with kernels. All-to-all last, without: there NCCL counts otherwise on host and GPU. */
static int steps(void)
{
    static const struct {
        int op;
        uint64_t bytes;
        int iterations;
        int profiled;
    } list[] = {{ALL_REDUCE, 64 << 20, 8, 20},     {ALL_REDUCE, 8, 2000, 6000},
                {ALL_REDUCE, 8 << 10, 1200, 3000}, {ALL_REDUCE, 64 << 10, 500, 1500},
                {ALL_REDUCE, 4 << 20, 60, 200},    {ALL_TO_ALL, 4 << 20, 60, 150}};
    const char *also = getenv("STEPS_ALSO");

    run.profiled = 1;
    setenv("NCCL_SET_THREAD_NAME", "1", 1);
    if (also && *also)
        steps_table[4] = (struct transport){.name = "braid_also", .also = also, .braid = NET_ALONE};
    start_table(steps_table);
    for (size_t k = 0; k < sizeof(list) / sizeof(list[0]); k++)
        for (int round = 0; round < (list[k].op == ALL_TO_ALL ? 6 : 7); round++)
            for (int i = 0; i < transports_count; i++) {
                int pass = round < 5 ? PASS_THREADS : round == 5 ? PASS_STEPS : PASS_KERNELS;
                struct command c = {.verb = VERB_TIME,
                                    .op = list[k].op,
                                    .bytes = list[k].bytes,
                                    .pass = pass,
                                    .iterations =
                                        pass == PASS_STEPS ? list[k].profiled : list[k].iterations};

                both(&transports[(i + round) % transports_count], &c, operation_names[c.op]);
            }
    for (int t = 0; t < transports_count; t++)
        stop(&transports[t]);
    write_about();
    return 0;
}

static int sweep(void)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (strcmp(tables[i].name, run.table) == 0)
            return measure(tables[i].table);
    fprintf(stderr, "nccl_sockets: no table '%s'\n", run.table);
    return 2;
}

static void help(void)
{
    printf(
        "Usage: nccl_sockets check|bench|sweep|steps [--plugin PATH] [--folder PATH] [--seconds S] "
        "[--max-bytes N] [--answer S] [--table NAME]\n"
        "  --plugin     the net plugin (default build/dev/lib/libnccl-net-braid.so)\n"
        "  --folder     where NCCL's logs and nccl_over_sockets.jsonl go (default "
        "build/gpu-results)\n"
        "  --seconds    budget of the measured rounds (default 100)\n"
        "  --max-bytes  largest buffer (default 536870912)\n"
        "  --answer     seconds to wait for one answer of a rank (default 60)\n"
        "  --table      settings of a sweep: streams (default), channels or nccl\n"
        "NCCL_SOCKETS_LIBRARY names libnccl.so.2 when the loader does not find it. Exit: 0 "
        "right, 1 wrong, 2 usage.\n");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"plugin", 1, NULL, 'p'},    {"folder", 1, NULL, 'f'}, {"seconds", 1, NULL, 's'},
        {"max-bytes", 1, NULL, 'b'}, {"answer", 1, NULL, 'a'}, {"rank", 1, NULL, 'r'},
        {"table", 1, NULL, 't'},     {"help", 0, NULL, 'h'},   {NULL, 0, NULL, 0}};
    int rank = -1;
    int opt;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case 'p': run.plugin = optarg; break;
        case 'f': run.folder = optarg; break;
        case 's': run.seconds = atof(optarg); break;
        case 'b': run.max_bytes = strtoull(optarg, NULL, 10); break;
        case 'a': run.answer_s = atoi(optarg); break;
        case 't': run.table = optarg; break;
        case 'r': rank = atoi(optarg); break;
        default: help(); return opt == 'h' ? 0 : 2;
        }
    }
    if (rank >= 0)
        rank_main(rank, run.max_bytes);
    run.program = argv[0];
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGPIPE, SIG_IGN);
    if (optind + 1 == argc && strcmp(argv[optind], "check") == 0)
        return check();
    if (optind + 1 == argc && strcmp(argv[optind], "bench") == 0)
        return measure(bench_table);
    if (optind + 1 == argc && strcmp(argv[optind], "sweep") == 0)
        return sweep();
    if (optind + 1 == argc && strcmp(argv[optind], "steps") == 0)
        return steps();
    help();
    return 2;
}
