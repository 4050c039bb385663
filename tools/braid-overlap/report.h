/*
 * What braid-overlap says about a measured shape: a line of the table, the explanation below it, rows of JSON.
 * Called by: main.c, on rank 0 only.
 */
#ifndef BRAID_OVERLAP_REPORT_H
#define BRAID_OVERLAP_REPORT_H

#include "tools/braid-overlap/bench.h"

void report_head(const struct session *s);
void report_shape(struct bench *b);

#endif
