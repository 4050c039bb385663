/* Tests of common/topo/topo_open.c: which source a setting means, and one warning for one that cannot be used. */
#include "tests/unit/common/topo/topo_testing.h"

#include "common/log.h"
#include "common/param.h"

#include <errno.h>
#include <stdlib.h>

static int warnings;
static char last[512];

static void sink(int level, unsigned long subsys, const char *file, int line, const char *fmt, ...)
{
    va_list args;

    if (level != BRAID_LOG_LEVEL_WARN)
        return;
    warnings++;
    va_start(args, fmt);
    vsnprintf(last, sizeof(last), fmt, args);
    va_end(args);
}

static int setup(void **state)
{
    braid_log_set_sink(sink);
    warnings = 0;
    return 0;
}

static int teardown(void **state)
{
    unsetenv("BRAID_TOPO");
    unsetenv("NCCL_TOPO_FILE");
    braid_param_reload();
    braid_log_set_sink(NULL);
    return 0;
}

static void set(const char *name, const char *value)
{
    setenv(name, value, 1);
    braid_param_reload();
    warnings = 0; /* reading the parameters may have warned about others */
}

static void the_form_is_told_by_the_content(void **state)
{
    static const struct {
        const char *what, *origin;
    } forms[] = {
        {FIXTURES "/dgx-h100.nccl.xml", "nccl-xml"}, {FIXTURES "/a100-4gpu.hwloc.xml", "hwloc-xml"},
        {FIXTURES "/laptop.capture", "capture"},     {FIXTURES "/hgx-h200.synthetic", "synthetic"},
        {"gpus:8 nvlink:18x25GB/s", "synthetic"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        struct braid_topo_error error;
        struct braid_topo *t = NULL;
        int rc = braid_topo_load(forms[i].what, &t, &error);

        if (rc == -ENOSYS)
            continue; /* expat or hwloc is absent */
        assert_int_equal(rc, 0);
        assert_string_equal(braid_topo_origin(t), forms[i].origin);
        braid_topo_destroy(t);
    }
}

static void a_setting_is_taken(void **state)
{
    struct braid_topo *t = NULL;

    set("NCCL_TOPO_FILE", "/nonexistent");
    set("BRAID_TOPO", "nodes:2 gpus:8 gpu:h200");
    assert_int_equal(braid_topo_open(&t), 0);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_GPU), 8);
    assert_int_equal(warnings, 0);
    braid_topo_destroy(t);
}

static void a_bad_setting_is_one_warning(void **state)
{
    static const struct {
        const char *value, *part;
    } bad[] = {
        {"gpus:8 nvlink:fast", "synthetic topology:1:15: expected a whole number"},
        {"/nonexistent/topo.xml", "/nonexistent/topo.xml: cannot be opened"},
        {"/proc/version", "expected one of nodes gpus"},
        {"/tmp", "cannot be read"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct braid_topo *t = NULL;

        set("BRAID_TOPO", bad[i].value);
        assert_int_equal(braid_topo_open(&t), 0);
        assert_string_equal(braid_topo_origin(t), "live");
        if (warnings != 1 || strstr(last, bad[i].part) == NULL)
            fail_msg("%s: %d warnings, \"%s\"", bad[i].value, warnings, last);
        braid_topo_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_form_is_told_by_the_content, setup, teardown),
        cmocka_unit_test_setup_teardown(a_setting_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_setting_is_one_warning, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
