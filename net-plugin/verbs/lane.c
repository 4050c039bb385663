/*
 * A lane: one queue pair. Control records go into the peer's ring by RDMA WRITE and are found there by polling memory, small ones
 * inline and without any completion on either side; chunks go into the peer's buffers by RDMA WRITE with immediate, which completes
 * a posted receive there. Work requests gather and leave with one doorbell; only the last of a batch is signaled. Where the peer's
 * NIC keeps no order inside a packet (software), records bring an immediate, too.
 * Every function is called by the holder of the lane's lock. Nothing here allocates, and nothing logs but a lane that fails.
 */
#include "net-plugin/verbs/conn.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/util.h"
#include "net-plugin/verbs/verbs.h"

#define RECV_ID        (1ull << 63) /* wr_id of receives; a send's is its position */
#define POLL_BATCH     16
#define RECORDS_A_CALL 64
#define POLL_EVERY     8 /* progress calls that found records, for one look at the completion queue */
#define CONTROL_RECVS  8 /* of the peer's receives, not taken by chunks */
#define CONTROL_SENDS  8 /* of the send queue, likewise */
#define ENOUGH_BYTES   (1024 * 1024)
#define RATE_BYTES     65536 /* smaller chunks say nothing about the rate */
#define FENCE_NS       (2000ull * 1000 * 1000)
#define GOODBYE_NS                                                                                 \
    (10ull * 1000 * 1000) /* a peer that closed has nothing more for us after this much silence */

static struct verbs_lane *of(struct braid_lane *lane)
{
    return (struct verbs_lane *)lane;
}

/* -- failure ----------------------------------------------------------------------------------------------------------------- */

/* Tells the peer over TCP, which has no other way to hear of it, and core. */
BRAID_COLD static int fail(struct verbs_lane *lane, int error, const char *what)
{
    if (lane->failed)
        return error;
    lane->failed = true;
    verbs_conn_tell(lane->conn, 'F', what);
    braid_lane_failed(&lane->base, error, what);
    return error;
}

/* Ends a lane whose peer has closed, gone or failed, with what is known of that. */
BRAID_COLD static int end_lane(struct verbs_lane *lane, int state)
{
    struct braid_rec bye = {.type = BRAID_REC_BYE, .lane = lane->base.index, .seq = 0};
    char text[256];

    lane->failed = true;
    if (state == VERBS_PEER_BYE)
        braid_conn_on_record(&lane->base, &bye, NULL);
    if (state == VERBS_PEER_FAILED) {
        snprintf(text, sizeof(text), "the peer reports: %s", lane->conn->peer_text);
        braid_lane_failed(&lane->base, -ECONNABORTED, text);
    } else {
        braid_lane_failed(&lane->base, -ECONNRESET, "end of the TCP stream");
    }
    return -ECONNRESET;
}

/* Asked of the NIC itself, because the event of a port that goes down may come after the completions. */
static bool port_is_down(struct verbs_lane *lane)
{
    struct ibv_port_attr attr = {.state = IBV_PORT_ACTIVE};

    if (braid_ibv.query_port(lane->port->nic->context, (uint8_t)lane->port->port, &attr) == 0 &&
        attr.state == IBV_PORT_ACTIVE)
        return false;
    braid_verbs_port_lost(lane->port, "asked after a failed work request");
    return true;
}

BRAID_COLD static int fail_completion(struct verbs_lane *lane, const struct ibv_wc *wc)
{
    char own[64], peer[64], text[512];
    bool down;
    int error = wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_RNR_RETRY_EXC_ERR
                    ? -ETIMEDOUT
                : wc->status == IBV_WC_WR_FLUSH_ERR ? -ECONNABORTED
                                                    : -EIO;

    if (lane->failed || lane->flushing)
        return error;
    down = port_is_down(lane);
    snprintf(
        text, sizeof(text), "%s on port %s, GID %s to %s: %s (status %d, vendor code 0x%x)%s; %s",
        wc->wr_id & RECV_ID ? "a receive" : "a send", lane->port->name,
        braid_gid_text(lane->own_gid.raw, own, sizeof(own)),
        braid_gid_text(lane->peer_gid.raw, peer, sizeof(peer)), braid_ibv.wc_status_str(wc->status),
        (int)wc->status, wc->vendor_err, down ? ", the port is down" : "",
        down ? "check the cable, the switch port and `ibstat`"
             : verbs_status_advice((int)wc->status, wc->vendor_err));
    return fail(lane, error, text);
}

