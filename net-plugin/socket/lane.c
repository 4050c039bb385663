/* One TCP stream as a lane; see lane.h. */
#include "net-plugin/socket/lane.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/util.h"
#include "net-plugin/core/landing.h"
#include "net-plugin/core/maint.h"
#include "net-plugin/socket/io.h"
#include "net-plugin/socket/rate.h"

/* One system call moves at most this much, so that the lane's lock is not held long. */
#define CALL_BYTES (1024 * 1024)
/* A record's body from this size on goes out from where it lies: copying it would cost more than a second piece of the call. */
#define DIRECT_BYTES 2048
/* So much of a chunk wakes a sleeping thread at most. */
#define WAKE_BYTES (256 * 1024)
/* While chunks arrive, what is read behind a payload: the next headers, and little that would have to be copied on. */
#define BULK_AHEAD_BYTES 512
/* So much of STARTs waits in tx at most. */
#define LAZY_BYTES 4096

atomic_uint braid_socket_lanes;

static struct braid_socket_lane *lane_of(struct braid_lane *base)
{
    return (struct braid_socket_lane *)base;
}

/* For the trials: the chunk begins. What counts in the end is what the peer acknowledged meanwhile, not what fits into buffers. */
static void begin_probe(struct braid_socket_lane *lane)
{
    lane->probed = !lane->rails && !braid_probe_is_settled(lane->probe) &&
                   braid_probe_begin(lane->probe, braid_now_ns());
    if (lane->probed)
        lane->probed_queue = braid_rate_queued(lane);
}

/* The chunk has left, or was given up. */
static void end_probe(struct braid_socket_lane *lane, bool sent)
{
    unsigned streams;
    uint64_t before, after;

    if (!lane->probed)
        return;
    lane->probed = false;
    streams = MIN(braid_probe_choice(lane->probe).streams, braid_socket_streams(lane->base.conn));
    before = lane->probed_queue + (sent ? lane->put.bytes : 0);
    after = sent ? braid_rate_queued(lane) : before;
    braid_probe_end(lane->probe, braid_now_ns(), before - MIN(before, after),
                    braid_conn_lanes(lane->base.conn) > streams);
}

struct braid_socket_lane *braid_socket_lane_new(struct braid_conn *conn, int fd, unsigned index,
                                                unsigned rail)
{
    struct braid_socket_lane *lane = malloc(sizeof(*lane));

    if (lane == NULL)
        return NULL;
    memset(lane, 0,
           offsetof(struct braid_socket_lane, tx)); /* the buffers stay untouched until used */
    braid_lane_init(&lane->base, conn, &braid_socket_transport, index, rail);
    lane->fd = fd;
    atomic_fetch_add(&braid_socket_lanes, 1);
    return lane;
}

void braid_socket_lane_free(struct braid_socket_lane *lane)
{
    struct braid_rec bye = {.type = BRAID_REC_BYE, .lane = lane->base.index, .seq = 0};
    bool whole;

    if (lane->stage != NULL)
        braid_stage_drain(lane->stage);
    end_probe(lane, false);
    whole = !lane->put_active && !braid_zerocopy_is_busy(&lane->zerocopy);
    braid_zerocopy_abort(lane);
    if (lane->fd >= 0 && atomic_load(&lane->base.state) == BRAID_LANE_UP && whole &&
        lane->tx_have + sizeof(bye) <= sizeof(lane->tx)) {
        memcpy(lane->tx + lane->tx_have, &bye, sizeof(bye));
        lane->tx_have += sizeof(bye);
        braid_maint_linger(lane->fd, lane->tx + lane->tx_sent, lane->tx_have - lane->tx_sent);
    } else if (lane->fd >= 0) {
        shutdown(lane->fd, SHUT_RDWR); /* a forked child may hold it open */
        close(lane->fd);
    }
    atomic_fetch_sub(&braid_socket_lanes, 1);
    free(lane);
}

/*
 * The peer may wait for a message that was promised here (a small one is done when it lies in tx, a large one when the kernel has its chunks):
 * the end of the streams tells it at once. Of all of them, when the connection fails by this one: the peer need not have had this one at all,
 * where its end was lost while it joined, and nobody here need call any more.
 */
