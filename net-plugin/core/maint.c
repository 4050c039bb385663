/*
 * The maintenance thread's loop and its watches; see maint.h. Watches are a short list (listener, handshakes under way, lingering
 * streams), searched by id, so that an event for a watch that is gone is recognised and dropped.
 */
#include "net-plugin/core/maint.h"

#include <errno.h>
#include <pthread.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/param.h"
#include "common/thread.h"

#define LINGER_NS (5 * BRAID_NS_PER_S)
/* how soon, and at last how often, it is asked whether the peer has all */
#define LOOK_NS      BRAID_NS_PER_MS
#define LOOK_MAX_NS  (100 * BRAID_NS_PER_MS)
#define DRAINS       4   /* in the time after which a peer that takes nothing is given up */
#define DRAIN_MAX_S  60u /* as if that time were at most this */
#define SILENT_TRIES 4   /* of the kernel, without an answer: nobody is there */

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
    uint64_t until_ns, look_ns;
    uint64_t calm_ns; /* since when the peer has all; 0: it has not */
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

uint64_t braid_maint_drain_ns(void)
{
    uint64_t dead_s = (uint64_t)braid_param_int(BRAID_P_PEER_TIMEOUT_S);

    return (dead_s == 0 ? DRAIN_MAX_S : MIN(dead_s, DRAIN_MAX_S)) * BRAID_NS_PER_S / DRAINS;
}

/* By then a peer whose program is away has taken in what has come. */
static uint64_t linger_most_ns(void)
{
    return LINGER_NS + braid_maint_drain_ns();
}

/*
 * Whether the peer's kernel still lacks something. As long as it does the stream must not be closed, nor may the process end: then what the
 * peer says meanwhile is answered by a reset, and what it lacks is dropped.
 */
static bool is_owing(const struct lingering *l)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    int queued = 0;

    if (l->bytes == 0 ||
        (l->sent == l->bytes && (ioctl(l->watch.fd, SIOCOUTQ, &queued) != 0 || queued == 0)))
        return false;
    return getsockopt(l->watch.fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           info.tcpi_retransmits < SILENT_TRIES;
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
    uint64_t now = braid_now_ns(), until;
    bool gone, owing;
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
    gone = got == 0 || (errno != EAGAIN && errno != EINTR);
    owing = is_owing(l);
    if (!owing && l->calm_ns == 0)
        l->calm_ns = now;
    until = owing ? l->until_ns : MIN(l->calm_ns + LINGER_NS, l->until_ns);
    if (gone || now >= until) {
        linger_end(l);
        return;
    }
    l->look_ns = MIN(MAX(2 * l->look_ns, LOOK_NS), LOOK_MAX_NS);
    watch->deadline_ns = owing ? MIN(now + l->look_ns, until) : until;
}

void braid_maint_poke(struct braid_watch *watch)
{
    atomic_store(&watch->poked, true);
    wake();
}

/* There is no thread to see to it. A forked child may hold the same stream, so its end is said and not left to close(). */
static void close_now(int fd, const void *rest, size_t bytes)
{
    char sink[4096];

    if (bytes > 0 && send(fd, rest, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < (ssize_t)bytes)
        BRAID_INFO(BRAID_LOG_NET, "the end of a stream of %zu bytes was not sent", bytes);
    shutdown(fd, SHUT_WR);
    while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
        ;
    close(fd);
}

void braid_maint_linger(int fd, const void *rest, size_t bytes)
{
    struct lingering *l = maint.running ? calloc(1, sizeof(*l) + bytes) : NULL;

    if (l == NULL) {
        close_now(fd, rest, bytes);
        return;
    }
    l->bytes = bytes;
    if (bytes > 0)
        memcpy(l->rest, rest, bytes);
    l->until_ns = braid_now_ns() + linger_most_ns();
    l->watch = (struct braid_watch){.fd = fd, .fn = on_linger, .deadline_ns = l->until_ns};
    if (braid_maint_add(&l->watch, bytes > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN) != 0) {
        close_now(fd, rest, bytes);
        free(l);
        return;
    }
    on_linger(&l->watch, 0);
}

static bool someone_is_owing(void)
{
    for (struct braid_watch *w = maint.watches; w != NULL; w = w->next)
        if (w->fn == on_linger && is_owing(braid_container_of(w, struct lingering, watch)))
            return true;
    return false;
}

void braid_maint_stop(void)
{
    struct braid_watch *watch, *next;

    braid_maint_lock();
    while (maint.running && someone_is_owing()) { /* each for linger_most_ns() at most */
        braid_maint_unlock();
        usleep(LOOK_NS / BRAID_NS_PER_US);
        braid_maint_lock();
    }
    if (!maint.running) {
        braid_maint_unlock();
        return;
    }
    maint.stopping = true;
    wake();
    braid_maint_unlock();
    pthread_join(maint.thread, NULL);
    braid_maint_lock();
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
    braid_maint_unlock();
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
