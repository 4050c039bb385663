/*
 * From what a loader collected to a topology that can be queried: simplify the graph, fill in what
 * is unknown, put everything in an order that does not depend on the source, build the indexes.
 * Called once by each loader; nothing changes after it.
 *
 * A PCIe switch shows up in a system as one upstream and several downstream bridges, and every
 * slot of the root complex as a bridge of its own. Bridges with a single child share nothing, so
 * they are taken out and the narrower of the two links stays; what is left is the switches.
 */
#include "common/topo/topo_build.h"
#include "common/topo/topo_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Marks in the map from old to new ids. */
enum { GONE = -1 };

static int only_child(const struct braid_topo *topo, int id, int *children_p)
{
    int child = -1, children = 0;

    for (int i = 0; i < topo->object_count; i++)
        if (topo->objects[i].parent == id) {
            child = i;
            children++;
        }
    *children_p = children;
    return child;
}

static void copy_bandwidth(struct braid_topo_edge *to, const struct braid_topo_edge *from)
{
    to->lanes = from->lanes;
    to->lane_GBps = from->lane_GBps;
    to->each_way_GBps = from->each_way_GBps;
    to->bandwidth_from = from->bandwidth_from;
}

/* Takes bridge `id` out between `child` and its parent. The child's edge stays, with the narrower numbers. */
static void splice(struct braid_topo *topo, int id, int child)
{
    struct braid_topo_object *bridge = &topo->objects[id];
    struct braid_topo_edge *down = &topo->edges[topo->objects[child].uplink];

    if (bridge->uplink >= 0) {
        const struct braid_topo_edge *up = &topo->edges[bridge->uplink];

        if (up->each_way_GBps > 0 &&
            (down->each_way_GBps <= 0 || up->each_way_GBps < down->each_way_GBps))
            copy_bandwidth(down, up);
    }
    down->b = bridge->parent;
    topo->objects[child].parent = bridge->parent;
    if (bridge->parent < 0)
        topo->objects[child].uplink = -1;
}

/* Sets gone[] for bridges that lead nowhere or to one child. */
static void collapse_bridges(struct braid_topo *topo, bool *gone)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = topo->object_count - 1; i >= 0; i--) { /* children first */
            int children, child;

            if (gone[i] || topo->objects[i].type != BRAID_TOPO_BRIDGE)
                continue;
            child = only_child(topo, i, &children);
            if (children > 1)
                continue;
            if (children == 1)
                splice(topo, i, child);
            topo->objects[i].parent = -1;
            gone[i] = again = true;
        }
    }
}

static int switch_kind(const struct braid_topo_object *o, int level)
{
    return o->type == BRAID_TOPO_BRIDGE ? braid_topo_spec_two_level_switch(
                                              o->pci_vendor, o->pci_device, o->pci_subsystem, level)
                                        : 0;
}

/* Takes the lower level of two-level switches out: what hangs below it hangs on the upper one. */
static void flatten_switches(struct braid_topo *topo, bool *gone)
{
    for (int top = 0; top < topo->object_count; top++) {
        int kind = gone[top] ? 0 : switch_kind(&topo->objects[top], 0);

        for (int low = 0; low < topo->object_count && kind != 0; low++) {
            if (topo->objects[low].parent != top || switch_kind(&topo->objects[low], 1) != kind)
                continue;
            for (int i = 0; i < topo->object_count; i++)
                if (topo->objects[i].parent == low) {
                    topo->objects[i].parent = -2 - top; /* not a child of `top` for this loop */
                    topo->edges[topo->objects[i].uplink].b = top;
                }
            topo->objects[low].parent = -1;
            gone[low] = true;
        }
        for (int i = 0; i < topo->object_count && kind != 0; i++)
            if (topo->objects[i].parent == -2 - top)
                topo->objects[i].parent = top;
    }
}

/* A bridge whose children are functions of one device, or ports of one function, is no switch. */
static void mark_switches(struct braid_topo *topo)
{
    for (int i = 0; i < topo->object_count; i++) {
        const char *device = NULL;

        if (topo->objects[i].type != BRAID_TOPO_BRIDGE)
            continue;
        for (int j = 0; j < topo->object_count; j++) {
            const char *busid = topo->objects[j].busid;
            size_t length = strlen(busid);

            if (topo->objects[j].parent != i)
                continue;
            if (length < 2 || (device != NULL && strncmp(device, busid, length - 1) != 0))
                topo->objects[i].is_switch = true;
            device = busid;
        }
    }
}

