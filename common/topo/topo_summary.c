/*
 * The compact summary and the machine key. Everything here must come out the same on every node of
 * a kind, whatever source described it. Reads finished topologies; any thread.
 */
#include "common/topo/topo_build.h"
#include "common/topo/topo_spec.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static const struct braid_topo_object *nth(const struct braid_topo *topo, enum braid_topo_type type,
                                           int index)
{
    return &topo->objects[topo->by_type[type][index]];
}

/* `word` joins what was seen so far: "" nothing yet or unknown, "mixed" if they differ. */
static void merge_word(char *out, size_t size, const char *text, bool first)
{
    if (first)
        braid_topo_copy(out, size, text);
    else if (strcmp(out, text) != 0)
        braid_topo_copy(out, size, "mixed");
}

static void gpu_links(const struct braid_topo *topo, int id, int *links, double *GBps)
{
    *links = 0;
    *GBps = 0;
    for (int k = topo->first_edge[id]; k < topo->first_edge[id + 1]; k++) {
        const struct braid_topo_edge *edge = &topo->edges[topo->edge_of[k]];

        if (edge->type == BRAID_TOPO_LINK_NVLINK) {
            *links += edge->lanes;
            *GBps += edge->each_way_GBps;
        }
    }
}

static bool has_c2c(const struct braid_topo *topo, int id)
{
    for (int k = topo->first_edge[id]; k < topo->first_edge[id + 1]; k++)
        if (topo->edges[topo->edge_of[k]].type == BRAID_TOPO_LINK_C2C)
            return true;
    return false;
}

int braid_topo_nvlink_domain(const struct braid_topo *topo)
{
    int gpus = topo->type_count[BRAID_TOPO_GPU], most = gpus > 0 ? 1 : 0;

    if (topo->nvlink_domain > 0)
        return topo->nvlink_domain;
    for (int g = 0; g < gpus; g++) {
        int together = 1;

        for (int p = 0; p < gpus; p++)
            together +=
                p != g && braid_topo_path(topo, topo->by_type[BRAID_TOPO_GPU][g],
                                          topo->by_type[BRAID_TOPO_GPU][p]) == BRAID_TOPO_PATH_NVL;
        most = MAX(most, together);
    }
    return most;
}

/* A GPU's part of the links from it up to its root complex, each divided by the GPUs below it. */
static double root_share_GBps(const struct braid_topo *topo, int gpu_id)
{
    double least = 0;

    for (int id = gpu_id; id >= 0 && topo->objects[id].uplink >= 0; id = topo->objects[id].parent) {
        double GBps = topo->edges[topo->objects[id].uplink].each_way_GBps;
        int gpus = 0;

        for (int g = 0; g < topo->type_count[BRAID_TOPO_GPU]; g++)
            gpus += braid_topo_below(topo, topo->by_type[BRAID_TOPO_GPU][g], id);
        if (id == gpu_id || GBps / gpus < least)
            least = GBps / gpus;
    }
    return least;
}

static void summarise_gpus(const struct braid_topo *topo, struct braid_topo_summary *out)
{
    int gpus = topo->type_count[BRAID_TOPO_GPU];

    out->gpus_per_node = gpus;
    for (int g = 0; g < gpus; g++) {
        const struct braid_topo_object *gpu = nth(topo, BRAID_TOPO_GPU, g);
        int id = topo->by_type[BRAID_TOPO_GPU][g], links;
        double GBps, pcie = topo->edges[gpu->uplink].each_way_GBps,
                     share = root_share_GBps(topo, id);

        gpu_links(topo, id, &links, &GBps);
        merge_word(out->gpu, sizeof(out->gpu), gpu->model, g == 0);
        out->c2c |= has_c2c(topo, id);
        if (g == 0 || gpu->sm < out->sm)
            out->sm = gpu->sm;
        if (g == 0 || links < out->nvlinks_per_gpu) {
            out->nvlinks_per_gpu = links;
            out->nvlink_gpu_GBps = GBps;
            out->nvlink_lane_GBps = links > 0 ? GBps / links : 0;
        }
        if (g == 0 || pcie < out->pcie_gpu_GBps)
            out->pcie_gpu_GBps = pcie;
        if (g == 0 || share < out->pcie_root_GBps)
            out->pcie_root_GBps = share;
    }
}

