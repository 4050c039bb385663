/*
 * braid-netperf: measures net plugins beside each other and beside plain TCP, without NCCL and without a GPU. Any library that
 * exports ncclNetPlugin_v6..v12 will do. The processes of all targets stay alive and take turns, task by task and round by round;
 * medians are printed, rows of JSON are written when asked for. Ctrl-C (or SIGTERM) ends the measurement that is running, prints and
 * writes what has been measured so far, and makes the exit code 130.
 */
#include "netperf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "braid/version.h"
#include "tests/fakenccl/fake_net.h"
#include "tests/fakenccl/fake_util.h"

#define TASK_SECONDS 0.15 /* how long one measurement of one target should take */

static volatile sig_atomic_t interrupted;
static bool progress_open; /* the terminal's line shows how far we are */

static struct {
    struct target targets[MAX_TARGETS];
    int target_count;
    struct measured cases[MAX_TASKS];
    int case_count;
    struct settings settings;
    const char *patterns;
    const char *json;
    const char *transport;
    int rounds;
    double load_GBps;
    double idle_s;
    long bytes; /* only cases of this size; -1: all */
    bool raw;
} run = {.settings = {.comms = 4, .depth = 32, .timeout_s = 30, .pin = true},
         .patterns = "latency,bandwidth,both-ways,rate,cpu,calls",
         .transport = "socket",
         .rounds = 7,
         .load_GBps = 0.5,
         .idle_s = 10,
         .bytes = -1,
         .raw = true};

/* Again and again is like once: some programs signal a process and then its group. */
static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

uint32_t wait_task(struct control *control, uint32_t seq)
{
    for (unsigned waits = 0; control->seq == seq; waits++)
        usleep(waits < 20 ? 200 : waits < 200 ? 2000 : 10000); /* hardly any time of who measures */
    return control->seq;
}

int side_processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

bool pin_side(int side)
{
    int half = side_processors() / 2;
    int number = 0;
    cpu_set_t all;
    cpu_set_t mine;

    if (half == 0 || sched_getaffinity(0, sizeof(all), &all) != 0)
        return false;
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && number++ / half == side)
            CPU_SET(cpu, &mine);
    return sched_setaffinity(0, sizeof(mine), &mine) == 0;
}

/* Connected TCP pairs over loopback for the raw target; its two processes inherit them. */
static int make_pairs(struct target *t, int count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;
    int made = 0;

    if (listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        listen(listener, 64) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &length) == 0)
        for (; made < count; made++) {
            t->fds[0][made] = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(t->fds[0][made], (struct sockaddr *)&address, sizeof(address)) != 0)
                break;
            t->fds[1][made] = accept(listener, NULL, NULL);
            for (int side = 0; side < SIDES; side++) {
                setsockopt(t->fds[side][made], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                setsockopt(t->fds[side][made], IPPROTO_TCP, TCP_CONGESTION, "reno", 5);
            }
        }
    close(listener);
    return made == count ? 0 : -1;
}

static void start_target(struct target *t)
{
    t->control =
        mmap(NULL, sizeof(*t->control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t->control == MAP_FAILED || (!t->plugin && make_pairs(t, 2 * run.settings.comms) != 0)) {
        perror("braid-netperf: cannot set a target up");
        exit(1);
    }
    fflush(NULL);
    t->pid = fork();
    if (t->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_IGN);
        setenv("LOCAL_WORLD_SIZE", "2", 0); /* as launchers say; those of other targets rest */
        _exit(t->plugin ? plugin_job(t, &run.settings) : raw_job(t, &run.settings));
    }
}

/* Waits for both sides of `words` to reach `value`; false when the target is gone or late, or Ctrl-C was pressed. */
static bool wait_sides(struct target *t, _Atomic uint32_t *words, uint32_t value, double seconds)
{
    uint64_t start = fake_now_ns();

    while (words[0] != value || words[1] != value) {
        int status;

        if (interrupted)
            return false;
        if (waitpid(t->pid, &status, WNOHANG) == t->pid) {
            fprintf(stderr, "%sbraid-netperf: %s ended early\n", progress_open ? "\n" : "",
                    t->plugin ? t->plugin : "raw TCP");
            t->pid = 0;
            t->failed = true;
            return false;
        }
        if ((double)(fake_now_ns() - start) / 1e9 > seconds) {
            fprintf(stderr, "%sbraid-netperf: no answer from %s for %.0f s\n",
                    progress_open ? "\n" : "", t->plugin ? t->plugin : "raw TCP", seconds);
            t->failed = true;
            return false;
        }
        usleep(2000);
    }
    return true;
}

