/*
 * What the kernel lists: getifaddrs for addresses and flags, sysfs for what an interface is made of. See netif.h. Where sysfs is not
 * mounted (small containers) the kinds stay unknown and names decide.
 */
#include <errno.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/netif.h"
#include "common/param.h"
#include "common/thread.h"
#include "common/util.h"

#define UNKNOWN_MBPS 10000 /* as NCCL itself says */
#define SYS_PATH     (sizeof("/sys/class/net//") + 2 * IFNAMSIZ + 32)

/* ARPHRD_* of interfaces that are ends of tunnels. */
static const int tunnel_types[] = {512, 519, 768, 769, 776, 778, 823, 65534};

static long read_number(const char *name, const char *file, long otherwise)
{
    char path[SYS_PATH];
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

static bool has(const char *name, const char *file)
{
    char path[SYS_PATH];

    snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, file);
    return access(path, F_OK) == 0;
}

/* DEVTYPE of the uevent file: "bridge", "vlan", "wireguard", "bond", "vxlan", "macvlan", ... */
static void read_devtype(const char *name, char *kind, size_t bytes)
{
    char path[SYS_PATH], line[128];
    FILE *f;

    snprintf(path, sizeof(path), "/sys/class/net/%s/uevent", name);
    f = fopen(path, "re");
    if (f == NULL)
        return;
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "DEVTYPE=", 8) == 0)
            snprintf(kind, bytes, "%.*s", (int)bytes - 1, line + 8);
    }
    fclose(f);
}

static void read_kind(struct braid_netif_found *found)
{
    long type = read_number(found->name, "type", 0);

    read_devtype(found->name, found->kind, sizeof(found->kind));
    if (found->kind[0] != '\0')
        return;
    if (has(found->name, "bridge"))
        strcpy(found->kind, "bridge");
    else if (has(found->name, "tun_flags"))
        strcpy(found->kind, "tun");
    for (size_t i = 0; found->kind[0] == '\0' && i < ARRAY_SIZE(tunnel_types); i++)
        if (type == tunnel_types[i])
            strcpy(found->kind, "tunnel");
}

/* The name behind the first entry of the interface's folder that begins with `prefix`: "lower_eth0" gives eth0. */
static void read_entry(const char *name, const char *folder, const char *prefix, bool hardware,
                       char out[IFNAMSIZ])
{
    char path[SYS_PATH];
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, folder);
    dir = opendir(path);
    if (dir == NULL)
        return;
    while (out[0] == '\0' && (entry = readdir(dir)) != NULL) {
        const char *rest = entry->d_name + strlen(prefix);
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
            strlen(rest) >= IFNAMSIZ || (hardware && !has(rest, "device")))
            continue;
        strcpy(out, rest);
    }
    closedir(dir);
}

static void read_neighbours(struct braid_netif_found *found)
{
    char path[SYS_PATH], target[PATH_MAX], *base;
    ssize_t bytes;

    snprintf(path, sizeof(path), "/sys/class/net/%s/master", found->name);
    bytes = readlink(path, target, sizeof(target) - 1);
    if (bytes > 0) {
        target[bytes] = '\0';
        base = strrchr(target, '/');
        if (base != NULL && strlen(base + 1) < IFNAMSIZ)
            strcpy(found->master, base + 1);
    }
    if (strcmp(found->kind, "bridge") == 0)
        read_entry(found->name, "brif", "", true, found->lower);
    else
        read_entry(found->name, "", "lower_", false, found->lower);
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

static void take(struct braid_netif_found *found, const struct ifaddrs *ifa)
{
    const struct sockaddr *sa = ifa->ifa_addr;

    memset(found, 0, sizeof(*found));
    snprintf(found->name, sizeof(found->name), "%.*s", (int)strcspn(ifa->ifa_name, ":"),
             ifa->ifa_name);
    found->flags = ifa->ifa_flags;
    if (sa != NULL && (sa->sa_family == AF_INET || sa->sa_family == AF_INET6)) {
        memcpy(&found->addr, sa,
               sa->sa_family == AF_INET6 ? sizeof(found->addr.v6) : sizeof(found->addr.v4));
        found->prefix_bits = prefix_bits(ifa->ifa_netmask);
    }
}

int braid_netif_scan(struct braid_netif_found *found, int max)
{
    struct ifaddrs *all;
    int count = 0;

    if (getifaddrs(&all) != 0)
        return -errno;
    for (const struct ifaddrs *ifa = all; ifa != NULL && count < max; ifa = ifa->ifa_next) {
        take(&found[count], ifa);
        read_kind(&found[count]);
        read_neighbours(&found[count]);
        count++;
    }
    freeifaddrs(all);
    return count;
}

/* The address from which the kernel would send to `peer`, without sending; AF_UNSPEC when there is no route. */
static union braid_addr source_for(const union braid_addr *peer)
{
    union braid_addr source = {0};
    socklen_t len = sizeof(source);
    int fd = socket(peer->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, &peer->sa, braid_addr_len(peer)) != 0 ||
        getsockname(fd, &source.sa, &len) != 0)
        source.sa.sa_family = AF_UNSPEC;
    if (fd >= 0)
        close(fd);
    return source;
}

static bool has_address(const struct braid_netif *netif, const union braid_addr *addr)
{
    for (int i = 0; i < netif->addrs_count; i++) {
        const union braid_addr *own = &netif->addrs[i];
        if (own->sa.sa_family == addr->sa.sa_family &&
            (addr->sa.sa_family == AF_INET6
                 ? memcmp(&own->v6.sin6_addr, &addr->v6.sin6_addr, 16) == 0
                 : own->v4.sin_addr.s_addr == addr->v4.sin_addr.s_addr))
            return true;
    }
    return false;
}

bool braid_netif_answers_elsewhere(const struct braid_netif *netif)
{
    for (int i = 0; !netif->loopback && i < netif->addrs_count; i++) {
        union braid_addr source, neighbour = netif->addrs[i];
        bool v6 = neighbour.sa.sa_family == AF_INET6;
        uint8_t *last =
            v6 ? &neighbour.v6.sin6_addr.s6_addr[15] : (uint8_t *)&neighbour.v4.sin_addr.s_addr + 3;

        if (netif->prefix_bits[i] == 0 || netif->prefix_bits[i] > (v6 ? 126 : 30))
            continue;
        braid_addr_set_port(&neighbour, 9);
        *last ^= (*last & 3) == 1 || (*last & 3) == 2
                     ? 3
                     : 1; /* neither the first nor the last of a subnet */
        source = source_for(&neighbour);
        if (source.sa.sa_family != AF_UNSPEC && !has_address(netif, &source))
            return true;
    }
    return false;
}

int braid_netif_loopback_Mbps(unsigned processors)
{
    return processors >= 16 ? 80000 : processors >= 8 ? 39000 : UNKNOWN_MBPS;
}

static long untold_speed(const struct braid_netif *netif)
{
    long set = (long)braid_param_int(BRAID_P_SOCKET_SPEED_MBPS);

    if (set > 0)
        return set;
    return netif->loopback ? braid_netif_loopback_Mbps(braid_thread_processors()) : UNKNOWN_MBPS;
}

void braid_netif_read_hardware(struct braid_netif *netif)
{
    char path[SYS_PATH], *base;
    char resolved[PATH_MAX];
    long speed = read_number(netif->name, "speed", -1);

    if (speed <= 0 || speed > 10000000)
        speed = untold_speed(netif);
    netif->speed_Mbps = (int)speed;
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
