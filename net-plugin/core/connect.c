/*
 * The connecting side. Each connection, and each further stream of one, is an attempt that the maintenance thread drives: connect to the
 * handle's addresses in turn, handshake, attach. NCCL's connect only asks for the outcome. An address that does not answer costs its
 * turn, not the connection; the whole ends by success, by a peer that refuses for good, or by the time limit.
 * Owned by the maintenance lock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/hmac.h"
#include "common/log.h"
#include "common/param.h"
#include "net-plugin/core/net.h"
#include "net-plugin/core/plugin.h"
#include "net-plugin/core/reach.h"
#include "net-plugin/core/setup.h"

#define RETRY_MIN_NS (20 * BRAID_NS_PER_MS)
/* How long a further stream may take to come up; the connection does without it. */
#define STREAM_NS (15 * BRAID_NS_PER_S)
/* A way that does not answer costs this much at first, while there are others. */
#define FIRST_TRY_NS (2 * BRAID_NS_PER_S)
#define WAY_TEXT     (2 * BRAID_ADDR_TEXT + IFNAMSIZ + 16)
#define RETRY_MAX_NS (1000 * BRAID_NS_PER_MS)

enum phase { PHASE_PAUSE, PHASE_CONNECTING, PHASE_HANDSHAKE, PHASE_DONE, PHASE_FAILED };

/* A transport that was offered: its half of the connection exists until another one is chosen. */
struct offered {
    const struct braid_transport *ops;
    void *tp;
};

struct outgoing {
    struct braid_watch watch;
    struct outgoing *next;
    uint64_t id; /* kept in the handle between calls of connect */
    enum phase phase;
    int error;
    bool is_stream;
    uint16_t stream, rail;
    struct braid_handle handle;
    struct braid_conn *conn;
    struct offered offered[BRAID_HS_OFFERS];
    struct braid_way ways[BRAID_WAYS];
    int ways_count, way;
    bool again; /* all ways have had their turn once */
    uint64_t started_ns, until_ns, attempt_until_ns, pause_ns, next_word_ns;
    char last[320]; /* what went wrong last */
    struct braid_hs hs;
};

static struct outgoing *outgoings;
static uint64_t next_id;

static void on_outgoing(struct braid_watch *watch, uint32_t events);
static void on_poke(struct braid_watch *watch, uint32_t events);

/* -- offers ------------------------------------------------------------------------------------------------------------------- */

static void drop_offers(struct outgoing *out)
{
    if (out->conn->ops != NULL) /* the chosen one */
        out->conn->ops->detach(out->conn);
    for (unsigned i = 0; i < BRAID_HS_OFFERS; i++) {
        if (out->offered[i].ops == NULL)
            continue;
        out->conn->ops = out->offered[i].ops;
        out->conn->tp = out->offered[i].tp;
        out->conn->ops->detach(out->conn);
        out->offered[i].ops = NULL;
    }
    out->conn->ops = NULL;
    out->conn->tp = NULL;
}

static void make_offers(struct outgoing *out)
{
    uint8_t offer[BRAID_OFFER_BYTES];
    const struct braid_transport *t;
    unsigned count = 0;
    int tdev, got;

    for (unsigned i = 0;
         count < BRAID_HS_OFFERS && (t = braid_plugin_transport(out->conn->dev, i, &tdev)) != NULL;
         i++) {
        out->conn->ops = t;
        out->conn->tp = NULL;
        got = t->offer(out->conn, tdev, offer, sizeof(offer));
        if (got < 0 || braid_hs_add_offer(&out->hs, t->id, offer, (size_t)got) != 0) {
            t->detach(out->conn);
            continue;
        }
        out->offered[count++] = (struct offered){t, out->conn->tp};
    }
    out->conn->ops = NULL;
    out->conn->tp = NULL;
}