/* -- work requests ------------------------------------------------------------------------------------------------------------ */

static uint32_t room(const struct verbs_lane *lane)
{
    return LANE_SENDS - (lane->posted - lane->done);
}

BRAID_COLD static int fail_post(struct verbs_lane *lane, int err)
{
    char text[128];

    snprintf(text, sizeof(text), "posting a send on port %s", lane->port->name);
    return fail(lane, err > 0 ? -err : err, text);
}

/* The batch is a chain already; it is cut behind its last work request while that is posted. */
BRAID_APART static int post_some(struct verbs_lane *lane)
{
    struct ibv_send_wr *bad = NULL, *last, *next;
    int err;

    last = &lane->batch[lane->batched - 1];
    lane->since_signal += lane->batched;
    if (lane->chunk_batched || lane->since_signal >= LANE_SIGNAL) {
        last->send_flags |= IBV_SEND_SIGNALED;
        lane->since_signal = 0;
        lane->chunk_batched = false;
    }
    lane->batched = 0;
    next = last->next;
    last->next = NULL;
    err = ibv_post_send(lane->qp, lane->batch, &bad);
    last->next = next;
    return err == 0 ? 0 : fail_post(lane, err);
}

static inline int post_batch(struct verbs_lane *lane)
{
    return lane->batched > 0 ? post_some(lane) : 0;
}

/* Adds a write of `bytes` at `src` to the batch. The caller has checked room(). */
static inline void add_write(struct verbs_lane *lane, const void *src, uint32_t bytes,
                             uint32_t lkey, uint64_t dst, uint32_t rkey)
{
    struct ibv_send_wr *wr = &lane->batch[lane->batched++];

    *wr->sg_list = (struct ibv_sge){(uintptr_t)src, bytes, lkey};
    wr->wr_id = ++lane->posted;
    wr->num_sge = 1;
    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->send_flags = bytes <= lane->inline_bytes ? IBV_SEND_INLINE : 0;
    wr->wr.rdma.remote_addr = dst;
    wr->wr.rdma.rkey = rkey;
}

static void with_imm(struct verbs_lane *lane, uint32_t imm)
{
    struct ibv_send_wr *wr = &lane->batch[lane->batched - 1];

    wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr->imm_data = htonl(imm);
    lane->imms_out++;
}

static int post_recvs(struct verbs_lane *lane)
{
    struct ibv_recv_wr *bad = NULL;
    int err = ibv_post_recv(lane->qp, lane->recvs, &bad);

    if (err != 0)
        return err > 0 ? -err : err;
    lane->recvs_posted += lane->recvs_count / 4;
    return 0;
}

/* -- credit ----------------------------------------------------------------------------------------------------------------------- */

static struct braid_verbs_credit own_credit(struct verbs_lane *lane)
{
    return (struct braid_verbs_credit){.ring = lane->rx.consumed, .recvs = lane->recvs_posted};
}

/* Foreign sums: they may only grow, and by no more than there can be. */
static int take_new_credit(struct verbs_lane *lane, struct braid_verbs_credit credit)
{
    if ((int32_t)(credit.ring - lane->tx.consumed) > 0) {
        if (lane->tx.used - credit.ring > lane->tx.size)
            return -EPROTO;
        lane->tx.consumed = credit.ring;
    }
    if ((int32_t)(credit.recvs - lane->imms_room) > 0) {
        if (credit.recvs - lane->imms_out > 65536)
            return -EPROTO;
        lane->imms_room = credit.recvs;
    }
    return 0;
}

