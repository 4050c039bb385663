/*
 * A topology as one JSON object: summary, objects, edges, resources. Units are in the keys; what is
 * unknown is left out. Reads finished topologies; writes to the given stream.
 */
#include "common/topo/topo_build.h"

#include <errno.h>
#include <stdlib.h>

static void string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < 0x20 || *p >= 0x7f)
            fprintf(out, "\\u%04x", *p);
        else
            fputc(*p, out);
    }
    fputc('"', out);
}

static void pair_string(FILE *out, const char *key, const char *text)
{
    if (text[0] == '\0')
        return;
    fprintf(out, ", \"%s\": ", key);
    string(out, text);
}

static void pair_int(FILE *out, const char *key, long value, long unknown)
{
    if (value != unknown)
        fprintf(out, ", \"%s\": %ld", key, value);
}

static void pair_number(FILE *out, const char *key, double value)
{
    if (value > 0)
        fprintf(out, ", \"%s\": %.6g", key, value);
}

static void print_object(const struct braid_topo *topo, int id, FILE *out)
{
    const struct braid_topo_object *o = &topo->objects[id];

    fprintf(out, "    {\"id\": %d, \"type\": \"%s\", \"index\": %d, \"name\": ", id,
            braid_topo_type_name(o->type), o->index);
    string(out, o->name);
    pair_string(out, "busid", o->busid);
    pair_int(out, "parent", o->parent, -1);
    if (o->pci_device != 0)
        fprintf(out, ", \"pci\": \"%04x:%04x\"", o->pci_vendor, o->pci_device);
    pair_int(out, "numa_id", o->numa_id, -1);
    pair_string(out, "cpu_arch", o->cpu_arch);
    pair_string(out, "cpu_vendor", o->cpu_vendor);
    pair_int(out, "chips", o->chips, 0);
    if (o->type == BRAID_TOPO_GPU) {
        int nic = braid_topo_gpu_nic(topo, o->index);

        pair_int(out, "cuda_dev", o->cuda_dev, -1);
        pair_int(out, "sm", o->sm, 0);
        pair_string(out, "model", o->model);
        pair_string(out, "fabric", o->fabric);
        pair_int(out, "nic", nic, -1);
        if (nic >= 0)
            pair_string(out, "nic_path",
                        braid_topo_path_name(
                            braid_topo_path(topo, id, braid_topo_id(topo, BRAID_TOPO_NIC, nic))));
        pair_number(out, "gpu_cut_GBps", braid_topo_gpu_cut_GBps(topo, o->index));
    }
    if (o->type == BRAID_TOPO_NIC) {
        pair_string(out, "net", o->net_kind);
        pair_number(out, "rate_Gbps", o->rate_Gbps);
        pair_int(out, "port", o->port, 0);
        pair_int(out, "rail", o->rail, -1);
        fprintf(out, ", \"link\": %s", o->link_down ? "false" : "true");
    }
    fputc('}', out);
}

static void print_edge(const struct braid_topo *topo, int id, FILE *out)
{
    const struct braid_topo_edge *e = &topo->edges[id];

    fprintf(out, "    {\"id\": %d, \"type\": \"%s\", \"a\": %d, \"b\": %d", id,
            braid_topo_link_name(e->type), e->a, e->b);
    pair_int(out, "lanes", e->lanes, 0);
    pair_number(out, "lane_GBps", e->lane_GBps);
    pair_number(out, "each_way_GBps", e->each_way_GBps);
    pair_string(out, "bandwidth_from", braid_topo_source_name(e->bandwidth_from));
    pair_number(out, "latency_us", e->latency_us);
    pair_string(out, "latency_from", braid_topo_source_name(e->latency_from));
    fputc('}', out);
}

static void print_summary(const struct braid_topo *topo, FILE *out)
{
    struct braid_topo_summary s;

    braid_topo_summarise(topo, &s);
    fprintf(out, "  \"key\": ");
    string(out, s.key);
    pair_string(out, "origin", topo->origin);
    fprintf(out, ",\n  \"summary\": {\"nodes\": %d, \"gpus_per_node\": %d", s.nodes,
            s.gpus_per_node);
    pair_string(out, "gpu", s.gpu);
    pair_int(out, "sm", s.sm, 0);
    pair_int(out, "nvlinks_per_gpu", s.nvlinks_per_gpu, -1);
    pair_number(out, "nvlink_lane_GBps", s.nvlink_lane_GBps);
    pair_number(out, "nvlink_gpu_GBps", s.nvlink_gpu_GBps);
    fprintf(out, ", \"nvswitch\": %s", s.nvswitch ? "true" : "false");
    pair_int(out, "nvlink_domain_gpus", s.nvlink_domain_gpus, -1);
    pair_number(out, "gpu_cut_GBps", s.gpu_cut_GBps);
    pair_number(out, "bisection_gpu_GBps", braid_topo_bisection_gpu_GBps(topo));
    pair_int(out, "nics_per_node", s.nics_per_node, -1);
    pair_number(out, "nic_GBps", s.nic_GBps);
    pair_string(out, "net", s.net_kind);
    pair_int(out, "rails", s.rails, -1);
    pair_number(out, "node_cut_GBps", s.node_cut_GBps);
    pair_number(out, "pcie_gpu_GBps", s.pcie_gpu_GBps);
    pair_number(out, "pcie_root_GBps", s.pcie_root_GBps);
    pair_int(out, "numa_nodes", s.numa_nodes, -1);
    pair_string(out, "cpu_vendor", s.cpu_vendor);
    fprintf(out, ", \"c2c\": %s", s.c2c ? "true" : "false");
    pair_string(out, "gpu_gpu_path", braid_topo_path_name(s.gpu_gpu_path));
    pair_string(out, "gpu_nic_path", braid_topo_path_name(s.gpu_nic_path));
    fprintf(out, "},\n");
}

static int print_resources(const struct braid_topo *topo, FILE *out)
{
    int room = topo->edge_count + topo->object_count + 1, count;
    struct braid_topo_resource *all = calloc((size_t)room, sizeof(*all));

    if (all == NULL)
        return -ENOMEM;
    count = braid_topo_resources(topo, all, room);
    for (int i = 0; i < count; i++) {
        fprintf(out, "    {\"name\": ");
        string(out, all[i].name);
        pair_string(out, "kind", braid_topo_resource_name(all[i].kind));
        pair_int(out, "edge", all[i].edge, -1);
        pair_int(out, "object", all[i].object, -1);
        pair_number(out, "each_way_GBps", all[i].each_way_GBps);
        fprintf(out, ", \"gpus\": %d}%s\n", all[i].gpus, i + 1 < count ? "," : "");
    }
    free(all);
    return MIN(count, 0);
}

int braid_topo_print_json(const struct braid_topo *topo, FILE *out)
{
    int rc;

    fprintf(out, "{\n");
    print_summary(topo, out);
    fprintf(out, "  \"objects\": [\n");
    for (int i = 0; i < topo->object_count; i++) {
        print_object(topo, i, out);
        fprintf(out, "%s\n", i + 1 < topo->object_count ? "," : "");
    }
    fprintf(out, "  ],\n  \"edges\": [\n");
    for (int e = 0; e < topo->edge_count; e++) {
        print_edge(topo, e, out);
        fprintf(out, "%s\n", e + 1 < topo->edge_count ? "," : "");
    }
    fprintf(out, "  ],\n  \"resources\": [\n");
    rc = print_resources(topo, out);
    fprintf(out, "  ]\n}\n");
    return rc != 0 ? rc : ferror(out) ? -EIO : 0;
}
