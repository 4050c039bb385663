/*
 * What the two ends of the socket transport tell each other in the handshake, as its offer. Little-endian.
 */
#ifndef BRAID_WIRE_NET_SOCKET_H
#define BRAID_WIRE_NET_SOCKET_H

#include <stdint.h>
#include "braid/wire/net_handshake.h"

#define BRAID_SOCKET_RAILS      8
#define BRAID_SOCKET_RAIL_ADDRS 2

/* One interface of the device: an address of each family that it has. */
struct braid_socket_rail {
    struct braid_wire_addr addrs[BRAID_SOCKET_RAIL_ADDRS];
    uint32_t speed_Mbps;
};
BRAID_WIRE_ASSERT(sizeof(struct braid_socket_rail) == 44, "rail layout");

struct braid_socket_offer {
    uint32_t streams; /* for bulk, besides stream 0, that this side is ready to have */
    uint32_t rails; /* entries that are filled; more than BRAID_SOCKET_RAILS counts as that many */
    struct braid_socket_rail rail[BRAID_SOCKET_RAILS];
};
BRAID_WIRE_ASSERT(sizeof(struct braid_socket_offer) == 360, "socket offer layout");

#endif
