/*
 * Choice of settings, see gemm_choice.h. The model's constants were measured on H200:
 * a product fills the SMs in waves of 128 x 256 tiles, a copy engine pushes 381 GB/s, a step between two engines costs some
 * microseconds.
 */
#include "device/ops/gemm_choice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/util.h"
#include "device/ops/gemm_plan.h"

#define SM_FLOP_PER_US   6.1e6 /* bf16 on one SM */
#define MEMORY_B_PER_US  4.0e6 /* device memory, reading */
#define LAUNCH_US        3.0   /* a product that must wait for something */
#define PUSH_B_PER_US    3.7e5 /* one copy engine over NVLink, beside products */
#define START_US         6.0   /* until the first push: the peer must have begun, too */
#define PUSH_US          6.5   /* a part on the link, beside its bytes */
#define ARRIVE_US        6.0   /* from the end of a push to the product that waited for it */
#define EXCHANGE_US      18.0  /* a whole collective by copy engines, beside its bytes */
#define ADD_B_PER_US     3.0e6
#define KERNEL_US        3.5 /* a collective by SMs, beside the bytes */
#define KERNEL_B_PER_US  2.4e5
#define KERNEL_SMS       32
#define ELEMENT_BYTES    2.0
#define NEEDED_ADVANTAGE 0.95

double braid_gemm_model_product_us(int64_t rows, int64_t n, int64_t k, int sms)
{
    double flop = 2.0 * (double)rows * (double)n * (double)k;
    double tiles = (double)((rows + 127) / 128) * (double)((n + 255) / 256);
    double waves = (double)(int64_t)((tiles + sms - 1) / sms);
    double by_tiles = waves * 2.0 * 128 * 256 * (double)k / SM_FLOP_PER_US;
    double by_flop = 1.3 * flop / (SM_FLOP_PER_US * sms);
    double bytes = ELEMENT_BYTES *
                   ((double)rows * (double)k + (double)n * (double)k + (double)rows * (double)n);

    return MAX(MIN(by_tiles, by_flop), bytes / MEMORY_B_PER_US) + LAUNCH_US;
}

static double push_us(double rows, double width)
{
    return PUSH_US + rows * width * ELEMENT_BYTES / PUSH_B_PER_US;
}

struct timeline {
    double compute; /* when the compute lanes are free */
    double link;    /* when the copy engine is free */
};

static double serial_us(const struct braid_gemm_desc *d, const struct braid_gemm_machine *on,
                        bool by_sms)
{
    double part = (double)d->m / on->ranks, peers = on->ranks - 1;
    double product = braid_gemm_model_product_us(d->m, d->n, d->k, on->sms);
    double width = (double)(d->op == BRAID_AG_GEMM ? d->k : d->n);
    double add = LAUNCH_US + part * (double)d->n * ELEMENT_BYTES * (peers + 2) / ADD_B_PER_US;

    if (peers == 0)
        return product;
    if (by_sms)
        return product + KERNEL_US +
               peers * part * width * ELEMENT_BYTES / KERNEL_B_PER_US *
                   (d->op == BRAID_GEMM_AR ? 2 : 1);
    if (d->op == BRAID_AG_GEMM)
        return product + EXCHANGE_US + peers * push_us(part, width);
    return product + EXCHANGE_US + add +
           peers * push_us(part, width) * (d->op == BRAID_GEMM_AR ? 2 : 1);
}

static double gather_us(const struct braid_gemm_desc *d, const struct braid_gemm_machine *on,
                        const struct braid_gemm_settings *set)
{
    int64_t bounds[BRAID_GEMM_MAX_SPLITS + 1], part = d->m / on->ranks;
    uint32_t splits = braid_gemm_split(part, (uint32_t)set->num_splits, set->taper ? 1 : 0, bounds);
    struct timeline t = {braid_gemm_model_product_us(part, d->n, d->k, on->sms), START_US};

    for (int d_rank = 1; d_rank < on->ranks; d_rank++)
        for (uint32_t c = 0; c < splits; c++) {
            int64_t rows = bounds[c + 1] - bounds[c];

            t.link += push_us((double)rows, (double)d->k);
            t.compute =
                MAX(t.compute, t.link) + braid_gemm_model_product_us(rows, d->n, d->k, on->sms);
        }
    return t.compute;
}

