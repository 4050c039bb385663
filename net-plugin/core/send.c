/*
 * The sending half of a connection: isend, its place in the matching rule (conn.h), and chunks for lanes to fetch.
 * A send waits in `pending` until it may go: a small one for credit, a larger one for the announcement of its sub. Sends with the same tag
 * never overtake one another there; others may.
 */
#include "net-plugin/core/conn.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

#define MIN_CHUNK_SHIFT  17 /* 128 KiB */
#define MIN_STRIPE_SHIFT 14 /* 16 KiB, where a chunk costs only a work request */
/* What can be used and not given back: all for messages that wait, and all receives there are filled by others. */
#define CREDIT_MOST       (BRAID_EAGER_WINDOW + BRAID_SUBS * (BRAID_BODY_MAX + BRAID_EAGER_OVERHEAD))
#define SMALL_CHUNK_BYTES ((size_t)256 * 1024)
#define MAX_CHUNK_SHIFT   22 /* 4 MiB: with BRAID_MESSAGE_CHUNKS that is the 1 GiB of max_p2p_bytes */

void braid_sender_init(struct braid_conn *conn)
{
    struct braid_conn_sender *tx = conn->tx;

    tx->pending_end = &tx->pending;
    tx->active_end = &tx->active;
}

/* -- matching ---------------------------------------------------------------------------------------------------------- */

/* Keeps in mind that an eager message with this tag has gone, whose sub is unknown. */
static inline void note_eager(struct braid_conn_sender *tx, int tag)
{
    struct braid_eager_run *last = &tx->runs[(tx->runs_tail - 1) % BRAID_EAGER_MAX];

    tx->eager_open++;
    if (tx->runs_head != tx->runs_tail && last->tag == tag)
        last->count++;
    else
        tx->runs[tx->runs_tail++ % BRAID_EAGER_MAX] = (struct braid_eager_run){tag, 1};
}

/* Takes up to `most` eager messages of the first run with this tag off those whose sub is unknown. How many. */
static uint32_t match_eager(struct braid_conn_sender *tx, int tag, uint32_t most)
{
    for (uint32_t i = tx->runs_head; i != tx->runs_tail; i++) {
        struct braid_eager_run *run = &tx->runs[i % BRAID_EAGER_MAX];
        uint32_t taken = MIN(most, run->count);
        if (run->tag != tag)
            continue;
        tx->eager_open -= taken;
        run->count -= taken;
        if (run->count > 0)
            return taken;
        for (; i != tx->runs_head; i--)
            tx->runs[i % BRAID_EAGER_MAX] = tx->runs[(i - 1) % BRAID_EAGER_MAX];
        tx->runs_head++;
        return taken;
    }
    return 0;
}

/* Moves the first announced sub with this tag to the head of the list. Whether there is one. */
static bool bring_forward(struct braid_conn_sender *tx, int tag)
{
    struct braid_recv_word word;

    for (uint32_t i = tx->words_head; i != tx->words_tail; i++) {
        word = tx->words[i % BRAID_SUBS];
        if (word.tag != tag)
            continue;
        for (; i != tx->words_head; i--)
            tx->words[i % BRAID_SUBS] = tx->words[(i - 1) % BRAID_SUBS];
        tx->words[i % BRAID_SUBS] = word;
        return true;
    }
    return false;
}

/* The first announced sub with this tag, or NULL. Whoever uses it up moves words_head on. */
static inline const struct braid_recv_word *find_word(struct braid_conn_sender *tx, int tag)
{
    const struct braid_recv_word *first = &tx->words[tx->words_head % BRAID_SUBS];

    if (tx->words_head == tx->words_tail)
        return NULL;
    return first->tag == tag || bring_forward(tx, tag) ? first : NULL;
}

