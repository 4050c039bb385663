/* The choice of network interfaces; see netif.h. */
#include "common/netif.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/param.h"
#include "common/util.h"

/* What containers and hypervisors leave on a host: they rarely reach another node. Names as prefixes. */
static const char *const local_names[] = {"docker", "veth", "virbr", "br-",    "cni", "flannel",
                                          "cali",   "lxc",  "lxd",   "vnet",   "tap", "dummy",
                                          "podman", "wg",   "tun",   "nerdctl"};
static const struct {
    const char *kind, *what;
} local_kinds[] = {
    {"bridge", "it is a bridge without a port in hardware"},
    {"tun", "it is the end of a tunnel"},
    {"tunnel", "it is the end of a tunnel"},
    {"wireguard", "it is the end of a tunnel"},
    {"vxlan", "it is an overlay"},
    {"geneve", "it is an overlay"},
    {"dummy", "it leads nowhere"},
    {"ifb", "it leads nowhere"},
};

enum rank { RANK_REAL, RANK_LOCAL_ONLY, RANK_LOOPBACK };

/* An interface under judgement. */
struct candidate {
    const struct braid_netif_found *first; /* of its entries */
    struct braid_netif netif;
    bool link_local; /* it has such an address, which does not count */
    bool out;
    char why[200];
};

static void reject(struct candidate *c, const char *fmt, ...) BRAID_PRINTF(2, 3);
static void reject(struct candidate *c, const char *fmt, ...)
{
    va_list args;

    c->out = true;
    va_start(args, fmt);
    vsnprintf(c->why, sizeof(c->why), fmt, args);
    va_end(args);
}

/* Why an interface hardly reaches another node; NULL for one that may. */
static const char *local_kind(const struct candidate *c)
{
    if (strcmp(c->first->kind, "bridge") == 0 && c->first->lower[0] != '\0')
        return NULL; /* a bridge over a real port is how many hosts reach their network */
    for (size_t i = 0; i < ARRAY_SIZE(local_kinds); i++)
        if (strcmp(c->first->kind, local_kinds[i].kind) == 0)
            return local_kinds[i].what;
    for (size_t i = 0; i < ARRAY_SIZE(local_names); i++)
        if (strncmp(c->first->name, local_names[i], strlen(local_names[i])) == 0)
            return "by its name it belongs to a container, a virtual machine or a tunnel";
    return NULL;
}

static enum rank rank_of(const struct candidate *c)
{
    if (c->netif.loopback)
        return RANK_LOOPBACK;
    return local_kind(c) != NULL ? RANK_LOCAL_ONLY : RANK_REAL;
}

static bool is_link_local(const union braid_addr *addr)
{
    if (addr->sa.sa_family == AF_INET6)
        return IN6_IS_ADDR_LINKLOCAL(&addr->v6.sin6_addr);
    return (ntohl(addr->v4.sin_addr.s_addr) & 0xffff0000u) == 0xa9fe0000u; /* 169.254/16 */
}

static bool same_address(const union braid_addr *a, const union braid_addr *b)
{
    if (a->sa.sa_family != b->sa.sa_family)
        return false;
    if (b->sa.sa_family == AF_INET6)
        return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, 16) == 0;
    return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

/* The interface in the list that already has this address: such a duplicate must not be offered twice. */
static struct candidate *owner_of(struct candidate *list, int count, const union braid_addr *addr)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; !list[i].out && j < list[i].netif.addrs_count; j++)
            if (same_address(&list[i].netif.addrs[j], addr))
                return &list[i];
    return NULL;
}

static struct candidate *find(struct candidate *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].first->name, name) == 0)
            return &list[i];
    return NULL;
}

static int group_by_name(const struct braid_netif_found *found, int found_count,
                         struct candidate *list)
{
    int count = 0;

    for (int i = 0; i < found_count; i++) {
        struct candidate *c = find(list, count, found[i].name);
        if (c != NULL || count == BRAID_NETIF_SEEN)
            continue;
        c = &list[count++];
        memset(c, 0, sizeof(*c));
        c->first = &found[i];
        strcpy(c->netif.name, found[i].name);
        c->netif.loopback = (found[i].flags & IFF_LOOPBACK) != 0;
    }
    return count;
}

static void judge_state(struct candidate *c, const char *spec)
{
    bool up = (c->first->flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);

    if (!braid_netif_spec_admits(spec, c->first->name))
        reject(c, "the setting \"%s\" excludes it", spec);
    else if (!up)
        reject(c, c->first->flags & IFF_UP ? "it has no carrier" : "it is down");
    else if (*spec == '\0' && c->first->master[0] != '\0')
        reject(c, "it is a port of %s", c->first->master);
}

/* Takes what addresses an interface has; the first owner of an address keeps it. 169.254/16 counts for an interface that is named. */
static void take_addresses(struct candidate *list, int count, int family, bool named,
                           const struct braid_netif_found *found, int found_count)
{
    for (int i = 0; i < found_count; i++) {
        struct candidate *c = find(list, count, found[i].name), *owner;
        const union braid_addr *addr = &found[i].addr;
        if (c == NULL || c->out || addr->sa.sa_family == AF_UNSPEC ||
            (family != AF_UNSPEC && addr->sa.sa_family != family))
            continue;
        if (is_link_local(addr) && !(named && addr->sa.sa_family == AF_INET)) {
            c->link_local = true;
            continue;
        }
        owner = owner_of(list, count, addr);
        if (owner != NULL && owner != c)
            snprintf(c->why, sizeof(c->why), "%s has the same address", owner->first->name);
        if (owner != NULL || c->netif.addrs_count == BRAID_NETIF_ADDRS)
            continue;
        c->netif.addrs[c->netif.addrs_count] = *addr;
        c->netif.prefix_bits[c->netif.addrs_count++] = found[i].prefix_bits;
    }
}