static double reduce_us(const struct braid_gemm_desc *d, const struct braid_gemm_machine *on,
                        const struct braid_gemm_settings *set)
{
    int64_t bounds[BRAID_GEMM_MAX_SPLITS + 1], part = d->m / on->ranks;
    uint32_t splits = braid_gemm_split(part, (uint32_t)set->num_splits, set->taper ? 2 : 0, bounds);
    double arrived[BRAID_GEMM_MAX_SPLITS] = {0};
    struct timeline t = {0, START_US};

    for (int s = 0; s < on->ranks; s++)
        for (uint32_t c = 0; c < splits; c++) {
            int64_t rows = bounds[c + 1] - bounds[c];
            double start = MAX(t.compute, s > 0 ? arrived[c] : 0);

            t.compute = start + braid_gemm_model_product_us(rows, d->n, d->k, on->sms);
            if (s == on->ranks - 1 && d->op != BRAID_GEMM_AR)
                continue;
            t.link = MAX(t.link, t.compute) +
                     push_us((double)rows, (double)d->n) * (s == on->ranks - 1 ? on->ranks - 1 : 1);
            arrived[c] = t.link + ARRIVE_US;
        }
    return MAX(t.compute, d->op == BRAID_GEMM_AR ? t.link + LAUNCH_US : 0);
}

double braid_gemm_model_us(const struct braid_gemm_desc *desc, const struct braid_gemm_machine *on,
                           const struct braid_gemm_settings *settings)
{
    if (settings->method == BRAID_GEMM_SERIAL || on->ranks == 1)
        return serial_us(desc, on, settings->num_sm > 0);
    return desc->op == BRAID_AG_GEMM ? gather_us(desc, on, settings)
                                     : reduce_us(desc, on, settings);
}

void braid_gemm_settings_complete(int op, struct braid_gemm_settings *settings)
{
    bool serial = settings->method == BRAID_GEMM_SERIAL || settings->method == BRAID_GEMM_BULK;

    if (settings->num_splits == 0)
        settings->num_splits = op == BRAID_AG_GEMM || serial ? 1 : 2;
    if (settings->lanes == 0)
        settings->lanes = 2;
    if (settings->own_splits == 0)
        settings->own_splits = 1;
}

void braid_gemm_model_choose(const struct braid_gemm_desc *desc,
                             const struct braid_gemm_machine *on,
                             struct braid_gemm_settings *settings)
{
    struct braid_gemm_settings best = {.method = BRAID_GEMM_SERIAL};
    double best_us;

    struct braid_gemm_settings by_sms = {.method = BRAID_GEMM_SERIAL, .num_sm = KERNEL_SMS};

    braid_gemm_settings_complete(desc->op, &best);
    braid_gemm_settings_complete(desc->op, &by_sms);
    if (on->ranks > 1 &&
        braid_gemm_model_us(desc, on, &by_sms) < braid_gemm_model_us(desc, on, &best))
        best = by_sms;
    best_us = braid_gemm_model_us(desc, on, &best) * NEEDED_ADVANTAGE;
    for (int32_t splits = 1; splits <= 8 && on->ranks > 1; splits *= 2)
        for (int32_t taper = 0; taper <= (splits > 1 && desc->op == BRAID_AG_GEMM); taper++) {
            struct braid_gemm_settings set = {
                .method = BRAID_GEMM_RING_EXCHANGE, .num_splits = splits, .taper = taper};
            double us;

            braid_gemm_settings_complete(desc->op, &set);
            us = braid_gemm_model_us(desc, on, &set);
            if (us <
                best_us * (splits > 1 ? 0.995 : 1.0)) { /* fewer parts when it is all the same */
                best_us = us;
                best = set;
            }
        }
    *settings = best;
}

static const char *const method_names[] = {"auto",     "serial", "ring_exchange",
                                           "pipeline", "bulk",   "tile"};

const char *braid_gemm_method_name(int method)
{
    return method >= 0 && method < (int)ARRAY_SIZE(method_names) ? method_names[method] : "?";
}

int braid_gemm_method_parse(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(method_names); i++)
        if (strcmp(name, method_names[i]) == 0)
            return (int)i;
    return -EINVAL;
}

/* The part of a row that says what it is for; a row is this, a blank and the settings. */
static int key_text(char *text, size_t bytes, const struct braid_gemm_desc *d,
                    const struct braid_gemm_machine *on)
{
    return snprintf(text, bytes,
                    "gemm op=%d dtype=%d wt=%d m=%" PRId64 " n=%" PRId64 " k=%" PRId64
                    " ranks=%d arch=%d sms=%d :",
                    d->op, d->dtype, (int)(d->flags & BRAID_GEMM_W_TRANSPOSED), d->m, d->n, d->k,
                    on->ranks, on->arch, on->sms);
}

