/*
 * Scenarios that differ only in their traffic: who talks to whom, sizes, groups, depth, and how a
 * receive is watched. Every one connects, runs, closes and unloads.
 */
#include "fake_flow.h"
#include "scenario.h"

#include <string.h>

#define MAX_CONNS 256

#ifdef BRAID_SANITIZED
#define SLOW 1
#else
#define SLOW 0
#endif

struct play {
    bool (*talks)(int from, int to, int ranks);
    struct fake_traffic traffic;
    bool grouped;  /* traffic.group becomes what options and plugin allow */
    bool sweep;    /* one traffic a size, from 0 to options->max_bytes */
    bool by_words; /* sizes NULL in test */
    bool oob;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sizes around every power of two; few steps and little depth where messages are large. */
static void run_sweep(struct fake_rank *r, struct fake_conn *conns, int count, size_t max)
{
    struct fake_traffic t = {.group = 1, .steps = 3, .depth = 2, .churn = false};

    for (size_t power = 1; power && power <= max; power *= 2)
        for (int d = -1; d <= 1; d++) {
            t.bytes = power + (size_t)d;
            if (t.bytes > max || (power > 65536 && d == -1))
                continue;
            t.depth = t.bytes > ((size_t)32 << 20) ? 1 : 2;
            t.steps = t.bytes > ((size_t)16 << 20) ? 1 : 3;
            fake_traffic_run(r, conns, count, &t);
            fake_say(r, "%zu bytes are right", t.bytes);
        }
}

static void traffic_main(struct fake_rank *r, void *arg)
{
    const struct play *play = arg;
    const struct fake_options *o = r->options;
    struct fake_traffic t = play->traffic;
    struct fake_conn conns[MAX_CONNS];
    int count;

    fake_rank_load(r);
    t.bytes = smaller(t.bytes, smaller(o->max_bytes, r->props.max_p2p_bytes));
    if (o->depth)
        t.depth = o->depth;
    if (play->grouped) {
        t.group = r->props.max_recvs < FAKE_MAX_GROUP ? r->props.max_recvs : FAKE_MAX_GROUP;
        if (o->group && o->group < t.group)
            t.group = o->group;
        if (t.group < 2)
            fake_skip(r, "%s takes no grouped receives (maxRecvs 1)", r->net.name);
    }
    if (t.optional && r->net.version < 9)
        fake_skip(r, "version %d has no optional completion", r->net.version);
    t.steps *= (uint64_t)(o->iterations ? o->iterations : 1);
    count = fake_conns_make(r, conns, MAX_CONNS, play->talks);
    fake_connect_all(r, conns, count);
    if (play->sweep)
        run_sweep(r, conns, count, smaller(o->max_bytes, r->props.max_p2p_bytes));
    else
        fake_traffic_run(r, conns, count, &t);
    if (o->close_together)
        fake_barrier(r, o->ranks, "all done");
    fake_close_all(r, conns, count);
    fake_barrier(r, o->ranks, "end");
    fake_rank_unload(r);
}

static int traffic_run(const struct fake_options *options, const struct scenario *self)
{
    struct fake_options o = *options;
    const struct play *play = self->data;
    struct play copy = *play;

    if (play->talks == fake_talks_pair)
        o.ranks = 2;
    if (play->by_words)
        o.no_sizes = true;
    if (play->oob)
        o.oob = true;
    if (SLOW && o.max_bytes > ((size_t)4 << 20))
        o.max_bytes = (size_t)4 << 20;
    return fake_ranks_run(&o, 0, traffic_main, &copy);
}

static const struct play ring = {
    .talks = fake_talks_ring,
    .traffic = {
        .bytes = 1 << 20, .steps = 48, .depth = 8, .group = 1, .vary = true, .churn = true}};
static const struct play self = {
    .talks = fake_talks_self,
    .traffic = {.bytes = 4 << 20, .steps = 32, .depth = 8, .group = 1, .vary = true}};
static const struct play alltoall = {
    .talks = fake_talks_all,
    .traffic = {.bytes = 256 << 10, .steps = 32, .depth = 8, .group = 1, .vary = true}};
static const struct play lagging = {
    .talks = fake_talks_ring,
    .traffic = {
        .bytes = 400000, .steps = 48, .depth = 8, .group = 1, .vary = true, .lag_us = 1500}};
static const struct play lagging_small = {
    .talks = fake_talks_ring,
    .traffic = {.bytes = 2000, .steps = 48, .depth = 2, .group = 1, .vary = true, .lag_us = 1500}};
static const struct play roomy = {
    .talks = fake_talks_ring,
    .traffic = {
        .bytes = 128 << 10, .steps = 64, .depth = 8, .group = 1, .vary = true, .roomy = true}};
static const struct play group = {
    .talks = fake_talks_ring,
    .grouped = true,
    .traffic = {
        .bytes = 64 << 10, .steps = 64, .depth = 8, .vary = true, .roomy = true, .churn = true}};
static const struct play group_ahead = {
    .talks = fake_talks_pair,
    .grouped = true,
    .traffic = {.bytes = 16 << 10, .steps = 256, .depth = 8, .vary = true, .ahead = true}};
static const struct play group_zero = {
    .talks = fake_talks_ring, .grouped = true, .traffic = {.bytes = 0, .steps = 200, .depth = 8}};
static const struct play zero = {.talks = fake_talks_ring,
                                 .traffic = {.bytes = 0, .steps = 500, .depth = 8, .group = 1}};
static const struct play sizes = {.talks = fake_talks_pair, .sweep = true};
static const struct play bulk = {
    .talks = fake_talks_pair, .traffic = {.bytes = 4 << 20, .steps = 16, .depth = 8, .group = 1}};
static const struct play outstanding = {
    .talks = fake_talks_ring,
    .traffic = {.bytes = 4096, .steps = 400, .depth = 32, .group = 1, .vary = true}};
static const struct play outstanding_group = {
    .talks = fake_talks_ring,
    .grouped = true,
    .traffic = {.bytes = 4096, .steps = 200, .depth = 32, .vary = true}};
static const struct play no_sizes = {
    .talks = fake_talks_ring,
    .by_words = true,
    .traffic = {.bytes = 64 << 10, .steps = 64, .depth = 8, .group = 1, .vary = true}};
static const struct play oob = {
    .talks = fake_talks_ring,
    .oob = true,
    .traffic = {.bytes = 64 << 10, .steps = 64, .depth = 8, .group = 1, .vary = true}};
static const struct play optional = {.talks = fake_talks_pair,
                                     .traffic = {.bytes = 16 << 10,
                                                 .steps = 200,
                                                 .depth = 8,
                                                 .group = 1,
                                                 .optional = true,
                                                 .poll = FAKE_POLL_LL}};
static const struct play poll_ll = {
    .talks = fake_talks_pair,
    .traffic = {.bytes = 64 << 10, .steps = 200, .depth = 8, .group = 1, .poll = FAKE_POLL_LL}};
static const struct play poll_ll128 = {
    .talks = fake_talks_pair,
    .traffic = {.bytes = 128 << 10, .steps = 200, .depth = 8, .group = 1, .poll = FAKE_POLL_LL128}};
static const struct play poll_small = {
    .talks = fake_talks_pair,
    .traffic = {.bytes = 128, .steps = 2000, .depth = 8, .group = 1, .poll = FAKE_POLL_LL}};

static const struct scenario list[] = {
    {"ring", "neighbours exchange messages of 0 bytes to 1 MiB, registering meanwhile", traffic_run,
     &ring, false},
    {"self", "both ends of a connection in one process, as ranks in threads have them", traffic_run,
     &self, false},
    {"alltoall", "every pair exchanges messages of 0 bytes to 256 KiB", traffic_run, &alltoall,
     false},
    {"lagging", "receivers are slow, so senders finish and close long before them", traffic_run,
     &lagging, false},
    {"lagging-small", "the same with small messages, two receives posted", traffic_run,
     &lagging_small, false},
    {"roomy", "receives are larger than what is sent", traffic_run, &roomy, false},
    {"group", "grouped receives, tags that run ahead of each other", traffic_run, &group, false},
    {"group-ahead", "the same, small messages, one tag as far ahead as it may run", traffic_run,
     &group_ahead, false},
    {"group-zero", "grouped receives of zero bytes", traffic_run, &group_zero, false},
    {"zero", "messages of zero bytes", traffic_run, &zero, false},
    {"sizes", "around every power of two up to --max-bytes", traffic_run, &sizes, false},
    {"bulk", "messages of 4 MiB, 8 under way", traffic_run, &bulk, true},
    {"outstanding", "32 receives posted on a connection", traffic_run, &outstanding, false},
    {"outstanding-group", "32 grouped receives posted on a connection", traffic_run,
     &outstanding_group, false},
    {"sizes-null", "test is given no place for the sizes", traffic_run, &no_sizes, false},
    {"oob", "the user's thread drives the connection", traffic_run, &oob, false},
    {"optional", "NCCL_NET_OPTIONAL_RECV_COMPLETION, the GPU sees the data first", traffic_run,
     &optional, false},
    {"poll-ll", "a receive is polled while it lands, a flag every 8 bytes", traffic_run, &poll_ll,
     false},
    {"poll-ll128", "the same, a flag every 128 bytes", traffic_run, &poll_ll128, false},
    {"poll-small", "the same for messages that fit a packet", traffic_run, &poll_small, false},
};

const struct scenario_table traffic_scenarios = {list, FAKE_COUNT(list)};
