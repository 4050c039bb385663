/*
 * The instruction layer of the device headers for a host compiler (BRAID_PTX_LAYER): flags are C11-style atomics, data are plain
 * accesses, so that ThreadSanitizer sees a race wherever a flag does not order data; CUDA threads are POSIX threads, warps have 4.
 * The clock is CLOCK_MONOTONIC. ThreadSanitizer does not follow fences: they become read-modify-writes of one word, and relaxed stores of
 * flags behind one, with no data stored between, become releases.
 * Included by braid/device/config.cuh; host_grid.c runs the threads.
 */
#ifndef BRAID_TESTS_HOST_LAYER_H
#define BRAID_TESTS_HOST_LAYER_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

/* A build with BRAID_TESTS_NO_RELEASE proves that the tests see a missing release: ThreadSanitizer must report races then. */
#ifdef BRAID_TESTS_NO_RELEASE
#define HOST_RELEASE __ATOMIC_RELAXED
#else
#define HOST_RELEASE __ATOMIC_RELEASE
#endif

#define BRAID_FN           static inline
#define BRAID_WARP_THREADS 4u
#define BRAID_NO_UNROLL
#define BRAID_UNROLL

struct braid_vec16 {
    uint64_t lo, hi;
};

/* A barrier among the threads of a warp or a CTA that also collects a bit. */
struct host_barrier {
    pthread_barrier_t barrier;
    int any[2];
};

struct host_thread {
    uint32_t thread, threads, block, blocks;
    struct host_barrier *warp, *cta;
    unsigned warp_turn, cta_turn;
    int fenced; /* a fence, and no data stored since */
};

extern _Thread_local struct host_thread host_thread;
extern uint64_t host_fence_word;

int host_barrier_wait(struct host_barrier *b, unsigned *turn, int bit);

#define HOST_LOAD(name, type, order)                                                               \
    BRAID_FN type name(const void *p)                                                              \
    {                                                                                              \
        return __atomic_load_n((const type *)p, order);                                            \
    }
#define HOST_STORE(name, type, order)                                                              \
    BRAID_FN void name(void *p, type v)                                                            \
    {                                                                                              \
        __atomic_store_n((type *)p, v, order);                                                     \
    }
#define HOST_STORE_RELAXED(name, type)                                                             \
    BRAID_FN void name(void *p, type v)                                                            \
    {                                                                                              \
        if (host_thread.fenced)                                                                    \
            __atomic_store_n((type *)p, v, HOST_RELEASE);                                          \
        else                                                                                       \
            __atomic_store_n((type *)p, v, __ATOMIC_RELAXED);                                      \
    }
#define HOST_PLAIN(n, type)                                                                        \
    BRAID_FN type braid_ptx_load##n(const void *p)                                                 \
    {                                                                                              \
        return *(const type *)p;                                                                   \
    }                                                                                              \
    BRAID_FN void braid_ptx_store##n(void *p, type v)                                              \
    {                                                                                              \
        host_thread.fenced = 0;                                                                    \
        *(type *)p = v;                                                                            \
    }

/* Polling threads are more than the cores: let others run. */
BRAID_FN uint32_t braid_ptx_load_acquire_sys_u32(const void *p)
{
    sched_yield();
    return __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
}

BRAID_FN uint64_t braid_ptx_load_acquire_sys_u64(const void *p)
{
    sched_yield();
    return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
}

HOST_LOAD(braid_ptx_load_relaxed_sys_u32, uint32_t, __ATOMIC_RELAXED)
HOST_LOAD(braid_ptx_load_relaxed_sys_u64, uint64_t, __ATOMIC_RELAXED)
HOST_LOAD(braid_ptx_load_relaxed_gpu_u32, uint32_t, __ATOMIC_RELAXED)
HOST_LOAD(braid_ptx_load_relaxed_gpu_u64, uint64_t, __ATOMIC_RELAXED)
HOST_STORE(braid_ptx_store_release_sys_u32, uint32_t, HOST_RELEASE)
HOST_STORE(braid_ptx_store_release_sys_u64, uint64_t, HOST_RELEASE)
HOST_STORE_RELAXED(braid_ptx_store_relaxed_sys_u32, uint32_t)
HOST_STORE_RELAXED(braid_ptx_store_relaxed_sys_u64, uint64_t)
HOST_STORE(braid_ptx_store_release_gpu_u32, uint32_t, HOST_RELEASE)
HOST_STORE_RELAXED(braid_ptx_store_relaxed_gpu_u32, uint32_t)
HOST_STORE_RELAXED(braid_ptx_store_relaxed_gpu_u64, uint64_t)
HOST_PLAIN(8, uint64_t)
HOST_PLAIN(4, uint32_t)
HOST_PLAIN(2, uint16_t)
HOST_PLAIN(1, uint8_t)

