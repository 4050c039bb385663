/*
 * Which GID two ports talk with, decided from both ports' tables so that both ends come to the same pair: RoCE v2 before v1, the
 * same address family, one subnet before a routed path. Pure functions on the offered GIDs.
 */
#ifndef BRAID_VERBS_GID_H
#define BRAID_VERBS_GID_H

#include <stdbool.h>
#include <stddef.h>
#include "braid/wire/net_verbs.h"

/* What the user asked for; members that are 0 or -1 ask for nothing. */
struct braid_gid_wish {
    int index;          /* NCCL_IB_GID_INDEX; -1: none */
    int family;         /* AF_INET, AF_INET6; 0: either */
    int roce_version;   /* 1, 2; 0: either */
    uint8_t prefix[16]; /* NCCL_IB_ADDR_RANGE, as an IPv6 or mapped address */
    int prefix_bits;    /* 0: none */
};

/* Parses "10.1.0.0/16" or "fd00::/64" into wish->prefix. 0 or -EINVAL. */
int braid_gid_parse_range(const char *text, struct braid_gid_wish *wish);

bool braid_gid_is_v4(const uint8_t raw[16]);
bool braid_gid_is_link_local(const uint8_t raw[16]);
/* "10.1.0.2", "fe80::1", into buf; returns buf. */
char *braid_gid_text(const uint8_t raw[16], char *buf, size_t buf_bytes);

/*
 * How good an entry is to be offered: higher first, negative: not at all, with the reason in *why (a constant).
 * `index` is its place in the table.
 */
int braid_gid_rank(const struct braid_verbs_gid *gid, const struct braid_gid_wish *wish,
                   const char **why);

/*
 * How well two ports reach one another: > 0 and the chosen pair, or 0 and the reason in `why`. Both ends call it with the connecting
 * side's port as `a`, so that both come to the same pair.
 */
int braid_gid_pair(const struct braid_verbs_rail *a, const struct braid_verbs_rail *b, int *a_gid,
                   int *b_gid, char *why, size_t why_bytes);

#endif
