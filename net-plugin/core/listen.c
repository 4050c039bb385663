/*
 * The accepting side. One TCP listener a process serves all listen comms, because NCCL closes a listen comm right after accept while further
 * streams and reconnections still have to get in; handles tell them apart by id. (Where routes want it there is one more an interface,
 * for the same.) Strangers (port scanners, other versions, other jobs) each get a handshake machine of their own and a
 * deadline, and are dropped without touching anyone else.
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
#include "common/units.h"
#include "net-plugin/core/net.h"
#include "net-plugin/core/plugin.h"
#include "net-plugin/core/setup.h"

#define MAX_STRANGERS 512 /* streams that have not proven anything yet */
#define PAUSE_NS                                                                                   \
    (100 * BRAID_NS_PER_MS) /* of a listener for whose streams there is no descriptor */

struct braid_listen {
    struct braid_listen *next;
    uint64_t id;
    uint8_t secret[BRAID_SECRET_BYTES];
    int dev;
    uint64_t first_accept_ns, next_word_ns;
    /* authenticated, waiting for accept; by next_conn, before registration */
    struct braid_conn *ready;
};

/* A stream that came in and is not a connection's yet. */
struct incoming {
    struct braid_watch watch;
    struct incoming *next;
    struct braid_hs hs;
    union braid_addr peer;
    uint64_t until_ns;
    uint64_t listen_id;
    struct braid_conn *conn; /* new one under construction, or the owner of a further stream */
    size_t offer_at;
    bool proven;
};

static struct {
    struct braid_watch watch; /* of the listening socket */
    uint16_t port;
    struct braid_watch tied[BRAID_NETIF_MAX]; /* of those that are tied to one interface each */
    int tied_count;
    uint16_t tied_port; /* of all of these; 0: there are none */
    struct braid_watch drain;
    uint64_t next_word_ns; /* when it may be said again that streams cannot be accepted */
    struct braid_listen *listens;
    struct incoming *incoming;
    unsigned strangers;
} state = {.watch.fd = -1};

static struct braid_listen *find_listen(uint64_t id)
{
    for (struct braid_listen *l = state.listens; l != NULL; l = l->next)
        if (l->id == id)
            return l;
    return NULL;
}

/* -- one incoming stream -------------------------------------------------------------------------------------------------- */

/* Forgets it; its descriptor is closed unless `keep_fd`. */
static void incoming_end(struct incoming *in, bool keep_fd)
{
    struct incoming **at;

    for (at = &state.incoming; *at != in; at = &(*at)->next)
        ;
    *at = in->next;
    if (!in->proven)
        state.strangers--;
    braid_maint_remove(&in->watch);
    if (!keep_fd)
        braid_maint_linger(in->watch.fd, NULL, 0);
    if (in->hs.hello.kind == BRAID_HS_NEW)
        braid_conn_free(in->conn);
    free(in);
}

static void incoming_failed(struct incoming *in, int error, const char *what)
{
    char text[BRAID_ADDR_TEXT];

    braid_addr_text(&in->peer, text, sizeof(text));
    if (in->proven && !in->hs.error_is_peers)
        BRAID_WARN("connection from %s failed: %s: %s", text, what, strerror(-error));
    else
        BRAID_INFO(BRAID_LOG_NET, "dropped a stream from %s: %s", text, what);
    incoming_end(in, false);
}

/* Whom does HELLO want? */
static enum braid_hs_action on_key(struct incoming *in)
{
    const struct braid_hs_hello *hello = &in->hs.hello;
    struct braid_listen *listen;

    if (hello->kind == BRAID_HS_STREAM) {
        in->conn = braid_setup_find(hello->id);
        if (in->conn == NULL)
            return braid_hs_reject(&in->hs, -ENOENT, "no such connection here");
        in->hs.self.tuner_hash = 0; /* the connection's first stream has said it */
        return braid_hs_set_key(&in->hs, in->conn->stream_key);
    }
    listen = find_listen(hello->id);
    if (listen == NULL)
        return braid_hs_reject(
            &in->hs, -ENOENT,
            "no such listener here: it was closed, or the handle is another process's");
    in->listen_id = listen->id;
    return braid_hs_set_key(&in->hs, listen->secret);
}

