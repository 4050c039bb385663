/*
 * Scenarios in which something goes wrong: a send that is too large, a peer that dies or leaves, a
 * close with requests in flight. The plugin must report, in time and on the right side, and must
 * not touch memory that it gave back.
 */
#include "fake_flow.h"
#include "scenario.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CONNS  16
#define POSTS      8
#define AWAY_MS    9000
#define UNASKED_MS 2500
#define EXIT_MS    300
#define REST_MS    400
/* More than the kernel takes, but not than lies in the plugin then: the sender need not wait. By sockets, that is. */
#define AWAY_POSTS 11
#define MOST_POSTS 16

/* One transfer without all the checks of fake_flow, for the progress thread. */
struct transfer {
    struct fake_rank *r;
    struct fake_conn *conns;
    int count;
    size_t send_bytes;
    size_t receive_bytes;
    size_t first_bytes; /* of message 0 on both sides; 0: as the others */
    int posts;          /* messages a connection */
    bool must_fail;
    bool again_sends; /* sends that went well are repeated: the error may come with a later one */
    int again_peer; /* all transfers with this rank are repeated until there is an error; -1: none */
    bool stop_early; /* return after a little while, whatever is in flight */
    _Atomic uint64_t *die_when;
    const char *hook; /* run once, in the middle */
    struct fake_buffer buffers[MAX_CONNS][MOST_POSTS];
    void *requests[MAX_CONNS][MOST_POSTS];
    bool done[MAX_CONNS][MOST_POSTS];
    int result[MAX_CONNS];
    uint64_t failed_ns[MAX_CONNS]; /* from the start */
};

static size_t bytes_of(const struct transfer *t, int i, int k)
{
    if (k == 0 && t->first_bytes)
        return t->first_bytes;
    return t->conns[i].sends ? t->send_bytes : t->receive_bytes;
}

static void reg_job(void *arg)
{
    struct transfer *t = arg;

    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < t->posts; k++) {
            struct fake_buffer *b = &t->buffers[i][k];

            fake_buffer_make(b, bytes_of(t, i, k), false);
            fake_must(t->r, fake_net_reg(&t->r->net, t->conns[i].comm, b->net, b->size, &b->mh),
                      "regMr");
            if (t->conns[i].sends)
                fake_pattern_fill(b->data, b->size, (uint64_t)k);
        }
}

static void dereg_job(void *arg)
{
    struct transfer *t = arg;

    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < t->posts; k++) {
            struct fake_buffer *b = &t->buffers[i][k];

            if (!fake_buffer_intact(b))
                fake_die(t->r, "bytes in front of a buffer were overwritten");
            fake_must(t->r, fake_net_dereg(&t->r->net, t->conns[i].comm, b->mh),
                      "deregMr with requests in flight");
            fake_buffer_replace(b);
        }
}

/* Posts or tests message k; the plugin's result. */
static int push(struct transfer *t, int i, int k)
{
    struct fake_conn *c = &t->conns[i];
    struct fake_buffer *b = &t->buffers[i][k];
    void *data = b->net;
    size_t size = b->size;
    int sizes = 0;
    int done = 0;
    int tag = 5;
    int result;

    if (!t->requests[i][k]) {
        if (k > 0 && !t->requests[i][k - 1])
            return 0;
        if (c->sends)
            return fake_net_isend(&t->r->net, c->comm, data, size, tag, b->mh, &t->requests[i][k]);
        return fake_net_irecv(&t->r->net, c->comm, 1, &data, &size, &tag, &b->mh,
                              &t->requests[i][k]);
    }
    if (t->done[i][k] || (k > 0 && !t->done[i][k - 1]))
        return 0;
    result = fake_net_test(&t->r->net, t->requests[i][k], &done, &sizes);
    t->done[i][k] = done;
    return result;
}

static bool settled(const struct transfer *t, int i)
{
    return t->result[i] != 0 || t->done[i][t->posts - 1];
}

static bool repeats(const struct transfer *t, int i)
{
    return (t->again_sends && t->conns[i].sends) || t->conns[i].peer == t->again_peer ||
           t->again_peer == t->r->rank;
}

