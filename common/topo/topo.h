/*
 * The machine model: GPUs, NVLink and NVSwitch, the PCIe tree, NUMA nodes, NICs and rails of one
 * node, and how many such nodes there are. Both plugins and the tools read it.
 *
 * A topology is built by one of the loaders below, finished once, and is constant from then on.
 * It owns all of its memory; every pointer that a query returns lives as long as the topology.
 * Threading: a finished topology may be read by any number of threads at once. Building one and
 * destroying it belong to one thread. Nothing here reads the environment.
 *
 * Units: GBps is 1e9 bytes a second, Gbps is 1e9 bits a second, us is 1e-6 s. Every bandwidth is
 * that of ONE direction while the other direction is busy too (all links modelled are full
 * duplex), as the line rate after encoding and before protocol overhead: NVLink 4 is 25 GBps a
 * link, PCIe 5.0 x16 is 63.0, a 400 Gb/s port is 50. Efficiencies belong to the tuner's profiles.
 * Latencies are one way, one hop.
 *
 * Errors: functions return 0 or a negative errno. Loaders fill a struct braid_topo_error and log
 * nothing; whoever asked for the topology logs it once (braid_topo_error_format()).
 */
#ifndef BRAID_COMMON_TOPO_H
#define BRAID_COMMON_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- The model ---------------------------------------------------------------------------- */

enum braid_topo_type {
    BRAID_TOPO_NUMA,   /* a NUMA node with cores, and the PCIe root complex that hangs on it */
    BRAID_TOPO_BRIDGE, /* a PCIe switch, or a device with several functions or ports */
    BRAID_TOPO_GPU,
    BRAID_TOPO_NVSWITCH, /* an NVSwitch, or all NVSwitches of the node as one */
    BRAID_TOPO_NIC,      /* one network port as a network plugin sees it ("mlx5_0", "eth0") */
    BRAID_TOPO_RAIL,     /* a plane of the network outside of the node; NICs attach to one */
    BRAID_TOPO_TYPES
};

enum braid_topo_link {
    BRAID_TOPO_LINK_NVLINK,
    BRAID_TOPO_LINK_C2C, /* GPU to its CPU, NVLink-C2C */
    BRAID_TOPO_LINK_PCIE,
    BRAID_TOPO_LINK_CPU, /* between NUMA nodes (UPI, xGMI) */
    BRAID_TOPO_LINK_NET, /* NIC to its rail */
    BRAID_TOPO_LINKS
};

/* Where a number comes from, the best last: a later source overrides an earlier one. */
enum braid_topo_source {
    BRAID_TOPO_FROM_NOTHING, /* unknown; the number is 0 */
    BRAID_TOPO_FROM_DEFAULT, /* the table in topo_spec.c: a typical value, source named there */
    BRAID_TOPO_FROM_SPEC,    /* the table in topo_spec.c: the vendor's number for this part */
    BRAID_TOPO_FROM_HWLOC,
    BRAID_TOPO_FROM_SYSFS,
    BRAID_TOPO_FROM_NVML,
    BRAID_TOPO_FROM_NCCL_XML, /* a file that the user gave, as are the next two */
    BRAID_TOPO_FROM_SYNTHETIC,
    BRAID_TOPO_SOURCES
};

#define BRAID_TOPO_NAME_LEN  40
#define BRAID_TOPO_BUSID_LEN 20

/* One vertex. Fields that do not apply to its type are zero (or -1 where said). */
struct braid_topo_object {
    enum braid_topo_type type;
    int32_t index;  /* 0.. within its type: GPUs and NICs in bus order, NUMA by system number */
    int32_t parent; /* object above it towards the root complex; -1: none (NUMA, NVSwitch, RAIL) */
    int32_t uplink; /* edge to the parent; -1: none */
    char name[BRAID_TOPO_NAME_LEN];   /* "gpu0", "mlx5_3", "numa1"; unique in the topology */
    char busid[BRAID_TOPO_BUSID_LEN]; /* "0000:1b:00.0" in lower case; "" if it has none */
    uint16_t pci_vendor;
    uint16_t pci_device;
    uint32_t pci_subsystem; /* vendor in the upper half, device in the lower; 0 unknown */
    uint32_t pci_class;     /* 24 bits, 0x030200 is a GPU */
    bool is_switch;         /* BRIDGE: joins several devices, and not just functions of one */

