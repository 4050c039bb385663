/*
 * Staging of one lane: a GPU buffer that the socket cannot touch is reached through a ring of pinned pieces and the copy engine.
 * Sending, pieces are fetched from the GPU ahead of the socket; receiving, a piece that is full goes to the GPU while the next one
 * fills. Each lane has pieces of its own, made when the first GPU buffer of its connection is registered (connection set-up), so that no
 * lane ever waits for another one's: shared pieces could be held by lanes that wait for each other's peers.
 * Threading: the holder of the lane's lock; making and freeing as stated.
 */
#ifndef BRAID_SOCKET_STAGE_H
#define BRAID_SOCKET_STAGE_H

#include "net-plugin/core/transport.h"
#include "net-plugin/socket/cuda.h"

#define BRAID_STAGE_PIECES 4

struct braid_stage_piece {
    uint8_t *host;
    struct braid_copy copy;
    size_t bytes;
    bool ends_chunk; /* receiving: what landed() is told is complete with it */
    uint32_t sub, chunk, chunks;
    uint64_t end;
};

struct braid_stage {
    unsigned lane;
    size_t piece_bytes;
    struct braid_stage_piece pieces[BRAID_STAGE_PIECES];
    unsigned first, count; /* ring of pieces in use, oldest first; receiving: copies under way */
    size_t used;           /* sending: bytes of the oldest that have left; receiving: bytes in the
                              piece behind the last, which is filling */
    size_t fetched;        /* sending: bytes of the put for which copies have begun */
};

/* All stages of a connection. */
struct braid_stages {
    struct braid_gpu *gpu; /* whose context made the memory */
    void *memory;
    unsigned count;
    struct braid_stage stage[]; /* by lane index */
};

/* For lanes 0 to count - 1, piece_bytes each piece. NULL when memory is short. May wait for the driver. */
struct braid_stages *braid_stages_new(struct braid_gpu *gpu, unsigned count, size_t piece_bytes);
/* No copy is under way. Accepts NULL. */
void braid_stages_free(struct braid_stages *stages);

/* A new put begins; nothing of the last one is here. */
void braid_stage_begin_put(struct braid_stage *stage);
/* Where the next bytes of the put lie: *bytes_p of them at *src_p, 0 while the GPU still copies. 0 or a negative errno. */
int braid_stage_source(struct braid_stage *stage, const struct braid_put *put, const void **src_p,
                       size_t *bytes_p);
/* `bytes` of them have left. */
void braid_stage_sent(struct braid_stage *stage, size_t bytes);

/* Where the next bytes of a landing go: at most as many as returned; 0 while all pieces are on their way to the GPU. */
size_t braid_stage_room(const struct braid_stage *stage, size_t rest, void **dst_p);
/* `bytes` have come there, and with them `landed` bytes of the landing in all. 0 or a negative errno. */
int braid_stage_filled(struct braid_stage *stage, const struct braid_landing *landing,
                       size_t landed, size_t bytes);
/* Takes copies that have ended off the ring and reports their chunks. Their number or a negative errno. */
int braid_stage_reap(struct braid_stage *stage, struct braid_lane *lane);
/* Whether pieces are in use. */
static inline bool braid_stage_is_busy(const struct braid_stage *stage)
{
    return stage->count > 0;
}

/* Waits until the GPU has ended all copies, and forgets them. Bounded: 10 s, then -ETIMEDOUT. */
int braid_stage_drain(struct braid_stage *stage);

#endif