static inline int take_credit(struct verbs_lane *lane, struct braid_verbs_credit credit)
{
    return credit.ring == lane->tx.consumed && credit.recvs == lane->imms_room
               ? 0
               : take_new_credit(lane, credit);
}

static int read_credit(struct verbs_lane *lane)
{
    struct braid_verbs_credit_cell *cell = &lane->memory->credit_in;
    uint64_t word = __atomic_load_n((uint64_t *)(void *)&cell->credit, __ATOMIC_ACQUIRE);
    uint64_t inverted = __atomic_load_n((uint64_t *)(void *)&cell->inverted, __ATOMIC_ACQUIRE);
    struct braid_verbs_credit credit;

    if (word != ~inverted)
        return 0; /* none was written yet, or one is being written */
    memcpy(&credit, &word, sizeof(credit));
    return take_credit(lane, credit);
}

/* Says what was consumed when no record has said so for most of the ring, or half of the receives. */
static void give_credit(struct verbs_lane *lane)
{
    if (lane->rx.consumed - lane->told.ring < lane->ring_due &&
        lane->recvs_posted - lane->told.recvs < lane->recvs_due)
        return;
    if (room(lane) == 0 || lane->batched == LANE_BATCH)
        return;
    lane->told = own_credit(lane);
    lane->memory->credit_out = (struct braid_verbs_credit_cell){
        lane->told, .inverted = {.ring = ~lane->told.ring, .recvs = ~lane->told.recvs}};
    add_write(lane, &lane->memory->credit_out, sizeof(lane->memory->credit_out), lane->mr->lkey,
              lane->peer.credit_addr, lane->peer.rkey);
}

/* -- completions -------------------------------------------------------------------------------------------------------------------- */

/* While other chunks wait the time between two completions is what the lane can do. */
static void measure(struct verbs_lane *lane, const struct verbs_put *put, uint64_t now)
{
    uint64_t heard = atomic_load_explicit(&lane->base.heard_ns, memory_order_relaxed);
    uint64_t since = MAX(put->posted_ns, heard);
    uint64_t old = atomic_load_explicit(&lane->base.rate_Bps, memory_order_relaxed), rate;

    if (now <= since)
        return;
    rate = put->bytes * 1000000000ull / (now - since);
    atomic_store_explicit(&lane->base.rate_Bps, old == 0 ? rate : old - old / 8 + rate / 8,
                          memory_order_relaxed);
}

static void sends_done(struct verbs_lane *lane, uint32_t position)
{
    uint64_t now = 0;

    lane->done = position;
    while (lane->puts_head != lane->puts_tail) {
        struct verbs_put *put = &lane->puts[lane->puts_head % LANE_PUTS];
        if ((int32_t)(put->position - position) > 0)
            break;
        if (put->bytes >= RATE_BYTES) {
            now = now == 0 ? braid_now_ns() : now;
            measure(lane, put, now);
        }
        lane->puts_head++;
        lane->puts_bytes -= put->bytes;
        braid_conn_put_done(&lane->base, put->owner, put->bytes, 0);
    }
    if (now != 0)
        atomic_store_explicit(&lane->base.heard_ns, now, memory_order_relaxed);
}

static int on_immediate(struct verbs_lane *lane, uint32_t imm, uint32_t bytes)
{
    lane->recvs_back++;
    if (imm & BRAID_VERBS_IMM_CONTROL) {
        lane->control_imms++;
        return 0;
    }
    lane->chunks_in++;
    return braid_conn_landed_part(&lane->base, imm >> 16, BRAID_VERBS_SUB_MASK, imm >> 8 & 0xff,
                                  (imm & 0xff) + 1, bytes);
}