static void parse_algos(const char *text, struct braid_gemm_settings *set)
{
    for (int i = 0; i < BRAID_GEMM_MAX_ALGOS; i++) {
        struct braid_gemm_algo *a = &set->algos[i];
        int used = 0;

        if (sscanf(text, "%" SCNd64 "/%d/%d%n", &a->rows, &a->adds, &a->proposal, &used) != 3) {
            a->rows = 0;
            return;
        }
        text += used;
        if (*text++ != ',')
            return;
    }
}

static int parse_settings(const char *text, const struct braid_gemm_machine *on,
                          struct braid_gemm_settings *set)
{
    char method[24], algos[512] = "";
    long lt = 0;

    memset(set, 0, sizeof(*set));
    if (sscanf(
            text,
            " method=%23s splits=%d lanes=%d taper=%d num_sm=%d margin=%d own=%d signal=%d lt=%ld "
            "algos=%511s",
            method, &set->num_splits, &set->lanes, &set->taper, &set->num_sm, &set->sm_margin,
            &set->own_splits, &set->signal, &lt, algos) < 9)
        return -EINVAL;
    set->method = braid_gemm_method_parse(method);
    if (set->method < BRAID_GEMM_SERIAL || set->method > BRAID_GEMM_PIPELINE ||
        set->num_splits < 1 || set->num_splits > BRAID_GEMM_MAX_SPLITS || set->lanes < 1 ||
        set->lanes > 4 || set->own_splits < 1 || set->num_sm < 0 || set->sm_margin < 0 ||
        set->signal < 0 || set->signal > 2)
        return -EINVAL;
    if (lt == on->lt_version)
        parse_algos(algos, set);
    return 0;
}

int braid_gemm_profile_load(const char *path, const struct braid_gemm_desc *desc,
                            const struct braid_gemm_machine *on,
                            struct braid_gemm_settings *settings)
{
    char key[256], line[1024];
    size_t key_bytes = (size_t)key_text(key, sizeof(key), desc, on);
    int rc = -ENOENT;
    FILE *file = path[0] ? fopen(path, "re") : NULL;

    if (file == NULL)
        return -ENOENT;
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, key, key_bytes) == 0) {
            rc = parse_settings(line + key_bytes, on, settings);
            if (rc != 0)
                BRAID_WARN("%s: this row is not understood and ignored: %s", path, line);
            break;
        }
    fclose(file);
    return rc;
}

static void write_row(FILE *file, const char *key, const struct braid_gemm_machine *on,
                      const struct braid_gemm_settings *set)
{
    fprintf(file,
            "%s method=%s splits=%d lanes=%d taper=%d num_sm=%d margin=%d own=%d signal=%d lt=%ld "
            "algos=",
            key, braid_gemm_method_name(set->method), set->num_splits, set->lanes, set->taper,
            set->num_sm, set->sm_margin, set->own_splits, set->signal, on->lt_version);
    for (int i = 0; i < BRAID_GEMM_MAX_ALGOS && set->algos[i].rows > 0; i++)
        fprintf(file, "%s%" PRId64 "/%d/%d", i ? "," : "", set->algos[i].rows, set->algos[i].adds,
                set->algos[i].proposal);
    fputc('\n', file);
}

int braid_gemm_profile_store(const char *path, const struct braid_gemm_desc *desc,
                             const struct braid_gemm_machine *on,
                             const struct braid_gemm_settings *settings)
{
    char key[256], line[1024], fresh[1024];
    size_t key_bytes = (size_t)key_text(key, sizeof(key), desc, on);
    FILE *old = fopen(path, "re"), *file;
    int rc = 0;

    if (snprintf(fresh, sizeof(fresh), "%s.%ld", path, (long)getpid()) >= (int)sizeof(fresh))
        rc = -ENAMETOOLONG;
    file = rc == 0 ? fopen(fresh, "we") : NULL;
    if (file == NULL) {
        rc = rc ? rc : -errno;
        goto out_old;
    }
    if (old == NULL)
        fputs("# Settings of Braid's fused products, one shape a line; written by braid-overlap.\n",
              file);
    while (old != NULL && fgets(line, sizeof(line), old) != NULL)
        if (strncmp(line, key, key_bytes) != 0)
            fputs(line, file);
    write_row(file, key, on, settings);
    if (fclose(file) != 0 || rename(fresh, path) != 0) {
        rc = -errno;
        unlink(fresh);
    }
out_old:
    if (old != NULL)
        fclose(old);
    return rc;
}
