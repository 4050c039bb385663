/* Traffic as NCCL's two threads drive it, with checked contents (see fake_flow.h). */
#include "fake_flow.h"

#include "fake_poll.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_DEPTH 32
#define SCRIBBLE  0xee

/* One message buffer in flight. */
struct item {
    struct fake_buffer buffer;
    void *request; /* sends only: one request a buffer */
};

struct flow {
    struct fake_conn *conn;
    const struct fake_traffic *traffic;
    struct item items[MAX_DEPTH][FAKE_MAX_GROUP];
    void *requests[MAX_DEPTH]; /* receives: one request a group */
    uint64_t posted[FAKE_MAX_GROUP];
    uint64_t done[FAKE_MAX_GROUP];
    uint64_t filled[FAKE_MAX_GROUP]; /* buffers made ready, so that a retry does not do it again */
    struct fake_poller poller;
    uint64_t progress_ns;
};

struct flow_list {
    struct fake_rank *r;
    struct flow *flows;
    int count;
    _Atomic bool finished;
};

static uint64_t seed_of(const struct flow *f, uint64_t step, int sub)
{
    const struct fake_conn *c = f->conn;
    uint64_t from = (uint64_t)(c->sends ? c->r->rank : c->peer);
    uint64_t to = (uint64_t)(c->sends ? c->peer : c->r->rank);

    return fake_mix(c->r->options->seed + from * 64 + to * 4096 + (uint64_t)c->channel * 8 +
                    (uint64_t)sub + fake_mix(step) * 2);
}

/* Steps of one tag: groups get narrower near the end, as when NCCL's channels differ in length. */
static uint64_t steps_of(const struct fake_traffic *t, int sub)
{
    return t->steps - t->steps / 4 * (uint64_t)sub / (uint64_t)t->group;
}

static int group_at(const struct fake_traffic *t, uint64_t step)
{
    int n = t->group;

    while (n > 1 && steps_of(t, n - 1) <= step)
        n--;
    return n;
}

static size_t size_at(const struct flow *f, uint64_t step, int sub)
{
    const struct fake_traffic *t = f->traffic;
    uint64_t random = fake_mix(seed_of(f, step, sub) + 17);

    if (!t->vary)
        return t->bytes;
    switch (random % 4) {
    case 0: return 0;
    case 1: return (random >> 8) % (t->bytes < 256 ? t->bytes + 1 : 257);
    default: return (random >> 8) % (t->bytes + 1);
    }
}

static size_t capacity_at(const struct flow *f, uint64_t step, int sub)
{
    return f->traffic->roomy ? f->traffic->bytes : size_at(f, step, sub);
}

static int tag_of(const struct fake_conn *c, int sub)
{
    return 7 + sub * 3 + c->channel * 64;
}

static void die_slow(const struct flow *f, const char *what, uint64_t step, int sub)
{
    const struct fake_conn *c = f->conn;

    fake_die(c->r,
             "waited %u s for %s %llu of %llu (tag %d, %zu bytes) %s rank %d, channel %d; posted "
             "%llu, done %llu",
             c->r->options->timeout_s, what, (unsigned long long)step,
             (unsigned long long)steps_of(f->traffic, sub), tag_of(c, sub), size_at(f, step, sub),
             c->sends ? "to" : "from", c->peer, c->channel, (unsigned long long)f->posted[sub],
             (unsigned long long)f->done[sub]);
}

static void prepare(struct flow *f)
{
    const struct fake_traffic *t = f->traffic;
    struct fake_rank *r = f->conn->r;

    for (int i = 0; i < t->depth; i++)
        for (int sub = 0; sub < t->group; sub++) {
            struct fake_buffer *b = &f->items[i][sub].buffer;

            fake_buffer_make(b, t->bytes, t->aligned || t->poll);
            fake_must(r, fake_net_reg(&r->net, f->conn->comm, b->net, t->bytes, &b->mh), "regMr");
        }
}

static void prepare_job(void *arg)
{
    struct flow_list *list = arg;

    for (int i = 0; i < list->count; i++)
        prepare(&list->flows[i]);
}

