/*
 * NCCL tuner interface v5: NVLink domains, and NCCL's model constants to edit at init (NCCL 2.28 and newer). Decides nothing.
 */
#include "nccl/tuner_v5.h"

#include "tuner-plugin/abi/glue.h"

extern const ncclTuner_v5_t ncclTunerPlugin_v5;
__attribute__((visibility("default"))) const ncclTuner_v5_t ncclTunerPlugin_v5 = {
    .name = "Braid",
    .init = braid_tuner_abi_init_constants,
    .getCollInfo = braid_tuner_abi_decide,
    .finalize = braid_tuner_abi_close,
};
