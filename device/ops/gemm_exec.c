/*
 * A schedule as stream operations, see gemm_plan.h. Neighbouring waits and posts of a lane go to the driver as one batch; edges are
 * events. Nothing here allocates or waits, so it can be captured.
 */
#include "device/ops/gemm.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"

#define MAX_BATCH 128

struct run {
    struct braid_gemm *g;
    const struct braid_gemm_call *call;
    CUstreamBatchMemOpParams batch[MAX_BATCH];
    bool to_peer[MAX_BATCH]; /* the write is a post */
    unsigned batched;
    uint32_t batch_lane;
    size_t at; /* instruction */
    size_t events;
    const struct braid_gemm_instr *before;
    enum braid_gemm_share share;
};

size_t braid_gemm_row_bytes(const struct braid_gemm *g, int buffer)
{
    int64_t width = g->desc.n;

    switch (buffer) {
    case BRAID_GEMM_B_X: width = g->desc.k; break;
    case BRAID_GEMM_B_GATHER: width = g->bulk ? g->desc.bulk_n : g->desc.k; break;
    case BRAID_GEMM_B_SEND:
    case BRAID_GEMM_B_RECV: width = g->desc.bulk_n; break;
    case BRAID_GEMM_B_PART: width = g->bulk ? g->desc.bulk_n : g->desc.n; break;
    default: break;
    }
    return (size_t)width * 2;
}

static CUdeviceptr address(const struct run *r, int rank, int buffer, int64_t row)
{
    const struct braid_gemm *g = r->g;
    size_t offset = (size_t)row * braid_gemm_row_bytes(g, buffer);

    switch (buffer) {
    case BRAID_GEMM_B_X: return (CUdeviceptr)(uintptr_t)r->call->x + offset;
    case BRAID_GEMM_B_Y: return (CUdeviceptr)(uintptr_t)r->call->y + offset;
    case BRAID_GEMM_B_SEND: return (CUdeviceptr)(uintptr_t)r->call->send + offset;
    case BRAID_GEMM_B_RECV: return (CUdeviceptr)(uintptr_t)r->call->recv + offset;
    case BRAID_GEMM_B_STAGE: return g->stage + offset;
    default: return g->base[rank] + g->offset[buffer] + offset;
    }
}

static CUstream stream_of(const struct run *r, uint32_t lane)
{
    return lane == 0 ? r->call->stream : r->g->lanes->stream[lane];
}

/* The batch by kernels of one thread instead of the stream's own operations. */
static int flush_by_kernel(struct run *r, unsigned count)
{
    struct braid_gemm_flag_list list = {.go = r->g->watch.go};
    void *arguments[] = {&list};
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < count; i++) {
        bool wait = r->batch[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;

        list.step[list.count++] = (struct braid_gemm_flag_step){
            .word = wait ? r->batch[i].waitValue.address : r->batch[i].writeValue.address,
            .value = wait ? r->batch[i].waitValue.value : r->batch[i].writeValue.value,
            .kind = wait ? BRAID_GEMM_F_WAIT
                         : (r->to_peer[i] ? BRAID_GEMM_F_POST : BRAID_GEMM_F_WRITE)};
        if (list.count < BRAID_GEMM_FLAG_STEPS && i + 1 < count)
            continue;
        rc = braid_gemm_cuda_check(r->g->cuda->launch(r->g->flags_kernel, 1, 1, 1, 1, 1, 1, 0,
                                                      stream_of(r, r->batch_lane), arguments, NULL),
                                   "flags by a kernel");
        list.count = 0;
    }
    return rc;
}

static int flush(struct run *r)
{
    unsigned count = r->batched;

    r->batched = 0;
    if (count == 0)
        return 0;
    if (r->g->desc.settings.signal == BRAID_GEMM_BY_KERNEL)
        return flush_by_kernel(r, count);
    return braid_gemm_cuda_check(
        r->g->cuda->memops(stream_of(r, r->batch_lane), count, r->batch, 0), "stream flags");
}

static void batch_write(struct run *r, CUdeviceptr word, uint32_t value)
{
    CUstreamBatchMemOpParams *op = &r->batch[r->batched];

    r->to_peer[r->batched++] = false;
    memset(op, 0, sizeof(*op));
    op->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op->writeValue.address = word;
    op->writeValue.value = value;
    /* CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER would do for most, but the driver's v2 interface refuses it. */
    op->writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
}

