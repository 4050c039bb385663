/*
 * What a transport is: the one interface between core/ and the rooms socket/, verbs/, ucx/.
 *
 * A connection (struct braid_conn) belongs to core. It matches sends to receives, cuts messages into chunks, hands chunks to
 * lanes, counts what landed. A lane (struct braid_lane) belongs to a transport: one TCP stream, one queue pair, one endpoint.
 * A lane does four things: it carries control records in order, it delivers chunks into the peer's posted buffers, it says what
 * landed, and it can be fenced. It knows nothing about requests, tags, groups or other lanes.
 *
 * The life of a connection, as a transport sees it (core/handshake.c runs the exchange over an authenticated TCP stream, which
 * every transport gets, also those that move no data over TCP):
 *     connecting side: offer -> [peer] -> agree(peer's offer) -> attach(fd, 0) -> lanes up
 *     accepting side:  offer, agree(peer's offer) -> [peer says READY] -> attach(fd, 0) -> lanes up
 *     more streams:    attach(fd, 1), attach(fd, 2), ... once braid_conn_request_stream() was answered (stream transports only)
 *     detach: all lanes gone, nothing lands any more, local state freed; also after a failed agree or attach.
 * The accepting side must be able to receive when agree returns, because the peer may send as soon as it has its answer.
 *
 * Adding a transport: one room, one const struct braid_transport, one row in core/transports.c. Operations that it does not have
 * are the braid_no_* stubs; callers never test a pointer for NULL. socket/ is the template.
 *
 * Threading. A lane has a lock that is only ever tried (braid_lane_trylock): the caller of isend, irecv and test, an I/O thread
 * and the maintenance thread may each hold it, and the holder runs control(), progress() and all upcalls of this lane. Upcalls may
 * take the connection's own short lock; a transport takes no lock of its own across an upcall. Calls without a lane argument
 * are made by one thread at a time for one connection (NCCL's service thread or the maintenance thread).
 * Nothing here logs or allocates on the data path: control(), progress() and the upcalls.
 */
#ifndef BRAID_NET_TRANSPORT_H
#define BRAID_NET_TRANSPORT_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "braid/wire/net_record.h"
#include "common/netif.h"

struct braid_conn;
struct braid_lane;

/* Kinds of memory; the values are NCCL's NCCL_PTR_*. */
#define BRAID_PTR_HOST   0x1
#define BRAID_PTR_CUDA   0x2
#define BRAID_PTR_DMABUF 0x4

#define BRAID_VDEV_MAX      8    /* physical devices of a virtual one */
#define BRAID_LANES_MAX     16   /* lanes of a connection */
#define BRAID_OFFER_BYTES   2048 /* largest offer of one transport in the handshake */
#define BRAID_MR_BLOB_BYTES 512  /* largest description of a registration */

/* What a device is; core passes it to NCCL. Strings live until the plugin is unloaded. */
struct braid_device_props {
    const char *name;     /* unique, "eth0", "mlx5_0:1" */
    const char *pci_path; /* folder in /sys, or NULL */
    const char *netif;    /* network interface whose addresses reach this device's peers, or NULL */
    uint64_t guid;        /* equal for the functions of one chip */
    int ptr_support;      /* BRAID_PTR_* that mr_reg accepts */
    bool reg_is_global;   /* a registration made on one connection is good for all of the device */
    bool force_flush;     /* NCCL must flush after every receive into GPU memory */
    /* GPU memory is reached by copy engines, which promise a kernel that polls it no order */
    bool staged;
    int speed_Mbps;   /* one direction */
    int port;         /* from 1 */
    float latency_us; /* one way; 0: unknown */
    int max_comms;
    int max_recvs;         /* widest grouped receive, 1 to 8 */
    size_t max_p2p_bytes;  /* largest message; core refuses larger ones */
    int rail_id, plane_id; /* -1: unknown */
    int devs
        [BRAID_VDEV_MAX]; /* the physical devices of a virtual device; a plain one lists itself */
    int ndevs;
};

/*
 * A registration. Core allocates it, fills the upper part and gives it an id that is unique in the process and never 0;
 * the transport keeps its own state in `tp`.
 */
