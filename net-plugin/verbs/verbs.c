/*
 * The verbs transport: InfiniBand and RoCE by libibverbs. This file is its table and its init; the rest of the room is
 *   ibv      libibverbs, opened at run time        dev    NICs, ports, devices, GID tables, asynchronous events
 *   hca, gid pure functions: NCCL_IB_HCA, GIDs      conn   offer, agree, attach, detach
 *   qp       queue pairs                            lane   the data path of one queue pair
 *   ring     the control ring, without verbs        mr     registrations and their cache, keys of the peer
 *   flush    GPUDirect flush                        words  errors in words
 */
#include "net-plugin/verbs/verbs.h"

#include "common/log.h"
#include "common/param.h"
#include "net-plugin/verbs/conn.h"

static int verbs_init(void)
{
    char why[256];
    int err;

    if (braid_param_int(BRAID_P_IB_DISABLE) != 0) {
        BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET, "RDMA is not used: BRAID_IB_DISABLE is set");
        return -ENODEV;
    }
    err = braid_ibv_open(why, sizeof(why));
    if (err != 0) {
        BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET, "RDMA is not used: %s", why);
        return err;
    }
    /* A process that forks with registered memory (data loaders) needs this before the first registration. */
    braid_ibv.fork_init();
    err = braid_verbs_dev_init();
    if (err != 0)
        BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET,
                   "RDMA is not used: the list of devices cannot be read: %s", strerror(-err));
    return err;
}

static int verbs_device_count(void)
{
    return braid_verbs_device_count;
}

const struct braid_transport braid_verbs_transport = {
    .name = "IB",
    .id = 2,
    .flags = BRAID_T_REMOTE_WRITE | BRAID_T_PUT_STARTS,
    .init = verbs_init,
    .fini = braid_verbs_dev_fini,
    .device_count = verbs_device_count,
    .device_props = braid_verbs_dev_props,
    .device_fuse = braid_verbs_dev_fuse,
    .offer = verbs_offer,
    .agree = verbs_agree,
    .route = braid_no_route,
    .attach = verbs_attach,
    .detach = verbs_detach,
    .describe = verbs_describe,
    .drain = braid_no_drain,
    .lane_state = braid_no_lane_state,
    .mr_reg = verbs_mr_reg,
    .mr_dereg = verbs_mr_dereg,
    .mr_describe = verbs_mr_describe,
    .mr_learn = verbs_mr_learn,
    .flush = verbs_flush,
    .flush_test = verbs_flush_test,
    .control = verbs_lane_control,
    .put = verbs_lane_put,
    .push = verbs_lane_push,
    .progress = verbs_lane_progress,
    .kick = braid_no_kick,
    .fence = verbs_lane_fence,
};
