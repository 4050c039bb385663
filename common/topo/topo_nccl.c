/*
 * Reads NCCL's topology XML, as written by NCCL_TOPO_DUMP_FILE and as shipped by clouds for
 * NCCL_TOPO_FILE (those often list the PCI tree only). Elements: system, cpu, pci, gpu, nvlink, c2c,
 * nic, net; others are skipped, as NCCL does. A file of several hosts (multi-node NVLink) gives the
 * first host, the number of hosts, and the size of the NVLink domain. No state; any thread.
 */
#include "common/topo/topo_build.h"
#include "common/topo/topo_spec.h"
#include "common/topo/topo_xml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64
#define MAX_HOSTS 1024

enum element { OTHER, SYSTEM, CPU, PCI, GPU, NIC };

/* An NVLink as its GPU lists it; resolved when all GPUs are known. */
struct nvlink {
    int gpu;
    int count;
    bool to_gpu, to_cpu;
    char target[BRAID_TOPO_BUSID_LEN];
};

struct reader {
    struct braid_topo *topo;
    struct {
        enum element kind;
        int id;
    } stack[MAX_DEPTH + 1];
    int depth;
    int skip;        /* elements open below one that is skipped */
    bool other_host; /* the skipped one is the cpu of another host */
    char hosts[MAX_HOSTS][20];
    int host_count;
    int other_gpus;
    struct nvlink *nvlinks;
    int nvlink_count, nvlink_room;
};

/* An integer attribute, decimal or 0x; `missing` where there is none. */
static int int_attr(struct braid_topo_xml *xml, const char *name, long long missing, long long low,
                    long long high, long long *out)
{
    const char *text = braid_topo_xml_attr(xml, name);
    char *end;

    *out = missing;
    if (text == NULL)
        return 0;
    errno = 0;
    *out = strtoll(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || *out < low || *out > high)
        return braid_topo_xml_fail(xml,
                                   "expected a number from %lld to %lld in %s, found \"%.32s\"",
                                   low, high, name, text);
    return 0;
}

static int parent_id(const struct reader *r)
{
    return r->depth > 0 ? r->stack[r->depth - 1].id : -1;
}

static enum element parent_kind(const struct reader *r)
{
    return r->depth > 0 ? r->stack[r->depth - 1].kind : OTHER;
}

static int out_of_room(struct braid_topo_xml *xml, int rc)
{
    return rc == -ENOMEM
               ? rc
               : braid_topo_xml_fail(xml, "expected at most %d objects", BRAID_TOPO_MAX_OBJECTS);
}

static int open_system(struct braid_topo_xml *xml, struct reader *r)
{
    long long version;
    int rc = int_attr(xml, "version", -1, 0, 1000, &version);

    if (rc == 0 && version != 1)
        return braid_topo_xml_fail(xml, "expected version=\"1\" in <system>");
    return rc;
}

/* The number of this host, counting from 0 in order of appearance. */
static int host_number(struct reader *r, const char *hash)
{
    if (hash == NULL)
        hash = "";
    for (int i = 0; i < r->host_count; i++)
        if (strncmp(r->hosts[i], hash, sizeof(r->hosts[i]) - 1) == 0)
            return i;
    if (r->host_count < MAX_HOSTS)
        braid_topo_copy(r->hosts[r->host_count++], sizeof(r->hosts[0]), hash);
    return r->host_count - 1;
}

static int open_cpu(struct braid_topo_xml *xml, struct reader *r, int *id_p)
{
    static const char *const texts[] = {"arch", "vendor", "affinity"};
    struct braid_topo_object *o;
    long long numa, family, model;
    int rc = int_attr(xml, "numaid", -2, -1, 65535, &numa), id;

    if (rc == 0 && numa == -2)
        return braid_topo_xml_fail(xml, "expected numaid in <cpu>");
    rc = rc != 0 ? rc : int_attr(xml, "familyid", -1, -1, 1 << 30, &family);
    rc = rc != 0 ? rc : int_attr(xml, "modelid", -1, -1, 1 << 30, &model);
    if (rc != 0)
        return rc;
    if (host_number(r, braid_topo_xml_attr(xml, "host_hash")) != 0) {
        r->other_host = true;
        r->skip = 1;
        return 0;
    }
    id = braid_topo_add(r->topo, BRAID_TOPO_NUMA, "", "");
    if (id < 0)
        return out_of_room(xml, id);
    o = braid_topo_at(r->topo, id);
    o->numa_id = (int)numa;
    o->cpu_family = (int)family;
    o->cpu_model = (int)model;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        const char *text = braid_topo_xml_attr(xml, texts[i]);
        char *field = i == 0 ? o->cpu_arch : i == 1 ? o->cpu_vendor : o->cpu_affinity;
        size_t size = i == 0   ? sizeof(o->cpu_arch)
                      : i == 1 ? sizeof(o->cpu_vendor)
                               : sizeof(o->cpu_affinity);

        if (text != NULL)
            braid_topo_copy(field, size, text);
    }
    *id_p = id;
    return 0;
}

