/*
 * Keys of the peer's registrations. The peer tells each registration once, and again when its own memory of what it told (64 places, by
 * id) has forgotten it. So what must be kept is: the last one told in each of these places, and everything that an announced buffer
 * may still name, which is at most BRAID_SUBS registrations back. Older ones are dropped in the order in which they were told.
 * Pure state; the holder of the lane's lock.
 */
#ifndef BRAID_VERBS_KEYS_H
#define BRAID_VERBS_KEYS_H

#include <stdint.h>
#include "braid/wire/net_verbs.h"

#define BRAID_KEYS_KEPT   1024 /* more than BRAID_SUBS and the peer's places together */
#define BRAID_KEYS_CHAINS 256
#define BRAID_KEYS_PLACES 64

struct braid_keys {
    struct {
        uint32_t id;   /* 0: free */
        uint16_t next; /* in its chain, plus 1; 0: end */
        struct braid_verbs_keys keys;
    } kept[BRAID_KEYS_KEPT];
    uint16_t heads[BRAID_KEYS_CHAINS]; /* plus 1 */
    uint32_t told[BRAID_KEYS_PLACES];  /* the last id told in each place */
    uint32_t next;                     /* where the next one goes; what is there is the oldest */
};

void braid_keys_learn(struct braid_keys *keys, uint32_t id, const struct braid_verbs_keys *said);
/* 0 and *rkey, or -ENOENT. */
int braid_keys_find(const struct braid_keys *keys, uint32_t id, unsigned rail, uint32_t *rkey);

#endif