static int poll_completions(struct verbs_lane *lane)
{
    struct ibv_wc wcs[POLL_BATCH];
    int count = ibv_poll_cq(lane->cq, POLL_BATCH, wcs), err = 0;

    if (count < 0)
        return fail(lane, -EIO, "polling the completion queue");
    for (int i = 0; i < count && err == 0; i++) {
        if (wcs[i].status != IBV_WC_SUCCESS) {
            /* Its queue pair went with the peer. What it sent before lies in memory and still counts; peer_is_gone() ends the lane. */
            if (verbs_conn_peer_closed(lane->conn))
                continue;
            return fail_completion(lane, &wcs[i]);
        }
        if (wcs[i].wr_id & RECV_ID)
            err = on_immediate(lane, ntohl(wcs[i].imm_data), wcs[i].byte_len);
        else
            sends_done(lane, (uint32_t)wcs[i].wr_id);
    }
    if (err != 0)
        return fail(lane, err, "a chunk came for a receive that is not posted");
    if (lane->recvs_back >= lane->recvs_count / 4) {
        lane->recvs_back -= lane->recvs_count / 4;
        err = post_recvs(lane);
        if (err != 0)
            return fail(lane, err, "posting receives");
    }
    return count;
}

/* -- records ---------------------------------------------------------------------------------------------------------------------------- */

/* Takes in the records that have come. One that was posted behind chunks waits until their completions were polled. */
static int read_records(struct verbs_lane *lane)
{
    struct braid_ring_record record;
    int count = 0, got, err = 0;

    while (count < RECORDS_A_CALL &&
           (got = braid_ring_peek(&lane->rx, lane->control_imms, &record)) != 0) {
        if (got < 0)
            return fail(lane, got, "the peer's record is malformed");
        if ((int32_t)(record.head.chunks - lane->chunks_in) > 0)
            break;
        lane->control_imms -= record.by_imm;
        err = take_credit(lane, record.head.credit);
        if (err == 0)
            err = braid_conn_on_record(&lane->base, &record.rec, record.body);
        braid_ring_consume(&lane->rx, &record);
        if (err != 0)
            return fail(lane, err, "the peer broke the protocol");
        count++;
    }
    return count;
}

/* Puts a record of `bytes` bytes into the batch. The caller has checked that there is room everywhere. */
static inline void add_record(struct verbs_lane *lane, const struct braid_rec *rec,
                              const void *body, uint32_t bytes, bool by_imm)
{
    uint32_t at = braid_ring_take(&lane->tx, bytes);
    uint8_t *image = lane->tx.image + at;

    add_write(lane, image, bytes, lane->mr->lkey, lane->peer.ring_addr + at, lane->peer.rkey);
    if (by_imm)
        with_imm(lane, BRAID_VERBS_IMM_CONTROL);
    lane->told = own_credit(lane);
    braid_ring_write(image, bytes, by_imm, lane->chunks_out, lane->told, rec, body);
}

/* Makes room for a record, where that can be done. */
BRAID_APART static int control_slowly(struct verbs_lane *lane, const struct braid_rec *rec,
                                      const void *body, bool more)
{
    uint32_t bytes = braid_ring_record_bytes(rec->body_bytes);
    bool by_imm = bytes > lane->polled_bytes;
    int err;

    if (lane->failed)
        return -EPIPE;
    if (bytes > BRAID_VERBS_RECORD_MAX)
        return -EMSGSIZE; /* core has none */
    if (lane->batched == LANE_BATCH && (err = post_batch(lane)) != 0)
        return err;
    if (room(lane) == 0)
        return -EAGAIN;
    if (by_imm && lane->imms_room == lane->imms_out &&
        (read_credit(lane) != 0 || lane->imms_room == lane->imms_out))
        return -EAGAIN;
    if (!braid_ring_has_room(&lane->tx, bytes) &&
        (read_credit(lane) != 0 || !braid_ring_has_room(&lane->tx, bytes)))
        return -EAGAIN;
    add_record(lane, rec, body, bytes, by_imm);
    return more ? 0 : post_batch(lane);
}

int verbs_lane_control(struct braid_lane *base, const struct braid_rec *rec, const void *body,
                       bool more)
{
    struct verbs_lane *lane = of(base);
    uint32_t bytes = braid_ring_record_bytes(rec->body_bytes);

    if (lane->failed || !more || bytes > lane->polled_bytes || lane->batched == LANE_BATCH ||
        room(lane) == 0 || !braid_ring_has_room(&lane->tx, bytes))
        return control_slowly(lane, rec, body, more);
    add_record(lane, rec, body, bytes, false);
    return 0;
}

