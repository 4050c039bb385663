/*
 * The maintenance thread's loop and its watches; see maint.h. Watches are a short list (listener, handshakes under way, lingering
 * streams), searched by id, so that an event for a watch that is gone is recognised and dropped.
 */
#include "net-plugin/core/maint.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

#define LINGER_NS (5 * BRAID_NS_PER_S)

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    bool running, stopping;
    int epoll, event; /* -1 while not running */
    uint64_t next_id;
    struct braid_watch *watches;
} maint = {.lock = PTHREAD_MUTEX_INITIALIZER, .epoll = -1, .event = -1};

struct lingering {
    struct braid_watch watch;
    size_t bytes, sent;
    uint64_t until_ns;
    bool shut;
    char rest[];
};

void braid_maint_lock(void)
{
    pthread_mutex_lock(&maint.lock);
}

void braid_maint_unlock(void)
{
    pthread_mutex_unlock(&maint.lock);
}

static struct braid_watch *find_watch(uint64_t id)
{
    for (struct braid_watch *w = maint.watches; w != NULL; w = w->next)
        if (w->id == id)
            return w;
    return NULL;
}

/* Milliseconds until the next deadline, -1 for none. */
static int next_timeout(uint64_t now)
{
    uint64_t first = UINT64_MAX;

    for (struct braid_watch *w = maint.watches; w != NULL; w = w->next)
        if (w->deadline_ns != 0)
            first = MIN(first, w->deadline_ns);
    if (first == UINT64_MAX)
        return -1;
    return first <= now ? 0 : (int)MIN((first - now) / BRAID_NS_PER_MS + 1, 60000ull);
}

static void run_deadlines(uint64_t now)
{
    struct braid_watch *w = maint.watches;

    while (w != NULL) {
        if (w->deadline_ns != 0 && w->deadline_ns <= now) {
            w->deadline_ns = 0;
            w->fn(w, 0);
            w = maint.watches; /* the handler may have changed the list */
        } else {
            w = w->next;
        }
    }
}

static void run_poked(void)
{
    struct braid_watch *w = maint.watches;

    while (w != NULL) {
        if (atomic_exchange(&w->poked, false)) {
            w->fn(w, 0);
            w = maint.watches; /* the handler may have changed the list */
        } else {
            w = w->next;
        }
    }
}

static void *maint_main(void *arg)
{
    struct epoll_event event;
    struct braid_watch *watch;
    uint64_t count;

    braid_maint_lock();
    while (!maint.stopping) {
        int timeout = next_timeout(braid_now_ns());
        int got;

        braid_maint_unlock();
        got = epoll_wait(maint.epoll, &event, 1, timeout);
        braid_maint_lock();
        if (got == 1 && event.data.u64 == 0) {
            if (read(maint.event, &count, sizeof(count)) < 0 && errno != EAGAIN)
                break;
            run_poked();
        } else if (got == 1) {
            watch = find_watch(event.data.u64);
            if (watch != NULL)
                watch->fn(watch, event.events);
        }
        run_deadlines(braid_now_ns());
    }
    braid_maint_unlock();
    return NULL;
}

int braid_maint_start(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    int err;

    if (maint.running)
        return 0;
    maint.epoll = epoll_create1(EPOLL_CLOEXEC);
    maint.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (maint.epoll < 0 || maint.event < 0 ||
        epoll_ctl(maint.epoll, EPOLL_CTL_ADD, maint.event, &event) != 0) {
        err = -errno;
        goto err_close;
    }
    maint.stopping = false;
    err = braid_thread_start(&maint.thread, "braid-maint", maint_main, NULL);
    if (err != 0)
        goto err_close;
    maint.running = true;
    return 0;
err_close:
    BRAID_WARN("cannot start the maintenance thread: %s", strerror(-err));
    if (maint.epoll >= 0)
        close(maint.epoll);
    if (maint.event >= 0)
        close(maint.event);
    maint.epoll = maint.event = -1;
    return err;
}

