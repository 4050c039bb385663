/*
 * braid-overlap: proves or refutes overlap on this machine, finds the best settings of the fused products, checks them.
 * One process a GPU, forked here before CUDA is touched.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "braid/version.h"
#include "tools/braid-overlap/bench.h"
#include "tools/braid-overlap/check.h"
#include "tools/braid-overlap/report.h"
#include "tools/braid-overlap/session.h"

enum { EXIT_USAGE = 2, EXIT_SKIP = 77 };

static const char usage[] =
    "Usage: braid-overlap [OPTIONS] [SHAPE ...]\n"
    "Measures A product alone, B communication alone, C serial, D overlapped, in CUDA graphs, "
    "interleaved, the slower rank.\n"
    "\n"
    "  SHAPE               ag_gemm:M,N,K  gemm_rs:M,N,K  gemm_ar:M,N,K; without one: the 18 "
    "standard boundaries\n"
    "  --model NAME        the tensor-parallel products of a layer: %s\n"
    "  --tokens N          rows for --model (8192)\n"
    "  --ranks N           processes, one a GPU (2); more than GPUs share them\n"
    "  --dtype bf16|fp16   (bf16)\n"
    "  --tune              search settings; the best go to the profile, which the default choice "
    "then uses\n"
    "  --also SETTING      measured beside the default choice, with tuned products, such as "
    "ring_exchange/4/taper; up to 12 times\n"
    "  --resume            --tune leaves out shapes that the profile has\n"
    "  --profile FILE      where settings are read and written (BRAID_OVERLAP_PROFILE)\n"
    "  --rounds N          measured rounds (11), --repeats N operations in a graph (3)\n"
    "  --json FILE         append result rows; --commit HASH goes into them\n"
    "  --check             correctness instead of speed; --timeout SECONDS of its waits (2)\n"
    "  --quiet             no progress bar\n"
    "  --version           prints the version\n"
    "Exit code: 0, 1 failed, 2 usage, 77 no GPU.\n";

static const struct option long_options[] = {
    {"version", no_argument, NULL, 'V'},       {"model", required_argument, NULL, 'm'},
    {"tokens", required_argument, NULL, 't'},  {"ranks", required_argument, NULL, 'r'},
    {"dtype", required_argument, NULL, 'd'},   {"tune", no_argument, NULL, 'T'},
    {"profile", required_argument, NULL, 'p'}, {"rounds", required_argument, NULL, 'n'},
    {"repeats", required_argument, NULL, 'N'}, {"json", required_argument, NULL, 'j'},
    {"commit", required_argument, NULL, 'C'},  {"check", no_argument, NULL, 'c'},
    {"timeout", required_argument, NULL, 'w'}, {"quiet", no_argument, NULL, 'q'},
    {"resume", no_argument, NULL, 'R'},        {"also", required_argument, NULL, 'a'},
    {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
};

struct request {
    struct options options;
    const char *model;
    int64_t tokens;
};

static int number(const char *text, int low, int high)
{
    char *end;
    long v = strtol(text, &end, 10);

    return *end != '\0' || v < low || v > high ? -1 : (int)v;
}

/* One option; false when its value makes no sense. */
static bool take(struct request *r, int option, const char *value)
{
    struct options *o = &r->options;

    switch (option) {
    case 'm': r->model = value; return true;
    case 't': r->tokens = number(value, 1, 1 << 24); return r->tokens > 0;
    case 'r': o->ranks = number(value, 1, RANKS_MAX); return o->ranks > 0;
    case 'n': o->rounds = number(value, 1, STATS_MAX); return o->rounds > 0;
    case 'N': o->repeats = number(value, 1, 100); return o->repeats > 0;
    case 'T': o->tune = true; return true;
    case 'a':
        return o->also_count < ALSO_MAX && setting_parse(value, &o->also[o->also_count++]) == 0;
    case 'R': o->resume = true; return true;
    case 'c': o->check = true; return true;
    case 'q': o->quiet = true; return true;
    case 'p': o->profile = value; return true;
    case 'j': o->json = value; return true;
    case 'C': o->commit = value; return true;
    case 'd':
        o->dtype = strcmp(value, "fp16") == 0 ? BRAID_GEMM_FP16 : BRAID_GEMM_BF16;
        return o->dtype == BRAID_GEMM_FP16 || strcmp(value, "bf16") == 0;
    case 'w': {
        int seconds = number(value, 1, 3600);

        o->check_timeout_ns = (uint64_t)seconds * 1000000000u;
        return seconds > 0;
    }
    default: return false;
    }
}

