/*
 * See tuner_id.h. To go through all libraries of a large process takes milliseconds, and it is done for every connection; so the outcome is
 * kept as long as the loader has neither added nor removed one.
 */
#include "common/tuner_id.h"

#include <link.h>
#include <pthread.h>
#include <string.h>

#include "common/dl.h"

static struct {
    pthread_mutex_t lock;
    bool settled; /* what follows was found when the loader's counts were these */
    unsigned long long adds, subs;
    const void *address; /* NULL: no library has one */
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct search {
    struct braid_wire_tuner_id *id;
    bool seen, known; /* a library has one; and it is filled in */
    bool cached;
    unsigned long long adds, subs;
};

static bool copy_known(struct search *search, const void *address)
{
    const struct braid_wire_tuner_id *theirs = address;

    if (__atomic_load_n(&theirs->magic, __ATOMIC_ACQUIRE) != BRAID_WIRE_TUNER_ID_MAGIC)
        return false;
    memcpy(search->id, theirs, sizeof(*theirs));
    return true;
}

static bool visit(void *arg, const void *address)
{
    struct search *search = arg;

    search->seen = true;
    search->known = copy_known(search, address);
    if (search->known)
        cache.address = address;
    return search->known;
}

/* Called for one library, with the loader's list locked: none goes away meanwhile. */
static int look_up(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct search *search = arg;

    search->adds = info->dlpi_adds;
    search->subs = info->dlpi_subs;
    search->cached =
        cache.settled && cache.adds == info->dlpi_adds && cache.subs == info->dlpi_subs;
    if (search->cached && cache.address != NULL)
        search->known = copy_known(search, cache.address);
    return 1;
}

bool braid_tuner_id_find(struct braid_wire_tuner_id *id)
{
    struct search search = {.id = id};

    memset(id, 0, sizeof(*id));
    pthread_mutex_lock(&cache.lock);
    dl_iterate_phdr(look_up, &search);
    if (!search.cached) {
        cache.address = NULL;
        braid_dl_each_loaded(BRAID_WIRE_TUNER_ID_SYMBOL, visit, &search);
        cache.adds = search.adds;
        cache.subs = search.subs;
        cache.settled = search.known || !search.seen; /* one that is not filled in yet will be */
    }
    pthread_mutex_unlock(&cache.lock);
    return search.known;
}