static void transfer_job(void *arg)
{
    struct transfer *t = arg;
    uint64_t start = fake_now_ns();
    int last = 0;
    int open;

    do {
        open = 0;
        for (int i = 0; i < t->count; i++) {
            for (int k = 0; k < t->posts && !settled(t, i); k++)
                t->result[i] = push(t, i, k);
            if (repeats(t, i) && settled(t, i) && !t->result[i]) {
                memset(t->requests[i], 0, sizeof(t->requests[i]));
                memset(t->done[i], 0, sizeof(t->done[i]));
            }
            if (t->result[i] && !t->failed_ns[i])
                t->failed_ns[i] = fake_now_ns() - start;
            if (settled(t, i))
                continue;
            open++;
            last = i;
        }
        if (t->die_when && t->done[0][1]) {
            *t->die_when = fake_now_ns();
            kill(getpid(), SIGKILL);
        }
        if (t->hook && t->done[0][1]) {
            if (system(t->hook) != 0)
                fake_die(t->r, "the hook '%s' failed", t->hook);
            t->hook = NULL;
        }
        if (t->stop_early && fake_now_ns() - start > FAKE_NS_PER_S / 20)
            return;
        if (open && fake_late(t->r, start))
            fake_die(t->r, "waited %u s for %s %s rank %d; %d connections are open",
                     t->r->options->timeout_s,
                     t->must_fail ? "an error of the connection" : "the end of a transfer",
                     t->conns[last].sends ? "to" : "from", t->conns[last].peer, open);
        sched_yield();
    } while (open);
}

static void run_transfer(struct transfer *t)
{
    fake_worker_run(&t->r->service, reg_job, t);
    fake_worker_run(&t->r->progress, transfer_job, t);
}

/* deregMr, new memory in the same place, close: and nobody may have written to it meanwhile. */
static void end_transfer(struct transfer *t)
{
    fake_worker_run(&t->r->service, dereg_job, t);
    fake_close_all(t->r, t->conns, t->count);
    fake_sleep_ms(100);
    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < t->posts; k++) {
            if (!fake_buffer_untouched(&t->buffers[i][k]))
                fake_die(t->r, "memory was written after deregMr (rank %d)", t->conns[i].peer);
            fake_buffer_free(&t->buffers[i][k]);
        }
    free(t);
}

static struct transfer *make_transfer(struct fake_rank *r, struct fake_conn *conns, int count,
                                      size_t send_bytes, size_t receive_bytes)
{
    struct transfer *t = calloc(1, sizeof(*t));

    t->r = r;
    t->conns = conns;
    t->count = count;
    t->send_bytes = send_bytes;
    t->receive_bytes = receive_bytes;
    t->posts = POSTS;
    t->again_peer = -1;
    return t;
}

/* A send larger than the receive: an error on both sides, not a byte too far. */
static void oversize_main(struct fake_rank *r, void *arg)
{
    static const size_t pairs[][2] = {
        {9, 8},  {1000, 999}, {4097, 4096}, {1 << 20, 65536}, {(4 << 20) + 1, 4 << 20},
        {64, 0}, {20000, 100}};
    struct fake_conn conns[MAX_CONNS];

    (void)arg;
    fake_rank_load(r);
    for (size_t p = 0; p < FAKE_COUNT(pairs); p++) {
        int count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_pair);
        struct transfer *t = make_transfer(r, conns, count, pairs[p][0], pairs[p][1]);
        int warnings = fake_log_warnings;

        t->must_fail = true;
        t->again_sends = true;
        fake_connect_all(r, conns, count);
        run_transfer(t);
        if (t->result[0] == 0)
            fake_die(r, "%zu bytes into a receive of %zu: no error on the %s side", pairs[p][0],
                     pairs[p][1], conns[0].sends ? "sending" : "receiving");
        fake_say(r, "%zu into %zu: %s after %.1f ms, %d warnings", pairs[p][0], pairs[p][1],
                 fake_result_name(t->result[0]), (double)t->failed_ns[0] / 1e6,
                 fake_log_warnings - warnings);
        fake_barrier(r, 2, "both saw the error");
        end_transfer(t);
    }
    fake_rank_unload(r);
}

