/*
 * One end of a verbs connection: rails (ports of its device), lanes (one queue pair each), the keys that the peer told. Private to
 * the room. Lane state belongs to the holder of the lane's lock; the rest is set up before the lanes are up and then only read,
 * except `peer_state`, which the maintenance thread sets.
 */
#ifndef BRAID_VERBS_CONN_H
#define BRAID_VERBS_CONN_H

#include "net-plugin/verbs/dev.h"
#include "net-plugin/verbs/keys.h"
#include "net-plugin/verbs/ring.h"

#define LANE_PUTS    64  /* chunks under way on a lane */
#define LANE_SENDS   192 /* send queue: chunks, records, credit */
#define LANE_RECVS   256 /* receives posted for immediates, where messages come */
#define BACK_RECVS   64  /* the same where only records may bring some */
#define LANE_BATCH   16  /* work requests behind one doorbell */
#define LANE_SIGNAL  32  /* records without a chunk between two signaled sends */
#define LANE_INLINE  128 /* asked for; less is taken */
#define CONN_FLUSHES 64

/*
 * Memory of a lane, one registration: what the peer writes, and what the NIC reads. The larger ring lies where messages come, its image
 * where they are sent; the smaller ones go the other way.
 */
struct verbs_memory {
    struct braid_verbs_credit_cell credit_in; /* written by the peer */
    struct braid_verbs_credit_cell credit_out;
    uint8_t pad[32];
    uint8_t large[BRAID_VERBS_RING_BYTES + BRAID_VERBS_RECORD_MAX];
    uint8_t small[BRAID_VERBS_BACK_BYTES + BRAID_VERBS_RECORD_MAX];
};

/* A chunk under way: what core wants back, and what its rate is known from. */
struct verbs_put {
    void *owner;
    size_t bytes;
    uint64_t posted_ns;
    uint32_t position; /* of its work request */
};

struct verbs_lane {
    struct braid_lane base; /* must be first */
    struct verbs_conn *conn;
    struct braid_verbs_port *port;
    unsigned rail, peer_rail;
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    struct verbs_memory *memory;
    struct ibv_mr *mr;
    uint32_t inline_bytes, packet_bytes;
    /* the largest record that the peer may find by polling memory; larger ones bring an immediate */
    uint32_t polled_bytes;
    /* no record of the peer counts before an immediate came: our NIC keeps no order in a packet */
    bool by_imm;
    int gid_index; /* chosen for the peer; -1 none */
    struct braid_verbs_gid own_gid, peer_gid;
    bool sends;    /* of a connection that sends messages */
    bool used;     /* has a peer */
    bool flushing; /* fenced */
    bool failed;
    uint64_t quiet_since_ns; /* the peer is gone and nothing came since */

    struct braid_verbs_lane peer;
    struct braid_ring_tx tx;
    struct braid_ring_rx rx;
    uint32_t control_imms; /* control immediates that came and were not matched to a record yet */
    uint32_t imms_out;     /* immediates posted to the peer, running */
    uint32_t imms_room;    /* receives that the peer has posted, running */
    uint32_t chunks_out, chunks_in; /* immediates of chunks, running */
    uint32_t recvs_count;           /* LANE_RECVS or BACK_RECVS */
    uint32_t recvs_posted;          /* running */
    uint32_t recvs_back;            /* consumed and not posted again yet */
    struct braid_verbs_credit told;
    uint32_t ring_due, recvs_due; /* that much more than told is told without a record */

    uint32_t posted, done; /* positions in the send queue, running */
    uint32_t since_signal;
    uint32_t until_poll; /* calls of progress until the completion queue is looked at */
    struct verbs_put puts[LANE_PUTS];
    uint32_t puts_head, puts_tail;
    size_t puts_bytes;                    /* of the chunks under way */
    struct ibv_send_wr batch[LANE_BATCH]; /* a chain, each with its piece */
    struct ibv_sge pieces[LANE_BATCH];
    uint32_t batched;
    bool chunk_batched; /* a chunk is among them */
    struct ibv_recv_wr
        recvs[LANE_RECVS / 4]; /* a chain; a quarter of recvs_count is posted at a time */
};

/* A flush under way: done when each rail has read as far as this. */
struct verbs_flush {
    bool in_use;
    uint32_t until[BRAID_VDEV_MAX];
};

struct verbs_flush_rail {
    struct ibv_qp *qp; /* connected to itself */
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint64_t landing;
    uint32_t posted, done;
};