/* The link above a device of several functions is the one that each function describes. */
static void narrow_shared_links(struct braid_topo *topo)
{
    for (int i = 0; i < topo->object_count; i++) {
        const struct braid_topo_edge *widest = NULL;

        if (topo->objects[i].type != BRAID_TOPO_BRIDGE || topo->objects[i].is_switch ||
            topo->objects[i].uplink < 0)
            continue;
        for (int e = 0; e < topo->edge_count; e++)
            if (topo->edges[e].type == BRAID_TOPO_LINK_PCIE && topo->edges[e].b == i &&
                (widest == NULL || topo->edges[e].each_way_GBps > widest->each_way_GBps))
                widest = &topo->edges[e];
        if (widest != NULL && widest->each_way_GBps > 0 &&
            widest->each_way_GBps < topo->edges[topo->objects[i].uplink].each_way_GBps)
            copy_bandwidth(&topo->edges[topo->objects[i].uplink], widest);
    }
}

/* All NVSwitches become the first one. */
static void join_nvswitches(struct braid_topo *topo, bool *gone)
{
    int first = -1, chips = 0;

    for (int i = 0; i < topo->object_count; i++) {
        if (topo->objects[i].type != BRAID_TOPO_NVSWITCH)
            continue;
        chips++;
        if (first < 0) {
            first = i;
            continue;
        }
        gone[i] = true;
        for (int e = 0; e < topo->edge_count; e++) {
            struct braid_topo_edge *edge = &topo->edges[e];

            if (edge->type != BRAID_TOPO_LINK_NVLINK)
                continue;
            edge->a = edge->a == i ? first : edge->a;
            edge->b = edge->b == i ? first : edge->b;
        }
    }
    if (first < 0)
        return;
    if (topo->objects[first].chips == 0 && topo->objects[first].busid[0] != '\0')
        topo->objects[first].chips = chips;
    if (chips > 1)
        topo->objects[first].busid[0] = '\0';
    topo->objects[first].parent = topo->objects[first].uplink = -1;
    braid_topo_copy(topo->objects[first].name, BRAID_TOPO_NAME_LEN, "nvswitch");
}

/* Adds up NVLink edges of the same pair, drops edges to itself and to what is gone, renumbers. */
static void compact_edges(struct braid_topo *topo, const int *new_id)
{
    int kept = 0;

    for (int i = 0; i < topo->object_count; i++)
        topo->objects[i].uplink = -1;
    for (int e = 0; e < topo->edge_count; e++) {
        struct braid_topo_edge edge = topo->edges[e];
        int same = kept;

        edge.a = edge.a < 0 ? GONE : new_id[edge.a];
        edge.b = edge.b < 0 ? GONE : new_id[edge.b];
        if (edge.a == GONE || edge.b == GONE || edge.a == edge.b)
            continue;
        if (edge.type == BRAID_TOPO_LINK_NVLINK)
            for (same = 0; same < kept; same++) {
                const struct braid_topo_edge *k = &topo->edges[same];

                if (k->type == edge.type &&
                    ((k->a == edge.a && k->b == edge.b) || (k->a == edge.b && k->b == edge.a)))
                    break;
            }
        if (same < kept) {
            topo->edges[same].lanes += edge.lanes;
            topo->edges[same].each_way_GBps += edge.each_way_GBps;
            continue;
        }
        topo->edges[kept] = edge;
        if (edge.type == BRAID_TOPO_LINK_PCIE)
            topo->objects[edge.a].uplink = kept;
        kept++;
    }
    topo->edge_count = kept;
}

/* Before or after: by type, then by number or bus id, then as the source listed them. */
static int compare_objects(const struct braid_topo *topo, int left, int right)
{
    const struct braid_topo_object *a = &topo->objects[left], *b = &topo->objects[right];
    int order;

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->type == BRAID_TOPO_NUMA && a->numa_id != b->numa_id)
        return a->numa_id < b->numa_id ? -1 : 1;
    if (a->type == BRAID_TOPO_RAIL && a->rail != b->rail)
        return a->rail < b->rail ? -1 : 1;
    /* A domain has four digits or more, so shorter bus ids come first; those without one last. */
    order = (int)strlen(a->busid) - (int)strlen(b->busid);
    if (a->busid[0] == '\0' || b->busid[0] == '\0')
        order = -order;
    if (order == 0)
        order = strcmp(a->busid, b->busid);
    if (order == 0)
        order = a->port - b->port;
    return order != 0 ? order : left - right;
}

