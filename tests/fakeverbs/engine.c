/*
 * The engine: executes posted work. By default a send is executed inside ibv_post_send; with `order random` it waits
 * and ibv_poll_cq executes the heads of randomly chosen queue pairs, so that nothing may rely on an order across queue
 * pairs. Bytes go from the poster straight into the target process (process_vm_writev), like a NIC's DMA: the target
 * takes no part in it. A send without an answer (dead peer, port down, no posted receive) stays at the head of its
 * queue until it can be executed or its time is up.
 */
#include "objects.h"
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum outcome { DONE, NO_ANSWER, NOT_READY, FAILED };

struct attempt {
    struct fv_fabric *fabric;
    struct fv_qp *qp;
    struct fv_qp_state *local, *remote;
    struct fv_send *send;
    uint32_t bytes;
    uint32_t status; /* when FAILED */
};

static struct fv_qp *local_qps[FV_MAX_QPS];
static uint32_t local_numbers[FV_MAX_QPS];
static uint32_t local_count;
static pthread_rwlock_t local_lock = PTHREAD_RWLOCK_INITIALIZER;

/* lost_acks: until a packet is sent again, and acknowledged by whoever is there */
#define SENT_AGAIN_NS 5000000u

static _Atomic int64_t pending; /* sends posted and not executed, in this process */
static _Atomic int64_t sends_posted, sends_completed;
static _Atomic uint64_t random_state;
static pid_t worker_pid;