static int misuse(const char *fmt, ...)
{
    va_list args;

    fprintf(stderr, "braid-overlap: ");
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, " (--help lists the options)\n");
    return EXIT_USAGE;
}

static int add_shapes(struct request *r, int argc, char **argv)
{
    struct options *o = &r->options;
    size_t count = 0;
    int rc = 0;

    if (r->model != NULL)
        rc = shapes_of_model(r->model, r->tokens, o->ranks, o->shapes, SHAPES_MAX, &count);
    if (rc != 0)
        return misuse("--model %s: there are %s", r->model, shapes_models());
    for (int i = optind; i < argc; i++) {
        if (count == SHAPES_MAX)
            return misuse("more than %d shapes", SHAPES_MAX);
        if (shape_parse(argv[i], &o->shapes[count++]) != 0)
            return misuse("\"%s\" is no shape, such as ag_gemm:4096,7168,8192", argv[i]);
    }
    if (count == 0)
        count = shapes_standard(o->shapes, SHAPES_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct shape *shape = &o->shapes[i];

        if (shape->m % o->ranks || shape->n % 8 || shape->k % 8)
            return misuse("%s:%ld,%ld,%ld: M must be a multiple of the ranks (%d), N and K of 8",
                          op_name(shape->op), (long)shape->m, (long)shape->n, (long)shape->k,
                          o->ranks);
    }
    o->shape_count = (int)count;
    return 0;
}

static int measure_one(struct session *s, int i)
{
    const struct shape *shape = &s->options->shapes[i];
    struct bench b;
    char text[64];
    int rc;

    snprintf(text, sizeof(text), "%s %ld,%ld,%ld", op_name(shape->op), (long)shape->m,
             (long)shape->n, (long)shape->k);
    progress(s, i, s->options->shape_count, text);
    rc = ranks_agree(s->self, bench_run(&b, s, shape));
    if (rc == 0 && s->rank == 0) {
        if (!s->options->quiet)
            fputs("\r\033[K", stderr);
        report_shape(&b);
    }
    if (rc != 0 && s->rank == 0)
        fprintf(stderr, "braid-overlap: %s: %s\n", text, strerror(-rc));
    bench_close(&b);
    return rc;
}

/* A shape that fails does not stop the others; two in a row do, because then the GPU has probably failed. */
static int measure_all(struct session *s)
{
    int failed = 0, first = 0;

    if (s->rank == 0)
        report_head(s);
    for (int i = 0; i < s->options->shape_count && failed < 2; i++) {
        int rc = measure_one(s, i);

        first = first ? first : rc;
        failed = rc ? failed + 1 : 0;
    }
    return first;
}

static int rank_main(struct ranks_self *self, void *context)
{
    struct request *r = context;
    struct session s;
    int rc = session_open(&s, &r->options, self);

    if (rc == 0)
        rc = r->options.check ? check_run(&s) : measure_all(&s);
    session_close(&s);
    return rc;
}

int main(int argc, char **argv)
{
    struct request r = {.options = {.ranks = 2,
                                    .rounds = 11,
                                    .repeats = 3,
                                    .commit = "unknown",
                                    .check_timeout_ns = 2000000000u},
                        .tokens = 8192};
    int option, index = 0, rc;

    while ((option = getopt_long(argc, argv, "h", long_options, &index)) != -1) {
        if (option == 'h') {
            printf(usage, shapes_models());
            return EXIT_SUCCESS;
        }
        if (option == 'V') {
            puts("braid-overlap " BRAID_VERSION_STRING);
            return EXIT_SUCCESS;
        }
        if (option == '?') /* getopt said which */
            return EXIT_USAGE;
        if (!take(&r, option, optarg))
            return misuse("--%s %s: no such value", long_options[index].name, optarg);
    }
    rc = add_shapes(&r, argc, argv);
    if (rc != 0)
        return rc;
    if (r.options.profile != NULL)
        setenv("BRAID_OVERLAP_PROFILE", r.options.profile, 1);
    rc = ranks_run(r.options.ranks, rank_main, &r);
    if (rc == -ENODEV) {
        printf("skipped: no GPU here, or no NVIDIA driver\n");
        return EXIT_SKIP;
    }
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
