/*
 * Numbers of repeated measurements. Pure functions, any thread. Called by: the measurement and the reports.
 */
#ifndef BRAID_OVERLAP_STATS_H
#define BRAID_OVERLAP_STATS_H

#include <stdbool.h>
#include <stdint.h>

#define STATS_MAX 64

struct stats {
    double value[STATS_MAX];
    int count;
};

void stats_add(struct stats *s, double value);

/* Median; and the interval around it that holds the true median with at least 95 % (order statistics; the extremes below 6 runs). */
double stats_median(const struct stats *s);
void stats_interval(const struct stats *s, double *low, double *high);

/* What four medians say. Microseconds. */
struct verdict {
    /* 1 - (C - A) / B: the share of B that the serial version seems to hide; void above 0.1 */
    double serial_error;
    bool sound;
    double efficiency; /* max(A, fastest B) / D */
    double hidden;     /* 1 - (D - A) / fastest B */
    double gain;       /* C / D */
};

/* b_serial is the communication inside C, b_fastest the fastest of the run. */
struct verdict judge(double a, double b_serial, double b_fastest, double c, double d);

/* Random order of 0 .. count - 1, the same on all ranks for the same state. */
void shuffle(int *order, int count, uint64_t *state);

#endif
