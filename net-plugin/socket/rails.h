/*
 * Rails: the interfaces of a socket device, and the routes over which the streams of a connection go. Pure but for the list of
 * interfaces, which is constant. Internal to socket/.
 */
#ifndef BRAID_SOCKET_RAILS_H
#define BRAID_SOCKET_RAILS_H

#include "braid/wire/net_socket.h"
#include "common/sock.h"

/* From an address of ours to one of the peer's. */
struct braid_socket_route {
    union braid_addr source, peer; /* ports 0 */
    uint16_t rail;                 /* of this side's device */
};

/* Describes the interfaces `netifs` (indices in braid_netifs()) in an offer. */
void braid_rails_offer(const int *netifs, int count, struct braid_socket_offer *offer);

/*
 * Pairs our rails with the peer's: each of ours goes to a rail of the peer in its own subnet if there is one, else to the peer's rail of
 * the same number; both sides' rails are all used where both have several. Addresses of one family. `routes` has room for
 * BRAID_SOCKET_RAILS. Returns their number; 0 when no pair has a common family.
 */
int braid_rails_pair(const struct braid_socket_offer *ours, const struct braid_socket_offer *theirs,
                     struct braid_socket_route *routes);

#endif
