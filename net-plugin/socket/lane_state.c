/* What a stream is at, for the line about a connection on which nothing moves (core/stall.c). The holder of the lane's lock. */
#include <stdio.h>
#include <sys/ioctl.h>

#include "common/util.h"
#include "net-plugin/socket/lane.h"
#include "net-plugin/socket/rate.h"

/* What is under way, and who is to move it on. */
void braid_socket_lane_state(struct braid_lane *base, char *buf, size_t buf_bytes)
{
    struct braid_socket_lane *lane = (struct braid_socket_lane *)base;
    size_t at = 0;
    int unread = 0;

    if (lane->put_active)
        at += (size_t)snprintf(buf, buf_bytes, "%zu of %zu bytes sent, ", lane->put_sent,
                               lane->put.bytes);
    if (lane->landing_active && at < buf_bytes)
        at += (size_t)snprintf(buf + at, buf_bytes - at, "%zu of %zu bytes received, ",
                               lane->landed, lane->landing.bytes);
    if (ioctl(lane->fd, FIONREAD, &unread) != 0)
        unread = -1;
    if (at < buf_bytes)
        snprintf(buf + at, buf_bytes - at,
                 "%zu bytes to go first, the kernel has %llu not acknowledged and %d unread, wakes "
                 "at %d%s%s%s%s%s%s",
                 lane->tx_have - lane->tx_sent, (unsigned long long)braid_rate_queued(lane), unread,
                 MAX(lane->wake_bytes, 1),
                 braid_conn_is_sender(base->conn) && braid_socket_lane_takes_bulk(lane)
                     ? ", takes bulk"
                     : "",
                 lane->blocked ? ", socket full" : "",
                 atomic_load(&lane->io_thread) == NULL ? ", without a thread" : "",
                 atomic_load(&lane->io_armed) ? ", thread told" : "",
                 atomic_load(&lane->io_watched) ? ", socket watched" : "",
                 atomic_load(&lane->declined) ? ", left to faster ones" : "");
}
