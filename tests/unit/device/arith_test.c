/* Arithmetic of epochs, flags, packets and tiles, around the wrap of the counters. */
#include "tests/unit/cmocka_all.h"

#define BRAID_PTX_LAYER "tests/unit/device/host_layer.h"
#include "braid/device/arith.cuh"

static void test_reached(void **state)
{
    static const uint32_t starts[] = {0, 1, 0x7ffffff0u, 0x80000000u, 0xfffffff0u, 0xffffffffu};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        uint32_t s = starts[i];
        uint64_t w = (uint64_t)s << 32 | s;

        for (uint32_t d = 0; d < 40; d++) {
            assert_true(braid_reached_u32(s + d, s));
            assert_true(braid_reached_u32(s + d, s + d));
            assert_false(braid_reached_u32(s + d, s + d + 1));
            assert_true(braid_reached_u64(w + d, w));
            assert_false(braid_reached_u64(w + d, w + d + 1));
        }
        assert_true(braid_reached_u32(s + 0x7fffffffu, s));
        assert_false(braid_reached_u32(s, s + 0x7fffffffu));
        assert_true(braid_reached_u64(w + INT64_MAX, w));
    }
}

static void test_packets(void **state)
{
    uint64_t data = 0x0123456789abcdefull;

    for (uint32_t epoch = 0xfffffff0u, i = 0; i < 40; i++, epoch++) {
        uint32_t flag = braid_packet_flag(epoch), other = braid_packet_flag(epoch + 1);
        struct braid_vec16 v = braid_packet_pack(data * (i + 1), flag), half;
        struct braid_vec16 zero = {0, 0};

        assert_int_not_equal(flag, 0);
        assert_int_not_equal(flag, other);
        assert_true(braid_packet_arrived(v, flag));
        assert_false(braid_packet_arrived(v, other));
        assert_false(braid_packet_arrived(zero, flag));
        assert_true(braid_packet_data(v) == data * (i + 1));
        half = v; /* only one half is new */
        half.hi = braid_packet_pack(1, other).hi;
        assert_false(braid_packet_arrived(half, flag));
        half = v;
        half.lo = 0;
        assert_false(braid_packet_arrived(half, flag));
    }
    assert_true(braid_packets(0) == 0 && braid_packets(1) == 1 && braid_packets(8) == 1);
    assert_true(braid_packets(9) == 2 && braid_packets(16384) == 2048);
}

/* A counted tile stays right when generation * arrivals wraps. */
static void test_tiles(void **state)
{
    for (uint32_t arrivals = 1; arrivals < 9; arrivals++) {
        uint32_t word = braid_tile_target(0xfffffffau, arrivals);

        for (uint32_t g = 0xfffffffbu, i = 0; i < 12; i++, g++) {
            for (uint32_t k = 0; k < arrivals; k++) {
                assert_false(braid_reached_u32(word, braid_tile_target(g, arrivals)));
                word++;
            }
            assert_true(braid_reached_u32(word, braid_tile_target(g, arrivals)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reached),
        cmocka_unit_test(test_packets),
        cmocka_unit_test(test_tiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
