/*
 * NCCL tuner plugin interface, version 6 (symbol ncclTunerPlugin_v6, since NCCL 2.30).
 *
 * Adds getChunkSize, which may be NULL. *chunkSize holds NCCL's choice in bytes; NCCL limits what
 * the tuner writes to its buffers and rounds it down.
 * Called on the thread that launches the collective. A call that does not return ncclSuccess fails
 * the collective, so a tuner that has nothing to say returns ncclSuccess and changes nothing.
 * *nChannels is 0 on entry, and 0 keeps NCCL's choice. nBytes is the size of the whole collective.
 * Compared with NVIDIA/nccl from tag v2.30.3-1 to v2.30.7-1.
 */
#ifndef NCCL_ABI_TUNER_V6_H
#define NCCL_ABI_TUNER_V6_H

#include "tuner_v5.h"

typedef ncclNvlDomainInfo_v5_t ncclNvlDomainInfo_v6_t;
typedef ncclTunerConstants_v5_t ncclTunerConstants_v6_t;

typedef struct {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t commId, size_t nRanks, size_t nNodes,
                         ncclDebugLogger_t logFunction, ncclNvlDomainInfo_v6_t *nvlDomainInfo,
                         ncclTunerConstants_v6_t *constants);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo, int numProto, int regBuff,
                                int *nChannels);
    ncclResult_t (*finalize)(void *context);
    ncclResult_t (*getChunkSize)(void *context, ncclFunc_t collType, size_t nBytes, int algo,
                                 int proto, int nChannels, size_t *chunkSize);
} ncclTuner_v6_t;

static_assert(sizeof(ncclTuner_v6_t) == 40, "tuner v6 table layout");

#endif