static void sort_ids(const struct braid_topo *topo, int *ids, int count)
{
    for (int i = 1; i < count; i++) {
        int id = ids[i], j = i;

        for (; j > 0 && compare_objects(topo, ids[j - 1], id) > 0; j--)
            ids[j] = ids[j - 1];
        ids[j] = id;
    }
}

static int order_objects(struct braid_topo *topo, const bool *gone)
{
    int count = 0;
    int *ids = calloc((size_t)topo->object_count + 1, sizeof(*ids));
    int *new_id = calloc((size_t)topo->object_count + 1, sizeof(*new_id));
    struct braid_topo_object *moved =
        calloc((size_t)topo->object_count + 1, sizeof(*topo->objects));
    int index[BRAID_TOPO_TYPES] = {0};

    if (ids == NULL || new_id == NULL || moved == NULL) {
        free(ids);
        free(new_id);
        free(moved);
        return -ENOMEM;
    }
    for (int i = 0; i < topo->object_count; i++)
        if (!gone[i])
            ids[count++] = i;
    sort_ids(topo, ids, count);
    for (int i = 0; i < topo->object_count; i++)
        new_id[i] = GONE;
    for (int i = 0; i < count; i++)
        new_id[ids[i]] = i;
    for (int i = 0; i < count; i++) {
        moved[i] = topo->objects[ids[i]];
        moved[i].index = index[moved[i].type]++;
        if (moved[i].parent >= 0)
            moved[i].parent = new_id[moved[i].parent];
    }
    memcpy(topo->objects, moved, (size_t)count * sizeof(*moved));
    topo->object_count = count;
    compact_edges(topo, new_id);
    free(moved);
    free(new_id);
    free(ids);
    return 0;
}

/* Every device hangs on some NUMA node; a source that knows none gets one. */
static int root_everything(struct braid_topo *topo)
{
    int first = -1;

    for (int i = 0; i < topo->object_count && first < 0; i++)
        if (topo->objects[i].type == BRAID_TOPO_NUMA)
            first = i;
    if (first < 0) {
        first = braid_topo_add(topo, BRAID_TOPO_NUMA, "", "");
        if (first < 0)
            return first;
        topo->objects[first].numa_id = 0;
    }
    for (int i = 0; i < topo->object_count; i++) {
        enum braid_topo_type type = topo->objects[i].type;
        int edge;

        if (topo->objects[i].parent >= 0 || type == BRAID_TOPO_NUMA ||
            type == BRAID_TOPO_NVSWITCH || type == BRAID_TOPO_RAIL)
            continue;
        edge = braid_topo_attach(topo, i, first, 0, 0, BRAID_TOPO_FROM_NOTHING);
        if (edge < 0)
            return edge;
    }
    return 0;
}

static void name_objects(struct braid_topo *topo)
{
    static const char *const stem[BRAID_TOPO_TYPES] = {
        [BRAID_TOPO_NUMA] = "numa", [BRAID_TOPO_BRIDGE] = "pciswitch", [BRAID_TOPO_GPU] = "gpu",
        [BRAID_TOPO_NIC] = "nic",   [BRAID_TOPO_RAIL] = "rail",
    };

    for (int i = 0; i < topo->object_count; i++) {
        struct braid_topo_object *o = &topo->objects[i];
        int number = o->type == BRAID_TOPO_NUMA && o->numa_id >= 0 ? o->numa_id : o->index;
        bool taken = o->name[0] == '\0';

        if (o->type == BRAID_TOPO_NVSWITCH)
            continue;
        if (o->type == BRAID_TOPO_BRIDGE && !o->is_switch) {
            snprintf(o->name, sizeof(o->name), "pcidev%d", o->index);
            continue;
        }
        for (int j = 0; j < i && !taken && o->type == BRAID_TOPO_NIC; j++)
            taken = strcmp(topo->objects[j].name, o->name) == 0;
        if (taken || o->type != BRAID_TOPO_NIC)
            snprintf(o->name, sizeof(o->name), "%s%d", stem[o->type], number);
    }
}

