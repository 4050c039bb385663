/* The rest of core's face to abi/ (net.h): closing, registration and the data path's entry checks. */
#include "net-plugin/core/net.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/units.h"
#include "net-plugin/core/plugin.h"
#include "net-plugin/core/setup.h"

int braid_net_close(struct braid_conn *conn)
{
    if (conn == NULL)
        return 0;
    braid_maint_lock();
    braid_connect_forget(conn);
    braid_listen_forget(conn);
    braid_setup_unregister(conn);
    braid_conn_free(conn);
    braid_maint_unlock();
    return 0;
}

/* -- memory ---------------------------------------------------------------------------------------------------------------- */

static _Atomic uint32_t last_mr_id;

int braid_net_reg_mr(struct braid_conn *conn, void *addr, size_t bytes, int type, int dmabuf_fd,
                     uint64_t dmabuf_offset, struct braid_mr **mr_p)
{
    struct braid_mr *mr = calloc(1, sizeof(*mr));
    int err;

    if (mr == NULL)
        return -ENOMEM;
    do {
        mr->id = atomic_fetch_add(&last_mr_id, 1) + 1;
    } while (mr->id == 0);
    mr->type = type;
    mr->dev = conn->dev;
    mr->addr = addr;
    mr->bytes = bytes;
    mr->dmabuf_fd = dmabuf_fd;
    mr->conn = conn;
    mr->dmabuf_offset = dmabuf_offset;
    err = conn->ops->mr_reg(mr);
    if (err != 0) {
        free(mr);
        return err;
    }
    mr->dmabuf_fd = -1;
    mr->conn = NULL;
    *mr_p = mr;
    return 0;
}

/*
 * NCCL frees the memory next. In order that nothing lands there later, requests that still use it (an abort) end the connection:
 * its lanes are fenced, which takes at most one turn of an I/O thread.
 */
static void revoke(struct braid_conn *conn)
{
    unsigned count;

    braid_conn_fail(conn, -ECANCELED);
    count = atomic_load(&conn->lanes_count); /* after that, see braid_conn_add_lane */
    for (unsigned i = 0; i < count; i++) {
        struct braid_lane *lane = conn->lanes[i];
        while (!braid_lane_trylock(lane))
            sched_yield();
        atomic_store(&lane->state, BRAID_LANE_FENCED);
        lane->ops->fence(lane);
        braid_lane_unlock(lane);
    }
}

int braid_net_dereg_mr(struct braid_conn *conn, struct braid_mr *mr)
{
    if (mr == NULL)
        return 0;
    if (atomic_load(&mr->uses) != 0)
        revoke(conn);
    conn->ops->mr_dereg(mr);
    free(mr);
    return 0;
}

/* -- data path --------------------------------------------------------------------------------------------------------------- */

static int refuse_size(const char *what, size_t bytes)
{
    char got[32], most[32];

    BRAID_WARN("%s of %s: the largest message is %s", what,
               braid_format_bytes(bytes, got, sizeof(got)),
               braid_format_bytes(BRAID_MAX_P2P_BYTES, most, sizeof(most)));
    return -EINVAL;
}

int braid_net_isend(struct braid_conn *conn, const void *data, size_t bytes, int tag,
                    struct braid_mr *mr, struct braid_request **request_p)
{
    int err = atomic_load_explicit(&conn->error, memory_order_relaxed);

    *request_p = NULL;
    if (err != 0 || !conn->sender)
        return err != 0 ? err : -EINVAL;
    if (bytes > BRAID_MAX_P2P_BYTES)
        return refuse_size("send", bytes);
    err = braid_sender_isend(conn, data, bytes, tag, mr, request_p);
    return err == -EAGAIN ? 0 : err;
}

/* LL and LL128 in GPU memory need whole words in order, which only a NIC that writes there itself gives. */
static int refuse_polled(struct braid_conn *conn, int n, struct braid_mr *const *mrs)
{
    for (int i = 0; i < n && mrs != NULL; i++) {
        if (mrs[i] == NULL || mrs[i]->type != BRAID_PTR_CUDA)
            continue;
        BRAID_WARN("NCCL wants to poll GPU memory while data from %s lands there, which transport "
                   "%s fills by copy engine, in no order: set NCCL_PROTO=Simple or "
                   "BRAID_SOCKET_CUDA=0",
                   conn->peer, conn->ops->name);
        return -EOPNOTSUPP;
    }
    return 0;
}

int braid_net_irecv(struct braid_conn *conn, int n, void *const *data, const size_t *sizes,
                    const int *tags, struct braid_mr *const *mrs, enum braid_polled polled,
                    struct braid_request **request_p)
{
    int err = atomic_load_explicit(&conn->error, memory_order_relaxed);

    *request_p = NULL;
    if (err != 0 || conn->sender)
        return err != 0 ? err : -EINVAL;
    if (n < 1 || n > BRAID_MAX_GROUP) {
        BRAID_WARN("receive of %d buffers: 1 to %d are possible", n, BRAID_MAX_GROUP);
        return -EINVAL;
    }
    for (int i = 0; i < n; i++)
        if (sizes[i] > BRAID_MAX_P2P_BYTES)
            return refuse_size("receive", sizes[i]);
    if (conn->all_polled)
        polled = BRAID_POLLED;
    if (polled == BRAID_POLLED && (conn->ops->flags & BRAID_T_STAGES_GPU) &&
        refuse_polled(conn, n, mrs) != 0)
        return -EOPNOTSUPP;
    err = braid_receiver_irecv(conn, n, data, sizes, tags, mrs, polled, request_p);
    return err == -EAGAIN ? 0 : err;
}

int braid_net_iflush(struct braid_conn *conn, int n, void *const *data, const int *sizes,
                     struct braid_mr *const *mrs, struct braid_request **request_p)
{
    struct braid_flush *flush = NULL;
    void *token = NULL, *filled[BRAID_MAX_GROUP];
    struct braid_mr *filled_mrs[BRAID_MAX_GROUP];
    int count = 0, err;

    *request_p = NULL;
    if (conn->sender || n < 0 || n > BRAID_MAX_GROUP)
        return -EINVAL;
    for (int i = 0; i < n; i++)
        if (sizes == NULL || sizes[i] > 0) {
            filled[count] = data[i];
            filled_mrs[count++] = mrs[i];
        }
    if (count == 0)
        return 0; /* nothing was written */
    for (unsigned i = 0; i < BRAID_FLUSHES && flush == NULL; i++)
        if (!conn->rx->flushes[i].in_use)
            flush = &conn->rx->flushes[i];
    if (flush == NULL)
        return -ENOBUFS; /* more than NCCL may have outstanding; NULL would mean done */
    err = conn->ops->flush(conn, count, filled, filled_mrs, &token);
    if (err != 0 || token == NULL)
        return err;
    flush->in_use = true;
    flush->token = token;
    *request_p = &flush->base;
    return 0;
}

static int flush_test(struct braid_flush *flush)
{
    struct braid_conn *conn = flush->base.conn;
    int got = conn->ops->flush_test(conn, flush->token);

    if (got > 0)
        flush->in_use = false;
    return got;
}

int braid_net_test(struct braid_request *request, int *sizes)
{
    switch (request->kind) {
    case BRAID_REQUEST_SEND:
        return braid_sender_test(braid_container_of(request, struct braid_send, base), sizes);
    case BRAID_REQUEST_RECV:
        return braid_receiver_test(braid_container_of(request, struct braid_recv, base), sizes);
    case BRAID_REQUEST_FLUSH:
        return flush_test(braid_container_of(request, struct braid_flush, base));
    }
    return -EINVAL;
}
