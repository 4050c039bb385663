/*
 * Bottleneck cuts by maximum flow, and the list of resources that traffic contends for. Graphs have
 * a few hundred edges, so plain augmenting paths of the fewest hops are fast enough.
 * Reads finished topologies; any thread.
 */
#include "common/topo/topo_build.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Which edges a flow may use. */
enum flow_over {
    OVER_NVLINK, /* NVLink only */
    OVER_NODE,   /* all but the edges to rails */
    OVER_ALL,
};

/*
 * The residual graph: edge e gives arc 2e (a to b) and 2e + 1 (b to a), each with the edge's
 * bandwidth. Rails are ends, never on the way.
 */
struct flow {
    const struct braid_topo *topo;
    enum flow_over over;
    double *left; /* by arc */
    int *via;     /* arc by which the search reached an object; -1: not reached, -2: a source */
    int *queue;
    bool *from, *to;
};

static void flow_free(struct flow *f)
{
    free(f->left);
    free(f->via);
    free(f->queue);
    free(f->from);
    free(f->to);
}

static bool usable(const struct flow *f, const struct braid_topo_edge *edge)
{
    if (f->over == OVER_NVLINK)
        return edge->type == BRAID_TOPO_LINK_NVLINK;
    return f->over == OVER_ALL || edge->type != BRAID_TOPO_LINK_NET;
}

static int flow_init(struct flow *f, const struct braid_topo *topo, enum flow_over over)
{
    size_t objects = (size_t)topo->object_count + 1;

    memset(f, 0, sizeof(*f));
    f->topo = topo;
    f->over = over;
    f->left = calloc((size_t)topo->edge_count * 2 + 1, sizeof(*f->left));
    f->via = calloc(objects, sizeof(*f->via));
    f->queue = calloc(objects, sizeof(*f->queue));
    f->from = calloc(objects, sizeof(*f->from));
    f->to = calloc(objects, sizeof(*f->to));
    if (f->left && f->via && f->queue && f->from && f->to)
        return 0;
    flow_free(f);
    return -ENOMEM;
}

/* Breadth first from all sources; returns the sink that was reached, -1: none. */
static int search(struct flow *f)
{
    const struct braid_topo *topo = f->topo;
    int head = 0, tail = 0;

    for (int i = 0; i < topo->object_count; i++) {
        f->via[i] = f->from[i] ? -2 : -1;
        if (f->from[i])
            f->queue[tail++] = i;
    }
    while (head < tail) {
        int at = f->queue[head++];

        for (int k = topo->first_edge[at]; k < topo->first_edge[at + 1]; k++) {
            int e = topo->edge_of[k], arc = 2 * e + (topo->edges[e].b == at);
            int next = topo->edges[e].a == at ? topo->edges[e].b : topo->edges[e].a;

            if (f->via[next] != -1 || f->left[arc] < 1e-9)
                continue;
            f->via[next] = arc;
            if (f->to[next])
                return next;
            if (topo->objects[next].type != BRAID_TOPO_RAIL)
                f->queue[tail++] = next;
        }
    }
    return -1;
}

static double flow_run(struct flow *f)
{
    const struct braid_topo *topo = f->topo;
    double total = 0;
    int sink;

    for (int e = 0; e < topo->edge_count; e++)
        f->left[2 * e] = f->left[2 * e + 1] =
            usable(f, &topo->edges[e]) ? topo->edges[e].each_way_GBps : 0;
    while ((sink = search(f)) >= 0) {
        double push = INFINITY;

        for (int at = sink; f->via[at] >= 0;) {
            int arc = f->via[at];

            push = MIN(push, f->left[arc]);
            at = arc & 1 ? topo->edges[arc / 2].b : topo->edges[arc / 2].a;
        }
        for (int at = sink; f->via[at] >= 0;) {
            int arc = f->via[at];

            f->left[arc] -= push;
            f->left[arc ^ 1] += push;
            at = arc & 1 ? topo->edges[arc / 2].b : topo->edges[arc / 2].a;
        }
        total += push;
    }
    return total;
}

bool braid_topo_nvlink_joins_all(const struct braid_topo *topo)
{
    int gpus = topo->type_count[BRAID_TOPO_GPU];

    for (int g = 1; g < gpus; g++)
        if (braid_topo_path(topo, topo->by_type[BRAID_TOPO_GPU][0],
                            topo->by_type[BRAID_TOPO_GPU][g]) != BRAID_TOPO_PATH_NVL)
            return false;
    return gpus > 1;
}

