/*
 * The little of the CUDA driver that staging needs: which GPU a pointer belongs to, pinned host memory, and copies between the two by
 * copy engine. libcuda is opened at run time (BRAID_CUDA_LIBRARY), when the first GPU buffer is registered; nothing here synchronises a
 * device or a context, and the streams are Braid's own and non-blocking, so that they never wait for, nor alias, a user's.
 * Threading: any thread. Every call pushes the GPU's primary context and pops it again, so the caller's current context stays.
 */
#ifndef BRAID_SOCKET_CUDA_H
#define BRAID_SOCKET_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct braid_gpu;

/* A copy under way. Zeroed before its first use; its event is made then and lives until braid_copy_free(). */
struct braid_copy {
    struct braid_gpu *gpu;
    void *event;
};

/* 0 when the driver is there; -ENOSYS with a reason in `why`. Does not start the driver in this process. */
int braid_cuda_find(char *why, size_t why_bytes);

/*
 * The GPU that holds `ptr`. Takes a reference to its primary context at first, kept until braid_cuda_stop(). A negative errno when `ptr` is
 * not GPU memory or the driver fails; `why` tells.
 */
int braid_gpu_of(const void *ptr, struct braid_gpu **gpu_p, char *why, size_t why_bytes);

/* Pinned host memory that every GPU can reach; NULL when there is none left. Connection set-up only: the driver may wait. */
void *braid_pinned_new(struct braid_gpu *gpu, size_t bytes);
void braid_pinned_free(struct braid_gpu *gpu, void *memory);

/*
 * Start one copy on one of the GPU's streams; `lane` spreads callers over streams, and copies with equal `lane`, direction and GPU end in
 * the order in which they began. 0 or a negative errno.
 */
int braid_copy_to_host(struct braid_copy *copy, struct braid_gpu *gpu, unsigned lane, void *host,
                       const void *device, size_t bytes);
int braid_copy_to_gpu(struct braid_copy *copy, struct braid_gpu *gpu, unsigned lane, void *device,
                      const void *host, size_t bytes);
/* 1: it has ended, and kernels that already run see it; 0: not yet; a negative errno: the GPU is lost. */
int braid_copy_test(struct braid_copy *copy);
void braid_copy_free(struct braid_copy *copy);

/* Gives streams and contexts back. No copy is under way and no pinned memory is left. */
void braid_cuda_stop(void);

#endif
