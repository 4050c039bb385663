/*
 * The lower bound: the narrowest cut. No algorithm, channel count or protocol can beat it, so it says how much is left to win.
 * Pure function, any thread. Called by: tools/braid-tune.
 */
#include "tuner-plugin/cost/cost.h"

#include <stdbool.h>

static double or_else(double value, double fallback)
{
    return value == value ? value : fallback;
}

double braid_cost_bound_us(const struct braid_profile *profile, const struct braid_shape *shape,
                           enum braid_coll coll, double bytes)
{
    double share = coll == BRAID_BROADCAST || coll == BRAID_REDUCE
                       ? 1
                       : (double)(shape->ranks - 1) / shape->ranks;
    double node_share = coll == BRAID_BROADCAST || coll == BRAID_REDUCE
                            ? 1
                            : (double)(shape->nodes - 1) / shape->nodes;
    bool in_network = profile->nccl.nvls == 1;
    double bound = 0, time;

    if (coll == BRAID_ALL_REDUCE) {
        share *= in_network && shape->nodes == 1 ? 1 : 2;
        node_share *= 2;
    }
    if (shape->node_ranks > 1 && profile->rate_GBps[BRAID_PORT] > 0) {
        /* Across nodes only the part that cannot stay on one GPU's other side counts. */
        double local =
            shape->nodes > 1 ? (double)(shape->node_ranks - 1) / shape->node_ranks : share;

        bound = local * bytes / (1e3 * profile->rate_GBps[BRAID_PORT]);
    }
    if (shape->nodes > 1 && profile->rate_GBps[BRAID_RAIL] > 0) {
        time = node_share * bytes /
               (1e3 * profile->rate_GBps[BRAID_RAIL] * or_else(profile->rails, 1));
        bound = time > bound ? time : bound;
    }
    if (shape->nodes > 1 && profile->rate_GBps[BRAID_HOST] > 0) {
        time = node_share * bytes / (1e3 * profile->rate_GBps[BRAID_HOST]);
        bound = time > bound ? time : bound;
    }
    return bound;
}