static int on_word(struct braid_conn_sender *tx, const struct braid_recv_word *word)
{
    uint32_t left = (uint32_t)word->capacity, taken;

    if (word->flags & BRAID_RECV_USED) {
        if (word->capacity > BRAID_SUBS)
            return -EPROTO;
        for (; left > 0; left -= taken) {
            taken = match_eager(tx, word->tag, left);
            if (taken == 0)
                return -EPROTO;
        }
        return 0;
    }
    if (tx->eager_open > 0 && match_eager(tx, word->tag, 1) == 1)
        return 0;
    if (tx->words_tail - tx->words_head == BRAID_SUBS)
        return -EPROTO;
    tx->words[tx->words_tail++ % BRAID_SUBS] = *word;
    return 0;
}

BRAID_APART int braid_sender_on_record(struct braid_conn *conn, const struct braid_rec *rec,
                                       const void *body)
{
    struct braid_conn_sender *tx = conn->tx;
    struct braid_recv_word word;
    int err = 0;

    if (rec->type != BRAID_REC_RECV && rec->type != BRAID_REC_CREDIT && rec->type != BRAID_REC_DONE)
        return -EPROTO;
    if (rec->type == BRAID_REC_RECV) {
        if (rec->body_bytes % sizeof(word) != 0)
            return -EPROTO;
        for (size_t at = 0; err == 0 && at < rec->body_bytes; at += sizeof(word)) {
            memcpy(&word, (const uint8_t *)body + at, sizeof(word));
            err = on_word(tx, &word);
        }
    }
    if (tx->credit_used - rec->credit > CREDIT_MOST)
        return -EPROTO; /* more given back than was used */
    if (tx->eager_open * BRAID_EAGER_OVERHEAD > tx->credit_used - rec->credit)
        return -EPROTO; /* or before the subs that were used are announced */
    tx->credit_back = rec->credit;
    return err;
}

/* -- from pending to the lanes -------------------------------------------------------------------------------------------- */

static inline int give_eager(struct braid_conn *conn, struct braid_lane *lane,
                             struct braid_send *send)
{
    struct braid_conn_sender *tx = conn->tx;
    const uint32_t cost = (uint32_t)send->bytes + BRAID_EAGER_OVERHEAD;
    struct braid_rec rec = {
        .type = BRAID_REC_EAGER, .arg = (uint32_t)send->tag, .body_bytes = (uint32_t)send->bytes};
    int err;

    /*
     * Credit is for messages that may have to wait at the receiver. One whose receive is posted does not, and must not have to: others of
     * its group, with other tags, may have taken all credit, and wait for it.
     */
    if (tx->credit_used - tx->credit_back + cost > BRAID_EAGER_WINDOW &&
        find_word(tx, send->tag) == NULL)
        return -ENOBUFS;
    err = braid_conn_control(conn, lane, &rec, send->data);
    if (err != 0)
        return err;
    tx->credit_used += cost;
    if (find_word(tx, send->tag) != NULL)
        tx->words_head++;
    else
        note_eager(tx, send->tag);
    return 0;
}

/* Whether one lane has shown to be a quarter slower than another: then the faster one must be able to take more chunks. */
static bool rates_differ(const struct braid_conn *conn, unsigned lanes)
{
    uint64_t low = UINT64_MAX, high = 0;

    for (unsigned i = 0; i < lanes; i++) {
        uint64_t rate = atomic_load_explicit(&conn->lanes[i]->rate_Bps, memory_order_relaxed);
        low = MIN(low, rate);
        high = MAX(high, rate);
    }
    return low != 0 && low < high - high / 4;
}

/*
 * A chunk a lane where a chunk costs a work request, more where lanes differ. On streams four, so that a slow one holds little up, but one as
 * long as it is small.
 */
