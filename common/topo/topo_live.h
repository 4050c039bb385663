/*
 * The parts of the live source: each puts what it knows into a topology that is not finished yet,
 * and adds a sentence to the notes where something is missing. For the files of this room.
 */
#ifndef BRAID_COMMON_TOPO_LIVE_H
#define BRAID_COMMON_TOPO_LIVE_H

#include "common/topo/topo_build.h"
#include "common/topo/topo_files.h"

struct braid_topo_notes {
    char *text; /* may be NULL */
    size_t size;
};

void braid_topo_note(struct braid_topo_notes *notes, const char *fmt, ...) BRAID_PRINTF(2, 3);

/* NUMA nodes, PCI tree, GPUs, NVSwitches, NICs. 0 or negative errno. */
int braid_topo_sysfs(struct braid_topo *topo, struct braid_topo_files *files,
                     struct braid_topo_notes *notes);

#define BRAID_TOPO_NVML_PEERS 40

/* What NVML says about one GPU; -1 or "" where it does not say. */
struct braid_topo_nvml_gpu {
    char busid[BRAID_TOPO_BUSID_LEN];
    char name[64];
    int index;
    int pci_device;
    int sm;
    int pcie_gen, pcie_width;    /* the highest that GPU and slot can do */
    int link_MBps, link_version; /* of an active NVLink; version as NVML counts: 6 is NVLink 4 */
    int c2c_links, c2c_MBps;     /* of one link */
    char fabric[40];             /* "" if the GPU is in no multi-node domain */
    struct {
        char type; /* 'g' GPU, 's' switch, 'c' CPU */
        char busid[BRAID_TOPO_BUSID_LEN];
        int links;
    } peer[BRAID_TOPO_NVML_PEERS];
    int peers;
};

struct braid_topo_nvml {
    struct braid_topo_nvml_gpu *gpus;
    int count;
    bool present; /* NVML answered, even if with no GPU */
};

/* Asks the library. 0, or -ENOENT/-ENOSYS/-EIO with a note. Free with braid_topo_nvml_free(). */
int braid_topo_nvml_ask(struct braid_topo_nvml *out, const char *path,
                        struct braid_topo_notes *notes);
void braid_topo_nvml_free(struct braid_topo_nvml *nvml);

/* A new, empty element; NULL: out of memory or more than 256. */
struct braid_topo_nvml_gpu *braid_topo_nvml_add(struct braid_topo_nvml *nvml);

int braid_topo_nvml_apply(struct braid_topo *topo, const struct braid_topo_nvml *nvml,
                          struct braid_topo_notes *notes);

/* hwloc, loaded live (path NULL) or from XML. -ENOSYS: no library. */
int braid_topo_hwloc(struct braid_topo *topo, const char *xml_path, struct braid_topo_error *error);

/* Copies PCIe links and NUMA places that `topo` does not know from `from` (both unfinished). */
void braid_topo_fill_from(struct braid_topo *topo, const struct braid_topo *from);

#endif
