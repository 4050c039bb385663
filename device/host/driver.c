/* The table of CUDA driver functions, see driver.h. */
#include "device/host/driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/dl.h"
#include "common/util.h"

#define NEED(member, symbol)   BRAID_DL_SYMBOL(struct braid_cuda, member, symbol)
#define OPTION(member, symbol) BRAID_DL_OPTIONAL(struct braid_cuda, member, symbol)

static const struct braid_dl_symbol symbols[] = {
    NEED(init, cuInit),
    NEED(error_name, cuGetErrorName),
    NEED(device_count, cuDeviceGetCount),
    NEED(device_get, cuDeviceGet),
    NEED(device_uuid, cuDeviceGetUuid_v2),
    NEED(device_attribute, cuDeviceGetAttribute),
    NEED(device_can_access, cuDeviceCanAccessPeer),
    NEED(primary_retain, cuDevicePrimaryCtxRetain),
    NEED(primary_release, cuDevicePrimaryCtxRelease_v2),
    NEED(context_push, cuCtxPushCurrent_v2),
    NEED(context_pop, cuCtxPopCurrent_v2),
    NEED(context_current, cuCtxGetCurrent),
    NEED(context_device, cuCtxGetDevice),
    NEED(context_synchronize, cuCtxSynchronize),
    NEED(context_enable_peer, cuCtxEnablePeerAccess),
    NEED(granularity, cuMemGetAllocationGranularity),
    NEED(mem_create, cuMemCreate),
    NEED(mem_release, cuMemRelease),
    NEED(mem_retain, cuMemRetainAllocationHandle),
    NEED(address_reserve, cuMemAddressReserve),
    NEED(address_free, cuMemAddressFree),
    NEED(mem_map, cuMemMap),
    NEED(mem_unmap, cuMemUnmap),
    NEED(mem_set_access, cuMemSetAccess),
    NEED(mem_export, cuMemExportToShareableHandle),
    NEED(mem_import, cuMemImportFromShareableHandle),
    NEED(mem_range, cuMemGetAddressRange_v2),
    NEED(mem_alloc, cuMemAlloc_v2),
    NEED(mem_free, cuMemFree_v2),
    NEED(ipc_get, cuIpcGetMemHandle),
    NEED(ipc_open, cuIpcOpenMemHandle_v2),
    NEED(ipc_close, cuIpcCloseMemHandle),
    NEED(pointer_attribute, cuPointerGetAttribute),
    NEED(host_alloc, cuMemHostAlloc),
    NEED(host_free, cuMemFreeHost),
    NEED(host_device_pointer, cuMemHostGetDevicePointer_v2),
    NEED(copy_to_device, cuMemcpyHtoDAsync_v2),
    NEED(copy_to_host, cuMemcpyDtoHAsync_v2),
    NEED(fill, cuMemsetD8Async),
    NEED(stream_create, cuStreamCreate),
    NEED(stream_destroy, cuStreamDestroy_v2),
    NEED(stream_synchronize, cuStreamSynchronize),
    NEED(stream_query, cuStreamQuery),
    NEED(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor),
    NEED(launch, cuLaunchKernel),
    OPTION(function_load, cuFuncLoad),
    OPTION(function_loaded, cuFuncIsLoaded),
    OPTION(loading_mode, cuModuleGetLoadingMode),
};

static struct braid_cuda table;
static int load_status;
static char load_reason[200];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    int result, count = 0;

    load_status = -ENODEV;
    if (braid_dl_open(names, symbols, ARRAY_SIZE(symbols), &table, load_reason,
                      sizeof(load_reason)) != 0)
        return;
    result = table.init(0);
    if (result == BRAID_CU_SUCCESS)
        result = table.device_count(&count);
    if (result != BRAID_CU_SUCCESS || count == 0) {
        snprintf(load_reason, sizeof(load_reason), "the CUDA driver found no GPU (%s)",
                 braid_cuda_name(result));
        return;
    }
    load_status = 0;
}

int braid_cuda_get(const struct braid_cuda **cuda_p, char *why, size_t why_bytes)
{
    pthread_once(&once, load);
    if (load_status != 0) {
        snprintf(why, why_bytes, "%s", load_reason);
        return load_status;
    }
    *cuda_p = &table;
    return 0;
}

const char *braid_cuda_name(int result)
{
    const char *name = NULL;

    if (table.error_name == NULL || table.error_name(result, &name) != BRAID_CU_SUCCESS ||
        name == NULL)
        return "unknown CUDA error";
    return name;
}

int braid_cuda_errno(int result)
{
    switch (result) {
    case BRAID_CU_SUCCESS: return 0;
    case BRAID_CU_INVALID_VALUE: return -EINVAL;
    case BRAID_CU_OUT_OF_MEMORY: return -ENOMEM;
    case BRAID_CU_NO_DEVICE:
    case BRAID_CU_INVALID_DEVICE: return -ENODEV;
    case BRAID_CU_NOT_READY: return -EAGAIN;
    case BRAID_CU_NOT_PERMITTED: return -EPERM;
    case BRAID_CU_NOT_SUPPORTED: return -EOPNOTSUPP;
    default: return -EIO;
    }
}
