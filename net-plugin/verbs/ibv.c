/*
 * The table of libibverbs symbols that the transport uses. What came after rdma-core 17 is optional: GID types (32), relaxed
 * ordering (28), ECE (30), dma-buf (34).
 */
#include "net-plugin/verbs/ibv.h"

#include "common/dl.h"
#include "common/param.h"
#include "common/util.h"

struct braid_ibv braid_ibv;

#define NEEDED(member, symbol, version)                                                            \
    {                                                                                              \
#symbol, version, offsetof(struct braid_ibv, member), false                                \
    }
#define OPTIONAL(member, symbol, version)                                                          \
    {                                                                                              \
#symbol, version, offsetof(struct braid_ibv, member), true                                 \
    }

static const struct braid_dl_symbol symbols[] = {
    NEEDED(get_device_list, ibv_get_device_list, "IBVERBS_1.1"),
    NEEDED(free_device_list, ibv_free_device_list, "IBVERBS_1.1"),
    NEEDED(get_device_name, ibv_get_device_name, "IBVERBS_1.1"),
    NEEDED(open_device, ibv_open_device, "IBVERBS_1.1"),
    NEEDED(close_device, ibv_close_device, "IBVERBS_1.1"),
    NEEDED(get_async_event, ibv_get_async_event, "IBVERBS_1.1"),
    NEEDED(ack_async_event, ibv_ack_async_event, "IBVERBS_1.1"),
    NEEDED(query_device, ibv_query_device, "IBVERBS_1.1"),
    NEEDED(query_port, ibv_query_port, "IBVERBS_1.1"),
    NEEDED(query_gid, ibv_query_gid, "IBVERBS_1.1"),
    OPTIONAL(query_gid_ex, _ibv_query_gid_ex, "IBVERBS_1.11"),
    NEEDED(query_pkey, ibv_query_pkey, "IBVERBS_1.1"),
    NEEDED(alloc_pd, ibv_alloc_pd, "IBVERBS_1.1"),
    NEEDED(dealloc_pd, ibv_dealloc_pd, "IBVERBS_1.1"),
    NEEDED(reg_mr, ibv_reg_mr, "IBVERBS_1.1"),
    OPTIONAL(reg_mr_iova2, ibv_reg_mr_iova2, "IBVERBS_1.8"),
    OPTIONAL(reg_dmabuf_mr, ibv_reg_dmabuf_mr, "IBVERBS_1.12"),
    NEEDED(dereg_mr, ibv_dereg_mr, "IBVERBS_1.1"),
    NEEDED(create_cq, ibv_create_cq, "IBVERBS_1.1"),
    NEEDED(destroy_cq, ibv_destroy_cq, "IBVERBS_1.1"),
    NEEDED(create_qp, ibv_create_qp, "IBVERBS_1.1"),
    NEEDED(modify_qp, ibv_modify_qp, "IBVERBS_1.1"),
    NEEDED(destroy_qp, ibv_destroy_qp, "IBVERBS_1.1"),
    OPTIONAL(query_ece, ibv_query_ece, "IBVERBS_1.10"),
    OPTIONAL(set_ece, ibv_set_ece, "IBVERBS_1.10"),
    NEEDED(fork_init, ibv_fork_init, "IBVERBS_1.1"),
    NEEDED(wc_status_str, ibv_wc_status_str, "IBVERBS_1.1"),
    NEEDED(event_type_str, ibv_event_type_str, "IBVERBS_1.1"),
};

int braid_ibv_open(char *why, size_t why_bytes)
{
    const char *own = braid_param_str(BRAID_P_VERBS_LIBRARY);
    const char *const names[] = {*own ? own : "libibverbs.so.1", *own ? NULL : "libibverbs.so",
                                 NULL};

    if (braid_ibv.get_device_list != NULL)
        return 0;
    return braid_dl_open(names, symbols, ARRAY_SIZE(symbols), &braid_ibv, why, why_bytes);
}
