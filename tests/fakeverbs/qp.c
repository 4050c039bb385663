/*
 * Completion queues and queue pairs: creation, state changes with the checks that a NIC makes, destruction. Only RC.
 */
#include "fakeverbs.h"
#include "objects.h"
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    struct fv_fabric *fabric = fv_fabric_get();
    struct fv_cq_ring *ring = NULL;
    struct fv_cq *cq;

    (void)vector;
    if (fv_call_fails(__func__))
        return NULL;
    if (channel || cqe <= 0 ||
        (uint32_t)cqe > fabric->devices[((struct fv_context *)context)->device].max_cqe) {
        errno = channel ? EOPNOTSUPP : EINVAL;
        return NULL;
    }
    cq = calloc(1, sizeof(*cq));
    fv_fabric_lock(fabric);
    for (uint32_t i = 0; i < FV_MAX_CQS && !ring; i++)
        if (!fabric->cqs[i].used) {
            ring = &fabric->cqs[i];
            cq->index = i;
            ring->used = true;
            ring->overrun = false;
            ring->pid = getpid();
            ring->depth = (uint32_t)cqe;
            atomic_store(&ring->head, 0);
            atomic_store(&ring->tail, 0);
        }
    fv_fabric_unlock(fabric);
    if (!ring) {
        free(cq);
        errno = ENOMEM;
        return NULL;
    }
    cq->cq.context = context;
    cq->cq.cq_context = cq_context;
    cq->cq.cqe = cqe;
    atomic_fetch_add(&fv_live_objects, 1);
    return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
    struct fv_cq *cq = (struct fv_cq *)ibv;
    struct fv_fabric *fabric = fv_fabric_get();

    fv_fabric_lock(fabric);
    fabric->cqs[cq->index].used = false;
    fv_fabric_unlock(fabric);
    free(cq);
    atomic_fetch_sub(&fv_live_objects, 1);
    return 0;
}

static int check_caps(const struct fv_device_state *device, const struct ibv_qp_init_attr *attr)
{
    if (attr->qp_type != IBV_QPT_RC || attr->srq)
        return EOPNOTSUPP;
    if (attr->cap.max_send_wr > device->max_wr || attr->cap.max_recv_wr > device->max_wr ||
        attr->cap.max_send_sge > 4 || attr->cap.max_inline_data > device->max_inline ||
        attr->cap.max_inline_data > FV_INLINE_MAX)
        return EINVAL;
    return device->live_qps >= device->max_qp ? ENOMEM : 0;
}

/* Finds a free queue pair number; 0 and 1 are reserved as on a real fabric. Caller holds the lock. */
static struct fv_qp_state *claim_state(struct fv_fabric *fabric, struct fv_qp *qp)
{
    for (uint32_t i = 0; i < FV_MAX_QPS; i++) {
        uint32_t index = (fabric->qp_rotor + i) % FV_MAX_QPS;
        if (index < 2 || fabric->qps[index].used)
            continue;
        fabric->qp_rotor = index + 1;
        qp->index = index;
        memset(&fabric->qps[index], 0, offsetof(struct fv_qp_state, rq));
        fabric->qps[index].used = true;
        return &fabric->qps[index];
    }
    return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct fv_fabric *fabric = fv_fabric_get();
    uint32_t device = ((struct fv_context *)pd->context)->device;
    struct fv_qp_state *state;
    struct fv_qp *qp;

