/*
 * Device communicators: creation (collective), the control window that kernels of all ranks share, and destruction that waits for
 * nobody beyond its bound. Implements comm.h's braid_comm_create and braid_comm_destroy; getters are in query.c.
 * Threading: as comm.h says.
 */
#include "device/host/host.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/param.h"
#include "common/thread.h"
#include "common/util.h"

void braid_comm_config_init(struct braid_comm_config *config)
{
    const struct braid_comm_config defaults = BRAID_COMM_CONFIG_INIT;

    *config = defaults;
}

int braid_config_resolve(const struct braid_comm_config *given, struct braid_comm_config *config)
{
    braid_comm_config_init(config);
    if (given != NULL) {
        if (given->size != sizeof(*config)) {
            BRAID_WARN("braid_comm_config of %zu bytes, this library's has %zu: initialise it with "
                       "BRAID_COMM_CONFIG_INIT of the matching header",
                       given->size, sizeof(*config));
            return -EINVAL;
        }
        *config = *given;
    }
    if (config->signals == 0 || config->barriers == 0 || config->slots == 0 ||
        config->signals > 1u << 20 || config->barriers > 1u << 16 || config->slots > 1u << 16) {
        BRAID_WARN(
            "device communicator: %u signals, %u barriers, %u slots: each must be at least 1, "
            "at most 1048576, 65536, 65536",
            config->signals, config->barriers, config->slots);
        return -EINVAL;
    }
    if (config->timeout_ns == 0)
        config->timeout_ns = (uint64_t)braid_param_int(BRAID_P_DEVICE_TIMEOUT_MS) * BRAID_NS_PER_MS;
    return 0;
}

int braid_comm_enter(struct braid_comm *comm)
{
    int result = comm->cuda->context_push(comm->context);

    if (result != BRAID_CU_SUCCESS)
        BRAID_WARN("GPU %d: its context cannot be made current: %s", comm->gpu,
                   braid_cuda_name(result));
    return braid_cuda_errno(result);
}

void braid_comm_leave(struct braid_comm *comm)
{
    void *context;

    comm->cuda->context_pop(&context);
}

int braid_comm_agree(struct braid_comm *comm, int status, int *who)
{
    int32_t mine = status, all[BRAID_MAX_RANKS];
    int rc = comm->boot.allgather(comm->boot.context, &mine, all, sizeof(mine));

    if (rc != 0)
        return rc;
    for (int i = 0; i < comm->ranks; i++) {
        if (all[i] != 0) {
            if (who != NULL)
                *who = i;
            return all[i];
        }
    }
    return 0;
}

/* The GPU: the configured one, or the calling thread's current one, or 0. */
static int choose_gpu(const struct braid_cuda *cuda, int wanted)
{
    void *context = NULL;
    int gpu = 0;

    if (wanted >= 0)
        return wanted;
    if (cuda->context_current(&context) == BRAID_CU_SUCCESS && context != NULL &&
        cuda->context_device(&gpu) == BRAID_CU_SUCCESS)
        return gpu;
    return 0;
}

/* What this rank needs before it can talk: driver, context, stream, host words, socket, identity. */
static int open_local(struct braid_comm *comm, struct braid_hello *hello)
{
    const char *step = "cuDevicePrimaryCtxRetain";
    char why[200];
    int rc = braid_cuda_get(&comm->cuda, why, sizeof(why));
    int result;

    if (rc != 0) {
        BRAID_WARN("no device communicator: %s", why);
        return rc;
    }
    comm->gpu = choose_gpu(comm->cuda, comm->config.device);
    result = comm->cuda->primary_retain(&comm->context, comm->gpu);
    if (result != BRAID_CU_SUCCESS)
        goto err_log;
    rc = braid_comm_enter(comm);
    if (rc != 0)
        return rc;
    step = "cuStreamCreate";
    result = comm->cuda->stream_create(&comm->stream, BRAID_CU_STREAM_NON_BLOCKING);
    if (result == BRAID_CU_SUCCESS) {
        step = "cuMemHostAlloc";
        result = comm->cuda->host_alloc((void **)&comm->words, sizeof(*comm->words),
                                        BRAID_CU_HOST_PORTABLE | BRAID_CU_HOST_DEVICEMAP);
    }
    if (result == BRAID_CU_SUCCESS) {
        memset(comm->words, 0, sizeof(*comm->words));
        rc = braid_identity_fill(comm->cuda, comm->gpu, hello);
    }
    braid_comm_leave(comm);
    if (result != BRAID_CU_SUCCESS)
        goto err_log;
    if (rc != 0)
        return rc;
    comm->socket = braid_fdpass_open(hello);
    if (comm->socket < 0) {
        BRAID_WARN("no socket for file descriptors: %s", strerror(-comm->socket));
        return comm->socket;
    }
    return 0;

err_log:
    BRAID_WARN("no device communicator on GPU %d: %s failed: %s", comm->gpu, step,
               braid_cuda_name(result));
    return braid_cuda_errno(result);
}

