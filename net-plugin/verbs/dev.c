/*
 * Discovery of devices and ports, GID tables, asynchronous events. See dev.h. One INFO line a port says what was found or why
 * it is not used; nothing here is on the data path.
 */
#include "net-plugin/verbs/dev.h"

#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/log.h"
#include "common/param.h"
#include "common/util.h"
#include "net-plugin/verbs/hca.h"

struct braid_verbs_port *braid_verbs_ports[BRAID_VERBS_PORTS];
struct braid_verbs_device braid_verbs_devices[BRAID_VERBS_DEVICES];
int braid_verbs_port_count, braid_verbs_device_count;

static struct braid_verbs_nic *nics[BRAID_VERBS_PORTS];
static int nic_count;

int braid_verbs_speed_Mbps(int speed, int width)
{
    /* Codes are single bits of the InfiniBand specification: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR. */
    static const int lane_Mbps[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000, 200000};
    static const struct {
        int code, lanes;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    int lanes = 1, bit = 0;

    for (size_t i = 0; i < ARRAY_SIZE(widths); i++)
        if (widths[i].code == width)
            lanes = widths[i].lanes;
    while (bit + 1 < (int)ARRAY_SIZE(lane_Mbps) && (1 << bit) < speed)
        bit++;
    return lane_Mbps[bit] * lanes;
}

/* -- GIDs ----------------------------------------------------------------------------------------------------------------- */

void braid_verbs_gid_wish(struct braid_gid_wish *wish)
{
    const char *range = braid_param_str(BRAID_P_IB_ADDR_RANGE);
    const char *family = braid_param_str(BRAID_P_IB_ADDR_FAMILY);

    memset(wish, 0, sizeof(*wish));
    wish->index = (int)braid_param_int(BRAID_P_IB_GID_INDEX);
    wish->roce_version = (int)braid_param_int(BRAID_P_IB_ROCE_VERSION);
    if (strcasecmp(family, "AF_INET") == 0)
        wish->family = AF_INET;
    else if (strcasecmp(family, "AF_INET6") == 0)
        wish->family = AF_INET6;
    if (*range != '\0' && braid_gid_parse_range(range, wish) != 0)
        wish->prefix_bits = 0; /* dev_init has said so */
}

/* Old libibverbs has no call for the type. An empty slot's file cannot be read, which is no error. */
static int type_from_sysfs(const char *device, int port, int index)
{
    char path[256], text[32] = "";
    ssize_t got;
    int fd;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d", device,
             port, index);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -ENOENT;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0)
        return -ENOENT;
    return strstr(text, "v2") != NULL ? BRAID_VERBS_GID_V2 : BRAID_VERBS_GID_V1;
}

int braid_verbs_read_gid(struct ibv_context *context, int port, int index, int link,
                         struct braid_verbs_gid *gid)
{
    struct ibv_gid_entry entry;
    union ibv_gid raw;
    int type;

    memset(gid, 0, sizeof(*gid));
    gid->index = (uint8_t)index;
    if (braid_ibv.query_gid_ex != NULL) {
        if (braid_ibv.query_gid_ex(context, (uint32_t)port, (uint32_t)index, &entry, 0,
                                   sizeof(entry)) != 0)
            return -ENOENT;
        memcpy(gid->raw, entry.gid.raw, 16);
        gid->type = (uint8_t)entry.gid_type; /* the values of both enums are equal */
        return 0;
    }
    if (braid_ibv.query_gid(context, (uint8_t)port, index, &raw) != 0)
        return -ENOENT;
    memcpy(gid->raw, raw.raw, 16);
    type = link == BRAID_VERBS_LINK_IB
               ? BRAID_VERBS_GID_IB
               : type_from_sysfs(braid_ibv.get_device_name(context->device), port, index);
    gid->type = (uint8_t)type;
    return type < 0 ? type : 0;
}

