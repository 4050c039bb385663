/* The handshake's states, driven without sockets: the good exchange, wrong secrets and versions, foreign bytes, pieces of any size. */
#include "tests/unit/cmocka_all.h"

#include <stdlib.h>

#include "common/hmac.h"
#include "net-plugin/core/handshake.h"

static const uint8_t secret[32] = "the secret of this handle .....";
static const uint8_t other_secret[32] = "another one ...................";

struct pair {
    struct braid_hs client, server;
    enum braid_hs_action client_action, server_action;
    const uint8_t *server_key;
    size_t piece; /* most bytes handed over at a time */
};

static void start(struct pair *p, const uint8_t *client_key, const uint8_t *server_key)
{
    struct braid_hs_identity a = {.host = "alpha", .pid = 1}, b = {.host = "beta", .pid = 2};
    struct braid_hs_hello hello = {.kind = BRAID_HS_NEW, .id = 77};

    memset(p, 0, sizeof(*p));
    p->piece = SIZE_MAX;
    p->server_key = server_key;
    braid_hs_connect(&p->client, braid_hmac, &a, client_key, &hello);
    assert_int_equal(braid_hs_add_offer(&p->client, 9, "nine", 4), 0);
    assert_int_equal(braid_hs_add_offer(&p->client, 1, "one", 3), 0);
    braid_hs_accept(&p->server, braid_hmac, &b);
}

/* Hands what `from` has to say to `to`; returns whether anything moved. */
static bool carry(struct pair *p, struct braid_hs *from, struct braid_hs *to,
                  enum braid_hs_action *action)
{
    bool moved = false;

    while (from->out_sent < from->out_have && braid_hs_want(to) > 0) {
        size_t bytes = MIN(MIN(from->out_have - from->out_sent, braid_hs_want(to)), p->piece);
        memcpy(braid_hs_in(to), from->out + from->out_sent, bytes);
        from->out_sent += bytes;
        *action = braid_hs_received(to, bytes);
        moved = true;
        if (*action != BRAID_HS_WAIT)
            break;
    }
    return moved;
}

static void answer_server(struct pair *p)
{
    const void *bytes;
    uint32_t transport;
    size_t at = 0, count;

    if (p->server_action == BRAID_HS_KEY) {
        assert_int_equal(p->server.hello.id, 77);
        p->server_action = braid_hs_set_key(&p->server, p->server_key);
    } else if (p->server_action == BRAID_HS_CHOOSE) {
        assert_string_equal(p->server.peer.host, "alpha");
        assert_true(braid_hs_next_offer(&p->server, &at, &transport, &bytes, &count));
        assert_int_equal(transport, 9);
        assert_memory_equal(bytes, "nine", 4);
        assert_true(braid_hs_next_offer(&p->server, &at, &transport, &bytes, &count));
        assert_int_equal(transport, 1);
        assert_int_equal(count, 3);
        assert_false(braid_hs_next_offer(&p->server, &at, &transport, &bytes, &count));
        braid_hs_add_offer(&p->server, 1, "ONE!", 4);
        p->server_action = braid_hs_answer(&p->server, 4711);
    }
}

static void run(struct pair *p)
{
    for (int i = 0; i < 10000; i++) {
        bool moved = carry(p, &p->client, &p->server, &p->server_action);
        answer_server(p);
        moved |= carry(p, &p->server, &p->client, &p->client_action);
        if (p->client_action == BRAID_HS_CHOOSE) {
            assert_int_equal(p->client.conn_id, 4711);
            assert_string_equal(p->client.peer.host, "beta");
            p->client_action = braid_hs_ready(&p->client);
            moved = true;
        }
        if (!moved)
            return;
    }
    fail_msg("the handshake does not end");
}

static void good_exchange(void **state)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 7, 100};
    uint8_t a[32], b[32];

    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        struct pair p;
        start(&p, secret, secret);
        p.piece = pieces[i];
        run(&p);
        assert_int_equal(p.client_action, BRAID_HS_DONE);
        assert_int_equal(p.server_action, BRAID_HS_DONE);
        assert_int_equal(braid_hs_want(&p.server), 0);
        assert_int_equal(braid_hs_stream_key(&p.client, a), 0);
        assert_int_equal(braid_hs_stream_key(&p.server, b), 0);
        assert_memory_equal(a, b, 32);
    }
}

static void wrong_secret(void **state)
{
    struct pair p;

    start(&p, other_secret, secret);
    run(&p);
    assert_int_equal(p.server_action, BRAID_HS_FAILED);
    assert_int_equal(p.server.error, -EACCES);
    assert_int_equal(p.client_action, BRAID_HS_FAILED);
    assert_true(p.client.error_is_peers);
    assert_non_null(strstr(p.client.why, "secret"));
}

/* A listener that does not hold the secret must not get a connection either. */
static void server_without_secret(void **state)
{
    struct pair p;

    start(&p, secret, secret);
    for (int i = 0; i < 3; i++) {
        carry(&p, &p.client, &p.server, &p.server_action);
        if (p.server_action == BRAID_HS_CHOOSE)
            memcpy(p.server.key, other_secret, 32);
        answer_server(&p);
        if (p.server.state == BRAID_HS_S_READY)
            break;
        carry(&p, &p.server, &p.client, &p.client_action);
    }
    carry(&p, &p.server, &p.client, &p.client_action);
    assert_int_equal(p.client_action, BRAID_HS_FAILED);
    assert_int_equal(p.client.error, -EACCES);
}

