/*
 * A bootstrap for tests: an all-gather among threads or forked processes of one machine over shared memory, bounded by a deadline.
 * Make the area before the ranks start; each rank has its own struct boot. Used by the GPU tests and the unit tests of the device
 * library. Threading: one thread a rank.
 */
#ifndef BRAID_TESTS_DEVICE_BOOT_H
#define BRAID_TESTS_DEVICE_BOOT_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "braid/comm.h"

#define BOOT_RANKS 16
#define BOOT_BYTES 4096

struct boot_area {
    int ranks;
    unsigned arrived;
    unsigned phase;
    unsigned char data[BOOT_RANKS][BOOT_BYTES];
};

struct boot {
    struct boot_area *area;
    int rank;
    uint64_t timeout_ms;
    int (*before)(void *argument); /* called in each all-gather when set; its error is returned */
    void *argument;
};

static inline uint64_t boot_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline struct boot_area *boot_area_new(int ranks)
{
    void *p = mmap(NULL, sizeof(struct boot_area), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct boot_area *area = (struct boot_area *)p;

    if (p == MAP_FAILED)
        abort();
    area->ranks = ranks;
    return area;
}

static inline void boot_area_free(struct boot_area *area)
{
    munmap(area, sizeof(*area));
}

/* 0, or -ETIMEDOUT when a rank did not come; the area is unusable afterwards. */
static inline int boot_barrier(struct boot *b)
{
    struct boot_area *area = b->area;
    uint64_t deadline = boot_now_ms() + b->timeout_ms;
    unsigned phase = __atomic_load_n(&area->phase, __ATOMIC_ACQUIRE);
    struct timespec nap = {0, 20000};

    if (__atomic_add_fetch(&area->arrived, 1, __ATOMIC_ACQ_REL) == (unsigned)area->ranks) {
        __atomic_store_n(&area->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&area->phase, phase + 1, __ATOMIC_RELEASE);
        return 0;
    }
    while (__atomic_load_n(&area->phase, __ATOMIC_ACQUIRE) == phase) {
        if (boot_now_ms() > deadline)
            return -ETIMEDOUT;
        nanosleep(&nap, NULL);
    }
    return 0;
}

static inline int boot_allgather(void *context, const void *mine, void *all, size_t bytes)
{
    struct boot *b = (struct boot *)context;
    int rc = b->before != NULL ? b->before(b->argument) : 0;

    if (rc != 0)
        return rc;
    if (bytes > BOOT_BYTES)
        return -EMSGSIZE;
    memcpy(b->area->data[b->rank], mine, bytes);
    rc = boot_barrier(b);
    if (rc != 0)
        return rc;
    for (int i = 0; i < b->area->ranks; i++)
        memcpy((char *)all + (size_t)i * bytes, b->area->data[i], bytes);
    return boot_barrier(b);
}

static inline int boot_rank(void *context)
{
    return ((struct boot *)context)->rank;
}

static inline int boot_ranks(void *context)
{
    return ((struct boot *)context)->area->ranks;
}

static inline struct braid_bootstrap boot_callbacks(struct boot *b)
{
    struct braid_bootstrap callbacks;

    callbacks.context = b;
    callbacks.rank = boot_rank;
    callbacks.ranks = boot_ranks;
    callbacks.allgather = boot_allgather;
    return callbacks;
}

#endif
