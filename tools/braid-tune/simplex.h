/*
 * The minimum of a function of a few numbers by Nelder and Mead's simplex. No shared state, any thread. Called by: fit.c.
 */
#ifndef BRAID_TUNE_SIMPLEX_H
#define BRAID_TUNE_SIMPLEX_H

#define SIMPLEX_DIMS 4

typedef double simplex_fn(const void *arg, const double *x);

/*
 * Walks `x` downhill from where it is; `width` is the first step in each direction. Started three times, each from what was found
 * before with half the width, so that a simplex that has collapsed gets going again. Returns the value at `x`.
 */
double simplex_minimise(simplex_fn *value, const void *arg, const double *width, double *x);

#endif