static double give_task(struct target *t, const struct task *task)
{
    struct control *c = t->control;
    uint32_t seq = c->seq + 1;

    c->task = *task;
    c->seq = seq;
    if (!wait_sides(t, c->done, seq, run.settings.timeout_s * 3 + task->seconds))
        return 0;
    return c->outcome[0].seconds > c->outcome[1].seconds ? c->outcome[0].seconds
                                                         : c->outcome[1].seconds;
}

bool has_cpu(int pattern)
{
    return pattern == BANDWIDTH || pattern == BOTH_WAYS || pattern == RING;
}

static double cpu_value(const struct task *task, const struct outcome outcome[SIDES])
{
    double bytes = (double)task->bytes * (double)task->messages * task->comms;

    if (task->pattern == RING)
        bytes = (double)task->bytes * (double)task->messages;
    else if (task->pattern != BANDWIDTH)
        bytes *= 2;
    return (outcome[0].cpu_s + outcome[1].cpu_s) / (bytes / (double)(1 << 30));
}

double task_value(const struct task *task, const struct outcome outcome[SIDES])
{
    double seconds =
        outcome[0].seconds > outcome[1].seconds ? outcome[0].seconds : outcome[1].seconds;
    double bytes = (double)task->bytes * (double)task->messages * task->comms;
    double busier = outcome[0].cpu_s > outcome[1].cpu_s ? outcome[0].cpu_s : outcome[1].cpu_s;
    double longest = outcome[0].longest_call_s > outcome[1].longest_call_s
                         ? outcome[0].longest_call_s
                         : outcome[1].longest_call_s;

    switch (task->pattern) {
    case LATENCY: return seconds / (double)task->messages / 2 * 1e6;
    case RING: return seconds / (double)task->messages * 1e6;
    case RATE: return (double)task->messages * task->comms / seconds;
    case CPU: return cpu_value(task, outcome);
    case IDLE: return busier / seconds * 100;
    case CALLS: return longest * 1e6;
    default: return bytes / seconds / 1e9;
    }
}

/* Microseconds an operation that the side spent in calls of one kind which spent more in all of them. */
static double call_value(const struct task *task, enum call kind,
                         const struct outcome outcome[SIDES])
{
    double most = 0, value = 0;

    for (int side = 0; side < SIDES; side++) {
        const double *calls = outcome[side].calls_s;
        double all = calls[ISEND] + calls[IRECV] + calls[TEST];
        if (all > most)
            value = calls[kind] / (double)task->messages * 1e6;
        most = all > most ? all : most;
    }
    return value;
}

/* How many messages fill TASK_SECONDS on this target. */
static uint64_t calibrate(struct target *t, const struct task *task)
{
    struct task probe = *task;
    double seconds;

    probe.messages = task->bytes >= 1 << 20 ? 8 : 500;
    if (task->pattern == IDLE)
        return 1;
    if (task->pattern == CPU)
        return (uint64_t)(0.5 * task->load_GBps * 1e9 / (double)task->bytes / task->comms) + 1;
    seconds = give_task(t, &probe);
    if (seconds <= 0)
        return probe.messages;
    seconds = TASK_SECONDS / seconds * (double)probe.messages;
    return seconds < 8 ? 8 : seconds > 500000 ? 500000 : (uint64_t)seconds;
}

static bool skipped(const struct target *t, const struct task *task)
{
    return t->failed || (!t->plugin && (task->pattern == CALLS || task->pattern == IDLE ||
                                        task->pattern == RING));
}