    /* NUMA */
    int32_t numa_id;     /* the system's number; -1: unknown. Also set for GPUs and NICs */
    char cpu_arch[16];   /* "x86_64", "arm64", "ppc64"; "" unknown */
    char cpu_vendor[16]; /* "GenuineIntel", "AuthenticAMD"; "" unknown */
    int32_t cpu_family;  /* as in /proc/cpuinfo; -1 unknown */
    int32_t cpu_model;
    char cpu_affinity[144]; /* as in sysfs cpumap: "ffffffff,00000000"; "" unknown */

    /* NVSWITCH */
    int32_t chips; /* how many switches of the node this object stands for; 0 unknown */

    /* GPU */
    int32_t cuda_dev; /* CUDA or NVML number; -1 unknown */
    int32_t sm;       /* compute capability * 10: 90; 0 unknown */
    char model[24];   /* lower case: "h200", "a100", "l40s"; "" unknown */
    bool gdr;         /* the source says that a NIC may write this GPU's memory */
    bool in_fabric;   /* part of a multi-node NVLink domain */
    char fabric[40];  /* that domain: "<cluster uuid in hex>.<clique>"; "" unknown */

    /* NIC */
    int32_t rail;     /* index of the RAIL that it attaches to; -1 unknown */
    int32_t port;     /* port number on its device, from 1; 0 unknown */
    uint64_t guid;    /* 0 unknown */
    double rate_Gbps; /* port speed; 0 unknown */
    enum braid_topo_source rate_from;
    double latency_us;       /* as the plugin reported it in an NCCL file; 0 unknown */
    int32_t max_connections; /* as the plugin reported it in an NCCL file; 0 unknown */
    bool link_down;          /* the port exists and has no link: no edge to a rail, in no sum */
    char net_kind[12];       /* "ib", "roce", "efa", "eth"; "" unknown */
};

/* One edge between two objects; it works in both directions, each with the numbers given. */
struct braid_topo_edge {
    enum braid_topo_link type;
    int32_t a; /* for PCIE the lower end, for NET the NIC */
    int32_t b;
    int32_t lanes;        /* parallel links (PCIe: lanes); 0 unknown */
    double lane_GBps;     /* one link or lane, one way */
    double each_way_GBps; /* all of them together, one way; 0 unknown (then no cut counts it) */
    double latency_us;    /* one way */
    enum braid_topo_source bandwidth_from;
    enum braid_topo_source latency_from;
};

struct braid_topo; /* opaque; read it through the functions below */

/* ---- Errors of loaders -------------------------------------------------------------------- */

struct braid_topo_error {
    char source[96]; /* file name, "synthetic topology", "NVML", .. */
    int line;        /* from 1; 0: does not apply */
    int column;      /* from 1; 0: does not apply */
    char text[192];  /* what is wrong and what was expected, one sentence without a full stop */
};

/* Writes "<source>:<line>:<column>: <text>" (parts that do not apply are left out); returns out. */
const char *braid_topo_error_format(const struct braid_topo_error *error, char *out, size_t size);

/* ---- Loaders ------------------------------------------------------------------------------ */
/*
 * Each returns 0 and a finished topology in *out, to be freed by braid_topo_destroy(); or a
 * negative errno, *out untouched and *error filled (error may be NULL):
 * -EINVAL malformed text, -ENOENT no such file or device, -ENOSYS an optional library is absent,
 * -E2BIG beyond a limit, -ENOMEM.
 */

/* One line: "nodes:16 gpus:8 nvlink:18x25GB/s nics:8x400Gb/s". README.md has the grammar. */
int braid_topo_load_synthetic(const char *text, struct braid_topo **out,
                              struct braid_topo_error *error);

/* An XML file as in NCCL_TOPO_FILE and NCCL_TOPO_DUMP_FILE. Needs libexpat.so.1 at run time. */
int braid_topo_load_nccl_xml(const char *path, struct braid_topo **out,
                             struct braid_topo_error *error);

/* The same from memory; name is used in errors. text need not end in a NUL. */
int braid_topo_parse_nccl_xml(const char *text, size_t bytes, const char *name,
                              struct braid_topo **out, struct braid_topo_error *error);

