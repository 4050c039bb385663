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

#define MRS_A_RECORD 32 /* registrations told before one record of words */

void braid_receiver_init(struct braid_conn *conn)
{
    for (unsigned i = 0; i < BRAID_RECVS; i++)
        conn->rx->recvs[i].base = (struct braid_request){BRAID_REQUEST_RECV, conn};
    conn->rx->next_recv = conn->rx->recvs;
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

/* Whether a GPU may watch the sub fill with a message of `bytes` bytes, or at least as many. */
static inline bool is_polled(const struct braid_sub *sub, uint64_t bytes)
{
    return sub->polled == BRAID_POLLED ||
           (sub->polled == BRAID_POLLED_IF_SMALL && bytes <= BRAID_POLLED_BYTES);
}

static inline int fill(struct braid_conn *conn, struct braid_sub *sub, const void *body,
                       size_t bytes)
{
    struct braid_conn_receiver *rx = conn->rx;

    if (bytes > sub->capacity)
        return message_too_large(conn, sub, bytes);
    if (is_polled(sub, bytes))
        braid_copy_polled(sub->data, body, bytes);
    else
        memcpy(sub->data, body, bytes);
    if (rx->small_run < BRAID_SMALL_RUN)
        rx->small_run++;
    rx->held_ns = 0;
    atomic_store_explicit(&sub->bytes, bytes, memory_order_relaxed);
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
BRAID_APART static int take_early(struct braid_conn *conn, struct braid_sub *sub)
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
BRAID_APART static int keep_early(struct braid_conn_receiver *rx, int tag, const void *body,
                                  uint32_t bytes)
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

/* Whether receive `number` is posted and waits for a message with this tag. */
static inline bool is_for(struct braid_conn_receiver *rx, uint32_t number, int tag)
{
    const struct braid_sub *sub = find_sub(rx, number);

    return sub != NULL && sub_state(sub) == BRAID_SUB_POSTED && sub->tag == tag;
}

/* The first receive for a message with this tag, by its number; that of the next one to be posted if there is none. */
BRAID_APART static uint32_t find_receive(struct braid_conn_receiver *rx, int tag)
{
    uint32_t number;

    if (rx->next_sub - rx->next_match > BRAID_SUBS) /* larger messages leave it behind */
        rx->next_match = rx->next_sub - BRAID_SUBS;
    while (rx->next_match != rx->next_sub &&
           sub_state(slot_of(rx, rx->next_match)) != BRAID_SUB_POSTED)
        rx->next_match++;
    for (number = rx->next_match; number != rx->next_sub; number++)
        if (is_for(rx, number, tag))
            break;
    return number;
}

/* Counts a sub that an eager message fills next to those of the same tag, all of which are one word to the sender. */
static inline void note_used(struct braid_conn_receiver *rx, uint32_t number, int tag)
{
    if (number != rx->next_word + rx->used || (rx->used > 0 && rx->used_tag != tag))
        return;
    rx->used_tag = tag;
    rx->used++;
}

int braid_receiver_on_eager(struct braid_conn *conn, const struct braid_rec *rec, const void *body)
{
    struct braid_conn_receiver *rx = conn->rx;
    int tag = (int)rec->arg;
    uint32_t number = rx->next_match;

    if (!is_for(rx, number, tag))
        number = find_receive(rx, tag);
    if (number == rx->next_sub)
        return keep_early(rx, tag, body, rec->body_bytes);
    if (number == rx->next_match)
        rx->next_match++;
    note_used(rx, number, tag);
    rx->credit_given += rec->body_bytes + BRAID_EAGER_OVERHEAD;
    return fill(conn, slot_of(rx, number), body, rec->body_bytes);
}

/* -- larger messages ------------------------------------------------------------------------------------------------------ */

/*
 * The sub is not for an eager message that comes after this. Its chunks go by other streams and may have come first; then there is nothing to
 * do, nor when the caller has let go of it already.
 */
static int on_start(struct braid_conn *conn, const struct braid_rec *rec)
{
    struct braid_sub *sub = find_sub(conn->rx, rec->arg);
    int posted = BRAID_SUB_POSTED;

    if ((int32_t)(rec->arg - conn->rx->next_word) >= 0)
        return -EPROTO; /* not announced yet */
    if (sub == NULL)
        return 0;
    if (sub_state(sub) == BRAID_SUB_FILLED || rec->shift > 40 || rec->value == 0 ||
        rec->value > sub->capacity || (rec->value - 1) >> rec->shift >= BRAID_MESSAGE_CHUNKS)
        return -EPROTO;
    atomic_compare_exchange_strong(&sub->state, &posted, BRAID_SUB_TAKEN);
    return 0;
}

int braid_receiver_on_record(struct braid_conn *conn, const struct braid_rec *rec, const void *body)
{
    if (rec->type == BRAID_REC_START)
        return on_start(conn, rec);
    return rec->type == BRAID_REC_CREDIT ? 0 : -EPROTO;
}

int braid_conn_land(struct braid_lane *lane, const struct braid_rec *rec,
                    struct braid_landing *landing)
{
    struct braid_conn *conn = lane->conn;
    struct braid_sub *sub = conn->sender ? NULL : find_sub(conn->rx, rec->arg);
    uint64_t known; /* of the message's size */
    uint32_t chunks = rec->ack;

    if (sub == NULL || rec->shift > 40 || rec->body_bytes == 0 || rec->value > sub->capacity ||
        rec->body_bytes > sub->capacity - rec->value || rec->body_bytes > 1ull << rec->shift ||
        (rec->value & ((1ull << rec->shift) - 1)) != 0 || chunks > BRAID_MESSAGE_CHUNKS ||
        rec->value >> rec->shift >= chunks ||
        (rec->value >> rec->shift < chunks - 1 && rec->body_bytes != 1ull << rec->shift) ||
        sub_state(sub) == BRAID_SUB_FILLED)
        return -EPROTO;
    known = MAX(rec->value + rec->body_bytes, ((uint64_t)(chunks - 1) << rec->shift) + 1);
    *landing = (struct braid_landing){.dst = (uint8_t *)sub->data + rec->value,
                                      .bytes = rec->body_bytes,
                                      .mr = sub->mr,
                                      .polled = is_polled(sub, known),
                                      .sub = rec->arg,
                                      .chunk = (uint32_t)(rec->value >> rec->shift),
                                      .chunks = chunks,
                                      .end = rec->value + rec->body_bytes};
    return 0;
}

/* A first chunk tells how many there are; every lane that comes here first writes the same. False if lanes differ. */
static bool start(struct braid_sub *sub, uint32_t chunks)
{
    int state = sub_state(sub);

    while (state == BRAID_SUB_POSTED || state == BRAID_SUB_TAKEN) {
        atomic_store_explicit(&sub->chunks, chunks, memory_order_relaxed);
        if (atomic_compare_exchange_strong(&sub->state, &state, BRAID_SUB_STARTED))
            break;
    }
    return atomic_load_explicit(&sub->chunks, memory_order_relaxed) == chunks;
}

/* Notes that a chunk of a started sub is there. */
static int count_chunk(struct braid_conn *conn, struct braid_sub *sub, uint32_t chunk)
{
    struct braid_sub_map *map = &conn->rx->maps[sub - conn->rx->subs];
    uint64_t bit = 1ull << chunk % 64;

    if (atomic_fetch_or_explicit(&map->words[chunk / 64], bit, memory_order_relaxed) & bit)
        return -EPROTO; /* landed twice */
    atomic_fetch_add_explicit(&sub->landed, 1, memory_order_release);
    return 0;
}

int braid_conn_landed(struct braid_lane *lane, uint32_t number, uint32_t chunk, uint32_t chunks,
                      uint64_t end)
{
    struct braid_conn *conn = lane->conn;
    bool apart = lane->index != BRAID_CONTROL_LANE;
    struct braid_sub *sub = conn->sender ? NULL : find_sub(conn->rx, number);

    if (sub == NULL || chunk >= chunks || chunks > BRAID_MESSAGE_CHUNKS || !start(sub, chunks))
        return -EPROTO;
    if (braid_conn_is_apart(conn) != apart)
        atomic_store_explicit(&conn->apart, apart, memory_order_relaxed);
    if (chunk == chunks - 1)
        atomic_store_explicit(&sub->bytes, end, memory_order_relaxed);
    return count_chunk(conn, sub, chunk);
}

int braid_conn_landed_part(struct braid_lane *lane, uint32_t low, uint32_t mask, uint32_t chunk,
                           uint32_t chunks, size_t bytes)
{
    struct braid_conn *conn = lane->conn;
    struct braid_sub *sub;
    uint64_t number;

    if (conn->sender || chunk >= chunks || chunks > BRAID_MESSAGE_CHUNKS)
        return -EPROTO;
    sub = slot_of(conn->rx, low);
    number = atomic_load_explicit(&sub->number, memory_order_acquire);
    if (number == 0 || (((uint32_t)number - 1) & mask) != low)
        return -EPROTO;
    if (!start(sub, chunks))
        return -EPROTO;
    if (atomic_fetch_add_explicit(&sub->bytes, bytes, memory_order_relaxed) + bytes > sub->capacity)
        return -EPROTO;
    return count_chunk(conn, sub, chunk);
}

/* -- what the sender is told --------------------------------------------------------------------------------------------- */

BRAID_APART static int tell_mr(struct braid_conn *conn, struct braid_lane *lane,
                               const struct braid_mr *mr)
{
    uint8_t blob[BRAID_MR_BLOB_BYTES];
    struct braid_rec rec = {.type = BRAID_REC_MR, .arg = mr->id};
    int bytes, err;

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

/*
 * Words for the subs from next_word to *end_p; a run of receives that eager messages have filled is one word. How many; *end_p comes back
 * lower when the record is full.
 */
static uint32_t make_words(struct braid_conn_receiver *rx, bool addresses, uint32_t *end_p)
{
    uint32_t count = 0, i;

    if (rx->used > 0)
        rx->words[count++] = (struct braid_recv_word){.sub = rx->next_word,
                                                      .tag = rx->used_tag,
                                                      .capacity = rx->used,
                                                      .flags = BRAID_RECV_USED};
    for (i = rx->next_word + rx->used; i != *end_p; i++) {
        struct braid_sub *sub = slot_of(rx, i);
        struct braid_recv_word *word = &rx->words[count];
        bool used = sub_state(sub) == BRAID_SUB_FILLED;
        if (used && count > 0 && word[-1].flags == BRAID_RECV_USED && word[-1].tag == sub->tag) {
            word[-1].capacity++;
            continue;
        }
        if (count == BRAID_WORDS_MAX)
            break;
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
    *end_p = i;
    return count;
}

/*
 * Tells the registrations that the subs from next_word on need. In *end_p the sub before which a record of words must end: few are told for
 * one record, so that both fit into a lane that takes little at a time, and what was told for it is not forgotten again meanwhile.
 */
static int tell_mrs(struct braid_conn *conn, struct braid_lane *lane, uint32_t *end_p)
{
    struct braid_conn_receiver *rx = conn->rx;
    int told = 0, err = 0;
    uint32_t i;

    for (i = rx->next_word + rx->used; err == 0 && i != rx->next_sub; i++) {
        struct braid_sub *sub = slot_of(rx, i);
        if (sub_state(sub) != BRAID_SUB_POSTED || sub->mr == NULL ||
            conn->mrs_told[sub->mr->id % ARRAY_SIZE(conn->mrs_told)] == sub->mr->id)
            continue;
        if (told++ == MRS_A_RECORD)
            break;
        err = tell_mr(conn, lane, sub->mr);
    }
    *end_p = i;
    return err;
}

static int tell_words(struct braid_conn *conn, struct braid_lane *lane)
{
    struct braid_conn_receiver *rx = conn->rx;
    bool addresses = conn->ops->flags & BRAID_T_REMOTE_WRITE;
    struct braid_rec rec = {.type = BRAID_REC_RECV};
    uint32_t end = rx->next_sub;
    int err = addresses ? tell_mrs(conn, lane, &end) : 0;

    if (err != 0)
        return err;
    rec.body_bytes = make_words(rx, addresses, &end) * (uint32_t)sizeof(struct braid_recv_word);
    /* Credit never goes before the words of the messages that it is for. */
    rec.credit = end == rx->next_sub ? rx->credit_given : rx->credit_told;
    err = braid_conn_control(conn, lane, &rec, rx->words);
    if (err != 0)
        return err;
    rx->next_word = end;
    rx->used = 0;
    rx->announce = rx->announce && end != rx->next_sub;
    rx->held_ns = 0;
    rx->credit_told = rec.credit;
    return 0;
}

/*
 * Whether so many messages wait for their receives that the sender may have no credit left for one whose receive is posted: it sends that one
 * all the same if it knows.
 */
static inline bool is_crowded(const struct braid_conn_receiver *rx)
{
    return (rx->early_tail - rx->early_head) * BRAID_EAGER_OVERHEAD +
               (rx->bounce_tail - rx->bounce_head) >=
           BRAID_EAGER_WINDOW / 2;
}

/* Whether the sender has as many announced receives left as are to be announced now, if not more: then more of them may share a record. */
static bool has_enough_words(struct braid_conn_receiver *rx)
{
    uint32_t count = rx->next_sub - rx->next_word;

    for (uint32_t i = 1; i <= count; i++) {
        const struct braid_sub *sub = find_sub(rx, rx->next_word - i);
        if (sub == NULL || sub_state(sub) != BRAID_SUB_POSTED)
            return false;
    }
    return true;
}

static bool is_time_to_announce(const struct braid_conn *conn)
{
    struct braid_conn_receiver *rx = conn->rx;
    bool wanted = rx->announce || is_crowded(rx);
    uint64_t now;

    if (!wanted || !(conn->ops->flags & BRAID_T_STREAM) ||
        (rx->small_run == 0 &&
         (is_crowded(rx) || !braid_conn_is_apart(conn) || !has_enough_words(rx))))
        return wanted;
    now = braid_now_ns();
    if (rx->held_ns == 0)
        rx->held_ns = now;
    return now - rx->held_ns >=
           (rx->small_run == BRAID_SMALL_RUN ? BRAID_LONG_HOLD_NS : BRAID_HOLD_NS);
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

/* Puts a receive into the slot of the next sub. */
static inline void post(struct braid_conn_receiver *rx, struct braid_sub *sub, uint32_t number,
                        enum braid_polled polled)
{
    sub->polled = (uint8_t)polled;
    braid_mr_use(sub->mr, 1);
    atomic_store_explicit(&sub->bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&sub->state, BRAID_SUB_POSTED, memory_order_relaxed);
    atomic_store_explicit(&sub->number, (uint64_t)number + 1, memory_order_release);
}

/* The second half of an irecv that finds early messages, or of which the sender must hear. Conn lock held; gives it back. */
BRAID_APART static int irecv_slowly(struct braid_conn *conn, struct braid_recv *recv,
                                    struct braid_request **request_p)
{
    struct braid_conn_receiver *rx = conn->rx;
    bool many = rx->next_sub - rx->next_word >= BRAID_WORDS_STEP;
    int err = 0;

    for (uint32_t i = 0; err == 0 && rx->early_head != rx->early_tail && i < recv->n; i++)
        err = take_early(conn, slot_of(rx, recv->number + i));
    braid_spin_unlock(&conn->lock);
    if (err != 0 || many)
        braid_conn_pump(conn); /* also what went wrong is told there */
    if (err == 0)
        *request_p = &recv->base;
    return err;
}

/* Too many receives that the sender has not heard of. Conn lock held; gives it back. */
BRAID_COLD static int no_room(struct braid_conn *conn)
{
    braid_spin_unlock(&conn->lock);
    braid_conn_pump(conn);
    return -EAGAIN;
}

/* A free request means free slots: the subs of the 63 requests since it was last used cannot reach around to the next one's. */
_Static_assert(BRAID_RECVS *BRAID_MAX_GROUP <= BRAID_SUBS, "requests run out before subs do");

int braid_receiver_irecv(struct braid_conn *conn, int n, void *const *data, const size_t *sizes,
                         const int *tags, struct braid_mr *const *mrs, enum braid_polled polled,
                         struct braid_request **request_p)
{
    struct braid_conn_receiver *rx = conn->rx;
    struct braid_recv *recv = rx->next_recv;
    uint32_t number = rx->next_sub;
    /* Without eager messages even an empty receive is announced, so that a message finds it too small. */
    bool slow, large = conn->eager_bytes == 0;

    if (recv->in_use)
        return -EAGAIN;
    braid_spin_lock(&conn->lock);
    slow = number + (uint32_t)n - rx->next_word >= BRAID_WORDS_STEP;
    if (slow && number + (uint32_t)n - rx->next_word > BRAID_SUBS)
        return no_room(conn);
    slow |= rx->early_head != rx->early_tail;
    rx->next_recv = recv == &rx->recvs[BRAID_RECVS - 1] ? rx->recvs : recv + 1;
    recv->in_use = true;
    recv->n = (uint8_t)n;
    recv->number = number;
    recv->first = slot_of(rx, number);
    for (int i = 0; i < n; i++, number++) {
        struct braid_sub *sub = slot_of(rx, number);
        sub->tag = tags[i];
        sub->data = data[i];
        sub->capacity = sizes[i];
        sub->mr = mrs != NULL ? mrs[i] : NULL;
        post(rx, sub, number, polled);
        large |= sizes[i] > conn->eager_bytes;
    }
    rx->next_sub = number;
    if (large)
        rx->announce = true;
    if (slow)
        return irecv_slowly(conn, recv, request_p);
    braid_spin_unlock(&conn->lock);
    *request_p = &recv->base;
    return 0;
}

static inline bool sub_is_done(const struct braid_sub *sub)
{
    int state = sub_state(sub);

    return state == BRAID_SUB_FILLED ||
           (state == BRAID_SUB_STARTED &&
            atomic_load_explicit(&sub->landed, memory_order_acquire) ==
                atomic_load_explicit(&sub->chunks, memory_order_relaxed));
}

BRAID_APART static bool rest_is_done(const struct braid_recv *recv)
{
    for (uint32_t i = 1; i < recv->n; i++)
        if (!sub_is_done(slot_of(recv->base.conn->rx, recv->number + i)))
            return false;
    return true;
}

static inline bool is_done(const struct braid_recv *recv)
{
    return sub_is_done(recv->first) && (recv->n == 1 || rest_is_done(recv));
}

/* What chunks have left in a sub goes when it is done and not when the next receive is posted, because few have any. */
BRAID_APART static void clear_chunks(struct braid_conn *conn, struct braid_sub *sub)
{
    struct braid_sub_map *map = &conn->rx->maps[sub - conn->rx->subs];

    conn->rx->small_run = 0;
    atomic_store_explicit(&sub->chunks, 0, memory_order_relaxed);
    atomic_store_explicit(&sub->landed, 0, memory_order_relaxed);
    memset(map, 0, sizeof(*map)); /* no lane looks at it before the slot has its next receive */
}

/* Lets go of a sub that is done. How many bytes it got. */
static inline int release(struct braid_conn *conn, struct braid_sub *sub)
{
    size_t bytes = atomic_load_explicit(&sub->bytes, memory_order_relaxed);

    if (atomic_load_explicit(&sub->landed, memory_order_relaxed) != 0)
        clear_chunks(conn, sub);
    braid_mr_use(sub->mr, -1);
    atomic_store_explicit(&sub->number, 0, memory_order_release);
    return (int)bytes;
}

BRAID_APART static void finish_rest(struct braid_recv *recv, int *sizes)
{
    struct braid_conn *conn = recv->base.conn;

    for (uint32_t i = 1; i < recv->n; i++) {
        int bytes = release(conn, slot_of(conn->rx, recv->number + i));
        if (sizes != NULL)
            sizes[i] = bytes;
    }
}

/* What the caller learns of a receive that is done; its request and subs are free again. Returns what test() does then. */
static inline int finish(struct braid_recv *recv, int *sizes)
{
    int bytes = release(recv->base.conn, recv->first);

    if (sizes != NULL)
        sizes[0] = bytes;
    if (recv->n > 1)
        finish_rest(recv, sizes);
    recv->in_use = false;
    return 1;
}

/* For a receive that polling did not finish: as test(), but leaves finish() to the caller. */
BRAID_APART static int look_again(struct braid_recv *recv)
{
    struct braid_conn *conn = recv->base.conn;
    bool over = braid_conn_is_over(conn);

    if (is_done(recv)) /* another thread has taken in the last message, and perhaps then the end */
        return 1;
    braid_conn_pump(conn);
    braid_stall_note(&recv->base);
    return over ? braid_conn_status(conn) : 0;
}

int braid_receiver_test(struct braid_recv *recv, int *sizes)
{
    int got = is_done(recv);

    if (!got) {
        struct braid_conn *conn = recv->base.conn;
        if (atomic_load_explicit(&conn->rx->small_run, memory_order_relaxed) > 0 ||
            !braid_conn_skips_poll(conn))
            braid_conn_poll(conn);
        got = is_done(recv) ? 1 : look_again(recv);
    }
    return got > 0 ? finish(recv, sizes) : got;
}
