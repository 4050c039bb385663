/*
 * NCCL tuner plugin interface, version 5 (symbol ncclTunerPlugin_v5, since NCCL 2.28).
 *
 * init returns a context, learns the communicator's id and its NVLink domains, and may edit the
 * constants of NCCL's own cost model; destroy is now called finalize.
 * Called on the thread that launches the collective. A call that does not return ncclSuccess fails
 * the collective, so a tuner that has nothing to say returns ncclSuccess and changes nothing.
 * *nChannels is 0 on entry, and 0 keeps NCCL's choice. nBytes is the size of the whole collective.
 * Compared with NVIDIA/nccl from tag v2.28.3-1 to v2.30.7-1.
 */
#ifndef NCCL_ABI_TUNER_V5_H
#define NCCL_ABI_TUNER_V5_H

#include "tuner_types.h"

typedef struct {
    int nNvlDomains;
    int minRanksPerNvlDomain;
    int maxRanksPerNvlDomain;
} ncclNvlDomainInfo_v5_t;

/* Latencies in microseconds, bandwidths in GB/s (a channel, where the name says perCh). */
typedef struct {
    double baseLatencies[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
    double hwLatencies[NCCL_NUM_HW_LINKS][NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
    double llMaxBws[NCCL_NUM_COMPCAPS][NCCL_NUM_TUNING_SCALES];
    double perChMaxRingLL128Bws[NCCL_NUM_COMPCAPS][NCCL_NUM_TUNING_SCALES];
    double perChMaxTreeLL128Bws[NCCL_NUM_COMPCAPS][NCCL_NUM_TUNING_SCALES];
    double perChMaxTreeBws[NCCL_NUM_COMPCAPS][NCCL_NUM_TUNING_SCALES];
    double perChMaxNVLSTreeBws[NCCL_NUM_COMPCAPS][NCCL_NUM_TUNING_SCALES];
} ncclTunerConstants_v5_t;

static_assert(sizeof(ncclNvlDomainInfo_v5_t) == 12, "tuner v5 domain layout");
static_assert(sizeof(ncclTunerConstants_v5_t) == 1152, "tuner v5 constants layout");

typedef struct {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t commId, size_t nRanks, size_t nNodes,
                         ncclDebugLogger_t logFunction, ncclNvlDomainInfo_v5_t *nvlDomainInfo,
                         ncclTunerConstants_v5_t *constants);
    ncclResult_t (*getCollInfo)(void *context, ncclFunc_t collType, size_t nBytes, int numPipeOps,
                                float **collCostTable, int numAlgo, int numProto, int regBuff,
                                int *nChannels);
    ncclResult_t (*finalize)(void *context);
} ncclTuner_v5_t;

static_assert(sizeof(ncclTuner_v5_t) == 32, "tuner v5 table layout");

#endif
