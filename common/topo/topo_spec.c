/*
 * The tables of topo_spec.h. Every row says where its number is from; a change of a number is a
 * change of that note too. Measured efficiencies do not belong here but in the tuner's profiles.
 */
#include "common/topo/topo_spec.h"

#include "common/topo/topo_build.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/*
 * Device ids: NVIDIA's list of supported GPUs in the driver README (open-gpu-kernel-modules) and
 * pci.ids. NVLink: number of links and GB/s from the product data sheets (V100, A100, H100, H200,
 * B200, GB200: total of both ways divided by 2 and by the links; H800 has 8 of 18 links and A800
 * 8 of 12; H20 has all 18; RTX A6000, A40 and RTX 3090 reach one peer by a bridge of 4 links with
 * 112.5 GB/s in total). Boards whose NVLink needs a bridge have 0 links here: whether the bridge is
 * plugged is for NVML to say.
 */
static const struct braid_topo_gpu_spec gpus[] = {
    {0x1db1, "v100", 70, 6, 25, 3},       {0x1db5, "v100", 70, 6, 25, 3},
    {0x1db8, "v100", 70, 6, 25, 3},       {0x1db4, "v100-pcie", 70, 0, 0, 3},
    {0x1db6, "v100-pcie", 70, 0, 0, 3},   {0x1eb8, "t4", 75, 0, 0, 3},
    {0x20b0, "a100", 80, 12, 25, 4},      {0x20b2, "a100", 80, 12, 25, 4},
    {0x20b3, "a100", 80, 12, 25, 4},      {0x20b1, "a100-pcie", 80, 0, 0, 4},
    {0x20b5, "a100-pcie", 80, 0, 0, 4},   {0x20f1, "a100-pcie", 80, 0, 0, 4},
    {0x20f3, "a800", 80, 8, 25, 4},       {0x20f5, "a800-pcie", 80, 0, 0, 4},
    {0x20b7, "a30", 80, 0, 0, 4},         {0x2235, "a40", 86, 0, 0, 4},
    {0x2230, "a6000", 86, 0, 0, 4},       {0x2236, "a10", 86, 0, 0, 4},
    {0x2237, "a10g", 86, 0, 0, 4},        {0x2204, "rtx3090", 86, 0, 0, 4},
    {0x2330, "h100", 90, 18, 25, 5},      {0x2336, "h100", 90, 18, 25, 5},
    {0x2339, "h100", 90, 18, 25, 5},      {0x2331, "h100-pcie", 90, 0, 0, 5},
    {0x2321, "h100-nvl", 90, 0, 0, 5},    {0x2324, "h800", 90, 8, 25, 5},
    {0x2322, "h800-pcie", 90, 0, 0, 5},   {0x233a, "h800-nvl", 90, 0, 0, 5},
    {0x2329, "h20", 90, 18, 25, 5},       {0x232c, "h20", 90, 18, 25, 5},
    {0x2335, "h200", 90, 18, 25, 5},      {0x233b, "h200-nvl", 90, 0, 0, 5},
    {0x2342, "gh200", 90, 18, 25, 5},     {0x2348, "gh200", 90, 18, 25, 5},
    {0x2901, "b200", 100, 18, 50, 5},     {0x2909, "b200", 100, 18, 50, 5},
    {0x2941, "gb200", 100, 18, 50, 5},    {0x3182, "b300", 103, 18, 50, 6},
    {0x31c2, "gb300", 103, 18, 50, 6},    {0x26b5, "l40", 89, 0, 0, 4},
    {0x26b9, "l40s", 89, 0, 0, 4},        {0x27b8, "l4", 89, 0, 0, 4},
    {0x26ba, "l20", 89, 0, 0, 4},         {0x26b1, "rtx6000-ada", 89, 0, 0, 4},
    {0x2684, "rtx4090", 89, 0, 0, 4},     {0x2b85, "rtx5090", 120, 0, 0, 5},
    {0x2bb5, "rtxpro6000", 120, 0, 0, 5},
};

