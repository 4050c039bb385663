/*
 * Collectives between the GPUs of a device communicator, in libbraid.so: all-reduce, reduce-scatter, all-gather, all-to-all(-v),
 * broadcast. Stream-ordered, one kernel launch each (or copy engines and no kernel at all), capturable in CUDA graphs.
 *
 *     struct braid_ops *ops;
 *     braid_ops_create(&ops, comm, NULL);                                            // collective
 *     braid_all_reduce(ops, x, x, count, BRAID_BF16, NULL, stream);                  // every rank, the same order of calls
 *     ...
 *     if (braid_comm_error(comm, &reason) != 0)                                      // after a synchronisation: did a wait fail?
 *     braid_ops_destroy(ops);
 *
 * Buffers are GPU memory of any kind, aligned to their number format; multiples of 16 bytes are faster. Buffers inside a window of
 * the communicator (braid_window_alloc, braid_window_register) at the same offset on every rank let large operations write
 * straight into the peers' results, and reductions read the peers' inputs; all choices give the same bits. "In the window" must hold
 * on every rank or on none, for outputs and for inputs of reductions.
 *
 * Results: sums are formed in float32 in rank order and rounded once (by every method), so every rank gets the same
 * bits, from run to run. Bound of the error of one element against the exact sum S of the absolute values of the R inputs:
 * S * (R * 2^-24 + u), u = 2^-24 (f32), 2^-11 (f16), 2^-8 (bf16) of rounding, 2^-4 (e4m3), 2^-3 (e5m2), away from overflow.
 *
 * Ranks: all call the same operations in the same order, with equal sizes, methods and scales; SM counts may differ. Ranks that
 * disagree about a size get a status from braid_comm_error within the communicator's bound, not a hang.
 * Streams: operations of one braid_ops must be ordered one after the other (one stream, or streams ordered by events); make
 * several for concurrent streams. Captured graphs and direct calls may be mixed in the same order on all ranks.
 * Threading: calls for one braid_ops must not overlap.
 * Errors: 0 or a negative errno number, immediately: -EINVAL a bad argument; -EMSGSIZE the operation does not fit (see
 * braid_ops_config); -EAGAIN more SMs than this rank's share of the GPU; -EIO the communicator has failed; -EOPNOTSUPP the
 * method cannot do this. What happens on the GPU later is in braid_comm_error.
 * NVLink multicast is never used.
 */
#ifndef BRAID_OPS_H
#define BRAID_OPS_H

#include "comm.h"
#include "gemm_ops.h" /* products fused with their communication */
#include "wire/number_v1.h"

#ifdef __cplusplus
extern "C" {
#endif

struct braid_ops;

/* How an operation is done. AUTO takes the profile's choice for size and ranks (device/README.md shows the crossovers). */
#define BRAID_METHOD_AUTO 0u
/* flag in the data, one crossing: lowest latency, 4/3 of the bytes */
#define BRAID_METHOD_PACKETS  1u
#define BRAID_METHOD_ONE_SHOT 2u /* all-reduce: everything to everyone */
/* all-reduce: reduce-scatter and all-gather in one kernel; `out` in a window */
#define BRAID_METHOD_TWO_SHOT 3u
#define BRAID_METHOD_STAGED   4u /* through the peers' staging buffers; any memory */
#define BRAID_METHOD_DIRECT   5u /* straight into the peers' `out`, which is in a window */
#define BRAID_METHOD_ENGINE   6u /* copy engines, no SM; `out` in a window */
/* reductions: the peers' inputs are read where they are; `in` in a window, for all-reduce `out`, too */
#define BRAID_METHOD_PULL 7u

/* Flags of an operation. */
/* do not let this kernel's launch overlap the end of the kernel before it in the stream */
#define BRAID_OP_NO_OVERLAP 1u

/* Choices for one call; NULL or zeros for the defaults. Equal on all ranks, except sms. */
struct braid_op_options {
    size_t size;     /* sizeof(struct braid_op_options) */
    uint32_t method; /* BRAID_METHOD_* */
    /* at most so many SMs are used; 0 = the profile's number. Is honoured exactly as an upper bound */
    uint32_t sms;
    /* reductions: the sum is multiplied by it before it is rounded; 0 means 1 (1 / ranks makes an average) */
    float scale;
    uint32_t flags; /* BRAID_OP_* */
};

#define BRAID_OP_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct braid_op_options), BRAID_METHOD_AUTO, 0, 1.0f, 0                             \
    }

