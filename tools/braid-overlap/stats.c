/* Statistics, see stats.h. */
#include "tools/braid-overlap/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void stats_add(struct stats *s, double value)
{
    if (s->count < STATS_MAX)
        s->value[s->count++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void sorted(const struct stats *s, double *out)
{
    memcpy(out, s->value, (size_t)s->count * sizeof(*out));
    qsort(out, (size_t)s->count, sizeof(*out), by_value);
}

double stats_median(const struct stats *s)
{
    double v[STATS_MAX];

    if (s->count == 0)
        return NAN;
    sorted(s, v);
    return s->count % 2 ? v[s->count / 2] : (v[s->count / 2 - 1] + v[s->count / 2]) / 2;
}

/* The chance that the median lies below the k-th smallest of n values (k from 0). */
static double tail(int n, int k)
{
    double p = pow(0.5, n), sum = 0;

    for (int i = 0; i <= k; i++) {
        sum += p;
        p = p * (n - i) / (i + 1);
    }
    return sum;
}

void stats_interval(const struct stats *s, double *low, double *high)
{
    double v[STATS_MAX];
    int k = 0;

    *low = *high = NAN;
    if (s->count == 0)
        return;
    sorted(s, v);
    while (k + 1 < s->count / 2 && 2 * tail(s->count, k + 1) <= 0.05)
        k++;
    *low = v[k];
    *high = v[s->count - 1 - k];
}

struct verdict judge(double a, double b_serial, double b_fastest, double c, double d)
{
    struct verdict v;

    v.serial_error = 1 - (c - a) / b_serial;
    v.sound = fabs(v.serial_error) <= 0.1;
    v.efficiency = (a > b_fastest ? a : b_fastest) / d;
    v.hidden = 1 - (d - a) / b_fastest;
    v.gain = c / d;
    return v;
}

void shuffle(int *order, int count, uint64_t *state)
{
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int j, kept = order[i];

        *state = *state * 6364136223846793005u + 1442695040888963407u;
        j = (int)((*state >> 33) % (uint64_t)(i + 1));
        order[i] = order[j];
        order[j] = kept;
    }
}
