/*
 * NCCL net plugin interface, version 8 (symbol ncclNetPlugin_v8, since NCCL 2.20).
 *
 * regMr takes size_t; regIsGlobal is inserted after ptrSupport. NCCL never sends more than 1 GiB.
 * Compared with NVIDIA/nccl from tag v2.20.5-1 to v2.30.7-1; the contract of each call, its
 * thread and the differences between versions are in README.md beside this file.
 */
#ifndef NCCL_ABI_NET_V8_H
#define NCCL_ABI_NET_V8_H

#include "types.h"

typedef struct {
    char *name;      /* unique, used in logs and as a topology key */
    char *pciPath;   /* folder in /sys, or NULL for a device that is not on PCI */
    uint64_t guid;   /* equal for the functions of one chip */
    int ptrSupport;  /* NCCL_PTR_* bits */
    int regIsGlobal; /* 1: a registration is good for every comm of the process */
    int speed;       /* Mbit/s, one direction */
    int port;        /* port number on the chip, from 1 */
    float latency;   /* microseconds, one way; 0: NCCL's default */
    int maxComms;    /* connections that one device can hold */
    int maxRecvs;    /* widest grouped receive, 1 to 8 */
    ncclNetDeviceType netDeviceType;
    int netDeviceVersion;
} ncclNetProperties_v8_t;

typedef struct {
    const char *name; /* what NCCL logs and what NCCL_NET is compared with */
    ncclResult_t (*init)(ncclDebugLogger_t logFunction);
    ncclResult_t (*devices)(int *ndev);
    ncclResult_t (*getProperties)(int dev, ncclNetProperties_v8_t *props);
    ncclResult_t (*listen)(int dev, void *handle, void **listenComm);
    ncclResult_t (*connect)(int dev, void *handle, void **sendComm,
                            ncclNetDeviceHandle_v8_t **sendDevComm);
    ncclResult_t (*accept)(void *listenComm, void **recvComm,
                           ncclNetDeviceHandle_v8_t **recvDevComm);
    ncclResult_t (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    ncclResult_t (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset,
                                int fd, void **mhandle);
    ncclResult_t (*deregMr)(void *comm, void *mhandle);
    ncclResult_t (*isend)(void *sendComm, void *data, int size, int tag, void *mhandle,
                          void **request);
    ncclResult_t (*irecv)(void *recvComm, int n, void **data, int *sizes, int *tags,
                          void **mhandles, void **request);
    ncclResult_t (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                           void **request);
    ncclResult_t (*test)(void *request, int *done, int *sizes);
    ncclResult_t (*closeSend)(void *sendComm);
    ncclResult_t (*closeRecv)(void *recvComm);
    ncclResult_t (*closeListen)(void *listenComm);
    ncclResult_t (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle);
    ncclResult_t (*irecvConsumed)(void *recvComm, int n, void *request);
} ncclNet_v8_t;

static_assert(sizeof(ncclNetProperties_v8_t) == 64, "net v8 properties layout");
static_assert(sizeof(ncclNet_v8_t) == 152, "net v8 table layout");

#endif