/* Keeps the best BRAID_VERBS_GIDS entries, best first. */
static void offer_gid(struct braid_verbs_rail *rail, const struct braid_verbs_gid *gid, int rank,
                      int *ranks)
{
    int at = rail->gid_count;

    while (at > 0 && ranks[at - 1] < rank)
        at--;
    if (at == BRAID_VERBS_GIDS)
        return;
    if (rail->gid_count < BRAID_VERBS_GIDS)
        rail->gid_count++;
    for (int i = rail->gid_count - 1; i > at; i--) {
        rail->gids[i] = rail->gids[i - 1];
        ranks[i] = ranks[i - 1];
    }
    rail->gids[at] = *gid;
    ranks[at] = rank;
}

static void read_gids(struct braid_verbs_port *port, int table_entries)
{
    int ranks[BRAID_VERBS_GIDS];
    struct braid_gid_wish wish;
    struct braid_verbs_gid gid;
    const char *why;

    braid_verbs_gid_wish(&wish);
    port->rail.gid_count = 0;
    for (int i = 0; i < table_entries && i < 256; i++) {
        if (braid_verbs_read_gid(port->nic->context, port->port, i, port->rail.link, &gid) != 0)
            continue;
        int rank = braid_gid_rank(&gid, &wish, &why);
        if (rank >= 0)
            offer_gid(&port->rail, &gid, rank, ranks);
    }
}

/* Reads state, LID, MTU and GIDs of a port again: 1 if it is active, 0, or a negative errno. `active` itself is the caller's. */
static int read_port(struct braid_verbs_port *port)
{
    struct braid_verbs_rail *rail = &port->rail;
    struct ibv_port_attr attr;
    __be16 pkey = 0;

    memset(&attr, 0, sizeof(attr));
    if (braid_ibv.query_port(port->nic->context, (uint8_t)port->port, &attr) != 0)
        return -EIO;
    memset(rail, 0, sizeof(*rail));
    snprintf(rail->name, sizeof(rail->name), "%.23s", port->name);
    rail->link = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? BRAID_VERBS_LINK_ETHERNET
                                                            : BRAID_VERBS_LINK_IB;
    rail->mtu = (uint8_t)attr.active_mtu;
    rail->gpu = port->nic->dmabuf == 1 || braid_verbs_peer_memory() != NULL;
    rail->lid = attr.lid;
    port->speed_Mbps = braid_verbs_speed_Mbps(attr.active_speed, attr.active_width);
    rail->speed_Mbps = (uint32_t)port->speed_Mbps;
    port->pkey_index = (uint16_t)braid_param_int(BRAID_P_IB_PKEY);
    braid_ibv.query_pkey(port->nic->context, (uint8_t)port->port, port->pkey_index, &pkey);
    rail->pkey = be16toh(pkey);
    read_gids(port, attr.gid_tbl_len);
    return attr.state == IBV_PORT_ACTIVE;
}

/* -- asynchronous events --------------------------------------------------------------------------------------------------- */

void braid_verbs_port_lost(struct braid_verbs_port *port, const char *how)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock); /* the second to come must not go on before the line is out */
    if (atomic_load(&port->active))
        BRAID_WARN("port %s went down (%s); connections that use it fail unless it comes back "
                   "at once: check the cable, the switch port and `ibstat`",
                   port->name, how);
    atomic_store(&port->active, false);
    pthread_mutex_unlock(&lock);
}

static void port_event(struct braid_verbs_nic *nic, int number, enum ibv_event_type type)
{
    for (struct braid_verbs_port *port = nic->ports; port != NULL; port = port->next) {
        bool was = atomic_load(&port->active);
        if (port->port != number)
            continue;
        if (read_port(port) != 1 || type == IBV_EVENT_PORT_ERR) {
            braid_verbs_port_lost(port, braid_ibv.event_type_str(type));
            if (was)
                continue;
        } else {
            atomic_store(&port->active, true);
        }
        BRAID_INFO(BRAID_LOG_NET, "port %s: %s; GID table and state were read again", port->name,
                   braid_ibv.event_type_str(type));
    }
}

