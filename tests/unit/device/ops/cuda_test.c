/* Braid's own declarations of driver structures that device/ops/cuda.h has, against cuda.h. */
#include "tests/unit/cmocka_all.h"

#include <cuda.h>

#include "device/ops/cuda.h"

#define SAME(ours, field, theirs, their_field)                                                     \
    assert_int_equal(offsetof(struct ours, field), offsetof(theirs, their_field))

static void test_layouts(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct braid_cu_launch), sizeof(CUlaunchConfig));
    SAME(braid_cu_launch, block, CUlaunchConfig, blockDimX);
    SAME(braid_cu_launch, shared_bytes, CUlaunchConfig, sharedMemBytes);
    SAME(braid_cu_launch, stream, CUlaunchConfig, hStream);
    SAME(braid_cu_launch, attributes, CUlaunchConfig, attrs);
    SAME(braid_cu_launch, attribute_count, CUlaunchConfig, numAttrs);
    assert_int_equal(sizeof(struct braid_cu_launch_attribute), sizeof(CUlaunchAttribute));
    SAME(braid_cu_launch_attribute, value, CUlaunchAttribute, value);
    assert_int_equal(sizeof(struct braid_cu_stream_op), sizeof(CUstreamBatchMemOpParams));
    SAME(braid_cu_stream_op, address, CUstreamBatchMemOpParams, waitValue.address);
    SAME(braid_cu_stream_op, value, CUstreamBatchMemOpParams, writeValue.value);
    SAME(braid_cu_stream_op, flags, CUstreamBatchMemOpParams, writeValue.flags);
}

static void test_numbers(void **state)
{
    (void)state;
    assert_int_equal(BRAID_CU_FUNCTION_DYNAMIC_SHARED,
                     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    assert_int_equal(BRAID_CU_LAUNCH_OVERLAP,
                     CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    assert_int_equal(BRAID_CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
    assert_int_equal(BRAID_CU_OP_WAIT_32, CU_STREAM_MEM_OP_WAIT_VALUE_32);
    assert_int_equal(BRAID_CU_OP_WRITE_32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
    assert_int_equal(BRAID_CU_WAIT_EQUAL, CU_STREAM_WAIT_VALUE_EQ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