/* Posts more than the plugin ever said to take; the registered memory behind it is small. */
static void too_large_job(void *arg)
{
    struct transfer *t = arg;
    struct fake_conn *c = &t->conns[0];
    struct fake_buffer *b = &t->buffers[0][0];
    size_t most = t->r->props.max_p2p_bytes;
    const size_t sizes[] = {most + 1, 2 * most, (size_t)1 << 62};

    for (size_t s = 0; s < FAKE_COUNT(sizes); s++) {
        void *data = b->net, *request = NULL;
        size_t size = sizes[s];
        int tag = 5;
        int result =
            c->sends ? fake_net_isend(&t->r->net, c->comm, data, size, tag, b->mh, &request)
                     : fake_net_irecv(&t->r->net, c->comm, 1, &data, &size, &tag, &b->mh, &request);

        if (result == 0)
            fake_die(t->r, "%s of %zu bytes, of which maxP2pBytes allows %zu: no error",
                     c->sends ? "isend" : "irecv", size, most);
        if (request)
            fake_die(t->r, "a refused %s returned a request", c->sends ? "isend" : "irecv");
    }
}

/* More than maxP2pBytes is refused at once, by the sender and then by the receiver; closing tells the peer, which waits. */
static void too_large_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];

    (void)arg;
    fake_rank_load(r);
    if (r->net.version < 9)
        fake_skip(r, "sizes are int in version %d: NCCL's own layer refuses more than 1 GiB",
                  r->net.version);
    for (int sender = 1; sender >= 0; sender--) {
        int count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_pair);
        struct transfer *t = make_transfer(r, conns, count, 4096, 4096);

        t->must_fail = true;
        t->again_sends = true;
        fake_connect_all(r, conns, count);
        if (conns[0].sends == (sender == 1)) {
            fake_worker_run(&r->service, reg_job, t);
            fake_worker_run(&r->progress, too_large_job, t);
        } else {
            run_transfer(t);
            if (!t->result[0])
                fake_die(r, "the peer's %s was refused and it closed: no error here",
                         sender ? "isend" : "irecv");
        }
        end_transfer(t);
        fake_barrier(r, 2, "too large");
    }
    fake_rank_unload(r);
}

/* Close with requests in flight: arg says what is in flight. */
enum in_flight { RECEIVES_ONLY, SENDS_ONLY, MID_TRANSFER };

static void inflight_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];

    (void)arg;
    fake_rank_load(r);
    for (int kind = RECEIVES_ONLY; kind <= MID_TRANSFER; kind++) {
        int count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_pair);
        struct transfer *t = make_transfer(r, conns, count, 8 << 20, 8 << 20);
        bool posts = kind == MID_TRANSFER || conns[0].sends == (kind == SENDS_ONLY);

        t->stop_early = true;
        t->must_fail = true;
        fake_connect_all(r, conns, count);
        if (posts)
            run_transfer(t);
        else
            t->posts = 0;
        /* Half of the time the two sides close together, else one after the other. */
        if (kind != MID_TRANSFER)
            fake_barrier(r, 2, "in flight");
        end_transfer(t);
        fake_barrier(r, 2, "closed in flight");
    }
    fake_rank_unload(r);
}

/* The peer closes in good order while this side still waits for it: an error, not a hang. */
static void left_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];
    int count;
    struct transfer *t;

    (void)arg;
    fake_rank_load(r);
    count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_all);
    t = make_transfer(r, conns, count, 8 << 20, 8 << 20);
    t->must_fail = true;
    fake_connect_all(r, conns, count);
    if (r->rank == 1)
        t->posts = 0;
    else
        run_transfer(t);
    for (int i = 0; i < count && r->rank == 0; i++)
        if (!t->result[i])
            fake_die(r, "the peer closed: no error on the %s side",
                     conns[i].sends ? "sending" : "receiving");
    end_transfer(t);
    fake_barrier(r, 2, "left");
    fake_rank_unload(r);
}

static void post_first_job(void *arg)
{
    struct transfer *t = arg;

    uint64_t start = fake_now_ns();

    /* A few polls, so that a plugin with threads of its own may hand the transfer to them. */
    while (!t->requests[0][0] || (fake_now_ns() - start < 3000000 && !t->done[0][0]))
        fake_must(t->r, push(t, 0, 0), "irecv or test");
}

