/*
 * File descriptors between the ranks of one host: a datagram socket a communicator, in the abstract name space of Linux, which
 * belongs to the network namespace. A datagram counts only when it carries the receiver's secret, which the ranks learnt from the
 * bootstrap; everything else is dropped. No call blocks beyond its deadline, whoever dies.
 * Owner: a communicator; threading as for the communicator. Called by: comm.c, window.c.
 */
#ifndef BRAID_DEVICE_HOST_FDPASS_H
#define BRAID_DEVICE_HOST_FDPASS_H

#include <stdint.h>

#include "braid/wire/device_hello_v1.h"

/* Opens this rank's socket and fills socket_name and secret of `hello`. Returns the socket or a negative errno. */
int braid_fdpass_open(struct braid_hello *hello);

void braid_fdpass_close(int socket);

/*
 * Sends `fd` (when fd >= 0) to every rank i with send_to[i], and receives one from every rank i with from[i] into fds[i] (the
 * caller closes it; fds[i] = -1 elsewhere). hello[i] says where rank i listens. Returns 0, -ETIMEDOUT (missing_p then names a
 * rank that was not reached or did not send), or another negative errno; after a failure no descriptor is left open in `fds`.
 */
int braid_fdpass_exchange(int socket, const struct braid_hello *hello, int rank, int ranks,
                          uint32_t serial, int fd, const uint8_t *send_to, const uint8_t *from,
                          int *fds, uint64_t deadline_ns, int *missing_p);

#endif
