/*
 * How fast each rail is, and which of them takes what waits. Internal to socket/; under the lane's lock.
 */
#ifndef BRAID_SOCKET_RATE_H
#define BRAID_SOCKET_RATE_H

#include <stdint.h>

struct braid_socket_lane;

/* What the kernel has of this lane and the peer has not acknowledged, bytes. */
uint64_t braid_rate_queued(const struct braid_socket_lane *lane);

/*
 * The rate at which the peer acknowledges, over stretches in which the kernel always had something to send (it has still now, and was given more only
 * after the last sample): only those say something about the rail. Until the first the rate is unknown, so that the lane takes part and gets to know it.
 */
void braid_rate_measure(struct braid_socket_lane *lane);

/*
 * What waits is left to faster lanes. One of those may rest because it has declined as well, when it was the slower one: it is asked again
 * (by the next caller that polls), so that of all lanes that decline at the same time one is left that does not.
 */
void braid_rate_decline(struct braid_socket_lane *lane);

#endif