/* Flow from the GPUs with side[g] true to the others. */
static double split_flow(const struct braid_topo *topo, const bool *side)
{
    struct flow f;
    double GBps;

    if (flow_init(&f, topo, braid_topo_nvlink_joins_all(topo) ? OVER_NVLINK : OVER_NODE) != 0)
        return 0;
    for (int g = 0; g < topo->type_count[BRAID_TOPO_GPU]; g++)
        (side[g] ? f.from : f.to)[topo->by_type[BRAID_TOPO_GPU][g]] = true;
    GBps = flow_run(&f);
    flow_free(&f);
    return GBps;
}

double braid_topo_gpu_cut_GBps(const struct braid_topo *topo, int gpu)
{
    int gpus = topo->type_count[BRAID_TOPO_GPU];
    double GBps = 0;
    bool *side;

    if (gpu < 0 || gpu >= gpus || gpus < 2 || (side = calloc((size_t)gpus, sizeof(*side))) == NULL)
        return 0;
    side[gpu] = true;
    GBps = split_flow(topo, side);
    free(side);
    return GBps;
}

double braid_topo_min_gpu_cut_GBps(const struct braid_topo *topo)
{
    double least = 0;

    for (int g = 0; g < topo->type_count[BRAID_TOPO_GPU]; g++) {
        double GBps = braid_topo_gpu_cut_GBps(topo, g);

        least = g == 0 ? GBps : MIN(least, GBps);
    }
    return least;
}

double braid_topo_bisection_gpu_GBps(const struct braid_topo *topo)
{
    int gpus = topo->type_count[BRAID_TOPO_GPU];
    double halves, odd;
    bool *side;

    if (gpus < 2 || (side = calloc((size_t)gpus, sizeof(*side))) == NULL)
        return 0;
    for (int g = 0; g < gpus; g++)
        side[g] = g < gpus / 2;
    halves = split_flow(topo, side);
    for (int g = 0; g < gpus; g++)
        side[g] = g & 1;
    odd = split_flow(topo, side);
    free(side);
    return MIN(halves, odd) / (gpus / 2);
}

/* From all GPUs to one rail, or to all of them (rail -1). */
static double flow_to_rails(const struct braid_topo *topo, int rail)
{
    struct flow f;
    double GBps;

    if (flow_init(&f, topo, OVER_ALL) != 0)
        return 0;
    for (int g = 0; g < topo->type_count[BRAID_TOPO_GPU]; g++)
        f.from[topo->by_type[BRAID_TOPO_GPU][g]] = true;
    for (int r = 0; r < topo->type_count[BRAID_TOPO_RAIL]; r++)
        if (rail < 0 || r == rail)
            f.to[topo->by_type[BRAID_TOPO_RAIL][r]] = true;
    GBps = flow_run(&f);
    flow_free(&f);
    return GBps;
}

double braid_topo_node_cut_GBps(const struct braid_topo *topo)
{
    return flow_to_rails(topo, -1);
}

double braid_topo_rail_GBps(const struct braid_topo *topo, int rail)
{
    return rail >= 0 && rail < topo->type_count[BRAID_TOPO_RAIL] ? flow_to_rails(topo, rail) : 0;
}

double braid_topo_flow_GBps(const struct braid_topo *topo, const int *from, int from_count,
                            const int *to, int to_count)
{
    struct flow f;
    double GBps = -1;

    if (from_count <= 0 || to_count <= 0 || flow_init(&f, topo, OVER_ALL) != 0)
        return -1;
    for (int i = 0; i < from_count; i++) {
        if (from[i] < 0 || from[i] >= topo->object_count)
            goto out;
        f.from[from[i]] = true;
    }
    for (int i = 0; i < to_count; i++) {
        if (to[i] < 0 || to[i] >= topo->object_count || f.from[to[i]])
            goto out;
        f.to[to[i]] = true;
    }
    GBps = flow_run(&f);
out:
    flow_free(&f);
    return GBps;
}

static void mark_route(const struct braid_topo *topo, int from, int to, bool *seen)
{
    struct braid_topo_route route;

    if (braid_topo_route(topo, from, to, &route) != 0)
        return;
    for (int i = 0; i < route.hops; i++)
        seen[route.edge[i]] = true;
}

