/* NCCL's net interface v9 (NCCL 2.24 and later): as v8, with size_t messages, virtual devices and the mark for polled receives. */
#include "net-plugin/abi/abi.h"
#include "nccl/net_v9.h"

static ncclResult_t get_properties(int dev, ncclNetProperties_v9_t *props)
{
    struct braid_device_props device;
    int err = braid_net_device_props(dev, &device);

    if (err != 0)
        return braid_abi_result(err);
    BRAID_ABI_FILL_V9(props, &device);
    return ncclSuccess;
}

static ncclResult_t init(ncclDebugLogger_t log)
{
    return braid_abi_init(NULL, -1, log);
}

static ncclResult_t connect_dev(int dev, void *handle, void **send_comm,
                                ncclNetDeviceHandle_v9_t **dev_comm)
{
    return braid_abi_connect(NULL, dev, -1, handle, send_comm);
}

static ncclResult_t accept_dev(void *listen_comm, void **recv_comm,
                               ncclNetDeviceHandle_v9_t **dev_comm)
{
    return braid_abi_accept(listen_comm, recv_comm);
}

static ncclResult_t isend(void *comm, void *data, size_t size, int tag, void *mhandle,
                          void **request)
{
    return braid_abi_isend(comm, data, size, tag, mhandle, NULL, request);
}

static ncclResult_t irecv(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
                          void **request)
{
    return braid_abi_irecv(comm, n, data, sizes, tags, mhandles, NULL, request);
}

static ncclResult_t make_vdevice(int *dev, ncclNetVDeviceProps_v9_t *props)
{
    return braid_abi_make_vdevice(dev, props->devs, props->ndevs);
}

BRAID_EXPORT ncclNet_v9_t ncclNetPlugin_v9 = {
    .name = BRAID_NET_NAME,
    .init = init,
    .devices = braid_abi_devices,
    .getProperties = get_properties,
    .listen = braid_abi_listen,
    .connect = connect_dev,
    .accept = accept_dev,
    .regMr = braid_abi_reg_mr,
    .regMrDmaBuf = braid_abi_reg_mr_dmabuf,
    .deregMr = braid_abi_dereg_mr,
    .isend = isend,
    .irecv = irecv,
    .iflush = braid_abi_iflush,
    .test = braid_abi_test,
    .closeSend = braid_abi_close,
    .closeRecv = braid_abi_close,
    .closeListen = braid_abi_close_listen,
    .makeVDevice = make_vdevice,
};
