/*
 * Windows: memory on every rank that all reach. Making one is: offer the own part, learn all offers, pass descriptors, map the
 * peers' parts, agree. Every rank goes through the same collective steps whatever failed locally, so that all fail together.
 * Implements comm.h's braid_window_*. Threading: as comm.h says.
 */
#include "device/host/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"

static struct braid_window *new_window(struct braid_comm *comm, uint64_t bytes)
{
    struct braid_window *window = calloc(1, sizeof(*window));

    if (window == NULL)
        return NULL;
    window->views = calloc((size_t)comm->ranks, sizeof(*window->views));
    if (window->views == NULL) {
        free(window);
        return NULL;
    }
    window->comm = comm;
    window->bytes = bytes;
    window->serial = comm->next_serial++;
    return window;
}

static void drop_shared(const struct braid_cuda *cuda, struct braid_shared_segment *shared)
{
    if (shared == NULL ||
        atomic_fetch_sub_explicit(&shared->references, 1, memory_order_acq_rel) > 1)
        return;
    braid_segment_destroy(cuda, &shared->segment);
    free(shared);
}

/* Frees everything of a window that exists; the context is current. */
static void delete_window(struct braid_window *window)
{
    const struct braid_cuda *cuda = window->comm->cuda;

    for (int i = 0; i < window->comm->ranks; i++) {
        struct braid_view *view = &window->views[i];

        braid_segment_destroy(cuda, &view->segment);
        if (view->ipc != 0)
            cuda->ipc_close(view->ipc);
        drop_shared(cuda, view->shared);
    }
    if (window->table != 0)
        cuda->mem_free(window->table);
    free(window->views);
    free(window);
}

/* GPUs that must be able to use this rank's memory at the owner's address: its own, and those of other ranks of the process. */
static int local_gpus(const struct braid_comm *comm, int *gpus)
{
    int count = 0;

    gpus[count++] = comm->gpu;
    for (int i = 0; i < comm->ranks; i++) {
        bool known = comm->share[i] != BRAID_SHARE_PROCESS || comm->reach[i] == BRAID_ROAD_NONE;

        for (int k = 0; k < count && !known; k++)
            known = gpus[k] == comm->hello[i].gpu;
        if (!known)
            gpus[count++] = comm->hello[i].gpu;
    }
    return count;
}

static bool needs_handles(const struct braid_comm *comm)
{
    for (int i = 0; i < comm->ranks; i++) {
        if (comm->share[i] == BRAID_SHARE_HANDLE && comm->reach[i] != BRAID_ROAD_NONE)
            return true;
    }
    return false;
}

/* Exports a VMM handle into the offer (fabric) or as a descriptor. */
static int export_handle(struct braid_comm *comm, uint64_t handle, int type,
                         struct braid_offer *offer, int *fd_p)
{
    const struct braid_cuda *cuda = comm->cuda;
    void *where = type == BRAID_CU_HANDLE_FD ? (void *)fd_p : (void *)offer->handle;
    int result = cuda->mem_export(where, handle, type, 0);

    if (result != BRAID_CU_SUCCESS) {
        BRAID_WARN("device memory cannot be exported as %s: %s",
                   type == BRAID_CU_HANDLE_FD ? "a file descriptor" : "a fabric handle",
                   braid_cuda_name(result));
        return braid_cuda_errno(result);
    }
    offer->kind = type == BRAID_CU_HANDLE_FD ? BRAID_OFFER_FD : BRAID_OFFER_FABRIC;
    return 0;
}

/* Offers new, zeroed memory of Braid's allocator. */
static int offer_new(struct braid_window *window, struct braid_offer *offer, int *fd_p)
{
    struct braid_comm *comm = window->comm;
    const struct braid_cuda *cuda = comm->cuda;
    struct braid_shared_segment *shared = calloc(1, sizeof(*shared));
    int gpus[BRAID_MAX_RANKS];
    int rc, result;

    if (shared == NULL)
        return -ENOMEM;
    atomic_init(&shared->references, 1);
    shared->gpu = comm->gpu;
    rc = braid_segment_create(cuda, comm->gpu, window->bytes, comm->handle_type, gpus,
                              local_gpus(comm, gpus), &shared->segment);
    if (rc != 0) {
        free(shared);
        return rc;
    }
    window->views[comm->rank].shared = shared;
    window->local = shared->segment.address;
    result = cuda->fill(window->local, 0, shared->segment.bytes, comm->stream);
    if (result == BRAID_CU_SUCCESS)
        result = cuda->stream_synchronize(comm->stream);
    if (result != BRAID_CU_SUCCESS) {
        BRAID_WARN("device memory cannot be zeroed: %s", braid_cuda_name(result));
        return braid_cuda_errno(result);
    }
    offer->kind = BRAID_OFFER_ADDRESS;
    offer->segment = shared->segment.bytes;
    offer->shared = (uint64_t)(uintptr_t)shared;
    return needs_handles(comm)
               ? export_handle(comm, shared->segment.handle, comm->handle_type, offer, fd_p)
               : 0;
}

