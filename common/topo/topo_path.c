/*
 * Routes between objects of one node and the affinity of NICs to GPUs. A route is either over
 * NVLink, or up the PCIe tree (or C2C) and down again. Reads finished topologies; any thread.
 */
#include "common/topo/topo_build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The other end of edge `e` seen from `from`. */
static int other_end(const struct braid_topo *topo, int e, int from)
{
    return topo->edges[e].a == from ? topo->edges[e].b : topo->edges[e].a;
}

static int find_edge(const struct braid_topo *topo, enum braid_topo_link type, int a, int b)
{
    for (int k = topo->first_edge[a]; k < topo->first_edge[a + 1]; k++) {
        int e = topo->edge_of[k];

        if (topo->edges[e].type == type && other_end(topo, e, a) == b)
            return e;
    }
    return -1;
}

/* The C2C edge of a GPU; -1: none. */
static int c2c_edge(const struct braid_topo *topo, int id)
{
    for (int k = topo->first_edge[id]; k < topo->first_edge[id + 1]; k++)
        if (topo->edges[topo->edge_of[k]].type == BRAID_TOPO_LINK_C2C)
            return topo->edge_of[k];
    return -1;
}

/* Appends edge `e` to the route, leaving object `from`; returns the object it leads to, -1: too long. */
static int step(const struct braid_topo *topo, struct braid_topo_route *route, int e, int from)
{
    const struct braid_topo_edge *edge = &topo->edges[e];

    if (route->hops >= BRAID_TOPO_ROUTE_MAX)
        return -1;
    route->edge[route->hops] = e;
    route->reverse[route->hops] = edge->b == from;
    if (route->hops == 0 || edge->each_way_GBps < route->each_way_GBps)
        route->each_way_GBps = edge->each_way_GBps;
    route->latency_us += edge->latency_us;
    route->hops++;
    return other_end(topo, e, from);
}

/* NVLink between two GPUs: direct, else through NVSwitch, else through the GPU with the widest links. */
static bool route_nvlink(const struct braid_topo *topo, int from, int to,
                         struct braid_topo_route *out)
{
    int direct = find_edge(topo, BRAID_TOPO_LINK_NVLINK, from, to);
    int best_first = -1, best_second = -1;
    double best_GBps = -1;
    bool best_is_switch = false;

    memset(out, 0, sizeof(*out));
    out->type = BRAID_TOPO_PATH_NVL;
    if (direct >= 0)
        return step(topo, out, direct, from) == to;
    for (int k = topo->first_edge[from]; k < topo->first_edge[from + 1]; k++) {
        int first = topo->edge_of[k], middle = other_end(topo, first, from), second;
        bool is_switch = topo->objects[middle].type == BRAID_TOPO_NVSWITCH;
        double GBps;

        if (topo->edges[first].type != BRAID_TOPO_LINK_NVLINK)
            continue;
        second = find_edge(topo, BRAID_TOPO_LINK_NVLINK, middle, to);
        if (second < 0)
            continue;
        GBps = MIN(topo->edges[first].each_way_GBps, topo->edges[second].each_way_GBps);
        if ((is_switch && !best_is_switch) || (is_switch == best_is_switch && GBps > best_GBps)) {
            best_first = first;
            best_second = second;
            best_GBps = GBps;
            best_is_switch = is_switch;
        }
    }
    if (best_first < 0)
        return false;
    out->type = best_is_switch ? BRAID_TOPO_PATH_NVL : BRAID_TOPO_PATH_NVB;
    return step(topo, out, best_second, step(topo, out, best_first, from)) == to;
}

/* Climbs from `id` to `top` (an ancestor or, over C2C, a NUMA node). Edges from the bottom up. */
static int climb(const struct braid_topo *topo, int id, int top, bool c2c,
                 int edges[BRAID_TOPO_ROUTE_MAX])
{
    int count = 0;

    while (id != top && id >= 0 && count < BRAID_TOPO_ROUTE_MAX) {
        int e = c2c && count == 0 ? c2c_edge(topo, id) : topo->objects[id].uplink;

        if (e < 0)
            return -1;
        edges[count++] = e;
        id = other_end(topo, e, id);
    }
    return id == top ? count : -1;
}

/* The lowest object that both hang on; -1: different NUMA nodes. */
static int common_ancestor(const struct braid_topo *topo, int a, int b)
{
    for (int id = a; id >= 0; id = topo->objects[id].parent)
        if (braid_topo_below(topo, b, id))
            return id;
    return -1;
}