/* The sender's requests are done and it closes before the receiver has posted anything: nothing may be lost. */
static void early_close_main(struct fake_rank *r, void *arg)
{
    static const size_t sizes[] = {0, 8, 1000, 65536, 1000, 0};
    static const size_t first[] = {0, 0, 0, 0, 4 << 20, 64 << 20};
    bool bulk = *(const bool *)arg;
    struct fake_conn conns[MAX_CONNS];

    fake_rank_load(r);
    for (size_t s = bulk ? 4 : 0; s < (bulk ? FAKE_COUNT(sizes) : 4); s++) {
        int count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_pair);
        struct transfer *t = make_transfer(r, conns, count, sizes[s], sizes[s]);
        uint64_t start = fake_now_ns();

        t->first_bytes = first[s];
        fake_connect_all(r, conns, count);
        fake_worker_run(&r->service, reg_job, t);
        if (r->rank == 1)
            fake_worker_run(&r->progress, post_first_job, t);
        /* A plugin that cannot finish a send before its receive is posted waits for us; then there
         * is nothing to test. */
        while (r->rank == 1 && !*fake_board_word(r, 4) && fake_now_ns() - start < FAKE_NS_PER_S / 2)
            fake_sleep_ms(1);
        /* One receive after the other is polled to its end, so that the plugin sees all that the
         * sender had to say, and its goodbye, before the next one is posted. */
        for (t->posts = r->rank == 1 ? 1 : POSTS; t->posts <= POSTS; t->posts++) {
            fake_worker_run(&r->progress, transfer_job, t);
            if (r->rank == 1)
                fake_sleep_ms(20);
        }
        t->posts = POSTS;
        if (t->result[0])
            fake_die(r, "%zu bytes, sender closed early: %s on the %s side", sizes[s],
                     fake_result_name(t->result[0]), conns[0].sends ? "sending" : "receiving");
        for (int k = 0; k < t->posts && r->rank == 1; k++)
            if (fake_pattern_check(t->buffers[0][k].data, bytes_of(t, 0, k), (uint64_t)k) !=
                bytes_of(t, 0, k))
                fake_die(r, "message %d of %zu bytes is wrong", k, bytes_of(t, 0, k));
        end_transfer(t);
        if (r->rank == 0)
            *fake_board_word(r, 4) = 1;
        fake_barrier(r, 2, "early close");
        *fake_board_word(r, 4) = 0;
        fake_barrier(r, 2, "early close, next");
    }
    fake_rank_unload(r);
}

/*
 * A receiver that calls nothing for a while (its user computes), with more small messages on their way than its socket takes: they arrive
 * when it comes back, also if the sender's process has ended meanwhile.
 */
static void away_main(struct fake_rank *r, void *arg)
{
    bool leaves = *(const bool *)arg;
    struct fake_conn conns[MAX_CONNS];
    struct transfer *t;
    int count;

    fake_rank_load(r);
    count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_pair);
    t = make_transfer(r, conns, count, 16384, 16384);
    t->posts = AWAY_POSTS;
    fake_connect_all(r, conns, count);
    if (r->rank == 1)
        fake_sleep_ms(AWAY_MS);
    run_transfer(t);
    if (t->result[0])
        fake_die(r, "the receiver was away for %d ms: %s on the %s side", AWAY_MS,
                 fake_result_name(t->result[0]), conns[0].sends ? "sending" : "receiving");
    for (int k = 0; k < t->posts && r->rank == 1; k++)
        if (fake_pattern_check(t->buffers[0][k].data, 16384, (uint64_t)k) != 16384)
            fake_die(r, "message %d is wrong", k);
    if (!leaves)
        fake_barrier(r, 2, "back");
    end_transfer(t);
    fake_rank_unload(r);
}

/* The program ends while NCCL's threads are at work, as most do: it must end, and quietly. */
static void exits_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];
    struct transfer *t;
    int count;

    (void)arg;
    fake_rank_load(r);
    count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_all);
    t = make_transfer(r, conns, count, 1 << 20, 1 << 20);
    t->again_peer = r->rank;
    fake_connect_all(r, conns, count);
    fake_worker_run(&r->service, reg_job, t);
    fake_barrier(r, r->options->ranks, "before the end");
    fake_worker_post(&r->progress, transfer_job, t);
    fake_sleep_ms(EXIT_MS);
    exit(0);
}

/* A peer ends without closing while nothing is asked of it, as at the end of many programs: nothing is said before somebody asks. */
static void unasked_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];
    struct transfer *t;
    int count, warnings;

    (void)arg;
    fake_rank_load(r);
    count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_all);
    t = make_transfer(r, conns, count, 4096, 4096);
    t->must_fail = t->again_sends = true;
    fake_connect_all(r, conns, count);
    fake_barrier(r, 2, "connected");
    if (r->rank == 1)
        kill(getpid(), SIGKILL);
    warnings = fake_log_warnings;
    fake_sleep_ms(UNASKED_MS);
    if (fake_log_warnings != warnings)
        fake_die(r, "%d warnings about a peer that is not asked for anything",
                 fake_log_warnings - warnings);
    run_transfer(t);
    for (int i = 0; i < count; i++)
        if (!t->result[i])
            fake_die(r, "the peer has gone: no error on the %s side",
                     conns[i].sends ? "sending" : "receiving");
    end_transfer(t);
    fake_rank_unload(r);
}

