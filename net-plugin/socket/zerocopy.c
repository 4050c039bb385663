/* MSG_ZEROCOPY with its notifications; see zerocopy.h. */
#include "net-plugin/socket/zerocopy.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "net-plugin/socket/lane.h"

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef SO_EE_ORIGIN_ZEROCOPY
#define SO_EE_ORIGIN_ZEROCOPY      5
#define SO_EE_CODE_ZEROCOPY_COPIED 1
#endif

#define ABORT_NS (2 * BRAID_NS_PER_S)

static int enable(int fd)
{
    return setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &(int){1}, sizeof(int)) == 0 ? 0 : -errno;
}

bool braid_zerocopy_is_known(char *why, size_t why_bytes)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int err = fd >= 0 ? enable(fd) : -errno;

    if (fd >= 0)
        close(fd);
    if (err != 0)
        snprintf(why, why_bytes, "this kernel refuses SO_ZEROCOPY: %s", strerror(-err));
    return err == 0;
}

static struct braid_zerocopy_put *put_at(struct braid_zerocopy *zc, unsigned i)
{
    return &zc->puts[(zc->first + i) % BRAID_ZEROCOPY_PUTS];
}

bool braid_zerocopy_begin(struct braid_socket_lane *lane, const struct braid_put *put)
{
    struct braid_zerocopy *zc = &lane->zerocopy;
    bool always = braid_socket_plan.zerocopy == BRAID_ZEROCOPY_ALWAYS;
    struct braid_zerocopy_put *added;

    if (put->bytes < BRAID_ZEROCOPY_BYTES || zc->count == BRAID_ZEROCOPY_PUTS || zc->refused ||
        (!always && !braid_probe_choice(lane->probe).zerocopy))
        return false;
    if (!zc->enabled && enable(lane->fd) != 0) {
        zc->refused = true;
        braid_probe_refuse(lane->probe, BRAID_PROBE_ZEROCOPY, "the socket refuses SO_ZEROCOPY");
        return false;
    }
    zc->enabled = true;
    added = put_at(zc, zc->count++);
    added->put = *put;
    added->from = zc->next_id;
    added->calls = added->ring_calls = 0;
    added->sent = false;
    atomic_store(&added->told, 0);
    return true;
}

void braid_zerocopy_called(struct braid_socket_lane *lane, bool by_ring)
{
    struct braid_zerocopy *zc = &lane->zerocopy;
    struct braid_zerocopy_put *put = put_at(zc, zc->count - 1);

    if (by_ring) {
        put->ring_calls++;
        return;
    }
    put->calls++;
    zc->next_id++;
    zc->waiting++;
}

unsigned braid_zerocopy_slot(const struct braid_socket_lane *lane)
{
    return (lane->zerocopy.first + lane->zerocopy.count - 1) % BRAID_ZEROCOPY_PUTS;
}

void braid_zerocopy_told(struct braid_socket_lane *lane, unsigned slot, bool copied)
{
    if (copied)
        atomic_store(&lane->zerocopy.copied, true);
    atomic_fetch_add(&lane->zerocopy.puts[slot % BRAID_ZEROCOPY_PUTS].told, 1);
}

/* Reports the chunks at the ring's old end of which the kernel has told all. */
static int report(struct braid_socket_lane *lane, int status)
{
    struct braid_zerocopy *zc = &lane->zerocopy;
    int done = 0;

    while (zc->count > 0) {
        struct braid_zerocopy_put *put = put_at(zc, 0);
        if (status == 0 && (!put->sent || atomic_load(&put->told) != put->calls + put->ring_calls))
            break;
        zc->first = (zc->first + 1) % BRAID_ZEROCOPY_PUTS;
        zc->count--;
        braid_conn_put_done(&lane->base, put->put.owner, put->put.bytes, status);
        done++;
    }
    return done;
}

void braid_zerocopy_sent(struct braid_socket_lane *lane)
{
    put_at(&lane->zerocopy, lane->zerocopy.count - 1)->sent = true;
    report(lane, 0);
}

/* Calls `low` to `high` are done; a range may cover several chunks. Ids wrap. */
static void take_range(struct braid_zerocopy *zc, uint32_t low, uint32_t high)
{
    for (unsigned i = 0; i < zc->count; i++) {
        struct braid_zerocopy_put *put = put_at(zc, i);
        for (uint32_t id = put->from; id != put->from + put->calls; id++) {
            if (id - low > high - low)
                continue;
            atomic_fetch_add(&put->told, 1);
            zc->waiting--;
        }
    }
}

/* One message of the error queue; false when there is none. */
static bool take_message(struct braid_socket_lane *lane)
{
    char control[256] __attribute__((aligned(8)));
    struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof(control)};
    struct sock_extended_err error;

    if (recvmsg(lane->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
        return false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
        if (!(c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) &&
            !(c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR))
            continue;
        memcpy(&error, CMSG_DATA(c), sizeof(error));
        if (error.ee_errno != 0 || error.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
            continue;
        if (error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
            atomic_store(&lane->zerocopy.copied, true);
        take_range(&lane->zerocopy, error.ee_info, error.ee_data);
    }
    return true;
}

int braid_zerocopy_reap(struct braid_socket_lane *lane)
{
    struct braid_zerocopy *zc = &lane->zerocopy;

    if (zc->count == 0)
        return 0;
    while (zc->waiting > 0 && take_message(lane))
        ;
    if (!zc->refused && atomic_load(&zc->copied) &&
        braid_socket_plan.zerocopy != BRAID_ZEROCOPY_ALWAYS) {
        zc->refused = true;
        braid_probe_refuse(lane->probe, BRAID_PROBE_ZEROCOPY,
                           "the kernel copies all the same on the way of this interface");
    }
    return report(lane, 0);
}

void braid_zerocopy_abort(struct braid_socket_lane *lane)
{
    struct braid_zerocopy *zc = &lane->zerocopy;
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    uint64_t until = braid_now_ns() + ABORT_NS;

    if (zc->count == 0)
        return;
    put_at(zc, zc->count - 1)->sent = true; /* it may be in the middle */
    /* The stream is reset, its queue dropped. Past the C library, since the thread sanitizer takes a connect for the descriptor's birth. */
    syscall(SYS_connect, lane->fd, &none, sizeof(none));
    while (braid_zerocopy_reap(lane) >= 0 && zc->count > 0 && braid_now_ns() < until) {
        struct pollfd fd = {.fd = lane->fd};
        poll(&fd, 1, 10);
    }
    if (zc->count > 0)
        BRAID_WARN("the kernel still holds %u chunks of peer %s %llu s after the reset of a stream",
                   zc->count, braid_conn_peer(lane->base.conn), ABORT_NS / BRAID_NS_PER_S);
    report(lane, -ECANCELED);
}
