/*
 * Launching kernels that wait for peers: all their CTAs must be resident at once within this rank's share of the GPU.
 * Implements that part of comm.h. Threading: as comm.h says.
 */
#include "device/host/host.h"

#include <errno.h>

#include "common/log.h"

/* CTAs of the kernel that fit on this rank's SMs together; negative errno. The context is current. */
static int fit(struct braid_comm *comm, void *function, unsigned threads, size_t shared_bytes)
{
    const struct braid_cuda *cuda = comm->cuda;
    int per_sm = 0, loaded = 0, result = BRAID_CU_SUCCESS;

    if (cuda->function_loaded != NULL &&
        cuda->function_loaded(&loaded, function) != BRAID_CU_SUCCESS)
        loaded = 0;
    if (cuda->function_load != NULL && !loaded) /* not when it is: a stream may be capturing */
        result = cuda->function_load(function);
    if (result == BRAID_CU_SUCCESS)
        result = cuda->occupancy(&per_sm, function, (int)threads, shared_bytes);
    if (result != BRAID_CU_SUCCESS) {
        BRAID_WARN(
            "the occupancy of a kernel with %u threads and %zu bytes of shared memory cannot "
            "be found: %s",
            threads, shared_bytes, braid_cuda_name(result));
        return braid_cuda_errno(result);
    }
    return per_sm * comm->sm_count;
}

int braid_comm_max_ctas(struct braid_comm *comm, void *function, unsigned threads,
                        size_t shared_bytes)
{
    int rc;

    if (comm == NULL || function == NULL || threads == 0)
        return -EINVAL;
    if (braid_comm_error(comm, NULL) != 0)
        return -EIO;
    rc = braid_comm_enter(comm);
    if (rc != 0)
        return rc;
    rc = fit(comm, function, threads, shared_bytes);
    braid_comm_leave(comm);
    return rc;
}

int braid_comm_check_launch(struct braid_comm *comm, void *function, unsigned ctas,
                            unsigned threads, size_t shared_bytes)
{
    int most = braid_comm_max_ctas(comm, function, threads, shared_bytes);

    if (most < 0)
        return most;
    if (ctas == 0)
        return -EINVAL;
    return ctas > (unsigned)most ? -EAGAIN : 0;
}

int braid_comm_launch(struct braid_comm *comm, void *function, unsigned ctas, unsigned threads,
                      size_t shared_bytes, void *stream, void **arguments)
{
    int result, rc = braid_comm_check_launch(comm, function, ctas, threads, shared_bytes);

    if (rc != 0)
        return rc;
    rc = braid_comm_enter(comm);
    if (rc != 0)
        return rc;
    result = comm->cuda->launch(function, ctas, 1, 1, threads, 1, 1, (unsigned)shared_bytes, stream,
                                arguments, NULL);
    braid_comm_leave(comm);
    if (result != BRAID_CU_SUCCESS)
        BRAID_WARN("launch of %u CTAs failed: %s", ctas, braid_cuda_name(result));
    return braid_cuda_errno(result);
}