int verbs_lane_push(struct braid_lane *base)
{
    return post_batch(of(base));
}

/* -- chunks --------------------------------------------------------------------------------------------------------------------------------- */

/* Whether one more chunk can go: space in every queue, a receive of the peer, a place in the batch. 0, -EAGAIN or an error. */
static int chunk_room(struct verbs_lane *lane)
{
    if (lane->puts_tail - lane->puts_head == LANE_PUTS || room(lane) <= CONTROL_SENDS)
        return -EAGAIN;
    if (lane->imms_room - lane->imms_out <= CONTROL_RECVS &&
        (read_credit(lane) != 0 || lane->imms_room - lane->imms_out <= CONTROL_RECVS))
        return -EAGAIN;
    return lane->batched == LANE_BATCH ? post_batch(lane) : 0;
}

/* Adds a chunk, for which chunk_room() has said yes. */
static int add_put(struct verbs_lane *lane, const struct braid_put *put)
{
    uint32_t rkey = 0;

    lane->puts[lane->puts_tail++ % LANE_PUTS] =
        (struct verbs_put){.owner = put->owner,
                           .bytes = put->bytes,
                           .posted_ns = put->bytes >= RATE_BYTES ? braid_now_ns() : 0,
                           .position = lane->posted + 1};
    lane->puts_bytes += put->bytes;
    if (put->src_mr == NULL || put->dst.mr == 0)
        return fail(lane, -EINVAL,
                    "a message of this size needs registered buffers on both sides (regMr)");
    if (braid_keys_find(lane->conn->keys, put->dst.mr, lane->peer_rail, &rkey) != 0)
        return fail(lane, -EPROTO, "the peer announced a buffer without its keys");
    add_write(lane, put->src, (uint32_t)put->bytes,
              verbs_mr_lkey(lane->conn, put->src_mr, lane->rail), put->dst.addr + put->offset,
              rkey);
    if (put->bytes == 0) {
        lane->batch[lane->batched - 1].num_sge = 0;
        lane->batch[lane->batched - 1].send_flags = 0;
    }
    with_imm(lane, (put->sub & BRAID_VERBS_SUB_MASK) << 16 | (put->chunk & 0xff) << 8 |
                       ((put->chunks - 1) & 0xff));
    lane->chunks_out++;
    lane->chunk_batched = true;
    return 0;
}

int verbs_lane_put(struct braid_lane *base, const struct braid_put *put)
{
    struct verbs_lane *lane = of(base);
    int err = lane->failed ? -EPIPE : chunk_room(lane);

    return err == 0 ? add_put(lane, put) : err;
}

static int post_puts(struct verbs_lane *lane)
{
    struct braid_put put;
    int count = 0, err = 0;

    /* Chunks are for whichever lane is free: one with enough to do leaves them to the others. */
    while (braid_conn_has_puts(lane->base.conn) &&
           (lane->conn->lanes_count == 1 || lane->puts_bytes < ENOUGH_BYTES)) {
        err = chunk_room(lane);
        if (err == 0)
            err = braid_conn_next_put(&lane->base, &put);
        if (err == -EAGAIN)
            break;
        if (err == 0)
            err = add_put(lane, &put);
        if (err != 0)
            return err;
        count++;
    }
    return count;
}

/* -- the peer's end ----------------------------------------------------------------------------------------------------------------------------- */

static void fence(struct verbs_lane *lane, int status);

/*
 * Whether the peer, as it closed, had taken in every chunk that was posted here. Then those that are under way have arrived, and only their
 * acknowledgements were lost: nobody is there any more to send them again.
 */
static bool peer_has_all(const struct verbs_lane *lane)
{
    const char *at = lane->conn->peer_text;
    char *end;
    unsigned long count = 0;

    for (unsigned i = 0; i <= lane->base.index; i++, at = end) {
        count = strtoul(at, &end, 10);
        if (end == at)
            return false;
    }
    return lane->batched == 0 && (uint32_t)count == lane->chunks_out;
}

