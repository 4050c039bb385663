/*
 * Names and validity of the tuner's kinds. Pure functions, any thread. See kinds.h.
 */
#include "tuner-plugin/cost/kinds.h"

#include <ctype.h>

const char *const braid_coll_names[BRAID_COLLS] = {"broadcast", "reduce", "all_gather",
                                                   "reduce_scatter", "all_reduce"};
const char *const braid_algo_names[BRAID_ALGOS] = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
const char *const braid_proto_names[BRAID_PROTOS] = {"ll", "ll128", "simple"};
const char *const braid_link_names[BRAID_LINKS] = {"nvlink", "pci", "net"};
const char *const braid_resource_names[BRAID_RESOURCES] = {"port", "switch", "rail",
                                                           "root", "host",   "sm"};

static int same_name(const char *a, const char *b)
{
    for (;;) {
        while (*a == '_' || *a == '-')
            a++;
        while (*b == '_' || *b == '-')
            b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return 0;
        if (!*a)
            return 1;
        a++;
        b++;
    }
}

int braid_kind_find(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (same_name(names[i], name))
            return i;
    }
    return -1;
}

int braid_kind_valid(enum braid_coll coll, enum braid_algo algo, enum braid_proto proto)
{
    if (algo != BRAID_RING && algo != BRAID_TREE && proto != BRAID_SIMPLE)
        return 0;
    switch (coll) {
    case BRAID_BROADCAST:
    case BRAID_REDUCE: return algo == BRAID_RING;
    case BRAID_ALL_GATHER:
    case BRAID_REDUCE_SCATTER:
        return algo == BRAID_RING || algo == BRAID_PAT || algo == BRAID_NVLS ||
               algo == BRAID_COLLNET_DIRECT;
    case BRAID_ALL_REDUCE: return algo != BRAID_PAT;
    default: return 0;
    }
}
