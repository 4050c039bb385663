/* Trials of streams and engines over networks that are a formula: what is chosen, and when trials end. */
#include "tests/unit/cmocka_all.h"

#include "net-plugin/socket/probe.h"

#define CHUNK (512 * 1024)

/* Bytes a second under a choice, and CPU nanoseconds a byte. */
typedef double (*model_fn)(struct braid_probe_choice choice);

static struct braid_probe probe;
static uint64_t now_ns;
static uint64_t moved;
static unsigned seed;

static double flow_limited(struct braid_probe_choice c) /* a flow gets 1 GB/s of 5 */
{
    double rate = 1e9 * (c.streams > 0 ? c.streams : 1);

    return rate < 5e9 ? rate : 5e9;
}

static double link_limited(struct braid_probe_choice c)
{
    return 1.25e9;
}

static double crowded(struct braid_probe_choice c) /* threads that there are no processors for */
{
    return c.streams == 0 ? 5e9 : 3e9;
}

static double usual_cost(struct braid_probe_choice c)
{
    return 0.2;
}

static double streams_cost(struct braid_probe_choice c)
{
    return 0.2 + 0.1 * c.streams;
}

static double zerocopy_saves(struct braid_probe_choice c)
{
    return c.zerocopy ? 0.1 : 0.2;
}

static double uring_saves(struct braid_probe_choice c)
{
    return c.uring ? 0.1 : 0.2;
}

static void start(unsigned guess, unsigned least, unsigned most, bool engines)
{
    struct braid_probe_plan plan = {.device = "eth0",
                                    .guess = {.streams = (uint8_t)guess},
                                    .streams_min = (uint8_t)least,
                                    .streams_max = (uint8_t)most,
                                    .try_zerocopy = engines,
                                    .try_uring = engines};

    braid_probe_init(&probe, &plan);
    moved = 0;
    seed = 1;
}

/* Chunks of one connection, one after the other, with pauses between messages, until trials end. */
static void play(model_fn rate, model_fn cost, double noise)
{
    while (!braid_probe_is_settled(&probe) && moved < 4ull << 30) {
        double shake;
        if (!braid_probe_begin(&probe, now_ns))
            break;
        seed = seed * 1664525u + 1013904223u;
        shake = 1 + noise * ((double)(seed >> 8) / (1 << 24) - 0.5);
        now_ns += (uint64_t)(CHUNK / rate(braid_probe_choice(&probe)) * 1e9 * shake);
        probe.cpu_ns += (uint64_t)(CHUNK * cost(braid_probe_choice(&probe)));
        moved += CHUNK;
        braid_probe_end(&probe, now_ns, CHUNK, true);
        if (moved % (8 * CHUNK) == 0)
            now_ns += 3000000; /* nobody sends */
    }
    assert_true(braid_probe_is_settled(&probe));
    assert_in_range(moved, 1, 1ull << 30);
}

static void streams_that_pay(void **state)
{
    start(0, 0, 8, false);
    play(flow_limited, usual_cost, 0.1);
    assert_int_equal(braid_probe_choice(&probe).streams, 8);
    start(3, 1, 8, false);
    play(flow_limited, usual_cost, 0.1);
    assert_int_equal(braid_probe_choice(&probe).streams, 6);
}

static void streams_that_do_not(void **state)
{
    start(0, 0, 8, false);
    play(link_limited, usual_cost, 0.1);
    assert_int_equal(braid_probe_choice(&probe).streams, 0);
    start(0, 0, 8, false);
    play(crowded, usual_cost, 0.1);
    assert_int_equal(braid_probe_choice(&probe).streams, 0);
}

static void fewer_do_as_well(void **state)
{
    start(3, 1, 8, false);
    play(link_limited, streams_cost, 0.001);
    assert_int_equal(braid_probe_choice(&probe).streams, 1);
    start(3, 1, 8, false); /* and save nothing */
    play(link_limited, usual_cost, 0.001);
    assert_int_equal(braid_probe_choice(&probe).streams, 3);
}

/* Seen on two H200 with eight channels of NCCL. */
static double seen_rate(struct braid_probe_choice c)
{
    static const double rates[BRAID_PROBE_ROUNDS] = {13.16, 13.08, 11.27, 12.71, 11.40, 13.16};

    return 1e9 * rates[probe.round];
}

static double seen_cost(struct braid_probe_choice c)
{
    return c.streams == 1 ? 1.19 : 1.09;
}

static void as_fast_on_many_connections(void **state)
{
    start(2, 1, 2, false);
    assert_int_equal(atomic_load(&probe.stage), BRAID_PROBE_FEWER);
    play(seen_rate, seen_cost, 0);
    assert_int_equal(braid_probe_choice(&probe).streams, 2);
}

static void engines(void **state)
{
    start(2, 2, 2, true);
    play(link_limited, zerocopy_saves, 0.01);
    assert_true(braid_probe_choice(&probe).zerocopy);
    assert_false(braid_probe_choice(&probe).uring);
    start(2, 2, 2, true);
    play(link_limited, uring_saves, 0.01);
    assert_false(braid_probe_choice(&probe).zerocopy);
    assert_true(braid_probe_choice(&probe).uring);
    start(0, 0, 0, true); /* no I/O thread: no ring is tried */
    play(link_limited, uring_saves, 0.01);
    assert_false(braid_probe_choice(&probe).uring);
}

static void a_set_choice_is_not_tried(void **state)
{
    start(2, 2, 2, false);
    assert_true(braid_probe_is_settled(&probe));
    assert_false(braid_probe_begin(&probe, 1));
    assert_int_equal(braid_probe_choice(&probe).streams, 2);
}

static void refused(void **state)
{
    start(2, 2, 2, true);
    assert_int_equal(atomic_load(&probe.stage), BRAID_PROBE_ZEROCOPY);
    braid_probe_refuse(&probe, BRAID_PROBE_ZEROCOPY, "the kernel copies");
    braid_probe_refuse(&probe, BRAID_PROBE_ZEROCOPY, "the kernel copies");
    assert_int_equal(atomic_load(&probe.stage), BRAID_PROBE_URING);
    play(link_limited, zerocopy_saves, 0.01);
    assert_false(braid_probe_choice(&probe).zerocopy);
}

static void streams_that_never_come(void **state)
{
    start(0, 0, 8, false);
    for (int i = 0; !braid_probe_is_settled(&probe) && i < 100000; i++) {
        if (!braid_probe_begin(&probe, now_ns))
            break;
        now_ns += 500000;
        braid_probe_end(&probe, now_ns, CHUNK, braid_probe_choice(&probe).streams == 0);
    }
    assert_true(braid_probe_is_settled(&probe));
    assert_int_equal(braid_probe_choice(&probe).streams, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_that_pay), cmocka_unit_test(streams_that_do_not),
        cmocka_unit_test(fewer_do_as_well), cmocka_unit_test(as_fast_on_many_connections),
        cmocka_unit_test(engines),          cmocka_unit_test(a_set_choice_is_not_tried),
        cmocka_unit_test(refused),          cmocka_unit_test(streams_that_never_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