/* Everyone learns who everyone is. The first rank that cannot take part decides the error of all. */
static int exchange_hello(struct braid_comm *comm, struct braid_hello *own)
{
    const struct braid_comm_config *config = &comm->config;
    int rc;

    own->version = BRAID_HELLO_VERSION;
    own->signals = config->signals;
    own->barriers = config->barriers;
    own->slots = config->slots;
    own->first_epoch = config->first_epoch;
    own->allow_partial = config->allow_partial;
    rc = comm->boot.allgather(comm->boot.context, own, comm->hello, sizeof(*own));
    if (rc != 0) {
        BRAID_WARN("device communicator: the bootstrap's all-gather failed: %s", strerror(-rc));
        return rc;
    }
    for (int i = 0; i < comm->ranks; i++) {
        const struct braid_hello *other = &comm->hello[i];

        if (other->version != BRAID_HELLO_VERSION) {
            BRAID_WARN("rank %d runs another version of Braid's device library", i);
            return -EINVAL;
        }
        if (other->status != 0) {
            BRAID_WARN("device communicator: rank %d cannot take part: %s", i,
                       strerror(-other->status));
            return other->status;
        }
        if (other->signals != comm->hello[0].signals ||
            other->barriers != comm->hello[0].barriers || other->slots != comm->hello[0].slots ||
            other->first_epoch != comm->hello[0].first_epoch ||
            other->allow_partial != comm->hello[0].allow_partial) {
            BRAID_WARN("device communicator: ranks 0 and %d disagree about its configuration", i);
            return -EINVAL;
        }
    }
    return 0;
}

/* Ranks with this rank's GPU, and its share of the SMs. */
static void share_gpu(struct braid_comm *comm)
{
    const struct braid_hello *self = &comm->hello[comm->rank];

    for (int i = 0; i < comm->ranks; i++) {
        if (memcmp(comm->hello[i].gpu_uuid, self->gpu_uuid, sizeof(self->gpu_uuid)) != 0)
            continue;
        if (i < comm->rank)
            comm->gpu_rank++;
        comm->gpu_ranks++;
    }
    comm->sm_count = MAX((int)self->sms / comm->gpu_ranks, 1);
}

/* The ranks with a memory road if they are evenly spaced, else this rank alone. */
static struct braid_devteam local_team(const struct braid_comm *comm)
{
    struct braid_devteam team = {0, 0, 0, 1}, alone = {0, 1, comm->rank, 1};

    for (int i = 0; i < comm->ranks; i++) {
        if (comm->reach[i] != BRAID_ROAD_MEMORY)
            continue;
        if (team.ranks == 0)
            team.first = i;
        else if (team.ranks == 1)
            team.stride = i - team.first;
        else if (i != team.first + team.ranks * team.stride)
            return alone;
        if (i == comm->rank)
            team.rank = team.ranks;
        team.ranks++;
    }
    return team;
}

/* Where things are in the control window, in bytes. */
struct control_layout {
    uint64_t signals, inbox, consumed, epochs, slots, state, bytes;
    uint32_t stride;
};

static struct control_layout lay_out(const struct braid_comm *comm)
{
    const struct braid_comm_config *config = &comm->config;
    struct control_layout l = {0};
    uint64_t line = 128;

