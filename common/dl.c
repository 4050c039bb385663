/* dlopen tables, see dl.h. */
#include "common/dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* dlerror names the file, mostly; where it does not, `what` stands before it. */
static void explain(char *why, size_t why_bytes, const char *what, const char *cause)
{
    if (cause == NULL)
        cause = "unknown error";
    if (why == NULL || why_bytes == 0)
        return;
    if (strstr(cause, what) != NULL)
        snprintf(why, why_bytes, "%s", cause);
    else
        snprintf(why, why_bytes, "%s: %s", what, cause);
}

static int fill(void *library, const struct braid_dl_symbol *symbol, void *table, char *why,
                size_t why_bytes)
{
    void *address = symbol->version ? dlvsym(library, symbol->name, symbol->version)
                                    : dlsym(library, symbol->name);

    if (address == NULL && !symbol->optional) {
        explain(why, why_bytes, symbol->name, dlerror());
        return -ENOSYS;
    }
    memcpy((char *)table + symbol->offset, &address, sizeof(address));
    return 0;
}

int braid_dl_open(const char *const *names, const struct braid_dl_symbol *symbols, size_t count,
                  void *table, char *why, size_t why_bytes)
{
    void *library = NULL;

    for (; library == NULL && *names != NULL; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            explain(why, why_bytes, *names, dlerror());
    }
    if (library == NULL)
        return -ENOENT;
    for (size_t i = 0; i < count; i++) {
        int rc = fill(library, &symbols[i], table, why, why_bytes);

        if (rc != 0)
            return rc; /* stays loaded on purpose, see dl.h */
    }
    return 0;
}
