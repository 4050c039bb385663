/* Tests of common/log.c: the sink gets level, subsystem and text; long lines are cut, not overrun. */
#include "tests/unit/cmocka_all.h"

#include "common/log.h"

#include <stdio.h>

static int level_seen;
static unsigned long subsys_seen;
static char text_seen[2048];

static void remember(int level, unsigned long subsys, const char *file, int line, const char *fmt,
                     ...)
{
    va_list args;

    level_seen = level;
    subsys_seen = subsys;
    va_start(args, fmt);
    vsnprintf(text_seen, sizeof(text_seen), fmt, args);
    va_end(args);
}

static void lines_reach_the_sink(void **state)
{
    braid_log_set_sink(remember);
    BRAID_INFO(BRAID_LOG_NET, "peer %d", 7);
    assert_int_equal(level_seen, BRAID_LOG_LEVEL_INFO);
    assert_int_equal(subsys_seen, BRAID_LOG_NET);
    assert_string_equal(text_seen, "braid: peer 7");
    BRAID_WARN("%s", "100% odd");
    assert_int_equal(level_seen, BRAID_LOG_LEVEL_WARN);
    assert_string_equal(text_seen, "braid: 100% odd");
    braid_log_set_sink(NULL);
    BRAID_INFO(BRAID_LOG_NET, "quiet");
    assert_string_equal(text_seen, "braid: 100% odd");
}

static void long_lines_are_cut(void **state)
{
    char text[4000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    braid_log_set_sink(remember);
    BRAID_WARN("%s", text);
    assert_in_range(strlen(text_seen), 900, 1100);
    braid_log_set_sink(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_reach_the_sink),
                                       cmocka_unit_test(long_lines_are_cut)};

    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