static void judge_addresses(struct candidate *c, int family)
{
    if (c->out || c->netif.addrs_count > 0)
        return;
    if (c->why[0] != '\0')
        c->out = true;
    else
        reject(c, "it has no %saddress%s",
               family == AF_INET    ? "IPv4 "
               : family == AF_INET6 ? "IPv6 "
                                    : "",
               c->link_local ? " but a link-local one" : "");
}

/* Without a setting: only the best kind of interface, and each port once. */
static void judge_kind(struct candidate *list, int count)
{
    enum rank best = RANK_LOOPBACK;

    for (int i = 0; i < count; i++)
        if (!list[i].out)
            best = MIN(best, rank_of(&list[i]));
    for (int i = 0; i < count; i++) {
        struct candidate *c = &list[i], *lower;
        const char *kind = local_kind(c);
        if (c->out)
            continue;
        lower = c->first->lower[0] != '\0' ? find(list, count, c->first->lower) : NULL;
        if (rank_of(c) > best)
            reject(c, "%s; name it in BRAID_SOCKET_IFNAME to use it",
                   c->netif.loopback ? "it is the loopback" : kind);
        else if (lower != NULL && lower != c && !lower->out)
            reject(c, "it shares the port of %s", c->first->lower);
    }
}

int braid_netif_choose(const char *spec, int family, const struct braid_netif_found *found,
                       int found_count, struct braid_netif *out, int max,
                       struct braid_netif_verdict *verdicts, int *verdicts_p)
{
    struct candidate *list = calloc(BRAID_NETIF_SEEN, sizeof(*list));
    int count, chosen = 0;

    if (list == NULL)
        return -ENOMEM;
    count = group_by_name(found, found_count, list);
    for (int i = 0; i < count; i++)
        judge_state(&list[i], spec);
    take_addresses(list, count, family, *spec != '\0' && *spec != '^', found, found_count);
    for (int i = 0; i < count; i++)
        judge_addresses(&list[i], family);
    if (*spec == '\0')
        judge_kind(list, count);
    for (int i = 0; i < count; i++) {
        struct candidate *c = &list[i];
        if (!c->out && chosen == max)
            reject(c, "%d interfaces are the most that are used", max);
        if (!c->out)
            out[chosen++] = c->netif;
        if (verdicts == NULL)
            continue;
        strcpy(verdicts[i].name, c->first->name);
        verdicts[i].chosen = !c->out;
        snprintf(verdicts[i].why, sizeof(verdicts[i].why), "%s", c->out ? c->why : "");
    }
    if (verdicts_p != NULL)
        *verdicts_p = count;
    free(list);
    return chosen;
}

/* "eth0, lo" */
static void names_of(const struct braid_netif_verdict *verdicts, int count, char *text,
                     size_t bytes)
{
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < count && at + IFNAMSIZ + 3 < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s", i > 0 ? ", " : "", verdicts[i].name);
}

static void say(const char *spec, const struct braid_netif_verdict *verdicts, int count, int chosen)
{
    char text[512];
    bool admitted = false;

    for (int i = 0; i < count; i++) {
        admitted |= braid_netif_spec_admits(spec, verdicts[i].name);
        if (!verdicts[i].chosen)
            BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET, "interface %s: not used, %s",
                       verdicts[i].name, verdicts[i].why);
    }
    if (chosen > 0)
        return;
    names_of(verdicts, count, text, sizeof(text));
    if (!admitted)
        BRAID_WARN("%s is \"%s\": no interface has such a name; there are: %s",
                   braid_param_name(BRAID_P_SOCKET_IFNAME), spec, text);
    for (int i = 0; i < count && admitted; i++)
        if (braid_netif_spec_admits(spec, verdicts[i].name))
            BRAID_WARN("network interface %s cannot be used: %s", verdicts[i].name,
                       verdicts[i].why);
}

int braid_netif_list(const char *spec, int family, struct braid_netif *out, int max)
{
    struct braid_netif_found *found = calloc(BRAID_NETIF_FOUND, sizeof(*found));
    struct braid_netif_verdict *verdicts = calloc(BRAID_NETIF_SEEN, sizeof(*verdicts));
    char why[160];
    int count, seen = 0, chosen = -ENOMEM;

    if (found == NULL || verdicts == NULL)
        goto err_free;
    if (braid_netif_spec_is_odd(spec, why, sizeof(why)))
        BRAID_WARN("%s is \"%s\": %s", braid_param_name(BRAID_P_SOCKET_IFNAME), spec, why);
    count = braid_netif_scan(found, BRAID_NETIF_FOUND);
    chosen = count < 0 ? count
                       : braid_netif_choose(spec, family, found, count, out, max, verdicts, &seen);
    if (count >= 0)
        say(spec, verdicts, seen, chosen);
    for (int i = 0; i < chosen; i++)
        braid_netif_read_hardware(&out[i]);
err_free:
    free(verdicts);
    free(found);
    return chosen;
}
