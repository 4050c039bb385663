/*
 * Fitting a profile to a sweep: start, cost of a channel, rate of a channel, reachable rate and size corrections of every
 * combination measured, and the noise between communicators. Uses libm; runs in tools only, never where ranks must agree.
 */
#ifndef BRAID_TUNE_FIT_H
#define BRAID_TUNE_FIT_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/braid-tune/sweep.h"
#include "tuner-plugin/cost/cost.h"

struct fit_options {
    int parity;   /* -1 all sizes; 0 or 1: only every second size, for judging on the others */
    double guard; /* times what a prediction is off by: a smaller gain changes nothing */
};

struct fit_result {
    double fit_error;      /* rms of ln(predicted / measured) over the sizes used */
    double held_out_error; /* over the sizes left out; NaN if none */
    double point_error;    /* of the means of equal configurations over the sizes used */
    double noise;          /* rms of ln between equal configurations */
    double repeats;        /* rows a configuration, on average */
    int used, held_out;    /* rows */
    int pairs;             /* rows beyond the first of each configuration */
};

/* Fits into `profile`, which holds the starting point (an included generic profile). Returns 0 or a negative errno. */
int fit_profile(const struct sweep *sweep, const struct fit_options *options,
                struct braid_profile *profile, struct fit_result *result);

/*
 * Writes a profile file. With `include` it holds what differs from `base`, which that file describes; without, everything, so that the
 * file stands alone. Returns 0 or a negative errno.
 */
int fit_write(FILE *out, const char *name, const char *include, const struct sweep *sweep,
              const struct braid_profile *base, const struct braid_profile *profile,
              const struct fit_result *result, const char *sweep_path);

/* Whether a profile can be called that: letters, digits, ".", "_" and "-". */
bool fit_name_good(const char *name);

/* The channels that NCCL really used when `forced` (0 = its own count) were asked for. */
int fit_effective_channels(const struct braid_profile *profile, const struct braid_shape *shape,
                           const struct sweep_row *row, int own);

#endif