static void fill_gpus(struct braid_topo *topo)
{
    for (int i = 0; i < topo->object_count; i++) {
        struct braid_topo_object *o = &topo->objects[i];
        const struct braid_topo_gpu_spec *spec;

        if (o->type != BRAID_TOPO_GPU)
            continue;
        spec = braid_topo_spec_gpu(o->pci_device);
        if (spec != NULL && o->model[0] == '\0')
            braid_topo_copy(o->model, sizeof(o->model), spec->model);
        if (spec == NULL && o->model[0] != '\0')
            spec = braid_topo_spec_model(o->model);
        if (spec != NULL && o->sm == 0)
            o->sm = spec->sm;
    }
}

/* Port rate and kind of network by part number, where the source left them out. */
static void fill_nics(struct braid_topo *topo)
{
    for (int i = 0; i < topo->object_count; i++) {
        struct braid_topo_object *o = &topo->objects[i];

        if (o->type != BRAID_TOPO_NIC)
            continue;
        if (o->rate_Gbps <= 0) {
            o->rate_Gbps = braid_topo_spec_nic_Gbps(o->pci_vendor, o->pci_device);
            o->rate_from = o->rate_Gbps > 0 ? BRAID_TOPO_FROM_SPEC : BRAID_TOPO_FROM_NOTHING;
        }
        if (o->net_kind[0] == '\0')
            braid_topo_copy(o->net_kind, sizeof(o->net_kind),
                            braid_topo_spec_net_kind(o->pci_vendor, o->pci_device, o->pci_class));
    }
}

static const struct braid_topo_gpu_spec *spec_of(const struct braid_topo_object *gpu)
{
    const struct braid_topo_gpu_spec *spec = braid_topo_spec_gpu(gpu->pci_device);

    return spec != NULL ? spec : braid_topo_spec_model(gpu->model);
}

/*
 * Files that list only the PCI tree leave NVLink to detection on the machine. Boards from Ampere on
 * that carry NVLink without a bridge are always wired to NVSwitches, so the part number tells.
 */
static int add_nvlinks_by_part(struct braid_topo *topo)
{
    int gpus = 0, nvswitch;

    if (topo->nvlink_known)
        return 0;
    for (int e = 0; e < topo->edge_count; e++)
        if (topo->edges[e].type == BRAID_TOPO_LINK_NVLINK)
            return 0;
    for (int i = 0; i < topo->object_count; i++) {
        const struct braid_topo_gpu_spec *spec;

        if (topo->objects[i].type != BRAID_TOPO_GPU)
            continue;
        spec = spec_of(&topo->objects[i]);
        if (spec == NULL || spec->sm < 80 || spec->nvlinks == 0)
            return 0;
        gpus++;
    }
    if (gpus < 2)
        return 0;
    for (nvswitch = topo->object_count - 1; nvswitch >= 0; nvswitch--)
        if (topo->objects[nvswitch].type == BRAID_TOPO_NVSWITCH)
            break;
    if (nvswitch < 0)
        nvswitch = braid_topo_add(topo, BRAID_TOPO_NVSWITCH, "nvswitch", "");
    if (nvswitch < 0)
        return nvswitch;
    for (int i = 0; i < topo->object_count; i++) {
        const struct braid_topo_gpu_spec *spec;
        int edge;

        if (topo->objects[i].type != BRAID_TOPO_GPU)
            continue;
        spec = spec_of(&topo->objects[i]);
        edge = braid_topo_link(topo, BRAID_TOPO_LINK_NVLINK, i, nvswitch, spec->nvlinks,
                               spec->nvlink_GBps, BRAID_TOPO_FROM_SPEC);
        if (edge < 0)
            return edge;
    }
    return 0;
}

static void set_bandwidth(struct braid_topo_edge *edge, int lanes, double lane_GBps,
                          enum braid_topo_source from)
{
    edge->lanes = lanes;
    edge->lane_GBps = lane_GBps;
    edge->each_way_GBps = lanes * lane_GBps;
    edge->bandwidth_from = edge->each_way_GBps > 0 ? from : BRAID_TOPO_FROM_NOTHING;
}

