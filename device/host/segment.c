/* Pieces of GPU memory, see segment.h. */
#include "device/host/segment.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

/* Reserves addresses, maps `handle` there and opens it to the GPUs. On failure nothing stays mapped. */
static int map(const struct braid_cuda *cuda, uint64_t handle, uint64_t bytes, const int *gpus,
               int count, uint64_t *address_p)
{
    uint64_t address;
    int result = cuda->address_reserve(&address, bytes, 0, 0, 0);

    if (result != BRAID_CU_SUCCESS)
        return result;
    result = cuda->mem_map(address, bytes, 0, handle, 0);
    if (result != BRAID_CU_SUCCESS)
        goto err_free;
    for (int i = 0; i < count; i++) {
        struct braid_cu_access access = {
            .location = {.type = BRAID_CU_LOCATION_DEVICE, .id = gpus[i]},
            .flags = BRAID_CU_ACCESS_READWRITE,
        };

        result = cuda->mem_set_access(address, bytes, &access, 1);
        if (result != BRAID_CU_SUCCESS)
            goto err_unmap;
    }
    *address_p = address;
    return BRAID_CU_SUCCESS;

err_unmap:
    cuda->mem_unmap(address, bytes);
err_free:
    cuda->address_free(address, bytes);
    return result;
}

int braid_segment_create(const struct braid_cuda *cuda, int gpu, uint64_t bytes, int handle_type,
                         const int *gpus, int count, struct braid_segment *segment)
{
    struct braid_cu_allocation allocation = {
        .type = BRAID_CU_ALLOCATION_PINNED,
        .handle_types = handle_type,
        .location = {.type = BRAID_CU_LOCATION_DEVICE, .id = gpu},
    };
    struct braid_segment made = {0};
    size_t granularity = 0;
    const char *step = "cuMemGetAllocationGranularity";
    int result, rdma = 0;

    if (cuda->device_attribute(&rdma, BRAID_CU_ATTRIBUTE_RDMA_WITH_VMM, gpu) == BRAID_CU_SUCCESS)
        allocation.rdma_capable = rdma != 0; /* so that a NIC can be pointed at it later */
    result = cuda->granularity(&granularity, &allocation, BRAID_CU_GRANULARITY_RECOMMENDED);
    if (result != BRAID_CU_SUCCESS || granularity == 0)
        goto err_log;
    made.bytes = (bytes + granularity - 1) / granularity * granularity;
    step = "cuMemCreate";
    result = cuda->mem_create(&made.handle, made.bytes, &allocation, 0);
    if (result != BRAID_CU_SUCCESS && result != BRAID_CU_OUT_OF_MEMORY && allocation.rdma_capable) {
        allocation.rdma_capable =
            0; /* promised by the attribute, but refused here (virtual machines) */
        result = cuda->mem_create(&made.handle, made.bytes, &allocation, 0);
    }
    if (result != BRAID_CU_SUCCESS)
        goto err_log;
    step = "mapping";
    result = map(cuda, made.handle, made.bytes, gpus, count, &made.address);
    if (result != BRAID_CU_SUCCESS)
        goto err_release;
    *segment = made;
    return 0;

err_release:
    cuda->mem_release(made.handle);
err_log:
    BRAID_WARN("device memory of %llu bytes on GPU %d: %s failed: %s", (unsigned long long)bytes,
               gpu, step, braid_cuda_name(result));
    return result == BRAID_CU_SUCCESS ? -EIO : braid_cuda_errno(result);
}

int braid_segment_import(const struct braid_cuda *cuda, int gpu, int handle_type, void *shareable,
                         uint64_t bytes, struct braid_segment *segment, int *result_p)
{
    struct braid_segment made = {.bytes = bytes};
    int result = cuda->mem_import(&made.handle, shareable, handle_type);

    if (result == BRAID_CU_SUCCESS) {
        result = map(cuda, made.handle, bytes, &gpu, 1, &made.address);
        if (result != BRAID_CU_SUCCESS)
            cuda->mem_release(made.handle);
    }
    *result_p = result;
    if (result != BRAID_CU_SUCCESS)
        return braid_cuda_errno(result);
    *segment = made;
    return 0;
}

void braid_segment_destroy(const struct braid_cuda *cuda, struct braid_segment *segment)
{
    if (segment->address != 0) {
        cuda->mem_unmap(segment->address, segment->bytes);
        cuda->address_free(segment->address, segment->bytes);
        cuda->mem_release(segment->handle);
    }
    memset(segment, 0, sizeof(*segment));
}
