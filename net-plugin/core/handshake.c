/*
 * The handshake's states, one function each; see handshake.h. Pure: no descriptor, no clock, no global; randomness for the nonces is the
 * only thing taken from outside.
 */
#include "net-plugin/core/handshake.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/hmac.h"

#define MAC_HMAC_SHA256 0x1u

static const char label_proof[16] = "braid proof";
static const char label_answer[16] = "braid answer";
static const char label_stream[16] = "braid stream";

static void put_message(struct braid_hs *hs, enum braid_hs_type type, uint16_t version,
                        const void *body, size_t bytes)
{
    struct braid_hs_header header = {.magic = BRAID_HS_MAGIC,
                                     .type = (uint16_t)type,
                                     .version = version,
                                     .body_bytes = (uint32_t)bytes};

    if (hs->out_sent == hs->out_have)
        hs->out_sent = hs->out_have = 0;
    if (hs->out_have + sizeof(header) + bytes > sizeof(hs->out))
        return; /* cannot happen: a side has one message of its own and a reject under way */
    memcpy(hs->out + hs->out_have, &header, sizeof(header));
    if (bytes > 0)
        memcpy(hs->out + hs->out_have + sizeof(header), body, bytes);
    hs->out_have += sizeof(header) + bytes;
}

static enum braid_hs_action fail(struct braid_hs *hs, int error, const char *fmt, ...)
    BRAID_PRINTF(3, 4);

/* Gives up without a word to the peer: it is not one of ours, or it has closed. */
static enum braid_hs_action fail(struct braid_hs *hs, int error, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(hs->why, sizeof(hs->why), fmt, args);
    va_end(args);
    hs->error = error;
    hs->state = BRAID_HS_S_FAILED;
    return BRAID_HS_FAILED;
}

enum braid_hs_action braid_hs_reject(struct braid_hs *hs, int error, const char *fmt, ...)
{
    struct braid_hs_reject reject = {.error = (uint32_t)-error};
    va_list args;

    va_start(args, fmt);
    vsnprintf(hs->why, sizeof(hs->why), fmt, args);
    va_end(args);
    snprintf(reject.text, sizeof(reject.text), "%.*s", (int)sizeof(reject.text) - 1, hs->why);
    put_message(hs, BRAID_HS_REJECT, BRAID_WIRE_VERSION, &reject, sizeof(reject));
    hs->error = error;
    hs->state = BRAID_HS_S_FAILED;
    return BRAID_HS_FAILED;
}

/* The MAC of a PROOF or ANSWER whose body is `body`: over everything said so far and the body after its own MAC. */
static int message_mac(struct braid_hs *hs, const char label[16], bool with_proof_mac,
                       const uint8_t *body, size_t bytes, uint8_t mac[32])
{
    uint8_t text[16 + sizeof(hs->hello) + sizeof(hs->challenge) + 32 + BRAID_HS_BODY_MAX];
    size_t n = 0;

    memcpy(text + n, label, 16);
    n += 16;
    memcpy(text + n, &hs->hello, sizeof(hs->hello));
    n += sizeof(hs->hello);
    memcpy(text + n, &hs->challenge, sizeof(hs->challenge));
    n += sizeof(hs->challenge);
    if (with_proof_mac) {
        memcpy(text + n, hs->proof_mac, 32);
        n += 32;
    }
    memcpy(text + n, body + 32, bytes - 32);
    n += bytes - 32;
    return hs->mac(hs->key, sizeof(hs->key), text, n, mac);
}

static enum braid_hs_action put_proof(struct braid_hs *hs, enum braid_hs_type type)
{
    uint8_t body[BRAID_HS_BODY_MAX];
    size_t bytes = sizeof(hs->own) + hs->own_bytes;
    bool answer = type == BRAID_HS_ANSWER;
    int err;

