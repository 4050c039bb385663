/*
 * What the version files of this room share: the entry points whose types never changed, the translation of errors, and the properties that
 * every version has. A version file converts the rest and defines the one exported table.
 */
#ifndef BRAID_ABI_ABI_H
#define BRAID_ABI_ABI_H

#include "common/util.h"
#include "nccl/types.h"
#include "net-plugin/core/net.h"

/* The network's name, which NCCL prints ("Using network Braid") and compares with NCCL_NET. */
#define BRAID_NET_NAME       "Braid"
#define BRAID_EXPORT         __attribute__((visibility("default")))
#define BRAID_MAX_COLL_BYTES NCCL_NET_LEGACY_MAX_P2P_BYTES

/* The one place where an errno becomes NCCL's result; 0 is decided here, because that is what every call on the data path returns. */
ncclResult_t braid_abi_error(int err);
static inline ncclResult_t braid_abi_result(int err)
{
    return err == 0 ? ncclSuccess : braid_abi_error(err);
}

/* Takes NCCL's logger, then initialises. `ctx_p` NULL for interfaces without finalize. */
ncclResult_t braid_abi_init(void **ctx_p, int traffic_class, ncclDebugLogger_t log);
ncclResult_t braid_abi_finalize(void *ctx);
ncclResult_t braid_abi_devices(int *ndev);
ncclResult_t braid_abi_make_vdevice(int *dev, const int *devs, int count);
ncclResult_t braid_abi_listen(int dev, void *handle, void **listen_comm);
ncclResult_t braid_abi_listen_ctx(void *ctx, int dev, void *handle, void **listen_comm);
ncclResult_t braid_abi_connect(void *ctx, int dev, int traffic_class, void *handle,
                               void **send_comm);
ncclResult_t braid_abi_accept(void *listen_comm, void **recv_comm);
ncclResult_t braid_abi_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle);
ncclResult_t braid_abi_reg_mr_int(void *comm, void *data, int size, int type, void **mhandle);
ncclResult_t braid_abi_reg_mr_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset,
                                     int fd, void **mhandle);
ncclResult_t braid_abi_dereg_mr(void *comm, void *mhandle);
/* v10 and later, which the data path is made for: as they stand in the table. The profiler's handles are not used. */
ncclResult_t braid_abi_isend(void *comm, void *data, size_t size, int tag, void *mhandle,
                             void *phandle, void **request);
/* *request may hold NCCL_NET_OPTIONAL_RECV_COMPLETION. */
ncclResult_t braid_abi_irecv(void *comm, int n, void **data, size_t *sizes, int *tags,
                             void **mhandles, void **phandles, void **request);
/* Interfaces up to v8: int sizes. */
ncclResult_t braid_abi_isend_int(void *comm, void *data, int size, int tag, void *mhandle,
                                 void **request);
ncclResult_t braid_abi_irecv_int(void *comm, int n, void **data, int *sizes, int *tags,
                                 void **mhandles, void **request);
ncclResult_t braid_abi_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
                              void **request);
ncclResult_t braid_abi_test(void *request, int *done, int *sizes);
ncclResult_t braid_abi_close(void *comm);
ncclResult_t braid_abi_close_listen(void *listen_comm);

/* The fields of a version's properties that v6 has already. Before v9 NCCL does not tell which receives a GPU polls. */
#define BRAID_ABI_FILL_V6(out, in)                                                                 \
    do {                                                                                           \
        (out)->name = (char *)(uintptr_t)(in)->name;                                               \
        (out)->pciPath = (char *)(uintptr_t)(in)->pci_path;                                        \
        (out)->guid = (in)->guid;                                                                  \
        (out)->ptrSupport = (in)->staged ? BRAID_PTR_HOST : (in)->ptr_support;                     \
        (out)->speed = (in)->speed_Mbps;                                                           \
        (out)->port = (in)->port;                                                                  \
        (out)->latency = (in)->latency_us;                                                         \
        (out)->maxComms = (in)->max_comms;                                                         \
        (out)->maxRecvs = (in)->max_recvs;                                                         \
    } while (0)

/* Those that v7 added. */
#define BRAID_ABI_FILL_V7(out, in)                                                                 \
    do {                                                                                           \
        BRAID_ABI_FILL_V6(out, in);                                                                \
        (out)->netDeviceType = NCCL_NET_DEVICE_HOST;                                               \
        (out)->netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION;                                 \
    } while (0)

/* Those that v8 and v9 added. */
#define BRAID_ABI_FILL_V9(out, in)                                                                 \
    do {                                                                                           \
        BRAID_ABI_FILL_V7(out, in);                                                                \
        (out)->regIsGlobal = (in)->reg_is_global;                                                  \
        (out)->forceFlush = (in)->force_flush;                                                     \
        (out)->ptrSupport = (in)->ptr_support;                                                     \
        (out)->vProps.ndevs = MIN((in)->ndevs, (int)ARRAY_SIZE((out)->vProps.devs));               \
        for (int i_ = 0; i_ < (out)->vProps.ndevs; i_++)                                           \
            (out)->vProps.devs[i_] = (in)->devs[i_];                                               \
        (out)->maxP2pBytes = (in)->max_p2p_bytes;                                                  \
        (out)->maxCollBytes = BRAID_MAX_COLL_BYTES;                                                \
    } while (0)

#endif
