/* The choice of a collective's method and shape: total, legal, and independent of what ranks do not share. */
#include "tests/unit/cmocka_all.h"

#include <errno.h>
#include <string.h>

#include "braid/ops.h"
#include "device/ops/args.h"
#include "device/ops/plan.h"

static struct braid_op_question question(enum braid_op_kind kind, uint32_t ranks, uint64_t block)
{
    return (struct braid_op_question){
        .kind = kind,
        .ranks = ranks,
        .block = block,
        .in_window = true,
        .in_readable = true,
        .sm_share = 132,
        .packet_limit = (2u << 20) / (ranks > 1 ? ranks - 1 : 1) / 4 * 3,
        .staging_limit = (64u << 20) / (ranks > 1 ? ranks - 1 : 1) & ~65535u,
    };
}

/* Every operation of every size on any rank count has a plan, and the plan's shape fits its kernel. */
static void test_total(void **state)
{
    static const uint32_t ranks[] = {1, 2, 3, 4, 7, 8, 16, 64};

    (void)state;
    for (int kind = 0; kind < BRAID_OP_KINDS; kind++) {
        for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
            for (uint64_t block = 1; block < 8ull << 30; block = block * 3 + 1) {
                for (int window = 0; window < 2; window++) {
                    struct braid_op_question q = question(kind, ranks[r], block);
                    struct braid_op_plan p;

                    q.in_window = q.in_readable = window;
                    assert_int_equal(braid_op_plan(&q, &p), 0);
                    assert_true(p.segment > 0);
                    if (p.method == BRAID_METHOD_ENGINE)
                        continue;
                    assert_in_range(p.ctas, 1, 132);
                    assert_in_range(p.threads, 32, 768);
                    assert_int_equal(p.threads % 32, 0);
                    if (p.method == BRAID_METHOD_PACKETS || p.method == BRAID_METHOD_PULL)
                        continue;
                    assert_int_equal(p.chunk % 16384, 0);
                    assert_in_range(p.chunk, 16384, 65536);
                    assert_true(p.segment % 65536 == 0 || p.segment == block);
                }
            }
        }
    }
}

/* Chunks of a segment never exceed the flags. */
static void test_limits(void **state)
{
    (void)state;
    for (uint32_t method = BRAID_METHOD_ONE_SHOT; method <= BRAID_METHOD_DIRECT; method++) {
        for (uint64_t block = 1; block < 8ull << 30; block = block * 3 + 1) {
            enum braid_op_kind kind =
                method <= BRAID_METHOD_TWO_SHOT ? BRAID_OP_ALL_REDUCE : BRAID_OP_ALL_GATHER;
            struct braid_op_question q = question(kind, 4, block);
            struct braid_op_plan p;
            uint64_t part;

            q.method = method;
            assert_int_equal(braid_op_plan(&q, &p), 0);
            part =
                method == BRAID_METHOD_TWO_SHOT ? ((p.segment + 3) / 4 + 15) & ~15ull : p.segment;
            assert_true((part + p.chunk - 1) / p.chunk <= BRAID_OPS_CHUNKS);
        }
    }
}

/* What ranks may differ in (SM bound, SM share) changes the grid only. */
static void test_same_everywhere(void **state)
{
    (void)state;
    for (int kind = 0; kind < BRAID_OP_KINDS; kind++) {
        for (uint64_t block = 1; block < 1ull << 30; block = block * 3 + 1) {
            struct braid_op_question a = question(kind, 2, block), b = a;
            struct braid_op_plan pa, pb;

            b.sms = 3;
            b.sm_share = 7;
            assert_int_equal(braid_op_plan(&a, &pa), 0);
            assert_int_equal(braid_op_plan(&b, &pb), 0);
            assert_int_equal(pa.method, pb.method);
            assert_int_equal(pa.chunk, pb.chunk);
            assert_true(pa.segment == pb.segment);
            if (pb.method != BRAID_METHOD_ENGINE)
                assert_in_range(pb.ctas, 1, 3);
        }
    }
}