static void release_job(void *arg)
{
    struct flow_list *list = arg;

    for (int i = 0; i < list->count; i++) {
        struct flow *f = &list->flows[i];
        struct fake_rank *r = f->conn->r;

        for (int d = 0; d < f->traffic->depth; d++)
            for (int sub = 0; sub < f->traffic->group; sub++) {
                struct fake_buffer *b = &f->items[d][sub].buffer;

                if (!fake_buffer_intact(b))
                    fake_die(r, "bytes in front of a buffer were overwritten (rank %d)",
                             f->conn->peer);
                fake_must(r, fake_net_dereg(&r->net, f->conn->comm, b->mh), "deregMr");
                fake_buffer_free(b);
            }
    }
}

/* Registers and deregisters a scratch buffer on every connection until the traffic is over. */
static void churn_job(void *arg)
{
    struct flow_list *list = arg;
    struct fake_net *net = &list->r->net;

    while (!list->finished) {
        for (int i = 0; i < list->count; i++) {
            struct fake_buffer b;

            fake_buffer_make(&b, 8192, true);
            fake_must(list->r, fake_net_reg(net, list->flows[i].conn->comm, b.net, 8192, &b.mh),
                      "regMr while traffic runs");
            fake_must(list->r, fake_net_dereg(net, list->flows[i].conn->comm, b.mh),
                      "deregMr while traffic runs");
            fake_buffer_free(&b);
        }
        fake_sleep_ms(1);
    }
}

static bool post_send(struct flow *f, int sub)
{
    struct fake_conn *c = f->conn;
    uint64_t step = f->posted[sub];
    struct item *item = &f->items[step % (uint64_t)f->traffic->depth][sub];
    size_t size = size_at(f, step, sub);

    if (f->filled[sub] == step) {
        if (f->traffic->poll)
            fake_poll_fill(item->buffer.data, size, f->traffic->poll, step);
        else
            fake_pattern_fill(item->buffer.data, size, seed_of(f, step, sub));
        f->filled[sub]++;
    }
    item->request = NULL;
    fake_must(c->r,
              fake_net_isend(&c->r->net, c->comm, item->buffer.net, size, tag_of(c, sub),
                             item->buffer.mh, &item->request),
              "isend");
    if (!item->request)
        return false;
    f->posted[sub]++;
    return true;
}

static bool test_send(struct flow *f, int sub)
{
    struct fake_conn *c = f->conn;
    const struct fake_options *o = c->r->options;
    uint64_t step = f->done[sub];
    struct item *item = &f->items[step % (uint64_t)f->traffic->depth][sub];
    size_t size = size_at(f, step, sub);
    int done = 0;
    int reported = -1;

    fake_must(
        c->r,
        fake_net_test(&c->r->net, item->request, &done, o->no_sizes || o->oob ? NULL : &reported),
        "test of a send");
    if (!done)
        return false;
    if (!o->no_sizes && !o->oob && reported != (int)size)
        fake_die(c->r, "send %llu to rank %d: %zu bytes sent, test reported %d",
                 (unsigned long long)step, c->peer, size, reported);
    memset(item->buffer.data, SCRIBBLE, size < 65536 ? size : 65536);
    f->done[sub]++;
    return true;
}

/* May a send of this tag be posted now? A tag runs ahead of the slowest by at most the depth. */
static bool may_send(const struct flow *f, int sub)
{
    const struct fake_traffic *t = f->traffic;

    if (f->posted[sub] == steps_of(t, sub) || f->posted[sub] - f->done[sub] == (uint64_t)t->depth)
        return false;
    if (t->ahead && sub > 0 && f->posted[0] < steps_of(t, 0) &&
        f->posted[0] - f->done[0] < (uint64_t)t->depth)
        return false;
    if (!f->conn->r->options->keep_order)
        return true;
    for (int other = 0; other < t->group; other++)
        if (f->posted[other] + (other < sub ? 0 : 1) <= f->posted[sub] &&
            f->posted[other] < steps_of(t, other))
            return false;
    return true;
}

static bool progress_send(struct flow *f, unsigned turn)
{
    const struct fake_traffic *t = f->traffic;
    bool moved = false;

    for (int i = 0; i < t->group; i++) {
        int sub = f->conn->r->options->keep_order ? i : (int)((i + turn) % (unsigned)t->group);

        if (may_send(f, sub))
            moved |= post_send(f, sub);
        if (f->done[sub] < f->posted[sub])
            moved |= test_send(f, sub);
    }
    return moved;
}