static int lane_failed(struct braid_socket_lane *lane, int error, const char *what)
{
    struct braid_conn *conn = lane->base.conn;

    if (braid_lane_failed(&lane->base, error, what))
        for (unsigned i = 0; i < braid_conn_lanes(conn); i++)
            shutdown(lane_of(braid_conn_lane(conn, i))->fd, SHUT_RDWR);
    shutdown(lane->fd, SHUT_RDWR);
    return error;
}

/*
 * With streams for bulk, stream 0 keeps free for control: it takes only what is too little to wake a thread for. Streams that do not pay
 * rest. What counts is which streams there are: by their numbers the only one wanted might be one that comes late, or never.
 */
bool braid_socket_lane_takes_bulk(const struct braid_socket_lane *lane)
{
    unsigned streams = lane->rails ? BRAID_LANES_MAX : braid_probe_choice(lane->probe).streams;

    if (lane->base.place > 0)
        return lane->base.place <= streams;
    return streams == 0 || braid_conn_lanes(lane->base.conn) == 1 ||
           braid_conn_put_bytes(lane->base.conn) <= braid_socket_plan.thread_bytes;
}

bool braid_socket_lane_wants_puts(const struct braid_socket_lane *lane)
{
    return !atomic_load_explicit(&lane->declined, memory_order_relaxed) &&
           atomic_load_explicit(&lane->base.state, memory_order_relaxed) == BRAID_LANE_UP &&
           braid_conn_has_puts(lane->base.conn) && braid_socket_lane_takes_bulk(lane);
}

/*
 * Whether something in tx has to go. STARTs alone may wait: what follows takes them along, and chunks do without. Not for long, though: so many
 * would fill it.
 */
static bool has_tx(const struct braid_socket_lane *lane)
{
    size_t waits = lane->tx_have - lane->tx_sent;

    return waits > lane->tx_lazy || waits >= LAZY_BYTES;
}

bool braid_socket_lane_is_busy(const struct braid_socket_lane *lane)
{
    return lane->put_active || lane->landing_active || has_tx(lane) ||
           braid_zerocopy_is_busy(&lane->zerocopy) ||
           (lane->stage != NULL && braid_stage_is_busy(lane->stage)) ||
           braid_socket_lane_wants_puts(lane);
}

/*
 * Each wake-up costs the sender, in whose context it happens on loopback, and this side much more than a system call. Never more
 * than is still to come of the chunk; streams for bulk only, which nobody but their thread reads.
 */
bool braid_socket_lane_set_wake(struct braid_socket_lane *lane)
{
    size_t rest = lane->landing_active && !lane->landing_staged && lane->base.index > 0
                      ? lane->landing.bytes - lane->landed
                      : 0;
    int bytes = rest >= WAKE_BYTES ? WAKE_BYTES : rest >= WAKE_BYTES / 4 ? WAKE_BYTES / 4 : 1;

    if (lane->rx_have > 0)
        bytes = 1;
    if (bytes == MAX(lane->wake_bytes, 1) ||
        setsockopt(lane->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes)) == 0) {
        if (bytes != MAX(lane->wake_bytes, 1))
            lane->io_events = 0; /* what is there already is to count again */
        lane->wake_bytes = bytes;
        return true;
    }
    return bytes > lane->wake_bytes;
}

/* -- out ------------------------------------------------------------------------------------------------------------------------ */

/* What sendmsg has taken: first of tx, then of the payload. */
static void advance_tx(struct braid_socket_lane *lane, size_t bytes)
{
    size_t of_tx = MIN(bytes, lane->tx_have - lane->tx_sent);

    lane->tx_sent += of_tx;
    bytes -= of_tx;
    if (lane->tx_sent == lane->tx_have)
        lane->tx_sent = lane->tx_have = 0;
    lane->tx_lazy = MIN(lane->tx_lazy, lane->tx_have - lane->tx_sent);
    lane->put_sent += bytes;
    if (lane->put_active && lane->put_staged)
        braid_stage_sent(lane->stage, bytes);
    if (lane->put_active && lane->put_sent == lane->put.bytes && lane->tx_have == 0) {
        lane->put_active = false;
        end_probe(lane, true);
        if (lane->put_zerocopy)
            braid_zerocopy_sent(lane);
        else
            braid_conn_put_done(&lane->base, lane->put.owner, lane->put.bytes, 0);
    }
}

