/* Grids of POSIX threads, see host_grid.h. */
#include "tests/unit/device/host_layer.h"
#include "tests/unit/device/host_grid.h"

#include <stdlib.h>

_Thread_local struct host_thread host_thread;
uint64_t host_fence_word;

struct start {
    void (*kernel)(void *argument);
    void *argument;
    struct host_thread self;
    pthread_t id;
};

/* Two bits used in turn: the one of the last round is cleared by the round after it. */
int host_barrier_wait(struct host_barrier *b, unsigned *turn, int bit)
{
    unsigned now = (*turn)++ & 1;
    int any;

    if (bit)
        __atomic_store_n(&b->any[now], 1, __ATOMIC_RELAXED);
    pthread_barrier_wait(&b->barrier);
    any = __atomic_load_n(&b->any[now], __ATOMIC_RELAXED);
    if (pthread_barrier_wait(&b->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        __atomic_store_n(&b->any[now], 0, __ATOMIC_RELAXED);
    return any;
}

static void *thread_main(void *argument)
{
    struct start *start = argument;

    host_thread = start->self;
    start->kernel(start->argument);
    return NULL;
}

static struct host_barrier *new_barriers(uint32_t count, uint32_t threads)
{
    struct host_barrier *b = calloc(count, sizeof(*b));

    for (uint32_t i = 0; i < count; i++)
        pthread_barrier_init(&b[i].barrier, NULL, threads);
    return b;
}

static void free_barriers(struct host_barrier *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        pthread_barrier_destroy(&b[i].barrier);
    free(b);
}

void host_grid_run(void (*kernel)(void *argument), void *argument, uint32_t ctas, uint32_t threads)
{
    uint32_t all = ctas * threads;
    struct start *starts = calloc(all, sizeof(*starts));
    struct host_barrier *warps = new_barriers(all / BRAID_WARP_THREADS, BRAID_WARP_THREADS);
    struct host_barrier *blocks = new_barriers(ctas, threads);
    pthread_attr_t attributes;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    for (uint32_t i = 0; i < all; i++) {
        starts[i].kernel = kernel;
        starts[i].argument = argument;
        starts[i].self = (struct host_thread){
            i % threads,          threads, i / threads, ctas, &warps[i / BRAID_WARP_THREADS],
            &blocks[i / threads], 0,       0,           0};
        if (pthread_create(&starts[i].id, &attributes, thread_main, &starts[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < all; i++)
        pthread_join(starts[i].id, NULL);
    pthread_attr_destroy(&attributes);
    free_barriers(warps, all / BRAID_WARP_THREADS);
    free_barriers(blocks, ctas);
    free(starts);
}
