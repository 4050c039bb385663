/*
 * Choices inside the collectives that are compared on GPUs before one of them becomes the rule: tests/gpu/attempts.cmake builds a
 * libbraid a row with other values, `tests/gpu/run_collectives.sh attempts` measures them side by side. Without definitions this is what
 * has been measured and what libbraid.so is. A choice that has lost is deleted here and where it is used.
 */
#ifndef BRAID_DEVICE_OPS_ATTEMPTS_H
#define BRAID_DEVICE_OPS_ATTEMPTS_H

/* Threads of a CTA that pulls: how many loads are on their way. */
#ifndef BRAID_PULL_THREADS
#define BRAID_PULL_THREADS 736u
#endif
#endif