struct braid_mr {
    uint32_t id;
    int type;                /* one of BRAID_PTR_* */
    int dev;                 /* device it was made on */
    int dmabuf_fd;           /* -1 if none; only valid during mr_reg */
    struct braid_conn *conn; /* that it is made on; only valid during mr_reg */
    uint64_t dmabuf_offset;
    void *addr;
    size_t bytes;
    atomic_uint uses; /* core's: requests that have it and were not tested to their end */
    void *tp;
};

/* Where a chunk goes in the peer: what the receiver announced, and the key material that mr_learn stored. */
struct braid_remote {
    uint64_t addr;  /* of the whole buffer */
    uint32_t mr;    /* the peer's registration id; 0: none */
    uint32_t flags; /* BRAID_RECV_* */
};

/* One chunk for a lane to deliver. The lane may drop all but `owner` and `bytes` when it needs no more to send it. */
struct braid_put {
    uint32_t shift; /* log2 of the chunk size of the message */
    uint32_t sub; /* receive of the peer; slot = sub % BRAID_SUBS, generation = sub / BRAID_SUBS */
    uint32_t chunk;  /* number of the chunk in its message, below BRAID_MESSAGE_CHUNKS */
    uint32_t chunks; /* of the message */
    uint64_t offset; /* of the chunk in the message */
    size_t bytes;    /* at least 1, except in an empty message, whose single chunk is empty */
    const void *src; /* first byte of the chunk */
    const struct braid_mr *src_mr; /* may be NULL: NCCL may send from unregistered host memory */
    struct braid_remote dst;
    void *owner; /* core's: the message */
};

/* Where an arriving chunk lands (stream lanes). */
struct braid_landing {
    void *dst;                 /* first byte */
    size_t bytes;              /* the whole chunk */
    const struct braid_mr *mr; /* may be NULL */
    bool polled; /* land with braid_copy_polled(), never by recv() into place: see core/landing.h */
    uint32_t sub;
    uint32_t chunk, chunks; /* which of how many */
    uint64_t end;           /* offset behind it in the message */
};

/* FENCED: nothing can land or leave any more. */
enum braid_lane_state { BRAID_LANE_UP, BRAID_LANE_DOWN, BRAID_LANE_FENCED };

/* The part of a lane that core sees; a transport embeds it as its lane's first member and fills what is marked T. */
struct braid_lane {
    struct braid_conn *conn;           /* T */
    const struct braid_transport *ops; /* T */
    uint16_t index;                    /* T: number in the connection, equal on both sides */
    /*
     * Core: which of the connection's lanes it is, from 0 without gaps. Streams come in any order, and some never, so that only the first
     * lane's is its index. Set before other threads know the lane.
     */
    uint16_t place;
    uint16_t rail;    /* T: which physical device of the (virtual) device, for rates and messages */
    uint32_t epoch;   /* core: counts re-openings of this index */
    atomic_int state; /* enum braid_lane_state */
    atomic_flag busy; /* the lane's lock; see braid_lane_trylock */
    atomic_bool tended; /* T: a thread of the transport sees to it: nothing for callers here */
    _Atomic uint64_t rate_Bps; /* T: measured while chunks were waiting; 0: not yet known */
    /* T: given to the network and not acknowledged, where rates are measured */
    _Atomic uint64_t queued_bytes;
    _Atomic uint64_t put_bytes; /* core: chunk bytes that have left, for rates */
    _Atomic uint64_t heard_ns;  /* T: when the peer was last heard, braid_now_ns() */
};

/* How a transport works; data, not operations. */
enum {
    BRAID_T_STREAM = 1 << 0, /* lanes are byte streams that attach() takes one by one */
    /* put() needs braid_remote: RECV words carry address and registration */
    BRAID_T_REMOTE_WRITE = 1 << 1,
    /* a chunk says how many its message has, so no START is sent: put() sends the first one */
    BRAID_T_PUT_STARTS = 1 << 2,
    /* GPU memory is filled by copy engines: not while a kernel polls it */
    BRAID_T_STAGES_GPU = 1 << 3,
};

struct braid_transport {
    const char *name; /* "Socket", "IB"; used in logs and as NCCL's network name suffix */
    uint32_t id;      /* on the wire; never reused */
    uint32_t flags;   /* BRAID_T_* */

    /* -- process: called between plugin init and the last finalize, serialised ------------------------------------------ */

