/*
 * hwloc's view of a machine: NUMA nodes, PCI bridges and devices, names of network devices, and the
 * NVLinkBandwidth matrix of builds with NVML. hwloc is opened at run time; its header (2.x) gives the
 * types. Limits of what it tells: PCIe speeds are the current ones (low while a GPU idles) and without
 * a lane count; port rates are missing; releases before 2.12 skip NVLink 4 and newer.
 */
#include "common/dl.h"
#include "common/topo/topo_live.h"
#include "common/topo/topo_spec.h"

#include <errno.h>
#include <hwloc.h>
#include <hwloc/distances.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct hwloc {
    unsigned (*version)(void);
    int (*init)(hwloc_topology_t *topology);
    void (*destroy)(hwloc_topology_t topology);
    int (*set_xml)(hwloc_topology_t topology, const char *path);
    int (*set_io)(hwloc_topology_t topology, enum hwloc_type_filter_e filter);
    int (*load)(hwloc_topology_t topology);
    int (*depth)(hwloc_topology_t topology, hwloc_obj_type_t type);
    hwloc_obj_t (*object)(hwloc_topology_t topology, int depth, unsigned index);
    int (*is_set)(hwloc_const_bitmap_t bitmap, unsigned bit);
    int (*is_zero)(hwloc_const_bitmap_t bitmap);
    int (*distances)(hwloc_topology_t topology, const char *name, unsigned *count,
                     struct hwloc_distances_s **out, unsigned long flags);
    void (*release)(hwloc_topology_t topology, struct hwloc_distances_s *distances);
};

static const struct braid_dl_symbol symbols[] = {
    BRAID_DL_SYMBOL(struct hwloc, version, hwloc_get_api_version),
    BRAID_DL_SYMBOL(struct hwloc, init, hwloc_topology_init),
    BRAID_DL_SYMBOL(struct hwloc, destroy, hwloc_topology_destroy),
    BRAID_DL_SYMBOL(struct hwloc, set_xml, hwloc_topology_set_xml),
    BRAID_DL_SYMBOL(struct hwloc, set_io, hwloc_topology_set_io_types_filter),
    BRAID_DL_SYMBOL(struct hwloc, load, hwloc_topology_load),
    BRAID_DL_SYMBOL(struct hwloc, depth, hwloc_get_type_depth),
    BRAID_DL_SYMBOL(struct hwloc, object, hwloc_get_obj_by_depth),
    BRAID_DL_SYMBOL(struct hwloc, is_set, hwloc_bitmap_isset),
    BRAID_DL_SYMBOL(struct hwloc, is_zero, hwloc_bitmap_iszero),
    BRAID_DL_OPTIONAL(struct hwloc, distances, hwloc_distances_get_by_name),
    BRAID_DL_OPTIONAL(struct hwloc, release, hwloc_distances_release),
};

struct reading {
    struct hwloc lib;
    hwloc_topology_t source;
    struct braid_topo *topo;
};

static const char *info(const struct hwloc_obj *object, const char *name)
{
    for (unsigned i = 0; i < object->infos_count; i++)
        if (strcmp(object->infos[i].name, name) == 0 && object->infos[i].value != NULL)
            return object->infos[i].value;
    return "";
}

/* An info of the object or of what it is in. */
static const char *info_above(const struct hwloc_obj *object, const char *name)
{
    const char *text = "";

    for (; object != NULL && text[0] == '\0'; object = object->parent)
        text = info(object, name);
    return text;
}

