/*
 * One side of a plugin target: its connections, and the calls that every pattern makes. Shared by netperf_plugin.c and netperf_ring.c.
 * Threading: the side's progress thread, but where netperf_plugin.c says service.
 */
#ifndef BRAID_NETPERF_SIDE_H
#define BRAID_NETPERF_SIDE_H

#include "netperf.h"

#include "tests/fakenccl/fake_rank.h"

#define MAX_DEPTH     32
#define SYNC_BYTES    8
#define BUFFER_BUDGET ((size_t)64 << 20) /* for one connection */

/* One connection and its buffers. */
struct lane {
    struct fake_conn *conn;
    struct fake_buffer buffers[MAX_DEPTH];
    void *requests[MAX_DEPTH];
    int depth;
    size_t bytes;
    size_t room; /* of its receives, at least */
    uint64_t posted;
    uint64_t done;
};

struct side {
    struct fake_rank *r;
    struct control *control;
    struct settings settings;
    struct fake_conn conns[2 * MAX_COMMS];
    struct lane lanes[2 * MAX_COMMS];
    int count;
    struct task task;
    struct outcome outcome;
    bool timing_calls; /* CALLS: CPU time of each */
    bool adding_calls; /* RING: time of all */
};

/* Posts the lane's next message; false when the plugin has no room now. */
bool side_post(struct side *s, struct lane *l);
/* Whether the lane's oldest message is done. */
bool side_finish(struct side *s, struct lane *l);
struct lane *side_lane(struct side *s, bool sends, int channel);
/* Ends this rank when nothing has moved since `since`. */
void side_check_late(const struct side *s, uint64_t since, const char *what);

/* netperf_ring.c: how large a message of an all-reduce of task->bytes is, and how many of them a channel has in one. */
size_t ring_message(const struct task *task, uint64_t *count);
/* task->messages all-reduces. */
void ring_play(struct side *s);

#endif
