/*
 * Queue pairs: creation, and the way RESET -> INIT -> RTR -> RTS with the user's settings. A failed step is logged here with device,
 * port, GIDs, peer and advice. Called on the control path only.
 */
#include "net-plugin/verbs/conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "common/log.h"
#include "common/param.h"

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK                                                                                   \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                \
     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                   \
    (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |         \
     IBV_QP_MAX_QP_RD_ATOMIC)

/* Logs a failed creation; lack of memory is nearly always the limit on locked memory. */
static int create_failed(const char *what, const struct braid_verbs_port *port)
{
    int err = errno != 0 ? errno : ENOMEM;
    struct rlimit limit = {0, 0};
    char text[64] = "unlimited";

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, sizeof(text), "%llu KiB", (unsigned long long)limit.rlim_cur / 1024);
    if (err == ENOMEM)
        BRAID_WARN("%s on %s failed: %s; RLIMIT_MEMLOCK of this process is %s: raise it with "
                   "`ulimit -l unlimited` (for "
                   "containers --ulimit memlock=-1, for systemd LimitMEMLOCK=infinity), or the NIC "
                   "has none left (max_qp %d)",
                   what, port->name, strerror(err), text, port->nic->attr.max_qp);
    else
        BRAID_WARN("%s on %s failed: %s", what, port->name, strerror(err));
    return -err;
}

static struct ibv_qp *create(struct braid_verbs_port *port, struct ibv_cq *cq, uint32_t sends,
                             uint32_t recvs, uint32_t *inline_bytes)
{
    struct ibv_qp *qp = NULL;

    for (uint32_t bytes = *inline_bytes;; bytes /= 2) {
        struct ibv_qp_init_attr attr = {.send_cq = cq,
                                        .recv_cq = cq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = sends,
                                                .max_recv_wr = recvs,
                                                .max_send_sge = 1,
                                                .max_recv_sge = 1,
                                                .max_inline_data = bytes}};
        errno = 0;
        qp = braid_ibv.create_qp(port->nic->pd, &attr);
        *inline_bytes = bytes;
        if (qp != NULL || errno != EINVAL || bytes == 0)
            return qp; /* a NIC that takes less inline data says EINVAL */
    }
}

int verbs_qp_create(struct verbs_lane *lane)
{
    struct braid_verbs_port *port = lane->port;

    errno = 0;
    lane->cq =
        braid_ibv.create_cq(port->nic->context, LANE_SENDS + (int)lane->recvs_count, NULL, NULL, 0);
    if (lane->cq == NULL)
        return create_failed("creating a completion queue", port);
    lane->inline_bytes = LANE_INLINE;
    lane->qp = create(port, lane->cq, LANE_SENDS, lane->recvs_count, &lane->inline_bytes);
    if (lane->qp == NULL)
        return create_failed("creating a queue pair", port);
    return verbs_qp_init(lane->qp, port, IBV_ACCESS_REMOTE_WRITE);
}

int verbs_qp_init(struct ibv_qp *qp, const struct braid_verbs_port *port, int access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = port->pkey_index,
                               .port_num = (uint8_t)port->port,
                               .qp_access_flags = (unsigned)access};
    int err = braid_ibv.modify_qp(qp, &attr, INIT_MASK);

    if (err != 0)
        BRAID_WARN("queue pair 0x%x on %s cannot be set up (INIT, partition key index %d): %s",
                   qp->qp_num, port->name, port->pkey_index, strerror(err));
    return err > 0 ? -err : err;
}

/* The environment's traffic class holds where the communicator sets none; control (the receiving end) has its own. */
static int traffic_class(const struct verbs_conn *conn)
{
    int own = braid_conn_traffic_class(conn->core);

    if (!braid_conn_is_sender(conn->core) && braid_param_int(BRAID_P_IB_FIFO_TC) >= 0)
        return (int)braid_param_int(BRAID_P_IB_FIFO_TC);
    return own >= 0 ? own : (int)braid_param_int(BRAID_P_IB_TC);
}

static void fill_address(struct ibv_ah_attr *ah, const struct verbs_conn *conn,
                         const struct braid_verbs_port *port, int gid_index,
                         const struct braid_verbs_gid *own, const struct braid_verbs_gid *peer,
                         uint16_t peer_lid)
{
    ah->port_num = (uint8_t)port->port;
    ah->sl = (uint8_t)braid_param_int(BRAID_P_IB_SL);
    ah->dlid = peer_lid;
    /* On InfiniBand a global header is only needed to leave the subnet. */
    ah->is_global =
        port->rail.link == BRAID_VERBS_LINK_ETHERNET || memcmp(own->raw, peer->raw, 8) != 0;
    if (!ah->is_global)
        return;
    memcpy(ah->grh.dgid.raw, peer->raw, 16);
    ah->grh.sgid_index = (uint8_t)gid_index;
    ah->grh.hop_limit = 255;
    ah->grh.traffic_class = (uint8_t)traffic_class(conn);
}

