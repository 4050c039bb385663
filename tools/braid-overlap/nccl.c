/* NCCL by name, see nccl.h. */
#include "tools/braid-overlap/nccl.h"

#include "common/dl.h"
#include "common/util.h"

static const struct braid_dl_symbol symbols[] = {
    BRAID_DL_SYMBOL(struct nccl, version, ncclGetVersion),
    BRAID_DL_SYMBOL(struct nccl, unique_id, ncclGetUniqueId),
    BRAID_DL_SYMBOL(struct nccl, init_rank, ncclCommInitRank),
    BRAID_DL_SYMBOL(struct nccl, destroy, ncclCommDestroy),
    BRAID_DL_SYMBOL(struct nccl, all_gather, ncclAllGather),
    BRAID_DL_SYMBOL(struct nccl, reduce_scatter, ncclReduceScatter),
    BRAID_DL_SYMBOL(struct nccl, all_reduce, ncclAllReduce),
};

int nccl_open(struct nccl *nccl, char *why, size_t why_bytes)
{
    static const char *const names[] = {"libnccl.so.2", NULL};

    return braid_dl_open(names, symbols, ARRAY_SIZE(symbols), nccl, why, why_bytes);
}