/* Keeps the transport that the peer chose. 0, -EAGAIN or a negative errno. */
static int take_choice(struct outgoing *out, char *why, size_t why_bytes)
{
    const void *theirs;
    uint32_t id;
    size_t at = 0, bytes;
    int err;

    if (!braid_hs_next_offer(&out->hs, &at, &id, &theirs, &bytes)) {
        snprintf(why, why_bytes, "the peer chose no transport");
        return -EPROTO;
    }
    for (unsigned i = 0; i < BRAID_HS_OFFERS; i++) {
        struct offered *offered = &out->offered[i];
        if (offered->ops == NULL || offered->ops->id != id)
            continue;
        out->conn->ops = offered->ops;
        out->conn->tp = offered->tp;
        err = offered->ops->agree(out->conn, theirs, bytes, why, why_bytes);
        offered->tp = out->conn->tp;
        out->conn->ops = NULL;
        if (err != 0)
            return err;
        struct offered chosen = *offered;
        offered->ops = NULL;
        drop_offers(out);
        out->conn->ops = chosen.ops;
        out->conn->tp = chosen.tp;
        return 0;
    }
    snprintf(why, why_bytes, "the peer chose transport %u, which was not offered", id);
    return -EPROTO;
}

/* -- one attempt ---------------------------------------------------------------------------------------------------------------- */

static void end_attempt(struct outgoing *out)
{
    int fd = out->watch.fd;

    braid_maint_remove(&out->watch);
    if (fd >= 0)
        braid_maint_linger(fd, NULL, 0);
    out->watch.fd = -1;
    if (!out->is_stream)
        drop_offers(out);
}

static void fail_for_good(struct outgoing *out, int error)
{
    char text[WAY_TEXT] = "(no address)";

    if (out->phase != PHASE_PAUSE)
        end_attempt(out);
    braid_maint_remove(&out->watch);
    out->phase = PHASE_FAILED;
    out->error = error;
    if (out->ways_count > 0)
        braid_way_text(&out->ways[out->way], text, sizeof(text));
    if (out->is_stream) {
        BRAID_INFO(BRAID_LOG_NET, "no stream %u to %s (%s): %s; the connection does without it",
                   out->stream, text, out->conn->peer, out->last);
        return;
    }
    BRAID_WARN("cannot connect device %d to %s (pid %u there): %s", out->conn->dev, text,
               out->handle.pid, out->last);
}

/* Nothing is asked at a second port of a peer that did not answer at the first. */
static int next_way(const struct outgoing *out, int error)
{
    int way = (out->way + 1) % out->ways_count;

    if (error == -ETIMEDOUT && way != 0 && braid_way_is_twin(&out->ways[out->way], &out->ways[way]))
        way = (way + 1) % out->ways_count;
    return way;
}

/* This address did not work now; the next one, after a pause once all have had their turn. */
static void try_next(struct outgoing *out, const char *what, int error)
{
    char text[WAY_TEXT];
    uint64_t now = braid_now_ns();

    snprintf(out->last, sizeof(out->last), "%s: %s", what, strerror(-error));
    braid_way_text(&out->ways[out->way], text, sizeof(text));
    end_attempt(out);
    out->phase = PHASE_PAUSE;
    if (now >= out->next_word_ns) {
        BRAID_INFO(BRAID_LOG_NET, "still connecting to %s (pid %u there) after %llu s: %s", text,
                   out->handle.pid, (unsigned long long)((now - out->started_ns) / BRAID_NS_PER_S),
                   out->last);
        out->next_word_ns = now + BRAID_STILL_NS;
    }
    if (now >= out->until_ns) {
        snprintf(out->last, sizeof(out->last),
                 "gave up after %llu s and %d ways to it (BRAID_CONNECT_TIMEOUT_S); last: %s: %s",
                 (unsigned long long)((now - out->started_ns) / BRAID_NS_PER_S), out->ways_count,
                 what, strerror(-error));
        fail_for_good(out, -ETIMEDOUT);
        return;
    }
    if (out->ways_count > 1 && !out->again)
        BRAID_INFO(BRAID_LOG_NET, "no way to device %u of pid %u: %s: %s", out->handle.dev,
                   out->handle.pid, text, out->last);
    out->way = next_way(out, error);
    out->watch.deadline_ns = now + 1;
    if (out->way == 0) {
        out->again = true;
        out->watch.deadline_ns = now + out->pause_ns;
        out->pause_ns = MIN(out->pause_ns * 2, RETRY_MAX_NS);
    }
    if (braid_maint_add(&out->watch, 0) != 0)
        fail_for_good(out, -ENOMEM);
}