    /*
     * Finds devices. 0: device_count() answers, possibly with 0. Negative errno: this transport is left out; the reason has
     * been logged at INFO. Starts no thread.
     */
    int (*init)(void);
    /* Frees everything; all connections are gone. Joins its threads. */
    void (*fini)(void);
    int (*device_count)(void);
    int (*device_props)(int dev, struct braid_device_props *props);
    /*
     * Makes a virtual device of `count` of its devices and returns its number, which is the next one (or that of an equal one made
     * before). -EOPNOTSUPP: core then lets the first of them stand for all.
     */
    int (*device_fuse)(const int *devs, int count);

    /* -- connection --------------------------------------------------------------------------------------------------- */

    /*
     * Creates the local half for device `dev` and writes what the peer needs to know (queue pairs, GIDs, rails; at most `cap`
     * bytes) to `offer`. Returns the bytes written or a negative errno (this transport is then not offered). Stores its state with
     * braid_conn_set_tp().
     */
    int (*offer)(struct braid_conn *conn, int dev, void *offer, size_t cap);
    /*
     * Takes in the peer's offer of the same transport; foreign bytes, so every field is checked. 0, -EAGAIN ("call again", the
     * maintenance thread does within 1 ms), or a negative errno after writing into `why` what differs, for both sides' logs.
     */
    int (*agree)(struct braid_conn *conn, const void *offer, size_t bytes, char *why,
                 size_t why_bytes);
    /*
     * Over which addresses (ports 0) stream `index` of the connecting side goes. -EOPNOTSUPP: as stream 0 did.
     */
    int (*route)(struct braid_conn *conn, unsigned index, union braid_addr *source,
                 union braid_addr *peer);
    /*
     * The handshake is complete. `fd` is the TCP stream (non-blocking) of number `index`; the transport owns it from here on, also
     * on error. Brings lanes up with braid_conn_add_lane().
     */
    int (*attach)(struct braid_conn *conn, int fd, unsigned index);
    /*
     * Ends everything that offer() and attach() made, in any state, also when the peer is silent: does not wait for it. When it
     * returns no thread, no NIC and no kernel touches any buffer of this connection. Says BYE where a lane still can. Called with the
     * maintenance lock held: no thread of the transport may wait for that lock.
     */
    void (*detach)(struct braid_conn *conn);
    /* "10.0.0.1:4711 over eth0" into buf; for messages. */
    void (*describe)(struct braid_conn *conn, char *buf, size_t buf_bytes);

    /* -- memory ------------------------------------------------------------------------------------------------------- */

    /* 0; -EOPNOTSUPP for a kind of memory that it cannot use. */
    int (*mr_reg)(struct braid_mr *mr);
    /* When it returns, nothing of this transport can touch the range. */
    void (*mr_dereg)(struct braid_mr *mr);
    /* What a peer needs to write into `mr` (keys of every rail); bytes written, 0 for nothing. Sent once a connection, as MR record. */
    int (*mr_describe)(struct braid_conn *conn, const struct braid_mr *mr, void *blob, size_t cap);
    /* The other end of mr_describe: remember it under `id` for later braid_remote.mr. Foreign bytes. */
    int (*mr_learn)(struct braid_conn *conn, uint32_t id, const void *blob, size_t bytes);
    /*
     * Makes what has landed in these GPU buffers visible to the GPU. 0 with *token_p = NULL: nothing to wait for. -EAGAIN: no
     * resources now.
     */
    int (*flush)(struct braid_conn *conn, int n, void *const *addrs, struct braid_mr *const *mrs,
                 void **token_p);
    /* 1 done, 0 not yet, negative errno. */
    int (*flush_test)(struct braid_conn *conn, void *token);

    /* -- lanes: the holder of the lane's lock --------------------------------------------------------------------------- */