static bool post_receive(struct flow *f)
{
    struct fake_conn *c = f->conn;
    const struct fake_traffic *t = f->traffic;
    uint64_t step = f->posted[0];
    struct item *items = f->items[step % (uint64_t)t->depth];
    void **request = &f->requests[step % (uint64_t)t->depth];
    int n = group_at(t, step);
    void *data[FAKE_MAX_GROUP];
    void *mh[FAKE_MAX_GROUP];
    size_t sizes[FAKE_MAX_GROUP];
    int tags[FAKE_MAX_GROUP];

    for (int sub = 0; sub < n; sub++) {
        data[sub] = items[sub].buffer.net;
        mh[sub] = items[sub].buffer.mh;
        sizes[sub] = capacity_at(f, step, sub);
        tags[sub] = tag_of(c, sub);
        if (!t->poll && f->filled[0] == step)
            memset(items[sub].buffer.data, FAKE_POISON, t->bytes < 65536 ? t->bytes : 65536);
    }
    f->filled[0] = step + 1;
    /* NCCL marks each receive that it polls. */
    *request = (t->optional || t->poll) && n == 1 ? FAKE_OPTIONAL : NULL;
    if (t->poll)
        fake_poller_arm(&f->poller, step, items[0].buffer.data);
    fake_must(c->r, fake_net_irecv(&c->r->net, c->comm, n, data, sizes, tags, mh, request),
              "irecv");
    if (*request == FAKE_OPTIONAL)
        fake_die(c->r, "irecv from rank %d left the optional-completion mark as the request",
                 c->peer);
    if (!*request)
        return false;
    f->posted[0]++;
    return true;
}

static void check_contents(const struct flow *f, uint64_t step, int sub)
{
    const struct fake_conn *c = f->conn;
    const unsigned char *data = f->items[step % (uint64_t)f->traffic->depth][sub].buffer.data;
    size_t size = size_at(f, step, sub);
    size_t room = f->traffic->bytes - size;
    size_t wrong = fake_pattern_check(data, size, seed_of(f, step, sub));

    if (wrong < size)
        fake_die(
            c->r,
            "receive %llu from rank %d, channel %d, tag %d: byte %zu of %zu is wrong (0x%02x%s)",
            (unsigned long long)step, c->peer, c->channel, tag_of(c, sub), wrong, size, data[wrong],
            data[wrong] == FAKE_POISON ? ", never written" : "");
    for (size_t i = size; i < size + (room < 256 ? room : 256) && i < 65536; i++)
        if (data[i] != FAKE_POISON)
            fake_die(c->r, "receive %llu from rank %d: byte %zu behind a message of %zu changed",
                     (unsigned long long)step, c->peer, i, size);
}

/*
 * What lies in GPU memory is flushed before a kernel may read it, the whole group at once; a NULL request means that it is done already. An
 * entry of zero bytes is part of the group, as in NCCL.
 */
static void flush_receive(struct flow *f, uint64_t step, int n, int *sizes)
{
    struct fake_conn *c = f->conn;
    struct item *items = f->items[step % (uint64_t)f->traffic->depth];
    void *data[FAKE_MAX_GROUP], *mh[FAKE_MAX_GROUP], *request = NULL;
    uint64_t since = fake_now_ns();
    int done = 0;

    for (int sub = 0; sub < n; sub++) {
        data[sub] = items[sub].buffer.net;
        mh[sub] = items[sub].buffer.mh;
        sizes[sub] = (int)size_at(f, step, sub);
    }
    fake_must(c->r, fake_net_iflush(&c->r->net, c->comm, n, data, sizes, mh, &request), "iflush");
    while (request != NULL && !done) {
        fake_must(c->r, fake_net_test(&c->r->net, request, &done, NULL), "test of a flush");
        if (!done && fake_late(c->r, since))
            die_slow(f, "the flush of receive", step, 0);
    }
}

