/*
 * MSG_ZEROCOPY on one lane: the kernel sends a chunk out of the user's pages and tells later, through the socket's error queue, that it will
 * not look at them again. Only then the chunk is done; until then it waits in a ring here. Where the kernel says that it had
 * to copy all the same (loopback, virtual interfaces), zero copy costs more than copying and is given up for the device, once said.
 * Whether it pays elsewhere is measured (probe.h). Threading: the holder of the lane's lock.
 */
#ifndef BRAID_SOCKET_ZEROCOPY_H
#define BRAID_SOCKET_ZEROCOPY_H

#include <sys/socket.h>
#include "net-plugin/core/transport.h"

#define BRAID_ZEROCOPY_PUTS  8
#define BRAID_ZEROCOPY_BYTES (64 * 1024) /* smaller chunks are copied: pinning pages costs more */

struct braid_zerocopy_put {
    struct braid_put put;
    uint32_t from, count; /* ids of its calls */
    uint32_t told;        /* of them */
    bool sent;            /* no more calls for it follow */
};

struct braid_zerocopy {
    bool enabled; /* on this socket */
    bool refused; /* by it */
    uint32_t next_id;
    unsigned first, count;
    struct braid_zerocopy_put puts[BRAID_ZEROCOPY_PUTS];
};

struct braid_socket_lane;

/* Whether this kernel knows it; else `why` says what it answered. Any thread. */
bool braid_zerocopy_is_known(char *why, size_t why_bytes);

/* A chunk begins. True if it goes without copying: the calls below follow for it, until _sent(). */
bool braid_zerocopy_begin(struct braid_socket_lane *lane, const struct braid_put *put);
/* As sendmsg, of bytes of the chunk alone. */
ssize_t braid_zerocopy_send(struct braid_socket_lane *lane, const struct msghdr *msg, int flags);
/* All of the chunk is with the kernel. */
void braid_zerocopy_sent(struct braid_socket_lane *lane);
/* Whether the kernel still has chunks. */
static inline bool braid_zerocopy_is_busy(const struct braid_zerocopy *zc)
{
    return zc->count > 0;
}
/* Takes in what the kernel has told, and reports chunks. Their number. */
int braid_zerocopy_reap(struct braid_socket_lane *lane);
/* Makes the kernel drop what it has, by a reset of the stream, and gives all chunks back with -ECANCELED. At most 2 s. */
void braid_zerocopy_abort(struct braid_socket_lane *lane);

#endif
