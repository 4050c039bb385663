/*
 * The RDMA half of braid-info net: every device, port and GID with the verdict of the verbs transport, limits that make registration
 * fail, and the settings in force with their source. It asks libibverbs itself and goes through the transport's own pure functions,
 * so it also shows what the transport leaves out. Single thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/param.h"
#include "common/topo/topo.h"
#include "common/util.h"
#include "net-plugin/verbs/dev.h"
#include "net-plugin/verbs/hca.h"
#include "tools/braid-info/info.h"

static const char *type_name(const struct braid_verbs_gid *gid)
{
    return gid->type == BRAID_VERBS_GID_V2   ? "RoCE v2"
           : gid->type == BRAID_VERBS_GID_V1 ? "RoCE v1"
                                             : "IB";
}

/* The entries of one port, best ones marked in the order in which peers get them. */
static int print_gids(struct ibv_context *context, int port, int link, int entries)
{
    struct braid_verbs_gid gid, best_gid = {0};
    struct braid_gid_wish wish;
    int best = -1, usable = 0;

    braid_verbs_gid_wish(&wish);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < entries && i < 256; i++) {
            char text[64];
            const char *why;
            int rank;
            if (braid_verbs_read_gid(context, port, i, link, &gid) != 0)
                continue;
            rank = braid_gid_rank(&gid, &wish, &why);
            if (pass == 0 && rank > best) {
                best = rank;
                best_gid = gid;
            }
            usable += pass == 0 && rank >= 0;
            if (pass == 0 || strcmp(why, "empty") == 0)
                continue;
            printf("      GID %-3d %-39s %-7s %s%s\n", i,
                   braid_gid_text(gid.raw, text, sizeof(text)), type_name(&gid),
                   rank < 0                      ? "not offered: "
                   : gid.index == best_gid.index ? "first choice; the peer's table decides"
                                                 : "offered",
                   rank < 0 ? why : "");
        }
    }
    return usable;
}

static bool print_port(struct ibv_context *context, const char *device, int port)
{
    struct ibv_port_attr attr = {0};
    int link, usable;
    bool admitted = braid_hca_admits(braid_param_str(BRAID_P_IB_HCA), device, port);

    if (braid_ibv.query_port(context, (uint8_t)port, &attr) != 0) {
        printf("    port %d: does not answer: %s\n", port, strerror(errno));
        return false;
    }
    link = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? BRAID_VERBS_LINK_ETHERNET
                                                      : BRAID_VERBS_LINK_IB;
    printf("    port %d: %s, %s, %d Mbit/s, MTU %d, LID %u\n", port,
           link == BRAID_VERBS_LINK_IB ? "InfiniBand" : "RoCE",
           attr.state == IBV_PORT_ACTIVE ? "active" : "not active",
           braid_verbs_speed_Mbps(attr.active_speed, attr.active_width), 128 << attr.active_mtu,
           attr.lid);
    usable = print_gids(context, port, link, attr.gid_tbl_len);
    if (!admitted)
        printf("      not used: BRAID_IB_HCA=\"%s\" leaves it out\n",
               braid_param_str(BRAID_P_IB_HCA));
    else if (attr.state != IBV_PORT_ACTIVE)
        printf("      not used: the port is not active (cable, switch port, `ibstat`)\n");
    else if (link == BRAID_VERBS_LINK_ETHERNET && usable == 0)
        printf("      not used: no GID fits; give its interface an address, or see the settings "
               "below\n");
    else
        return true;
    return false;
}

/* Which GPUs are closest to a NIC, from the topology model; nothing when there is no model or no GPU. */
static void print_affinity(const struct braid_topo *topo, const char *device)
{
    int nic = topo != NULL ? braid_topo_find(topo, device) : -1;
    int gpus = topo != NULL ? braid_topo_count(topo, BRAID_TOPO_GPU) : 0;

    if (nic < 0 || gpus == 0)
        return;
    printf("    GPUs:");
    for (int i = 0; i < gpus; i++)
        printf(" %d %s%s", i,
               braid_topo_path_name(
                   braid_topo_path(topo, braid_topo_id(topo, BRAID_TOPO_GPU, i), nic)),
               i + 1 < gpus ? "," : "\n");
}