/* The last rank is killed in the middle of a transfer; both neighbours must notice. */
static void killed_main(struct fake_rank *r, void *arg)
{
    int ranks = r->options->ranks;
    struct fake_conn conns[MAX_CONNS];
    int count;
    struct transfer *t;
    uint64_t cpu;

    (void)arg;
    fake_rank_load(r);
    count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_all);
    t = make_transfer(r, conns, count, 8 << 20, 8 << 20);
    fake_connect_all(r, conns, count);
    fake_barrier(r, ranks, "before the kill");
    t->must_fail = true;
    t->again_peer = ranks - 1;
    if (r->rank == ranks - 1)
        t->die_when = fake_board_word(r, 1);
    run_transfer(t);
    for (int i = 0; i < count; i++) {
        bool with_victim = conns[i].peer == ranks - 1;

        if (with_victim && !t->result[i])
            fake_die(r, "rank %d was killed: no error on the %s side", conns[i].peer,
                     conns[i].sends ? "sending" : "receiving");
        if (!with_victim && t->result[i])
            fake_die(r, "rank %d lives: %s on the %s side", conns[i].peer,
                     fake_result_name(t->result[i]), conns[i].sends ? "sending" : "receiving");
        if (with_victim)
            fake_say(r, "%s from the killed rank after %.1f ms", fake_result_name(t->result[i]),
                     (double)t->failed_ns[i] / 1e6);
    }
    /* What has failed rests until it is closed, which may be much later. */
    cpu = fake_process_cpu_ns();
    fake_sleep_ms(REST_MS);
    cpu = fake_process_cpu_ns() - cpu;
    if (cpu > REST_MS * 1000000ull / 2)
        fake_die(r, "%.0f ms of CPU time in %d ms after the end of a connection", (double)cpu / 1e6,
                 REST_MS);
    end_transfer(t);
    fake_rank_unload(r);
}

/* Rank 0 runs a command that breaks the network, say; both sides must notice. */
static void hook_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];
    int count;
    struct transfer *t;

    (void)arg;
    if (!r->options->hook)
        fake_skip(r, "no --hook was given");
    fake_rank_load(r);
    count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_all);
    t = make_transfer(r, conns, count, 1 << 20, 1 << 20);
    t->must_fail = true;
    t->again_peer = 1 - r->rank;
    if (r->rank == 0)
        t->hook = r->options->hook;
    fake_connect_all(r, conns, count);
    run_transfer(t);
    for (int i = 0; i < count; i++) {
        if (!t->result[i])
            fake_die(r, "no error on the %s side", conns[i].sends ? "sending" : "receiving");
        fake_say(r, "%s on the %s side after %.1f ms", fake_result_name(t->result[i]),
                 conns[i].sends ? "sending" : "receiving", (double)t->failed_ns[i] / 1e6);
    }
    end_transfer(t);
    fake_barrier(r, 2, "the hook was noticed");
    fake_rank_unload(r);
}

/* A rank that posted its handle and died: connect must end with an error, not wait forever. */
static void dead_handle_job(void *arg)
{
    struct fake_conn *c = arg;
    uint64_t start = fake_now_ns();
    int result = 0;

    if (!c->sends) {
        fake_listen_and_post(c);
        return;
    }
    while (!fake_fetch_handle(c))
        fake_sleep_ms(1);
    while (fake_board_word(c->r, 2)[0] == 0)
        fake_sleep_ms(1);
    fake_sleep_ms(50);
    while (result == 0 && !c->comm) {
        result = fake_net_connect(&c->r->net, c->ctx, c->r->device, c->handle, &c->comm);
        if (fake_late(c->r, start))
            fake_die(c->r, "connect to a dead rank gave no error in %u s",
                     c->r->options->timeout_s);
        fake_sleep_ms(1);
    }
    if (c->comm)
        fake_die(c->r, "connect to a dead rank returned a comm");
    fake_say(c->r, "connect to a dead rank: %s after %.1f s", fake_result_name(result),
             (double)(fake_now_ns() - start) / 1e9);
}

