/*
 * The I/O threads; see io.h. Each thread owns an epoll set and a short list of lanes that it is working on. Who arms a lane puts it into its
 * thread's mailbox, and wakes the thread if it sleeps: callers arm for every message, so a system call is made only then. Lanes enter the set
 * when they rest, one event at a time (EPOLLONESHOT), and are named in it by an id, so that an event for a lane that has gone is harmless.
 * `run` of a thread is held while it works, not while it sleeps: who has it knows that the thread touches no lane.
 */
#include "net-plugin/socket/io.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/param.h"
#include "common/thread.h"
#include "common/util.h"
#include "net-plugin/socket/uring.h"

#define MAX_THREADS  16
#define SAME_NUMBER  4 /* weight of streams with equal numbers where threads are chosen */
#define BUDGET_BYTES (1024 * 1024)
#define TABLE        1024
#define RING_ID      UINT64_MAX /* in epoll, of the thread's own ring */

struct braid_io_thread {
    pthread_t thread;
    int node; /* on whose processors it runs; -1: anywhere */
    int epoll, event;
    struct braid_uring *ring; /* NULL without */
    atomic_bool stopping;
    pthread_mutex_t run;
    struct braid_socket_lane *table[TABLE];      /* lanes by id modulo TABLE, chained by io_next */
    struct braid_socket_lane *active;            /* being worked on, chained by io_active_next */
    _Atomic(struct braid_socket_lane *) mailbox; /* armed meanwhile, chained by io_next_armed */
    atomic_bool asleep; /* in epoll, or on the way there: who puts into the mailbox wakes it */
    unsigned lanes, lanes_of[BRAID_LANES_MAX]; /* all, and by number; under the pool's lock */
};

static struct {
    pthread_mutex_t lock; /* starting and stopping */
    struct braid_io_thread *threads[MAX_THREADS];
    atomic_uint count;
    bool open; /* between braid_io_open and braid_io_stop; under lock */
    _Atomic uint64_t next_id;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* -- one thread ---------------------------------------------------------------------------------------------------------------- */

static struct braid_socket_lane *find_lane(struct braid_io_thread *thread, uint64_t id)
{
    struct braid_socket_lane *lane = thread->table[id % TABLE];

    while (lane != NULL && lane->io_id != id)
        lane = lane->io_next;
    return lane;
}

static void activate(struct braid_io_thread *thread, struct braid_socket_lane *lane)
{
    if (lane->io_active)
        return;
    lane->io_active = true;
    lane->io_batched = false;
    lane->io_active_next = thread->active;
    thread->active = lane;
}

/* Takes the lane at *at off the active list. */
static void deactivate(struct braid_socket_lane **at)
{
    struct braid_socket_lane *lane = *at;

    lane->io_active = false;
    *at = lane->io_active_next;
}

/* The next event of these will wake the thread. Nothing to do if that was so before the lane was armed, and none has come. */
static int watch(struct braid_io_thread *thread, struct braid_socket_lane *lane, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.u64 = lane->io_id};
    int err;

    if (lane->io_events == events)
        return 0;
    err = epoll_ctl(thread->epoll, lane->io_in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, lane->fd,
                    &event);
    lane->io_in_epoll = lane->io_in_epoll || err == 0;
    lane->io_events = err == 0 ? events : 0;
    return err;
}

/* Of a stream for bulk the callers need not ask as long as its thread has it or the socket will wake the thread; socket_kick() does the rest. */
static void set_tended(struct braid_socket_lane *lane, bool tended)
{
    atomic_store_explicit(&lane->base.tended, tended && lane->base.index > 0, memory_order_relaxed);
}

/*
 * Nothing has moved for a while: the socket will tell when more can. The flag is cleared after that, and then asked once more whether
 * there is something to send, so that who arms the lane meanwhile is either seen here or finds the flag cleared.
 */
static void rest(struct braid_io_thread *thread, struct braid_socket_lane *lane, bool busy,
                 bool blocked)
{
    uint32_t events = !busy ? 0 : blocked ? EPOLLIN | EPOLLOUT : EPOLLIN;

    busy = watch(thread, lane, events) == 0 && busy; /* else who calls arms it */
    atomic_store_explicit(&lane->io_watched, busy, memory_order_relaxed);
    atomic_store_explicit(&lane->io_full, busy && blocked, memory_order_relaxed);
    set_tended(lane, busy);
    atomic_exchange(&lane->io_armed, false);
    if (!(busy && blocked) && (braid_socket_lane_wants_puts(lane) || atomic_load(&lane->io_owed)))
        braid_io_arm(lane);
}

