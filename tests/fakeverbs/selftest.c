/*
 * Tests of the fake verbs library itself, with two processes and no Braid code: an RC connection by hand, a write with
 * immediate into the peer's memory, refused keys, a receive queue that runs dry, a flushed queue, a killed peer.
 * A plain program (exit 0 = passed) because it forks.
 */
#include "fakeverbs.h"

#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char memory[8192];
};

struct address {
    uint32_t qpn, rkey;
    uint64_t memory;
    union ibv_gid gid;
};

static struct side side;

static void open_side(struct address *own)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 8,
                                            .max_recv_wr = 8,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = 64}};

    CHECK(list && list[0]);
    side.context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    side.pd = ibv_alloc_pd(side.context);
    side.cq = ibv_create_cq(side.context, 64, NULL, NULL, 0);
    init.send_cq = init.recv_cq = side.cq;
    side.qp = ibv_create_qp(side.pd, &init);
    side.mr = ibv_reg_mr_iova2(side.pd, side.memory, sizeof(side.memory), (uintptr_t)side.memory,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(side.qp && side.mr);
    own->qpn = side.qp->qp_num;
    own->rkey = side.mr->rkey;
    own->memory = (uintptr_t)side.memory;
    CHECK(ibv_query_gid(side.context, 1, 3, &own->gid) == 0);
}

static void close_side(void)
{
    ibv_destroy_qp(side.qp);
    ibv_destroy_cq(side.cq);
    ibv_dereg_mr(side.mr);
    ibv_dealloc_pd(side.pd);
    ibv_close_device(side.context);
}

static void connect_side(const struct address *peer)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

    CHECK(ibv_modify_qp(side.qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_4096,
        .dest_qp_num = peer->qpn,
        .max_dest_rd_atomic = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .sgid_index = 3}}};
    CHECK(ibv_modify_qp(side.qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 6, .rnr_retry = 7, .max_rd_atomic = 1};
    CHECK(ibv_modify_qp(side.qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void post_recv(void)
{
    struct ibv_recv_wr wr = {.wr_id = 77}, *bad;

    CHECK(side.qp->context->ops.post_recv(side.qp, &wr, &bad) == 0);
}

static void post_write(const struct address *peer, uint32_t rkey, uint32_t bytes, uint32_t imm)
{
    struct ibv_sge sge = {(uintptr_t)side.memory, bytes, side.mr->lkey};
    struct ibv_send_wr *bad;
    struct ibv_send_wr wr = {.wr_id = imm,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = imm,
                             .wr.rdma = {peer->memory, rkey}};

    CHECK(side.qp->context->ops.post_send(side.qp, &wr, &bad) == 0);
}

static struct ibv_wc wait_wc(void)
{
    struct ibv_wc wc;
    time_t start = time(NULL);

    while (side.cq->context->ops.poll_cq(side.cq, 1, &wc) == 0)
        CHECK(time(NULL) - start < 10);
    return wc;
}

static void token(int fd, bool send)
{
    char byte = 1;

    CHECK((send ? write(fd, &byte, 1) : read(fd, &byte, 1)) == 1);
}

/* Receives a write, runs dry for a while, then is killed. */
static void receiver(int fd)
{
    struct address own, peer;
    struct ibv_wc wc;

    open_side(&own);
    CHECK(write(fd, &own, sizeof(own)) == sizeof(own) &&
          read(fd, &peer, sizeof(peer)) == sizeof(peer));
    connect_side(&peer);
    post_recv();
    token(fd, true);
    wc = wait_wc();
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
    CHECK(wc.imm_data == 5 && wc.byte_len == 5000 && wc.wr_id == 77);
    CHECK(side.memory[0] == 'x' && side.memory[4999] == 'x' && side.memory[5000] == 0);
    token(fd, false); /* the peer's second write waits for a receive */
    usleep(20000);
    post_recv();
    CHECK(wait_wc().imm_data == 6);
    token(fd, true);
    pause();
}

static void sender(int fd, pid_t receiver_pid)
{
    struct address own, peer;

    open_side(&own);
    memset(side.memory, 'x', sizeof(side.memory));
    CHECK(write(fd, &own, sizeof(own)) == sizeof(own) &&
          read(fd, &peer, sizeof(peer)) == sizeof(peer));
    connect_side(&peer);
    token(fd, false);
    post_write(&peer, peer.rkey, 5000, 5);
    CHECK(wait_wc().status == IBV_WC_SUCCESS);
    CHECK(fakeverbs_counter("packets") == 2 && fakeverbs_counter("send_wqes") == 1);
    post_write(&peer, peer.rkey, 8, 6);
    token(fd, true);
    CHECK(wait_wc().status == IBV_WC_SUCCESS && fakeverbs_counter("rnr_waits") == 1);
    token(fd, false);
    kill(receiver_pid, SIGKILL);
    waitpid(receiver_pid, NULL, 0);
    post_write(&peer, peer.rkey, 8, 7);
    post_write(&peer, peer.rkey, 8, 8);
    CHECK(wait_wc().status != IBV_WC_SUCCESS);
    CHECK(wait_wc().status == IBV_WC_WR_FLUSH_ERR);
    close_side();
}

/* One process, one queue pair connected to itself. */
static void check_alone(void)
{
    struct address own;
    struct ibv_async_event event;
    const int64_t before = fakeverbs_live_objects();
    struct ibv_pd *extra;

    open_side(&own);
    connect_side(&own);
    post_recv();
    post_write(&own, own.rkey + 1, 8, 1);
    CHECK(wait_wc().status == IBV_WC_WR_FLUSH_ERR); /* its own receive: the target fails as well */
    CHECK(wait_wc().status == IBV_WC_REM_ACCESS_ERR);
    CHECK(fakeverbs_event("mlx5_0", "port_err") == 0);
    CHECK(ibv_get_async_event(side.context, &event) == 0 && event.event_type == IBV_EVENT_PORT_ERR);
    CHECK(fakeverbs_event("mlx5_0", "port_active") == 0);
    fakeverbs_fail_nth(2);
    extra = ibv_alloc_pd(side.context);
    CHECK(extra != NULL && ibv_alloc_pd(side.context) == NULL);
    CHECK(fakeverbs_live_objects() > before + 1);
    ibv_dealloc_pd(extra);
    close_side();
    CHECK(fakeverbs_live_objects() == before);
}

int main(void)
{
    int fds[2];
    pid_t child;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    child = fork();
    if (child == 0) {
        receiver(fds[1]);
        return 1;
    }
    sender(fds[0], child);
    child = fork();
    if (child == 0) {
        check_alone();
        return 0;
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    puts("fakeverbs: passed");
    return 0;
}