static int add_numa_nodes(struct reading *r)
{
    hwloc_obj_t node;

    for (unsigned i = 0; (node = r->lib.object(r->source, HWLOC_TYPE_DEPTH_NUMANODE, i)) != NULL;
         i++) {
        struct braid_topo_object *o;
        int id;

        if (node->cpuset != NULL && r->lib.is_zero(node->cpuset))
            continue; /* memory of a GPU */
        id = braid_topo_add(r->topo, BRAID_TOPO_NUMA, "", "");
        if (id < 0)
            return id;
        o = braid_topo_at(r->topo, id);
        o->numa_id = (int)node->os_index;
        braid_topo_copy(o->cpu_vendor, sizeof(o->cpu_vendor), info_above(node, "CPUVendor"));
        braid_topo_copy(o->cpu_arch, sizeof(o->cpu_arch), info_above(node, "Architecture"));
        if (info_above(node, "CPUFamilyNumber")[0] != '\0')
            o->cpu_family = atoi(info_above(node, "CPUFamilyNumber"));
        if (info_above(node, "CPUModelNumber")[0] != '\0')
            o->cpu_model = atoi(info_above(node, "CPUModelNumber"));
    }
    return 0;
}

/* The NUMA object whose memory is nearest to an I/O object. */
static int numa_of(const struct reading *r, const struct hwloc_obj *object)
{
    int first = -1;

    while (object != NULL && object->nodeset == NULL)
        object = object->parent;
    for (int i = 0; i < r->topo->object_count; i++) {
        const struct braid_topo_object *o = &r->topo->objects[i];

        if (o->type != BRAID_TOPO_NUMA)
            continue;
        if (object != NULL && r->lib.is_set(object->nodeset, (unsigned)o->numa_id))
            return i;
        first = first < 0 ? i : first;
    }
    return first;
}

/* A total rate split into lanes: the widest link of a known generation that gives it within 4 %. */
static void split_rate(double GBps, int *lanes, double *lane_GBps)
{
    *lanes = 0;
    *lane_GBps = 0;
    for (int width = 16; width >= 1 && GBps > 0; width /= 2)
        for (int gen = 6; gen >= 1; gen--)
            if (fabs(GBps - width * braid_topo_spec_pcie_lane_GBps(gen)) < 0.04 * GBps) {
                *lanes = width;
                *lane_GBps = braid_topo_spec_pcie_lane_GBps(gen);
                return;
            }
    if (GBps > 0) {
        *lanes = 1;
        *lane_GBps = GBps;
    }
}

