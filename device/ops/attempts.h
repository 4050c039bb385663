/*
 * Choices inside the collectives that are compared on GPUs before one of them becomes the rule: tests/gpu/attempts.cmake builds a
 * libbraid a row with other values, `tests/gpu/run_collectives.sh attempts` measures them side by side. Without definitions this is what
 * has been measured and what libbraid.so is. A choice that has lost is deleted here and where it is used.
 */
#ifndef BRAID_DEVICE_OPS_ATTEMPTS_H
#define BRAID_DEVICE_OPS_ATTEMPTS_H

/* Pushers of an exchange CTA, and each one's ring in shared memory: pieces of so many bytes, so many stages. */
#ifndef BRAID_OPS_PUSHERS
#define BRAID_OPS_PUSHERS 4u
#endif
#ifndef BRAID_OPS_PIECE
#define BRAID_OPS_PIECE 8192u
#endif
#ifndef BRAID_OPS_STAGES
#define BRAID_OPS_STAGES 4u
#endif
/* 0: a pusher counts a chunk as written when the next one is on its way, waiting for it; else it goes on with so many pieces (at most 8)
 * on their way whatever chunk they belong to. */
#ifndef BRAID_OPS_LAG
#define BRAID_OPS_LAG 0u
#endif
/* Bytes of a chunk in staging: fewer flags and fences a byte, and a later first sum. A multiple of 16 KiB, at most 64 KiB. */
#ifndef BRAID_OPS_STAGED_CHUNK
#define BRAID_OPS_STAGED_CHUNK 16384u
#endif
/* Bytes of all staging rings of a parity: small enough for the L2 cache, or deep enough that no pusher waits for room. */
#ifndef BRAID_OPS_RING
#define BRAID_OPS_RING (8u << 20)
#endif
/* Nanoseconds that a role sleeps between two looks at its counts, so that it takes no issue slots from the others; 0 = none. */
#ifndef BRAID_OPS_IDLE_NS
#define BRAID_OPS_IDLE_NS 0u
#endif
/* 1: flags are polled without acquire, and acquired once when they have come: an acquire empties the SM's L1 cache at every poll, which
 * the workers' loads go through. */
#ifndef BRAID_OPS_QUIET_POLLS
#define BRAID_OPS_QUIET_POLLS 0
#endif
/* 1: two-shot and reduce-scatter read the peers' inputs instead of being sent them (in place in one window only). */
#ifndef BRAID_OPS_PULL
#define BRAID_OPS_PULL 0
#endif

/* Copy engines. Words for the watchdog: 0 = in host memory at both ends; 1 = none, and no watchdog (the least that is possible). */
#ifndef BRAID_ENGINE_UNWATCHED
#define BRAID_ENGINE_UNWATCHED 0
#endif
/* 1: `done` reaches a peer as a copy of four bytes behind the data, in the copies' stream. */
#ifndef BRAID_ENGINE_TELL_BY_COPY
#define BRAID_ENGINE_TELL_BY_COPY 0
#endif
/* 1: one warp on one SM does what stream memory operations do; its waits are bounded, so there is no watchdog. */
#ifndef BRAID_ENGINE_MEET_BY_KERNEL
#define BRAID_ENGINE_MEET_BY_KERNEL 0
#endif
/* Parts of a block that go to a peer at the same time, on streams of their own (two ranks). */
#ifndef BRAID_ENGINE_PARTS
#define BRAID_ENGINE_PARTS 1u
#endif
/* All-to-all apart: the own block 0 = on a side stream from the beginning on; 1 = in the stream, behind the pushes. */
#ifndef BRAID_ENGINE_OWN_LAST
#define BRAID_ENGINE_OWN_LAST 0
#endif
/* All-to-all in place: 0 = save at home, then push home; 1 = push into the peer's staging, then copy home. */
#ifndef BRAID_ENGINE_SWAP_BY_STAGING
#define BRAID_ENGINE_SWAP_BY_STAGING 0
#endif
/* 1: reduce-scatter STAGED: copy engines push the blocks into the peers' staging in parts, a kernel sums each part when it is there. */
#ifndef BRAID_ENGINE_REDUCE
#define BRAID_ENGINE_REDUCE 0
#endif
/* Where part `k` of these ends, in 1/32 of the block: smaller and smaller, so that little is left to sum when the link is done. */
#define BRAID_ENGINE_REDUCE_PARTS 6u
#define BRAID_ENGINE_REDUCE_END(k)                                                                 \
    ((k) == 0 ? 10u : (k) == 1 ? 19u : (k) == 2 ? 25u : (k) == 3 ? 29u : 31u)

#endif
