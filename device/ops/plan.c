/* The choice of plan.h: the profile's rows, then the shape of the launch. Pure functions. */
#include "device/ops/plan.h"

#include <errno.h>
#include <stddef.h>

#include "braid/ops.h"
#include "common/util.h"
#include "device/ops/args.h"

struct row {
    enum braid_op_kind kind;
    uint32_t least_ranks, most_ranks;
    uint64_t most_bytes;
    uint32_t method;
    uint32_t sms;
};

#define ROW(kind, least, most, bytes, method, sms)                                                 \
    {BRAID_OP_##kind, least, most, bytes, BRAID_METHOD_##method, sms},
static const struct row profile[] = {
#include "device/ops/profile.inc"
};
#undef ROW

const char *braid_op_name(enum braid_op_kind kind)
{
    static const char *const names[BRAID_OP_KINDS] = {"all_reduce", "reduce_scatter", "all_gather",
                                                      "all_to_all", "all_to_all_v",   "broadcast"};

    return names[kind];
}

const char *braid_method_name(uint32_t method)
{
    static const char *const names[] = {"auto",   "packets", "one_shot", "two_shot",
                                        "staged", "direct",  "engine",   "pull"};

    return method < ARRAY_SIZE(names) ? names[method] : "unknown";
}

/* May the method serve this operation and these buffers? 0 or a negative errno. */
static int method_fits(const struct braid_op_question *q, uint32_t method)
{
    bool reduces = q->kind == BRAID_OP_ALL_REDUCE;
    bool copies = q->kind != BRAID_OP_ALL_REDUCE && q->kind != BRAID_OP_REDUCE_SCATTER;

    switch (method) {
    case BRAID_METHOD_PACKETS:
        if (q->kind == BRAID_OP_ALL_TO_ALL_V)
            return -EOPNOTSUPP;
        return q->block <= q->packet_limit || q->ranks == 1 ? 0 : -EMSGSIZE;
    case BRAID_METHOD_ONE_SHOT: return reduces ? 0 : -EOPNOTSUPP;
    case BRAID_METHOD_TWO_SHOT: return reduces && q->in_window ? 0 : -EOPNOTSUPP;
    case BRAID_METHOD_STAGED: return reduces ? -EOPNOTSUPP : 0;
    case BRAID_METHOD_DIRECT:
        return copies && q->kind != BRAID_OP_ALL_TO_ALL_V && q->in_window && !q->in_place
                   ? 0
                   : -EOPNOTSUPP;
    case BRAID_METHOD_ENGINE:
        if ((q->kind != BRAID_OP_ALL_GATHER && q->kind != BRAID_OP_ALL_TO_ALL) || !q->in_window)
            return -EOPNOTSUPP;
        return q->in_place && q->block > q->staging_limit ? -EMSGSIZE : 0;
    case BRAID_METHOD_PULL:
        return !copies && q->in_readable && (!reduces || q->in_window) ? 0 : -EOPNOTSUPP;
    default: return -EOPNOTSUPP;
    }
}

/* The first row that fits; NULL when none does, which the last rows of the profile prevent. */
static const struct row *choose(const struct braid_op_question *q)
{
    for (size_t i = 0; i < ARRAY_SIZE(profile); i++) {
        const struct row *r = &profile[i];

        if (r->kind == q->kind && q->ranks >= r->least_ranks && q->ranks <= r->most_ranks &&
            q->block <= r->most_bytes &&
            (q->method == BRAID_METHOD_AUTO || q->method == r->method) &&
            method_fits(q, r->method) == 0)
            return r;
    }
    return NULL;
}

/* One warp a tile of packets: few warps a CTA first, so that many SMs share the polling. */
static void shape_packets(const struct braid_op_question *q, uint32_t sms,
                          struct braid_op_plan *plan)
{
    uint64_t tile = BRAID_OPS_TILE;
    uint64_t pairs = q->kind == BRAID_OP_ALL_REDUCE || q->kind == BRAID_OP_REDUCE_SCATTER
                         ? 1
                         : MAX(q->ranks - 1, 1);
    uint64_t warps = MAX((q->block + tile - 1) / tile, 1) * pairs;
    uint64_t each = MIN((warps + sms - 1) / sms, 16);

    each = MAX(each, MIN(warps, 4));
    plan->threads = (uint32_t)each * 32;
    plan->ctas = (uint32_t)MIN((warps + each - 1) / each, sms);
    plan->segment = q->block;
}

/*
 * Chunks: small ones through staging, so that the first is summed early and the ring stays in the cache; larger ones straight into
 * results, where nobody waits for them. The same on every rank.
 */
static void shape_chunks(const struct braid_op_question *q, uint32_t sms,
                         struct braid_op_plan *plan)
{
    const uint64_t least = 16384, most = 65536;
    uint64_t parts = plan->method == BRAID_METHOD_TWO_SHOT ? q->ranks : 1;
    uint64_t block, chunks;

    plan->segment = MIN(q->block, most * BRAID_OPS_CHUNKS * parts);
    block = (plan->segment + parts - 1) / parts;
    plan->chunk = (uint32_t)least;
    if (plan->method == BRAID_METHOD_DIRECT)
        plan->chunk = (uint32_t)MIN(MAX((block / 128 + least - 1) & ~(least - 1), least), most);
    while (plan->chunk < most && (block + plan->chunk - 1) / plan->chunk > BRAID_OPS_CHUNKS)
        plan->chunk = (uint32_t)MIN(2 * plan->chunk, most);
    chunks = MAX((block + plan->chunk - 1) / plan->chunk, 1);
    plan->threads = 32 * BRAID_OPS_WARPS;
    plan->ctas = (uint32_t)MIN(chunks, sms);
}

/* Every thread a few vectors. */
static void shape_pull(const struct braid_op_question *q, uint32_t sms, struct braid_op_plan *plan)
{
    uint64_t block = q->kind == BRAID_OP_ALL_REDUCE ? q->block / q->ranks : q->block;

    plan->threads = BRAID_PULL_THREADS;
    plan->ctas = (uint32_t)MIN(block / 65536 + 1, sms);
}

int braid_op_plan(const struct braid_op_question *q, struct braid_op_plan *plan)
{
    const struct row *row = choose(q);
    uint32_t sms;
    int rc;

    *plan = (struct braid_op_plan){.method = q->method};
    if (q->method == BRAID_METHOD_AUTO) {
        if (row == NULL)
            return -EOPNOTSUPP;
        plan->method = row->method;
    }
    rc = method_fits(q, plan->method);
    if (rc != 0)
        return rc;
    plan->segment = q->block;
    if (plan->method == BRAID_METHOD_ENGINE)
        return 0;
    if (q->sms > q->sm_share)
        return -EAGAIN;
    sms = q->sms != 0 ? q->sms : row != NULL && row->sms != 0 ? row->sms : 32;
    sms = MIN(sms, q->sm_share);
    if (plan->method == BRAID_METHOD_PACKETS)
        shape_packets(q, sms, plan);
    else if (plan->method == BRAID_METHOD_PULL)
        shape_pull(q, sms, plan);
    else
        shape_chunks(q, sms, plan);
    return 0;
}