    if (fv_call_fails(__func__))
        return NULL;
    errno = check_caps(&fabric->devices[device], attr);
    if (errno)
        return NULL;
    qp = calloc(1, sizeof(*qp));
    qp->sq_depth = attr->cap.max_send_wr;
    qp->sq = calloc(qp->sq_depth ? qp->sq_depth : 1, sizeof(*qp->sq));
    qp->inline_max = attr->cap.max_inline_data;
    qp->max_sge = attr->cap.max_send_sge;
    qp->all_signaled = attr->sq_sig_all;
    pthread_mutex_init(&qp->lock, NULL);
    fv_fabric_lock(fabric);
    state = claim_state(fabric, qp);
    if (state) {
        state->pid = getpid();
        state->device = device;
        state->pd = ((struct fv_pd *)pd)->id;
        state->recv_cq = ((struct fv_cq *)attr->recv_cq)->index;
        state->rq_depth = attr->cap.max_recv_wr;
        fabric->devices[device].live_qps++;
    }
    fv_fabric_unlock(fabric);
    if (!state) {
        free(qp->sq);
        free(qp);
        errno = ENOMEM;
        return NULL;
    }
    qp->qp.context = pd->context;
    qp->qp.qp_context = attr->qp_context;
    qp->qp.pd = pd;
    qp->qp.send_cq = attr->send_cq;
    qp->qp.recv_cq = attr->recv_cq;
    qp->qp.qp_num = qp->index;
    qp->qp.qp_type = IBV_QPT_RC;
    fv_engine_add(qp);
    FV_COUNT(qps, 1);
    atomic_fetch_add(&fv_live_objects, 1);
    return &qp->qp;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
    struct fv_qp *qp = (struct fv_qp *)ibv;
    struct fv_fabric *fabric = fv_fabric_get();

    fv_engine_remove(qp);
    fv_fabric_lock(fabric);
    fabric->devices[fabric->qps[qp->index].device].live_qps--;
    fabric->qps[qp->index].used = false;
    fv_fabric_unlock(fabric);
    free(qp->sq);
    free(qp);
    atomic_fetch_sub(&fv_live_objects, 1);
    return 0;
}

/* What a RoCE NIC needs before it can send: a GRH with a source GID that exists. mlx5 answers ENODEV for an empty one. */
static int check_address(const struct fv_device_state *device, const struct ibv_ah_attr *ah)
{
    if (ah->port_num != 1)
        return EINVAL;
    if (device->link_layer == IBV_LINK_LAYER_INFINIBAND)
        return !ah->is_global && ah->dlid == 0 ? EINVAL : 0;
    if (!ah->is_global)
        return EINVAL;
    return ah->grh.sgid_index >= FV_MAX_GIDS || !device->gids[ah->grh.sgid_index].valid ? ENODEV
                                                                                        : 0;
}

static int to_rtr(struct fv_fabric *fabric, struct fv_qp_state *state, struct ibv_qp_attr *attr,
                  int mask)
{
    const int needed = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    const struct fv_device_state *device = &fabric->devices[state->device];
    int error;

    if (state->state != IBV_QPS_INIT || (mask & needed) != needed || attr->path_mtu > device->mtu)
        return EINVAL;
    error = check_address(device, &attr->ah_attr);
    if (error)
        return error;
    state->dest_qp = attr->dest_qp_num;
    state->dlid = attr->ah_attr.dlid;
    state->dgid = attr->ah_attr.grh.dgid;
    state->sgid_index = attr->ah_attr.grh.sgid_index;
    state->mtu_bytes = 128u << attr->path_mtu;
    return 0;
}

static int to_rts(struct fv_qp *qp, struct fv_qp_state *state, struct ibv_qp_attr *attr, int mask)
{
    const int needed = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                       IBV_QP_MAX_QP_RD_ATOMIC;

    if (state->state == IBV_QPS_RTS)
        return 0; /* a change of attributes, such as the alternate path */
    if (state->state != IBV_QPS_RTR || (mask & needed) != needed)
        return EINVAL;
    qp->timeout = attr->timeout;
    qp->retry_cnt = attr->retry_cnt;
    qp->rnr_retry = attr->rnr_retry;
    return 0;
}

/* What queue pairs of this process were told on their way to RTS, for tests; the order is that of their step to RTR. */
static struct path {
    const struct ibv_qp *qp;
    int64_t sl, traffic_class, sgid_index, pkey_index, timeout, retry_cnt, ece_options;
} paths[64];
static int path_count;
static pthread_mutex_t paths_lock = PTHREAD_MUTEX_INITIALIZER;

