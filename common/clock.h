/*
 * Time for bounds and measurements: one monotonic clock, nanoseconds.
 * Owns nothing; any thread. Deadlines are absolute values of this clock, 0 means "no deadline yet".
 */
#ifndef BRAID_COMMON_CLOCK_H
#define BRAID_COMMON_CLOCK_H

#include <stdint.h>

#define BRAID_NS_PER_US 1000ull
#define BRAID_NS_PER_MS 1000000ull
#define BRAID_NS_PER_S  1000000000ull

/* CLOCK_MONOTONIC in nanoseconds; through the vDSO, about 25 ns. */
uint64_t braid_now_ns(void);

/* Sleeps for `ns` nanoseconds, also across signals. */
void braid_sleep_ns(uint64_t ns);

/* One polite pause in a spin loop. */
static inline void braid_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield" ::: "memory");
#endif
}

#endif
