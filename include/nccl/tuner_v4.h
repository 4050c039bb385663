/*
 * NCCL tuner plugin interface, version 4 (symbol ncclTunerPlugin_v4, since NCCL 2.24).
 *
 * getCollInfo also learns whether the user's buffers are registered (regBuff).
 * Called on the thread that launches the collective. A call that does not return ncclSuccess fails
 * the collective, so a tuner that has nothing to say returns ncclSuccess and changes nothing.
 * *nChannels is 0 on entry, and 0 keeps NCCL's choice. nBytes is the size of the whole collective.
 * Compared with NVIDIA/nccl from tag v2.24.3-1 to v2.30.7-1.
 */
#ifndef NCCL_ABI_TUNER_V4_H
#define NCCL_ABI_TUNER_V4_H

#include "tuner_types.h"

typedef struct {
    const char *name;
    ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction,
                         void **context);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo, int numProto, int regBuff,
                                int *nChannels);
    ncclResult_t (*destroy)(void *context);
} ncclTuner_v4_t;

static_assert(sizeof(ncclTuner_v4_t) == 32, "tuner v4 table layout");

#endif
