/*
 * Measurements of a machine as a text file: "# key value" lines about the machine, a header, and one comma-separated row a
 * measurement. Written by `braid-tune calibrate`, read by `fit` and `plot`. No shared state, any thread.
 */
#ifndef BRAID_TUNE_SWEEP_H
#define BRAID_TUNE_SWEEP_H

#include <stddef.h>
#include <stdint.h>

#include "tuner-plugin/cost/kinds.h"

/* One measurement. */
struct sweep_row {
    int coll;
    uint64_t bytes;
    int algo, proto; /* -1 = NCCL's default choice */
    int channels;    /* 0 = NCCL's own count */
    double us;
    int comm; /* which communicator it was measured on */
};

struct sweep {
    char machine[160], gpu[64], net[32], nccl[32], date[32];
    int ranks, nodes, channels; /* channels: NCCL's own on this machine */
    int nvls;                   /* 1 when NVLink SHARP was on, 0 off */
    struct sweep_row *rows;
    size_t count, room;
};

/* Returns 0 or a negative errno; `why` says what and where. */
int sweep_read(const char *path, struct sweep *sweep, char *why, size_t why_bytes);
int sweep_add(struct sweep *sweep, const struct sweep_row *row);
void sweep_free(struct sweep *sweep);

#endif
