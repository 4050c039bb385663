/*
 * The live source's first part: NUMA nodes, the PCI tree above GPUs, NVSwitches and network
 * adapters, port rates and link states, all from sysfs. A PCI link's speed is the lower maximum of
 * its two ends, as the current speed drops while a GPU idles; its width is the current one.
 */
#include "common/topo/topo_live.h"
#include "common/topo/topo_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PATH 512

struct walk {
    struct braid_topo *topo;
    struct braid_topo_files *files;
    struct braid_topo_notes *notes;
};

static int find_object(const struct braid_topo *topo, const char *busid)
{
    for (int i = 0; i < topo->object_count; i++)
        if (strcmp(topo->objects[i].busid, busid) == 0)
            return i;
    return -1;
}

static int find_numa(const struct braid_topo *topo, long numa_id)
{
    int first = -1;

    for (int i = 0; i < topo->object_count; i++) {
        if (topo->objects[i].type != BRAID_TOPO_NUMA)
            continue;
        if (topo->objects[i].numa_id == numa_id)
            return i;
        first = first < 0 ? i : first;
    }
    return first;
}

/* The value behind "key<tab>: " at the start of a line of cpuinfo; "" if there is none. */
static void cpuinfo_value(const char *text, const char *key, char *out, size_t size)
{
    size_t length = strlen(key);

    out[0] = '\0';
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *next = strchr(line, '\n'), *value = line + length;

        if (strncmp(line, key, length) == 0 && (*value == '\t' || *value == ' ' || *value == ':')) {
            value += strspn(value, "\t :");
            snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
            return;
        }
        line = next != NULL ? next + 1 : NULL;
    }
}

static void read_cpu(struct walk *w, struct braid_topo_object *cpu)
{
    char text[400], value[64], *end; /* what is wanted comes first */

    cpu->cpu_family = cpu->cpu_model = -1;
    if (braid_topo_files_read(w->files, "proc/cpuinfo", text, sizeof(text)) != 0)
        return;
    if ((end = strstr(text, "\n\n")) != NULL)
        *end = '\0'; /* the first processor stands for all */
    cpuinfo_value(text, "vendor_id", value, sizeof(value));
    if (value[0] != '\0') {
        braid_topo_copy(cpu->cpu_vendor, sizeof(cpu->cpu_vendor), value);
        braid_topo_copy(cpu->cpu_arch, sizeof(cpu->cpu_arch), "x86_64");
        cpuinfo_value(text, "cpu family", value, sizeof(value));
        cpu->cpu_family = value[0] != '\0' ? atoi(value) : -1;
        cpuinfo_value(text, "model", value, sizeof(value));
        cpu->cpu_model = value[0] != '\0' ? atoi(value) : -1;
        return;
    }
    cpuinfo_value(text, "CPU implementer", value, sizeof(value));
    if (value[0] != '\0') {
        braid_topo_copy(cpu->cpu_arch, sizeof(cpu->cpu_arch), "arm64");
        braid_topo_copy(cpu->cpu_vendor, sizeof(cpu->cpu_vendor),
                        strcmp(value, "0x41") == 0 ? "ARM" : "");
    }
}

static int add_numa(struct walk *w, long numa_id, const struct braid_topo_object *cpu)
{
    int id = braid_topo_add(w->topo, BRAID_TOPO_NUMA, "", "");
    struct braid_topo_object *o;
    char path[PATH];

    if (id < 0)
        return id;
    o = braid_topo_at(w->topo, id);
    o->numa_id = (int)numa_id;
    o->cpu_family = cpu->cpu_family;
    o->cpu_model = cpu->cpu_model;
    memcpy(o->cpu_vendor, cpu->cpu_vendor, sizeof(o->cpu_vendor));
    memcpy(o->cpu_arch, cpu->cpu_arch, sizeof(o->cpu_arch));
    snprintf(path, sizeof(path), "devices/system/node/node%ld/cpumap", numa_id);
    braid_topo_files_read(w->files, path, o->cpu_affinity, sizeof(o->cpu_affinity));
    return 0;
}

