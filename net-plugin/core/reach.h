/*
 * Ways to a peer: which of its addresses to try in which order, from which of our interfaces. Pure functions over the peer's handle and
 * our list of interfaces; connect.c tries one after the other. Internal to core.
 */
#ifndef BRAID_NET_REACH_H
#define BRAID_NET_REACH_H

#include "braid/wire/net_handshake.h"
#include "common/netif.h"

#define BRAID_WAYS 24

struct braid_way {
    union braid_addr peer;   /* with its port */
    union braid_addr source; /* AF_UNSPEC: the kernel chooses */
    char netif[IFNAMSIZ];    /* the packets leave by this interface only; "": as the routes say */
};

/*
 * The ways to the addresses of a handle, best first, at most BRAID_WAYS:
 *   1. from the device's own interface `own` (may be NULL), tied to it; addresses in its own subnet come first, at the port where the
 *      peer is tied as well, if it has one, then at the other
 *   2. from another interface in the subnet of one of the peer's addresses, tied to it, in the same way
 *   3. as 1 without the tie, for hosts whose routes lead elsewhere
 *   4. as the kernel chooses
 * Nothing is tied for an address that is this host's own: such traffic goes by the loopback.
 */
int braid_reach_ways(const struct braid_netif *netifs, int count, const char *own,
                     const struct braid_handle *handle, struct braid_way *ways);

/* The ways of a further stream from `source` to `peer` (with its port): tied to the interface that has `source`, then not. */
int braid_reach_route(const struct braid_netif *netifs, int count, const union braid_addr *source,
                      const union braid_addr *peer, struct braid_way *ways);

/* Whether `b` differs from `a` in the peer's port only, so that no answer at the one means none at the other. */
bool braid_way_is_twin(const struct braid_way *a, const struct braid_way *b);

/* "10.0.0.2:4711 from 10.0.0.1 by eth0" into buf; returns buf. */
char *braid_way_text(const struct braid_way *way, char *buf, size_t buf_bytes);

#endif