static uint8_t chunk_shift(const struct braid_conn *conn, size_t bytes, unsigned lanes)
{
    bool alike = lanes > 1 && !rates_differ(conn, lanes);
    bool few = alike && conn->ops->flags & BRAID_T_PUT_STARTS;
    size_t target = lanes == 1 ? bytes : few ? (bytes + lanes - 1) / lanes : bytes / (4 * lanes);
    uint8_t shift = few ? MIN_STRIPE_SHIFT : MIN_CHUNK_SHIFT;

    if (alike && conn->ops->flags & BRAID_T_STREAM)
        target = MAX(target, MIN(bytes / lanes, SMALL_CHUNK_BYTES));
    while (shift < MAX_CHUNK_SHIFT && ((size_t)1 << shift) < target)
        shift++;
    return shift;
}

/* Lanes that take chunks; streams that are there but not wanted rest. */
static unsigned lanes_in_use(const struct braid_conn *conn)
{
    unsigned count = atomic_load(&conn->lanes_count);

    return conn->ops->flags & BRAID_T_STREAM ? MIN(count, atomic_load(&conn->streams_wanted) + 1)
                                             : count;
}

BRAID_COLD static int too_large(struct braid_conn *conn, const struct braid_send *send,
                                const struct braid_recv_word *word)
{
    char text[256];

    snprintf(
        text, sizeof(text),
        "message of %zu bytes with tag %d is larger than the receive of %llu bytes that it matches",
        send->bytes, send->tag, (unsigned long long)word->capacity);
    BRAID_WARN("%s (peer %s)", text, conn->peer);
    braid_conn_fail_tell(conn, -EMSGSIZE, text);
    return -EMSGSIZE;
}

static void fill_put(struct braid_send *send, uint32_t chunk, struct braid_put *put)
{
    put->chunk = chunk;
    put->chunks = send->chunks;
    put->offset = (uint64_t)chunk << send->shift;
    put->bytes = MIN(send->bytes - put->offset, (size_t)1 << send->shift);
    put->shift = send->shift;
    put->sub = send->sub;
    put->src = (const uint8_t *)send->data + put->offset;
    put->src_mr = send->mr;
    put->dst = send->dst;
    put->owner = send;
}

/* The receiver learns that the sub is taken: by a record, or by the first chunk. */
static int tell_start(struct braid_conn *conn, struct braid_lane *lane, struct braid_send *send)
{
    struct braid_rec rec = {
        .type = BRAID_REC_START, .value = send->bytes, .arg = send->sub, .shift = send->shift};
    struct braid_put put;
    int err;

    if (!(conn->ops->flags & BRAID_T_PUT_STARTS))
        return braid_conn_control(conn, lane, &rec, NULL);
    fill_put(send, 0, &put);
    err = conn->ops->put(lane, &put);
    send->next_chunk = err == 0;
    return err;
}

static int give_start(struct braid_conn *conn, struct braid_lane *lane, struct braid_send *send)
{
    struct braid_conn_sender *tx = conn->tx;
    const struct braid_recv_word *word = find_word(tx, send->tag);
    int err;

    if (word == NULL)
        return -ENOBUFS;
    if (word->capacity < send->bytes)
        return too_large(conn, send, word);
    send->shift = chunk_shift(conn, send->bytes, lanes_in_use(conn));
    send->sub = word->sub;
    send->dst = (struct braid_remote){.addr = word->addr, .mr = word->mr, .flags = word->flags};
    send->chunks = (uint32_t)((send->bytes + ((size_t)1 << send->shift) - 1) >> send->shift);
    send->next_chunk = 0;
    atomic_store_explicit(&send->left, send->chunks, memory_order_relaxed);
    err = tell_start(conn, lane, send);
    if (err == 0)
        tx->words_head++;
    return err;
}

static void activate(struct braid_conn_sender *tx, struct braid_send *send)
{
    size_t sent = (size_t)send->next_chunk << send->shift;

    send->next = NULL;
    atomic_fetch_add_explicit(&send->base.conn->bulk_open, 1, memory_order_relaxed);
    if (send->next_chunk == send->chunks)
        return; /* its first chunk was its last */
    /* Sequentially consistent: either a thread that is about to rest sees it, or kick() sees the rest. */
    atomic_fetch_add(&tx->put_bytes, send->bytes - sent);
    braid_spin_lock(&tx->put_lock);
    *tx->active_end = send;
    tx->active_end = &send->next;
    braid_spin_unlock(&tx->put_lock);
}