    /*
     * Sends a control record, `body` of rec->body_bytes after it. Records of one lane arrive in order, each once. All or nothing:
     * 0 and the record was taken (body copied or sent: the caller may reuse it), -EAGAIN and nothing was taken (no room now), or
     * another negative errno and the lane is down. `more` says that another call follows at once, so small ones may gather;
     * after the last one core calls push().
     */
    int (*control)(struct braid_lane *lane, const struct braid_rec *rec, const void *body,
                   bool more);
    /*
     * With BRAID_T_PUT_STARTS: takes the first chunk of a message, in order with the records of this lane; the others are fetched by
     * braid_conn_next_put() on any lane. As control(): all or nothing, gathers until push().
     */
    int (*put)(struct braid_lane *lane, const struct braid_put *put);
    /* Sends what control() gathered. 0: all of it is on its way. -EAGAIN: some is still here, progress() will push it. */
    int (*push)(struct braid_lane *lane);
    /*
     * Moves things, at most about `budget` bytes: reports arrived records and chunks by upcalls, fetches chunks with
     * braid_conn_next_put() as long as the lane has room, reports those that left. Returns > 0 if anything moved, 0 if nothing, or a
     * negative errno when the lane has just gone down (it has called braid_lane_failed()).
     */
    int (*progress)(struct braid_lane *lane, size_t budget);
    /*
     * More to send than the caller's own calls will move: lets whatever threads the transport has take part. True if they take all of it, so
     * that the caller need not. Any thread, lock held or not. Nothing for transports that are polled by the caller.
     */
    bool (*kick)(struct braid_lane *lane);
    /*
     * Ends delivery on a lane that is down or that core gives up: afterwards nothing lands through it and none of its sources is
     * read (queue pair to error and drained; socket closed). Chunks that were fetched and not reported come back by
     * braid_conn_put_done(-ECANCELED). Core then sends the peer its bitmap and puts the missing chunks on other lanes.
     */
    int (*fence)(struct braid_lane *lane);
    /*
     * Takes in what has come, if something has, where nobody asks for it: a peer must not find its way full for long. An end that nobody
     * waits for is left to whoever does. Lock held.
     */
    void (*drain)(struct braid_lane *lane);
    /* What the lane is at, in a few words, for the line about a connection on which nothing moves. Lock held. */
    void (*lane_state)(struct braid_lane *lane, char *buf, size_t buf_bytes);
};

/* -- core's side: upcalls and helpers ------------------------------------------------------------------------------------ */

/* Transport's per-connection state. */
void braid_conn_set_tp(struct braid_conn *conn, void *tp);
void *braid_conn_tp(const struct braid_conn *conn);
/* True on the side that sends messages (NCCL's sendComm, which connected). */
bool braid_conn_is_sender(const struct braid_conn *conn);
/* Who the peer is ("node7 pid 4242"), for messages; valid while the connection lives. */
const char *braid_conn_peer(const struct braid_conn *conn);
/* The communicator's traffic class; -1 if the user set none. */
int braid_conn_traffic_class(const struct braid_conn *conn);

/* The network interfaces that may be used, best first; constant between plugin init and finalize. */
const struct braid_netif *braid_netifs(int *count_p);

/*
 * From agree(): messages above `bytes` always wait for their receive to be announced. Both sides must say the same. For a transport whose
 * small frames have a natural limit, or whose buffers the CPU may not be able to write (0).
 */
void braid_conn_limit_eager(struct braid_conn *conn, uint32_t bytes);

/* Initialises core's part of a lane. */
void braid_lane_init(struct braid_lane *lane, struct braid_conn *conn,
                     const struct braid_transport *ops, unsigned index, unsigned rail);
/* A lane is ready. Core polls it from now on. 0, or -ENOSPC when BRAID_LANES_MAX are there. */
int braid_conn_add_lane(struct braid_conn *conn, struct braid_lane *lane);
/*
 * Asks core for authenticated TCP streams 1 to `count` to the peer (connecting side, stream transports), besides stream 0; attach()
 * follows for each, on the maintenance thread. Streams above `count` that are there already stay, but messages are no longer cut for
 * them. Any thread; cheap when nothing changes.
 */
void braid_conn_want_streams(struct braid_conn *conn, unsigned count);
/* Lanes that were added, up or not. */
unsigned braid_conn_lanes(const struct braid_conn *conn);
struct braid_lane *braid_conn_lane(const struct braid_conn *conn, unsigned i);

static inline bool braid_lane_trylock(struct braid_lane *lane)
{
    return !atomic_flag_test_and_set_explicit(&lane->busy, memory_order_acquire);
}

static inline void braid_lane_unlock(struct braid_lane *lane)
{
    atomic_flag_clear_explicit(&lane->busy, memory_order_release);
}

/*
 * A control record arrived; header and body are foreign bytes, core checks them. `body` is complete and may be reused after the
 * call. 0, or a negative errno: the peer broke the protocol and the lane must go down with it.
 */
int braid_conn_on_record(struct braid_lane *lane, const struct braid_rec *rec, const void *body);

