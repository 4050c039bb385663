/* Every status that a queue pair can end with has its advice, and none repeats another's. */
#include "net-plugin/verbs/conn.h"

#include <errno.h>
#include <string.h>
#include "tests/unit/cmocka_all.h"

static void test_every_status(void **state)
{
    const int of_rc[] = {IBV_WC_LOC_LEN_ERR,    IBV_WC_LOC_QP_OP_ERR,     IBV_WC_LOC_PROT_ERR,
                         IBV_WC_WR_FLUSH_ERR,   IBV_WC_BAD_RESP_ERR,      IBV_WC_LOC_ACCESS_ERR,
                         IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR,   IBV_WC_REM_OP_ERR,
                         IBV_WC_RETRY_EXC_ERR,  IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ABORT_ERR,
                         IBV_WC_FATAL_ERR,      IBV_WC_RESP_TIMEOUT_ERR,  IBV_WC_GENERAL_ERR};
    const char *other = verbs_status_advice(IBV_WC_MW_BIND_ERR, 0);

    (void)state;
    for (size_t i = 0; i < sizeof(of_rc) / sizeof(of_rc[0]); i++) {
        assert_true(strlen(verbs_status_advice(of_rc[i], 0)) > 10);
        assert_string_not_equal(verbs_status_advice(of_rc[i], 0), other);
    }
    assert_non_null(strstr(verbs_status_advice(IBV_WC_MW_BIND_ERR, 0x99), "vendor"));
}

static void test_modify(void **state)
{
    (void)state;
    assert_non_null(strstr(verbs_modify_advice(ENODEV, true), "show_gids"));
    assert_non_null(strstr(verbs_modify_advice(EINVAL, false), "subnet manager"));
    assert_non_null(strstr(verbs_modify_advice(ETIMEDOUT, true), "no route"));
    assert_non_null(strstr(verbs_modify_advice(ENOMEM, true), "ulimit -l"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_status),
                                       cmocka_unit_test(test_modify)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
