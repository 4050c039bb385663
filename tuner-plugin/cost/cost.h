/*
 * The cost model: predicted microseconds of one collective for an algorithm, a protocol, a channel count and a chunk size, from a
 * profile and the shape of a communicator; the lower bound beside it; NCCL's own model for comparison; and how many channels a
 * GEMM leaves for nothing.
 *
 * Everything is a pure function of its arguments, any thread. Only + - * / and square roots of doubles are used, no libm, because
 * libm picks other code on other CPUs: ranks on unlike hosts must get the same bits.
 * Called by: tuner.c, tools/braid-tune.
 */
#ifndef BRAID_TUNER_COST_H
#define BRAID_TUNER_COST_H

#include <stdint.h>

#include "tuner-plugin/cost/kinds.h"
#include "tuner-plugin/cost/profile.h"

/* What all ranks know about a communicator. */
struct braid_shape {
    int ranks;
    int nodes;      /* NVLink domains, as NCCL counts them */
    int node_ranks; /* of the largest node */
};

struct braid_shape braid_shape_make(size_t ranks, size_t nodes);

/* Traffic of one collective, in bytes. */
struct braid_load {
    double sm_bytes;          /* a rank's channels move together */
    double port_bytes;        /* out of one GPU's NVLink or PCIe port */
    double net_bytes;         /* out of one node, over all its rails */
    int intra_hops, net_hops; /* one after the other, on the longest way */
    int depth;                /* stages of a pipeline that must fill; 1 = none */
};

/* bytes: the size NCCL gives a tuner (the whole buffer, all ranks' for gather and scatter). */
struct braid_load braid_load_of(const struct braid_shape *shape, enum braid_coll coll,
                                enum braid_algo algo, double bytes);

struct braid_prediction {
    double us;                 /* all of it; NaN when the profile does not cover this */
    double latency_us;         /* start, hops and channels */
    double transfer_us;        /* bytes over the narrowest things */
    double fill_us;            /* pipeline */
    enum braid_resource limit; /* what the bytes wait for most */
};

/*
 * channels <= 0 means NCCL's own count at this size (braid_nccl_channels); a larger count than that is cut to it, since NCCL
 * gives a channel no less than a minimum of bytes. chunk_bytes <= 0 means the profile's.
 */
struct braid_prediction braid_cost_predict(const struct braid_profile *profile,
                                           const struct braid_shape *shape, enum braid_coll coll,
                                           double bytes, enum braid_algo algo,
                                           enum braid_proto proto, int channels,
                                           double chunk_bytes);

/* The channels NCCL takes by itself for so many bytes: all it has, fewer when each would get too little. */
int braid_nccl_channels(const struct braid_profile *profile, const struct braid_shape *shape,
                        double bytes, enum braid_algo algo, enum braid_proto proto);

/*
 * NCCL's own estimate in us (its tuning model, restated in cost/nccl_model.c), NaN where NCCL would not use the combination or the
 * profile has no graph for it.
 */
double braid_nccl_predict(const struct braid_profile *profile, const struct braid_shape *shape,
                          enum braid_coll coll, double bytes, enum braid_algo algo,
                          enum braid_proto proto);

/* NCCL's own choice by that estimate. Returns 0, -ENODATA when the profile has no graph. */
int braid_nccl_choice(const struct braid_profile *profile, const struct braid_shape *shape,
                      enum braid_coll coll, double bytes, enum braid_algo *algo_p,
                      enum braid_proto *proto_p);

/*
 * No algorithm can be faster: the bytes that must cross the narrowest cut (a GPU's port, a node's rails) over its rate. Without
 * in-network reduction an all-reduce must move 2(n-1)/n of its bytes. 0 when the profile knows no rate.
 */
double braid_cost_bound_us(const struct braid_profile *profile, const struct braid_shape *shape,
                           enum braid_coll coll, double bytes);

/*
 * Wave quantisation: the SMs that a GEMM of m x n (in tiles of tile_m x tile_n, `per_sm` tiles at once on an SM) leaves idle in
 * its last wave for nothing, i.e. the most channels that cost no extra wave on a GPU of `sms` SMs. 0 when any argument is < 1.
 */
int braid_waves_free_channels(int64_t m, int64_t n, int tile_m, int tile_n, int per_sm, int sms);

/* Waves that the GEMM takes when `channels` SMs are busy otherwise; 0 for bad arguments. */
int64_t braid_waves_count(int64_t m, int64_t n, int tile_m, int tile_n, int per_sm, int sms,
                          int channels);

/* floor(log2(value)), 0 for 0. */
int braid_log2_floor(uint64_t value);

#endif