static void summarise_net(const struct braid_topo *topo, struct braid_topo_summary *out)
{
    for (int n = 0; n < topo->type_count[BRAID_TOPO_NIC]; n++) {
        const struct braid_topo_object *nic = nth(topo, BRAID_TOPO_NIC, n);
        bool first = out->nics_per_node == 0;

        if (nic->link_down)
            continue;
        merge_word(out->net_kind, sizeof(out->net_kind), nic->net_kind, first);
        if (first || nic->rate_Gbps / 8 < out->nic_GBps)
            out->nic_GBps = nic->rate_Gbps / 8;
        out->nics_per_node++;
    }
    out->rails = topo->type_count[BRAID_TOPO_RAIL];
    out->node_cut_GBps = braid_topo_node_cut_GBps(topo);
}

static void summarise_paths(const struct braid_topo *topo, struct braid_topo_summary *out)
{
    int gpus = topo->type_count[BRAID_TOPO_GPU];

    out->gpu_gpu_path = BRAID_TOPO_PATH_LOC;
    out->gpu_nic_path = out->nics_per_node > 0 ? BRAID_TOPO_PATH_LOC : BRAID_TOPO_PATH_DIS;
    for (int g = 0; g < gpus; g++) {
        int id = topo->by_type[BRAID_TOPO_GPU][g], nic = braid_topo_gpu_nic(topo, g);
        enum braid_topo_path_type path;

        for (int p = g + 1; p < gpus; p++) {
            path = braid_topo_path(topo, id, topo->by_type[BRAID_TOPO_GPU][p]);
            out->gpu_gpu_path = MAX(out->gpu_gpu_path, path);
        }
        path = nic >= 0 ? braid_topo_path(topo, id, topo->by_type[BRAID_TOPO_NIC][nic])
                        : BRAID_TOPO_PATH_DIS;
        out->gpu_nic_path = MAX(out->gpu_nic_path, path);
    }
}

static void append(struct braid_topo_summary *out, const char *fmt, ...) BRAID_PRINTF(2, 3);

static void append(struct braid_topo_summary *out, const char *fmt, ...)
{
    size_t used = strlen(out->key);
    va_list args;

    va_start(args, fmt);
    vsnprintf(out->key + used, sizeof(out->key) - used, fmt, args);
    va_end(args);
}

/* The grammar is in README.md. Rates are rounded to whole numbers, so no decimal point can appear. */
static void make_key(const struct braid_topo *topo, struct braid_topo_summary *out)
{
    int gpus = out->gpus_per_node;

    if (gpus == 0)
        append(out, "nogpu");
    else if (out->gpu[0] != '\0')
        append(out, "%sx%d", out->gpu, gpus);
    else if (out->sm > 0)
        append(out, "sm%dx%d", out->sm, gpus);
    else
        append(out, "gpux%d", gpus);
    if (out->nvlinks_per_gpu > 0)
        append(out, "-nvl%dx%ld%s", out->nvlinks_per_gpu, lround(out->nvlink_lane_GBps),
               out->nvswitch ? "s" : "");
    if (topo->nvlink_domain > gpus)
        append(out, "-dom%d", topo->nvlink_domain);
    if (out->nics_per_node > 0)
        append(out, "-%s%d", out->net_kind[0] != '\0' ? out->net_kind : "nic", out->nics_per_node);
    if (out->nic_GBps > 0)
        append(out, "x%ld", lround(out->nic_GBps * 8));
    if (out->rails != out->nics_per_node)
        append(out, "-rails%d", out->rails);
    if (gpus > 0) {
        const struct braid_topo_edge *up = &topo->edges[nth(topo, BRAID_TOPO_GPU, 0)->uplink];
        int gen = braid_topo_spec_pcie_gen_of(up->lane_GBps);

        if (gen > 0 && up->bandwidth_from != BRAID_TOPO_FROM_DEFAULT)
            append(out, "-pcie%dx%d", gen, up->lanes);
    }
}

void braid_topo_summarise(const struct braid_topo *topo, struct braid_topo_summary *out)
{
    memset(out, 0, sizeof(*out));
    out->nodes = topo->nodes;
    out->numa_nodes = topo->type_count[BRAID_TOPO_NUMA];
    for (int i = 0; i < out->numa_nodes; i++)
        merge_word(out->cpu_vendor, sizeof(out->cpu_vendor),
                   nth(topo, BRAID_TOPO_NUMA, i)->cpu_vendor, i == 0);
    for (int i = 0; i < topo->type_count[BRAID_TOPO_NVSWITCH]; i++) {
        int id = topo->by_type[BRAID_TOPO_NVSWITCH][i];

        out->nvswitch |= topo->first_edge[id + 1] > topo->first_edge[id];
    }
    summarise_gpus(topo, out);
    summarise_net(topo, out);
    summarise_paths(topo, out);
    out->nvlink_domain_gpus = braid_topo_nvlink_domain(topo);
    out->gpu_cut_GBps = braid_topo_min_gpu_cut_GBps(topo);
    make_key(topo, out);
}
