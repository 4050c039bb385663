/*
 * The driver functions that the fused products need beside those of device/host: events, copies, stream memory operations.
 * Threading: any thread after braid_gemm_cuda_get returned 0. Called by: the gemm_* files.
 */
#ifndef BRAID_DEVICE_OPS_GEMM_CUDA_H
#define BRAID_DEVICE_OPS_GEMM_CUDA_H

#include <stddef.h>

#include <cuda.h>

struct braid_gemm_cuda {
    CUresult (*init)(unsigned flags);
    CUresult (*error_name)(CUresult result, const char **name);
    CUresult (*device_get)(CUdevice *device, int ordinal);
    CUresult (*device_attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
    CUresult (*primary_retain)(CUcontext *context, CUdevice device);
    CUresult (*primary_release)(CUdevice device);
    CUresult (*context_push)(CUcontext context);
    CUresult (*context_pop)(CUcontext *context);
    CUresult (*mem_alloc)(CUdeviceptr *address, size_t bytes);
    CUresult (*mem_free)(CUdeviceptr address);
    CUresult (*host_alloc)(void **pointer, size_t bytes, unsigned flags);
    CUresult (*host_free)(void *pointer);
    CUresult (*host_device_pointer)(CUdeviceptr *address, void *pointer, unsigned flags);
    CUresult (*copy)(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
    CUresult (*copy_to_device)(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream);
    CUresult (*copy_to_host)(void *dst, CUdeviceptr src, size_t bytes, CUstream stream);
    CUresult (*fill32)(CUdeviceptr dst, unsigned value, size_t words, CUstream stream);
    CUresult (*stream_create)(CUstream *stream, unsigned flags, int priority);
    CUresult (*stream_destroy)(CUstream stream);
    CUresult (*stream_synchronize)(CUstream stream);
    CUresult (*stream_query)(CUstream stream);
    CUresult (*priority_range)(int *least, int *greatest);
    CUresult (*event_create)(CUevent *event, unsigned flags);
    CUresult (*event_destroy)(CUevent event);
    CUresult (*event_record)(CUevent event, CUstream stream);
    CUresult (*event_synchronize)(CUevent event);
    CUresult (*event_elapsed)(float *ms, CUevent begin, CUevent end);
    CUresult (*stream_wait_event)(CUstream stream, CUevent event, unsigned flags);
    CUresult (*memops)(CUstream stream, unsigned count, CUstreamBatchMemOpParams *ops,
                       unsigned flags);
    CUresult (*exchange_capture_mode)(CUstreamCaptureMode *mode);
    CUresult (*module_load)(CUmodule *module, const void *image);
    CUresult (*module_unload)(CUmodule module);
    CUresult (*module_function)(CUfunction *function, CUmodule module, const char *name);
    CUresult (*launch)(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared_bytes, CUstream stream,
                       void **arguments, void **extra);
};

/* The table, loaded once a process. 0 or -ENODEV with the reason in `why`. */
int braid_gemm_cuda_get(const struct braid_gemm_cuda **cuda_p, char *why, size_t why_bytes);

/* 0 for success; otherwise logs `what` with the result's name and returns a negative errno. */
int braid_gemm_cuda_check(CUresult result, const char *what);

#endif
