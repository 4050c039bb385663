/*
 * Writes NCCL's topology XML. NCCL takes what a file says and detects what it leaves out, so only
 * numbers that some source gave are written; assumed ones (topo_spec.c) are not. GPUs carry no rank:
 * NCCL sets it for those that the job uses and drops the others. The links of emulated bridges are an
 * exception to the first: what NCCL would detect there is wrong.
 */
#include "common/topo/topo_build.h"
#include "common/topo/topo_spec.h"

#include <errno.h>

static void text(FILE *out, const char *key, const char *value)
{
    if (value[0] == '\0')
        return;
    fprintf(out, " %s=\"", key);
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == '&' || *p == '<' || *p == '>' || *p == '"')
            fprintf(out, "&#%d;", *p);
        else
            fputc((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f ? *p : '?', out);
    }
    fputc('"', out);
}

static void indent(FILE *out, int depth)
{
    fprintf(out, "%*s", depth * 2, "");
}

static void write_pci_attributes(const struct braid_topo *topo, const struct braid_topo_object *o,
                                 uint32_t pci_class, FILE *out)
{
    text(out, "busid", o->busid);
    fprintf(out, " class=\"0x%06x\"", pci_class);
    if (o->pci_vendor != 0)
        fprintf(out, " vendor=\"0x%04x\" device=\"0x%04x\"", o->pci_vendor, o->pci_device);
    if (o->pci_subsystem != 0)
        fprintf(out, " subsystem_vendor=\"0x%04x\" subsystem_device=\"0x%04x\"",
                o->pci_subsystem >> 16, o->pci_subsystem & 0xffff);
    if (o->uplink >= 0) {
        const struct braid_topo_edge *edge = &topo->edges[o->uplink];
        int gen = braid_topo_spec_pcie_gen_of(edge->lane_GBps);

        if (gen != 0 && (edge->bandwidth_from > BRAID_TOPO_FROM_DEFAULT ||
                         braid_topo_spec_virtual_bridge(o->pci_vendor, o->pci_device))) {
            fprintf(out, " link_speed=\"%s\" link_width=\"%d\"", braid_topo_spec_pcie_text(gen),
                    edge->lanes);
            return;
        }
    }
    /* NCCL refuses a device without these two; empty and 0 are how it writes what it does not know. */
    fprintf(out, " link_speed=\"\" link_width=\"0\"");
}

static void write_nvlink(const struct braid_topo *topo, const struct braid_topo_edge *edge, int gpu,
                         int depth, FILE *out)
{
    const struct braid_topo_object *peer = &topo->objects[edge->a == gpu ? edge->b : edge->a];
    bool to_switch = peer->type == BRAID_TOPO_NVSWITCH;

    indent(out, depth);
    /* NCCL's own word for a switch that it cannot see; it joins all switches into one anyway. */
    fprintf(out, "<nvlink target=\"%s\" count=\"%d\" tclass=\"%s\"/>\n",
            peer->busid[0] != '\0' ? peer->busid : "fffffff:ffff:ff", edge->lanes,
            to_switch                      ? "0x068000"
            : peer->type == BRAID_TOPO_GPU ? "0x030200"
                                           : "0x068001");
}

static void write_gpu(const struct braid_topo *topo, int id, int depth, FILE *out)
{
    const struct braid_topo_object *o = &topo->objects[id];
    int links = 0;

    indent(out, depth);
    fprintf(out, "<gpu");
    if (o->cuda_dev >= 0)
        fprintf(out, " dev=\"%d\"", o->cuda_dev);
    if (o->sm > 0)
        fprintf(out, " sm=\"%d\"", o->sm);
    if (o->gdr)
        fprintf(out, " gdr=\"1\"");
    fprintf(out, ">\n");
    for (int k = topo->first_edge[id]; k < topo->first_edge[id + 1]; k++) {
        const struct braid_topo_edge *edge = &topo->edges[topo->edge_of[k]];

        if (edge->type == BRAID_TOPO_LINK_NVLINK) {
            write_nvlink(topo, edge, id, depth + 1, out);
            links++;
        } else if (edge->type == BRAID_TOPO_LINK_C2C &&
                   edge->bandwidth_from > BRAID_TOPO_FROM_DEFAULT) {
            indent(out, depth + 1);
            fprintf(out, "<c2c bw=\"%.0f\" count=\"%d\"/>\n", edge->lane_GBps * 1000, edge->lanes);
        }
    }
    indent(out, depth);
    fprintf(out, "</gpu>\n");
}

