/*
 * What each algorithm moves and how many hops it takes: geometry, no machine numbers. Pure functions, any thread.
 * n ranks, N nodes, S bytes. Ring all-reduce sends 2(n-1)/n S out of each GPU and out of each node; a double tree sends S up and S
 * down, of which the node at the root of one half saves its share, 2(N-1)/N S; NVLS reads and writes S and one n-th more.
 * Called by: cost.c, bound.c, nccl_model.c.
 */
#include "tuner-plugin/cost/cost.h"

#include <stdbool.h>

int braid_log2_floor(uint64_t value)
{
    int log = 0;

    while (value >>= 1)
        log++;
    return log;
}

struct braid_shape braid_shape_make(size_t ranks, size_t nodes)
{
    struct braid_shape shape;

    shape.ranks = ranks < 1 ? 1 : ranks > (1u << 30) ? 1 << 30 : (int)ranks;
    shape.nodes = nodes < 1 ? 1 : nodes > (size_t)shape.ranks ? shape.ranks : (int)nodes;
    shape.node_ranks = (shape.ranks + shape.nodes - 1) / shape.nodes;
    return shape;
}

static double all_but_one(int parts)
{
    return (double)(parts - 1) / parts;
}

static struct braid_load ring_load(const struct braid_shape *shape, enum braid_coll coll,
                                   double bytes)
{
    int rounds = coll == BRAID_ALL_REDUCE ? 2 : 1;
    bool chain = coll == BRAID_BROADCAST || coll == BRAID_REDUCE;
    struct braid_load load = {0};

    load.sm_bytes = chain ? bytes : rounds * all_but_one(shape->ranks) * bytes;
    load.port_bytes = shape->node_ranks > 1 ? load.sm_bytes : 0;
    load.net_bytes = shape->nodes > 1 ? load.sm_bytes : 0;
    load.net_hops = shape->nodes > 1 ? rounds * (shape->nodes - 1) : 0;
    load.intra_hops = rounds * (shape->ranks - 1) - load.net_hops;
    load.depth = chain ? shape->ranks - 1 : 1;
    return load;
}

static struct braid_load tree_load(const struct braid_shape *shape, double bytes)
{
    struct braid_load load = {0};

    load.sm_bytes = 2 * all_but_one(shape->ranks) * bytes;
    load.port_bytes = shape->node_ranks > 1 ? load.sm_bytes : 0;
    load.net_bytes = shape->nodes > 1 ? 2 * all_but_one(shape->nodes) * bytes : 0;
    load.intra_hops = 2 * (shape->node_ranks - 1);
    load.net_hops = 2 * braid_log2_floor((uint64_t)shape->nodes);
    load.depth = load.intra_hops + load.net_hops;
    return load;
}

static struct braid_load nvls_load(const struct braid_shape *shape, enum braid_coll coll,
                                   enum braid_algo algo, double bytes)
{
    struct braid_load load = {0};
    double share = all_but_one(shape->ranks);

    load.sm_bytes = coll == BRAID_ALL_REDUCE ? bytes : share * bytes;
    load.port_bytes = coll == BRAID_ALL_REDUCE ? bytes + bytes / shape->node_ranks : bytes;
    load.intra_hops = 1;
    load.depth = 2;
    if (shape->nodes > 1 && algo == BRAID_NVLS_TREE) {
        load.net_bytes = 2 * all_but_one(shape->nodes) * bytes;
        load.net_hops = 2 * braid_log2_floor((uint64_t)shape->nodes);
    } else if (shape->nodes > 1) {
        load.net_bytes = coll == BRAID_ALL_REDUCE ? bytes : all_but_one(shape->nodes) * bytes;
        load.net_hops = 1;
    }
    load.depth += load.net_hops;
    return load;
}

static struct braid_load collnet_load(const struct braid_shape *shape, enum braid_coll coll,
                                      enum braid_algo algo, double bytes)
{
    struct braid_load load = {0};
    int locals = shape->node_ranks;

    if (coll == BRAID_ALL_REDUCE) {
        load.sm_bytes = 2 * all_but_one(locals) * bytes;
        load.net_bytes = bytes;
    } else {
        load.sm_bytes = all_but_one(shape->ranks) * bytes;
        load.net_bytes = all_but_one(shape->nodes) * bytes;
    }
    load.port_bytes = locals > 1 ? load.sm_bytes : 0;
    load.intra_hops = algo == BRAID_COLLNET_CHAIN ? 2 * (locals - 1) : locals > 1 ? 2 : 0;
    load.net_hops = 1;
    load.depth = load.intra_hops + 1;
    return load;
}

struct braid_load braid_load_of(const struct braid_shape *shape, enum braid_coll coll,
                                enum braid_algo algo, double bytes)
{
    struct braid_load load = {0};

    switch (algo) {
    case BRAID_RING: return ring_load(shape, coll, bytes);
    case BRAID_TREE: return tree_load(shape, bytes);
    case BRAID_NVLS:
    case BRAID_NVLS_TREE: return nvls_load(shape, coll, algo, bytes);
    case BRAID_COLLNET_DIRECT:
    case BRAID_COLLNET_CHAIN: return collnet_load(shape, coll, algo, bytes);
    default: /* PAT: one rank a node, a binomial exchange */
        load.sm_bytes = all_but_one(shape->ranks) * bytes;
        load.net_bytes = shape->nodes > 1 ? load.sm_bytes : 0;
        load.port_bytes = shape->nodes > 1 ? 0 : load.sm_bytes;
        load.net_hops = braid_log2_floor((uint64_t)shape->nodes);
        load.depth = 1;
        return load;
    }
}
