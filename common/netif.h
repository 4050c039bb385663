/*
 * Which network interfaces Braid may use, and why not the others. Three steps: what the kernel lists (netif_scan.c), the grammar of
 * BRAID_SOCKET_IFNAME (netif_spec.c), and the choice (netif.c), a pure function of the two with its own test. braid_netif_list() does all
 * and logs the reason for every interface at INFO; plugin init calls it once.
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
#define BRAID_NETIF_MAX   16  /* chosen ones */
#define BRAID_NETIF_FOUND 512 /* addresses that are looked at */
#define BRAID_NETIF_SEEN  128 /* interfaces that are looked at */

struct braid_netif {
    char name[IFNAMSIZ];
    int addrs_count;
    union braid_addr addrs[BRAID_NETIF_ADDRS]; /* port 0 */
    uint8_t prefix_bits[BRAID_NETIF_ADDRS];
    int speed_Mbps; /* when the driver does not say: BRAID_SOCKET_SPEED_MBPS, or what is likely */
    int numa_node;  /* -1: unknown */
    bool loopback;
    char pci_path[256]; /* "" for an interface that is not on PCI */
};

/* One address as the kernel lists it, with what sysfs says of its interface; `addr` is of AF_UNSPEC for an interface without one. */
struct braid_netif_found {
    char name[IFNAMSIZ]; /* without the ":1" of an alias */
    unsigned flags;      /* IFF_UP, IFF_RUNNING, IFF_LOOPBACK */
    union braid_addr addr;
    uint8_t prefix_bits;
    char kind[16];         /* "bridge", "tun", "wireguard", "vlan", ...; "" for a plain one */
    char master[IFNAMSIZ]; /* the bridge or bond that it is a port of, or "" */
    char lower
        [IFNAMSIZ]; /* whose port it shares: of a VLAN its parent, of a bridge its first hardware port; or "" */
};

struct braid_netif_verdict {
    char name[IFNAMSIZ];
    bool chosen;
    char why[200]; /* of a rejected one: "it is down or has no carrier" */
};

/*
 * Whether `spec` admits the interface `name`. An empty spec admits all. "eth,ib" admits names that begin with eth or ib, "=eth0,eth1"
 * exactly these, "^docker,lo" all but those that begin so, "^=eth0" all but exactly this. As in NCCL a ":port" behind a name is read
 * over.
 */
bool braid_netif_spec_admits(const char *spec, const char *name);

/*
 * What is wrong with a spec ("'^' counts only in front of the list", an empty item, an address), into `why`; false when nothing is. Such a
 * spec still has the meaning that NCCL gives it.
 */
bool braid_netif_spec_is_odd(const char *spec, char *why, size_t why_bytes);

/* "AF_INET", "AF_INET6" or "" as AF_INET, AF_INET6, AF_UNSPEC; anything else is warned about and counts as "". */
int braid_netif_family(const char *text);

/* Fills `found` with all addresses and address-less interfaces of this network namespace; their number or a negative errno. */
int braid_netif_scan(struct braid_netif_found *found, int max);
/*
 * Whether this host's routes would send an answer to a neighbour in one of the interface's subnets out by another interface, as they do
 * where two interfaces are in one subnet.
 */
bool braid_netif_answers_elsewhere(const struct braid_netif *netif);
/*
 * What NCCL is told of loopback, which is as fast as memory is copied: from it NCCL makes 8 channels (80000), 4 (39000) or 2 on Hopper and
 * Blackwell, and two were seen to end at 9.2 GB/s. More keep more processors busy. All ranks take the least that one of them says.
 */
int braid_netif_loopback_Mbps(unsigned processors);
/* Speed, NUMA node and PCI path of a chosen interface, as far as sysfs knows them. */
void braid_netif_read_hardware(struct braid_netif *netif);

/*
 * Fills `out` with the usable ones of `found`, in their order: up, with an address of `family` (AF_UNSPEC: any) that is not link-local,
 * and admitted by `spec`. Without a spec also: no port of a bridge or bond, nothing that shares the port of another chosen one, and
 * no loopback, no bridge, tunnel or container end, unless there is nothing else. `verdicts` (may be NULL, else room for
 * BRAID_NETIF_SEEN) gets one entry an interface, *verdicts_p their number. Returns the number chosen; hardware is not read.
 */
int braid_netif_choose(const char *spec, int family, const struct braid_netif_found *found,
                       int found_count, struct braid_netif *out, int max,
                       struct braid_netif_verdict *verdicts, int *verdicts_p);

/*
 * The whole: scan, choose, read hardware, log each rejected interface at INFO and a spec that is odd or admits nothing at WARN. Returns the
 * number chosen or a negative errno.
 */
int braid_netif_list(const char *spec, int family, struct braid_netif *out, int max);

#endif