/* Choices at creation, equal on all ranks; NULL for the defaults. */
struct braid_ops_config {
    size_t size; /* sizeof(struct braid_ops_config) */
    /* epoch slot of the communicator that belongs to this braid_ops; UINT32_MAX = the last one */
    uint32_t slot;
    uint32_t reserved; /* 0 */
    /* GPU memory for packets, one parity: an operation by packets moves up to 3/4 of it, divided by ranks - 1, from each rank
     * to each other */
    size_t packet_bytes;
    /* GPU memory for staging, one parity, likewise. All-to-all in place by copy engines needs a block of it for each peer;
     * kernels use a ring of at most 8 MiB in it (reduce-scatter 24), whatever the size */
    size_t staging_bytes;
};

#define BRAID_OPS_CONFIG_INIT                                                                      \
    {                                                                                              \
        sizeof(struct braid_ops_config), UINT32_MAX, 0, 6u << 20, 64u << 20                        \
    }

/*
 * Collective. Uses 2 * (packet_bytes + staging_bytes) of GPU memory and one epoch slot. At most 64 ranks, all reachable by memory.
 * -EOPNOTSUPP: the library was built without kernels for this GPU; -EHOSTUNREACH; and the errors of braid_window_alloc.
 */
BRAID_API int braid_ops_create(struct braid_ops **ops_p, struct braid_comm *comm,
                               const struct braid_ops_config *config);

/* Not collective; waits until this rank's operations are over, at most the communicator's bound. Before braid_comm_destroy. */
BRAID_API void braid_ops_destroy(struct braid_ops *ops);

/*
 * out[i] = scale * sum over ranks of in[i], `count` numbers of format `number` (BRAID_F32, ...). In place (out == in) or apart.
 * `stream`: CUstream or cudaStream_t, as everywhere below.
 */
BRAID_API int braid_all_reduce(struct braid_ops *ops, const void *in, void *out, size_t count,
                               int number, const struct braid_op_options *options, void *stream);

/* Rank r gets in `out` the sum of block r of every rank's `in`, which has ranks * count numbers. In place: out == in + r * count. */
BRAID_API int braid_reduce_scatter(struct braid_ops *ops, const void *in, void *out, size_t count,
                                   int number, const struct braid_op_options *options,
                                   void *stream);

/* `out` gets every rank's `in` of `bytes` bytes, in rank order. In place: in == out + rank * bytes. */
BRAID_API int braid_all_gather(struct braid_ops *ops, const void *in, void *out, size_t bytes,
                               const struct braid_op_options *options, void *stream);

/*
 * Block r of `out` gets what rank r has in block `rank` of its `in`; blocks of `bytes` bytes. In place (out == in) goes through
 * staging: by packets, STAGED or ENGINE.
 */
BRAID_API int braid_all_to_all(struct braid_ops *ops, const void *in, void *out, size_t bytes,
                               const struct braid_op_options *options, void *stream);

/*
 * All-to-all with lengths of its own for each pair, in bytes: send_bytes[r] from in + send_offsets[r] to rank r, whose
 * recv_bytes[this rank] must be equal. Host arrays of `ranks` entries, read before the call returns. Not in place. Method AUTO and
 * STAGED only; each pair moves at most 256 MiB, else -EMSGSIZE on this rank (and a status on the others).
 */
BRAID_API int braid_all_to_all_v(struct braid_ops *ops, const void *in, const size_t *send_bytes,
                                 const size_t *send_offsets, void *out, const size_t *recv_bytes,
                                 const size_t *recv_offsets, const struct braid_op_options *options,
                                 void *stream);

/* Every rank's `out` gets the `bytes` bytes of root's `in`. `in` matters on root only; in place there: in == out. */
BRAID_API int braid_broadcast(struct braid_ops *ops, const void *in, void *out, size_t bytes,
                              int root, const struct braid_op_options *options, void *stream);

/* What AUTO would do, for people and tools: a text like "two-shot, 16 SMs, 512 chunks of 65536 bytes". Names of operations as in
 * results rows: all_reduce, reduce_scatter, all_gather, all_to_all, broadcast; `bytes` of the whole input (all_gather: output). */
BRAID_API const char *braid_ops_explain(struct braid_ops *ops, const char *operation, size_t bytes,
                                        int in_window, char *text, size_t text_bytes);

#ifdef __cplusplus
}
#endif

#endif