/* The lane at *at has been worked on; unlocks it. Where the next one is found. */
static struct braid_socket_lane **settle(struct braid_io_thread *thread,
                                         struct braid_socket_lane **at, int moved)
{
    struct braid_socket_lane *lane = *at;
    bool busy = moved >= 0 && atomic_load(&lane->base.state) == BRAID_LANE_UP &&
                (braid_socket_lane_is_busy(lane) || lane->base.index > 0);
    bool blocked = lane->blocked, moves = moved > 0 || lane->io_told;
    bool done = moved < 0;

    if (!moves && !done)
        done = braid_socket_lane_set_wake(lane);
    braid_lane_unlock(&lane->base);
    if (done) {
        deactivate(at);
        rest(thread, lane, busy, blocked);
        return at;
    }
    return &lane->io_active_next;
}

static bool uses_ring(const struct braid_io_thread *thread, struct braid_socket_lane *lane)
{
    return thread->ring != NULL && braid_probe_choice(lane->probe).uring;
}

/* Works on each lane, those of the ring all at once in the end. The trial that must know what that costs. */
static struct braid_probe *move_lanes(struct braid_io_thread *thread)
{
    struct braid_socket_lane **at = &thread->active, *lane;
    struct braid_probe *timed = NULL;
    bool batch = false;

    while ((lane = *at) != NULL) {
        lane->io_batched = false;
        if (!braid_lane_trylock(&lane->base)) {
            at = &lane->io_active_next;
            continue;
        }
        lane->io_told = false;
        atomic_store_explicit(&lane->io_owed, false, memory_order_relaxed);
        atomic_store_explicit(&lane->io_called, false, memory_order_relaxed);
        if (braid_socket_lane_is_timed(lane))
            timed = lane->probe;
        if (uses_ring(thread, lane) && braid_uring_add(thread->ring, lane)) {
            lane->io_batched = batch = true;
            at = &lane->io_active_next;
            continue;
        }
        at = settle(thread, at, braid_socket_move(lane, BUDGET_BYTES));
    }
    if (!batch)
        return timed;
    braid_uring_flush(thread->ring);
    for (at = &thread->active; (lane = *at) != NULL;)
        at = lane->io_batched ? settle(thread, at, lane->io_moved) : &lane->io_active_next;
    return timed;
}

static void work_on_lanes(struct braid_io_thread *thread)
{
    struct braid_socket_lane *first = thread->active; /* it speaks for all */
    bool times = first != NULL && first->probe != NULL && braid_probe_compares_cpu(first->probe);
    uint64_t from = times ? braid_socket_cpu_ns() : 0;
    struct braid_probe *timed = move_lanes(thread);

    if (from != 0 && timed != NULL)
        atomic_fetch_add(&timed->cpu_ns, braid_socket_cpu_ns() - from);
}

/* A notification for a lane that may rest, or be gone. */
static void on_told(void *owner, uint64_t id, unsigned slot, bool copied)
{
    struct braid_io_thread *thread = owner;
    struct braid_socket_lane *lane = find_lane(thread, id);

    if (lane == NULL)
        return;
    braid_zerocopy_told(lane, slot, copied);
    lane->io_told = true; /* it is worked on once more before it rests */
    if (!lane->io_active && !atomic_exchange(&lane->io_armed, true))
        activate(thread, lane);
}

/* Begins work on what has been armed. `run` is held. */
static void empty_mailbox(struct braid_io_thread *thread)
{
    struct braid_socket_lane *lane, *next;

    if (atomic_load_explicit(&thread->mailbox, memory_order_relaxed) == NULL)
        return;
    for (lane = atomic_exchange(&thread->mailbox, NULL); lane != NULL; lane = next) {
        next = lane->io_next_armed;
        atomic_store(&lane->io_in_mailbox, false);
        activate(thread, lane);
    }
}

