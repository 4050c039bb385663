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
    uint8_t *image;    /* BRAID_VERBS_RING_ALLOC bytes */
    uint32_t at;       /* offset of the next record */
    uint32_t used;     /* running sum of bytes taken */
    uint32_t consumed; /* running sum that the peer has given back */
};

struct braid_ring_rx {
    uint8_t *memory; /* BRAID_VERBS_RING_ALLOC bytes, written by the peer */
    uint32_t at;
    uint32_t consumed; /* running sum */
};

/* A record that lies complete in the ring, or would if its immediate had come. */
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

/*
 * Lays out a record in the image. Its offset and length in *at and *bytes; 0, or -EAGAIN when the peer has not yet consumed enough.
 * `chunks` and `credit` go into the head; by_imm is set for records larger than `polled_bytes`.
 */
int braid_ring_put(struct braid_ring_tx *tx, const struct braid_rec *rec, const void *body,
                   uint32_t chunks, struct braid_verbs_credit credit, uint32_t polled_bytes,
                   uint32_t *at, uint32_t *bytes);

/*
 * The next record: 1 and *record, 0 when none has come whole, -EPROTO when what is there cannot be one. With by_imm only its length is
 * to be relied upon before the immediate has come; then peek again.
 */
int braid_ring_peek(const struct braid_ring_rx *rx, struct braid_ring_record *record);
/* Whether the lengths in a complete record agree. */
bool braid_ring_record_is_sound(const struct braid_ring_record *record);
/* Zeroes the record and moves on. */
void braid_ring_consume(struct braid_ring_rx *rx, const struct braid_ring_record *record);

#endif
