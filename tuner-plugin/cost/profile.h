/*
 * A machine's numbers: everything the cost model and the decisions know about a machine comes from one profile, a text file whose
 * format tuner-plugin/README.md describes. Each number carries the source it came from. The content hash covers every byte read
 * (includes too), so that two ranks can tell whether they decide alike.
 * Owns: struct braid_profile and its parser. A profile is written by the parser and then only read: any thread.
 * Called by: tuner.c at init, tools/braid-tune, cost/.
 */
#ifndef BRAID_TUNER_PROFILE_H
#define BRAID_TUNER_PROFILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tuner-plugin/cost/kinds.h"

#define BRAID_SIZES       48 /* powers of two, 1 B to 128 TiB */
#define BRAID_CHANNELS    64 /* the most channels that any NCCL takes */
#define BRAID_RULES_MAX   64
#define BRAID_SOURCES     64
#define BRAID_ROWS_MAX    8192
#define BRAID_COMPCAPS    4 /* NCCL's rows: Volta, Ampere, Hopper, Blackwell */
#define BRAID_SCALES      3 /* NCCL's columns: 1 node, 2 nodes, 4 and more */
#define BRAID_CONST_KINDS 5

/* Arrays of numbers, NaN where a profile says nothing. Indices: collective, algorithm, protocol, link, log2 of bytes. */
typedef double braid_cap[BRAID_COLLS][BRAID_ALGOS][BRAID_PROTOS];
typedef double braid_lap[BRAID_LINKS][BRAID_ALGOS][BRAID_PROTOS];
typedef double braid_ap[BRAID_ALGOS][BRAID_PROTOS];

/* Numbers that NCCL's formulas apply, by name. */
enum braid_nccl_factor {
    BRAID_F_RING_LL, /* of the bus bandwidth */
    BRAID_F_RING_LL128,
    BRAID_F_TREE,
    BRAID_F_TREE_LL,
    BRAID_F_TREE_LL128_1NODE,
    BRAID_F_TREE_LL128,
    BRAID_F_PAT,
    BRAID_F_COLLNET_NIC, /* of a NIC, for CollNet gather and scatter */
    BRAID_F_COLLNET_HOPPER,
    BRAID_F_COLLNET_ARITY_US, /* a GPU of the node */
    BRAID_F_PAT_HOPS,         /* of a hop */
    BRAID_F_PAT_RANK_US,
    BRAID_F_SIMPLE_OVERHEAD, /* posts a hop */
    BRAID_NCCL_FACTORS
};
extern const char *const braid_nccl_factor_names[BRAID_NCCL_FACTORS];

/* NCCL's own model of this machine: what explains "NCCL would choose". Constants are facts of NCCL's sources. */
struct braid_nccl_model {
    braid_ap base_us;
    braid_lap hop_us;
    double table_GBps[BRAID_CONST_KINDS][BRAID_COMPCAPS][BRAID_SCALES];
    double nvls_efficiency[BRAID_COMPCAPS];
    double tree_correction[BRAID_PROTOS][BRAID_SIZES]; /* index: log2(bytes) */
    braid_ap threads;                                  /* the most threads of a channel */
    braid_ap threshold_bytes; /* a thread, below which NCCL takes fewer channels */
    double compcap;           /* row of table_GBps: 0 Volta, 1 Ampere, 2 Hopper, 3 Blackwell */
    double cpu_amd;           /* 1 when NCCL's multi-node LL cap uses its AMD row */
    double factor[BRAID_NCCL_FACTORS]; /* the numbers inside NCCL's formulas */
    double net_overhead_us;
    double plateau_ratio; /* latency factor of multi-node Ring Simple all-reduce */
    double graph_channels[BRAID_ALGOS];
    double graph_intra_GBps[BRAID_ALGOS]; /* a channel */
    double graph_inter_GBps[BRAID_ALGOS];
    double graph_latency_us[BRAID_ALGOS];
    double ll128; /* 1 when paths allow LL128 */
    double nvls;  /* 1 when the machine has NVLink SHARP and it is on */
};

/* Kinds of table_GBps and of const edits, in NCCL's order. */
enum braid_const_kind {
    BRAID_LL_MAX,
    BRAID_RING_LL128,
    BRAID_TREE_LL128,
    BRAID_TREE_SIMPLE,
    BRAID_NVLS_TREE_MAX,
};
extern const char *const braid_const_names[BRAID_CONST_KINDS];
extern const char *const braid_compcap_names[BRAID_COMPCAPS];
extern const char *const braid_scale_names[BRAID_SCALES];

/* Values to write into NCCL's constants at init (tuner v5, v6); NaN = leave. */
struct braid_const_edits {
    braid_ap base_us;
    braid_lap hop_us;
    double table_GBps[BRAID_CONST_KINDS][BRAID_COMPCAPS][BRAID_SCALES];
};

/* For bytes in [from, to] of a collective: so many channels at most (budget) or such chunks (chunk). */
struct braid_rule {
    int coll, algo, proto; /* -1 = any */
    uint64_t from_bytes, to_bytes;
    int nodes_min, nodes_max;
    double value;
};

struct braid_profile {
    char name[64];
    char path[512];
    uint64_t hash;