/* Whether a send before `send` in pending, all of which had to wait, has its tag. */
static bool must_wait(const struct braid_conn_sender *tx, const struct braid_send *send)
{
    for (const struct braid_send *s = tx->pending; s != send; s = s->next)
        if (s->tag == send->tag)
            return true;
    return false;
}

int braid_sender_pump(struct braid_conn *conn, struct braid_lane *lane)
{
    struct braid_conn_sender *tx = conn->tx;
    struct braid_send **at = &tx->pending, *send;
    int given = 0, err;

    if (atomic_load_explicit(&conn->error, memory_order_relaxed) != 0)
        return 0;
    while ((send = *at) != NULL) {
        bool eager = send->bytes <= conn->eager_bytes;
        if (must_wait(tx, send)) {
            at = &send->next;
            continue;
        }
        err = eager ? give_eager(conn, lane, send) : give_start(conn, lane, send);
        if (err == -ENOBUFS) {
            at = &send->next;
            continue;
        }
        if (err != 0)
            return given > 0 ? given : err;
        *at = send->next;
        if (*at == NULL)
            tx->pending_end = at;
        given++;
        if (!eager)
            activate(tx, send);
        atomic_store_explicit(&send->state, BRAID_SEND_ACTIVE, memory_order_release);
    }
    return given;
}

/* -- chunks --------------------------------------------------------------------------------------------------------------- */

bool braid_conn_has_puts(const struct braid_conn *conn)
{
    return braid_conn_put_bytes(conn) != 0;
}

/* None after an error: whoever waits for them to go rests. */
uint64_t braid_conn_put_bytes(const struct braid_conn *conn)
{
    return conn->sender && atomic_load_explicit(&conn->error, memory_order_relaxed) == 0
               ? atomic_load(&conn->tx->put_bytes)
               : 0;
}

/*
 * Whether a chunk on this lane, behind what it has queued already, arrives in half the time that the faster lanes need for all that waits:
 * otherwise it may hold its message up. Lanes whose rate is not known (0) take part.
 */
static bool is_fast_enough(const struct braid_conn *conn, const struct braid_lane *lane,
                           const struct braid_send *send)
{
    size_t chunk = (size_t)1 << send->shift;
    unsigned count = atomic_load_explicit(&conn->lanes_count, memory_order_acquire);
    uint64_t mine = atomic_load_explicit(&lane->rate_Bps, memory_order_relaxed), faster = 0;
    uint64_t ahead = chunk + atomic_load_explicit(&lane->queued_bytes, memory_order_relaxed);
    uint64_t others = braid_conn_put_bytes(conn);

    if (mine == 0 || !(conn->ops->flags & BRAID_T_STREAM))
        return true;
    for (unsigned i = 0; i < count; i++) {
        uint64_t rate = atomic_load_explicit(&conn->lanes[i]->rate_Bps, memory_order_relaxed);
        if (rate <= mine + mine / 4)
            continue;
        faster += rate;
        /* A message of one chunk holds up all that come after it, of which the receiver has room for few. */
        if (send->chunks > 1)
            others += atomic_load_explicit(&conn->lanes[i]->queued_bytes, memory_order_relaxed);
    }
    return faster == 0 || 2 * (double)ahead * (double)faster <= (double)mine * (double)others;
}