    hs->own.identity = hs->self;
    memcpy(body, &hs->own, sizeof(hs->own));
    memcpy(body + sizeof(hs->own), hs->own_offers, hs->own_bytes);
    err = message_mac(hs, answer ? label_answer : label_proof, answer, body, bytes, body);
    if (err != 0)
        return braid_hs_reject(hs, err, "cannot compute a MAC: %s", strerror(-err));
    if (!answer)
        memcpy(hs->proof_mac, body, 32);
    put_message(hs, type, hs->version, body, bytes);
    return BRAID_HS_WAIT;
}

void braid_hs_connect(struct braid_hs *hs, braid_hs_mac_fn mac,
                      const struct braid_hs_identity *self, const uint8_t key[BRAID_SECRET_BYTES],
                      const struct braid_hs_hello *hello)
{
    int err;

    memset(hs, 0, sizeof(*hs));
    hs->connecting = true;
    hs->mac = mac;
    hs->self = *self;
    memcpy(hs->key, key, sizeof(hs->key));
    hs->hello = *hello;
    hs->hello.version_oldest = BRAID_WIRE_OLDEST;
    hs->hello.version_newest = BRAID_WIRE_VERSION;
    hs->hello.macs = MAC_HMAC_SHA256;
    err = braid_random(hs->hello.nonce, sizeof(hs->hello.nonce));
    if (err != 0) {
        fail(hs, err, "no random bytes from the kernel: %s", strerror(-err));
        return;
    }
    hs->state = BRAID_HS_S_CHALLENGE;
    put_message(hs, BRAID_HS_HELLO, BRAID_WIRE_VERSION, &hs->hello, sizeof(hs->hello));
}

void braid_hs_accept(struct braid_hs *hs, braid_hs_mac_fn mac, const struct braid_hs_identity *self)
{
    memset(hs, 0, sizeof(*hs));
    hs->mac = mac;
    hs->self = *self;
    hs->state = BRAID_HS_S_HELLO;
}

int braid_hs_add_offer(struct braid_hs *hs, uint32_t transport, const void *bytes, size_t count)
{
    struct braid_hs_offer offer = {.transport = transport, .bytes = (uint32_t)count};

    if (count > BRAID_OFFER_BYTES || hs->own.offers == BRAID_HS_OFFERS)
        return -ENOSPC;
    memcpy(hs->own_offers + hs->own_bytes, &offer, sizeof(offer));
    memcpy(hs->own_offers + hs->own_bytes + sizeof(offer), bytes, count);
    hs->own_bytes += sizeof(offer) + count;
    hs->own.offers++;
    return 0;
}

/* The largest body that the message awaited in this state may have. */
static size_t body_limit(const struct braid_hs *hs)
{
    switch (hs->state) {
    case BRAID_HS_S_HELLO: return sizeof(struct braid_hs_hello) + 256; /* room for later versions */
    case BRAID_HS_S_CHALLENGE: return sizeof(struct braid_hs_reject);
    case BRAID_HS_S_PROOF:
    case BRAID_HS_S_ANSWER: return BRAID_HS_BODY_MAX;
    case BRAID_HS_S_READY: return sizeof(struct braid_hs_reject);
    default: return 0;
    }
}

static bool is_reading(const struct braid_hs *hs)
{
    return hs->state != BRAID_HS_S_KEY && hs->state != BRAID_HS_S_CHOOSE &&
           hs->state != BRAID_HS_S_DONE && hs->state != BRAID_HS_S_FAILED;
}

size_t braid_hs_want(const struct braid_hs *hs)
{
    struct braid_hs_header header;

    if (!is_reading(hs))
        return 0;
    if (hs->in_have < sizeof(header))
        return sizeof(header) - hs->in_have;
    memcpy(&header, hs->in, sizeof(header));
    return sizeof(header) + header.body_bytes - hs->in_have;
}

uint8_t *braid_hs_in(struct braid_hs *hs)
{
    return hs->in + hs->in_have;
}