/* Where the payload's next bytes lie; none while the GPU still copies them. 0 or a negative errno. */
static int payload(struct braid_socket_lane *lane, size_t most, struct iovec *iov)
{
    const void *src = (const uint8_t *)lane->put.src + lane->put_sent;
    size_t bytes = lane->put.bytes - lane->put_sent;
    int err = lane->put_staged ? braid_stage_source(lane->stage, &lane->put, &src, &bytes) : 0;

    *iov = (struct iovec){(void *)(uintptr_t)src, MIN(bytes, most)};
    return err;
}

/* What the next send is; call->wanted: there is one. 0 or a negative errno, and the lane is down. */
static int prepare_send(struct braid_socket_lane *lane, size_t most, struct braid_socket_call *call)
{
    bool header = lane->tx_sent != lane->tx_have;
    int err;

    *call = (struct braid_socket_call){.flags = MSG_NOSIGNAL | MSG_DONTWAIT};
    call->msg.msg_iov = call->iov;
    call->zerocopy = lane->put_active && lane->put_zerocopy && !header && !lane->zerocopy.no_pages;
    if (header)
        call->iov[call->msg.msg_iovlen++] =
            (struct iovec){lane->tx + lane->tx_sent, lane->tx_have - lane->tx_sent};
    if (lane->put_active && lane->put_zerocopy && header) {
        call->flags |= MSG_MORE; /* tx is used again at once, so it is copied, and goes alone */
    } else if (lane->put_active) {
        err = payload(lane, most, &call->iov[call->msg.msg_iovlen]);
        if (err != 0)
            return lane_failed(lane, err, "copy from the GPU");
        call->msg.msg_iovlen += call->iov[call->msg.msg_iovlen].iov_len > 0;
    }
    lane->blocked = false;
    call->wanted = call->msg.msg_iovlen > 0; /* else the GPU is not ready */
    return 0;
}

/* What came of it: `sent` bytes or a negative errno. Bytes sent, 0 when the socket takes nothing now, or a negative errno. */
static ssize_t finish_send(struct braid_socket_lane *lane, const struct braid_socket_call *call,
                           ssize_t sent)
{
    lane->blocked = sent == -EAGAIN;
    lane->zerocopy.no_pages = call->zerocopy && (sent == -ENOBUFS || sent == -ENOMEM);
    if (lane->blocked || lane->zerocopy.no_pages)
        return 0;
    if (sent == -EPIPE || sent == -ECONNRESET) {
        lane->peer_gone =
            true; /* what it sent before may still lie in the socket: the reading side ends the lane */
        return 0;
    }
    if (sent < 0)
        return lane_failed(lane, (int)sent, "send");
    advance_tx(lane, (size_t)sent);
    return sent;
}

/* One send. As finish_send. */
static ssize_t send_some(struct braid_socket_lane *lane, size_t most)
{
    struct braid_socket_call call;
    ssize_t sent;
    int err = prepare_send(lane, most, &call);

    if (err != 0 || !call.wanted)
        return err;
    do {
        sent = call.zerocopy ? sendmsg(lane->fd, &call.msg, call.flags | MSG_ZEROCOPY)
               : lane->put_active
                   ? sendmsg(lane->fd, &call.msg, call.flags)
                   : send(lane->fd, call.iov[0].iov_base, call.iov[0].iov_len, call.flags);
    } while (sent < 0 && errno == EINTR);
    if (call.zerocopy && sent > 0)
        braid_zerocopy_called(lane, false);
    return finish_send(lane, &call, sent < 0 ? -errno : sent);
}

