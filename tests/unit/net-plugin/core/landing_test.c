/* The ordered copy: right bytes at any alignment; a reader in another thread never sees a word before the ones below it. */
#include "tests/unit/cmocka_all.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "net-plugin/core/landing.h"

static void any_alignment(void **state)
{
    uint8_t src[128], dst[160];

    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)(i + 1);
    for (size_t at = 0; at < 16; at++) {
        for (size_t from = 0; from < 9; from++) {
            for (size_t bytes = 0; bytes < 100; bytes++) {
                memset(dst, 0, sizeof(dst));
                braid_copy_polled(dst + at, src + from, bytes);
                assert_memory_equal(dst + at, src + from, bytes);
                assert_int_equal(dst[at + bytes], 0);
                assert_true(at == 0 || dst[at - 1] == 0);
            }
        }
    }
}

#define WORDS  4096
#define ROUNDS 300

static _Atomic uint64_t buffer[WORDS];
static atomic_uint round_read;

/* Waits for the last word of each round, then every word must be of that round or a later one. */
static void *read_rounds(void *arg)
{
    unsigned long early = 0;

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        while (atomic_load_explicit(&buffer[WORDS - 1], memory_order_acquire) < round)
            ;
        for (size_t i = 0; i < WORDS; i++)
            early += atomic_load_explicit(&buffer[i], memory_order_relaxed) < round;
        atomic_store(&round_read, (unsigned)round);
    }
    return (void *)early;
}

static void last_word_last(void **state)
{
    uint64_t *src = malloc(sizeof(buffer));
    pthread_t thread;
    void *early;

    pthread_create(&thread, NULL, read_rounds, NULL);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < WORDS; i++)
            src[i] = round;
        braid_copy_polled((void *)buffer, src, sizeof(buffer));
        while (atomic_load(&round_read) < round)
            ;
    }
    pthread_join(thread, &early);
    assert_null(early);
    free(src);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_alignment),
                                       cmocka_unit_test(last_word_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