    l.stride = ((uint32_t)comm->ranks + 31) / 32 * 32;
    l.inbox = (8ull * config->signals + line - 1) / line * line;
    l.consumed = l.inbox + 4ull * config->barriers * l.stride;
    l.epochs = (l.consumed + 8ull * config->signals + line - 1) / line * line;
    l.slots = (l.epochs + 4ull * config->barriers + line - 1) / line * line;
    l.state = (l.slots + sizeof(struct braid_devslot) * config->slots + line - 1) / line * line;
    l.bytes = l.state + sizeof(struct braid_devcomm_state);
    return l;
}

/* Barrier words and epochs start at first_epoch - 1, slots at first_epoch; the rest at zero. */
static int write_control(struct braid_comm *comm, const struct control_layout *l)
{
    uint8_t *image = calloc(1, l->bytes);
    uint32_t first = comm->config.first_epoch;
    int result;

    if (image == NULL)
        return -ENOMEM;
    for (uint64_t i = 0; i < (uint64_t)comm->config.barriers * l->stride; i++)
        ((uint32_t *)(void *)(image + l->inbox))[i] = first - 1;
    for (uint32_t i = 0; i < comm->config.barriers; i++)
        ((uint32_t *)(void *)(image + l->epochs))[i] = first - 1;
    for (uint32_t i = 0; i < comm->config.slots; i++)
        ((struct braid_devslot *)(void *)(image + l->slots))[i].epoch = first;
    result = comm->cuda->copy_to_device(comm->control->local, image, l->bytes, comm->stream);
    if (result == BRAID_CU_SUCCESS)
        result = comm->cuda->stream_synchronize(comm->stream);
    free(image);
    if (result != BRAID_CU_SUCCESS)
        BRAID_WARN("control window cannot be written: %s", braid_cuda_name(result));
    return braid_cuda_errno(result);
}

static int fill_device(struct braid_comm *comm, const struct control_layout *l)
{
    struct braid_devcomm *d = &comm->device;
    uint64_t base = comm->control->local, words = 0;
    int result = comm->cuda->host_device_pointer(&words, comm->words, 0);

    if (result != BRAID_CU_SUCCESS) {
        BRAID_WARN("host words cannot be reached by the GPU: %s", braid_cuda_name(result));
        return braid_cuda_errno(result);
    }
    d->version = BRAID_DEVCOMM_VERSION;
    d->bytes = sizeof(*d);
    d->world = (struct braid_devteam){comm->rank, comm->ranks, 0, 1};
    d->local = local_team(comm);
    d->timeout_ns = comm->config.timeout_ns;
    d->abort = words + offsetof(struct braid_host_words, abort);
    d->error = words + offsetof(struct braid_host_words, error);
    d->state = base + l->state;
    d->signals = base + l->signals;
    d->consumed = base + l->consumed;
    d->barrier_inbox = base + l->inbox;
    d->barrier_epochs = base + l->epochs;
    d->slots = base + l->slots;
    d->signal_count = comm->config.signals;
    d->barrier_count = comm->config.barriers;
    d->slot_count = comm->config.slots;
    d->inbox_stride = l->stride;
    d->signals_offset = (uint32_t)l->signals;
    d->inbox_offset = (uint32_t)l->inbox;
    d->sm_count = (uint32_t)comm->sm_count;
    d->roads = 1u << BRAID_ROAD_MEMORY;
    d->control = comm->control->device;
    return 0;
}

/* Can descriptors replace fabric handles that did not work? The same answer on every rank. */
static bool descriptors_possible(const struct braid_comm *comm)
{
    for (int i = 1; i < comm->ranks; i++) {
        if (!braid_identity_same_process(&comm->hello[0], &comm->hello[i]) &&
            braid_identity_same_host(&comm->hello[0], &comm->hello[i]) != 0)
            return false;
    }
    return true;
}

