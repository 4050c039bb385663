/*
 * The handle that NCCL's bootstrap carries to the connecting rank, and the messages by which two processes become a connection.
 * All integers are little-endian.
 *
 *   connecting side                                     accepting side
 *   HELLO   versions, listener id, nonce          -->
 *                                                 <--   CHALLENGE  version, nonce
 *   PROOF   MAC, identity, offers of transports   -->
 *                                                 <--   ANSWER     MAC, identity, the chosen transport's offer
 *   READY   (records follow at once)              -->
 * Either side may send REJECT instead of its turn and then closes.
 *
 * The MACs are HMAC-SHA256 under the handle's secret (for a further stream: under the connection's key) over a label, HELLO and
 * CHALLENGE as sent, and what follows the MAC in its own message; ANSWER's covers PROOF's MAC as well. Nothing that is
 * larger than PROOF, and nothing before a valid MAC, is acted upon.
 * Header and HELLO keep their layout in every version; what follows is of the version that CHALLENGE names.
 */
#ifndef BRAID_WIRE_NET_HANDSHAKE_H
#define BRAID_WIRE_NET_HANDSHAKE_H

#include <stdint.h>
#include "braid/wire/net_record.h"

#define BRAID_HANDLE_MAGIC 0x48445242u /* "BRDH" */
#define BRAID_HS_MAGIC     0x53485242u /* "BRHS" */
/*
 * 2: eager messages cost, and the window is, four times as much: two ends that count differently would end in the middle of a job.
 * 3: a CHUNK says how many its message has, and does not wait for its START.
 */
#define BRAID_WIRE_VERSION 3 /* newest that this build speaks */
#define BRAID_WIRE_OLDEST  3 /* oldest that this build speaks */

#define BRAID_SECRET_BYTES 32
#define BRAID_NONCE_BYTES  16
#define BRAID_HANDLE_ADDRS 3

struct braid_wire_addr {
    uint8_t family; /* 4, 6 or 0 for none */
    uint8_t rail;   /* which physical device of the listening device it belongs to */
    uint16_t prefix_bits;
    uint8_t bytes[16];
};
BRAID_WIRE_ASSERT(sizeof(struct braid_wire_addr) == 20, "address layout");

struct braid_handle {
    uint32_t magic;
    uint16_t version; /* newest that the listener speaks */
    uint16_t port;
    uint64_t listen_id;
    uint8_t secret[BRAID_SECRET_BYTES];
    uint32_t pid;
    uint32_t dev;
    struct braid_wire_addr addrs[BRAID_HANDLE_ADDRS];
    uint16_t tied_port; /* its answers leave by the interface that the request came by; 0: none */
    uint16_t reserved;
    uint64_t stash; /* connecting side's, between retries of connect; the listener leaves 0 */
};
BRAID_WIRE_ASSERT(sizeof(struct braid_handle) == 128, "handle layout");

enum braid_hs_type {
    BRAID_HS_HELLO = 1,
    BRAID_HS_CHALLENGE = 2,
    BRAID_HS_PROOF = 3,
    BRAID_HS_ANSWER = 4,
    BRAID_HS_READY = 5,
    BRAID_HS_REJECT = 6,
};

struct braid_hs_header {
    uint32_t magic;
    uint16_t type;
    uint16_t version; /* HELLO, REJECT: newest known; else the agreed one */
    uint32_t body_bytes;
    uint32_t reserved;
};
BRAID_WIRE_ASSERT(sizeof(struct braid_hs_header) == 16, "handshake header layout");

enum { BRAID_HS_NEW = 0, BRAID_HS_STREAM = 1 }; /* kind: a connection, or one more stream of it */

struct braid_hs_hello {
    uint16_t version_oldest, version_newest;
    uint16_t kind;
    uint16_t stream;   /* number of the stream in its connection, 0 for a new connection */
    uint32_t epoch;    /* re-openings of this stream */
    uint32_t macs;     /* bit 0: HMAC-SHA256 */
    uint64_t id;       /* the handle's listen_id, or the connection's id for a further stream */
    uint64_t features; /* bits that later versions define; unknown ones are ignored */
    uint8_t nonce[BRAID_NONCE_BYTES];
    uint32_t rail; /* of the stream */
    uint32_t reserved;
};
BRAID_WIRE_ASSERT(sizeof(struct braid_hs_hello) == 56, "hello layout");

struct braid_hs_challenge {
    uint16_t version;
    uint16_t reserved;
    uint32_t mac; /* the one chosen */
    uint64_t features;
    uint8_t nonce[BRAID_NONCE_BYTES];
};
BRAID_WIRE_ASSERT(sizeof(struct braid_hs_challenge) == 32, "challenge layout");

/* Who a process is. Only tuner_hash decides anything: it must be equal on both sides (wire/tuner_id.h says why). */
struct braid_hs_identity {
    char host[64];    /* zero-terminated */
    char release[24]; /* Braid's version, zero-terminated */
    uint32_t pid;
    uint32_t dev;
    /* of what Braid's tuner decides by in this process; 0: it does not decide here */
    uint64_t tuner_hash;
    char tuner[48]; /* its profile, zero-terminated */
};
BRAID_WIRE_ASSERT(sizeof(struct braid_hs_identity) == 152, "identity layout");

/* The start of PROOF's and ANSWER's body; offers follow, each a braid_hs_offer and its bytes, no padding. */
struct braid_hs_proof {
    uint8_t mac[32];
    struct braid_hs_identity identity;
    uint64_t conn_id; /* ANSWER: names the connection in the HELLO of further streams */
    /* PROOF: in order of preference. ANSWER: 1, the chosen one. Further stream: 0 */
    uint32_t offers;
    uint32_t eager_bytes; /* largest eager message of this side; the smaller of both counts */
};
BRAID_WIRE_ASSERT(sizeof(struct braid_hs_proof) == 200, "proof layout");

struct braid_hs_offer {
    uint32_t transport; /* braid_transport.id */
    uint32_t bytes;
};
BRAID_WIRE_ASSERT(sizeof(struct braid_hs_offer) == 8, "offer layout");

/* Body of REJECT: a line for the other side's log. Not authenticated. */
struct braid_hs_reject {
    uint32_t error; /* a positive errno */
    uint32_t reserved;
    char text[248]; /* zero-terminated */
};
BRAID_WIRE_ASSERT(sizeof(struct braid_hs_reject) == 256, "reject layout");

#endif
