/*
 * All-gather and all-to-all by copy engines: no kernel, no SM. The user's stream carries copies into the peers' memory and stream
 * memory operations on flag words; all of it can be captured, so every flag is a constant: 1 = set by the peer, 0 = taken back by
 * the owner.
 *
 * Words of a rank, by peer (struct words): ready = the peer has begun, its `out` may be written; undone = not 0 until the peer has
 * finished: its copies are here; piece[k] = the peer has saved its piece k (all-to-all in place), that part of its buffer may be written.
 *     set every own undone; write ready to every peer; wait for every own ready, take it back; copy; copy the communicator's sticky error
 *     into every peer's undone; wait until every own undone is 0
 * Why constants are enough: a peer sets its ready of the next operation after it has seen this rank's undone change, which this rank does
 * after it has taken back ready and pieces; it changes undone of the next operation after it has seen this rank's next ready (or piece),
 * which follows the setting of undone.
 * Why undone is a copy of the sticky error, 0 while nothing has failed: a rank that has failed, here or in a kernel, leaves the peers
 * waiting, who then fail as well. So no rank ends with status 0 on copies that a released stream made.
 *
 * A stream's wait cannot time out. So a watchdog thread (one a braid_ops, started by the first operation, asleep most of the time) looks at a word in
 * host memory that the stream sets to 1 at the beginning and to 0 at the end. The thread changes 1 to 2; a word that stays 2 for the
 * communicator's bound belongs to one operation that is late (any later one would have written 1 or 0). Then the thread records the
 * error, sets the sticky one, after it the late flags, and goes on until the stream is through: it delivers garbage and the host
 * knows. Its copies cannot be taken back: they go into the `out` of a peer that has not begun, and what that peer keeps there until it
 * begins is overwritten (then it fails as well).
 * Called by collectives.c. Threading: as ops.h says; the watchdog reads the engine's constant fields, `busy` and `stop`.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "common/util.h"
#include "device/host/driver.h"
#include "device/host/inside.h"
#include "device/ops/ops.h"

#define SIDE_STREAMS 4u
/* streams can share a hardware queue with the one that is stuck; not all of these do */
#define WATCH_STREAMS 4u
#define TICK_NS       (20 * BRAID_NS_PER_MS)

struct words {
    uint32_t ready;
    uint32_t undone;
    uint32_t piece[BRAID_ENGINE_PIECES];
};
_Static_assert(sizeof(struct words) == 4 * BRAID_ENGINE_WORDS, "engine words");
_Static_assert(sizeof(struct words) <= 128, "come");

struct braid_engine {
    struct braid_ops *ops;
    uint64_t busy_device; /* the GPU's address of `busy` */
    uint64_t sticky;      /* of the communicator's sticky error; device memory */
    /* pinned host memory: 0 idle, 1 an operation has begun, 2 seen by the watchdog */
    _Atomic uint32_t *busy;
    void *side[SIDE_STREAMS];
    void *fork; /* events */
    void *join[SIDE_STREAMS];
    void *saved[BRAID_ENGINE_PIECES];
    /* in the same host memory, what the watchdog writes: the words of a peer that has come, and the sticky error */
    struct words *come;
    int32_t *status;
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

/* The first of a batch: no peer has finished this operation. */
static void begin_batch(struct braid_engine *e, struct batch *b)
{
    const struct braid_ops_layout *l = &e->ops->layout;

    for (uint32_t hop = 1; hop < l->ranks; hop++)
        add(b, BRAID_CU_OP_WRITE_32,
            words_of(e, l->rank, next_rank(e, hop)) + offsetof(struct words, undone), 1);
    add(b, BRAID_CU_OP_WRITE_32, e->busy_device, 1);
}

/* Every rank tells every other that it has begun, and waits until every other has told it. */
static int meet(struct braid_engine *e, void *stream)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    size_t member = offsetof(struct words, ready);
    struct batch b = {0};