/* For `bytes`, and for the goodbye that may have to follow. */
static bool make_room(struct braid_socket_lane *lane, size_t bytes)
{
    bytes += sizeof(struct braid_rec);
    if (lane->tx_have + bytes <= sizeof(lane->tx))
        return true;
    if (!lane->put_active)
        send_some(lane, 0);
    memmove(lane->tx, lane->tx + lane->tx_sent, lane->tx_have - lane->tx_sent);
    lane->tx_have -= lane->tx_sent;
    lane->tx_sent = 0;
    return lane->tx_have + bytes <= sizeof(lane->tx);
}

/* A record of which `gone` bytes were sent already. */
static inline void append(struct braid_socket_lane *lane, const struct braid_rec *rec,
                          const void *body, size_t bytes, size_t gone)
{
    size_t of_rec = MIN(gone, sizeof(*rec));

    gone -= of_rec;
    memcpy(lane->tx + lane->tx_have, (const uint8_t *)rec + of_rec, sizeof(*rec) - of_rec);
    lane->tx_have += sizeof(*rec) - of_rec;
    if (bytes > gone)
        memcpy(lane->tx + lane->tx_have, (const uint8_t *)body + gone, bytes - gone);
    lane->tx_have += bytes - gone;
}

/* A record with a body, behind what waits in tx, in one call and without a copy. How many of its bytes have gone; push() learns why if none. */
static size_t send_in_place(struct braid_socket_lane *lane, const struct braid_rec *rec,
                            const void *body)
{
    size_t waits = lane->tx_have - lane->tx_sent, of_tx;
    struct iovec iov[3] = {{lane->tx + lane->tx_sent, waits},
                           {(void *)(uintptr_t)rec, sizeof(*rec)},
                           {(void *)(uintptr_t)body, rec->body_bytes}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 3};
    ssize_t sent = sendmsg(lane->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent <= 0)
        return 0;
    of_tx = MIN((size_t)sent, waits);
    lane->tx_sent += of_tx;
    if (lane->tx_sent == lane->tx_have)
        lane->tx_sent = lane->tx_have = 0;
    lane->tx_lazy = MIN(lane->tx_lazy, lane->tx_have - lane->tx_sent);
    return (size_t)sent - of_tx;
}

int braid_socket_control(struct braid_lane *base, const struct braid_rec *rec, const void *body,
                         bool more)
{
    struct braid_socket_lane *lane = lane_of(base);
    size_t gone = 0;

    if (lane->put_active || lane->fd < 0 || lane->peer_gone ||
        !make_room(lane, sizeof(*rec) + rec->body_bytes))
        return -EAGAIN;
    if (rec->body_bytes >= DIRECT_BYTES)
        gone = send_in_place(lane, rec, body);
    append(lane, rec, body, rec->body_bytes, gone);
    lane->tx_lazy = rec->type == BRAID_REC_START ? lane->tx_lazy + sizeof(*rec) : 0;
    if (!more)
        braid_socket_push(base);
    return 0;
}

/* Its owner may not call again, but the peer waits for what lies in tx. A thread that is about to rest finds the lane armed, and the word. */
static void leave_to_thread(struct braid_socket_lane *lane)
{
    atomic_store(&lane->io_owed, true);
    if (!atomic_load(&lane->io_armed))
        braid_io_arm(lane);
}

int braid_socket_push(struct braid_lane *base)
{
    struct braid_socket_lane *lane = lane_of(base);
    ssize_t sent = 1;

    while (has_tx(lane) && sent > 0)
        sent = send_some(lane, CALL_BYTES);
    if (sent < 0)
        return (int)sent;
    if (!has_tx(lane) || lane->peer_gone)
        return 0;
    leave_to_thread(lane);
    return -EAGAIN;
}

