/*
 * Choices inside the collectives that are compared on GPUs before one of them becomes the rule: tests/gpu/attempts.cmake builds a
 * libbraid a row with other values, `tests/gpu/run_collectives.sh attempts` measures them side by side. Without definitions this is what
 * has been measured and what libbraid.so is. A choice that has lost is deleted here and where it is used.
 */
#ifndef BRAID_DEVICE_OPS_ATTEMPTS_H
#define BRAID_DEVICE_OPS_ATTEMPTS_H

/* The most MiB of staging that reductions use as a ring: reduce-scatter, two-shot all-reduce. */
#ifndef BRAID_SCATTER_RING
#define BRAID_SCATTER_RING 24u
#endif
#ifndef BRAID_TWO_SHOT_RING
#define BRAID_TWO_SHOT_RING 8u
#endif
#endif