static enum braid_hs_action on_hello(struct braid_hs *hs, const uint8_t *body, size_t bytes)
{
    if (bytes < sizeof(hs->hello))
        return fail(hs, -EPROTO, "short HELLO (%zu bytes)", bytes);
    memcpy(&hs->hello, body, sizeof(hs->hello));
    if (hs->hello.version_newest < BRAID_WIRE_OLDEST ||
        hs->hello.version_oldest > BRAID_WIRE_VERSION)
        return braid_hs_reject(
            hs, -EPROTONOSUPPORT,
            "wire versions do not meet: the connecting side speaks %u to %u, the "
            "accepting side %u to %u; use one release of Braid on all nodes",
            hs->hello.version_oldest, hs->hello.version_newest, BRAID_WIRE_OLDEST,
            BRAID_WIRE_VERSION);
    if (!(hs->hello.macs & MAC_HMAC_SHA256))
        return braid_hs_reject(hs, -EPROTONOSUPPORT, "no common authentication method");
    if (hs->hello.kind > BRAID_HS_STREAM || hs->hello.stream >= BRAID_LANES_MAX)
        return fail(hs, -EPROTO, "HELLO of unknown kind %u, stream %u", hs->hello.kind,
                    hs->hello.stream);
    hs->version = MIN(hs->hello.version_newest, BRAID_WIRE_VERSION);
    hs->state = BRAID_HS_S_KEY;
    return BRAID_HS_KEY;
}

enum braid_hs_action braid_hs_set_key(struct braid_hs *hs, const uint8_t key[BRAID_SECRET_BYTES])
{
    int err = braid_random(hs->challenge.nonce, sizeof(hs->challenge.nonce));

    if (err != 0)
        return fail(hs, err, "no random bytes from the kernel: %s", strerror(-err));
    memcpy(hs->key, key, sizeof(hs->key));
    hs->challenge.version = hs->version;
    hs->challenge.mac = MAC_HMAC_SHA256;
    put_message(hs, BRAID_HS_CHALLENGE, hs->version, &hs->challenge, sizeof(hs->challenge));
    hs->state = BRAID_HS_S_PROOF;
    return BRAID_HS_WAIT;
}

static enum braid_hs_action on_challenge(struct braid_hs *hs, const uint8_t *body, size_t bytes)
{
    enum braid_hs_action action;

    if (bytes < sizeof(hs->challenge))
        return fail(hs, -EPROTO, "short CHALLENGE (%zu bytes)", bytes);
    memcpy(&hs->challenge, body, sizeof(hs->challenge));
    if (hs->challenge.version < BRAID_WIRE_OLDEST || hs->challenge.version > BRAID_WIRE_VERSION ||
        hs->challenge.mac != MAC_HMAC_SHA256)
        return braid_hs_reject(
            hs, -EPROTONOSUPPORT,
            "the accepting side chose wire version %u and MAC %u, which were not offered",
            hs->challenge.version, hs->challenge.mac);
    hs->version = hs->challenge.version;
    action = put_proof(hs, BRAID_HS_PROOF);
    if (action == BRAID_HS_WAIT)
        hs->state = BRAID_HS_S_ANSWER;
    return action;
}

/* Offers must fill the body exactly. */
static bool offers_are_well_formed(const uint8_t *body, size_t bytes, uint32_t offers)
{
    size_t at = sizeof(struct braid_hs_proof);

    for (uint32_t i = 0; i < offers; i++) {
        struct braid_hs_offer offer;
        if (bytes - at < sizeof(offer))
            return false;
        memcpy(&offer, body + at, sizeof(offer));
        at += sizeof(offer);
        if (offer.bytes > BRAID_OFFER_BYTES || offer.bytes > bytes - at)
            return false;
        at += offer.bytes;
    }
    return at == bytes;
}

/* "nothing" or "profile h200 (hash 1234...)": what a side's tuner decides by. */
static const char *tuner_text(const struct braid_hs_identity *who, char *text, size_t bytes)
{
    if (who->tuner_hash == 0)
        snprintf(text, bytes, "no tuner of Braid");
    else
        snprintf(text, bytes, "profile %s, hash %016llx", who->tuner,
                 (unsigned long long)who->tuner_hash);
    return text;
}

