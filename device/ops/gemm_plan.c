/*
 * Makes schedules, see gemm_plan.h. Every builder appends instructions in an order that is also a correct order for one single
 * stream; lanes and edges only allow more to run at once.
 */
#include "device/ops/gemm_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

#define LANE_PUSH BRAID_GEMM_LANE_PUSH
#define LANE_COPY BRAID_GEMM_LANE_COPY
#define LANE_POST BRAID_GEMM_LANE_POST

/* What a builder works on. */
struct builder {
    struct braid_gemm_program *p;
    const struct braid_gemm_settings *set;
    int rank, ranks;
    int64_t m;    /* rows of the product, all ranks */
    int64_t part; /* rows of one rank in the communication */
    int64_t bounds[BRAID_GEMM_MAX_SPLITS + 1];
    uint32_t splits;
    uint32_t lanes; /* compute lanes */
    uint32_t next_lane;
    int error;
};

/* The part boundary after share `i` of `splits`, in rows, before rounding. */
static int64_t boundary(int64_t rows, uint32_t splits, uint32_t i, enum braid_gemm_shape shape)
{
    int64_t weight = 0, before = 0;

    for (uint32_t j = 0; j < splits; j++) {
        uint32_t left = splits - 1 - j, end = MIN(j, left);
        int64_t w = 1;

        switch (shape) {
        case BRAID_GEMM_EVEN: break;
        case BRAID_GEMM_FALLING: w = left + 1; break;
        case BRAID_GEMM_BOTH_SMALL: w = end + 1; break;
        case BRAID_GEMM_HALVING: w = (int64_t)1 << left; break;
        case BRAID_GEMM_BOTH_HALVED: w = (int64_t)1 << end; break;
        }
        weight += w;
        before += j < i ? w : 0;
    }
    return rows * before / weight;
}

enum braid_gemm_shape braid_gemm_taper(int op, int taper)
{
    if (taper == 0)
        return BRAID_GEMM_EVEN;
    if (op == BRAID_AG_GEMM)
        return taper == 1 ? BRAID_GEMM_FALLING : BRAID_GEMM_HALVING;
    return taper == 1 ? BRAID_GEMM_BOTH_SMALL : BRAID_GEMM_BOTH_HALVED;
}

uint32_t braid_gemm_split(int64_t rows, uint32_t splits, enum braid_gemm_shape shape,
                          int64_t bounds[BRAID_GEMM_MAX_SPLITS + 1])
{
    int64_t grain = 128;
    uint32_t count = 0;

    splits = MAX(1u, MIN(splits, BRAID_GEMM_MAX_SPLITS));
    while (grain > 1 && rows < grain * (int64_t)splits)
        grain /= 2;
    bounds[0] = 0;
    for (uint32_t i = 1; i < splits; i++) {
        int64_t at = (boundary(rows, splits, i, shape) + grain / 2) / grain * grain;

        at = MAX(at, bounds[count] + grain);
        if (at >= rows)
            break;
        bounds[++count] = at;
    }
    bounds[++count] = rows;
    return count;
}

static struct braid_gemm_instr *append(struct builder *b, int kind, uint32_t lane)
{
    static struct braid_gemm_instr nowhere;
    struct braid_gemm_program *p = b->p;

    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : 64;
        struct braid_gemm_instr *grown = realloc(p->instr, room * sizeof(*grown));

        if (grown == NULL) {
            b->error = -ENOMEM;
            return &nowhere;
        }
        p->instr = grown;
        p->room = room;
    }
    p->instr[p->count] = (struct braid_gemm_instr){
        .kind = (uint8_t)kind, .lane = (uint8_t)lane, .lane2 = (uint8_t)lane, .peer = -1};
    p->lanes |= 1u << lane;
    return &p->instr[p->count++];
}

static void edge(struct builder *b, uint32_t from, uint32_t to)
{
    if (from != to)
        append(b, BRAID_GEMM_I_EDGE, from)->lane2 = (uint8_t)to;
}

static void wait_flag(struct builder *b, uint32_t lane, uint32_t flag, int peer)
{
    struct braid_gemm_instr *i = append(b, BRAID_GEMM_I_WAIT, lane);

    i->flag = flag;
    i->peer = peer;
}

