/*
 * What the versions of NCCL's tuner interface share: collectives, algorithms and protocols as NCCL
 * numbers them, and the cost table.
 *
 * The cost table that getCollInfo receives is declared as float ** by NCCL, but it is one block of
 * numAlgo x numProto floats in row order: entry [algo * numProto + proto], in microseconds. A
 * negative entry (NCCL_ALGO_PROTO_IGNORE) marks a combination that this communicator cannot run.
 * A version may have fewer rows than NCCL_NUM_ALGORITHMS (PAT came with 2.23), so the bounds are
 * always the two arguments. NCCL takes the smallest entry that is not negative.
 * Compared with NVIDIA/nccl at the tags that types.h lists.
 */
#ifndef NCCL_ABI_TUNER_TYPES_H
#define NCCL_ABI_TUNER_TYPES_H

#include "types.h"

/* Collectives. NCCL asks a tuner about the first five only. */
typedef enum {
    ncclFuncBroadcast = 0,
    ncclFuncReduce = 1,
    ncclFuncAllGather = 2,
    ncclFuncReduceScatter = 3,
    ncclFuncAllReduce = 4,
    ncclFuncSendRecv = 5,
    ncclFuncSend = 6,
    ncclFuncRecv = 7,
} ncclFunc_t;

#define NCCL_NUM_FUNCTIONS 5

#define NCCL_ALGO_UNDEF          (-1)
#define NCCL_ALGO_TREE           0
#define NCCL_ALGO_RING           1
#define NCCL_ALGO_COLLNET_DIRECT 2
#define NCCL_ALGO_COLLNET_CHAIN  3
#define NCCL_ALGO_NVLS           4
#define NCCL_ALGO_NVLS_TREE      5
#define NCCL_ALGO_PAT            6 /* since 2.23 */
#define NCCL_NUM_ALGORITHMS      7

#define NCCL_PROTO_UNDEF   (-1)
#define NCCL_PROTO_LL      0
#define NCCL_PROTO_LL128   1
#define NCCL_PROTO_SIMPLE  2
#define NCCL_NUM_PROTOCOLS 3

#define NCCL_ALGO_PROTO_IGNORE (-1.0f)

/* First index of hwLatencies in the v5 constants. */
#define NCCL_HW_NVLINK    0
#define NCCL_HW_PCI       1
#define NCCL_HW_NET       2
#define NCCL_NUM_HW_LINKS 3

/* First index of the bandwidth tables in the v5 constants. */
#define NCCL_VOLTA_COMPCAP_IDX     0
#define NCCL_AMPERE_COMPCAP_IDX    1
#define NCCL_HOPPER_COMPCAP_IDX    2
#define NCCL_BLACKWELL_COMPCAP_IDX 3
#define NCCL_NUM_COMPCAPS          4

/* Second index of the bandwidth tables: one node, two nodes, four nodes or more. */
#define NCCL_TUNING_SCALE_1NODE  0
#define NCCL_TUNING_SCALE_2NODES 1
#define NCCL_TUNING_SCALE_4NODES 2
#define NCCL_NUM_TUNING_SCALES   3

#endif