    /* Which machines it is for. Empty glob = any. */
    char match_gpu[64], match_net[32];
    double match_ranks[2], match_nodes[2]; /* inclusive */
    /* 0: a guess: NCCL's algorithm and protocol stay, only a budget's channels are set */
    double trust;
    double intra_link; /* enum braid_link of a hop inside a node */

    braid_cap base_us, channel_us, rank_us, channel_GBps;
    braid_lap hop_us;
    double reach_ratio[BRAID_LINKS][BRAID_COLLS][BRAID_ALGOS]
                      [BRAID_PROTOS]; /* of the port or rail rate */
    double rate_GBps[BRAID_RESOURCES];
    double rails, gpus_per_root;
    double group_batch; /* collectives whose latency NCCL pays once, except for rings */
    double sharpness;   /* 1, 2, 4 or 8: how abruptly one bottleneck takes over from another */
    double chunk_bytes[BRAID_COLLS][BRAID_ALGOS][BRAID_PROTOS];
    /* What the sums above leave out at a size: with all the channels that NCCL takes there, and with one. */
    double correct_ratio[BRAID_COLLS][BRAID_ALGOS][BRAID_PROTOS][BRAID_SIZES];
    double correct_one_ratio[BRAID_COLLS][BRAID_ALGOS][BRAID_PROTOS][BRAID_SIZES];
    double noise_ratio; /* relative spread of one configuration between communicators */
    double guard_ratio; /* predicted gain below which NCCL's own choice stays */
    /* What BRAID_OVERLAP weighs: a channel takes one of so many SMs, and a step pays this share of a collective whatever its channels */
    double gpu_sms, exposed_ratio;
    double channels;     /* NCCL's own number on this machine */
    double channels_max; /* the most a tuner may ask for */
    double nvls_channels;
    double efficiency_ctas[BRAID_COLLS][BRAID_SCALES];

    struct braid_nccl_model nccl;
    struct braid_const_edits edits;
    struct braid_rule budget[BRAID_RULES_MAX], chunk[BRAID_RULES_MAX];
    int budgets, chunks;
    char source_id[BRAID_SOURCES][32];
    char source_text[BRAID_SOURCES][256];
    int sources;
};

/* Where a parse stopped. */
struct braid_profile_error {
    char file[512];
    int line;       /* 1-based; 0 when the file could not be read */
    char text[256]; /* what was expected and seen */
};

/*
 * Reads a profile. `profile` is overwritten. Returns 0; -ENOENT, -EACCES, -EISDIR when it cannot be read; -EINVAL when it is
 * malformed; -EFBIG beyond the limits above; -ENOMEM. On failure `error` says where; nothing is logged.
 */
int braid_profile_read(const char *path, struct braid_profile *profile,
                       struct braid_profile_error *error);

/* The same from memory, for tests and fuzzing; `include` lines are refused. */
int braid_profile_parse(const char *text, size_t bytes, struct braid_profile *profile,
                        struct braid_profile_error *error);

/* Everything unset. */
void braid_profile_clear(struct braid_profile *profile);

/* Corrections at sizes that have none, from those that have one; the parser has done it for what it read. */
void braid_profile_fill(struct braid_profile *profile);

/*
 * Walks every number that is set, in the file's vocabulary ("base_us all_reduce ring ll"), for diff and for writing.
 * `key` is valid only during the call.
 */
void braid_profile_each(const struct braid_profile *profile,
                        void (*visit)(void *arg, const char *key, double value), void *arg);

/* What the local machine looks like, for choosing profiles. */
struct braid_machine_key {
    char gpu[64]; /* model in lower case, "h200"; "" if unknown */
    char net[32]; /* "ib", "roce", "efa", "socket", "braid-socket" (by Braid's network plugin) */
};

/* Whether a match row's pattern takes a machine's word; an empty pattern takes all. */
int braid_profile_fits(const char *glob, const char *value);

/* The profiles that fit a machine, whatever the communicator. */
struct braid_profile_set {
    struct braid_profile **profiles;
    int count;
    uint64_t hash; /* of the content of all of them, in their order */
};

/*
 * Reads every *.profile of the folders in `dirs` (separated by ':') and keeps those whose match_gpu and match_net fit `key`; within
 * a folder in the byte order of their names. A file that does not parse is passed over; the first such error is kept in `error`
 * (its line is -1 when there was none). Returns 0 (also for an empty set) or -ENOMEM.
 */
int braid_profile_set_load(const char *dirs, const struct braid_machine_key *key,
                           struct braid_profile_set *set, struct braid_profile_error *error);

/*
 * Reads the profile that `name` means: a path when it holds a '/', else NAME or NAME.profile in the first of the folders in `dirs`
 * that has it. Returns as braid_profile_read; when no folder has it, -ENOENT with the last place that was looked at.
 */
int braid_profile_find(const char *name, const char *dirs, struct braid_profile *profile,
                       struct braid_profile_error *error);

/* Takes over one profile that was read by itself. Returns 0 or -ENOMEM. */
int braid_profile_set_add(struct braid_profile_set *set, const struct braid_profile *profile);

/* The most specific profile for a communicator, ties to the first; NULL if none fits. */
const struct braid_profile *braid_profile_set_pick(const struct braid_profile_set *set, int ranks,
                                                   int nodes);

void braid_profile_set_free(struct braid_profile_set *set);

#endif
