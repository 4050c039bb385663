/*
 * Matrix products fused with the communication of tensor parallelism, without SMs for the communication.
 *
 *   BRAID_AG_GEMM   y[M,N]    = all_gather(x)[M,K] . w[K,N]       x has this rank's M/ranks rows
 *   BRAID_GEMM_RS   y[M/ranks,N] = reduce_scatter(x[M,K] . w[K,N])
 *   BRAID_GEMM_AR   y[M,N]    = all_reduce(x[M,K] . w[K,N])
 *
 * All matrices are row-major and dense; K of the last two and N of the first are this rank's share. The products run in cuBLASLt, cut
 * into parts; the copy engines push rows into the peers' windows and set a flag, and the part that needs them waits for the flag
 * in its stream. An operation is an object: creating one is collective (window, scratch memory, choice of algorithm), running one is
 * stream-ordered and can be captured into a CUDA graph that is replayed any number of times.
 *
 * Rules for all calls:
 * - Every rank creates the same objects in the same order and runs the same operations in the same order on them.
 * - One object, one stream at a time: an operation may be enqueued while the one before still runs only on the same stream (or
 *   after an event that orders them). Different objects are independent. Operations of one object may follow each other at once:
 *   a rank never overwrites rows that a slower peer still reads (it waits for the peer's credit inside the stream). Objects with method
 *   SERIAL and num_sm have an epoch slot of the communicator; when there are more of them than half of its slots, some share one and
 *   must not run at the same time.
 * - The result is the same from run to run with the same settings. Sums are made in the order of the ring, each partial result
 *   rounded to the element type: |y - exact| <= ranks * 2^-8 * sum_r |partial_r| for bf16 (2^-11 for fp16), beside the rounding inside
 *   the products (float accumulation); one rounding alone, 2^-8 * |y|, where nothing is summed over ranks.
 * - A wait ends: when a peer does not come within the communicator's bound, a host thread releases the streams, the results are
 *   garbage, braid_gemm_status tells which wait it was, and the object only returns -EIO from then on. It also announces no rows any more,
 *   so a peer that was only late does not take garbage for rows: it has a status within its own bound, or the right result. (Rows are
 *   pushed without being announced: a peer that has hung inside its operation before for all of the bound may find them in there.)
 * - Functions return 0 or a negative errno. Threading: one object, one thread at a time.
 * - cuBLASLt is opened at run time; without it braid_gemm_create returns -ENOSYS.
 */
#ifndef BRAID_GEMM_OPS_H
#define BRAID_GEMM_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "comm.h"

