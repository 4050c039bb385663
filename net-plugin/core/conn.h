/*
 * A connection: NCCL's sendComm or recvComm. Internal to core.
 *
 * Sends and receives are fixed arrays; nothing is allocated after the connection is up. Matching rule, the same on both sides: the k-th
 * message with a tag goes to the k-th receive (sub) with that tag. Small messages travel at once inside a control record (eager)
 * and are matched by the receiver; larger ones wait until the receiver has announced the sub and are matched by the sender, which then
 * retraces what the receiver did with the eager ones before. Announcements (braid_recv_word) are therefore complete and in posted
 * order, but they may be late: small receives are announced in bulk, long after they were filled.
 *
 * Threading. `lock` is a spin lock over matching state, held for microseconds; the only system call under it sends a small body from
 * where it lies. The lock of a lane is taken before it. Chunk counters and lane lists are atomics, because I/O threads touch them without `lock`; `put_lock` covers the list of
 * messages that have chunks to hand out. Handshake, streams and close belong to the maintenance lock.
 */
#ifndef BRAID_NET_CONN_H
#define BRAID_NET_CONN_H

#include "common/clock.h"
#include "common/util.h"
#include "net-plugin/core/maint.h"
#include "net-plugin/core/net.h"
#include "net-plugin/core/transport.h"
#include "braid/wire/net_handshake.h"

#define BRAID_CONTROL_LANE 0 /* index of the lane that carries control records */
#define BRAID_SENDS        256 /* outstanding sends: 32 requests, each up to 8 wide on the other side */
#define BRAID_RECVS        64 /* outstanding receives */
#define BRAID_FLUSHES      64
/* Most eager messages that can be unaccounted for: those that fit in the window at zero bytes each. */
#define BRAID_EAGER_MAX    (BRAID_EAGER_WINDOW / BRAID_EAGER_OVERHEAD)
#define BRAID_BOUNCE_BYTES (2 * BRAID_EAGER_WINDOW)

struct braid_spin {
    atomic_flag held;
};

BRAID_COLD void braid_spin_wait(struct braid_spin *spin);
static inline void braid_spin_lock(struct braid_spin *spin)
{
    if (atomic_flag_test_and_set_explicit(&spin->held, memory_order_acquire))
        braid_spin_wait(spin);
}

static inline void braid_spin_unlock(struct braid_spin *spin)
{
    atomic_flag_clear_explicit(&spin->held, memory_order_release);
}

enum braid_request_kind { BRAID_REQUEST_SEND = 1, BRAID_REQUEST_RECV, BRAID_REQUEST_FLUSH };

/* What NCCL holds; the first member of all three. */
struct braid_request {
    enum braid_request_kind kind;
    struct braid_conn *conn;
};

enum braid_send_state {
    BRAID_SEND_FREE,
    BRAID_SEND_PENDING, /* waits for a sub, for credit or for room in the control lane */
    BRAID_SEND_ACTIVE,  /* chunks under way; done when `left` is 0 */
};

struct braid_send {
    struct braid_request base;
    atomic_int state; /* enum braid_send_state */
    int tag;
    const void *data;
    size_t bytes;
    struct braid_mr *mr;
    struct braid_send *next; /* of pending, then of the list of active ones */
    uint32_t sub;
    struct braid_remote dst;
    uint8_t shift;
    uint32_t chunks, next_chunk;
    atomic_uint left; /* chunks whose source may still be read */
};

enum braid_sub_state {
    BRAID_SUB_FREE,
    BRAID_SUB_POSTED,  /* waits for a message */
    BRAID_SUB_TAKEN,   /* START came: chunks will */
    BRAID_SUB_STARTED, /* a first chunk came; done when all are there */
    BRAID_SUB_FILLED,  /* an eager message has filled it */
};

/*
 * One receive of a group, in one cache line. `number` says which one the slot holds; lanes compare it without the lock. Whoever lets go of
 * the slot leaves `chunks` and `landed` zero.
 */