int64_t fakeverbs_path(int nth, const char *what)
{
    const struct path *p = nth >= 0 && nth < path_count ? &paths[nth] : NULL;

    return p == NULL                            ? -1
           : strcmp(what, "sl") == 0            ? p->sl
           : strcmp(what, "traffic_class") == 0 ? p->traffic_class
           : strcmp(what, "sgid_index") == 0    ? p->sgid_index
           : strcmp(what, "pkey_index") == 0    ? p->pkey_index
           : strcmp(what, "timeout") == 0       ? p->timeout
           : strcmp(what, "retry_cnt") == 0     ? p->retry_cnt
           : strcmp(what, "ece_options") == 0   ? p->ece_options
                                                : -1;
}

static void note_path(const struct fv_qp *qp, const struct ibv_qp_attr *attr)
{
    struct path *p;

    pthread_mutex_lock(&paths_lock);
    if (attr->qp_state == IBV_QPS_RTR && path_count < 64)
        paths[path_count++] = (struct path){.qp = &qp->qp,
                                            .sl = attr->ah_attr.sl,
                                            .traffic_class = attr->ah_attr.grh.traffic_class,
                                            .sgid_index = attr->ah_attr.grh.sgid_index,
                                            .pkey_index = qp->pkey_index,
                                            .ece_options = qp->ece_options};
    p = path_count > 0 ? &paths[path_count - 1] : NULL;
    if (attr->qp_state == IBV_QPS_RTS && p != NULL && p->qp == &qp->qp) {
        p->timeout = attr->timeout;
        p->retry_cnt = attr->retry_cnt;
    }
    pthread_mutex_unlock(&paths_lock);
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    struct fv_qp *qp = (struct fv_qp *)ibv;
    struct fv_fabric *fabric = fv_fabric_get();
    struct fv_qp_state *state = &fabric->qps[qp->index];
    int error = fv_call_fails(__func__);

    if (!error && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR)
        error = fv_call_fails("ibv_modify_qp_rtr"); /* so that a script can mean this step */
    if (error || !(mask & IBV_QP_STATE))
        return error;
    pthread_mutex_lock(&qp->lock);
    fv_fabric_lock(fabric);
    switch (attr->qp_state) {
    case IBV_QPS_RESET:
        fv_engine_reset(qp);
        state->rq_head = state->rq_tail = 0;
        break;
    case IBV_QPS_INIT:
        if (state->state != IBV_QPS_RESET || attr->port_num != 1 || attr->pkey_index >= FV_PKEYS)
            error = EINVAL;
        state->access = attr->qp_access_flags;
        qp->pkey_index = attr->pkey_index;
        break;
    case IBV_QPS_RTR: error = to_rtr(fabric, state, attr, mask); break;
    case IBV_QPS_RTS: error = to_rts(qp, state, attr, mask); break;
    case IBV_QPS_ERR: fv_qp_fail(fabric, qp->index); break;
    default: error = EINVAL;
    }
    if (!error) {
        state->state = attr->qp_state;
        ibv->state = attr->qp_state;
        note_path(qp, attr);
    }
    fv_fabric_unlock(fabric);
    pthread_mutex_unlock(&qp->lock);
    return error;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    struct fv_qp *qp = (struct fv_qp *)ibv;

    (void)mask;
    if (fv_call_fails(__func__))
        return errno;
    memset(attr, 0, sizeof(*attr));
    memset(init, 0, sizeof(*init));
    attr->qp_state = (enum ibv_qp_state)fv_fabric_get()->qps[qp->index].state;
    init->cap.max_inline_data = qp->inline_max;
    init->cap.max_send_wr = qp->sq_depth;
    return 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    ece->vendor_id = 0x02c9;
    ece->options = 0x30000002;
    ece->comp_mask = 0;
    return fv_call_fails(__func__);
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    const int error = fv_call_fails(__func__);

    if (error == 0)
        ((struct fv_qp *)qp)->ece_options = ece->options;
    return error;
}