/* Ranks whose tuners decide differently would run different algorithms for one collective. */
static enum braid_hs_action check_tuner(struct braid_hs *hs)
{
    char ours[96], theirs[96];

    if (hs->peer.tuner_hash == hs->self.tuner_hash)
        return BRAID_HS_CHOOSE;
    return braid_hs_reject(hs, -EINVAL, "tuners differ: %.24s has %s; %.24s has %s", hs->self.host,
                           tuner_text(&hs->self, ours, sizeof(ours)), hs->peer.host,
                           tuner_text(&hs->peer, theirs, sizeof(theirs)));
}

/* PROOF and ANSWER: the same shape, another label. */
static enum braid_hs_action on_proof(struct braid_hs *hs, const uint8_t *body, size_t bytes)
{
    struct braid_hs_proof proof;
    uint8_t mac[32];
    int err;

    if (bytes < sizeof(proof))
        return fail(hs, -EPROTO, "short %s (%zu bytes)", hs->connecting ? "ANSWER" : "PROOF",
                    bytes);
    memcpy(&proof, body, sizeof(proof));
    err = message_mac(hs, hs->connecting ? label_answer : label_proof, hs->connecting, body, bytes,
                      mac);
    if (err != 0)
        return braid_hs_reject(hs, err, "cannot compute a MAC: %s", strerror(-err));
    if (!braid_bytes_equal(mac, proof.mac, 32))
        return braid_hs_reject(hs, -EACCES, "the peer does not hold the secret of this handle");
    if (proof.offers > BRAID_HS_OFFERS || !offers_are_well_formed(body, bytes, proof.offers))
        return braid_hs_reject(hs, -EPROTO, "malformed offers");
    if (!hs->connecting)
        memcpy(hs->proof_mac, proof.mac, 32);
    else
        hs->conn_id = proof.conn_id;
    hs->peer = proof.identity;
    hs->peer.host[sizeof(hs->peer.host) - 1] = '\0';
    hs->peer.release[sizeof(hs->peer.release) - 1] = '\0';
    hs->peer.tuner[sizeof(hs->peer.tuner) - 1] = '\0';
    hs->state = BRAID_HS_S_CHOOSE;
    return check_tuner(hs);
}

enum braid_hs_action braid_hs_answer(struct braid_hs *hs, uint64_t conn_id)
{
    enum braid_hs_action action;

    hs->conn_id = conn_id;
    hs->own.conn_id = conn_id;
    action = put_proof(hs, BRAID_HS_ANSWER);
    if (action == BRAID_HS_WAIT)
        hs->state = BRAID_HS_S_READY;
    hs->in_have = 0;
    return action;
}

enum braid_hs_action braid_hs_ready(struct braid_hs *hs)
{
    put_message(hs, BRAID_HS_READY, hs->version, "", 0);
    hs->state = BRAID_HS_S_DONE;
    return BRAID_HS_DONE;
}

static enum braid_hs_action on_ready(struct braid_hs *hs, const uint8_t *body, size_t bytes)
{
    hs->state = BRAID_HS_S_DONE;
    return BRAID_HS_DONE;
}

static enum braid_hs_action on_reject(struct braid_hs *hs, const uint8_t *body, size_t bytes)
{
    struct braid_hs_reject reject;

    if (bytes != sizeof(reject))
        return fail(hs, -EPROTO, "malformed REJECT");
    memcpy(&reject, body, sizeof(reject));
    reject.text[sizeof(reject.text) - 1] = '\0';
    for (char *c = reject.text; *c != '\0'; c++) /* foreign text goes to a log: printable only */
        if (*c < ' ' || *c > '~')
            *c = '?';
    hs->error_is_peers = true;
    return fail(hs, reject.error > 0 && reject.error < 4096 ? -(int)reject.error : -EPROTO, "%s",
                reject.text[0] != '\0' ? reject.text : "(no reason given)");
}