static void progress(void);

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t random_next(void)
{
    uint64_t x = atomic_load(&random_state) + fv_script_get()->seed * 0x9e3779b97f4a7c15u + 1;

    atomic_store(&random_state, x);
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/*
 * With random order sends are carried out later, so someone must do it when the process does not poll: a NIC would.
 */
static pthread_t worker;
static atomic_bool worker_runs;

static void *worker_main(void *arg)
{
    (void)arg;
    while (atomic_load(&worker_runs)) {
        progress();
        usleep(300);
    }
    return NULL;
}

__attribute__((destructor)) static void worker_stop(void)
{
    if (worker_pid == getpid() && atomic_exchange(&worker_runs, false))
        pthread_join(worker, NULL);
}

/* Caller holds local_lock. A forked child starts its own. */
static void worker_start(void)
{
    if (!fv_script_get()->random_order || worker_pid == getpid())
        return;
    worker_pid = getpid();
    atomic_store(&worker_runs, true);
    if (pthread_create(&worker, NULL, worker_main, NULL) != 0)
        abort();
}

void fv_engine_add(struct fv_qp *qp)
{
    pthread_rwlock_wrlock(&local_lock);
    local_qps[qp->index] = qp;
    local_numbers[local_count++] = qp->index;
    worker_start();
    pthread_rwlock_unlock(&local_lock);
}

void fv_engine_reset(struct fv_qp *qp)
{
    atomic_fetch_sub(&pending, (int64_t)(atomic_load(&qp->posted) - atomic_load(&qp->executed)) +
                                   (qp->held_ns != 0));
    qp->held_ns = 0;
    atomic_store(&qp->posted, 0);
    atomic_store(&qp->executed, 0);
    atomic_store(&qp->freed, 0);
}

void fv_engine_remove(struct fv_qp *qp)
{
    pthread_rwlock_wrlock(&local_lock);
    local_qps[qp->index] = NULL;
    for (uint32_t i = 0; i < local_count; i++)
        if (local_numbers[i] == qp->index) {
            local_numbers[i] = local_numbers[--local_count];
            break;
        }
    fv_engine_reset(qp);
    pthread_rwlock_unlock(&local_lock);
}

static void cqe_push(struct fv_fabric *fabric, uint32_t cq, const struct fv_cqe *cqe)
{
    struct fv_cq_ring *ring = &fabric->cqs[cq];
    uint32_t tail = atomic_load(&ring->tail);

    if (!ring->used)
        return;
    if (tail - atomic_load(&ring->head) >= ring->depth) {
        fprintf(stderr, "fakeverbs: completion queue %u of process %d overran its %u entries\n", cq,
                ring->pid, ring->depth);
        abort();
    }
    ring->ring[tail % FV_CQ_DEPTH] = *cqe;
    atomic_store(&ring->tail, tail + 1);
}

static void release_held(struct fv_fabric *fabric, struct fv_qp *qp, uint32_t status)
{
    if (qp->held_ns == 0)
        return;
    qp->held_ns = 0;
    qp->held.status = status;
    cqe_push(fabric, ((struct fv_cq *)qp->qp.send_cq)->index, &qp->held);
    atomic_fetch_sub(&pending, 1);
}

static void push_send_cqe(struct attempt *a, uint32_t status, uint32_t vendor_err)
{
    static const enum ibv_wc_opcode opcodes[] = {
        [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
        [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
        [IBV_WR_SEND] = IBV_WC_SEND,
        [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
        [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
        [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
        [IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
    };
    const struct fv_cqe cqe = {.wr_id = a->send->wr.wr_id,
                               .status = status,
                               .opcode = opcodes[a->send->wr.opcode],
                               .vendor_err = vendor_err,
                               .byte_len = a->bytes,
                               .qp_num = a->qp->index,
                               .frees = atomic_load(&a->qp->executed) + 1,
                               .is_send = true};

    const uint32_t cq = ((struct fv_cq *)a->qp->qp.send_cq)->index;

    release_held(a->fabric, a->qp, status == IBV_WC_SUCCESS ? status : IBV_WC_WR_FLUSH_ERR);
    if (fv_script_get()->lost_acks && status == IBV_WC_SUCCESS) {
        a->qp->held = cqe;
        a->qp->held_ns = now_ns();
        atomic_fetch_add(&pending, 1);
    } else {
        cqe_push(a->fabric, cq, &cqe);
    }
}

void fv_qp_fail(struct fv_fabric *fabric, uint32_t index)
{
    struct fv_qp_state *state = &fabric->qps[index];

    state->state = IBV_QPS_ERR;
    for (; state->rq_head != state->rq_tail; state->rq_head++) {
        const struct fv_cqe cqe = {.wr_id = state->rq[state->rq_head % FV_RQ_DEPTH].wr_id,
                                   .status = IBV_WC_WR_FLUSH_ERR,
                                   .opcode = IBV_WC_RECV,
                                   .vendor_err = 0xf9,
                                   .qp_num = index};
        cqe_push(fabric, state->recv_cq, &cqe);
    }
}

static bool region_covers(const struct fv_fabric *fabric, uint32_t key, pid_t pid, uint32_t pd,
                          uint64_t address, uint64_t length, uint32_t access)
{
    const struct fv_mr_state *mr;

    if (key == 0 || key > FV_MAX_MRS)
        return false;
    mr = &fabric->mrs[key - 1];
    return mr->used && mr->pid == pid && mr->pd == pd && (mr->access & access) == access &&
           address >= mr->iova && length <= mr->length && address - mr->iova <= mr->length - length;
}

static uint64_t region_address(const struct fv_fabric *fabric, uint32_t key, uint64_t address)
{
    const struct fv_mr_state *mr = &fabric->mrs[key - 1];

    return mr->address + (address - mr->iova);
}

/* The list of local pieces; false when one is outside the memory its key covers. */
static bool local_pieces(struct attempt *a, struct iovec *pieces, int *count)
{
    struct fv_send *send = a->send;

    *count = 0;
    if (send->is_inline) {
        pieces[0] = (struct iovec){send->inline_data, send->inline_bytes};
        *count = send->inline_bytes ? 1 : 0;
        return true;
    }
    for (int i = 0; i < send->wr.num_sge; i++) {
        const struct ibv_sge *sge = &send->sge[i];
        if (sge->length == 0)
            continue;
        if (!region_covers(a->fabric, sge->lkey, a->local->pid, a->local->pd, sge->addr,
                           sge->length, 0))
            return false;
        pieces[(*count)++] = (struct iovec){
            (void *)(uintptr_t)region_address(a->fabric, sge->lkey, sge->addr), sge->length};
    }
    return true;
}

static bool move(pid_t pid, struct iovec *pieces, int count, uint64_t address, uint32_t bytes,
                 bool to_remote)
{
    struct iovec remote = {(void *)(uintptr_t)address, bytes};

    /*
     * By system call, past the thread sanitizer's wrappers, also within one process: what allows the poster to use the memory again comes
     * back through another process, and a receiver polls memory that no thread but a network card stores to; the sanitizer sees neither.
     */
    return syscall(to_remote ? SYS_process_vm_writev : SYS_process_vm_readv, pid, pieces,
                   (unsigned long)count, &remote, 1ul, 0ul) == (long)bytes;
}

/*
 * As the kernel's memcpy may store a packet for Soft-RoCE: its end first, then the first word, the rest of the head last. The pause is where
 * that thread lost its processor.
 */
static bool move_without_order(struct attempt *a, struct iovec *pieces, int count, uint64_t address)
{
    static const uint32_t cuts[][2] = {{24, UINT32_MAX}, {0, 8}, {8, 24}};
    uint8_t *packet = malloc(a->bytes);
    uint32_t at = 0;
    bool done = packet != NULL;

    for (int i = 0; done && i < count; at += (uint32_t)pieces[i++].iov_len)
        memcpy(packet + at, pieces[i].iov_base, pieces[i].iov_len);
    for (int i = 0; done && i < 3; i++) {
        uint32_t from = cuts[i][0] < at ? cuts[i][0] : at, to = cuts[i][1] < at ? cuts[i][1] : at;
        struct iovec piece = {packet + from, to - from};
        if (i == 2)
            usleep(random_next() % 64 == 0 ? 200 : 1);
        done = from == to || move(a->remote->pid, &piece, 1, address + from, to - from, true);
    }
    free(packet);
    return done;
}

static enum outcome fail(struct attempt *a, uint32_t status)
{
    a->status = status;
    return FAILED;
}

/* False for a process that is gone, also before its parent has collected it: reading at address 0 says which error. */
static bool process_answers(pid_t pid)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {NULL, 1};

    return pid == getpid() || process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || errno != ESRCH;
}

/* Whether packets of this queue pair reach a queue pair that answers. */
static bool reachable(struct attempt *a)
{
    const struct fv_device_state *here = &a->fabric->devices[a->local->device];
    const struct fv_qp_state *remote = a->remote;
    const struct fv_device_state *there = &a->fabric->devices[remote->device];

    if (!remote->used || (remote->state != IBV_QPS_RTR && remote->state != IBV_QPS_RTS) ||
        remote->dest_qp != a->qp->index || here->port_state != IBV_PORT_ACTIVE ||
        there->port_state != IBV_PORT_ACTIVE || here->link_layer != there->link_layer ||
        strcmp(here->subnet, there->subnet) != 0)
        return false;
    if (here->link_layer == IBV_LINK_LAYER_INFINIBAND)
        return a->local->dlid == there->lid;
    for (int i = 0; i < FV_MAX_GIDS; i++)
        if (there->gids[i].valid && there->gids[i].type == here->gids[a->local->sgid_index].type &&
            memcmp(&there->gids[i].gid, &a->local->dgid, sizeof(union ibv_gid)) == 0)
            return true;
    return false;
}

static enum outcome execute_atomic(struct attempt *a)
{
    const struct ibv_send_wr *wr = &a->send->wr;
    uint64_t address, value, result;
    struct iovec piece = {&value, sizeof(value)};

    if (!region_covers(a->fabric, wr->wr.atomic.rkey, a->remote->pid, a->remote->pd,
                       wr->wr.atomic.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC) ||
        wr->wr.atomic.remote_addr % 8)
        return fail(a,
                    wr->wr.atomic.remote_addr % 8 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
    address = region_address(a->fabric, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr);
    if (!move(a->remote->pid, &piece, 1, address, 8, false))
        return NO_ANSWER;
    result = value;
    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        value += wr->wr.atomic.compare_add;
    else if (value == wr->wr.atomic.compare_add)
        value = wr->wr.atomic.swap;
    if (!move(a->remote->pid, &piece, 1, address, 8, true))
        return NO_ANSWER;
    memcpy((void *)(uintptr_t)region_address(a->fabric, a->send->sge[0].lkey, a->send->sge[0].addr),
           &result, 8);
    return DONE;
}

/* Takes the oldest posted receive of the target and completes it. */
static void consume_receive(struct attempt *a)
{
    struct fv_qp_state *remote = a->remote;
    const struct ibv_send_wr *wr = &a->send->wr;
    const bool with_imm =
        wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || wr->opcode == IBV_WR_SEND_WITH_IMM;
    const struct fv_cqe cqe = {
        .wr_id = remote->rq[remote->rq_head++ % FV_RQ_DEPTH].wr_id,
        .opcode =
            wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
        .byte_len = a->bytes,
        .imm = with_imm ? wr->imm_data : 0,
        .wc_flags = with_imm ? IBV_WC_WITH_IMM : 0,
        .qp_num = a->local->dest_qp,
        .src_qp = a->qp->index,
    };

    cqe_push(a->fabric, remote->recv_cq, &cqe);
}

static enum outcome execute_transfer(struct attempt *a, struct iovec *pieces, int count)
{
    const struct ibv_send_wr *wr = &a->send->wr;
    const bool is_send = wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM;
    const bool is_read = wr->opcode == IBV_WR_RDMA_READ;
    const bool needs_receive = is_send || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const uint32_t access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    const bool no_order = !is_read && a->fabric->devices[a->remote->device].flags & FV_NO_ORDER;
    uint64_t address = 0;

    if (needs_receive && a->remote->rq_head == a->remote->rq_tail)
        return process_answers(a->remote->pid) ? NOT_READY : NO_ANSWER;
    if (is_send) {
        const struct fv_recv *recv = &a->remote->rq[a->remote->rq_head % FV_RQ_DEPTH];
        if (recv->length < a->bytes)
            return fail(a, IBV_WC_REM_INV_REQ_ERR);
        if (a->bytes)
            address = region_address(a->fabric, recv->lkey, recv->address);
    } else if (a->bytes) {
        if (!(a->remote->access & access) ||
            !region_covers(a->fabric, wr->wr.rdma.rkey, a->remote->pid, a->remote->pd,
                           wr->wr.rdma.remote_addr, a->bytes, access))
            return fail(a, IBV_WC_REM_ACCESS_ERR);
        address = region_address(a->fabric, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
    }
    if (a->bytes && !(no_order ? move_without_order(a, pieces, count, address)
                               : move(a->remote->pid, pieces, count, address, a->bytes, !is_read)))
        return NO_ANSWER; /* the process is gone */
    if (needs_receive)
        consume_receive(a);
    return DONE;
}

static enum outcome execute(struct attempt *a)
{
    struct iovec pieces[4];
    int count;

    if (!local_pieces(a, pieces, &count))
        return fail(a, IBV_WC_LOC_PROT_ERR);
    if (!reachable(a))
        return NO_ANSWER;
    if (a->send->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
        a->send->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
        return execute_atomic(a);
    return execute_transfer(a, pieces, count);
}

/* Whether the head has waited for its answer as long as the queue pair's attributes and the script allow. */
static bool time_is_up(struct attempt *a, enum outcome outcome)
{
    uint64_t limit = (uint64_t)fv_script_get()->retry_ms * 1000000u;
    uint64_t own = (4096ull << a->qp->timeout) * (a->qp->retry_cnt + 1);

    if (outcome == NOT_READY) {
        if (a->send->first_try_ns == 0)
            FV_COUNT(rnr_waits, 1);
        if (a->qp->rnr_retry == 7)
            limit = UINT64_MAX;
        own = limit;
    }
    if (a->send->first_try_ns == 0)
        a->send->first_try_ns = now_ns();
    return now_ns() - a->send->first_try_ns > (own < limit ? own : limit);
}

static bool scripted_failure(struct attempt *a, uint32_t *vendor_err)
{
    const struct fv_script *script = fv_script_get();
    int64_t number = atomic_fetch_add(&sends_completed, 1) + 1;

    for (uint32_t i = 0; i < script->status_count; i++)
        if (script->statuses[i].nth == number) {
            a->status = script->statuses[i].status;
            *vendor_err = script->statuses[i].vendor_err;
            return true;
        }
    return false;
}

static void count_executed(const struct attempt *a)
{
    const uint32_t mtu = a->local->mtu_bytes ? a->local->mtu_bytes : 4096;

    FV_COUNT(packets, a->bytes ? (a->bytes + mtu - 1) / mtu : 1);
    FV_COUNT(bytes, a->bytes);
}

/* Executes the head of one send queue. False when there is nothing to do for now. Caller holds the queue's lock. */
static bool step(struct fv_qp *qp)
{
    struct fv_fabric *fabric = fv_fabric_get();
    uint32_t executed = atomic_load(&qp->executed);
    struct attempt a = {.fabric = fabric, .qp = qp, .local = &fabric->qps[qp->index]};
    enum outcome outcome;
    uint32_t vendor_err = 0;

    if (qp->held_ns != 0 && now_ns() - qp->held_ns > SENT_AGAIN_NS) {
        fv_fabric_lock(fabric);
        a.remote = &fabric->qps[a.local->dest_qp % FV_MAX_QPS];
        if (reachable(&a))
            release_held(fabric, qp, IBV_WC_SUCCESS);
        fv_fabric_unlock(fabric);
    }
    if (executed == atomic_load(&qp->posted))
        return false;
    a.send = &qp->sq[executed % qp->sq_depth];
    a.bytes = a.send->inline_bytes;
    fv_fabric_lock(fabric);
    a.remote = &fabric->qps[a.local->dest_qp % FV_MAX_QPS];
    if (a.local->state == IBV_QPS_ERR) {
        outcome = fail(&a, IBV_WC_WR_FLUSH_ERR);
        vendor_err = 0xf9;
    } else {
        outcome = execute(&a);
        if (outcome == NO_ANSWER || outcome == NOT_READY) {
            if (!time_is_up(&a, outcome)) {
                fv_fabric_unlock(fabric);
                return false;
            }
            vendor_err = outcome == NOT_READY ? 0x87 : 0x81;
            outcome =
                fail(&a, outcome == NOT_READY ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR);
        } else if (outcome == FAILED) {
            vendor_err = 0x88;
            if (a.status == IBV_WC_REM_ACCESS_ERR || a.status == IBV_WC_REM_INV_REQ_ERR)
                fv_qp_fail(fabric, a.local->dest_qp);
        } else if (scripted_failure(&a, &vendor_err)) {
            outcome = FAILED;
        }
    }
    if (outcome == DONE)
        count_executed(&a);
    if (outcome == FAILED)
        push_send_cqe(&a, a.status, vendor_err);
    else if (qp->all_signaled || a.send->wr.send_flags & IBV_SEND_SIGNALED)
        push_send_cqe(&a, IBV_WC_SUCCESS, 0);
    if (outcome == FAILED && a.local->state != IBV_QPS_ERR)
        fv_qp_fail(fabric, qp->index);
    atomic_store(&qp->executed, executed + 1);
    atomic_fetch_sub(&pending, 1);
    fv_fabric_unlock(fabric);
    return true;
}

/* Gives every queue pair of the process a turn; in random order each takes a few steps or none. */
static void progress(void)
{
    const bool at_random = fv_script_get()->random_order;

    if (atomic_load(&pending) == 0)
        return;
    pthread_rwlock_rdlock(&local_lock);
    for (uint32_t i = 0; i < local_count; i++) {
        struct fv_qp *qp = local_qps[local_numbers[at_random ? random_next() % local_count : i]];
        uint64_t steps = at_random ? random_next() % 3 : UINT64_MAX;
        if (pthread_mutex_trylock(&qp->lock) != 0)
            continue;
        while (steps-- > 0 && step(qp))
            ;
        pthread_mutex_unlock(&qp->lock);
    }
    pthread_rwlock_unlock(&local_lock);
}

static void scripted_events(void)
{
    struct fv_script *script = fv_script_get();
    int64_t sends = atomic_fetch_add(&sends_posted, 1) + 1;

    for (uint32_t i = 0; i < script->event_count; i++) {
        struct fv_event_rule *rule = &script->events[i];
        struct fv_fabric *fabric = fv_fabric_get();
        int device;

        if (sends < rule->sends || atomic_exchange(&rule->done, true))
            continue;
        fv_fabric_lock(fabric);
        device = fv_fabric_find_device(fabric, script->node, rule->device);
        if (device >= 0 && rule->port_state >= 0)
            fabric->devices[device].port_state = (uint32_t)rule->port_state;
        if (device >= 0)
            fv_fabric_event(fabric, (uint32_t)device, rule->event);
        fv_fabric_unlock(fabric);
    }
}

/* Copies one work request into its slot. Returns 0 or the errno value with which a real library refuses it. */
static int queue_one(struct fv_qp *qp, const struct ibv_send_wr *wr)
{
    uint32_t posted = atomic_load(&qp->posted);
    struct fv_send *send = &qp->sq[posted % qp->sq_depth];
    uint32_t bytes = 0;

    if (posted - atomic_load(&qp->freed) >= qp->sq_depth)
        return ENOMEM;
    if (wr->num_sge > 4 || (uint32_t)wr->num_sge > qp->max_sge)
        return EINVAL;
    send->wr = *wr;
    send->wr.next = NULL;
    send->first_try_ns = 0;
    send->is_inline = wr->send_flags & IBV_SEND_INLINE;
    for (int i = 0; i < wr->num_sge; i++) {
        if (send->is_inline && bytes + wr->sg_list[i].length <= qp->inline_max)
            memcpy(send->inline_data + bytes, (const void *)(uintptr_t)wr->sg_list[i].addr,
                   wr->sg_list[i].length);
        send->sge[i] = wr->sg_list[i];
        bytes += wr->sg_list[i].length;
    }
    if (send->is_inline && bytes > qp->inline_max)
        return EINVAL;
    send->inline_bytes = bytes;
    atomic_store(&qp->posted, posted + 1);
    atomic_fetch_add(&pending, 1);
    FV_COUNT(send_wqes, 1);
    FV_COUNT(inline_wqes, send->is_inline ? 1 : 0);
    FV_COUNT(signaled, wr->send_flags & IBV_SEND_SIGNALED ? 1 : 0);
    FV_COUNT(writes, wr->opcode == IBV_WR_RDMA_WRITE ? 1 : 0);
    FV_COUNT(writes_imm, wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? 1 : 0);
    FV_COUNT(reads, wr->opcode == IBV_WR_RDMA_READ ? 1 : 0);
    FV_COUNT(sends, wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM ? 1 : 0);
    return 0;
}

int fv_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fv_qp *qp = (struct fv_qp *)ibv;
    const uint32_t state = fv_fabric_get()->qps[qp->index].state;
    int error = fv_call_fails("ibv_post_send");

    if (!error && state != IBV_QPS_RTS && state != IBV_QPS_ERR)
        error = EINVAL;
    FV_COUNT(send_doorbells, 1);
    pthread_mutex_lock(&qp->lock);
    for (; wr && !error; wr = error ? wr : wr->next)
        error = queue_one(qp, wr);
    if (!fv_script_get()->random_order)
        while (step(qp))
            ;
    pthread_mutex_unlock(&qp->lock);
    scripted_events();
    if (error)
        *bad = wr;
    return error;
}

int fv_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fv_qp *qp = (struct fv_qp *)ibv;
    struct fv_fabric *fabric = fv_fabric_get();
    struct fv_qp_state *state = &fabric->qps[qp->index];
    int error = fv_call_fails("ibv_post_recv");

    FV_COUNT(recv_doorbells, 1);
    fv_fabric_lock(fabric);
    if (state->state == IBV_QPS_RESET)
        error = EINVAL;
    for (; wr && !error; wr = wr->next) {
        if (state->rq_tail - state->rq_head >= state->rq_depth) {
            error = ENOMEM;
            break;
        }
        state->rq[state->rq_tail % FV_RQ_DEPTH] = (struct fv_recv){
            .wr_id = wr->wr_id,
            .address = wr->num_sge ? wr->sg_list[0].addr : 0,
            .length = wr->num_sge ? wr->sg_list[0].length : 0,
            .lkey = wr->num_sge ? wr->sg_list[0].lkey : 0,
        };
        state->rq_tail++;
        FV_COUNT(recv_wqes, 1);
    }
    if (state->state == IBV_QPS_ERR)
        fv_qp_fail(fabric, qp->index);
    fv_fabric_unlock(fabric);
    if (error)
        *bad = wr;
    return error;
}

static void free_slots(const struct fv_cqe *cqe)
{
    struct fv_qp *qp;

    if (!cqe->is_send)
        return;
    pthread_rwlock_rdlock(&local_lock);
    qp = local_qps[cqe->qp_num];
    if (qp)
        atomic_store(&qp->freed, cqe->frees);
    pthread_rwlock_unlock(&local_lock);
}

int fv_poll_cq(struct ibv_cq *ibv, int entries, struct ibv_wc *wc)
{
    struct fv_cq_ring *ring = &fv_fabric_get()->cqs[((struct fv_cq *)ibv)->index];
    uint32_t head = atomic_load(&ring->head);
    int count = 0;

    progress();
    FV_COUNT(polls, 1);
    for (; count < entries && head != atomic_load(&ring->tail); count++, head++) {
        const struct fv_cqe *cqe = &ring->ring[head % FV_CQ_DEPTH];
        memset(&wc[count], 0, sizeof(wc[count]));
        wc[count].wr_id = cqe->wr_id;
        wc[count].status = (enum ibv_wc_status)cqe->status;
        wc[count].opcode = (enum ibv_wc_opcode)cqe->opcode;
        wc[count].vendor_err = cqe->vendor_err;
        wc[count].byte_len = cqe->byte_len;
        wc[count].imm_data = cqe->imm;
        wc[count].qp_num = cqe->qp_num;
        wc[count].wc_flags = cqe->wc_flags;
        free_slots(cqe);
    }
    atomic_store(&ring->head, head);
    FV_COUNT(completions, (uint64_t)count);
    if (count == 0)
        FV_COUNT(empty_polls, 1);
    return count;
}
