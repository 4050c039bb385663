/*
 * What both halves of a connection share: lanes, control records with their sequence, failure, and the upcalls of transport.h that do not
 * belong to sending (send.c) or receiving (recv.c).
 */
#include "net-plugin/core/conn.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/pages.h"
#include "common/param.h"
#include "common/util.h"

/*
 * What one progress call moves at most each way: about 200 us of copying, so that no call of NCCL's takes long. With a quarter of it four
 * connections lost up to a third of their bandwidth, because each turn found the caches full of the others' data.
 */
#define CALL_BUDGET_BYTES  (1024 * 1024)
#define SPINS_BEFORE_YIELD 64

atomic_uint braid_idle_tests;

void braid_spin_wait(struct braid_spin *spin)
{
    for (unsigned i = 1; atomic_flag_test_and_set_explicit(&spin->held, memory_order_acquire);
         i++) {
        if (i % SPINS_BEFORE_YIELD == 0)
            sched_yield(); /* the holder may have lost its processor */
        else
            braid_cpu_relax();
    }
}

struct braid_conn *braid_conn_new(bool sender, int dev, int traffic_class)
{
    struct braid_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL)
        return NULL;
    conn->sender = sender;
    conn->dev = dev;
    conn->traffic_class = traffic_class;
    conn->eager_bytes = (uint32_t)braid_param_int(BRAID_P_EAGER_BYTES);
    conn->all_polled = !braid_param_int(BRAID_P_OPTIONAL_RECV_COMPLETION);
    snprintf(conn->peer, sizeof(conn->peer), "(not known yet)");
    if (sender)
        conn->tx = braid_pages_new(sizeof(*conn->tx));
    else
        conn->rx = braid_pages_new(sizeof(*conn->rx));
    if (conn->tx == NULL && conn->rx == NULL) {
        free(conn);
        return NULL;
    }
    if (sender)
        braid_sender_init(conn);
    else
        braid_receiver_init(conn);
    return conn;
}

void braid_conn_free(struct braid_conn *conn)
{
    if (conn == NULL)
        return;
    if (conn->ops != NULL)
        conn->ops->detach(conn);
    braid_pages_free(conn->tx, sizeof(*conn->tx));
    braid_pages_free(conn->rx, sizeof(*conn->rx));
    free(conn);
}

/* -- transport.h: state and lanes ------------------------------------------------------------------------------------- */

void braid_conn_set_tp(struct braid_conn *conn, void *tp)
{
    conn->tp = tp;
}

void *braid_conn_tp(const struct braid_conn *conn)
{
    return conn->tp;
}

bool braid_conn_is_sender(const struct braid_conn *conn)
{
    return conn->sender;
}

const char *braid_conn_peer(const struct braid_conn *conn)
{
    return conn->peer;
}

int braid_conn_traffic_class(const struct braid_conn *conn)
{
    return conn->traffic_class;
}

void braid_conn_limit_eager(struct braid_conn *conn, uint32_t bytes)
{
    conn->eager_bytes = MIN(conn->eager_bytes, bytes);
}

void braid_lane_init(struct braid_lane *lane, struct braid_conn *conn,
                     const struct braid_transport *ops, unsigned index, unsigned rail)
{
    memset(lane, 0, sizeof(*lane));
    lane->conn = conn;
    lane->ops = ops;
    lane->index = (uint16_t)index;
    lane->rail = (uint16_t)rail;
    atomic_flag_clear(&lane->busy);
    atomic_store(&lane->heard_ns, braid_now_ns());
}

/*
 * Who gives the connection up (revoke in net.c) says so and then fences the lanes that there are. One that comes meanwhile is either among them,
 * or finds that it has been said, before anything can move on it.
 */
int braid_conn_add_lane(struct braid_conn *conn, struct braid_lane *lane)
{
    unsigned count = atomic_load(&conn->lanes_count);

    if (count == BRAID_LANES_MAX)
        return -ENOSPC;
    while (!braid_lane_trylock(lane))
        sched_yield();
    lane->place = (uint16_t)count;
    conn->lanes[count] = lane;
    atomic_store(&conn->lanes_count, count + 1);
    if (atomic_load(&conn->error) != 0) {
        atomic_store(&lane->state, BRAID_LANE_FENCED);
        lane->ops->fence(lane);
    }
    braid_lane_unlock(lane);
    return 0;
}

unsigned braid_conn_lanes(const struct braid_conn *conn)
{
    return atomic_load_explicit(&conn->lanes_count, memory_order_acquire);
}

struct braid_lane *braid_conn_lane(const struct braid_conn *conn, unsigned i)
{
    return conn->lanes[i];
}

static bool lane_is_up(const struct braid_lane *lane)
{
    return atomic_load_explicit(&lane->state, memory_order_relaxed) == BRAID_LANE_UP;
}