/* NUMA nodes with processors; memory of GPUs (Grace Hopper) shows up as nodes without. */
static int add_numa_nodes(struct walk *w)
{
    struct braid_topo_object cpu = {0};
    char *names, path[PATH], list[64];
    int rc;

    read_cpu(w, &cpu);
    if (braid_topo_files_list(w->files, "devices/system/node", &names) != 0)
        return add_numa(w, 0, &cpu);
    rc = 0;
    for (const char *name = names; *name != '\0' && rc == 0; name += strlen(name) + 1) {
        if (strncmp(name, "node", 4) != 0 || name[4] < '0' || name[4] > '9')
            continue;
        snprintf(path, sizeof(path), "devices/system/node/%.60s/cpulist", name);
        if (braid_topo_files_read(w->files, path, list, sizeof(list)) == 0 && list[0] != '\0')
            rc = add_numa(w, strtol(name + 4, NULL, 10), &cpu);
    }
    free(names);
    if (rc == 0 && w->topo->object_count == 0)
        rc = add_numa(w, 0, &cpu);
    return rc;
}

static int read_gen(struct walk *w, const char *folder)
{
    char path[PATH], text[64];

    snprintf(path, sizeof(path), "%.400s/max_link_speed", folder);
    if (braid_topo_files_read(w->files, path, text, sizeof(text)) != 0)
        return 0;
    return braid_topo_spec_pcie_gen(text);
}

/*
 * `folder` is below devices/ and ends in the device's bus id; its parent folder is the port above,
 * whose speed counts unless it is an emulated one.
 */
static void read_link(struct walk *w, const char *folder, bool ask_port, int *lanes,
                      double *lane_GBps)
{
    int gen = read_gen(w, folder), above = 0;
    char path[PATH], port[PATH], *slash;
    long width;

    braid_topo_copy(port, sizeof(port), folder);
    slash = strrchr(port, '/');
    if (slash != NULL && ask_port) {
        *slash = '\0';
        above = read_gen(w, port);
    }
    if (above > 0)
        gen = gen > 0 ? MIN(gen, above) : above;
    snprintf(path, sizeof(path), "%.400s/current_link_width", folder);
    width = braid_topo_files_int(w->files, path, 0);
    if (width <= 0 || width > 32) {
        snprintf(path, sizeof(path), "%.400s/max_link_width", folder);
        width = braid_topo_files_int(w->files, path, 0);
    }
    *lanes = width > 0 && width <= 32 ? (int)width : 0;
    *lane_GBps = braid_topo_spec_pcie_lane_GBps(gen);
}

static void read_ids(struct walk *w, int id, const char *folder)
{
    char path[PATH];

    snprintf(path, sizeof(path), "%.400s/vendor", folder);
    w->topo->objects[id].pci_vendor = (uint16_t)braid_topo_files_int(w->files, path, 0);
    snprintf(path, sizeof(path), "%.400s/device", folder);
    w->topo->objects[id].pci_device = (uint16_t)braid_topo_files_int(w->files, path, 0);
    if (w->topo->objects[id].type != BRAID_TOPO_BRIDGE)
        return;
    snprintf(path, sizeof(path), "%.400s/subsystem_vendor", folder);
    w->topo->objects[id].pci_subsystem = (uint32_t)braid_topo_files_int(w->files, path, 0) << 16;
    snprintf(path, sizeof(path), "%.400s/subsystem_device", folder);
    w->topo->objects[id].pci_subsystem |=
        (uint32_t)braid_topo_files_int(w->files, path, 0) & 0xffff;
}

static bool is_virtual(const struct braid_topo *topo, int id)
{
    return braid_topo_spec_virtual_bridge(topo->objects[id].pci_vendor,
                                          topo->objects[id].pci_device);
}

