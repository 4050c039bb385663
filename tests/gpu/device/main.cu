/*
 * Runner of the device library's GPU tests. Every case gets fresh rank processes, so that one that hangs or crashes takes nothing
 * with it. Prints one line a case and a table of failures last; writes result rows for what was measured.
 * Usage: gpu_device [--list] [--latency] [--death] [--in-place] [--rows FILE] [CASE ...]
 */
#include "tests/gpu/device/harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static const struct test_case *const tables[] = {host_cases, data_cases,   sync_cases,
                                                 tile_cases, graph_cases,  piece_cases,
                                                 fail_cases, latency_cases};
struct look {
    int gpus, driver;
    char name[128];
};

static int visible_gpus;
static int in_place; /* no processes: for tools that do not follow a fork */
static char gpu_name[128] = "unknown GPU";
static int driver_version;

double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int fail(struct rank *r, const char *file, int line, const char *format, ...)
{
    const char *base = strrchr(file, '/');
    char text[360];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    printf("    rank %d: %s:%d: %s\n", r->rank, base ? base + 1 : file, line, text);
    fflush(stdout);
    if (r->report->failed++ == 0)
        snprintf(r->report->first, sizeof(r->report->first), "rank %d: %s:%d: %s", r->rank,
                 base ? base + 1 : file, line, text);
    return 0;
}

void measured(struct rank *r, const char *name, double value, double low, double high, double peer,
              int runs)
{
    struct report *report = r->report;
    int i = report->values;

    if (i >= 16)
        return;
    snprintf(report->name[i], sizeof(report->name[i]), "%s", name);
    report->value[i] = value;
    report->low[i] = low;
    report->high[i] = high;
    report->peer[i] = peer;
    report->runs[i] = runs;
    report->values++;
}

