/*
 * Numbers about parts that software cannot ask for, each with its source in topo_spec.c, and the
 * typical values that stand in for what a source leaves out. Constant data; any thread.
 */
#ifndef BRAID_COMMON_TOPO_SPEC_H
#define BRAID_COMMON_TOPO_SPEC_H

#include "common/topo/topo.h"

struct braid_topo_gpu_spec {
    uint16_t pci_device;
    const char *model; /* as in struct braid_topo_object */
    int sm;
    int nvlinks;        /* 0: none on this board, or by an optional bridge */
    double nvlink_GBps; /* one link, one way */
    int pcie_gen;
};

/* By PCI device id (vendor 0x10de), or by model name (the first row with it); NULL: not listed. */
const struct braid_topo_gpu_spec *braid_topo_spec_gpu(uint16_t pci_device);
const struct braid_topo_gpu_spec *braid_topo_spec_model(const char *model);

/* One NVLink, one way, by compute capability * 10; 0: no NVLink known. */
double braid_topo_spec_nvlink_GBps(int sm);

/* One PCIe lane, one way, after encoding; 0 for a generation that is not known. */
double braid_topo_spec_pcie_lane_GBps(int gen);

/* "32.0 GT/s PCIe", "8 GT/s", "16": the generation; 0: not understood. */
int braid_topo_spec_pcie_gen(const char *link_speed);

/* The generation whose lane rate this is, within 5 %; 0: none. "32.0 GT/s PCIe" for one. */
int braid_topo_spec_pcie_gen_of(double lane_GBps);
const char *braid_topo_spec_pcie_text(int gen);

/* Port rate of a network adapter by PCI ids, 0 unknown; and "ib", "roce", "efa", "eth" or "". */
double braid_topo_spec_nic_Gbps(uint16_t vendor, uint16_t device);
const char *braid_topo_spec_net_kind(uint16_t vendor, uint16_t device, uint32_t pci_class);

/*
 * Broadcom's switches of PCIe generation 4 and 5 look like two levels of switches to the system but
 * give full bandwidth between all ports: 4 or 5 if these ids are those of such a switch at that level.
 */
int braid_topo_spec_two_level_switch(uint16_t vendor, uint16_t device, uint32_t subsystem,
                                     int level);

/* An emulated bridge: what it says of its link's speed and width is made up. */
bool braid_topo_spec_virtual_bridge(uint16_t vendor, uint16_t device);

/* Typical latency of one hop, one way. */
double braid_topo_spec_latency_us(enum braid_topo_link type);

/* Typical bandwidth between two NUMA nodes, one way, by the CPU vendor ("" allowed). */
double braid_topo_spec_cpu_link_GBps(const char *cpu_vendor);

#endif
