/*
 * NCCL tuner plugin interface, version 2 (symbol ncclTunerPlugin_v2, since NCCL 2.21).
 *
 * getCollInfo writes one algorithm, one protocol and a channel count; values left alone (-1, -1,
 * 0) keep NCCL's own choice. A lone algorithm or a lone protocol is not allowed.
 * Called on the thread that launches the collective. A call that does not return ncclSuccess fails
 * the collective, so a tuner that has nothing to say returns ncclSuccess and changes nothing.
 * *nChannels is 0 on entry, and 0 keeps NCCL's choice. nBytes is the size of the whole collective.
 * Compared with NVIDIA/nccl from tag v2.21.5-1 to v2.30.7-1.
 */
#ifndef NCCL_ABI_TUNER_V2_H
#define NCCL_ABI_TUNER_V2_H

#include "tuner_types.h"

typedef struct {
    const char *name;
    ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logFunction,
                         void **context);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes,
                                int collNetSupport, int nvlsSupport, int numPipeOps, int *algorithm,
                                int *protocol, int *nChannels);
    ncclResult_t (*destroy)(void *context);
} ncclTuner_v2_t;

static_assert(sizeof(ncclTuner_v2_t) == 32, "tuner v2 table layout");

#endif
