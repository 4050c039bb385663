/*
 * The control ring. See ring.h. Called by lane.c.
 */
#include "net-plugin/verbs/ring.h"

#include <errno.h>
#include <string.h>

#define HEAD_BYTES  ((uint32_t)sizeof(struct braid_verbs_head))
#define LEAST_BYTES (HEAD_BYTES + (uint32_t)sizeof(struct braid_rec) + 8)

/* The place after a record, and what it costs: whatever is left of the lap when it runs past the end. */
static uint32_t advance(uint32_t *at, uint32_t bytes)
{
    uint32_t cost = bytes;

    if (*at + bytes >= BRAID_VERBS_RING_BYTES) {
        cost = BRAID_VERBS_RING_BYTES - *at;
        *at = 0;
    } else {
        *at += bytes;
    }
    return cost;
}

int braid_ring_put(struct braid_ring_tx *tx, const struct braid_rec *rec, const void *body,
                   uint32_t chunks, struct braid_verbs_credit credit, uint32_t polled_bytes,
                   uint32_t *at, uint32_t *bytes)
{
    uint32_t total = braid_ring_record_bytes(rec->body_bytes), next = tx->at;
    uint32_t cost = advance(&next, total);
    struct braid_verbs_head head = {.bytes = total, .chunks = chunks, .credit = credit};
    uint8_t *p = tx->image + tx->at;
    const uint64_t tail = 1;

    if (tx->used - tx->consumed + cost > BRAID_VERBS_RING_BYTES)
        return -EAGAIN;
    if (total > polled_bytes)
        head.bytes |= BRAID_VERBS_BY_IMM;
    memcpy(p, &head, sizeof(head));
    memcpy(p + sizeof(head), rec, sizeof(*rec));
    if (rec->body_bytes > 0)
        memcpy(p + sizeof(head) + sizeof(*rec), body, rec->body_bytes);
    memcpy(p + total - sizeof(tail), &tail, sizeof(tail));
    *at = tx->at;
    *bytes = total;
    tx->at = next;
    tx->used += cost;
    return 0;
}

bool braid_ring_record_is_sound(const struct braid_ring_record *record)
{
    return record->rec.body_bytes <= BRAID_BODY_MAX &&
           braid_ring_record_bytes(record->rec.body_bytes) == record->bytes;
}

int braid_ring_peek(const struct braid_ring_rx *rx, struct braid_ring_record *record)
{
    const uint8_t *p = rx->memory + rx->at;
    /* Such a NIC stores in ascending order within a packet: the length first, the tail last. */
    uint32_t length = __atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_ACQUIRE);

    if (length == 0)
        return 0;
    record->by_imm = length & BRAID_VERBS_BY_IMM;
    record->bytes = length & ~BRAID_VERBS_BY_IMM;
    if (record->bytes < LEAST_BYTES || record->bytes > BRAID_VERBS_RECORD_MAX ||
        record->bytes % 8 != 0)
        return -EPROTO;
    if (!record->by_imm && __atomic_load_n((const uint64_t *)(const void *)(p + record->bytes - 8),
                                           __ATOMIC_ACQUIRE) == 0)
        return 0;
    memcpy(&record->head, p, sizeof(record->head));
    memcpy(&record->rec, p + HEAD_BYTES, sizeof(record->rec));
    record->body = p + HEAD_BYTES + sizeof(struct braid_rec);
    return 1;
}

/* Without the string instruction that memset takes for a few KiB, whose start costs more than the loop. `bytes` is a multiple of 8. */
static void clear(uint8_t *p, uint32_t bytes)
{
    for (; bytes >= 64; bytes -= 64, p += 64)
        memset(p, 0, 64);
    for (; bytes > 0; bytes -= 8, p += 8)
        memset(p, 0, 8);
}

void braid_ring_consume(struct braid_ring_rx *rx, const struct braid_ring_record *record)
{
    clear(rx->memory + rx->at, record->bytes);
    /* The peer hears of the room by a work request, and posting one orders it behind these stores. */
    rx->consumed += advance(&rx->at, record->bytes);
}