/* The peer closed its TCP stream. What it sent before lies here already; once that is taken in, the lane is over. */
BRAID_COLD static int peer_is_gone(struct verbs_lane *lane, int state)
{
    uint64_t now = braid_now_ns();

    if (lane->quiet_since_ns == 0)
        lane->quiet_since_ns = now;
    if (now - lane->quiet_since_ns < GOODBYE_NS)
        return 0;
    if (state == VERBS_PEER_BYE && lane->puts_head != lane->puts_tail && peer_has_all(lane))
        fence(lane, 0);
    return end_lane(lane, state);
}

/* What small messages do not need: completions, chunks, and whether the NIC and the peer are still there. */
BRAID_APART static int progress_slowly(struct verbs_lane *lane, int moved)
{
    int more, state;

    lane->until_poll = POLL_EVERY;
    if (atomic_load_explicit(&lane->port->nic->dead, memory_order_relaxed))
        return fail(lane, -EIO, "the NIC reported a fatal error: see dmesg");
    more = poll_completions(lane);
    if (more < 0)
        return more;
    moved += more;
    if (lane->sends) {
        more = post_puts(lane);
        if (more < 0)
            return more;
        moved += more;
    }
    state = atomic_load_explicit(&lane->conn->peer_state, memory_order_acquire);
    if (state != VERBS_PEER_THERE && moved == 0)
        return peer_is_gone(lane, state);
    lane->quiet_since_ns = 0;
    return moved;
}

int verbs_lane_progress(struct braid_lane *base, size_t budget)
{
    struct verbs_lane *lane = of(base);
    int moved, err;

    if (lane->failed)
        return -EPIPE;
    moved = read_records(lane);
    if (moved < 0)
        return moved;
    /* Where small messages come, there is nothing else to see most of the time. A sender may be waiting for its own completions. */
    if (lane->sends || moved == 0 || --lane->until_poll == 0) {
        moved = progress_slowly(lane, moved);
        if (moved < 0)
            return moved;
    }
    give_credit(lane);
    err = post_batch(lane);
    return err < 0 ? err : moved;
}

/* -- the lane's own end ------------------------------------------------------------------------------------------------------------------------- */

/* Until everything that was posted has completed, or `until_ns`. In the error state all of it completes, as flushed. */
static void drain(struct verbs_lane *lane, uint64_t until_ns)
{
    struct ibv_wc wcs[POLL_BATCH];

    while (lane->posted != lane->done && braid_now_ns() < until_ns) {
        int count = ibv_poll_cq(lane->cq, POLL_BATCH, wcs);
        for (int i = 0; i < count; i++) {
            if (wcs[i].wr_id & RECV_ID)
                continue;
            if (wcs[i].status == IBV_WC_SUCCESS)
                sends_done(lane, (uint32_t)wcs[i].wr_id);
            else
                lane->done = (uint32_t)wcs[i].wr_id;
        }
        if (count < 0)
            return;
    }
}

/* An empty signaled write: when it completes, all before it have, also those without a completion of their own. */
static void post_marker(struct verbs_lane *lane)
{
    struct ibv_send_wr *bad = NULL, wr = {.wr_id = lane->posted + 1,
                                          .opcode = IBV_WR_RDMA_WRITE,
                                          .send_flags = IBV_SEND_SIGNALED,
                                          .wr.rdma = {lane->peer.credit_addr, lane->peer.rkey}};

    if (room(lane) == 0)
        return; /* then signaled ones are among those under way */
    if (ibv_post_send(lane->qp, &wr, &bad) == 0)
        lane->posted++;
}

/* The NIC touches nothing of the user's any more; what was under way ends with `status`. */
BRAID_COLD static void fence(struct verbs_lane *lane, int status)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    lane->failed = true;
    lane->flushing = true;
    lane->posted -= lane->batched;
    lane->batched = 0;
    lane->chunk_batched = false;
    braid_ibv.modify_qp(lane->qp, &attr, IBV_QP_STATE);
    post_marker(lane);
    drain(lane, braid_now_ns() + FENCE_NS);
    for (; lane->puts_head != lane->puts_tail; lane->puts_head++) {
        const struct verbs_put *put = &lane->puts[lane->puts_head % LANE_PUTS];
        braid_conn_put_done(&lane->base, put->owner, put->bytes, status);
    }
}

