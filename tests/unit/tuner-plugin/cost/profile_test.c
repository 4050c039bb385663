/* The profile parser: what it takes, and that every refusal names its line and reason. */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "tests/unit/tuner-plugin/profile_text.h"

static void wildcards_and_order(void **state)
{
    struct braid_profile *p = test_profile(
        PROFILE_HEAD PROFILE_BODY "base_us all_reduce ring ll 3.5 @t # the last line wins\n"
                                  "uncover all_gather ring simple\n");

    assert_true(p->base_us[BRAID_ALL_REDUCE][BRAID_RING][BRAID_LL] == 3.5);
    assert_true(p->base_us[BRAID_ALL_REDUCE][BRAID_RING][BRAID_LL128] == 10);
    assert_true(p->base_us[BRAID_BROADCAST][BRAID_RING][BRAID_SIMPLE] == 10);
    assert_true(isnan(p->base_us[BRAID_ALL_GATHER][BRAID_RING][BRAID_SIMPLE]));
    assert_true(isnan(p->base_us[BRAID_ALL_REDUCE][BRAID_NVLS][BRAID_SIMPLE]));
    assert_true(p->rate_GBps[BRAID_PORT] == 40);
    free(p);
}

static void corrections_are_interpolated(void **state)
{
    struct braid_profile *p =
        test_profile(PROFILE_HEAD PROFILE_BODY "correct_ratio all_reduce ring ll 1K 1.0 @t\n"
                                               "correct_ratio all_reduce ring ll 16K 2.0 @t\n");
    const double *ratio = p->correct_ratio[BRAID_ALL_REDUCE][BRAID_RING][BRAID_LL];

    assert_true(ratio[0] == 1 && ratio[10] == 1 && ratio[12] == 1.5 && ratio[14] == 2);
    assert_true(ratio[47] == 2);
    assert_true(p->correct_ratio[BRAID_REDUCE][BRAID_RING][BRAID_LL][20] == 1);
    /* Nothing said about one channel: as with all of them. */
    assert_memory_equal(p->correct_one_ratio[BRAID_ALL_REDUCE][BRAID_RING][BRAID_LL], ratio,
                        BRAID_SIZES * sizeof(double));
    free(p);
}

static void rules(void **state)
{
    struct braid_profile *p = test_profile(
        PROFILE_HEAD "rule_budget all_reduce 1M 64M 8\nrule_chunk * tree ll128 1 1G 4 64 64K\n");

    assert_int_equal(p->budgets, 1);
    assert_int_equal(p->budget[0].coll, BRAID_ALL_REDUCE);
    assert_int_equal(p->budget[0].to_bytes, 64 << 20);
    assert_int_equal(p->chunks, 1);
    assert_int_equal(p->chunk[0].coll, -1);
    assert_int_equal(p->chunk[0].nodes_max, 64);
    assert_true(p->chunk[0].value == 65536);
    free(p);
}

/* What is appended to a good head, the line of the error, and a piece of its text. */
static const struct {
    const char *text, *expected;
    int line;
} refused[] = {
    {"nonsense 1 @t\n", "unknown keyword", 12},
    {"base_us all_reduce ring ll 5\n", "no source", 12},
    {"base_us all_reduce ring ll 5 @who\n", "not defined", 12},
    {"base_us all_reduce ring 5 @t\n", "takes 4 words", 12},
    {"base_us all_sum ring ll 5 @t\n", "known name", 12},
    {"base_us all_reduce ring ll five @t\n", "a number", 12},
    {"base_us all_reduce ring ll nan @t\n", "a number", 12},
    {"base_us all_reduce ring ll inf @t\n", "a number", 12},
    {"base_us all_reduce ring ll 0x10 @t\n", "a number", 12},
    {"base_us all_reduce ring ll 1e300 @t\n", "outside", 12},
    {"base_us all_reduce ring ll -1 @t\n", "outside", 12},
    {"correct_ratio all_reduce ring ll 1000 1 @t\n", "power of two", 12},
    {"sharpness 3 @t\n", "1, 2, 4 or 8", 12},
    {"name \"unclosed\n", "closing quote", 12},
    {"include other.profile\n", "include", 12},
    {"rule_budget all_reduce 1M 1K 8\n", "bytes from and to", 12},
    {"rule_budget all_reduce 1K 1M 65\n", "channels", 12},
    {"rule_chunk all_reduce ring ll 1 2 3 2 1\n", "nodes", 12},
    {"a b c d e f g h i j k l m n\n", "words", 12},
};

static void refusals_name_line_and_reason(void **state)
{
    struct braid_profile *p = malloc(sizeof(*p));

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct braid_profile_error error;
        char text[2048];

        snprintf(text, sizeof(text), "%s%s", PROFILE_HEAD, refused[i].text);
        assert_int_equal(braid_profile_parse(text, strlen(text), p, &error), -EINVAL);
        assert_int_equal(error.line, refused[i].line);
        if (!strstr(error.text, refused[i].expected))
            fail_msg("'%s' does not say '%s'", error.text, refused[i].expected);
    }
    free(p);
}

static void whole_files_refused(void **state)
{
    static const char *const text[] = {"",
                                       "\n\n",
                                       "braid-profile 2\n",
                                       "name x\n",
                                       "braid-profile 1\n",
                                       "braid-profile 1\nname x\n"};
    struct braid_profile *p = malloc(sizeof(*p));
    struct braid_profile_error error;
    char line[4096];

    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
        assert_int_equal(braid_profile_parse(text[i], strlen(text[i]), p, &error), -EINVAL);
    assert_int_equal(braid_profile_parse("braid-profile 1\n\0x", 18, p, &error), -EINVAL);
    memset(line, 'x', sizeof(line));
    assert_int_equal(braid_profile_parse(line, sizeof(line), p, &error), -EINVAL);
    assert_int_equal(braid_profile_read("/nowhere", p, &error), -ENOENT);
    assert_int_equal(error.line, 0);
    free(p);
}

static void hash_is_of_the_content(void **state)
{
    struct braid_profile *a = test_profile(PROFILE_HEAD), *b = test_profile(PROFILE_HEAD);
    struct braid_profile *c = test_profile(PROFILE_HEAD "# a comment\n");

    assert_true(a->hash == b->hash);
    assert_true(a->hash != c->hash);
    free(a);
    free(b);
    free(c);
}

struct seen {
    int count, right;
};

static void visit(void *arg, const char *key, double value)
{
    struct seen *seen = arg;

    seen->count++;
    seen->right += !strcmp(key, "base_us all_reduce ring ll128") && value == 10;
    seen->right += !strcmp(key, "rate_GBps port") && value == 40;
}

static void each_visits_what_is_set(void **state)
{
    struct braid_profile *p = test_profile(PROFILE_HEAD PROFILE_BODY);
    struct seen seen = {0, 0};

    braid_profile_each(p, visit, &seen);
    assert_int_equal(seen.right, 2);
    assert_true(seen.count > 20);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wildcards_and_order),
        cmocka_unit_test(corrections_are_interpolated),
        cmocka_unit_test(rules),
        cmocka_unit_test(refusals_name_line_and_reason),
        cmocka_unit_test(whole_files_refused),
        cmocka_unit_test(hash_is_of_the_content),
        cmocka_unit_test(each_visits_what_is_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