/* An XML export of hwloc ("lstopo --of xml"). Needs libhwloc.so.15 at run time. */
int braid_topo_load_hwloc_xml(const char *path, struct braid_topo **out,
                              struct braid_topo_error *error);

/* A capture written by braid-info topo --capture: what sysfs and NVML said, as text. */
int braid_topo_load_capture(const char *path, struct braid_topo **out,
                            struct braid_topo_error *error);
int braid_topo_parse_capture(const char *text, size_t bytes, const char *name,
                             struct braid_topo **out, struct braid_topo_error *error);

/* What braid_topo_load_live() may ask. SYSFS alone takes about a millisecond. */
enum {
    BRAID_TOPO_USE_SYSFS = 1,
    BRAID_TOPO_USE_NVML = 2,  /* dlopen("libnvidia-ml.so.1") */
    BRAID_TOPO_USE_HWLOC = 4, /* dlopen("libhwloc.so.15"); can take 100 ms on large machines */
    BRAID_TOPO_USE_ALL = 7,
};

struct braid_topo_live {
    unsigned use;           /* BRAID_TOPO_USE_*; 0 means SYSFS | NVML */
    const char *sysfs_root; /* "" or NULL: /sys. Tests put a tree of their own here */
    const char *nvml_path;  /* "" or NULL: libnvidia-ml.so.1. Tests put a fake library here */
};

/*
 * This machine. An absent source is skipped and named in *notes (one sentence a line, may be
 * NULL); it fails only if no source gave a single object.
 */
int braid_topo_load_live(const struct braid_topo_live *live, struct braid_topo **out, char *notes,
                         size_t notes_size, struct braid_topo_error *error);

/* Any of the above: a file by what is in it, else a synthetic line. */
int braid_topo_load(const char *file_or_line, struct braid_topo **out,
                    struct braid_topo_error *error);

/*
 * What a plugin uses: BRAID_TOPO (else NCCL_TOPO_FILE) if it is set, else this machine through sysfs
 * and NVML. A setting that cannot be used is warned about once a call, and this machine is taken
 * instead. Returns 0, or -ENOMEM with nothing in *out.
 */
int braid_topo_open(struct braid_topo **out);

void braid_topo_destroy(struct braid_topo *topo); /* accepts NULL */

/* ---- Reading the model -------------------------------------------------------------------- */

int braid_topo_objects(const struct braid_topo *topo);
int braid_topo_edges(const struct braid_topo *topo);
const struct braid_topo_object *braid_topo_object(const struct braid_topo *topo, int id);
const struct braid_topo_edge *braid_topo_edge(const struct braid_topo *topo, int id);

/* How many objects of a type there are in one node, and the id of the index-th one (-1: none). */
int braid_topo_count(const struct braid_topo *topo, enum braid_topo_type type);
int braid_topo_id(const struct braid_topo *topo, enum braid_topo_type type, int index);

/* Id of the object with this bus id (any case, domain optional) or this name; -1: none. */
int braid_topo_find(const struct braid_topo *topo, const char *busid_or_name);

/* GPUs that one NVLink domain joins: all of the node, fewer, or more than a node (NVL72). */
int braid_topo_nvlink_domain(const struct braid_topo *topo);

/* How many nodes like this one; 1 unless a synthetic text or the caller said otherwise. */
int braid_topo_nodes(const struct braid_topo *topo);
/* Before the topology is shared between threads only. */
void braid_topo_set_nodes(struct braid_topo *topo, int nodes);

/* Which loader made it: "synthetic", "nccl-xml", "hwloc-xml", "capture", "live". */
const char *braid_topo_origin(const struct braid_topo *topo);

/* ---- Paths -------------------------------------------------------------------------------- */