static bool fetch_put(struct braid_socket_lane *lane)
{
    struct braid_rec rec = {.type = BRAID_REC_CHUNK, .lane = lane->base.index};
    int err;

    if (!braid_conn_has_puts(lane->base.conn) || !braid_socket_lane_takes_bulk(lane) ||
        lane->tx_have + sizeof(rec) > sizeof(lane->tx))
        return false;
    if (lane->rails && lane->base.index > 0)
        braid_rate_measure(lane);
    err = braid_conn_next_put(&lane->base, &lane->put);
    if (err == -EBUSY)
        braid_rate_decline(lane);
    else
        atomic_store_explicit(&lane->declined, false, memory_order_relaxed);
    if (err != 0)
        return false;
    rec.shift = (uint8_t)lane->put.shift;
    rec.seq = lane->base.epoch;
    rec.ack = lane->put.chunks;
    rec.body_bytes = (uint32_t)lane->put.bytes;
    rec.arg = lane->put.sub;
    rec.value = lane->put.offset;
    append(lane, &rec, NULL, 0, 0);
    lane->tx_lazy = 0;
    lane->put_active = true;
    lane->put_sent = 0;
    begin_probe(lane);
    lane->put_staged = lane->put.src_mr != NULL && lane->put.src_mr->type == BRAID_PTR_CUDA;
    if (lane->put_staged) {
        lane->stage = braid_socket_stage(lane->base.conn, lane->base.index);
        braid_stage_begin_put(lane->stage);
    }
    lane->put_zerocopy = !lane->put_staged && braid_zerocopy_begin(lane, &lane->put);
    return true;
}

static ssize_t progress_tx(struct braid_socket_lane *lane, size_t budget)
{
    size_t moved = 0;
    ssize_t sent = 1;

    while (sent > 0 && moved < budget && !lane->peer_gone) {
        if (!lane->put_active && !fetch_put(lane) && !has_tx(lane))
            break;
        sent = send_some(lane, MIN(CALL_BYTES, budget - moved));
        if (sent < 0)
            return sent;
        moved += (size_t)sent;
    }
    return (ssize_t)moved;
}

/* -- in --------------------------------------------------------------------------------------------------------------------------- */

static int landing_done(struct braid_socket_lane *lane)
{
    lane->landing_active = false;
    if (lane->landing_staged)
        return 0; /* braid_stage_reap() reports it */
    return braid_conn_landed(&lane->base, lane->landing.sub, lane->landing.chunk,
                             lane->landing.chunks, lane->landing.end);
}

/* Hands what rx holds of the current chunk to the GPU, as far as there are pieces. */
static int stage_from_rx(struct braid_socket_lane *lane)
{
    size_t bytes = 1;
    int err = 0;

    while (err == 0 && bytes > 0 && lane->landed < lane->landing.bytes) {
        void *dst;
        bytes = MIN(lane->landing.bytes - lane->landed, lane->rx_have - lane->rx_used);
        bytes = braid_stage_room(lane->stage, bytes, &dst);
        if (bytes == 0)
            break;
        memcpy(dst, lane->rx + lane->rx_used, bytes);
        lane->rx_used += bytes;
        lane->landed += bytes;
        err = braid_stage_filled(lane->stage, &lane->landing, lane->landed, bytes);
    }
    return err == 0 && lane->landed == lane->landing.bytes ? landing_done(lane) : err;
}

/* Lands what rx holds of the current chunk. A polled buffer gets whole words only, until the last. */
static int land_from_rx(struct braid_socket_lane *lane)
{
    size_t rest = lane->landing.bytes - lane->landed;
    size_t bytes = MIN(rest, lane->rx_have - lane->rx_used);
    uint8_t *dst = (uint8_t *)lane->landing.dst + lane->landed;

    if (lane->landing_staged)
        return stage_from_rx(lane);
    if (lane->landing.polled) {
        if (bytes < rest)
            bytes -= MIN(bytes, (uintptr_t)(dst + bytes) & 7);
        braid_copy_polled(dst, lane->rx + lane->rx_used, bytes);
    } else {
        memcpy(dst, lane->rx + lane->rx_used, bytes);
    }
    lane->rx_used += bytes;
    lane->landed += bytes;
    return lane->landed == lane->landing.bytes ? landing_done(lane) : 0;
}

