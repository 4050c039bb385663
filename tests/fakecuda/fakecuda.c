/*
 * A CUDA driver without a GPU; see README.md. State: one table of allocations, one queue of work, one thread that does it.
 * Threading: any thread, as the driver; the thread starts with the first stream, so after a fork.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The driver's own header declares these; this library is built without it. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

typedef int CUresult;
#define API CUresult __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    NOT_READY = 600,
    CAPTURE_UNSUPPORTED = 900,
};

#define RANGES   8192
#define LATE_US  15
#define MAGIC_CT ((void *)0x1c0de)

struct range {
    uint8_t *device, *view; /* of device memory; a pinned range has view NULL */
    size_t bytes;
    unsigned copies; /* under way */
};

struct event {
    unsigned pending;
    bool recorded;
};

struct work {
    struct work *next;
    struct event *event; /* NULL: a copy */
    uint8_t *dst;
    const uint8_t *src;
    size_t bytes;
    struct range *device, *host;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct range ranges[RANGES];
    struct work *first, **last;
    bool running;
    bool busy;
    unsigned contexts;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .last = &fake.first};

static _Thread_local void *current[8];
static _Thread_local unsigned depth;
static _Thread_local int capture_mode; /* 2: relaxed */

static void __attribute__((format(printf, 1, 2), noreturn)) die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fprintf(stderr, "fakecuda: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

static bool has_context(void)
{
    return depth > 0 && current[depth - 1] == MAGIC_CT;
}

/* -- the thread ---------------------------------------------------------------------------------------------------------------- */

static void do_copy(struct work *work)
{
    size_t half = work->bytes / 2;

    usleep(LATE_US);
    memcpy(work->dst, work->src, half);
    usleep(LATE_US / 3);
    memcpy(work->dst + half, work->src + half, work->bytes - half);
}

static void *run(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&fake.lock);
    for (;;) {
        struct work *work = fake.first;
        if (work == NULL) {
            pthread_cond_wait(&fake.more, &fake.lock);
            continue;
        }
        fake.first = work->next;
        if (fake.first == NULL)
            fake.last = &fake.first;
        if (work->event != NULL) {
            work->event->pending--;
        } else {
            pthread_mutex_unlock(&fake.lock);
            do_copy(work);
            pthread_mutex_lock(&fake.lock);
            work->device->copies--;
            work->host->copies--;
        }
        free(work);
    }
    return NULL;
}

static void queue(struct work work)
{
    struct work *copy = malloc(sizeof(*copy));

    *copy = work;
    copy->next = NULL;
    *fake.last = copy;
    fake.last = &copy->next;
    pthread_cond_signal(&fake.more);
}

/* -- memory --------------------------------------------------------------------------------------------------------------------- */

static struct range *find(const void *at, bool device)
{
    const uint8_t *p = at;

    for (unsigned i = 0; i < RANGES; i++) {
        struct range *r = &fake.ranges[i];
        if (r->device != NULL && (r->view != NULL) == device && p >= r->device &&
            p < r->device + r->bytes)
            return r;
    }
    return NULL;
}

static struct range *free_range(void)
{
    for (unsigned i = 0; i < RANGES; i++)
        if (fake.ranges[i].device == NULL)
            return &fake.ranges[i];
    die("out of ranges");
}

API cuMemAlloc_v2(uint64_t *device, size_t bytes)
{
    int fd = memfd_create("fakecuda", MFD_CLOEXEC);
    struct range r = {.bytes = bytes};

    if (!has_context())
        return INVALID_CONTEXT;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return OUT_OF_MEMORY;
    r.view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    r.device = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    close(fd);
    if (r.view == MAP_FAILED || r.device == MAP_FAILED)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&fake.lock);
    *free_range() = r;
    pthread_mutex_unlock(&fake.lock);
    *device = (uintptr_t)r.device;
    return SUCCESS;
}

API cuMemFree_v2(uint64_t device)
{
    struct range *r;

    pthread_mutex_lock(&fake.lock);
    r = find((void *)(uintptr_t)device, true);
    if (r == NULL || (uintptr_t)r->device != device)
        die("free of what is no allocation");
    if (r->copies > 0)
        die("device memory is freed while %u copies use it", r->copies);
    munmap(r->device, r->bytes);
    munmap(r->view, r->bytes);
    memset(r, 0, sizeof(*r));
    pthread_mutex_unlock(&fake.lock);
    return SUCCESS;
}

/* Where the CPU may look at device memory. */
__attribute__((visibility("default"))) void *fakecuda_view(uint64_t device)
{
    struct range *r;
    void *view;

    pthread_mutex_lock(&fake.lock);
    r = find((void *)(uintptr_t)device, true);
    view = r != NULL ? r->view + (device - (uintptr_t)r->device) : NULL;
    pthread_mutex_unlock(&fake.lock);
    return view;
}

API cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    if (capture_mode != 2)
        return CAPTURE_UNSUPPORTED;
    if (!has_context())
        return INVALID_CONTEXT;
    *memory = malloc(bytes);
    pthread_mutex_lock(&fake.lock);
    *free_range() = (struct range){.device = *memory, .bytes = bytes};
    pthread_mutex_unlock(&fake.lock);
    return SUCCESS;
}

