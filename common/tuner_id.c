/* See tuner_id.h. */
#include "common/tuner_id.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

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

bool braid_tuner_id_find(struct braid_wire_tuner_id *id)
{
    struct names names = {.count = 0};
    bool found = false;

    memset(id, 0, sizeof(*id));
    dl_iterate_phdr(keep_name, &names);
    for (int i = 0; i < names.count && !found; i++) {
        void *library = dlopen(names.name[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
        const struct braid_wire_tuner_id *theirs =
            library ? dlsym(library, BRAID_WIRE_TUNER_ID_SYMBOL) : NULL;

        if (theirs &&
            __atomic_load_n(&theirs->magic, __ATOMIC_ACQUIRE) == BRAID_WIRE_TUNER_ID_MAGIC) {
            *id = *theirs;
            found = true;
        }
        if (library)
            dlclose(library);
    }
    return found;
}
