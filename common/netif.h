/*
 * Which network interfaces Braid may use, and why not the others. The list is read once (plugin init, tools); the reason for every
 * rejected interface is logged at INFO. The grammar of BRAID_SOCKET_IFNAME is a pure function with its own test.
 * Threading: any thread; results belong to the caller.
 * Called by: core (addresses in handles), socket transport (its devices), braid-info.
 */
#ifndef BRAID_COMMON_NETIF_H
#define BRAID_COMMON_NETIF_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/sock.h"

#define BRAID_NETIF_ADDRS 4
#define BRAID_NETIF_MAX   16

struct braid_netif {
    char name[IFNAMSIZ];
    int addrs_count;
    union braid_addr addrs[BRAID_NETIF_ADDRS]; /* port 0 */
    uint8_t prefix_bits[BRAID_NETIF_ADDRS];
    int speed_Mbps; /* 10000 when the driver does not say */
    int numa_node;  /* -1: unknown */
    bool loopback;
    char pci_path[256]; /* "" for an interface that is not on PCI */
};

/*
 * Whether `spec` admits the interface `name`. An empty spec admits all. "eth,ib" admits names that begin with eth or ib, "=eth0,eth1"
 * exactly these, "^docker,lo" all but those that begin so, "^=eth0" all but exactly this.
 */
bool braid_netif_spec_admits(const char *spec, const char *name);

/*
 * What is wrong with a spec ("'^' counts only in front of the list", an empty item), into `why`; false when nothing is. Such a spec still
 * has the meaning that NCCL gives it.
 */
bool braid_netif_spec_is_odd(const char *spec, char *why, size_t why_bytes);

/*
 * Fills `out` with the usable interfaces, in the kernel's order: up, with an address of `family` (AF_UNSPEC: any) that is not link-local,
 * admitted by `spec`; without a spec no loopback and no bridge or container end, unless there is nothing else. Returns their number
 * or a negative errno.
 */
int braid_netif_list(const char *spec, int family, struct braid_netif *out, int max);

#endif
