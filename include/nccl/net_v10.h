/*
 * NCCL net plugin interface, version 10 (symbol ncclNetPlugin_v10, since NCCL 2.26).
 *
 * Adds the profiler callback and handles, and a configuration to connect.
 * Compared with NVIDIA/nccl from tag v2.26.2-1 to v2.30.7-1; the contract of each call, its
 * thread and the differences between versions are in README.md beside this file.
 */
#ifndef NCCL_ABI_NET_V10_H
#define NCCL_ABI_NET_V10_H

#include "types.h"

/* Physical devices that make up a virtual one; a plain device lists itself. */
#define NCCL_NET_MAX_DEVS_PER_NIC_V10 4

typedef struct {
    int ndevs;
    int devs[NCCL_NET_MAX_DEVS_PER_NIC_V10];
} ncclNetVDeviceProps_v10_t;

/* What the user's communicator configuration says; -1 is "not set". */
typedef struct {
    int trafficClass;
} ncclNetCommConfig_v10_t;

typedef struct {
    char *name;      /* unique, used in logs and as a topology key */
    char *pciPath;   /* folder in /sys, or NULL for a device that is not on PCI */
    uint64_t guid;   /* equal for the functions of one chip */
    int ptrSupport;  /* NCCL_PTR_* bits */
    int regIsGlobal; /* 1: a registration is good for every comm of the process */
    int forceFlush;  /* 1: NCCL must flush after every receive into GPU memory */
    int speed;       /* Mbit/s, one direction */
    int port;        /* port number on the chip, from 1 */
    float latency;   /* microseconds, one way; 0: NCCL's default */
    int maxComms;    /* connections that one device can hold */
    int maxRecvs;    /* widest grouped receive, 1 to 8 */
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
    ncclNetVDeviceProps_v10_t vProps;
    size_t maxP2pBytes;  /* largest single isend */
    size_t maxCollBytes; /* largest single CollNet operation */
} ncclNetProperties_v10_t;

typedef struct {
    const char *name; /* what NCCL logs and what NCCL_NET is compared with */
    ncclResult_t (*init)(ncclDebugLogger_t logFunction, ncclProfilerCallback_t profFunction);
    ncclResult_t (*devices)(int *ndev);
    ncclResult_t (*getProperties)(int dev, ncclNetProperties_v10_t *props);
    ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
    ncclResult_t (*connect)(int dev, ncclNetCommConfig_v10_t *config, void *handle, void **sendComm,
                            ncclNetDeviceHandle_v10_t **sendDevComm);
    ncclResult_t (*accept)(void *listenComm, void **recvComm,
                           ncclNetDeviceHandle_v10_t **recvDevComm);
    ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                int fd, void **mhandle);
    ncclResult_t (*deregMr)(void *comm, void *mhandle);
    ncclResult_t (*isend)(void *sendComm, void *data, size_t size, int tag, void *mhandle,
                          void *phandle, void **request);
    ncclResult_t (*irecv)(void *recvComm, int n, void **data, size_t *sizes, int *tags,
                          void **mhandles, void **phandles, void **request);
    ncclResult_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                           void **request);
    ncclResult_t (*test)(void *request, int *done, int *sizes);
    ncclResult_t (*closeSend)(void *sendComm);
    ncclResult_t (*closeRecv)(void *recvComm);
    ncclResult_t (*closeListen)(void *listenComm);
    ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle);
    ncclResult_t (*irecvConsumed)(void *recvComm, int n, void *request);
    ncclResult_t (*makeVDevice)(int *d, ncclNetVDeviceProps_v10_t *props);
} ncclNet_v10_t;

static_assert(sizeof(ncclNetProperties_v10_t) == 104, "net v10 properties layout");
static_assert(sizeof(ncclNet_v10_t) == 160, "net v10 table layout");

#endif