static struct braid_gemm_instr *post_flag(struct builder *b, uint32_t lane, uint32_t flag, int peer)
{
    struct braid_gemm_instr *i = append(b, BRAID_GEMM_I_POST, lane);

    i->flag = flag;
    i->peer = peer;
    return i;
}

/* dst rows [dst_row, +rows) of buffer dst from src; one of COPY, PUSH, GEMM, ADD. */
static struct braid_gemm_instr *move(struct builder *b, int kind, uint32_t lane, int src,
                                     int64_t src_row, int dst, int64_t dst_row, int64_t rows)
{
    struct braid_gemm_instr *i = append(b, kind, lane);

    i->src = (uint8_t)src;
    i->dst = (uint8_t)dst;
    i->src_row = src_row;
    i->dst_row = dst_row;
    i->rows = rows;
    return i;
}

/* How rows are announced: by a copy, or by the kernel of one thread where no copy engine moves them. */
static bool by_copy(const struct builder *b)
{
    return b->set->signal != BRAID_GEMM_BY_KERNEL || (b->set->num_sm == 0 && !b->set->direct);
}

/* A push and the flag behind it. A lane of its own for the flags was slower on two H200 (15 us a part). */
static void push(struct builder *b, int peer, int src, int64_t src_row, int dst, int64_t dst_row,
                 int64_t rows, uint32_t flag)
{
    move(b, BRAID_GEMM_I_PUSH, LANE_PUSH, src, src_row, dst, dst_row, rows)->peer = peer;
    if (b->set->signal == 2) {
        edge(b, LANE_PUSH, LANE_POST);
        post_flag(b, LANE_POST, flag, peer)->by_copy = 1;
    } else {
        post_flag(b, LANE_PUSH, flag, peer)->by_copy = by_copy(b);
    }
}

/* Round robin over the compute lanes. */
static uint32_t take_lane(struct builder *b)
{
    uint32_t lane = b->next_lane;

    b->next_lane = (lane + 1) % b->lanes;
    return lane;
}

static int64_t part_rows(const struct builder *b, uint32_t c)
{
    return b->bounds[c + 1] - b->bounds[c];
}

static int peer_after(const struct builder *b, int distance)
{
    return (b->rank + distance + b->ranks) % b->ranks;
}

static uint32_t arrived(const struct builder *b, int slot, uint32_t c)
{
    return braid_gemm_flag_arrived(b->ranks, b->splits, slot, c);
}

static uint32_t arrived2(const struct builder *b, int slot, uint32_t c)
{
    return braid_gemm_flag_arrived2(b->ranks, b->splits, slot, c);
}

/* Every lane that will be used starts after what the caller's stream did. */
static void fork_lanes(struct builder *b, uint32_t mask)
{
    for (uint32_t lane = 1; lane < BRAID_GEMM_MAX_LANES; lane++)
        if (mask & (1u << lane))
            edge(b, 0, lane);
}

static void join_lanes(struct builder *b)
{
    for (uint32_t lane = 1; lane < BRAID_GEMM_MAX_LANES; lane++)
        if (b->p->lanes & (1u << lane))
            edge(b, lane, 0);
}

/*
 * Products that could all begin at once shall begin in order, because the first one's rows are pushed first: the others' lanes take
 * one short step before.
 */
static void begin_in_order(struct builder *b)
{
    for (uint32_t lane = 1; lane < b->lanes; lane++)
        append(b, BRAID_GEMM_I_MARK, lane);
}

static uint32_t compute_mask(const struct builder *b)
{
    return (1u << b->lanes) - 1;
}

/* Tells every peer that what its slot in this rank's window held is not needed any more. */
static void grant_all(struct builder *b, bool second)
{
    for (int d = 1; d < b->ranks; d++) {
        int peer = peer_after(b, -d);

        post_flag(b, LANE_PUSH,
                  second ? braid_gemm_flag_credit2(b->ranks, b->rank)
                         : braid_gemm_flag_credit(b->rank),
                  peer);
    }
}

/* Own rows of X or SEND to every peer's GATHER, part by part, nearest peer first. */
static void push_gather(struct builder *b, int src)
{
    int64_t slot = b->rank * b->part;

    for (int d = 1; d < b->ranks; d++) {
        int peer = peer_after(b, d);

        wait_flag(b, LANE_PUSH, braid_gemm_flag_credit(peer), peer);
        for (uint32_t c = 0; c < b->splits; c++)
            push(b, peer, src, b->bounds[c], BRAID_GEMM_B_GATHER, slot + b->bounds[c],
                 part_rows(b, c), arrived(b, b->rank, c));
    }
}