BRAID_FN struct braid_vec16 braid_ptx_load16(const void *p)
{
    return *(const struct braid_vec16 *)p;
}

BRAID_FN void braid_ptx_store16(void *p, struct braid_vec16 v)
{
    host_thread.fenced = 0;
    *(struct braid_vec16 *)p = v;
}

/* The halves in either order: the pair is not one access. */
BRAID_FN struct braid_vec16 braid_ptx_load_packet(const void *p)
{
    struct braid_vec16 v;

    sched_yield();
    v.hi = __atomic_load_n((const uint64_t *)p + 1, __ATOMIC_RELAXED);
    v.lo = __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
    return v;
}

BRAID_FN void braid_ptx_store_packet(void *p, struct braid_vec16 v)
{
    __atomic_store_n((uint64_t *)p + 1, v.hi, __ATOMIC_RELAXED);
    __atomic_store_n((uint64_t *)p, v.lo, __ATOMIC_RELAXED);
}

BRAID_FN void braid_ptx_add_release_sys_u32(void *p, uint32_t v)
{
    __atomic_fetch_add((uint32_t *)p, v, HOST_RELEASE);
}

BRAID_FN void braid_ptx_add_release_sys_u64(void *p, uint64_t v)
{
    __atomic_fetch_add((uint64_t *)p, v, HOST_RELEASE);
}

BRAID_FN uint32_t braid_ptx_fetch_add_acq_rel_gpu_u32(void *p, uint32_t v)
{
    return __atomic_fetch_add((uint32_t *)p, v, __ATOMIC_ACQ_REL);
}

BRAID_FN uint32_t braid_ptx_cas_gpu_u32(void *p, uint32_t expected, uint32_t v)
{
    __atomic_compare_exchange_n((uint32_t *)p, &expected, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

BRAID_FN void braid_ptx_fence_sys(void)
{
    __atomic_fetch_add(&host_fence_word, 1, __ATOMIC_ACQ_REL);
    host_thread.fenced = 1;
}

BRAID_FN void braid_ptx_fence_proxy_async_global(void)
{
}

BRAID_FN void braid_ptx_bulk_wait_written(void)
{
}

BRAID_FN uint32_t braid_ptx_thread(void)
{
    return host_thread.thread;
}

BRAID_FN uint32_t braid_ptx_threads(void)
{
    return host_thread.threads;
}

BRAID_FN uint32_t braid_ptx_block(void)
{
    return host_thread.block;
}

BRAID_FN uint32_t braid_ptx_blocks(void)
{
    return host_thread.blocks;
}

BRAID_FN uint32_t braid_ptx_lane(void)
{
    return host_thread.thread % BRAID_WARP_THREADS;
}

BRAID_FN uint64_t braid_ptx_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

BRAID_FN void braid_ptx_sync_warp(void)
{
    host_barrier_wait(host_thread.warp, &host_thread.warp_turn, 0);
}

BRAID_FN int braid_ptx_any_in_warp(int v)
{
    return host_barrier_wait(host_thread.warp, &host_thread.warp_turn, v != 0);
}

/* Threads run apart, as lanes that wait for different words do. */
BRAID_FN int braid_ptx_any_active(int v)
{
    return v != 0;
}

BRAID_FN void braid_ptx_sync_cta(void)
{
    host_barrier_wait(host_thread.cta, &host_thread.cta_turn, 0);
}

BRAID_FN int braid_ptx_sync_cta_any(int v)
{
    return host_barrier_wait(host_thread.cta, &host_thread.cta_turn, v != 0);
}

#endif
