/*
 * All-gather and all-to-all by copy engines: no kernel, no SM. The user's stream carries copies into the peers' memory and stream
 * memory operations on flag words; all of it can be captured, so every flag is a constant: 1 = set by the peer, 0 = taken back by
 * the owner.
 *
 * Words of a rank, by peer (struct words): ready = the peer has begun, its `out` may be written; done = the peer has finished: its
 * copies are here; piece[k] = the peer has saved its piece k (all-to-all in place), that part of its buffer may be written.
 *     write ready to every peer; wait for every own ready, take it back; copy; set done on every peer; wait for every own done, take it
 *     back
 * Changing between copies and stream memory operations costs a stream about 3 us each time. So done is set by a copy of a word behind the
 * data, and the waits for done are on a stream of their own that has nothing else to do.
 * Why constants are enough: a peer sets its ready of the next operation after it has seen this rank's done, which this rank writes
 * after it has taken back ready and pieces; it sets done of the next operation after it has seen this rank's next ready (or piece),
 * which follows the taking back of done.
 *
 * A stream's wait cannot time out. So a watchdog thread (one a braid_ops, started by the first operation, asleep most of the time) looks at a word in
 * host memory that the stream sets to 1 at the beginning and to 0 at the end. The thread changes 1 to 2; a word that stays 2 for the
 * communicator's bound belongs to one operation that is late (any later one would have written 1 or 0). Then the thread records the
 * error, sets the late flags itself, and goes on until the stream is through: it delivers garbage and the host knows.
 * Called by collectives.c. Threading: as ops.h says; the watchdog reads the engine's constant fields, `busy` and `stop`.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "device/host/driver.h"
#include "device/host/inside.h"
#include "device/ops/ops.h"

/* Side streams: pushes to all peers but one, the own block, waits and what follows from them. */
enum { PUSHES = 2, OWN = 2, WAITS = 3, SIDE_STREAMS = 4 };

/* Events, one a dependency, so that a captured graph has no more edges than these. */
enum { EVENT_BEGIN, EVENT_MET, EVENT_BACK, EVENT_END, EVENT_OWN, EVENT_FORK, EVENT_JOIN, EVENTS };

#define WATCH_STREAMS                                                                              \
    4u /* streams can share a hardware queue with the one that is stuck; not all of these do */
#define TICK_NS (20 * BRAID_NS_PER_MS)

struct words {
    uint32_t ready;
    uint32_t done;
    uint32_t piece[BRAID_ENGINE_PIECES];
};
_Static_assert(sizeof(struct words) == 4 * BRAID_ENGINE_WORDS, "engine words");
_Static_assert(sizeof(struct words) <= 128, "ones");

struct braid_engine {
    struct braid_ops *ops;
    uint64_t busy_device; /* the GPU's address of `busy` */
    _Atomic uint32_t
        *busy; /* pinned host memory: 0 idle, 1 an operation has begun, 2 seen by the watchdog */
    void *side[SIDE_STREAMS];
    void *event[EVENTS];
    void *saved[BRAID_ENGINE_PIECES];
    uint64_t one;   /* a word of GPU memory that is 1 */
    uint32_t *ones; /* in the same host memory: what the watchdog writes */
    void *watch_stream[WATCH_STREAMS];
    pthread_t thread;
    bool started;
    _Atomic bool stop;
};

/* A batch of stream memory operations that is being filled. */
struct batch {
    uint32_t count;
    struct braid_cu_stream_op op[4 * BRAID_OPS_RANKS + 2];
};

static void add(struct batch *b, int operation, uint64_t address, uint32_t value)
{
    struct braid_cu_stream_op *op = &b->op[b->count++];

    memset(op, 0, sizeof(*op));
    op->operation = operation;
    op->address = address;
    op->value = value;
    op->flags = operation == BRAID_CU_OP_WAIT_32 ? BRAID_CU_WAIT_EQUAL : 0;
}

static int send(struct braid_engine *e, struct batch *b, void *stream)
{
    int result =
        b->count == 0 ? BRAID_CU_SUCCESS : e->ops->cuda->stream_ops(stream, b->count, b->op, 0);

    b->count = 0;
    return result;
}