struct braid_sub {
    _Atomic uint64_t number; /* 1 + sub number, 0 for none; stored last when posting */
    void *data;
    size_t capacity;
    struct braid_mr *mr;
    _Atomic size_t bytes; /* of the message; of a larger one known when all of it is there */
    atomic_int state;     /* enum braid_sub_state */
    int tag;
    atomic_uint chunks; /* of the message, once started */
    atomic_uint landed;
    uint8_t polled; /* enum braid_polled */
};
_Static_assert(sizeof(struct braid_sub) == BRAID_CACHE_LINE, "a sub is one cache line");

/* Which chunks of a sub have landed, a bit each; all zero in a free slot. */
struct braid_sub_map {
    _Atomic uint64_t words[BRAID_MESSAGE_CHUNKS / 64];
};

struct braid_recv {
    struct braid_request base;
    struct braid_sub *first; /* of its n subs, in the slots from there on */
    uint32_t number;         /* of the first */
    uint8_t n;
    bool in_use;
};

struct braid_flush {
    struct braid_request base;
    bool in_use;
    void *token;
};

/* An eager message that came before its receive. */
struct braid_early {
    int tag;
    uint32_t bytes, at; /* in bounce */
    bool taken;
};

/* Eager messages with one tag, sent one after the other. */
struct braid_eager_run {
    int tag;
    uint32_t count;
};

/* Both halves: first what every message touches, then the arrays, of which only the pages in use take memory. */
struct braid_conn_sender {
    struct braid_send *free; /* finished ones, the last one first, so that few are ever touched */
    uint32_t begun;          /* of sends: those before it have been used */
    uint32_t outstanding;    /* sends that the caller has not tested to their end */
    struct braid_send *pending, **pending_end;
    uint32_t words_head, words_tail;
    uint32_t runs_head, runs_tail;
    uint32_t eager_open;               /* messages in runs */
    uint32_t credit_used, credit_back; /* running sums of eager cost */
    struct braid_spin put_lock;
    struct braid_send *active, **active_end;
    _Atomic uint64_t put_bytes;
    size_t held_bytes;   /* of small messages that gather, for streams; 0: they do not */
    bool fresh;          /* one has joined them since the caller's last test */
    uint64_t given_ns;   /* when the last ones went */
    unsigned given_idle; /* braid_idle_tests then */
    struct braid_send sends[BRAID_SENDS];
    struct braid_recv_word words[BRAID_SUBS];     /* ring: announced and not matched, in order */
    struct braid_eager_run runs[BRAID_EAGER_MAX]; /* ring: sent eagerly, sub not announced yet */
};

struct braid_conn_receiver {
    struct braid_recv *next_recv; /* of the next irecv */
    uint32_t next_sub;            /* number of the next sub to be posted */
    uint32_t next_word;           /* number of the next sub to be announced */
    uint32_t next_match;          /* every sub before it is matched */
    uint32_t used; /* subs from next_word on that eager messages with tag used_tag have filled */
    int used_tag;
    bool announce; /* a receive too large for eager waits unannounced */
    /* eager messages since the last larger one, up to BRAID_SMALL_RUN: the next is likely to be small, too */
    _Atomic uint8_t small_run;
    uint64_t held_ns; /* since when announcements are held back for that reason; 0: they are not */
    uint32_t early_head, early_tail;
    uint32_t bounce_head, bounce_tail; /* running offsets in bounce */
    uint32_t credit_given, credit_told;
    struct braid_recv recvs[BRAID_RECVS];
    struct braid_flush flushes[BRAID_FLUSHES];
    _Alignas(BRAID_CACHE_LINE) struct braid_sub subs[BRAID_SUBS];
    struct braid_sub_map maps[BRAID_SUBS]; /* touched by larger messages only */
    struct braid_early early[BRAID_EAGER_MAX];
    struct braid_recv_word words[BRAID_WORDS_MAX]; /* under construction */
    uint8_t bounce[BRAID_BOUNCE_BYTES];
};

