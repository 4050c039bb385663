/*
 * Devices of the verbs transport. A port is one physical port of one NIC that NCCL_IB_HCA admits; a device is what NCCL sees: one
 * port, or several that makeVDevice fused. Ports are opened at transport init and closed at fini.
 * A NIC lives as long as a connection or a registration uses it: NCCL may finalize first and close afterwards.
 * Threading: lists change at init, fini and makeVDevice only (serialised by core); `active` and `gids` of a port are written by the
 * maintenance thread after an asynchronous event, under the maintenance lock, which connect and accept hold too; a lane may clear `active`.
 */
#ifndef BRAID_VERBS_DEV_H
#define BRAID_VERBS_DEV_H

#include <pthread.h>
#include <stdatomic.h>
#include "braid/wire/net_verbs.h"
#include "net-plugin/core/maint.h"
#include "net-plugin/core/transport.h"
#include "net-plugin/verbs/gid.h"
#include "net-plugin/verbs/ibv.h"

#define BRAID_VERBS_PORTS   32
#define BRAID_VERBS_DEVICES 64

struct braid_verbs_region; /* mr.c */

/* One opened NIC; its ports share the context and the protection domain. */
struct braid_verbs_nic {
    atomic_int users;               /* the list of devices, connections, registrations */
    struct braid_verbs_port *ports; /* its own, chained */
    struct ibv_context *context;
    struct ibv_pd *pd;
    char name[64];
    char pci_path[256];
    uint64_t guid;
    struct ibv_device_attr attr;
    struct braid_watch watch; /* asynchronous events */
    atomic_bool dead;         /* a fatal event came */
    pthread_mutex_t regions_lock;
    struct braid_verbs_region **regions; /* the registration cache, by address */
    int regions_count, regions_room;
    size_t regions_widest;
    bool relaxed;  /* relaxed ordering is asked for and accepted */
    bool no_order; /* software, which stores the bytes of a packet in any order */
    int dmabuf;    /* 1 works, 0 does not */
};

struct braid_verbs_port {
    struct braid_verbs_port *next;
    struct braid_verbs_nic *nic;
    int port;
    char name[80];                /* "mlx5_0:1" */
    struct braid_verbs_rail rail; /* what is offered to peers, re-read after an event */
    uint16_t pkey_index;
    int speed_Mbps;
    atomic_bool active;
};

struct braid_verbs_device {
    char name[BRAID_VDEV_MAX * 24];
    int ports[BRAID_VDEV_MAX];
    int count;
};

extern struct braid_verbs_port *braid_verbs_ports[BRAID_VERBS_PORTS];
extern struct braid_verbs_device braid_verbs_devices[BRAID_VERBS_DEVICES];
extern int braid_verbs_port_count, braid_verbs_device_count;

void braid_verbs_nic_get(struct braid_verbs_nic *nic);
void braid_verbs_nic_put(struct braid_verbs_nic *nic);

int braid_verbs_dev_init(void);
void braid_verbs_dev_fini(void);
int braid_verbs_dev_props(int dev, struct braid_device_props *props);
/* Has the maintenance thread watch the events of the device's NICs, from the first connection on. Maintenance lock held. */
void braid_verbs_dev_watch(int dev);
/* Fuses devices into a new one and returns its number, or a negative errno. */
int braid_verbs_dev_fuse(const int *devs, int count);

static inline struct braid_verbs_port *braid_verbs_port_of(int dev, int rail)
{
    return braid_verbs_ports[braid_verbs_devices[dev].ports[rail]];
}

/* What the user asked for about GIDs, from the tunables. */
void braid_verbs_gid_wish(struct braid_gid_wish *wish);
/* Reads entry `index` of a port's table: its type too, from sysfs where libibverbs is old. 0, -ENOENT for an empty entry. */
int braid_verbs_read_gid(struct ibv_context *context, int port, int index, int link,
                         struct braid_verbs_gid *gid);
/*
 * Marks a port as not active and says so, once, before anyone can act on it: whoever finds it out first, the maintenance thread by
 * an event or a lane by its completions. `how`: what was seen. Any thread.
 */
void braid_verbs_port_lost(struct braid_verbs_port *port, const char *how);

/* A device that is no hardware, such as Soft-RoCE: it lies among the virtual ones in sysfs. */
bool braid_verbs_is_software(const struct ibv_device *device);

/* Whether the kernel lets a NIC use GPU memory by itself ("nvidia_peermem"); the name of what was found, or NULL. */
const char *braid_verbs_peer_memory(void);
/* Rate of a link in Mb/s from the codes of ibv_port_attr. */
int braid_verbs_speed_Mbps(int speed, int width);

#endif