static void write_net(const struct braid_topo_object *o, int depth, FILE *out)
{
    indent(out, depth);
    fprintf(out, "<net");
    text(out, "name", o->name);
    if (o->rate_Gbps > 0 && o->rate_from > BRAID_TOPO_FROM_SPEC)
        fprintf(out, " speed=\"%.0f\"", o->rate_Gbps * 1000);
    if (o->latency_us > 0)
        fprintf(out, " latency=\"%f\"", o->latency_us);
    if (o->port > 0)
        fprintf(out, " port=\"%d\"", o->port);
    if (o->guid != 0)
        fprintf(out, " guid=\"0x%llx\"", (unsigned long long)o->guid);
    if (o->max_connections > 0)
        fprintf(out, " maxconn=\"%d\"", o->max_connections);
    fprintf(out, "/>\n");
}

/* All ports below `parent` that sit on its own PCIe function (or have none) in one <nic>. */
static void write_ports(const struct braid_topo *topo, int parent, int depth, FILE *out)
{
    const struct braid_topo_object *p = &topo->objects[parent];
    bool open = false;

    for (int i = 0; i < topo->object_count; i++) {
        const struct braid_topo_object *o = &topo->objects[i];

        if (o->type != BRAID_TOPO_NIC || o->parent != parent || o->link_down)
            continue;
        if (o->busid[0] != '\0' && (p->type == BRAID_TOPO_NUMA || p->pci_class >> 8 == 0x0604))
            continue;
        if (!open) {
            indent(out, depth);
            fprintf(out, "<nic>\n");
        }
        open = true;
        write_net(o, depth + 1, out);
    }
    if (open) {
        indent(out, depth);
        fprintf(out, "</nic>\n");
    }
}

static void write_below(const struct braid_topo *topo, int parent, int depth, FILE *out);

static void write_pci(const struct braid_topo *topo, int id, int depth, FILE *out)
{
    const struct braid_topo_object *o = &topo->objects[id];
    uint32_t usual = o->type == BRAID_TOPO_GPU   ? 0x030200
                     : o->type == BRAID_TOPO_NIC ? 0x020000
                                                 : 0x060400;

    indent(out, depth);
    fprintf(out, "<pci");
    write_pci_attributes(topo, o, o->pci_class != 0 ? o->pci_class : usual, out);
    fprintf(out, ">\n");
    if (o->type == BRAID_TOPO_GPU) {
        write_gpu(topo, id, depth + 1, out);
    } else if (o->type == BRAID_TOPO_NIC) {
        indent(out, depth + 1);
        fprintf(out, "<nic>\n");
        write_net(o, depth + 2, out);
        indent(out, depth + 1);
        fprintf(out, "</nic>\n");
    } else {
        write_below(topo, id, depth + 1, out);
    }
    indent(out, depth);
    fprintf(out, "</pci>\n");
}

static void write_below(const struct braid_topo *topo, int parent, int depth, FILE *out)
{
    const struct braid_topo_object *p = &topo->objects[parent];
    bool function =
        p->type == BRAID_TOPO_BRIDGE && p->pci_class != 0 && p->pci_class >> 8 != 0x0604;

    for (int i = 0; i < topo->object_count && depth < 40; i++) {
        const struct braid_topo_object *o = &topo->objects[i];

        if (o->parent != parent || o->busid[0] == '\0' || o->link_down)
            continue;
        if (o->type == BRAID_TOPO_NIC && function)
            continue;
        write_pci(topo, i, depth, out);
    }
    write_ports(topo, parent, depth, out);
}

int braid_topo_write_nccl_xml(const struct braid_topo *topo, FILE *out)
{
    fprintf(out, "<system version=\"1\">\n");
    for (int n = 0; n < topo->type_count[BRAID_TOPO_NUMA]; n++) {
        int id = topo->by_type[BRAID_TOPO_NUMA][n];
        const struct braid_topo_object *o = &topo->objects[id];

        fprintf(out, "  <cpu numaid=\"%d\"", o->numa_id);
        text(out, "affinity", o->cpu_affinity);
        text(out, "arch", o->cpu_arch);
        text(out, "vendor", o->cpu_vendor);
        if (o->cpu_family >= 0)
            fprintf(out, " familyid=\"%d\"", o->cpu_family);
        if (o->cpu_model >= 0)
            fprintf(out, " modelid=\"%d\"", o->cpu_model);
        fprintf(out, ">\n");
        write_below(topo, id, 2, out);
        fprintf(out, "  </cpu>\n");
    }
    fprintf(out, "</system>\n");
    return ferror(out) ? -EIO : 0;
}
