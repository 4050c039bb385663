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
    uint32_t from, calls; /* ids of its calls with MSG_ZEROCOPY */
    uint32_t ring_calls;  /* with IORING_OP_SEND_ZC */
    atomic_uint told;     /* of both */
    bool sent;            /* no more calls for it follow */
};

struct braid_zerocopy {
    bool enabled;  /* on this socket */
    bool refused;  /* by it */
    bool no_pages; /* the last call found no memory that may be pinned: the next one copies */
    uint32_t next_id, waiting; /* MSG_ZEROCOPY calls that the error queue owes */
    atomic_bool copied;        /* the kernel has copied all the same */
    unsigned first, count;
    struct braid_zerocopy_put puts[BRAID_ZEROCOPY_PUTS];
};

struct braid_socket_lane;

/* Whether this kernel knows it; else `why` says what it answered. Any thread. */
bool braid_zerocopy_is_known(char *why, size_t why_bytes);

/* A chunk begins. True if it goes without copying: the calls below follow for it, until _sent(). */
bool braid_zerocopy_begin(struct braid_socket_lane *lane, const struct braid_put *put);
/* A call with MSG_ZEROCOPY, or with IORING_OP_SEND_ZC, has taken bytes of the chunk. */
void braid_zerocopy_called(struct braid_socket_lane *lane, bool by_ring);
/* The place of the chunk in the ring, for notifications of IORING_OP_SEND_ZC. */
unsigned braid_zerocopy_slot(const struct braid_socket_lane *lane);
/* Such a notification. Any thread; the lane's next reap reports. */
void braid_zerocopy_told(struct braid_socket_lane *lane, unsigned slot, bool copied);
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