/* The product of the own rows, in own_splits parts. */
static void own_products(struct builder *b)
{
    int64_t own[BRAID_GEMM_MAX_SPLITS + 1], base = b->rank * b->part;
    uint32_t count = braid_gemm_split(b->part, (uint32_t)b->set->own_splits, BRAID_GEMM_EVEN, own);

    for (uint32_t c = 0; c < count; c++)
        move(b, BRAID_GEMM_I_GEMM, take_lane(b), BRAID_GEMM_B_X, own[c], BRAID_GEMM_B_Y,
             base + own[c], own[c + 1] - own[c]);
}

static void arrived_product(struct builder *b, int distance, uint32_t c)
{
    int src = peer_after(b, -distance);
    int64_t row = src * b->part + b->bounds[c];
    uint32_t lane = take_lane(b);

    wait_flag(b, lane, arrived(b, src, c), src);
    move(b, BRAID_GEMM_I_GEMM, lane, BRAID_GEMM_B_GATHER, row, BRAID_GEMM_B_Y, row,
         part_rows(b, c));
}

/* AG+GEMM: ring_exchange and pipeline. */
static void make_gather(struct builder *b, bool keep)
{
    bool pipeline = b->set->method == BRAID_GEMM_PIPELINE;
    int64_t base = b->rank * b->part;

    fork_lanes(b, compute_mask(b) | 1u << LANE_PUSH | (keep ? 1u << LANE_COPY : 0));
    grant_all(b, false);
    push_gather(b, BRAID_GEMM_B_X);
    if (keep)
        move(b, BRAID_GEMM_I_COPY, LANE_COPY, BRAID_GEMM_B_X, 0, BRAID_GEMM_B_GATHER, base,
             b->part);
    if (pipeline) {
        for (uint32_t c = 0; c < b->splits; c++) {
            move(b, BRAID_GEMM_I_GEMM, take_lane(b), BRAID_GEMM_B_X, b->bounds[c], BRAID_GEMM_B_Y,
                 base + b->bounds[c], part_rows(b, c));
            for (int d = 1; d < b->ranks; d++)
                arrived_product(b, d, c);
        }
    } else {
        own_products(b);
        for (int d = 1; d < b->ranks; d++)
            for (uint32_t c = 0; c < b->splits; c++)
                arrived_product(b, d, c);
    }
    join_lanes(b);
}

/* The flag behind a product that wrote its rows into the peer's window, on its own lane or beside it. */
static void announce_direct(struct builder *b, uint32_t lane, uint32_t flag, int peer)
{
    if (b->set->signal == 2) {
        edge(b, lane, LANE_POST);
        lane = LANE_POST;
    }
    post_flag(b, lane, flag, peer)->by_copy = by_copy(b);
}

/* With products that write to the next rank themselves all compute lanes wait for its credit. */
static void begin_direct(struct builder *b, int next)
{
    wait_flag(b, LANE_PUSH, braid_gemm_flag_credit(next), next);
    for (uint32_t lane = 0; lane < b->lanes; lane++)
        edge(b, LANE_PUSH, lane);
}