/* Address of the words that rank `owner` keeps about rank `about`. */
static uint64_t words_of(const struct braid_engine *e, uint32_t owner, uint32_t about)
{
    const struct braid_ops *ops = e->ops;

    return (uint64_t)(uintptr_t)braid_window_address(ops->window, (int)owner) + ops->engine_words +
           sizeof(struct words) * about;
}

static uint32_t next_rank(const struct braid_engine *e, uint32_t hop)
{
    return (e->ops->layout.rank + hop) % e->ops->layout.ranks;
}

/* Adds a wait for every peer's word at `member`, and its taking back. */
static void hear(struct braid_engine *e, struct batch *b, size_t member)
{
    const struct braid_ops_layout *l = &e->ops->layout;

    for (uint32_t hop = 1; hop < l->ranks; hop++)
        add(b, BRAID_CU_OP_WAIT_32, words_of(e, l->rank, next_rank(e, hop)) + member, 1);
    for (uint32_t hop = 1; hop < l->ranks; hop++)
        add(b, BRAID_CU_OP_WRITE_32, words_of(e, l->rank, next_rank(e, hop)) + member, 0);
}

/* Sets the word at `member` on `peer` by a copy: behind another copy of the stream that is quicker than a stream's write, which goes
 * through another engine and fences first. */
static int tell_by_copy(struct braid_engine *e, uint32_t peer, size_t member, void *stream)
{
    return e->ops->cuda->copy(words_of(e, peer, e->ops->layout.rank) + member, e->one,
                              sizeof(uint32_t), stream);
}

/* Lets what follows in stream `to` begin after what is in stream `from` now; `event` is free for it. */
static int after(struct braid_engine *e, void *to, void *from, void *event)
{
    const struct braid_ops_cuda *cuda = e->ops->cuda;
    int result = cuda->event_record(event, from);

    return result != BRAID_CU_SUCCESS ? result : cuda->stream_wait(to, event, 0);
}

#define DO(call)                                                                                   \
    do {                                                                                           \
        int result_ = (call);                                                                      \
        if (result_ != BRAID_CU_SUCCESS)                                                           \
            return result_;                                                                        \
    } while (0)

/* The wait stream begins with the operation: the watchdog's word. */
static int begin(struct braid_engine *e, void *stream)
{
    struct batch b = {0};

    DO(after(e, e->side[WAITS], stream, e->event[EVENT_BEGIN]));
    add(&b, BRAID_CU_OP_WRITE_32, e->busy_device, 1);
    return send(e, &b, e->side[WAITS]);
}

/* And ends with it: every peer's done; `stream` goes on after it. */
static int end(struct braid_engine *e, void *stream)
{
    struct batch b = {0};

    hear(e, &b, offsetof(struct words, done));
    add(&b, BRAID_CU_OP_WRITE_32, e->busy_device, 0);
    DO(send(e, &b, e->side[WAITS]));
    return after(e, stream, e->side[WAITS], e->event[EVENT_END]);
}

/* This rank's block from its own `in` to its own `out`, if they are apart, beside everything else. */
static bool has_own(const struct braid_engine *e, const struct braid_engine_job *job)
{
    uint64_t block = job->block * e->ops->layout.rank;

    return !job->in_place && job->in + (job->same ? 0 : block) != job->out + block;
}

static int copy_own(struct braid_engine *e, const struct braid_engine_job *job, void *stream)
{
    uint64_t block = job->block * e->ops->layout.rank;

    if (!has_own(e, job))
        return BRAID_CU_SUCCESS;
    DO(after(e, e->side[OWN], stream, e->event[EVENT_OWN]));
    return e->ops->cuda->copy(job->out + block, job->in + (job->same ? 0 : block), job->block,
                              e->side[OWN]);
}

/* Every rank says that it has begun and waits for the others; the words are taken back on the wait stream, before anyone is told done. */
static int meet(struct braid_engine *e, void *stream)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    size_t ready = offsetof(struct words, ready);
    struct batch b = {0}, back = {0};

    for (uint32_t hop = 1; hop < l->ranks; hop++)
        add(&b, BRAID_CU_OP_WRITE_32, words_of(e, next_rank(e, hop), l->rank) + ready, 1);
    for (uint32_t hop = 1; hop < l->ranks; hop++) {
        add(&b, BRAID_CU_OP_WAIT_32, words_of(e, l->rank, next_rank(e, hop)) + ready, 1);
        add(&back, BRAID_CU_OP_WRITE_32, words_of(e, l->rank, next_rank(e, hop)) + ready, 0);
    }
    DO(send(e, &b, stream));
    DO(after(e, e->side[WAITS], stream, e->event[EVENT_MET]));
    return send(e, &back, e->side[WAITS]);
}