/* The record at rx_used. 1: taken; 0: not complete yet; or a negative errno. */
static int take_record(struct braid_socket_lane *lane)
{
    struct braid_rec rec;
    int err;

    if (lane->rx_have - lane->rx_used < sizeof(rec))
        return 0;
    memcpy(&rec, lane->rx + lane->rx_used, sizeof(rec));
    if (rec.type == 0 || rec.type >= BRAID_REC_TYPES)
        return -EPROTO;
    if (rec.type == BRAID_REC_CHUNK) {
        if (rec.lane != lane->base.index || rec.seq != lane->base.epoch)
            return -EPROTO;
        err = braid_conn_land(&lane->base, &rec, &lane->landing);
        if (err != 0)
            return err;
        lane->rx_used += sizeof(rec);
        lane->landing_active = true;
        lane->landing_staged = lane->landing.mr != NULL && lane->landing.mr->type == BRAID_PTR_CUDA;
        if (lane->landing_staged)
            lane->stage = braid_socket_stage(lane->base.conn, lane->base.index);
        lane->landed = 0;
        lane->bulk = true;
        return 1;
    }
    if (rec.body_bytes > BRAID_BODY_MAX)
        return -EPROTO;
    if (lane->rx_have - lane->rx_used < sizeof(rec) + rec.body_bytes)
        return 0;
    if (rec.type == BRAID_REC_EAGER)
        lane->bulk = false;
    err = braid_conn_on_record(&lane->base, &rec, lane->rx + lane->rx_used + sizeof(rec));
    lane->rx_used += sizeof(rec) + rec.body_bytes;
    return err < 0 ? err : 1;
}

int braid_socket_parse(struct braid_socket_lane *lane)
{
    int taken = 1;

    while (taken == 1) {
        if (lane->landing_active) {
            int err = land_from_rx(lane);
            if (err != 0)
                return err;
            if (lane->landing_active)
                break;
        }
        taken = take_record(lane);
    }
    if (taken < 0)
        return taken;
    if (lane->rx_used == lane->rx_have) {
        lane->rx_used = lane->rx_have = 0;
    } else if (lane->rx_used > 0) {
        memmove(lane->rx, lane->rx + lane->rx_used, lane->rx_have - lane->rx_used);
        lane->rx_have -= lane->rx_used;
        lane->rx_used = 0;
    }
    return 0;
}

/* What the next read is; call->wanted: there is room for one. */
static void prepare_receive(struct braid_socket_lane *lane, size_t most,
                            struct braid_socket_call *call)
{
    size_t ahead = sizeof(lane->rx) - lane->rx_have, into_place = 0;
    void *place = (uint8_t *)lane->landing.dst + lane->landed;

    if (lane->bulk)
        ahead = MIN(ahead, BULK_AHEAD_BYTES);
    if (lane->landing_active && lane->landing_staged) {
        if (lane->rx_have == 0)
            into_place = MIN(
                braid_stage_room(lane->stage, lane->landing.bytes - lane->landed, &place), most);
    } else if (lane->landing_active && lane->landing.polled) {
        ahead = sizeof(lane->rx) - lane->rx_have;
    } else if (lane->landing_active) {
        into_place = MIN(lane->landing.bytes - lane->landed, most);
    }
    if (lane->landed + into_place < lane->landing.bytes && into_place > 0)
        ahead = 0;
    *call = (struct braid_socket_call){.flags = MSG_DONTWAIT, .place_bytes = into_place};
    call->iov[0] = (struct iovec){place, into_place};
    call->iov[1] = (struct iovec){lane->rx + lane->rx_have, ahead};
    call->msg.msg_iov = call->iov;
    call->msg.msg_iovlen = 2;
    /* else all pieces are on their way to the GPU */
    call->wanted = !lane->landing_active || !lane->landing_staged || into_place > 0;
}

/* What came of it: `got` bytes or a negative errno. Bytes read, 0 when there is nothing, or a negative errno. */
static ssize_t finish_receive(struct braid_socket_lane *lane, const struct braid_socket_call *call,
                              ssize_t got)
{
    size_t landed;
    int err = 0;

    if (got == -EAGAIN)
        return 0;
    if (got <= 0 && !lane->put_active && lane->stage != NULL && braid_stage_is_busy(lane->stage))
        return 0; /* what has come is still on its way to the GPU, and counts */
    if (got <= 0 && !lane->put_active && braid_zerocopy_is_busy(&lane->zerocopy))
        return 0; /* the kernel lets go of what the peer took before it left, or drops it now, and tells */
    if (got <= 0)
        return lane_failed(lane, got < 0 ? (int)got : -ECONNRESET, "recv");
    landed = MIN((size_t)got, call->place_bytes);
    lane->landed += landed;
    lane->rx_have += (size_t)got - landed;
    if (call->place_bytes > 0 && lane->landing_staged)
        err = braid_stage_filled(lane->stage, &lane->landing, lane->landed, landed);
    if (err != 0)
        return lane_failed(lane, err, "copy to the GPU");
    if (lane->landing_active && lane->landed == lane->landing.bytes)
        err = landing_done(lane);
    if (err == 0 && lane->rx_have > 0)
        err = braid_socket_parse(lane);
    return err == 0 ? got : lane_failed(lane, err, "a record that breaks the protocol");
}

