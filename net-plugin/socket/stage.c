/* GPU buffers through pinned pieces; see stage.h. */
#include "net-plugin/socket/stage.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/util.h"

#define DRAIN_NS (10 * BRAID_NS_PER_S)

struct braid_stages *braid_stages_new(struct braid_gpu *gpu, unsigned count, size_t piece_bytes)
{
    struct braid_stages *stages = calloc(1, sizeof(*stages) + count * sizeof(stages->stage[0]));
    uint8_t *at;

    if (stages == NULL)
        return NULL;
    stages->gpu = gpu;
    stages->count = count;
    stages->memory = braid_pinned_new(gpu, count * BRAID_STAGE_PIECES * piece_bytes);
    if (stages->memory == NULL) {
        free(stages);
        return NULL;
    }
    at = stages->memory;
    for (unsigned i = 0; i < count; i++) {
        stages->stage[i].lane = i;
        stages->stage[i].piece_bytes = piece_bytes;
        for (unsigned j = 0; j < BRAID_STAGE_PIECES; j++, at += piece_bytes)
            stages->stage[i].pieces[j].host = at;
    }
    return stages;
}

void braid_stages_free(struct braid_stages *stages)
{
    if (stages == NULL)
        return;
    for (unsigned i = 0; i < stages->count; i++)
        for (unsigned j = 0; j < BRAID_STAGE_PIECES; j++)
            braid_copy_free(&stages->stage[i].pieces[j].copy);
    braid_pinned_free(stages->gpu, stages->memory);
    free(stages);
}

static struct braid_stage_piece *piece_at(const struct braid_stage *stage, unsigned i)
{
    return (struct braid_stage_piece *)&stage->pieces[(stage->first + i) % BRAID_STAGE_PIECES];
}

static void drop_first(struct braid_stage *stage)
{
    stage->first = (stage->first + 1) % BRAID_STAGE_PIECES;
    stage->count--;
}

/* -- sending -------------------------------------------------------------------------------------------------------------- */

void braid_stage_begin_put(struct braid_stage *stage)
{
    stage->first = stage->count = 0;
    stage->used = stage->fetched = 0;
}

static int fetch_ahead(struct braid_stage *stage, const struct braid_put *put)
{
    while (stage->count < BRAID_STAGE_PIECES && stage->fetched < put->bytes) {
        struct braid_stage_piece *piece = piece_at(stage, stage->count);
        int err;
        piece->bytes = MIN(stage->piece_bytes, put->bytes - stage->fetched);
        err = braid_copy_to_host(&piece->copy, put->src_mr->tp, stage->lane, piece->host,
                                 (const uint8_t *)put->src + stage->fetched, piece->bytes);
        if (err != 0)
            return err;
        stage->fetched += piece->bytes;
        stage->count++;
    }
    return 0;
}

int braid_stage_source(struct braid_stage *stage, const struct braid_put *put, const void **src_p,
                       size_t *bytes_p)
{
    struct braid_stage_piece *piece;
    int err = fetch_ahead(stage, put);

    *bytes_p = 0;
    if (err != 0 || stage->count == 0)
        return err;
    piece = piece_at(stage, 0);
    if (stage->used == 0) {
        err = braid_copy_test(&piece->copy);
        if (err <= 0)
            return err;
    }
    *src_p = piece->host + stage->used;
    *bytes_p = piece->bytes - stage->used;
    return 0;
}

void braid_stage_sent(struct braid_stage *stage, size_t bytes)
{
    stage->used += bytes;
    if (stage->count > 0 && stage->used == piece_at(stage, 0)->bytes) {
        stage->used = 0;
        drop_first(stage);
    }
}

/* -- receiving ------------------------------------------------------------------------------------------------------------ */

size_t braid_stage_room(const struct braid_stage *stage, size_t rest, void **dst_p)
{
    if (stage->count == BRAID_STAGE_PIECES)
        return 0;
    *dst_p = piece_at(stage, stage->count)->host + stage->used;
    return MIN(rest, stage->piece_bytes - stage->used);
}

int braid_stage_filled(struct braid_stage *stage, const struct braid_landing *landing,
                       size_t landed, size_t bytes)
{
    struct braid_stage_piece *piece = piece_at(stage, stage->count);
    int err;

    stage->used += bytes;
    if (stage->used < stage->piece_bytes && landed < landing->bytes)
        return 0;
    piece->bytes = stage->used;
    piece->ends_chunk = landed == landing->bytes;
    piece->sub = landing->sub;
    piece->chunk = landing->chunk;
    piece->chunks = landing->chunks;
    piece->end = landing->end;
    err = braid_copy_to_gpu(&piece->copy, landing->mr->tp, stage->lane,
                            (uint8_t *)landing->dst + landed - piece->bytes, piece->host,
                            piece->bytes);
    if (err != 0)
        return err;
    stage->used = 0;
    stage->count++;
    return 0;
}

int braid_stage_reap(struct braid_stage *stage, struct braid_lane *lane)
{
    int ended = 0;

    while (stage->count > 0) {
        struct braid_stage_piece *piece = piece_at(stage, 0);
        int got = braid_copy_test(&piece->copy);
        if (got < 0)
            return got;
        if (got == 0)
            break;
        drop_first(stage);
        ended++;
        if (!piece->ends_chunk)
            continue;
        got = braid_conn_landed(lane, piece->sub, piece->chunk, piece->chunks, piece->end);
        if (got < 0)
            return got;
    }
    return ended;
}

int braid_stage_drain(struct braid_stage *stage)
{
    uint64_t until = braid_now_ns() + DRAIN_NS;
    int err = 0;

    while (stage->count > 0) {
        int got = braid_copy_test(&piece_at(stage, 0)->copy);
        if (got == 0 && braid_now_ns() > until)
            got = -ETIMEDOUT;
        if (got == 0) {
            sched_yield();
            continue;
        }
        if (got < 0)
            err = got; /* the GPU is lost: nothing is copied any more */
        drop_first(stage);
    }
    stage->used = stage->fetched = 0;
    return err;
}
