/*
 * braid-tune fit: a profile from a sweep. Called by: main.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tools/braid-tune/fit.h"
#include "tools/braid-tune/tune.h"

static const char usage[] = "braid-tune fit SWEEP [--out FILE] [--name NAME] [--base PROFILE] "
                            "[--sizes all|even|odd] [--guard TIMES]\n"
                            "Fits a profile to a sweep file. --sizes even uses every second size "
                            "only and reports the error on the others.\n";

static void report(const struct fit_result *result)
{
    fprintf(stderr, "fitted %d rows, rms %.1f %%", result->used, 100 * result->fit_error);
    if (result->held_out)
        fprintf(stderr, "; held out %d rows, rms %.1f %%", result->held_out,
                100 * result->held_out_error);
    fprintf(stderr, "; noise between equal configurations %.1f %% (%d pairs)\n",
            100 * result->noise, result->pairs);
}

int cmd_fit(int argc, char **argv)
{
    const char *out_path = NULL, *name = "calibrated", *base_name = NULL, *sizes = "all";
    const char *path = NULL;
    struct fit_options fit = {-1, 1};
    const struct tune_option options[] = {
        TUNE_TEXT("--out", &out_path), TUNE_TEXT("--name", &name), TUNE_TEXT("--base", &base_name),
        TUNE_TEXT("--sizes", &sizes), TUNE_REAL("--guard", &fit.guard, 0, 10)};
    struct braid_profile *two = calloc(2, sizeof(*two));
    struct fit_result result;
    struct sweep sweep = {0};
    const char *slash;
    char why[256], include[128];
    FILE *out = stdout;
    int rc = 1;

    if (!two || tune_options(argc, argv, options, ARRAY_SIZE(options), &path, 1) != 1) {
        rc = tune_usage(usage);
        goto out;
    }
    if (!fit_name_good(name)) {
        fprintf(stderr, "braid-tune: --name takes letters, digits, '.', '_' and '-'\n");
        goto out;
    }
    fit.parity = !strcmp(sizes, "even") ? 0 : !strcmp(sizes, "odd") ? 1 : -1;
    if (fit.parity < 0 && strcmp(sizes, "all")) {
        fprintf(stderr, "braid-tune: --sizes: expected all, even or odd, found '%s'\n", sizes);
        goto out;
    }
    if (sweep_read(path, &sweep, why, sizeof(why))) {
        fprintf(stderr, "braid-tune: %s\n", why);
        goto out;
    }
    if (!sweep.count) {
        fprintf(stderr, "braid-tune: %s: no measurements\n", path);
        goto out;
    }
    if (!base_name)
        base_name = strstr(sweep.net, "socket") ? "generic-socket" : "generic";
    if (tune_profile(base_name, &two[0]))
        goto out;
    two[1] = two[0];
    if (fit_profile(&sweep, &fit, &two[1], &result))
        goto out;
    if (out_path && !(out = fopen(out_path, "we"))) {
        fprintf(stderr, "braid-tune: %s: %s\n", out_path, strerror(errno));
        goto out;
    }
    slash = strrchr(two[0].path, '/');
    snprintf(include, sizeof(include), "%.127s", slash ? slash + 1 : two[0].path);
    rc = fit_write(out, name, include, &sweep, &two[0], &two[1], &result, path) ? 1 : 0;
    report(&result);
    if (out != stdout && fclose(out))
        rc = 1;
out:
    sweep_free(&sweep);
    free(two);
    return rc;
}
