/* Small macros that C lacks. Included by anyone; no state. */
#ifndef BRAID_COMMON_UTIL_H
#define BRAID_COMMON_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

/* The struct of type `type` whose field `member` is at `ptr`. */
#define braid_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* printf-style format checking for functions whose format is argument f and first value argument v. */
#define BRAID_PRINTF(f, v) __attribute__((format(printf, f, v)))

/* A function that stays out of its caller, which then saves no registers for it; BRAID_COLD: and is seldom called. */
#define BRAID_APART __attribute__((noinline))
#define BRAID_COLD  __attribute__((noinline, cold))

#define BRAID_CACHE_LINE 64

#endif
