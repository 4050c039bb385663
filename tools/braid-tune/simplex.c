/*
 * Nelder and Mead's simplex; see simplex.h.
 */
#include "tools/braid-tune/simplex.h"

#include <string.h>

#define DIMS   SIMPLEX_DIMS
#define ROUNDS 3
#define STEPS  300 /* a round; four dimensions settle in about half of it */

struct simplex {
    simplex_fn *value;
    const void *arg;
    double x[DIMS + 1][DIMS], f[DIMS + 1]; /* corners, best first */
};

static void order(struct simplex *s)
{
    for (int i = 1; i <= DIMS; i++) {
        for (int j = i; j > 0 && s->f[j] < s->f[j - 1]; j--) {
            double f = s->f[j], x[DIMS];

            s->f[j] = s->f[j - 1];
            s->f[j - 1] = f;
            memcpy(x, s->x[j], sizeof(x));
            memcpy(s->x[j], s->x[j - 1], sizeof(x));
            memcpy(s->x[j - 1], x, sizeof(x));
        }
    }
}

/* From the centre of all corners but the worst towards the worst (t > 0) or away from it. */
static double along(const struct simplex *s, const double *centre, double t, double *out)
{
    for (int d = 0; d < DIMS; d++)
        out[d] = centre[d] + t * (s->x[DIMS][d] - centre[d]);
    return s->value(s->arg, out);
}

static void shrink(struct simplex *s)
{
    for (int i = 1; i <= DIMS; i++) {
        for (int d = 0; d < DIMS; d++)
            s->x[i][d] = s->x[0][d] + (s->x[i][d] - s->x[0][d]) / 2;
        s->f[i] = s->value(s->arg, s->x[i]);
    }
}

static void step(struct simplex *s)
{
    double centre[DIMS] = {0}, mirrored[DIMS], other[DIMS], f, g;
    const double *best = mirrored;

    for (int i = 0; i < DIMS; i++) {
        for (int d = 0; d < DIMS; d++)
            centre[d] += s->x[i][d] / DIMS;
    }
    f = along(s, centre, -1, mirrored);
    if (f < s->f[0] || f >= s->f[DIMS - 1]) {
        /* Very good: twice as far. Bad: half as far, on the better side. */
        g = along(s, centre, f < s->f[0] ? -2 : f < s->f[DIMS] ? -0.5 : 0.5, other);
        if (g < f) {
            f = g;
            best = other;
        }
    }
    if (f < s->f[DIMS]) {
        memcpy(s->x[DIMS], best, sizeof(centre));
        s->f[DIMS] = f;
    } else {
        shrink(s);
    }
    order(s);
}

double simplex_minimise(simplex_fn *value, const void *arg, const double *width, double *x)
{
    struct simplex s = {.value = value, .arg = arg};

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i <= DIMS; i++) {
            memcpy(s.x[i], x, sizeof(s.x[i]));
            if (i)
                s.x[i][i - 1] += width[i - 1] / (1 << round);
            s.f[i] = value(arg, s.x[i]);
        }
        order(&s);
        for (int i = 0; i < STEPS; i++)
            step(&s);
        memcpy(x, s.x[0], sizeof(s.x[0]));
    }
    return s.f[0];
}