#ifdef __cplusplus
extern "C" {
#endif

struct braid_gemm;

enum braid_gemm_op {
    BRAID_AG_GEMM = 0,
    BRAID_GEMM_RS = 1,
    BRAID_GEMM_AR = 2,
};

enum braid_gemm_dtype {
    BRAID_GEMM_BF16 = 0,
    BRAID_GEMM_FP16 = 1,
};

/* How the work is arranged. The names are those of Transformer Engine. */
enum braid_gemm_method {
    BRAID_GEMM_AUTO = 0,   /* from the profile, else by a model */
    BRAID_GEMM_SERIAL = 1, /* collective and product one after the other, both Braid's */
    /* own rows first (AG), peers' rows first (RS); parts follow as they arrive */
    BRAID_GEMM_RING_EXCHANGE = 2,
    /* split by split: every rank's part of a split before the next split */
    BRAID_GEMM_PIPELINE = 3,
    /* a collective beside a product that does not depend on it; braid_gemm_bulk only */
    BRAID_GEMM_BULK = 4,
    /* one persistent kernel that waits for tiles; not there yet, -EOPNOTSUPP */
    BRAID_GEMM_TILE = 5,
};

/* Desc flags. */
#define BRAID_GEMM_W_TRANSPOSED 1u /* w is stored [N,K], as a PyTorch linear layer keeps it */
/* AG: all M rows stay readable at braid_gemm_gathered until the next run */
#define BRAID_GEMM_KEEP_GATHERED 2u

#define BRAID_GEMM_MAX_ALGOS 12

/* Which of the library's proposals serves products of so many rows; part of a profile. */
struct braid_gemm_algo {
    int64_t rows;     /* rows of the product */
    int32_t adds;     /* 1: a partial result is added */
    int32_t proposal; /* index into cuBLASLt's list, 0 = its first */
};

/*
 * Settings of one shape. Zero in a field means its default.
 *   num_splits  parts of one rank's rows, 1 to 32; default 1 for AG, SERIAL and BULK, else 2
 *   lanes       streams for the products, 1 to 4; default 2: the next part fills the SMs that the last wave leaves idle
 *   taper       0 equal parts; 1 the parts that nothing hides are small (AG the last one, else the first and the last); 2 smaller
 *               still, by halves
 *   num_sm      0: copy engine (use_ce); else SMs that move the rows: a push kernel, or, for SERIAL, the collectives of
 *               braid/ops.h, which are the fastest for few rows
 *   sm_margin   SMs that products leave free (bulk beside SM communication)
 *   own_splits  AG: parts of the own rows; default 1
 *   signal      how rows are announced: 0 or 1 a copied word before the next push, 2 one beside it, 3 a copied word, and kernels of one
 *               thread wait and post instead of the stream: sooner, but one that waits may hold an SM
 *   direct      RS and AR, not SERIAL: 1 the products themselves write the peer's rows into its window: no copy engine, no staging
 */
struct braid_gemm_settings {
    int32_t method; /* enum braid_gemm_method */
    int32_t num_splits;
    int32_t lanes;
    int32_t taper;
    int32_t num_sm;
    int32_t sm_margin;
    int32_t own_splits;
    int32_t signal;
    int32_t direct;
    int32_t reserved;
    struct braid_gemm_algo algos[BRAID_GEMM_MAX_ALGOS]; /* rows == 0: unused */
};

struct braid_gemm_desc {
    uint32_t size; /* sizeof(struct braid_gemm_desc) of the caller */
    int32_t op;    /* enum braid_gemm_op */
    int32_t dtype; /* enum braid_gemm_dtype: of x, w and y; sums are float */
    uint32_t flags;
    int64_t m, n, k; /* as above; m is a multiple of the number of ranks */
    int64_t bulk_m;  /* BULK only: the collective moves [bulk_m, bulk_n] in all; AG or RS by `op` */
    int64_t bulk_n;
    uint32_t alignment; /* bytes, what every pointer given later is a multiple of; 0 = 16 */
    uint32_t reserved;
    struct braid_gemm_settings settings; /* method AUTO: chosen by Braid; rank 0's choice counts */
};

/* What was chosen and why. */
struct braid_gemm_info {
    struct braid_gemm_settings settings;
    /* "profile PATH", "the library's profile ...", "model, ...", "caller" */
    char reason[160];
    size_t window_bytes;  /* symmetric memory of this rank */
    size_t scratch_bytes; /* other memory of this rank */
    double model_us;      /* what the model expects of this choice, 0 when it was not asked */
    double model_serial_us;
};

/* The first wait of an object that did not end by itself. */
struct braid_gemm_error {
    int32_t status; /* 0 or a negative errno: -ETIMEDOUT, -EIO (CUDA), -ECANCELED */
    int32_t peer;   /* who did not come, -1 unknown */
    uint32_t flag;  /* word number, for reports */
    uint32_t seen;  /* its value then */
    uint64_t waited_ns;
    char text[160];
};

/*
 * Creates an operation object. Collective over `comm`. `desc` is copied. *gemm_p is set only on success. Errors: -EINVAL (shape,
 * settings, ranks that disagree), -ENOSYS (no cuBLASLt), -ENOMEM, -EOPNOTSUPP, -ENOTSUP (no memory road to a peer), and what the
 * communicator returns. Allocates window and scratch memory, so not while a stream is captured.
 */
BRAID_API int braid_gemm_create(struct braid_comm *comm, const struct braid_gemm_desc *desc,
                                struct braid_gemm **gemm_p);

/*
 * Waits for the object's work, bounded by the communicator's bound, and frees it. Not collective: what a peer still has mapped of this
 * rank's window lives until the peer destroys its own object. The caller's stream must be done with the object. NULL is allowed.
 */
BRAID_API void braid_gemm_destroy(struct braid_gemm *gemm);

/*
 * Runs the operation on `stream` (CUstream or cudaStream_t, as everywhere below). The pointers are device memory of this rank, aligned as promised in the description, and stay the
 * caller's; x and w may be reused, y read, by what follows on `stream`. Errors: -EINVAL (other op, alignment), -EIO (an earlier wait
 * failed), -EPROTO (CUDA or cuBLASLt refused; logged).
 */
BRAID_API int braid_ag_gemm(struct braid_gemm *gemm, const void *x, const void *w, void *y,
                            void *stream);
BRAID_API int braid_gemm_rs(struct braid_gemm *gemm, const void *x, const void *w, void *y,
                            void *stream);
BRAID_API int braid_gemm_ar(struct braid_gemm *gemm, const void *x, const void *w, void *y,
                            void *stream);

/*
 * Method BULK: moves `send` ([bulk_m / ranks, bulk_n] for AG, [bulk_m, bulk_n] for RS) while y = x . w is computed. x == NULL: the
 * collective alone. AG leaves its result at braid_gemm_gathered and ignores `recv`; RS writes [bulk_m / ranks, bulk_n] to `recv`.
 */
BRAID_API int braid_gemm_bulk(struct braid_gemm *gemm, const void *send, void *recv, const void *x,
                              const void *w, void *y, void *stream);

/* The product alone, [M,K] . [K,N] of the object's shape in one piece: what a measurement compares with. */
BRAID_API int braid_gemm_compute(struct braid_gemm *gemm, const void *x, const void *w, void *y,
                                 void *stream);

/*
 * The products of the schedule alone, cut as they are, without any communication or wait: what is lost by cutting shows against
 * braid_gemm_compute, what is lost by the company of the copies against the operation. The result is meaningless.
 */
BRAID_API int braid_gemm_products(struct braid_gemm *gemm, const void *x, const void *w, void *y,
                                  void *stream);

/* [M,K] (BULK: [bulk_m, bulk_n]) in this rank's window; NULL unless KEEP_GATHERED or BULK with AG. Valid until the next run. */
BRAID_API void *braid_gemm_gathered(struct braid_gemm *gemm);

/* What was chosen. */
BRAID_API int braid_gemm_describe(const struct braid_gemm *gemm, struct braid_gemm_info *info);

/* 0, or -EIO and the first failure. May be called from any thread at any time. */
BRAID_API int braid_gemm_status(struct braid_gemm *gemm, struct braid_gemm_error *error);

/*
 * Times cuBLASLt's proposals for every product of the object on `stream` that its settings do not name yet and keeps the fastest
 * (settings of braid_gemm_describe then name them, BRAID_GEMM_MAX_ALGOS at most). What was timed before in this process is not timed
 * again. Takes some milliseconds a product and waits for the stream. Not collective.
 */
BRAID_API int braid_gemm_tune(struct braid_gemm *gemm, void *stream);

/*
 * Adds the settings of a shape to the profile file (BRAID_OVERLAP_PROFILE when `path` is NULL), replacing an older row of the same
 * shape, type, ranks and GPU. `desc->settings` is what is kept. The file is text, one shape a line.
 */
BRAID_API int braid_gemm_profile_save(const char *path, struct braid_comm *comm,
                                      const struct braid_gemm_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
