/*
 * The live source's second part: NVML, opened at run time. It knows what sysfs does not: which
 * NVLinks are up, how fast, to whom, the compute capability, and the multi-node domain. What it says
 * is kept as plain data (struct braid_topo_nvml), which a capture can also fill.
 * The declarations below are those of NVML's public, stable interface; only what is used.
 */
#include "common/dl.h"
#include "common/topo/topo_live.h"
#include "common/topo/topo_spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS  256
#define MAX_LINKS 40

enum {
    NVML_LINK_COUNT_FIELD_SPEED = 90, /* MB/s of an active NVLink, one way, with encoding */
    NVML_FIELD_LINK_SPEED = 164,      /* the same by link */
    NVML_FIELD_LINK_STATE = 165,
    NVML_FIELD_C2C_COUNT = 170,
    NVML_FIELD_C2C_STATUS = 171,
    NVML_FIELD_C2C_MBPS = 172,
    NVML_REMOTE_GPU = 0,
    NVML_REMOTE_CPU = 1,
    NVML_REMOTE_SWITCH = 2,
    NVML_FABRIC_COMPLETED = 3,
};

struct nvml_pci {
    char legacy_busid[16];
    unsigned int domain, bus, device, pci_device, pci_subsystem;
    char busid[32];
};

struct nvml_field {
    unsigned int field, scope;
    long long timestamp, latency_us;
    int type;
    int rc;
    union {
        double number;
        unsigned int count;
        unsigned long long large;
    } value;
};

struct nvml_fabric { /* version 2 */
    unsigned int version;
    unsigned char cluster[16];
    int status;
    unsigned int clique;
    unsigned char state;
    unsigned int health;
};

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int rc);
    int (*count)(unsigned int *count);
    int (*device)(unsigned int index, void **device);
    int (*pci)(void *device, struct nvml_pci *pci);
    int (*name)(void *device, char *name, unsigned int size);
    int (*capability)(void *device, int *major, int *minor);
    int (*pcie_gen)(void *device, unsigned int *gen);
    int (*pcie_width)(void *device, unsigned int *width);
    int (*link_state)(void *device, unsigned int link, int *active);
    int (*link_version)(void *device, unsigned int link, unsigned int *version);
    int (*link_remote_pci)(void *device, unsigned int link, struct nvml_pci *pci);
    int (*link_remote_type)(void *device, unsigned int link, int *type);
    int (*link_capability)(void *device, unsigned int link, int capability, unsigned int *yes);
    int (*fields)(void *device, int count, struct nvml_field *fields);
    int (*fabric)(void *device, struct nvml_fabric *fabric);
};

static const struct braid_dl_symbol symbols[] = {
    BRAID_DL_SYMBOL(struct nvml, init, nvmlInit_v2),
    BRAID_DL_SYMBOL(struct nvml, shutdown, nvmlShutdown),
    BRAID_DL_SYMBOL(struct nvml, error, nvmlErrorString),
    BRAID_DL_SYMBOL(struct nvml, count, nvmlDeviceGetCount_v2),
    BRAID_DL_SYMBOL(struct nvml, device, nvmlDeviceGetHandleByIndex_v2),
    BRAID_DL_SYMBOL(struct nvml, pci, nvmlDeviceGetPciInfo_v3),
    BRAID_DL_OPTIONAL(struct nvml, name, nvmlDeviceGetName),
    BRAID_DL_OPTIONAL(struct nvml, capability, nvmlDeviceGetCudaComputeCapability),
    BRAID_DL_OPTIONAL(struct nvml, pcie_gen, nvmlDeviceGetMaxPcieLinkGeneration),
    BRAID_DL_OPTIONAL(struct nvml, pcie_width, nvmlDeviceGetMaxPcieLinkWidth),
    BRAID_DL_OPTIONAL(struct nvml, link_state, nvmlDeviceGetNvLinkState),
    BRAID_DL_OPTIONAL(struct nvml, link_version, nvmlDeviceGetNvLinkVersion),
    BRAID_DL_OPTIONAL(struct nvml, link_remote_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2),
    BRAID_DL_OPTIONAL(struct nvml, link_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType),
    BRAID_DL_OPTIONAL(struct nvml, link_capability, nvmlDeviceGetNvLinkCapability),
    BRAID_DL_OPTIONAL(struct nvml, fields, nvmlDeviceGetFieldValues),
    BRAID_DL_OPTIONAL(struct nvml, fabric, nvmlDeviceGetGpuFabricInfoV),
};

