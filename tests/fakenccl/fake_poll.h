/*
 * A stand-in for a GPU that polls a receive while it lands: NCCL's LL protocol puts a flag beside
 * every 4 bytes, LL128 one behind every 120. The poller reads the buffer 8 bytes at a time on its
 * own thread and fails the rank when a flag is there before its data, or when 8 bytes are torn.
 * Threading: one poller thread a receiving connection; arm and done are called by the progress
 * thread.
 */
#ifndef FAKE_POLL_H
#define FAKE_POLL_H

#include "fake_rank.h"

struct fake_traffic;

struct fake_poller {
    pthread_t thread;
    const struct fake_rank *r;
    const struct fake_traffic *traffic;
    int peer;
    void *_Atomic buffers[32];
    _Atomic uint64_t armed;
    _Atomic uint64_t seen;
};

/* Writes step `step` of a polled message: data and flags. */
void fake_poll_fill(void *data, size_t size, int kind, uint64_t step);

void fake_poller_start(struct fake_poller *p, const struct fake_rank *r,
                       const struct fake_traffic *traffic, int peer);
/* The buffer of receive `step`; called before irecv, perhaps again when irecv had no room. */
void fake_poller_arm(struct fake_poller *p, uint64_t step, void *buffer);
/* How many receives the poller has seen in full; their buffers may be posted again. */
uint64_t fake_poller_done(const struct fake_poller *p);
void fake_poller_stop(struct fake_poller *p);

#endif