/* One step of the reduce-scatter ring: part c of the rows of the rank that step s works for. */
static void reduce_step(struct builder *b, int s, uint32_t c, bool scatter_only)
{
    int owner = (b->rank + b->ranks - 1 - s) % b->ranks;
    int next = peer_after(b, 1), prev = peer_after(b, -1);
    bool last = s == b->ranks - 1;
    int64_t row = owner * b->part + b->bounds[c], rows = part_rows(b, c);
    int64_t own_row = scatter_only ? b->bounds[c] : row;
    uint32_t lane = take_lane(b);
    struct braid_gemm_instr *i;

    if (s > 0)
        wait_flag(b, lane, arrived(b, s - 1, c), prev);
    if (last)
        i = move(b, BRAID_GEMM_I_GEMM, lane, BRAID_GEMM_B_X, row, BRAID_GEMM_B_Y, own_row, rows);
    else if (b->set->direct)
        i = move(b, BRAID_GEMM_I_GEMM, lane, BRAID_GEMM_B_X, row, BRAID_GEMM_B_PART,
                 s * b->part + b->bounds[c], rows);
    else
        i = move(b, BRAID_GEMM_I_GEMM, lane, BRAID_GEMM_B_X, row, BRAID_GEMM_B_STAGE, row, rows);
    if (s > 0) {
        i->acc = BRAID_GEMM_B_PART;
        i->acc_row = (s - 1) * b->part + b->bounds[c];
    }
    if (last)
        return;
    if (b->set->direct) {
        i->peer = next;
        announce_direct(b, lane, arrived(b, s, c), next);
        return;
    }
    edge(b, lane, LANE_PUSH);
    if (s == 0 && c == 0 && b->set->signal != BRAID_GEMM_BY_KERNEL)
        wait_flag(b, LANE_PUSH, braid_gemm_flag_credit(next), next);
    push(b, next, BRAID_GEMM_B_STAGE, row, BRAID_GEMM_B_PART, s * b->part + b->bounds[c], rows,
         arrived(b, s, c));
}

/* All-reduce: finished part c of the own rows goes to every peer's RESULT. */
static void spread_part(struct builder *b, uint32_t c, uint32_t lane)
{
    int64_t row = b->rank * b->part + b->bounds[c];

    edge(b, lane, LANE_PUSH);
    for (int d = 1; d < b->ranks; d++) {
        int peer = peer_after(b, d);

        if (c == 0)
            wait_flag(b, LANE_PUSH, braid_gemm_flag_credit2(b->ranks, peer), peer);
        push(b, peer, BRAID_GEMM_B_Y, row, BRAID_GEMM_B_RESULT, row, part_rows(b, c),
             arrived2(b, b->rank, c));
    }
}

/* All-reduce: finished rows of the peers from RESULT to the caller's result. */
static void collect_parts(struct builder *b)
{
    for (uint32_t c = 0; c < b->splits; c++)
        for (int d = 1; d < b->ranks; d++) {
            int src = peer_after(b, -d);
            int64_t row = src * b->part + b->bounds[c];

            wait_flag(b, LANE_COPY, arrived2(b, src, c), src);
            move(b, BRAID_GEMM_I_COPY, LANE_COPY, BRAID_GEMM_B_RESULT, row, BRAID_GEMM_B_Y, row,
                 part_rows(b, c));
        }
}

/*
 * GEMM+RS and GEMM+AR: ring_exchange and pipeline. Step s works for the rank that gets the rows in ranks - 1 - s hops; the last step
 * is for this rank. In the pipeline the steps of a part follow each other one part later instead of all parts first.
 */
static void make_reduce(struct builder *b, bool all)
{
    bool pipeline = b->set->method == BRAID_GEMM_PIPELINE;
    uint32_t steps = (uint32_t)b->ranks, keys = b->splits + steps - 1;

    fork_lanes(b, compute_mask(b) | 1u << LANE_PUSH | (all ? 1u << LANE_COPY : 0));
    if (!b->set->direct)
        begin_in_order(b);
    post_flag(b, LANE_PUSH, braid_gemm_flag_credit(b->rank), peer_after(b, -1));
    if (all)
        grant_all(b, true);
    if (b->set->signal == BRAID_GEMM_BY_KERNEL && !b->set->direct)
        wait_flag(b, LANE_PUSH, braid_gemm_flag_credit(peer_after(b, 1)), peer_after(b, 1));
    if (b->set->direct) {
        begin_direct(b, peer_after(b, 1));
        begin_in_order(b);
    }
    for (uint32_t key = 0; key < (pipeline ? keys : steps); key++)
        for (uint32_t j = 0; j < (pipeline ? steps : b->splits); j++) {
            uint32_t s = pipeline ? j : key, c = pipeline ? key - j : j;

            if (pipeline && (key < j || c >= b->splits))
                continue;
            reduce_step(b, (int)s, c, !all);
            if (all && s == steps - 1)
                spread_part(b, c, (b->next_lane + b->lanes - 1) % b->lanes);
        }
    if (all)
        collect_parts(b);
    join_lanes(b);
}

/* The whole product in one piece, on lane 0. */
static void whole_product(struct builder *b, int src, int dst)
{
    move(b, BRAID_GEMM_I_GEMM, 0, src, 0, dst, 0, b->m);
}

