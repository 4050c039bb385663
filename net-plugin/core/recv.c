/*
 * The receiving half of a connection: irecv, its place in the matching rule (conn.h), where chunks land, and what the sender is told.
 * A message that comes before its receive waits in `bounce`, which the eager window bounds. Credit goes back in the order in which bounce
 * is freed. Announcements that nothing waits for are held back and go out in batches, always before the credit that covers them.
 */
#include "net-plugin/core/conn.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "net-plugin/core/landing.h"

void braid_receiver_init(struct braid_conn *conn)
{
    for (unsigned i = 0; i < BRAID_RECVS; i++)
        conn->rx->recvs[i].base = (struct braid_request){BRAID_REQUEST_RECV, conn};
    for (unsigned i = 0; i < BRAID_FLUSHES; i++)
        conn->rx->flushes[i].base = (struct braid_request){BRAID_REQUEST_FLUSH, conn};
}

static struct braid_sub *slot_of(struct braid_conn_receiver *rx, uint32_t number)
{
    return &rx->subs[number % BRAID_SUBS];
}

/* The sub with this number if it is posted; any thread. */
static struct braid_sub *find_sub(struct braid_conn_receiver *rx, uint32_t number)
{
    struct braid_sub *sub = slot_of(rx, number);

    if (atomic_load_explicit(&sub->number, memory_order_acquire) != (uint64_t)number + 1)
        return NULL;
    return sub;
}

static int sub_state(const struct braid_sub *sub)
{
    return atomic_load_explicit(&sub->state, memory_order_acquire);
}

/* -- eager messages ----------------------------------------------------------------------------------------------------- */

BRAID_COLD static int message_too_large(struct braid_conn *conn, const struct braid_sub *sub,
                                        size_t bytes)
{
    char text[256];

    snprintf(
        text, sizeof(text),
        "message of %zu bytes with tag %d is larger than the receive of %zu bytes that it matches",
        bytes, sub->tag, sub->capacity);
    BRAID_WARN("%s (peer %s)", text, conn->peer);
    braid_conn_fail_tell(conn, -EMSGSIZE, text);
    return -EMSGSIZE;
}

/* `reach`: the message has at least this many bytes. */
static bool is_polled(const struct braid_sub *sub, uint64_t reach)
{
    if (sub_state(sub) == BRAID_SUB_STARTED)
        reach = sub->bytes;
    return sub->polled == BRAID_POLLED ||
           (sub->polled == BRAID_POLLED_IF_SMALL && reach <= BRAID_POLLED_BYTES);
}

static int fill(struct braid_conn *conn, struct braid_sub *sub, const void *body, size_t bytes)
{
    if (bytes > sub->capacity)
        return message_too_large(conn, sub, bytes);
    if (is_polled(sub, bytes))
        braid_copy_polled(sub->data, body, bytes);
    else
        memcpy(sub->data, body, bytes);
    conn->rx->small_last = true;
    conn->rx->held_ns = 0;
    sub->bytes = bytes;
    atomic_store_explicit(&sub->state, BRAID_SUB_FILLED, memory_order_release);
    return 0;
}

/* Frees bounce from its old end, as far as messages were taken, and gives that much credit back. */
static void release_bounce(struct braid_conn_receiver *rx)
{
    while (rx->early_head != rx->early_tail && rx->early[rx->early_head % BRAID_EAGER_MAX].taken) {
        struct braid_early *early = &rx->early[rx->early_head % BRAID_EAGER_MAX];
        rx->bounce_head = early->at + early->bytes;
        rx->credit_given += early->bytes + BRAID_EAGER_OVERHEAD;
        rx->early_head++;
    }
}

/* Fills a new sub with the first waiting message of its tag, if there is one. */
static int take_early(struct braid_conn *conn, struct braid_sub *sub)
{
    struct braid_conn_receiver *rx = conn->rx;

    for (uint32_t i = rx->early_head; i != rx->early_tail; i++) {
        struct braid_early *early = &rx->early[i % BRAID_EAGER_MAX];
        int err;
        if (early->taken || early->tag != sub->tag)
            continue;
        err = fill(conn, sub, rx->bounce + early->at % BRAID_BOUNCE_BYTES, early->bytes);
        early->taken = true;
        release_bounce(rx);
        return err;
    }
    return 0;
}