static void measure_one(struct measured *m, int index, int round)
{
    struct target *t = &run.targets[index];

    if (skipped(t, &m->task))
        return;
    if (round == 0)
        m->messages[index] = calibrate(t, &m->task);
    m->task.messages = m->messages[index];
    if (give_task(t, &m->task) <= 0)
        return;
    m->cpu[index][m->rounds[index]] = cpu_value(&m->task, t->control->outcome);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        m->calls[kind][index][m->rounds[index]] = call_value(&m->task, kind, t->control->outcome);
    m->values[index][m->rounds[index]++] = task_value(&m->task, t->control->outcome);
}

static void progress(int round, int index)
{
    const struct task *t = &run.cases[index].task;

    if (!isatty(STDERR_FILENO) && index)
        return;
    fprintf(stderr, "%sround %d of %d, case %d of %d: %s %zu bytes, %d connection(s)      %s",
            isatty(STDERR_FILENO) ? "\r" : "", round + 1, run.rounds, index + 1, run.case_count,
            pattern_names[t->pattern], t->bytes, t->comms, isatty(STDERR_FILENO) ? "" : "\n");
    fflush(stderr);
    progress_open = isatty(STDERR_FILENO);
}

static void measure_all(void)
{
    for (int round = 0; round < run.rounds && !interrupted; round++)
        for (int i = 0; i < run.case_count && !interrupted; i++) {
            if (run.cases[i].task.pattern == IDLE && round)
                continue;
            progress(round, i);
            for (int k = 0; k < run.target_count && !interrupted; k++)
                measure_one(&run.cases[i], (k + round) % run.target_count, round);
        }
    if (progress_open)
        fprintf(stderr, "\n");
    progress_open = false;
    if (interrupted)
        fprintf(stderr, "interrupted: what follows is what was measured so far\n");
}

static bool among(const char *words, const char *name)
{
    size_t length = strlen(name);

    for (const char *p = words; *p;) {
        size_t word = strcspn(p, ",");

        if (word == length && strncmp(p, name, word) == 0)
            return true;
        p += word + (p[word] == ',');
    }
    return false;
}

static void add_case(int pattern, size_t bytes, int comms)
{
    if (!among(run.patterns, pattern_names[pattern]) || comms > run.settings.comms ||
        (run.bytes >= 0 && (size_t)run.bytes != bytes) || run.case_count == MAX_TASKS)
        return;
    run.cases[run.case_count++].task = (struct task){.pattern = pattern,
                                                     .bytes = bytes,
                                                     .comms = comms,
                                                     .load_GBps = run.load_GBps,
                                                     .seconds = pattern == IDLE ? run.idle_s : 0};
}

static void make_cases(void)
{
    static const size_t latency[] = {8, 64, 1024, 8192, 65536};
    static const size_t bulk[] = {65536, 1 << 20, 16 << 20};
    static const int comms[] = {1, 4};

    for (size_t i = 0; i < FAKE_COUNT(latency); i++)
        add_case(LATENCY, latency[i], 1);
    for (int pattern = BANDWIDTH; pattern <= BOTH_WAYS; pattern++)
        for (size_t i = 0; i < FAKE_COUNT(bulk); i++)
            for (size_t c = 0; c < FAKE_COUNT(comms); c++)
                add_case(pattern, bulk[i], comms[c]);
    for (int pattern = BANDWIDTH; run.case_count == 0 && run.bytes > 0 && pattern <= BOTH_WAYS;
         pattern++)
        for (size_t c = 0; c < FAKE_COUNT(comms); c++)
            add_case(pattern, (size_t)run.bytes, comms[c] < 4 ? comms[c] : run.settings.comms);
    add_case(RATE, 64, 1);
    add_case(RATE, 64, 4);
    add_case(CPU, 1 << 20, 1);
    add_case(CPU, 1 << 20, 4);
    add_case(RING, run.bytes > 0 ? (size_t)run.bytes : 4 << 20, run.settings.comms);
    add_case(CALLS, 16 << 20, 1);
    add_case(IDLE, 8, run.settings.comms);
}