static void start_attempt(struct outgoing *out)
{
    const struct braid_way *way = &out->ways[out->way];
    int fd, err;

    braid_maint_remove(&out->watch);
    fd = braid_sock_connect(&way->peer, &way->source, way->netif);
    if (fd < 0) {
        try_next(out, "connect", fd);
        return;
    }
    braid_sock_tune(fd, (unsigned)braid_param_int(BRAID_P_PEER_TIMEOUT_S));
    out->phase = PHASE_CONNECTING;
    out->attempt_until_ns =
        braid_now_ns() + (out->ways_count > 1 && !out->again ? FIRST_TRY_NS : BRAID_ATTEMPT_NS);
    out->watch.fd = fd;
    out->watch.deadline_ns = out->attempt_until_ns;
    err = braid_maint_add(&out->watch, EPOLLOUT);
    if (err != 0)
        try_next(out, "epoll", err);
}

static void start_handshake(struct outgoing *out)
{
    struct braid_hs_hello hello = {.kind = out->is_stream ? BRAID_HS_STREAM : BRAID_HS_NEW,
                                   .stream = out->stream,
                                   .rail = out->rail,
                                   .id = out->is_stream ? out->conn->id : out->handle.listen_id};
    struct braid_hs_identity self;

    braid_plugin_identity(out->conn->dev, &self);
    if (out->is_stream)
        self.tuner_hash = 0; /* the connection's first one has said it */
    braid_hs_connect(&out->hs, braid_hmac, &self,
                     out->is_stream ? out->conn->stream_key : out->handle.secret, &hello);
    out->hs.own.eager_bytes = out->conn->eager_bytes;
    if (!out->is_stream)
        make_offers(out);
    out->phase = PHASE_HANDSHAKE;
    out->attempt_until_ns = braid_now_ns() + BRAID_ATTEMPT_NS;
}

/* The peer is authentic and has chosen. */
static void on_choose(struct outgoing *out)
{
    struct braid_hs_proof answer;
    char why[200] = "";
    int err;

    if (!out->is_stream) {
        braid_setup_name_peer(out->conn, &out->hs, &out->ways[out->way].peer);
        err = take_choice(out, why, sizeof(why));
        if (err == -EAGAIN) {
            out->watch.deadline_ns = braid_now_ns() + BRAID_NS_PER_MS;
            return;
        }
        if (err == 0)
            err = braid_hs_stream_key(&out->hs, out->conn->stream_key);
        if (err != 0) {
            braid_hs_reject(&out->hs, err, "%s", why[0] != '\0' ? why : strerror(-err));
            return;
        }
        memcpy(&answer, out->hs.in + sizeof(struct braid_hs_header), sizeof(answer));
        out->conn->eager_bytes = MIN(out->conn->eager_bytes, answer.eager_bytes);
        out->conn->id = out->hs.conn_id;
    }
    braid_hs_ready(&out->hs);
}

static void on_done(struct outgoing *out)
{
    struct braid_conn *conn = out->conn;
    int fd = out->watch.fd, err;

    braid_maint_remove(&out->watch);
    out->watch.fd = -1;
    err = conn->ops->attach(conn, fd, out->stream);
    if (err != 0) {
        snprintf(out->last, sizeof(out->last), "attach: %s", strerror(-err));
        out->phase = PHASE_PAUSE;
        fail_for_good(out, err);
        return;
    }
    out->phase = PHASE_DONE;
    if (!out->is_stream)
        BRAID_INFO(BRAID_LOG_NET, "connected device %d to %s over %s", conn->dev, conn->peer,
                   conn->ops->name);
}

/* Whether a refusal will be the same next time. A listener that is not there yet cannot be: the handle came from it. */
static void on_refused(struct outgoing *out)
{
    snprintf(out->last, sizeof(out->last), "%s%s",
             out->hs.error_is_peers ? "the peer refused: " : "", out->hs.why);
    if (out->hs.error_is_peers || out->hs.error == -EPROTONOSUPPORT || out->hs.error == -EACCES ||
        out->hs.error == -ENOSYS)
        fail_for_good(out, out->hs.error);
    else
        try_next(out, out->hs.why, out->hs.error);
}

static void outgoing_free(struct outgoing *out)
{
    struct outgoing **at;

    for (at = &outgoings; *at != out; at = &(*at)->next)
        ;
    *at = out->next;
    free(out);
}

