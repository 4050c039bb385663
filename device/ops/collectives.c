/*
 * The operations of include/braid/ops.h: argument checks, the plan, the kernel's parameters, the launch. An operation that is larger
 * than its staging goes in several launches. No allocation, no lock. Threading: as ops.h says.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "device/host/driver.h"
#include "device/host/inside.h"
#include "device/ops/attempts.h"
#include "device/ops/ops.h"

static const struct braid_op_options default_options = BRAID_OP_OPTIONS_INIT;
static const uint32_t number_bytes[BRAID_NUMBER_COUNT] = {4, 2, 2, 1, 1};

/* One call, on its way. */
struct call {
    struct braid_ops *ops;
    const struct braid_op_options *options;
    void *stream;
    uint64_t in, out;
    float scale;
    const struct braid_window *result; /* window of `out`, NULL if it is in none */
    uint64_t result_offset;
    const struct braid_window *input; /* of a reduction's `in`, likewise */
    uint64_t input_offset;
    struct braid_op_question question;
    struct braid_op_plan plan;
};

static bool aligned(uint64_t a)
{
    return (a & 15) == 0;
}

/* The window that has the `bytes` from `address` on, NULL if none has; and their offset in it. */
static const struct braid_window *window_of(const struct braid_ops *ops, uint64_t address,
                                            uint64_t bytes, uint64_t *offset)
{
    const struct braid_window *w =
        bytes != 0 ? braid_window_find(ops->comm, (const void *)(uintptr_t)address, bytes) : NULL;

    if (w == NULL || w == ops->window)
        return NULL;
    *offset = address - braid_window_device(w)->local;
    return w;
}

/*
 * Fills the call, and plans it. `block` as in braid_op_question; `result_bytes` from `out` on is what peers may write, `input_bytes`
 * from `in` on what they may read.
 */
static int prepare(struct call *c, struct braid_ops *ops, enum braid_op_kind kind, const void *in,
                   uint64_t input_bytes, void *out, uint64_t block, uint64_t result_bytes,
                   bool in_place, const struct braid_op_options *options, void *stream)
{
    *c = (struct call){.ops = ops};
    c->options = options != NULL ? options : &default_options;
    c->stream = stream;
    c->in = (uint64_t)(uintptr_t)in;
    c->out = (uint64_t)(uintptr_t)out;
    if (c->options->size != sizeof(*options) || c->options->method > BRAID_METHOD_PULL ||
        (block != 0 && (out == NULL || (in == NULL && kind != BRAID_OP_BROADCAST))))
        return -EINVAL;
    if (braid_comm_error(ops->comm, NULL) != 0)
        return -EIO;
    c->scale = c->options->scale == 0.0f ? 1.0f : c->options->scale;
    c->result = window_of(ops, c->out, block != 0 ? result_bytes : 0, &c->result_offset);
    c->input = window_of(ops, c->in, input_bytes, &c->input_offset);
    c->question = (struct braid_op_question){
        .kind = kind,
        .ranks = ops->layout.ranks,
        .block = block,
        .in_window = c->result != NULL,
        .in_readable = c->input != NULL,
        .in_place = in_place,
        .method = c->options->method,
        .sms = c->options->sms,
        .sm_share = (uint32_t)braid_comm_sm_count(ops->comm),
        .packet_limit = ops->packet_limit,
        .staging_limit = ops->staging_limit,
    };
    return braid_op_plan(&c->question, &c->plan);
}

/* Launches `kernel` with the communicator, the operations window, for reductions the result window, and `args`. */
static int launch(const struct call *c, int kernel, void *args, bool with_result)
{
    const struct braid_window *result = c->result != NULL ? c->result : c->ops->window;
    void *comm = (void *)(uintptr_t)braid_comm_device(c->ops->comm);
    void *window = (void *)(uintptr_t)braid_window_device(c->ops->window);
    void *with[] = {comm, window, (void *)(uintptr_t)braid_window_device(result), args};
    void *without[] = {comm, window, args};

    return braid_ops_launch(c->ops, kernel, &c->plan, c->options->flags, c->stream,
                            with_result ? with : without);
}

/* What ready words carry: ranks whose operations differ in size, method or what peers read see different ones. Never 0. */
static uint32_t tag_of(const struct call *c)
{
    uint64_t x = c->question.block * 0x9e3779b97f4a7c15ull + c->plan.method * 64 + c->question.kind;

    if (c->plan.method == BRAID_METHOD_PULL)
        x = (x ^ c->input_offset ^ (uint64_t)braid_window_device(c->input)->serial << 48) *
            0x9e3779b97f4a7c15ull;
    return (uint32_t)(x >> 32) | 1u;
}