static void dead_handle_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];

    (void)arg;
    fake_rank_load(r);
    fake_conns_make(r, conns, MAX_CONNS, fake_talks_pair);
    fake_worker_run(&r->service, dead_handle_job, &conns[0]);
    if (r->rank == 1) {
        *fake_board_word(r, 2) = 1;
        kill(getpid(), SIGKILL);
    }
    fake_rank_unload(r);
}

/* Nobody connects: accept must give up by itself. */
static void lonely_job(void *arg)
{
    struct fake_conn *c = arg;
    uint64_t start = fake_now_ns();
    int result = 0;

    fake_listen_and_post(c);
    while (result == 0 && !c->comm) {
        result = fake_net_accept(&c->r->net, c->listener, &c->comm);
        if (fake_late(c->r, start))
            fake_die(c->r, "accept without a peer gave no error in %u s", c->r->options->timeout_s);
        fake_sleep_ms(1);
    }
    fake_say(c->r, "accept without a peer: %s after %.1f s", fake_result_name(result),
             (double)(fake_now_ns() - start) / 1e9);
}

static void lonely_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];

    (void)arg;
    fake_rank_load(r);
    if (r->rank == 1) {
        fake_conns_make(r, conns, MAX_CONNS, fake_talks_pair);
        fake_worker_run(&r->service, lonely_job, &conns[0]);
        fake_close_all(r, conns, 1);
    }
    fake_barrier(r, 2, "accept gave up");
    fake_rank_unload(r);
}

struct error_play {
    fake_rank_main run;
    int ranks;
    unsigned may_die;
    bool flag; /* what `run` is given */
};

static int error_run(const struct fake_options *options, const struct scenario *self)
{
    const struct error_play *play = self->data;
    struct fake_options o = *options;

    o.ranks = play->ranks;
    o.channels = 1;
    return fake_ranks_run(&o, play->may_die, play->run, (void *)&play->flag);
}

static const struct error_play oversize = {oversize_main, 2, 0, false};
static const struct error_play too_large = {too_large_main, 2, 0, false};
static const struct error_play inflight = {inflight_main, 2, 0, false};
static const struct error_play left = {left_main, 2, 0, false};
static const struct error_play early_close = {early_close_main, 2, 0, false};
static const struct error_play early_close_bulk = {early_close_main, 2, 0, true};
static const struct error_play away = {away_main, 2, 0, false};
static const struct error_play away_left = {away_main, 2, 0, true};
static const struct error_play unasked = {unasked_main, 2, 1u << 1, false};
static const struct error_play exits = {exits_main, 3, 0, false};
static const struct error_play killed = {killed_main, 3, 1u << 2, false};
static const struct error_play hook = {hook_main, 2, 0, false};
static const struct error_play dead_handle = {dead_handle_main, 2, 1u << 1, false};
static const struct error_play lonely = {lonely_main, 2, 0, false};

static const struct scenario list[] = {
    {"oversize", "a send larger than its receive is an error on both sides", error_run, &oversize,
     false},
    {"too-large", "isend and irecv of more than maxP2pBytes are refused untouched", error_run,
     &too_large, false},
    {"inflight", "close with requests in flight, memory reused at once", error_run, &inflight,
     false},
    {"left", "the peer closes while this side waits", error_run, &left, false},
    {"early-close", "the sender is done and closes before the receiver posts", error_run,
     &early_close, false},
    {"early-close-bulk", "the same with a large message in front of small ones", error_run,
     &early_close_bulk, false},
    {"away", "a receiver calls nothing for 9 s (set the plugin's own bound far below)", error_run,
     &away, true},
    {"away-left", "the same, and the sender's process ends meanwhile", error_run, &away_left, true},
    {"unasked", "a peer ends without a word while nothing is asked of it", error_run, &unasked,
     false},
    {"exits", "the program ends in the middle of a transfer", error_run, &exits, true},
    {"killed", "a rank is killed in the middle of a transfer", error_run, &killed, false},
    {"hook", "a command breaks something in the middle of a transfer (set the plugin's own bound)",
     error_run, &hook, true},
    {"dead-handle", "connect to a rank that died (set the plugin's own bound below --timeout)",
     error_run, &dead_handle, true},
    {"lonely", "accept although nobody connects (set the plugin's own bound below --timeout)",
     error_run, &lonely, true},
};

const struct scenario_table error_scenarios = {list, FAKE_COUNT(list)};
