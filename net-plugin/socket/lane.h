/*
 * A lane of the socket transport: one TCP stream, carrying records (include/braid/wire/net_record.h) both ways. Internal to socket/.
 *
 * Out: control records gather in `tx`; a chunk is its header at the end of `tx` and then its payload straight from the user's buffer, in one
 * sendmsg. While a payload is under way no control record can follow, so control() says -EAGAIN.
 * In: headers and small bodies are read into `rx`, many records by one system call; the rest of a chunk is read straight into the posted
 * buffer, together with what follows it into `rx`. A buffer that a GPU polls is filled from `rx` by ordered copies (core/landing.h).
 * Payloads from and into GPU memory go through pinned pieces (stage.h) in place of the user's buffer.
 * Threading: everything here belongs to the holder of the lane's lock, but `io_*`, which belong to io.c.
 */
#ifndef BRAID_SOCKET_LANE_H
#define BRAID_SOCKET_LANE_H

#include <sys/socket.h>

#include "net-plugin/core/transport.h"
#include "net-plugin/socket/probe.h"
#include "net-plugin/socket/stage.h"
#include "net-plugin/socket/zerocopy.h"

#define BRAID_SOCKET_TX_BYTES (64 * 1024)
#define BRAID_SOCKET_RX_BYTES (64 * 1024)

struct braid_io_thread;

struct braid_socket_lane {
    struct braid_lane base; /* first */
    int fd;                 /* -1 once closed */
    struct braid_socket_lane *next;

    size_t tx_have, tx_sent;
    size_t tx_lazy; /* of it, at the end: may wait until something else is to go */
    bool put_active;
    bool blocked;                       /* the last send met a full socket buffer */
    uint64_t sampled_ns, sampled_bytes; /* of the last measurement */
    uint64_t rated_ns;                  /* when rate_Bps was set */
    bool rate_guessed;                  /* and that was not by a measurement */
    uint64_t stretch_ns, stretch_bytes; /* sums of busy stretches so far */
    atomic_bool declined;               /* too slow for what waits now */
    /* several: every stream takes part, and rate_Bps of those for bulk is kept up to date */
    bool rails;
    bool peer_gone; /* sending has failed; reading will tell how the lane ends */
    struct braid_put put;
    size_t put_sent;
    struct braid_probe *probe; /* the device's; NULL in tests that only receive */
    bool probed;               /* the put is counted there */
    uint64_t probed_queue;     /* what the kernel had when it began */
    int numa_node;             /* of its network card; -1: unknown */

    size_t rx_have, rx_used;
    bool landing_active;
    bool bulk; /* the last message came in chunks */
    struct braid_landing landing;
    size_t landed;
    int wake_bytes; /* so many make the socket readable; 0: as the kernel has it, 1 */

    struct braid_stage *stage; /* NULL until GPU memory is used here */
    bool put_staged, landing_staged;
    struct braid_zerocopy zerocopy;
    bool put_zerocopy; /* the put is one of those there */

    _Atomic(struct braid_io_thread *) io_thread; /* io.c's */
    uint64_t io_id;
    atomic_bool io_armed;
    atomic_bool io_gone; /* being closed: no thread takes it any more */
    /* armed for what push() had to leave: its thread has not had the lane since */
    atomic_bool io_owed;
    atomic_bool io_watched; /* its thread sleeps, and the socket will wake it: no need to arm */
    atomic_bool io_full;    /* and will do so when it takes more */
    atomic_bool io_called;  /* armed, and its thread has not had it since */
    atomic_bool io_in_mailbox;
    bool io_in_epoll;
    uint32_t io_events; /* one of which wakes its thread */
    bool io_active;
    bool io_batched; /* in the ring's next call */
    int io_moved;    /* what came of it */
    bool io_told;    /* a notification has come since it was last worked on */
    struct braid_socket_lane *io_next, *io_active_next, *io_next_armed;

    uint8_t tx[BRAID_SOCKET_TX_BYTES];
    uint8_t rx[BRAID_SOCKET_RX_BYTES];
};

/* BRAID_SOCKET_ZEROCOPY. */
enum { BRAID_ZEROCOPY_TRY = -1, BRAID_ZEROCOPY_NEVER, BRAID_ZEROCOPY_USE, BRAID_ZEROCOPY_ALWAYS };

