/*
 * The life of a verbs connection: offer, agree, attach, detach. Both sides come to the same lanes by the same rule: the connecting side's
 * queue pairs in order, each with the free queue pair of the accepting side whose port it reaches best. All of it is control path,
 * under the maintenance lock.
 * The TCP stream stays open beside the lanes. It carries nothing but the end: 'B' before an orderly one, 'F' and a line when a lane
 * failed, and its end tells at once that the peer process died.
 */
#include "net-plugin/verbs/conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/pages.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/param.h"
#include "common/util.h"
#include "net-plugin/verbs/offer.h"
#include "net-plugin/verbs/verbs.h"

#define FINISH_NS     (1000ull * 1000 * 1000)
#define FINISH_MAX_NS (6ull * 1000 * 1000 * 1000)

/* -- offer -------------------------------------------------------------------------------------------------------------------- */

static void conn_free(struct verbs_conn *conn)
{
    for (int i = 0; i < conn->lanes_count; i++)
        verbs_lane_free(conn->lanes[i]);
    for (int i = 0; i < conn->rails; i++) {
        verbs_qp_destroy(conn->flush[i].qp, conn->flush[i].cq);
        if (conn->flush[i].mr != NULL)
            braid_ibv.dereg_mr(conn->flush[i].mr);
        braid_verbs_nic_put(conn->ports[i]->nic);
    }
    braid_pages_free(conn->keys, sizeof(*conn->keys));
    free(conn);
}

static void write_lane(const struct verbs_lane *lane, struct braid_verbs_lane *out)
{
    struct ibv_ece ece = {0};

    memset(out, 0, sizeof(*out));
    if (braid_param_bool(BRAID_P_IB_ECE) && braid_ibv.query_ece != NULL &&
        braid_ibv.query_ece(lane->qp, &ece) == 0) {
        out->ece_vendor = ece.vendor_id;
        out->ece_options = ece.options;
    }
    out->ring_addr = (uintptr_t)lane->rx.memory;
    out->credit_addr = (uintptr_t)&lane->memory->credit_in;
    out->rkey = lane->mr->rkey;
    out->qpn = lane->qp->qp_num;
    out->rail = (uint16_t)lane->rail;
    out->recvs = (uint16_t)lane->recvs_count;
    out->flags = lane->by_imm ? BRAID_VERBS_NO_ORDER : 0;
}

static size_t write_offer(const struct verbs_conn *conn, uint8_t *offer)
{
    struct braid_verbs_offer head = {.version = BRAID_VERBS_OFFER_VERSION,
                                     .rails = (uint8_t)conn->rails,
                                     .lanes = (uint8_t)conn->lanes_count,
                                     .ring_bytes = BRAID_VERBS_RING_BYTES};
    struct braid_verbs_lane lane;
    size_t at = sizeof(head);

    memcpy(offer, &head, sizeof(head));
    for (int i = 0; i < conn->rails; i++, at += sizeof(struct braid_verbs_rail))
        memcpy(offer + at, &conn->ports[i]->rail, sizeof(struct braid_verbs_rail));
    for (int i = 0; i < conn->lanes_count; i++, at += sizeof(lane)) {
        write_lane(conn->lanes[i], &lane);
        memcpy(offer + at, &lane, sizeof(lane));
    }
    return at;
}

/* Lanes go round the rails, so that the first of each rail comes before the second of any. */
static int make_lanes(struct verbs_conn *conn)
{
    int count = MIN(conn->rails * (int)braid_param_int(BRAID_P_IB_QPS), BRAID_LANES_MAX);

    for (int i = 0; i < count; i++) {
        struct verbs_lane *lane = verbs_lane_new(conn, (unsigned)(i % conn->rails));
        if (lane == NULL)
            return -ENOMEM;
        conn->lanes[conn->lanes_count++] = lane;
    }
    return 0;
}

static int make_flush(struct verbs_conn *conn)
{
    struct braid_device_props props;
    int err = braid_verbs_dev_props(conn->dev, &props);

    if (braid_conn_is_sender(conn->core) || !(props.ptr_support & BRAID_PTR_CUDA))
        return 0;
    for (int i = 0; i < conn->rails && err == 0; i++)
        err = verbs_qp_loop(conn, i);
    return err;
}

