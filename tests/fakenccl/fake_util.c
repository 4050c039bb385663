/* Time, patterns, guarded buffers and worker threads of the fake NCCL core (see fake_util.h). */
#include "fake_util.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * FAKE_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t fake_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t fake_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t fake_process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void fake_sleep_ms(unsigned ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
        ;
}

uint64_t fake_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15ull;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 32);
}

static uint64_t word_at(uint64_t seed, size_t index)
{
    return (seed + index) * 0x9e3779b97f4a7c15ull;
}

void fake_pattern_fill(void *data, size_t size, uint64_t seed)
{
    unsigned char *p = data;
    size_t words = size / 8;

    for (size_t i = 0; i < words; i++) {
        uint64_t w = word_at(seed, i);

        memcpy(p + i * 8, &w, 8);
    }
    if (size % 8) {
        uint64_t w = word_at(seed, words);

        memcpy(p + words * 8, &w, size % 8);
    }
}

size_t fake_pattern_check(const void *data, size_t size, uint64_t seed)
{
    const unsigned char *p = data;
    size_t words = size / 8;
    size_t i;

    for (i = 0; i < words; i++) {
        uint64_t w = word_at(seed, i);

        if (memcmp(p + i * 8, &w, 8) != 0)
            break;
    }
    for (size_t at = i * 8; at < size; at++) {
        uint64_t w = word_at(seed, at / 8);

        if (p[at] != ((unsigned char *)&w)[at % 8])
            return at;
    }
    return size;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void *map_pages(void *at, size_t size, int protection)
{
    int fixed = at ? MAP_FIXED : 0;
    void *p = mmap(at, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);

    if (p == MAP_FAILED) {
        fprintf(stderr, "fakenccl: mmap of %zu bytes: %s\n", size, strerror(errno));
        _exit(1);
    }
    return p;
}

static struct {
    int (*retain)(void **context, int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*alloc)(uint64_t *device, size_t bytes);
    int (*free)(uint64_t device);
    void *(*view)(uint64_t device);
    void *context;
} gpu;

bool fake_gpu_open(const char *path, char *why, size_t size)
{
    static const char *const names[] = {"cuDevicePrimaryCtxRetain",
                                        "cuCtxPushCurrent_v2",
                                        "cuCtxPopCurrent_v2",
                                        "cuMemAlloc_v2",
                                        "cuMemFree_v2",
                                        "fakecuda_view"};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void **slots = (void **)&gpu;

    for (size_t i = 0; library && i < FAKE_COUNT(names); i++) {
        slots[i] = dlsym(library, names[i]);
        if (!slots[i])
            library = NULL;
    }
    if (!library) {
        snprintf(why, size, "%s", dlerror());
        memset(&gpu, 0, sizeof(gpu));
        return false;
    }
    return gpu.retain(&gpu.context, 0) == 0;
}

bool fake_gpu_used(void)
{
    return gpu.context != NULL;
}

/* The same shape on the GPU; memory around the range does not exist there. */
static void make_on_gpu(struct fake_buffer *b, size_t body, size_t shift)
{
    uint64_t device = 0;
    void *popped;

    gpu.push(gpu.context);
    if (gpu.alloc(&device, body) != 0) {
        fprintf(stderr, "fakenccl: no GPU memory\n");
        _exit(1);
    }
    gpu.pop(&popped);
    b->map = (unsigned char *)(uintptr_t)device;
    b->map_size = body;
    b->data = (unsigned char *)gpu.view(device) + body - shift;
    b->net = b->map + body - shift;
    memset(gpu.view(device), FAKE_POISON, body < 65536 ? body : 65536);
}

void fake_buffer_make(struct fake_buffer *b, size_t size, bool aligned)
{
    size_t page = page_size();
    size_t body = (size + page) / page * page;
    size_t shift = aligned ? (size + 63) / 64 * 64 : size;

    if (shift > body)
        body += page;
    b->size = size;
    b->mh = NULL;
    if (fake_gpu_used()) {
        make_on_gpu(b, body, shift);
        return;
    }
    b->map_size = body + 2 * page;
    b->map = map_pages(NULL, b->map_size, PROT_NONE);
    map_pages(b->map + page, body, PROT_READ | PROT_WRITE);
    b->data = b->net = b->map + page + body - shift;
    memset(b->map + page, FAKE_POISON, body < 65536 ? body : 65536);
}

bool fake_buffer_intact(const struct fake_buffer *b)
{
    const unsigned char *first = fake_gpu_used() ? b->map : b->map + page_size();
    size_t gap = (size_t)(b->net - first);

    for (size_t i = 0; i < gap && i < 256; i++)
        if (b->data[-1 - (ptrdiff_t)i] != FAKE_POISON)
            return false;
    return true;
}

void fake_buffer_free(struct fake_buffer *b)
{
    if (b->map && fake_gpu_used())
        gpu.free((uintptr_t)b->map);
    else if (b->map)
        munmap(b->map, b->map_size);
    memset(b, 0, sizeof(*b));
}

void fake_buffer_replace(struct fake_buffer *b)
{
    size_t page = page_size();
    size_t body = b->map_size - 2 * page;

    if (fake_gpu_used()) {
        memset(gpu.view((uintptr_t)b->map), FAKE_POISON, b->map_size);
        return;
    }
    map_pages(b->map + page, body, PROT_READ | PROT_WRITE);
    memset(b->map + page, FAKE_POISON, body);
}

bool fake_buffer_untouched(const struct fake_buffer *b)
{
    size_t page = fake_gpu_used() ? 0 : page_size();
    const unsigned char *map = fake_gpu_used() ? gpu.view((uintptr_t)b->map) : b->map;

    for (size_t i = 0; i < b->map_size - 2 * page; i++)
        if (map[page + i] != FAKE_POISON)
            return false;
    return true;
}

struct worker_start {
    struct fake_worker *worker;
    char name[16];
};

static void *worker_main(void *arg)
{
    struct worker_start start = *(struct worker_start *)arg;
    struct fake_worker *w = start.worker;

    free(arg);
    pthread_setname_np(pthread_self(), start.name);
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->busy && !w->stop)
            pthread_cond_wait(&w->changed, &w->lock);
        if (!w->busy)
            break;
        pthread_mutex_unlock(&w->lock);
        w->job(w->arg);
        pthread_mutex_lock(&w->lock);
        w->busy = false;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void fake_worker_start(struct fake_worker *w, const char *name)
{
    struct worker_start *start = calloc(1, sizeof(*start));

    memset(w, 0, sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    start->worker = w;
    snprintf(start->name, sizeof(start->name), "%s", name);
    if (pthread_create(&w->thread, NULL, worker_main, start) != 0) {
        fprintf(stderr, "fakenccl: cannot create thread %s\n", name);
        _exit(1);
    }
}

void fake_worker_post(struct fake_worker *w, void (*job)(void *), void *arg)
{
    pthread_mutex_lock(&w->lock);
    w->job = job;
    w->arg = arg;
    w->busy = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void fake_worker_wait(struct fake_worker *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->busy)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

void fake_worker_run(struct fake_worker *w, void (*job)(void *), void *arg)
{
    fake_worker_post(w, job, arg);
    fake_worker_wait(w);
}

void fake_worker_stop(struct fake_worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

int fake_proc_count(const char *folder)
{
    char path[64];
    struct dirent *entry;
    DIR *dir;
    int count = 0;

    snprintf(path, sizeof(path), "/proc/self/%s", folder);
    dir = opendir(path);
    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return strcmp(folder, "fd") == 0 ? count - 1 : count;
}
