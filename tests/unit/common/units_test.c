/* Tests of common/units.c. */
#include "tests/unit/cmocka_all.h"

#include "common/units.h"

#include <errno.h>

static void bytes_with_suffixes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"0", 0},          {" 17 ", 17},    {"64K", 65536},
                {"64 KiB", 65536}, {"1m", 1 << 20}, {"3GB", 3ll << 30},
                {"2T", 2ll << 40}, {"-1", -1},      {"12B", 12}};
    int64_t bytes;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(braid_parse_bytes(good[i].text, &bytes), 0);
        assert_int_equal(bytes, good[i].bytes);
    }
}

static void bad_numbers_are_refused(void **state)
{
    static const char *const bad[] = {"", " ", "x", "1x", "1KK", "--1", "1 2", "K", "0x10", "1.5"};
    int64_t value = 42;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(braid_parse_bytes(bad[i], &value), -EINVAL);
        assert_int_equal(braid_parse_int(bad[i], &value), -EINVAL);
    }
    assert_int_equal(braid_parse_int("9223372036854775808", &value), -ERANGE);
    assert_int_equal(braid_parse_bytes("9000000000T", &value), -ERANGE);
    assert_int_equal(value, 42);
    assert_int_equal(braid_parse_int("-9223372036854775808", &value), 0);
    assert_true(value == INT64_MIN);
}

static void bytes_print_short(void **state)
{
    char buf[32];

    assert_string_equal(braid_format_bytes(17, buf, sizeof(buf)), "17 B");
    assert_string_equal(braid_format_bytes(65536, buf, sizeof(buf)), "64 KiB");
    assert_string_equal(braid_format_bytes(3u << 19, buf, sizeof(buf)), "1.5 MiB");
    assert_string_equal(braid_format_bytes(UINT64_MAX, buf, sizeof(buf)), "16777216 TiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_with_suffixes),
        cmocka_unit_test(bad_numbers_are_refused),
        cmocka_unit_test(bytes_print_short),
    };

    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
