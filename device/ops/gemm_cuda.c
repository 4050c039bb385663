/* Driver functions by name, see gemm_cuda.h. The names carry the version that cuda.h maps the plain name to. */
#include "device/ops/gemm_cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "common/dl.h"
#include "common/log.h"
#include "common/util.h"

#define NEED(member, symbol) BRAID_DL_SYMBOL(struct braid_gemm_cuda, member, symbol)

/* cuda.h defines some of these names as macros of their versioned forms; the strings below must be spelled out. */
#undef cuEventElapsedTime
#undef cuDevicePrimaryCtxRelease
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuStreamBatchMemOp

static const struct braid_dl_symbol symbols[] = {
    NEED(init, cuInit),
    NEED(error_name, cuGetErrorName),
    NEED(device_get, cuDeviceGet),
    NEED(device_attribute, cuDeviceGetAttribute),
    NEED(primary_retain, cuDevicePrimaryCtxRetain),
    NEED(primary_release, cuDevicePrimaryCtxRelease_v2),
    NEED(context_push, cuCtxPushCurrent_v2),
    NEED(context_pop, cuCtxPopCurrent_v2),
    NEED(mem_alloc, cuMemAlloc_v2),
    NEED(mem_free, cuMemFree_v2),
    NEED(host_alloc, cuMemHostAlloc),
    NEED(host_free, cuMemFreeHost),
    NEED(host_device_pointer, cuMemHostGetDevicePointer_v2),
    NEED(copy, cuMemcpyAsync),
    NEED(copy_to_device, cuMemcpyHtoDAsync_v2),
    NEED(copy_to_host, cuMemcpyDtoHAsync_v2),
    NEED(fill32, cuMemsetD32Async),
    NEED(stream_create, cuStreamCreateWithPriority),
    NEED(stream_destroy, cuStreamDestroy_v2),
    NEED(stream_synchronize, cuStreamSynchronize),
    NEED(stream_query, cuStreamQuery),
    NEED(priority_range, cuCtxGetStreamPriorityRange),
    NEED(event_create, cuEventCreate),
    NEED(event_destroy, cuEventDestroy_v2),
    NEED(event_record, cuEventRecord),
    NEED(event_synchronize, cuEventSynchronize),
    NEED(event_elapsed, cuEventElapsedTime),
    NEED(stream_wait_event, cuStreamWaitEvent),
    NEED(memops, cuStreamBatchMemOp_v2),
    NEED(exchange_capture_mode, cuThreadExchangeStreamCaptureMode),
    NEED(module_load, cuModuleLoadData),
    NEED(module_unload, cuModuleUnload),
    NEED(module_function, cuModuleGetFunction),
    NEED(launch, cuLaunchKernel),
};

static struct braid_gemm_cuda table;
static int load_status;
static char load_reason[200];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const char *const names[] = {"libcuda.so.1", NULL};

    load_status = -ENODEV;
    if (braid_dl_open(names, symbols, ARRAY_SIZE(symbols), &table, load_reason,
                      sizeof(load_reason)) != 0)
        return;
    if (table.init(0) != CUDA_SUCCESS) {
        snprintf(load_reason, sizeof(load_reason), "cuInit failed");
        return;
    }
    load_status = 0;
}

int braid_gemm_cuda_get(const struct braid_gemm_cuda **cuda_p, char *why, size_t why_bytes)
{
    pthread_once(&once, load);
    if (why_bytes > 0)
        snprintf(why, why_bytes, "%s", load_reason);
    *cuda_p = &table;
    return load_status;
}

int braid_gemm_cuda_check(CUresult result, const char *what)
{
    const char *name = NULL;

    if (result == CUDA_SUCCESS)
        return 0;
    if (table.error_name(result, &name) != CUDA_SUCCESS || name == NULL)
        name = "unknown CUDA error";
    BRAID_WARN("%s failed: %s (%d)", what, name, (int)result);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EPROTO;
}