static bool has_lane_up(const struct braid_conn *conn)
{
    unsigned count = atomic_load_explicit(&conn->lanes_count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++)
        if (lane_is_up(conn->lanes[i]))
            return true;
    return false;
}

/* -- failure ---------------------------------------------------------------------------------------------------------------- */

void braid_conn_fail(struct braid_conn *conn, int error)
{
    int none = 0;

    atomic_compare_exchange_strong(&conn->error, &none, error);
}

void braid_conn_fail_tell(struct braid_conn *conn, int error, const char *text)
{
    snprintf(conn->fail_text, sizeof(conn->fail_text), "%s", text);
    conn->fail_due = true;
    braid_conn_fail(conn, error);
}

int braid_conn_status(struct braid_conn *conn)
{
    int error = atomic_load_explicit(&conn->error, memory_order_relaxed);

    if (error == 0 && atomic_load_explicit(&conn->ended, memory_order_relaxed)) {
        BRAID_WARN("peer %s has closed the connection, and this side still %s", conn->peer,
                   conn->sender ? "sends to it" : "waits for a message from it");
        error = -ECONNRESET;
        braid_conn_fail(conn, error);
    }
    return error;
}

bool braid_lane_failed(struct braid_lane *lane, int error, const char *what)
{
    struct braid_conn *conn = lane->conn;
    int up = BRAID_LANE_UP;
    char where[192] = "";

    if (!atomic_compare_exchange_strong(&lane->state, &up, BRAID_LANE_DOWN))
        return false;
    if (atomic_load(&conn->error) != 0)
        return false; /* said already */
    lane->ops->describe(conn, where, sizeof(where));
    if (atomic_load(&conn->peer_closed)) {
        if (!has_lane_up(conn) && !atomic_exchange(&conn->ended, true))
            BRAID_INFO(BRAID_LOG_NET, "peer %s closed the connection (%s)", conn->peer, where);
        return false;
    }
    if (error == -ECONNRESET || error == -EPIPE)
        BRAID_WARN("lost peer %s (%s): %s: the peer ended without closing the connection",
                   conn->peer, where, what);
    else
        BRAID_WARN("connection to peer %s failed (%s): %s: %s", conn->peer, where, what,
                   strerror(-error));
    braid_conn_fail(conn, error);
    return true;
}

/* -- control records ---------------------------------------------------------------------------------------------------------- */

int braid_conn_control(struct braid_conn *conn, struct braid_lane *lane, struct braid_rec *rec,
                       const void *body)
{
    int err;

    rec->lane = lane->index;
    rec->seq = conn->seq_out + 1;
    rec->ack = conn->seq_in;
    err = lane->ops->control(lane, rec, body, true);
    if (err == 0)
        conn->seq_out++;
    return err;
}

BRAID_COLD static int on_fail(struct braid_conn *conn, const struct braid_rec *rec,
                              const char *body)
{
    char text[256];
    size_t bytes = MIN(rec->body_bytes, sizeof(text) - 1);
    int error = rec->arg > 0 && rec->arg < 4096 ? -(int)rec->arg : -EPROTO;

    if (atomic_load(&conn->error) != 0)
        return 0;
    for (size_t i = 0; i < bytes; i++)
        text[i] = body[i] >= ' ' && body[i] <= '~' ? body[i] : '?';
    text[bytes] = '\0';
    BRAID_WARN("peer %s gave the connection up: %s", conn->peer, text);
    braid_conn_fail(conn, error);
    return 0;
}

static inline int on_record(struct braid_conn *conn, const struct braid_rec *rec, const void *body)
{
    if (atomic_load_explicit(&conn->error, memory_order_relaxed) != 0) /* a reason still counts */
        return rec->type == BRAID_REC_FAIL ? on_fail(conn, rec, body) : 0;
    if (!conn->sender && rec->type == BRAID_REC_EAGER)
        return braid_receiver_on_eager(conn, rec, body);
    if (rec->type == BRAID_REC_FAIL)
        return on_fail(conn, rec, body);
    if (rec->type == BRAID_REC_MR)
        return conn->ops->mr_learn(conn, rec->arg, body, rec->body_bytes);
    return conn->sender ? braid_sender_on_record(conn, rec, body)
                        : braid_receiver_on_record(conn, rec, body);
}

int braid_conn_on_record(struct braid_lane *lane, const struct braid_rec *rec, const void *body)
{
    struct braid_conn *conn = lane->conn;
    int err = 0;

    if (rec->lane != lane->index || rec->body_bytes > BRAID_BODY_MAX)
        return -EPROTO;
    if (rec->type == BRAID_REC_BYE) { /* sent by a lane on its way out, outside the sequence */
        atomic_store(&conn->peer_closed, true);
        return 0;
    }
    braid_spin_lock(&conn->lock);
    if (rec->seq == conn->seq_in + 1) {
        err = on_record(conn, rec, body);
        conn->seq_in = rec->seq;
    } else if ((int32_t)(rec->seq - conn->seq_in) > 0) {
        err = -EPROTO; /* not one that was sent again after a failover, and already taken in */
    }
    braid_spin_unlock(&conn->lock);
    return err == -EMSGSIZE ? 0 : err; /* that is the connection's failure, not the lane's */
}

