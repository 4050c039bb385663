/*
 * An attempt (attempts.h, BRAID_OPS_PULL): reduce-scatter and two-shot all-reduce without staging, pushers and chunk flags. Every CTA reads
 * its part of this rank's block from all ranks' inputs, and for two-shot stores the sums into every result. It begins when all ranks have
 * begun, and ends when all have finished: then nobody reads this rank's input or writes its result any more.
 * The input lies in the result's window, at the same place on every rank. In place is right: nobody but this rank reads or writes its
 * block of any buffer, and each 16 bytes of it are read before they are written, by one thread.
 */
#ifndef BRAID_DEVICE_OPS_PULL_CUH
#define BRAID_DEVICE_OPS_PULL_CUH

#include "exchange_reduce.cuh"

/* Sums this CTA's part of the block. */
template <int NUMBER, int RANKS>
BRAID_FN void pull_sum(const struct braid_devwin *result, const struct braid_exchange_args *a,
                       uint64_t bytes)
{
    const struct braid_ops_layout *l = &a->layout;
    uint64_t local = a->in + a->stride * l->rank;
    uint64_t remote = a->result + a->stride * l->rank;

    auto source = [&](int i) -> uint64_t {
        return (uint32_t)i == l->rank ? local
                                      : braid_window_base(result, i) + local - result->local;
    };
    auto put = [&](uint64_t to, uint64_t part, const struct braid_vec16 &v) {
        if (a->aligned && part == 16)
            braid_ptx_store16((void *)to, v);
        else
            braid_store_part(to, part, v);
    };
    auto sink = [&](uint64_t at, uint64_t part, const struct braid_vec16 &v) {
        for (uint32_t hop = 1; a->results && hop < (RANKS == 2 ? 2 : l->ranks); hop++)
            put(braid_window_base(result, (int)exchange_peer(l->rank, l->ranks, hop)) + remote + at,
                part, v);
        put(a->out + at, part, v);
    };

    braid_reduce_group<NUMBER, RANKS>(source, (int)l->ranks, bytes, a->scale, (int)a->aligned, sink,
                                      braid_ptx_block() * braid_ptx_threads() + braid_ptx_thread(),
                                      braid_ptx_blocks() * braid_ptx_threads());
}

/* This CTA has finished; the last one of the grid tells the peers and waits for them. One thread, after the CTA's barrier. */
BRAID_FN void pull_leave_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                const struct braid_ops_layout *l, const struct op *op)
{
    uint32_t last = braid_ptx_blocks() - 1;
    uint32_t *finished = op_flag(w, l, op, 0, l->rank, l->rank, 0); /* no other use of it */

    braid_ptx_fence_sys();
    if (last != 0 && braid_ptx_count_gpu_u32(finished, last) != last)
        return;
    braid_ptx_fence_sys(); /* what the other CTAs did before they counted */
    BRAID_NO_UNROLL
    for (uint32_t hop = 1; hop < l->ranks; hop++)
        braid_ptx_store_relaxed_sys_u32(
            op_flag(w, l, op, 1, l->rank, exchange_peer(l->rank, l->ranks, hop), 0), op->flag);
    BRAID_NO_UNROLL
    for (uint32_t hop = 1; hop < l->ranks; hop++) {
        uint32_t peer = exchange_peer(l->rank, l->ranks, hop);

        op_wait_thread(c, op_flag(w, l, op, 1, peer, l->rank, 0), op->flag, BRAID_WAIT_RESULT, peer,
                       0);
    }
}

template <int NUMBER, int RANKS>
BRAID_FN void pull_reduce(const struct braid_devcomm *c, const struct braid_devwin *w,
                          const struct braid_devwin *result, const struct braid_exchange_args *a)
{
    const struct braid_ops_layout *l = &a->layout;
    struct op op = op_begin(c, l);
    auto tag = [&](uint32_t) { return a->tag; };
    uint32_t count = 0;

    if (braid_ptx_thread() < 32) {
        if (braid_ptx_block() == 0)
            op_tell_warp(w, l, &op, tag);
        op_hear_warp(c, w, l, &op, tag);
    }
    braid_ptx_sync_cta();
    braid_ptx_allow_next_kernel();
    if (braid_ptx_thread() == 0)
        count = op_count_thread(c, l);
    pull_sum<NUMBER, RANKS>(result, a, reduce_block(a, l->rank));
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0) {
        pull_leave_thread(c, w, l, &op);
        op_end_thread(c, l, &op, count);
    }
}

/*
 * An attempt (BRAID_ENGINE_REDUCE): copy engines put the peers' blocks into staging part by part (parity 0, flags of kind 0 that are 1);
 * this sums each part when it has come from everybody. `slots` is 1/32 of the block in 64 KiB, 0: one part.
 */
template <int NUMBER, int RANKS>
BRAID_FN void engine_reduce(const struct braid_devcomm *c, const struct braid_devwin *w,
                            const struct braid_devwin *result, const struct braid_exchange_args *a)
{
    const struct braid_ops_layout *l = &a->layout;
    struct op op = op_begin(c, l);
    uint32_t count = 0, peer = braid_ptx_thread(), last = braid_ptx_blocks() - 1;
    uint64_t first = 0;

    (void)result;
    op.parity = 0;
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0)
        count = op_count_thread(c, l);
    BRAID_NO_UNROLL
    for (uint32_t k = 0; first < a->bytes; k++) {
        uint64_t end = a->slots == 0 || k == BRAID_ENGINE_REDUCE_PARTS - 1
                           ? a->bytes
                           : ((uint64_t)a->slots << 16) * BRAID_ENGINE_REDUCE_END(k);
        auto source = [&](int i) -> uint64_t {
            return first + ((uint32_t)i == l->rank ? a->in + a->stride * l->rank
                                                   : op_staging(w, l, &op, (uint32_t)i, l->rank));
        };
        auto sink = [&](uint64_t at, uint64_t part, const struct braid_vec16 &v) {
            if (a->aligned && part == 16)
                braid_ptx_store16((void *)(a->out + first + at), v);
            else
                braid_store_part(a->out + first + at, part, v);
        };

        if (peer < l->ranks && peer != l->rank)
            op_wait_thread(c, op_flag(w, l, &op, 0, peer, l->rank, k), 1, BRAID_WAIT_CHUNK, peer,
                           k);
        braid_ptx_sync_cta();
        braid_reduce_group<NUMBER, RANKS>(source, (int)l->ranks, end - first, a->scale,
                                          (int)a->aligned, sink,
                                          braid_ptx_block() * braid_ptx_threads() + peer,
                                          braid_ptx_blocks() * braid_ptx_threads());
        first = end;
    }
    braid_ptx_sync_cta();
    if (braid_ptx_thread() != 0)
        return;
    /* All CTAs have seen all flags: they are taken back before this rank says that it has begun the next operation. */
    if (last == 0 ||
        braid_ptx_count_gpu_u32(op_flag(w, l, &op, 0, l->rank, l->rank, 0), last) == last)
        for (uint32_t r = 0; r < l->ranks; r++)
            for (uint32_t k = 0; r != l->rank && k < BRAID_ENGINE_REDUCE_PARTS; k++)
                braid_ptx_store_relaxed_sys_u32(op_flag(w, l, &op, 0, r, l->rank, k), 0);
    op_end_thread(c, l, &op, count);
}

#endif
