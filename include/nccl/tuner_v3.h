/*
 * NCCL tuner plugin interface, version 3 (symbol ncclTunerPlugin_v3, since NCCL 2.22).
 *
 * getCollInfo edits a cost table instead of naming one algorithm (see tuner_types.h).
 * Called on the thread that launches the collective. A call that does not return ncclSuccess fails
 * the collective, so a tuner that has nothing to say returns ncclSuccess and changes nothing.
 * *nChannels is 0 on entry, and 0 keeps NCCL's choice. nBytes is the size of the whole collective.
 * Compared with NVIDIA/nccl from tag v2.22.3-1 to v2.30.7-1.
 */
#ifndef NCCL_ABI_TUNER_V3_H
#define NCCL_ABI_TUNER_V3_H

#include "tuner_types.h"

typedef struct {
    const char *name;
    ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction,
                         void **context);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo, int numProto, int *nChannels);
    ncclResult_t (*destroy)(void *context);
} ncclTuner_v3_t;

static_assert(sizeof(ncclTuner_v3_t) == 32, "tuner v3 table layout");

#endif