/*
 * Is there a rank that only fabric handles reach, because it runs on another host or in another container? 0, or -EHOSTUNREACH or
 * -EXDEV, and *who is that rank. CUDA IPC and descriptors do not get there.
 */
static int only_by_fabric(const struct braid_comm *comm, int *who)
{
    for (int i = 0; i < comm->ranks; i++) {
        int rc = braid_identity_same_host(&comm->hello[comm->rank], &comm->hello[i]);

        *who = i;
        if (rc != 0 && comm->share[i] == BRAID_SHARE_HANDLE && comm->reach[i] != BRAID_ROAD_NONE)
            return rc;
    }
    return 0;
}

/* Offers memory of the caller to a rank elsewhere: as a fabric handle, which only some VMM memory has. `why` is only_by_fabric's. */
static int offer_caller_by_fabric(struct braid_window *window, uint64_t base, int why, int who,
                                  struct braid_offer *offer)
{
    const struct braid_cuda *cuda = window->comm->cuda;
    uint64_t handle;

    if (cuda->mem_retain(&handle, (void *)(uintptr_t)base) == BRAID_CU_SUCCESS) {
        int result = cuda->mem_export(offer->handle, handle, BRAID_CU_HANDLE_FABRIC, 0);

        cuda->mem_release(handle);
        if (result == BRAID_CU_SUCCESS) {
            offer->kind = BRAID_OFFER_FABRIC;
            return 0;
        }
    }
    BRAID_WARN("window over %#llx: rank %d runs %s, so this memory can be shared by fabric handle "
               "only, and it has none: use braid_window_alloc, or memory made with "
               "CU_MEM_HANDLE_TYPE_FABRIC",
               (unsigned long long)window->local, who,
               why == -EXDEV ? "in another container of this host" : "on another host");
    return why;
}

/* Offers memory of the caller: CUDA IPC for cudaMalloc, a descriptor (to ranks elsewhere a fabric handle) for VMM memory. */
static int offer_caller(struct braid_window *window, struct braid_offer *offer, int *fd_p)
{
    struct braid_comm *comm = window->comm;
    const struct braid_cuda *cuda = comm->cuda;
    struct braid_cu_handle ipc;
    uint64_t base = 0, handle;
    size_t bytes = 0;
    int rc, who, result = cuda->mem_range(&base, &bytes, window->local);

    if (result != BRAID_CU_SUCCESS) {
        BRAID_WARN("window over %#llx: not GPU memory: %s", (unsigned long long)window->local,
                   braid_cuda_name(result));
        return -EINVAL;
    }
    if (window->local + window->bytes > base + bytes) {
        BRAID_WARN("window over %#llx: %llu bytes reach beyond the allocation of %zu bytes",
                   (unsigned long long)window->local, (unsigned long long)window->bytes, bytes);
        return -EINVAL;
    }
    offer->kind = BRAID_OFFER_ADDRESS;
    offer->segment = bytes;
    offer->offset = window->local - base;
    if (!needs_handles(comm))
        return 0;
    rc = only_by_fabric(comm, &who);
    if (rc != 0)
        return offer_caller_by_fabric(window, base, rc, who, offer);
    if (cuda->ipc_get(&ipc, base) == BRAID_CU_SUCCESS) {
        offer->kind = BRAID_OFFER_IPC;
        memcpy(offer->handle, ipc.bytes, sizeof(offer->handle));
        return 0;
    }
    result = cuda->mem_retain(&handle, (void *)(uintptr_t)base);
    if (result == BRAID_CU_SUCCESS) {
        rc = export_handle(comm, handle, BRAID_CU_HANDLE_FD, offer, fd_p);
        cuda->mem_release(handle);
        return rc == 0 ? 0 : -ENOTSUP;
    }
    BRAID_WARN("window over %#llx: this memory can be shared neither by CUDA IPC nor by descriptor",
               (unsigned long long)window->local);
    return -ENOTSUP;
}

