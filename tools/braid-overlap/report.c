/* Reports, see report.h. */
#include "tools/braid-overlap/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double median(const struct variant *v)
{
    return v ? stats_median(&v->us) : NAN;
}

/* The numbers of a shape by name. */
struct numbers {
    double a, b_nccl, b_engine, b_sm, b_fastest, c, d, best, e;
    struct verdict verdict;
};

static void collect(struct bench *b, struct numbers *n)
{
    struct variant *fastest = bench_fastest(b, ROLE_B), *best = bench_fastest(b, ROLE_D);

    n->a = median(bench_find(b, "product"));
    n->b_nccl = median(bench_find(b, "nccl"));
    n->b_engine = median(bench_find(b, "copy engine"));
    n->b_sm = median(bench_find(b, "16 SMs"));
    n->b_fastest = median(fastest);
    n->c = median(bench_find(b, "serial, nccl"));
    n->d = median(bench_default(b));
    n->best = best ? median(best) : n->d;
    n->e = median(bench_find(b, "default, products only"));
    n->verdict = judge(n->a, n->b_nccl, n->b_fastest, n->c, n->d);
}

void report_head(const struct session *s)
{
    printf(
        "%d ranks on %s, %s, graphs of %d, median of %d rounds, slower rank, us\n"
        "B: nccl, copy engine, 16 SMs. efficiency = max(A, fastest B) / D of the default choice. "
        "! = the serial check failed, row void\n"
        "Below a row: D - A is what cutting the product costs and what the copies and waits beside "
        "it "
        "cost\n",
        s->ranks, s->gpu.name, dtype_name(s->options->dtype), s->options->repeats,
        s->options->rounds);
    printf("%-8s %-17s %7s %7s %7s %7s %7s %7s %6s %6s  %s\n", "", "M,N,K", "A", "B nccl", "B ce",
           "B sm", "C", "D", "eff.", "C/D", "setting");
}

static const char *setting_text(struct bench *b, char *text, size_t bytes)
{
    struct variant *v = bench_default(b);
    struct braid_gemm_info info;

    if (v == NULL || v->gemm == NULL || braid_gemm_describe(v->gemm, &info) != 0)
        return "?";
    setting_name(&info.settings, text, bytes);
    return text;
}

static void print_row(struct bench *b, const struct numbers *n)
{
    char dims[40], text[64];

    snprintf(dims, sizeof(dims), "%ld,%ld,%ld", (long)b->shape.m, (long)b->shape.n,
             (long)b->shape.k);
    printf("%-8s %-17s %7.1f %7.1f %7.1f %7.1f %7.1f %7.1f %5.3f%s %6.3f  %s\n",
           op_name(b->shape.op), dims, n->a, n->b_nccl, n->b_engine, n->b_sm, n->c, n->d,
           n->verdict.efficiency, n->verdict.sound || isnan(n->c) ? " " : "!", n->verdict.gain,
           setting_text(b, text, sizeof(text)));
}

static double mhz(const struct variant *v)
{
    return v ? stats_median(&v->mhz) : NAN;
}

static void print_other(struct bench *b, const struct variant *v, const struct numbers *n)
{
    struct braid_gemm_info info;
    char name[80];
    double d = median(v), ideal = n->a > n->b_fastest ? n->a : n->b_fastest, e;

    snprintf(name, sizeof(name), "%s, products", v->name);
    e = median(bench_find(b, name));
    printf("    %-34s %8.1f  %.3f", v->name, d, ideal / d);
    if (!isnan(e))
        printf("  cutting %+.1f, company %+.1f, %.0f MHz", e - n->a, d - e, mhz(v));
    if (b->s->options->also_count > 0 && braid_gemm_describe(v->gemm, &info) == 0)
        for (int i = 0; i < BRAID_GEMM_MAX_ALGOS && info.settings.algos[i].rows > 0; i++)
            printf(" %ld%s:%d", (long)info.settings.algos[i].rows,
                   info.settings.algos[i].adds ? "+" : "", info.settings.algos[i].proposal);
    putchar('\n');
}

/* Where the time above A went. */
static void print_reason(struct bench *b, const struct numbers *n)
{
    struct variant *v = bench_default(b);
    struct braid_gemm_info info;
    double tiles = ceil((double)b->shape.m / 128) * ceil((double)b->shape.n / 256);
    double sms = b->s->gpu.multiProcessorCount;

    printf("    %+.1f over A: cutting %+.1f (%.2f waves whole), company %+.1f; ", n->d - n->a,
           n->e - n->a, tiles / sms, n->d - n->e);
    if (v != NULL && braid_gemm_describe(v->gemm, &info) == 0 && info.model_us > 0)
        printf("model %.0f; ", info.model_us);
    printf("%.*s; clock A %.0f, D %.0f MHz\n", (int)strcspn(b->reason, ":,"), b->reason,
           mhz(bench_find(b, "product")), mhz(v));
    for (int i = 0; i < b->count; i++)
        if (b->variants[i].role == ROLE_D && !b->variants[i].is_default)
            print_other(b, &b->variants[i], n);
}

