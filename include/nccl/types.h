/*
 * Types that every NCCL plugin interface shares: result codes, NCCL's logger, memory kinds, the
 * device-offload handle and the profiler callback.
 *
 * These are Braid's own declarations of NCCL's binary interface. Names follow NCCL so that a reader
 * finds the same thing in both projects; text, order of comments and notes are ours.
 * Values and layouts were compared with NVIDIA/nccl at the tags v2.19.4-1, v2.20.5-1, v2.21.5-1,
 * v2.22.3-1, v2.23.4-1, v2.24.3-1, v2.25.1-1, v2.26.2-1, v2.26.6-1, v2.27.7-1, v2.28.3-1,
 * v2.28.9-1, v2.29.7-1, v2.30.3-1, v2.30.4-1 and v2.30.7-1; a value that appeared later than
 * v2.19.4-1 says when.
 * Only the abi folders of the plugins and tests/fakenccl include this folder. It must not meet
 * NCCL's nccl.h in one translation unit, since both define the same names.
 */
#ifndef NCCL_ABI_TYPES_H
#define NCCL_ABI_TYPES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* What every entry point of a plugin returns. */
typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
} ncclResult_t;

typedef enum {
    NCCL_LOG_NONE = 0,
    NCCL_LOG_VERSION = 1,
    NCCL_LOG_WARN = 2,
    NCCL_LOG_INFO = 3,
    NCCL_LOG_ABORT = 4,
    NCCL_LOG_TRACE = 5,
} ncclDebugLogLevel;

/* Bits of the logger's `flags`; NCCL_DEBUG_SUBSYS chooses among them. */
typedef enum {
    NCCL_INIT = 0x1,
    NCCL_COLL = 0x2,
    NCCL_P2P = 0x4,
    NCCL_SHM = 0x8,
    NCCL_NET = 0x10,
    NCCL_GRAPH = 0x20,
    NCCL_TUNING = 0x40,
    NCCL_ENV = 0x80,
    NCCL_ALLOC = 0x100,
    NCCL_CALL = 0x200,
    NCCL_PROXY = 0x400,
    NCCL_NVLS = 0x800,
    NCCL_BOOTSTRAP = 0x1000, /* since 2.21 */
    NCCL_REG = 0x2000,       /* since 2.21 */
    NCCL_PROFILE = 0x4000,   /* since 2.22 */
    NCCL_ALL = ~0,
} ncclDebugLogSubSys;

/*
 * NCCL's logger. `file` is the file name, or the function name for WARN in some releases; both are
 * copied before the call returns. It takes a process-wide lock and may write to a file: never call
 * it on the data path. It stays valid after the plugin is unloaded, so a plugin may keep it.
 */
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char *file,
                                  int line, const char *fmt, ...);

/* Kinds of memory, as bits in a device's ptrSupport and as the type argument of regMr. */
#define NCCL_PTR_HOST   0x1
#define NCCL_PTR_CUDA   0x2
#define NCCL_PTR_DMABUF 0x4

/* Bytes in the handle that listen fills and that NCCL's bootstrap carries to the connecting rank. */
#define NCCL_NET_HANDLE_MAXSIZE 128

/* Requests that may be outstanding on one comm, each up to maxRecvs wide. */
#define NCCL_NET_MAX_REQUESTS 32

/* NCCL refuses a device whose maxP2pBytes or maxCollBytes is zero or larger than this (1 TiB). */
#define NCCL_MAX_NET_SIZE_BYTES (((size_t)1) << 40)

/* What NCCL assumes for maxP2pBytes (1 GiB) where the interface has no such field (v6 to v8). */
#define NCCL_NET_LEGACY_MAX_P2P_BYTES (((size_t)1) << 30)

/*
 * NCCL may put this value in *request before irecv (v9 and later, single receives only). It says
 * that NCCL learns of the arrival by another way (the GPU polls flags inside the data), so the
 * plugin may report the request as done before the data has landed. A valid request must still be
 * returned, and test must still be answered for it.
 */
#define NCCL_NET_OPTIONAL_RECV_COMPLETION 0x1

typedef enum {
    NCCL_NET_DEVICE_HOST = 0,
    NCCL_NET_DEVICE_UNPACK = 1,
    NCCL_NET_DEVICE_GIN_PROXY = 2, /* since 2.28.7 */
    NCCL_NET_DEVICE_GIN_GDAKI = 3, /* since 2.28.7 */
    NCCL_NET_DEVICE_GIN_GPI = 4,   /* since 2.30.7 */
} ncclNetDeviceType;

#define NCCL_NET_DEVICE_INVALID_VERSION 0x0

/* Filled by connect and accept of a device of type UNPACK; a HOST device leaves *devComm alone. */
typedef struct {
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
    void *handle;
    size_t size;
    int needsProxyProgress;
} ncclNetDeviceHandle_v7_t;

typedef ncclNetDeviceHandle_v7_t ncclNetDeviceHandle_v8_t;
typedef ncclNetDeviceHandle_v7_t ncclNetDeviceHandle_v9_t;
typedef ncclNetDeviceHandle_v7_t ncclNetDeviceHandle_v10_t;
typedef ncclNetDeviceHandle_v7_t ncclNetDeviceHandle_v11_t;
typedef ncclNetDeviceHandle_v7_t ncclNetDeviceHandle_v12_t;

static_assert(sizeof(ncclNetDeviceHandle_v7_t) == 32, "device handle layout");

/* The `type` argument of the profiler callback. */
enum {
    ncclProfilerNetEventStart = 0,
    ncclProfilerNetEventStop = 1,
    ncclProfilerNetEventUpdate = 2,
    ncclProfilerNetEventUpdateAndStop = 3,
};

/*
 * Reports an event inside the plugin to NCCL's profiler (v10 and later; NULL when there is none).
 * pHandle is the phandle given to isend or irecv, pluginId says how extData is to be read.
 */
typedef ncclResult_t (*ncclProfilerCallback_t)(void **eHandle, int type, void *pHandle,
                                               int64_t pluginId, void *extData);

#endif
