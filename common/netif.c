/* The choice of network interfaces; see netif.h. */
#include "common/netif.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

#define DEFAULT_SPEED_MBPS 10000
#define CANDIDATES         64

/* What containers and hypervisors leave on a host: they rarely reach another node. Names as prefixes. */
static const char *const local_only[] = {"docker",  "veth",  "virbr", "br-", "cni",
                                         "flannel", "cali",  "lxc",   "lxd", "vnet",
                                         "tap",     "dummy", "podman"};

enum rank { RANK_REAL, RANK_LOCAL_ONLY, RANK_LOOPBACK };

bool braid_netif_spec_admits(const char *spec, const char *name)
{
    bool exclude = *spec == '^', exact, found = false;

    if (*spec == '\0')
        return true;
    spec += exclude;
    exact = *spec == '=';
    spec += exact;
    while (*spec != '\0' && !found) {
        size_t length = strcspn(spec, ",");
        if (length > 0)
            found = strncmp(spec, name, length) == 0 && (!exact || name[length] == '\0');
        spec += length;
        spec += *spec == ',';
    }
    return found != exclude;
}

bool braid_netif_spec_is_odd(const char *spec, char *why, size_t why_bytes)
{
    const char *at = spec + (*spec == '^');

    at += *at == '=';
    if (*spec != '\0' && *at == '\0') {
        snprintf(why, why_bytes, "no interface is named");
        return true;
    }
    while (*at != '\0') {
        size_t length = strcspn(at, ",");
        if (length == 0) {
            snprintf(why, why_bytes, "an item is empty");
            return true;
        }
        if (*at == '^' || *at == '=') {
            snprintf(why, why_bytes,
                     "'%c' before \"%.*s\" counts only in front of the whole list; here it is "
                     "taken as part "
                     "of the name",
                     *at, (int)length - 1, at + 1);
            return true;
        }
        if (memchr(at, ' ', length) != NULL) {
            snprintf(why, why_bytes, "\"%.*s\" contains a blank", (int)length, at);
            return true;
        }
        at += length;
        at += *at == ',';
    }
    return false;
}

static long read_number(const char *name, const char *file, long otherwise)
{
    char path[128];
    long value = otherwise;
    FILE *f;

    snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, file);
    f = fopen(path, "re");
    if (f == NULL)
        return otherwise;
    if (fscanf(f, "%ld", &value) != 1)
        value = otherwise;
    fclose(f);
    return value;
}

static void read_hardware(struct braid_netif *netif)
{
    char path[128], *base;
    char resolved[PATH_MAX];
    long speed = read_number(netif->name, "speed", -1);

    netif->speed_Mbps = speed > 0 && speed < 10000000 ? (int)speed : DEFAULT_SPEED_MBPS;
    netif->numa_node = (int)read_number(netif->name, "device/numa_node", -1);
    snprintf(path, sizeof(path), "/sys/class/net/%s/device", netif->name);
    if (realpath(path, resolved) == NULL)
        return;
    base = strrchr(resolved, '/');
    if (base != NULL && strncmp(base, "/virtio", 7) == 0) /* the PCI function is one folder up */
        *base = '\0';
    base = strrchr(resolved, '/');
    if (base != NULL && strlen(base) == strlen("/0000:00:00.0") &&
        strlen(resolved) < sizeof(netif->pci_path))
        strcpy(netif->pci_path, resolved);
}

static enum rank rank_of(const struct braid_netif *netif)
{
    if (netif->loopback)
        return RANK_LOOPBACK;
    for (size_t i = 0; i < ARRAY_SIZE(local_only); i++)
        if (strncmp(netif->name, local_only[i], strlen(local_only[i])) == 0)
            return RANK_LOCAL_ONLY;
    return RANK_REAL;
}

