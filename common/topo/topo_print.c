/*
 * A topology as a tree for people. Every number comes with its unit and, in brackets, where it is
 * from unless it was in the input itself. Reads finished topologies; writes to the given stream.
 */
#include "common/topo/topo_build.h"
#include "common/topo/topo_spec.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* "450 GB/s", "63.0 GB/s", "unknown". */
static const char *rate(double GBps, char out[24])
{
    if (GBps <= 0)
        return "unknown";
    snprintf(out, 24, fabs(GBps - round(GBps)) < 0.005 ? "%.0f GB/s" : "%.1f GB/s", GBps);
    return out;
}

static const char *from(enum braid_topo_source source, char out[24])
{
    if (source == BRAID_TOPO_FROM_DEFAULT)
        return " [assumed]";
    if (source == BRAID_TOPO_FROM_SPEC)
        return " [spec]";
    out[0] = '\0';
    return out;
}

static void print_pcie(const struct braid_topo *topo, const struct braid_topo_object *o, FILE *out)
{
    const struct braid_topo_edge *edge;
    char text[24], note[24];
    int gen;

    if (o->uplink < 0)
        return;
    edge = &topo->edges[o->uplink];
    gen = braid_topo_spec_pcie_gen_of(edge->lane_GBps);
    if (edge->each_way_GBps <= 0)
        fprintf(out, "  PCIe unknown");
    else if (gen > 0)
        fprintf(out, "  PCIe %d.0 x%d %s%s", gen, edge->lanes, rate(edge->each_way_GBps, text),
                from(edge->bandwidth_from, note));
    else
        fprintf(out, "  PCIe x%d %s%s", edge->lanes, rate(edge->each_way_GBps, text),
                from(edge->bandwidth_from, note));
}

static void print_links(const struct braid_topo *topo, int id, FILE *out)
{
    char text[24], note[24];

    for (int k = topo->first_edge[id]; k < topo->first_edge[id + 1]; k++) {
        const struct braid_topo_edge *edge = &topo->edges[topo->edge_of[k]];
        int peer = edge->a == id ? edge->b : edge->a;

        if (edge->type == BRAID_TOPO_LINK_NVLINK)
            fprintf(out, "  NVLink %d x %s to %s%s", edge->lanes, rate(edge->lane_GBps, text),
                    topo->objects[peer].name, from(edge->bandwidth_from, note));
        else if (edge->type == BRAID_TOPO_LINK_C2C)
            fprintf(out, "  C2C %s%s", rate(edge->each_way_GBps, text),
                    from(edge->bandwidth_from, note));
    }
}

static void print_gpu(const struct braid_topo *topo, int id, FILE *out)
{
    const struct braid_topo_object *o = &topo->objects[id];
    int nic = braid_topo_gpu_nic(topo, o->index);

    fprintf(out, "  %s", o->model[0] != '\0' ? o->model : "GPU");
    if (o->sm > 0)
        fprintf(out, " sm_%d", o->sm);
    print_pcie(topo, o, out);
    print_links(topo, id, out);
    if (nic >= 0) {
        int nic_id = topo->by_type[BRAID_TOPO_NIC][nic];

        fprintf(out, "  NIC %s (%s)", topo->objects[nic_id].name,
                braid_topo_path_name(braid_topo_path(topo, id, nic_id)));
    }
}

static void print_nic(const struct braid_topo *topo, const struct braid_topo_object *o, FILE *out)
{
    fprintf(out, "  %s", o->net_kind[0] != '\0' ? o->net_kind : "network");
    if (o->rate_Gbps > 0)
        fprintf(out, " %.0f Gb/s", o->rate_Gbps);
    else
        fprintf(out, " rate unknown");
    print_pcie(topo, o, out);
    if (o->link_down)
        fprintf(out, "  no link");
    else if (o->rail >= 0)
        fprintf(out, "  rail%d", o->rail);
}

static void print_numa(const struct braid_topo_object *o, FILE *out)
{
    if (o->cpu_vendor[0] != '\0' || o->cpu_arch[0] != '\0')
        fprintf(out, "  %s%s%s", o->cpu_vendor, o->cpu_vendor[0] != '\0' ? " " : "", o->cpu_arch);
}

