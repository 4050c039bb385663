/* What both sides of connection set-up share; see setup.h. */
#include "net-plugin/core/setup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "net-plugin/core/plugin.h"

static struct braid_conn *registered;

static enum braid_hs_action due_action(const struct braid_hs *hs)
{
    switch (hs->state) {
    case BRAID_HS_S_DONE: return BRAID_HS_DONE;
    case BRAID_HS_S_FAILED: return BRAID_HS_FAILED;
    case BRAID_HS_S_KEY: return BRAID_HS_KEY;
    case BRAID_HS_S_CHOOSE: return BRAID_HS_CHOOSE;
    default: return BRAID_HS_WAIT;
    }
}

int braid_hs_move(struct braid_hs *hs, int fd, uint32_t *events_p)
{
    enum braid_hs_action action;
    ssize_t got;

    for (;;) {
        while (hs->out_sent < hs->out_have) {
            got = send(fd, hs->out + hs->out_sent, hs->out_have - hs->out_sent,
                       MSG_NOSIGNAL | MSG_DONTWAIT);
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0 && errno == EAGAIN && hs->state != BRAID_HS_S_FAILED) {
                *events_p = EPOLLOUT;
                return BRAID_HS_WAIT;
            }
            if (got < 0)
                return hs->state == BRAID_HS_S_FAILED ? (int)BRAID_HS_FAILED : -errno;
            hs->out_sent += (size_t)got;
        }
        action = due_action(hs);
        if (action != BRAID_HS_WAIT)
            return (int)action;
        got = recv(fd, braid_hs_in(hs), braid_hs_want(hs), MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN) {
            *events_p = EPOLLIN;
            return BRAID_HS_WAIT;
        }
        if (got <= 0)
            return got == 0 ? -ECONNRESET : -errno;
        braid_hs_received(hs, (size_t)got);
    }
}

int braid_setup_choose(struct braid_conn *conn, struct braid_hs *hs, size_t *at_p, char *why,
                       size_t why_bytes)
{
    uint8_t offer[BRAID_OFFER_BYTES];
    const void *theirs;
    uint32_t id;
    size_t bytes, at;
    int tdev, got, err = -EPROTONOSUPPORT;

    snprintf(why, why_bytes, "no common transport");
    for (at = *at_p; braid_hs_next_offer(hs, &at, &id, &theirs, &bytes); *at_p = at) {
        const struct braid_transport *t = braid_plugin_transport_by_id(conn->dev, id, &tdev);
        if (t == NULL)
            continue;
        if (conn->ops == NULL) {
            conn->ops = t;
            got = t->offer(conn, tdev, offer, sizeof(offer));
            if (got < 0 || braid_hs_add_offer(hs, id, offer, (size_t)got) != 0) {
                t->detach(conn);
                conn->ops = NULL;
                continue;
            }
        }
        err = t->agree(conn, theirs, bytes, why, why_bytes);
        if (err == 0 || err == -EAGAIN)
            return err;
        t->detach(conn);
        conn->ops = NULL;
        hs->own.offers = 0;
        hs->own_bytes = 0;
    }
    return err;
}

void braid_setup_register(struct braid_conn *conn)
{
    conn->next_conn = registered;
    registered = conn;
}

void braid_setup_unregister(struct braid_conn *conn)
{
    for (struct braid_conn **at = &registered; *at != NULL; at = &(*at)->next_conn) {
        if (*at == conn) {
            *at = conn->next_conn;
            return;
        }
    }
}

struct braid_conn *braid_setup_find(uint64_t id)
{
    for (struct braid_conn *conn = registered; conn != NULL; conn = conn->next_conn)
        if (conn->id == id && !conn->sender)
            return conn;
    return NULL;
}

void braid_setup_drain(void)
{
    for (struct braid_conn *conn = registered; conn != NULL; conn = conn->next_conn)
        braid_conn_drain(conn);
}

void braid_setup_name_peer(struct braid_conn *conn, const struct braid_hs *hs,
                           const union braid_addr *addr)
{
    char text[BRAID_ADDR_TEXT];

    for (const char *c = hs->peer.host; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            return;
    conn->peer_addr = *addr;
    snprintf(conn->peer, sizeof(conn->peer), "%s pid %u (%s)", hs->peer.host, hs->peer.pid,
             braid_addr_text(addr, text, sizeof(text)));
}
