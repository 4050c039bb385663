/*
 * A net plugin as a target of braid-netperf: two ranks with connections both ways, driven as NCCL drives them. Service thread: setup
 * and registration. Progress thread: posts ahead and polls, and yields the core when nothing moved.
 */
#include "netperf_side.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int depth_for(const struct side *s, size_t bytes)
{
    size_t depth = bytes ? BUFFER_BUDGET / bytes : MAX_DEPTH;

    if (s->task.pattern == RING)
        return 4; /* NCCL's 8 steps, two a message */
    if (s->task.pattern != RATE && depth > 8)
        depth = 8;
    if (depth > (size_t)s->settings.depth)
        depth = (size_t)s->settings.depth;
    return depth < 2 ? 2 : (int)depth;
}

static void prepare_job(void *arg)
{
    struct side *s = arg;
    uint64_t messages;
    size_t bytes = s->task.pattern == RING ? ring_message(&s->task, &messages) : s->task.bytes;

    for (int i = 0; i < s->count; i++) {
        struct lane *l = &s->lanes[i];
        size_t size = bytes > SYNC_BYTES ? bytes : SYNC_BYTES;

        l->room = s->task.pattern == LATENCY ? s->settings.room : 0;
        size = size > l->room ? size : l->room;
        l->conn = &s->conns[i];
        l->posted = l->done = 0;
        l->bytes = bytes;
        l->depth = depth_for(s, bytes);
        for (int d = 0; d < l->depth; d++) {
            fake_buffer_make(&l->buffers[d], size, true);
            memset(l->buffers[d].data, d + 1, size);
            fake_must(s->r,
                      fake_net_reg(&s->r->net, l->conn->comm, l->buffers[d].data, size,
                                   &l->buffers[d].mh),
                      "regMr");
        }
    }
}

static void release_job(void *arg)
{
    struct side *s = arg;

    for (int i = 0; i < s->count; i++)
        for (int d = 0; d < s->lanes[i].depth; d++) {
            struct fake_buffer *b = &s->lanes[i].buffers[d];

            fake_must(s->r, fake_net_dereg(&s->r->net, s->lanes[i].conn->comm, b->mh), "deregMr");
            fake_buffer_free(b);
        }
}

static void note_call(struct side *s, enum call kind, uint64_t begin)
{
    double used = s->timing_calls ? (double)(fake_thread_cpu_ns() - begin) / 1e9 : 0;

    if (s->adding_calls)
        s->outcome.calls_s[kind] += (double)(fake_now_ns() - begin) / 1e9;

    if (used > s->outcome.longest_call_s)
        s->outcome.longest_call_s = used;
}

static uint64_t call_begins(const struct side *s)
{
    return s->adding_calls ? fake_now_ns() : s->timing_calls ? fake_thread_cpu_ns() : 0;
}

bool side_post(struct side *s, struct lane *l)
{
    const struct fake_net *net = &s->r->net;
    struct fake_buffer *b = &l->buffers[l->posted % (uint64_t)l->depth];
    void **request = &l->requests[l->posted % (uint64_t)l->depth];
    void *data = b->data;
    int tag = 1;
    size_t room = l->room > l->bytes ? l->room : l->bytes;
    uint64_t begin = call_begins(s);

    *request = NULL;
    if (l->conn->sends)
        fake_must(s->r, fake_net_isend(net, l->conn->comm, data, l->bytes, tag, b->mh, request),
                  "isend");
    else
        fake_must(s->r, fake_net_irecv(net, l->conn->comm, 1, &data, &room, &tag, &b->mh, request),
                  "irecv");
    note_call(s, l->conn->sends ? ISEND : IRECV, begin);
    l->posted += *request != NULL;
    return *request != NULL;
}

bool side_finish(struct side *s, struct lane *l)
{
    int done = 0;
    int size = 0;
    uint64_t begin = call_begins(s);

    fake_must(s->r,
              fake_net_test(&s->r->net, l->requests[l->done % (uint64_t)l->depth], &done, &size),
              "test");
    note_call(s, TEST, begin);
    l->done += done != 0;
    return done != 0;
}

/* One step of a lane that has `messages` to move in all. */
static bool advance(struct side *s, struct lane *l, uint64_t messages)
{
    bool moved = false;

    if (l->posted < messages && l->posted - l->done < (uint64_t)l->depth)
        moved = side_post(s, l);
    if (l->done < l->posted)
        moved |= side_finish(s, l);
    return moved;
}

