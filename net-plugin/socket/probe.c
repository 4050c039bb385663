/* Trials of streams and engines on live traffic; see probe.h. */
#include "net-plugin/socket/probe.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"

#define WARM_BYTES  (4 * 1024 * 1024) /* of each round, which do not count */
#define LEAST_BYTES (1024 * 1024)     /* that say something after LONGEST_NS */
#define SHORTEST_NS (4 * BRAID_NS_PER_MS)
#define LONGEST_NS  (200 * BRAID_NS_PER_MS)
#define PATIENCE_NS BRAID_NS_PER_S /* with streams that do not come */
#define MORE_GAIN   1.15           /* what more streams must give */
#define FEWER_LOSS  0.98           /* what fewer streams may cost */
#define CPU_SAVED   0.90           /* what a byte may cost in CPU time, in parts of what it did */
#define ENGINE_LOSS 0.95

static void lock(struct braid_probe *probe)
{
    while (atomic_flag_test_and_set_explicit(&probe->lock, memory_order_acquire))
        sched_yield(); /* held for a few additions */
}

static void unlock(struct braid_probe *probe)
{
    atomic_flag_clear_explicit(&probe->lock, memory_order_release);
}

/* The candidate of this stage; false when it has none. */
static bool make_candidate(const struct braid_probe *probe, int stage,
                           struct braid_probe_choice *candidate)
{
    const struct braid_probe_plan *plan = &probe->plan;

    *candidate = probe->base;
    switch (stage) {
    case BRAID_PROBE_MORE:
        candidate->streams = (uint8_t)MIN(MAX(2 * probe->base.streams, 2), plan->streams_max);
        return candidate->streams > probe->base.streams;
    case BRAID_PROBE_FEWER:
        candidate->streams = (uint8_t)MAX(probe->base.streams / 2, plan->streams_min);
        return !probe->grown && candidate->streams < probe->base.streams;
    case BRAID_PROBE_ZEROCOPY: candidate->zerocopy = true; return plan->try_zerocopy;
    case BRAID_PROBE_URING:
        candidate->uring = true;
        return plan->try_uring && candidate->streams > 0; /* I/O threads have the rings */
    default: return false;
    }
}

static void start_round(struct braid_probe *probe, unsigned round)
{
    probe->round = round;
    probe->warming = true;
    probe->busy_ns = probe->bytes = 0;
    atomic_store(&probe->choice, round % 2 == 1 ? probe->candidate : probe->base);
}

/* Trials from `stage` on, if there is something to try. */
static void start_stage(struct braid_probe *probe, int stage)
{
    while (stage < BRAID_PROBE_SETTLED && !make_candidate(probe, stage, &probe->candidate))
        stage++;
    start_round(probe, 0);
    atomic_store(&probe->stage, stage);
}

void braid_probe_init(struct braid_probe *probe, const struct braid_probe_plan *plan)
{
    memset(probe, 0, sizeof(*probe));
    atomic_flag_clear(&probe->lock);
    probe->plan = *plan;
    probe->base = plan->guess;
    start_stage(probe, BRAID_PROBE_MORE);
}

static bool is_better(const struct braid_probe *probe, int stage, unsigned round)
{
    double rate = probe->rate[round + 1] / probe->rate[round];

    if (stage == BRAID_PROBE_MORE)
        return rate > MORE_GAIN;
    return rate >= (stage == BRAID_PROBE_FEWER ? FEWER_LOSS : ENGINE_LOSS) &&
           probe->cost[round + 1] < CPU_SAVED * probe->cost[round];
}

/* Better each time; and more streams are only made if none of the rounds without them was as fast as one with them. */
static bool is_kept(const struct braid_probe *probe, int stage)
{
    double least = probe->rate[1], most = probe->rate[0];

    for (unsigned round = 0; round < BRAID_PROBE_ROUNDS; round += 2) {
        if (!is_better(probe, stage, round))
            return false;
        most = MAX(most, probe->rate[round]);
        least = MIN(least, probe->rate[round + 1]);
    }
    return stage != BRAID_PROBE_MORE || least > most;
}

static void describe(const struct braid_probe_choice *choice, char *buf, size_t buf_bytes)
{
    int at = choice->streams == 0 ? snprintf(buf, buf_bytes, "one stream for all")
                                  : snprintf(buf, buf_bytes, "%u stream%s for bulk",
                                             choice->streams, choice->streams > 1 ? "s" : "");

    snprintf(buf + at, buf_bytes - (size_t)at, "%s%s", choice->zerocopy ? ", MSG_ZEROCOPY" : "",
             choice->uring ? ", io_uring" : "");
}