const struct braid_topo_gpu_spec *braid_topo_spec_gpu(uint16_t pci_device)
{
    for (size_t i = 0; i < ARRAY_SIZE(gpus); i++)
        if (gpus[i].pci_device == pci_device)
            return &gpus[i];
    return NULL;
}

const struct braid_topo_gpu_spec *braid_topo_spec_model(const char *model)
{
    for (size_t i = 0; i < ARRAY_SIZE(gpus); i++)
        if (strcasecmp(gpus[i].model, model) == 0)
            return &gpus[i];
    return NULL;
}

/*
 * NVLink 1 20 GB/s, NVLink 2 to 4 25 GB/s, NVLink 5 50 GB/s a link one way (NVIDIA's NVLink page);
 * GA10x 14.0625 (112.5 GB/s in total over 4 links, GA102 whitepaper).
 */
double braid_topo_spec_nvlink_GBps(int sm)
{
    static const struct {
        int sm;
        double GBps;
    } links[] = {{60, 20}, {70, 25}, {80, 25}, {86, 14.0625}, {90, 25}, {100, 50}, {103, 50}};

    for (size_t i = 0; i < ARRAY_SIZE(links); i++)
        if (links[i].sm == sm)
            return links[i].GBps;
    return 0;
}

/*
 * PCI Express base specification: 2.5 and 5 GT/s with 8b/10b, 8 to 32 GT/s with 128b/130b, 64 GT/s
 * in flits of 256 bytes of which 242 are transaction layer bytes.
 */
static const struct {
    double GTps;
    double GBps;
    const char *text;
} pcie[] = {
    {0, 0, ""},
    {2.5, 0.25, "2.5 GT/s PCIe"},
    {5.0, 0.5, "5.0 GT/s PCIe"},
    {8.0, 8.0 / 8 * 128 / 130, "8.0 GT/s PCIe"},
    {16.0, 16.0 / 8 * 128 / 130, "16.0 GT/s PCIe"},
    {32.0, 32.0 / 8 * 128 / 130, "32.0 GT/s PCIe"},
    {64.0, 64.0 / 8 * 242 / 256, "64.0 GT/s PCIe"},
};

double braid_topo_spec_pcie_lane_GBps(int gen)
{
    return gen > 0 && gen < (int)ARRAY_SIZE(pcie) ? pcie[gen].GBps : 0;
}

int braid_topo_spec_pcie_gen(const char *link_speed)
{
    double GTps;
    const char *end;

    if (braid_topo_number(link_speed, &GTps, &end) != 0)
        return 0;
    for (int gen = 1; gen < (int)ARRAY_SIZE(pcie); gen++)
        if (fabs(GTps - pcie[gen].GTps) < 0.01)
            return gen;
    return 0;
}

int braid_topo_spec_pcie_gen_of(double lane_GBps)
{
    for (int gen = 1; gen < (int)ARRAY_SIZE(pcie); gen++)
        if (fabs(lane_GBps - pcie[gen].GBps) < 0.05 * pcie[gen].GBps)
            return gen;
    return 0;
}

const char *braid_topo_spec_pcie_text(int gen)
{
    return gen > 0 && gen < (int)ARRAY_SIZE(pcie) ? pcie[gen].text : "";
}

/*
 * The fastest port of the part: ConnectX-6 (101b) 200, ConnectX-7 (1021) 400, ConnectX-8 (1023) 800,
 * BlueField-2 (a2d6) 200, BlueField-3 (a2dc) 400 from NVIDIA's product pages; EFA efa0 and efa1
 * 100, efa2 and efa3 200 a device (AWS: P4d 4 x 100, P5 32 x 100, P5en 16 x 200).
 */