void side_check_late(const struct side *s, uint64_t since, const char *what)
{
    if (fake_late(s->r, since))
        fake_die(s->r, "waited %u s for %s (%zu bytes)", s->r->options->timeout_s, what,
                 s->task.bytes);
}

/* Moves lanes until each has done `messages` in all. `due_ns` > 0: sends keep to a schedule, and idle time is slept. */
static void drive(struct side *s, struct lane **lanes, int count, uint64_t messages, double due_ns)
{
    uint64_t start = fake_now_ns();
    uint64_t idle_ns = start;
    unsigned idle = 0;
    int open;

    do {
        bool moved = false;

        open = 0;
        for (int i = 0; i < count; i++) {
            struct lane *l = lanes[i];
            uint64_t allowed = messages;

            if (due_ns > 0 && l->conn->sends) {
                allowed = (uint64_t)((double)(fake_now_ns() - start) / due_ns) + 1;
                allowed = allowed < messages ? allowed : messages;
            }
            if (l->done == messages)
                continue;
            open++;
            moved |= advance(s, l, allowed);
        }
        if (moved) {
            idle = 0;
        } else {
            if (++idle == 1024)
                idle_ns = fake_now_ns();
            if (idle % 1024 == 0)
                side_check_late(s, idle_ns, "messages");
            if (due_ns > 0)
                usleep(50);
            else
                sched_yield();
        }
    } while (open);
}

struct lane *side_lane(struct side *s, bool sends, int channel)
{
    for (int i = 0; i < s->count; i++)
        if (s->conns[i].sends == sends && s->conns[i].channel == channel)
            return &s->lanes[i];
    return NULL;
}

/* Both ranks have come here and every lane is warm. */
static void meet(struct side *s)
{
    struct lane *out = side_lane(s, true, 0);
    struct lane *in = side_lane(s, false, 0);
    size_t bytes = in->bytes;
    struct lane *pair[] = {in, out};

    in->bytes = out->bytes = SYNC_BYTES;
    drive(s, pair, 2, in->done + 1, 0);
    in->bytes = out->bytes = bytes;
}

static void ping_pong(struct side *s)
{
    struct lane *out = side_lane(s, true, 0);
    struct lane *in = side_lane(s, false, 0);
    uint64_t base = in->done;
    uint64_t last = base + s->task.messages;
    uint64_t idle_ns = 0, answer_ns = 0;
    uint64_t think_ns = (uint64_t)(s->settings.think_us * 1e3);

    for (unsigned idle = 0; in->done < last;) {
        bool moved = false;

        if (in->posted < last && in->posted - in->done < (uint64_t)in->depth)
            side_post(s, in);
        /* Rank 0 is one message ahead of what it has received, rank 1 level with it. */
        if (out->posted < last && out->posted < in->done + (s->r->rank == 0) &&
            out->posted - out->done < (uint64_t)out->depth && fake_now_ns() >= answer_ns)
            moved |= side_post(s, out);
        if (in->done < in->posted && side_finish(s, in)) {
            moved = true;
            answer_ns = fake_now_ns() + think_ns;
        }
        if (out->done < out->posted)
            side_finish(s, out);
        idle = moved ? 0 : idle + 1;
        if (!moved)
            sched_yield();
        if (idle == 4096)
            idle_ns = fake_now_ns();
        if (idle && idle % 4096 == 0)
            side_check_late(s, idle_ns, "a ping-pong");
    }
    while (out->done < last)
        if (!(out->posted < last && side_post(s, out)) && !side_finish(s, out))
            sched_yield();
}

static int choose_lanes(struct side *s, struct lane **lanes)
{
    bool both = s->task.pattern == BOTH_WAYS || s->task.pattern == CPU ||
                s->task.pattern == CALLS || s->task.pattern == RING;
    int count = 0;

    for (int c = 0; c < s->task.comms; c++)
        for (int sends = 0; sends < 2; sends++)
            if (both || sends == (s->r->rank == 0))
                lanes[count++] = side_lane(s, sends, c);
    return count;
}

/* The first lane of each direction has the meeting's message behind it. */
static void count_anew(struct lane **lanes, int count)
{
    for (int i = 0; i < count; i++)
        lanes[i]->posted = lanes[i]->done = 0;
}

