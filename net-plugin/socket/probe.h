/*
 * What pays on an interface: how many streams a connection has for bulk, whether the kernel is spared copying (MSG_ZEROCOPY), and
 * whether io_uring moves the bytes. Decided once a process and device by trials on the bulk traffic itself, so that it costs no traffic, no
 * time before the first message, and is the true path: single flows that a network limits are seen as well as links that are full.
 * A round is 16 MiB under one choice; the present choice and a candidate take turns three times, and the candidate is kept if it was better
 * each time. Fewer streams must be as fast and save CPU time as well: a trial sees one pattern of traffic, and another may have fewer
 * connections (eight of NCCL's channels were as fast with one stream each, and all-to-all over its two then lost a third). All connections of
 * the device change over together, because one with more streams than the others would win by taking from them.
 * Time and bytes count while a chunk is on its way into the kernel; bytes are what the peer acknowledges. No I/O and no clock of its own: times are passed in.
 * Threading: begin and end by any holder of a lane's lock; the choice is read by any thread.
 */
#ifndef BRAID_SOCKET_PROBE_H
#define BRAID_SOCKET_PROBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BRAID_PROBE_BYTES  (16 * 1024 * 1024) /* of a round */
#define BRAID_PROBE_ROUNDS 6                  /* present, candidate, present, candidate, ... */

struct braid_probe_choice {
    /* for bulk, besides stream 0, which then has only small messages; 0: it has all */
    uint8_t streams;
    bool zerocopy;
    bool uring;
    bool unused; /* four bytes are an atomic word */
};

/* Where trials begin, and what they may try; a setting of the user's is a choice that is not tried. */
struct braid_probe_plan {
    const char *device; /* for messages; lives as long as the probe */
    struct braid_probe_choice guess;
    uint8_t streams_min, streams_max; /* equal: not tried */
    bool try_zerocopy, try_uring;
};

enum braid_probe_stage {
    BRAID_PROBE_MORE, /* streams */
    BRAID_PROBE_FEWER,
    BRAID_PROBE_ZEROCOPY,
    BRAID_PROBE_URING,
    BRAID_PROBE_SETTLED,
};

struct braid_probe {
    _Atomic(struct braid_probe_choice) choice; /* in force */
    atomic_int stage;
    _Atomic uint64_t cpu_ns; /* that moving has taken; kept while trials compare it */
    atomic_flag lock;        /* all below */
    struct braid_probe_plan plan;
    struct braid_probe_choice base, candidate;
    bool grown;
    unsigned round;
    bool warming; /* what the last round left in the kernel still goes */
    unsigned active;
    uint64_t event_ns, busy_ns, bytes, cpu_from_ns;
    double rate[BRAID_PROBE_ROUNDS], cost[BRAID_PROBE_ROUNDS];
};

void braid_probe_init(struct braid_probe *probe, const struct braid_probe_plan *plan);

static inline struct braid_probe_choice braid_probe_choice(struct braid_probe *probe)
{
    return atomic_load_explicit(&probe->choice, memory_order_relaxed);
}

static inline bool braid_probe_is_settled(struct braid_probe *probe)
{
    return atomic_load_explicit(&probe->stage, memory_order_relaxed) == BRAID_PROBE_SETTLED;
}

/* Whether the trial in progress compares CPU time, so that cpu_ns must be kept. */
static inline bool braid_probe_compares_cpu(struct braid_probe *probe)
{
    int stage = atomic_load_explicit(&probe->stage, memory_order_relaxed);

    return stage == BRAID_PROBE_FEWER || stage == BRAID_PROBE_ZEROCOPY ||
           stage == BRAID_PROBE_URING;
}

/* A lane takes a chunk. False when nothing is tried any more: then no end() follows. */
bool braid_probe_begin(struct braid_probe *probe, uint64_t now_ns);
/*
 * The chunk has left, and meanwhile the peer has acknowledged `bytes`. `ready`: the connection has the streams of the choice in force.
 */
void braid_probe_end(struct braid_probe *probe, uint64_t now_ns, size_t bytes, bool ready);
/* Zerocopy or io_uring has turned out not to work here; `why` for the log, once. */
void braid_probe_refuse(struct braid_probe *probe, enum braid_probe_stage what, const char *why);

/* CPU time of this thread, for what trials compare. */
uint64_t braid_socket_cpu_ns(void);

#endif
