/*
 * The control ring without verbs: where the next record goes, how it is laid out, whether one has come. The layout and its rules are
 * in wire/net_verbs.h. Pure state on memory that its owner gives, so that a unit test and a fuzzer drive it without a NIC.
 * Threading: the holder of the lane's lock; the memory of a receiving ring is written by the peer at any time.
 */
#ifndef BRAID_VERBS_RING_H
#define BRAID_VERBS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include "braid/wire/net_verbs.h"

/* The sending end: a local image of the peer's ring, from which records are written to the same place over there. */
struct braid_ring_tx {
    uint8_t *image;    /* `size` bytes and the slack */
    uint32_t size;     /* BRAID_VERBS_RING_BYTES or BRAID_VERBS_BACK_BYTES */
    uint32_t at;       /* offset of the next record */
    uint32_t used;     /* running sum of bytes taken */
    uint32_t consumed; /* running sum that the peer has given back */
};

struct braid_ring_rx {
    uint8_t *memory; /* `size` bytes and the slack, written by the peer */
    uint32_t size;
    uint32_t at;
    uint32_t consumed; /* running sum */
};

/* A record that lies complete in the ring: what the peer can still write to is copied, but for the body. */
struct braid_ring_record {
    struct braid_verbs_head head;
    struct braid_rec rec;
    const uint8_t *body;
    uint32_t bytes; /* without the flag */
    bool by_imm;
};

static inline uint32_t braid_ring_record_bytes(uint32_t body_bytes)
{
    return (uint32_t)(sizeof(struct braid_verbs_head) + sizeof(struct braid_rec)) +
           (body_bytes + 7) / 8 * 8 + 8;
}

/* Whether the peer has consumed enough for a record of `bytes` bytes; the last one of a lap takes less. */
static inline bool braid_ring_has_room(const struct braid_ring_tx *tx, uint32_t bytes)
{
    return tx->used - tx->consumed + bytes <= tx->size;
}

/* Takes the place of a record of `bytes` bytes, for which there is room. Its offset. */
uint32_t braid_ring_take(struct braid_ring_tx *tx, uint32_t bytes);
/*
 * Lays out a record of `bytes` bytes (braid_ring_record_bytes()) at its place in the image. `chunks` and `credit` go into the head;
 * with `by_imm` an immediate follows.
 */
void braid_ring_write(uint8_t *image, uint32_t bytes, bool by_imm, uint32_t chunks,
                      struct braid_verbs_credit credit, const struct braid_rec *rec,
                      const void *body);

/*
 * The next record: 1 and *record, 0 when none has come whole, -EPROTO when what is there cannot be one. `imms` immediates have come for
 * records that count only with one.
 */
int braid_ring_peek(const struct braid_ring_rx *rx, uint32_t imms,
                    struct braid_ring_record *record);
/* Zeroes the record and moves on. */
void braid_ring_consume(struct braid_ring_rx *rx, const struct braid_ring_record *record);

#endif
