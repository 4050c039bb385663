/* Rates of rails; see rate.h. */
#include "net-plugin/socket/rate.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "common/clock.h"
#include "common/util.h"
#include "net-plugin/socket/lane.h"

/* What busy stretches must add up to before a rate is taken from them. */
#define STRETCH_NS (20 * BRAID_NS_PER_MS)
/* A rate that is older than this is taken to be twice as high, lest a lane be left out for good. */
#define FRESH_NS  (100 * BRAID_NS_PER_MS)
#define GUESS_MAX (1ull << 40) /* bytes a second */

uint64_t braid_rate_queued(const struct braid_socket_lane *lane)
{
    int queued = 0;

    return ioctl(lane->fd, SIOCOUTQ, &queued) == 0 ? (uint64_t)queued : 0;
}

static uint64_t rate_of(const struct braid_lane *lane)
{
    return atomic_load_explicit(&lane->rate_Bps, memory_order_relaxed);
}

static void set_rate(struct braid_socket_lane *lane, uint64_t rate, uint64_t now)
{
    atomic_store_explicit(&lane->base.rate_Bps, rate, memory_order_relaxed);
    lane->rated_ns = now;
}

void braid_rate_measure(struct braid_socket_lane *lane)
{
    uint64_t given = atomic_load_explicit(&lane->base.put_bytes, memory_order_relaxed), now, rate,
             old, acked, queued = braid_rate_queued(lane);

    atomic_store_explicit(&lane->base.queued_bytes, queued, memory_order_relaxed);
    now = braid_now_ns();
    acked = given - MIN(given, queued);
    if (queued > 0 && lane->sampled_ns != 0) {
        lane->stretch_ns += now - lane->sampled_ns;
        lane->stretch_bytes += acked - lane->sampled_bytes;
    }
    lane->sampled_ns = now;
    lane->sampled_bytes = acked;
    old = rate_of(&lane->base);
    if (lane->stretch_ns < STRETCH_NS) {
        /* Declined since then, perhaps: it gets another chance. */
        if (now - lane->rated_ns > FRESH_NS && old < GUESS_MAX) {
            set_rate(lane, 2 * old, now);
            lane->rate_guessed = true;
        }
        return;
    }
    rate = lane->stretch_bytes * BRAID_NS_PER_S / lane->stretch_ns;
    set_rate(lane, old == 0 || lane->rate_guessed ? rate : (3 * old + rate) / 4, now);
    lane->rate_guessed = false;
    lane->stretch_ns = 0;
    lane->stretch_bytes = 0;
}

void braid_rate_decline(struct braid_socket_lane *lane)
{
    struct braid_conn *conn = lane->base.conn;
    bool faster = false;

    atomic_store(&lane->declined, true);
    for (unsigned i = 0; i < braid_conn_lanes(conn); i++) {
        struct braid_lane *other = braid_conn_lane(conn, i);
        if (rate_of(other) <= rate_of(&lane->base))
            continue;
        atomic_store(&((struct braid_socket_lane *)other)->declined, false);
        faster = true;
    }
    if (!faster)
        atomic_store(&lane->declined, false);
}
