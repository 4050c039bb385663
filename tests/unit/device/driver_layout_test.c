/* device/host/driver.h's own declarations against NVIDIA's cuda.h: values and layouts. Compiled only where cuda.h is found. */
#include "tests/unit/cmocka_all.h"

#include <cuda.h>

#include "device/host/driver.h"

#define SAME_VALUE(ours, theirs) assert_int_equal((long long)(ours), (long long)(theirs))
#define SAME_PLACE(ours, a, theirs, b)                                                             \
    do {                                                                                           \
        assert_int_equal(offsetof(struct ours, a), offsetof(theirs, b));                           \
        assert_int_equal(sizeof(((struct ours *)0)->a), sizeof(((theirs *)0)->b));                 \
    } while (0)

static void test_values(void **state)
{
    SAME_VALUE(BRAID_CU_SUCCESS, CUDA_SUCCESS);
    SAME_VALUE(BRAID_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
    SAME_VALUE(BRAID_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
    SAME_VALUE(BRAID_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
    SAME_VALUE(BRAID_CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
    SAME_VALUE(BRAID_CU_NOT_READY, CUDA_ERROR_NOT_READY);
    SAME_VALUE(BRAID_CU_PEER_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    SAME_VALUE(BRAID_CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
    SAME_VALUE(BRAID_CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
    SAME_VALUE(BRAID_CU_ATTRIBUTE_SM_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    SAME_VALUE(BRAID_CU_ATTRIBUTE_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    SAME_VALUE(BRAID_CU_ATTRIBUTE_FD_HANDLES,
               CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
    SAME_VALUE(BRAID_CU_ATTRIBUTE_RDMA_WITH_VMM,
               CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    SAME_VALUE(BRAID_CU_ATTRIBUTE_FABRIC_HANDLES, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
    SAME_VALUE(BRAID_CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
    SAME_VALUE(BRAID_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
    SAME_VALUE(BRAID_CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    SAME_VALUE(BRAID_CU_HANDLE_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    SAME_VALUE(BRAID_CU_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
    SAME_VALUE(BRAID_CU_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    SAME_VALUE(BRAID_CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
    SAME_VALUE(BRAID_CU_HOST_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
    SAME_VALUE(BRAID_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
    SAME_VALUE(BRAID_CU_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    SAME_VALUE(BRAID_CU_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    SAME_VALUE(BRAID_CU_LOADING_LAZY, CU_MODULE_LAZY_LOADING);
}

static void test_layouts(void **state)
{
    assert_int_equal(sizeof(struct braid_cu_allocation), sizeof(CUmemAllocationProp));
    SAME_PLACE(braid_cu_allocation, type, CUmemAllocationProp, type);
    SAME_PLACE(braid_cu_allocation, handle_types, CUmemAllocationProp, requestedHandleTypes);
    SAME_PLACE(braid_cu_allocation, location, CUmemAllocationProp, location);
    SAME_PLACE(braid_cu_allocation, win32, CUmemAllocationProp, win32HandleMetaData);
    SAME_PLACE(braid_cu_allocation, compression, CUmemAllocationProp, allocFlags.compressionType);
    SAME_PLACE(braid_cu_allocation, rdma_capable, CUmemAllocationProp,
               allocFlags.gpuDirectRDMACapable);
    SAME_PLACE(braid_cu_allocation, usage, CUmemAllocationProp, allocFlags.usage);
    SAME_PLACE(braid_cu_location, id, CUmemLocation, id);
    assert_int_equal(sizeof(struct braid_cu_access), sizeof(CUmemAccessDesc));
    SAME_PLACE(braid_cu_access, flags, CUmemAccessDesc, flags);
    assert_int_equal(sizeof(struct braid_cu_handle), sizeof(CUipcMemHandle));
    assert_int_equal(sizeof(struct braid_cu_handle), sizeof(CUmemFabricHandle));
    assert_int_equal(sizeof(CUuuid), 16);
    assert_int_equal(sizeof(CUdeviceptr), sizeof(uint64_t));
    assert_int_equal(sizeof(CUmemGenericAllocationHandle), sizeof(uint64_t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_layouts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