static bool test_receive(struct flow *f)
{
    struct fake_conn *c = f->conn;
    const struct fake_traffic *t = f->traffic;
    const struct fake_options *o = c->r->options;
    bool sized = !o->no_sizes && !o->oob && !t->optional;
    uint64_t step = f->done[0];
    int n = group_at(t, step);
    int sizes[FAKE_MAX_GROUP];
    int done = 0;

    for (int sub = 0; sub < n; sub++)
        sizes[sub] = -1;
    fake_must(c->r,
              fake_net_test(&c->r->net, f->requests[step % (uint64_t)t->depth], &done,
                            o->no_sizes || o->oob ? NULL : sizes),
              "test of a receive");
    if (!done)
        return false;
    for (int sub = 0; sub < n; sub++) {
        if (sized && sizes[sub] != (int)size_at(f, step, sub))
            fake_die(c->r, "receive %llu from rank %d, entry %d of %d: %zu bytes sent, %d reported",
                     (unsigned long long)step, c->peer, sub, n, size_at(f, step, sub), sizes[sub]);
    }
    if (o->cuda != NULL)
        flush_receive(f, step, n, sizes);
    for (int sub = 0; sub < n && !t->poll; sub++)
        check_contents(f, step, sub);
    f->done[0]++;
    return true;
}

static bool progress_receive(struct flow *f)
{
    const struct fake_traffic *t = f->traffic;
    bool moved = false;
    uint64_t freed = t->poll ? fake_poller_done(&f->poller) : f->done[0];

    if (freed > f->done[0])
        freed = f->done[0];
    if (f->posted[0] < t->steps && f->posted[0] - freed < (uint64_t)t->depth) {
        if (t->lag_us && f->filled[0] == f->posted[0])
            usleep(t->lag_us);
        moved |= post_receive(f);
    }
    if (f->done[0] < f->posted[0])
        moved |= test_receive(f);
    return moved;
}

static bool flow_over(const struct flow *f)
{
    const struct fake_traffic *t = f->traffic;

    if (!f->conn->sends)
        return f->done[0] == t->steps && (!t->poll || fake_poller_done(&f->poller) == t->steps);
    for (int sub = 0; sub < t->group; sub++)
        if (f->done[sub] < steps_of(t, sub))
            return false;
    return true;
}

static void check_late(struct flow *f)
{
    int sub = 0;

    if (!fake_late(f->conn->r, f->progress_ns))
        return;
    while (sub + 1 < f->traffic->group && f->conn->sends &&
           f->done[sub] == steps_of(f->traffic, sub))
        sub++;
    if (f->done[sub] < f->posted[sub])
        die_slow(f, f->conn->sends ? "the end of send" : "the end of receive", f->done[sub], sub);
    die_slow(f, f->conn->sends ? "isend to take send" : "irecv to take receive", f->posted[sub],
             sub);
}

static void progress_job(void *arg)
{
    struct flow_list *list = arg;
    unsigned turn = 0;
    bool all;

    for (int i = 0; i < list->count; i++)
        list->flows[i].progress_ns = fake_now_ns();
    do {
        bool moved = false;

        all = true;
        turn++;
        for (int i = 0; i < list->count; i++) {
            struct flow *f = &list->flows[i];
            bool one;

            if (flow_over(f))
                continue;
            all = false;
            one = f->conn->sends ? progress_send(f, turn) : progress_receive(f);
            if (one)
                f->progress_ns = fake_now_ns();
            else if (turn % 256 == 0)
                check_late(f);
            moved |= one;
        }
        if (!moved)
            sched_yield();
    } while (!all);
    list->finished = true;
}

void fake_traffic_run(struct fake_rank *r, struct fake_conn *conns, int count,
                      const struct fake_traffic *traffic)
{
    struct flow_list list = {.r = r, .count = count};

    if (traffic->depth > MAX_DEPTH || traffic->group > FAKE_MAX_GROUP)
        fake_die(r, "depth %d or group %d is too large", traffic->depth, traffic->group);
    list.flows = calloc((size_t)count, sizeof(*list.flows));
    for (int i = 0; i < count; i++) {
        list.flows[i].conn = &conns[i];
        list.flows[i].traffic = traffic;
    }
    fake_worker_run(&r->service, prepare_job, &list);
    for (int i = 0; i < count; i++)
        if (traffic->poll && !conns[i].sends)
            fake_poller_start(&list.flows[i].poller, r, traffic, conns[i].peer);
    if (traffic->churn)
        fake_worker_post(&r->service, churn_job, &list);
    if (r->options->oob)
        progress_job(&list);
    else
        fake_worker_run(&r->progress, progress_job, &list);
    fake_worker_wait(&r->service);
    for (int i = 0; i < count; i++)
        if (traffic->poll && !conns[i].sends)
            fake_poller_stop(&list.flows[i].poller);
    fake_worker_run(&r->service, release_job, &list);
    free(list.flows);
}