/*
 * Stream lanes: a CHUNK header arrived; where does its body go? 0 and *landing; -EPROTO when no such receive is posted or the
 * chunk does not fit (the lane must go down); nothing of a refused chunk may be stored.
 */
int braid_conn_land(struct braid_lane *lane, const struct braid_rec *rec,
                    struct braid_landing *landing);
/*
 * Chunk `chunk` of `chunks` of receive `sub` lies in its buffer, visible to the CPU (and, for CUDA memory, to the GPU after flush); `end` is
 * the offset behind it in the message. 0, or -EPROTO as above.
 */
int braid_conn_landed(struct braid_lane *lane, uint32_t sub, uint32_t chunk, uint32_t chunks,
                      uint64_t end);
/*
 * The same for a lane with BRAID_T_PUT_STARTS: chunk `chunk` of `chunks`, of `bytes` bytes. Of the sub number it knows only the
 * bits in `mask` (a low-bit mask, at least BRAID_SUBS - 1).
 */
int braid_conn_landed_part(struct braid_lane *lane, uint32_t sub, uint32_t mask, uint32_t chunk,
                           uint32_t chunks, size_t bytes);

/*
 * The next chunk for this lane, from whichever message is at the head: 0 and *put, -EAGAIN when there is none, or -EBUSY when the
 * lane is so slow that the others had better take it (kick() comes with the next message). Lanes that are free take the next
 * one, so a slow lane never sets the pace. The holder of the lane's lock.
 */
int braid_conn_next_put(struct braid_lane *lane, struct braid_put *put);
/* Whether braid_conn_next_put would find something; a hint, any thread. */
bool braid_conn_has_puts(const struct braid_conn *conn);
/* Bytes of announced messages that no lane has fetched yet; a hint for kick(), any thread. */
uint64_t braid_conn_put_bytes(const struct braid_conn *conn);
/*
 * The lane will not read the chunk's source again: status 0 when it was delivered as far as the lane can know, or -ECANCELED
 * after fence(). Exactly once for each put that was fetched.
 */
void braid_conn_put_done(struct braid_lane *lane, void *owner, size_t bytes, int status);

/*
 * Gives control records that wait (receives to announce, credit, messages to start) to the control lane, whose lock must not be held by
 * the caller. I/O threads call it after progress(); isend, irecv and test do so themselves.
 */
void braid_conn_pump(struct braid_conn *conn);

/*
 * The lane went down: `error` a negative errno, `what` the failed operation ("recv", "work completion: remote access error").
 * Core logs one line with peer, lane, operation and cause, and decides (fail over or fail the connection). An end of stream
 * after BYE is not a failure. Returns whether the connection has failed by it: a transport lets the peer see that, because the caller may
 * not call again.
 */
bool braid_lane_failed(struct braid_lane *lane, int error, const char *what);

/* -- stubs, core/transports.c -------------------------------------------------------------------------------------------- */

int braid_no_init(void);
void braid_no_fini(void);
int braid_no_device_count(void);
int braid_no_device_props(int dev, struct braid_device_props *props);
int braid_no_device_fuse(const int *devs, int count);
int braid_no_mr_describe(struct braid_conn *conn, const struct braid_mr *mr, void *blob,
                         size_t cap); /* 0 */
int braid_no_mr_learn(struct braid_conn *conn, uint32_t id, const void *blob, size_t bytes);
int braid_no_flush(struct braid_conn *conn, int n, void *const *addrs, struct braid_mr *const *mrs,
                   void **token_p);
int braid_no_flush_test(struct braid_conn *conn, void *token);
bool braid_no_kick(struct braid_lane *lane); /* false */
int braid_no_route(struct braid_conn *conn, unsigned index, union braid_addr *source,
                   union braid_addr *peer);
int braid_no_put(struct braid_lane *lane, const struct braid_put *put);
int braid_no_push(struct braid_lane *lane); /* 0: control() sends at once */
int braid_no_fence(struct braid_lane *lane);
void braid_no_drain(struct braid_lane *lane);
void braid_no_lane_state(struct braid_lane *lane, char *buf, size_t buf_bytes);

/* -- the list -------------------------------------------------------------------------------------------------------------- */

/* All transports in order of preference, NULL at the end: core/transports.c. */
extern const struct braid_transport *const braid_transports[];

#endif
