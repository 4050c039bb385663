/*
 * What is said about a connection on which nothing moves although its peer is there: which request waits, for what, and what each lane is at.
 * Once a connection. A wait may be as long as the peer wants it to be; but a receiver that has waited for a moment announces what it holds
 * back as too small, since a message for it may be too large. Owns stall_* of the connection. Called by whoever tests its requests.
 */
#include "net-plugin/core/conn.h"

#include <stdio.h>

#include "common/log.h"

#define STALL_NS    (10 * BRAID_NS_PER_S)
#define ANNOUNCE_NS (50 * BRAID_NS_PER_MS)

/* A number that changes whenever something moves. Conn lock held. */
static uint64_t mark_of(const struct braid_conn *conn)
{
    uint64_t mark = (uint64_t)conn->seq_in << 32 | conn->seq_out;
    unsigned lanes = braid_conn_lanes(conn);

    for (unsigned i = 0; i < lanes; i++)
        mark += atomic_load_explicit(&conn->lanes[i]->put_bytes, memory_order_relaxed);
    if (conn->sender)
        return mark;
    mark += (uint64_t)conn->rx->next_sub << 16;
    for (unsigned i = 0; i < BRAID_SUBS; i++)
        mark += atomic_load_explicit(&conn->rx->subs[i].landed, memory_order_relaxed);
    return mark;
}

static void describe_send(const struct braid_send *send, char *buf, size_t buf_bytes)
{
    const struct braid_conn *conn = send->base.conn;
    const struct braid_conn_sender *tx = conn->tx;
    int at =
        snprintf(buf, buf_bytes, "a message of %zu bytes with tag %d ", send->bytes, send->tag);

    if (atomic_load(&send->state) == BRAID_SEND_ACTIVE)
        snprintf(buf + at, buf_bytes - (size_t)at,
                 "has %u of %u chunks to go, %llu bytes wait for a stream",
                 atomic_load(&send->left), send->chunks,
                 (unsigned long long)braid_conn_put_bytes(conn));
    else
        snprintf(buf + at, buf_bytes - (size_t)at,
                 "waits for %s (%u receives announced and not used, %u of %u bytes of credit used)",
                 send->bytes <= conn->eager_bytes ? "credit" : "its receive",
                 tx->words_tail - tx->words_head, tx->credit_used - tx->credit_back,
                 (unsigned)BRAID_EAGER_WINDOW);
}

static void describe_recv(const struct braid_recv *recv, char *buf, size_t buf_bytes)
{
    const struct braid_conn_receiver *rx = recv->base.conn->rx;
    const struct braid_sub *sub = recv->first;
    int at = snprintf(buf, buf_bytes, "a receive of %zu bytes with tag %d (%d in its group) ",
                      sub->capacity, sub->tag, recv->n);

    if (atomic_load(&sub->state) >= BRAID_SUB_TAKEN && atomic_load(&sub->state) != BRAID_SUB_FILLED)
        snprintf(buf + at, buf_bytes - (size_t)at, "has %u of %u chunks", atomic_load(&sub->landed),
                 atomic_load(&sub->chunks));
    else
        snprintf(buf + at, buf_bytes - (size_t)at,
                 "%s; %u receives are not announced, %u bytes of credit not told",
                 atomic_load(&sub->state) == BRAID_SUB_FILLED ? "is done, but not its group"
                                                              : "waits for its message",
                 rx->next_sub - rx->next_word, rx->credit_given - rx->credit_told);
}

/* A line each: NCCL cuts long ones. */
static void say(struct braid_conn *conn, const char *what)
{
    unsigned lanes = braid_conn_lanes(conn);
    char text[256];

    BRAID_INFO(BRAID_LOG_NET, "nothing has moved for 10 s %s peer %s: %s; %s has %u lanes:",
               conn->sender ? "to" : "from", conn->peer, what, conn->ops->name, lanes);
    for (unsigned i = 0; i < lanes; i++) {
        struct braid_lane *lane = conn->lanes[i];
        bool up = atomic_load(&lane->state) == BRAID_LANE_UP;
        snprintf(text, sizeof(text), "a thread is at it");
        if (braid_lane_trylock(lane)) {
            lane->ops->lane_state(lane, text, sizeof(text));
            braid_lane_unlock(lane);
        }
        BRAID_INFO(BRAID_LOG_NET, "%s peer %s: lane %u, number %u, %s: %s",
                   conn->sender ? "to" : "from", conn->peer, i, lane->index, up ? "up" : "down",
                   text);
    }
}

void braid_stall_look(const struct braid_request *request)
{
    struct braid_conn *conn = request->conn;
    uint64_t now = braid_now_ns(), mark;
    char what[320];

    if (conn->ops == NULL)
        return;
    braid_spin_lock(&conn->lock);
    mark = mark_of(conn);
    if (request->kind == BRAID_REQUEST_SEND)
        describe_send((const struct braid_send *)request, what, sizeof(what));
    else
        describe_recv((const struct braid_recv *)request, what, sizeof(what));
    if (conn->stall_ns == 0 || mark != conn->stall_mark) {
        conn->stall_ns = now;
        conn->stall_mark = mark;
    }
    if (!conn->sender && now - conn->stall_ns >= ANNOUNCE_NS)
        conn->rx->announce = true;
    braid_spin_unlock(&conn->lock);
    if (now - conn->stall_ns >= STALL_NS && !conn->stall_said) {
        conn->stall_said = true;
        say(conn, what);
    }
}