static uint8_t prefix_bits(const struct sockaddr *mask)
{
    const uint8_t *bytes;
    unsigned count, bits = 0;

    if (mask == NULL)
        return 0;
    bytes = mask->sa_family == AF_INET6
                ? ((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr.s6_addr
                : (const uint8_t *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr;
    count = mask->sa_family == AF_INET6 ? 16 : 4;
    for (unsigned i = 0; i < count; i++)
        bits += (unsigned)__builtin_popcount(bytes[i]);
    return (uint8_t)bits;
}

static bool is_usable_address(const struct sockaddr *sa, int family)
{
    if (sa == NULL || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
        return false;
    if (family != AF_UNSPEC && sa->sa_family != family)
        return false;
    return sa->sa_family == AF_INET ||
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
}

static bool same_address(const union braid_addr *a, const struct sockaddr *sa)
{
    union braid_addr b = {0};

    memcpy(&b, sa, sa->sa_family == AF_INET6 ? sizeof(b.v6) : sizeof(b.v4));
    if (a->sa.sa_family != b.sa.sa_family)
        return false;
    if (b.sa.sa_family == AF_INET6)
        return memcmp(&a->v6.sin6_addr, &b.v6.sin6_addr, 16) == 0;
    return a->v4.sin_addr.s_addr == b.v4.sin_addr.s_addr;
}

/* The interface that already has this address: such a duplicate must not be offered twice. */
static const struct braid_netif *owner_of(const struct braid_netif *list, int count,
                                          const struct sockaddr *sa)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < list[i].addrs_count; j++)
            if (same_address(&list[i].addrs[j], sa))
                return &list[i];
    return NULL;
}

static struct braid_netif *entry_of(struct braid_netif *list, int *count, const struct ifaddrs *ifa)
{
    struct braid_netif *netif;

    for (int i = 0; i < *count; i++)
        if (strcmp(list[i].name, ifa->ifa_name) == 0)
            return &list[i];
    if (*count == CANDIDATES || strlen(ifa->ifa_name) >= IFNAMSIZ)
        return NULL;
    netif = &list[(*count)++];
    memset(netif, 0, sizeof(*netif));
    strcpy(netif->name, ifa->ifa_name);
    netif->loopback = (ifa->ifa_flags & IFF_LOOPBACK) != 0;
    return netif;
}

static int collect(const char *spec, int family, struct braid_netif *list)
{
    struct ifaddrs *all;
    int count = 0;

    if (getifaddrs(&all) != 0)
        return -errno;
    for (const struct ifaddrs *ifa = all; ifa != NULL; ifa = ifa->ifa_next) {
        const struct braid_netif *owner;
        struct braid_netif *netif;
        if (!is_usable_address(ifa->ifa_addr, family))
            continue;
        if (!braid_netif_spec_admits(spec, ifa->ifa_name)) {
            BRAID_INFO(BRAID_LOG_NET, "interface %s: not used, BRAID_SOCKET_IFNAME=%s excludes it",
                       ifa->ifa_name, spec);
            continue;
        }
        if ((ifa->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING)) {
            BRAID_INFO(BRAID_LOG_NET, "interface %s: not used, it is down or has no carrier",
                       ifa->ifa_name);
            continue;
        }
        owner = owner_of(list, count, ifa->ifa_addr);
        if (owner != NULL) {
            BRAID_INFO(BRAID_LOG_NET, "interface %s: address not used, %s has the same one",
                       ifa->ifa_name, owner->name);
            continue;
        }
        netif = entry_of(list, &count, ifa);
        if (netif == NULL || netif->addrs_count == BRAID_NETIF_ADDRS)
            continue;
        memcpy(&netif->addrs[netif->addrs_count], ifa->ifa_addr,
               ifa->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                    : sizeof(struct sockaddr_in));
        netif->prefix_bits[netif->addrs_count++] = prefix_bits(ifa->ifa_netmask);
    }
    freeifaddrs(all);
    return count;
}

int braid_netif_list(const char *spec, int family, struct braid_netif *out, int max)
{
    struct braid_netif *list = calloc(CANDIDATES, sizeof(*list));
    enum rank best = RANK_LOOPBACK;
    char why[160];
    int found, count = 0;

    if (list == NULL)
        return -ENOMEM;
    if (braid_netif_spec_is_odd(spec, why, sizeof(why)))
        BRAID_WARN("BRAID_SOCKET_IFNAME or NCCL_SOCKET_IFNAME is \"%s\": %s", spec, why);
    found = collect(spec, family, list);
    for (int i = 0; i < found; i++)
        best = MIN(best, rank_of(&list[i]));
    for (int i = 0; i < found && count < max; i++) {
        if (*spec == '\0' && rank_of(&list[i]) > best) {
            BRAID_INFO(BRAID_LOG_NET,
                       "interface %s: not used, it is %s; name it in BRAID_SOCKET_IFNAME to use it",
                       list[i].name,
                       list[i].loopback ? "the loopback"
                                        : "of a kind that usually stays inside the host");
            continue;
        }
        out[count] = list[i];
        read_hardware(&out[count++]);
    }
    free(list);
    return found < 0 ? found : count;
}