static enum braid_topo_type type_of_class(long long pci_class)
{
    if (pci_class >> 16 == 0x03 || pci_class >> 8 == 0x1200)
        return BRAID_TOPO_GPU;
    if (pci_class >> 8 == 0x0680)
        return BRAID_TOPO_NVSWITCH;
    return BRAID_TOPO_BRIDGE; /* switches, and whatever may hold a NIC */
}

static int attach_pci(struct braid_topo_xml *xml, struct reader *r, int id)
{
    const char *speed = braid_topo_xml_attr(xml, "link_speed");
    int gen = speed != NULL ? braid_topo_spec_pcie_gen(speed) : 0, edge;
    long long width;
    int rc = int_attr(xml, "link_width", 0, 0, 4096, &width);

    if (rc != 0)
        return rc;
    if (speed != NULL && speed[0] != '\0' && gen == 0 && strncasecmp(speed, "Unknown", 7) != 0)
        return braid_topo_xml_fail(
            xml, "expected a PCIe speed such as \"32.0 GT/s PCIe\" in link_speed, found \"%.32s\"",
            speed);
    if (braid_topo_spec_virtual_bridge(r->topo->objects[id].pci_vendor,
                                       r->topo->objects[id].pci_device))
        width = gen = 0;
    edge = braid_topo_attach(r->topo, id, parent_id(r), (int)width,
                             braid_topo_spec_pcie_lane_GBps(gen), BRAID_TOPO_FROM_NCCL_XML);
    return edge < 0 ? out_of_room(xml, edge) : 0;
}

static int open_pci(struct braid_topo_xml *xml, struct reader *r, int *id_p)
{
    const char *busid = braid_topo_xml_attr(xml, "busid");
    char clean[BRAID_TOPO_BUSID_LEN];
    long long pci_class, vendor, device, subvendor, subdevice;
    struct braid_topo_object *o;
    int rc, id;

    if (busid == NULL || !braid_topo_busid(busid, clean))
        return braid_topo_xml_fail(xml, "expected busid=\"0000:1b:00.0\" in <pci>, found \"%.32s\"",
                                   busid ? busid : "");
    rc = int_attr(xml, "class", 0, 0, 0xffffff, &pci_class);
    rc = rc != 0 ? rc : int_attr(xml, "vendor", 0, 0, 0xffff, &vendor);
    rc = rc != 0 ? rc : int_attr(xml, "device", 0, 0, 0xffff, &device);
    rc = rc != 0 ? rc : int_attr(xml, "subsystem_vendor", 0, 0, 0xffff, &subvendor);
    rc = rc != 0 ? rc : int_attr(xml, "subsystem_device", 0, 0, 0xffff, &subdevice);
    if (rc != 0)
        return rc;
    id = braid_topo_add(r->topo, type_of_class(pci_class), "", clean);
    if (id < 0)
        return out_of_room(xml, id);
    o = braid_topo_at(r->topo, id);
    o->pci_class = (uint32_t)pci_class;
    o->pci_vendor = (uint16_t)vendor;
    o->pci_device = (uint16_t)device;
    o->pci_subsystem = (uint32_t)(subvendor << 16 | subdevice);
    *id_p = id;
    return o->type == BRAID_TOPO_NVSWITCH ? 0 : attach_pci(xml, r, id);
}

