/*
 * The store of the peer's keys. See keys.h. Called by mr.c (records of the peer) and lane.c (a chunk that leaves).
 */
#include "net-plugin/verbs/keys.h"

#include <errno.h>

static void unlink_oldest(struct braid_keys *keys, uint32_t at)
{
    uint16_t *link = &keys->heads[keys->kept[at].id % BRAID_KEYS_CHAINS];

    while (*link != at + 1)
        link = &keys->kept[*link - 1].next;
    *link = keys->kept[at].next;
}

static void put_newest(struct braid_keys *keys, uint32_t id, const struct braid_verbs_keys *said)
{
    uint32_t at = keys->next++ % BRAID_KEYS_KEPT;

    keys->kept[at].id = id;
    keys->kept[at].keys = *said;
    keys->kept[at].next = keys->heads[id % BRAID_KEYS_CHAINS];
    keys->heads[id % BRAID_KEYS_CHAINS] = (uint16_t)(at + 1);
}

void braid_keys_learn(struct braid_keys *keys, uint32_t id, const struct braid_verbs_keys *said)
{
    keys->told[id % BRAID_KEYS_PLACES] = id;
    /* Makes room: one that the peer will not tell again goes on as a new one. There are far fewer of these than there is room. */
    for (int tries = 0; tries <= BRAID_KEYS_PLACES; tries++) {
        uint32_t at = keys->next % BRAID_KEYS_KEPT, old = keys->kept[at].id;
        struct braid_verbs_keys kept = keys->kept[at].keys;
        if (old == 0)
            break;
        unlink_oldest(keys, at);
        keys->kept[at].id = 0;
        if (old == id || keys->told[old % BRAID_KEYS_PLACES] != old)
            break;
        put_newest(keys, old, &kept);
    }
    put_newest(keys, id, said);
}

int braid_keys_find(const struct braid_keys *keys, uint32_t id, unsigned rail, uint32_t *rkey)
{
    for (uint32_t i = keys->heads[id % BRAID_KEYS_CHAINS]; i != 0; i = keys->kept[i - 1].next) {
        if (keys->kept[i - 1].id != id)
            continue;
        if (rail >= keys->kept[i - 1].keys.count)
            return -ENOENT;
        *rkey = keys->kept[i - 1].keys.rkeys[rail];
        return 0;
    }
    return -ENOENT;
}
