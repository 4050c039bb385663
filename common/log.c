/* The sink of log.h: NCCL's logger when one was given, else stderr. */
#include "common/log.h"

#include "common/param.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LINE_BYTES 1024

static _Atomic(braid_log_fn) sink;

void braid_log_set_sink(braid_log_fn fn)
{
    atomic_store(&sink, fn);
}

/* NCCL_DEBUG as NCCL reads it; only used while NCCL's own logger is not there to decide. */
static enum braid_log_level stderr_level(void)
{
    const char *text = braid_param_str(BRAID_P_DEBUG);

    if (strcasecmp(text, "TRACE") == 0)
        return BRAID_LOG_LEVEL_TRACE;
    if (strcasecmp(text, "INFO") == 0)
        return BRAID_LOG_LEVEL_INFO;
    return BRAID_LOG_LEVEL_WARN;
}

void braid_log(enum braid_log_level level, unsigned long subsys, const char *file, int line,
               const char *fmt, ...)
{
    braid_log_fn fn = atomic_load(&sink);
    char text[LINE_BYTES];
    va_list args;

    if (fn == NULL && level > stderr_level())
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (fn != NULL)
        fn(level, subsys, file, line, "braid: %s", text);
    else
        fprintf(stderr, "braid[%d] %s: %s\n", (int)getpid(),
                level == BRAID_LOG_LEVEL_WARN ? "WARN" : "INFO", text);
}
