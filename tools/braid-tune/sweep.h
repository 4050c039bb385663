/*
 * Measurements of a machine as a text file: "# key value" lines about the machine, a header, and one comma-separated row a
 * measurement. Written by `braid-tune calibrate`, read by `fit` and `plot`. No shared state, any thread.
 */
#ifndef BRAID_TUNE_SWEEP_H
#define BRAID_TUNE_SWEEP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tuner-plugin/cost/kinds.h"

/* Who chose what was measured. */
enum sweep_what { SWEEP_ROW_FORCED, SWEEP_ROW_NCCL, SWEEP_ROW_BRAID };

/* One measurement. */
struct sweep_row {
    int coll;
    uint64_t bytes;
    int algo, proto; /* -1 = NCCL's default choice, not known which */
    int channels;    /* that the kernel had; 0 = NCCL's own count, not known how many */
    double us;
    int comm; /* which communicator it was measured on */
    enum sweep_what what;
};

struct sweep {
    char machine[160], gpu[64], net[32], nccl[32], date[32];
    int ranks, nodes, channels; /* channels: NCCL's own on this machine */
    int nvls;                   /* 1 when NVLink SHARP was on, 0 off */
    struct sweep_row *rows;
    size_t count, room;
    long whole_bytes; /* of the file, up to the end of the last whole line */
};

/*
 * Returns 0 or a negative errno; `why` says what and where. A last line without its end is what a killed writer leaves: it is left
 * out, and whoever appends cuts the file to whole_bytes first.
 */
int sweep_read(const char *path, struct sweep *sweep, char *why, size_t why_bytes);
/* The same from an open file; `name` is what errors call it. */
int sweep_parse(FILE *file, const char *name, struct sweep *sweep, char *why, size_t why_bytes);
/* Writes the head of a file that sweep_read takes, and one row. */
void sweep_write_head(FILE *out, const struct sweep *sweep, const char *note);
void sweep_write_row(FILE *out, const struct sweep_row *row);

int sweep_add(struct sweep *sweep, const struct sweep_row *row);
void sweep_free(struct sweep *sweep);

#endif
