/*
 * The maintenance thread: one a process, created at first need, joined at the last finalize. It sleeps in epoll and runs the handlers of
 * the listener, of handshakes in both directions, of lingering streams, and (later) of asynchronous events, probes and reconnection,
 * whether NCCL polls or not.
 *
 * Threading: one lock (braid_maint_lock). Handlers run with it held; every other function here needs it held. It belongs to the control
 * path: connect, accept, listen and close take it, isend, irecv and test never do.
 */
#ifndef BRAID_NET_MAINT_H
#define BRAID_NET_MAINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct braid_watch;

/*
 * `events` are EPOLL* bits; 0: the watch's deadline has passed. The handler may remove and free its own watch, and change any other.
 */
typedef void (*braid_watch_fn)(struct braid_watch *watch, uint32_t events);

/* Embedded in whatever waits. `fd` may be -1: then only the deadline counts. */
struct braid_watch {
    int fd;
    uint64_t deadline_ns; /* braid_now_ns() value, 0: none; cleared before the handler runs */
    braid_watch_fn fn;
    atomic_bool poked;
    uint64_t id; /* maint's */
    struct braid_watch *next, *prev;
};

void braid_maint_lock(void);
void braid_maint_unlock(void);

/* Starts the thread if it is not there. 0 or a negative errno. */
int braid_maint_start(void);
/*
 * Joins the thread; watches that are left are forgotten, lingering streams closed, once their peers have what was sent: a few milliseconds,
 * or as long as a peer that answers takes nothing, up to braid_maint_drain_ns() and a few seconds. Takes the lock itself.
 */
void braid_maint_stop(void);

/* Adds a watch for `events` (EPOLLIN, EPOLLOUT). 0 or a negative errno. */
int braid_maint_add(struct braid_watch *watch, uint32_t events);
int braid_maint_change(struct braid_watch *watch, uint32_t events);
/* Must precede close(watch->fd): a forked child may hold the same open file. Harmless if it was not added. */
void braid_maint_remove(struct braid_watch *watch);
/* Runs the watch's handler soon, with no events. Any thread, no lock needed: how the data path leaves work to the thread. */
void braid_maint_poke(struct braid_watch *watch);

/* How often connections that nobody asks take in what has come (braid_conn_drain). */
uint64_t braid_maint_drain_ns(void);

/*
 * Ends a stream without losing what was sent: shuts down writing after the `bytes` at `rest` are out, then reads until the peer has
 * closed too, for at most a few seconds after it has all. Owns `fd` from here on; `rest` is copied. Closing at once would answer unread
 * bytes of the peer with a reset, and a reset can overtake data.
 */
void braid_maint_linger(int fd, const void *rest, size_t bytes);

#endif
