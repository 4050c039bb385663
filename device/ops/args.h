/*
 * What the host hands to the collectives' kernels, and the layout of the operations window that they share. Included by the host
 * side of device/ops and by its kernels; not installed. Fixed width, no functions. Bytes and byte offsets throughout.
 *
 * The operations window, the same on every rank (R ranks, two parities of every area, chosen by the epoch of the operation):
 *   flags      uint32_t[2][2][R][BRAID_OPS_CHUNKS]: chunk flags by parity, kind (0 data is there, 1 the
 *              source has finished the chunk: its result is there, its staging is free), source rank; then ready words uint64_t[2][R]
 *   packets    [2][R - 1][packet_slot]: LL packets by parity and source; nothing else is ever written there
 *   staging    [2][R - 1][staging_slot]: rings of chunks by parity and source
 * Source s owns slot (s - d - 1 mod R) on destination d. A flag is braid_packet_flag(epoch) of the operation that set it; it is
 * compared for equality, because its parity is written again only two operations later. A ready word is {tag, flag}: the source has
 * begun the operation, and the tag says how large it is there, so that ranks that disagree find out.
 *
 * Reuse: an operation writes into the areas of its parity on a peer without asking. That is safe when the peer has finished the
 * operation before the last one, which shared the parity: this rank has finished the last operation, hence heard from every peer
 * in it, so every peer had begun it, and kernels of one slot run one after the other. Every operation therefore hears from every
 * rank: by packets, or by ready words.
 */
#ifndef BRAID_DEVICE_OPS_ARGS_H
#define BRAID_DEVICE_OPS_ARGS_H

#include <braid/wire/devcomm_v1.h>
#include <braid/wire/number_v1.h>

#define BRAID_OPS_CHUNKS    4096u /* chunks of one block, at most */
#define BRAID_OPS_RANKS     64    /* ranks of the collectives: what fits in a kernel's parameters */
#define BRAID_OPS_TILE      1536u /* bytes that one warp moves by packets */
#define BRAID_OPS_TILE_WIRE 2048u /* and the bytes of those packets */
/* Pushers of an exchange CTA, and each one's ring in shared memory: pieces of so many bytes, so many stages. */
#define BRAID_OPS_PUSHERS 4u
#define BRAID_OPS_PIECE   8192u
#define BRAID_OPS_STAGES  4u
/* warps of an exchange CTA that move: pushers, announcer, waiter, flagger */
#define BRAID_OPS_SERVICE (BRAID_OPS_PUSHERS + 3u)
#define BRAID_OPS_WORKERS 16u /* and those that work */
#define BRAID_OPS_WARPS   (BRAID_OPS_SERVICE + BRAID_OPS_WORKERS)
/* Dynamic shared memory of the pushers: BRAID_BULK_SHARED each. */
#define BRAID_OPS_RING_BYTES (BRAID_OPS_PUSHERS * (BRAID_OPS_STAGES * BRAID_OPS_PIECE + 128u))

/* Threads of a CTA that pulls; each has four loads from every rank on their way. */
#define BRAID_PULL_THREADS 736u

/* Where the areas are. */
struct braid_ops_layout {
    uint64_t flags;
    uint64_t ready;
    uint64_t packets;
    uint64_t packet_slot;
    uint64_t staging;
    uint64_t staging_slot;
    uint32_t ranks;
    uint32_t rank;
    uint32_t epoch_slot;
    uint32_t reserved;
};

/* Small reductions by packets: all-reduce (stride 0), reduce-scatter. */
struct braid_ll_reduce_args {
    struct braid_ops_layout layout;
    uint64_t in;
    uint64_t out;
    uint64_t bytes;  /* of the result */
    uint64_t stride; /* in `in`, between what goes to rank r and to rank r + 1 */
    float scale;
    uint32_t aligned; /* in, out, stride and bytes are multiples of 16 */
};

/* Large reductions by staging: reduce-scatter, one-shot all-reduce (stride 0), two-shot all-reduce (results != 0). */
struct braid_exchange_args {
    struct braid_ops_layout layout;
    uint64_t in;
    uint64_t out; /* of this rank's block */
    /* in `in`, between the blocks of rank r and r + 1; 0: every rank gets all of it */
    uint64_t stride;
    uint64_t bytes;   /* of a block */
    uint64_t total;   /* of `in`: the blocks at the end may be short or empty */
    uint64_t result;  /* offset in the result window of rank 0's block; blocks are `stride` apart */
    uint32_t chunk;   /* bytes, a multiple of 16 KiB, at most 64 KiB */
    uint32_t slots;   /* chunks of a staging ring */
    uint32_t results; /* this rank's block goes to every peer's result window */
    uint32_t aligned; /* in, out, stride, result are multiples of 16 */
    uint32_t in_place; /* out overwrites what is pushed (one-shot) */
    float scale;
    uint32_t tag; /* equal on all ranks, see ready words */
};

/* One peer of a copying collective; the entry of the rank itself is its local copy. */
struct braid_copy_peer {
    uint64_t from; /* what goes to the peer */
    uint64_t from_bytes;
    uint64_t to;   /* where it goes in the peer's memory, 0: to staging, and the peer copies it */
    uint64_t into; /* where the peer's data goes here (staged only) */
    uint64_t into_bytes; /* what is expected from the peer */
};

/* All-gather, all-to-all(-v), broadcast. */
struct braid_copy_args {
    struct braid_ops_layout layout;
    uint32_t chunk;   /* bytes, a multiple of 16 KiB, at most 64 KiB */
    uint32_t slots;   /* chunks of a staging ring */
    uint32_t aligned; /* every address is a multiple of 16 */
    uint32_t same;    /* every peer gets the same bytes: they are read once */
    uint32_t direct;  /* chunks go to peers' `to`, which must be ready first */
    uint32_t tag;     /* equal on all ranks; 0: the ready word to a peer carries the bytes for it */
    uint32_t in_place;   /* what arrives overwrites what is pushed, chunk by chunk */
    uint32_t out_chunks; /* of the longest push */
    uint32_t in_chunks;  /* of the longest arrival, the own copy included */
    struct braid_copy_peer peer[BRAID_OPS_RANKS];
};

/* The same by packets, small; no staging, `to` unused. */
struct braid_ll_copy_args {
    struct braid_ops_layout layout;
    uint32_t aligned; /* all addresses and lengths are multiples of 16 */
    uint32_t reserved;
    struct braid_copy_peer peer[BRAID_OPS_RANKS];
};

/* Large reductions that read the peers' inputs. */
struct braid_pull_args {
    struct braid_ops_layout layout;
    uint64_t in;     /* offset of this rank's block in every rank's input window */
    uint64_t out;    /* where this rank's result of it goes */
    uint64_t result; /* and its offset in the peers' result windows (results) */
    uint64_t bytes;  /* of this rank's block */
    uint32_t results;
    uint32_t aligned; /* in, out and result are multiples of 16 */
    float scale;
    uint32_t tag; /* equal on all ranks, see ready words */
};

BRAID_STATIC_ASSERT(sizeof(struct braid_ops_layout) == 64, "layout");
BRAID_STATIC_ASSERT(sizeof(struct braid_copy_args) + 2 * sizeof(struct braid_devwin) +
                            sizeof(struct braid_devcomm) <=
                        4096,
                    "kernel parameters");
#endif