static void batch_wait(struct run *r, CUdeviceptr word, uint32_t value)
{
    CUstreamBatchMemOpParams *op = &r->batch[r->batched++];

    memset(op, 0, sizeof(*op));
    op->waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op->waitValue.address = word;
    op->waitValue.value = value;
    op->waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
}

static void batch_busy(struct run *r, uint32_t lane, uint32_t state)
{
    batch_write(r, r->g->busy + lane * sizeof(uint32_t), state);
}

/* A wait, a post or a mark joins the batch of its lane. */
static int flag_step(struct run *r, const struct braid_gemm_instr *i)
{
    const struct braid_gemm *g = r->g;
    int rc = 0;

    if (r->batched > 0 && (r->batch_lane != i->lane || r->batched + 4 > MAX_BATCH))
        rc = flush(r);
    r->batch_lane = i->lane;
    if (r->at == g->first_wait[i->lane])
        batch_busy(r, i->lane, BRAID_GEMM_RUNNING);
    if (i->kind == BRAID_GEMM_I_WAIT) {
        CUdeviceptr word = g->base[g->rank] + i->flag * sizeof(uint32_t);

        batch_wait(r, word, 1);
        batch_write(r, word, 0);
    } else if (i->kind == BRAID_GEMM_I_POST) {
        batch_write(r, g->base[i->peer] + i->flag * sizeof(uint32_t), 1);
        r->to_peer[r->batched - 1] = true;
    } else {
        batch_busy(r, i->lane, BRAID_GEMM_IDLE); /* which it is */
    }
    if (r->at == g->last_wait[i->lane])
        batch_busy(r, i->lane, BRAID_GEMM_IDLE);
    return rc;
}

static int edge_step(struct run *r, const struct braid_gemm_instr *i)
{
    const struct braid_gemm_cuda *cuda = r->g->cuda;
    bool same_point = r->before != NULL && r->before->kind == BRAID_GEMM_I_EDGE &&
                      r->before->lane == i->lane && r->events > 0;
    CUevent event = r->g->events[same_point ? r->events - 1 : r->events++];
    int rc = 0;

    if (!same_point)
        rc = braid_gemm_cuda_check(cuda->event_record(event, stream_of(r, i->lane)), "event");
    if (rc == 0)
        rc = braid_gemm_cuda_check(cuda->stream_wait_event(stream_of(r, i->lane2), event, 0),
                                   "event wait");
    return rc;
}

/* Without the credits of the peer, when only products run, what is meant for its window goes into the own one. */
static int product_step(struct run *r, const struct braid_gemm_instr *i, int product)
{
    struct braid_gemm *g = r->g;
    int to = i->peer < 0 || r->share == BRAID_GEMM_ONLY_PRODUCTS ? g->rank : i->peer;
    const void *acc =
        i->acc ? (const void *)(uintptr_t)address(r, g->rank, i->acc, i->acc_row) : NULL;
    int rc = braid_gemm_blas_run(
        &g->blas, product, (const void *)(uintptr_t)address(r, g->rank, i->src, i->src_row),
        r->call->w, acc, (void *)(uintptr_t)address(r, to, i->dst, i->dst_row),
        (void *)(uintptr_t)g->workspace[i->lane], stream_of(r, i->lane));

    if (rc != 0)
        BRAID_WARN("cuBLASLt refused a product of %ld rows", (long)i->rows);
    return rc;
}

static int copy_step(struct run *r, const struct braid_gemm_instr *i)
{
    const struct braid_gemm *g = r->g;
    int sms = i->kind == BRAID_GEMM_I_PUSH ? g->desc.settings.num_sm : 0;
    int to = i->kind == BRAID_GEMM_I_PUSH ? i->peer : g->rank;
    CUdeviceptr src = address(r, g->rank, i->src, i->src_row);
    CUdeviceptr dst = address(r, to, i->dst, i->dst_row);
    uint64_t bytes = (uint64_t)i->rows * braid_gemm_row_bytes(g, i->dst);
    void *arguments[] = {&dst, &src, &bytes};

    if (sms == 0)
        return braid_gemm_cuda_check(g->cuda->copy(dst, src, bytes, stream_of(r, i->lane)), "copy");
    return braid_gemm_cuda_check(g->cuda->launch(g->copy_kernel, (unsigned)sms, 1, 1, 512, 1, 1, 0,
                                                 stream_of(r, i->lane), arguments, NULL),
                                 "push kernel");
}