/* -- moving --------------------------------------------------------------------------------------------------------------------- */

static inline int poll_lane(struct braid_lane *lane)
{
    int moved;

    if (!lane_is_up(lane) || !braid_lane_trylock(lane))
        return 0;
    moved = lane->ops->progress(lane, CALL_BUDGET_BYTES);
    braid_lane_unlock(lane);
    return moved;
}

void braid_conn_drain(struct braid_conn *conn)
{
    unsigned count = atomic_load_explicit(&conn->lanes_count, memory_order_acquire);

    for (unsigned i = 0; i < count; i++) {
        struct braid_lane *lane = conn->lanes[i];
        if (atomic_load_explicit(&lane->tended, memory_order_relaxed) || !lane_is_up(lane) ||
            !braid_lane_trylock(lane))
            continue;
        lane->ops->drain(lane);
        braid_lane_unlock(lane);
    }
}

/* Of streams only the control lane has anything for the caller, while there are no larger messages; it counts when that has nothing. */
BRAID_APART static void poll_many(struct braid_conn *conn, unsigned count)
{
    bool streams = conn->ops->flags & BRAID_T_STREAM;
    int moved = 0;

    if (streams && conn->sender &&
        atomic_load_explicit(&conn->bulk_open, memory_order_relaxed) == 0)
        count = MIN(count, 1u + BRAID_CONTROL_LANE);
    for (unsigned i = 0; i < count; i++)
        if (!atomic_load_explicit(&conn->lanes[i]->tended, memory_order_relaxed))
            moved |= poll_lane(conn->lanes[i]);
    if (streams && moved == 0 && !conn->sender)
        atomic_store_explicit(&braid_idle_tests,
                              atomic_load_explicit(&braid_idle_tests, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

void braid_conn_poll(struct braid_conn *conn)
{
    unsigned count = atomic_load_explicit(&conn->lanes_count, memory_order_acquire);

    if (count == 1 && !(conn->ops->flags & BRAID_T_STREAM))
        poll_lane(conn->lanes[0]);
    else
        poll_many(conn, count);
}

static int pump_fail(struct braid_conn *conn, struct braid_lane *lane)
{
    struct braid_rec rec = {.type = BRAID_REC_FAIL,
                            .arg = (uint32_t)-atomic_load(&conn->error),
                            .body_bytes = (uint32_t)strlen(conn->fail_text)};
    int err;

    rec.credit = conn->sender ? 0 : conn->rx->credit_told;
    err = braid_conn_control(conn, lane, &rec, conn->fail_text);
    if (err == 0)
        conn->fail_due = false;
    return err == 0 ? 1 : err;
}

/* Where first chunks go by the control lane, the other lanes take what is left before it does. */
static void offer_to_others(struct braid_conn *conn, const struct braid_lane *control,
                            unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct braid_lane *lane = conn->lanes[i];
        if (lane == control || !lane_is_up(lane) || !braid_lane_trylock(lane))
            continue;
        lane->ops->progress(lane, CALL_BUDGET_BYTES);
        braid_lane_unlock(lane);
    }
}

void braid_conn_pump(struct braid_conn *conn)
{
    unsigned count = atomic_load_explicit(&conn->lanes_count, memory_order_acquire);
    struct braid_lane *lane = braid_conn_take_control(conn);
    bool bulk;
    int given;

    if (lane == NULL)
        return;
    braid_spin_lock(&conn->lock);
    given = conn->sender ? braid_sender_pump(conn, lane) : braid_receiver_pump(conn, lane);
    if (conn->fail_due)
        given = pump_fail(conn, lane);
    braid_spin_unlock(&conn->lock);
    if (given > 0 && count > 1 && conn->ops->flags & BRAID_T_PUT_STARTS &&
        braid_conn_has_puts(conn))
        offer_to_others(conn, lane, count);
    bulk = given > 0 && braid_conn_has_puts(conn);
    if (bulk) {
        /* Before the caller moves anything: it may move each message alone, and threads and streams would never be asked to share. */
        bool apart = lane->ops->kick(lane);
        atomic_store_explicit(&conn->apart, apart, memory_order_relaxed);
        if (apart)
            lane->ops->push(lane);
        else /* START and the first chunk go together */
            lane->ops->progress(lane, CALL_BUDGET_BYTES);
    } else if (given > 0) {
        lane->ops->push(lane);
    }
    braid_lane_unlock(lane);
}
