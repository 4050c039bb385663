/*
 * Choice of GIDs. See gid.h. Public threads show what goes wrong otherwise: index 0 is link-local and often RoCE v1, a fixed index
 * differs between machines and after a port flap, an IPv4 filter on a fabric with IPv6 addresses only leaves nothing.
 * Called by dev.c (which to offer), conn.c (pairs), braid-info. Any thread.
 */
#include "net-plugin/verbs/gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool braid_gid_is_v4(const uint8_t raw[16])
{
    return memcmp(raw, mapped, sizeof(mapped)) == 0;
}

bool braid_gid_is_link_local(const uint8_t raw[16])
{
    return (raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80) ||
           (braid_gid_is_v4(raw) && raw[12] == 169 && raw[13] == 254);
}

static bool is_zero(const uint8_t raw[16])
{
    for (int i = 0; i < 16; i++)
        if (raw[i] != 0)
            return false;
    return true;
}

char *braid_gid_text(const uint8_t raw[16], char *buf, size_t buf_bytes)
{
    const char *text = braid_gid_is_v4(raw)
                           ? inet_ntop(AF_INET, raw + 12, buf, (socklen_t)buf_bytes)
                           : inet_ntop(AF_INET6, raw, buf, (socklen_t)buf_bytes);

    if (text == NULL)
        snprintf(buf, buf_bytes, "?");
    return buf;
}

/* Leading bits that two addresses have in common. */
static int common_bits(const uint8_t a[16], const uint8_t b[16])
{
    for (int i = 0; i < 16; i++)
        if (a[i] != b[i])
            return i * 8 + __builtin_clz((unsigned)(a[i] ^ b[i])) - 24;
    return 128;
}

int braid_gid_parse_range(const char *text, struct braid_gid_wish *wish)
{
    char address[64];
    const char *slash = strchr(text, '/');
    size_t bytes = slash != NULL ? (size_t)(slash - text) : strlen(text);
    bool v4 = memchr(text, '.', bytes) != NULL && memchr(text, ':', bytes) == NULL;
    long bits;
    char *end;

    if (bytes >= sizeof(address))
        return -EINVAL;
    memcpy(address, text, bytes);
    address[bytes] = '\0';
    bits = slash != NULL ? strtol(slash + 1, &end, 10) : (v4 ? 32 : 128);
    if (slash != NULL && (end == slash + 1 || *end != '\0'))
        return -EINVAL;
    if (bits < 0 || bits > (v4 ? 32 : 128))
        return -EINVAL;
    if (v4)
        memcpy(wish->prefix, mapped, sizeof(mapped));
    if (inet_pton(v4 ? AF_INET : AF_INET6, address, wish->prefix + (v4 ? 12 : 0)) != 1)
        return -EINVAL;
    wish->prefix_bits = (int)bits + (v4 ? 96 : 0);
    return 0;
}

int braid_gid_rank(const struct braid_verbs_gid *gid, const struct braid_gid_wish *wish,
                   const char **why)
{
    bool v4 = braid_gid_is_v4(gid->raw);

    *why = "";
    if (is_zero(gid->raw))
        *why = "empty";
    else if (wish->index >= 0)
        *why = gid->index == wish->index ? "" : "another index was asked for";
    else if (wish->roce_version != 0 && gid->type != BRAID_VERBS_GID_IB &&
             gid->type != (wish->roce_version == 1 ? BRAID_VERBS_GID_V1 : BRAID_VERBS_GID_V2))
        *why = "another RoCE version was asked for";
    else if (wish->family != 0 && gid->type != BRAID_VERBS_GID_IB &&
             v4 != (wish->family == AF_INET))
        *why = "another address family was asked for";
    else if (wish->prefix_bits > 0 && common_bits(gid->raw, wish->prefix) < wish->prefix_bits)
        *why = "outside the address range that was asked for";
    if (**why != '\0')
        return -1;
    if (gid->type == BRAID_VERBS_GID_IB)
        return 100 - gid->index % 64; /* the first entry of an InfiniBand port is the default one */
    return (gid->type == BRAID_VERBS_GID_V2 ? 400 : 0) +
           (braid_gid_is_link_local(gid->raw) ? 0 : 200) + (v4 ? 100 : 0) + 63 - gid->index % 64;
}

/* One pair of entries; 0 when they cannot reach each other. */
static int pair_score(const struct braid_verbs_gid *a, const struct braid_verbs_gid *b)
{
    bool local_a = braid_gid_is_link_local(a->raw), local_b = braid_gid_is_link_local(b->raw);
    bool v4 = braid_gid_is_v4(a->raw);
    int common = common_bits(a->raw, b->raw);

    if (a->type != b->type || v4 != braid_gid_is_v4(b->raw) || local_a != local_b)
        return 0;
    if (a->type == BRAID_VERBS_GID_IB)
        return common >= 64 ? 2000 : 1000; /* the first 64 bits are the subnet */
    return (a->type == BRAID_VERBS_GID_V2 ? 4000 : 0) + (local_a ? 1 : 2000) +
           (v4 ? 100 + common - 96 : common);
}

static int differ(char *why, size_t why_bytes, const struct braid_verbs_rail *a,
                  const struct braid_verbs_rail *b, const char *what)
{
    snprintf(why, why_bytes, "%.23s and %.23s: %s", a->name, b->name, what);
    return 0;
}

int braid_gid_pair(const struct braid_verbs_rail *a, const struct braid_verbs_rail *b, int *a_gid,
                   int *b_gid, char *why, size_t why_bytes)
{
    int best = 0;

    if (a->link != b->link)
        return differ(why, why_bytes, a, b, "one is InfiniBand, the other Ethernet (RoCE)");
    if (a->pkey != 0 && b->pkey != 0 && (a->pkey & 0x7fff) != (b->pkey & 0x7fff))
        return differ(why, why_bytes, a, b, "their partition keys differ (BRAID_IB_PKEY)");
    if (a->gid_count == 0 || b->gid_count == 0)
        return differ(why, why_bytes, a, b, "no usable GID");
    for (int i = 0; i < a->gid_count && i < BRAID_VERBS_GIDS; i++)
        for (int j = 0; j < b->gid_count && j < BRAID_VERBS_GIDS; j++) {
            int score =
                pair_score(&a->gids[i], &b->gids[j]) * 32 - (i + j); /* earlier ones win ties */
            if (score > best) {
                best = score;
                *a_gid = i;
                *b_gid = j;
            }
        }
    if (best <= 0)
        return differ(why, why_bytes, a, b, "no GIDs of the same RoCE version and address family");
    return best;
}
