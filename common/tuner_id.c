/* See tuner_id.h. */
#include "common/tuner_id.h"

#include <string.h>

#include "common/dl.h"

static bool copy_known(void *arg, const void *address)
{
    const struct braid_wire_tuner_id *theirs = address;

    if (__atomic_load_n(&theirs->magic, __ATOMIC_ACQUIRE) != BRAID_WIRE_TUNER_ID_MAGIC)
        return false;
    memcpy(arg, theirs, sizeof(*theirs));
    return true;
}

bool braid_tuner_id_find(struct braid_wire_tuner_id *id)
{
    memset(id, 0, sizeof(*id));
    return braid_dl_each_loaded(BRAID_WIRE_TUNER_ID_SYMBOL, copy_known, id);
}
