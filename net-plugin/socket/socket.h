/* The socket transport's table: the only name of this room that others use (core/transports.c). */
#ifndef BRAID_SOCKET_SOCKET_H
#define BRAID_SOCKET_SOCKET_H

#include "net-plugin/core/transport.h"

extern const struct braid_transport braid_socket_transport;

#endif
