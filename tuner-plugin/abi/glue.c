/*
 * The parts that several versions of NCCL's tuner interface share. Nothing here ever returns an error: NCCL fails the whole
 * collective, or the communicator, when a tuner does. See glue.h.
 */
#include "tuner-plugin/abi/glue.h"

#include "common/log.h"
#include "common/param.h"
#include "tuner-plugin/tuner_setup.h"

static_assert(BRAID_BROADCAST == (int)ncclFuncBroadcast && BRAID_REDUCE == (int)ncclFuncReduce &&
                  BRAID_ALL_GATHER == (int)ncclFuncAllGather &&
                  BRAID_REDUCE_SCATTER == (int)ncclFuncReduceScatter &&
                  BRAID_ALL_REDUCE == (int)ncclFuncAllReduce && BRAID_COLLS == NCCL_NUM_FUNCTIONS,
              "collectives are numbered as NCCL does");
static_assert(BRAID_TREE == NCCL_ALGO_TREE && BRAID_RING == NCCL_ALGO_RING &&
                  BRAID_COLLNET_DIRECT == NCCL_ALGO_COLLNET_DIRECT &&
                  BRAID_COLLNET_CHAIN == NCCL_ALGO_COLLNET_CHAIN && BRAID_NVLS == NCCL_ALGO_NVLS &&
                  BRAID_NVLS_TREE == NCCL_ALGO_NVLS_TREE && BRAID_PAT == NCCL_ALGO_PAT &&
                  BRAID_ALGOS == NCCL_NUM_ALGORITHMS,
              "algorithms are numbered as NCCL does");
static_assert(BRAID_LL == NCCL_PROTO_LL && BRAID_LL128 == NCCL_PROTO_LL128 &&
                  BRAID_SIMPLE == NCCL_PROTO_SIMPLE && BRAID_PROTOS == NCCL_NUM_PROTOCOLS,
              "protocols are numbered as NCCL does");
static_assert(sizeof(struct braid_const_edits) == sizeof(ncclTunerConstants_v5_t),
              "edits are laid out as NCCL's constants");
static_assert(offsetof(struct braid_const_edits, hop_us) ==
                      offsetof(ncclTunerConstants_v5_t, hwLatencies) &&
                  offsetof(struct braid_const_edits, table_GBps) ==
                      offsetof(ncclTunerConstants_v5_t, llMaxBws) &&
                  offsetof(struct braid_const_edits, table_GBps[BRAID_NVLS_TREE_MAX]) ==
                      offsetof(ncclTunerConstants_v5_t, perChMaxNVLSTreeBws),
              "edits are laid out as NCCL's constants");

void *braid_tuner_abi_open(size_t ranks, size_t nodes, size_t domain_ranks, int ceiling,
                           ncclDebugLogger_t log)
{
    if (log)
        braid_log_set_sink((braid_log_fn)log);
    return braid_tuner_open(ranks, nodes, domain_ranks, ceiling);
}

ncclResult_t braid_tuner_abi_init(size_t ranks, size_t nodes, ncclDebugLogger_t log, void **context)
{
    *context = braid_tuner_abi_open(ranks, nodes, 0, BRAID_CEILING_V4, log);
    return ncclSuccess;
}

ncclResult_t braid_tuner_abi_init_constants(void **context, uint64_t comm_id, size_t ranks,
                                            size_t nodes, ncclDebugLogger_t log,
                                            ncclNvlDomainInfo_v5_t *domain,
                                            ncclTunerConstants_v5_t *constants)
{
    int most = domain && domain->maxRanksPerNvlDomain > 0 ? domain->maxRanksPerNvlDomain : 0;
    int changed = 0;

    *context = braid_tuner_abi_open(ranks, nodes, (size_t)most, BRAID_CEILING, log);
    if (constants)
        changed = braid_tuner_edit_constants(*context, (double *)constants,
                                             sizeof(*constants) / sizeof(double));
    if (changed)
        BRAID_INFO(BRAID_LOG_TUNING, "tuner: %d of NCCL's model constants replaced", changed);
    return ncclSuccess;
}

ncclResult_t braid_tuner_abi_decide(void *context, ncclFunc_t coll, size_t bytes, int ops,
                                    float **table, int algos, int protos, int reg_buff,
                                    int *channels)
{
    struct braid_tuner_call call = {
        .coll = (enum braid_coll)coll,
        .bytes = bytes,
        .ops = ops,
        .reg_buff = reg_buff != 0,
        .table = (float *)(void *)table,
        .algos = algos,
        .protos = protos,
    };
    int wanted = table ? braid_tuner_decide(context, &call, NULL) : 0;

    if (wanted)
        *channels = wanted;
    return ncclSuccess;
}

ncclResult_t braid_tuner_abi_close(void *context)
{
    braid_tuner_close(context);
    return ncclSuccess;
}