/* Do the offers of all ranks fit together? The same answer on every rank. */
static int check_offers(struct braid_window *window, const struct braid_offer *offers)
{
    const struct braid_comm *comm = window->comm;

    for (int i = 0; i < comm->ranks; i++) {
        if (offers[i].status != 0) {
            BRAID_WARN("window %u: rank %d has no memory to offer: %s", window->serial, i,
                       strerror(-offers[i].status));
            return offers[i].status;
        }
    }
    for (int i = 0; i < comm->ranks; i++) {
        if (offers[i].peers_given != offers[0].peers_given) {
            BRAID_WARN("window %u: of ranks 0 and %d only rank %d gives the peers' addresses; all "
                       "ranks must, or none",
                       offers[i].serial, i, offers[i].peers_given ? i : 0);
            return -EINVAL;
        }
        if (offers[i].bytes != offers[0].bytes || offers[i].serial != offers[0].serial) {
            BRAID_WARN("window: rank %d asks for window %u of %llu bytes, rank 0 for window %u of "
                       "%llu: all ranks must make the same windows in the same order",
                       i, offers[i].serial, (unsigned long long)offers[i].bytes, offers[0].serial,
                       (unsigned long long)offers[0].bytes);
            return -EINVAL;
        }
    }
    return 0;
}

/* Memory of cudaMalloc on another GPU of this process needs peer access between the two contexts. */
static int enable_peer(struct braid_comm *comm, int gpu)
{
    const struct braid_cuda *cuda = comm->cuda;
    void *context;
    int result = cuda->primary_retain(&context, gpu);

    if (result != BRAID_CU_SUCCESS)
        return result;
    result = cuda->context_enable_peer(context, 0);
    cuda->primary_release(gpu);
    return result == BRAID_CU_PEER_ALREADY_ENABLED ? BRAID_CU_SUCCESS : result;
}

/* Makes rank i's part reachable. `fd` is its descriptor or -1. */
static int view_peer(struct braid_window *window, int i, const struct braid_offer *offer, int fd)
{
    struct braid_comm *comm = window->comm;
    const struct braid_cuda *cuda = comm->cuda;
    struct braid_view *view = &window->views[i];
    struct braid_cu_handle handle;
    int result = BRAID_CU_NOT_SUPPORTED, rc;

    memcpy(handle.bytes, offer->handle, sizeof(handle.bytes));
    if (comm->share[i] == BRAID_SHARE_PROCESS) {
        result = BRAID_CU_SUCCESS;
        view->address = offer->address;
        view->shared = (struct braid_shared_segment *)(uintptr_t)offer->shared;
        if (view->shared != NULL)
            atomic_fetch_add_explicit(&view->shared->references, 1, memory_order_relaxed);
        else if (comm->hello[i].gpu != comm->gpu)
            result = enable_peer(comm, comm->hello[i].gpu);
    } else if (offer->kind == BRAID_OFFER_IPC) {
        result = cuda->ipc_open(&view->ipc, handle, BRAID_CU_IPC_LAZY_PEER_ACCESS);
        view->address = view->ipc + offer->offset;
    } else if (offer->kind == BRAID_OFFER_FD || offer->kind == BRAID_OFFER_FABRIC) {
        bool by_fd = offer->kind == BRAID_OFFER_FD;
        void *shareable = by_fd ? (void *)(intptr_t)fd : (void *)handle.bytes;

        braid_segment_import(cuda, comm->gpu, by_fd ? BRAID_CU_HANDLE_FD : BRAID_CU_HANDLE_FABRIC,
                             shareable, offer->segment, &view->segment, &result);
        view->address = view->segment.address + offer->offset;
    }
    if (result == BRAID_CU_SUCCESS)
        return 0;
    rc = braid_cuda_errno(result);
    view->address = 0;
    BRAID_WARN("window %u: the memory of rank %d (GPU %d of its process, handle kind %u) cannot be "
               "mapped: %s",
               window->serial, i, comm->hello[i].gpu, offer->kind, braid_cuda_name(result));
    return rc;
}