/* Adds one device of the chain below `parent`; bridges that are there already are reused. */
static int add_device(struct walk *w, enum braid_topo_type type, const char *busid,
                      const char *folder, int parent)
{
    int id = find_object(w->topo, busid), lanes = 0, edge;
    double lane_GBps = 0;

    if (id >= 0)
        return id;
    id = braid_topo_add(w->topo, type, "", busid);
    if (id < 0)
        return id;
    read_ids(w, id, folder);
    if (type == BRAID_TOPO_NVSWITCH)
        return id;
    if (type == BRAID_TOPO_BRIDGE)
        braid_topo_at(w->topo, id)->pci_class = 0x060400;
    if (type != BRAID_TOPO_BRIDGE || !is_virtual(w->topo, id))
        read_link(w, folder, !is_virtual(w->topo, parent), &lanes, &lane_GBps);
    edge = braid_topo_attach(w->topo, id, parent, lanes, lane_GBps, BRAID_TOPO_FROM_SYSFS);
    return edge < 0 ? edge : id;
}

/*
 * Adds a PCI function with the bridges above it; `link` is where bus/pci/devices/<busid> points:
 * "../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0". Returns its id.
 */
static int add_chain(struct walk *w, enum braid_topo_type type, const char *busid, const char *link)
{
    const char *from = strstr(link, "devices/");
    char folder[PATH], path[PATH], part[BRAID_TOPO_BUSID_LEN];
    int parent, id = -ENOENT;

    snprintf(path, sizeof(path), "bus/pci/devices/%s/numa_node", busid);
    parent = find_numa(w->topo, braid_topo_files_int(w->files, path, -1));
    if (from == NULL || strlen(from) >= sizeof(folder))
        return -EINVAL;
    for (const char *p = strchr(from + 8, '/'); p != NULL; p = strchr(p + 1, '/')) {
        const char *end = strchr(p + 1, '/');
        size_t length = end != NULL ? (size_t)(end - from) : strlen(from);
        bool last;
        char word[64];

        snprintf(word, sizeof(word), "%.*s", (int)(length - (size_t)(p + 1 - from)), p + 1);
        if (!braid_topo_busid(word, part))
            continue;
        snprintf(folder, sizeof(folder), "%.*s", (int)length, from);
        last = strcmp(part, busid) == 0;
        id = add_device(w, last ? type : BRAID_TOPO_BRIDGE, part, folder, parent);
        if (id < 0 || last)
            return id;
        parent = id;
    }
    return id < 0 ? id : -EINVAL;
}

static int add_function(struct walk *w, enum braid_topo_type type, const char *busid,
                        long pci_class)
{
    char path[PATH], link[PATH];
    int id;

    snprintf(path, sizeof(path), "bus/pci/devices/%s", busid);
    if (braid_topo_files_link(w->files, path, link, sizeof(link)) != 0)
        return -ENOENT;
    id = add_chain(w, type, busid, link);
    if (id < 0)
        return id;
    braid_topo_at(w->topo, id)->pci_class = (uint32_t)pci_class & 0xffffff;
    return id;
}

/* GPUs and NVSwitches of NVIDIA. */
static int add_gpus(struct walk *w)
{
    char *names, path[PATH];
    int rc = braid_topo_files_list(w->files, "bus/pci/devices", &names);

    if (rc != 0) {
        braid_topo_note(w->notes, "sysfs shows no PCI devices (%s)", strerror(-rc));
        return 0;
    }
    for (const char *name = names; *name != '\0' && rc >= 0; name += strlen(name) + 1) {
        long pci_class;

        snprintf(path, sizeof(path), "bus/pci/devices/%.60s/class", name);
        pci_class = braid_topo_files_int(w->files, path, 0);
        if (pci_class >> 16 != 0x03 && pci_class >> 8 != 0x0680)
            continue;
        snprintf(path, sizeof(path), "bus/pci/devices/%.60s/vendor", name);
        if (braid_topo_files_int(w->files, path, 0) != 0x10de)
            continue;
        rc = add_function(w, pci_class >> 16 == 0x03 ? BRAID_TOPO_GPU : BRAID_TOPO_NVSWITCH, name,
                          pci_class);
        if (rc == -ENOENT || rc == -EINVAL)
            rc = 0;
    }
    free(names);
    return MIN(rc, 0);
}