/* `at` values run on; a message never wraps inside bounce. */
static int keep_early(struct braid_conn_receiver *rx, int tag, const void *body, uint32_t bytes)
{
    uint32_t at = rx->bounce_tail;
    struct braid_early *early = &rx->early[rx->early_tail % BRAID_EAGER_MAX];

    if (rx->early_tail - rx->early_head == BRAID_EAGER_MAX)
        return -EPROTO; /* more than the window allows */
    if (at % BRAID_BOUNCE_BYTES + bytes > BRAID_BOUNCE_BYTES)
        at += BRAID_BOUNCE_BYTES - at % BRAID_BOUNCE_BYTES;
    if (rx->early_head == rx->early_tail)
        rx->bounce_head = at;
    if (at + bytes - rx->bounce_head > BRAID_BOUNCE_BYTES)
        return -EPROTO;
    memcpy(rx->bounce + at % BRAID_BOUNCE_BYTES, body, bytes);
    *early = (struct braid_early){.tag = tag, .bytes = bytes, .at = at};
    rx->bounce_tail = at + bytes;
    rx->early_tail++;
    return 0;
}

static void advance_match(struct braid_conn_receiver *rx)
{
    while (rx->next_match != rx->next_sub &&
           sub_state(slot_of(rx, rx->next_match)) != BRAID_SUB_POSTED)
        rx->next_match++;
}

static int on_eager(struct braid_conn *conn, const struct braid_rec *rec, const void *body)
{
    struct braid_conn_receiver *rx = conn->rx;
    int tag = (int)rec->arg, err;

    for (uint32_t i = rx->next_match; i != rx->next_sub; i++) {
        struct braid_sub *sub = slot_of(rx, i);
        bool posted = sub_state(sub) == BRAID_SUB_POSTED, mine = posted && sub->tag == tag;
        if (i == rx->next_match && (mine || !posted))
            rx->next_match++;
        if (!mine)
            continue;
        err = fill(conn, sub, body, rec->body_bytes);
        rx->credit_given += rec->body_bytes + BRAID_EAGER_OVERHEAD;
        return err;
    }
    return keep_early(rx, tag, body, rec->body_bytes);
}

/* -- larger messages ------------------------------------------------------------------------------------------------------ */

static int on_start(struct braid_conn *conn, const struct braid_rec *rec)
{
    struct braid_sub *sub = find_sub(conn->rx, rec->arg);
    uint64_t chunks;

    if (sub == NULL || sub_state(sub) != BRAID_SUB_POSTED || rec->shift > 40 || rec->value == 0 ||
        rec->value > sub->capacity)
        return -EPROTO;
    chunks = (rec->value + (1ull << rec->shift) - 1) >> rec->shift;
    if (chunks > BRAID_MESSAGE_CHUNKS)
        return -EPROTO;
    sub->bytes = rec->value;
    sub->chunks = (uint32_t)chunks;
    atomic_fetch_add_explicit(&conn->bulk_open, 1, memory_order_relaxed);
    sub->counted = true;
    conn->rx->small_last = false;
    atomic_store_explicit(&sub->state, BRAID_SUB_STARTED, memory_order_release);
    return 0;
}

int braid_receiver_on_record(struct braid_conn *conn, const struct braid_rec *rec, const void *body)
{
    if (rec->type == BRAID_REC_EAGER)
        return on_eager(conn, rec, body);
    if (rec->type == BRAID_REC_START)
        return on_start(conn, rec);
    return rec->type == BRAID_REC_CREDIT ? 0 : -EPROTO;
}

int braid_conn_land(struct braid_lane *lane, const struct braid_rec *rec,
                    struct braid_landing *landing)
{
    struct braid_conn *conn = lane->conn;
    struct braid_sub *sub = conn->sender ? NULL : find_sub(conn->rx, rec->arg);

