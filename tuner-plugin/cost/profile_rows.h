/*
 * The rows of a profile as a table: name, selectors, place in struct braid_profile, range. Private to profile*.c.
 */
#ifndef BRAID_TUNER_PROFILE_ROWS_H
#define BRAID_TUNER_PROFILE_ROWS_H

#include "tuner-plugin/cost/profile.h"

/* One kind of row. Selectors are letters: c collective, a algorithm, p protocol, l link, r resource, z bytes, K kind of
 * NCCL's bandwidth tables, k compute capability row, s scale column, F factor of NCCL's formulas. The array in the struct is laid out in the order of the selectors. */
struct braid_row_kind {
    const char *name;
    const char *selectors;
    size_t offset;
    double min, max; /* inclusive */
};

extern const struct braid_row_kind braid_row_kinds[];
extern const int braid_row_kind_count;

/* How many values the selector letter has. */
int braid_selector_count(char selector);
/* The index of `word` for the selector, -1 if it names none. */
int braid_selector_find(char selector, const char *word);
/* The word of an index, into `buf`. */
const char *braid_selector_name(char selector, int index, char *buf, size_t buf_bytes);

#endif