static const struct hwloc_pcidev_attr_s *pci_of(const struct hwloc_obj *object)
{
    if (object->type == HWLOC_OBJ_PCI_DEVICE)
        return &object->attr->pcidev;
    if (object->type == HWLOC_OBJ_BRIDGE &&
        object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
        return &object->attr->bridge.upstream.pci;
    return NULL;
}

static void busid_of(const struct hwloc_pcidev_attr_s *pci, char out[BRAID_TOPO_BUSID_LEN])
{
    snprintf(out, BRAID_TOPO_BUSID_LEN, "%04x:%02x:%02x.%x", pci->domain & 0xffffff, pci->bus,
             pci->dev & 0x1f, pci->func & 7);
}

/* The first network device below a PCI function, OpenFabrics before others; NULL: none. */
static const struct hwloc_obj *network_of(const struct hwloc_obj *function)
{
    const struct hwloc_obj *best = NULL;

    for (const struct hwloc_obj *c = function->io_first_child; c != NULL; c = c->next_sibling) {
        if (c->type != HWLOC_OBJ_OS_DEVICE || c->attr == NULL || c->name == NULL)
            continue;
        if (c->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            return c;
        if (c->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && best == NULL)
            best = c;
    }
    return best;
}

static bool type_of(const struct hwloc_obj *object, const struct hwloc_pcidev_attr_s *pci,
                    enum braid_topo_type *type)
{
    if (object->type == HWLOC_OBJ_BRIDGE)
        *type = BRAID_TOPO_BRIDGE;
    else if (pci->class_id >> 8 == 0x03 && pci->vendor_id == 0x10de)
        *type = BRAID_TOPO_GPU;
    else if (pci->class_id == 0x0680 && pci->vendor_id == 0x10de)
        *type = BRAID_TOPO_NVSWITCH;
    else if (pci->class_id >> 8 == 0x02 && network_of(object) != NULL)
        *type = BRAID_TOPO_NIC;
    else
        return false;
    return true;
}

static int add_pci(struct reading *r, const struct hwloc_obj *object, int parent)
{
    const struct hwloc_pcidev_attr_s *pci = pci_of(object);
    const struct hwloc_obj *network = network_of(object);
    char busid[BRAID_TOPO_BUSID_LEN];
    struct braid_topo_object *o;
    enum braid_topo_type type;
    double lane_GBps;
    int id, lanes, edge = 0;

    if (!type_of(object, pci, &type))
        return -ENOENT;
    busid_of(pci, busid);
    id = braid_topo_add(r->topo, type, type == BRAID_TOPO_NIC ? network->name : "", busid);
    if (id < 0)
        return id;
    split_rate((double)pci->linkspeed, &lanes, &lane_GBps);
    if (type != BRAID_TOPO_NVSWITCH)
        edge = braid_topo_attach(r->topo, id, parent, lanes, lane_GBps, BRAID_TOPO_FROM_HWLOC);
    o = braid_topo_at(r->topo, id);
    o->pci_class = (uint32_t)pci->class_id << 8;
    o->pci_vendor = pci->vendor_id;
    o->pci_device = pci->device_id;
    o->pci_subsystem = (uint32_t)pci->subvendor_id << 16 | pci->subdevice_id;
    if (type == BRAID_TOPO_NIC) {
        const char *state = info(network, "Port1State"); /* 4 is active */

        o->port = 1;
        o->link_down = state[0] != '\0' && strcmp(state, "4") != 0;
    }
    return edge < 0 ? edge : id;
}

/* I/O objects below `object`; `parent` is the nearest one above that was added, -1: none. */
static int walk_io(struct reading *r, const struct hwloc_obj *object, int parent, int depth)
{
    int rc = 0;

    if (depth > 64)
        return 0;
    for (const struct hwloc_obj *c = object->io_first_child; c != NULL && rc >= 0;
         c = c->next_sibling) {
        int here = parent >= 0 ? parent : numa_of(r, c);

        if (pci_of(c) != NULL) {
            rc = add_pci(r, c, here);
            here = rc >= 0 ? rc : here;
            rc = rc == -ENOENT ? 0 : rc;
        }
        if (rc >= 0)
            rc = walk_io(r, c, c->type == HWLOC_OBJ_BRIDGE && pci_of(c) == NULL ? -1 : here,
                         depth + 1);
    }
    return MIN(rc, 0);
}

static int walk(struct reading *r, const struct hwloc_obj *object, int depth)
{
    int rc = walk_io(r, object, -1, 0);

    for (unsigned i = 0; i < object->arity && rc == 0 && depth < 256; i++)
        rc = walk(r, object->children[i], depth + 1);
    return rc;
}

/* The GPU or NVSwitch that a row of the matrix stands for; -1: something else. */
static int object_of_row(const struct reading *r, const struct hwloc_obj *object)
{
    char busid[BRAID_TOPO_BUSID_LEN];

    while (object != NULL && object->type != HWLOC_OBJ_PCI_DEVICE)
        object = object->type == HWLOC_OBJ_OS_DEVICE ? object->parent : NULL;
    if (object == NULL)
        return -1;
    busid_of(&object->attr->pcidev, busid);
    for (int i = 0; i < r->topo->object_count; i++)
        if (strcmp(r->topo->objects[i].busid, busid) == 0)
            return i;
    return -1;
}

static int add_nvlink(struct reading *r, int a, int b, double GBps)
{
    const struct braid_topo_object *gpu =
        r->topo->objects[a].type == BRAID_TOPO_GPU ? &r->topo->objects[a] : &r->topo->objects[b];
    const struct braid_topo_gpu_spec *spec = braid_topo_spec_gpu(gpu->pci_device);
    double lane = spec != NULL ? braid_topo_spec_nvlink_GBps(spec->sm) : 25;
    int links = lane > 0 ? MAX(1, (int)lround(GBps / lane)) : 1;
    int edge = braid_topo_link(r->topo, BRAID_TOPO_LINK_NVLINK, a, b, links, GBps / links,
                               BRAID_TOPO_FROM_HWLOC);

    return MIN(edge, 0);
}

static int add_nvlinks(struct reading *r)
{
    struct hwloc_distances_s *matrix = NULL;
    unsigned count = 1;
    int rc = 0;

    if (r->lib.distances == NULL || r->lib.release == NULL ||
        r->lib.distances(r->source, "NVLinkBandwidth", &count, &matrix, 0) != 0 || count == 0 ||
        matrix == NULL)
        return 0;
    r->topo->nvlink_known = true;
    for (unsigned i = 0; i < matrix->nbobjs && rc == 0; i++)
        for (unsigned j = i + 1; j < matrix->nbobjs && rc == 0; j++) {
            int a = object_of_row(r, matrix->objs[i]), b = object_of_row(r, matrix->objs[j]);
            hwloc_uint64_t MBps = matrix->values[i * matrix->nbobjs + j];

            if (a >= 0 && b >= 0 && a != b && MBps > 0)
                rc = add_nvlink(r, a, b, (double)MBps / 1000);
        }
    r->lib.release(r->source, matrix);
    return rc;
}

static int open_library(struct hwloc *lib, const char *name, struct braid_topo_error *error)
{
    static const char *const names[] = {"libhwloc.so.15", NULL};
    char why[128] = "";
    int rc = braid_dl_open(names, symbols, ARRAY_SIZE(symbols), lib, why, sizeof(why));

    if (rc != 0)
        return braid_topo_fail(error, -ENOSYS, name, 0, 0,
                               "needs libhwloc.so.15 (package libhwloc15 or hwloc-libs): %s", why);
    if (lib->version() >> 16 != HWLOC_API_VERSION >> 16)
        return braid_topo_fail(error, -ENOSYS, name, 0, 0,
                               "expected hwloc %d, found interface 0x%x", HWLOC_API_VERSION >> 16,
                               lib->version());
    return 0;
}

int braid_topo_hwloc(struct braid_topo *topo, const char *xml_path, struct braid_topo_error *error)
{
    const char *name = xml_path != NULL ? xml_path : "hwloc";
    struct reading r = {.topo = topo};
    int rc = open_library(&r.lib, name, error);

    if (rc != 0)
        return rc;
    if (r.lib.init(&r.source) != 0)
        return braid_topo_fail(error, -ENOMEM, name, 0, 0, "hwloc cannot be initialised");
    if (xml_path != NULL && r.lib.set_xml(r.source, xml_path) != 0)
        rc = braid_topo_fail(error, errno == ENOENT ? -ENOENT : -EINVAL, name, 0, 0,
                             "expected the output of lstopo --of xml (%s)", strerror(errno));
    if (rc == 0) {
        r.lib.set_io(r.source, HWLOC_TYPE_FILTER_KEEP_ALL);
        if (r.lib.load(r.source) != 0)
            rc = braid_topo_fail(
                error, -EINVAL, name, 0, 0,
                "expected the output of lstopo --of xml, which hwloc could not read");
    }
    if (rc == 0) {
        rc = add_numa_nodes(&r);
        if (rc == 0)
            rc = walk(&r, r.lib.object(r.source, 0, 0), 0);
        if (rc == 0)
            rc = add_nvlinks(&r);
        if (rc != 0)
            braid_topo_fail(error, rc, name, 0, 0, "%s", strerror(-rc));
    }
    r.lib.destroy(r.source);
    return rc;
}

int braid_topo_load_hwloc_xml(const char *path, struct braid_topo **out,
                              struct braid_topo_error *error)
{
    struct braid_topo *topo = braid_topo_new("hwloc-xml");
    int rc;

    if (topo == NULL)
        return braid_topo_fail(error, -ENOMEM, path, 0, 0, "out of memory");
    rc = braid_topo_hwloc(topo, path, error);
    if (rc == 0)
        rc = braid_topo_finish(topo, error);
    if (rc != 0) {
        braid_topo_destroy(topo);
        return rc;
    }
    *out = topo;
    return 0;
}
