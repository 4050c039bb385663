/* Choosing among profiles: the narrowest match wins, broken files are passed over and reported. */
#include "tests/unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/tuner-plugin/profile_text.h"

static char dir[] = "/tmp/braid-set-XXXXXX";

static void put(const char *file, const char *name, const char *rows)
{
    char path[300];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "%sname %s\n%s", PROFILE_HEAD, name, rows);
    fclose(out);
}

static void drop(const char *file)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    unlink(path);
}

static int setup(void **state)
{
    if (!mkdtemp(dir))
        return -1;
    put("a.profile", "any", "");
    put("b.profile", "h200", "match_gpu h200\n");
    put("c.profile", "h200x2", "match_gpu h200\nmatch_ranks_min 2 @t\nmatch_ranks_max 2 @t\n");
    put("d.profile", "ib", "match_net ib\nmatch_nodes_min 2 @t\n");
    put("e.profile", "broken", "oops\n");
    put("ignored.txt", "text", "");
    return 0;
}

static int teardown(void **state)
{
    static const char *const files[] = {"a.profile", "b.profile", "c.profile",
                                        "d.profile", "e.profile", "ignored.txt"};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        drop(files[i]);
    return rmdir(dir);
}

static void narrowest_wins(void **state)
{
    struct braid_machine_key key = {"h200", "socket"};
    struct braid_profile_set set = {0};
    struct braid_profile_error error;

    assert_int_equal(braid_profile_set_load(dir, &key, &set, &error), 0);
    assert_int_equal(set.count, 3);
    assert_string_equal(braid_profile_set_pick(&set, 2, 1)->name, "h200x2");
    assert_string_equal(braid_profile_set_pick(&set, 8, 1)->name, "h200");
    assert_non_null(strstr(error.file, "e.profile"));
    assert_int_equal(error.line, 13);
    braid_profile_set_free(&set);
}

static void other_machines(void **state)
{
    struct braid_machine_key key = {"a100", "ib"};
    struct braid_profile_set set = {0}, again = {0};
    struct braid_profile_error error;

    assert_int_equal(braid_profile_set_load(dir, &key, &set, &error), 0);
    assert_string_equal(braid_profile_set_pick(&set, 8, 1)->name, "any");
    assert_string_equal(braid_profile_set_pick(&set, 16, 2)->name, "ib");
    assert_int_equal(braid_profile_set_load(dir, &key, &again, &error), 0);
    assert_true(set.hash == again.hash && set.hash);
    braid_profile_set_free(&set);
    braid_profile_set_free(&again);
    assert_int_equal(braid_profile_set_load("/nowhere::/nor/here", &key, &set, &error), 0);
    assert_int_equal(set.count, 0);
    assert_null(braid_profile_set_pick(&set, 2, 1));
    braid_profile_set_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(narrowest_wins),
                                       cmocka_unit_test(other_machines)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