static enum braid_hs_action on_choose_new(struct incoming *in)
{
    struct braid_listen *listen = find_listen(in->listen_id);
    struct braid_hs_proof proof;
    char why[200];
    int err;

    if (listen == NULL)
        return braid_hs_reject(&in->hs, -ENOENT, "the listener was closed");
    if (in->conn == NULL)
        in->conn = braid_conn_new(false, listen->dev, -1);
    if (in->conn == NULL)
        return braid_hs_reject(&in->hs, -ENOMEM, "out of memory");
    if (braid_plugin_takes_gpu_memory(listen->dev))
        braid_conn_limit_eager(in->conn, 0);
    braid_setup_name_peer(in->conn, &in->hs, &in->peer);
    err = braid_setup_choose(in->conn, &in->hs, &in->offer_at, why, sizeof(why));
    if (err == -EAGAIN) {
        in->watch.deadline_ns = braid_now_ns() + BRAID_NS_PER_MS;
        return BRAID_HS_WAIT;
    }
    if (err != 0)
        return braid_hs_reject(&in->hs, err, "%s", why);
    memcpy(&proof, in->hs.in + sizeof(struct braid_hs_header), sizeof(proof));
    in->conn->eager_bytes = MIN(in->conn->eager_bytes, proof.eager_bytes);
    err = braid_random(&in->conn->id, sizeof(in->conn->id));
    if (err == 0)
        err = braid_hs_stream_key(&in->hs, in->conn->stream_key);
    if (err != 0)
        return braid_hs_reject(&in->hs, err, "no key for further streams: %s", strerror(-err));
    in->hs.own.eager_bytes = in->conn->eager_bytes;
    return braid_hs_answer(&in->hs, in->conn->id);
}

static enum braid_hs_action on_choose(struct incoming *in)
{
    if (!in->proven) {
        in->proven = true;
        state.strangers--;
    }
    if (in->hs.hello.kind == BRAID_HS_STREAM)
        return braid_hs_answer(&in->hs, in->hs.hello.id);
    return on_choose_new(in);
}

static void on_done(struct incoming *in)
{
    struct braid_listen *listen = find_listen(in->listen_id);
    struct braid_conn *conn = in->conn;
    bool is_new = in->hs.hello.kind == BRAID_HS_NEW;
    int fd = in->watch.fd, stream = in->hs.hello.stream, err;

    if (is_new && listen == NULL) {
        incoming_failed(in, -ENOENT, "the listener was closed");
        return;
    }
    in->conn = NULL;
    incoming_end(in, true);
    err = conn->ops->attach(conn, fd, (unsigned)stream);
    if (!is_new)
        return;
    if (err != 0) {
        BRAID_WARN("connection from %s failed: attach: %s", conn->peer, strerror(-err));
        braid_conn_free(conn);
        return;
    }
    struct braid_conn **at = &listen->ready;
    while (*at != NULL)
        at = &(*at)->next_conn;
    conn->next_conn = NULL;
    *at = conn;
    BRAID_INFO(BRAID_LOG_NET, "accepted a connection from %s on device %d over %s", conn->peer,
               conn->dev, conn->ops->name);
}

static void on_incoming(struct braid_watch *watch, uint32_t events)
{
    struct incoming *in = braid_container_of(watch, struct incoming, watch);
    uint32_t wanted = EPOLLIN;
    int action;

    if (braid_now_ns() >= in->until_ns) {
        incoming_failed(in, -ETIMEDOUT, "no complete handshake in time");
        return;
    }
    for (;;) {
        action = braid_hs_move(&in->hs, watch->fd, &wanted);
        if (action < 0) {
            incoming_failed(in, action,
                            action == -ECONNRESET ? "it ended during the handshake"
                                                  : strerror(-action));
            return;
        }
        if (action == BRAID_HS_KEY)
            on_key(in);
        else if (action == BRAID_HS_CHOOSE && on_choose(in) == BRAID_HS_WAIT &&
                 in->hs.state == BRAID_HS_S_CHOOSE)
            return; /* the deadline calls again */
        else if (action != BRAID_HS_CHOOSE)
            break;
    }
    if (action == BRAID_HS_FAILED) {
        incoming_failed(in, in->hs.error, in->hs.why);
    } else if (action == BRAID_HS_DONE) {
        on_done(in);
    } else {
        watch->deadline_ns = in->until_ns;
        braid_maint_change(watch, wanted);
    }
}