/*
 * All-gather in full, then the product (SERIAL), or beside it (BULK, result kept in the window). The own rows are copied on a lane of
 * their own while the pushes run.
 */
static void make_serial_gather(struct builder *b, bool bulk)
{
    int src = bulk ? BRAID_GEMM_B_SEND : BRAID_GEMM_B_X;

    fork_lanes(b, 1u << LANE_PUSH | 1u << LANE_COPY);
    grant_all(b, false);
    push_gather(b, src);
    move(b, BRAID_GEMM_I_COPY, LANE_COPY, src, 0, BRAID_GEMM_B_GATHER, b->rank * b->part, b->part);
    if (bulk)
        whole_product(b, BRAID_GEMM_B_X, BRAID_GEMM_B_Y);
    for (int d = 1; d < b->ranks; d++)
        for (uint32_t c = 0; c < b->splits; c++) {
            int peer = peer_after(b, -d);

            wait_flag(b, LANE_COPY, arrived(b, peer, c), peer);
        }
    join_lanes(b);
    if (!bulk)
        whole_product(b, BRAID_GEMM_B_GATHER, BRAID_GEMM_B_Y);
}

/* Every peer's rows of src straight to it, own slot by source; then the sum of all parts. */
static void exchange_and_add(struct builder *b, int src, int dst, int64_t dst_base)
{
    for (int d = 1; d < b->ranks; d++) {
        int peer = peer_after(b, d);

        wait_flag(b, LANE_PUSH, braid_gemm_flag_credit(peer), peer);
    }
    for (uint32_t c = 0; c < b->splits; c++)
        for (int d = 1; d < b->ranks; d++) {
            int peer = peer_after(b, d);

            push(b, peer, src, peer * b->part + b->bounds[c], BRAID_GEMM_B_PART,
                 b->rank * b->part + b->bounds[c], part_rows(b, c), arrived(b, b->rank, c));
        }
    for (uint32_t c = 0; c < b->splits; c++) {
        struct braid_gemm_instr *i;

        for (int d = 1; d < b->ranks; d++) {
            int peer = peer_after(b, -d);

            wait_flag(b, LANE_COPY, arrived(b, peer, c), peer);
        }
        i = move(b, BRAID_GEMM_I_ADD, LANE_COPY, src, b->rank * b->part + b->bounds[c], dst,
                 dst_base + b->bounds[c], part_rows(b, c));
        i->acc = BRAID_GEMM_B_PART;
        i->acc_row = b->bounds[c];
    }
}

/* Product in full, then the reduce-scatter or all-reduce (SERIAL), or the reduce-scatter beside the product (BULK). */
static void make_serial_reduce(struct builder *b, bool bulk, bool all)
{
    int src = bulk ? BRAID_GEMM_B_SEND : BRAID_GEMM_B_STAGE;
    int dst = bulk ? BRAID_GEMM_B_RECV : BRAID_GEMM_B_Y;

    edge(b, 0, LANE_PUSH);
    grant_all(b, false);
    if (all)
        grant_all(b, true);
    if (!bulk)
        whole_product(b, BRAID_GEMM_B_X, BRAID_GEMM_B_STAGE);
    if (!bulk)
        edge(b, 0, LANE_PUSH);
    edge(b, 0, LANE_COPY);
    if (bulk)
        whole_product(b, BRAID_GEMM_B_X, BRAID_GEMM_B_Y);
    exchange_and_add(b, src, dst, all ? b->rank * b->part : 0);
    if (all) {
        for (uint32_t c = 0; c < b->splits; c++)
            spread_part(b, c, LANE_COPY);
        collect_parts(b);
    }
    join_lanes(b);
}

/* SERIAL with num_sm: a kernel moves the rows; two steps on the caller's stream, which waits for nothing itself. */
static void make_serial_by_sms(struct builder *b, bool gather, bool all)
{
    if (gather)
        move(b, BRAID_GEMM_I_COLLECTIVE, 0, BRAID_GEMM_B_X, 0, BRAID_GEMM_B_GATHER, 0, b->m);
    whole_product(b, gather ? BRAID_GEMM_B_GATHER : BRAID_GEMM_B_X,
                  gather ? BRAID_GEMM_B_Y : BRAID_GEMM_B_STAGE);
    if (!gather)
        move(b, BRAID_GEMM_I_COLLECTIVE, 0, BRAID_GEMM_B_STAGE, 0, BRAID_GEMM_B_Y, 0,
             all ? b->m : b->part);
}