/* The bus id of the last PCI function in a class link; false for a virtual device. */
static bool function_of(const char *link, char busid[BRAID_TOPO_BUSID_LEN])
{
    bool found = false;

    for (const char *p = strchr(link, '/'); p != NULL; p = strchr(p + 1, '/')) {
        char word[64];

        snprintf(word, sizeof(word), "%.*s", (int)strcspn(p + 1, "/"), p + 1);
        found |= braid_topo_busid(word, busid);
    }
    return found;
}

/* Where a port hangs: its PCI function, made a carrier of several ports, or the first NUMA node. */
static int carrier_of(struct walk *w, const char *link, char busid[BRAID_TOPO_BUSID_LEN])
{
    char path[PATH];
    int id;

    busid[0] = '\0';
    if (!function_of(link, busid))
        return find_numa(w->topo, 0);
    snprintf(path, sizeof(path), "bus/pci/devices/%s/class", busid);
    id = add_function(w, BRAID_TOPO_BRIDGE, busid, braid_topo_files_int(w->files, path, 0x020000));
    return id;
}

static int add_port(struct walk *w, int carrier, const char *name, const char *busid)
{
    int id = braid_topo_add(w->topo, BRAID_TOPO_NIC, name, busid), edge;
    struct braid_topo_object *o, *function;

    if (id < 0)
        return id;
    edge = braid_topo_attach(w->topo, id, carrier, 0, 0, BRAID_TOPO_FROM_NOTHING);
    if (edge < 0)
        return edge;
    o = braid_topo_at(w->topo, id);
    function = braid_topo_at(w->topo, carrier);
    o->pci_vendor = function->pci_vendor;
    o->pci_device = function->pci_device;
    o->pci_class = function->pci_class;
    return id;
}

/* "400 Gb/sec (4X NDR)". */
static double parse_rate_Gbps(const char *text)
{
    const char *end;
    double value;

    if (braid_topo_number(text, &value, &end) != 0 || strncmp(end, " Gb/sec", 7) != 0)
        return 0;
    return value <= 100000 ? value : 0;
}

static void read_ib_port(struct walk *w, struct braid_topo_object *o, const char *device,
                         const char *port)
{
    char path[PATH], text[64];

    o->port = atoi(port);
    snprintf(path, sizeof(path), "class/infiniband/%.60s/ports/%.16s/rate", device, port);
    if (braid_topo_files_read(w->files, path, text, sizeof(text)) == 0)
        o->rate_Gbps = parse_rate_Gbps(text);
    o->rate_from = o->rate_Gbps > 0 ? BRAID_TOPO_FROM_SYSFS : BRAID_TOPO_FROM_NOTHING;
    snprintf(path, sizeof(path), "class/infiniband/%.60s/ports/%.16s/state", device, port);
    if (braid_topo_files_read(w->files, path, text, sizeof(text)) == 0)
        o->link_down = strstr(text, "ACTIVE") == NULL;
    snprintf(path, sizeof(path), "class/infiniband/%.60s/ports/%.16s/link_layer", device, port);
    if (braid_topo_files_read(w->files, path, text, sizeof(text)) != 0)
        return;
    if (o->pci_vendor == 0x1d0f)
        braid_topo_copy(o->net_kind, sizeof(o->net_kind), "efa");
    else if (strcmp(text, "InfiniBand") == 0)
        braid_topo_copy(o->net_kind, sizeof(o->net_kind), "ib");
    else if (strcmp(text, "Ethernet") == 0)
        braid_topo_copy(o->net_kind, sizeof(o->net_kind), "roce");
}

/* Virtual functions whose physical one is here too would count its port twice. */
static bool is_virtual_function(struct walk *w, const char *link)
{
    char path[PATH], busid[BRAID_TOPO_BUSID_LEN], target[PATH];

    if (!function_of(link, busid))
        return false;
    snprintf(path, sizeof(path), "bus/pci/devices/%s/physfn", busid);
    return braid_topo_files_link(w->files, path, target, sizeof(target)) == 0;
}