struct braid_conn {
    const struct braid_transport *ops;
    void *tp;
    bool sender;
    int dev;
    int traffic_class;
    atomic_int error;           /* sticky negative errno */
    atomic_bool peer_closed;    /* BYE came */
    atomic_uint streams_wanted; /* besides number 0 */
    /* sender: larger messages under way, the only reason to poll more than the control lane */
    atomic_uint bulk_open;
    atomic_bool apart; /* the last larger message went by other streams than number 0 */
    atomic_bool ended; /* BYE, and no lane is left: what came before still counts */
    bool fail_due;     /* fail_text is to be sent as FAIL record; under lock */
    char fail_text[256];
    char peer[160];
    struct braid_spin lock;
    struct braid_lane *lanes[BRAID_LANES_MAX];
    atomic_uint lanes_count;
    uint32_t seq_out, seq_in;
    uint32_t eager_bytes; /* largest eager message */
    /* NCCL marks no receive: a GPU may poll any (BRAID_OPTIONAL_RECV_COMPLETION=0) */
    bool all_polled;
    uint32_t mrs_told[64];          /* receiver: ids of registrations told; slot = id % 64 */
    struct braid_conn_sender *tx;   /* if sender */
    struct braid_conn_receiver *rx; /* else */
    /* under the maintenance lock */
    struct braid_watch watch; /* sender: poked when streams_wanted grows */
    unsigned streams_asked;   /* requested so far, besides number 0 */
    uint64_t id;
    uint8_t stream_key[BRAID_SECRET_BYTES];
    struct braid_conn *next_conn;
    union braid_addr peer_addr;
    /* of whoever tests the requests; the last four are stall.c's */
    uint32_t bulk_tests;
    uint32_t stall_tests;
    bool stall_said;
    uint64_t stall_ns, stall_mark; /* since when nothing has moved, and what there was then */
};

/*
 * While larger messages go by streams that threads tend, stream 0 has little to say, and asking it is a system call: of so many tests that find
 * their message not done, one asks.
 */
#define BRAID_BULK_TESTS 8
/* Whether larger messages go by other streams than number 0. */
static inline bool braid_conn_is_apart(const struct braid_conn *conn)
{
    return atomic_load_explicit(&conn->apart, memory_order_relaxed);
}

/* Whether this test does not ask. For connections whose last message was a larger one. */
static inline bool braid_conn_skips_poll(struct braid_conn *conn)
{
    return braid_conn_is_apart(conn) && ++conn->bulk_tests % BRAID_BULK_TESTS != 0;
}

/* Counts a request that reads or writes a registration; braid_net_dereg_mr asks. */
static inline void braid_mr_use(struct braid_mr *mr, int count)
{
    if (mr != NULL)
        atomic_fetch_add_explicit(&mr->uses, (unsigned)count, memory_order_acq_rel);
}

/* When an eager receiver tells the sender of the room it has made: not for every message. */
#define BRAID_CREDIT_STEP (BRAID_EAGER_WINDOW / 4)
/* How long an announcement is held back on a connection whose last message was small: it would cost a system call for nothing. */
#define BRAID_HOLD_NS (20 * BRAID_NS_PER_US)
/* And after so many small ones: between two messages of 8 KiB of a collective lies that much time, of which the call would take a part. */
#define BRAID_SMALL_RUN    8
#define BRAID_LONG_HOLD_NS (60 * BRAID_NS_PER_US)
/*
 * Where each call into a transport is a system call (streams), small messages gather: until the caller tests without having sent more
 * since its last test, or until BRAID_GATHER_BYTES are together. A message with none under way goes at once, unless one has gone less
 * than BRAID_BURST_NS ago, or less than BRAID_BUSY_NS ago and the callers have not waited in vain for a message since: then more come.
 */
