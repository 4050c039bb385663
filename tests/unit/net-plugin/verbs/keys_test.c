/* Keys of the peer: what it will not tell again and what announced buffers may name is always there, whatever the pattern of ids. */
#include "net-plugin/verbs/keys.h"

#include <errno.h>
#include <stdlib.h>
#include "tests/unit/cmocka_all.h"

#define PLACES 64

static struct braid_keys keys;
static uint32_t told[PLACES]; /* the peer's memory, as core has it */
static uint32_t window[BRAID_SUBS];

/* The peer announces a buffer of registration `id`: tells it unless it remembers having done so. */
static void announce(uint32_t id, uint32_t number)
{
    struct braid_verbs_keys said = {.count = 2, .rkeys = {id * 3, id * 5}};

    if (told[id % PLACES] != id) {
        told[id % PLACES] = id;
        braid_keys_learn(&keys, id, &said);
    }
    window[number % BRAID_SUBS] = id;
}

static void check(uint32_t id)
{
    uint32_t rkey = 0;

    assert_int_equal(braid_keys_find(&keys, id, 1, &rkey), 0);
    assert_int_equal(rkey, id * 5);
}

static void reset(void)
{
    memset(&keys, 0, sizeof(keys));
    memset(told, 0, sizeof(told));
    memset(window, 0, sizeof(window));
}

/* Every buffer that may still be named is found after each announcement. */
static void run(uint32_t (*next)(uint32_t i), uint32_t count)
{
    reset();
    for (uint32_t i = 0; i < count; i++) {
        announce(next(i), i);
        check(window[i % BRAID_SUBS]);
        if (i % 97 == 0)
            for (uint32_t k = 0; k < BRAID_SUBS; k++)
                if (window[k] != 0)
                    check(window[k]);
    }
}

static uint32_t ever_new(uint32_t i)
{
    return i + 1;
}

static uint32_t one_place(uint32_t i)
{
    return 64 * (i + 1);
}

static uint32_t even_groups(uint32_t i)
{
    return 2 * (i % 600) + 2;
}

static uint32_t old_and_new(uint32_t i)
{
    return i % 2 == 0 ? 7 : i * 64 + 1;
}

static uint32_t at_random(uint32_t i)
{
    return (uint32_t)rand() % 700 + 1;
}

static void test_patterns(void **state)
{
    run(ever_new, 20000);
    run(one_place, 5000);
    run(even_groups, 20000);
    run(old_and_new, 20000);
    run(at_random, 50000);
}

static void test_unknown(void **state)
{
    struct braid_verbs_keys said = {.count = 1, .rkeys = {9}};
    uint32_t rkey;

    reset();
    assert_int_equal(braid_keys_find(&keys, 5, 0, &rkey), -ENOENT);
    braid_keys_learn(&keys, 5, &said);
    assert_int_equal(braid_keys_find(&keys, 5, 0, &rkey), 0);
    assert_int_equal(braid_keys_find(&keys, 5, 1, &rkey), -ENOENT);
    assert_int_equal(braid_keys_find(&keys, 261, 0, &rkey), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_patterns),
                                       cmocka_unit_test(test_unknown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