    begin_batch(e, &b);
    for (uint32_t hop = 1; hop < l->ranks; hop++)
        add(&b, BRAID_CU_OP_WRITE_32, words_of(e, next_rank(e, hop), l->rank) + member, 1);
    for (uint32_t hop = 1; hop < l->ranks; hop++)
        add(&b, BRAID_CU_OP_WAIT_32, words_of(e, l->rank, next_rank(e, hop)) + member, 1);
    for (uint32_t hop = 1; hop < l->ranks; hop++)
        add(&b, BRAID_CU_OP_WRITE_32, words_of(e, l->rank, next_rank(e, hop)) + member, 0);
    return send(e, &b, stream);
}

/* Every rank tells every other that its copies are there, unless it has failed, and waits until every other has told it. */
static int leave(struct braid_engine *e, void *stream)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    size_t member = offsetof(struct words, undone);
    int result = BRAID_CU_SUCCESS;
    struct batch b = {0};

    for (uint32_t hop = 1; hop < l->ranks && result == BRAID_CU_SUCCESS; hop++)
        result = e->ops->cuda->copy(words_of(e, next_rank(e, hop), l->rank) + member, e->sticky,
                                    sizeof(uint32_t), stream);
    for (uint32_t hop = 1; hop < l->ranks; hop++)
        add(&b, BRAID_CU_OP_WAIT_32, words_of(e, l->rank, next_rank(e, hop)) + member, 0);
    add(&b, BRAID_CU_OP_WRITE_32, e->busy_device, 0);
    return result != BRAID_CU_SUCCESS ? result : send(e, &b, stream);
}

/* Lets side stream `i` begin where `stream` is, and end before what follows in `stream`. */
static int fork_side(struct braid_engine *e, uint32_t i, void *stream)
{
    const struct braid_ops_cuda *cuda = e->ops->cuda;
    int result = cuda->event_record(e->fork, stream);

    return result != BRAID_CU_SUCCESS ? result : cuda->stream_wait(e->side[i], e->fork, 0);
}

static int join_side(struct braid_engine *e, uint32_t i, void *stream)
{
    const struct braid_ops_cuda *cuda = e->ops->cuda;
    int result = cuda->event_record(e->join[i], e->side[i]);

    return result != BRAID_CU_SUCCESS ? result : cuda->stream_wait(stream, e->join[i], 0);
}

/* This rank's block from its own `in` to its own `out`, if they are apart: on the last side stream, from the operation's beginning on. */
static int copy_own(struct braid_engine *e, const struct braid_engine_job *job, void *stream)
{
    uint64_t block = job->block * e->ops->layout.rank;
    uint64_t from = job->in + (job->same ? 0 : block), to = job->out + block;
    int result;

    if (from == to)
        return BRAID_CU_SUCCESS;
    result = fork_side(e, SIDE_STREAMS - 1, stream);
    return result != BRAID_CU_SUCCESS
               ? result
               : e->ops->cuda->copy(to, from, job->block, e->side[SIDE_STREAMS - 1]);
}

static int join_own(struct braid_engine *e, const struct braid_engine_job *job, void *stream)
{
    uint64_t block = job->block * e->ops->layout.rank;

    return job->in + (job->same ? 0 : block) == job->out + block
               ? BRAID_CU_SUCCESS
               : join_side(e, SIDE_STREAMS - 1, stream);
}

