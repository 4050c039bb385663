/*
 * The vocabulary of the tuner: collectives, algorithms, protocols, links and resources, with the numbering that NCCL's cost table
 * uses (abi/ asserts that). Plain data and pure functions, any thread. Used by everything in this room and by tools/braid-tune.
 */
#ifndef BRAID_TUNER_COST_KINDS_H
#define BRAID_TUNER_COST_KINDS_H

enum braid_coll {
    BRAID_BROADCAST,
    BRAID_REDUCE,
    BRAID_ALL_GATHER,
    BRAID_REDUCE_SCATTER,
    BRAID_ALL_REDUCE,
    BRAID_COLLS
};

enum braid_algo {
    BRAID_TREE,
    BRAID_RING,
    BRAID_COLLNET_DIRECT,
    BRAID_COLLNET_CHAIN,
    BRAID_NVLS,
    BRAID_NVLS_TREE,
    BRAID_PAT,
    BRAID_ALGOS
};

enum braid_proto { BRAID_LL, BRAID_LL128, BRAID_SIMPLE, BRAID_PROTOS };

/* What a hop crosses. */
enum braid_link { BRAID_NVLINK, BRAID_PCI, BRAID_NET, BRAID_LINKS };

/* What transfers share. Rates are in GB/s, one direction, of one such thing. */
enum braid_resource {
    BRAID_PORT,   /* all NVLinks of one GPU */
    BRAID_SWITCH, /* all NVSwitches of one node */
    BRAID_RAIL,   /* one NIC port */
    BRAID_ROOT,   /* one PCIe root port or switch uplink */
    BRAID_HOST,   /* what one node's CPUs and memory can carry of socket traffic */
    BRAID_SM,     /* the channels themselves; has no rate row, see channel_GBps */
    BRAID_RESOURCES
};

extern const char *const braid_coll_names[BRAID_COLLS];
extern const char *const braid_algo_names[BRAID_ALGOS];
extern const char *const braid_proto_names[BRAID_PROTOS];
extern const char *const braid_link_names[BRAID_LINKS];
extern const char *const braid_resource_names[BRAID_RESOURCES];

/* The index of `name` in `names`, compared without case, "_" and "-"; -1 if it is not there. */
int braid_kind_find(const char *const *names, int count, const char *name);

/* Whether NCCL has this combination at all (a broadcast has only rings, and so on). */
int braid_kind_valid(enum braid_coll coll, enum braid_algo algo, enum braid_proto proto);

#endif
