/*
 * Plain TCP over loopback as a target of braid-netperf: what the machine gives to two processes that do nothing else, at its best. Nobody
 * waits in the kernel: non-blocking sockets are polled without a pause (where both sides share one processor, it is yielded), so that
 * no wake-up is paid for, and with Reno, which does not pace. Latency is a ping-pong over one socket, whose answers carry the acknowledgements; bulk moves at most 512 KiB
 * a call; each side has as many threads as it has processors and streams.
 */
#include "netperf.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakenccl/fake_util.h"

#define CALL_BYTES (512 * 1024)
#define RING_BYTES                                                                                 \
    (64 * 1024) /* at least, so that a receiver takes many small messages by one call */

/* One end of a connection and the memory that its messages come from or go to, one after the other. */
struct stream {
    int fd;
    bool sends;
    char *ring;
    size_t ring_bytes;
    size_t bytes; /* of a message */
    uint64_t total, moved;
    double due_ns; /* > 0: a message each so often */
};

struct pump {
    pthread_t thread;
    struct stream *streams; /* every `step`-th of `count` */
    int first, step, count;
    bool yields;
};

__attribute__((noreturn)) static void die(const char *what)
{
    fprintf(stderr, "braid-netperf: raw TCP: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* One call; the bytes moved, 0 when the socket is not ready. */
static size_t move_some(int fd, bool sends, char *data, size_t bytes)
{
    ssize_t n = sends ? send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                      : recv(fd, data, bytes, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        die(sends ? "send" : "recv");
    return n > 0 ? (size_t)n : 0;
}

static void move_all(int fd, bool sends, char *data, size_t bytes, bool yields)
{
    for (size_t at = 0; at < bytes;) {
        size_t n = move_some(fd, sends, data + at, bytes - at);

        at += n;
        if (n == 0 && yields)
            sched_yield();
    }
}

/* What the schedule allows to be sent by now. */
static uint64_t allowed(const struct stream *s, uint64_t start)
{
    uint64_t messages;

    if (!s->sends || s->due_ns <= 0)
        return s->total;
    messages = (uint64_t)((double)(fake_now_ns() - start) / s->due_ns) + 1;
    return messages * s->bytes < s->total ? messages * s->bytes : s->total;
}

/* A sender makes a call of its own for every message, a receiver takes what there is. */
static size_t advance(struct stream *s, uint64_t start)
{
    size_t at = s->moved % s->ring_bytes;
    size_t bytes = s->sends ? s->bytes - s->moved % s->bytes : s->ring_bytes - at;
    uint64_t end = allowed(s, start);
    size_t n;

    if (bytes > CALL_BYTES)
        bytes = CALL_BYTES;
    if (bytes > end - s->moved)
        bytes = end - s->moved;
    n = bytes > 0 ? move_some(s->fd, s->sends, s->ring + at, bytes) : 0;
    s->moved += n;
    return n;
}

static void *pump_main(void *arg)
{
    struct pump *p = arg;
    uint64_t start = fake_now_ns();
    int open;

    do {
        size_t moved = 0;

        open = 0;
        for (int i = p->first; i < p->count; i += p->step) {
            struct stream *s = &p->streams[i];

            if (s->moved == s->total)
                continue;
            open++;
            moved += advance(s, start);
        }
        if (moved == 0 && p->streams[p->first].due_ns > 0)
            usleep(50);
        else if (moved == 0 && p->yields)
            sched_yield();
    } while (open);
    return NULL;
}

static void ping_pong(int fd, int side, const struct task *t, bool yields)
{
    char *data = calloc(1, t->bytes + 1);

    for (uint64_t i = 0; i < t->messages; i++) {
        if (side == 0)
            move_all(fd, true, data, t->bytes, yields);
        move_all(fd, false, data, t->bytes, yields);
        if (side == 1)
            move_all(fd, true, data, t->bytes, yields);
    }
    free(data);
}

/* Connection 2c carries rank 0 to rank 1, 2c + 1 the other way. Memory is touched here, before the clock runs. */
static int make_streams(const int *fds, int side, const struct task *t, struct stream *streams)
{
    bool both = t->pattern == BOTH_WAYS || t->pattern == CPU;
    size_t depth = t->bytes >= ((size_t)16 << 20) ? 4 : 8;
    int count = 0;

    while (depth * t->bytes < RING_BYTES)
        depth *= 2;
    for (int i = 0; i < 2 * t->comms; i++) {
        struct stream *s = &streams[count];

        if (!both && i % 2 == 1)
            continue;
        *s = (struct stream){.fd = fds[i],
                             .sends = i % 2 == side,
                             .ring_bytes = depth * t->bytes,
                             .bytes = t->bytes,
                             .total = t->messages * t->bytes};
        s->ring = malloc(s->ring_bytes);
        if (!s->ring)
            die("memory");
        memset(s->ring, 1, s->ring_bytes);
        if (t->pattern == CPU)
            s->due_ns = (double)t->bytes * t->comms / t->load_GBps;
        count++;
    }
    return count;
}

static void pump_all(struct stream *streams, int count, bool yields)
{
    struct pump pumps[2 * MAX_COMMS];
    int threads = count < side_processors() ? count : side_processors();

    for (int i = 0; i < threads; i++) {
        pumps[i] = (struct pump){
            .streams = streams, .first = i, .step = threads, .count = count, .yields = yields};
        if (i > 0 && pthread_create(&pumps[i].thread, NULL, pump_main, &pumps[i]) != 0)
            die("thread");
    }
    pump_main(&pumps[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(pumps[i].thread, NULL);
}

static void meet(int fd, int side, bool yields)
{
    char byte = 0;

    move_all(fd, side == 0, &byte, 1, yields);
    move_all(fd, side != 0, &byte, 1, yields);
}

static void rank_main(const struct target *target, const struct settings *settings, int side)
{
    struct control *control = target->control;
    const int *fds = target->fds[side];
    uint32_t seq = 0;
    bool yields;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    yields = !settings->pin || !pin_side(side);
    control->ready[side] = 1;
    for (;;) {
        struct stream streams[2 * MAX_COMMS];
        struct task t;
        uint64_t begin;
        uint64_t cpu;
        int count = 0;

        seq = wait_task(control, seq);
        t = control->task;
        if (t.messages == 0)
            _exit(0);
        if (t.pattern != LATENCY && t.pattern != IDLE && t.pattern != CALLS)
            count = make_streams(fds, side, &t, streams);
        meet(fds[0], side, yields);
        cpu = fake_process_cpu_ns();
        begin = fake_now_ns();
        if (t.pattern == LATENCY)
            ping_pong(fds[0], side, &t, yields);
        else if (t.pattern == IDLE)
            fake_sleep_ms((unsigned)(t.seconds * 1e3));
        else if (count > 0)
            pump_all(streams, count, yields);
        control->outcome[side] =
            (struct outcome){.seconds = (double)(fake_now_ns() - begin) / 1e9,
                             .cpu_s = (double)(fake_process_cpu_ns() - cpu) / 1e9};
        for (int i = 0; i < count; i++)
            free(streams[i].ring);
        control->done[side] = seq;
    }
}

int raw_job(const struct target *target, const struct settings *settings)
{
    pid_t pids[SIDES];
    int result = 0;

    snprintf(target->control->name, sizeof(target->control->name), "raw TCP");
    for (int side = 0; side < SIDES; side++) {
        pids[side] = fork();
        if (pids[side] == 0)
            rank_main(target, settings, side);
    }
    for (int side = 0; side < SIDES; side++) {
        int status = 0;

        waitpid(pids[side], &status, 0);
        result |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return result;
}