/* A lane that is in it already will be looked at. Any thread; it has set lane->io_armed. */
static void put_into_mailbox(struct braid_io_thread *thread, struct braid_socket_lane *lane)
{
    uint64_t one = 1;
    struct braid_socket_lane *first = atomic_load(&thread->mailbox);

    if (!atomic_exchange(&lane->io_in_mailbox, true)) {
        do
            lane->io_next_armed = first;
        while (!atomic_compare_exchange_weak(&thread->mailbox, &first, lane));
    }
    if (atomic_load(&thread->asleep) && atomic_exchange(&thread->asleep, false) &&
        write(thread->event, &one, sizeof(one)) < 0)
        BRAID_WARN("cannot wake an I/O thread: %s", strerror(errno));
}

static void *io_main(void *arg)
{
    struct braid_io_thread *thread = arg;
    struct epoll_event events[16];

    while (!atomic_load(&thread->stopping)) {
        bool working;
        int got;

        pthread_mutex_lock(&thread->run);
        working = thread->active != NULL;
        pthread_mutex_unlock(&thread->run);
        if (!working) { /* who fills the mailbox now finds it asleep, or is found here */
            atomic_store(&thread->asleep, true);
            working = atomic_load(&thread->mailbox) != NULL;
        }
        got = epoll_wait(thread->epoll, events, ARRAY_SIZE(events), working ? 0 : -1);
        atomic_store(&thread->asleep, false);
        pthread_mutex_lock(&thread->run);
        empty_mailbox(thread);
        for (int i = 0; i < got; i++) {
            struct braid_socket_lane *lane;
            if (events[i].data.u64 == 0) {
                continue; /* only to wake it; edge-triggered, so that nobody need read it */
            } else if (events[i].data.u64 == RING_ID) {
                braid_uring_reap(thread->ring);
            } else if ((lane = find_lane(thread, events[i].data.u64)) != NULL) {
                lane->io_events = 0;
                activate(thread, lane);
            }
        }
        work_on_lanes(thread);
        pthread_mutex_unlock(&thread->run);
    }
    return NULL;
}

/* -- the pool --------------------------------------------------------------------------------------------------------------------- */

static int watch_ring(struct braid_io_thread *thread)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = RING_ID};

    return thread->ring == NULL
               ? 0
               : epoll_ctl(thread->epoll, EPOLL_CTL_ADD, braid_uring_fd(thread->ring), &event);
}

static struct braid_io_thread *thread_new(unsigned number, int node)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 0};
    struct braid_io_thread *thread = calloc(1, sizeof(*thread));
    char name[16];

    if (thread == NULL)
        return NULL;
    snprintf(name, sizeof(name), "braid-io-%u", number % MAX_THREADS);
    pthread_mutex_init(&thread->run, NULL);
    if (braid_socket_plan.rings)
        thread->ring = braid_uring_new(on_told, thread);
    thread->epoll = epoll_create1(EPOLL_CLOEXEC);
    thread->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->epoll >= 0 && thread->event >= 0 &&
        epoll_ctl(thread->epoll, EPOLL_CTL_ADD, thread->event, &event) == 0 &&
        watch_ring(thread) == 0 &&
        braid_thread_start(&thread->thread, name, io_main, thread) == 0) {
        thread->node = braid_thread_bind(thread->thread, node) == 0 ? node : -1;
        BRAID_INFO(BRAID_LOG_NET, "sockets: I/O thread %u started%s", number,
                   thread->node >= 0 ? ", on the processors of its card's NUMA node" : "");
        return thread;
    }
    if (number == 0)
        BRAID_WARN("cannot start an I/O thread: %s; the callers of isend, irecv and test move all "
                   "data",
                   strerror(errno));
    if (thread->epoll >= 0)
        close(thread->epoll);
    if (thread->event >= 0)
        close(thread->event);
    braid_uring_free(thread->ring);
    free(thread);
    return NULL;
}

/* How much a thread has to do that may come at the same time as what comes on streams of this number. */
static unsigned load_of(const struct braid_io_thread *thread, unsigned index)
{
    return thread->lanes + SAME_NUMBER * thread->lanes_of[index];
}

/*
 * A thread for a lane: a new one as long as the pool may grow, then the one with the least to do among those near the lane's network card, or
 * among all. Streams with low numbers are used before others.
 */
static struct braid_io_thread *choose_thread(const struct braid_socket_lane *lane)
{
    unsigned count, index = MIN(lane->base.index, BRAID_LANES_MAX - 1u);
    struct braid_io_thread *best = NULL, *thread;