int verbs_offer(struct braid_conn *core, int dev, void *offer, size_t cap)
{
    struct verbs_conn *conn;
    int err;

    if (dev < 0 || dev >= braid_verbs_device_count || cap < BRAID_OFFER_BYTES)
        return -EINVAL;
    conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return -ENOMEM;
    conn->core = core;
    conn->dev = dev;
    conn->rails = braid_verbs_devices[dev].count;
    for (int i = 0; i < conn->rails; i++) {
        conn->ports[i] = braid_verbs_port_of(dev, i);
        braid_verbs_nic_get(conn->ports[i]->nic);
    }
    conn->watch.fd = -1;
    braid_verbs_dev_watch(dev);
    if (braid_conn_is_sender(core))
        conn->keys = braid_pages_new(sizeof(*conn->keys));
    err = braid_conn_is_sender(core) && conn->keys == NULL ? -ENOMEM : make_lanes(conn);
    if (err == 0)
        err = make_flush(conn);
    if (err != 0) {
        conn_free(conn);
        braid_conn_set_tp(core, NULL);
        return err;
    }
    braid_conn_set_tp(core, conn);
    return (int)write_offer(conn, offer);
}

/* -- agree -------------------------------------------------------------------------------------------------------------------- */

/* How well our lane reaches the peer's; the connecting side's port is always the first. */
static int score(const struct verbs_lane *own, const struct braid_verbs_rail *peer, bool connecting,
                 int *own_gid, int *peer_gid, char *why, size_t why_bytes)
{
    if (connecting)
        return braid_gid_pair(&own->port->rail, peer, own_gid, peer_gid, why, why_bytes);
    return braid_gid_pair(peer, &own->port->rail, peer_gid, own_gid, why, why_bytes);
}

static void join(struct verbs_lane *lane, const struct verbs_offer *peer, int theirs, int own_gid,
                 int peer_gid)
{
    lane->peer = peer->lane[theirs];
    lane->peer_rail = lane->peer.rail;
    lane->own_gid = lane->port->rail.gids[own_gid];
    lane->peer_gid = peer->rail[lane->peer_rail].gids[peer_gid];
    lane->gid_index = lane->own_gid.index;
    lane->imms_room = lane->peer.recvs;
    lane->used = true;
}

/* Pairs lanes. Returns how many; the index of lane i of the connection is its place in `order`. */
static int pair_lanes(struct verbs_conn *conn, const struct verbs_offer *peer,
                      struct verbs_lane **order, char *why, size_t why_bytes)
{
    bool connecting = braid_conn_is_sender(conn->core), taken[BRAID_LANES_MAX] = {false};
    int outer = connecting ? conn->lanes_count : peer->lanes,
        inner = connecting ? peer->lanes : conn->lanes_count;
    int count = 0;

    for (int i = 0; i < outer; i++) {
        int best = 0, best_j = -1, best_own = 0, best_peer = 0;
        for (int j = 0; j < inner; j++) {
            int own = connecting ? i : j, theirs = connecting ? j : i, own_gid = 0, peer_gid = 0,
                got;
            if (taken[j])
                continue;
            got = score(conn->lanes[own], &peer->rail[peer->lane[theirs].rail], connecting,
                        &own_gid, &peer_gid, why, why_bytes);
            if (got > best) {
                best = got;
                best_j = j;
                best_own = own_gid;
                best_peer = peer_gid;
            }
        }
        if (best_j < 0)
            continue;
        taken[best_j] = true;
        order[count] = conn->lanes[connecting ? i : best_j];
        join(order[count], peer, connecting ? best_j : i, best_own, best_peer);
        count++;
    }
    return count;
}