static bool valid(const struct braid_gemm_desc *desc, const struct braid_gemm_settings *set,
                  int rank, int ranks)
{
    bool bulk = set->method == BRAID_GEMM_BULK;
    int64_t rows = bulk ? desc->bulk_m : desc->m;

    if (ranks < 1 || rank < 0 || rank >= ranks || desc->op < BRAID_AG_GEMM ||
        desc->op > BRAID_GEMM_AR)
        return false;
    if (desc->m <= 0 || desc->n <= 0 || desc->k <= 0 || rows <= 0 || rows % ranks != 0)
        return false;
    if (bulk && (desc->op == BRAID_GEMM_AR || desc->bulk_n <= 0))
        return false;
    return set->method >= BRAID_GEMM_SERIAL && set->method <= BRAID_GEMM_BULK;
}

static void make_alone(struct builder *b)
{
    whole_product(b, BRAID_GEMM_B_X, BRAID_GEMM_B_Y);
}

/* Edges and marks of lanes that got nothing to do. */
static void drop_idle_lanes(struct braid_gemm_program *p)
{
    uint32_t used = 1;
    size_t kept = 0;

    for (size_t i = 0; i < p->count; i++)
        if (p->instr[i].kind != BRAID_GEMM_I_EDGE && p->instr[i].kind != BRAID_GEMM_I_MARK)
            used |= 1u << p->instr[i].lane;
    for (size_t i = 0; i < p->count; i++)
        if (used & 1u << p->instr[i].lane && used & 1u << p->instr[i].lane2)
            p->instr[kept++] = p->instr[i];
    p->count = kept;
    p->lanes = used;
}

static void make(struct builder *b, const struct braid_gemm_desc *desc)
{
    int method = b->set->method;
    bool bulk = method == BRAID_GEMM_BULK, gather = desc->op == BRAID_AG_GEMM;
    bool keep = gather && (bulk || desc->flags & BRAID_GEMM_KEEP_GATHERED);

    if (method == BRAID_GEMM_SERIAL && b->set->num_sm > 0 && b->ranks > 1) {
        make_serial_by_sms(b, gather, desc->op == BRAID_GEMM_AR);
        return;
    }
    if (b->ranks == 1 && !bulk && !keep)
        make_alone(b);
    else if (gather && (method == BRAID_GEMM_SERIAL || bulk))
        make_serial_gather(b, bulk);
    else if (gather)
        make_gather(b, keep);
    else if (method == BRAID_GEMM_SERIAL || bulk)
        make_serial_reduce(b, bulk, desc->op == BRAID_GEMM_AR);
    else
        make_reduce(b, desc->op == BRAID_GEMM_AR);
    if (b->error == 0)
        drop_idle_lanes(b->p);
}

int braid_gemm_program_make(const struct braid_gemm_desc *desc,
                            const struct braid_gemm_settings *settings, int rank, int ranks,
                            struct braid_gemm_program *program)
{
    bool bulk = settings->method == BRAID_GEMM_BULK;
    struct builder b = {.p = program, .set = settings, .rank = rank, .ranks = ranks, .m = desc->m};

    memset(program, 0, sizeof(*program));
    if (!valid(desc, settings, rank, ranks))
        return -EINVAL;
    b.part = (bulk ? desc->bulk_m : desc->m) / ranks;
    b.splits = braid_gemm_split(b.part, (uint32_t)MAX(settings->num_splits, 1),
                                braid_gemm_taper(desc->op, settings->taper), b.bounds);
    b.lanes = (uint32_t)MAX(1, MIN(settings->lanes, 4));
    program->splits = b.splits;
    program->credits = 2 * (uint32_t)ranks;
    program->flags = 2 * (uint32_t)ranks + 2 * (uint32_t)ranks * b.splits;
    make(&b, desc);
    if (b.error != 0)
        braid_gemm_program_free(program);
    return b.error;
}

void braid_gemm_program_free(struct braid_gemm_program *program)
{
    free(program->instr);
    program->instr = NULL;
    program->count = program->room = 0;
}