static void decide(struct braid_probe *probe)
{
    int stage = atomic_load(&probe->stage);
    bool kept = is_kept(probe, stage);
    const double *r = probe->rate, *c = probe->cost;
    char before[64], after[64], cpu[96] = "";

    describe(&probe->base, before, sizeof(before));
    describe(&probe->candidate, after, sizeof(after));
    if (stage >= BRAID_PROBE_FEWER)
        snprintf(cpu, sizeof(cpu), ", for %.3f, %.3f, %.3f and %.3f, %.3f, %.3f CPU ns a byte",
                 c[0], c[2], c[4], c[1], c[3], c[5]);
    BRAID_INFO(BRAID_LOG_NET,
               "sockets on %s: %s, by measurement: %.2f, %.2f, %.2f GB/s with %s and %.2f, %.2f, "
               "%.2f with %s%s",
               probe->plan.device, kept ? after : before, r[0], r[2], r[4], before, r[1], r[3],
               r[5], after, cpu);
    if (kept) {
        probe->base = probe->candidate;
        probe->grown |= stage == BRAID_PROBE_MORE;
    }
    start_stage(probe, kept && stage <= BRAID_PROBE_FEWER ? stage : stage + 1);
}

static void count(struct braid_probe *probe, uint64_t now_ns)
{
    if (probe->active > 0 && now_ns > probe->event_ns)
        probe->busy_ns += now_ns - probe->event_ns;
    probe->event_ns = MAX(probe->event_ns, now_ns);
}

bool braid_probe_begin(struct braid_probe *probe, uint64_t now_ns)
{
    if (braid_probe_is_settled(probe))
        return false;
    lock(probe);
    count(probe, now_ns);
    probe->active++;
    unlock(probe);
    return true;
}

/* Whether this round has seen enough. */
static bool is_round_over(const struct braid_probe *probe)
{
    return probe->busy_ns >= LONGEST_NS
               ? probe->bytes >= LEAST_BYTES
               : probe->bytes >= BRAID_PROBE_BYTES && probe->busy_ns >= SHORTEST_NS;
}

static void next_round(struct braid_probe *probe)
{
    uint64_t cpu_ns = atomic_load(&probe->cpu_ns) - probe->cpu_from_ns;

    probe->rate[probe->round] = (double)probe->bytes / (double)probe->busy_ns;
    probe->cost[probe->round] = (double)cpu_ns / (double)probe->bytes;
    if (probe->round + 1 == BRAID_PROBE_ROUNDS)
        decide(probe);
    else
        start_round(probe, probe->round + 1);
}

void braid_probe_end(struct braid_probe *probe, uint64_t now_ns, size_t bytes, bool ready)
{
    int stage;

    lock(probe);
    stage = atomic_load(&probe->stage);
    count(probe, now_ns);
    probe->active--;
    probe->bytes += bytes;
    if (stage == BRAID_PROBE_SETTLED) {
        unlock(probe);
        return;
    }
    if (!ready) {
        probe->bytes = 0;
        probe->warming = true;
        if (probe->busy_ns > PATIENCE_NS)
            start_stage(probe, stage + 1); /* the log says why streams did not come */
    } else if (probe->warming && probe->bytes >= WARM_BYTES) {
        probe->warming = false;
        probe->busy_ns = probe->bytes = 0;
        probe->cpu_from_ns = atomic_load(&probe->cpu_ns);
    } else if (!probe->warming && is_round_over(probe)) {
        next_round(probe);
    }
    unlock(probe);
}

void braid_probe_refuse(struct braid_probe *probe, enum braid_probe_stage what, const char *why)
{
    bool zerocopy = what == BRAID_PROBE_ZEROCOPY, known;
    int stage;

    lock(probe);
    known = zerocopy ? !probe->plan.try_zerocopy && !probe->base.zerocopy
                     : !probe->plan.try_uring && !probe->base.uring;
    if (zerocopy)
        probe->plan.try_zerocopy = probe->base.zerocopy = false;
    else
        probe->plan.try_uring = probe->base.uring = false;
    stage = atomic_load(&probe->stage);
    if (!known)
        start_stage(probe, stage);
    unlock(probe);
    if (!known)
        BRAID_INFO(BRAID_LOG_NET, "sockets on %s: no %s: %s", probe->plan.device,
                   zerocopy ? "MSG_ZEROCOPY" : "io_uring", why);
}

uint64_t braid_socket_cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * BRAID_NS_PER_S + (uint64_t)ts.tv_nsec;
}
