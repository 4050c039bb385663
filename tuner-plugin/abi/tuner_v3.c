/*
 * NCCL tuner interface v3: the cost table, without registration hints (NCCL 2.22 and newer). Converts types, decides nothing.
 */
#include "nccl/tuner_v3.h"

#include "tuner-plugin/abi/glue.h"

static ncclResult_t get_coll_info(void *context, ncclFunc_t coll, size_t bytes, int ops,
                                  float **table, int algos, int protos, int *channels)
{
    return braid_tuner_abi_decide(context, coll, bytes, ops, table, algos, protos, 0, channels);
}

extern const ncclTuner_v3_t ncclTunerPlugin_v3;
__attribute__((visibility("default"))) const ncclTuner_v3_t ncclTunerPlugin_v3 = {
    .name = "Braid",
    .init = braid_tuner_abi_init,
    .getCollInfo = get_coll_info,
    .destroy = braid_tuner_abi_close,
};