    if (sub == NULL || rec->shift > 40 || rec->body_bytes == 0 || rec->value > sub->capacity ||
        rec->body_bytes > sub->capacity - rec->value || rec->body_bytes > 1ull << rec->shift ||
        (rec->value & ((1ull << rec->shift) - 1)) != 0 ||
        rec->value >> rec->shift >= BRAID_MESSAGE_CHUNKS || sub_state(sub) == BRAID_SUB_FILLED)
        return -EPROTO;
    *landing = (struct braid_landing){.dst = (uint8_t *)sub->data + rec->value,
                                      .bytes = rec->body_bytes,
                                      .mr = sub->mr,
                                      .polled = is_polled(sub, rec->value + rec->body_bytes),
                                      .sub = rec->arg,
                                      .chunk = (uint32_t)(rec->value >> rec->shift)};
    return 0;
}

int braid_conn_landed(struct braid_lane *lane, uint32_t number, uint32_t chunk)
{
    struct braid_conn *conn = lane->conn;
    struct braid_sub *sub = conn->sender ? NULL : find_sub(conn->rx, number);
    uint64_t bit = 1ull << chunk % 64;

    if (sub == NULL || chunk >= BRAID_MESSAGE_CHUNKS)
        return -EPROTO;
    if (atomic_fetch_or_explicit(&conn->rx->maps[number % BRAID_SUBS].words[chunk / 64], bit,
                                 memory_order_relaxed) &
        bit)
        return -EPROTO; /* landed twice */
    atomic_fetch_add_explicit(&sub->landed, 1, memory_order_release);
    return 0;
}

int braid_conn_landed_part(struct braid_lane *lane, uint32_t low, uint32_t mask, uint32_t chunk,
                           uint32_t chunks, size_t bytes)
{
    struct braid_conn *conn = lane->conn;
    struct braid_sub *sub;
    int posted = BRAID_SUB_POSTED;
    uint64_t number;

    if (conn->sender || chunk >= chunks || chunks > BRAID_MESSAGE_CHUNKS)
        return -EPROTO;
    sub = slot_of(conn->rx, low);
    number = atomic_load_explicit(&sub->number, memory_order_acquire);
    if (number == 0 || (((uint32_t)number - 1) & mask) != low)
        return -EPROTO;
    if (sub_state(sub) == BRAID_SUB_POSTED) { /* every lane that comes here first writes the same */
        atomic_store_explicit(&sub->chunks, chunks, memory_order_relaxed);
        atomic_compare_exchange_strong(&sub->state, &posted, BRAID_SUB_STARTED);
    }
    if (atomic_load_explicit(&sub->chunks, memory_order_relaxed) != chunks)
        return -EPROTO;
    if (atomic_fetch_add_explicit(&sub->bytes, bytes, memory_order_relaxed) + bytes > sub->capacity)
        return -EPROTO;
    return braid_conn_landed(lane, (uint32_t)number - 1, chunk);
}

/* -- what the sender is told --------------------------------------------------------------------------------------------- */

static int tell_mr(struct braid_conn *conn, struct braid_lane *lane, const struct braid_mr *mr)
{
    uint8_t blob[BRAID_MR_BLOB_BYTES];
    struct braid_rec rec = {.type = BRAID_REC_MR, .arg = mr->id};
    int bytes, err;

    if (conn->mrs_told[mr->id % ARRAY_SIZE(conn->mrs_told)] == mr->id)
        return 0;
    bytes = conn->ops->mr_describe(conn, mr, blob, sizeof(blob));
    if (bytes < 0)
        return bytes;
    rec.body_bytes = (uint32_t)bytes;
    rec.credit = conn->rx->credit_told;
    err = bytes > 0 ? braid_conn_control(conn, lane, &rec, blob) : 0;
    if (err == 0)
        conn->mrs_told[mr->id % ARRAY_SIZE(conn->mrs_told)] = mr->id;
    return err;
}

/* Words for the subs from next_word on; a run of receives that eager messages have filled is one word. */
static uint32_t make_words(struct braid_conn_receiver *rx, bool addresses)
{
    uint32_t count = 0;

    for (uint32_t i = rx->next_word; i != rx->next_sub; i++) {
        struct braid_sub *sub = slot_of(rx, i);
        struct braid_recv_word *word = &rx->words[count];
        bool used = sub_state(sub) == BRAID_SUB_FILLED;
        if (used && count > 0 && word[-1].flags == BRAID_RECV_USED && word[-1].tag == sub->tag) {
            word[-1].capacity++;
            continue;
        }
        *word = (struct braid_recv_word){
            .sub = i,
            .tag = sub->tag,
            .addr = addresses ? (uint64_t)(uintptr_t)sub->data : 0,
            .capacity = used ? 1 : sub->capacity,
            .mr = addresses && !used && sub->mr != NULL ? sub->mr->id : 0, /* else it may be gone */
            .flags = used                              ? BRAID_RECV_USED
                     : sub->polled != BRAID_NOT_POLLED ? BRAID_RECV_POLLED
                                                       : 0,
        };
        count++;
    }
    return count;
}