int settle(struct rank *r, double seconds, int healthy)
{
    double end = now_s() + seconds;
    struct braid_devcomm_error reason;
    struct verdict v;
    char text[256];
    cudaError_t e;
    int before = r->report->failed;

    while ((e = cudaStreamQuery(r->stream)) == cudaErrorNotReady) {
        if (now_s() > end) {
            fail(r, __FILE__, __LINE__, "kernels did not end within %.1f s", seconds);
            braid_comm_abort(r->comm); /* so that the rank can end */
            end = now_s() + 30;
        }
        usleep(50);
    }
    if (e != cudaSuccess)
        fail(r, __FILE__, __LINE__, "stream: %s", cudaGetErrorString(e));
    if (healthy && braid_comm_error(r->comm, &reason) != 0)
        fail(r, __FILE__, __LINE__, "communicator: %s",
             braid_comm_error_text(&reason, text, sizeof(text)));
    memset(&v, 0, sizeof(v));
    CUDA(r, cudaMemcpyAsync(&v, r->verdict, sizeof(v), cudaMemcpyDeviceToHost, r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    CUDA(r, cudaMemsetAsync(r->verdict, 0, sizeof(v), r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    if (v.bad != 0)
        fail(r, __FILE__, __LINE__,
             "%u wrong values; the first at line %u of the case, round %u, index %u: expected %llu "
             "(0x%llx), seen %llu "
             "(0x%llx)",
             v.bad, v.where, v.round, v.index, (unsigned long long)v.expected,
             (unsigned long long)v.expected, (unsigned long long)v.seen,
             (unsigned long long)v.seen);
    return r->report->failed == before;
}

void poison(struct rank *r)
{
    CUDA(r, cudaMemsetAsync(braid_window_address(r->window, r->rank), POISON, WINDOW_BYTES,
                            r->stream));
    CUDA(r, cudaMemsetAsync(r->dst, POISON, WINDOW_BYTES, r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    EXPECT(r, braid_comm_sync(r->comm) == 0);
}

void setup(struct rank *r, uint64_t timeout_ms, uint32_t first_epoch)
{
    struct braid_bootstrap callbacks = boot_callbacks(&r->boot);
    struct braid_comm_config config;
    int rc;

    CUDA(r, cudaSetDevice(r->gpu));
    CUDA(r, cudaFree(0));
    CUDA(r, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    CUDA(r, cudaMalloc((void **)&r->verdict, sizeof(*r->verdict)));
    CUDA(r, cudaMalloc((void **)&r->src, WINDOW_BYTES));
    CUDA(r, cudaMalloc((void **)&r->dst, WINDOW_BYTES));
    CUDA(r, cudaMemsetAsync(r->verdict, 0, sizeof(*r->verdict), r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    if (timeout_ms == 0)
        return;
    braid_comm_config_init(&config);
    config.timeout_ns = timeout_ms * 1000000ull;
    config.first_epoch = first_epoch;
    rc = braid_comm_create(&r->comm, &callbacks, &config);
    if (!EXPECT(r, rc == 0, "braid_comm_create: %s", strerror(-rc)))
        return;
    rc = braid_window_alloc(r->comm, WINDOW_BYTES, &r->window);
    if (!EXPECT(r, rc == 0, "braid_window_alloc: %s", strerror(-rc)))
        return;
    r->c = braid_comm_device(r->comm);
    r->w = braid_window_device(r->window);
}

struct start {
    const struct test_case *test;
    struct rank rank;
};

static void *rank_main(void *argument)
{
    struct start *s = (struct start *)argument;
    struct rank *r = &s->rank;
    int rc;

    r->option = s->test->option;
    setup(r, (s->test->flags & CASE_NO_SETUP) ? 0 : s->test->timeout_ms, s->test->first_epoch);
    if (r->report->failed == 0)
        s->test->run(r);
    if (r->comm != NULL) {
        rc = braid_comm_destroy(r->comm);
        EXPECT(r, rc == 0, "braid_comm_destroy: %s", strerror(-rc));
    }
    r->report->done = 1;
    fflush(stdout);
    return NULL;
}

/* The first GPU's name and the number of GPUs. */
static void ask_gpus(struct look *look)
{
    struct cudaDeviceProp properties;

    if (cudaGetDeviceCount(&look->gpus) != cudaSuccess)
        look->gpus = 0;
    cudaDriverGetVersion(&look->driver);
    if (look->gpus > 0 && cudaGetDeviceProperties(&properties, 0) == cudaSuccess)
        snprintf(look->name, sizeof(look->name), "%s", properties.name);
}

/* Asked in a process of its own, because the runner must not touch CUDA before it forks; except when it never forks. */
static void look_at_gpus(void)
{
    struct look *look = (struct look *)mmap(NULL, sizeof(struct look), PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = in_place ? -1 : fork();

    if (pid <= 0)
        ask_gpus(look);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    visible_gpus = look->gpus;
    driver_version = look->driver;
    if (look->name[0] != '\0')
        snprintf(gpu_name, sizeof(gpu_name), "%s", look->name);
}

/* Waits for the processes; whoever is left after the bound is killed. */
static int reap(pid_t *pids, int count, int bound_s)
{
    double end = now_s() + bound_s;
    int left = count, crashed = 0, status;

    while (left > 0 && now_s() < end) {
        left = 0;
        for (int i = 0; i < count; i++) {
            if (pids[i] <= 0)
                continue;
            if (waitpid(pids[i], &status, WNOHANG) == pids[i]) {
                crashed += WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL;
                pids[i] = 0;
            } else {
                left++;
            }
        }
        usleep(1000);
    }
    for (int i = 0; i < count; i++) {
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], &status, 0);
        }
    }
    return crashed > 0 ? -1 : left;
}

/* Runs ranks first .. first + count - 1 of a case in this process: one as it is, several as threads. */
static void run_ranks(const struct test_case *test, struct boot_area *area, struct report *reports,
                      int first, int count)
{
    static struct start starts[BOOT_RANKS];
    pthread_t threads[BOOT_RANKS];

    memset(starts, 0, sizeof(starts));
    for (int i = first; i < first + count; i++) {
        struct rank *r = &starts[i].rank;

        starts[i].test = test;
        r->rank = i;
        r->ranks = test->ranks;
        r->gpu = i % visible_gpus;
        r->gpus = visible_gpus;
        r->report = &reports[i];
        r->boot.area = area;
        r->boot.rank = i;
        r->boot.timeout_ms = 10000;
    }
    if (count == 1) {
        rank_main(&starts[first]);
        return;
    }
    for (int i = first; i < first + count; i++)
        pthread_create(&threads[i], NULL, rank_main, &starts[i]);
    for (int i = first; i < first + count; i++)
        pthread_join(threads[i], NULL);
}

/* 0, or how many ranks had to be killed, or -1 when one crashed. */
static int run_case(const struct test_case *test, struct report *reports)
{
    struct boot_area *area = boot_area_new(test->ranks);
    int together = in_place || (test->flags & CASE_THREADS);
    int processes = together ? 1 : test->ranks, left = 0;
    pid_t pids[BOOT_RANKS] = {0};

    memset(reports, 0, sizeof(*reports) * BOOT_RANKS);
    fflush(stdout);
    if (in_place) {
        run_ranks(test, area, reports, 0, test->ranks);
    } else {
        for (int p = 0; p < processes; p++) {
            pids[p] = fork();
            if (pids[p] == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                run_ranks(test, area, reports, together ? 0 : p, together ? test->ranks : 1);
                _exit(0);
            }
        }
        left = reap(pids, processes, test->bound_s);
    }
    boot_area_free(area);
    return left;
}

/* The verdict of a case in one line; returns nonzero when it failed. */
static int judge(const struct test_case *test, const struct report *reports, int left, char *line,
                 size_t bytes)
{
    int failed = 0, unfinished = -1;

    for (int i = 0; i < test->ranks; i++) {
        failed += reports[i].failed;
        if (!reports[i].done && !(test->flags & CASE_DEATH) && unfinished < 0)
            unfinished = i;
    }
    if (failed == 0 && left == 0 && unfinished < 0)
        return 0;
    line[0] = '\0';
    for (int i = 0; i < test->ranks && line[0] == '\0'; i++) {
        if (reports[i].failed > 0)
            snprintf(line, bytes, "%s", reports[i].first);
    }
    if (left != 0 || unfinished >= 0) {
        size_t n = strlen(line);

        snprintf(line + n, bytes - n, "%s%s", n ? "; " : "",
                 left > 0   ? "did not end within its bound and was killed"
                 : left < 0 ? "a rank crashed"
                            : "a rank ended early");
    }
    return 1;
}

static void write_rows(FILE *rows, const struct test_case *test, const struct report *report)
{
    const char *commit = getenv("COMMIT") ? getenv("COMMIT") : "unknown";
    time_t now = time(NULL);
    char date[16], machine[200];
    const char *dot;

    strftime(date, sizeof(date), "%Y-%m-%d", gmtime(&now));
    snprintf(machine, sizeof(machine),
             visible_gpus > 1 ? "%dx %s NVLink" : "%dx %s, ranks share it under MPS", visible_gpus,
             gpu_name);
    for (int i = 0; i < report->values; i++) {
        dot = strrchr(report->name[i], ':'); /* case:metric */
        fprintf(rows,
                "{\"bench\": \"device_latency\", \"case\": \"%.*s\", \"metric\": \"%s\", "
                "\"value\": %.4f, \"spread\": [%.4f, "
                "%.4f], \"runs\": %d, ",
                dot ? (int)(dot - report->name[i]) : 40, report->name[i], dot ? dot + 1 : "lat_us",
                report->value[i], report->low[i], report->high[i], report->runs[i]);
        if (report->peer[i] != 0)
            fprintf(rows, "\"limit\": %.4f, \"limit_name\": \"bare\", ", report->peer[i]);
        fprintf(rows,
                "\"machine\": \"%s\", \"versions\": {\"cuda\": \"%d.%d\", \"driver\": \"%d.%d\"}, "
                "\"commit\": \"%s\", \"date\": \"%s\"}\n",
                machine, CUDART_VERSION / 1000, CUDART_VERSION % 100 / 10, driver_version / 1000,
                driver_version % 100 / 10, commit, date);
    }
    fflush(rows);
}

static int wanted(const struct test_case *test, unsigned kinds, char **names, int count)
{
    if (count == 0)
        return (test->flags & (CASE_LATENCY | CASE_DEATH | CASE_SMALL)) == kinds;
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], test->name) == 0)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct report *reports =
        (struct report *)mmap(NULL, sizeof(struct report) * BOOT_RANKS, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char summary[16384] = "", line[900];
    unsigned kinds = 0;
    FILE *rows = NULL;
    int list = 0, first = 1, passed = 0, failed = 0, skipped = 0;

    for (; first < argc && argv[first][0] == '-'; first++) {
        if (strcmp(argv[first], "--list") == 0)
            list = 1;
        else if (strcmp(argv[first], "--latency") == 0)
            kinds = CASE_LATENCY;
        else if (strcmp(argv[first], "--death") == 0)
            kinds = CASE_DEATH;
        else if (strcmp(argv[first], "--in-place") == 0)
            in_place = 1;
        else if (strcmp(argv[first], "--rows") == 0 && first + 1 < argc)
            rows = fopen(argv[++first], "a");
        else
            return fprintf(stderr, "usage: gpu_device [--list] [--latency] [--death] [--rows FILE] "
                                   "[CASE ...]\n"),
                   2;
    }
    if (!list)
        look_at_gpus();
    if (!list && visible_gpus == 0)
        return printf("skipped: no GPU\n"), 77;
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const struct test_case *test = tables[t]; test->name != NULL; test++) {
            double begin = now_s();
            int left;

            if (list)
                printf("%-24s %d ranks, at most %d s%s\n", test->name, test->ranks, test->bound_s,
                       test->flags & CASE_LATENCY ? ", latency"
                       : test->flags & CASE_DEATH ? ", death"
                                                  : "");
            if (list || !wanted(test, kinds, argv + first, argc - first))
                continue;
            if ((test->flags & CASE_TWO_GPUS) && visible_gpus < 2) {
                printf("skip  %-24s needs two GPUs\n", test->name);
                skipped++;
                continue;
            }
            left = run_case(test, reports);
            if (judge(test, reports, left, line, sizeof(line))) {
                size_t n = strlen(summary);

                failed++;
                printf("FAIL  %-24s %5.1f s\n", test->name, now_s() - begin);
                snprintf(summary + n, sizeof(summary) - n, "FAIL  %-20s %s\n", test->name, line);
            } else {
                passed++;
                printf("ok    %-24s %5.1f s\n", test->name, now_s() - begin);
            }
            if (reports[0].values > 0 && rows != NULL)
                write_rows(rows, test, &reports[0]);
            for (int i = 0; i < reports[0].values; i++)
                printf("      %-36s %8.3f  [%.3f, %.3f]  bare %.3f\n", reports[0].name[i],
                       reports[0].value[i], reports[0].low[i], reports[0].high[i],
                       reports[0].peer[i]);
            fflush(stdout);
        }
    }
    printf("%s%d passed, %d failed, %d skipped on %d GPU(s) %s\n", summary, passed, failed, skipped,
           visible_gpus, gpu_name);
    return failed != 0;
}
