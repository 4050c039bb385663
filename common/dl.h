/*
 * Optional libraries, opened at run time so that Braid's shared objects load without them.
 * A user fills a struct of function pointers from a const table of names. Nothing is unloaded again: the libraries that Braid
 * opens (libcuda, libibverbs, ...) do not survive dlclose well, and NCCL holds most of them anyway.
 * Threading: any thread, but callers serialise calls for the same table.
 */
#ifndef BRAID_COMMON_DL_H
#define BRAID_COMMON_DL_H

#include <stdbool.h>
#include <stddef.h>

struct braid_dl_symbol {
    const char *name;
    const char *version; /* symbol version, or NULL for the default one */
    size_t offset;       /* of the function pointer in the caller's struct */
    bool optional;       /* left NULL when the library lacks it */
};

#define BRAID_DL_SYMBOL(type, member, symbol)                                                      \
    {                                                                                              \
#symbol, NULL, offsetof(type, member), false                                               \
    }
#define BRAID_DL_OPTIONAL(type, member, symbol)                                                    \
    {                                                                                              \
#symbol, NULL, offsetof(type, member), true                                                \
    }

/*
 * Opens the first of `names` (NULL-terminated) that loads and fills `table` with its symbols.
 * Returns 0; -ENOENT when none loads; -ENOSYS when a needed symbol is missing. In both cases `why` (may be NULL) receives one
 * line of reason and `table` is left zeroed where it was not filled. Logs nothing: absence is the caller's decision.
 */
int braid_dl_open(const char *const *names, const struct braid_dl_symbol *symbols, size_t count,
                  void *table, char *why, size_t why_bytes);

/*
 * Goes through the objects that this process has loaded, in whatever way and under whatever name, and calls `visit` with the address
 * of `symbol` in each that exports it, until `visit` returns true. Returns whether one did. The address is valid during the call only.
 */
bool braid_dl_each_loaded(const char *symbol, bool (*visit)(void *arg, const void *address),
                          void *arg);

#endif
