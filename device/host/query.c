/*
 * What a communicator knows and how it feels: getters, health, abort. Implements that part of comm.h; any thread.
 */
#include "device/host/host.h"

#include <errno.h>
#include <stdio.h>

#include "braid/braid.h"
#include "common/util.h"

const char *braid_version(void)
{
    return BRAID_VERSION_STRING;
}

void braid_comm_abort(struct braid_comm *comm)
{
    if (comm != NULL)
        atomic_store_explicit(&comm->words->abort, 1, memory_order_release);
}

int braid_comm_error(const struct braid_comm *comm, struct braid_devcomm_error *reason)
{
    const struct braid_devcomm_error *error = &comm->words->error;
    int status = __atomic_load_n(&error->status, __ATOMIC_ACQUIRE);

    if (status != 0) {
        if (reason != NULL)
            *reason = *error;
        return status;
    }
    if (atomic_load_explicit(&comm->words->abort, memory_order_acquire) != 0)
        status = BRAID_DEV_ABORTED;
    if (reason != NULL)
        *reason = (struct braid_devcomm_error){.status = status, .peer = -1};
    return status;
}

static const char *wait_name(uint32_t wait)
{
    static const char *const names[] = {"nothing", "signal", "word",   "barrier",   "packet",
                                        "tile",    "chunk",  "result", "beginning", "copy engines"};

    return wait < ARRAY_SIZE(names) ? names[wait] : "user wait";
}

static const char *status_name(int status)
{
    switch (status) {
    case BRAID_DEV_OK: return "no failure";
    case BRAID_DEV_TIMEOUT: return "timed out";
    case BRAID_DEV_ABORTED: return "aborted by the host";
    case BRAID_DEV_INVALID: return "out of range, or other than here";
    default: return "failed";
    }
}

const char *braid_comm_error_text(const struct braid_devcomm_error *reason, char *text,
                                  size_t bytes)
{
    char peer[32] = "any rank";

    if (reason->status == BRAID_DEV_OK || reason->wait == BRAID_WAIT_NONE) {
        snprintf(text, bytes, "%s", status_name(reason->status));
        return text;
    }
    if (reason->peer >= 0)
        snprintf(peer, sizeof(peer), "rank %d", reason->peer);
    snprintf(text, bytes,
             "wait for %s %u from %s %s after %.3f ms: expected %llu (0x%llx), seen %llu (0x%llx); "
             "block %u, thread %u",
             wait_name(reason->wait), reason->index, peer, status_name(reason->status),
             (double)reason->waited_ns / 1e6, (unsigned long long)reason->expected,
             (unsigned long long)reason->expected, (unsigned long long)reason->seen,
             (unsigned long long)reason->seen, reason->block, reason->thread);
    return text;
}

const struct braid_devcomm *braid_comm_device(const struct braid_comm *comm)
{
    return &comm->device;
}

int braid_comm_rank(const struct braid_comm *comm)
{
    return comm->rank;
}

int braid_comm_ranks(const struct braid_comm *comm)
{
    return comm->ranks;
}

int braid_comm_gpu(const struct braid_comm *comm)
{
    return comm->gpu;
}

uint32_t braid_comm_reachable(const struct braid_comm *comm, int peer)
{
    return peer < 0 || peer >= comm->ranks ? BRAID_ROAD_NONE : comm->reach[peer];
}

struct braid_devteam braid_comm_world(const struct braid_comm *comm)
{
    return comm->device.world;
}

struct braid_devteam braid_comm_local(const struct braid_comm *comm)
{
    return comm->device.local;
}

int braid_comm_gpu_ranks(const struct braid_comm *comm)
{
    return comm->gpu_ranks;
}

int braid_comm_gpu_rank(const struct braid_comm *comm)
{
    return comm->gpu_rank;
}

int braid_comm_sm_count(const struct braid_comm *comm)
{
    return comm->sm_count;
}

uint64_t braid_comm_timeout_ns(const struct braid_comm *comm)
{
    return comm->config.timeout_ns;
}

int braid_comm_set_timeout_ns(struct braid_comm *comm, uint64_t timeout_ns)
{
    if (timeout_ns == 0)
        return -EINVAL;
    comm->config.timeout_ns = timeout_ns;
    comm->device.timeout_ns = timeout_ns;
    return 0;
}

int braid_comm_sync(struct braid_comm *comm)
{
    return braid_comm_agree(comm, 0, NULL);
}