static int open_gpu(struct braid_topo_xml *xml, struct reader *r)
{
    struct braid_topo_object *o;
    long long dev, sm, gdr;
    int rc = int_attr(xml, "dev", -1, -1, 4096, &dev);

    if (parent_kind(r) != PCI)
        return braid_topo_xml_fail(xml, "expected <gpu> inside <pci>");
    rc = rc != 0 ? rc : int_attr(xml, "sm", 0, 0, 1000, &sm);
    rc = rc != 0 ? rc : int_attr(xml, "gdr", 0, -1, 100, &gdr);
    if (rc != 0)
        return rc;
    o = braid_topo_at(r->topo, parent_id(r));
    if (o->uplink < 0)
        return braid_topo_xml_fail(xml, "expected <gpu> inside the <pci> of a GPU");
    o->type = BRAID_TOPO_GPU;
    o->cuda_dev = (int)dev;
    o->sm = (int)sm;
    o->gdr = gdr > 0;
    r->topo->nvlink_known = true;
    return 0;
}

static int open_nvlink(struct braid_topo_xml *xml, struct reader *r)
{
    const char *target = braid_topo_xml_attr(xml, "target");
    long long count, tclass;
    struct nvlink *link;
    int rc = int_attr(xml, "count", 1, 0, 1 << 20, &count);

    if (parent_kind(r) != GPU || target == NULL)
        return braid_topo_xml_fail(xml, "expected <nvlink target=\"..\"> inside <gpu>");
    rc = rc != 0 ? rc : int_attr(xml, "tclass", 0, 0, 0xffffff, &tclass);
    if (rc != 0)
        return rc;
    if (r->nvlink_count == r->nvlink_room) {
        int room = r->nvlink_room ? r->nvlink_room * 2 : 64;
        void *grown = room > 65536 ? NULL : realloc(r->nvlinks, (size_t)room * sizeof(*r->nvlinks));

        if (grown == NULL)
            return room > 65536 ? braid_topo_xml_fail(xml, "expected at most 65536 <nvlink>")
                                : -ENOMEM;
        r->nvlinks = grown;
        r->nvlink_room = room;
    }
    link = &r->nvlinks[r->nvlink_count++];
    memset(link, 0, sizeof(*link));
    link->gpu = parent_id(r);
    link->count = (int)count;
    link->to_gpu = tclass >> 16 == 0x03;
    link->to_cpu = tclass == 0x068001;
    if (!braid_topo_busid(target, link->target))
        link->target[0] = '\0'; /* NCCL's word for a switch that it cannot see */
    return 0;
}

static int open_c2c(struct braid_topo_xml *xml, struct reader *r)
{
    long long MBps, count;
    int rc = int_attr(xml, "bw", 0, 0, 100000000, &MBps), numa, edge;

    if (parent_kind(r) != GPU)
        return braid_topo_xml_fail(xml, "expected <c2c> inside <gpu>");
    rc = rc != 0 ? rc : int_attr(xml, "count", 1, 0, 1024, &count);
    if (rc != 0)
        return rc;
    numa = braid_topo_numa_of(r->topo, parent_id(r));
    edge = braid_topo_link(r->topo, BRAID_TOPO_LINK_C2C, parent_id(r), numa, (int)count,
                           (double)MBps / 1000, BRAID_TOPO_FROM_NCCL_XML);
    return edge < 0 ? out_of_room(xml, edge) : 0;
}

static int open_net(struct braid_topo_xml *xml, struct reader *r)
{
    const char *name = braid_topo_xml_attr(xml, "name"), *guid = braid_topo_xml_attr(xml, "guid");
    const char *latency = braid_topo_xml_attr(xml, "latency"), *end;
    long long Mbps, port, rail, connections;
    struct braid_topo_object *o, *function;
    int rc = int_attr(xml, "speed", 0, 0, 100000000, &Mbps), id, edge;

    if (parent_kind(r) != NIC)
        return braid_topo_xml_fail(xml, "expected <net> inside <nic>");
    rc = rc != 0 ? rc : int_attr(xml, "port", 0, -1, 65535, &port);
    rc = rc != 0 ? rc : int_attr(xml, "railId", -1, -1, 32767, &rail);
    rc = rc != 0 ? rc : int_attr(xml, "maxconn", 0, 0, 1 << 30, &connections);
    if (rc != 0)
        return rc;
    function = braid_topo_at(r->topo, parent_id(r));
    id = braid_topo_add(r->topo, BRAID_TOPO_NIC, name ? name : "", function->busid);
    if (id < 0)
        return out_of_room(xml, id);
    edge = braid_topo_attach(r->topo, id, parent_id(r), 0, 0, BRAID_TOPO_FROM_NOTHING);
    if (edge < 0)
        return out_of_room(xml, edge);
    o = braid_topo_at(r->topo, id);
    function = braid_topo_at(r->topo, parent_id(r));
    o->pci_vendor = function->pci_vendor;
    o->pci_device = function->pci_device;
    o->pci_class = function->pci_class;
    o->rate_Gbps = (double)Mbps / 1000;
    o->rate_from = Mbps > 0 ? BRAID_TOPO_FROM_NCCL_XML : BRAID_TOPO_FROM_NOTHING;
    o->port = MAX((int)port, 0);
    o->rail = rail < 256 ? (int)rail : -1;
    o->max_connections = (int)connections;
    if (guid != NULL)
        o->guid = strtoull(guid, NULL, 0);
    if (latency != NULL && braid_topo_number(latency, &o->latency_us, &end) != 0)
        return braid_topo_xml_fail(xml, "expected microseconds in latency, found \"%.32s\"",
                                   latency);
    return 0;
}

