/* Batches of socket calls through io_uring; see uring.h. */
#include "net-plugin/socket/uring.h"

#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/dl.h"
#include "common/log.h"
#include "common/param.h"
#include "common/util.h"
#include "net-plugin/socket/lane.h"

#define LANES      32 /* of a batch */
#define CQ_ENTRIES 1024
#define REFUSED_NS (100 * BRAID_NS_PER_MS) /* how long the kernel may take no calls */

/* Newer than the liburing that is needed: usage in notifications (Linux 6.2). */
#define ZC_REPORT_USAGE (1U << 3)
#define ZC_COPIED       (1U << 31)

/* What a completion is for, in the upper bits of its user data. */
enum { SEND = 1, RECEIVE, SEND_ZC };
#define KIND_SHIFT 60
#define SLOT_SHIFT 56

struct batched {
    struct braid_socket_lane *lane;
    struct braid_socket_call tx, rx;
    ssize_t sent, got;
};

struct braid_uring {
    struct io_uring ring;
    unsigned count, open; /* lanes added; calls without an answer */
    bool zerocopy, usage; /* the kernel knows IORING_OP_SEND_ZC, and ZC_REPORT_USAGE */
    bool broken;          /* no more calls go this way */
    uint64_t refused_ns;  /* since when the kernel takes no calls; 0: it does */
    braid_uring_told_fn told;
    void *owner;
    struct batched lanes[LANES];
};

static struct {
    int (*queue_init)(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
    void (*queue_exit)(struct io_uring *ring);
    int (*submit)(struct io_uring *ring);
    int (*submit_and_wait)(struct io_uring *ring, unsigned count);
    int (*get_events)(struct io_uring *ring);
    struct io_uring_probe *(*get_probe)(struct io_uring *ring);
    void (*free_probe)(struct io_uring_probe *probe);
} lib;

static const struct braid_dl_symbol symbols[] = {
    {"io_uring_queue_init_params", NULL, 0, false},
    {"io_uring_queue_exit", NULL, sizeof(void *), false},
    {"io_uring_submit", NULL, 2 * sizeof(void *), false},
    {"io_uring_submit_and_wait", NULL, 3 * sizeof(void *), false},
    {"io_uring_get_events", NULL, 4 * sizeof(void *), false},
    {"io_uring_get_probe_ring", NULL, 5 * sizeof(void *), false},
    {"io_uring_free_probe", NULL, 6 * sizeof(void *), false},
};

static int ring_init(struct io_uring *ring)
{
    struct io_uring_params params = {.flags = IORING_SETUP_CQSIZE, .cq_entries = CQ_ENTRIES};

    return lib.queue_init(2 * LANES, ring, &params);
}

/* What forbids it, as far as that can be read. */
static void explain(int err, char *why, size_t why_bytes)
{
    FILE *file = fopen("/proc/sys/kernel/io_uring_disabled", "re");
    int disabled = 0;

    if (file != NULL) {
        if (fscanf(file, "%d", &disabled) != 1)
            disabled = 0;
        fclose(file);
    }
    snprintf(why, why_bytes, "the kernel refuses it: %s%s", strerror(-err),
             disabled != 0    ? " (sysctl kernel.io_uring_disabled)"
             : err == -EPERM  ? " (a container's seccomp filter forbids it)"
             : err == -ENOMEM ? " (locked memory: ulimit -l)"
                              : "");
}

bool braid_uring_open(char *why, size_t why_bytes)
{
    const char *const names[] = {braid_param_str(BRAID_P_URING_LIBRARY), NULL};
    struct io_uring ring;
    int err;

    if (lib.queue_init == NULL &&
        braid_dl_open(names, symbols, ARRAY_SIZE(symbols), &lib, why, why_bytes) != 0) {
        memset(&lib, 0, sizeof(lib));
        return false;
    }
    err = ring_init(&ring);
    if (err != 0)
        explain(err, why, why_bytes);
    else
        lib.queue_exit(&ring);
    return err == 0;
}

struct braid_uring *braid_uring_new(braid_uring_told_fn told, void *owner)
{
    struct braid_uring *ring = lib.queue_init != NULL ? calloc(1, sizeof(*ring)) : NULL;
    struct io_uring_probe *probe;

    if (ring == NULL || ring_init(&ring->ring) != 0) {
        free(ring);
        return NULL;
    }
    ring->told = told;
    ring->owner = owner;
    probe = lib.get_probe(&ring->ring);
    ring->zerocopy = ring->usage =
        probe != NULL && io_uring_opcode_supported(probe, IORING_OP_SEND_ZC);
    if (probe != NULL)
        lib.free_probe(probe);
    return ring;
}

void braid_uring_free(struct braid_uring *ring)
{
    if (ring == NULL)
        return;
    lib.queue_exit(&ring->ring);
    free(ring);
}

int braid_uring_fd(const struct braid_uring *ring)
{
    return ring->ring.ring_fd;
}

static uint64_t user_data(unsigned kind, unsigned slot, uint64_t value)
{
    return (uint64_t)kind << KIND_SHIFT | (uint64_t)slot << SLOT_SHIFT | value;
}

static void add_send(struct braid_uring *ring, struct batched *b)
{
    struct braid_socket_call *call = &b->tx;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);