/* A flood of strangers must not keep the real peer out: the one that has been silent longest goes. */
static void drop_oldest_stranger(void)
{
    struct incoming *oldest = NULL;

    for (struct incoming *in = state.incoming; in != NULL; in = in->next)
        if (!in->proven)
            oldest = in;
    if (oldest != NULL)
        incoming_failed(oldest, -EBUSY, "too many silent streams");
}

/* What waits stays in the kernel's queue, which would wake the thread again at once. */
static void cannot_accept(struct braid_watch *watch, int err)
{
    uint64_t now = braid_now_ns();

    braid_maint_change(watch, 0);
    watch->deadline_ns = now + PAUSE_NS;
    if (now < state.next_word_ns)
        return;
    state.next_word_ns = now + BRAID_STILL_NS;
    BRAID_WARN("accept on port %u: %s; tried again every %llu ms",
               watch == &state.watch ? state.port : state.tied_port, strerror(err),
               PAUSE_NS / BRAID_NS_PER_MS);
}

static void on_listener(struct braid_watch *watch, uint32_t events)
{
    struct braid_hs_identity self;
    struct incoming *in;

    if (events == 0) /* the pause is over */
        braid_maint_change(watch, EPOLLIN);
    for (;;) {
        union braid_addr peer = {0};
        socklen_t len = sizeof(peer);
        int fd = accept4(watch->fd, &peer.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                cannot_accept(watch, errno);
            return;
        }
        if (state.strangers >= MAX_STRANGERS)
            drop_oldest_stranger();
        in = calloc(1, sizeof(*in));
        if (in == NULL) {
            close(fd);
            continue;
        }
        braid_sock_tune(fd, (unsigned)braid_param_int(BRAID_P_PEER_TIMEOUT_S));
        braid_plugin_identity(0, &self);
        braid_hs_accept(&in->hs, braid_hmac, &self);
        in->peer = peer;
        in->until_ns = braid_now_ns() + BRAID_ATTEMPT_NS;
        in->watch = (struct braid_watch){.fd = fd, .deadline_ns = in->until_ns, .fn = on_incoming};
        if (braid_maint_add(&in->watch, EPOLLIN) != 0) {
            close(fd);
            free(in);
            continue;
        }
        in->next = state.incoming;
        state.incoming = in;
        state.strangers++;
    }
}

/* -- the listener ------------------------------------------------------------------------------------------------------------ */

static void parse_range(uint16_t *first, uint16_t *last)
{
    const char *text = braid_param_str(BRAID_P_PORT_RANGE);

    if (braid_sock_ports(text, first, last) != 0)
        BRAID_WARN("BRAID_PORT_RANGE=%s is not \"first-last\" with ports from 1 to 65535; any port "
                   "is used",
                   text);
}

static void stop_watch(struct braid_watch *watch)
{
    braid_maint_remove(watch);
    close(watch->fd);
    watch->fd = -1;
}

static void stop_tied(void)
{
    while (state.tied_count > 0)
        stop_watch(&state.tied[--state.tied_count]);
    state.tied_port = 0;
}

static int tie_listener(const char *netif, int family)
{
    struct braid_watch *watch = &state.tied[state.tied_count];
    int fd = braid_sock_listen(family, state.tied_port, state.tied_port, netif, &state.tied_port);
    int err;

    if (fd < 0)
        return fd;
    *watch = (struct braid_watch){.fd = fd, .fn = on_listener};
    err = braid_maint_add(watch, EPOLLIN);
    if (err != 0)
        close(fd);
    else
        state.tied_count++;
    return err;
}

/*
 * A peer that comes over the cable of its choice must get its answers over the same one. Where this host's routes would send them over
 * another, a second port has a listener on each interface, tied to it: all of them, or none. Not within a range of ports,
 * whose users count with one a process.
 */