/* Lanes without a counterpart go; the others are in the connection's order. */
static void keep_lanes(struct verbs_conn *conn, struct verbs_lane **order, int count)
{
    for (int i = 0; i < conn->lanes_count; i++)
        if (!conn->lanes[i]->used)
            verbs_lane_free(conn->lanes[i]);
    memcpy(conn->lanes, order, (size_t)count * sizeof(*order));
    conn->lanes_count = count;
}

/* Enhanced connection establishment is used where both ends ask for the same. */
static void set_ece(struct verbs_lane *lane)
{
    struct ibv_ece ece = {.vendor_id = lane->peer.ece_vendor, .options = lane->peer.ece_options},
                   own = {0};

    if (ece.vendor_id == 0 || braid_ibv.set_ece == NULL || !braid_param_bool(BRAID_P_IB_ECE) ||
        braid_ibv.query_ece(lane->qp, &own) != 0 || own.vendor_id != ece.vendor_id ||
        own.options != ece.options)
        return;
    if (braid_ibv.set_ece(lane->qp, &ece) != 0)
        BRAID_INFO(BRAID_LOG_NET, "%s does not take ECE options 0x%x", lane->port->name,
                   ece.options);
}

/*
 * An eager message is one packet: then its record needs no immediate, and a larger one would cost as many packets as the announced way.
 * Where a buffer may be in GPU memory there are none, because the CPU of the receiver stores them.
 */
static uint32_t eager_limit(const struct verbs_conn *conn)
{
    uint32_t bytes = BRAID_VERBS_RECORD_MAX - braid_ring_record_bytes(0);

    for (int i = 0; i < conn->rails; i++)
        if (conn->ports[i]->rail.gpu)
            return 0;
    for (int i = 0; i < BRAID_VERBS_RAILS; i++)
        if (conn->peer_rails[i].gpu)
            return 0;
    for (int i = 0; i < conn->lanes_count; i++)
        bytes = MIN(bytes, conn->lanes[i]->packet_bytes - braid_ring_record_bytes(0));
    return bytes;
}

int verbs_agree(struct braid_conn *core, const void *offer, size_t bytes, char *why,
                size_t why_bytes)
{
    struct verbs_conn *conn = braid_conn_tp(core);
    struct verbs_lane *order[BRAID_LANES_MAX];
    struct verbs_offer peer = {0};
    int count, err;

    err = verbs_offer_parse(offer, bytes, &peer, why, why_bytes);
    if (err != 0)
        return err;
    snprintf(why, why_bytes, "no port reaches a port of the peer");
    count = pair_lanes(conn, &peer, order, why, why_bytes);
    if (count == 0)
        return -EHOSTUNREACH;
    keep_lanes(conn, order, count);
    memcpy(conn->peer_rails, peer.rail, sizeof(conn->peer_rails));
    for (int i = 0; i < count; i++) {
        set_ece(order[i]);
        err = verbs_qp_connect(order[i], &conn->peer_rails[order[i]->peer_rail], why, why_bytes);
        if (err != 0)
            return err;
        braid_lane_init(&order[i]->base, core, &braid_verbs_transport, (unsigned)i, order[i]->rail);
    }
    braid_conn_limit_eager(core, eager_limit(conn));
    return 0;
}

/* -- the TCP stream --------------------------------------------------------------------------------------------------------------- */

