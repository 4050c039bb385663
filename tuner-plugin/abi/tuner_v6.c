/*
 * NCCL tuner interface v6: v5 and the chunk size (NCCL 2.30 and newer). Converts types, decides nothing.
 */
#include "nccl/tuner_v6.h"

#include "tuner-plugin/abi/glue.h"

static ncclResult_t get_chunk_size(void *context, ncclFunc_t coll, size_t bytes, int algo,
                                   int proto, int channels, size_t *chunk)
{
    (void)channels;
    *chunk = braid_tuner_chunk(context, (enum braid_coll)coll, bytes, (enum braid_algo)algo,
                               (enum braid_proto)proto, *chunk);
    return ncclSuccess;
}

extern const ncclTuner_v6_t ncclTunerPlugin_v6;
__attribute__((visibility("default"))) const ncclTuner_v6_t ncclTunerPlugin_v6 = {
    .name = "Braid",
    .init = braid_tuner_abi_init_constants,
    .getCollInfo = braid_tuner_abi_decide,
    .finalize = braid_tuner_abi_close,
    .getChunkSize = get_chunk_size,
};
