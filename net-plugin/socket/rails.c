/* Offers of rails and their pairing; see rails.h. */
#include "net-plugin/socket/rails.h"

#include <string.h>

#include "common/netif.h"
#include "common/util.h"
#include "net-plugin/core/transport.h"

static void describe(const struct braid_netif *netif, struct braid_socket_rail *rail)
{
    rail->speed_Mbps = (uint32_t)netif->speed_Mbps;
    for (int i = 0; i < netif->addrs_count; i++) {
        const union braid_addr *addr = &netif->addrs[i];
        bool v6 = addr->sa.sa_family == AF_INET6;
        struct braid_wire_addr *wire = &rail->addrs[v6];
        if (wire->family != 0)
            continue;
        wire->family = v6 ? 6 : 4;
        wire->prefix_bits = netif->prefix_bits[i];
        memcpy(wire->bytes,
               v6 ? (const void *)&addr->v6.sin6_addr : (const void *)&addr->v4.sin_addr,
               v6 ? 16 : 4);
    }
}

void braid_rails_offer(const int *netifs, int count, struct braid_socket_offer *offer)
{
    int total;
    const struct braid_netif *list = braid_netifs(&total);

    offer->rails = (uint32_t)MIN(count, BRAID_SOCKET_RAILS);
    for (uint32_t i = 0; i < offer->rails; i++)
        describe(&list[netifs[i]], &offer->rail[i]);
}

/* The address of this family, or NULL. */
static const struct braid_wire_addr *address_of(const struct braid_socket_rail *rail, int family)
{
    for (int i = 0; i < BRAID_SOCKET_RAIL_ADDRS; i++)
        if (rail->addrs[i].family == family)
            return &rail->addrs[i];
    return NULL;
}

static bool same_subnet(const struct braid_wire_addr *a, const struct braid_wire_addr *b)
{
    unsigned bits = MIN(a->prefix_bits, a->family == 4 ? 32u : 128u);

    if (a->family != b->family)
        return false;
    for (unsigned i = 0; i < bits; i++)
        if ((a->bytes[i / 8] ^ b->bytes[i / 8]) & (0x80 >> i % 8))
            return false;
    return true;
}

/* How well two rails go together: 2 one subnet, 1 one family, 0 not at all. Fills the route's addresses. */
static int try_pair(const struct braid_socket_rail *ours, const struct braid_socket_rail *theirs,
                    struct braid_socket_route *route)
{
    static const int families[] = {4, 6};
    int best = 0;

    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct braid_wire_addr *a = address_of(ours, families[i]),
                                     *b = address_of(theirs, families[i]);
        int fit = a == NULL || b == NULL ? 0 : same_subnet(a, b) ? 2 : 1;
        if (fit <= best)
            continue;
        best = fit;
        braid_addr_from_bytes(&route->source, families[i] == 4 ? AF_INET : AF_INET6, a->bytes, 0);
        braid_addr_from_bytes(&route->peer, families[i] == 4 ? AF_INET : AF_INET6, b->bytes, 0);
    }
    return best;
}

static bool add_route(const struct braid_socket_offer *ours,
                      const struct braid_socket_offer *theirs, int mine, int wanted, int count,
                      struct braid_socket_route *route)
{
    struct braid_socket_route candidate;
    int best = 0;

    for (int j = 0; j < count;
         j++) { /* beginning with the one of the same number, so that it wins among equals */
        int other = (wanted + j) % count;
        int fit = try_pair(&ours->rail[mine], &theirs->rail[other], &candidate);
        if (fit <= best)
            continue;
        best = fit;
        *route = candidate;
        route->rail = (uint16_t)mine;
    }
    return best > 0;
}

int braid_rails_pair(const struct braid_socket_offer *ours, const struct braid_socket_offer *theirs,
                     struct braid_socket_route *routes)
{
    int mine = (int)MIN(ours->rails, (uint32_t)BRAID_SOCKET_RAILS);
    int others = (int)MIN(theirs->rails, (uint32_t)BRAID_SOCKET_RAILS);
    int count = 0;

    if (mine == 0 || others == 0)
        return 0;
    for (int i = 0; i < MAX(mine, others); i++)
        if (add_route(ours, theirs, i % mine, i % others, others, &routes[count]))
            count++;
    return count;
}
