/*
 * Traffic over connections, driven as NCCL's progress thread does: every connection has a number
 * of steps, `depth` of them posted ahead; a receive takes `group` sends, told apart by tags, and a
 * tag may run ahead of the others; buffers are registered by the service thread. A step's sizes and
 * contents follow from its number, so both sides know them without talking.
 * What is checked for every message: contents, reported size, bytes next to the buffer, bytes of
 * the buffer behind a shorter message, and (sends) that the plugin no longer reads a buffer whose
 * request is done, by overwriting it. A receive into GPU memory is flushed before its contents are looked at.
 */
#ifndef FAKE_FLOW_H
#define FAKE_FLOW_H

#include "fake_rank.h"

enum fake_poll {
    FAKE_POLL_NONE,
    FAKE_POLL_LL,    /* a flag in the upper half of every 8 bytes */
    FAKE_POLL_LL128, /* a flag in the last 8 of every 128 bytes */
};

struct fake_traffic {
    int group;
    int depth;
    uint64_t steps;
    size_t bytes;  /* the largest message, and the size of every buffer */
    bool vary;     /* sizes from 0 to bytes, by step; else always bytes */
    bool roomy;    /* receives have room for `bytes`, whatever is sent */
    bool optional; /* ask for optional receive completion (group 1) */
    /* a receiver waits so long before it posts, so senders finish and close first */
    unsigned lag_us;
    bool ahead; /* the first tag runs ahead of the others as far as it may */
    bool churn; /* the service thread registers and deregisters meanwhile */
    bool aligned;
    enum fake_poll poll; /* group 1, bytes a multiple of 128 */
};

/*
 * Runs the traffic over all connections of the rank and returns when every step of each is done.
 * Collective among the ranks only in that both ends must run the same traffic.
 */
void fake_traffic_run(struct fake_rank *r, struct fake_conn *conns, int count,
                      const struct fake_traffic *traffic);

#endif