/* Tells the thread that a deadline changed. */
static void wake(void)
{
    uint64_t one = 1;

    if (maint.event >= 0 && write(maint.event, &one, sizeof(one)) < 0)
        return; /* the counter is full: it is awake anyway */
}

static void linger_end(struct lingering *l)
{
    braid_maint_remove(&l->watch);
    close(l->watch.fd);
    free(l);
}

static void on_linger(struct braid_watch *watch, uint32_t events)
{
    struct lingering *l = braid_container_of(watch, struct lingering, watch);
    char sink[4096];
    ssize_t got;

    while (l->sent < l->bytes) {
        got = send(watch->fd, l->rest + l->sent, l->bytes - l->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (got <= 0)
            break;
        l->sent += (size_t)got;
    }
    if (l->sent == l->bytes && !l->shut) {
        shutdown(watch->fd, SHUT_WR);
        l->shut = true;
        braid_maint_change(watch, EPOLLIN);
    }
    do {
        got = recv(watch->fd, sink, sizeof(sink), MSG_DONTWAIT);
    } while (got > 0);
    if (got == 0 || (errno != EAGAIN && errno != EINTR) || braid_now_ns() >= l->until_ns)
        linger_end(l);
    else
        watch->deadline_ns = l->until_ns;
}

void braid_maint_poke(struct braid_watch *watch)
{
    atomic_store(&watch->poked, true);
    wake();
}

void braid_maint_linger(int fd, const void *rest, size_t bytes)
{
    struct lingering *l = maint.running ? calloc(1, sizeof(*l) + bytes) : NULL;

    if (l == NULL) {
        close(fd);
        return;
    }
    l->bytes = bytes;
    if (bytes > 0)
        memcpy(l->rest, rest, bytes);
    l->until_ns = braid_now_ns() + LINGER_NS;
    l->watch = (struct braid_watch){.fd = fd, .fn = on_linger, .deadline_ns = l->until_ns};
    if (braid_maint_add(&l->watch, bytes > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN) != 0) {
        close(fd);
        free(l);
        return;
    }
    on_linger(&l->watch, 0);
}

void braid_maint_stop(void)
{
    struct braid_watch *watch, *next;

    braid_maint_lock();
    if (!maint.running) {
        braid_maint_unlock();
        return;
    }
    maint.stopping = true;
    wake();
    braid_maint_unlock();
    pthread_join(maint.thread, NULL);
    for (watch = maint.watches; watch != NULL; watch = next) {
        next = watch->next;
        if (watch->fn == on_linger)
            linger_end(braid_container_of(watch, struct lingering, watch));
        else
            braid_maint_remove(watch);
    }
    close(maint.epoll);
    close(maint.event);
    maint.epoll = maint.event = -1;
    maint.running = false;
}

int braid_maint_add(struct braid_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = ++maint.next_id};

    watch->id = maint.next_id;
    if (watch->fd >= 0 && epoll_ctl(maint.epoll, EPOLL_CTL_ADD, watch->fd, &event) != 0) {
        watch->id = 0;
        return -errno;
    }
    watch->prev = NULL;
    watch->next = maint.watches;
    if (watch->next != NULL)
        watch->next->prev = watch;
    maint.watches = watch;
    if (watch->deadline_ns != 0)
        wake();
    return 0;
}

int braid_maint_change(struct braid_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = watch->id};

    return epoll_ctl(maint.epoll, EPOLL_CTL_MOD, watch->fd, &event) == 0 ? 0 : -errno;
}

void braid_maint_remove(struct braid_watch *watch)
{
    if (watch->id == 0)
        return;
    if (watch->fd >= 0)
        epoll_ctl(maint.epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    if (watch->prev != NULL)
        watch->prev->next = watch->next;
    else
        maint.watches = watch->next;
    if (watch->next != NULL)
        watch->next->prev = watch->prev;
    watch->id = 0;
}