static void start_tied(int family)
{
    const struct braid_netif *netifs;
    bool wanted = false;
    int count, err = 0;

    netifs = braid_netifs(&count);
    for (int i = 0; i < count; i++)
        wanted = wanted || braid_netif_answers_elsewhere(&netifs[i]);
    for (int i = 0; wanted && err == 0 && i < count; i++)
        if (!netifs[i].loopback)
            err = tie_listener(netifs[i].name, family);
    if (err != 0) {
        BRAID_INFO(BRAID_LOG_NET,
                   "answers leave as the routes say, which for some interface is another one: no "
                   "listener can be tied to it: %s",
                   strerror(-err));
        stop_tied();
    }
}

/*
 * A peer of which the kernel hears that its socket has been full for BRAID_PEER_TIMEOUT_S is taken to be dead (TCP_USER_TIMEOUT), also if
 * it answers. Where NCCL asks for nothing, because the program computes or writes a checkpoint, small messages that have come before
 * would fill it: they are taken in here.
 */
static void on_drain(struct braid_watch *watch, uint32_t events)
{
    braid_setup_drain();
    for (struct braid_listen *l = state.listens; l != NULL; l = l->next)
        for (struct braid_conn *conn = l->ready; conn != NULL; conn = conn->next_conn)
            braid_conn_drain(conn);
    watch->deadline_ns = braid_now_ns() + braid_maint_drain_ns();
}

static void start_drain(void)
{
    if (state.drain.id != 0)
        return;
    state.drain = (struct braid_watch){.fd = -1, .fn = on_drain, .deadline_ns = braid_now_ns() + 1};
    braid_maint_add(&state.drain, 0);
}

static int start_listener(void)
{
    int family =
        strcmp(braid_param_str(BRAID_P_SOCKET_FAMILY), "AF_INET") == 0 ? AF_INET : AF_UNSPEC;
    uint16_t first, last;
    int fd, err;

    if (state.watch.fd >= 0)
        return 0;
    err = braid_maint_start();
    if (err != 0)
        return err;
    parse_range(&first, &last);
    fd = braid_sock_listen(family, first, last, NULL, &state.port);
    if (fd < 0) {
        if (first != 0)
            BRAID_WARN("cannot listen on any port from %u to %u (BRAID_PORT_RANGE; each process of "
                       "this host takes one): %s",
                       first, last, strerror(-fd));
        else
            BRAID_WARN("cannot listen: %s", strerror(-fd));
        return fd;
    }
    state.watch = (struct braid_watch){.fd = fd, .fn = on_listener};
    err = braid_maint_add(&state.watch, EPOLLIN);
    if (err != 0) {
        BRAID_WARN("cannot watch the listener on port %u: %s", state.port, strerror(-err));
        close(fd);
        state.watch.fd = -1;
        return err;
    }
    if (first == 0)
        start_tied(family);
    start_drain();
    return 0;
}

static void add_addresses(struct braid_handle *handle, const struct braid_netif *netif,
                          uint8_t rail, int *count)
{
    for (int i = 0; i < netif->addrs_count && *count < BRAID_HANDLE_ADDRS; i++) {
        const union braid_addr *addr = &netif->addrs[i];
        struct braid_wire_addr *wire = &handle->addrs[*count];
        wire->family = addr->sa.sa_family == AF_INET6 ? 6 : 4;
        wire->rail = rail;
        wire->prefix_bits = netif->prefix_bits[i];
        if (wire->family == 6)
            memcpy(wire->bytes, &addr->v6.sin6_addr, 16);
        else
            memcpy(wire->bytes, &addr->v4.sin_addr, 4);
        (*count)++;
    }
}

/* The device's own interface first, then the others, as far as the handle has room. */
static void fill_addresses(struct braid_handle *handle, const char *own)
{
    const struct braid_netif *netifs;
    int total, count = 0;

    netifs = braid_netifs(&total);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < total; i++)
            if ((own != NULL && strcmp(netifs[i].name, own) == 0) == (pass == 0))
                add_addresses(handle, &netifs[i], (uint8_t)i, &count);
}

