/*
 * The CUDA driver functions that collectives need beyond device/host/driver.h: modules, launches with attributes, events, stream
 * memory operations, copies. The same library, opened the same way; declarations are Braid's own and held against cuda.h by
 * tests/unit/device/ops/cuda_test.c. Threading: any thread, after braid_ops_cuda_get returned 0.
 */
#ifndef BRAID_DEVICE_OPS_CUDA_H
#define BRAID_DEVICE_OPS_CUDA_H

#include <stddef.h>
#include <stdint.h>

enum {
    BRAID_CU_FUNCTION_DYNAMIC_SHARED = 8,
    BRAID_CU_LAUNCH_OVERLAP = 6, /* programmatic stream serialisation */
    BRAID_CU_EVENT_NO_TIMING = 2,
    BRAID_CU_OP_WAIT_32 = 1,
    BRAID_CU_OP_WRITE_32 = 2,
    BRAID_CU_WAIT_EQUAL = 1,
};

struct braid_cu_launch_attribute {
    int id;
    int pad;
    union {
        int on;
        uint8_t bytes[64];
    } value;
};

struct braid_cu_launch {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    void *stream;
    struct braid_cu_launch_attribute *attributes;
    unsigned attribute_count;
};

/* One stream memory operation: wait for, or write, a 32-bit word. */
struct braid_cu_stream_op {
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

struct braid_ops_cuda {
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*primary_retain)(void **context, int device);
    int (*primary_release)(int device);
    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*module_function)(void **function, void *module, const char *name);
    int (*function_set)(void *function, int attribute, int value);
    int (*launch)(const struct braid_cu_launch *config, void *function, void **arguments,
                  void **extra);
    int (*copy)(uint64_t dst, uint64_t src, size_t bytes, void *stream);
    int (*copy_to_device)(uint64_t dst, const void *src, size_t bytes, void *stream);
    int (*stream_ops)(void *stream, unsigned count, struct braid_cu_stream_op *ops, unsigned flags);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*stream_query)(void *stream);
    int (*stream_wait)(void *stream, void *event, unsigned flags);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*host_alloc)(void **pointer, size_t bytes, unsigned flags);
    int (*host_free)(void *pointer);
    int (*host_device_pointer)(uint64_t *address, void *pointer, unsigned flags);
};

/* 0; -ENODEV with the reason in `why`. */
int braid_ops_cuda_get(const struct braid_ops_cuda **cuda_p, char *why, size_t why_bytes);

#endif
