/* Choice of settings, see gemm_choice.h; the model is in gemm_model.c. */
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

#define KERNEL_SMS       32
#define NEEDED_ADVANTAGE 0.95
#define LINK_BOUND       0.75 /* of the product's time: the bytes alone */
#define MORE_PARTS       0.98 /* what further or unequal parts must be worth */

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

/*
 * Kernels hand over sooner than the stream, but one that waits may hold an SM: worth it where the link bounds the operation. Measured
 * between two ranks, not for all-reduce.
 */
static int32_t signal_for(const struct braid_gemm_desc *desc, const struct braid_gemm_machine *on)
{
    double product = braid_gemm_model_product_us(desc->m, desc->n, desc->k, on->sms);

    if (on->ranks != 2 || desc->op == BRAID_GEMM_AR)
        return 0;
    return braid_gemm_model_link_us(desc, on) > LINK_BOUND * product ? BRAID_GEMM_BY_KERNEL : 0;
}

void braid_gemm_model_choose(const struct braid_gemm_desc *desc,
                             const struct braid_gemm_machine *on,
                             struct braid_gemm_settings *settings)
{
    static const int32_t splits[] = {1, 2, 3, 4, 6, 8};
    struct braid_gemm_settings best = {.method = BRAID_GEMM_SERIAL};
    int32_t signal = signal_for(desc, on);
    double best_us;

    struct braid_gemm_settings by_sms = {.method = BRAID_GEMM_SERIAL, .num_sm = KERNEL_SMS};

    braid_gemm_settings_complete(desc->op, &best);
    braid_gemm_settings_complete(desc->op, &by_sms);
    if (on->ranks > 1 &&
        braid_gemm_model_us(desc, on, &by_sms) < braid_gemm_model_us(desc, on, &best))
        best = by_sms;
    best_us = braid_gemm_model_us(desc, on, &best) * NEEDED_ADVANTAGE;
    for (size_t i = 0; i < ARRAY_SIZE(splits) && on->ranks > 1; i++)
        for (int32_t taper = 0; taper <= (splits[i] > 1 ? 2 : 0); taper++) {
            struct braid_gemm_settings set = {.method = BRAID_GEMM_RING_EXCHANGE,
                                              .num_splits = splits[i],
                                              .taper = taper,
                                              .signal = signal};
            double us;

            braid_gemm_settings_complete(desc->op, &set);
            us = braid_gemm_model_us(desc, on, &set);
            if (us < best_us * (i + taper > 0 ? MORE_PARTS
                                              : 1.0)) { /* the simplest when it is all the same */
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
    if (sscanf(text,
               " method=%23s splits=%d lanes=%d taper=%d num_sm=%d margin=%d own=%d signal=%d "
               "direct=%d "
               "lt=%ld algos=%511s",
               method, &set->num_splits, &set->lanes, &set->taper, &set->num_sm, &set->sm_margin,
               &set->own_splits, &set->signal, &set->direct, &lt, algos) < 10)
        return -EINVAL;
    set->method = braid_gemm_method_parse(method);
    if (set->method < BRAID_GEMM_SERIAL || set->method > BRAID_GEMM_PIPELINE ||
        set->num_splits < 1 || set->num_splits > BRAID_GEMM_MAX_SPLITS || set->lanes < 1 ||
        set->lanes > 4 || set->own_splits < 1 || set->num_sm < 0 || set->sm_margin < 0 ||
        set->signal < 0 || set->signal > 3 || set->taper < 0 || set->taper > 2 || set->direct < 0 ||
        set->direct > 1)
        return -EINVAL;
    if (lt == on->lt_version)
        parse_algos(algos, set);
    return 0;
}

/* The row of `file` for it. */
static int find_row(FILE *file, const char *name, const struct braid_gemm_desc *desc,
                    const struct braid_gemm_machine *on, struct braid_gemm_settings *settings)
{
    char key[256], line[1024];
    size_t key_bytes = (size_t)key_text(key, sizeof(key), desc, on);
    int rc = -ENOENT;

    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, key, key_bytes) == 0) {
            rc = parse_settings(line + key_bytes, on, settings);
            if (rc != 0)
                BRAID_WARN("%s: this row is not understood and ignored: %s", name, line);
            break;
        }
    return rc;
}

int braid_gemm_profile_load(const char *path, const struct braid_gemm_desc *desc,
                            const struct braid_gemm_machine *on,
                            struct braid_gemm_settings *settings)
{
    FILE *file = path[0] ? fopen(path, "re") : NULL;
    int rc = -ENOENT;

    if (file == NULL)
        return -ENOENT;
    rc = find_row(file, path, desc, on, settings);
    fclose(file);
    return rc;
}

int braid_gemm_profile_shipped(const char *text, const struct braid_gemm_desc *desc,
                               const struct braid_gemm_machine *on,
                               struct braid_gemm_settings *settings)
{
    static const char shipped[] =
#include "device/ops/gemm_profile.inc"
        ;
    const char *rows = text != NULL ? text : shipped;
    FILE *file = rows[0] != '\0' ? fmemopen((void *)(uintptr_t)rows, strlen(rows), "r") : NULL;
    int rc = -ENOENT;

    if (file == NULL)
        return -ENOENT;
    rc = find_row(file, "the shipped profile", desc, on, settings);
    fclose(file);
    return rc;
}

static void write_row(FILE *file, const char *key, const struct braid_gemm_machine *on,
                      const struct braid_gemm_settings *set)
{
    fprintf(
        file,
        "%s method=%s splits=%d lanes=%d taper=%d num_sm=%d margin=%d own=%d signal=%d direct=%d "
        "lt=%ld algos=",
        key, braid_gemm_method_name(set->method), set->num_splits, set->lanes, set->taper,
        set->num_sm, set->sm_margin, set->own_splits, set->signal, set->direct, on->lt_version);
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
