/*
 * braid-tune judge: the tuner's decision for every cell of a sweep, given NCCL's choice as it was measured there. For evaluation
 * scripts. Called by: main.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/util.h"
#include "tools/braid-tune/calibrate.h"
#include "tools/braid-tune/tune.h"

static const char usage[] = "braid-tune judge SWEEP --profile NAME|FILE [--budget CHANNELS]\n";

int cmd_judge(int argc, char **argv)
{
    const char *path = NULL, *name = "generic";
    int budget = 0;
    const struct tune_option options[] = {TUNE_TEXT("--profile", &name),
                                          TUNE_INT("--budget", &budget, 0, BRAID_CHANNELS)};
    struct braid_profile *profile = malloc(sizeof(*profile));
    struct sweep sweep = {0};
    char why[256];
    int rc = 2;

    if (!profile || tune_options(argc, argv, options, ARRAY_SIZE(options), &path, 1) != 1) {
        rc = tune_usage(usage);
    } else if (sweep_read(path, &sweep, why, sizeof(why))) {
        fprintf(stderr, "braid-tune: %s\n", why);
    } else if (!tune_profile(name, profile)) {
        calibrate_judge(&sweep, profile, budget, stdout);
        rc = 0;
    }
    sweep_free(&sweep);
    free(profile);
    return rc;
}