static void print_object(const struct braid_topo *topo, int id, FILE *out)
{
    const struct braid_topo_object *o = &topo->objects[id];

    fprintf(out, "%s", o->name);
    if (o->busid[0] != '\0')
        fprintf(out, " %s", o->busid);
    if (o->type == BRAID_TOPO_GPU)
        print_gpu(topo, id, out);
    else if (o->type == BRAID_TOPO_NIC)
        print_nic(topo, o, out);
    else if (o->type == BRAID_TOPO_NUMA)
        print_numa(o, out);
    else
        print_pcie(topo, o, out);
    fputc('\n', out);
}

/* The objects below `parent`, each with its own, indented by `prefix`. */
static void print_below(const struct braid_topo *topo, int parent, const char *prefix, int depth,
                        FILE *out)
{
    int last = -1;

    for (int i = 0; i < topo->object_count; i++)
        if (topo->objects[i].parent == parent)
            last = i;
    for (int i = 0; i < topo->object_count; i++) {
        char deeper[160];

        if (topo->objects[i].parent != parent)
            continue;
        fprintf(out, "%s%s", prefix, i == last ? "`-- " : "|-- ");
        print_object(topo, i, out);
        snprintf(deeper, sizeof(deeper), "%.*s%s", (int)sizeof(deeper) - 5, prefix,
                 i == last ? "    " : "|   ");
        if (depth < 32)
            print_below(topo, i, deeper, depth + 1, out);
    }
}

/* One line if all NUMA nodes are joined alike, else one a pair. */
static void print_cpu_links(const struct braid_topo *topo, FILE *out)
{
    const struct braid_topo_edge *first = NULL;
    int numa = topo->type_count[BRAID_TOPO_NUMA], count = 0;
    bool alike = true;
    char text[24], note[24];

    for (int e = 0; e < topo->edge_count; e++) {
        const struct braid_topo_edge *edge = &topo->edges[e];

        if (edge->type != BRAID_TOPO_LINK_CPU)
            continue;
        first = first != NULL ? first : edge;
        alike &= edge->each_way_GBps == first->each_way_GBps;
        count++;
    }
    if (first == NULL)
        return;
    if (alike && count == numa * (numa - 1) / 2) {
        fprintf(out, "between %s: %s%s\n", numa == 2 ? "the NUMA nodes" : "any two NUMA nodes",
                rate(first->each_way_GBps, text), from(first->bandwidth_from, note));
        return;
    }
    for (int e = 0; e < topo->edge_count; e++)
        if (topo->edges[e].type == BRAID_TOPO_LINK_CPU)
            fprintf(out, "between %s and %s: %s%s\n", topo->objects[topo->edges[e].a].name,
                    topo->objects[topo->edges[e].b].name, rate(topo->edges[e].each_way_GBps, text),
                    from(topo->edges[e].bandwidth_from, note));
}

/* The NVLink edge of a GPU to the switch; NULL: none. */
static const struct braid_topo_edge *switch_edge(const struct braid_topo *topo, int nvswitch,
                                                 int gpu)
{
    for (int k = topo->first_edge[gpu]; k < topo->first_edge[gpu + 1]; k++) {
        const struct braid_topo_edge *edge = &topo->edges[topo->edge_of[k]];

        if (edge->a == nvswitch || edge->b == nvswitch)
            return edge;
    }
    return NULL;
}

static void print_nvswitch(const struct braid_topo *topo, FILE *out)
{
    int id = braid_topo_id(topo, BRAID_TOPO_NVSWITCH, 0), count = 0;
    double least = 0, most = 0;
    char text[24];

    if (id < 0 || topo->first_edge[id + 1] == topo->first_edge[id])
        return;
    for (int g = 0; g < topo->type_count[BRAID_TOPO_GPU]; g++) {
        const struct braid_topo_edge *edge =
            switch_edge(topo, id, topo->by_type[BRAID_TOPO_GPU][g]);

        if (edge == NULL)
            continue;
        least = count == 0 ? edge->each_way_GBps : MIN(least, edge->each_way_GBps);
        most = MAX(most, edge->each_way_GBps);
        count++;
    }
    fprintf(out, "nvswitch");
    if (topo->objects[id].chips > 1)
        fprintf(out, " (%d chips)", topo->objects[id].chips);
    fprintf(out, ": %d GPU%s, %s each", count, count == 1 ? "" : "s", rate(least, text));
    if (most > least)
        fprintf(out, " and up to %s", rate(most, text));
    fputc('\n', out);
}

