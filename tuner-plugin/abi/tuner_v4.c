/*
 * NCCL tuner interface v4: the cost table and registration hints (NCCL 2.24 and newer). Converts types, decides nothing.
 */
#include "nccl/tuner_v4.h"

#include "tuner-plugin/abi/glue.h"

extern const ncclTuner_v4_t ncclTunerPlugin_v4;
__attribute__((visibility("default"))) const ncclTuner_v4_t ncclTunerPlugin_v4 = {
    .name = "Braid",
    .init = braid_tuner_abi_init,
    .getCollInfo = braid_tuner_abi_decide,
    .destroy = braid_tuner_abi_close,
};