void verbs_conn_tell(struct verbs_conn *conn, char kind, const char *text)
{
    char line[sizeof(conn->peer_text)];
    int bytes = snprintf(line, sizeof(line), "%c%s\n", kind, text);

    if (conn->watch.fd >= 0 && send(conn->watch.fd, line, MIN((size_t)bytes, sizeof(line) - 1),
                                    MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* the peer is gone as well */
}

/* The peer has said its last word, or has gone without one. The lanes find out when they have nothing else to do. */
static void on_stream(struct braid_watch *watch, uint32_t events)
{
    struct verbs_conn *conn = braid_container_of(watch, struct verbs_conn, watch);
    char text[sizeof(conn->peer_text)] = "";
    ssize_t got = recv(watch->fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    int state = VERBS_PEER_GONE;

    (void)events;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0 && (text[0] == 'B' || text[0] == 'F'))
        state = text[0] == 'B' ? VERBS_PEER_BYE : VERBS_PEER_FAILED;
    for (ssize_t i = 1; i < got; i++)
        conn->peer_text[i - 1] = text[i] >= ' ' && text[i] <= '~' ? text[i] : ' ';
    braid_maint_remove(watch);
    atomic_store_explicit(&conn->peer_state, state, memory_order_release);
}

bool verbs_conn_peer_closed(const struct verbs_conn *conn)
{
    char byte;
    ssize_t got;

    if (conn->watch.fd < 0 || atomic_load(&conn->peer_state) != VERBS_PEER_THERE)
        return true;
    got = recv(conn->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got >= 0 || (errno != EAGAIN && errno != EINTR);
}

int verbs_attach(struct braid_conn *core, int fd, unsigned index)
{
    struct verbs_conn *conn = braid_conn_tp(core);
    int err = 0;

    if (index != 0) {
        close(fd);
        return -EINVAL;
    }
    conn->watch.fd = fd;
    conn->watch.fn = on_stream;
    err = braid_maint_add(&conn->watch, EPOLLIN);
    for (int i = 0; i < conn->lanes_count && err == 0; i++)
        err = braid_conn_add_lane(core, &conn->lanes[i]->base);
    if (err == 0)
        BRAID_INFO(BRAID_LOG_NET, "connection to %s: %d queue pair%s, first %s GID %d to %.23s",
                   braid_conn_peer(core), conn->lanes_count, conn->lanes_count > 1 ? "s" : "",
                   conn->lanes[0]->port->name, conn->lanes[0]->gid_index,
                   conn->peer_rails[conn->lanes[0]->peer_rail].name);
    return err;
}

/* How long close waits: until a lossy network has carried a packet again, which the NIC does after its acknowledgement timeout. */
static uint64_t finish_ns(void)
{
    uint64_t ack_ns = 4096ull << braid_param_int(BRAID_P_IB_TIMEOUT);

    return MIN(FINISH_NS + ack_ns, FINISH_MAX_NS);
}

/* The last word: 'B', and by lane how many chunks have come. Returns its bytes. */
static size_t last_word(const struct verbs_conn *conn, char *text, size_t text_bytes)
{
    size_t bytes = (size_t)snprintf(text, text_bytes, "B");

    for (int i = 0; i < conn->lanes_count && bytes + 12 < text_bytes; i++)
        bytes +=
            (size_t)snprintf(text + bytes, text_bytes - bytes, " %u", conn->lanes[i]->chunks_in);
    text[bytes] = '\n';
    return bytes + 1;
}

void verbs_detach(struct braid_conn *core)
{
    struct verbs_conn *conn = braid_conn_tp(core);
    const uint64_t until_ns = braid_now_ns() + finish_ns();
    char text[sizeof(conn->peer_text)];
    int fd;

    if (conn == NULL)
        return;
    fd = conn->watch.fd;
    /* Small messages were reported as sent when they were copied: they must leave. A receiver has nothing that the peer still needs. */
    for (int i = 0;
         braid_conn_is_sender(core) && i < conn->lanes_count && !verbs_conn_peer_closed(conn); i++)
        verbs_lane_finish(conn->lanes[i], until_ns);
    braid_maint_remove(&conn->watch);
    if (fd >= 0)
        braid_maint_linger(fd, text, last_word(conn, text, sizeof(text)));
    conn_free(conn);
    braid_conn_set_tp(core, NULL);
}

void verbs_describe(struct braid_conn *core, char *buf, size_t buf_bytes)
{
    const struct verbs_conn *conn = braid_conn_tp(core);
    const struct verbs_lane *lane = conn != NULL && conn->lanes_count > 0 ? conn->lanes[0] : NULL;

    if (lane == NULL)
        snprintf(buf, buf_bytes, "RDMA");
    else
        snprintf(buf, buf_bytes, "RDMA, %s to %.23s, %d queue pair%s", lane->port->name,
                 conn->peer_rails[lane->peer_rail].name, conn->lanes_count,
                 conn->lanes_count > 1 ? "s" : "");
}
