/*
 * NCCL tuner interface v2 (NCCL 2.21): no cost table, so which combinations the communicator can run is only partly known. What
 * NCCL would choose comes from its model as the profile restates it, and only rings and trees are offered in its place: NCCL 2.21
 * takes the answer as it is. Builds the table that newer versions pass and asks the same decision.
 */
#include "nccl/tuner_v2.h"

#include "tuner-plugin/abi/glue.h"

static ncclResult_t get_coll_info(void *context, ncclFunc_t func, size_t bytes, int collnet,
                                  int nvls, int ops, int *algorithm, int *protocol, int *channels)
{
    float table[BRAID_ALGOS][BRAID_PROTOS];
    enum braid_coll coll = (enum braid_coll)func;
    enum braid_algo algo;
    enum braid_proto proto;
    struct braid_tuner_call call = {coll,         bytes,       ops,         false,
                                    &table[0][0], BRAID_ALGOS, BRAID_PROTOS};
    struct braid_tuner_decision decision;
    int wanted;

    (void)nvls;
    /* CollNet could be NCCL's choice, and a channel count meant for a ring would run past its channels. */
    if (collnet || braid_tuner_nccl_choice(context, coll, bytes, &algo, &proto))
        return ncclSuccess;
    for (int a = 0; a < BRAID_ALGOS; a++) {
        for (int p = 0; p < BRAID_PROTOS; p++)
            table[a][p] =
                braid_tuner_safe(context, coll, (enum braid_algo)a, (enum braid_proto)p) ? 2 : -1;
    }
    table[algo][proto] = 1;
    wanted = braid_tuner_decide(context, &call, &decision);
    if (decision.reason == BRAID_WHY_FORCED || decision.reason == BRAID_WHY_NOT_COVERED ||
        decision.reason == BRAID_WHY_NO_PROFILE)
        return ncclSuccess;
    if (decision.algo != algo || decision.proto != proto) {
        *algorithm = (int)decision.algo;
        *protocol = (int)decision.proto;
    }
    if (wanted)
        *channels = wanted;
    return ncclSuccess;
}

extern const ncclTuner_v2_t ncclTunerPlugin_v2;
__attribute__((visibility("default"))) const ncclTuner_v2_t ncclTunerPlugin_v2 = {
    .name = "Braid",
    .init = braid_tuner_abi_init,
    .getCollInfo = get_coll_info,
    .destroy = braid_tuner_abi_close,
};