#define BRAID_BURST_NS     (4 * BRAID_NS_PER_US)
#define BRAID_BUSY_NS      (200 * BRAID_NS_PER_US)
#define BRAID_GATHER_BYTES 8192
/* Tests of receives in this process, over streams, that found nothing; counts roughly. conn.c */
extern atomic_uint braid_idle_tests;
/* Receives too small to need an announcement are announced in batches of this size. */
#define BRAID_WORDS_STEP 128

/* Makes a connection without lanes. NULL when memory is short. */
struct braid_conn *braid_conn_new(bool sender, int dev, int traffic_class);
/* Detaches the transport, if any, and frees. Accepts NULL. */
void braid_conn_free(struct braid_conn *conn);

/* Whether nothing more will come; what a request finds done after this is done. */
static inline bool braid_conn_is_over(const struct braid_conn *conn)
{
    return atomic_load_explicit(&conn->error, memory_order_acquire) != 0 ||
           atomic_load_explicit(&conn->ended, memory_order_acquire);
}

/* What a request that is not done has to expect: 0 (it may still come), or the connection's error. */
int braid_conn_status(struct braid_conn *conn);

/* Sticky failure: the first error stays. Logs nothing. */
void braid_conn_fail(struct braid_conn *conn, int error);
/* The same, and tells the peer the line `text` that the caller has logged. Conn lock held. */
void braid_conn_fail_tell(struct braid_conn *conn, int error, const char *text);

/* The lane that carries control records, locked; NULL when it is down or another thread has it. */
static inline struct braid_lane *braid_conn_take_control(struct braid_conn *conn)
{
    struct braid_lane *lane;

    if (atomic_load_explicit(&conn->lanes_count, memory_order_acquire) == 0)
        return NULL;
    lane = conn->lanes[BRAID_CONTROL_LANE];
    return atomic_load_explicit(&lane->state, memory_order_relaxed) == BRAID_LANE_UP &&
                   braid_lane_trylock(lane)
               ? lane
               : NULL;
}

/* Moves what can be moved on every lane. */
void braid_conn_poll(struct braid_conn *conn);
/* Takes in what has come, although nobody waits for it. The maintenance thread, now and then. */
void braid_conn_drain(struct braid_conn *conn);
/* Sends one control record with the next sequence number. Lane lock and conn lock held. As braid_transport.control. */
int braid_conn_control(struct braid_conn *conn, struct braid_lane *lane, struct braid_rec *rec,
                       const void *body);

/* stall.c: a test has found a request not done; every so often it looks whether anything moves on the connection. */
#define BRAID_STALL_TESTS 1024
BRAID_COLD void braid_stall_look(const struct braid_request *request);
static inline void braid_stall_note(const struct braid_request *request)
{
    if (++request->conn->stall_tests % BRAID_STALL_TESTS == 0)
        braid_stall_look(request);
}

/* send.c */
void braid_sender_init(struct braid_conn *conn);
int braid_sender_pump(struct braid_conn *conn, struct braid_lane *lane);
int braid_sender_on_record(struct braid_conn *conn, const struct braid_rec *rec, const void *body);
int braid_sender_isend(struct braid_conn *conn, const void *data, size_t bytes, int tag,
                       struct braid_mr *mr, struct braid_request **request_p);
int braid_sender_test(struct braid_send *send, int *size); /* as braid_net_test() */

/* recv.c */
void braid_receiver_init(struct braid_conn *conn);
int braid_receiver_pump(struct braid_conn *conn, struct braid_lane *lane);
int braid_receiver_on_eager(struct braid_conn *conn, const struct braid_rec *rec, const void *body);
/* All other types. */
int braid_receiver_on_record(struct braid_conn *conn, const struct braid_rec *rec,
                             const void *body);
int braid_receiver_irecv(struct braid_conn *conn, int n, void *const *data, const size_t *sizes,
                         const int *tags, struct braid_mr *const *mrs, enum braid_polled polled,
                         struct braid_request **request_p);
int braid_receiver_test(struct braid_recv *recv, int *sizes);

#endif
