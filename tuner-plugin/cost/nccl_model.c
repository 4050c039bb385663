/*
 * NCCL's own tuning model, restated from its published behaviour (tag v2.28 to v2.30) so that `explain` can say what NCCL would
 * do without a GPU: time = latency x operations + bytes / bandwidth, both per collective, algorithm and protocol. All numbers
 * are rows of a profile (nccl_*). Known faults of it are kept: its multi-node LL cap goes by CPU vendor, its channel count is not
 * part of the estimate. Pure functions, any thread. Called by: tools/braid-tune, tuner.c (v2, which sees no table).
 */
#include "tuner-plugin/cost/cost.h"

#include <errno.h>
#include <stdbool.h>

struct model {
    const struct braid_profile *profile;
    const struct braid_nccl_model *nccl;
    const struct braid_shape *shape;
    enum braid_coll coll;
    enum braid_algo algo;
    enum braid_proto proto;
    int cc, scale;
    double channels, ppn;
};

static double or_zero(double value)
{
    return value == value ? value : 0;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double factor(const struct model *model, enum braid_nccl_factor which)
{
    return or_zero(model->nccl->factor[which]);
}

static double table(const struct model *model, enum braid_const_kind kind)
{
    int row = model->cc;

    if (kind == BRAID_LL_MAX && model->shape->nodes > 1)
        row = model->nccl->cpu_amd == 1 ? 1 : 0;
    return or_zero(model->nccl->table_GBps[kind][row][model->scale]);
}

static double nvls_channel_GBps(const struct model *model)
{
    double intra = or_zero(model->nccl->graph_intra_GBps[model->algo]);
    double inter = or_zero(model->nccl->graph_inter_GBps[model->algo]);

    intra *=
        or_zero(model->nccl->nvls_efficiency[model->cc]) * (model->channels - 1) / model->channels;
    intra *= model->coll == BRAID_ALL_REDUCE ? 2 : (model->ppn - 1) / model->ppn;
    if (model->shape->nodes == 1)
        return intra;
    if (model->algo == BRAID_NVLS_TREE && model->shape->nodes == 2)
        inter *= 2;
    if (model->algo == BRAID_NVLS_TREE)
        inter = least(inter, table(model, BRAID_NVLS_TREE_MAX));
    return least(intra, inter);
}

static double ring_bus_GBps(const struct model *model, double bus)
{
    if (model->proto == BRAID_LL)
        return least(table(model, BRAID_LL_MAX), bus * factor(model, BRAID_F_RING_LL));
    if (model->proto == BRAID_LL128)
        return least(bus * factor(model, BRAID_F_RING_LL128),
                     model->channels * table(model, BRAID_RING_LL128));
    return bus;
}

static double tree_bus_GBps(const struct model *model, double bus)
{
    bus =
        least(bus * factor(model, BRAID_F_TREE), model->channels * table(model, BRAID_TREE_SIMPLE));
    if (model->proto == BRAID_LL)
        return least(bus * factor(model, BRAID_F_TREE_LL), table(model, BRAID_LL_MAX));
    if (model->proto == BRAID_LL128)
        return least(bus * factor(model, model->shape->nodes == 1 ? BRAID_F_TREE_LL128_1NODE
                                                                  : BRAID_F_TREE_LL128),
                     model->channels * table(model, BRAID_TREE_LL128));
    return bus;
}

static double collnet_bus_GBps(const struct model *model, double bus)
{
    double gpus_a_nic = model->ppn / model->channels;

    if (model->algo != BRAID_COLLNET_DIRECT)
        return bus;
    if (model->coll != BRAID_ALL_REDUCE)
        return model->ppn * least(or_zero(model->nccl->graph_intra_GBps[model->algo]),
                                  factor(model, BRAID_F_COLLNET_NIC) *
                                      or_zero(model->nccl->graph_inter_GBps[model->algo]));
    gpus_a_nic -= (gpus_a_nic - 1) / 2;
    return bus / gpus_a_nic * (model->cc >= 2 ? factor(model, BRAID_F_COLLNET_HOPPER) : 1);
}

/* Bytes of the collective per nanosecond; 0 when the combination is off. */
static double bandwidth_GBps(const struct model *model)
{
    const struct braid_shape *shape = model->shape;
    bool collnet = model->algo == BRAID_COLLNET_DIRECT || model->algo == BRAID_COLLNET_CHAIN;
    bool nvls = model->algo == BRAID_NVLS || model->algo == BRAID_NVLS_TREE;
    double bw = or_zero(shape->nodes <= 2 || collnet ? model->nccl->graph_intra_GBps[model->algo]
                                                     : model->nccl->graph_inter_GBps[model->algo]);
    double steps = model->coll == BRAID_ALL_REDUCE ? 2.0 * (shape->ranks - 1)
                   : model->coll == BRAID_ALL_GATHER || model->coll == BRAID_REDUCE_SCATTER
                       ? shape->ranks - 1
                       : shape->ranks;

    if (nvls && model->channels < 2)
        return 0;
    bw = model->channels * (nvls ? nvls_channel_GBps(model) : bw);
    if (model->algo == BRAID_RING)
        bw = ring_bus_GBps(model, bw);
    else if (model->algo == BRAID_TREE)
        bw = tree_bus_GBps(model, bw);
    else if (model->algo == BRAID_PAT)
        bw *= factor(model, BRAID_F_PAT);
    else if (collnet)
        bw = collnet_bus_GBps(model, bw);
    if (model->algo == BRAID_RING || (nvls && model->coll == BRAID_ALL_REDUCE))
        return bw * shape->ranks / steps;
    if (model->coll == BRAID_ALL_REDUCE)
        return bw / 2;
    return bw;
}

static double ring_latency_us(const struct model *model, double intra, double inter)
{
    const struct braid_shape *shape = model->shape;
    bool chain = model->coll == BRAID_BROADCAST || model->coll == BRAID_REDUCE;
    int rounds = model->coll == BRAID_ALL_REDUCE ? 2 : 1;
    int steps = rounds * (shape->ranks - 1);
    int inter_steps = shape->nodes > 1 ? rounds * (shape->nodes - 1) : 0;
    double overhead = or_zero(model->nccl->net_overhead_us) *
                      (model->proto == BRAID_SIMPLE ? factor(model, BRAID_F_SIMPLE_OVERHEAD) : 1);

    if (chain)
        return shape->nodes > 1 ? inter : intra;
    if (shape->nodes > 1 && overhead > intra)
        intra = overhead;
    return (steps - inter_steps) * intra + inter_steps * inter;
}

static double latency_us(const struct model *model)
{
    const struct braid_nccl_model *nccl = model->nccl;
    const struct braid_shape *shape = model->shape;
    enum braid_algo algo = model->algo;
    double intra_link = model->profile->intra_link;
    int link = intra_link == intra_link ? (int)intra_link : BRAID_NVLINK;
    double base = or_zero(nccl->base_us[algo][model->proto]);
    double intra = or_zero(nccl->hop_us[link][algo][model->proto]);
    double inter =
        or_zero(nccl->hop_us[BRAID_NET][model->ppn == 1 ? BRAID_TREE : algo][model->proto]);
    int log_nodes = braid_log2_floor((uint64_t)shape->nodes);
    double locals = (double)(int)model->ppn - 1;

    inter += or_zero(nccl->graph_latency_us[algo]) * (model->proto == BRAID_SIMPLE ? 2 : 1);
    switch (algo) {
    case BRAID_RING: return base + ring_latency_us(model, intra, inter);
    case BRAID_TREE: return base + 2 * (locals * intra + log_nodes * inter);
    case BRAID_COLLNET_DIRECT:
        return base +
               2 * ((locals > 0 ? intra : 0) + locals * factor(model, BRAID_F_COLLNET_ARITY_US)) +
               inter;
    case BRAID_COLLNET_CHAIN: return base + 2 * locals * intra + inter;
    case BRAID_NVLS: return intra + (shape->nodes > 1 ? inter : 0);
    case BRAID_NVLS_TREE: return base + intra + 2 * log_nodes * inter;
    default:
        return base + log_nodes * inter * factor(model, BRAID_F_PAT_HOPS) +
               shape->ranks * factor(model, BRAID_F_PAT_RANK_US);
    }
}

/* Whether NCCL would consider the combination on this machine. */
static bool enabled(const struct model *model)
{
    const struct braid_shape *shape = model->shape;
    bool nvls = model->algo == BRAID_NVLS || model->algo == BRAID_NVLS_TREE;

    if (!braid_kind_valid(model->coll, model->algo, model->proto) || !(model->channels > 0))
        return false;
    if (model->proto == BRAID_LL128 && model->nccl->ll128 != 1)
        return false;
    if (nvls && (model->nccl->nvls != 1 || shape->node_ranks < 2))
        return false;
    if (model->algo == BRAID_NVLS && shape->nodes > 1)
        return false; /* needs CollNet */
    if (model->algo == BRAID_NVLS_TREE && shape->nodes == 1)
        return false;
    if (model->algo == BRAID_COLLNET_DIRECT || model->algo == BRAID_COLLNET_CHAIN)
        return false; /* off unless the user asks */
    return model->algo != BRAID_PAT || shape->nodes == shape->ranks;
}

double braid_nccl_predict(const struct braid_profile *profile, const struct braid_shape *shape,
                          enum braid_coll coll, double bytes, enum braid_algo algo,
                          enum braid_proto proto)
{
    struct model model = {profile, &profile->nccl, shape, coll, algo, proto, 0, 0, 0, 0};
    int z = braid_log2_floor((uint64_t)bytes);
    double bw, latency;

    model.cc = (int)or_zero(profile->nccl.compcap);
    model.scale = shape->nodes <= 2 ? shape->nodes - 1 : 2;
    model.channels = or_zero(profile->nccl.graph_channels[algo]);
    model.ppn = (double)shape->ranks / shape->nodes;
    if (shape->ranks < 2 || !enabled(&model))
        return __builtin_nan("");
    bw = bandwidth_GBps(&model);
    if (!(bw > 0))
        return __builtin_nan("");
    latency = latency_us(&model);
    if (algo == BRAID_TREE && z < BRAID_SIZES &&
        profile->nccl.tree_correction[proto][z] == profile->nccl.tree_correction[proto][z])
        bw *= profile->nccl.tree_correction[proto][z];
    if (algo == BRAID_RING && proto == BRAID_SIMPLE && shape->nodes > 1 &&
        coll == BRAID_ALL_REDUCE && bytes / (or_zero(profile->channels) * shape->ranks) >= 64)
        latency *= profile->nccl.plateau_ratio > 0 ? profile->nccl.plateau_ratio : 1;
    return latency + bytes / (1e3 * bw);
}

int braid_nccl_choice(const struct braid_profile *profile, const struct braid_shape *shape,
                      enum braid_coll coll, double bytes, enum braid_algo *algo_p,
                      enum braid_proto *proto_p)
{
    double best = 0;
    bool found = false;

    for (int a = 0; a < BRAID_ALGOS; a++) {
        for (int p = 0; p < BRAID_PROTOS; p++) {
            double us = braid_nccl_predict(profile, shape, coll, bytes, (enum braid_algo)a,
                                           (enum braid_proto)p);

            if (us == us && (!found || us < best)) {
                best = us;
                found = true;
                *algo_p = (enum braid_algo)a;
                *proto_p = (enum braid_proto)p;
            }
        }
    }
    return found ? 0 : -ENODATA;
}