struct braid_topo_nvml_gpu *braid_topo_nvml_add(struct braid_topo_nvml *nvml)
{
    struct braid_topo_nvml_gpu *grown;

    if (nvml->count >= MAX_GPUS)
        return NULL;
    grown = realloc(nvml->gpus, (size_t)(nvml->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return NULL;
    nvml->gpus = grown;
    grown += nvml->count++;
    memset(grown, 0, sizeof(*grown));
    grown->index = grown->pci_device = grown->sm = grown->pcie_gen = grown->pcie_width = -1;
    grown->link_MBps = grown->link_version = grown->c2c_links = grown->c2c_MBps = -1;
    return grown;
}

void braid_topo_nvml_free(struct braid_topo_nvml *nvml)
{
    free(nvml->gpus);
    memset(nvml, 0, sizeof(*nvml));
}

/* One field; false where NVML does not have it. */
static bool field(const struct nvml *n, void *device, unsigned int id, unsigned int scope,
                  unsigned int *out)
{
    struct nvml_field f = {.field = id, .scope = scope};

    if (n->fields == NULL || n->fields(device, 1, &f) != 0 || f.rc != 0)
        return false;
    *out = f.value.count;
    return true;
}

static bool link_is_up(const struct nvml *n, void *device, unsigned int link)
{
    unsigned int can_p2p = 0, up;
    int active = 0;

    /* Asking for the capability trains links that are still asleep. */
    if (n->link_capability != NULL)
        n->link_capability(device, link, 0, &can_p2p);
    if (n->link_state != NULL && n->link_state(device, link, &active) == 0)
        return active == 1;
    return field(n, device, NVML_FIELD_LINK_STATE, link, &up) && up == 1;
}

/* The peer behind a link; a switch that this system cannot see has no bus id. */
static void ask_peer(const struct nvml *n, void *device, unsigned int link,
                     struct braid_topo_nvml_gpu *gpu)
{
    char busid[BRAID_TOPO_BUSID_LEN] = "", type = 's';
    struct nvml_pci pci = {.busid = ""};
    int remote, i = 0;

    if (n->link_remote_pci != NULL && n->link_remote_pci(device, link, &pci) == 0) {
        pci.busid[sizeof(pci.busid) - 1] = '\0';
        if (!braid_topo_busid(pci.busid, busid))
            busid[0] = '\0';
    }
    if (n->link_remote_type != NULL && n->link_remote_type(device, link, &remote) == 0)
        type = remote == NVML_REMOTE_GPU ? 'g' : remote == NVML_REMOTE_CPU ? 'c' : 's';
    else if (busid[0] != '\0')
        type = '?'; /* found out when all GPUs are known */
    while (i < gpu->peers && (gpu->peer[i].type != type || strcmp(gpu->peer[i].busid, busid) != 0))
        i++;
    if (i == BRAID_TOPO_NVML_PEERS)
        return;
    if (i == gpu->peers) {
        gpu->peers++;
        gpu->peer[i].type = type;
        memcpy(gpu->peer[i].busid, busid, sizeof(busid));
    }
    gpu->peer[i].links++;
}

static void ask_links(const struct nvml *n, void *device, struct braid_topo_nvml_gpu *gpu)
{
    unsigned int value;

    for (unsigned int link = 0; link < MAX_LINKS; link++) {
        if (!link_is_up(n, device, link))
            continue;
        ask_peer(n, device, link, gpu);
        if (gpu->link_version < 0 && n->link_version != NULL &&
            n->link_version(device, link, &value) == 0)
            gpu->link_version = (int)value;
        if (gpu->link_MBps <= 0 && field(n, device, NVML_FIELD_LINK_SPEED, link, &value))
            gpu->link_MBps = (int)value;
    }
    if (gpu->peers > 0 && gpu->link_MBps <= 0 &&
        field(n, device, NVML_LINK_COUNT_FIELD_SPEED, 0, &value))
        gpu->link_MBps = (int)value;
}

static void ask_c2c(const struct nvml *n, void *device, struct braid_topo_nvml_gpu *gpu)
{
    unsigned int links, up, MBps;

    if (!field(n, device, NVML_FIELD_C2C_COUNT, 0, &links) || links == 0 || links > 64)
        return;
    gpu->c2c_links = 0;
    for (unsigned int link = 0; link < links; link++)
        if (field(n, device, NVML_FIELD_C2C_STATUS, link, &up) && up == 1 &&
            field(n, device, NVML_FIELD_C2C_MBPS, link, &MBps)) {
            gpu->c2c_links++;
            gpu->c2c_MBps = (int)MBps;
        }
}

static void ask_fabric(const struct nvml *n, void *device, struct braid_topo_nvml_gpu *gpu)
{
    struct nvml_fabric fabric = {.version = (unsigned int)sizeof(fabric) | 2u << 24};
    char *p = gpu->fabric;
    bool zero = true;

    if (n->fabric == NULL || n->fabric(device, &fabric) != 0 ||
        fabric.state != NVML_FABRIC_COMPLETED || fabric.status != 0)
        return;
    for (int i = 0; i < 16; i++)
        zero &= fabric.cluster[i] == 0;
    if (zero) /* a single node with NVSwitch has a domain without a name */
        return;
    for (int i = 0; i < 16; i++)
        p += sprintf(p, "%02x", fabric.cluster[i]);
    snprintf(p, 7, ".%u", fabric.clique % 100000);
}

static int ask_gpu(const struct nvml *n, unsigned int index, struct braid_topo_nvml *out,
                   struct braid_topo_notes *notes)
{
    struct braid_topo_nvml_gpu *gpu;
    struct nvml_pci pci = {.busid = ""};
    unsigned int value;
    int rc, major, minor;
    void *device;

    rc = n->device(index, &device);
    if (rc == 0)
        rc = n->pci(device, &pci);
    if (rc != 0) {
        braid_topo_note(notes, "NVML cannot tell about GPU %u (%s); it is left out", index,
                        n->error(rc));
        return 0;
    }
    gpu = braid_topo_nvml_add(out);
    if (gpu == NULL)
        return -ENOMEM;
    pci.busid[sizeof(pci.busid) - 1] = '\0';
    if (!braid_topo_busid(pci.busid, gpu->busid))
        snprintf(gpu->busid, sizeof(gpu->busid), "%04x:%02x:%02x.0", pci.domain & 0xffffff,
                 pci.bus & 0xff, pci.device & 0x1f);
    gpu->index = (int)index;
    gpu->pci_device = (int)(pci.pci_device >> 16);
    if (n->name != NULL && n->name(device, gpu->name, sizeof(gpu->name)) != 0)
        gpu->name[0] = '\0';
    if (n->capability != NULL && n->capability(device, &major, &minor) == 0)
        gpu->sm = major * 10 + minor;
    if (n->pcie_gen != NULL && n->pcie_gen(device, &value) == 0)
        gpu->pcie_gen = (int)value;
    if (n->pcie_width != NULL && n->pcie_width(device, &value) == 0)
        gpu->pcie_width = (int)value;
    ask_links(n, device, gpu);
    ask_c2c(n, device, gpu);
    ask_fabric(n, device, gpu);
    return 0;
}

int braid_topo_nvml_ask(struct braid_topo_nvml *out, const char *path,
                        struct braid_topo_notes *notes)
{
    const char *names[] = {path != NULL && path[0] != '\0' ? path : "libnvidia-ml.so.1", NULL};
    struct nvml n = {0};
    unsigned int count = 0;
    char why[128] = "";
    int rc = braid_dl_open(names, symbols, ARRAY_SIZE(symbols), &n, why, sizeof(why));

    memset(out, 0, sizeof(*out));
    if (rc != 0) {
        braid_topo_note(notes, "no NVML (%s): NVLink is known by part number only", why);
        return rc;
    }
    rc = n.init();
    if (rc == 0) {
        rc = n.count(&count);
        out->present = rc == 0;
        if (rc != 0)
            n.shutdown();
    }
    if (rc != 0) {
        braid_topo_note(notes, "NVML does not work here (%s): NVLink is known by part number only",
                        n.error(rc));
        return -EIO;
    }
    for (unsigned int i = 0; i < count && rc == 0; i++)
        rc = ask_gpu(&n, i, out, notes);
    n.shutdown();
    if (rc != 0)
        braid_topo_nvml_free(out);
    return rc;
}

/*
 * NVML gives the signalling rate (26.562 GB/s for NVLink 4). The model wants what is left after
 * encoding, so a rate near a known one is that one.
 */
static double link_GBps(const struct braid_topo_nvml_gpu *gpu)
{
    static const double by_version[] = {0, 20, 25, 25, 25, 25, 25, 50};
    double spec = braid_topo_spec_nvlink_GBps(gpu->sm), said = gpu->link_MBps / 1000.0;

    if (spec <= 0 && gpu->link_version > 0 && gpu->link_version < (int)ARRAY_SIZE(by_version))
        spec = by_version[gpu->link_version];
    if (said <= 0)
        return spec;
    return spec > 0 && said > 0.93 * spec && said < 1.12 * spec ? spec : said;
}

static int find_gpu(const struct braid_topo *topo, const char *busid)
{
    for (int i = 0; i < topo->object_count; i++)
        if (topo->objects[i].type == BRAID_TOPO_GPU && strcmp(topo->objects[i].busid, busid) == 0)
            return i;
    return -1;
}

/* "NVIDIA GeForce RTX 4070" gives "rtx4070", where the part number is not listed. */
static void model_of_name(const char *name, char *out, size_t size)
{
    static const char *const empty[] = {"NVIDIA", "GeForce", "Tesla", "Quadro"};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
        size_t length = strlen(empty[i]);

        if (strncasecmp(name, empty[i], length) == 0 &&
            (name[length] == ' ' || name[length] == '_'))
            name += length + 1;
    }
    for (; *name != '\0' && n + 1 < size; name++)
        if (isalnum((unsigned char)*name))
            out[n++] = (char)tolower((unsigned char)*name);
    out[n] = '\0';
}

static int apply_gpu(struct braid_topo *topo, const struct braid_topo_nvml_gpu *gpu)
{
    int id = find_gpu(topo, gpu->busid);
    struct braid_topo_object *o;
    struct braid_topo_edge *up;

    if (id < 0) {
        int numa = 0;

        while (numa < topo->object_count && topo->objects[numa].type != BRAID_TOPO_NUMA)
            numa++;
        if (numa == topo->object_count)
            numa = braid_topo_add(topo, BRAID_TOPO_NUMA, "", "");
        id = numa < 0 ? numa : braid_topo_add(topo, BRAID_TOPO_GPU, "", gpu->busid);
        if (id < 0)
            return id;
        if (topo->objects[numa].numa_id < 0)
            topo->objects[numa].numa_id = 0;
        numa = braid_topo_attach(topo, id, numa, 0, 0, BRAID_TOPO_FROM_NOTHING);
        if (numa < 0)
            return numa;
        topo->objects[id].pci_class = 0x030200;
        topo->objects[id].pci_vendor = 0x10de;
    }
    o = &topo->objects[id];
    if (gpu->pci_device > 0)
        o->pci_device = (uint16_t)gpu->pci_device;
    o->cuda_dev = gpu->index;
    o->sm = gpu->sm > 0 && gpu->sm <= 1000 ? gpu->sm : 0;
    if (braid_topo_spec_gpu(o->pci_device) == NULL)
        model_of_name(gpu->name, o->model, sizeof(o->model));
    braid_topo_copy(o->fabric, sizeof(o->fabric), gpu->fabric);
    o->in_fabric = gpu->fabric[0] != '\0';
    up = &topo->edges[o->uplink];
    if (up->each_way_GBps <= 0 && gpu->pcie_gen > 0 && gpu->pcie_width > 0 &&
        gpu->pcie_width <= 32) {
        up->lanes = gpu->pcie_width;
        up->lane_GBps = braid_topo_spec_pcie_lane_GBps(gpu->pcie_gen);
        up->each_way_GBps = up->lanes * up->lane_GBps;
        up->bandwidth_from = up->each_way_GBps > 0 ? BRAID_TOPO_FROM_NVML : BRAID_TOPO_FROM_NOTHING;
    }
    return 0;
}

static int find_nvswitch(struct braid_topo *topo, const char *busid)
{
    int any = -1;

    for (int i = 0; i < topo->object_count; i++) {
        if (topo->objects[i].type != BRAID_TOPO_NVSWITCH)
            continue;
        if (busid[0] != '\0' && strcmp(topo->objects[i].busid, busid) == 0)
            return i;
        if (topo->objects[i].busid[0] == '\0')
            any = i;
    }
    if (busid[0] != '\0' || any < 0)
        any = braid_topo_add(topo, BRAID_TOPO_NVSWITCH, "nvswitch", busid);
    return any;
}

/* NVLinks of one GPU. Direct ones are listed by both GPUs and taken from the first. */
static int apply_links(struct braid_topo *topo, const struct braid_topo_nvml *nvml, int index)
{
    const struct braid_topo_nvml_gpu *gpu = &nvml->gpus[index];
    int id = find_gpu(topo, gpu->busid), edge = 0;

    for (int p = 0; p < gpu->peers && edge >= 0; p++) {
        int peer = find_gpu(topo, gpu->peer[p].busid);
        bool to_gpu = gpu->peer[p].type == 'g' || peer >= 0;

        if (to_gpu) {
            bool before = false;

            for (int i = 0; i < index; i++)
                before |= strcmp(nvml->gpus[i].busid, gpu->peer[p].busid) == 0;
            if (before || peer < 0 || peer == id)
                continue; /* counted already, or a GPU that is not ours */
        } else if (gpu->peer[p].type == 'c') {
            peer = braid_topo_numa_of(topo, id);
        } else {
            peer = find_nvswitch(topo, gpu->peer[p].busid);
        }
        edge = peer < 0 ? peer
                        : braid_topo_link(topo, BRAID_TOPO_LINK_NVLINK, id, peer,
                                          gpu->peer[p].links, link_GBps(gpu), BRAID_TOPO_FROM_NVML);
    }
    if (edge >= 0 && gpu->c2c_links > 0)
        edge = braid_topo_link(topo, BRAID_TOPO_LINK_C2C, id, braid_topo_numa_of(topo, id),
                               gpu->c2c_links, gpu->c2c_MBps / 1000.0, BRAID_TOPO_FROM_NVML);
    return MIN(edge, 0);
}

/* GPUs on the bus that NVML does not show belong to someone else, or have no driver. */
static void drop_unseen(struct braid_topo *topo, const struct braid_topo_nvml *nvml,
                        struct braid_topo_notes *notes)
{
    for (int i = 0; i < topo->object_count; i++) {
        bool seen = false;

        if (topo->objects[i].type != BRAID_TOPO_GPU)
            continue;
        for (int g = 0; g < nvml->count && !seen; g++)
            seen = strcmp(nvml->gpus[g].busid, topo->objects[i].busid) == 0;
        if (seen)
            continue;
        braid_topo_note(notes,
                        "the GPU at %s is on the PCI bus but not shown by NVML (hidden from this "
                        "container, lost, or without a driver); it is left out",
                        topo->objects[i].busid);
        topo->objects[i].type = BRAID_TOPO_BRIDGE; /* finishing drops bridges that lead nowhere */
    }
}

int braid_topo_nvml_apply(struct braid_topo *topo, const struct braid_topo_nvml *nvml,
                          struct braid_topo_notes *notes)
{
    int rc = 0;

    if (!nvml->present)
        return 0;
    topo->nvlink_known = true;
    drop_unseen(topo, nvml, notes);
    for (int i = 0; i < nvml->count && rc == 0; i++)
        rc = apply_gpu(topo, &nvml->gpus[i]);
    for (int i = 0; i < nvml->count && rc == 0; i++)
        rc = apply_links(topo, nvml, i);
    return rc;
}