static void test_refusals(void **state)
{
    struct braid_op_question q = question(BRAID_OP_ALL_REDUCE, 2, 64u << 20);
    struct braid_op_plan p;

    (void)state;
    q.method = BRAID_METHOD_PACKETS;
    assert_int_equal(braid_op_plan(&q, &p), -EMSGSIZE);
    q.method = BRAID_METHOD_TWO_SHOT;
    q.in_window = false;
    assert_int_equal(braid_op_plan(&q, &p), -EOPNOTSUPP);
    q.method = BRAID_METHOD_STAGED;
    assert_int_equal(braid_op_plan(&q, &p), -EOPNOTSUPP);
    q.method = BRAID_METHOD_PULL; /* sums go to the peers' results */
    assert_int_equal(braid_op_plan(&q, &p), -EOPNOTSUPP);
    q.kind = BRAID_OP_REDUCE_SCATTER;
    assert_int_equal(braid_op_plan(&q, &p), 0);
    q.in_readable = false;
    assert_int_equal(braid_op_plan(&q, &p), -EOPNOTSUPP);
    q.kind = BRAID_OP_ALL_REDUCE;
    q.method = BRAID_METHOD_AUTO;
    q.sms = 133;
    assert_int_equal(braid_op_plan(&q, &p), -EAGAIN);
    q = question(BRAID_OP_ALL_TO_ALL, 2, 1u << 20);
    q.method = BRAID_METHOD_DIRECT;
    q.in_place = true;
    assert_int_equal(braid_op_plan(&q, &p), -EOPNOTSUPP);
}

/* The targets' cases are served as the measurements assume. */
static void test_choices(void **state)
{
    struct braid_op_question q = question(BRAID_OP_ALL_REDUCE, 2, 16384);
    struct braid_op_plan p;

    (void)state;
    assert_int_equal(braid_op_plan(&q, &p), 0);
    assert_int_equal(p.method, BRAID_METHOD_PACKETS);
    q.block = 64u << 20;
    assert_int_equal(braid_op_plan(&q, &p), 0);
    assert_int_equal(p.method, BRAID_METHOD_PULL);
    assert_true(p.ctas <= 16);
    assert_true(p.segment == q.block);
    q.in_readable = false;
    assert_int_equal(braid_op_plan(&q, &p), 0);
    assert_int_equal(p.method, BRAID_METHOD_TWO_SHOT);
    assert_true(p.ctas <= 16);
    q = question(BRAID_OP_REDUCE_SCATTER, 2, 64u << 20);
    assert_int_equal(braid_op_plan(&q, &p), 0);
    assert_int_equal(p.method, BRAID_METHOD_PULL);
    q.in_readable = false;
    assert_int_equal(braid_op_plan(&q, &p), 0);
    assert_int_equal(p.method, BRAID_METHOD_STAGED);
    q = question(BRAID_OP_ALL_GATHER, 2, 64u << 20);
    assert_int_equal(braid_op_plan(&q, &p), 0);
    assert_int_equal(p.method, BRAID_METHOD_ENGINE);
    assert_string_equal(braid_method_name(p.method), "engine");
    q.kind = BRAID_OP_ALL_TO_ALL;
    assert_int_equal(braid_op_plan(&q, &p), 0);
    assert_int_equal(p.method, BRAID_METHOD_DIRECT);
    assert_true(p.ctas <= 16);
    q.in_place = true;
    assert_int_equal(braid_op_plan(&q, &p), 0);
    assert_int_equal(p.method, BRAID_METHOD_ENGINE);
    assert_string_equal(braid_op_name(BRAID_OP_ALL_GATHER), "all_gather");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_total),           cmocka_unit_test(test_limits),
        cmocka_unit_test(test_same_everywhere), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_choices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
