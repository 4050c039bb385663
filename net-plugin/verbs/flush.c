/*
 * GPUDirect flush: a read of one byte of GPU memory by each NIC that may have written there. It returns after all earlier writes of that
 * NIC, to whichever buffer of the GPU they went, so one read is enough for the buffers of a group, which are of one GPU. A chunk may have
 * come over any rail, so every rail reads; the queue pairs for it are made at connect and only where the device takes GPU memory.
 * Threading: NCCL's progress thread of the connection.
 */
#include "net-plugin/verbs/conn.h"

#include "common/log.h"

static struct verbs_flush *free_flush(struct verbs_conn *conn)
{
    for (int i = 0; i < CONN_FLUSHES; i++)
        if (!conn->flushes[i].in_use)
            return &conn->flushes[i];
    return NULL;
}

static int post_read(struct verbs_conn *conn, int rail, void *addr, const struct braid_mr *mr)
{
    struct verbs_flush_rail *flush = &conn->flush[rail];
    uint32_t key = verbs_mr_rkey(mr, (unsigned)rail);
    struct ibv_sge sge = {(uintptr_t)&flush->landing, 1, flush->mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.wr_id = ++flush->posted,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)addr, key}};

    return ibv_post_send(flush->qp, &wr, &bad) == 0 ? 0 : -EIO;
}

static int poll_rail(struct verbs_conn *conn, int rail)
{
    struct verbs_flush_rail *flush = &conn->flush[rail];
    struct ibv_wc wc;

    while (ibv_poll_cq(flush->cq, 1, &wc) > 0) {
        if (wc.status != IBV_WC_SUCCESS) {
            BRAID_WARN("flush of GPU memory by %s failed: %s (status %d, vendor code 0x%x); %s",
                       conn->ports[rail]->name, braid_ibv.wc_status_str(wc.status), (int)wc.status,
                       wc.vendor_err, verbs_status_advice((int)wc.status, wc.vendor_err));
            return -EIO;
        }
        flush->done = (uint32_t)wc.wr_id;
    }
    return 0;
}

int verbs_flush(struct braid_conn *core, int n, void *const *addrs, struct braid_mr *const *mrs,
                void **token_p)
{
    struct verbs_conn *conn = braid_conn_tp(core);
    struct verbs_flush *token;
    int last = -1, err = 0;

    *token_p = NULL;
    for (int i = 0; i < n; i++)
        if (mrs[i] != NULL && mrs[i]->type != BRAID_PTR_HOST && mrs[i]->bytes > 0)
            last = i;
    if (last < 0)
        return 0;
    token = free_flush(conn);
    if (token == NULL || conn->flush[0].qp == NULL)
        return token == NULL ? -ENOBUFS : -EOPNOTSUPP;
    /* A queue pair has a place for each token, so a read always finds room. */
    for (int rail = 0; rail < conn->rails && err == 0; rail++) {
        err = post_read(conn, rail, addrs[last], mrs[last]);
        token->until[rail] = conn->flush[rail].posted;
    }
    if (err != 0)
        return err;
    token->in_use = true;
    *token_p = token;
    return 0;
}

int verbs_flush_test(struct braid_conn *core, void *opaque)
{
    struct verbs_conn *conn = braid_conn_tp(core);
    struct verbs_flush *token = opaque;

    for (int rail = 0; rail < conn->rails; rail++) {
        int err = poll_rail(conn, rail);
        if (err != 0)
            return err;
        if ((int32_t)(conn->flush[rail].done - token->until[rail]) < 0)
            return 0;
    }
    token->in_use = false;
    return 1;
}
