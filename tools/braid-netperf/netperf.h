/*
 * Parts of braid-netperf. A target is something that moves bytes between two processes: a net plugin (netperf_plugin.c and netperf_ring.c, driven
 * through the fake NCCL core) or plain TCP (netperf_raw.c). The parent (main.c) keeps the processes of all targets alive and gives
 * one task after the other to one target after the other, so that all of them see the same machine; netperf_report.c prints.
 * Parent and ranks share one struct control a target; a rank works when `seq` grows and answers by raising its own `done`.
 */
#ifndef BRAID_NETPERF_H
#define BRAID_NETPERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MAX_TARGETS 6
#define MAX_COMMS   8
#define MAX_TASKS   64
#define MAX_ROUNDS  31
#define MAX_SET     8
#define SIDES       2

enum pattern {
    LATENCY,   /* ping-pong: microseconds one way */
    BANDWIDTH, /* rank 0 sends: GB/s */
    BOTH_WAYS, /* both send: GB/s each way */
    RATE,      /* rank 0 sends small messages: messages a second */
    CPU,       /* both send at a fixed rate: CPU seconds a GiB of both processes */
    IDLE,      /* connections open and nothing in flight: per cent of a core, the busier process */
    CALLS,     /* the longest CPU time of one isend, irecv or test: microseconds */
    RING,      /* all-reduces of `bytes` over all connections: microseconds each */
    PATTERNS
};

struct task {
    int pattern;
    size_t bytes;
    int comms;
    uint64_t messages; /* on every connection */
    double load_GBps;  /* CPU: offered in each direction */
    double seconds;    /* IDLE: how long */
};

enum call { ISEND, IRECV, TEST, CALL_KINDS };

struct outcome {
    double seconds;
    double cpu_s;
    double longest_call_s;
    double calls_s[CALL_KINDS]; /* RING: time inside calls of the plugin */
};

struct control {
    _Atomic uint32_t seq;
    struct task task;
    _Atomic uint32_t ready[SIDES];
    _Atomic uint32_t done[SIDES];
    struct outcome outcome[SIDES];
    char name[160];
    int version;
};

struct target {
    const char *plugin; /* NULL: raw TCP */
    int version;
    int depth;                /* of the rate pattern; 0: the settings' */
    const char *set[MAX_SET]; /* NAME=VALUE for its processes */
    int set_count;
    struct control *control;
    int fds[SIDES][2 * MAX_COMMS]; /* raw: connected pairs, even ones carry 0 to 1 */
    int pid;
    bool failed;
};

struct settings {
    int comms; /* connections each way that are set up */
    int depth; /* receives and sends in flight on a connection */
    unsigned timeout_s;
    size_t room;       /* latency: receives have room for so many bytes at least */
    double think_us;   /* latency: how long a side takes to answer, as a GPU does */
    bool pin;          /* each side on a half of the processors */
    const char *netns; /* "a,b": network namespaces of the two sides of a plugin; NULL: this one */
};

/* Runs both ranks of a target until the parent goes; the exit status of the job. */
int plugin_job(const struct target *target, const struct settings *settings);
int raw_job(const struct target *target, const struct settings *settings);

/* One measured case: what every target gave in every round. */
struct measured {
    struct task task;
    uint64_t messages[MAX_TARGETS];
    double values[MAX_TARGETS][MAX_ROUNDS];
    double cpu[MAX_TARGETS][MAX_ROUNDS]; /* bulk patterns: CPU seconds of both processes a GiB */
    /* RING: time that the slower side's thread was in calls of a kind, microseconds an all-reduce */
    double calls[CALL_KINDS][MAX_TARGETS][MAX_ROUNDS];
    int rounds[MAX_TARGETS];
};

extern const char *const pattern_names[PATTERNS];
extern const char *const pattern_metrics[PATTERNS];

/* Waits, ever more lazily, until the parent has a task with another number than `seq`; returns its number. */
uint32_t wait_task(struct control *control, uint32_t seq);

/*
 * Puts the calling thread, and those that it will start, on side 0's or side 1's half of the processors, as if each side were a node of its
 * own. False where there is only one processor.
 */
bool pin_side(int side);
/* Processors of the calling thread. */
int side_processors(void);

/* Whether every value has a second one: the CPU seconds that it took. */
bool has_cpu(int pattern);
/* The value of a task from both sides' outcomes, in the pattern's unit. */
double task_value(const struct task *task, const struct outcome outcome[SIDES]);
void print_table(const struct measured *cases, int count, const struct target *targets,
                 int target_count);
/* One JSON row a case: the first target is the value, other plugins are peers, raw TCP is the limit. */
int write_rows(const char *path, const char *transport, const struct measured *cases, int count,
               const struct target *targets, int target_count);

#endif
