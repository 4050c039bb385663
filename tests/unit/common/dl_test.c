/* Tests of common/dl.c on the C library's own maths library. */
#include "tests/unit/cmocka_all.h"

#include "common/dl.h"
#include "common/util.h"

#include <errno.h>

struct maths {
    double (*cos)(double);
    int (*missing)(void);
};

static void tables_are_filled(void **state)
{
    static const char *const names[] = {"libbraid-test-absent.so.9", "libm.so.6", NULL};
    static const struct braid_dl_symbol symbols[] = {
        BRAID_DL_SYMBOL(struct maths, cos, cos),
        BRAID_DL_OPTIONAL(struct maths, missing, braid_no_such_function)};
    struct maths table = {0};

    assert_int_equal(braid_dl_open(names, symbols, ARRAY_SIZE(symbols), &table, NULL, 0), 0);
    assert_true(table.cos(0.0) == 1.0);
    assert_null(table.missing);
}

static void absence_is_explained(void **state)
{
    static const char *const none[] = {"libbraid-test-absent.so.9", NULL};
    static const char *const maths[] = {"libm.so.6", NULL};
    static const struct braid_dl_symbol symbols[] = {
        BRAID_DL_SYMBOL(struct maths, missing, braid_no_such_function)};
    struct maths table = {0};
    char why[256];

    assert_int_equal(braid_dl_open(none, symbols, 1, &table, why, sizeof(why)), -ENOENT);
    assert_non_null(strstr(why, "libbraid-test-absent.so.9"));
    assert_int_equal(braid_dl_open(maths, symbols, 1, &table, why, sizeof(why)), -ENOSYS);
    assert_non_null(strstr(why, "braid_no_such_function"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_are_filled),
                                       cmocka_unit_test(absence_is_explained)};

    return cmocka_run_group_tests_name("dl", tests, NULL, NULL);
}