/* Straight into the peers' results and then the done words: the first peer on the user's stream, the others on side streams. */
static int push_direct(struct braid_engine *e, const struct braid_engine_job *job, void *stream)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    uint32_t sides = MIN(l->ranks - 2, PUSHES);

    for (uint32_t i = 0; i < sides; i++)
        DO(after(e, e->side[i], stream, e->event[EVENT_FORK]));
    for (uint32_t hop = 1; hop < l->ranks; hop++) {
        uint32_t peer = next_rank(e, hop);
        uint64_t to = (uint64_t)(uintptr_t)braid_window_address(job->result, (int)peer) +
                      job->offset + job->block * l->rank;
        void *lane = hop == 1 ? stream : e->side[(hop - 2) % PUSHES];

        DO(e->ops->cuda->copy(to, job->in + (job->same ? 0 : job->block * peer), job->block, lane));
    }
    for (uint32_t hop = 1; hop < l->ranks; hop++) {
        void *lane = hop == 1 ? stream : e->side[(hop - 2) % PUSHES];

        if (hop - 1 <= sides) /* the first on this lane: the ready words are taken back */
            DO(after(e, lane, e->side[WAITS], e->event[EVENT_BACK]));
        DO(tell_by_copy(e, next_rank(e, hop), offsetof(struct words, done), lane));
    }
    for (uint32_t i = 0; i < sides; i++)
        DO(after(e, stream, e->side[i], e->event[EVENT_JOIN]));
    return BRAID_CU_SUCCESS;
}

static int run_direct(struct braid_engine *e, const struct braid_engine_job *job, void *stream)
{
    DO(begin(e, stream));
    DO(copy_own(e, job, stream));
    DO(meet(e, stream));
    DO(push_direct(e, job, stream));
    DO(end(e, stream));
    return has_own(e, job) ? after(e, stream, e->side[OWN], e->event[EVENT_OWN]) : BRAID_CU_SUCCESS;
}

/* Copies piece [first, first + bytes) of what goes to every peer to the own staging, and tells the peers that it is safe there. */
static int save_piece(struct braid_engine *e, const struct braid_engine_job *job, uint32_t k,
                      uint64_t first, uint64_t bytes)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    uint64_t staging =
        (uint64_t)(uintptr_t)braid_window_address(e->ops->window, (int)l->rank) + l->staging;

    for (uint32_t hop = 1; hop < l->ranks; hop++)
        DO(e->ops->cuda->copy(staging + (hop - 1) * l->staging_slot + first,
                              job->in + job->block * next_rank(e, hop) + first, bytes, e->side[0]));
    for (uint32_t hop = 1; hop < l->ranks; hop++)
        DO(tell_by_copy(e, next_rank(e, hop), offsetof(struct words, piece) + 4 * k, e->side[0]));
    return BRAID_CU_SUCCESS;
}

static int push_piece(struct braid_engine *e, const struct braid_engine_job *job, uint64_t first,
                      uint64_t bytes, void *stream)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    uint64_t staging =
        (uint64_t)(uintptr_t)braid_window_address(e->ops->window, (int)l->rank) + l->staging;

    for (uint32_t hop = 1; hop < l->ranks; hop++) {
        uint64_t to =
            (uint64_t)(uintptr_t)braid_window_address(job->result, (int)next_rank(e, hop)) +
            job->offset + job->block * l->rank;

        DO(e->ops->cuda->copy(to + first, staging + (hop - 1) * l->staging_slot + first, bytes,
                              stream));
    }
    return BRAID_CU_SUCCESS;
}

/*
 * All-to-all on one buffer: what this rank sends is saved in its own staging first, on a side stream, in two pieces; a peer pushes a
 * piece straight home once it is saved here. Saving is several times as fast as the link, so the first piece is as small as it can
 * be without making the second one late. A saved piece also says that its rank has begun.
 */