int braid_conn_next_put(struct braid_lane *lane, struct braid_put *put)
{
    struct braid_conn *conn = lane->conn;
    struct braid_conn_sender *tx = conn->tx;
    struct braid_send *send;
    uint32_t chunk;

    if (!braid_conn_has_puts(conn))
        return -EAGAIN;
    braid_spin_lock(&tx->put_lock);
    send = tx->active;
    if (send == NULL || !is_fast_enough(conn, lane, send)) {
        braid_spin_unlock(&tx->put_lock);
        return send == NULL ? -EAGAIN : -EBUSY;
    }
    chunk = send->next_chunk++;
    if (send->next_chunk == send->chunks) {
        tx->active = send->next;
        if (tx->active == NULL)
            tx->active_end = &tx->active;
    }
    braid_spin_unlock(&tx->put_lock);
    fill_put(send, chunk, put);
    atomic_fetch_sub_explicit(&tx->put_bytes, put->bytes, memory_order_relaxed);
    return 0;
}

void braid_conn_put_done(struct braid_lane *lane, void *owner, size_t bytes, int status)
{
    struct braid_send *send = owner;

    if (status != 0)
        braid_conn_fail(lane->conn, status);
    atomic_fetch_add_explicit(&lane->put_bytes, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&send->left, 1, memory_order_release);
}

/* -- requests --------------------------------------------------------------------------------------------------------------- */

/* A small message with none before it goes without a turn in `pending`. Whether it has gone. */
static inline bool send_at_once(struct braid_conn *conn, struct braid_send *send)
{
    struct braid_lane *lane = braid_conn_take_control(conn);
    bool gone = false;

    if (lane == NULL)
        return false;
    braid_spin_lock(&conn->lock);
    if (conn->tx->pending == NULL)
        gone = give_eager(conn, lane, send) == 0;
    braid_spin_unlock(&conn->lock);
    if (gone) {
        lane->ops->push(lane);
        atomic_store_explicit(&send->state, BRAID_SEND_ACTIVE, memory_order_release);
    }
    braid_lane_unlock(lane);
    return gone;
}

/* `now`: sends, unless all that it could do is to find again what waits; else the caller's next test does. */
BRAID_APART static void send_in_turn(struct braid_conn *conn, struct braid_send *send, bool now)
{
    struct braid_conn_sender *tx = conn->tx;

    send->next = NULL;
    braid_spin_lock(&conn->lock);
    atomic_store_explicit(&send->state, BRAID_SEND_PENDING, memory_order_relaxed);
    *tx->pending_end = send;
    tx->pending_end = &send->next;
    now = now && (tx->pending == send || conn->ops->flags & BRAID_T_STREAM);
    braid_spin_unlock(&conn->lock);
    if (now)
        braid_conn_pump(conn);
}

static void note_given(struct braid_conn_sender *tx)
{
    tx->held_bytes = 0;
    tx->given_ns = braid_now_ns();
    tx->given_idle = atomic_load_explicit(&braid_idle_tests, memory_order_relaxed);
}

/* Whether others are likely to follow soon after a message that is alone now; see BRAID_BURST_NS. */
static bool is_in_burst(const struct braid_conn_sender *tx)
{
    uint64_t since = braid_now_ns() - tx->given_ns;

    return since < BRAID_BURST_NS ||
           (since < BRAID_BUSY_NS &&
            tx->given_idle == atomic_load_explicit(&braid_idle_tests, memory_order_relaxed));
}

/* Whether a small message goes at once or waits for others to share a system call with. */
BRAID_APART static bool goes_at_once(struct braid_conn_sender *tx, size_t bytes, bool alone)
{
    tx->held_bytes += bytes + sizeof(struct braid_rec);
    if (tx->held_bytes < BRAID_GATHER_BYTES && (!alone || is_in_burst(tx))) {
        tx->fresh = true;
        return false;
    }
    note_given(tx);
    return true;
}

/* A send that is tested and not yet given: whether others may still join it, as one has since the last test. */
static bool is_gathering(struct braid_conn_sender *tx)
{
    if (tx->held_bytes == 0)
        return false;
    if (tx->fresh) {
        tx->fresh = false;
        return true;
    }
    note_given(tx);
    return false;
}

static bool is_pending(const struct braid_send *send)
{
    return atomic_load_explicit(&send->state, memory_order_relaxed) == BRAID_SEND_PENDING;
}

