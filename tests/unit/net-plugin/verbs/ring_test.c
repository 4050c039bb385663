/* The control ring: records of every size over many laps, back-pressure, half-written records, malformed ones. */
#include "net-plugin/verbs/ring.h"

#include <stdlib.h>
#include <errno.h>
#include "tests/unit/cmocka_all.h"

#define PACKET   1024 /* records above that count by their immediate */
#define BODY_MAX (BRAID_VERBS_RECORD_MAX - 56)

static struct braid_ring_tx tx;
static struct braid_ring_rx rx;

static int setup_size(uint32_t size)
{
    tx = (struct braid_ring_tx){.image = calloc(1, size + BRAID_VERBS_RECORD_MAX), .size = size};
    rx = (struct braid_ring_rx){.memory = calloc(1, size + BRAID_VERBS_RECORD_MAX), .size = size};
    return tx.image == NULL || rx.memory == NULL;
}

static int setup(void **state)
{
    return setup_size(BRAID_VERBS_RING_BYTES);
}

static int setup_small(void **state)
{
    return setup_size(BRAID_VERBS_BACK_BYTES);
}

static int teardown(void **state)
{
    free(tx.image);
    free(rx.memory);
    return 0;
}

/* A record whose body tells its length and number; sends it as the NIC would. 0, or -EAGAIN when there is no room. */
static int send_one(uint32_t number, uint32_t bytes)
{
    static uint8_t body[BODY_MAX];
    struct braid_rec rec = {.type = BRAID_REC_EAGER, .body_bytes = bytes, .seq = number};
    uint32_t total = braid_ring_record_bytes(bytes), at;

    if (!braid_ring_has_room(&tx, total))
        return -EAGAIN;
    memset(body, (int)number | 1, bytes);
    at = braid_ring_take(&tx, total);
    braid_ring_write(tx.image + at, total, total > PACKET, number,
                     (struct braid_verbs_credit){1, 2}, &rec, body);
    memcpy(rx.memory + at, tx.image + at, total);
    return 0;
}

static void receive_one(uint32_t number, uint32_t bytes)
{
    struct braid_ring_record record;

    if (braid_ring_record_bytes(bytes) > PACKET)
        assert_int_equal(braid_ring_peek(&rx, 0, &record), 0);
    assert_int_equal(braid_ring_peek(&rx, 1, &record), 1);
    assert_int_equal(record.rec.seq, number);
    assert_int_equal(record.rec.body_bytes, bytes);
    assert_int_equal(record.head.chunks, number);
    assert_int_equal(record.by_imm, record.bytes > PACKET);
    for (uint32_t i = 0; i < bytes; i++)
        assert_int_equal(record.body[i], (uint8_t)(number | 1));
    braid_ring_consume(&rx, &record);
    tx.consumed = rx.consumed;
}

static uint32_t size_of(uint32_t number)
{
    static const uint32_t sizes[] = {0,       1, 7, 8, 9, 64, 100, 968, 969, 4000, BODY_MAX - 1,
                                     BODY_MAX};

    return sizes[number * 7 % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void test_laps(void **state)
{
    uint32_t sent = 0, received = 0;

    while (received < 5000) {
        while (sent - received < 1 + received % 9 && send_one(sent, size_of(sent)) == 0)
            sent++;
        assert_true(sent > received);
        receive_one(received, size_of(received));
        received++;
    }
    while (received < sent) {
        receive_one(received, size_of(received));
        received++;
    }
    for (uint32_t i = 0; i < rx.size + BRAID_VERBS_RECORD_MAX; i++)
        assert_int_equal(rx.memory[i], 0);
}

static void test_back_pressure(void **state)
{
    struct braid_ring_record record;
    uint32_t sent = 0;

    while (send_one(sent, 1000) == 0)
        sent++;
    assert_true(sent >= 30 && sent <= BRAID_VERBS_RING_BYTES / 1000);
    assert_int_equal(send_one(sent, 1000), -EAGAIN);
    receive_one(0, 1000);
    receive_one(1, 1000);
    assert_int_equal(send_one(sent, 1000), 0);
    for (uint32_t i = 2; i <= sent; i++)
        receive_one(i, 1000);
    assert_int_equal(braid_ring_peek(&rx, 0, &record), 0);
}

static void test_half_written(void **state)
{
    struct braid_rec rec = {.type = BRAID_REC_CREDIT, .body_bytes = 24};
    struct braid_ring_record record;
    uint32_t at, total = braid_ring_record_bytes(24);
    char body[24] = "body";

    at = braid_ring_take(&tx, total);
    braid_ring_write(tx.image + at, total, false, 0, (struct braid_verbs_credit){0}, &rec, body);
    for (uint32_t have = 0; have < total; have += 8) {
        memcpy(rx.memory + at, tx.image + at, have);
        assert_int_equal(braid_ring_peek(&rx, 0, &record), 0);
    }
    memcpy(rx.memory + at, tx.image + at, total);
    assert_int_equal(braid_ring_peek(&rx, 0, &record), 1);
}

static void test_malformed(void **state)
{
    static const uint32_t lengths[] = {
        1, 55, 57, BRAID_VERBS_RECORD_MAX + 8, 0x7fffffff, BRAID_VERBS_BY_IMM, 0xffffffff};
    struct braid_ring_record record;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memcpy(rx.memory, &lengths[i], 4);
        assert_int_equal(braid_ring_peek(&rx, 1, &record), -EPROTO);
    }
    memset(rx.memory, 0, 64);
    assert_int_equal(send_one(1, 16), 0);
    ((struct braid_rec *)(void *)(rx.memory + sizeof(struct braid_verbs_head)))->body_bytes = 17000;
    assert_int_equal(braid_ring_peek(&rx, 1, &record), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_laps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_laps, setup_small, teardown),
        cmocka_unit_test_setup_teardown(test_back_pressure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_malformed, setup, teardown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