typedef enum braid_hs_action (*message_fn)(struct braid_hs *hs, const uint8_t *body, size_t bytes);

static const struct {
    enum braid_hs_type type;
    message_fn on_message;
} awaited[] = {
    [BRAID_HS_S_HELLO] = {BRAID_HS_HELLO, on_hello},
    [BRAID_HS_S_CHALLENGE] = {BRAID_HS_CHALLENGE, on_challenge},
    [BRAID_HS_S_PROOF] = {BRAID_HS_PROOF, on_proof},
    [BRAID_HS_S_ANSWER] = {BRAID_HS_ANSWER, on_proof},
    [BRAID_HS_S_READY] = {BRAID_HS_READY, on_ready},
};

static enum braid_hs_action check_header(struct braid_hs *hs, const struct braid_hs_header *header)
{
    if (header->magic != BRAID_HS_MAGIC)
        return fail(hs, -EPROTO, "this is not a Braid peer (it began with 0x%08x)", header->magic);
    if (header->type == BRAID_HS_REJECT && hs->state != BRAID_HS_S_HELLO)
        return header->body_bytes == sizeof(struct braid_hs_reject)
                   ? BRAID_HS_WAIT
                   : fail(hs, -EPROTO, "malformed REJECT");
    if (header->type != awaited[hs->state].type)
        return fail(hs, -EPROTO, "message of type %u where type %u was due", header->type,
                    awaited[hs->state].type);
    if (header->body_bytes > body_limit(hs))
        return fail(hs, -EPROTO, "message of %u bytes where at most %zu are allowed",
                    header->body_bytes, body_limit(hs));
    return BRAID_HS_WAIT;
}

enum braid_hs_action braid_hs_received(struct braid_hs *hs, size_t bytes)
{
    struct braid_hs_header header;
    const uint8_t *body = hs->in + sizeof(header);
    size_t have_before = hs->in_have;
    enum braid_hs_state state = hs->state;
    enum braid_hs_action action;

    hs->in_have += bytes;
    if (hs->in_have < sizeof(header))
        return BRAID_HS_WAIT;
    memcpy(&header, hs->in, sizeof(header));
    if (have_before < sizeof(header)) {
        action = check_header(hs, &header);
        if (action == BRAID_HS_FAILED)
            return action;
    }
    if (hs->in_have < sizeof(header) + header.body_bytes)
        return BRAID_HS_WAIT;
    action = header.type == BRAID_HS_REJECT
                 ? on_reject(hs, body, header.body_bytes)
                 : awaited[state].on_message(hs, body, header.body_bytes);
    if (hs->state != BRAID_HS_S_CHOOSE) /* the offers are still to be read */
        hs->in_have = 0;
    return action;
}

bool braid_hs_next_offer(const struct braid_hs *hs, size_t *at, uint32_t *transport,
                         const void **bytes, size_t *count)
{
    struct braid_hs_header header;
    struct braid_hs_offer offer;
    const uint8_t *body = hs->in + sizeof(header);

    memcpy(&header, hs->in, sizeof(header));
    if (*at == 0)
        *at = sizeof(struct braid_hs_proof);
    if (*at >= header.body_bytes)
        return false;
    memcpy(&offer, body + *at, sizeof(offer));
    *transport = offer.transport;
    *bytes = body + *at + sizeof(offer);
    *count = offer.bytes;
    *at += sizeof(offer) + offer.bytes;
    return true;
}

int braid_hs_stream_key(struct braid_hs *hs, uint8_t key[BRAID_SECRET_BYTES])
{
    uint8_t text[16 + 2 * BRAID_NONCE_BYTES];

    memcpy(text, label_stream, 16);
    memcpy(text + 16, hs->hello.nonce, BRAID_NONCE_BYTES);
    memcpy(text + 16 + BRAID_NONCE_BYTES, hs->challenge.nonce, BRAID_NONCE_BYTES);
    return hs->mac(hs->key, sizeof(hs->key), text, sizeof(text), key);
}
