/*
 * The CUDA driver API as a table of function pointers from libcuda.so.1, opened at run time so that libbraid.so loads where there
 * is no GPU. The declarations are Braid's own; tests/unit/device/driver_layout_test.c holds them against cuda.h where it is found.
 * Used by: device/host (and device/ops through braid_cuda_get). Threading: any thread, after braid_cuda_get returned 0.
 */
#ifndef BRAID_DEVICE_HOST_DRIVER_H
#define BRAID_DEVICE_HOST_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* CUresult values that are told apart. */
enum {
    BRAID_CU_SUCCESS = 0,
    BRAID_CU_INVALID_VALUE = 1,
    BRAID_CU_OUT_OF_MEMORY = 2,
    BRAID_CU_NO_DEVICE = 100,
    BRAID_CU_INVALID_DEVICE = 101,
    BRAID_CU_NOT_READY = 600,
    BRAID_CU_PEER_ALREADY_ENABLED = 704,
    BRAID_CU_NOT_PERMITTED = 800,
    BRAID_CU_NOT_SUPPORTED = 801,
};

enum {
    BRAID_CU_ATTRIBUTE_SM_COUNT = 16,
    BRAID_CU_ATTRIBUTE_VMM = 102,
    BRAID_CU_ATTRIBUTE_FD_HANDLES = 103,
    BRAID_CU_ATTRIBUTE_RDMA_WITH_VMM = 110,
    BRAID_CU_ATTRIBUTE_FABRIC_HANDLES = 128,
};

enum {
    BRAID_CU_ALLOCATION_PINNED = 1,
    BRAID_CU_LOCATION_DEVICE = 1,
    BRAID_CU_ACCESS_READWRITE = 3,
    BRAID_CU_HANDLE_NONE = 0,
    BRAID_CU_HANDLE_FD = 1,
    BRAID_CU_HANDLE_FABRIC = 8,
    BRAID_CU_GRANULARITY_RECOMMENDED = 1,
    BRAID_CU_HOST_PORTABLE = 1,
    BRAID_CU_HOST_DEVICEMAP = 2,
    BRAID_CU_STREAM_NON_BLOCKING = 1,
    BRAID_CU_IPC_LAZY_PEER_ACCESS = 1,
    BRAID_CU_POINTER_DEVICE_ORDINAL = 9,
    BRAID_CU_LOADING_LAZY = 2,
};

struct braid_cu_location {
    int type;
    int id;
};

struct braid_cu_allocation {
    int type;
    int handle_types;
    struct braid_cu_location location;
    void *win32;
    uint8_t compression;
    uint8_t rdma_capable;
    uint16_t usage;
    uint8_t reserved[4];
};

struct braid_cu_access {
    struct braid_cu_location location;
    int flags;
};

struct braid_cu_handle {
    uint8_t bytes[64]; /* CUDA IPC handle or fabric handle */
};

struct braid_cuda {
    int (*init)(unsigned flags);
    int (*error_name)(int result, const char **name);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_uuid)(void *uuid16, int device);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*device_can_access)(int *can, int device, int peer);
    int (*primary_retain)(void **context, int device);
    int (*primary_release)(int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*context_current)(void **context);
    int (*context_device)(int *device);
    int (*context_synchronize)(void);
    int (*context_enable_peer)(void *context, unsigned flags);
    int (*granularity)(size_t *bytes, const struct braid_cu_allocation *allocation, int kind);
    int (*mem_create)(uint64_t *handle, size_t bytes, const struct braid_cu_allocation *allocation,
                      unsigned long long flags);
    int (*mem_release)(uint64_t handle);
    int (*mem_retain)(uint64_t *handle, void *address);
    int (*address_reserve)(uint64_t *address, size_t bytes, size_t alignment, uint64_t hint,
                           unsigned long long flags);
    int (*address_free)(uint64_t address, size_t bytes);
    int (*mem_map)(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
                   unsigned long long flags);
    int (*mem_unmap)(uint64_t address, size_t bytes);
    int (*mem_set_access)(uint64_t address, size_t bytes, const struct braid_cu_access *access,
                          size_t count);
    int (*mem_export)(void *shareable, uint64_t handle, int type, unsigned long long flags);
    int (*mem_import)(uint64_t *handle, void *shareable, int type);
    int (*mem_range)(uint64_t *base, size_t *bytes, uint64_t address);
    int (*mem_alloc)(uint64_t *address, size_t bytes);
    int (*mem_free)(uint64_t address);
    int (*ipc_get)(struct braid_cu_handle *handle, uint64_t address);
    int (*ipc_open)(uint64_t *address, struct braid_cu_handle handle, unsigned flags);
    int (*ipc_close)(uint64_t address);
    int (*pointer_attribute)(void *value, int attribute, uint64_t address);
    int (*host_alloc)(void **pointer, size_t bytes, unsigned flags);
    int (*host_free)(void *pointer);
    int (*host_device_pointer)(uint64_t *address, void *pointer, unsigned flags);
    int (*copy_to_device)(uint64_t dst, const void *src, size_t bytes, void *stream);
    int (*copy_to_host)(void *dst, uint64_t src, size_t bytes, void *stream);
    int (*fill)(uint64_t dst, unsigned char value, size_t bytes, void *stream);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*stream_query)(void *stream);
    int (*occupancy)(int *ctas, void *function, int threads, size_t shared_bytes);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared_bytes, void *stream, void **arguments, void **extra);
    /* Optional: NULL in old drivers. */
    int (*function_load)(void *function);
    int (*function_loaded)(int *loaded, void *function);
    int (*loading_mode)(int *mode);
};

/*
 * The table, loaded and initialised once a process. 0; -ENODEV when there is no driver or no GPU, with the reason in `why`.
 */
int braid_cuda_get(const struct braid_cuda **cuda_p, char *why, size_t why_bytes);

/* Name of a CUresult, never NULL; and the errno that stands for it (0 for success). */
const char *braid_cuda_name(int result);
int braid_cuda_errno(int result);

#endif
