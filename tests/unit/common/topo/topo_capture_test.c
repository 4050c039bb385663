/* Tests of common/topo/topo_capture.c: bad lines are named, unknown keys of later versions are not an error. */
#include "tests/unit/common/topo/topo_testing.h"

#include <errno.h>

#define HEAD "braid-topo-capture 1\n"

static void bad_captures_name_the_line(void **state)
{
    static const struct {
        const char *text;
        int line;
        const char *part;
    } bad[] = {
        {"", 1, "expected braid-topo-capture 1 as the first line"},
        {"braid-topo-capture 2\n", 1, "expected braid-topo-capture 1"},
        {HEAD "\n# note\nfold x y\n", 4,
         "expected file, link, dir, nvml, gpu or peer, found \"fold\""},
        {HEAD "file\n", 2, "expected a path"},
        {HEAD "gpu\n", 2, "expected the bus id of a GPU"},
        {HEAD "gpu zz:00.0\n", 2, "expected the bus id of a GPU, found \"zz:00.0\""},
        {HEAD "gpu 01:00.0 sm\n", 2, "expected key=value"},
        {HEAD "gpu 01:00.0 sm=x\n", 2, "expected a number from -1 to 1000, found \"x\""},
        {HEAD "gpu 01:00.0 sm=90\ngpu 0000:01:00.0\n", 3, "expected each GPU once"},
        {HEAD "peer 01:00.0 gpu 1\n", 2, "expected the bus id of a GPU of an earlier line"},
        {HEAD "gpu 01:00.0\npeer 01:00.0 nic 1\n", 3, "expected gpu, switch or cpu"},
        {HEAD "gpu 01:00.0\npeer 01:00.0 gpu 0\n", 3, "expected a number of links"},
        {HEAD "gpu 01:00.0\npeer 01:00.0 gpu\n", 3, "expected a number of links"},
        {HEAD "gpu 01:00.0\npeer 01:00.0 gpu 4 there\n", 3, "expected a bus id or nothing"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct braid_topo_error error = {0};
        struct braid_topo *t = NULL;

        if (braid_topo_parse_capture(bad[i].text, strlen(bad[i].text), "bad", &t, &error) !=
                -EINVAL ||
            error.line != bad[i].line || strncmp(error.text, bad[i].part, strlen(bad[i].part)) != 0)
            fail_msg("\"%s\": line %d, \"%s\"", bad[i].text, error.line, error.text);
    }
}

static void later_versions_may_say_more(void **state)
{
    static const char text[] =
        HEAD "nvml present\n"
             "gpu 01:00.0 sm=90 device=0x2335 color=red name=NVIDIA_H200 version=6\n"
             "gpu 02:00.0 sm=90 device=0x2335\n"
             "peer 01:00.0 gpu 18 02:00.0\npeer 02:00.0 gpu 18 01:00.0\n";
    struct braid_topo *t = NULL;
    struct braid_topo_summary s;

    assert_int_equal(braid_topo_parse_capture(text, strlen(text), "x", &t, NULL), 0);
    braid_topo_summarise(t, &s);
    assert_string_equal(s.key, "h200x2-nvl18x25");
    assert_near(s.gpu_cut_GBps, 450);
    braid_topo_destroy(t);
}

static void a_missing_file_is_told(void **state)
{
    struct braid_topo_error error;
    struct braid_topo *t = NULL;

    assert_int_equal(braid_topo_load_capture(FIXTURES "/none.capture", &t, &error), -ENOENT);
    assert_int_equal(braid_topo_load_capture(FIXTURES, &t, &error), -EISDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_captures_name_the_line),
        cmocka_unit_test(later_versions_may_say_more),
        cmocka_unit_test(a_missing_file_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
