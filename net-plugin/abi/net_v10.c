/* NCCL's net interface v10 (NCCL 2.26 and later): as v9, with a profiler callback, profiler handles and a traffic class for each connection. */
#include "net-plugin/abi/abi.h"
#include "nccl/net_v10.h"

static ncclResult_t get_properties(int dev, ncclNetProperties_v10_t *props)
{
    struct braid_device_props device;
    int err = braid_net_device_props(dev, &device);

    if (err != 0)
        return braid_abi_result(err);
    BRAID_ABI_FILL_V9(props, &device);
    return ncclSuccess;
}

static ncclResult_t init(ncclDebugLogger_t log, ncclProfilerCallback_t profiler)
{
    return braid_abi_init(NULL, -1, log);
}

static ncclResult_t connect_dev(int dev, ncclNetCommConfig_v10_t *config, void *handle,
                                void **send_comm, ncclNetDeviceHandle_v10_t **dev_comm)
{
    return braid_abi_connect(NULL, dev, config != NULL ? config->trafficClass : -1, handle,
                             send_comm);
}

static ncclResult_t accept_dev(void *listen_comm, void **recv_comm,
                               ncclNetDeviceHandle_v10_t **dev_comm)
{
    return braid_abi_accept(listen_comm, recv_comm);
}

static ncclResult_t make_vdevice(int *dev, ncclNetVDeviceProps_v10_t *props)
{
    return braid_abi_make_vdevice(dev, props->devs, props->ndevs);
}

BRAID_EXPORT ncclNet_v10_t ncclNetPlugin_v10 = {
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
    .isend = braid_abi_isend,
    .irecv = braid_abi_irecv,
    .iflush = braid_abi_iflush,
    .test = braid_abi_test,
    .closeSend = braid_abi_close,
    .closeRecv = braid_abi_close,
    .closeListen = braid_abi_close_listen,
    .makeVDevice = make_vdevice,
};
