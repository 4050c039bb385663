/*
 * Which way an operation goes: a pure function of what all ranks share, so that they always agree. Used by collectives.c, tests and
 * tools. Threading: any.
 */
#ifndef BRAID_DEVICE_OPS_PLAN_H
#define BRAID_DEVICE_OPS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum braid_op_kind {
    BRAID_OP_ALL_REDUCE,
    BRAID_OP_REDUCE_SCATTER,
    BRAID_OP_ALL_GATHER,
    BRAID_OP_ALL_TO_ALL,
    BRAID_OP_ALL_TO_ALL_V,
    BRAID_OP_BROADCAST,
    BRAID_OP_KINDS,
};

struct braid_op_question {
    enum braid_op_kind kind;
    uint32_t ranks;
    uint64_t block;         /* bytes from one rank to another; all-reduce: of the whole vector */
    bool in_window;         /* `out` can be written by peers */
    bool in_readable;       /* reductions: `in` can be read by peers */
    bool in_place;          /* what arrives overwrites what is sent */
    uint32_t method;        /* BRAID_METHOD_*, AUTO = choose */
    uint32_t sms;           /* the caller's bound, 0 = none */
    uint32_t sm_share;      /* of this rank on its GPU; decides CTAs only, never the method */
    uint64_t packet_limit;  /* bytes that one rank can send another by packets */
    uint64_t staging_limit; /* bytes of one staging slot */
};

struct braid_op_plan {
    uint32_t method;
    uint32_t ctas;
    uint32_t threads;
    uint32_t chunk;   /* bytes; 0 for packets, pull and copy engines */
    uint64_t segment; /* bytes of `block` in one launch; more go in several */
};

/* Names as in results rows. */
const char *braid_op_name(enum braid_op_kind kind);
const char *braid_method_name(uint32_t method);

/* 0; -EMSGSIZE packets cannot carry it; -EOPNOTSUPP the method does not fit the operation or its buffers; -EAGAIN sms > sm_share. */
int braid_op_plan(const struct braid_op_question *q, struct braid_op_plan *plan);

#endif
