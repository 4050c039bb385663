/*
 * Who reaches whom, and by what: decided once at creation from all ranks' hellos and from what the driver says about pairs of GPUs.
 * Every rank ends with the same answer, because the ranks exchange what each found out and a road must work both ways.
 * Called by: comm.c. Threading: as for the communicator.
 */
#include "device/host/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"

/* Ordinal in this process of the GPU with that UUID, -1 when it is not visible here. */
static int find_gpu(const struct braid_cuda *cuda, const uint8_t *uuid)
{
    int count = 0, device;
    uint8_t other[16];

    if (cuda->device_count(&count) != BRAID_CU_SUCCESS)
        return -1;
    for (int i = 0; i < count; i++) {
        if (cuda->device_get(&device, i) == BRAID_CU_SUCCESS &&
            cuda->device_uuid(other, device) == BRAID_CU_SUCCESS &&
            memcmp(other, uuid, sizeof(other)) == 0)
            return i;
    }
    return -1;
}

/* Can this rank's GPU load from and store to the peer's? A GPU that is not visible here is taken for reachable; mapping will tell. */
static bool gpus_connect(const struct braid_comm *comm, const struct braid_hello *peer)
{
    int can = 0, ordinal = find_gpu(comm->cuda, peer->gpu_uuid);

    if (ordinal < 0 || ordinal == comm->gpu)
        return true;
    return comm->cuda->device_can_access(&can, comm->gpu, ordinal) == BRAID_CU_SUCCESS && can != 0;
}

/* Says why rank i is not reached: -EXDEV and -EHOSTUNREACH as identity.c means them, -ENXIO no peer access. No failure if allowed. */
static void say_why(const struct braid_comm *comm, int i, int why)
{
    char text[256];

    if (why == -EXDEV)
        snprintf(text, sizeof(text),
                 "runs in another container of this host (its network or PID namespace differs) "
                 "and fabric handles are not available here: start the ranks in one container, or "
                 "with shared namespaces (docker: --network host --pid host)");
    else if (why == -ENXIO)
        snprintf(text, sizeof(text), "has GPU %d, and GPU %d here has no peer access to it",
                 comm->hello[i].gpu, comm->gpu);
    else
        snprintf(text, sizeof(text), "runs on another host and fabric handles are not available");
    if (comm->config.allow_partial != 0)
        BRAID_INFO(BRAID_LOG_INIT, "no memory road from rank %d: rank %d %s", comm->rank, i, text);
    else
        BRAID_WARN("device communicator of rank %d: rank %d %s", comm->rank, i, text);
}

/* 0 when rank i's memory can be reached from here, otherwise why not; sets comm->share[i]. */
static int judge(struct braid_comm *comm, int i)
{
    const struct braid_hello *self = &comm->hello[comm->rank], *peer = &comm->hello[i];
    int rc = 0;

    if (i == comm->rank) {
        comm->share[i] = BRAID_SHARE_SELF;
        return 0;
    }
    comm->share[i] = BRAID_SHARE_HANDLE;
    if (braid_identity_same_process(self, peer))
        comm->share[i] = BRAID_SHARE_PROCESS;
    else if (comm->handle_type == BRAID_CU_HANDLE_FD)
        rc = braid_identity_same_host(self, peer);
    if (rc == 0 && !gpus_connect(comm, peer))
        rc = -ENXIO;
    if (rc != 0)
        say_why(comm, i, rc);
    if (rc == -ENXIO)
        rc = -EHOSTUNREACH;
    if (rc != 0)
        comm->share[i] = BRAID_SHARE_NONE;
    return rc;
}

int braid_reach_settle(struct braid_comm *comm)
{
    size_t n = (size_t)comm->ranks;
    int32_t *mine = calloc(n, sizeof(*mine));
    int32_t *all = calloc(n * n, sizeof(*all));
    bool fabric = true;
    int rc = -ENOMEM;

    if (mine == NULL || all == NULL)
        goto out;
    for (int i = 0; i < comm->ranks; i++)
        fabric = fabric && comm->hello[i].fabric != 0;
    comm->handle_type = fabric ? BRAID_CU_HANDLE_FABRIC : BRAID_CU_HANDLE_FD;
    for (int i = 0; i < comm->ranks; i++)
        mine[i] = judge(comm, i);
    rc = comm->boot.allgather(comm->boot.context, mine, all, n * sizeof(*mine));
    if (rc != 0)
        goto out;
    for (size_t i = 0; i < n; i++) {
        bool both = all[(size_t)comm->rank * n + i] == 0 && all[i * n + (size_t)comm->rank] == 0;

        comm->reach[i] = both ? BRAID_ROAD_MEMORY : BRAID_ROAD_NONE;
    }
    for (size_t i = 0; i < n * n && rc == 0 && comm->config.allow_partial == 0; i++)
        rc = all[i];
out:
    free(mine);
    free(all);
    return rc;
}
