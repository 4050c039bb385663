/* NCCL's net interface v11 (NCCL 2.28 and later): as v10, with contexts and finalize. */
#include "net-plugin/abi/abi.h"
#include "nccl/net_v11.h"

static ncclResult_t get_properties(int dev, ncclNetProperties_v11_t *props)
{
    struct braid_device_props device;
    int err = braid_net_device_props(dev, &device);

    if (err != 0)
        return braid_abi_result(err);
    BRAID_ABI_FILL_V9(props, &device);
    props->maxMultiRequestSize = 1;
    return ncclSuccess;
}

static ncclResult_t init(void **ctx, uint64_t comm_id, ncclNetCommConfig_v11_t *config,
                         ncclDebugLogger_t log, ncclProfilerCallback_t profiler)
{
    return braid_abi_init(ctx, config != NULL ? config->trafficClass : -1, log);
}

static ncclResult_t connect_dev(void *ctx, int dev, void *handle, void **send_comm,
                                ncclNetDeviceHandle_v11_t **dev_comm)
{
    return braid_abi_connect(ctx, dev, -1, handle, send_comm);
}

static ncclResult_t accept_dev(void *listen_comm, void **recv_comm,
                               ncclNetDeviceHandle_v11_t **dev_comm)
{
    return braid_abi_accept(listen_comm, recv_comm);
}

static ncclResult_t make_vdevice(int *dev, ncclNetVDeviceProps_v11_t *props)
{
    return braid_abi_make_vdevice(dev, props->devs, props->ndevs);
}

BRAID_EXPORT ncclNet_v11_t ncclNetPlugin_v11 = {
    .name = BRAID_NET_NAME,
    .init = init,
    .devices = braid_abi_devices,
    .getProperties = get_properties,
    .listen = braid_abi_listen_ctx,
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
    .finalize = braid_abi_finalize,
};