/* NCCL's names and order: a smaller value is a closer path. */
enum braid_topo_path_type {
    BRAID_TOPO_PATH_LOC, /* the same object */
    BRAID_TOPO_PATH_NVL, /* NVLink, direct or through NVSwitch */
    BRAID_TOPO_PATH_NVB, /* NVLink through one other GPU */
    BRAID_TOPO_PATH_C2C, /* GPU to CPU over C2C */
    BRAID_TOPO_PATH_PIX, /* one PCIe switch at most */
    BRAID_TOPO_PATH_PXB, /* several PCIe switches, no root complex */
    BRAID_TOPO_PATH_P2C, /* GPU to NIC: C2C to the CPU, then PCIe */
    BRAID_TOPO_PATH_PHB, /* through one root complex */
    BRAID_TOPO_PATH_SYS, /* between NUMA nodes */
    BRAID_TOPO_PATH_NET, /* through the network */
    BRAID_TOPO_PATH_DIS, /* none */
    BRAID_TOPO_PATHS
};

#define BRAID_TOPO_ROUTE_MAX 24

/*
 * The way that data takes from one object to another of the same node: closest path type first,
 * then highest bandwidth, then fewest hops. Ties go to the lowest edge id, so the answer is a
 * function of the topology alone.
 */
struct braid_topo_route {
    enum braid_topo_path_type type;
    int32_t hops;                       /* edges on it */
    int32_t edge[BRAID_TOPO_ROUTE_MAX]; /* edge ids in travel order */
    bool reverse[BRAID_TOPO_ROUTE_MAX]; /* travelled from b to a */
    double each_way_GBps;               /* the narrowest edge; 0 if one is unknown */
    double latency_us;                  /* sum over the edges */
};

/* Returns 0 (also for a path of type DIS, hops 0) or -EINVAL for a bad id. */
int braid_topo_route(const struct braid_topo *topo, int from, int to, struct braid_topo_route *out);

enum braid_topo_path_type braid_topo_path(const struct braid_topo *topo, int from, int to);

/*
 * NICs by affinity to a GPU (index): closest path type first, then bandwidth; NICs that are equal
 * for several GPUs are dealt out in turn, so that nic[0] of the GPUs differ as far as possible.
 * Fills up to max NIC indices and returns how many NICs with a link there are; negative errno.
 */
int braid_topo_gpu_nics(const struct braid_topo *topo, int gpu, int *nic, int max);

/* The NIC (index) that is gpu's share of the network; -1: the node has none. */
int braid_topo_gpu_nic(const struct braid_topo *topo, int gpu);

/* ---- Cuts and resources ------------------------------------------------------------------- */

/*
 * What can leave one GPU towards the other GPUs of its node, one way, with nothing else running:
 * a maximum flow over the node's graph, so a shared PCIe switch or CPU link counts once. Where
 * NVLink joins all GPUs of the node only NVLink counts, since nobody adds PCIe to it.
 * 0: fewer than two GPUs, or a bandwidth on the way is unknown.
 */
double braid_topo_gpu_cut_GBps(const struct braid_topo *topo, int gpu);

/* The smallest of these over the GPUs of the node. */
double braid_topo_min_gpu_cut_GBps(const struct braid_topo *topo);

/*
 * What a GPU gets one way when every GPU of the node sends at full speed, for the pattern where
 * all GPUs send across the worst balanced split of the node (GPU index below and above the
 * middle, and even against odd): split flow / GPUs on a side.
 */
double braid_topo_bisection_gpu_GBps(const struct braid_topo *topo);

/*
 * What one node can send into the network, one way: maximum flow from all GPUs to all rails.
 * 0: no NIC.
 */
double braid_topo_node_cut_GBps(const struct braid_topo *topo);

/* The same for one rail (index). */
double braid_topo_rail_GBps(const struct braid_topo *topo, int rail);

/*
 * Maximum flow between two sets of object ids, one way, over every edge but those to rails that
 * are not in a set; -1 on a bad id or an empty set.
 */
double braid_topo_flow_GBps(const struct braid_topo *topo, const int *from, int from_count,
                            const int *to, int to_count);

/*
 * Resources that traffic contends for. Every edge is one in each direction; NVSwitches (the sum
 * of their ports) and root complexes (the sum of the PCIe links below a NUMA node) are added,
 * as they may be narrower than their ports. A cost model walks a route's edges, adds its bytes
 * to the resource of each, and takes the slowest.
 */
