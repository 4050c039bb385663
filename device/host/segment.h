/*
 * Segments: pieces of GPU memory made and mapped with CUDA's virtual memory management, and their reference count inside a process.
 * Called by: window.c. The caller has made the communicator's context current. Threading: as for the communicator, except the
 * reference count, which all communicators of a process share.
 */
#ifndef BRAID_DEVICE_HOST_SEGMENT_H
#define BRAID_DEVICE_HOST_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "device/host/driver.h"

/* A mapping of physical memory: this rank's own, or a peer's. */
struct braid_segment {
    uint64_t address; /* 0 = nothing mapped */
    uint64_t bytes;   /* a multiple of the granularity */
    uint64_t handle;  /* held while mapped; 0 = none */
};

/*
 * Makes a segment of at least `bytes` on GPU `gpu`, exportable as `handle_type` (BRAID_CU_HANDLE_*), mapped with access for the GPUs
 * gpus[0..count). Returns 0 or a negative errno (logged).
 */
int braid_segment_create(const struct braid_cuda *cuda, int gpu, uint64_t bytes, int handle_type,
                         const int *gpus, int count, struct braid_segment *segment);

/* Maps memory of a peer, given as file descriptor (stays the caller's) or fabric handle, for access by `gpu`. Logs nothing:
 * returns 0 or a negative errno, and the driver's result in *result_p. */
int braid_segment_import(const struct braid_cuda *cuda, int gpu, int handle_type, void *shareable,
                         uint64_t bytes, struct braid_segment *segment, int *result_p);

/* Unmaps and releases. Nothing mapped is fine. */
void braid_segment_destroy(const struct braid_cuda *cuda, struct braid_segment *segment);

#endif
