/* Shorthand for the topology tests: a synthetic machine or a test failure. */
#ifndef BRAID_TESTS_TOPO_TESTING_H
#define BRAID_TESTS_TOPO_TESTING_H

#include "tests/unit/cmocka_all.h"

#include "common/topo/topo_build.h"

#include <math.h>
#include <stdlib.h>

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 0.01)

static inline struct braid_topo *machine(const char *text)
{
    struct braid_topo_error error;
    struct braid_topo *topo = NULL;
    char line[400];

    if (braid_topo_load_synthetic(text, &topo, &error) != 0)
        fail_msg("%s", braid_topo_error_format(&error, line, sizeof(line)));
    return topo;
}

static inline int gpu_id(const struct braid_topo *topo, int gpu)
{
    return braid_topo_id(topo, BRAID_TOPO_GPU, gpu);
}

static inline int nic_id(const struct braid_topo *topo, int nic)
{
    return braid_topo_id(topo, BRAID_TOPO_NIC, nic);
}

/* The tree as text; free() it. */
__attribute__((noinline, unused)) static char *tree(const struct braid_topo *topo)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);

    assert_int_equal(braid_topo_print_tree(topo, file), 0);
    fclose(file);
    return text;
}

/* The same without the line that names the loader. */
static inline void assert_same_tree(const struct braid_topo *a, const struct braid_topo *b)
{
    char *one = tree(a), *two = tree(b);
    char *first = strstr(one, "\nnuma"), *second = strstr(two, "\nnuma");

    assert_non_null(first);
    assert_non_null(second);
    assert_string_equal(first, second);
    free(one);
    free(two);
}

#endif