/* Straight into the peers' results: one peer on the user's stream, the others on side streams. */
static int push_direct(struct braid_engine *e, const struct braid_engine_job *job, void *stream)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    const struct braid_ops_cuda *cuda = e->ops->cuda;
    uint32_t sides = MIN(l->ranks - 2, SIDE_STREAMS - 1);
    int result = BRAID_CU_SUCCESS;

    for (uint32_t i = 0; i < sides && result == BRAID_CU_SUCCESS; i++)
        result = fork_side(e, i, stream);
    for (uint32_t hop = 1; hop < l->ranks && result == BRAID_CU_SUCCESS; hop++) {
        uint32_t peer = next_rank(e, hop);
        uint64_t to = (uint64_t)(uintptr_t)braid_window_address(job->result, (int)peer) +
                      job->offset + job->block * l->rank;

        result = cuda->copy(to, job->in + (job->same ? 0 : job->block * peer), job->block,
                            hop == 1 ? stream : e->side[(hop - 2) % (SIDE_STREAMS - 1)]);
    }
    for (uint32_t i = 0; i < sides && result == BRAID_CU_SUCCESS; i++)
        result = join_side(e, i, stream);
    return result;
}

/*
 * All-to-all on one buffer: what this rank sends is saved in its own staging first, on a side stream, in two pieces; a peer pushes a
 * piece straight home once it is saved here. Saving is several times as fast as the link, so the first piece is as small as it can
 * be without making the second one late. Takes the place of the first meeting: a saved piece also says that its rank has begun.
 */
static int swap_in_place(struct braid_engine *e, const struct braid_engine_job *job, void *stream)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    const struct braid_ops_cuda *cuda = e->ops->cuda;
    uint64_t saved =
        (uint64_t)(uintptr_t)braid_window_address(e->ops->window, (int)l->rank) + l->staging;
    uint64_t end[BRAID_ENGINE_PIECES] = {
        job->block > (2u << 20) ? job->block / 6 & ~65535ull : job->block, job->block};
    struct batch begin = {0};
    int result;

    begin_batch(e, &begin);
    result = send(e, &begin, stream);
    if (result == BRAID_CU_SUCCESS)
        result = fork_side(e, 0, stream);
    for (uint32_t k = 0; result == BRAID_CU_SUCCESS; k++) {
        uint64_t first = k == 0 ? 0 : end[k - 1], bytes = end[k] - first;
        size_t member = offsetof(struct words, piece) + 4 * k;
        struct batch tell = {0}, hear = {0};

        for (uint32_t hop = 1; hop < l->ranks && result == BRAID_CU_SUCCESS; hop++) {
            uint32_t peer = next_rank(e, hop);

            result = cuda->copy(saved + (hop - 1) * l->staging_slot + first,
                                job->in + job->block * peer + first, bytes, e->side[0]);
            add(&tell, BRAID_CU_OP_WRITE_32, words_of(e, peer, l->rank) + member, 1);
            add(&hear, BRAID_CU_OP_WAIT_32, words_of(e, l->rank, peer) + member, 1);
            add(&hear, BRAID_CU_OP_WRITE_32, words_of(e, l->rank, peer) + member, 0);
        }
        if (result == BRAID_CU_SUCCESS)
            result = send(e, &tell, e->side[0]);
        if (result == BRAID_CU_SUCCESS)
            result = cuda->event_record(e->saved[k], e->side[0]);
        if (result == BRAID_CU_SUCCESS)
            result = cuda->stream_wait(stream, e->saved[k], 0);
        if (result == BRAID_CU_SUCCESS)
            result = send(e, &hear, stream);
        for (uint32_t hop = 1; hop < l->ranks && result == BRAID_CU_SUCCESS; hop++)
            result = cuda->copy(
                (uint64_t)(uintptr_t)braid_window_address(job->result, (int)next_rank(e, hop)) +
                    job->offset + job->block * l->rank + first,
                saved + (hop - 1) * l->staging_slot + first, bytes, stream);
        if (end[k] == job->block)
            break;
    }
    return result;
}

/*
 * Sets every flag that this rank may be waiting for, so that its stream goes on; before them the sticky error, so that it tells the peers
 * nothing. Waits for nothing: called again until the stream is through.
 */