static uint32_t slots_of(const struct call *c)
{
    uint64_t most = c->question.kind == BRAID_OP_REDUCE_SCATTER ? BRAID_SCATTER_RING
                    : c->plan.method == BRAID_METHOD_TWO_SHOT   ? BRAID_TWO_SHOT_RING
                                                                : 8;
    uint64_t ring = MIN(c->ops->staging_limit, (most << 20) / MAX(c->question.ranks - 1, 1u));

    return (uint32_t)MAX(ring / c->plan.chunk, 1);
}

static int reduce_kernel(const struct call *c, int first, int number)
{
    return first + 2 * number + (c->question.ranks == 2 ? 0 : 1);
}

/* All-reduce (stride 0) or reduce-scatter by packets: one launch, `bytes` of result. */
static int run_ll_reduce(const struct call *c, int number, uint64_t stride)
{
    struct braid_ll_reduce_args args = {
        .layout = c->ops->layout,
        .in = c->in,
        .out = c->out,
        .bytes = c->question.block,
        .stride = stride,
        .scale = c->scale,
        .aligned = aligned(c->in | c->out | stride | c->question.block),
    };

    return launch(c, reduce_kernel(c, BRAID_KERNEL_LL_REDUCE, number), &args, false);
}

/*
 * By chunks: reduce-scatter (stride = the block), one-shot all-reduce (stride 0), two-shot all-reduce (every segment is divided among
 * the ranks).
 */
