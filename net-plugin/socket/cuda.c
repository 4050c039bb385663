/* The CUDA driver by dlopen; see cuda.h. */
#include "net-plugin/socket/cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/dl.h"
#include "common/log.h"
#include "common/param.h"
#include "common/util.h"

#define GPUS    64
#define STREAMS 4 /* a direction of a GPU */

/* Of cuda.h, which this library is built without. */
typedef int cu_result;
enum {
    CU_SUCCESS = 0,
    CU_NOT_READY = 600,
    CU_POINTER_DEVICE_ORDINAL = 9,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_HOST_PORTABLE = 1,
    CU_CAPTURE_RELAXED = 2,
};

static struct {
    cu_result (*init)(unsigned flags);
    cu_result (*device_get)(int *device, int ordinal);
    cu_result (*context_retain)(void **context, int device);
    cu_result (*context_release)(int device);
    cu_result (*context_push)(void *context);
    cu_result (*context_pop)(void **context);
    cu_result (*capture_mode)(int *mode);
    cu_result (*pointer_attribute)(void *value, int attribute, uint64_t pointer);
    cu_result (*host_alloc)(void **memory, size_t bytes, unsigned flags);
    cu_result (*host_free)(void *memory);
    cu_result (*stream_create)(void **stream, unsigned flags);
    cu_result (*stream_destroy)(void *stream);
    cu_result (*event_create)(void **event, unsigned flags);
    cu_result (*event_destroy)(void *event);
    cu_result (*event_record)(void *event, void *stream);
    cu_result (*event_query)(void *event);
    cu_result (*to_device)(uint64_t device, const void *host, size_t bytes, void *stream);
    cu_result (*to_host)(void *host, uint64_t device, size_t bytes, void *stream);
    cu_result (*error_name)(cu_result error, const char **name);
} cu;

#define SYMBOL(member, name)                                                                       \
    {                                                                                              \
        name, NULL, offsetof(__typeof__(cu), member), false                                        \
    }
static const struct braid_dl_symbol symbols[] = {
    SYMBOL(init, "cuInit"),
    SYMBOL(device_get, "cuDeviceGet"),
    SYMBOL(context_retain, "cuDevicePrimaryCtxRetain"),
    SYMBOL(context_release, "cuDevicePrimaryCtxRelease_v2"),
    SYMBOL(context_push, "cuCtxPushCurrent_v2"),
    SYMBOL(context_pop, "cuCtxPopCurrent_v2"),
    SYMBOL(capture_mode, "cuThreadExchangeStreamCaptureMode"),
    SYMBOL(pointer_attribute, "cuPointerGetAttribute"),
    SYMBOL(host_alloc, "cuMemHostAlloc"),
    SYMBOL(host_free, "cuMemFreeHost"),
    SYMBOL(stream_create, "cuStreamCreate"),
    SYMBOL(stream_destroy, "cuStreamDestroy_v2"),
    SYMBOL(event_create, "cuEventCreate"),
    SYMBOL(event_destroy, "cuEventDestroy_v2"),
    SYMBOL(event_record, "cuEventRecord"),
    SYMBOL(event_query, "cuEventQuery"),
    SYMBOL(to_device, "cuMemcpyHtoDAsync_v2"),
    SYMBOL(to_host, "cuMemcpyDtoHAsync_v2"),
    SYMBOL(error_name, "cuGetErrorName"),
};

struct braid_gpu {
    int device;
    void *context;
    void *to_host[STREAMS], *to_gpu[STREAMS];
};

