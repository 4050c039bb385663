/*
 * The control ring. See ring.h. Called by lane.c.
 */
#include "net-plugin/verbs/ring.h"

#include <errno.h>
#include <string.h>

#define HEAD_BYTES  ((uint32_t)sizeof(struct braid_verbs_head))
#define LEAST_BYTES (HEAD_BYTES + (uint32_t)sizeof(struct braid_rec) + 8)
_Static_assert(LEAST_BYTES + 8 == 64, "clear() knows what there is below 64 bytes");

/* Moves an offset behind a record. What that takes of the ring: whatever is left of the lap when the record runs past the end. */
static inline uint32_t advance(uint32_t size, uint32_t *at, uint32_t bytes)
{
    uint32_t left = size - *at;

    if (bytes >= left) {
        *at = 0;
        return left;
    }
    *at += bytes;
    return bytes;
}

uint32_t braid_ring_take(struct braid_ring_tx *tx, uint32_t bytes)
{
    uint32_t at = tx->at;

    tx->used += advance(tx->size, &tx->at, bytes);
    return at;
}

void braid_ring_write(uint8_t *image, uint32_t bytes, bool by_imm, uint32_t chunks,
                      struct braid_verbs_credit credit, const struct braid_rec *rec,
                      const void *body)
{
    struct braid_verbs_head *head = (struct braid_verbs_head *)(void *)image;
    const uint64_t tail = 1;

    head->bytes = by_imm ? bytes | BRAID_VERBS_BY_IMM : bytes;
    head->chunks = chunks;
    head->credit = credit;
    memcpy(image + HEAD_BYTES, rec, sizeof(*rec));
    memcpy(image + bytes - sizeof(tail), &tail, sizeof(tail));
    if (rec->body_bytes > 0)
        memcpy(image + HEAD_BYTES + sizeof(*rec), body, rec->body_bytes);
}

int braid_ring_peek(const struct braid_ring_rx *rx, uint32_t imms, struct braid_ring_record *record)
{
    const uint8_t *p = rx->memory + rx->at;
    /* Such a NIC stores in ascending order within a packet: the length first, the tail last. */
    uint32_t length = __atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_ACQUIRE);
    uint32_t bytes = length & ~BRAID_VERBS_BY_IMM;

    if (length == 0)
        return 0;
    if (bytes < LEAST_BYTES || bytes > BRAID_VERBS_RECORD_MAX || bytes % 8 != 0)
        return -EPROTO;
    record->by_imm = length != bytes;
    if (length != bytes) {
        if (imms == 0)
            return 0;
    } else if (__atomic_load_n((const uint64_t *)(const void *)(p + bytes - 8), __ATOMIC_ACQUIRE) ==
               0) {
        return 0;
    }
    memcpy(&record->head, p, sizeof(record->head));
    memcpy(&record->rec, p + HEAD_BYTES, sizeof(record->rec));
    record->body = p + HEAD_BYTES + sizeof(struct braid_rec);
    record->bytes = bytes;
    if (record->rec.body_bytes > BRAID_VERBS_RECORD_MAX ||
        braid_ring_record_bytes(record->rec.body_bytes) != bytes)
        return -EPROTO;
    return 1;
}

/*
 * Without the string instruction that memset takes for a few KiB, whose start costs more than the loop. The last 64 bytes may be
 * zeroed twice. `bytes` is a record's length: LEAST_BYTES or at least 64.
 */
static void clear(uint8_t *p, uint32_t bytes)
{
    uint8_t *end = p + bytes;

    if (bytes < 64) {
        memset(p, 0, LEAST_BYTES);
        return;
    }
    for (; end - p > 64; p += 64)
        memset(p, 0, 64);
    memset(end - 64, 0, 64);
}

void braid_ring_consume(struct braid_ring_rx *rx, const struct braid_ring_record *record)
{
    clear(rx->memory + rx->at, record->bytes);
    /* The peer hears of the room by a work request, and posting one orders it behind these stores. */
    rx->consumed += advance(rx->size, &rx->at, record->bytes);
}