/* CPU links from one NUMA node to another: direct, else over the one between with the widest links. */
static int route_cpu(const struct braid_topo *topo, int from, int to, int edges[2])
{
    double best_GBps = -1;
    int count = 0;

    edges[0] = find_edge(topo, BRAID_TOPO_LINK_CPU, from, to);
    if (edges[0] >= 0)
        return 1;
    for (int k = topo->first_edge[from]; k < topo->first_edge[from + 1]; k++) {
        int first = topo->edge_of[k], second;

        if (topo->edges[first].type != BRAID_TOPO_LINK_CPU)
            continue;
        second = find_edge(topo, BRAID_TOPO_LINK_CPU, other_end(topo, first, from), to);
        if (second >= 0 && topo->edges[first].each_way_GBps > best_GBps) {
            best_GBps = topo->edges[first].each_way_GBps;
            edges[0] = first;
            edges[1] = second;
            count = 2;
        }
    }
    return count;
}

static int count_switches(const struct braid_topo *topo, int id, int top)
{
    int switches = 0;

    for (id = topo->objects[id].parent; id >= 0 && id != top; id = topo->objects[id].parent)
        switches += topo->objects[id].is_switch;
    return switches;
}

/* Over the tree: up to the common ancestor and down, or from NUMA node to NUMA node. */
static bool route_tree(const struct braid_topo *topo, int from, int to,
                       struct braid_topo_route *out)
{
    int up[BRAID_TOPO_ROUTE_MAX], down[BRAID_TOPO_ROUTE_MAX], across[2];
    bool from_c2c = topo->objects[from].type == BRAID_TOPO_GPU && c2c_edge(topo, from) >= 0;
    bool to_c2c = topo->objects[to].type == BRAID_TOPO_GPU && c2c_edge(topo, to) >= 0;
    int top = common_ancestor(topo, from, to), at = from, ups, downs, acrosses = 0;
    int from_top = top, to_top = top;

    memset(out, 0, sizeof(*out));
    if (top < 0 || from_c2c || to_c2c) {
        from_top =
            from_c2c ? other_end(topo, c2c_edge(topo, from), from) : braid_topo_numa_of(topo, from);
        to_top = to_c2c ? other_end(topo, c2c_edge(topo, to), to) : braid_topo_numa_of(topo, to);
        if (from_top < 0 || to_top < 0)
            return false;
        if (from_top != to_top && (acrosses = route_cpu(topo, from_top, to_top, across)) == 0)
            return false;
    }
    ups = climb(topo, from, from_top, from_c2c, up);
    downs = climb(topo, to, to_top, to_c2c, down);
    if (ups < 0 || downs < 0)
        return false;
    for (int i = 0; i < ups && at >= 0; i++)
        at = step(topo, out, up[i], at);
    for (int i = 0; i < acrosses && at >= 0; i++)
        at = step(topo, out, across[i], at);
    for (int i = downs - 1; i >= 0 && at >= 0; i--)
        at = step(topo, out, down[i], at);
    if (at != to)
        return false;
    if (acrosses > 0)
        out->type = BRAID_TOPO_PATH_SYS;
    else if (from_c2c && to_c2c)
        out->type = BRAID_TOPO_PATH_PHB;
    else if (from_c2c || to_c2c)
        out->type = ups + downs == 1 ? BRAID_TOPO_PATH_C2C : BRAID_TOPO_PATH_P2C;
    else if (topo->objects[top].type == BRAID_TOPO_NUMA)
        out->type = BRAID_TOPO_PATH_PHB;
    else
        out->type = count_switches(topo, from, top) + count_switches(topo, to, top) +
                                (topo->objects[top].is_switch) <=
                            1
                        ? BRAID_TOPO_PATH_PIX
                        : BRAID_TOPO_PATH_PXB;
    return true;
}

/* NICs of one rail reach each other, and objects of a node reach a rail through the NIC nearest to them. */
static bool route_rail(const struct braid_topo *topo, int from, int to,
                       struct braid_topo_route *out)
{
    bool outward = topo->objects[to].type == BRAID_TOPO_RAIL;
    int rail = outward ? to : from, end = outward ? from : to;
    bool found = false;

    for (int k = topo->first_edge[rail]; k < topo->first_edge[rail + 1]; k++) {
        int e = topo->edge_of[k], nic = other_end(topo, e, rail), at;
        struct braid_topo_route way;

        if (outward) {
            if (braid_topo_route(topo, end, nic, &way) != 0 || way.type == BRAID_TOPO_PATH_DIS)
                continue;
            at = step(topo, &way, e, nic);
        } else {
            struct braid_topo_route rest;

            if (braid_topo_route(topo, nic, end, &rest) != 0 || rest.type == BRAID_TOPO_PATH_DIS)
                continue;
            memset(&way, 0, sizeof(way));
            way.type = rest.type;
            at = step(topo, &way, e, rail);
            for (int i = 0; i < rest.hops && at >= 0; i++)
                at = step(topo, &way, rest.edge[i], at);
        }
        if (at < 0)
            continue;
        if (!found || way.type < out->type ||
            (way.type == out->type && way.each_way_GBps > out->each_way_GBps))
            *out = way;
        found = true;
    }
    if (found)
        out->type = BRAID_TOPO_PATH_NET;
    return found;
}

