/*
 * Fails the nth socket, epoll or thread call of the plugin, for every kind of call and every n, over a whole life of the socket
 * transport in one process: init, listen, connect and accept, registration, small and large messages, close, finalize. The plugin
 * finds the functions below in place of the C library's. Whatever fails: calls return in time, the other end is told, at most a few
 * warnings are written and at least one when the life failed, and no descriptor is left. Best under the asan preset.
 * Usage: sock_fail_nth PLUGIN. The plugin's threads call the wrappers too, hence the atomics.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "nccl/net_v12.h"

#define LARGE        (1024 * 1024)
#define SMALL        64
#define WAIT_NS      (60ull * 1000 * 1000 * 1000)
#define MAX_WARNINGS 6
#define MAX_NTH      40

/* -- the calls that can fail ------------------------------------------------------------------------------------------------- */

enum call {
    SOCKET,
    BIND,
    LISTEN,
    ACCEPT4,
    CONNECT,
    GETSOCKNAME,
    SETSOCKOPT,
    EPOLL_CREATE1,
    EPOLL_CTL,
    EVENTFD,
    PTHREAD_CREATE,
    SENDMSG,
    SEND,
    RECVMSG,
    RECV,
    CALLS
};

static const struct {
    const char *name;
    int error;
} kinds[CALLS] = {
    [SOCKET] = {"socket", EMFILE},
    [BIND] = {"bind", EADDRINUSE},
    [LISTEN] = {"listen", EADDRINUSE},
    [ACCEPT4] = {"accept4", EMFILE},
    [CONNECT] = {"connect", ECONNREFUSED},
    [GETSOCKNAME] = {"getsockname", ENOBUFS},
    [SETSOCKOPT] = {"setsockopt", ENOBUFS},
    [EPOLL_CREATE1] = {"epoll_create1", EMFILE},
    [EPOLL_CTL] = {"epoll_ctl", ENOSPC},
    [EVENTFD] = {"eventfd", EMFILE},
    [PTHREAD_CREATE] = {"pthread_create", EAGAIN},
    [SENDMSG] = {"sendmsg", ECONNRESET},
    [SEND] = {"send", ENOBUFS},
    [RECVMSG] = {"recvmsg", ENOMEM},
    [RECV] = {"recv", ECONNRESET},
};

static void *originals[CALLS];
static _Atomic int failing = -1; /* kind of call */
static _Atomic int left;         /* calls of that kind until the one that fails; below 0: it did */

/* Takes the place of one call when it is its turn. Other libraries' calls, and ours, are left alone. */
static bool fails(enum call call, const void *caller)
{
    Dl_info info;

    if (atomic_load(&failing) != (int)call || dladdr(caller, &info) == 0 ||
        info.dli_fname == NULL || strstr(info.dli_fname, "libnccl-net") == NULL)
        return false;
    if (atomic_fetch_sub(&left, 1) != 1)
        return false;
    errno = kinds[call].error;
    return true;
}

#define WRAP(call, type, name, params, args)                                                       \
    __attribute__((visibility("default"))) type name params;                                       \
    type name params                                                                               \
    {                                                                                              \
        if (fails(call, __builtin_return_address(0)))                                              \
            return (type)(call == PTHREAD_CREATE ? kinds[call].error : -1);                        \
        return ((type(*) params)originals[call])args;                                              \
    }