/* Opens an element whose parent is known to be used; *kind says what it is, *id what object. */
static int open_known(struct braid_topo_xml *xml, struct reader *r, const char *element,
                      enum element *kind, int *id)
{
    enum element parent = parent_kind(r);

    *id = parent_id(r);
    if (r->depth == 0) {
        if (strcmp(element, "system") != 0)
            return braid_topo_xml_fail(xml, "expected <system>, found <%.32s>", element);
        *kind = SYSTEM;
        return open_system(xml, r);
    }
    if (strcmp(element, "cpu") == 0 && parent == SYSTEM) {
        *kind = CPU;
        return open_cpu(xml, r, id);
    }
    if (strcmp(element, "pci") == 0 && (parent == CPU || parent == PCI)) {
        *kind = PCI;
        return open_pci(xml, r, id);
    }
    if (strcmp(element, "gpu") == 0) {
        *kind = GPU;
        return open_gpu(xml, r);
    }
    if (strcmp(element, "nic") == 0 && (parent == CPU || parent == PCI)) {
        *kind = NIC;
        return 0;
    }
    *kind = OTHER;
    if (strcmp(element, "nvlink") == 0)
        return open_nvlink(xml, r);
    if (strcmp(element, "c2c") == 0)
        return open_c2c(xml, r);
    if (strcmp(element, "net") == 0)
        return open_net(xml, r);
    if (strcmp(element, "cpu") == 0 || strcmp(element, "pci") == 0 || strcmp(element, "nic") == 0)
        return braid_topo_xml_fail(xml, "expected <%.16s> inside <%s>", element,
                                   element[0] == 'c' ? "system" : "cpu> or <pci");
    return 0;
}

static int on_open(struct braid_topo_xml *xml, void *user, const char *element)
{
    struct reader *r = user;
    enum element kind = OTHER;
    int rc, id = -1;

    if (r->skip > 0) {
        r->skip++;
        r->other_gpus += r->other_host && strcmp(element, "gpu") == 0;
        return 0;
    }
    rc = open_known(xml, r, element, &kind, &id);
    if (rc != 0)
        return rc;
    if (r->skip > 0)
        return 0;
    if (kind == OTHER) {
        r->skip = 1;
        return 0;
    }
    r->stack[r->depth].kind = kind;
    r->stack[r->depth].id = id;
    r->depth++;
    return 0;
}

static int on_close(struct braid_topo_xml *xml, void *user, const char *element)
{
    struct reader *r = user;

    if (r->skip > 0) {
        if (--r->skip == 0)
            r->other_host = false;
        return 0;
    }
    r->depth--;
    return 0;
}

static int find_busid(const struct braid_topo *topo, enum braid_topo_type type, const char *busid)
{
    for (int i = 0; i < topo->object_count; i++)
        if (topo->objects[i].type == type && strcmp(topo->objects[i].busid, busid) == 0)
            return i;
    return -1;
}

/* Both GPUs of a direct link list it; the later one is dropped. */
static bool listed_before(const struct reader *r, int index, int peer)
{
    const struct braid_topo_object *gpu = &r->topo->objects[r->nvlinks[index].gpu];

    for (int i = 0; i < index; i++)
        if (r->nvlinks[i].gpu == peer && strcmp(r->nvlinks[i].target, gpu->busid) == 0)
            return true;
    return false;
}

