/*
 * A CUDA driver without a GPU, as libcuda.so.1 for tests: "GPU memory" is a memory file that is mapped where the real driver would
 * map memory, so that processes share it by descriptor, addresses are the same for host and "GPU", and kernels written against the
 * host layer of the device headers run on it. It decodes the public interface only; no file of device/host is used here.
 * Every call that can fail counts, and the n-th can be made to fail (fake_cuda.h).
 * Threading: any; one lock.
 */
#include "tests/unit/device/fake_cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The prototypes are those of cuda.h, which need not be there. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define API      __attribute__((visibility("default")))
#define MAX_MAPS 4096

enum {
    OK = 0,
    INVALID = 1,
    NO_MEMORY = 2,
    NOT_READY = 600,
    ALREADY = 704,
    DENIED = 800,
    UNSUPPORTED = 801
};

API struct fake_cuda fake_cuda = {.gpus = 2, .max_ctas_per_sm = 2, .memory_gpu = -1};

struct memory {
    int fd;
    size_t bytes;
    int references;
    int types;
};

struct mapping {
    char *address;
    size_t bytes;
    struct memory *memory; /* NULL = only reserved */
    int is_allocation;     /* of cuMemAlloc: IPC handles work, VMM calls do not */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping maps[MAX_MAPS];
static int contexts[8]; /* the address of an entry is a context */
static _Thread_local void *stack[16];
static _Thread_local int depth;

/* Counts a call; nonzero when this one shall fail. */
static int fails(void)
{
    int bad;

    pthread_mutex_lock(&lock);
    fake_cuda.calls++;
    bad = fake_cuda.fail_at > 0 && --fake_cuda.fail_at == 0;
    pthread_mutex_unlock(&lock);
    return bad;
}

#define ENTER()                                                                                    \
    do {                                                                                           \
        if (fails())                                                                               \
            return NO_MEMORY;                                                                      \
    } while (0)

static void live(int change)
{
    __atomic_add_fetch(&fake_cuda.live, change, __ATOMIC_RELAXED);
}

static struct mapping *find_map(uint64_t address)
{
    for (int i = 0; i < MAX_MAPS; i++) {
        uint64_t base = (uint64_t)(uintptr_t)maps[i].address;

        if (base != 0 && address >= base && address < base + maps[i].bytes)
            return &maps[i];
    }
    return NULL;
}

static struct mapping *add_map(char *address, size_t bytes)
{
    for (int i = 0; i < MAX_MAPS; i++) {
        if (maps[i].address == NULL) {
            maps[i] = (struct mapping){address, bytes, NULL, 0};
            live(1);
            return &maps[i];
        }
    }
    abort();
}

static struct memory *new_memory(int fd, size_t bytes, int types)
{
    struct memory *m = calloc(1, sizeof(*m));

    m->fd = fd;
    m->bytes = bytes;
    m->references = 1;
    m->types = types;
    live(1);
    return m;
}

static void drop_memory(struct memory *m)
{
    if (m == NULL || --m->references > 0)
        return;
    close(m->fd);
    free(m);
    live(-1);
}

API int cuInit(unsigned flags)
{
    return OK;
}

API int cuGetErrorName(int result, const char **name)
{
    *name = result == NO_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == INVALID     ? "CUDA_ERROR_INVALID_VALUE"
            : result == UNSUPPORTED ? "CUDA_ERROR_NOT_SUPPORTED"
            : result == DENIED      ? "CUDA_ERROR_NOT_PERMITTED"
                                    : "CUDA_ERROR_OTHER";
    return OK;
}

API int cuDeviceGetCount(int *count)
{
    *count = fake_cuda.gpus;
    return OK;
}

API int cuDeviceGet(int *device, int ordinal)
{
    if (ordinal < 0 || ordinal >= fake_cuda.gpus)
        return 101;
    *device = ordinal;
    return OK;
}

API int cuDeviceGetUuid_v2(void *uuid, int device)
{
    memset(uuid, 0x40 + device, 16);
    return OK;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    switch (attribute) {
    case 16: *value = 132; break;                    /* SMs */
    case 128: *value = fake_cuda.fabric != 0; break; /* fabric handles */
    default: *value = 1;
    }
    return OK;
}

API int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer && !fake_cuda.no_peer;
    return OK;
}

API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    ENTER();
    if (device < 0 || device >= fake_cuda.gpus)
        return 101;
    *context = &contexts[device];
    live(1);
    return OK;
}

API int cuDevicePrimaryCtxRelease_v2(int device)
{
    live(-1);
    return OK;
}

API int cuCtxPushCurrent_v2(void *context)
{
    if (depth >= 16)
        return INVALID;
    stack[depth++] = context;
    return OK;
}

API int cuCtxPopCurrent_v2(void **context)
{
    if (depth == 0)
        return 201;
    *context = stack[--depth];
    return OK;
}

API int cuCtxGetCurrent(void **context)
{
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return OK;
}

