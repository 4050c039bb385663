/*
 * Quantities as people write them. Pure functions, any thread.
 * Called by: param.c, topology and profile parsers, tools.
 */
#ifndef BRAID_COMMON_UNITS_H
#define BRAID_COMMON_UNITS_H

#include <stddef.h>
#include <stdint.h>

/*
 * A decimal integer with an optional binary suffix (K, M, G, T, also Ki/KiB/KB and so on, any case, all 1024-based) that must
 * fill `text` up to trailing blanks. Returns 0, -EINVAL for anything else, -ERANGE when it does not fit in int64_t.
 */
int braid_parse_bytes(const char *text, int64_t *bytes_p);

/* The same without a suffix. */
int braid_parse_int(const char *text, int64_t *value_p);

/* "64 KiB", "1.5 MiB", "17 B" into `buf`; returns `buf`. */
char *braid_format_bytes(uint64_t bytes, char *buf, size_t buf_bytes);

#endif