static int run_in_place(struct braid_engine *e, const struct braid_engine_job *job, void *stream)
{
    uint64_t cut = job->block > (2u << 20) ? job->block / 6 & ~65535ull : job->block;
    uint32_t pieces = cut == job->block ? 1 : 2;

    DO(begin(e, stream));
    DO(after(e, e->side[0], stream, e->event[EVENT_FORK]));
    for (uint32_t k = 0; k < pieces; k++) {
        DO(save_piece(e, job, k, k * cut, k == 0 ? cut : job->block - cut));
        DO(e->ops->cuda->event_record(e->saved[k], e->side[0]));
    }
    for (uint32_t k = 0; k < pieces; k++) {
        struct batch b = {0};

        hear(e, &b, offsetof(struct words, piece) + 4 * k);
        DO(send(e, &b, e->side[WAITS]));
        DO(after(e, stream, e->side[WAITS], e->event[EVENT_MET]));
        DO(e->ops->cuda->stream_wait(stream, e->saved[k], 0));
        DO(push_piece(e, job, k * cut, k == 0 ? cut : job->block - cut, stream));
    }
    for (uint32_t hop = 1; hop < e->ops->layout.ranks; hop++)
        DO(tell_by_copy(e, next_rank(e, hop), offsetof(struct words, done), stream));
    return end(e, stream);
}

/* Sets every flag that this rank may be waiting for, so that its stream goes on. Waits for nothing: called again until it is through. */
static void release(struct braid_engine *e)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    void *context;

    if (e->ops->cuda->context_push(e->ops->context) != BRAID_CU_SUCCESS)
        return;
    for (uint32_t i = 0; i < WATCH_STREAMS; i++) {
        if (e->ops->cuda->stream_query(e->watch_stream[i]) != BRAID_CU_SUCCESS)
            continue;
        for (uint32_t hop = 1; hop < l->ranks; hop++)
            e->ops->cuda->copy_to_device(words_of(e, l->rank, next_rank(e, hop)), e->ones,
                                         sizeof(struct words), e->watch_stream[i]);
    }
    e->ops->cuda->context_pop(&context);
}

/* One look at the word. *since_ns is when the watchdog marked it, 0 = it has not. */
static void look(struct braid_engine *e, uint64_t *since_ns)
{
    uint64_t now = braid_now_ns(), bound = braid_comm_timeout_ns(e->ops->comm);
    uint32_t seen = 1;
    int status;

    if (atomic_compare_exchange_strong(e->busy, &seen, 2)) {
        *since_ns = now;
        return;
    }
    if (seen == 0 || *since_ns == 0)
        return;
    status = braid_comm_error(e->ops->comm, NULL);
    if (status == 0 && now - *since_ns > bound) {
        struct braid_devcomm_error reason = {
            .status = BRAID_DEV_TIMEOUT,
            .wait = BRAID_WAIT_ENGINE,
            .peer = -1,
            .expected = 1,
            .waited_ns = now - *since_ns,
        };

        BRAID_WARN(
            "rank %u: an operation by copy engines was not over after %llu ms; its waits are "
            "released and the communicator has failed",
            e->ops->layout.rank, (unsigned long long)((now - *since_ns) / BRAID_NS_PER_MS));
        braid_comm_record(e->ops->comm, &reason);
        status = BRAID_DEV_TIMEOUT;
    }
    if (status != 0)
        release(e);
}

static void *watch(void *argument)
{
    struct braid_engine *e = argument;
    uint64_t since_ns = 0;

    while (!atomic_load_explicit(&e->stop, memory_order_relaxed)) {
        braid_sleep_ns(TICK_NS);
        look(e, &since_ns);
    }
    return NULL;
}

static int start_watchdog(struct braid_engine *e)
{
    if (pthread_create(&e->thread, NULL, watch, e) != 0) {
        BRAID_WARN("the thread that bounds copy engines' waits cannot be started");
        return -EAGAIN;
    }
    e->started = true;
    return 0;
}