API int cuCtxGetDevice(int *device)
{
    if (depth == 0)
        return 201;
    *device = (int)((int *)stack[depth - 1] - contexts);
    return OK;
}

API int cuCtxSynchronize(void)
{
    while (__atomic_load_n(&fake_cuda.busy, __ATOMIC_ACQUIRE))
        usleep(500);
    return OK;
}

API int cuCtxEnablePeerAccess(void *context, unsigned flags)
{
    ENTER();
    return fake_cuda.no_peer ? INVALID : ALREADY;
}

struct allocation {
    int type, handle_types, location_type, device;
    void *win32;
    uint8_t flags[8];
};

API int cuMemGetAllocationGranularity(size_t *bytes, const struct allocation *a, int kind)
{
    ENTER();
    *bytes = 2u << 20;
    return OK;
}

API int cuMemCreate(uint64_t *handle, size_t bytes, const struct allocation *a,
                    unsigned long long flags)
{
    int fd;

    ENTER();
    if (a->type != 1 || a->location_type != 1 || a->win32 != NULL || bytes % (2u << 20) != 0)
        return INVALID;
    if (a->handle_types == 8 && !fake_cuda.fabric)
        return DENIED;
    fd = memfd_create("gpu", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return NO_MEMORY;
    pthread_mutex_lock(&lock);
    *handle = (uint64_t)(uintptr_t)new_memory(fd, bytes, a->handle_types);
    pthread_mutex_unlock(&lock);
    return OK;
}

API int cuMemRelease(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    drop_memory((struct memory *)(uintptr_t)handle);
    pthread_mutex_unlock(&lock);
    return OK;
}

API int cuMemRetainAllocationHandle(uint64_t *handle, void *address)
{
    struct mapping *m;
    int rc = INVALID;

    ENTER();
    pthread_mutex_lock(&lock);
    m = find_map((uint64_t)(uintptr_t)address);
    if (m != NULL && m->memory != NULL && !m->is_allocation) {
        m->memory->references++;
        *handle = (uint64_t)(uintptr_t)m->memory;
        rc = OK;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

API int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t hint,
                            unsigned long long flags)
{
    char *p;

    ENTER();
    p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NO_MEMORY;
    pthread_mutex_lock(&lock);
    add_map(p, bytes);
    pthread_mutex_unlock(&lock);
    *address = (uint64_t)(uintptr_t)p;
    return OK;
}

API int cuMemAddressFree(uint64_t address, size_t bytes)
{
    struct mapping *m;

    pthread_mutex_lock(&lock);
    m = find_map(address);
    if (m == NULL || m->memory != NULL || m->bytes != bytes)
        abort(); /* still mapped, or not ours: a bug of the caller */
    munmap(m->address, m->bytes);
    m->address = NULL;
    live(-1);
    pthread_mutex_unlock(&lock);
    return OK;
}

API int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
                 unsigned long long flags)
{
    struct memory *memory = (struct memory *)(uintptr_t)handle;
    struct mapping *m;
    int rc = INVALID;

    ENTER();
    pthread_mutex_lock(&lock);
    m = find_map(address);
    if (m != NULL && m->memory == NULL && m->bytes == bytes && memory->bytes == bytes) {
        m->memory = memory;
        memory->references++;
        live(1);
        rc = OK;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

API int cuMemUnmap(uint64_t address, size_t bytes)
{
    struct mapping *m;

    pthread_mutex_lock(&lock);
    m = find_map(address);
    if (m == NULL || m->memory == NULL || m->bytes != bytes)
        abort();
    mmap(m->address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
         0);
    drop_memory(m->memory);
    m->memory = NULL;
    live(-1);
    pthread_mutex_unlock(&lock);
    return OK;
}

/* The memory becomes accessible with the first GPU that is given access. */
API int cuMemSetAccess(uint64_t address, size_t bytes, const void *access, size_t count)
{
    struct mapping *m;
    int rc = INVALID;

    ENTER();
    pthread_mutex_lock(&lock);
    m = find_map(address);
    if (m != NULL && m->memory != NULL && m->bytes == bytes &&
        mmap(m->address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->memory->fd, 0) !=
            MAP_FAILED)
        rc = OK;
    pthread_mutex_unlock(&lock);
    return rc;
}

API int cuMemExportToShareableHandle(void *out, uint64_t handle, int type, unsigned long long flags)
{
    struct memory *m = (struct memory *)(uintptr_t)handle;
    int fd;

    ENTER();
    if ((m->types & type) == 0)
        return INVALID;
    if (type == 1) {
        fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return NO_MEMORY;
        memcpy(out, &fd, sizeof(fd));
        return OK;
    }
    memset(out, 0, 64);
    snprintf(out, 64, "/proc/%d/fd/%d", getpid(), m->fd);
    return OK;
}

API int cuMemImportFromShareableHandle(uint64_t *handle, void *shareable, int type)
{
    int fd;

    ENTER();
    if (type == 1)
        fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);
    else
        fd = fake_cuda.fabric == 2 ? -1 : open(shareable, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return INVALID;
    pthread_mutex_lock(&lock);
    *handle = (uint64_t)(uintptr_t)new_memory(fd, (size_t)lseek(fd, 0, SEEK_END), type);
    pthread_mutex_unlock(&lock);
    return OK;
}

API int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t address)
{
    struct mapping *m;
    int rc = INVALID;

    ENTER();
    pthread_mutex_lock(&lock);
    m = find_map(address);
    if (m != NULL && m->memory != NULL) {
        *base = (uint64_t)(uintptr_t)m->address;
        *bytes = m->bytes;
        rc = OK;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int map_file(uint64_t *address, int fd, size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct mapping *m;

    if (p == MAP_FAILED)
        return NO_MEMORY;
    pthread_mutex_lock(&lock);
    m = add_map(p, bytes);
    m->memory = new_memory(fd, bytes, 0);
    m->is_allocation = 1;
    pthread_mutex_unlock(&lock);
    *address = (uint64_t)(uintptr_t)p;
    return OK;
}

static int unmap_file(uint64_t address)
{
    struct mapping *m;

    pthread_mutex_lock(&lock);
    m = find_map(address);
    if (m == NULL || !m->is_allocation || (uint64_t)(uintptr_t)m->address != address)
        abort();
    munmap(m->address, m->bytes);
    drop_memory(m->memory);
    m->address = NULL;
    m->memory = NULL;
    live(-1);
    pthread_mutex_unlock(&lock);
    return OK;
}

API int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    int fd;

    ENTER();
    fd = memfd_create("allocation", MFD_CLOEXEC);
    bytes = (bytes + 511) / 512 * 512;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return NO_MEMORY;
    return map_file(address, fd, bytes);
}

API int cuMemFree_v2(uint64_t address)
{
    return unmap_file(address);
}

struct ipc {
    char path[64];
};

API int cuIpcGetMemHandle(struct ipc *handle, uint64_t address)
{
    struct mapping *m;
    int rc = INVALID;

    ENTER();
    pthread_mutex_lock(&lock);
    m = find_map(address);
    if (m != NULL && m->is_allocation) {
        memset(handle, 0, sizeof(*handle));
        snprintf(handle->path, sizeof(handle->path), "/proc/%d/fd/%d", getpid(), m->memory->fd);
        rc = OK;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

API int cuIpcOpenMemHandle_v2(uint64_t *address, struct ipc handle, unsigned flags)
{
    int fd;

    ENTER();
    fd = open(handle.path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return INVALID;
    return map_file(address, fd, (size_t)lseek(fd, 0, SEEK_END));
}

API int cuIpcCloseMemHandle(uint64_t address)
{
    return unmap_file(address);
}

API int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
    if (attribute != 9 || fake_cuda.memory_gpu < 0)
        return INVALID;
    memcpy(value, &fake_cuda.memory_gpu, sizeof(fake_cuda.memory_gpu));
    return OK;
}

API int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    ENTER();
    *pointer = calloc(1, bytes);
    live(1);
    return OK;
}

API int cuMemFreeHost(void *pointer)
{
    free(pointer);
    live(-1);
    return OK;
}

API int cuMemHostGetDevicePointer_v2(uint64_t *address, void *pointer, unsigned flags)
{
    ENTER();
    *address = (uint64_t)(uintptr_t)pointer;
    return OK;
}

API int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, void *stream)
{
    ENTER();
    memcpy((void *)(uintptr_t)dst, src, bytes);
    return OK;
}

API int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, void *stream)
{
    ENTER();
    memcpy(dst, (void *)(uintptr_t)src, bytes);
    return OK;
}

API int cuMemsetD8Async(uint64_t dst, unsigned char value, size_t bytes, void *stream)
{
    ENTER();
    memset((void *)(uintptr_t)dst, value, bytes);
    return OK;
}

API int cuStreamCreate(void **stream, unsigned flags)
{
    ENTER();
    *stream = malloc(1);
    live(1);
    return OK;
}

API int cuStreamDestroy_v2(void *stream)
{
    free(stream);
    live(-1);
    return OK;
}

API int cuStreamSynchronize(void *stream)
{
    ENTER();
    return OK;
}

API int cuStreamQuery(void *stream)
{
    return __atomic_load_n(&fake_cuda.busy, __ATOMIC_ACQUIRE) ? NOT_READY : OK;
}

API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ctas, void *function, int threads,
                                                    size_t shared_bytes)
{
    ENTER();
    *ctas = threads > 1024 ? 0 : fake_cuda.max_ctas_per_sm;
    return OK;
}

API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared_bytes, void *stream,
                       void **arguments, void **extra)
{
    ENTER();
    ((struct fake_function *)function)->run(arguments, gx, bx);
    return OK;
}

API int cuFuncLoad(void *function)
{
    ENTER();
    return OK;
}

API int cuModuleGetLoadingMode(int *mode)
{
    *mode = 1;
    return OK;
}
