/*
 * Decisions: which algorithm, protocol, channel count and chunk a collective gets. Knows no version of NCCL's interface; abi/
 * translates. A decision is a pure function of the communicator's shape, the profile, the settings, the incoming table and the
 * call's arguments, all of which ranks share. Nothing here fails a collective: where it has nothing to say it changes nothing.
 * Threading: a tuner is made by one thread and then only read, by any thread. Called by: abi/, tuner_setup.c, tools/braid-tune.
 */
#ifndef BRAID_TUNER_H
#define BRAID_TUNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tuner-plugin/cost/cost.h"

/* What the user asked for; the same on all ranks, and part of the hash that ranks compare. */
struct braid_tuner_settings {
    int sm_budget;            /* channels; 0 = none */
    bool overlap;             /* the channels that cost the compute beside them least */
    double overlap_ratio;     /* how much slower that may be than the fastest, 0.1 = 10 % */
    bool efficiency;          /* NCCL_CTA_POLICY contains EFFICIENCY */
    bool forced[BRAID_COLLS]; /* NCCL_ALGO or NCCL_PROTO speak of it: stand down */
    int channel_ceiling;      /* the most that the running NCCL's interface takes */
};

/* One question of NCCL's. */
struct braid_tuner_call {
    enum braid_coll coll;
    uint64_t bytes;
    int ops;       /* aggregated operations */
    bool reg_buff; /* registered buffers */
    float *table;  /* [algos][protos] in us, negative = unusable; rewritten */
    int algos, protos;
};

/* Why a decision came out as it did, for explain and the log. */
enum braid_tuner_reason {
    BRAID_WHY_NO_PROFILE,  /* nothing known: NCCL's choice */
    BRAID_WHY_FORCED,      /* the user forced algorithm or protocol */
    BRAID_WHY_UNTRUSTED,   /* the profile is a guess: NCCL's choice */
    BRAID_WHY_NOT_COVERED, /* the profile does not cover NCCL's choice */
    BRAID_WHY_GUARD,       /* predicted gain within the guard, or none: NCCL's choice */
    BRAID_WHY_FASTER,      /* predicted faster than NCCL's choice */
    BRAID_WHY_BUDGET,      /* best within the channel budget */
    BRAID_WHY_OVERLAP,     /* least cost to the compute beside it */
    BRAID_WHY_EFFICIENCY,  /* registered buffers under the efficiency policy */
    BRAID_WHY_COUNT
};
extern const char *const braid_tuner_reasons[BRAID_WHY_COUNT];

struct braid_tuner_decision {
    enum braid_algo algo, nccl_algo;
    enum braid_proto proto, nccl_proto;
    int channels;      /* 0 = NCCL's own */
    float us, nccl_us; /* predicted; NaN when not covered */
    enum braid_tuner_reason reason;
};

struct braid_tuner;

/*
 * Computes the tables of a communicator. `profile` may be NULL and need not live on. Returns 0 or -ENOMEM; memory does not grow with ranks.
 */
int braid_tuner_create(const struct braid_profile *profile, const struct braid_shape *shape,
                       const struct braid_tuner_settings *settings, struct braid_tuner **tuner_p);
void braid_tuner_destroy(struct braid_tuner *tuner);

/*
 * Decides a call and rewrites its table: every usable entry that the profile covers gets predicted microseconds, the chosen one
 * is the strict minimum, unusable ones stay. `tuner` may be NULL. Returns the channel count to ask for, 0 = NCCL's own.
 * `decision` may be NULL.
 */
int braid_tuner_decide(const struct braid_tuner *tuner, const struct braid_tuner_call *call,
                       struct braid_tuner_decision *decision);

/* The chunk for the call, or `bytes_now` (NCCL's). Never 0. */
size_t braid_tuner_chunk(const struct braid_tuner *tuner, enum braid_coll coll, uint64_t bytes,
                         enum braid_algo algo, enum braid_proto proto, size_t bytes_now);

/* NCCL's own choice by its model, for interfaces that pass no table (v2). Returns 0 or -ENODATA. */
int braid_tuner_nccl_choice(const struct braid_tuner *tuner, enum braid_coll coll, uint64_t bytes,
                            enum braid_algo *algo_p, enum braid_proto *proto_p);

/* Whether every communicator of this machine can run the combination: rings and trees, LL128 only where the profile says so. */
bool braid_tuner_safe(const struct braid_tuner *tuner, enum braid_coll coll, enum braid_algo algo,
                      enum braid_proto proto);

/*
 * Writes the profile's values over NCCL's constants, laid out as struct braid_const_edits, where the profile sets any. Returns
 * how many were changed.
 */
int braid_tuner_edit_constants(const struct braid_tuner *tuner, double *constants, size_t count);

#endif