/* A kernel that knows dma-buf says EBADF about a descriptor that is none. */
static const char *dmabuf_verdict(struct ibv_context *context)
{
    struct ibv_pd *pd;
    struct ibv_mr *mr = NULL;

    if (braid_ibv.reg_dmabuf_mr == NULL)
        return "no (libibverbs is older than 34)";
    pd = braid_ibv.alloc_pd(context);
    if (pd == NULL)
        return "unknown";
    errno = 0;
    mr = braid_ibv.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);
    if (mr != NULL)
        braid_ibv.dereg_mr(mr);
    int err = errno;
    braid_ibv.dealloc_pd(pd);
    return err == EBADF ? "yes" : "no (neither the kernel nor the NIC's driver offers it)";
}

static int print_device(struct ibv_device *device, const struct braid_topo *topo)
{
    struct ibv_context *context = braid_ibv.open_device(device);
    struct ibv_device_attr attr = {0};
    const char *name = braid_ibv.get_device_name(device);
    char path[sizeof(device->ibdev_path) + 16], *pci;
    int used = 0;

    if (context == NULL) {
        printf("  %s: cannot be opened: %s\n", name, strerror(errno));
        return 0;
    }
    if (braid_ibv.query_device(context, &attr) != 0) {
        printf("  %s: does not say what it can do: %s\n", name, strerror(errno));
    } else {
        snprintf(path, sizeof(path), "%s/device", device->ibdev_path);
        pci = realpath(path, NULL);
        printf(
            "  %s: vendor 0x%x part %u firmware %s, PCI %s, at most %d queue pairs, dma-buf %s%s\n",
            name, attr.vendor_id, attr.vendor_part_id, attr.fw_ver[0] != '\0' ? attr.fw_ver : "?",
            pci != NULL && strrchr(pci, '/') != NULL ? strrchr(pci, '/') + 1 : "none", attr.max_qp,
            dmabuf_verdict(context),
            braid_verbs_is_software(device) ? ", software: every record waits for its completion"
                                            : "");
        free(pci);
        print_affinity(topo, name);
        for (int port = 1; port <= attr.phys_port_cnt; port++)
            used += print_port(context, name, port);
    }
    braid_ibv.close_device(context);
    return used;
}

static void print_limits(void)
{
    struct rlimit limit = {0, 0};
    const char *peer = braid_verbs_peer_memory();

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        printf("  locked memory: unlimited\n");
    else
        printf("  locked memory: %llu KiB: too little, registrations will fail with ENOMEM; set "
               "`ulimit -l unlimited` where "
               "the job is started\n",
               (unsigned long long)limit.rlim_cur / 1024);
    printf("  peer memory (GPU buffers without dma-buf): %s\n",
           peer != NULL ? peer : "not loaded (modprobe nvidia_peermem)");
}

static void print_settings(void)
{
    static const char *const sources[] = {"default", "BRAID", "NCCL's variable"};

    printf("Settings of RDMA\n");
    for (int id = 0; id < BRAID_P_COUNT; id++) {
        const struct braid_param_row *row = braid_param_row((enum braid_param_id)id);
        char text[128];
        if (strncmp(row->name, "BRAID_IB_", 9) != 0 &&
            strcmp(row->name, "BRAID_VERBS_LIBRARY") != 0 &&
            strcmp(row->name, "BRAID_TRANSPORT") != 0)
            continue;
        printf("  %-26s %-12s (%s)\n", row->name,
               braid_param_text((enum braid_param_id)id, text, sizeof(text)),
               sources[braid_param_source((enum braid_param_id)id)]);
    }
}

int braid_info_net_rdma(void)
{
    struct braid_topo *topo = NULL;
    struct ibv_device **list;
    char why[256];
    int count = 0, used = 0;

    printf("\nRDMA\n");
    if (braid_param_int(BRAID_P_IB_DISABLE) != 0)
        printf("  not used: BRAID_IB_DISABLE is set\n");
    if (braid_ibv_open(why, sizeof(why)) != 0) {
        printf("  not used: %s\n", why);
        return 0;
    }
    list = braid_ibv.get_device_list(&count);
    if (list == NULL || count == 0) {
        printf("  no device: %s\n",
               list == NULL
                   ? strerror(errno)
                   : "no kernel driver offers one (`ls /sys/class/infiniband`, in containers "
                     "also /dev/infiniband)");
    } else {
        if (braid_topo_open(&topo) != 0)
            topo = NULL;
        for (int i = 0; i < count; i++)
            used += print_device(list[i], topo);
        braid_topo_destroy(topo);
        print_limits();
        if (used == 0)
            printf("  no port can be used: Braid runs over sockets\n");
    }
    if (list != NULL)
        braid_ibv.free_device_list(list);
    print_settings();
    return used;
}