/* users[e]: GPUs whose way to other GPUs or to their NIC and its rail goes over edge e. */
static int count_users(const struct braid_topo *topo, int *users)
{
    int gpus = topo->type_count[BRAID_TOPO_GPU];
    bool *seen = calloc((size_t)topo->edge_count + 1, sizeof(*seen));

    if (seen == NULL)
        return -ENOMEM;
    for (int g = 0; g < gpus; g++) {
        int id = topo->by_type[BRAID_TOPO_GPU][g], nic = braid_topo_gpu_nic(topo, g);

        memset(seen, 0, (size_t)topo->edge_count * sizeof(*seen));
        for (int p = 0; p < gpus; p++)
            if (p != g)
                mark_route(topo, id, topo->by_type[BRAID_TOPO_GPU][p], seen);
        if (nic >= 0) {
            int nic_id = topo->by_type[BRAID_TOPO_NIC][nic];

            mark_route(topo, id, nic_id, seen);
            mark_route(topo, nic_id, topo->by_type[BRAID_TOPO_RAIL][topo->objects[nic_id].rail],
                       seen);
        }
        for (int e = 0; e < topo->edge_count; e++)
            users[e] += seen[e];
    }
    free(seen);
    return 0;
}

static void edge_resource(const struct braid_topo *topo, int e, struct braid_topo_resource *out)
{
    static const enum braid_topo_resource_kind kinds[BRAID_TOPO_LINKS] = {
        [BRAID_TOPO_LINK_NVLINK] = BRAID_TOPO_RES_NVLINK_PORT,
        [BRAID_TOPO_LINK_C2C] = BRAID_TOPO_RES_C2C,
        [BRAID_TOPO_LINK_PCIE] = BRAID_TOPO_RES_PCIE_LINK,
        [BRAID_TOPO_LINK_CPU] = BRAID_TOPO_RES_CPU_LINK,
        [BRAID_TOPO_LINK_NET] = BRAID_TOPO_RES_NIC,
    };
    const struct braid_topo_edge *edge = &topo->edges[e];
    const char *b = topo->objects[edge->b].name;

    out->kind = kinds[edge->type];
    out->edge = e;
    out->object = edge->a;
    out->each_way_GBps = edge->each_way_GBps;
    if (edge->type == BRAID_TOPO_LINK_PCIE)
        b = "pcie";
    else if (edge->type == BRAID_TOPO_LINK_C2C)
        b = "c2c";
    snprintf(out->name, sizeof(out->name), "%.30s-%.30s", topo->objects[edge->a].name, b);
}

/* The sum of what ends at an NVSwitch or hangs below a NUMA node. */
static bool sum_resource(const struct braid_topo *topo, int id, const int *users,
                         struct braid_topo_resource *out)
{
    const struct braid_topo_object *o = &topo->objects[id];
    bool root = o->type == BRAID_TOPO_NUMA;
    enum braid_topo_link type = root ? BRAID_TOPO_LINK_PCIE : BRAID_TOPO_LINK_NVLINK;

    memset(out, 0, sizeof(*out));
    if (!root && o->type != BRAID_TOPO_NVSWITCH)
        return false;
    out->kind = root ? BRAID_TOPO_RES_ROOT : BRAID_TOPO_RES_NVSWITCH;
    out->edge = -1;
    out->object = id;
    for (int k = topo->first_edge[id]; k < topo->first_edge[id + 1]; k++) {
        int e = topo->edge_of[k];

        if (topo->edges[e].type != type)
            continue;
        out->each_way_GBps += topo->edges[e].each_way_GBps;
        out->gpus += users[e];
    }
    out->gpus = MIN(out->gpus, topo->type_count[BRAID_TOPO_GPU]);
    snprintf(out->name, sizeof(out->name), root ? "%.30s-root" : "%.30s", o->name);
    return out->each_way_GBps > 0;
}

int braid_topo_resources(const struct braid_topo *topo, struct braid_topo_resource *out, int max)
{
    int *users = calloc((size_t)topo->edge_count + 1, sizeof(*users)), count = 0;
    struct braid_topo_resource resource;

    if (users == NULL || count_users(topo, users) != 0) {
        free(users);
        return -ENOMEM;
    }
    for (int e = 0; e < topo->edge_count; e++, count++)
        if (count < max) {
            edge_resource(topo, e, &out[count]);
            out[count].gpus = users[e];
        }
    for (int i = 0; i < topo->object_count; i++) {
        if (!sum_resource(topo, i, users, &resource))
            continue;
        if (count < max)
            out[count] = resource;
        count++;
    }
    free(users);
    return count;
}