double braid_topo_spec_nic_Gbps(uint16_t vendor, uint16_t device)
{
    static const struct {
        uint16_t vendor, device;
        double Gbps;
    } nics[] = {
        {0x15b3, 0x101b, 200}, {0x15b3, 0x101d, 200}, {0x15b3, 0x1021, 400}, {0x15b3, 0x1023, 800},
        {0x15b3, 0xa2d6, 200}, {0x15b3, 0xa2dc, 400}, {0x1d0f, 0xefa0, 100}, {0x1d0f, 0xefa1, 100},
        {0x1d0f, 0xefa2, 200}, {0x1d0f, 0xefa3, 200},
    };

    for (size_t i = 0; i < ARRAY_SIZE(nics); i++)
        if (nics[i].vendor == vendor && nics[i].device == device)
            return nics[i].Gbps;
    return 0;
}

const char *braid_topo_spec_net_kind(uint16_t vendor, uint16_t device, uint32_t pci_class)
{
    if (vendor == 0x1d0f && device >> 8 == 0xef)
        return "efa";
    if (pci_class >> 8 == 0x0207)
        return "ib"; /* InfiniBand controller; the same part in Ethernet mode has class 0200 */
    if (pci_class >> 8 == 0x0200 && vendor != 0)
        return vendor == 0x15b3 ? "roce" : "eth";
    return "";
}

/* The ids are those by which NCCL 2.30 knows them (src/graph/topo.cc). */
int braid_topo_spec_two_level_switch(uint16_t vendor, uint16_t device, uint32_t subsystem,
                                     int level)
{
    if (vendor != 0x1000)
        return 0;
    if (device == 0xc010 && subsystem >> 12 == 0x1000a)
        return 4;
    return device == 0xc030 && subsystem >> 12 == (0x10000u | (unsigned)level) ? 5 : 0;
}

/*
 * QEMU's own bridges (1b36) and the TI XIO3130 switch that it emulates (104c:8232, 8233): virtual
 * machines show them at 2.5 GT/s x1 whatever is below (nccl-tests issue 256: 0.2 GB/s to an H200).
 */
bool braid_topo_spec_virtual_bridge(uint16_t vendor, uint16_t device)
{
    return vendor == 0x1b36 || (vendor == 0x104c && (device == 0x8232 || device == 0x8233));
}

/*
 * NVLINK: half of 0.62 us, a relaxed flag from one H200 to another through NVSwitch, measured for
 * this project. PCIE: half of 1.55 us, which is half of a flag's round trip GPU, CPU, GPU through
 * pinned memory (3.1 us, same place); the other half is charged to the CPU side's own hop.
 * C2C: order of a remote memory access on GH200, 0.4 us. CPU: difference of remote and local DRAM
 * access on two-socket servers, about 0.1 us. NET: half of the 2 us that a small message takes
 * from port to port over one switch. All are stand-ins until a profile was calibrated.
 */
double braid_topo_spec_latency_us(enum braid_topo_link type)
{
    static const double us[BRAID_TOPO_LINKS] = {
        [BRAID_TOPO_LINK_NVLINK] = 0.31, [BRAID_TOPO_LINK_C2C] = 0.4,
        [BRAID_TOPO_LINK_PCIE] = 0.775,  [BRAID_TOPO_LINK_CPU] = 0.1,
        [BRAID_TOPO_LINK_NET] = 1.0,
    };

    return us[type];
}

/*
 * Intel: 3 UPI links of 10.4 GT/s, 20.8 GB/s each way (Xeon Scalable, 1st to 3rd generation; newer
 * ones are faster). AMD: 3 xGMI links of 16 lanes at 16 GT/s, 32 GB/s each way (EPYC 7002; 7003
 * at 18). Others: one link of 32 GB/s. Deliberately at the low end.
 */
double braid_topo_spec_cpu_link_GBps(const char *cpu_vendor)
{
    if (strcmp(cpu_vendor, "GenuineIntel") == 0)
        return 62.4;
    if (strcmp(cpu_vendor, "AuthenticAMD") == 0)
        return 96;
    return 32;
}