static struct {
    pthread_mutex_t lock; /* all of this; `gpus` entries never change once they are there */
    bool loaded, up;
    struct braid_gpu gpus[GPUS];
    atomic_uint count;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *error_text(cu_result result)
{
    const char *name = NULL;

    if (cu.error_name(result, &name) != CU_SUCCESS || name == NULL)
        return "unknown CUDA error";
    return name;
}

/*
 * Around every call: the GPU's context is current, and a graph that the user captures in any thread takes no notice of us (without the
 * relaxed mode a query of an event, of all things, would end the capture). *mode_p keeps the thread's own mode for leave().
 */
static cu_result enter(void *context, int *mode_p)
{
    cu_result result = cu.context_push(context);
    void *popped;

    if (result != CU_SUCCESS)
        return result;
    *mode_p = CU_CAPTURE_RELAXED;
    result = cu.capture_mode(mode_p);
    if (result != CU_SUCCESS)
        cu.context_pop(&popped);
    return result;
}

static void leave(int mode)
{
    void *popped;

    cu.capture_mode(&mode);
    cu.context_pop(&popped);
}

static int load(char *why, size_t why_bytes)
{
    const char *names[] = {braid_param_str(BRAID_P_CUDA_LIBRARY), NULL};
    int err = 0;

    if (!state.loaded)
        err = braid_dl_open(names, symbols, ARRAY_SIZE(symbols), &cu, why, why_bytes);
    state.loaded = err == 0;
    return err == 0 ? 0 : -ENOSYS;
}

int braid_cuda_find(char *why, size_t why_bytes)
{
    int err;

    pthread_mutex_lock(&state.lock);
    err = load(why, why_bytes);
    pthread_mutex_unlock(&state.lock);
    return err;
}

/* -- GPUs ------------------------------------------------------------------------------------------------------------------- */

static void close_streams(struct braid_gpu *gpu)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        if (gpu->to_host[i] != NULL)
            cu.stream_destroy(gpu->to_host[i]);
        if (gpu->to_gpu[i] != NULL)
            cu.stream_destroy(gpu->to_gpu[i]);
    }
}

static cu_result open_gpu(struct braid_gpu *gpu, int ordinal)
{
    cu_result result;
    int mode;

    memset(gpu, 0, sizeof(*gpu));
    result = cu.device_get(&gpu->device, ordinal);
    if (result == CU_SUCCESS)
        result = cu.context_retain(&gpu->context, gpu->device);
    if (result != CU_SUCCESS)
        return result;
    result = enter(gpu->context, &mode);
    if (result != CU_SUCCESS) {
        cu.context_release(gpu->device);
        return result;
    }
    for (unsigned i = 0; result == CU_SUCCESS && i < STREAMS; i++) {
        result = cu.stream_create(&gpu->to_host[i], CU_STREAM_NON_BLOCKING);
        if (result == CU_SUCCESS)
            result = cu.stream_create(&gpu->to_gpu[i], CU_STREAM_NON_BLOCKING);
    }
    if (result != CU_SUCCESS)
        close_streams(gpu);
    leave(mode);
    if (result != CU_SUCCESS)
        cu.context_release(gpu->device);
    return result;
}

static cu_result find_gpu(const void *ptr, struct braid_gpu **gpu_p)
{
    unsigned count = atomic_load(&state.count);
    cu_result result = state.up ? CU_SUCCESS : cu.init(0);
    int ordinal = -1, device = -1;

    state.up = result == CU_SUCCESS;
    if (result == CU_SUCCESS)
        result = cu.pointer_attribute(&ordinal, CU_POINTER_DEVICE_ORDINAL, (uintptr_t)ptr);
    if (result == CU_SUCCESS)
        result = cu.device_get(&device, ordinal);
    if (result != CU_SUCCESS)
        return result;
    for (unsigned i = 0; i < count; i++) {
        if (state.gpus[i].device == device) {
            *gpu_p = &state.gpus[i];
            return CU_SUCCESS;
        }
    }
    if (count == GPUS)
        return CU_NOT_READY;
    result = open_gpu(&state.gpus[count], ordinal);
    if (result == CU_SUCCESS) {
        *gpu_p = &state.gpus[count];
        atomic_store(&state.count, count + 1);
    }
    return result;
}

