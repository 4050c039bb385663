/*
 * What the files tuner_v2.c .. tuner_v6.c share: holding Braid's numbering against NCCL's, and the calls that are equal in several
 * versions. Nobody outside of abi/ includes this. Threading: as NCCL calls, on the launching thread.
 */
#ifndef BRAID_TUNER_ABI_GLUE_H
#define BRAID_TUNER_ABI_GLUE_H

#include "nccl/tuner_v5.h"
#include "tuner-plugin/tuner.h"

/* NCCL had at most 32 channels until 2.25, which knows no tuner newer than v4. */
#define BRAID_CEILING_V4 32
#define BRAID_CEILING    64

void *braid_tuner_abi_open(size_t ranks, size_t nodes, size_t domain_ranks, int ceiling,
                           ncclDebugLogger_t log);
ncclResult_t braid_tuner_abi_init(size_t ranks, size_t nodes, ncclDebugLogger_t log,
                                  void **context);
ncclResult_t braid_tuner_abi_init_constants(void **context, uint64_t comm_id, size_t ranks,
                                            size_t nodes, ncclDebugLogger_t log,
                                            ncclNvlDomainInfo_v5_t *domain,
                                            ncclTunerConstants_v5_t *constants);
ncclResult_t braid_tuner_abi_decide(void *context, ncclFunc_t coll, size_t bytes, int ops,
                                    float **table, int algos, int protos, int reg_buff,
                                    int *channels);
ncclResult_t braid_tuner_abi_close(void *context);

#endif