/* How this process divides the work; read at init. */
struct braid_socket_plan {
    size_t thread_bytes; /* more than this is left to I/O threads */
    /* no streams for bulk are added above it: half of the descriptors that the process may have */
    unsigned lanes_max;
    unsigned threads; /* of the pool; 0: NCCL's threads move everything */
    /* processors of this process, which those that are counted share with it; 0: none are counted */
    unsigned counted_cpus;
    bool threads_help; /* also with bulk on stream 0: there are processors for them */
    /* streams for bulk to begin with, besides stream 0, which then has only small messages and control; 0: it has all */
    unsigned guess;
    unsigned streams; /* the most that trials may come to */
    int zerocopy;     /* BRAID_ZEROCOPY_* */
    bool uring;       /* without trials, as set */
    bool rings;       /* I/O threads have one each: io_uring is used or tried */
};
extern struct braid_socket_plan braid_socket_plan;
/* Lanes that exist in this process. */
extern atomic_uint braid_socket_lanes;

/* A lane over the connected, non-blocking stream `fd`, which it owns. NULL when memory is short (`fd` is then still the caller's). */
struct braid_socket_lane *braid_socket_lane_new(struct braid_conn *conn, int fd, unsigned index,
                                                unsigned rail);
/* Says BYE, leaves the descriptor to the maintenance thread and frees. No other thread knows the lane any more. */
void braid_socket_lane_free(struct braid_socket_lane *lane);

/* braid_transport's lane operations. */
int braid_socket_control(struct braid_lane *lane, const struct braid_rec *rec, const void *body,
                         bool more);
int braid_socket_push(struct braid_lane *lane);
int braid_socket_progress(struct braid_lane *lane, size_t budget);
/* What progress() does for NCCL's threads, without leaving bulk to others: for I/O threads. */
int braid_socket_move(struct braid_socket_lane *lane, size_t budget);
int braid_socket_fence(struct braid_lane *lane);
void braid_socket_lane_state(struct braid_lane *lane, char *buf, size_t buf_bytes);

/* A send or a receive, for whoever makes the system calls of several lanes at once (uring.h). */
struct braid_socket_call {
    struct msghdr msg;
    struct iovec iov[2];
    int flags;
    bool wanted;
    bool zerocopy;      /* send: iov[0] alone, and the kernel may keep it */
    size_t place_bytes; /* receive: of them, straight into the landing */
};
/* The calls that are next on this lane. As braid_socket_move for what moved without one. */
int braid_socket_prepare(struct braid_socket_lane *lane, struct braid_socket_call *tx,
                         struct braid_socket_call *rx);
/* What came of those that were wanted: bytes or a negative errno. As braid_socket_move. */
int braid_socket_finish(struct braid_socket_lane *lane, const struct braid_socket_call *tx,
                        ssize_t sent, const struct braid_socket_call *rx, ssize_t got);

/* Whether a trial compares CPU time, and chunks of this lane are part of it: then probe->cpu_ns grows by what moving takes. Lane lock held. */
bool braid_socket_lane_is_timed(const struct braid_socket_lane *lane);

/* Whether it is one of those that chunks go by now, should some wait. */
bool braid_socket_lane_takes_bulk(const struct braid_socket_lane *lane);
/* Whether chunks wait that this lane would take. A hint, any thread. */
bool braid_socket_lane_wants_puts(const struct braid_socket_lane *lane);
/* Threads that the pool may have now, with as many processes on this host as there are. Under the pool's lock. socket.c */
unsigned braid_socket_threads_now(void);
/* Streams for bulk that both ends of the connection are ready to have. socket.c */
unsigned braid_socket_streams(const struct braid_conn *conn);
/* The staging of lane `index`; NULL when the connection has no GPU memory registered. socket.c */
struct braid_stage *braid_socket_stage(const struct braid_conn *conn, unsigned index);

/* Whether bulk data is under way here, in either direction: a reason for an I/O thread to stay. Lane lock held. */
bool braid_socket_lane_is_busy(const struct braid_socket_lane *lane);

/*
 * Before a thread sleeps on the socket: how many bytes shall wake it, which is many while a chunk arrives. False if the kernel refuses what
 * is needed; the thread had better stay awake. Lane lock held.
 */
bool braid_socket_lane_set_wake(struct braid_socket_lane *lane);

/*
 * Takes in what lies in rx: hands complete records to core, lands what there is of a chunk. 0 or a negative errno (broken protocol).
 * Apart from the socket it is the whole receiving side, and what the fuzzer drives.
 */
int braid_socket_parse(struct braid_socket_lane *lane);

#endif
