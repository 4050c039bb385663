/* Ways to a peer; see reach.h. */
#include "net-plugin/core/reach.h"

#include <stdio.h>
#include <string.h>

#include "common/util.h"

static const uint8_t *bytes_of(const union braid_addr *addr)
{
    return addr->sa.sa_family == AF_INET6 ? addr->v6.sin6_addr.s6_addr
                                          : (const uint8_t *)&addr->v4.sin_addr;
}

static bool same_bits(const union braid_addr *a, const union braid_addr *b, unsigned bits)
{
    const uint8_t *x = bytes_of(a), *y = bytes_of(b);

    if (a->sa.sa_family != b->sa.sa_family || bits > (a->sa.sa_family == AF_INET6 ? 128u : 32u) ||
        memcmp(x, y, bits / 8) != 0)
        return false;
    return bits % 8 == 0 || (x[bits / 8] ^ y[bits / 8]) >> (8 - bits % 8) == 0;
}

static bool is_ours(const struct braid_netif *netifs, int count, const union braid_addr *addr)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < netifs[i].addrs_count; j++)
            if (same_bits(&netifs[i].addrs[j], addr, addr->sa.sa_family == AF_INET6 ? 128 : 32))
                return true;
    return addr->sa.sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&addr->v6.sin6_addr)
                                          : *bytes_of(addr) == 127;
}

static bool same_way(const struct braid_way *a, const struct braid_way *b)
{
    return memcmp(&a->peer, &b->peer, sizeof(a->peer)) == 0 &&
           memcmp(&a->source, &b->source, sizeof(a->source)) == 0 &&
           strcmp(a->netif, b->netif) == 0;
}

static void add(struct braid_way *ways, int *count, const union braid_addr *peer,
                const union braid_addr *source, const char *netif)
{
    struct braid_way way;

    memset(&way, 0, sizeof(way));
    way.peer = *peer;
    if (source != NULL)
        way.source = *source;
    snprintf(way.netif, sizeof(way.netif), "%s", netif);
    for (int i = 0; i < *count; i++)
        if (same_way(&ways[i], &way))
            return;
    if (*count < BRAID_WAYS)
        ways[(*count)++] = way;
}

/* What of an interface goes to `peer`: its address in the peer's subnet, or any of the family when `near` is false. */
static const union braid_addr *source_on(const struct braid_netif *netif,
                                         const union braid_addr *peer, bool near)
{
    for (int i = 0; i < netif->addrs_count; i++) {
        const union braid_addr *addr = &netif->addrs[i];
        if (near ? netif->prefix_bits[i] > 0 && same_bits(addr, peer, netif->prefix_bits[i])
                 : addr->sa.sa_family == peer->sa.sa_family)
            return addr;
    }
    return NULL;
}

static int peers_of(const struct braid_handle *handle, union braid_addr *peers)
{
    int count = 0;

    for (unsigned i = 0; i < BRAID_HANDLE_ADDRS; i++) {
        const struct braid_wire_addr *wire = &handle->addrs[i];
        int family = wire->family == 4 ? AF_INET : wire->family == 6 ? AF_INET6 : AF_UNSPEC;
        memset(&peers[count], 0, sizeof(peers[count]));
        if (braid_addr_from_bytes(&peers[count], family, wire->bytes, handle->port) == 0)
            count++;
    }
    return count;
}

static const struct braid_netif *find(const struct braid_netif *netifs, int count, const char *name)
{
    for (int i = 0; name != NULL && i < count; i++)
        if (strcmp(netifs[i].name, name) == 0)
            return &netifs[i];
    return NULL;
}

/* A neighbour: where its answers leave by the same cable, if it has such a port, then where they leave as its routes say. */
static void add_near(struct braid_way *ways, int *count, const union braid_addr *peer,
                     uint16_t tied_port, const union braid_addr *source, const char *netif)
{
    union braid_addr tied = *peer;

    braid_addr_set_port(&tied, tied_port);
    if (tied_port != 0 && netif[0] != '\0')
        add(ways, count, &tied, source, netif);
    add(ways, count, peer, source, netif);
}

/* From our own interface: addresses in its subnet, then the others. */
static void add_own(struct braid_way *ways, int *count, const struct braid_netif *own,
                    const union braid_addr *peers, int peers_count, const bool *local,
                    uint16_t tied_port, bool tied)
{
    for (int pass = 0; own != NULL && pass < 2; pass++) {
        for (int i = 0; i < peers_count; i++) {
            const union braid_addr *source = source_on(own, &peers[i], pass == 0);
            if (source != NULL && !(tied && (own->loopback || local[i])))
                add_near(ways, count, &peers[i], pass == 0 ? tied_port : 0, source,
                         tied ? own->name : "");
        }
    }
}

int braid_reach_ways(const struct braid_netif *netifs, int count, const char *own_name,
                     const struct braid_handle *handle, struct braid_way *ways)
{
    const struct braid_netif *own = find(netifs, count, own_name);
    union braid_addr peers[BRAID_HANDLE_ADDRS];
    bool local[BRAID_HANDLE_ADDRS];
    int peers_count = peers_of(handle, peers), ways_count = 0;

    for (int i = 0; i < peers_count; i++)
        local[i] = is_ours(netifs, count, &peers[i]);
    add_own(ways, &ways_count, own, peers, peers_count, local, handle->tied_port, true);
    for (int i = 0; i < peers_count; i++) {
        for (int j = 0; j < count; j++) {
            const union braid_addr *source = source_on(&netifs[j], &peers[i], true);
            if (source != NULL && &netifs[j] != own && !local[i])
                add_near(ways, &ways_count, &peers[i], handle->tied_port, source, netifs[j].name);
        }
    }
    add_own(ways, &ways_count, own, peers, peers_count, local, 0, false);
    for (int i = 0; i < peers_count; i++)
        add(ways, &ways_count, &peers[i], NULL, "");
    return ways_count;
}

int braid_reach_route(const struct braid_netif *netifs, int count, const union braid_addr *source,
                      const union braid_addr *peer, struct braid_way *ways)
{
    unsigned bits = source->sa.sa_family == AF_INET6 ? 128 : 32;
    int ways_count = 0;

    for (int i = 0; i < count && !is_ours(netifs, count, peer); i++)
        for (int j = 0; j < netifs[i].addrs_count; j++)
            if (!netifs[i].loopback && same_bits(&netifs[i].addrs[j], source, bits))
                add(ways, &ways_count, peer, source, netifs[i].name);
    add(ways, &ways_count, peer, source, "");
    return ways_count;
}

bool braid_way_is_twin(const struct braid_way *a, const struct braid_way *b)
{
    struct braid_way same = *a;

    braid_addr_set_port(&same.peer, braid_addr_port(&b->peer));
    return same_way(&same, b);
}

char *braid_way_text(const struct braid_way *way, char *buf, size_t buf_bytes)
{
    char peer[BRAID_ADDR_TEXT], source[BRAID_ADDR_TEXT];

    braid_addr_text(&way->peer, peer, sizeof(peer));
    if (way->source.sa.sa_family == AF_UNSPEC) {
        snprintf(buf, buf_bytes, "%s", peer);
        return buf;
    }
    braid_addr_text(&way->source, source, sizeof(source));
    *strrchr(source, ':') = '\0'; /* the port, which is none */
    snprintf(buf, buf_bytes, "%s from %s%s%s", peer, source, way->netif[0] != '\0' ? " by " : "",
             way->netif);
    return buf;
}