static int resolve_nvlink(struct reader *r, int index)
{
    const struct nvlink *link = &r->nvlinks[index];
    int peer = link->target[0] != '\0' ? find_busid(r->topo, BRAID_TOPO_GPU, link->target) : -1;

    if (r->topo->objects[link->gpu].type != BRAID_TOPO_GPU || peer == link->gpu)
        return 0;
    if (peer >= 0 && listed_before(r, index, peer))
        return 0;
    if (peer < 0 && link->to_gpu)
        return 0; /* to a GPU that this job may not use */
    if (peer < 0 && link->to_cpu)
        peer = braid_topo_numa_of(r->topo, link->gpu);
    else if (peer < 0) {
        peer = find_busid(r->topo, BRAID_TOPO_NVSWITCH, link->target);
        if (peer < 0)
            peer = braid_topo_add(r->topo, BRAID_TOPO_NVSWITCH, "nvswitch", link->target);
    }
    if (peer < 0)
        return peer;
    peer = braid_topo_link(r->topo, BRAID_TOPO_LINK_NVLINK, link->gpu, peer, link->count, 0,
                           BRAID_TOPO_FROM_SPEC);
    return MIN(peer, 0);
}

/* PCIe functions of network class without a <net>, as in files that list the PCI tree only. */
static void find_bare_nics(struct braid_topo *topo)
{
    for (int i = 0; i < topo->object_count; i++) {
        struct braid_topo_object *o = &topo->objects[i];
        bool leaf = true;

        if (o->type != BRAID_TOPO_BRIDGE || o->pci_class >> 16 != 0x02)
            continue;
        for (int j = 0; j < topo->object_count && leaf; j++)
            leaf = topo->objects[j].parent != i;
        if (leaf)
            o->type = BRAID_TOPO_NIC;
    }
}

static int settle(struct reader *r, const char *name, struct braid_topo_error *error)
{
    struct braid_topo *topo = r->topo;
    int rc = 0, gpus = 0;

    for (int i = 0; i < r->nvlink_count && rc == 0; i++)
        rc = resolve_nvlink(r, i);
    if (rc != 0)
        return braid_topo_fail(error, rc, name, 0, 0, "%s", strerror(-rc));
    find_bare_nics(topo);
    for (int i = 0; i < topo->object_count; i++)
        gpus += topo->objects[i].type == BRAID_TOPO_GPU;
    topo->nodes = MAX(r->host_count, 1);
    if (r->other_gpus > 0)
        topo->nvlink_domain = gpus + r->other_gpus;
    if (gpus == 0 && topo->object_count == 0)
        return braid_topo_fail(error, -EINVAL, name, 0, 0,
                               "expected at least one <cpu>, found none");
    return braid_topo_finish(topo, error);
}

int braid_topo_parse_nccl_xml(const char *text, size_t bytes, const char *name,
                              struct braid_topo **out, struct braid_topo_error *error)
{
    static const struct braid_topo_xml_handlers handlers = {on_open, on_close};
    struct reader *r = calloc(1, sizeof(*r));
    int rc = -ENOMEM;

    if (r != NULL)
        r->topo = braid_topo_new("nccl-xml");
    if (r == NULL || r->topo == NULL) {
        free(r);
        return braid_topo_fail(error, -ENOMEM, name, 0, 0, "out of memory");
    }
    rc = braid_topo_xml_parse(text, bytes, name, &handlers, r, error);
    if (rc == -ENOMEM)
        braid_topo_fail(error, rc, name, 0, 0, "out of memory");
    if (rc == 0)
        rc = settle(r, name, error);
    if (rc == 0)
        *out = r->topo;
    else
        braid_topo_destroy(r->topo);
    free(r->nvlinks);
    free(r);
    return rc;
}

int braid_topo_load_nccl_xml(const char *path, struct braid_topo **out,
                             struct braid_topo_error *error)
{
    char *text;
    size_t bytes;
    int rc = braid_topo_slurp(path, &text, &bytes, error);

    if (rc != 0)
        return rc;
    rc = braid_topo_parse_nccl_xml(text, bytes, path, out, error);
    free(text);
    return rc;
}
