/*
 * The handshake as a state machine without I/O: bytes and decisions in, bytes and actions out. core/listen.c and core/connect.c move the
 * bytes; the unit test and the fuzzer drive it with none. The exchange is described in include/braid/wire/net_handshake.h.
 *
 * Use: braid_hs_connect() or braid_hs_accept(); then, until the action is DONE or FAILED: send hs->out, read exactly braid_hs_want()
 * bytes to braid_hs_in() (so nothing after the handshake is swallowed), braid_hs_received(), and do what the action says.
 * Every byte from the peer is foreign: lengths are checked before use, nothing is acted upon before its MAC.
 * Threading: one thread at a time (the holder of the maintenance lock).
 */
#ifndef BRAID_NET_HANDSHAKE_H
#define BRAID_NET_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "braid/wire/net_handshake.h"
#include "common/util.h"
#include "net-plugin/core/transport.h"

#define BRAID_HS_OFFERS 3
#define BRAID_HS_BODY_MAX                                                                          \
    (sizeof(struct braid_hs_proof) +                                                               \
     BRAID_HS_OFFERS * (sizeof(struct braid_hs_offer) + BRAID_OFFER_BYTES))

typedef int (*braid_hs_mac_fn)(const void *key, size_t key_bytes, const void *data, size_t bytes,
                               uint8_t mac[32]);

enum braid_hs_action {
    BRAID_HS_WAIT, /* send what is in out, then read more */
    BRAID_HS_KEY, /* accepting: hs->hello is there; answer by braid_hs_set_key() or braid_hs_reject() */
    BRAID_HS_CHOOSE, /* the peer is authentic, look at its offers; then braid_hs_answer(), braid_hs_ready() or braid_hs_reject() */
    BRAID_HS_DONE,   /* send what is in out; the stream is the connection's */
    BRAID_HS_FAILED, /* send what is in out, then close; hs->error and hs->why tell */
};

enum braid_hs_state {
    BRAID_HS_S_HELLO,     /* accepting: waits for HELLO */
    BRAID_HS_S_KEY,       /* accepting: waits for its owner's key */
    BRAID_HS_S_CHALLENGE, /* connecting: waits for CHALLENGE */
    BRAID_HS_S_PROOF,     /* accepting: waits for PROOF */
    BRAID_HS_S_ANSWER,    /* connecting: waits for ANSWER */
    BRAID_HS_S_CHOOSE,    /* either: waits for its owner's choice */
    BRAID_HS_S_READY,     /* accepting: waits for READY */
    BRAID_HS_S_DONE,
    BRAID_HS_S_FAILED,
};

struct braid_hs {
    enum braid_hs_state state;
    bool connecting;
    braid_hs_mac_fn mac;
    uint8_t key[BRAID_SECRET_BYTES];
    struct braid_hs_hello hello;
    struct braid_hs_challenge challenge;
    uint8_t proof_mac[32];
    struct braid_hs_identity self, peer; /* peer: valid from CHOOSE on */
    uint64_t conn_id;    /* valid from CHOOSE on (connecting), or as given to answer */
    uint16_t version;    /* agreed */
    int error;           /* FAILED: negative errno */
    bool error_is_peers; /* it came in a REJECT */
    char why[248];       /* FAILED: one line */

    struct braid_hs_proof own; /* body of our PROOF or ANSWER; own_bytes of offers follow */
    uint8_t own_offers[BRAID_HS_BODY_MAX];
    size_t own_bytes;

    uint8_t in[sizeof(struct braid_hs_header) + BRAID_HS_BODY_MAX];
    size_t in_have;
    uint8_t out[sizeof(struct braid_hs_header) + BRAID_HS_BODY_MAX + 512];
    size_t out_have, out_sent;
};

/* Starts the connecting side. `kind` BRAID_HS_NEW with the handle's id and secret, or BRAID_HS_STREAM with the connection's. */
void braid_hs_connect(struct braid_hs *hs, braid_hs_mac_fn mac,
                      const struct braid_hs_identity *self, const uint8_t key[BRAID_SECRET_BYTES],
                      const struct braid_hs_hello *hello);
/* Starts the accepting side. */
void braid_hs_accept(struct braid_hs *hs, braid_hs_mac_fn mac,
                     const struct braid_hs_identity *self);

/* Adds a transport to what PROOF (before the first read) or ANSWER (at CHOOSE) offers. -ENOSPC when it does not fit. */
int braid_hs_add_offer(struct braid_hs *hs, uint32_t transport, const void *bytes, size_t count);

/* How many bytes to read next, and where to. 0: none now (a decision is due, or it is over). */
size_t braid_hs_want(const struct braid_hs *hs);
uint8_t *braid_hs_in(struct braid_hs *hs);
/* `bytes` (at most braid_hs_want()) have been read to braid_hs_in(). */
enum braid_hs_action braid_hs_received(struct braid_hs *hs, size_t bytes);

/* Answers to KEY and CHOOSE. */
enum braid_hs_action braid_hs_set_key(struct braid_hs *hs, const uint8_t key[BRAID_SECRET_BYTES]);
enum braid_hs_action braid_hs_answer(struct braid_hs *hs, uint64_t conn_id);
enum braid_hs_action braid_hs_ready(struct braid_hs *hs);
/* Gives up at any point and tells the peer why. `error` is a negative errno. */
enum braid_hs_action braid_hs_reject(struct braid_hs *hs, int error, const char *fmt, ...)
    BRAID_PRINTF(3, 4);

/* Walks the peer's offers at CHOOSE: start with *at = 0; false at the end. */
bool braid_hs_next_offer(const struct braid_hs *hs, size_t *at, uint32_t *transport,
                         const void **bytes, size_t *count);

/* Key of a connection's further streams, from the secret and both nonces. 0 or a negative errno. */
int braid_hs_stream_key(struct braid_hs *hs, uint8_t key[BRAID_SECRET_BYTES]);

#endif
