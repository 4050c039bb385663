/*
 * Shapes by hand and by the name of a model's layers. Pure functions. Called by: main.c, its unit test.
 */
#ifndef BRAID_OVERLAP_SHAPES_H
#define BRAID_OVERLAP_SHAPES_H

#include <stddef.h>
#include <stdint.h>

struct shape {
    int op; /* enum braid_gemm_op */
    int64_t m, n, k;
};

/* "ag_gemm:8192,14336,8192" (or x between the numbers). 0 or -EINVAL. */
int shape_parse(const char *text, struct shape *shape);

/*
 * The tensor-parallel products of one layer of a model with `tokens` rows on `ranks` ranks. Appends at most room - *count shapes.
 * 0; -ENOENT unknown model; -EINVAL a dimension that the ranks do not divide; -ENOSPC.
 */
int shapes_of_model(const char *model, int64_t tokens, int ranks, struct shape *list, size_t room,
                    size_t *count);

/* The 18 boundaries that Braid is held against: 9 all-gathers and 9 reduce-scatters. Returns their number. */
size_t shapes_standard(struct shape *list, size_t room);

/* Names of the known models, separated by blanks. */
const char *shapes_models(void);

#endif