static int tell_words(struct braid_conn *conn, struct braid_lane *lane)
{
    struct braid_conn_receiver *rx = conn->rx;
    bool addresses = conn->ops->flags & BRAID_T_REMOTE_WRITE;
    struct braid_rec rec = {.type = BRAID_REC_RECV, .credit = rx->credit_given};
    int err;

    for (uint32_t i = rx->next_word; addresses && i != rx->next_sub; i++) {
        struct braid_sub *sub = slot_of(rx, i);
        if (sub_state(sub) != BRAID_SUB_POSTED || sub->mr == NULL)
            continue;
        err = tell_mr(conn, lane, sub->mr);
        if (err != 0)
            return err;
    }
    rec.body_bytes = make_words(rx, addresses) * (uint32_t)sizeof(struct braid_recv_word);
    err = braid_conn_control(conn, lane, &rec, rx->words);
    if (err != 0)
        return err;
    rx->next_word = rx->next_sub;
    rx->announce = false;
    rx->held_ns = 0;
    rx->credit_told = rec.credit;
    return 0;
}

static bool is_time_to_announce(const struct braid_conn *conn)
{
    struct braid_conn_receiver *rx = conn->rx;
    uint64_t now;

    if (!rx->announce || !rx->small_last || !(conn->ops->flags & BRAID_T_STREAM))
        return rx->announce;
    now = braid_now_ns();
    if (rx->held_ns == 0)
        rx->held_ns = now;
    return now - rx->held_ns >= BRAID_HOLD_NS;
}

int braid_receiver_pump(struct braid_conn *conn, struct braid_lane *lane)
{
    struct braid_conn_receiver *rx = conn->rx;
    bool credit_due = rx->credit_given - rx->credit_told >= BRAID_CREDIT_STEP;
    struct braid_rec rec = {.type = BRAID_REC_CREDIT, .credit = rx->credit_given};
    int err;

    if (atomic_load_explicit(&conn->error, memory_order_relaxed) != 0)
        return 0;
    if (rx->next_word != rx->next_sub && (is_time_to_announce(conn) || credit_due ||
                                          rx->next_sub - rx->next_word >= BRAID_WORDS_STEP)) {
        err = tell_words(conn, lane);
        return err == 0 ? 1 : err;
    }
    if (!credit_due)
        return 0;
    err = braid_conn_control(conn, lane, &rec, NULL);
    if (err != 0)
        return err;
    rx->credit_told = rec.credit;
    return 1;
}

/* -- requests -------------------------------------------------------------------------------------------------------------- */

/* Whether n more subs fit: their slots are empty, their predecessors there announced and matched. */
static bool has_room(struct braid_conn_receiver *rx, int n)
{
    uint32_t end = rx->next_sub + (uint32_t)n;

    if (end - rx->next_match > BRAID_SUBS)
        advance_match(rx); /* only small messages do so themselves */
    if (end - rx->next_word > BRAID_SUBS || end - rx->next_match > BRAID_SUBS)
        return false;
    for (uint32_t i = rx->next_sub; i != end; i++)
        if (atomic_load_explicit(&slot_of(rx, i)->number, memory_order_relaxed) != 0)
            return false;
    return true;
}

static int post(struct braid_conn *conn, void *data, size_t capacity, int tag, struct braid_mr *mr,
                enum braid_polled polled)
{
    struct braid_conn_receiver *rx = conn->rx;
    struct braid_sub *sub = slot_of(rx, rx->next_sub);
    int err;

