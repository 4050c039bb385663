/* See inside.h. */
#include "device/host/inside.h"

#include <string.h>

#include "device/host/host.h"

struct braid_window *braid_window_find(const struct braid_comm *comm, const void *pointer,
                                       size_t bytes)
{
    uint64_t begin = (uint64_t)(uintptr_t)pointer;

    for (struct braid_window *w = comm->windows; w != NULL; w = w->next) {
        if (w != comm->control && begin >= w->local && bytes <= w->bytes &&
            begin - w->local <= w->bytes - bytes)
            return w;
    }
    return NULL;
}

void braid_comm_record(struct braid_comm *comm, const struct braid_devcomm_error *reason)
{
    struct braid_devcomm_error *error = &comm->words->error;
    int32_t status = reason->status;

    if (__atomic_load_n(&error->status, __ATOMIC_ACQUIRE) != 0)
        return;
    error->wait = reason->wait;
    error->peer = reason->peer;
    error->index = reason->index;
    error->expected = reason->expected;
    error->seen = reason->seen;
    error->waited_ns = reason->waited_ns;
    __atomic_store_n(&error->status, status, __ATOMIC_RELEASE);
    if (braid_comm_enter(comm) != 0)
        return;
    comm->cuda->copy_to_device(comm->device.state + offsetof(struct braid_devcomm_state, error),
                               &status, sizeof(status), comm->stream);
    comm->cuda->stream_synchronize(comm->stream);
    braid_comm_leave(comm);
}