static void on_event(struct braid_watch *watch, uint32_t events)
{
    struct braid_verbs_nic *nic = braid_container_of(watch, struct braid_verbs_nic, watch);
    struct ibv_async_event event;

    (void)events;
    if (braid_ibv.get_async_event(nic->context, &event) != 0)
        return;
    switch (event.event_type) {
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE: port_event(nic, event.element.port_num, event.event_type); break;
    case IBV_EVENT_DEVICE_FATAL:
        /* First the line: whoever sees the flag fails, and the process may end at once. */
        BRAID_WARN("NIC %s reports a fatal error and is not used any more: see dmesg", nic->name);
        atomic_store(&nic->dead, true);
        break;
    default: break; /* errors of queue pairs show as completions */
    }
    braid_ibv.ack_async_event(&event);
}

void braid_verbs_dev_watch(int dev)
{
    for (int i = 0; i < braid_verbs_devices[dev].count; i++) {
        struct braid_verbs_nic *nic = braid_verbs_port_of(dev, i)->nic;
        int flags = fcntl(nic->context->async_fd, F_GETFL);
        if (nic->watch.id != 0 || flags < 0 ||
            fcntl(nic->context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0)
            continue;
        nic->watch.fd = nic->context->async_fd;
        nic->watch.fn = on_event;
        if (braid_maint_add(&nic->watch, EPOLLIN) != 0)
            BRAID_INFO(BRAID_LOG_NET, "events of %s cannot be watched", nic->name);
    }
}

/* -- discovery ---------------------------------------------------------------------------------------------------------------- */

const char *braid_verbs_peer_memory(void)
{
    static const char *const found[][2] = {
        {"/sys/kernel/mm/memory_peers/nv_mem/version", "nv_peer_mem"},
        {"/sys/kernel/mm/memory_peers/nv_mem_nc/version", "nv_peer_mem (nc)"},
        {"/sys/module/nvidia_peermem/version", "nvidia_peermem"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(found); i++)
        if (access(found[i][0], F_OK) == 0)
            return found[i][1];
    return NULL;
}

/* A kernel that knows dma-buf says so about a descriptor that is none (EBADF); one that does not says EOPNOTSUPP. */
static int probe_dmabuf(const struct braid_verbs_nic *nic)
{
    struct ibv_mr *mr;

    if (braid_ibv.reg_dmabuf_mr == NULL || !braid_param_bool(BRAID_P_IB_DMABUF))
        return 0;
    errno = 0;
    mr = braid_ibv.reg_dmabuf_mr(nic->pd, 0, 0, 0, -1, 0);
    if (mr != NULL)
        braid_ibv.dereg_mr(mr);
    return mr == NULL && errno == EBADF;
}

static void nic_close(struct braid_verbs_nic *nic)
{
    struct braid_verbs_port *port, *next;

    if (nic == NULL)
        return;
    for (port = nic->ports; port != NULL; port = next) {
        next = port->next;
        free(port);
    }
    if (nic->pd != NULL)
        braid_ibv.dealloc_pd(nic->pd);
    if (nic->context != NULL)
        braid_ibv.close_device(nic->context);
    free(nic->regions);
    pthread_mutex_destroy(&nic->regions_lock);
    free(nic);
}

void braid_verbs_nic_get(struct braid_verbs_nic *nic)
{
    atomic_fetch_add(&nic->users, 1);
}

void braid_verbs_nic_put(struct braid_verbs_nic *nic)
{
    if (atomic_fetch_sub(&nic->users, 1) == 1)
        nic_close(nic);
}

bool braid_verbs_is_software(const struct ibv_device *device)
{
    char *real = realpath(device->ibdev_path, NULL);
    bool virtual = strstr(real != NULL ? real : device->ibdev_path, "/devices/virtual/") != NULL;

    free(real);
    return virtual;
}

static struct braid_verbs_nic *nic_open(struct ibv_device *device)
{
    struct braid_verbs_nic *nic = calloc(1, sizeof(*nic));
    char path[IBV_SYSFS_PATH_MAX + 16], *real;

    if (nic == NULL)
        return NULL;
    pthread_mutex_init(&nic->regions_lock, NULL);
    atomic_store(&nic->users, 1);
    snprintf(nic->name, sizeof(nic->name), "%s", braid_ibv.get_device_name(device));
    nic->context = braid_ibv.open_device(device);
    if (nic->context == NULL) {
        BRAID_INFO(BRAID_LOG_NET, "device %s cannot be opened: %s", nic->name, strerror(errno));
        goto err;
    }
    if (braid_ibv.query_device(nic->context, &nic->attr) != 0) {
        BRAID_INFO(BRAID_LOG_NET, "device %s does not say what it can do: %s", nic->name,
                   strerror(errno));
        goto err;
    }
    nic->pd = braid_ibv.alloc_pd(nic->context);
    if (nic->pd == NULL) {
        BRAID_INFO(BRAID_LOG_NET, "device %s gives no protection domain: %s", nic->name,
                   strerror(errno));
        goto err;
    }
    nic->guid = nic->attr.sys_image_guid;
    nic->relaxed =
        braid_ibv.reg_mr_iova2 != NULL && braid_param_int(BRAID_P_IB_RELAXED_ORDERING) != 0;
    nic->dmabuf = probe_dmabuf(nic);
    nic->no_order = braid_verbs_is_software(device);
    snprintf(path, sizeof(path), "%s/device", device->ibdev_path);
    real = realpath(path, NULL);
    snprintf(nic->pci_path, sizeof(nic->pci_path), "%s", real != NULL ? real : "");
    free(real);
    return nic;
err:
    nic_close(nic);
    return NULL;
}

static void add_device(int port)
{
    struct braid_verbs_device *device = &braid_verbs_devices[braid_verbs_device_count++];

    memset(device, 0, sizeof(*device));
    snprintf(device->name, sizeof(device->name), "%s", braid_verbs_ports[port]->name);
    device->ports[0] = port;
    device->count = 1;
}

/* Why a port cannot be used, or NULL. */
static const char *port_trouble(struct braid_verbs_port *port)
{
    int active = read_port(port);

    if (active < 0)
        return "it does not answer";
    if (!active)
        return "it is not active";
    atomic_store(&port->active, true);
    if (port->rail.link == BRAID_VERBS_LINK_ETHERNET && port->rail.gid_count == 0)
        return "no GID fits (its interface may have no address, or BRAID_IB_GID_INDEX names an "
               "empty entry)";
    return NULL;
}

/* Enters one port if it can be used. Says in one line what became of it. */
static bool add_port(struct braid_verbs_nic *nic, int number, const char *hca_list)
{
    struct braid_verbs_port *port;
    const char *trouble;
    char gid[64] = "none";

    if (!braid_hca_admits(hca_list, nic->name, number)) {
        BRAID_INFO(BRAID_LOG_NET, "port %s:%d is not used: BRAID_IB_HCA excludes it", nic->name,
                   number);
        return false;
    }
    port = calloc(1, sizeof(*port));
    if (port == NULL)
        return false;
    port->nic = nic;
    port->port = number;
    snprintf(port->name, sizeof(port->name), "%s:%d", nic->name, number);
    trouble = port_trouble(port);
    if (trouble != NULL) {
        BRAID_INFO(BRAID_LOG_NET, "port %s is not used: %s", port->name, trouble);
        free(port);
        return false;
    }
    if (port->rail.gid_count > 0)
        braid_gid_text(port->rail.gids[0].raw, gid, sizeof(gid));
    BRAID_INFO(BRAID_LOG_NET, "port %s: %s, %d Mb/s, MTU %d, GID %d %s%s", port->name,
               port->rail.link == BRAID_VERBS_LINK_IB ? "InfiniBand" : "RoCE", port->speed_Mbps,
               128 << port->rail.mtu, port->rail.gid_count > 0 ? port->rail.gids[0].index : -1, gid,
               nic->relaxed ? ", relaxed ordering" : "");
    port->next = nic->ports;
    nic->ports = port;
    braid_verbs_ports[braid_verbs_port_count] = port;
    add_device(braid_verbs_port_count++);
    return true;
}

static void check_settings(const char *hca_list)
{
    struct braid_gid_wish wish = {0};
    const char *range = braid_param_str(BRAID_P_IB_ADDR_RANGE);
    char why[160];

    if (braid_hca_is_odd(hca_list, why, sizeof(why)))
        BRAID_WARN("BRAID_IB_HCA: %s", why);
    if (*range != '\0' && braid_gid_parse_range(range, &wish) != 0)
        BRAID_WARN(
            "BRAID_IB_ADDR_RANGE: \"%s\" is not an address range such as 10.1.0.0/16; ignored",
            range);
}

int braid_verbs_dev_init(void)
{
    const char *hca_list = braid_param_str(BRAID_P_IB_HCA);
    struct ibv_device **list;
    int count = 0;

    check_settings(hca_list);
    list = braid_ibv.get_device_list(&count);
    if (list == NULL)
        return -errno;
    for (int i = 0; i < count && nic_count < BRAID_VERBS_PORTS; i++) {
        struct braid_verbs_nic *nic = nic_open(list[i]);
        bool used = false;
        for (int p = 1; nic != NULL && p <= nic->attr.phys_port_cnt &&
                        braid_verbs_port_count < BRAID_VERBS_PORTS;
             p++)
            used |= add_port(nic, p, hca_list);
        if (!used) {
            nic_close(nic);
            continue;
        }
        nics[nic_count++] = nic;
    }
    braid_ibv.free_device_list(list);
    return 0;
}

void braid_verbs_dev_fini(void)
{
    while (nic_count > 0)
        braid_verbs_nic_put(nics[--nic_count]);
    braid_verbs_port_count = 0;
    braid_verbs_device_count = 0;
}

int braid_verbs_dev_fuse(const int *devs, int count)
{
    struct braid_verbs_device *device = &braid_verbs_devices[braid_verbs_device_count];
    struct braid_verbs_device fused = {.count = 0};
    size_t used = 0;

    if (braid_verbs_device_count == BRAID_VERBS_DEVICES || count < 1)
        return count < 1 ? -EINVAL : -ENOSPC;
    for (int i = 0; i < count; i++) {
        if (devs[i] < 0 || devs[i] >= braid_verbs_device_count ||
            braid_verbs_devices[devs[i]].count != 1 || fused.count == BRAID_VDEV_MAX)
            return -EINVAL;
        for (int j = 0; j < fused.count; j++)
            if (fused.ports[j] == braid_verbs_devices[devs[i]].ports[0])
                return -EINVAL;
        fused.ports[fused.count++] = braid_verbs_devices[devs[i]].ports[0];
        used += (size_t)snprintf(fused.name + used, sizeof(fused.name) - used, "%s%s",
                                 i > 0 ? "+" : "", braid_verbs_devices[devs[i]].name);
        if (used >= sizeof(fused.name))
            used = sizeof(fused.name) - 1;
    }
    *device = fused;
    return braid_verbs_device_count++;
}

int braid_verbs_dev_props(int dev, struct braid_device_props *props)
{
    const struct braid_verbs_device *device = &braid_verbs_devices[dev];
    const struct braid_verbs_port *port;
    bool gpu, dmabuf;

    if (dev < 0 || dev >= braid_verbs_device_count)
        return -EINVAL;
    port = braid_verbs_port_of(dev, 0);
    gpu = braid_verbs_peer_memory() != NULL;
    dmabuf = port->nic->dmabuf == 1;
    memset(props, 0, sizeof(*props));
    props->name = device->name;
    props->pci_path = port->nic->pci_path[0] != '\0' ? port->nic->pci_path : NULL;
    props->guid = port->nic->guid;
    props->ptr_support =
        BRAID_PTR_HOST | (gpu || dmabuf ? BRAID_PTR_CUDA : 0) | (dmabuf ? BRAID_PTR_DMABUF : 0);
    props->reg_is_global = true;
    props->port = port->port;
    props->latency_us = 0;
    props->max_comms = port->nic->attr.max_qp;
    props->max_recvs = 8;
    props->max_p2p_bytes = 1u << 30;
    props->rail_id = props->plane_id = -1;
    props->ndevs = device->count;
    for (int i = 0; i < device->count; i++) {
        props->devs[i] = device->ports[i];
        props->speed_Mbps += braid_verbs_ports[device->ports[i]]->speed_Mbps;
    }
    return 0;
}