static void release(struct braid_engine *e, int status)
{
    const struct braid_ops_layout *l = &e->ops->layout;
    void *context;

    if (e->ops->cuda->context_push(e->ops->context) != BRAID_CU_SUCCESS)
        return;
    for (uint32_t i = 0; i < WATCH_STREAMS; i++) {
        if (e->ops->cuda->stream_query(e->watch_stream[i]) != BRAID_CU_SUCCESS)
            continue;
        *e->status = status; /* the same at every call: the first failure's */
        if (e->ops->cuda->copy_to_device(e->sticky, e->status, sizeof(*e->status),
                                         e->watch_stream[i]) != BRAID_CU_SUCCESS)
            continue;
        for (uint32_t hop = 1; hop < l->ranks; hop++)
            e->ops->cuda->copy_to_device(words_of(e, l->rank, next_rank(e, hop)), e->come,
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
        release(e, status);
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
    if (braid_thread_start(&e->thread, "braid-engine", watch, e) != 0) {
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
    e->sticky = braid_comm_device(ops->comm)->state + offsetof(struct braid_devcomm_state, error);
    result = ops->cuda->host_alloc((void **)&e->busy, 256,
                                   BRAID_CU_HOST_PORTABLE | BRAID_CU_HOST_DEVICEMAP);
    if (result == BRAID_CU_SUCCESS) {
        atomic_store(e->busy, 0);
        e->come = (void *)((char *)e->busy + 128);
        *e->come = (struct words){.ready = 1, .undone = 0};
        for (uint32_t i = 0; i < BRAID_ENGINE_PIECES; i++)
            e->come->piece[i] = 1;
        e->status = (void *)((char *)e->busy + 64);
        result = ops->cuda->host_device_pointer(&e->busy_device, (void *)e->busy, 0);
    }
    for (uint32_t i = 0; i < SIDE_STREAMS && result == BRAID_CU_SUCCESS; i++) {
        result = ops->cuda->stream_create(&e->side[i], BRAID_CU_STREAM_NON_BLOCKING);
        if (result == BRAID_CU_SUCCESS)
            result = ops->cuda->event_create(&e->join[i], BRAID_CU_EVENT_NO_TIMING);
    }
    for (uint32_t i = 0; i < BRAID_ENGINE_PIECES && result == BRAID_CU_SUCCESS; i++)
        result = ops->cuda->event_create(&e->saved[i], BRAID_CU_EVENT_NO_TIMING);
    if (result == BRAID_CU_SUCCESS)
        result = ops->cuda->event_create(&e->fork, BRAID_CU_EVENT_NO_TIMING);
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

int braid_engine_run(struct braid_ops *ops, const struct braid_engine_job *job, void *stream)
{
    struct braid_engine *e = ops->engine;
    int result, rc;

    if (job->in_place && job->block > ops->layout.staging_slot)
        return -EMSGSIZE;
    rc = e->started ? 0 : start_watchdog(e);
    if (rc != 0)
        return rc;
    if (job->in_place) {
        result = swap_in_place(e, job, stream);
        if (result == BRAID_CU_SUCCESS)
            result = leave(e, stream);
    } else {
        result = copy_own(e, job, stream);
        if (result == BRAID_CU_SUCCESS)
            result = meet(e, stream);
        if (result == BRAID_CU_SUCCESS)
            result = push_direct(e, job, stream);
        if (result == BRAID_CU_SUCCESS)
            result = leave(e, stream);
        if (result == BRAID_CU_SUCCESS)
            result = join_own(e, job, stream);
    }
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
        if (e->join[i] != NULL)
            cuda->event_destroy(e->join[i]);
    }
    for (uint32_t i = 0; i < BRAID_ENGINE_PIECES; i++) {
        if (e->saved[i] != NULL)
            cuda->event_destroy(e->saved[i]);
    }
    if (e->fork != NULL)
        cuda->event_destroy(e->fork);
    for (uint32_t i = 0; i < WATCH_STREAMS; i++) {
        if (e->watch_stream[i] != NULL)
            cuda->stream_destroy(e->watch_stream[i]);
    }
    if (e->busy != NULL)
        cuda->host_free((void *)e->busy);
    free(e);
}
