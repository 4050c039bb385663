/*
 * Plain TCP over loopback as a target of braid-netperf: what the machine gives to two processes that do nothing else. Latency is a
 * ping-pong on non-blocking sockets that yields the core between polls, as the plugins are polled; bulk has one blocking thread for
 * each end of each connection.
 */
#include "netperf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "tests/fakenccl/fake_util.h"

struct pump {
    pthread_t thread;
    int fd;
    bool sends;
    size_t bytes;
    uint64_t messages;
    double due_ns;
    int depth;
};

__attribute__((noreturn)) static void die(const char *what)
{
    fprintf(stderr, "braid-netperf: raw TCP: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* All of it, blocking. */
static void move(int fd, bool sends, char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = sends ? send(fd, data + at, bytes - at, MSG_NOSIGNAL)
                          : recv(fd, data + at, bytes - at, 0);

        if (n <= 0 && errno != EINTR)
            die(sends ? "send" : "recv");
        at += n > 0 ? (size_t)n : 0;
    }
}

static void *pump_main(void *arg)
{
    struct pump *p = arg;
    char *data = malloc(p->bytes * (size_t)p->depth);
    uint64_t start = fake_now_ns();

    memset(data, 1, p->bytes * (size_t)p->depth);
    for (uint64_t i = 0; i < p->messages; i++) {
        uint64_t due = start + (uint64_t)((double)i * p->due_ns);

        while (p->sends && p->due_ns > 0 && fake_now_ns() < due)
            usleep(50);
        move(p->fd, p->sends, data + (i % (uint64_t)p->depth) * p->bytes, p->bytes);
    }
    free(data);
    return NULL;
}

/* Small messages in one stream: the sender makes one call a message, the receiver takes what is there. */
static void *small_stream(void *arg)
{
    struct pump *p = arg;
    char data[65536];
    uint64_t left = p->messages * p->bytes;

    memset(data, 1, sizeof(data));
    for (uint64_t i = 0; p->sends && i < p->messages; i++)
        move(p->fd, true, data, p->bytes);
    while (!p->sends && left) {
        ssize_t n = recv(p->fd, data, left < sizeof(data) ? left : sizeof(data), 0);

        if (n <= 0)
            die("recv");
        left -= (uint64_t)n;
    }
    return NULL;
}

/* All of it, polling and yielding. */
static void spin(int fd, bool sends, char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = sends ? send(fd, data + at, bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT)
                          : recv(fd, data + at, bytes - at, MSG_DONTWAIT);

        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno == EAGAIN)
            sched_yield();
        else
            die("ping-pong");
    }
}

static void ping_pong(const int *fds, int side, const struct task *t)
{
    char *data = calloc(1, t->bytes + 1);

    for (uint64_t i = 0; i < t->messages; i++) {
        if (side == 0)
            spin(fds[0], true, data, t->bytes);
        spin(fds[side == 0 ? 1 : 0], false, data, t->bytes);
        if (side == 1)
            spin(fds[1], true, data, t->bytes);
    }
    free(data);
}

/* Connection 2c carries rank 0 to rank 1, 2c + 1 the other way. */
static void pump_all(const int *fds, int side, const struct task *t)
{
    bool both = t->pattern == BOTH_WAYS || t->pattern == CPU;
    struct pump pumps[2 * MAX_COMMS];
    int count = 0;

    for (int i = 0; i < 2 * t->comms; i++) {
        if (!both && i % 2 == 1)
            continue;
        pumps[count] = (struct pump){.fd = fds[i],
                                     .sends = i % 2 == side,
                                     .bytes = t->bytes,
                                     .messages = t->messages,
                                     .depth = t->bytes >= ((size_t)16 << 20) ? 4 : 8};
        if (t->pattern == CPU)
            pumps[count].due_ns = (double)t->bytes * t->comms / t->load_GBps;
        if (pthread_create(&pumps[count].thread, NULL,
                           t->pattern == RATE ? small_stream : pump_main, &pumps[count]) != 0)
            die("thread");
        count++;
    }
    for (int i = 0; i < count; i++)
        pthread_join(pumps[i].thread, NULL);
}

static void meet(const int *fds, int side)
{
    char byte = 0;

    move(fds[side == 0 ? 0 : 1], true, &byte, 1);
    move(fds[side == 0 ? 1 : 0], false, &byte, 1);
}

static void rank_main(const struct target *target, int side)
{
    struct control *control = target->control;
    const int *fds = target->fds[side];
    uint32_t seq = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    control->ready[side] = 1;
    for (;;) {
        struct task t;
        uint64_t begin;
        uint64_t cpu;

        seq = wait_task(control, seq);
        t = control->task;
        if (t.messages == 0)
            _exit(0);
        meet(fds, side);
        cpu = fake_process_cpu_ns();
        begin = fake_now_ns();
        if (t.pattern == LATENCY)
            ping_pong(fds, side, &t);
        else if (t.pattern == IDLE)
            fake_sleep_ms((unsigned)(t.seconds * 1e3));
        else if (t.pattern != CALLS)
            pump_all(fds, side, &t);
        control->outcome[side] =
            (struct outcome){.seconds = (double)(fake_now_ns() - begin) / 1e9,
                             .cpu_s = (double)(fake_process_cpu_ns() - cpu) / 1e9};
        control->done[side] = seq;
    }
}

int raw_job(const struct target *target, const struct settings *settings)
{
    pid_t pids[SIDES];
    int result = 0;

    (void)settings;
    snprintf(target->control->name, sizeof(target->control->name), "raw TCP");
    for (int side = 0; side < SIDES; side++) {
        pids[side] = fork();
        if (pids[side] == 0)
            rank_main(target, side);
    }
    for (int side = 0; side < SIDES; side++) {
        int status = 0;

        waitpid(pids[side], &status, 0);
        result |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return result;
}