enum braid_topo_resource_kind {
    BRAID_TOPO_RES_NVLINK_PORT, /* GPU to NVSwitch or to a peer GPU */
    BRAID_TOPO_RES_NVSWITCH,
    BRAID_TOPO_RES_PCIE_LINK,
    BRAID_TOPO_RES_ROOT, /* root complex of a NUMA node */
    BRAID_TOPO_RES_CPU_LINK,
    BRAID_TOPO_RES_C2C,
    BRAID_TOPO_RES_NIC, /* NIC to rail */
    BRAID_TOPO_RES_KINDS
};

struct braid_topo_resource {
    enum braid_topo_resource_kind kind;
    int32_t edge;   /* the edge, or -1 for NVSWITCH and ROOT */
    int32_t object; /* the NVSWITCH or NUMA object; for an edge its lower end */
    double each_way_GBps;
    int32_t gpus;  /* GPUs of this node whose way to other GPUs or to their NIC uses it */
    char name[64]; /* "gpu3-nvswitch", "gpu3-pcie", "numa0-root", "mlx5_2-rail2" */
};

/* Fills up to max; returns the number there are. Order: edges by id, then the added ones. */
int braid_topo_resources(const struct braid_topo *topo, struct braid_topo_resource *out, int max);

/* ---- Summary ------------------------------------------------------------------------------ */

/*
 * What a cost model and a profile key need of a machine, with no pointers. It is the same on
 * all nodes of one kind: bus ids, serial numbers, host names, clocks and link states that change
 * while idle are not in it.
 */
struct braid_topo_summary {
    int32_t nodes;
    int32_t gpus_per_node;
    int32_t sm;              /* compute capability * 10, the lowest; 0 unknown */
    char gpu[24];            /* model of the GPUs; "mixed" if they differ; "" unknown */
    int32_t nvlinks_per_gpu; /* of the GPU that has fewest */
    double nvlink_lane_GBps; /* one link, one way */
    double nvlink_gpu_GBps;  /* all links of that GPU, one way */
    bool nvswitch;
    /* GPUs that reach each other over NVLink; beyond a node for NVL72 */
    int32_t nvlink_domain_gpus;
    double gpu_cut_GBps;   /* braid_topo_min_gpu_cut_GBps() */
    int32_t nics_per_node; /* with a link */
    double nic_GBps;       /* of the slowest, one way */
    char net_kind[12];     /* "ib", "roce", "efa", "eth", "mixed", "" */
    int32_t rails;
    double node_cut_GBps;  /* braid_topo_node_cut_GBps() */
    double pcie_gpu_GBps;  /* uplink of a GPU, one way */
    double pcie_root_GBps; /* narrowest way from a GPU to its root complex, shared by all GPUs
                                    that use it, a GPU's part */
    int32_t numa_nodes;
    char cpu_vendor[16]; /* "GenuineIntel", ..; "mixed"; "" unknown */
    bool c2c;
    enum braid_topo_path_type gpu_gpu_path; /* the worst pair; LOC with one GPU */
    enum braid_topo_path_type gpu_nic_path; /* the worst GPU to its own NIC; DIS without NICs */
    char key[96]; /* "h200x8-nvl18x25s-nic8x400-pcie5x16"; README.md has the grammar */
};

void braid_topo_summarise(const struct braid_topo *topo, struct braid_topo_summary *out);

/* ---- Writing ------------------------------------------------------------------------------ */

/* A tree that people can read; as JSON (one object, keys with units); both end in a newline. */
int braid_topo_print_tree(const struct braid_topo *topo, FILE *out);
int braid_topo_print_json(const struct braid_topo *topo, FILE *out);

/* XML that NCCL takes as NCCL_TOPO_FILE. */
int braid_topo_write_nccl_xml(const struct braid_topo *topo, FILE *out);

/* What sysfs and NVML say on this machine, as text for braid_topo_load_capture(). */
int braid_topo_capture(const struct braid_topo_live *live, FILE *out,
                       struct braid_topo_error *error);

/* Words for printing. */
const char *braid_topo_type_name(enum braid_topo_type type);      /* "gpu" */
const char *braid_topo_link_name(enum braid_topo_link type);      /* "nvlink" */
const char *braid_topo_source_name(enum braid_topo_source from);  /* "sysfs" */
const char *braid_topo_path_name(enum braid_topo_path_type type); /* "NVL" */
const char *braid_topo_resource_name(enum braid_topo_resource_kind kind);

#endif