static int add_ib_device(struct walk *w, const char *device, int *up)
{
    char path[PATH], link[PATH], busid[BRAID_TOPO_BUSID_LEN], *ports;
    int carrier, rc = 0;

    snprintf(path, sizeof(path), "class/infiniband/%.60s", device);
    if (braid_topo_files_link(w->files, path, link, sizeof(link)) != 0 ||
        is_virtual_function(w, link))
        return 0;
    carrier = carrier_of(w, link, busid);
    if (carrier < 0)
        return carrier == -E2BIG || carrier == -ENOMEM ? carrier : 0;
    snprintf(path, sizeof(path), "class/infiniband/%.60s/ports", device);
    if (braid_topo_files_list(w->files, path, &ports) != 0)
        return 0;
    for (const char *port = ports; *port != '\0' && rc >= 0; port += strlen(port) + 1) {
        char name[BRAID_TOPO_NAME_LEN];
        bool single = port[strlen(port) + 1] == '\0' && port == ports;

        snprintf(name, sizeof(name), single ? "%.24s" : "%.24s:%.8s", device, port);
        rc = add_port(w, carrier, name, busid);
        if (rc >= 0) {
            read_ib_port(w, braid_topo_at(w->topo, rc), device, port);
            *up += !braid_topo_at(w->topo, rc)->link_down;
        }
    }
    free(ports);
    return MIN(rc, 0);
}

static int add_ib(struct walk *w, int *up)
{
    char *names;
    int rc = 0;

    if (braid_topo_files_list(w->files, "class/infiniband", &names) != 0)
        return 0;
    for (const char *name = names; *name != '\0' && rc == 0; name += strlen(name) + 1)
        rc = add_ib_device(w, name, up);
    free(names);
    return rc;
}

static int add_net_device(struct walk *w, const char *name)
{
    char path[PATH], link[PATH], state[32], busid[BRAID_TOPO_BUSID_LEN];
    struct braid_topo_object *o;
    int carrier, id;
    long Mbps;

    snprintf(path, sizeof(path), "class/net/%.60s", name);
    if (braid_topo_files_link(w->files, path, link, sizeof(link)) != 0 ||
        !function_of(link, busid) || is_virtual_function(w, link))
        return 0;
    snprintf(path, sizeof(path), "bus/pci/devices/%s/class", busid);
    if (braid_topo_files_int(w->files, path, 0) >> 8 != 0x0200)
        return 0; /* wireless */
    snprintf(path, sizeof(path), "class/net/%.60s/operstate", name);
    if (braid_topo_files_read(w->files, path, state, sizeof(state)) != 0 ||
        strcmp(state, "up") != 0)
        return 0;
    carrier = carrier_of(w, link, busid);
    if (carrier < 0)
        return carrier == -E2BIG || carrier == -ENOMEM ? carrier : 0;
    id = add_port(w, carrier, name, busid);
    if (id < 0)
        return id;
    snprintf(path, sizeof(path), "class/net/%.60s/speed", name);
    Mbps = braid_topo_files_int(w->files, path, 0);
    o = braid_topo_at(w->topo, id);
    o->rate_Gbps = Mbps > 0 && Mbps < 100000000 ? (double)Mbps / 1000 : 0;
    o->rate_from = o->rate_Gbps > 0 ? BRAID_TOPO_FROM_SYSFS : BRAID_TOPO_FROM_NOTHING;
    o->port = 1;
    braid_topo_copy(o->net_kind, sizeof(o->net_kind), "eth");
    return 0;
}

static int add_net(struct walk *w)
{
    char *names;
    int rc = 0;

    if (braid_topo_files_list(w->files, "class/net", &names) != 0)
        return 0;
    for (const char *name = names; *name != '\0' && rc == 0; name += strlen(name) + 1)
        rc = add_net_device(w, name);
    free(names);
    return rc;
}

int braid_topo_sysfs(struct braid_topo *topo, struct braid_topo_files *files,
                     struct braid_topo_notes *notes)
{
    struct walk w = {topo, files, notes};
    int up = 0, rc = add_numa_nodes(&w);

    if (rc == 0)
        rc = add_gpus(&w);
    if (rc == 0)
        rc = add_ib(&w, &up);
    if (rc == 0 && up == 0)
        rc = add_net(&w); /* plain Ethernet counts only where no RDMA port is up */
    return rc;
}
