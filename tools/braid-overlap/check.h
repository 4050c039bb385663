/*
 * Correctness of the fused products on this machine. Threading: one thread a rank, all ranks together. Called by: main.c.
 */
#ifndef BRAID_OVERLAP_CHECK_H
#define BRAID_OVERLAP_CHECK_H

#include "tools/braid-overlap/session.h"

/* Runs all checks; prints one line each on rank 0. Returns the number of failed checks, or a negative errno; equal on all ranks. */
int check_run(struct session *s);

#endif