/* Whatever is not a lone small message that costs no system call, or finds no room. */
BRAID_APART static void send_or_gather(struct braid_conn *conn, struct braid_send *send)
{
    bool alone = conn->tx->outstanding == 1, now = true;

    if (send->bytes <= conn->eager_bytes)
        now =
            conn->ops->flags & BRAID_T_STREAM ? goes_at_once(conn->tx, send->bytes, alone) : alone;
    send_in_turn(conn, send, now);
    if (send->bytes > conn->eager_bytes && conn->ops->flags & BRAID_T_STREAM && is_pending(send)) {
        braid_conn_poll(conn); /* the announcement may have come, and nobody has asked */
        braid_conn_pump(conn);
    }
}

/* A request that was not used before, or NULL when all are under way. */
BRAID_APART static struct braid_send *new_send(struct braid_conn *conn)
{
    struct braid_send *send = &conn->tx->sends[conn->tx->begun];

    if (conn->tx->begun == BRAID_SENDS) {
        braid_conn_poll(conn);
        return NULL;
    }
    conn->tx->begun++;
    send->base = (struct braid_request){BRAID_REQUEST_SEND, conn};
    send->next = NULL;
    return send;
}

int braid_sender_isend(struct braid_conn *conn, const void *data, size_t bytes, int tag,
                       struct braid_mr *mr, struct braid_request **request_p)
{
    struct braid_conn_sender *tx = conn->tx;
    struct braid_send *send = tx->free != NULL ? tx->free : new_send(conn);

    if (send == NULL)
        return -EAGAIN;
    tx->free = send->next;
    send->tag = tag;
    send->data = data;
    send->bytes = bytes;
    send->mr = mr;
    send->chunks = 0;
    atomic_store_explicit(&send->left, 0, memory_order_relaxed);
    braid_mr_use(mr, 1);
    *request_p = &send->base;
    if (tx->outstanding++ > 0 || bytes > conn->eager_bytes || conn->ops->flags & BRAID_T_STREAM ||
        !send_at_once(conn, send))
        send_or_gather(conn, send);
    return 0;
}

static bool is_done(const struct braid_send *send)
{
    return atomic_load_explicit(&send->state, memory_order_acquire) == BRAID_SEND_ACTIVE &&
           atomic_load_explicit(&send->left, memory_order_acquire) == 0;
}

/* What the caller learns of a send that is done; its request is free again. Returns what test() does then. */
static inline int finish(struct braid_send *send, int *size)
{
    struct braid_conn *conn = send->base.conn;

    if (size != NULL)
        *size = (int)send->bytes;
    if (send->chunks > 0)
        atomic_fetch_sub_explicit(&conn->bulk_open, 1, memory_order_relaxed);
    braid_mr_use(send->mr, -1);
    atomic_store_explicit(&send->state, BRAID_SEND_FREE, memory_order_relaxed);
    conn->tx->outstanding--;
    send->next = conn->tx->free;
    conn->tx->free = send;
    return 1;
}

BRAID_APART static int move_and_test(struct braid_send *send, int *size)
{
    struct braid_conn *conn = send->base.conn;
    bool over;

    if (is_pending(send)) {
        if (is_gathering(conn->tx))
            return 0;
        braid_conn_pump(conn);
    }
    if (is_done(send))
        return finish(send, size);
    if (!is_pending(send) && braid_conn_skips_poll(conn)) {
        braid_stall_note(&send->base);
        return 0;
    }
    braid_conn_poll(conn);
    if (is_pending(send))
        braid_conn_pump(conn);
    over = braid_conn_is_over(conn);
    if (is_done(send))
        return finish(send, size);
    braid_stall_note(&send->base);
    return over ? braid_conn_status(conn) : 0;
}

int braid_sender_test(struct braid_send *send, int *size)
{
    return is_done(send) ? finish(send, size) : move_and_test(send, size);
}