static int to_rts(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = (uint8_t)braid_param_int(BRAID_P_IB_TIMEOUT),
                               .retry_cnt = (uint8_t)braid_param_int(BRAID_P_IB_RETRY_CNT),
                               .rnr_retry = 7,
                               .max_rd_atomic = 1};

    return braid_ibv.modify_qp(qp, &attr, RTS_MASK);
}

int verbs_qp_connect(struct verbs_lane *lane, const struct braid_verbs_rail *peer, char *why,
                     size_t why_bytes)
{
    const struct braid_verbs_rail *own = &lane->port->rail;
    bool roce = own->link == BRAID_VERBS_LINK_ETHERNET;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu =
                                   (enum ibv_mtu)(own->mtu < peer->mtu ? own->mtu : peer->mtu),
                               .dest_qp_num = lane->peer.qpn,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 12};
    char own_text[64], peer_text[64];
    const char *step = "RTR";
    int err;

    fill_address(&attr.ah_attr, lane->conn, lane->port, lane->gid_index, &lane->own_gid,
                 &lane->peer_gid, peer->lid);
    err = braid_ibv.modify_qp(lane->qp, &attr, RTR_MASK);
    if (err == 0) {
        step = "RTS";
        err = to_rts(lane->qp);
    }
    lane->packet_bytes = 128u << attr.path_mtu;
    lane->polled_bytes = lane->peer.flags & BRAID_VERBS_NO_ORDER ? 0 : lane->packet_bytes;
    if (err == 0)
        return 0;
    err = err > 0 ? err : -err;
    snprintf(why, why_bytes,
             "%s: queue pair 0x%x cannot reach %.23s (%s): %s; GID %d %s, peer's GID %s; %s",
             lane->port->name, lane->qp->qp_num, peer->name, step, strerror(err), lane->gid_index,
             braid_gid_text(lane->own_gid.raw, own_text, sizeof(own_text)),
             braid_gid_text(lane->peer_gid.raw, peer_text, sizeof(peer_text)),
             verbs_modify_advice(err, roce));
    return -err;
}

/* A queue pair that is connected to itself, for reads of our own GPU memory. */
int verbs_qp_loop(struct verbs_conn *conn, int rail)
{
    struct verbs_flush_rail *flush = &conn->flush[rail];
    struct braid_verbs_port *port = conn->ports[rail];
    const struct braid_verbs_gid *gid = &port->rail.gids[0];
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = (enum ibv_mtu)port->rail.mtu,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 12};
    uint32_t inline_bytes = 0;
    int err;

    errno = 0;
    flush->mr = verbs_mr_own(port->nic, &flush->landing, sizeof(flush->landing));
    if (flush->mr == NULL)
        return -ENOMEM;
    flush->cq = braid_ibv.create_cq(port->nic->context, CONN_FLUSHES, NULL, NULL, 0);
    if (flush->cq == NULL)
        return create_failed("creating a completion queue", port);
    flush->qp = create(port, flush->cq, CONN_FLUSHES, 1, &inline_bytes);
    if (flush->qp == NULL)
        return create_failed("creating a queue pair", port);
    err = verbs_qp_init(flush->qp, port, IBV_ACCESS_REMOTE_READ);
    if (err != 0)
        return err;
    attr.dest_qp_num = flush->qp->qp_num;
    fill_address(&attr.ah_attr, conn, port, gid->index, gid, gid, port->rail.lid);
    err = braid_ibv.modify_qp(flush->qp, &attr, RTR_MASK);
    if (err == 0)
        err = to_rts(flush->qp);
    if (err != 0)
        BRAID_WARN("%s cannot be connected to itself for GPU flushes: %s", port->name,
                   strerror(err > 0 ? err : -err));
    return err > 0 ? -err : err;
}

void verbs_qp_destroy(struct ibv_qp *qp, struct ibv_cq *cq)
{
    if (qp != NULL)
        braid_ibv.destroy_qp(qp);
    if (cq != NULL)
        braid_ibv.destroy_cq(cq);
}