int braid_net_listen(int dev, void *handle_p, struct braid_listen **listen_p)
{
    struct braid_device_props props;
    struct braid_handle handle = {.magic = BRAID_HANDLE_MAGIC, .version = BRAID_WIRE_VERSION};
    struct braid_listen *listen;
    int err;

    if (!braid_plugin_is_up())
        return -ENODEV;
    err = braid_net_device_props(dev, &props);
    if (err != 0)
        return err;
    listen = calloc(1, sizeof(*listen));
    if (listen == NULL)
        return -ENOMEM;
    listen->dev = dev;
    err = braid_random(&listen->id, sizeof(listen->id));
    if (err == 0)
        err = braid_random(listen->secret, sizeof(listen->secret));
    braid_plugin_look_around();
    braid_maint_lock();
    if (err == 0)
        err = start_listener();
    if (err != 0) {
        braid_maint_unlock();
        free(listen);
        return err;
    }
    listen->next = state.listens;
    state.listens = listen;
    handle.port = state.port;
    handle.tied_port = state.tied_port;
    braid_maint_unlock();
    handle.listen_id = listen->id;
    memcpy(handle.secret, listen->secret, sizeof(handle.secret));
    handle.pid = (uint32_t)getpid();
    handle.dev = (uint32_t)dev;
    fill_addresses(&handle, props.netif);
    memcpy(handle_p, &handle, sizeof(handle));
    *listen_p = listen;
    return 0;
}

static int accept_wait(struct braid_listen *listen)
{
    uint64_t now = braid_now_ns();
    uint64_t bound_s = (uint64_t)braid_param_int(BRAID_P_CONNECT_TIMEOUT_S);

    if (listen->first_accept_ns == 0) {
        listen->first_accept_ns = now;
        listen->next_word_ns = now + BRAID_STILL_NS;
    }
    if (now - listen->first_accept_ns > bound_s * BRAID_NS_PER_S) {
        BRAID_WARN("no peer has connected to device %d, port %u, within %llu s "
                   "(BRAID_CONNECT_TIMEOUT_S): the peer did "
                   "not start, or a firewall keeps it out",
                   listen->dev, state.port, (unsigned long long)bound_s);
        return -ETIMEDOUT;
    }
    if (now >= listen->next_word_ns) {
        BRAID_INFO(BRAID_LOG_NET,
                   "still waiting for a peer to connect to device %d, port %u, for %llu s",
                   listen->dev, state.port,
                   (unsigned long long)((now - listen->first_accept_ns) / BRAID_NS_PER_S));
        listen->next_word_ns = now + BRAID_STILL_NS;
    }
    return 0;
}

int braid_net_accept(struct braid_listen *listen, struct braid_conn **conn_p)
{
    struct braid_conn *conn;
    int err = 0;

    *conn_p = NULL;
    if (!braid_plugin_is_up())
        return -ENODEV;
    braid_maint_lock();
    conn = listen->ready;
    if (conn != NULL) {
        listen->ready = conn->next_conn;
        listen->first_accept_ns = 0;
        braid_setup_register(conn);
        *conn_p = conn;
    } else {
        err = accept_wait(listen);
    }
    braid_maint_unlock();
    return err;
}

int braid_net_close_listen(struct braid_listen *listen)
{
    struct braid_listen **at;
    struct braid_conn *conn;

    braid_maint_lock();
    for (at = &state.listens; *at != NULL && *at != listen; at = &(*at)->next)
        ;
    if (*at != NULL)
        *at = listen->next;
    while ((conn = listen->ready) != NULL) {
        listen->ready = conn->next_conn;
        braid_conn_free(conn);
    }
    braid_maint_unlock();
    free(listen);
    return 0;
}

void braid_listen_forget(struct braid_conn *conn)
{
    struct incoming *in = state.incoming, *next;

    for (; in != NULL; in = next) {
        next = in->next;
        if (in->conn == conn)
            incoming_end(in, false);
    }
}

void braid_listen_stop(void)
{
    braid_maint_lock();
    while (state.incoming != NULL)
        incoming_end(state.incoming, false);
    stop_tied();
    braid_maint_remove(&state.drain);
    if (state.watch.fd >= 0)
        stop_watch(&state.watch);
    braid_maint_unlock();
}
