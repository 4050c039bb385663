/*
 * Ranks: forked processes that share one page board for handles, barriers and bad news, and the
 * connections between them. Setting a connection up follows NCCL: the receiver listens and posts
 * the 128-byte handle, the sender connects, both sides ask again while they get a NULL comm, and
 * the listen comm is closed as soon as accept returned one.
 * Every wait is bounded by options.timeout_s; who exceeds it prints what it waited for, and exits.
 * Threading: a rank's main thread plays the user; `service` and `progress` are NCCL's two threads.
 */
#ifndef FAKE_RANK_H
#define FAKE_RANK_H

#include "fake_net.h"
#include "fake_util.h"

#include <stdio.h>

#define FAKE_MAX_RANKS    16
#define FAKE_MAX_CHANNELS 8

#define FAKE_MAX_ENV 32

struct fake_options {
    const char *plugin;
    const char *cuda; /* fake CUDA driver: messages lie in its GPU memory; NULL: in host memory */
    int version;      /* 0: the newest that the plugin has */
    int ranks;
    int channels;     /* connections for each ordered pair that talks */
    int depth;        /* receives posted ahead on a connection; NCCL: 8 */
    int group;        /* receives in a group, up to maxRecvs */
    int iterations;   /* messages a size */
    int device;       /* which of the plugin's devices */
    size_t max_bytes; /* the largest message of a sweep */
    unsigned timeout_s;
    unsigned seed;
    /* "RANK:NAME=VALUE", set in that rank before the plugin is loaded */
    const char *env[FAKE_MAX_ENV];
    int env_count;
    int fuse;            /* makeVDevice of this many devices, from `device` on; 0 or 1: none */
    bool oob;            /* isend, irecv and test from the user's thread, sizes NULL */
    bool no_sizes;       /* sizes NULL in test */
    bool keep_order;     /* never run a tag ahead of its group */
    bool close_together; /* all ranks finish before one closes */
    bool verbose;
    /* names separated by commas: rank r lives in network namespace r modulo their number */
    const char *netns;
    const char *hook; /* a command that the scenario `hook` runs in the middle of a transfer */
};

struct fake_board;

struct fake_rank {
    int rank;
    const struct fake_options *options;
    int device; /* options->device, or the virtual one made by --fuse */
    struct fake_board *board;
    struct fake_net net;
    struct fake_props props;
    void *ctx;
    uint64_t barriers;
    uint64_t handles[FAKE_MAX_RANKS][FAKE_MAX_CHANNELS]; /* posted to or fetched from a peer */
    struct fake_worker service;
    struct fake_worker progress;
};

/* One direction of one channel between two ranks. */
struct fake_conn {
    struct fake_rank *r;
    int peer;
    int channel;
    bool sends;
    void *listener;
    void *comm;
    bool have_handle;
    unsigned char handle[FAKE_HANDLE_BYTES];
    void *ctx; /* context for listen or connect; the rank's own unless a scenario says otherwise */
    uint64_t setup_ns;
};

typedef void (*fake_rank_main)(struct fake_rank *r, void *arg);

/*
 * Forks options->ranks processes that each run `run`; 0 if all of them ended well, 1 if one failed,
 * 77 if one said that this cannot be tested here. A rank in `may_die` (bit mask) may be killed.
 */
int fake_ranks_run(const struct fake_options *options, unsigned may_die, fake_rank_main run,
                   void *arg);

/* Why the latest run of ranks was skipped; empty while none was. In the parent. */
extern char fake_skip_reason[256];

/* Prints "<program>: rank N: ..." and ends this rank as failed, or as skipped. */
void fake_die(const struct fake_rank *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));
void fake_skip(const struct fake_rank *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* Dies unless `result` of the call named `what` is success. */
void fake_must(const struct fake_rank *r, int result, const char *what);
/* Prints with the rank in front when options->verbose. */
void fake_say(const struct fake_rank *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens the plugin, starts its threads and asks for devices and properties; and the reverse. */
void fake_rank_load(struct fake_rank *r);
void fake_rank_unload(struct fake_rank *r);

/* Waits until `count` ranks of the job arrived as often as this one. */
void fake_barrier(struct fake_rank *r, int count, const char *what);
/* A word of the board that scenarios may use: value of `key`, shared by all ranks. */
_Atomic uint64_t *fake_board_word(struct fake_rank *r, int key);

/* Dies with `fmt` once `since_ns` is options->timeout_s ago. */
bool fake_late(const struct fake_rank *r, uint64_t since_ns);

/* Connects `count` connections; runs on the service thread and returns when all are up. */
void fake_connect_all(struct fake_rank *r, struct fake_conn *conns, int count);
/* Closes comms (and what listen left) on the service thread. */
void fake_close_all(struct fake_rank *r, struct fake_conn *conns, int count);
/* Steps of the above for scenarios that stop half way; called on the service thread. */
void fake_listen_and_post(struct fake_conn *c);
bool fake_fetch_handle(struct fake_conn *c);

/* The connections of a pattern for this rank: for every peer that `talks` allows, both ways. */
int fake_conns_make(struct fake_rank *r, struct fake_conn *conns, int max,
                    bool (*talks)(int from, int to, int ranks));
bool fake_talks_ring(int from, int to, int ranks);
bool fake_talks_all(int from, int to, int ranks);
bool fake_talks_pair(int from, int to, int ranks);
bool fake_talks_self(int from, int to, int ranks);

#endif