int braid_topo_route(const struct braid_topo *topo, int from, int to, struct braid_topo_route *out)
{
    const struct braid_topo_object *a = braid_topo_object(topo, from);
    const struct braid_topo_object *b = braid_topo_object(topo, to);

    if (a == NULL || b == NULL)
        return -EINVAL;
    memset(out, 0, sizeof(*out));
    if (from == to)
        return 0;
    if (a->type == BRAID_TOPO_GPU && b->type == BRAID_TOPO_GPU && route_nvlink(topo, from, to, out))
        return 0;
    if (a->type == BRAID_TOPO_NVSWITCH || b->type == BRAID_TOPO_NVSWITCH) {
        int e = find_edge(topo, BRAID_TOPO_LINK_NVLINK, from, to);

        memset(out, 0, sizeof(*out));
        out->type = BRAID_TOPO_PATH_NVL;
        if (e >= 0 && step(topo, out, e, from) == to)
            return 0;
    } else if (a->type == BRAID_TOPO_RAIL || b->type == BRAID_TOPO_RAIL) {
        if (a->type != b->type && route_rail(topo, from, to, out))
            return 0;
    } else if (route_tree(topo, from, to, out)) {
        return 0;
    }
    memset(out, 0, sizeof(*out));
    out->type = BRAID_TOPO_PATH_DIS;
    return 0;
}

enum braid_topo_path_type braid_topo_path(const struct braid_topo *topo, int from, int to)
{
    struct braid_topo_route route;

    return braid_topo_route(topo, from, to, &route) == 0 ? route.type : BRAID_TOPO_PATH_DIS;
}

/* One NIC as a GPU sees it. */
struct choice {
    int nic; /* index */
    enum braid_topo_path_type type;
    double GBps;
    int load; /* GPUs that already have it as theirs */
};

static bool closer(const struct choice *a, const struct choice *b)
{
    if (a->type != b->type)
        return a->type < b->type;
    if (a->GBps != b->GBps)
        return a->GBps > b->GBps;
    if (a->load != b->load)
        return a->load < b->load;
    return a->nic < b->nic;
}

/* Fills `all` with the NICs that have a link, nearest first; load[] may be NULL. */
static int rank_nics(const struct braid_topo *topo, int gpu, const int *load, struct choice *all)
{
    int gpu_id = braid_topo_id(topo, BRAID_TOPO_GPU, gpu), count = 0;

    for (int n = 0; n < topo->type_count[BRAID_TOPO_NIC]; n++) {
        int nic_id = topo->by_type[BRAID_TOPO_NIC][n], at = count;
        struct choice c = {.nic = n, .load = load ? load[n] : 0};
        struct braid_topo_route route;

        if (topo->objects[nic_id].link_down)
            continue;
        braid_topo_route(topo, gpu_id, nic_id, &route);
        c.type = route.type;
        c.GBps = MIN(route.each_way_GBps, topo->objects[nic_id].rate_Gbps / 8);
        for (; at > 0 && closer(&c, &all[at - 1]); at--)
            all[at] = all[at - 1];
        all[at] = c;
        count++;
    }
    return count;
}

int braid_topo_share_nics(struct braid_topo *topo)
{
    int gpus = topo->type_count[BRAID_TOPO_GPU], nics = topo->type_count[BRAID_TOPO_NIC];
    struct choice *all = calloc((size_t)nics + 1, sizeof(*all));
    int *load = calloc((size_t)nics + 1, sizeof(*load));
    int rc = 0;

    topo->gpu_nic = calloc((size_t)gpus + 1, sizeof(int));
    if (all == NULL || load == NULL || topo->gpu_nic == NULL)
        rc = -ENOMEM;
    for (int g = 0; g < gpus && rc == 0; g++) {
        topo->gpu_nic[g] = rank_nics(topo, g, load, all) > 0 ? all[0].nic : -1;
        if (topo->gpu_nic[g] >= 0)
            load[topo->gpu_nic[g]]++;
    }
    free(load);
    free(all);
    return rc;
}

int braid_topo_gpu_nic(const struct braid_topo *topo, int gpu)
{
    return gpu >= 0 && gpu < topo->type_count[BRAID_TOPO_GPU] ? topo->gpu_nic[gpu] : -1;
}

int braid_topo_gpu_nics(const struct braid_topo *topo, int gpu, int *nic, int max)
{
    int own = braid_topo_gpu_nic(topo, gpu), filled = 0, count;
    struct choice *all;

    if (gpu < 0 || gpu >= topo->type_count[BRAID_TOPO_GPU])
        return -EINVAL;
    all = calloc((size_t)topo->type_count[BRAID_TOPO_NIC] + 1, sizeof(*all));
    if (all == NULL)
        return -ENOMEM;
    count = rank_nics(topo, gpu, NULL, all);
    if (own >= 0 && filled < max)
        nic[filled++] = own;
    for (int i = 0; i < count && filled < max; i++)
        if (all[i].nic != own)
            nic[filled++] = all[i].nic;
    free(all);
    return count;
}