    if (call->zerocopy && ring->zerocopy) { /* else it is copied, which is done at once */
        io_uring_prep_send_zc(sqe, b->lane->fd, call->iov[0].iov_base, call->iov[0].iov_len,
                              call->flags, ring->usage ? ZC_REPORT_USAGE : 0);
        io_uring_sqe_set_data64(sqe,
                                user_data(SEND_ZC, braid_zerocopy_slot(b->lane), b->lane->io_id));
    } else {
        io_uring_prep_sendmsg(sqe, b->lane->fd, &call->msg, (unsigned)call->flags);
        io_uring_sqe_set_data64(sqe, user_data(SEND, 0, ring->count));
    }
    ring->open++;
}

bool braid_uring_add(struct braid_uring *ring, struct braid_socket_lane *lane)
{
    struct batched *b = &ring->lanes[ring->count];

    if (ring->count == LANES || ring->broken)
        return false;
    b->lane = lane;
    b->sent = b->got = -EAGAIN;
    lane->io_moved = braid_socket_prepare(lane, &b->tx, &b->rx);
    if (lane->io_moved >= 0 && b->tx.wanted)
        add_send(ring, b);
    if (lane->io_moved >= 0 && b->rx.wanted) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);
        io_uring_prep_recvmsg(sqe, lane->fd, &b->rx.msg, (unsigned)b->rx.flags);
        io_uring_sqe_set_data64(sqe, user_data(RECEIVE, 0, ring->count));
        ring->open++;
    }
    ring->count++;
    return true;
}

static struct batched *batched_of(struct braid_uring *ring, uint64_t id)
{
    for (unsigned i = 0; i < ring->count; i++)
        if (ring->lanes[i].lane->io_id == id)
            return &ring->lanes[i];
    return NULL;
}

static void take(struct braid_uring *ring, const struct io_uring_cqe *cqe)
{
    unsigned kind = (unsigned)(cqe->user_data >> KIND_SHIFT);
    uint64_t value = cqe->user_data & ((1ull << SLOT_SHIFT) - 1);
    struct batched *b;

    if (kind == SEND_ZC && (cqe->flags & IORING_CQE_F_NOTIF)) {
        ring->told(ring->owner, value, (unsigned)(cqe->user_data >> SLOT_SHIFT) & 0xf,
                   ring->usage && ((uint32_t)cqe->res & ZC_COPIED));
        return;
    }
    b = kind == SEND_ZC       ? batched_of(ring, value)
        : value < ring->count ? &ring->lanes[value]
                              : NULL;
    if (b == NULL)
        return;
    ring->open--;
    if (kind == RECEIVE) {
        b->got = cqe->res;
        return;
    }
    b->sent = cqe->res;
    if (kind == SEND_ZC && (cqe->flags & IORING_CQE_F_MORE))
        braid_zerocopy_called(b->lane, true);
    if (kind == SEND_ZC && cqe->res == -EINVAL && ring->usage) {
        ring->usage = false; /* Linux 6.0 and 6.1 */
        b->sent = -ENOBUFS;  /* copied next time, then tried without */
    }
}

static void take_all(struct braid_uring *ring)
{
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    io_uring_for_each_cqe(&ring->ring, head, cqe)
    {
        take(ring, cqe);
        count++;
    }
    io_uring_cq_advance(&ring->ring, count);
}

/* Calls that the kernel has not taken are taken back: they count as refused by full sockets, and lanes go on without the ring. */
static void give_up(struct braid_uring *ring, int error)
{
    struct io_uring_sq *sq = &ring->ring.sq;
    unsigned taken = io_uring_smp_load_acquire(sq->khead);

    BRAID_WARN("io_uring takes no more calls: %s; an I/O thread goes on without it",
               strerror(-error));
    ring->broken = true;
    ring->open -= sq->sqe_tail - taken;
    sq->sqe_head = sq->sqe_tail = taken;
    io_uring_smp_store_release(sq->ktail, taken);
}

/* Looks at the outcome of one attempt to hand calls over. */
static void submitted(struct braid_uring *ring, int result)
{
    uint64_t now;

    take_all(ring);
    if (result > 0 || ring->broken || io_uring_sq_ready(&ring->ring) == 0) {
        ring->refused_ns = 0;
        return;
    }
    now = braid_now_ns();
    if (ring->refused_ns == 0)
        ring->refused_ns = now;
    if ((result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY &&
         result != -ENOMEM) ||
        now - ring->refused_ns > REFUSED_NS)
        give_up(ring, result < 0 ? result : -EAGAIN);
}

void braid_uring_flush(struct braid_uring *ring)
{
    if (ring->open > 0)
        submitted(ring, lib.submit(&ring->ring));
    while (ring->open > 0) /* a call that did not end at once; it will: none of them waits */
        submitted(ring, lib.submit_and_wait(&ring->ring, 1));
    for (unsigned i = 0; i < ring->count; i++) {
        struct batched *b = &ring->lanes[i];
        if (b->lane->io_moved >= 0)
            b->lane->io_moved =
                braid_socket_finish(b->lane, &b->tx, b->sent, &b->rx, b->got) | b->lane->io_moved;
    }
    ring->count = 0;
}

void braid_uring_reap(struct braid_uring *ring)
{
    if (IO_URING_READ_ONCE(*ring->ring.sq.kflags) & IORING_SQ_CQ_OVERFLOW)
        lib.get_events(&ring->ring);
    take_all(ring);
}
