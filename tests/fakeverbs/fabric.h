/*
 * The fabric of the fake verbs library: one shared memory file that every process of a test maps. It holds what a
 * remote NIC would look up: ports and GID tables, queue pairs with their posted receives, completion queue rings and
 * the table of registered memory. Send queues stay in the process that posts (engine.c).
 *
 * One robust lock guards all of it (a killed process may hold it). Rings of a completion queue have one consumer, the
 * process that owns the queue, and are written under the lock.
 */
#ifndef FAKEVERBS_FABRIC_H
#define FAKEVERBS_FABRIC_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define FV_MAX_DEVICES   32
#define FV_MAX_GIDS      32
#define FV_MAX_QPS       8192
#define FV_MAX_CQS       2048
#define FV_MAX_MRS       32768
#define FV_MAX_OPENS     256
#define FV_MAX_PROCESSES 256
#define FV_CQ_DEPTH      8192
#define FV_RQ_DEPTH      1024
#define FV_NAME_BYTES    32
#define FV_PKEYS         4 /* entries of a port's table: the default one, 0x8001, 0x8002, .. */

struct fv_gid {
    union ibv_gid gid;
    uint32_t type; /* enum ibv_gid_type; used only where `valid` */
    bool valid;
};

/* What a script says about one device with its one port; the copy in the fabric is the live one. */
struct fv_device_state {
    char node[FV_NAME_BYTES];
    char name[FV_NAME_BYTES];
    char path[128]; /* of the device in sysfs */
    char subnet[FV_NAME_BYTES];
    uint64_t guid; /* network byte order */
    uint32_t vendor_id, vendor_part_id;
    uint32_t port_state, mtu, link_layer, lid, speed_gbps, max_qp, max_cqe, max_wr, max_inline,
        max_mr, max_sge;
    uint32_t atomics;
    uint32_t flags; /* FV_NO_* */
    struct fv_gid gids[FV_MAX_GIDS];
    uint32_t live_qps, live_mrs;
};
#define FV_NO_DMABUF  1u
#define FV_NO_RELAXED 2u
#define FV_NO_ORDER   4u

struct fv_cqe {
    uint64_t wr_id;
    uint32_t status, opcode, vendor_err, byte_len, imm, qp_num, wc_flags, src_qp;
    /* of a send: the send queue position up to which slots are free once this is polled */
    uint32_t frees;
    bool is_send;
};

struct fv_cq_ring {
    bool used;
    bool overrun;
    pid_t pid;
    uint32_t depth;
    _Atomic uint32_t head; /* next to poll */
    _Atomic uint32_t tail; /* next to write */
    struct fv_cqe ring[FV_CQ_DEPTH];
};

struct fv_recv {
    uint64_t wr_id, address;
    uint32_t length, lkey;
};

struct fv_qp_state {
    bool used;
    pid_t pid;
    uint32_t device;  /* index in fv_fabric.devices */
    uint32_t pd;      /* unique id of the protection domain */
    uint32_t state;   /* enum ibv_qp_state */
    uint32_t recv_cq; /* index in fv_fabric.cqs */
    uint32_t access;  /* remote access flags */
    uint32_t dest_qp, dlid, mtu_bytes;
    union ibv_gid dgid;
    uint32_t sgid_index;
    uint32_t rq_depth, rq_head, rq_tail;
    struct fv_recv rq[FV_RQ_DEPTH];
};

struct fv_mr_state {
    bool used;
    pid_t pid;
    uint32_t pd, access, device;
    uint64_t address, length, iova;
};

struct fv_open {
    bool used;
    pid_t pid;
    uint32_t device;
    struct sockaddr_un event_address; /* where asynchronous events of this open device are sent */
    socklen_t event_address_bytes;
};

/* Counted per process; see counters.c for the file they are written to. */
struct fv_counters {
    _Atomic uint64_t send_wqes, send_doorbells, inline_wqes, recv_wqes, recv_doorbells, completions,
        polls, empty_polls, packets, bytes, rnr_waits, writes, writes_imm, reads, sends, signaled,
        qps, mrs;
};

struct fv_process {
    bool used;
    pid_t pid;
    char node[FV_NAME_BYTES];
    struct fv_counters counters;
};

struct fv_fabric {
    uint32_t magic;
    pthread_mutex_t lock;
    uint32_t next_pd;
    uint32_t mr_rotor, qp_rotor;
    uint32_t device_count;
    struct fv_device_state devices[FV_MAX_DEVICES];
    struct fv_open opens[FV_MAX_OPENS];
    struct fv_process processes[FV_MAX_PROCESSES];
    struct fv_mr_state mrs[FV_MAX_MRS];
    struct fv_qp_state qps[FV_MAX_QPS];
    struct fv_cq_ring cqs[FV_MAX_CQS];
};

/* Maps the fabric of this process (once) and enters its devices. NULL with errno when that fails. */
struct fv_fabric *fv_fabric_get(void);
/* Maps the fabric file `path` without entering anything; for the control program. NULL with errno. */
struct fv_fabric *fv_fabric_map(const char *path, bool create);
void fv_fabric_lock(struct fv_fabric *fabric);
void fv_fabric_unlock(struct fv_fabric *fabric);

/* Index of the device `name` of `node`, or -1. Caller holds the lock. */
int fv_fabric_find_device(struct fv_fabric *fabric, const char *node, const char *name);

/* Sends an asynchronous event to everyone who has the device open. Caller holds the lock. */
void fv_fabric_event(struct fv_fabric *fabric, uint32_t device, uint32_t event);
/* Sets the state of a port and sends the event that goes with it. Caller holds the lock. */
void fv_fabric_set_port(struct fv_fabric *fabric, uint32_t device, uint32_t state);

/* This process's counters. */
struct fv_counters *fv_counters(void);
/* Appends them to the file of FAKEVERBS_STATS, if that is set. */
void fv_counters_write(void);
#define FV_COUNT(member, n)                                                                        \
    atomic_fetch_add_explicit(&fv_counters()->member, (n), memory_order_relaxed)

/* One asynchronous event as it travels to an open device. */
struct fv_event_message {
    uint32_t event;
    uint32_t qp_num; /* for events of a queue pair, else 0 */
};

#endif
