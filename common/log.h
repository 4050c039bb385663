/*
 * Log lines. Before NCCL hands its logger over they go to stderr, afterwards to NCCL, which filters by NCCL_DEBUG and
 * NCCL_DEBUG_SUBSYS. The function that decides what an error means logs it, once, with its cause; callers only return it.
 * The data path never logs (BRAID_TRACE is compiled out unless BRAID_TRACE_LOG is defined).
 * Threading: any thread; braid_log_set_sink while no other thread of the same library logs (plugin init and finalize).
 * Called by: everyone.
 */
#ifndef BRAID_COMMON_LOG_H
#define BRAID_COMMON_LOG_H

#include "common/util.h"

/* The values are NCCL's ncclDebugLogLevel. */
enum braid_log_level {
    BRAID_LOG_LEVEL_NONE = 0,
    BRAID_LOG_LEVEL_VERSION = 1,
    BRAID_LOG_LEVEL_WARN = 2,
    BRAID_LOG_LEVEL_INFO = 3,
    BRAID_LOG_LEVEL_ABORT = 4,
    BRAID_LOG_LEVEL_TRACE = 5,
};

/* The values are NCCL's ncclDebugLogSubSys. */
enum braid_log_subsys {
    BRAID_LOG_INIT = 0x1,
    BRAID_LOG_COLL = 0x2,
    BRAID_LOG_NET = 0x10,
    BRAID_LOG_GRAPH = 0x20,
    BRAID_LOG_TUNING = 0x40,
    BRAID_LOG_ENV = 0x80,
    BRAID_LOG_ALL = ~0,
};

/* Same shape as NCCL's ncclDebugLogger_t (its level is an enum, which C passes as int). */
typedef void (*braid_log_fn)(int level, unsigned long subsys, const char *file, int line,
                             const char *fmt, ...);

/* Where lines go from now on; NULL means stderr. stderr shows WARN always, INFO and more when NCCL_DEBUG asks for them. */
void braid_log_set_sink(braid_log_fn fn);

/* The line "braid: <text>" to the sink. Use the macros. */
void braid_log(enum braid_log_level level, unsigned long subsys, const char *file, int line,
               const char *fmt, ...) BRAID_PRINTF(5, 6);

#define BRAID_WARN(...)                                                                            \
    braid_log(BRAID_LOG_LEVEL_WARN, (unsigned long)BRAID_LOG_ALL, __FILE__, __LINE__, __VA_ARGS__)
#define BRAID_INFO(subsys, ...)                                                                    \
    braid_log(BRAID_LOG_LEVEL_INFO, (unsigned long)(subsys), __FILE__, __LINE__, __VA_ARGS__)
#ifdef BRAID_TRACE_LOG
#define BRAID_TRACE(subsys, ...)                                                                   \
    braid_log(BRAID_LOG_LEVEL_TRACE, (unsigned long)(subsys), __FILE__, __LINE__, __VA_ARGS__)
#else
#define BRAID_TRACE(subsys, ...)                                                                   \
    do {                                                                                           \
        if (0)                                                                                     \
            braid_log(BRAID_LOG_LEVEL_TRACE, (unsigned long)(subsys), __FILE__, __LINE__,          \
                      __VA_ARGS__);                                                                \
    } while (0)
#endif

#endif
