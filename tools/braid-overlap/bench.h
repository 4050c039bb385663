/*
 * The four-way measurement of one shape. Threading: one thread a rank; all ranks call together. Called by: main.c.
 */
#ifndef BRAID_OVERLAP_BENCH_H
#define BRAID_OVERLAP_BENCH_H

#include "tools/braid-overlap/session.h"
#include "tools/braid-overlap/stats.h"

#define VARIANTS_MAX 56

enum role {
    ROLE_A, /* product alone */
    ROLE_B, /* communication alone */
    ROLE_C, /* both, one after the other */
    ROLE_D, /* overlapped */
    ROLE_E, /* the cut products of a D alone: says why it is slower than A */
};

struct bench;

struct variant {
    char name[64];
    enum role role;
    int (*enqueue)(struct bench *b, struct variant *v, cudaStream_t stream);
    struct braid_gemm *gemm;
    bool owned; /* destroy the object with the variant */
    cudaGraphExec_t graph;
    struct stats us;  /* the slower rank, one operation */
    struct stats mhz; /* mean clock of an SM of rank 0 */
    bool is_default;  /* what AUTO chose */
};

struct bench {
    struct session *s;
    struct shape shape;
    int64_t part; /* rows a rank */
    void *x, *w, *y, *full, *partial, *send, *recv;
    struct variant variants[VARIANTS_MAX];
    int count;
    char reason[160]; /* of the default choice */
};

/* Measures; 0 or a negative errno, the same on all ranks. The result is in b->variants; close it in any case. */
int bench_run(struct bench *b, struct session *s, const struct shape *shape);
void bench_close(struct bench *b);

/* The variant by name, or the fastest of a role (NULL when there is none). */
struct variant *bench_find(struct bench *b, const char *name);
struct variant *bench_fastest(struct bench *b, enum role role);
struct variant *bench_default(struct bench *b);

#endif
