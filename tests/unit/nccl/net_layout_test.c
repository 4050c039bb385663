/*
 * Holds include/nccl's net plugin declarations against the numbers that NVIDIA's own headers gave
 * (net_layout.inc says at which tags). A wrong member, order or width fails by name.
 */
#include "tests/unit/cmocka_all.h"

#include <nccl/net_v6.h>
#include <nccl/net_v7.h>
#include <nccl/net_v8.h>
#include <nccl/net_v9.h>
#include <nccl/net_v10.h>
#include <nccl/net_v11.h>
#include <nccl/net_v12.h>

struct layout_row {
    const char *what;
    long long ours;
    long long theirs;
};

#define LAYOUT_TYPE(type, size) {"sizeof " #type, (long long)sizeof(type), size},
#define LAYOUT_MEMBER(type, member, offset, size)                                                  \
    {"offset of " #type "." #member, (long long)offsetof(type, member), offset},                   \
        {"size of " #type "." #member, (long long)sizeof(((type *)0)->member), size},
#define LAYOUT_VALUE(name, value) {#name, (long long)(name), value},

static const struct layout_row rows[] = {
#include "tests/unit/nccl/net_layout.inc"
};

static void numbers_are_those_of_nccl(void **state)
{
    int wrong = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].ours == rows[i].theirs)
            continue;
        print_error("%s is %lld, NCCL has %lld\n", rows[i].what, rows[i].ours, rows[i].theirs);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_those_of_nccl)};

    return cmocka_run_group_tests_name("net_layout", tests, NULL, NULL);
}
