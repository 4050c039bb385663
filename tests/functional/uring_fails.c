/*
 * A liburing whose kernel takes no more calls after the first few: the real one, opened here, until then. Taken by BRAID_URING_LIBRARY.
 * URING_FAILS is the errno that submitting then gives; nothing of what was prepared reaches the kernel.
 */
#include <dlfcn.h>
#include <liburing.h>
#include <stdatomic.h>
#include <stdlib.h>

#define WORKING_CALLS 20

static atomic_uint calls;

static void *real(const char *name)
{
    static void *_Atomic library;

    if (library == NULL)
        library = dlopen("liburing.so.2", RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? dlsym(library, name) : NULL;
}

static int failure(void)
{
    const char *text = getenv("URING_FAILS");

    return text != NULL && atomic_fetch_add(&calls, 1) >= WORKING_CALLS ? -atoi(text) : 0;
}

int io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                               struct io_uring_params *params)
{
    int (*fn)(unsigned, struct io_uring *, struct io_uring_params *) =
        real("io_uring_queue_init_params");

    return fn != NULL ? fn(entries, ring, params) : -1;
}

void io_uring_queue_exit(struct io_uring *ring)
{
    void (*fn)(struct io_uring *) = real("io_uring_queue_exit");

    fn(ring);
}

int io_uring_submit(struct io_uring *ring)
{
    int (*fn)(struct io_uring *) = real("io_uring_submit");
    int error = failure();

    return error != 0 ? error : fn(ring);
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned count)
{
    int (*fn)(struct io_uring *, unsigned) = real("io_uring_submit_and_wait");
    int error = failure();

    return error != 0 ? error : fn(ring, count);
}

int io_uring_get_events(struct io_uring *ring)
{
    int (*fn)(struct io_uring *) = real("io_uring_get_events");

    return fn(ring);
}

struct io_uring_probe *io_uring_get_probe_ring(struct io_uring *ring)
{
    struct io_uring_probe *(*fn)(struct io_uring *) = real("io_uring_get_probe_ring");

    return fn(ring);
}

void io_uring_free_probe(struct io_uring_probe *probe)
{
    void (*fn)(struct io_uring_probe *) = real("io_uring_free_probe");

    fn(probe);
}