static void help(void)
{
    printf("Usage: braid-netperf --plugin PATH|NAME [--plugin OTHER ...] [options]\n"
           "  --plugin P[@V[:D]]  net plugin to measure, by path or name, at interface version V "
           "(0: its\n"
           "                   newest), with at most D messages in flight in the rate pattern;\n"
           "                   the first one is the subject of the rows, the others are its peers\n"
           "  --set NAME=VALUE in the environment of the plugin named last\n"
           "  --patterns LIST  of latency,bandwidth,both-ways,rate,cpu,calls,ring,idle (default: "
           "all but the last two)\n"
           "  --bytes N        only cases with messages of this size; a size of yours in the "
           "bandwidth patterns\n"
           "  --comms N        connections each way, up to 8 (default 4; cases use 1 and 4)\n"
           "  --rounds N       measurements of a case, the median counts (default 7)\n"
           "  --depth N        messages in flight on a connection in the rate pattern (default 32; "
           "elsewhere 8, as NCCL)\n"
           "  --room N         latency: receives have room for N bytes; NCCL's LL posts 65536\n"
           "  --think US       latency, ring: a side takes so long to answer, as a GPU does; is in "
           "the "
           "result\n"
           "  --load GBps      offered in each direction in the cpu pattern (default 0.5)\n"
           "  --idle S         seconds of the idle pattern (default 10)\n"
           "  --no-raw         leave plain TCP out\n"
           "  --no-pin         let the sides run on all processors; else each has a half of "
           "them\n"
           "  --json FILE      write one row a case; --transport NAME is its first part (default "
           "socket)\n"
           "  --netns A,B      network namespaces of the two sides of a plugin (root); plain TCP "
           "stays "
           "here\n"
           "  --timeout S      bound of every wait (default 30)\n"
           "  --version        prints the version\n"
           "Latency is one way. Bandwidth counts one direction. A plugin is polled as NCCL polls "
           "it, by a thread that yields.\n");
}

static void misuse(const char *fmt, ...)
{
    va_list args;

    fprintf(stderr, "braid-netperf: ");
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, " (--help lists the options)\n");
    exit(2);
}

/* The whole of `text` as a number from low to high. */
static double number(const char *option, const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= low && value <= high))
        misuse("--%s %s: a number from %g to %g is expected", option, text, low, high);
    return value;
}

static void add_target(char *plugin)
{
    struct target *t = &run.targets[run.target_count];
    char *at = plugin ? strrchr(plugin, '@') : NULL;

    if (run.target_count == MAX_TARGETS) {
        fprintf(stderr, "braid-netperf: at most %d targets, plain TCP included\n", MAX_TARGETS);
        exit(2);
    }
    if (at && !strchr(at, '/')) { /* not a folder's name with '@' in it */
        char *colon = strchr(at, ':');

        *at = 0;
        if (colon)
            *colon = 0;
        t->version = (int)number("plugin ...@", at + 1, 0, 12);
        t->depth = colon ? (int)number("plugin ...@V:", colon + 1, 1, 32) : 0;
    }
    t->plugin = plugin;
    run.target_count++;
}

static void check_patterns(const char *words)
{
    for (const char *p = words; *p;) {
        size_t length = strcspn(p, ",");
        bool known = false;

        for (int i = 0; i < PATTERNS; i++)
            known |= strlen(pattern_names[i]) == length && !strncmp(p, pattern_names[i], length);
        if (!known)
            misuse("unknown pattern \"%.*s\"", (int)length, p);
        p += length + (p[length] == ',');
    }
}

