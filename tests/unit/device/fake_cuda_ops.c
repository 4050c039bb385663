/*
 * The part of the fake CUDA driver that the fused products use: streams run at once on the calling thread, so events are nothing; a
 * stream's wait polls the word like the real one does, without a bound of its own. "Modules" hold the functions of fake_functions.
 * Threading: any.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/device/fake_cuda_ops.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define API __attribute__((visibility("default")))

enum { OK = 0, INVALID = 1, NOT_FOUND = 500 };

API struct fake_cuda_ops fake_cuda_ops;

/* CUstreamBatchMemOpParams: the operation, an address, a value, flags; 48 bytes. */
struct mem_op {
    int operation;
    uint64_t address;
    union {
        uint32_t value;
        uint64_t value64;
    };
    unsigned flags;
    uint64_t alias;
    uint64_t pad;
};
_Static_assert(sizeof(struct mem_op) == 48, "as in cuda.h");

API int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    extern int cuStreamCreate(void **s, unsigned f);

    return cuStreamCreate(stream, flags);
}

API int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return OK;
}

API int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t bytes, void *stream)
{
    if (bytes == sizeof(uint32_t)) /* a flag: one access, behind the copies before it */
        __atomic_store_n((uint32_t *)(uintptr_t)dst, *(const uint32_t *)(uintptr_t)src,
                         __ATOMIC_RELEASE);
    else
        memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
    __atomic_add_fetch(&fake_cuda_ops.copies, 1, __ATOMIC_RELAXED);
    return OK;
}

API int cuMemsetD32Async(uint64_t dst, unsigned value, size_t words, void *stream)
{
    for (size_t i = 0; i < words; i++)
        __atomic_store_n((uint32_t *)(uintptr_t)dst + i, value, __ATOMIC_RELEASE);
    return OK;
}

API int cuEventCreate(void **event, unsigned flags)
{
    static char event_object;

    *event = &event_object;
    __atomic_add_fetch(&fake_cuda_ops.events, 1, __ATOMIC_RELAXED);
    return OK;
}

API int cuEventDestroy_v2(void *event)
{
    __atomic_add_fetch(&fake_cuda_ops.events, -1, __ATOMIC_RELAXED);
    return OK;
}

API int cuEventRecord(void *event, void *stream)
{
    return event == NULL ? INVALID : OK;
}

API int cuEventSynchronize(void *event)
{
    return OK;
}

API int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    *ms = 1;
    return OK;
}

API int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return event == NULL ? INVALID : OK;
}

API int cuThreadExchangeStreamCaptureMode(int *mode)
{
    return OK;
}

API int cuStreamBatchMemOp_v2(void *stream, unsigned count, struct mem_op *ops, unsigned flags)
{
    for (unsigned i = 0; i < count; i++) {
        uint32_t *word = (uint32_t *)(uintptr_t)ops[i].address;

        if (ops[i].operation == 1) /* CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_EQ */
            while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != ops[i].value)
                usleep(20);
        else if (ops[i].operation == 2 && ops[i].flags == 0) /* the real one refuses other flags */
            __atomic_store_n(word, ops[i].value, __ATOMIC_RELEASE);
        else
            return INVALID;
    }
    return OK;
}

API int cuModuleLoadData(void **module, const void *image)
{
    *module = (void *)(uintptr_t)image;
    return image == NULL ? INVALID : OK;
}

API int cuModuleUnload(void *module)
{
    return OK;
}

API int cuModuleGetFunction(void **function, void *module, const char *name)
{
    for (int i = 0; i < FAKE_FUNCTIONS && fake_cuda_ops.functions[i].name != NULL; i++)
        if (strcmp(fake_cuda_ops.functions[i].name, name) == 0) {
            *function = &fake_cuda_ops.functions[i].function;
            return OK;
        }
    return NOT_FOUND;
}

API int cuFuncSetAttribute(void *function, int attribute, int value)
{
    return function == NULL ? INVALID : OK;
}

/* CUlaunchConfig begins with the grid and the block; the stream does not matter here. */
API int cuLaunchKernelEx(const unsigned *config, void *function, void **arguments, void **extra)
{
    struct fake_function *f = function;

    if (f->run == NULL)
        return INVALID;
    f->run(arguments, config[0], config[3]);
    return OK;
}
