/*
 * Local halves of the verbs objects: what libibverbs' own structs are embedded in. Owned by the process that created
 * them; a queue pair's lock serialises its send queue.
 */
#ifndef FAKEVERBS_OBJECTS_H
#define FAKEVERBS_OBJECTS_H

#include "fabric.h"

#include <stddef.h>

#define FV_INLINE_MAX 1024

struct fv_device {
    struct ibv_device device; /* must be first */
    uint32_t index;           /* in fv_fabric.devices */
};

struct fv_context {
    struct ibv_context context; /* must be first */
    uint32_t device;
    uint32_t open; /* index in fv_fabric.opens */
};

struct fv_pd {
    struct ibv_pd pd;
    uint32_t id;
};

struct fv_cq {
    struct ibv_cq cq;
    uint32_t index;
};

struct fv_mr {
    struct ibv_mr mr;
    uint32_t index;
};

struct fv_send {
    struct ibv_send_wr wr; /* sg_list points into `sge` */
    struct ibv_sge sge[4];
    uint64_t first_try_ns; /* of an unanswered packet; 0 = not tried */
    uint32_t inline_bytes;
    bool is_inline;
    uint8_t inline_data[FV_INLINE_MAX];
};

/* Send queue positions only grow: freed <= executed <= posted. A slot is free once a completion that covers it was
 * polled, as on a real NIC. */
struct fv_qp {
    struct ibv_qp qp;
    uint32_t index;
    bool all_signaled;
    uint32_t timeout, retry_cnt, rnr_retry, pkey_index, ece_options;
    pthread_mutex_t lock;
    struct fv_send *sq;
    uint32_t sq_depth, inline_max, max_sge;
    _Atomic uint32_t posted, executed, freed;
    /* since when `held` waits for the next completion (lost_acks); 0: it does not */
    uint64_t held_ns;
    struct fv_cqe held;
};

extern _Atomic int64_t fv_live_objects;

/* engine.c: the queue pairs of this process, by number. */
void fv_engine_add(struct fv_qp *qp);
void fv_engine_remove(struct fv_qp *qp);
/* Moves a queue pair to the error state and ends its posted receives as flushed. Caller holds the fabric's lock. */
void fv_qp_fail(struct fv_fabric *fabric, uint32_t index);
/* Drops what is queued (reset). Caller holds the queue pair's lock. */
void fv_engine_reset(struct fv_qp *qp);

int fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fv_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc);

#endif