    pthread_mutex_lock(&pool.lock);
    count = atomic_load(&pool.count);
    if (pool.open && count < MIN(MAX(braid_socket_threads_now(), 1u), MAX_THREADS) &&
        (pool.threads[count] = thread_new(count, lane->numa_node)) != NULL) {
        best = pool.threads[count++];
        atomic_store_explicit(&pool.count, count, memory_order_release);
    }
    for (int any = 0; pool.open && best == NULL && any < 2; any++)
        for (unsigned i = 0; i < count; i++) {
            thread = pool.threads[i];
            if ((any || thread->node == lane->numa_node) &&
                (best == NULL || load_of(thread, index) < load_of(best, index)))
                best = thread;
        }
    if (best != NULL) {
        best->lanes++;
        best->lanes_of[index]++;
    }
    pthread_mutex_unlock(&pool.lock);
    return best;
}

static void forget_lane(struct braid_io_thread *thread, const struct braid_socket_lane *lane)
{
    pthread_mutex_lock(&pool.lock);
    thread->lanes--;
    thread->lanes_of[MIN(lane->base.index, BRAID_LANES_MAX - 1u)]--;
    pthread_mutex_unlock(&pool.lock);
}

void braid_io_arm(struct braid_socket_lane *lane)
{
    struct braid_io_thread *thread;

    if (atomic_load(&lane->io_armed) || lane->fd < 0 || atomic_load(&lane->io_gone) ||
        atomic_exchange(&lane->io_armed, true))
        return;
    thread = lane->io_thread; /* ours alone from here on, until it is in the mailbox */
    if (thread == NULL) {
        thread = choose_thread(lane);
        if (thread == NULL) {
            atomic_store(&lane->io_armed, false);
            return;
        }
        lane->io_id = atomic_fetch_add(&pool.next_id, 1) + 1;
        pthread_mutex_lock(&thread->run);
        lane->io_thread = thread;
        lane->io_next = thread->table[lane->io_id % TABLE];
        thread->table[lane->io_id % TABLE] = lane;
        pthread_mutex_unlock(&thread->run);
    }
    set_tended(lane, true);
    atomic_store(&lane->io_called, true);
    put_into_mailbox(thread, lane);
}

static void leave_thread(struct braid_socket_lane *lane)
{
    atomic_store(&lane->io_in_mailbox, false);
    atomic_store(&lane->io_full, false);
    lane->io_thread = NULL;
    lane->io_in_epoll = false;
    lane->io_events = 0;
    atomic_store(&lane->io_called, false);
    lane->io_active = false;
    atomic_store(&lane->io_watched, false);
    set_tended(lane, false);
    atomic_store(&lane->io_armed, false);
}

void braid_io_remove(struct braid_socket_lane *lane)
{
    struct braid_io_thread *thread = lane->io_thread;
    struct braid_socket_lane **at;

    if (thread == NULL)
        return;
    pthread_mutex_lock(&thread->run);
    empty_mailbox(thread);
    for (at = &thread->table[lane->io_id % TABLE]; *at != lane; at = &(*at)->io_next)
        ;
    *at = lane->io_next;
    for (at = &thread->active; *at != NULL && *at != lane; at = &(*at)->io_active_next)
        ;
    if (*at != NULL)
        deactivate(at);
    if (lane->io_in_epoll)
        epoll_ctl(thread->epoll, EPOLL_CTL_DEL, lane->fd, NULL);
    leave_thread(lane);
    pthread_mutex_unlock(&thread->run);
    forget_lane(thread, lane);
}

void braid_io_open(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.open = true;
    pthread_mutex_unlock(&pool.lock);
}

void braid_io_stop(void)
{
    uint64_t one = 1;

    pthread_mutex_lock(&pool.lock);
    pool.open = false;
    for (unsigned i = 0; i < atomic_load(&pool.count); i++) {
        struct braid_io_thread *thread = pool.threads[i];
        atomic_store(&thread->stopping, true);
        if (write(thread->event, &one, sizeof(one)) < 0)
            continue;
        pthread_join(thread->thread, NULL);
        for (unsigned j = 0; j < TABLE; j++)
            for (struct braid_socket_lane *lane = thread->table[j]; lane != NULL;
                 lane = lane->io_next)
                leave_thread(lane);
        close(thread->epoll);
        close(thread->event);
        braid_uring_free(thread->ring);
        free(thread);
    }
    atomic_store(&pool.count, 0);
    pthread_mutex_unlock(&pool.lock);
}
