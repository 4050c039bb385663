/*
 * A bootstrap over an ncclComm_t: its all-gather moves the bytes through GPU memory. NCCL's functions come from the library that
 * the caller names or that the process has loaded; their declarations here are what NCCL has kept since before 2.19.
 * Implements braid_comm_create_nccl. Threading: as for the communicator.
 */
#include "device/host/host.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"

struct braid_nccl_boot {
    void *comm;
    int (*user_rank)(void *comm, int *rank);
    int (*count)(void *comm, int *count);
    int (*device)(void *comm, int *device);
    int (*all_gather)(const void *send, void *receive, size_t count, int type, void *comm,
                      void *stream);
    int (*async_error)(void *comm, int *result);
    const struct braid_cuda *cuda;
    void *context;
    void *stream;
    int rank, ranks, gpu;
    uint64_t timeout_ns;
    uint64_t buffer; /* GPU memory: one part to send, then `ranks` parts to receive */
    size_t buffer_bytes;
    bool late; /* an all-gather did not end in time: NCCL may still put it on the stream */
};

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_INT8 = 0 };

static int find(struct braid_nccl_boot *boot, void *library)
{
    static const struct {
        const char *name;
        size_t offset;
    } wanted[] = {
        {"ncclCommUserRank", offsetof(struct braid_nccl_boot, user_rank)},
        {"ncclCommCount", offsetof(struct braid_nccl_boot, count)},
        {"ncclCommCuDevice", offsetof(struct braid_nccl_boot, device)},
        {"ncclAllGather", offsetof(struct braid_nccl_boot, all_gather)},
        {"ncclCommGetAsyncError", offsetof(struct braid_nccl_boot, async_error)},
    };

    if (library == NULL && dlsym(RTLD_DEFAULT, wanted[0].name) != NULL)
        library = RTLD_DEFAULT;
    else if (library == NULL)
        library =
            dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL); /* the one in use, if it is loaded */
    else
        dlerror();
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        void *symbol = dlsym(library, wanted[i].name);

        if (symbol == NULL) {
            BRAID_WARN("NCCL as bootstrap: %s not found; pass the handle of the library",
                       wanted[i].name);
            return -ENOSYS;
        }
        memcpy((char *)boot + wanted[i].offset, &symbol, sizeof(symbol));
    }
    return 0;
}

/* The communicator's own state: 0, or -EIO with the reason said. */
static int check_nccl(struct braid_nccl_boot *boot, int *nccl_p)
{
    if (boot->async_error(boot->comm, nccl_p) == NCCL_SUCCESS &&
        (*nccl_p == NCCL_SUCCESS || *nccl_p == NCCL_IN_PROGRESS))
        return 0;
    BRAID_WARN("NCCL as bootstrap: the communicator failed with NCCL result %d", *nccl_p);
    return -EIO;
}

static int too_late(struct braid_nccl_boot *boot)
{
    boot->late = true;
    BRAID_WARN("NCCL as bootstrap: an all-gather did not end within %llu ms",
               (unsigned long long)(boot->timeout_ns / BRAID_NS_PER_MS));
    return -ETIMEDOUT;
}

/*
 * Waits within the bound until the all-gather is done: first, of a non-blocking communicator, until NCCL has put it on the stream
 * (`nccl` is what ncclAllGather returned), then for the stream.
 */
static int wait_gathered(struct braid_nccl_boot *boot, int nccl)
{
    uint64_t deadline = braid_now_ns() + boot->timeout_ns;
    int result, rc;

    while (nccl == NCCL_IN_PROGRESS) {
        rc = check_nccl(boot, &nccl);
        if (rc != 0)
            return rc;
        if (nccl != NCCL_IN_PROGRESS)
            break;
        if (braid_now_ns() > deadline)
            return too_late(boot);
        braid_sleep_ns(20 * BRAID_NS_PER_US);
    }
    while ((result = boot->cuda->stream_query(boot->stream)) == BRAID_CU_NOT_READY) {
        rc = check_nccl(boot, &nccl);
        if (rc != 0)
            return rc;
        if (braid_now_ns() > deadline)
            return too_late(boot);
        braid_sleep_ns(20 * BRAID_NS_PER_US);
    }
    return braid_cuda_errno(result);
}

static int reserve(struct braid_nccl_boot *boot, size_t part)
{
    size_t bytes = part * (size_t)(boot->ranks + 1);
    int result;

    if (bytes <= boot->buffer_bytes)
        return 0;
    if (boot->buffer != 0)
        boot->cuda->mem_free(boot->buffer);
    boot->buffer = 0;
    boot->buffer_bytes = 0;
    result = boot->cuda->mem_alloc(&boot->buffer, bytes);
    if (result == BRAID_CU_SUCCESS)
        boot->buffer_bytes = bytes;
    return braid_cuda_errno(result);
}