/* A PCIe link that no source described: by the part, by what the port needs, or by what hangs below. */
static void fill_pcie(struct braid_topo *topo, struct braid_topo_edge *edge)
{
    const struct braid_topo_object *low = &topo->objects[edge->a];
    int lanes = edge->lanes > 0 ? edge->lanes : 16;
    double widest = 0;

    if (low->type == BRAID_TOPO_GPU) {
        const struct braid_topo_gpu_spec *spec = spec_of(low);
        int gen = spec != NULL                    ? spec->pcie_gen
                  : low->sm >= 90 || low->sm == 0 ? 5
                  : low->sm >= 80                 ? 4
                                                  : 3;

        set_bandwidth(edge, lanes, braid_topo_spec_pcie_lane_GBps(gen), BRAID_TOPO_FROM_DEFAULT);
        return;
    }
    if (low->type == BRAID_TOPO_NIC && low->rate_Gbps > 0)
        for (int gen = 3; gen <= 6; gen++)
            if (gen == 6 || lanes * braid_topo_spec_pcie_lane_GBps(gen) >= low->rate_Gbps / 8) {
                set_bandwidth(edge, lanes, braid_topo_spec_pcie_lane_GBps(gen),
                              BRAID_TOPO_FROM_DEFAULT);
                return;
            }
    if (low->type != BRAID_TOPO_BRIDGE)
        return;
    for (int e = 0; e < topo->edge_count; e++) {
        const struct braid_topo_edge *below = &topo->edges[e];

        if (below->type == BRAID_TOPO_LINK_PCIE && below->b == edge->a &&
            below->each_way_GBps > widest) {
            widest = below->each_way_GBps;
            set_bandwidth(edge, below->lanes, below->lane_GBps, BRAID_TOPO_FROM_DEFAULT);
        }
    }
}

static void fill_edges(struct braid_topo *topo)
{
    for (int e = 0; e < topo->edge_count; e++) {
        struct braid_topo_edge *edge = &topo->edges[e];
        const struct braid_topo_object *a = &topo->objects[edge->a], *b = &topo->objects[edge->b];
        int sm = a->type == BRAID_TOPO_GPU ? a->sm : b->sm;

        if (edge->each_way_GBps > 0)
            continue;
        if (edge->type == BRAID_TOPO_LINK_NVLINK && edge->lanes > 0)
            set_bandwidth(edge, edge->lanes, braid_topo_spec_nvlink_GBps(sm), BRAID_TOPO_FROM_SPEC);
        else if (edge->type == BRAID_TOPO_LINK_C2C)
            set_bandwidth(edge, 1, 450, BRAID_TOPO_FROM_SPEC); /* 900 GB/s, GH200 data sheet */
        else if (edge->type == BRAID_TOPO_LINK_CPU)
            set_bandwidth(edge, 1, braid_topo_spec_cpu_link_GBps(a->cpu_vendor),
                          BRAID_TOPO_FROM_DEFAULT);
    }
    /* From the leaves up, so that a bridge sees what its children got; depth is small. */
    for (int round = 0; round < 8; round++)
        for (int e = 0; e < topo->edge_count; e++)
            if (topo->edges[e].type == BRAID_TOPO_LINK_PCIE && topo->edges[e].each_way_GBps <= 0)
                fill_pcie(topo, &topo->edges[e]);
}

static int add_cpu_links(struct braid_topo *topo)
{
    for (int e = 0; e < topo->edge_count; e++)
        if (topo->edges[e].type == BRAID_TOPO_LINK_CPU)
            return 0;
    for (int i = 0; i < topo->object_count; i++)
        for (int j = i + 1; j < topo->object_count; j++) {
            int edge;

            if (topo->objects[i].type != BRAID_TOPO_NUMA ||
                topo->objects[j].type != BRAID_TOPO_NUMA)
                continue;
            edge = braid_topo_link(topo, BRAID_TOPO_LINK_CPU, i, j, 0, 0, BRAID_TOPO_FROM_NOTHING);
            if (edge < 0)
                return edge;
        }
    return 0;
}

/*
 * NICs that name no rail get one each in bus order, as clusters are cabled: the k-th NIC of every
 * node on the k-th leaf switch.
 */