/* NICs on a rail. */
static int rail_nics(const struct braid_topo *topo, int rail)
{
    int id = topo->by_type[BRAID_TOPO_RAIL][rail];

    return topo->first_edge[id + 1] - topo->first_edge[id];
}

/* Consecutive rails that are alike share a line. */
static void print_rails(const struct braid_topo *topo, FILE *out)
{
    int rails = topo->type_count[BRAID_TOPO_RAIL], next;
    char text[24];

    for (int r = 0; r < rails; r = next) {
        double GBps = braid_topo_rail_GBps(topo, r);
        int nics = rail_nics(topo, r);

        for (next = r + 1; next < rails; next++)
            if (rail_nics(topo, next) != nics ||
                fabs(braid_topo_rail_GBps(topo, next) - GBps) > 0.01)
                break;
        if (next - r > 1)
            fprintf(out, "rails %d to %d: %s each", r, next - 1, rate(GBps, text));
        else
            fprintf(out, "rail %d: %s", r, rate(GBps, text));
        fprintf(out, " from the GPUs of a node, %d NIC%s%s\n", nics, nics == 1 ? "" : "s",
                next - r > 1 ? " each" : "");
    }
}

static void print_summary(const struct braid_topo *topo, const struct braid_topo_summary *s,
                          FILE *out)
{
    char text[24];

    if (s->gpus_per_node == 0)
        return;
    fprintf(out, "paths: GPU to GPU %s at worst", braid_topo_path_name(s->gpu_gpu_path));
    if (s->nics_per_node > 0)
        fprintf(out, ", GPU to its NIC %s at worst", braid_topo_path_name(s->gpu_nic_path));
    fputc('\n', out);
    if (s->gpus_per_node > 1) {
        fprintf(out, "cuts, one way: a GPU %s", rate(s->gpu_cut_GBps, text));
        fprintf(out, ", across the node %s a GPU", rate(braid_topo_bisection_gpu_GBps(topo), text));
        if (s->nics_per_node > 0)
            fprintf(out, ", out of the node %s", rate(s->node_cut_GBps, text));
        fputc('\n', out);
    } else if (s->nics_per_node > 0) {
        fprintf(out, "cuts, one way: out of the node %s\n", rate(s->node_cut_GBps, text));
    }
}

static void print_head(const struct braid_topo *topo, const struct braid_topo_summary *s, FILE *out)
{
    fprintf(out, "%s\n", s->key);
    fprintf(out, "%d node%s of %d GPU%s", s->nodes, s->nodes == 1 ? "" : "s", s->gpus_per_node,
            s->gpus_per_node == 1 ? "" : "s");
    fprintf(out, ", %d NIC%s, %d rail%s, %d NUMA node%s", s->nics_per_node,
            s->nics_per_node == 1 ? "" : "s", s->rails, s->rails == 1 ? "" : "s", s->numa_nodes,
            s->numa_nodes == 1 ? "" : "s");
    if (s->nvlink_domain_gpus > s->gpus_per_node)
        fprintf(out, ", NVLink domain of %d GPUs", s->nvlink_domain_gpus);
    fprintf(out, " (%s)\n", topo->origin);
}

int braid_topo_print_tree(const struct braid_topo *topo, FILE *out)
{
    struct braid_topo_summary summary;

    braid_topo_summarise(topo, &summary);
    print_head(topo, &summary, out);
    for (int n = 0; n < topo->type_count[BRAID_TOPO_NUMA]; n++) {
        int id = topo->by_type[BRAID_TOPO_NUMA][n];

        print_object(topo, id, out);
        print_below(topo, id, "", 0, out);
    }
    print_cpu_links(topo, out);
    print_nvswitch(topo, out);
    print_rails(topo, out);
    print_summary(topo, &summary, out);
    return ferror(out) ? -EIO : 0;
}