/* One read. As finish_receive. *drained: the socket gave less than was asked for. */
static ssize_t receive_some(struct braid_socket_lane *lane, size_t most, bool *drained)
{
    struct braid_socket_call call;
    ssize_t got;

    prepare_receive(lane, most, &call);
    if (!call.wanted)
        return 0;
    do {
        got = call.place_bytes > 0
                  ? recvmsg(lane->fd, &call.msg, call.flags)
                  : recv(lane->fd, call.iov[1].iov_base, call.iov[1].iov_len, call.flags);
    } while (got < 0 && errno == EINTR);
    *drained = got < (ssize_t)(call.place_bytes + call.iov[1].iov_len);
    return finish_receive(lane, &call, got < 0 ? -errno : got);
}

static ssize_t progress_rx(struct braid_socket_lane *lane, size_t budget)
{
    size_t moved = 0;
    bool drained = false;
    ssize_t got;

    while (!drained && moved < budget) {
        got = receive_some(lane, MIN(CALL_BYTES, budget - moved), &drained);
        if (got < 0)
            return got;
        if (got == 0)
            break;
        moved += (size_t)got;
    }
    return (ssize_t)moved;
}

static bool is_usable(const struct braid_socket_lane *lane)
{
    return lane->fd >= 0 &&
           atomic_load_explicit(&lane->base.state, memory_order_relaxed) == BRAID_LANE_UP;
}

/* What the GPU has taken in since the last time. > 0: copies ended, or are under way and will without an event. */
static int progress_stage(struct braid_socket_lane *lane)
{
    int ended, err = 0;

    if (lane->stage == NULL || !braid_stage_is_busy(lane->stage) || lane->put_active)
        return 0;
    ended = braid_stage_reap(lane->stage, &lane->base);
    if (ended < 0)
        return lane_failed(lane, ended, "copy to the GPU");
    if (ended > 0 && lane->rx_have > 0)
        err = braid_socket_parse(lane);
    return err == 0 ? 1 : lane_failed(lane, err, "a record that breaks the protocol");
}

/* The GPU's copies end without an event. */
static bool waits_for_gpu(const struct braid_socket_lane *lane)
{
    return lane->put_active && lane->put_staged && !lane->blocked;
}

int braid_socket_move(struct braid_socket_lane *lane, size_t budget)
{
    ssize_t sent, got;
    int staged, told;

    if (!is_usable(lane))
        return 0;
    told = braid_zerocopy_reap(lane);
    staged = progress_stage(lane);
    if (staged < 0)
        return staged;
    sent = progress_tx(lane, budget);
    if (sent < 0)
        return (int)sent;
    /* On a stream for bulk nothing comes back but its end, which shows when nothing can be sent. */
    if (sent > 0 && lane->base.index > 0 && braid_conn_is_sender(lane->base.conn))
        return 1;
    got = progress_rx(lane, budget);
    if (got < 0)
        return (int)got;
    return sent > 0 || got > 0 || staged > 0 || told > 0 || waits_for_gpu(lane);
}

int braid_socket_prepare(struct braid_socket_lane *lane, struct braid_socket_call *tx,
                         struct braid_socket_call *rx)
{
    int staged, told, err;

