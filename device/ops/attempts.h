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
/* 64ths of a block that copy engines push into the staging for copy engines while SMs pull the rest, in so many parts with a flag each;
 * 16ths of the CTAs that sum those parts. 0: none. */
#ifndef BRAID_PULL_ENGINE
#define BRAID_PULL_ENGINE 0u
#endif
#ifndef BRAID_PULL_ENGINE_PARTS
#define BRAID_PULL_ENGINE_PARTS 2u
#endif
#ifndef BRAID_PULL_ENGINE_CTAS
#define BRAID_PULL_ENGINE_CTAS 8u
#endif
/* All-gather and all-to-all ENGINE (apart, or all-gather in place): SMs that say when the copy engines may go and when they are done, and
 * push so many 64ths of the blocks themselves. 0 SMs: stream memory operations, no SM. */
#ifndef BRAID_ENGINE_SMS
#define BRAID_ENGINE_SMS 0u
#endif
#ifndef BRAID_ENGINE_SM_SHARE
#define BRAID_ENGINE_SM_SHARE 0u
#endif

#endif