int braid_gpu_of(const void *ptr, struct braid_gpu **gpu_p, char *why, size_t why_bytes)
{
    cu_result result = CU_SUCCESS;
    int err;

    pthread_mutex_lock(&state.lock);
    err = load(why, why_bytes);
    if (err == 0)
        result = find_gpu(ptr, gpu_p);
    pthread_mutex_unlock(&state.lock);
    if (err != 0 || result == CU_SUCCESS)
        return err;
    snprintf(why, why_bytes, "%s", error_text(result));
    return -EINVAL;
}

void braid_cuda_stop(void)
{
    pthread_mutex_lock(&state.lock);
    for (unsigned i = 0; i < atomic_load(&state.count); i++) {
        struct braid_gpu *gpu = &state.gpus[i];
        int mode;
        if (enter(gpu->context, &mode) != CU_SUCCESS)
            continue; /* the driver has gone before us: the process ends */
        close_streams(gpu);
        leave(mode);
        cu.context_release(gpu->device);
    }
    atomic_store(&state.count, 0);
    pthread_mutex_unlock(&state.lock);
}

/* -- memory and copies -------------------------------------------------------------------------------------------------------- */

void *braid_pinned_new(struct braid_gpu *gpu, size_t bytes)
{
    void *memory = NULL;
    int mode;

    if (enter(gpu->context, &mode) != CU_SUCCESS)
        return NULL;
    if (cu.host_alloc(&memory, bytes, CU_HOST_PORTABLE) != CU_SUCCESS)
        memory = NULL;
    leave(mode);
    return memory;
}

void braid_pinned_free(struct braid_gpu *gpu, void *memory)
{
    int mode;

    if (memory == NULL || enter(gpu->context, &mode) != CU_SUCCESS)
        return;
    cu.host_free(memory);
    leave(mode);
}

static int start_copy(struct braid_copy *copy, struct braid_gpu *gpu, void *stream, void *host,
                      uint64_t device, size_t bytes, bool to_host)
{
    cu_result result;
    int mode;

    if (copy->gpu != gpu) /* the first use, or the buffers of this lane have moved to another GPU */
        braid_copy_free(copy);
    if (enter(gpu->context, &mode) != CU_SUCCESS)
        return -EIO;
    result =
        copy->event == NULL ? cu.event_create(&copy->event, CU_EVENT_DISABLE_TIMING) : CU_SUCCESS;
    copy->gpu = gpu;
    if (result == CU_SUCCESS)
        result = to_host ? cu.to_host(host, device, bytes, stream)
                         : cu.to_device(device, host, bytes, stream);
    if (result == CU_SUCCESS)
        result = cu.event_record(copy->event, stream);
    leave(mode);
    return result == CU_SUCCESS ? 0 : -EIO;
}

int braid_copy_to_host(struct braid_copy *copy, struct braid_gpu *gpu, unsigned lane, void *host,
                       const void *device, size_t bytes)
{
    return start_copy(copy, gpu, gpu->to_host[lane % STREAMS], host, (uintptr_t)device, bytes,
                      true);
}

int braid_copy_to_gpu(struct braid_copy *copy, struct braid_gpu *gpu, unsigned lane, void *device,
                      const void *host, size_t bytes)
{
    return start_copy(copy, gpu, gpu->to_gpu[lane % STREAMS], (void *)(uintptr_t)host,
                      (uintptr_t)device, bytes, false);
}

int braid_copy_test(struct braid_copy *copy)
{
    cu_result result;
    int mode;

    if (enter(copy->gpu->context, &mode) != CU_SUCCESS)
        return -EIO;
    result = cu.event_query(copy->event);
    leave(mode);
    return result == CU_SUCCESS ? 1 : result == CU_NOT_READY ? 0 : -EIO;
}

void braid_copy_free(struct braid_copy *copy)
{
    int mode;

    if (copy->event != NULL && enter(copy->gpu->context, &mode) == CU_SUCCESS) {
        cu.event_destroy(copy->event);
        leave(mode);
    }
    copy->event = NULL;
    copy->gpu = NULL;
}