static int gather(struct braid_nccl_boot *boot, const void *mine, void *all, size_t bytes)
{
    const struct braid_cuda *cuda = boot->cuda;
    size_t part = (bytes + 15) / 16 * 16;
    int nccl, rc = reserve(boot, part);

    if (rc != 0)
        return rc;
    rc = braid_cuda_errno(cuda->copy_to_device(boot->buffer, mine, bytes, boot->stream));
    if (rc != 0)
        return rc;
    nccl =
        boot->all_gather((void *)(uintptr_t)boot->buffer, (void *)(uintptr_t)(boot->buffer + part),
                         bytes, NCCL_INT8, boot->comm, boot->stream);
    if (nccl != NCCL_SUCCESS && nccl != NCCL_IN_PROGRESS) {
        BRAID_WARN("NCCL as bootstrap: ncclAllGather failed with NCCL result %d", nccl);
        return -EIO;
    }
    rc = wait_gathered(boot, nccl);
    if (rc != 0)
        return rc;
    rc = braid_cuda_errno(
        cuda->copy_to_host(all, boot->buffer + part, bytes * (size_t)boot->ranks, boot->stream));
    return rc != 0 ? rc : braid_cuda_errno(cuda->stream_synchronize(boot->stream));
}

static int boot_allgather(void *context, const void *mine, void *all, size_t bytes)
{
    struct braid_nccl_boot *boot = context;
    void *popped;
    int rc = braid_cuda_errno(boot->cuda->context_push(boot->context));

    if (rc != 0)
        return rc;
    rc = gather(boot, mine, all, bytes);
    boot->cuda->context_pop(&popped);
    return rc;
}

static int boot_rank(void *context)
{
    return ((struct braid_nccl_boot *)context)->rank;
}

static int boot_ranks(void *context)
{
    return ((struct braid_nccl_boot *)context)->ranks;
}

int braid_nccl_boot_open(struct braid_nccl_boot **boot_p, void *nccl_comm, void *nccl_library,
                         uint64_t timeout_ns, struct braid_bootstrap *bootstrap, int *gpu_p)
{
    struct braid_nccl_boot *boot = calloc(1, sizeof(*boot));
    char why[200];
    void *popped;
    int rc;

    if (boot == NULL)
        return -ENOMEM;
    boot->comm = nccl_comm;
    boot->timeout_ns = timeout_ns;
    rc = find(boot, nccl_library);
    if (rc != 0)
        goto err_free;
    rc = braid_cuda_get(&boot->cuda, why, sizeof(why));
    if (rc != 0) {
        BRAID_WARN("no device communicator: %s", why);
        goto err_free;
    }
    rc = -EINVAL;
    if (boot->user_rank(nccl_comm, &boot->rank) != NCCL_SUCCESS ||
        boot->count(nccl_comm, &boot->ranks) != NCCL_SUCCESS ||
        boot->device(nccl_comm, &boot->gpu) != NCCL_SUCCESS) {
        BRAID_WARN("NCCL as bootstrap: the communicator does not tell its rank, size and GPU");
        goto err_free;
    }
    rc = braid_cuda_errno(boot->cuda->primary_retain(&boot->context, boot->gpu));
    if (rc != 0)
        goto err_free;
    rc = braid_cuda_errno(boot->cuda->context_push(boot->context));
    if (rc == 0) {
        rc = braid_cuda_errno(
            boot->cuda->stream_create(&boot->stream, BRAID_CU_STREAM_NON_BLOCKING));
        boot->cuda->context_pop(&popped);
    }
    if (rc != 0)
        goto err_release;
    bootstrap->context = boot;
    bootstrap->rank = boot_rank;
    bootstrap->ranks = boot_ranks;
    bootstrap->allgather = boot_allgather;
    *gpu_p = boot->gpu;
    *boot_p = boot;
    return 0;

err_release:
    boot->cuda->primary_release(boot->gpu);
err_free:
    free(boot);
    return rc;
}

void braid_nccl_boot_close(struct braid_nccl_boot *boot)
{
    void *popped;

    if (boot == NULL)
        return;
    /* After a timeout NCCL still has the stream and the buffer: then nothing here may be freed. */
    if (!boot->late && boot->cuda->context_push(boot->context) == BRAID_CU_SUCCESS) {
        if (boot->cuda->stream_query(boot->stream) != BRAID_CU_NOT_READY) {
            if (boot->buffer != 0)
                boot->cuda->mem_free(boot->buffer);
            boot->cuda->stream_destroy(boot->stream);
        }
        boot->cuda->context_pop(&popped);
    }
    boot->cuda->primary_release(boot->gpu);
    free(boot);
}

int braid_comm_create_nccl(struct braid_comm **comm_p, void *nccl_comm, void *nccl_library,
                           const struct braid_comm_config *config)
{
    struct braid_comm_config resolved;
    struct braid_bootstrap bootstrap;
    struct braid_nccl_boot *boot;
    int gpu, rc;

    if (comm_p == NULL || nccl_comm == NULL)
        return -EINVAL;
    rc = braid_config_resolve(config, &resolved);
    if (rc != 0)
        return rc;
    rc =
        braid_nccl_boot_open(&boot, nccl_comm, nccl_library, resolved.timeout_ns, &bootstrap, &gpu);
    if (rc != 0)
        return rc;
    if (resolved.device >= 0 && resolved.device != gpu) {
        BRAID_WARN("the ncclComm_t is on GPU %d, not %d", gpu, resolved.device);
        braid_nccl_boot_close(boot);
        return -EINVAL;
    }
    resolved.device = gpu;
    return braid_comm_build(comm_p, &bootstrap, &resolved, boot);
}
