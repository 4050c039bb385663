/*
 * One process a GPU, made by fork, and what they need from each other: a barrier and an all-gather through shared memory. Both end
 * within a bound, so that a rank that died stops the others.
 * Threading: one thread a rank. Called by: main.c and the measurement.
 */
#ifndef BRAID_OVERLAP_RANKS_H
#define BRAID_OVERLAP_RANKS_H

#include <stddef.h>

#include <braid/comm.h>

#define RANKS_MAX      8
#define RANKS_BYTES    4096 /* of one all-gather, a rank */
#define RANKS_BOUND_NS 60000000000ull

struct ranks; /* shared by all processes */

struct ranks_self {
    struct ranks *shared;
    int rank, ranks;
};

/*
 * Forks count - 1 children before any of them touches CUDA and runs body(self, context) in each process. Returns 0 when all returned
 * 0, else the first failure. The caller's own process is rank 0.
 */
int ranks_run(int count, int (*body)(struct ranks_self *self, void *context), void *context);

/* 0 or -ETIMEDOUT. Spins: for measurements, where the ranks must leave together. */
int ranks_barrier(struct ranks_self *self);

/* bytes <= RANKS_BYTES. */
int ranks_allgather(struct ranks_self *self, const void *mine, void *all, size_t bytes);

/* The largest of the ranks' values; ranks that failed pass a negative one and all get it. */
double ranks_max(struct ranks_self *self, double value);

/* The first nonzero status of all ranks. */
int ranks_agree(struct ranks_self *self, int status);

/* For braid_comm_create; `self` must stay. */
struct braid_bootstrap ranks_bootstrap(struct ranks_self *self);

#endif