int braid_engine_create(struct braid_ops *ops, struct braid_engine **engine_p)
{
    struct braid_engine *e = calloc(1, sizeof(*e));
    int result;

    if (e == NULL)
        return -ENOMEM;
    e->ops = ops;
    result = ops->cuda->host_alloc((void **)&e->busy, 256,
                                   BRAID_CU_HOST_PORTABLE | BRAID_CU_HOST_DEVICEMAP);
    if (result == BRAID_CU_SUCCESS) {
        atomic_store(e->busy, 0);
        e->ones = (uint32_t *)(void *)e->busy + 32;
        for (uint32_t i = 0; i < BRAID_ENGINE_WORDS; i++)
            e->ones[i] = 1;
        result = ops->cuda->host_device_pointer(&e->busy_device, (void *)e->busy, 0);
    }
    for (uint32_t i = 0; i < SIDE_STREAMS && result == BRAID_CU_SUCCESS; i++) {
        result = ops->cuda->stream_create(&e->side[i], BRAID_CU_STREAM_NON_BLOCKING);
    }
    for (uint32_t i = 0; i < EVENTS && result == BRAID_CU_SUCCESS; i++)
        result = ops->cuda->event_create(&e->event[i], BRAID_CU_EVENT_NO_TIMING);
    for (uint32_t i = 0; i < BRAID_ENGINE_PIECES && result == BRAID_CU_SUCCESS; i++)
        result = ops->cuda->event_create(&e->saved[i], BRAID_CU_EVENT_NO_TIMING);
    for (uint32_t i = 0; i < WATCH_STREAMS && result == BRAID_CU_SUCCESS; i++)
        result = ops->cuda->stream_create(&e->watch_stream[i], BRAID_CU_STREAM_NON_BLOCKING);
    if (result != BRAID_CU_SUCCESS)
        BRAID_WARN("copy engines: streams and events cannot be made: %s", braid_cuda_name(result));
    if (result != BRAID_CU_SUCCESS) {
        braid_engine_destroy(e);
        return braid_cuda_errno(result);
    }
    *engine_p = e;
    return 0;
}

int braid_engine_ready(struct braid_engine *e)
{
    struct braid_ops *ops = e->ops;
    uint64_t one = ops->engine_words + sizeof(struct words) * ops->layout.ranks;
    int result;

    e->one = (uint64_t)(uintptr_t)braid_window_address(ops->window, (int)ops->layout.rank) + one;
    result = ops->cuda->copy_to_device(e->one, e->ones, sizeof(uint32_t), e->watch_stream[0]);
    if (result == BRAID_CU_SUCCESS)
        result = ops->cuda->stream_synchronize(e->watch_stream[0]);
    return braid_cuda_errno(result);
}

int braid_engine_run(struct braid_ops *ops, const struct braid_engine_job *job, void *stream)
{
    struct braid_engine *e = ops->engine;
    int result, rc;

    if (job->in_place && job->block > ops->layout.staging_slot)
        return -EMSGSIZE;
    rc = e->started ? 0 : start_watchdog(e);
    if (rc != 0)
        return rc;
    result = job->in_place ? run_in_place(e, job, stream) : run_direct(e, job, stream);
    if (result != BRAID_CU_SUCCESS)
        BRAID_WARN("copy engines: the operation cannot be put into the stream: %s",
                   braid_cuda_name(result));
    return braid_cuda_errno(result);
}

void braid_engine_destroy(struct braid_engine *e)
{
    const struct braid_ops_cuda *cuda;

    if (e == NULL)
        return;
    cuda = e->ops->cuda;
    if (e->started) {
        atomic_store_explicit(&e->stop, true, memory_order_relaxed);
        pthread_join(e->thread, NULL);
    }
    for (uint32_t i = 0; i < SIDE_STREAMS; i++) {
        if (e->side[i] != NULL)
            cuda->stream_destroy(e->side[i]);
    }
    for (uint32_t i = 0; i < BRAID_ENGINE_PIECES; i++) {
        if (e->saved[i] != NULL)
            cuda->event_destroy(e->saved[i]);
    }
    for (uint32_t i = 0; i < EVENTS; i++) {
        if (e->event[i] != NULL)
            cuda->event_destroy(e->event[i]);
    }
    for (uint32_t i = 0; i < WATCH_STREAMS; i++) {
        if (e->watch_stream[i] != NULL)
            cuda->stream_destroy(e->watch_stream[i]);
    }
    if (e->busy != NULL)
        cuda->host_free((void *)e->busy);
    free(e);
}