API cuMemFreeHost(void *memory)
{
    struct range *r;

    pthread_mutex_lock(&fake.lock);
    r = find(memory, false);
    if (r == NULL || r->copies > 0)
        die("pinned memory is freed that is none, or while copies use it");
    free(r->device);
    memset(r, 0, sizeof(*r));
    pthread_mutex_unlock(&fake.lock);
    return SUCCESS;
}

API cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
    struct range *r;

    pthread_mutex_lock(&fake.lock);
    r = find((void *)(uintptr_t)pointer, true);
    if (r == NULL) /* an empty buffer at the end of an allocation */
        r = find((void *)(uintptr_t)(pointer - 1), true);
    pthread_mutex_unlock(&fake.lock);
    if (attribute != 9 || r == NULL)
        return INVALID_VALUE;
    *(int *)value = 0;
    return SUCCESS;
}

/* -- contexts ------------------------------------------------------------------------------------------------------------------- */

API cuInit(unsigned flags)
{
    return flags == 0 ? SUCCESS : INVALID_VALUE;
}

API cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal == 0 ? SUCCESS : INVALID_VALUE;
}

API cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    __atomic_add_fetch(&fake.contexts, 1, __ATOMIC_SEQ_CST);
    *context = MAGIC_CT;
    return SUCCESS;
}

API cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    if (__atomic_sub_fetch(&fake.contexts, 1, __ATOMIC_SEQ_CST) == ~0u)
        die("a context is released more often than retained");
    return SUCCESS;
}

API cuCtxPushCurrent_v2(void *context)
{
    if (context != MAGIC_CT || depth == 8)
        return INVALID_CONTEXT;
    current[depth++] = context;
    return SUCCESS;
}

API cuCtxPopCurrent_v2(void **context)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    *context = current[--depth];
    return SUCCESS;
}

API cuThreadExchangeStreamCaptureMode(int *mode)
{
    int old = capture_mode;

    capture_mode = *mode;
    *mode = old;
    return SUCCESS;
}

/* -- streams and events ----------------------------------------------------------------------------------------------------------- */

API cuStreamCreate(void **stream, unsigned flags)
{
    pthread_t thread;

    if (!has_context())
        return INVALID_CONTEXT;
    if (flags != 1)
        die("a stream that is not non-blocking waits for the user's default stream");
    pthread_mutex_lock(&fake.lock);
    if (!fake.running && pthread_create(&thread, NULL, run, NULL) == 0) {
        pthread_detach(thread);
        fake.running = true;
    }
    pthread_mutex_unlock(&fake.lock);
    *stream = malloc(1);
    return SUCCESS;
}

API cuStreamDestroy_v2(void *stream)
{
    free(stream);
    return SUCCESS;
}

API cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    if (!has_context())
        return INVALID_CONTEXT;
    *event = calloc(1, sizeof(struct event));
    return SUCCESS;
}

API cuEventDestroy_v2(void *event)
{
    struct event *e = event;

    pthread_mutex_lock(&fake.lock);
    if (e->pending > 0)
        die("an event is destroyed while copies before it run");
    pthread_mutex_unlock(&fake.lock);
    free(event);
    return SUCCESS;
}

API cuEventRecord(void *event, void *stream)
{
    struct event *e = event;

    if (!has_context())
        return INVALID_CONTEXT;
    if (stream == NULL)
        die("an event is recorded in the default stream, which is the user's");
    pthread_mutex_lock(&fake.lock);
    e->pending++;
    e->recorded = true;
    queue((struct work){.event = e});
    pthread_mutex_unlock(&fake.lock);
    return SUCCESS;
}

API cuEventQuery(void *event)
{
    struct event *e = event;
    CUresult result;

    if (!has_context())
        return INVALID_CONTEXT;
    if (capture_mode != 2)
        return CAPTURE_UNSUPPORTED; /* as if somebody captured a graph all the time */
    pthread_mutex_lock(&fake.lock);
    result = e->pending > 0 ? NOT_READY : SUCCESS;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static CUresult copy(uint64_t device, const void *host, size_t bytes, void *stream, bool to_device)
{
    struct range *d, *h;
    uint8_t *view;

    if (!has_context())
        return INVALID_CONTEXT;
    if (stream == NULL)
        die("a copy in the default stream, which is the user's");
    pthread_mutex_lock(&fake.lock);
    d = find((void *)(uintptr_t)device, true);
    h = find(host, false);
    if (d == NULL || device + bytes > (uintptr_t)d->device + d->bytes)
        die("a copy of %zu bytes leaves its allocation", bytes);
    if (h == NULL || (const uint8_t *)host + bytes > h->device + h->bytes)
        die("a copy of %zu bytes from or to host memory that is not pinned", bytes);
    view = d->view + (device - (uintptr_t)d->device);
    d->copies++;
    h->copies++;
    queue((struct work){.dst = to_device ? view : (uint8_t *)(uintptr_t)host,
                        .src = to_device ? (const uint8_t *)host : view,
                        .bytes = bytes,
                        .device = d,
                        .host = h});
    pthread_mutex_unlock(&fake.lock);
    return SUCCESS;
}

API cuMemcpyHtoDAsync_v2(uint64_t device, const void *host, size_t bytes, void *stream)
{
    return copy(device, host, bytes, stream, true);
}

API cuMemcpyDtoHAsync_v2(void *host, uint64_t device, size_t bytes, void *stream)
{
    return copy(device, host, bytes, stream, false);
}

API cuGetErrorName(CUresult error, const char **name)
{
    *name = error == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR";
    return SUCCESS;
}