/* A flag as the copy engine's next copy: it is written when the rows before it are, and says whether they are right. */
static int copied_post(struct run *r, const struct braid_gemm_instr *i)
{
    const struct braid_gemm *g = r->g;

    return braid_gemm_cuda_check(g->cuda->copy(g->base[i->peer] + i->flag * sizeof(uint32_t),
                                               g->watch.go, sizeof(uint32_t),
                                               stream_of(r, i->lane)),
                                 "copy of a flag");
}

/* dst = src + every peer's slot; the slot of this rank is not used. */
static int add_step(struct run *r, const struct braid_gemm_instr *i)
{
    const struct braid_gemm *g = r->g;
    size_t row_bytes = braid_gemm_row_bytes(g, i->dst);
    CUdeviceptr src = address(r, g->rank, i->src, i->src_row);
    CUdeviceptr dst = address(r, g->rank, i->dst, i->dst_row);
    CUdeviceptr slots = address(r, g->rank, i->acc, i->acc_row);
    uint64_t elements = (uint64_t)i->rows * row_bytes / 2;
    uint64_t stride = (uint64_t)g->part * row_bytes;
    int32_t rank = g->rank, ranks = g->ranks, half = g->desc.dtype == BRAID_GEMM_FP16;
    void *arguments[] = {&dst, &src, &slots, &stride, &elements, &rank, &ranks, &half};
    uint64_t ctas = (elements + 2047) / 2048;

    return braid_gemm_cuda_check(
        g->cuda->launch(g->add_kernel, (unsigned)MAX(1, MIN(ctas, 4u * (unsigned)g->on.sms)), 1, 1,
                        256, 1, 1, 0, stream_of(r, i->lane), arguments, NULL),
        "add kernel");
}

static int collective_step(struct run *r, const struct braid_gemm_instr *i)
{
    struct braid_gemm *g = r->g;
    struct braid_op_options options = BRAID_OP_OPTIONS_INIT;
    int number = g->desc.dtype == BRAID_GEMM_FP16 ? BRAID_F16 : BRAID_BF16;
    const void *src = (const void *)(uintptr_t)address(r, g->rank, i->src, i->src_row);
    void *dst = (void *)(uintptr_t)address(r, g->rank, i->dst, i->dst_row);
    CUstream stream = stream_of(r, i->lane);
    size_t count = (size_t)g->part * (size_t)g->desc.n;

    options.sms = (uint32_t)MIN(g->desc.settings.num_sm, g->on.sms);
    if (g->desc.op == BRAID_AG_GEMM)
        return braid_all_gather(g->ops, src, dst,
                                (size_t)g->part * braid_gemm_row_bytes(g, BRAID_GEMM_B_X), &options,
                                stream);
    if (g->desc.op == BRAID_GEMM_RS)
        return braid_reduce_scatter(g->ops, src, dst, count, number, &options, stream);
    return braid_all_reduce(g->ops, src, dst, count * (size_t)g->ranks, number, &options, stream);
}

static int step(struct run *r, const struct braid_gemm_instr *i, int product)
{
    int rc;

    if (!i->by_copy && (i->kind == BRAID_GEMM_I_WAIT || i->kind == BRAID_GEMM_I_POST ||
                        i->kind == BRAID_GEMM_I_MARK))
        return flag_step(r, i);
    rc = flush(r);
    if (rc != 0)
        return rc;
    switch (i->kind) {
    case BRAID_GEMM_I_EDGE: return edge_step(r, i);
    case BRAID_GEMM_I_GEMM: return product < 0 ? 0 : product_step(r, i, product);
    case BRAID_GEMM_I_ADD: return add_step(r, i);
    case BRAID_GEMM_I_POST: return copied_post(r, i);
    case BRAID_GEMM_I_COLLECTIVE: return collective_step(r, i);
    default: return copy_step(r, i);
    }
}

int braid_gemm_enqueue(struct braid_gemm *g, const struct braid_gemm_call *call,
                       enum braid_gemm_share share)
{
    struct run r = {.g = g, .call = call, .share = share};
    int rc = 0;

    for (size_t n = 0; rc == 0 && n < g->program.count; n++) {
        const struct braid_gemm_instr *i = &g->program.instr[n];

        if (share == BRAID_GEMM_ONLY_PRODUCTS && i->kind != BRAID_GEMM_I_GEMM &&
            i->kind != BRAID_GEMM_I_EDGE)
            continue;
        r.at = n;
        rc = step(&r, i, share == BRAID_GEMM_NO_PRODUCTS ? -1 : g->product[n]);
        r.before = i;
    }
    return rc ? rc : flush(&r);
}