static void json_value(FILE *f, const char *name, double value, bool *first)
{
    if (isnan(value))
        return;
    fprintf(f, "%s\"%s\": %.3f", *first ? "" : ", ", name, value);
    *first = false;
}

/* "profile FOLDERS/FILE" without the folders: where a profile lies on this machine is nothing for a row. */
static void json_reason(FILE *f, const char *reason)
{
    bool profile = strncmp(reason, "profile ", 8) == 0;
    const char *slash = profile ? strrchr(reason, '/') : NULL;

    fprintf(f, "%s%s", slash != NULL ? "profile " : "", slash != NULL ? slash + 1 : reason);
}

static void json_row(struct bench *b, const char *setting, const char *metric, double value,
                     const struct stats *s, const struct numbers *n)
{
    struct session *session = b->s;
    FILE *f = session->json;
    char date[16];
    time_t now = time(NULL);
    struct tm day;
    double low = NAN, high = NAN;
    bool first = true;
    int gpus = 1;

    if (isnan(value))
        return;
    cudaGetDeviceCount(&gpus);
    strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &day));
    fprintf(f,
            "{\"bench\": \"overlap\", \"case\": \"%s/%ldx%ldx%ld/%s/%s\", \"metric\": \"%s\", "
            "\"value\": %.4f, \"runs\": %d",
            op_name(b->shape.op), (long)b->shape.m, (long)b->shape.n, (long)b->shape.k,
            dtype_name(session->options->dtype), setting, metric, value,
            s != NULL ? s->count : session->options->rounds);
    if (s != NULL) {
        stats_interval(s, &low, &high);
        if (n != NULL) { /* of a ratio to these times */
            double ideal = n->a > n->b_fastest ? n->a : n->b_fastest, slow = high;

            high = ideal / low;
            low = ideal / slow;
        }
        fprintf(f, ", \"spread\": [%.3f, %.3f]", low, high);
    }
    if (n != NULL) {
        fprintf(f, ", \"peers\": {");
        json_value(f, "serial", (n->a > n->b_fastest ? n->a : n->b_fastest) / n->c, &first);
        fprintf(f, "}, \"note\": \"");
        json_reason(f, b->reason);
        if (!isnan(mhz(bench_default(b))))
            fprintf(f, "; clock A %.0f, D %.0f MHz", mhz(bench_find(b, "product")),
                    mhz(bench_default(b)));
        if (!isnan(n->c))
            fprintf(f, "; serial check %.3f%s", n->verdict.serial_error,
                    n->verdict.sound ? "" : ", void");
        fputc('"', f);
    }
    fprintf(
        f,
        ", \"machine\": \"%dx %s%s\", \"versions\": {\"nccl\": \"%d.%d.%d\"}, \"commit\": \"%s\", "
        "\"date\": \"%s\"}\n",
        gpus,
        strncmp(session->gpu.name, "NVIDIA ", 7) == 0 ? session->gpu.name + 7 : session->gpu.name,
        gpus < session->ranks ? " under MPS" : " NVLink", session->nccl_version / 10000,
        session->nccl_version / 100 % 100, session->nccl_version % 100, session->options->commit,
        date);
}

static void json_shape(struct bench *b, const struct numbers *n)
{
    static const char *const roles[] = {"A_us", "B_us", "C_us", "D_us", "E_us"};

    for (int i = 0; i < b->count; i++) {
        struct variant *v = &b->variants[i];

        json_row(b, v->is_default ? "default" : v->name, roles[v->role], median(v), &v->us, NULL);
    }
    json_row(b, "default", "A_us", n->a, &bench_find(b, "product")->us, NULL);
    json_row(b, "default", "B_us", n->b_fastest, &bench_fastest(b, ROLE_B)->us, NULL);
    if (bench_find(b, "serial, nccl") != NULL)
        json_row(b, "default", "C_us", n->c, &bench_find(b, "serial, nccl")->us, NULL);
    json_row(b, "default", "efficiency_ratio", n->verdict.efficiency, &bench_default(b)->us, n);
    fflush(b->s->json);
}

void report_shape(struct bench *b)
{
    struct numbers n;

    collect(b, &n);
    print_row(b, &n);
    print_reason(b, &n);
    if (b->s->json != NULL)
        json_shape(b, &n);
    fflush(stdout);
}
