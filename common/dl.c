/* dlopen tables, see dl.h. */
#include "common/dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
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

#define OBJECTS_MAX 512

/* Names of the loaded objects; opening one inside of the walk would take the loader's lock twice. */
struct names {
    const char *name[OBJECTS_MAX];
    int count;
};

static int keep_name(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct names *names = arg;

    (void)bytes;
    if (info->dlpi_name && info->dlpi_name[0] && names->count < OBJECTS_MAX)
        names->name[names->count++] = info->dlpi_name;
    return 0;
}

bool braid_dl_each_loaded(const char *symbol, bool (*visit)(void *arg, const void *address),
                          void *arg)
{
    struct names names = {.count = 0};
    bool found = false;

    dl_iterate_phdr(keep_name, &names);
    for (int i = 0; i < names.count && !found; i++) {
        void *library = dlopen(names.name[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
        const void *address = library ? dlsym(library, symbol) : NULL;

        found = address && visit(arg, address);
        if (library)
            dlclose(library);
    }
    return found;
}
