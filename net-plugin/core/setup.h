/*
 * What listen.c (accepting side) and connect.c (connecting side) share. Internal to core; everything under the maintenance lock.
 */
#ifndef BRAID_NET_SETUP_H
#define BRAID_NET_SETUP_H

#include "net-plugin/core/conn.h"
#include "net-plugin/core/handshake.h"
#include "net-plugin/core/maint.h"

/* One TCP connect and handshake, or a stranger's silence, may take this long. */
#define BRAID_ATTEMPT_NS (10 * BRAID_NS_PER_S)
/* How often a wait that goes on is mentioned at INFO. */
#define BRAID_STILL_NS (10 * BRAID_NS_PER_S)

/*
 * Moves handshake bytes between machine and socket. Returns the enum braid_hs_action that is due (WAIT: for *events_p), or a negative
 * errno when the stream failed (-ECONNRESET: it ended). What a failed machine has to say is sent as far as the socket takes it.
 */
int braid_hs_move(struct braid_hs *hs, int fd, uint32_t *events_p);

/*
 * The accepting side's choice: the first of the peer's offers whose transport is active here and agrees. 0 and conn->ops set, -EAGAIN,
 * or a negative errno with the reasons in `why`. *at_p is braid_hs_next_offer's place; it starts at 0.
 */
int braid_setup_choose(struct braid_conn *conn, struct braid_hs *hs, size_t *at_p, char *why,
                       size_t why_bytes);

/* Connections that NCCL has. */
void braid_setup_register(struct braid_conn *conn);
void braid_setup_unregister(struct braid_conn *conn);
/* The receiving one with this id, which accepts further streams. */
struct braid_conn *braid_setup_find(uint64_t id);
/* braid_conn_drain() for all. */
void braid_setup_drain(void);

/* Fills conn->peer from the peer's identity and address. */
void braid_setup_name_peer(struct braid_conn *conn, const struct braid_hs *hs,
                           const union braid_addr *addr);

/* Ends handshakes of further streams of a connection that is going away. */
void braid_listen_forget(struct braid_conn *conn);
void braid_connect_forget(struct braid_conn *conn);

#endif
