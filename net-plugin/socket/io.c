/*
 * The I/O threads; see io.h. Each thread owns an epoll set and a short list of lanes that it is working on. Lanes enter the set when they
 * are armed, one event at a time (EPOLLONESHOT), and are named in it by an id, so that an event for a lane that has gone is harmless.
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
#define SPIN_MIN_NS  (5 * BRAID_NS_PER_US)
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
    struct braid_socket_lane *table[TABLE]; /* lanes by id modulo TABLE, chained by io_next */
    struct braid_socket_lane *active;       /* being worked on, chained by io_active_next */
};

static struct {
    pthread_mutex_t lock; /* starting and stopping */
    struct braid_io_thread *threads[MAX_THREADS];
    atomic_uint count;
    unsigned next;
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

/*
 * How long the thread looks on after the last byte before it sleeps: twice as long as before if it slept and the next came so soon that
 * looking on would have found it, half as long if it came later.
 */
static void adapt_spin(struct braid_socket_lane *lane, uint64_t slept_ns)
{
    uint64_t most = braid_socket_plan.spin_ns;

    if (slept_ns <= most)
        lane->io_spin_ns = MIN(MAX(2 * lane->io_spin_ns, SPIN_MIN_NS), most);
    else
        lane->io_spin_ns /= 2;
}

static void activate(struct braid_io_thread *thread, struct braid_socket_lane *lane)
{
    uint64_t now = braid_now_ns();

    if (lane->io_active)
        return;
    adapt_spin(lane, now - lane->io_moved_ns);
    lane->io_active = true;
    lane->io_batched = false;
    lane->io_moved_ns = now;
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

static int watch(struct braid_io_thread *thread, struct braid_socket_lane *lane, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.u64 = lane->io_id};

    return epoll_ctl(thread->epoll, EPOLL_CTL_MOD, lane->fd, &event);
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
    if (busy)
        busy = watch(thread, lane, EPOLLIN | (blocked ? EPOLLOUT : 0)) ==
               0; /* else who calls arms it */
    atomic_store_explicit(&lane->io_watched, busy, memory_order_relaxed);
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

    if (moves)
        lane->io_moved_ns = braid_now_ns();
    else if (blocked || braid_now_ns() - lane->io_moved_ns > lane->io_spin_ns)
        done = done || braid_socket_lane_set_wake(lane);
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

static void *io_main(void *arg)
{
    struct braid_io_thread *thread = arg;
    struct epoll_event events[16];
    uint64_t count;

    while (!atomic_load(&thread->stopping)) {
        bool working;
        int got;

        pthread_mutex_lock(&thread->run);
        working = thread->active != NULL;
        pthread_mutex_unlock(&thread->run);
        got = epoll_wait(thread->epoll, events, ARRAY_SIZE(events), working ? 0 : -1);
        pthread_mutex_lock(&thread->run);
        for (int i = 0; i < got; i++) {
            struct braid_socket_lane *lane;
            if (events[i].data.u64 == 0) {
                if (read(thread->event, &count, sizeof(count)) < 0)
                    continue;
            } else if (events[i].data.u64 == RING_ID) {
                braid_uring_reap(thread->ring);
            } else if ((lane = find_lane(thread, events[i].data.u64)) != NULL) {
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
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    struct braid_io_thread *thread = calloc(1, sizeof(*thread));
    char name[16];

    if (thread == NULL)
        return NULL;
    snprintf(name, sizeof(name), "braid-io-%u", number);
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

/*
 * A thread for a lane: a new one as long as the pool may grow, then whichever has its turn among those near the lane's network card, or
 * among all.
 */
static struct braid_io_thread *choose_thread(int node)
{
    unsigned count, turn;
    struct braid_io_thread *thread = NULL;

    pthread_mutex_lock(&pool.lock);
    count = atomic_load(&pool.count);
    if (pool.open && count < MIN(MAX(braid_socket_threads_now(), 1u), MAX_THREADS) &&
        (pool.threads[count] = thread_new(count, node)) != NULL) {
        thread = pool.threads[count];
        atomic_store_explicit(&pool.count, count + 1, memory_order_release);
    } else if (pool.open && count > 0) {
        turn = pool.next++;
        for (unsigned i = 0; i < count && thread == NULL; i++)
            if (pool.threads[(turn + i) % count]->node == node)
                thread = pool.threads[(turn + i) % count];
        if (thread == NULL)
            thread = pool.threads[turn % count];
    }
    pthread_mutex_unlock(&pool.lock);
    return thread;
}

void braid_io_arm(struct braid_socket_lane *lane)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLONESHOT};
    struct braid_io_thread *thread;
    bool known;

    if (atomic_load_explicit(&lane->io_armed, memory_order_relaxed) || lane->fd < 0 ||
        atomic_load(&lane->io_gone) || atomic_exchange(&lane->io_armed, true))
        return;
    thread = lane->io_thread; /* ours alone from here on, until the event */
    if (thread == NULL) {
        thread = choose_thread(lane->numa_node);
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
    event.data.u64 = lane->io_id;
    /* Set before: the event may have been dealt with, and the lane be armed again by another thread, before the call returns. */
    known = atomic_exchange(&lane->io_in_epoll, true);
    set_tended(lane, true);
    if (epoll_ctl(thread->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, lane->fd, &event) == 0)
        return;
    /* No event will come: the callers move the lane, and the next one tries again. */
    set_tended(lane, false);
    atomic_store(&lane->io_in_epoll, known);
    atomic_store(&lane->io_armed, false);
}

static void leave_thread(struct braid_socket_lane *lane)
{
    lane->io_thread = NULL;
    lane->io_in_epoll = false;
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