enum verbs_peer_state { VERBS_PEER_THERE, VERBS_PEER_BYE, VERBS_PEER_GONE, VERBS_PEER_FAILED };

struct verbs_conn {
    struct braid_conn *core;
    int dev;
    int rails;
    struct braid_verbs_port *ports[BRAID_VDEV_MAX]; /* one a rail */
    int lanes_count;
    struct verbs_lane *lanes[BRAID_LANES_MAX];
    struct braid_verbs_rail peer_rails[BRAID_VERBS_RAILS];
    struct braid_keys *keys; /* of a sender */
    struct verbs_flush_rail flush[BRAID_VDEV_MAX];
    struct verbs_flush flushes[CONN_FLUSHES];
    struct braid_watch watch; /* the TCP stream: says when the peer is gone */
    atomic_int peer_state;    /* enum verbs_peer_state */
    char peer_text[200];      /* what the peer said when it failed */
    bool attached;
};

/* conn.c: the transport's connection operations. */
int verbs_offer(struct braid_conn *core, int dev, void *offer, size_t cap);
int verbs_agree(struct braid_conn *core, const void *offer, size_t bytes, char *why,
                size_t why_bytes);
int verbs_attach(struct braid_conn *core, int fd, unsigned index);
void verbs_detach(struct braid_conn *core);
void verbs_describe(struct braid_conn *core, char *buf, size_t buf_bytes);
/* conn.c: whether the peer has closed or gone, asked of the TCP stream itself. */
bool verbs_conn_peer_closed(const struct verbs_conn *conn);
/* conn.c: one byte of kind and a line of text to the peer, over TCP. 'B': orderly end, 'F': a lane failed. */
void verbs_conn_tell(struct verbs_conn *conn, char kind, const char *text);

/* qp.c: queue pairs. All return 0 or a negative errno and log what a person must act on. */
int verbs_qp_create(struct verbs_lane *lane);
int verbs_qp_init(struct ibv_qp *qp, const struct braid_verbs_port *port, int access);
int verbs_qp_connect(struct verbs_lane *lane, const struct braid_verbs_rail *peer, char *why,
                     size_t why_bytes);
int verbs_qp_loop(struct verbs_conn *conn, int rail);
void verbs_qp_destroy(struct ibv_qp *qp, struct ibv_cq *cq);

/* lane.c */
struct verbs_lane *verbs_lane_new(struct verbs_conn *conn, unsigned rail);
/* Waits until what was sent has arrived, at most until `until_ns`; not for the peer process. */
void verbs_lane_finish(struct verbs_lane *lane, uint64_t until_ns);
void verbs_lane_free(struct verbs_lane *lane);
int verbs_lane_control(struct braid_lane *lane, const struct braid_rec *rec, const void *body,
                       bool more);
int verbs_lane_put(struct braid_lane *lane, const struct braid_put *put);
int verbs_lane_push(struct braid_lane *lane);
int verbs_lane_progress(struct braid_lane *lane, size_t budget);
int verbs_lane_fence(struct braid_lane *lane);

/* mr.c */
int verbs_mr_reg(struct braid_mr *mr);
void verbs_mr_dereg(struct braid_mr *mr);
int verbs_mr_describe(struct braid_conn *core, const struct braid_mr *mr, void *blob, size_t cap);
int verbs_mr_learn(struct braid_conn *core, uint32_t id, const void *blob, size_t bytes);
/* Our own key of `mr` on our rail, to read from it. */
uint32_t verbs_mr_lkey(const struct verbs_conn *conn, const struct braid_mr *mr, unsigned rail);
/* The same for a queue pair that is connected to itself, where we are the peer. */
uint32_t verbs_mr_rkey(const struct braid_mr *mr, unsigned rail);
/* Registers memory of the transport itself, in strict order. NULL after a log line. */
struct ibv_mr *verbs_mr_own(struct braid_verbs_nic *nic, void *addr, size_t bytes);

/* flush.c */
int verbs_flush(struct braid_conn *core, int n, void *const *addrs, struct braid_mr *const *mrs,
                void **token_p);
int verbs_flush_test(struct braid_conn *core, void *token);

/* words.c: what an error means and what helps; constants. */
const char *verbs_status_advice(int status, uint32_t vendor_err);
const char *verbs_modify_advice(int err, bool roce);

#endif