/* The collective steps after the hello. The context is current. */
static int join(struct braid_comm *comm)
{
    struct control_layout layout = lay_out(comm);
    int rc = braid_reach_settle(comm);

    if (rc != 0)
        return rc;
    rc = braid_window_make(comm, layout.bytes, 0, &comm->control);
    if (rc != 0 && comm->handle_type == BRAID_CU_HANDLE_FABRIC && descriptors_possible(comm)) {
        BRAID_INFO(BRAID_LOG_INIT,
                   "fabric handles do not work between these ranks, trying descriptors");
        comm->handle_type = BRAID_CU_HANDLE_FD;
        rc = braid_window_make(comm, layout.bytes, 0, &comm->control);
    }
    if (rc != 0)
        return rc;
    rc = write_control(comm, &layout);
    if (rc == 0)
        rc = fill_device(comm, &layout);
    return braid_comm_agree(comm, rc, NULL); /* from here on peers may write into it */
}

static void warn_lazy_loading(const struct braid_comm *comm)
{
    int mode = 0;

    if (comm->cuda->loading_mode != NULL && comm->cuda->loading_mode(&mode) == BRAID_CU_SUCCESS &&
        mode == BRAID_CU_LOADING_LAZY)
        BRAID_INFO(
            BRAID_LOG_INIT,
            "CUDA loads kernels lazily here: a first launch can wait for a kernel that waits "
            "for a peer. Use braid_comm_check_launch before, or CUDA_MODULE_LOADING=EAGER");
}

/* Frees what exists. `leak` keeps the GPU's memory, because kernels may still use it. */
static void delete_comm(struct braid_comm *comm, bool leak)
{
    if (comm->context != NULL && braid_comm_enter(comm) == 0) {
        while (!leak && comm->windows != NULL)
            braid_window_free(comm->windows);
        if (!leak && comm->words != NULL)
            comm->cuda->host_free(comm->words);
        if (!leak && comm->stream != NULL)
            comm->cuda->stream_destroy(comm->stream);
        braid_comm_leave(comm);
        if (!leak)
            comm->cuda->primary_release(comm->gpu);
    }
    braid_fdpass_close(comm->socket);
    braid_nccl_boot_close(comm->nccl);
    free(comm->hello);
    free(comm->share);
    free(comm->reach);
    free(comm);
}

static struct braid_comm *new_comm(const struct braid_bootstrap *bootstrap,
                                   const struct braid_comm_config *config,
                                   struct braid_nccl_boot *nccl)
{
    struct braid_comm *comm = calloc(1, sizeof(*comm));
    size_t n;

    if (comm == NULL)
        return NULL;
    comm->boot = *bootstrap;
    comm->config = *config;
    comm->nccl = nccl;
    comm->socket = -1;
    comm->rank = bootstrap->rank(bootstrap->context);
    comm->ranks = bootstrap->ranks(bootstrap->context);
    n = comm->ranks > 0 && comm->ranks <= BRAID_MAX_RANKS ? (size_t)comm->ranks : 1;
    comm->hello = calloc(n, sizeof(*comm->hello));
    comm->share = calloc(n, sizeof(*comm->share));
    comm->reach = calloc(n, sizeof(*comm->reach));
    if (comm->hello == NULL || comm->share == NULL || comm->reach == NULL) {
        comm->nccl = NULL;
        delete_comm(comm, false);
        return NULL;
    }
    return comm;
}

int braid_comm_build(struct braid_comm **comm_p, const struct braid_bootstrap *bootstrap,
                     const struct braid_comm_config *config, struct braid_nccl_boot *nccl)
{
    struct braid_comm *comm = new_comm(bootstrap, config, nccl);
    struct braid_hello own = {0};
    int rc;

    if (comm == NULL) {
        braid_nccl_boot_close(nccl);
        return -ENOMEM;
    }
    rc = -EINVAL;
    if (comm->ranks < 1 || comm->ranks > BRAID_MAX_RANKS || comm->rank < 0 ||
        comm->rank >= comm->ranks) {
        BRAID_WARN("rank %d of %d: at most %d ranks in a device communicator", comm->rank,
                   comm->ranks, BRAID_MAX_RANKS);
        goto err_delete;
    }
    own.status = open_local(comm, &own);
    rc = exchange_hello(comm, &own);
    if (rc != 0)
        goto err_delete;
    share_gpu(comm);
    rc = braid_comm_enter(comm);
    if (rc != 0)
        goto err_delete;
    rc = join(comm);
    braid_comm_leave(comm);
    if (rc != 0)
        goto err_delete;
    warn_lazy_loading(comm);
    BRAID_INFO(BRAID_LOG_INIT,
               "device communicator: rank %d of %d on GPU %d, %d of them on this GPU, %d SMs, "
               "%d reached by memory, memory shared as %s",
               comm->rank, comm->ranks, comm->gpu, comm->gpu_ranks, comm->sm_count,
               comm->device.local.ranks,
               comm->handle_type == BRAID_CU_HANDLE_FD ? "descriptors" : "fabric handles");
    *comm_p = comm;
    return 0;

err_delete:
    delete_comm(comm, false);
    return rc;
}