int verbs_lane_fence(struct braid_lane *base)
{
    fence(of(base), -ECANCELED);
    return 0;
}

void verbs_lane_finish(struct verbs_lane *lane, uint64_t until_ns)
{
    if (lane->failed || !lane->used || post_batch(lane) != 0)
        return;
    if (lane->since_signal > 0) /* the last sends were not signaled */
        post_marker(lane);
    while (!lane->failed && lane->posted != lane->done && braid_now_ns() < until_ns &&
           !verbs_conn_peer_closed(lane->conn))
        drain(lane, braid_now_ns() + 200 * 1000);
}

/* Which of its memory is the ring that the peer writes, and which the image of the peer's; how many receives. By direction. */
static void divide(struct verbs_lane *lane)
{
    uint8_t *large = lane->memory->large, *small = lane->memory->small;

    if (lane->sends) {
        lane->tx = (struct braid_ring_tx){.image = large, .size = BRAID_VERBS_RING_BYTES};
        lane->rx = (struct braid_ring_rx){.memory = small, .size = BRAID_VERBS_BACK_BYTES};
    } else {
        lane->tx = (struct braid_ring_tx){.image = small, .size = BRAID_VERBS_BACK_BYTES};
        lane->rx = (struct braid_ring_rx){.memory = large, .size = BRAID_VERBS_RING_BYTES};
    }
    lane->recvs_count = lane->sends ? BACK_RECVS : LANE_RECVS;
    lane->ring_due = lane->rx.size / 4 * 3;
    lane->recvs_due = lane->recvs_count / 2;
    for (uint32_t i = 0; i < lane->recvs_count / 4; i++)
        lane->recvs[i] = (struct ibv_recv_wr){
            .wr_id = RECV_ID, .next = i + 1 < lane->recvs_count / 4 ? &lane->recvs[i + 1] : NULL};
}

static int post_all_recvs(struct verbs_lane *lane)
{
    int err = 0;

    while (err == 0 && lane->recvs_posted < lane->recvs_count)
        err = post_recvs(lane);
    return err;
}

struct verbs_lane *verbs_lane_new(struct verbs_conn *conn, unsigned rail)
{
    struct verbs_lane *lane = calloc(1, sizeof(*lane));
    void *memory = NULL;

    if (lane == NULL)
        return NULL;
    lane->conn = conn;
    lane->sends = braid_conn_is_sender(conn->core);
    lane->rail = rail;
    lane->port = conn->ports[rail];
    lane->by_imm = lane->port->nic->no_order;
    lane->until_poll = POLL_EVERY;
    for (int i = 0; i < LANE_BATCH; i++)
        lane->batch[i] = (struct ibv_send_wr){
            .next = i + 1 < LANE_BATCH ? &lane->batch[i + 1] : NULL, .sg_list = &lane->pieces[i]};
    if (posix_memalign(&memory, 4096, sizeof(*lane->memory)) != 0)
        goto err;
    memset(memory, 0, sizeof(*lane->memory));
    lane->memory = memory;
    divide(lane);
    lane->mr = verbs_mr_own(lane->port->nic, lane->memory, sizeof(*lane->memory));
    if (lane->mr == NULL || verbs_qp_create(lane) != 0 || post_all_recvs(lane) != 0)
        goto err;
    lane->told = own_credit(lane); /* the offer says so */
    return lane;
err:
    verbs_lane_free(lane);
    return NULL;
}

void verbs_lane_free(struct verbs_lane *lane)
{
    if (lane == NULL)
        return;
    verbs_qp_destroy(lane->qp, lane->cq); /* from here on the NIC touches nothing of this lane */
    if (lane->mr != NULL)
        braid_ibv.dereg_mr(lane->mr);
    free(lane->memory);
    free(lane);
}