static int run_exchange_reduce(const struct call *c, int number, uint64_t stride)
{
    struct braid_exchange_args args = {
        .layout = c->ops->layout,
        .stride = stride,
        .chunk = c->plan.chunk,
        .slots = slots_of(c),
        .results = c->plan.method == BRAID_METHOD_TWO_SHOT,
        .in_place = c->plan.method == BRAID_METHOD_ONE_SHOT && c->in == c->out,
        .scale = c->scale,
        .tag = tag_of(c),
    };
    uint32_t ranks = c->question.ranks;

    for (uint64_t done = 0; done < c->question.block; done += c->plan.segment) {
        int rc;

        args.in = c->in + done;
        args.out = c->out + done;
        args.bytes = MIN(c->question.block - done, c->plan.segment);
        args.total = stride != 0 ? stride * ranks : args.bytes;
        if (args.results) {
            args.total = args.bytes;
            args.bytes = ((args.total + ranks - 1) / ranks + 15) & ~15ull;
            args.stride = args.bytes;
            args.out += args.stride * c->ops->layout.rank;
            args.result = c->result_offset + done;
        }
        args.aligned = aligned(args.in | args.out | args.stride | args.result);
        rc = launch(c, reduce_kernel(c, BRAID_KERNEL_EXCHANGE_REDUCE, number), &args, true);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* All-reduce (the vector is divided among the ranks) or reduce-scatter; every rank reads what it sums. One launch. */
static int run_pull(const struct call *c, int number)
{
    const struct braid_devwin *input = braid_window_device(c->input);
    const struct braid_devwin *result = braid_window_device(c->result ? c->result : c->input);
    bool everywhere = c->question.kind == BRAID_OP_ALL_REDUCE;
    uint64_t ranks = c->question.ranks, rank = c->ops->layout.rank, total = c->question.block;
    uint64_t block = everywhere ? ((total + ranks - 1) / ranks + 15) & ~15ull : total;
    uint64_t first = block * rank;
    struct braid_pull_args args = {
        .layout = c->ops->layout,
        .in = c->input_offset + first,
        .out = c->out + (everywhere ? first : 0),
        .result = c->result_offset + first,
        .bytes = !everywhere      ? block
                 : first >= total ? 0
                                  : MIN(block, total - first),
        .results = everywhere,
        .scale = c->scale,
        .tag = tag_of(c),
    };
    void *comm = (void *)(uintptr_t)braid_comm_device(c->ops->comm);
    void *window = (void *)(uintptr_t)braid_window_device(c->ops->window);
    void *arguments[] = {comm, window, (void *)(uintptr_t)input, (void *)(uintptr_t)result, &args};

    args.aligned = aligned(args.in | args.out | args.result | block);
    return braid_ops_launch(c->ops, reduce_kernel(c, BRAID_KERNEL_PULL_REDUCE, number), &c->plan,
                            c->options->flags, c->stream, arguments);
}

int braid_all_reduce(struct braid_ops *ops, const void *in, void *out, size_t count, int number,
                     const struct braid_op_options *options, void *stream)
{
    struct call c;
    uint64_t bytes;
    int rc;

    if (ops == NULL || number < 0 || number >= BRAID_NUMBER_COUNT)
        return -EINVAL;
    bytes = count * number_bytes[number];
    rc = prepare(&c, ops, BRAID_OP_ALL_REDUCE, in, bytes, out, bytes, bytes, in == out, options,
                 stream);
    if (rc != 0 || count == 0)
        return rc;
    rc = braid_ops_enter(ops);
    if (rc != 0)
        return rc;
    if (c.plan.method == BRAID_METHOD_PACKETS || c.question.ranks == 1)
        rc = run_ll_reduce(&c, number, 0);
    else if (c.plan.method == BRAID_METHOD_PULL)
        rc = run_pull(&c, number);
    else
        rc = run_exchange_reduce(&c, number, 0);
    braid_ops_leave(ops);
    return rc;
}

int braid_reduce_scatter(struct braid_ops *ops, const void *in, void *out, size_t count, int number,
                         const struct braid_op_options *options, void *stream)
{
    struct call c;
    uint64_t bytes, mine, all;
    int rc;

    if (ops == NULL || number < 0 || number >= BRAID_NUMBER_COUNT)
        return -EINVAL;
    bytes = count * number_bytes[number];
    rc = prepare(&c, ops, BRAID_OP_REDUCE_SCATTER, in, bytes * (ops->layout.ranks), out, bytes,
                 bytes, false, options, stream);
    if (rc != 0 || count == 0)
        return rc;
    mine = c.in + bytes * ops->layout.rank;
    all = bytes * ops->layout.ranks;
    if (c.out != mine && c.out < c.in + all && c.in < c.out + bytes)
        return -EINVAL; /* another block would be overwritten before it is sent */
    rc = braid_ops_enter(ops);
    if (rc != 0)
        return rc;
    if (c.plan.method == BRAID_METHOD_PACKETS || c.question.ranks == 1)
        rc = run_ll_reduce(&c, number, bytes);
    else if (c.plan.method == BRAID_METHOD_PULL)
        rc = run_pull(&c, number);
    else
        rc = run_exchange_reduce(&c, number, bytes);
    braid_ops_leave(ops);
    return rc;
}

/* What a copying collective moves between this rank and each rank, before it is cut into segments. */
struct moves {
    /* `to` is an offset in the result window, for direct */
    struct braid_copy_peer peer[BRAID_OPS_RANKS];
    bool same;
    bool ragged; /* lengths are known to pairs only */
    bool in_place;
};

static uint64_t window_address(const struct braid_window *w, uint32_t rank)
{
    return (uint64_t)(uintptr_t)braid_window_address(w, (int)rank);
}

static int run_ll_copy(const struct call *c, const struct moves *m)
{
    struct braid_ll_copy_args args = {.layout = c->ops->layout, .aligned = 1};

    memcpy(args.peer, m->peer, sizeof(args.peer[0]) * c->question.ranks);
    for (uint32_t r = 0; r < c->question.ranks; r++)
        args.aligned &= aligned(args.peer[r].from | args.peer[r].into | args.peer[r].from_bytes |
                                args.peer[r].into_bytes);
    return launch(c, BRAID_KERNEL_LL_COPY, &args, false);
}

/* The part [done, done + segment) of every move. */
static void cut(struct braid_copy_args *args, const struct call *c, const struct moves *m,
                uint64_t done)
{
    uint64_t longest_out = 0, longest_in = 0;

    args->aligned = 1;
    for (uint32_t r = 0; r < c->question.ranks; r++) {
        const struct braid_copy_peer *whole = &m->peer[r];
        struct braid_copy_peer *p = &args->peer[r];

        p->from = whole->from + done;
        p->into = whole->into + done;
        p->from_bytes =
            done < whole->from_bytes ? MIN(whole->from_bytes - done, c->plan.segment) : 0;
        p->into_bytes =
            done < whole->into_bytes ? MIN(whole->into_bytes - done, c->plan.segment) : 0;
        p->to = args->direct ? window_address(c->result, r) + whole->to + done : 0;
        if (r == c->ops->layout.rank) {
            longest_in = MAX(longest_in, p->from_bytes);
            continue;
        }
        args->aligned &= aligned(p->from | p->to);
        longest_out = MAX(longest_out, p->from_bytes);
        longest_in = MAX(longest_in, p->into_bytes);
    }
    args->out_chunks = (uint32_t)((longest_out + args->chunk - 1) / args->chunk);
    args->in_chunks = (uint32_t)((longest_in + args->chunk - 1) / args->chunk);
}

static int run_exchange_copy(const struct call *c, const struct moves *m)
{
    struct braid_copy_args args = {
        .layout = c->ops->layout,
        .chunk = c->plan.chunk,
        .slots = slots_of(c),
        .same = m->same,
        .direct = c->plan.method == BRAID_METHOD_DIRECT,
        .tag = m->ragged ? 0 : tag_of(c),
        .in_place = m->in_place,
    };

    for (uint64_t done = 0; done < c->question.block; done += c->plan.segment) {
        int rc;

        cut(&args, c, m, done);
        rc = launch(c, BRAID_KERNEL_EXCHANGE_COPY, &args, false);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int run_copy(const struct call *c, const struct moves *m, uint64_t self_bytes)
{
    int rc = braid_ops_enter(c->ops);

    if (rc != 0)
        return rc;
    if (c->question.ranks == 1) {
        const struct braid_copy_peer *p = &m->peer[0];

        if (self_bytes != 0 && p->from != p->into)
            rc = braid_cuda_errno(c->ops->cuda->copy(p->into, p->from, self_bytes, c->stream));
    } else if (c->plan.method == BRAID_METHOD_PACKETS) {
        rc = run_ll_copy(c, m);
    } else if (c->plan.method == BRAID_METHOD_ENGINE) {
        struct braid_engine_job job = {
            .in = c->in,
            .out = c->out,
            .block = c->question.block,
            .same = m->same,
            .in_place = m->in_place,
            .result = c->result,
            .offset = c->result_offset,
        };

        rc = braid_engine_run(c->ops, &job, c->stream);
    } else {
        rc = run_exchange_copy(c, m);
    }
    braid_ops_leave(c->ops);
    return rc;
}

int braid_all_gather(struct braid_ops *ops, const void *in, void *out, size_t bytes,
                     const struct braid_op_options *options, void *stream)
{
    struct call c;
    struct moves m = {.same = true};
    uint32_t rank, ranks;
    uint64_t mine;
    int rc;

    if (ops == NULL)
        return -EINVAL;
    rank = ops->layout.rank;
    ranks = ops->layout.ranks;
    rc = prepare(&c, ops, BRAID_OP_ALL_GATHER, in, 0, out, bytes, (uint64_t)bytes * ranks, false,
                 options, stream);
    if (rc != 0 || bytes == 0)
        return rc;
    mine = c.out + bytes * rank;
    if (c.in != mine && c.in < c.out + (uint64_t)bytes * ranks && c.out < c.in + bytes)
        return -EINVAL;
    for (uint32_t r = 0; r < ranks; r++) {
        m.peer[r] = (struct braid_copy_peer){
            .from = c.in,
            .from_bytes = r == rank && c.in == mine ? 0 : bytes,
            .to = c.result_offset + bytes * rank,
            .into = c.out + bytes * r,
            .into_bytes = bytes,
        };
    }
    return run_copy(&c, &m, bytes);
}

int braid_all_to_all(struct braid_ops *ops, const void *in, void *out, size_t bytes,
                     const struct braid_op_options *options, void *stream)
{
    struct call c;
    struct moves m = {.in_place = in == out};
    uint32_t rank, ranks;
    int rc;

    if (ops == NULL)
        return -EINVAL;
    rank = ops->layout.rank;
    ranks = ops->layout.ranks;
    rc = prepare(&c, ops, BRAID_OP_ALL_TO_ALL, in, 0, out, bytes, (uint64_t)bytes * ranks,
                 in == out, options, stream);
    if (rc != 0 || bytes == 0)
        return rc;
    if (in != out && c.in < c.out + (uint64_t)bytes * ranks &&
        c.out < c.in + (uint64_t)bytes * ranks)
        return -EINVAL;
    for (uint32_t r = 0; r < ranks; r++) {
        m.peer[r] = (struct braid_copy_peer){
            .from = c.in + bytes * r,
            .from_bytes = r == rank && in == out ? 0 : bytes,
            .to = c.result_offset + bytes * rank,
            .into = c.out + bytes * r,
            .into_bytes = bytes,
        };
    }
    return run_copy(&c, &m, bytes);
}

int braid_all_to_all_v(struct braid_ops *ops, const void *in, const size_t *send_bytes,
                       const size_t *send_offsets, void *out, const size_t *recv_bytes,
                       const size_t *recv_offsets, const struct braid_op_options *options,
                       void *stream)
{
    struct call c;
    struct moves m = {.ragged = true};
    uint64_t longest = 1;
    int rc;

    if (ops == NULL || send_bytes == NULL || send_offsets == NULL || recv_bytes == NULL ||
        recv_offsets == NULL)
        return -EINVAL;
    for (uint32_t r = 0; r < ops->layout.ranks; r++) {
        m.peer[r] = (struct braid_copy_peer){
            .from = (uint64_t)(uintptr_t)in + send_offsets[r],
            .from_bytes = send_bytes[r],
            .into = (uint64_t)(uintptr_t)out + recv_offsets[r],
            .into_bytes = recv_bytes[r],
        };
        longest = MAX(longest, MAX(send_bytes[r], recv_bytes[r]));
    }
    if (longest > 65536ull * BRAID_OPS_CHUNKS)
        return -EMSGSIZE;
    /* Lengths are known to pairs only: the chunk must not depend on them. */
    rc = prepare(&c, ops, BRAID_OP_ALL_TO_ALL_V, in, 0, out, ops->staging_limit, 1, false, options,
                 stream);
    if (rc != 0)
        return rc;
    c.plan.chunk = 65536;
    c.plan.segment = c.question.block = longest;
    c.plan.ctas = (uint32_t)MIN(c.plan.ctas, (longest + 65535) / 65536);
    return run_copy(&c, &m, send_bytes[0]);
}

int braid_broadcast(struct braid_ops *ops, const void *in, void *out, size_t bytes, int root,
                    const struct braid_op_options *options, void *stream)
{
    struct call c;
    struct moves m = {.same = true};
    bool is_root;
    int rc;

    if (ops == NULL || root < 0 || (uint32_t)root >= ops->layout.ranks)
        return -EINVAL;
    is_root = (uint32_t)root == ops->layout.rank;
    if (is_root && in == NULL && bytes != 0)
        return -EINVAL;
    rc = prepare(&c, ops, BRAID_OP_BROADCAST, in, 0, out, bytes, bytes, false, options, stream);
    if (rc != 0 || bytes == 0)
        return rc;
    for (uint32_t r = 0; r < ops->layout.ranks; r++) {
        bool self = r == ops->layout.rank;

        m.peer[r] = (struct braid_copy_peer){
            .from = is_root ? c.in : c.out,
            .from_bytes = is_root && !(self && in == out) ? bytes : 0,
            .to = c.result_offset,
            .into = c.out,
            .into_bytes = r == (uint32_t)root && !self ? bytes : 0,
        };
    }
    return run_copy(&c, &m, bytes);
}

const char *braid_ops_explain(struct braid_ops *ops, const char *operation, size_t bytes,
                              int in_window, char *text, size_t text_bytes)
{
    struct braid_op_question q = {
        .ranks = ops->layout.ranks,
        .in_window = in_window != 0,
        .sm_share = (uint32_t)braid_comm_sm_count(ops->comm),
        .packet_limit = ops->packet_limit,
        .staging_limit = ops->staging_limit,
    };
    struct braid_op_plan plan;
    int kind = 0, rc;

    while (kind < BRAID_OP_KINDS && strcmp(operation, braid_op_name(kind)) != 0)
        kind++;
    if (kind == BRAID_OP_KINDS) {
        snprintf(text, text_bytes, "unknown operation %s", operation);
        return text;
    }
    q.kind = kind;
    q.block = kind == BRAID_OP_ALL_REDUCE || kind == BRAID_OP_BROADCAST ? bytes : bytes / q.ranks;
    rc = braid_op_plan(&q, &plan);
    if (rc != 0)
        snprintf(text, text_bytes, "%s of %zu bytes: %s", operation, bytes, strerror(-rc));
    else
        snprintf(text, text_bytes, "%s, %u CTAs of %u threads, chunks of %u bytes, %llu launches",
                 braid_method_name(plan.method), plan.ctas, plan.threads, plan.chunk,
                 (unsigned long long)((q.block + MAX(plan.segment, 1) - 1) / MAX(plan.segment, 1)));
    return text;
}