int braid_comm_create(struct braid_comm **comm_p, const struct braid_bootstrap *bootstrap,
                      const struct braid_comm_config *config)
{
    struct braid_comm_config resolved;
    int rc;

    if (comm_p == NULL || bootstrap == NULL || bootstrap->rank == NULL ||
        bootstrap->ranks == NULL || bootstrap->allgather == NULL)
        return -EINVAL;
    rc = braid_config_resolve(config, &resolved);
    if (rc != 0)
        return rc;
    return braid_comm_build(comm_p, bootstrap, &resolved, NULL);
}

/*
 * Waiting for the GPU with a bound: cuCtxSynchronize has none, so a thread of its own calls it. A thread that comes back in time is
 * joined, so that nothing of this library runs once the caller may unload it; one that does not is left behind and frees this.
 */
enum { IDLE_WAITING, IDLE_DONE, IDLE_LEFT };

struct idle_wait {
    const struct braid_cuda *cuda;
    void *context;
    _Atomic int state;
};

static void *idle_wait_main(void *argument)
{
    struct idle_wait *w = argument;
    void *context;

    if (w->cuda->context_push(w->context) == BRAID_CU_SUCCESS) {
        w->cuda
            ->context_synchronize(); /* an error (a faulted context) also means that nothing runs */
        w->cuda->context_pop(&context);
    }
    if (atomic_exchange(&w->state, IDLE_DONE) == IDLE_LEFT)
        free(w);
    return NULL;
}

/* 0 when the GPU's context is idle, -ETIMEDOUT when it is not within the bound. */
static int wait_idle(const struct braid_comm *comm, uint64_t bound_ns)
{
    struct idle_wait *w = calloc(1, sizeof(*w));
    uint64_t deadline = braid_now_ns() + bound_ns;
    uint64_t nap = 5 * BRAID_NS_PER_US;
    pthread_t thread;

    if (w == NULL)
        return -ENOMEM;
    w->cuda = comm->cuda;
    w->context = comm->context;
    if (braid_thread_start(&thread, "braid-idle", idle_wait_main, w) != 0) {
        free(w);
        return -EAGAIN;
    }
    while (atomic_load(&w->state) == IDLE_WAITING && braid_now_ns() < deadline) {
        braid_sleep_ns(nap);
        nap = MIN(2 * nap, BRAID_NS_PER_MS);
    }
    if (atomic_exchange(&w->state, IDLE_LEFT) == IDLE_WAITING) {
        pthread_detach(thread);
        return -ETIMEDOUT;
    }
    pthread_join(thread, NULL); /* it has only to return */
    free(w);
    return 0;
}

int braid_comm_destroy(struct braid_comm *comm)
{
    int rc;

    if (comm == NULL)
        return 0;
    braid_comm_abort(comm);
    rc = wait_idle(comm, comm->config.timeout_ns);
    if (rc != 0)
        BRAID_WARN("device communicator of rank %d: the GPU was not idle within %llu ms (%s); its "
                   "memory is left to kernels that may still use it",
                   comm->rank, (unsigned long long)(comm->config.timeout_ns / BRAID_NS_PER_MS),
                   strerror(-rc));
    delete_comm(comm, rc != 0);
    return rc;
}