static int add_rails(struct braid_topo *topo)
{
    int rails = 0, nics = topo->object_count, rail_id[256];

    for (int i = 0; i < nics; i++) {
        struct braid_topo_object *nic = &topo->objects[i];

        if (nic->type != BRAID_TOPO_NIC || nic->link_down)
            continue;
        if (nic->rail < 0)
            nic->rail = rails;
        if (nic->rail >= (int)ARRAY_SIZE(rail_id))
            return -E2BIG;
        rails = MAX(rails, nic->rail + 1);
    }
    for (int r = 0; r < rails; r++) {
        rail_id[r] = braid_topo_add(topo, BRAID_TOPO_RAIL, "", "");
        if (rail_id[r] < 0)
            return rail_id[r];
        topo->objects[rail_id[r]].rail = topo->objects[rail_id[r]].index = r;
    }
    for (int i = 0; i < nics; i++) {
        const struct braid_topo_object *nic = &topo->objects[i];
        int edge;

        if (nic->type != BRAID_TOPO_NIC || nic->link_down)
            continue;
        edge = braid_topo_link(topo, BRAID_TOPO_LINK_NET, i, rail_id[nic->rail], 1,
                               nic->rate_Gbps / 8, nic->rate_from);
        if (edge < 0)
            return edge;
        if (nic->latency_us > 0) {
            topo->edges[edge].latency_us = nic->latency_us;
            topo->edges[edge].latency_from = BRAID_TOPO_FROM_NCCL_XML;
        }
    }
    return 0;
}

static int build_indexes(struct braid_topo *topo)
{
    int objects = topo->object_count, edges = topo->edge_count;
    int *fill;

    for (int type = 0; type < BRAID_TOPO_TYPES; type++) {
        topo->by_type[type] = calloc((size_t)objects + 1, sizeof(int));
        if (topo->by_type[type] == NULL)
            return -ENOMEM;
    }
    topo->first_edge = calloc((size_t)objects + 2, sizeof(int));
    topo->edge_of = calloc((size_t)edges * 2 + 1, sizeof(int));
    fill = calloc((size_t)objects + 1, sizeof(int));
    if (topo->first_edge == NULL || topo->edge_of == NULL || fill == NULL) {
        free(fill);
        return -ENOMEM;
    }
    for (int i = 0; i < objects; i++) {
        enum braid_topo_type type = topo->objects[i].type;

        topo->by_type[type][topo->type_count[type]++] = i;
    }
    for (int e = 0; e < edges; e++) {
        topo->first_edge[topo->edges[e].a + 1]++;
        topo->first_edge[topo->edges[e].b + 1]++;
    }
    for (int i = 0; i < objects; i++)
        topo->first_edge[i + 1] += topo->first_edge[i];
    for (int e = 0; e < edges; e++) {
        int a = topo->edges[e].a, b = topo->edges[e].b;

        topo->edge_of[topo->first_edge[a] + fill[a]++] = e;
        topo->edge_of[topo->first_edge[b] + fill[b]++] = e;
    }
    free(fill);
    return 0;
}

int braid_topo_finish(struct braid_topo *topo, struct braid_topo_error *error)
{
    bool *gone = NULL;
    int rc = root_everything(topo);

    if (rc == 0) {
        gone = calloc((size_t)topo->object_count + 1, sizeof(*gone));
        rc = gone == NULL ? -ENOMEM : 0;
    }
    if (rc == 0) {
        collapse_bridges(topo, gone);
        flatten_switches(topo, gone);
        join_nvswitches(topo, gone);
        rc = order_objects(topo, gone);
    }
    free(gone);
    if (rc == 0) {
        fill_gpus(topo);
        fill_nics(topo);
        rc = add_nvlinks_by_part(topo);
    }
    if (rc == 0)
        rc = add_cpu_links(topo);
    if (rc == 0)
        rc = add_rails(topo);
    if (rc == 0) {
        mark_switches(topo);
        narrow_shared_links(topo);
        name_objects(topo);
        fill_edges(topo);
        rc = build_indexes(topo);
    }
    if (rc == 0)
        rc = braid_topo_share_nics(topo);
    if (rc == -E2BIG)
        return braid_topo_fail(error, rc, topo->origin, 0, 0,
                               "more than %d objects, %d links or 256 rails in one node",
                               BRAID_TOPO_MAX_OBJECTS, BRAID_TOPO_MAX_EDGES);
    if (rc != 0)
        return braid_topo_fail(error, rc, topo->origin, 0, 0, "%s", strerror(-rc));
    return 0;
}