static void work_job(void *arg)
{
    struct side *s = arg;
    struct lane *lanes[2 * MAX_COMMS];
    int count = choose_lanes(s, lanes);
    uint64_t base;
    uint64_t begin;
    uint64_t cpu;
    double due_ns = 0;

    meet(s);
    s->timing_calls = s->task.pattern == CALLS;
    s->adding_calls = s->task.pattern == RING;
    if (s->task.pattern == CPU)
        due_ns = (double)s->task.bytes * s->task.comms / s->task.load_GBps;
    cpu = fake_process_cpu_ns();
    begin = fake_now_ns();
    if (s->task.pattern == LATENCY) {
        ping_pong(s);
    } else if (s->task.pattern == RING) {
        count_anew(lanes, count);
        ring_play(s);
    } else if (s->task.pattern == IDLE) {
        fake_sleep_ms((unsigned)(s->task.seconds * 1e3));
    } else {
        base = s->task.messages;
        count_anew(lanes, count);
        drive(s, lanes, count, base, due_ns);
    }
    s->outcome.seconds = (double)(fake_now_ns() - begin) / 1e9;
    s->outcome.cpu_s = (double)(fake_process_cpu_ns() - cpu) / 1e9;
}

static void serve(struct side *s)
{
    uint32_t seq = 0;

    s->control->ready[s->r->rank] = 1;
    for (;;) {
        seq = wait_task(s->control, seq);
        s->task = s->control->task;
        if (s->task.messages == 0)
            return;
        memset(&s->outcome, 0, sizeof(s->outcome));
        s->timing_calls = s->adding_calls = false;
        fake_worker_run(&s->r->service, prepare_job, s);
        fake_worker_run(&s->r->progress, work_job, s);
        s->control->outcome[s->r->rank] = s->outcome;
        fake_worker_run(&s->r->service, release_job, s);
        s->control->done[s->r->rank] = seq;
    }
}

static bool talks_both(int from, int to, int ranks)
{
    (void)ranks;
    return from != to;
}

struct job {
    const struct target *target;
    const struct settings *settings;
};

static void pin_job(void *arg)
{
    const struct side *s = arg;

    pin_side(s->r->rank);
}

/* The name under which the target is printed: with what sets it apart from the same plugin with other settings. */
static void put_name(struct side *s, const struct target *t)
{
    char *name = s->control->name;
    size_t room = sizeof(s->control->name);
    int at = snprintf(name, room, "%s", s->r->net.name);

    for (int i = 0; i < t->set_count && at < (int)room; i++)
        at += snprintf(name + at, room - (size_t)at, " %s", t->set[i]);
    s->control->version = s->r->net.version;
}

static void rank_main(struct fake_rank *r, void *arg)
{
    const struct job *job = arg;
    struct side *s = calloc(1, sizeof(*s));

    s->r = r;
    s->control = job->target->control;
    s->settings = *job->settings;
    if (job->target->depth)
        s->settings.depth = job->target->depth;
    if (s->settings.pin) {
        pin_job(s);
        fake_worker_run(&r->service, pin_job, s);
        fake_worker_run(&r->progress, pin_job, s);
    }
    fake_rank_load(r);
    if (r->rank == 0)
        put_name(s, job->target);
    s->count = fake_conns_make(r, s->conns, 2 * MAX_COMMS, talks_both);
    fake_connect_all(r, s->conns, s->count);
    serve(s);
    fake_close_all(r, s->conns, s->count);
    fake_barrier(r, 2, "end");
    fake_rank_unload(r);
    free(s);
}

int plugin_job(const struct target *target, const struct settings *settings)
{
    struct fake_options options = {.plugin = target->plugin,
                                   .version = target->version,
                                   .ranks = SIDES,
                                   .channels = settings->comms,
                                   .netns = settings->netns,
                                   .timeout_s = settings->timeout_s};
    struct job job = {target, settings};
    char env[SIDES * MAX_SET][256];

    for (int i = 0; i < SIDES * target->set_count; i++) {
        snprintf(env[i], sizeof(env[i]), "%d:%s", i % SIDES, target->set[i / SIDES]);
        options.env[options.env_count++] = env[i];
    }

    return fake_ranks_run(&options, 0, rank_main, &job);
}