static void run_handshake(struct outgoing *out)
{
    uint32_t wanted = EPOLLIN;
    int action;

    do {
        action = braid_hs_move(&out->hs, out->watch.fd, &wanted);
        if (action == BRAID_HS_CHOOSE) {
            on_choose(out);
            if (out->hs.state == BRAID_HS_S_CHOOSE)
                return; /* the deadline calls again */
        }
    } while (action == BRAID_HS_CHOOSE);
    if (action < 0) {
        try_next(out,
                 action == -ECONNRESET ? "the peer ended the stream during the handshake"
                                       : "handshake",
                 action);
    } else if (action == BRAID_HS_FAILED) {
        on_refused(out);
    } else if (action == BRAID_HS_DONE) {
        on_done(out);
    } else {
        out->watch.deadline_ns = out->attempt_until_ns;
        braid_maint_change(&out->watch, wanted);
    }
}

static void on_outgoing(struct braid_watch *watch, uint32_t events)
{
    struct outgoing *out = braid_container_of(watch, struct outgoing, watch);
    int err;

    if (out->phase == PHASE_PAUSE) {
        start_attempt(out);
    } else if (braid_now_ns() >= out->attempt_until_ns) {
        try_next(out,
                 out->phase == PHASE_CONNECTING ? "no answer to connect"
                                                : "no answer in the handshake",
                 -ETIMEDOUT);
    } else if (out->phase == PHASE_CONNECTING) {
        err = braid_sock_error(watch->fd);
        if (err != 0) {
            try_next(out, "connect", err);
        } else {
            start_handshake(out);
            run_handshake(out);
        }
    } else if (out->phase == PHASE_HANDSHAKE) {
        run_handshake(out);
    }
    if (out->is_stream && (out->phase == PHASE_DONE || out->phase == PHASE_FAILED))
        outgoing_free(out);
}

/* -- what NCCL calls --------------------------------------------------------------------------------------------------------------- */

static void find_ways(struct outgoing *out)
{
    struct braid_device_props props = {0};
    const struct braid_netif *netifs;
    int count;

    braid_net_device_props(out->conn->dev, &props);
    netifs = braid_netifs(&count);
    out->ways_count = braid_reach_ways(netifs, count, props.netif, &out->handle, out->ways);
}

static struct outgoing *outgoing_new(struct braid_conn *conn)
{
    struct outgoing *out = calloc(1, sizeof(*out));

    if (out == NULL)
        return NULL;
    out->conn = conn;
    out->id = ++next_id;
    out->watch = (struct braid_watch){.fd = -1, .fn = on_outgoing};
    out->started_ns = braid_now_ns();
    out->until_ns =
        out->started_ns + (uint64_t)braid_param_int(BRAID_P_CONNECT_TIMEOUT_S) * BRAID_NS_PER_S;
    out->next_word_ns = out->started_ns + BRAID_STILL_NS;
    out->pause_ns = RETRY_MIN_NS;
    out->next = outgoings;
    outgoings = out;
    return out;
}

static struct outgoing *start_outgoing(int dev, int traffic_class,
                                       const struct braid_handle *handle)
{
    struct braid_conn *conn = braid_conn_new(true, dev, traffic_class);
    struct outgoing *out = conn != NULL ? outgoing_new(conn) : NULL;

    if (out == NULL) {
        braid_conn_free(conn);
        return NULL;
    }
    if (braid_plugin_takes_gpu_memory(dev))
        braid_conn_limit_eager(conn, 0);
    out->handle = *handle;
    find_ways(out);
    if (out->ways_count == 0) {
        snprintf(out->last, sizeof(out->last), "the handle holds no address");
        fail_for_good(out, -EINVAL);
    } else {
        start_attempt(out);
    }
    return out;
}

static struct outgoing *find_outgoing(const struct braid_handle *handle, int dev)
{
    for (struct outgoing *out = outgoings; out != NULL; out = out->next)
        if (out->id == handle->stash && out->handle.listen_id == handle->listen_id &&
            out->conn->dev == dev)
            return out;
    return NULL;
}