WRAP(SOCKET, int, socket, (int family, int type, int protocol), (family, type, protocol))
WRAP(BIND, int, bind, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
WRAP(LISTEN, int, listen, (int fd, int backlog), (fd, backlog))
WRAP(ACCEPT4, int, accept4, (int fd, struct sockaddr *addr, socklen_t *len, int flags),
     (fd, addr, len, flags))
WRAP(CONNECT, int, connect, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
WRAP(GETSOCKNAME, int, getsockname, (int fd, struct sockaddr *addr, socklen_t *len),
     (fd, addr, len))
WRAP(SETSOCKOPT, int, setsockopt, (int fd, int level, int option, const void *value, socklen_t len),
     (fd, level, option, value, len))
WRAP(EPOLL_CREATE1, int, epoll_create1, (int flags), (flags))
WRAP(EPOLL_CTL, int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event),
     (epoll, op, fd, event))
WRAP(EVENTFD, int, eventfd, (unsigned value, int flags), (value, flags))
WRAP(PTHREAD_CREATE, int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (thread, attr, fn, arg))
WRAP(RECVMSG, ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
WRAP(SEND, ssize_t, send, (int fd, const void *data, size_t bytes, int flags),
     (fd, data, bytes, flags))
WRAP(RECV, ssize_t, recv, (int fd, void *data, size_t bytes, int flags), (fd, data, bytes, flags))

/* A reset is one: both directions end, as they do when the kernel reports it. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    if (fails(SENDMSG, __builtin_return_address(0))) {
        shutdown(fd, SHUT_RDWR);
        errno = kinds[SENDMSG].error;
        return -1;
    }
    return ((ssize_t(*)(int, const struct msghdr *, int))originals[SENDMSG])(fd, msg, flags);
}

__attribute__((constructor)) static void find_originals(void)
{
    for (int i = 0; i < CALLS; i++)
        originals[i] = dlsym(RTLD_NEXT, kinds[i].name);
}

/* -- one life ---------------------------------------------------------------------------------------------------------------- */

static ncclNet_v12_t *net;
static char source[LARGE], target[LARGE];
static _Atomic int warnings;
static char last_warning[300];
static bool named_error; /* one warning had the text of the errno */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static char turn[64]; /* which call fails, for messages */
static bool loud;
static char step[64];  /* what ended with an error */
static bool cut_short; /* both ends were done, one so late that the other had been closed */

static void sink(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                 const char *fmt, ...)
{
    char text[600];
    va_list args;

    if (level != NCCL_LOG_WARN)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    pthread_mutex_lock(&sink_lock);
    warnings++;
    snprintf(last_warning, sizeof(last_warning), "%.299s", text);
    if (failing >= 0 && strstr(text, strerror(kinds[failing].error)) != NULL)
        named_error = true;
    if (loud)
        printf("    %s: %s\n", turn, text);
    pthread_mutex_unlock(&sink_lock);
}

static void late(uint64_t since, const char *what)
{
    if (braid_now_ns() - since < WAIT_NS)
        return;
    fprintf(stderr, "%s: %s does not end; last warning: %s\n", turn, what, last_warning);
    exit(1);
}

struct pair {
    void *ctx, *listener, *send, *recv, *send_mr, *recv_mr;
};

static void close_send(struct pair *p)
{
    if (p->send_mr != NULL)
        net->deregMr(p->send, p->send_mr);
    if (p->send != NULL)
        net->closeSend(p->send);
    p->send = p->send_mr = NULL;
}

static void close_recv(struct pair *p)
{
    if (p->recv_mr != NULL)
        net->deregMr(p->recv, p->recv_mr);
    if (p->recv != NULL)
        net->closeRecv(p->recv);
    p->recv = p->recv_mr = NULL;
}

/* Until both ends have ended, each up or with an error; true when both are up. */
static bool connect_pair(struct pair *p)
{
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    uint64_t start = braid_now_ns();
    bool send_failed = false, recv_failed = false;

    if (net->listen(p->ctx, 0, handle, &p->listener) != ncclSuccess)
        return false;
    while ((p->send == NULL && !send_failed) || (p->recv == NULL && !recv_failed)) {
        ncclNetDeviceHandle_v12_t *none = NULL;
        if (p->send == NULL && !send_failed)
            send_failed = net->connect(p->ctx, 0, handle, &p->send, &none) != ncclSuccess;
        if (p->recv == NULL && !recv_failed)
            recv_failed = net->accept(p->listener, &p->recv, &none) != ncclSuccess;
        late(start, "connect and accept");
        usleep(200);
    }
    snprintf(step, sizeof(step), "%s%s", send_failed ? "connect " : "",
             recv_failed ? "accept" : "");
    return !send_failed && !recv_failed;
}

/* Posts (when *request is NULL) or tests one end; 1 ended, 0 not yet, -1 an error. */
static int push(struct pair *p, bool sends, size_t bytes, void **request)
{
    void *data[1] = {target}, *mrs[1] = {p->recv_mr};
    size_t sizes[1] = {bytes};
    int tags[1] = {3}, done = 0, got = 0;
    ncclResult_t result;

    if (*request == NULL && sends)
        result = net->isend(p->send, source, bytes, 3, p->send_mr, NULL, request);
    else if (*request == NULL)
        result = net->irecv(p->recv, 1, data, sizes, tags, mrs, NULL, request);
    else
        result = net->test(*request, &done, &got);
    return result != ncclSuccess ? -1 : done;
}

/*
 * One message. An end with an error is closed at once, as NCCL's abort does, and the other must end too. A small send may fail after it was
 * done: the other end must hear of it by itself.
 */
static bool transfer(struct pair *p, size_t bytes)
{
    void *sent = NULL, *received = NULL;
    int send_end = 0, recv_end = 0;
    uint64_t start = braid_now_ns();

    memset(target, 0, bytes);
    while (send_end == 0 || recv_end == 0) {
        if (recv_end == 0)
            recv_end = push(p, false, bytes, &received);
        if (send_end == 0)
            send_end = push(p, true, bytes, &sent);
        if (recv_end < 0)
            close_recv(p);
        if (send_end < 0)
            close_send(p);
        late(start, send_end == 0 ? "a send" : "a receive");
    }
    if (recv_end > 0 && memcmp(source, target, bytes) != 0) {
        fprintf(stderr, "%s: wrong data in a transfer of %zu bytes\n", turn, bytes);
        exit(1);
    }
    snprintf(step, sizeof(step), "%zu bytes: send %d, receive %d%s", bytes, send_end, recv_end,
             p->send == NULL || p->recv == NULL ? ", closed" : "");
    cut_short = send_end > 0 && recv_end > 0 && (p->send == NULL || p->recv == NULL);
    return send_end > 0 && recv_end > 0 && p->send != NULL && p->recv != NULL;
}

/* A whole life; true when nothing failed. */
static bool life(void)
{
    struct pair p = {0};
    ncclNetCommConfig_v12_t config = {.trafficClass = -1};
    int devices = 0;
    uint64_t start = braid_now_ns();
    bool right = net->init(&p.ctx, 1, &config, sink, NULL) == ncclSuccess;

    if (!right)
        return false;
    right = net->devices(&devices) == ncclSuccess && devices > 0 && connect_pair(&p);
    right = right && net->regMr(p.send, source, LARGE, NCCL_PTR_HOST, &p.send_mr) == ncclSuccess;
    right = right && net->regMr(p.recv, target, LARGE, NCCL_PTR_HOST, &p.recv_mr) == ncclSuccess;
    for (int i = 0; i < 2 && right; i++)
        right = transfer(&p, SMALL) && transfer(&p, LARGE);
    close_send(&p);
    close_recv(&p);
    if (p.listener != NULL)
        net->closeListen(p.listener);
    net->finalize(p.ctx);
    late(start, "closing");
    return right;
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* -- every kind, every n ----------------------------------------------------------------------------------------------------- */

struct tally {
    int failed, good, silent, unnamed, wordy, leaks;
};

/* False when a life has fewer than n calls of this kind. */
static bool play(enum call call, int n, struct tally *tally)
{
    uint64_t start = braid_now_ns();
    int before = open_descriptors();
    int after;
    bool right;

    snprintf(turn, sizeof(turn), "%s call %d (%s)", kinds[call].name, n,
             strerror(kinds[call].error));
    warnings = 0;
    named_error = cut_short = false;
    last_warning[0] = step[0] = '\0';
    left = n;
    failing = (int)call;
    right = life() || cut_short;
    failing = -1;
    if (left > 0)
        return false;
    tally->failed++;
    tally->good += right;
    after = open_descriptors();
    if (after != before)
        tally->leaks++, printf("%s: %d descriptors are left\n", turn, after - before);
    if (!right && warnings == 0)
        tally->silent++, printf("%s: failed without a word (%s)\n", turn, step);
    else if (!right && !named_error && kinds[call].error != ECONNRESET) /* "lost peer" */
        tally->unnamed++, printf("%s: no warning names the error: %s\n", turn, last_warning);
    if (warnings > MAX_WARNINGS)
        tally->wordy++, printf("%s: %d warnings; the last: %s\n", turn, warnings, last_warning);
    if (loud || braid_now_ns() - start > 500000000)
        printf("%s: %s, %d warnings, %.1f s\n", turn, right ? "good" : "an error", warnings,
               (double)(braid_now_ns() - start) / 1e9);
    return true;
}

int main(int argc, char **argv)
{
    void *plugin = argc >= 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    struct tally tally = {0};

    setvbuf(stdout, NULL, _IOLBF, 0);
    loud = argc > 2;
    if (plugin == NULL || (net = dlsym(plugin, "ncclNetPlugin_v12")) == NULL) {
        fprintf(stderr, "usage: sock_fail_nth PLUGIN [loud]: %s\n", argc >= 2 ? dlerror() : "");
        return 2;
    }
    for (int i = 0; i < LARGE; i++)
        source[i] = (char)(i * 31 + 7);
    snprintf(turn, sizeof(turn), "no call fails");
    if (!life()) {
        fprintf(stderr, "it fails without a failing call: %s\n", last_warning);
        return 1;
    }
    for (int call = 0; call < CALLS; call++)
        for (int n = 1; n <= MAX_NTH && play((enum call)call, n, &tally); n++)
            ;
    printf("%d calls failed one by one, %d without consequence; %d lives left descriptors, %d "
           "failed without a word, %d did not name the error, %d said too much\n",
           tally.failed, tally.good, tally.leaks, tally.silent, tally.unnamed, tally.wordy);
    return tally.leaks || tally.silent || tally.wordy || tally.failed == 0;
}
