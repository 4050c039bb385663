/* Tests of common/param.c: precedence, ranges, unknown names. Uses the rows that every build has. */
#include "tests/unit/cmocka_all.h"

#include "common/log.h"
#include "common/param.h"

#include <stdio.h>
#include <stdlib.h>

static char last_warning[512];
static int warnings;

static void remember(int level, unsigned long subsys, const char *file, int line, const char *fmt,
                     ...)
{
    va_list args;

    if (level != BRAID_LOG_LEVEL_WARN)
        return;
    warnings++;
    va_start(args, fmt);
    vsnprintf(last_warning, sizeof(last_warning), fmt, args);
    va_end(args);
}

static int clean(void **state)
{
    unsetenv("BRAID_DEBUG");
    unsetenv("NCCL_DEBUG");
    unsetenv("BRAID_DEBUGG");
    unsetenv("BRAID_SOMETHING_ELSE_ENTIRELY");
    braid_log_set_sink(remember);
    braid_param_reload();
    warnings = 0;
    last_warning[0] = '\0';
    return 0;
}

static void every_default_is_within_its_own_range(void **state)
{
    char text[256];

    for (int id = 0; id < BRAID_P_COUNT; id++) {
        const struct braid_param_row *row = braid_param_row(id);

        assert_true(strncmp(row->name, "BRAID_", 6) == 0);
        assert_true(row->nccl_name[0] == '\0' || strncmp(row->nccl_name, "NCCL_", 5) == 0 ||
                    strcmp(row->nccl_name, "LOCAL_WORLD_SIZE") == 0); /* torchrun's */
        assert_true(row->help[0] != '\0');
        assert_int_equal(braid_param_source(id), BRAID_PARAM_DEFAULT);
        braid_param_text(id, text, sizeof(text));
    }
    assert_int_equal(warnings, 0);
}

static void nccl_twin_is_honoured_and_ours_wins(void **state)
{
    setenv("NCCL_DEBUG", "INFO", 1);
    braid_param_reload();
    assert_string_equal(braid_param_str(BRAID_P_DEBUG), "INFO");
    assert_int_equal(braid_param_source(BRAID_P_DEBUG), BRAID_PARAM_NCCL);
    assert_string_equal(braid_param_name(BRAID_P_DEBUG), "NCCL_DEBUG");
    setenv("BRAID_DEBUG", "TRACE", 1);
    braid_param_reload();
    assert_string_equal(braid_param_str(BRAID_P_DEBUG), "TRACE");
    assert_int_equal(braid_param_source(BRAID_P_DEBUG), BRAID_PARAM_BRAID);
    assert_string_equal(braid_param_name(BRAID_P_DEBUG), "BRAID_DEBUG");
}

/* The first INT row of the table gets `text`; returns its id. */
static enum braid_param_id set_first_int(const char *text)
{
    for (int id = 0; id < BRAID_P_COUNT; id++)
        if (braid_param_row(id)->type == BRAID_PARAM_INT) {
            setenv(braid_param_row(id)->name, text, 1);
            braid_param_reload();
            unsetenv(braid_param_row(id)->name);
            return id;
        }
    skip();
    return BRAID_P_COUNT;
}

static void bad_numbers_keep_the_default(void **state)
{
    enum braid_param_id id = set_first_int("many");

    assert_int_equal(braid_param_source(id), BRAID_PARAM_DEFAULT);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "many"));
    assert_non_null(strstr(last_warning, "default"));
}

static void unknown_names_get_the_nearest(void **state)
{
    setenv("BRAID_DEBUGG", "1", 1);
    braid_param_reload();
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "did you mean BRAID_DEBUG?"));
    unsetenv("BRAID_DEBUGG");
    setenv("BRAID_SOMETHING_ELSE_ENTIRELY", "1", 1);
    braid_param_reload();
    assert_int_equal(warnings, 2);
    assert_non_null(strstr(last_warning, "braid-info"));
}

static void only_nccl_names_are_read_from_outside(void **state)
{
    setenv("NCCL_ALGO", "Ring", 1);
    assert_string_equal(braid_param_nccl_env("NCCL_ALGO"), "Ring");
    setenv("NCCL_ALGO", "", 1);
    assert_null(braid_param_nccl_env("NCCL_ALGO"));
    assert_null(braid_param_nccl_env("PATH"));
    unsetenv("NCCL_ALGO");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_default_is_within_its_own_range, clean),
        cmocka_unit_test_setup(nccl_twin_is_honoured_and_ours_wins, clean),
        cmocka_unit_test_setup(bad_numbers_keep_the_default, clean),
        cmocka_unit_test_setup(unknown_names_get_the_nearest, clean),
        cmocka_unit_test_setup(only_nccl_names_are_read_from_outside, clean),
    };

    return cmocka_run_group_tests_name("param", tests, NULL, NULL);
}