static int finish(struct outgoing *out, struct braid_conn **conn_p)
{
    int err = out->error;

    if (out->phase == PHASE_DONE) {
        out->conn->watch = (struct braid_watch){.fd = -1, .fn = on_poke};
        braid_maint_add(&out->conn->watch, 0);
        braid_setup_register(out->conn);
        *conn_p = out->conn;
    } else {
        braid_conn_free(out->conn);
    }
    outgoing_free(out);
    return err;
}

int braid_net_connect(void *ctx, int dev, int traffic_class, void *handle_p,
                      struct braid_conn **conn_p)
{
    struct braid_handle handle;
    struct braid_device_props props;
    struct outgoing *out;
    int err;

    *conn_p = NULL;
    if (!braid_plugin_is_up())
        return -ENODEV;
    memcpy(&handle, handle_p, sizeof(handle));
    if (handle.magic != BRAID_HANDLE_MAGIC) {
        BRAID_WARN("the peer's handle is not Braid's (it begins with 0x%08x): all ranks must use "
                   "the same network "
                   "plugin; look for \"Using network\" in each rank's NCCL_DEBUG=INFO output",
                   handle.magic);
        return -EINVAL;
    }
    err = braid_net_device_props(dev, &props);
    if (err != 0)
        return err;
    if (traffic_class < 0)
        traffic_class = braid_plugin_traffic_class(ctx);
    if (handle.stash == 0)
        braid_plugin_look_around();
    braid_maint_lock();
    err = braid_maint_start();
    out = err == 0 && handle.stash != 0 ? find_outgoing(&handle, dev) : NULL;
    if (err == 0 && out == NULL) {
        out = start_outgoing(dev, traffic_class, &handle);
        if (out == NULL)
            err = -ENOMEM;
    }
    handle.stash = out != NULL ? out->id : 0;
    if (out != NULL && (out->phase == PHASE_DONE || out->phase == PHASE_FAILED)) {
        handle.stash = 0;
        err = finish(out, conn_p);
    }
    braid_maint_unlock();
    memcpy((char *)handle_p + offsetof(struct braid_handle, stash), &handle.stash,
           sizeof(handle.stash));
    return err;
}

static void request_stream(struct braid_conn *conn, unsigned index)
{
    struct outgoing *out = outgoing_new(conn);
    union braid_addr source = {0}, peer = conn->peer_addr;
    const struct braid_netif *netifs;
    int count;

    if (out == NULL)
        return;
    out->is_stream = true;
    out->stream = (uint16_t)index;
    out->until_ns = out->started_ns + STREAM_NS;
    if (conn->ops->route(conn, index, &source, &peer) == 0)
        braid_addr_set_port(&peer, braid_addr_port(&conn->peer_addr));
    netifs = braid_netifs(&count);
    out->ways_count = braid_reach_route(netifs, count, &source, &peer, out->ways);
    start_attempt(out);
}

/* Streams were asked for, on the data path; here is where they may be made. */
static void on_poke(struct braid_watch *watch, uint32_t events)
{
    struct braid_conn *conn = braid_container_of(watch, struct braid_conn, watch);
    unsigned wanted = MIN(atomic_load(&conn->streams_wanted), BRAID_LANES_MAX - 1u);

    while (conn->streams_asked < wanted)
        request_stream(conn, ++conn->streams_asked);
}

void braid_conn_want_streams(struct braid_conn *conn, unsigned count)
{
    unsigned before = atomic_load_explicit(&conn->streams_wanted, memory_order_relaxed);

    if (before == count || !conn->sender)
        return;
    atomic_store(&conn->streams_wanted, count);
    if (before < count)
        braid_maint_poke(&conn->watch);
}

static void outgoing_cancel(struct outgoing *out)
{
    if (out->phase == PHASE_CONNECTING || out->phase == PHASE_HANDSHAKE)
        end_attempt(out);
    braid_maint_remove(&out->watch);
    if (!out->is_stream)
        braid_conn_free(out->conn);
    outgoing_free(out);
}

void braid_connect_forget(struct braid_conn *conn)
{
    struct outgoing *out = outgoings, *next;

    braid_maint_remove(&conn->watch);
    for (; out != NULL; out = next) {
        next = out->next;
        if (out->is_stream && out->conn == conn)
            outgoing_cancel(out);
    }
}

void braid_connect_stop(void)
{
    braid_maint_lock();
    while (outgoings != NULL)
        outgoing_cancel(outgoings);
    braid_maint_unlock();
}
