/*
 * The sweep that calibrate runs, and what it says about it afterwards. Led by rank 0. Single-threaded.
 */
#ifndef BRAID_TUNE_CALIBRATE_H
#define BRAID_TUNE_CALIBRATE_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/braid-tune/group.h"
#include "tools/braid-tune/sweep.h"
#include "tuner-plugin/cost/cost.h"

#define CALIBRATE_SIZES_MAX 64

struct calibrate {
    struct group group;
    int colls[BRAID_COLLS], coll_count;
    uint64_t sizes[CALIBRATE_SIZES_MAX];
    int size_count, comms, launches;
    double minutes;     /* stop before this is over */
    double slowest;     /* leave out candidates this many times slower than NCCL's choice */
    bool judge;         /* also measure what Braid's tuner decides */
    struct sweep sweep; /* grows */
    FILE *out;          /* rows are appended and flushed a cell at a time */
    uint64_t began_ns;
    int cells_done, cells_all, measured;
    double cell_us[BRAID_COLLS]
                  [CALIBRATE_SIZES_MAX]; /* predicted by calibrate_estimate, to know what is left */
    double us_all, us_done, us_here;     /* sums of these: all, done, done by this run */
};

/*
 * After calibrate_estimate. Measures cell after cell, each a collective and a size on one communicator, until all are done or the time is over. Cells that
 * are in the sweep already are skipped. Returns 0, 1 when the time ended first, or a negative errno.
 */
int calibrate_run(struct calibrate *calibrate);

/* What a whole run takes, in seconds, by a profile's predictions, and how many measurements. */
double calibrate_estimate(struct calibrate *calibrate, const struct braid_profile *profile,
                          int ranks, int nodes, int *measurements_p);

/* A table of what was found: NCCL's choice, the best candidate, what the fitted profile decides; with intervals over communicators. */
void calibrate_report(const struct sweep *sweep, const struct braid_profile *profile, FILE *out);

/* One line a cell as CSV: NCCL's choice as measured, and what the tuner decides with the profile within a budget (0 = none). */
void calibrate_judge(const struct sweep *sweep, const struct braid_profile *profile, int budget,
                     FILE *out);

#endif
