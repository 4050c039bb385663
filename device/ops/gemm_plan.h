/*
 * The schedule of a GEMM that is fused with communication: a straight-line program of GEMMs, pushes, waits and posts over a few
 * lanes (streams). It is made here from the shape and the settings alone, the same way on every rank, and knows no CUDA, so a test
 * can run the programs of all ranks against each other in any interleaving. gemm_exec.c turns it into stream operations.
 *
 * Flags are constants: a post writes 1 into a word of the peer, the owner waits for 1 and writes 0, so that a captured graph can
 * be replayed. What announces rows is not the constant itself but a copy of the rank's go word, 1 until the watchdog has released a wait
 * of this rank: rows that were made without their wait are never announced, so a peer that was only late does not take them for
 * right, and fails as well. Credits need no such care: they only allow. A pusher needs the credit of the peer before the first push; the peer gives it when it begins the operation, because
 * then nothing reads any more what its buffer held. So an operation has nothing left to do after its last product.
 *
 * The program in its own order, run as one stream, never waits for something that comes later: streams may share a hardware
 * queue without a deadlock.
 * Threading: pure functions. Called by: gemm.c, the unit test.
 */
#ifndef BRAID_DEVICE_OPS_GEMM_PLAN_H
#define BRAID_DEVICE_OPS_GEMM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <braid/gemm_ops.h>

#define BRAID_GEMM_MAX_SPLITS 32
#define BRAID_GEMM_BY_KERNEL  3 /* settings.signal */
#define BRAID_GEMM_MAX_LANES  7 /* four compute lanes, push, copy, post */

enum braid_gemm_kind {
    BRAID_GEMM_I_GEMM, /* dst rows (of `peer`, if one is named) = src rows x weight (+ acc rows) */
    BRAID_GEMM_I_PUSH, /* dst rows on `peer` = src rows; dst is a window buffer */
    BRAID_GEMM_I_COPY, /* dst rows = src rows, this GPU */
    BRAID_GEMM_I_ADD,  /* dst rows = src rows + the same rows of every peer's slot in acc */
    BRAID_GEMM_I_WAIT, /* until the own word `flag` is 1, then 0 */
    BRAID_GEMM_I_POST, /* 1 (rows: go) into word `flag` of `peer`, after everything before it on the lane */
    BRAID_GEMM_I_EDGE, /* what follows on lane2 waits for what came before on lane */
    BRAID_GEMM_I_MARK, /* a short step that changes nothing: the lane begins a little later than the caller's stream */
    BRAID_GEMM_I_COLLECTIVE, /* the operation's own collective by SMs (braid/ops.h): src to dst, all ranks */
};

/* Where rows live. A row is K or N elements wide, see braid_gemm_width. */
enum braid_gemm_buffer {
    BRAID_GEMM_B_NONE,
    BRAID_GEMM_B_X,      /* caller: activations; this rank's rows (all-gather) or all rows */
    BRAID_GEMM_B_Y,      /* caller: result */
    BRAID_GEMM_B_SEND,   /* caller: input of a bulk collective */
    BRAID_GEMM_B_RECV,   /* caller: result of a bulk reduce-scatter */
    BRAID_GEMM_B_STAGE,  /* own scratch: partial results on their way out, all rows */
    BRAID_GEMM_B_GATHER, /* window: rows of all ranks, K wide */
    BRAID_GEMM_B_PART, /* window: partial results from peers, one slot of rows_per_rank rows a source or ring step */
    BRAID_GEMM_B_RESULT, /* window: finished rows of all ranks (all-reduce) */
    BRAID_GEMM_B_COUNT,
};

struct braid_gemm_instr {
    uint8_t kind, lane, lane2;
    uint8_t src, dst, acc;
    /* POST: a copy of the go word, like the rows before it; else a stream's write or a kernel's */
    uint8_t by_copy;
    int32_t peer;
    uint32_t flag;
    int64_t src_row, dst_row, acc_row, rows;
};

struct braid_gemm_program {
    struct braid_gemm_instr *instr;
    size_t count, room;
    uint32_t lanes; /* used: bit i is set when lane i is used */
    uint32_t flags; /* words a rank */
    uint32_t splits;
    uint32_t credits; /* of the words, the first `credits` are credits */
    /* credits are posted by an operation's begin: they start as 0, else as 1 */
    bool credit_at_start;
};

/* Fixed lane numbers beside the compute lanes 0 (the caller's stream) to 3. */
#define BRAID_GEMM_LANE_PUSH 4u
#define BRAID_GEMM_LANE_COPY 5u
#define BRAID_GEMM_LANE_POST 6u

/*
 * Cuts `rows` into at most `splits` parts and writes the splits + 1 boundaries. Parts are multiples of 128 rows where there are
 * enough rows. Returns the number of parts, >= 1.
 */
enum braid_gemm_shape {
    BRAID_GEMM_EVEN,
    BRAID_GEMM_FALLING,    /* 4 3 2 1: the last part is small */
    BRAID_GEMM_BOTH_SMALL, /* 1 2 2 1: the first and the last part are small */
    BRAID_GEMM_HALVING,    /* 8 4 2 1 */
    BRAID_GEMM_BOTH_HALVED /* 1 2 4 4 2 1 */
};
uint32_t braid_gemm_split(int64_t rows, uint32_t splits, enum braid_gemm_shape shape,
                          int64_t bounds[BRAID_GEMM_MAX_SPLITS + 1]);

/*
 * Makes the program of `rank`. `settings->method` must not be BRAID_GEMM_AUTO. Returns 0, -EINVAL for a shape or settings that have
 * no program, -ENOMEM. The caller frees it with braid_gemm_program_free.
 */
int braid_gemm_program_make(const struct braid_gemm_desc *desc,
                            const struct braid_gemm_settings *settings, int rank, int ranks,
                            struct braid_gemm_program *program);

void braid_gemm_program_free(struct braid_gemm_program *program);

/* What settings.taper means for an operation. */
enum braid_gemm_shape braid_gemm_taper(int op, int taper);

/* Flag words. A credit names who grants it; the arrival words are counted per slot (source rank or ring step) and part. */
static inline uint32_t braid_gemm_flag_credit(int granter)
{
    return (uint32_t)granter;
}

static inline uint32_t braid_gemm_flag_credit2(int ranks, int granter)
{
    return (uint32_t)(ranks + granter);
}

static inline uint32_t braid_gemm_flag_arrived(int ranks, uint32_t splits, int slot, uint32_t part)
{
    return (uint32_t)(2 * ranks) + (uint32_t)slot * splits + part;
}

static inline uint32_t braid_gemm_flag_arrived2(int ranks, uint32_t splits, int slot, uint32_t part)
{
    return braid_gemm_flag_arrived(ranks, splits, ranks + slot, part);
}

#endif