    tx->wanted = rx->wanted = false;
    if (!is_usable(lane))
        return 0;
    told = braid_zerocopy_reap(lane);
    staged = progress_stage(lane);
    if (staged < 0)
        return staged;
    if (!lane->peer_gone && (lane->put_active || fetch_put(lane) || has_tx(lane))) {
        err = prepare_send(lane, CALL_BYTES, tx);
        if (err != 0)
            return err;
    }
    prepare_receive(lane, CALL_BYTES, rx);
    return staged > 0 || told > 0;
}

int braid_socket_finish(struct braid_socket_lane *lane, const struct braid_socket_call *tx,
                        ssize_t sent, const struct braid_socket_call *rx, ssize_t got)
{
    if (tx->wanted)
        sent = finish_send(lane, tx, sent);
    if (tx->wanted && sent < 0)
        return (int)sent;
    if (rx->wanted)
        got = finish_receive(lane, rx, got);
    if (rx->wanted && got < 0)
        return (int)got;
    return (tx->wanted && sent > 0) || (rx->wanted && got > 0) || waits_for_gpu(lane);
}

bool braid_socket_lane_is_timed(const struct braid_socket_lane *lane)
{
    return lane->probe != NULL && braid_probe_compares_cpu(lane->probe) &&
           (lane->probed || braid_conn_has_puts(lane->base.conn) ||
            braid_zerocopy_is_busy(&lane->zerocopy));
}

/* Whether what is under way on this lane is an I/O thread's work. */
static bool is_for_threads(const struct braid_socket_lane *lane)
{
    size_t waiting = 0;

    if (lane->base.index > 0)
        return braid_socket_plan.threads > 0;
    if (!braid_socket_plan.threads_help)
        return false;
    if (lane->landing_active)
        waiting = lane->landing.bytes - lane->landed;
    else if (lane->put_active)
        waiting = lane->put.bytes - lane->put_sent;
    return waiting > braid_socket_plan.thread_bytes;
}

/* Whether the caller leaves more behind on this lane than it had better move itself. */
static bool waits_for_threads(const struct braid_socket_lane *lane)
{
    return braid_socket_plan.threads_help && braid_socket_lane_wants_puts(lane) &&
           braid_conn_put_bytes(lane->base.conn) > braid_socket_plan.thread_bytes;
}

int braid_socket_progress(struct braid_lane *base, size_t budget)
{
    struct braid_socket_lane *lane = lane_of(base);
    uint64_t from = 0;
    int moved;

    if (is_for_threads(lane)) {
        /* A lane that rested when its message came may be wanted for it now. */
        if (!atomic_load_explicit(&lane->io_watched, memory_order_relaxed) ||
            (!lane->blocked && braid_socket_lane_wants_puts(lane)))
            braid_io_arm(lane);
        if (atomic_load_explicit(&lane->io_thread, memory_order_relaxed) != NULL)
            return 0;
        /* There is no thread to be had: what follows is for the caller to do. */
    }
    if (braid_conn_has_puts(base->conn) && !braid_socket_lane_takes_bulk(lane))
        base->ops->kick(base); /* should all streams for it rest, as after a trial */
    if (braid_socket_lane_is_timed(lane))
        from = braid_socket_cpu_ns();
    moved = braid_socket_move(lane, budget);
    if (from != 0)
        atomic_fetch_add(&lane->probe->cpu_ns, braid_socket_cpu_ns() - from);
    if (moved > 0 && (is_for_threads(lane) || waits_for_threads(lane)))
        braid_io_arm(lane);
    /* Records of messages that are done for their owner: small ones, and starts of those whose chunks go by other streams. */
    if (moved >= 0 && !lane->put_active && has_tx(lane) && !lane->peer_gone)
        leave_to_thread(lane);
    return moved;
}

int braid_socket_fence(struct braid_lane *base)
{
    struct braid_socket_lane *lane = lane_of(base);

    if (lane->fd >= 0)
        shutdown(lane->fd, SHUT_RDWR);
    lane->landing_active = false;
    if (lane->stage != NULL)
        braid_stage_drain(lane->stage);
    braid_zerocopy_abort(lane);
    if (lane->put_active) {
        lane->put_active = false;
        end_probe(lane, false);
        if (!lane->put_zerocopy)
            braid_conn_put_done(base, lane->put.owner, lane->put.bytes, -ECANCELED);
    }
    return 0;
}