/* Rows that could not be written after minutes of measuring would be a pity. */
static void check_writable(const char *path)
{
    FILE *file = fopen(path, "a");

    if (!file) {
        fprintf(stderr, "braid-netperf: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    fclose(file);
}

static void add_setting(const char *setting)
{
    struct target *t;

    if (run.target_count == 0)
        misuse("--set %s: it belongs behind the --plugin that it is for", setting);
    t = &run.targets[run.target_count - 1];
    if (!strchr(setting, '=') || t->set_count == MAX_SET)
        misuse("--set %s: NAME=VALUE is expected, at most %d a plugin", setting, MAX_SET);
    t->set[t->set_count++] = setting;
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"plugin", 1, NULL, 'p'},  {"patterns", 1, NULL, 'P'},  {"comms", 1, NULL, 'c'},
        {"rounds", 1, NULL, 'r'},  {"depth", 1, NULL, 'd'},     {"load", 1, NULL, 'l'},
        {"idle", 1, NULL, 'i'},    {"no-raw", 0, NULL, 'R'},    {"json", 1, NULL, 'j'},
        {"timeout", 1, NULL, 't'}, {"transport", 1, NULL, 'T'}, {"netns", 1, NULL, 'n'},
        {"set", 1, NULL, 's'},     {"no-pin", 0, NULL, 'N'},    {"bytes", 1, NULL, 'b'},
        {"help", 0, NULL, 'h'},    {"version", 0, NULL, 'V'},   {"room", 1, NULL, 'o'},
        {"think", 1, NULL, 'k'},   {NULL, 0, NULL, 0}};
    int opt;
    int index = 0;

    while ((opt = getopt_long(argc, argv, "h", options, &index)) != -1) {
        const char *name = options[index].name;

        switch (opt) {
        case 'p': add_target(optarg); break;
        case 'b': run.bytes = (long)number("bytes", optarg, 0, 1 << 30); break;
        case 's': add_setting(optarg); break;
        case 'N': run.settings.pin = false; break;
        case 'P': run.patterns = optarg; break;
        case 'c': run.settings.comms = (int)number(name, optarg, 1, MAX_COMMS); break;
        case 'r': run.rounds = (int)number(name, optarg, 1, MAX_ROUNDS); break;
        case 'd': run.settings.depth = (int)number(name, optarg, 1, 32); break;
        case 'l': run.load_GBps = number(name, optarg, 0.001, 1000); break;
        case 'o': run.settings.room = (size_t)number(name, optarg, 0, 1 << 20); break;
        case 'k': run.settings.think_us = number(name, optarg, 0, 10000); break;
        case 'i': run.idle_s = number(name, optarg, 0.1, 3600); break;
        case 'R': run.raw = false; break;
        case 'j': run.json = optarg; break;
        case 't': run.settings.timeout_s = (unsigned)number(name, optarg, 1, 3600); break;
        case 'n': run.settings.netns = optarg; break;
        case 'T': run.transport = optarg; break;
        case 'V': puts("braid-netperf " BRAID_VERSION_STRING); exit(0);
        case 'h': help(); exit(0);
        default: exit(2); /* getopt said why */
        }
    }
    if (optind != argc)
        misuse("\"%s\" is no option; plugins are named by --plugin", argv[optind]);
    if (!run.target_count)
        misuse("--plugin is missing");
    check_patterns(run.patterns);
    if (run.json)
        check_writable(run.json);
}

static void stop_all(void)
{
    struct task end = {.messages = 0};

    for (int i = 0; i < run.target_count; i++) {
        struct target *t = &run.targets[i];
        uint64_t start = fake_now_ns();

        if (t->pid <= 0)
            continue;
        t->control->task = end;
        t->control->seq++;
        while (waitpid(t->pid, NULL, WNOHANG) == 0) {
            if (interrupted || fake_now_ns() - start > 5 * FAKE_NS_PER_S)
                kill(t->pid, SIGKILL);
            usleep(1000);
        }
    }
}

int main(int argc, char **argv)
{
    int rc = 0;

    parse(argc, argv);
    if (run.raw)
        add_target(NULL);
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    for (int i = 0; i < run.target_count; i++)
        start_target(&run.targets[i]);
    for (int i = 0; i < run.target_count; i++)
        wait_sides(&run.targets[i], run.targets[i].control->ready, 1, run.settings.timeout_s);
    if (run.targets[0].failed && !interrupted) {
        stop_all();
        return 1;
    }
    make_cases();
    measure_all();
    stop_all();
    print_table(run.cases, run.case_count, run.targets, run.target_count);
    if (run.json)
        rc = write_rows(run.json, run.transport, run.cases, run.case_count, run.targets,
                        run.target_count);
    for (int i = 0; i < run.target_count; i++)
        rc |= run.targets[i].failed;
    return interrupted ? 130 : rc ? 1 : 0;
}