/* Maps every peer's part. The descriptor of the own part is passed on first. */
static int view_peers(struct braid_window *window, const struct braid_offer *offers, int own_fd)
{
    struct braid_comm *comm = window->comm;
    uint8_t send_to[BRAID_MAX_RANKS] = {0}, from[BRAID_MAX_RANKS] = {0};
    int fds[BRAID_MAX_RANKS];
    int missing = -1, rc;

    for (int i = 0; i < comm->ranks; i++) {
        bool by_handle = comm->share[i] == BRAID_SHARE_HANDLE && comm->reach[i] != BRAID_ROAD_NONE;

        send_to[i] = by_handle;
        from[i] = by_handle && offers[i].kind == BRAID_OFFER_FD;
    }
    rc = braid_fdpass_exchange(comm->socket, comm->hello, comm->rank, comm->ranks, window->serial,
                               own_fd, send_to, from, fds, braid_now_ns() + comm->config.timeout_ns,
                               &missing);
    if (rc != 0) {
        BRAID_WARN("window %u: exchange of file descriptors failed at rank %d: %s", window->serial,
                   missing, strerror(-rc));
        return rc;
    }
    for (int i = 0; i < comm->ranks; i++) {
        if (rc == 0 && i != comm->rank && comm->reach[i] != BRAID_ROAD_NONE)
            rc = view_peer(window, i, &offers[i], fds[i]);
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return rc;
}

/* Fills what kernels read. */
static int fill_device(struct braid_window *window)
{
    struct braid_comm *comm = window->comm;
    const struct braid_cuda *cuda = comm->cuda;
    struct braid_devwin *d = &window->device;
    uint64_t bases[BRAID_MAX_RANKS] = {0};
    size_t bytes = (size_t)comm->ranks * sizeof(bases[0]);
    int result;

    for (int i = 0; i < comm->ranks; i++)
        bases[i] = window->views[i].address;
    if (comm->ranks > (int)BRAID_INLINE_PEERS) {
        result = cuda->mem_alloc(&window->table, bytes);
        if (result == BRAID_CU_SUCCESS)
            result = cuda->copy_to_device(window->table, bases, bytes, comm->stream);
        if (result == BRAID_CU_SUCCESS)
            result = cuda->stream_synchronize(comm->stream);
        if (result != BRAID_CU_SUCCESS) {
            BRAID_WARN("window %u: its table of addresses cannot be made: %s", window->serial,
                       braid_cuda_name(result));
            return braid_cuda_errno(result);
        }
    }
    d->bytes = window->bytes;
    d->ranks = (uint32_t)comm->ranks;
    d->serial = window->serial;
    d->local = window->local;
    d->table = window->table;
    memcpy(d->base, bases, sizeof(d->base));
    return 0;
}

/* The collective part: `offer` (or its status) is this rank's; on success the window is complete on all ranks. */
static int join(struct braid_window *window, struct braid_offer *offer, int own_fd,
                const uint64_t *peers)
{
    struct braid_comm *comm = window->comm;
    struct braid_offer *offers = calloc((size_t)comm->ranks, sizeof(*offers));
    int rc;

    if (offers == NULL)
        return -ENOMEM;
    offer->serial = window->serial;
    offer->bytes = window->bytes;
    offer->address = window->local;
    offer->peers_given = peers != NULL;
    rc = comm->boot.allgather(comm->boot.context, offer, offers, sizeof(*offer));
    if (rc != 0)
        goto out;
    rc = check_offers(window, offers);
    if (rc != 0)
        goto out;
    window->views[comm->rank].address = window->local;
    if (peers == NULL) {
        rc = view_peers(window, offers, own_fd);
    } else {
        for (int i = 0; i < comm->ranks; i++)
            window->views[i].address = peers[i];
    }
    if (rc == 0)
        rc = fill_device(window);
    rc = braid_comm_agree(comm, rc, NULL);
out:
    free(offers);
    return rc;
}

/* Common end of alloc and register: joins, closes the own descriptor, hands the window out or deletes it. */
static int finish(struct braid_window *window, struct braid_offer *offer, int fd,
                  const uint64_t *peers, struct braid_window **window_p)
{
    struct braid_comm *comm = window->comm;
    int rc = join(window, offer, fd, peers);

    if (fd >= 0)
        close(fd);
    if (rc != 0) {
        delete_window(window);
        return rc;
    }
    window->next = comm->windows;
    comm->windows = window;
    *window_p = window;
    return 0;
}

int braid_window_make(struct braid_comm *comm, uint64_t bytes, int status,
                      struct braid_window **window_p)
{
    struct braid_window *window = new_window(comm, bytes);
    struct braid_offer offer = {0};
    int fd = -1;

    if (window == NULL)
        return -ENOMEM;
    offer.status = status != 0 ? status : offer_new(window, &offer, &fd);
    return finish(window, &offer, fd, NULL, window_p);
}

/* A rank that cannot take part still goes through the collective steps, so that its peers hear of it: its status, or 0. */
static int health(const struct braid_comm *comm, size_t bytes)
{
    if (bytes == 0)
        return -EINVAL;
    return braid_comm_error(comm, NULL) != 0 ? -EIO : 0;
}

int braid_window_alloc(struct braid_comm *comm, size_t bytes, struct braid_window **window_p)
{
    int rc;

    if (comm == NULL || window_p == NULL)
        return -EINVAL;
    rc = braid_comm_enter(comm);
    if (rc != 0)
        return rc;
    rc = braid_window_make(comm, ((uint64_t)bytes + 15) / 16 * 16, health(comm, bytes), window_p);
    braid_comm_leave(comm);
    return rc;
}

/* What is wrong with the caller's memory, for people; NULL when nothing is. */
static const char *wrong_memory(const struct braid_comm *comm, uint64_t local, size_t bytes,
                                const uint64_t *peers, char *text, size_t text_bytes)
{
    int gpu = comm->gpu;

    if (local == 0 || bytes == 0)
        return "there is no memory";
    if (peers != NULL && peers[comm->rank] != local)
        return "the peers' addresses do not have it as this rank's own";
    if (comm->cuda->pointer_attribute(&gpu, BRAID_CU_POINTER_DEVICE_ORDINAL, local) !=
            BRAID_CU_SUCCESS ||
        gpu == comm->gpu)
        return NULL; /* host memory is found out later */
    snprintf(text, text_bytes, "it is on GPU %d, the communicator is on GPU %d", gpu, comm->gpu);
    return text;
}

int braid_window_register(struct braid_comm *comm, void *pointer, size_t bytes,
                          const uint64_t *peers, struct braid_window **window_p)
{
    struct braid_window *window;
    struct braid_offer offer = {0};
    const char *wrong;
    char text[80];
    int fd = -1, rc;

    if (comm == NULL || window_p == NULL)
        return -EINVAL;
    rc = braid_comm_enter(comm);
    if (rc != 0)
        return rc;
    window = new_window(comm, bytes);
    if (window == NULL) {
        rc = -ENOMEM;
        goto out;
    }
    window->local = (uint64_t)(uintptr_t)pointer;
    offer.status = health(comm, bytes);
    wrong = wrong_memory(comm, window->local, bytes, peers, text, sizeof(text));
    if (offer.status == 0 && wrong != NULL)
        offer.status = -EINVAL;
    if (wrong != NULL)
        BRAID_WARN("window over %#llx: %s", (unsigned long long)window->local, wrong);
    if (offer.status == 0 && peers != NULL)
        offer.kind = BRAID_OFFER_ADDRESS;
    else if (offer.status == 0)
        offer.status = offer_caller(window, &offer, &fd);
    rc = finish(window, &offer, fd, peers, window_p);
out:
    braid_comm_leave(comm);
    return rc;
}

void braid_window_free(struct braid_window *window)
{
    struct braid_comm *comm;

    if (window == NULL)
        return;
    comm = window->comm;
    for (struct braid_window **p = &comm->windows; *p != NULL; p = &(*p)->next) {
        if (*p == window) {
            *p = window->next;
            break;
        }
    }
    if (braid_comm_enter(comm) != 0)
        return; /* the driver is gone, and its memory with it */
    delete_window(window);
    braid_comm_leave(comm);
}

const struct braid_devwin *braid_window_device(const struct braid_window *window)
{
    return &window->device;
}

void *braid_window_address(const struct braid_window *window, int peer)
{
    if (peer < 0 || peer >= window->comm->ranks)
        return NULL;
    return (void *)(uintptr_t)window->views[peer].address;
}

size_t braid_window_bytes(const struct braid_window *window)
{
    return (size_t)window->bytes;
}
