/* What braid-netperf prints and writes: medians a case and target; see netperf.h. No processes, no clocks. */
#include "netperf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

const char *const pattern_names[PATTERNS] = {"latency", "bandwidth", "both-ways", "rate",
                                             "cpu",     "idle",      "calls",     "ring"};
const char *const pattern_metrics[PATTERNS] = {"lat_us",          "bw_GBps",       "bw_GBps",
                                               "rate_per_s",      "cpu_s_per_GiB", "idle_pct",
                                               "longest_call_us", "time_us"};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* What is printed of a case: its value, or the CPU time that it took. */
enum metric { VALUE, CPU_TIME, IN_ISEND, IN_IRECV, IN_TEST, METRICS };

static bool has_metric(const struct measured *m, enum metric metric)
{
    return metric == VALUE ||
           (metric == CPU_TIME ? has_cpu(m->task.pattern) : m->task.pattern == RING);
}

static const char *metric_name(const struct measured *m, enum metric metric)
{
    static const char *const calls[CALL_KINDS] = {"in_isend_us", "in_irecv_us", "in_test_us"};

    return metric >= IN_ISEND ? calls[metric - IN_ISEND]
                              : pattern_metrics[metric == VALUE ? m->task.pattern : CPU];
}

/* Median of what one target gave, and the quartiles around it. */
static double middle(const struct measured *m, enum metric metric, int target, double *low,
                     double *high)
{
    double sorted[MAX_ROUNDS];
    int n = m->rounds[target];

    memcpy(sorted,
           metric == VALUE      ? m->values[target]
           : metric == CPU_TIME ? m->cpu[target]
                                : m->calls[metric - IN_ISEND][target],
           sizeof(double) * (size_t)n);
    qsort(sorted, (size_t)n, sizeof(double), by_value);
    *low = sorted[n / 4];
    *high = sorted[n - 1 - n / 4];
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static void print_line(const struct measured *m, enum metric metric, const struct target *targets,
                       int target_count)
{
    double first = 0;
    double last = 0;
    double ignored[2];

    printf("%-11s %9zu %5d %-15s", pattern_names[m->task.pattern], m->task.bytes, m->task.comms,
           metric_name(m, metric));
    for (int t = 0; t < target_count; t++) {
        if (!m->rounds[t]) {
            printf(" %16s", "-");
            continue;
        }
        last = middle(m, metric, t, &ignored[0], &ignored[1]);
        if (t == 0)
            first = last;
        printf(" %16.5g", last);
    }
    if (target_count > 1 && m->rounds[0] && m->rounds[target_count - 1] && last > 0)
        printf("   %.2f", first / last);
    printf("\n");
}

static bool was_measured(const struct measured *m, int target_count)
{
    bool any = false;

    for (int t = 0; t < target_count; t++)
        any |= m->rounds[t] > 0;
    return any;
}

void print_table(const struct measured *cases, int count, const struct target *targets,
                 int target_count)
{
    for (int t = 0; t < target_count; t++)
        if (targets[t].set_count > 0)
            printf("column %d: %s\n", t + 1, targets[t].control->name);
    printf("%-11s %9s %5s %-15s", "pattern", "bytes", "comms", "metric");
    for (int t = 0; t < target_count; t++) {
        char title[180];

        snprintf(title, sizeof(title), targets[t].plugin ? "%s v%d" : "%s",
                 targets[t].control->name, targets[t].control->version);
        printf(" %16.16s", title);
    }
    printf(target_count > 1 ? "   first/last\n" : "\n");
    for (int i = 0; i < count; i++)
        for (enum metric metric = VALUE; metric < METRICS; metric++)
            if (has_metric(&cases[i], metric) && was_measured(&cases[i], target_count))
                print_line(&cases[i], metric, targets, target_count);
}

/* A name as a key of a row: lower case, no blanks. */
static void print_key(FILE *file, const char *name)
{
    for (; *name; name++) {
        char c = *name;

        fputc(c >= 'A' && c <= 'Z'                               ? c - 'A' + 'a'
              : (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c
                                                                 : '_',
              file);
    }
}

static void print_machine(FILE *file)
{
    struct utsname u;
    char line[256];
    char model[256] = "CPU";
    FILE *info = fopen("/proc/cpuinfo", "r");

    while (info && fgets(line, sizeof(line), info))
        if (sscanf(line, "model name : %255[^\n]", model) == 1)
            break;
    if (info)
        fclose(info);
    uname(&u);
    fprintf(file, "\"machine\": \"%ld x %s\", \"versions\": {\"linux\": \"%s\"}, ",
            sysconf(_SC_NPROCESSORS_ONLN), model, u.release);
}

static void write_row(FILE *file, const char *transport, const struct measured *m,
                      enum metric metric, const struct target *targets, int target_count)
{
    const char *commit = getenv("COMMIT");
    const char *comma = "";
    double low;
    double high;
    double value = middle(m, metric, 0, &low, &high);
    char date[16];
    time_t now = time(NULL);
    double ignored[2];

    strftime(date, sizeof(date), "%Y-%m-%d", gmtime(&now));
    fprintf(file,
            "{\"bench\": \"netperf\", \"case\": \"%s/%s/%zu/%d\", \"metric\": \"%s\", \"value\": "
            "%.5g, \"spread\": [%.5g, %.5g], "
            "\"runs\": %d, \"peers\": {",
            transport, pattern_names[m->task.pattern], m->task.bytes, m->task.comms,
            metric_name(m, metric), value, low, high, m->rounds[0]);
    for (int t = 1; t < target_count; t++) {
        if (!m->rounds[t] || !targets[t].plugin)
            continue;
        fprintf(file, "%s\"", comma);
        print_key(file, targets[t].control->name);
        fprintf(file, "\": %.5g", middle(m, metric, t, &ignored[0], &ignored[1]));
        comma = ", ";
    }
    fprintf(file, "}, ");
    for (int t = 1; t < target_count; t++)
        if (m->rounds[t] && !targets[t].plugin)
            fprintf(file, "\"limit\": %.5g, \"limit_name\": \"raw TCP over loopback\", ",
                    middle(m, metric, t, &ignored[0], &ignored[1]));
    print_machine(file);
    fprintf(file, "\"commit\": \"%s\", \"date\": \"%s\"}\n", commit && *commit ? commit : "unknown",
            date);
}

int write_rows(const char *path, const char *transport, const struct measured *cases, int count,
               const struct target *targets, int target_count)
{
    FILE *file = fopen(path, "w");

    for (int i = 0; file && i < count; i++)
        for (enum metric metric = VALUE; metric < METRICS; metric++)
            if (cases[i].rounds[0] && has_metric(&cases[i], metric))
                write_row(file, transport, &cases[i], metric, targets, target_count);
    if (!file || fclose(file) != 0) {
        fprintf(stderr, "braid-netperf: %s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}
