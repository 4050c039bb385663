/*
 * What the fake NCCL core needs around the plugin calls: time, bounds, test patterns, buffers that
 * notice strangers, and named worker threads. Knows no plugin.
 * Threading: a buffer belongs to whoever posted it; a worker runs one job at a time.
 */
#ifndef FAKE_UTIL_H
#define FAKE_UTIL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_NS_PER_S 1000000000ull
#define FAKE_COUNT(a) (sizeof(a) / sizeof((a)[0]))

uint64_t fake_now_ns(void);
/* CPU time of the calling thread and of the whole process, nanoseconds. */
uint64_t fake_thread_cpu_ns(void);
uint64_t fake_process_cpu_ns(void);
void fake_sleep_ms(unsigned ms);

/* A cheap well-mixed 64-bit value. */
uint64_t fake_mix(uint64_t x);

/*
 * A test pattern depends on the seed and on the position of every 8 bytes, so that bytes which
 * landed at a wrong place or come from another message are told apart.
 */
void fake_pattern_fill(void *data, size_t size, uint64_t seed);
/* Offset of the first wrong byte, or size if all is right. */
size_t fake_pattern_check(const void *data, size_t size, uint64_t seed);

/*
 * A buffer of `size` bytes between two inaccessible pages; its end touches the second one, the gap
 * in front holds a canary. Other bytes start as FAKE_POISON.
 */
#define FAKE_POISON 0xa5
struct fake_buffer {
    unsigned char *map;
    size_t map_size;
    unsigned char *data; /* where the CPU sees it */
    unsigned char *net;  /* what the plugin is told: `data`, or its address on the GPU */
    size_t size;
    void *mh; /* registration, set by the owner */
};

/*
 * From here on buffers lie in GPU memory of the fake driver at `path` (tests/fakecuda), of which the CPU sees a second mapping. False
 * with `why` when it does not load. Per process.
 */
bool fake_gpu_open(const char *path, char *why, size_t size);
bool fake_gpu_used(void);

/* Never fails: prints and exits when memory is short. `aligned` puts the start on 64 bytes. */
void fake_buffer_make(struct fake_buffer *b, size_t size, bool aligned);
/* True while nobody wrote in front of the data. */
bool fake_buffer_intact(const struct fake_buffer *b);
/* Unmaps; a later write of anyone is a fault. */
void fake_buffer_free(struct fake_buffer *b);
/* Replaces the memory by fresh poison, so that a late write of the kernel can be seen... */
void fake_buffer_replace(struct fake_buffer *b);
/* ...here: true while all of it is still poison. */
bool fake_buffer_untouched(const struct fake_buffer *b);

/* A thread that runs what it is given; NCCL's service and progress threads are two of them. */
struct fake_worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*job)(void *);
    void *arg;
    bool busy;
    bool stop;
};

void fake_worker_start(struct fake_worker *w, const char *name);
/* Starts a job; the worker must be idle. */
void fake_worker_post(struct fake_worker *w, void (*job)(void *), void *arg);
void fake_worker_wait(struct fake_worker *w);
void fake_worker_run(struct fake_worker *w, void (*job)(void *), void *arg);
void fake_worker_stop(struct fake_worker *w);

/* Entries of /proc/self/<folder>, e.g. "fd" or "task". */
int fake_proc_count(const char *folder);

#endif
