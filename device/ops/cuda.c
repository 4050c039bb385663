/* The table of cuda.h. */
#include "device/ops/cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "common/dl.h"
#include "common/util.h"

#define NEED(member, symbol) BRAID_DL_SYMBOL(struct braid_ops_cuda, member, symbol)

static const struct braid_dl_symbol symbols[] = {
    NEED(context_push, cuCtxPushCurrent_v2),
    NEED(context_pop, cuCtxPopCurrent_v2),
    NEED(primary_retain, cuDevicePrimaryCtxRetain),
    NEED(primary_release, cuDevicePrimaryCtxRelease_v2),
    NEED(module_load, cuModuleLoadData),
    NEED(module_unload, cuModuleUnload),
    NEED(module_function, cuModuleGetFunction),
    NEED(function_set, cuFuncSetAttribute),
    NEED(launch, cuLaunchKernelEx),
    NEED(copy, cuMemcpyAsync),
    NEED(copy_to_device, cuMemcpyHtoDAsync_v2),
    NEED(stream_ops, cuStreamBatchMemOp_v2),
    NEED(stream_create, cuStreamCreate),
    NEED(stream_destroy, cuStreamDestroy_v2),
    NEED(stream_synchronize, cuStreamSynchronize),
    NEED(stream_query, cuStreamQuery),
    NEED(stream_wait, cuStreamWaitEvent),
    NEED(event_create, cuEventCreate),
    NEED(event_destroy, cuEventDestroy_v2),
    NEED(event_record, cuEventRecord),
    NEED(host_alloc, cuMemHostAlloc),
    NEED(host_free, cuMemFreeHost),
    NEED(host_device_pointer, cuMemHostGetDevicePointer_v2),
};

static struct braid_ops_cuda table;
static int load_status;
static char load_reason[200];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const char *const names[] = {"libcuda.so.1", NULL};

    load_status = braid_dl_open(names, symbols, ARRAY_SIZE(symbols), &table, load_reason,
                                sizeof(load_reason)) == 0
                      ? 0
                      : -ENODEV;
}

int braid_ops_cuda_get(const struct braid_ops_cuda **cuda_p, char *why, size_t why_bytes)
{
    pthread_once(&once, load);
    if (load_status != 0) {
        snprintf(why, why_bytes, "%s", load_reason);
        return load_status;
    }
    *cuda_p = &table;
    return 0;
}
