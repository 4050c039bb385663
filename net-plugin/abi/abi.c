/* The entry points that all versions share; see abi.h. */
#include "net-plugin/abi/abi.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"

ncclResult_t braid_abi_error(int err)
{
    switch (-err) {
    case EINVAL: return ncclInvalidArgument;
    case EMSGSIZE: return ncclInvalidUsage;
    case ECONNRESET:
    case EPIPE:
    case ETIMEDOUT:
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EACCES: return ncclRemoteError;
    case EPROTO:
    case EOPNOTSUPP: return ncclInternalError;
    default: return ncclSystemError;
    }
}

ncclResult_t braid_abi_init(void **ctx_p, int traffic_class, ncclDebugLogger_t log)
{
    braid_log_set_sink((braid_log_fn)log);
    return braid_abi_result(braid_net_init(ctx_p, traffic_class));
}

ncclResult_t braid_abi_finalize(void *ctx)
{
    return braid_abi_result(braid_net_finalize(ctx));
}

ncclResult_t braid_abi_devices(int *ndev)
{
    return braid_abi_result(braid_net_device_count(ndev));
}

ncclResult_t braid_abi_make_vdevice(int *dev, const int *devs, int count)
{
    return braid_abi_result(braid_net_make_vdevice(devs, count, dev));
}

ncclResult_t braid_abi_listen(int dev, void *handle, void **listen_comm)
{
    return braid_abi_result(braid_net_listen(dev, handle, (struct braid_listen **)listen_comm));
}

ncclResult_t braid_abi_listen_ctx(void *ctx, int dev, void *handle, void **listen_comm)
{
    return braid_abi_listen(dev, handle, listen_comm);
}

ncclResult_t braid_abi_connect(void *ctx, int dev, int traffic_class, void *handle,
                               void **send_comm)
{
    return braid_abi_result(
        braid_net_connect(ctx, dev, traffic_class, handle, (struct braid_conn **)send_comm));
}

ncclResult_t braid_abi_accept(void *listen_comm, void **recv_comm)
{
    return braid_abi_result(braid_net_accept(listen_comm, (struct braid_conn **)recv_comm));
}

ncclResult_t braid_abi_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    return braid_abi_result(
        braid_net_reg_mr(comm, data, size, type, -1, 0, (struct braid_mr **)mhandle));
}

ncclResult_t braid_abi_reg_mr_int(void *comm, void *data, int size, int type, void **mhandle)
{
    return size < 0 ? ncclInvalidArgument
                    : braid_abi_reg_mr(comm, data, (size_t)size, type, mhandle);
}

ncclResult_t braid_abi_reg_mr_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset,
                                     int fd, void **mhandle)
{
    return braid_abi_result(
        braid_net_reg_mr(comm, data, size, type, fd, offset, (struct braid_mr **)mhandle));
}

ncclResult_t braid_abi_dereg_mr(void *comm, void *mhandle)
{
    return braid_abi_result(braid_net_dereg_mr(comm, mhandle));
}

ncclResult_t braid_abi_isend(void *comm, void *data, size_t size, int tag, void *mhandle,
                             void *phandle, void **request)
{
    return braid_abi_result(
        braid_net_isend(comm, data, size, tag, mhandle, (struct braid_request **)request));
}

ncclResult_t braid_abi_isend_int(void *comm, void *data, int size, int tag, void *mhandle,
                                 void **request)
{
    return size < 0 ? ncclInvalidArgument
                    : braid_abi_isend(comm, data, (size_t)size, tag, mhandle, NULL, request);
}

/* Which receives a GPU may be polling, see core/landing.h. */
ncclResult_t braid_abi_irecv(void *comm, int n, void **data, size_t *sizes, int *tags,
                             void **mhandles, void **phandles, void **request)
{
    bool marked = *request == (void *)NCCL_NET_OPTIONAL_RECV_COMPLETION;
    enum braid_polled polled = marked  ? BRAID_POLLED
                               : n > 1 ? BRAID_POLLED_IF_SMALL
                                       : BRAID_NOT_POLLED;

    return braid_abi_result(braid_net_irecv(comm, n, data, sizes, tags,
                                            (struct braid_mr *const *)mhandles, polled,
                                            (struct braid_request **)request));
}

/* These versions cannot say it: as if all were marked. */
ncclResult_t braid_abi_irecv_int(void *comm, int n, void **data, int *sizes, int *tags,
                                 void **mhandles, void **request)
{
    size_t wide[BRAID_MAX_GROUP] = {0};

    for (int i = 0; i < MIN(n, BRAID_MAX_GROUP);
         i++) { /* more than that core refuses, and says why */
        if (sizes[i] < 0)
            return ncclInvalidArgument;
        wide[i] = (size_t)sizes[i];
    }
    *request = (void *)NCCL_NET_OPTIONAL_RECV_COMPLETION;
    return braid_abi_irecv(comm, n, data, wide, tags, mhandles, NULL, request);
}

ncclResult_t braid_abi_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
                              void **request)
{
    return braid_abi_result(braid_net_iflush(comm, n, data, sizes,
                                             (struct braid_mr *const *)mhandles,
                                             (struct braid_request **)request));
}

ncclResult_t braid_abi_test(void *request, int *done, int *sizes)
{
    int got = braid_net_test(request, sizes);

    *done = got > 0;
    return got >= 0 ? ncclSuccess : braid_abi_error(got);
}

ncclResult_t braid_abi_close(void *comm)
{
    return braid_abi_result(braid_net_close(comm));
}

ncclResult_t braid_abi_close_listen(void *listen_comm)
{
    return braid_abi_result(braid_net_close_listen(listen_comm));
}