    sub->tag = tag;
    sub->polled = (uint8_t)polled;
    sub->data = data;
    sub->capacity = capacity;
    sub->mr = mr;
    braid_mr_use(mr, 1);
    atomic_store_explicit(&sub->bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&sub->state, BRAID_SUB_POSTED, memory_order_relaxed);
    atomic_store_explicit(&sub->number, (uint64_t)rx->next_sub + 1, memory_order_release);
    rx->next_sub++;
    err = rx->early_head != rx->early_tail ? take_early(conn, sub) : 0;
    if (sub_state(sub) == BRAID_SUB_POSTED &&
        (capacity > conn->eager_bytes || conn->eager_bytes == 0))
        rx->announce = true;
    return err;
}

int braid_receiver_irecv(struct braid_conn *conn, int n, void *const *data, const size_t *sizes,
                         const int *tags, struct braid_mr *const *mrs, enum braid_polled polled,
                         struct braid_request **request_p)
{
    struct braid_conn_receiver *rx = conn->rx;
    struct braid_recv *recv = &rx->recvs[rx->next_recv % BRAID_RECVS];
    bool many;
    int err = 0;

    if (recv->in_use)
        return -EAGAIN;
    braid_spin_lock(&conn->lock);
    if (!has_room(rx, n)) {
        braid_spin_unlock(&conn->lock);
        braid_conn_pump(conn);
        return -EAGAIN;
    }
    recv->in_use = true;
    recv->n = n;
    recv->first_sub = rx->next_sub;
    rx->next_recv++;
    for (int i = 0; err == 0 && i < n; i++)
        err = post(conn, data[i], sizes[i], tags[i], mrs != NULL ? mrs[i] : NULL, polled);
    many = rx->next_sub - rx->next_word >= BRAID_WORDS_STEP;
    braid_spin_unlock(&conn->lock);
    if (err != 0 || many)
        braid_conn_pump(conn); /* also what went wrong is told there */
    if (err == 0)
        *request_p = &recv->base;
    return err;
}

static bool sub_is_done(const struct braid_sub *sub)
{
    int state = sub_state(sub);

    return state == BRAID_SUB_FILLED ||
           (state == BRAID_SUB_STARTED &&
            atomic_load_explicit(&sub->landed, memory_order_acquire) ==
                atomic_load_explicit(&sub->chunks, memory_order_relaxed));
}

static bool is_done(const struct braid_recv *recv)
{
    for (int i = 0; i < recv->n; i++)
        if (!sub_is_done(slot_of(recv->base.conn->rx, recv->first_sub + (uint32_t)i)))
            return false;
    return true;
}

/* Lets go of a sub that is done. What chunks have left in it goes here and not when the next receive is posted, because few have any. */
static void release(struct braid_conn *conn, uint32_t number)
{
    struct braid_sub *sub = slot_of(conn->rx, number);

    if (atomic_load_explicit(&sub->landed, memory_order_relaxed) != 0) {
        struct braid_sub_map *map = &conn->rx->maps[number % BRAID_SUBS];
        if (sub->counted)
            atomic_fetch_sub_explicit(&conn->bulk_open, 1, memory_order_relaxed);
        sub->counted = false;
        atomic_store_explicit(&sub->chunks, 0, memory_order_relaxed);
        atomic_store_explicit(&sub->landed, 0, memory_order_relaxed);
        for (unsigned i = 0; i < ARRAY_SIZE(map->words); i++)
            atomic_store_explicit(&map->words[i], 0, memory_order_relaxed);
    }
    braid_mr_use(sub->mr, -1);
    atomic_store_explicit(&sub->number, 0, memory_order_release);
}

int braid_receiver_test(struct braid_recv *recv, bool *done, int *sizes)
{
    struct braid_conn *conn = recv->base.conn;

    *done = is_done(recv);
    if (!*done) {
        braid_conn_poll(conn);
        *done = is_done(recv);
    }
    if (!*done) {
        bool over = braid_conn_is_over(conn);
        braid_conn_pump(conn);
        /* Another thread may have taken in the last message and then the end. */
        *done = over && is_done(recv);
        if (!*done)
            return over ? braid_conn_status(conn) : 0;
    }
    for (int i = 0; i < recv->n; i++) {
        uint32_t number = recv->first_sub + (uint32_t)i;
        if (sizes != NULL)
            sizes[i] = (int)slot_of(conn->rx, number)->bytes;
        release(conn, number);
    }
    recv->in_use = false;
    return 0;
}