static void version_mismatch(void **state)
{
    struct pair p;
    struct braid_hs_hello *hello;

    start(&p, secret, secret);
    hello = (struct braid_hs_hello *)(void *)(p.client.out + sizeof(struct braid_hs_header));
    hello->version_oldest = 7;
    hello->version_newest = 9;
    run(&p);
    assert_int_equal(p.server.error, -EPROTONOSUPPORT);
    assert_int_equal(p.client_action, BRAID_HS_FAILED);
    assert_non_null(strstr(p.client.why, "speaks 7 to 9"));
}

/* Version 1 counted eager messages differently. */
static void an_older_count_of_credit(void **state)
{
    struct pair p;
    struct braid_hs_hello *hello;

    start(&p, secret, secret);
    hello = (struct braid_hs_hello *)(void *)(p.client.out + sizeof(struct braid_hs_header));
    hello->version_oldest = hello->version_newest = 1;
    run(&p);
    assert_int_equal(p.server.error, -EPROTONOSUPPORT);
    assert_int_equal(p.client_action, BRAID_HS_FAILED);
    assert_non_null(strstr(p.client.why, "speaks 1 to 1"));
}

/* Ranks whose tuners decide differently must not talk, and both hear both hashes. */
static void different_tuners(void **state)
{
    struct pair p;

    start(&p, secret, secret);
    p.client.self.tuner_hash = 0xabcd;
    strcpy(p.client.self.tuner, "h200");
    p.server.self.tuner_hash = 0x1234;
    strcpy(p.server.self.tuner, "old");
    run(&p);
    assert_int_equal(p.server.error, -EINVAL);
    assert_int_equal(p.client_action, BRAID_HS_FAILED);
    assert_non_null(strstr(p.client.why, "profile h200, hash 000000000000abcd"));
    assert_non_null(strstr(p.client.why, "profile old, hash 0000000000001234"));

    start(&p, secret, secret);
    p.client.self.tuner_hash = 0xabcd;
    run(&p);
    assert_non_null(strstr(p.server.why, "no tuner of Braid"));

    start(&p, secret, secret);
    p.client.self.tuner_hash = p.server.self.tuner_hash = 5;
    run(&p);
    assert_int_equal(p.client_action, BRAID_HS_DONE);
}

static void foreign_bytes(void **state)
{
    struct braid_hs hs;
    struct braid_hs_identity self = {.host = "me"};

    braid_hs_accept(&hs, braid_hmac, &self);
    memcpy(braid_hs_in(&hs), "GET / HTTP/1.1\r\n\r\n", 16);
    assert_int_equal(braid_hs_received(&hs, 16), BRAID_HS_FAILED);
    assert_int_equal(hs.out_have, 0); /* a stranger gets no answer */
    assert_int_equal(braid_hs_want(&hs), 0);
}

static void oversized_message(void **state)
{
    struct braid_hs hs;
    struct braid_hs_identity self = {.host = "me"};
    struct braid_hs_header header = {BRAID_HS_MAGIC, BRAID_HS_HELLO, 1, 1u << 30, 0};

    braid_hs_accept(&hs, braid_hmac, &self);
    memcpy(braid_hs_in(&hs), &header, sizeof(header));
    assert_int_equal(braid_hs_received(&hs, sizeof(header)), BRAID_HS_FAILED);
}

/* Whatever bit of PROOF is changed on its way, the connection does not come up. */
static void changed_proof(void **state)
{
    for (unsigned bit = 0; bit < 8 * 160; bit += 13) {
        struct pair p;
        start(&p, secret, secret);
        carry(&p, &p.client, &p.server, &p.server_action);
        answer_server(&p);
        carry(&p, &p.server, &p.client, &p.client_action);
        p.client.out[sizeof(struct braid_hs_header) + bit / 8] ^= (uint8_t)(1u << bit % 8);
        carry(&p, &p.client, &p.server, &p.server_action);
        assert_int_equal(p.server_action, BRAID_HS_FAILED);
    }
}

static void reject_text_is_printable(void **state)
{
    struct pair p;

    start(&p, secret, secret);
    carry(&p, &p.client, &p.server, &p.server_action);
    p.server_action = braid_hs_reject(&p.server, -ENOENT, "no\nsuch\033[2J listener");
    carry(&p, &p.server, &p.client, &p.client_action);
    assert_int_equal(p.client.error, -ENOENT);
    assert_string_equal(p.client.why, "no?such?[2J listener");
}

static void too_many_offers(void **state)
{
    struct pair p;
    char bytes[BRAID_OFFER_BYTES + 1] = {0};

    start(&p, secret, secret);
    assert_int_equal(braid_hs_add_offer(&p.client, 3, bytes, sizeof(bytes)), -ENOSPC);
    assert_int_equal(braid_hs_add_offer(&p.client, 3, bytes, BRAID_OFFER_BYTES), 0);
    assert_int_equal(braid_hs_add_offer(&p.client, 4, bytes, 1), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_exchange),
        cmocka_unit_test(wrong_secret),
        cmocka_unit_test(server_without_secret),
        cmocka_unit_test(version_mismatch),
        cmocka_unit_test(an_older_count_of_credit),
        cmocka_unit_test(different_tuners),
        cmocka_unit_test(foreign_bytes),
        cmocka_unit_test(oversized_message),
        cmocka_unit_test(changed_proof),
        cmocka_unit_test(reject_text_is_printable),
        cmocka_unit_test(too_many_offers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
