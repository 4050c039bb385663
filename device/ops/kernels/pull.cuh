/*
 * Reduce-scatter and all-reduce without staging, pushers and chunk flags: every CTA reads its part of this rank's block from all ranks'
 * inputs, and for an all-reduce stores the sums into every result. An operation begins when all ranks have begun, and ends when all have
 * finished: then nobody reads this rank's input or writes its result any more.
 * The input is in a window, at the same place on every rank (the tags tell). In place is right: nobody but this rank reads or writes its block
 * of any buffer, and each 16 bytes of it are read before they are written, by one thread. Ranks may run different grids.
 * A rank that has not heard from all peers leaves their memory alone, and does not say that it has finished.
 */
#ifndef BRAID_DEVICE_OPS_PULL_CUH
#define BRAID_DEVICE_OPS_PULL_CUH

#include <braid/device/reduce.cuh>

#include "common.cuh"

BRAID_FN uint32_t pull_peer(const struct braid_ops_layout *l, uint32_t hop)
{
    return l->rank + hop < l->ranks ? l->rank + hop : l->rank + hop - l->ranks;
}

/* This rank has begun, and have all others, with the same tag? All threads of the CTA; a status, also that of an earlier failure. */
BRAID_FN int pull_begin(const struct braid_devcomm *c, const struct braid_devwin *w,
                        const struct braid_ops_layout *l, const struct op *op, uint32_t tag)
{
    auto same = [&](uint32_t) { return tag; };
    int status = 0;

    if (braid_ptx_thread() < 32) {
        if (braid_ptx_block() == 0)
            op_tell_warp(c, w, l, op, same);
        status = braid_failed_thread(c);
        status |= op_hear_warp(c, w, l, op, same);
    }
    return braid_ptx_sync_cta_any(status);
}

/* This CTA has finished; the last one of the grid tells the peers and waits for them. One thread, after the CTA's barrier. Nonzero for
 * that one. Only of CTAs that have not failed: one that is missing in the count keeps the peers from taking this rank's part as done. */
BRAID_FN int pull_leave_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                               const struct braid_ops_layout *l, const struct op *op)
{
    uint32_t last = braid_ptx_blocks() - 1;
    uint32_t *finished = op_flag(w, l, op, 0, l->rank, l->rank, 0); /* no other use of it */

    braid_ptx_fence_sys();
    if (last != 0 && braid_ptx_count_gpu_u32(finished, last) != last)
        return 0;
    braid_ptx_fence_sys(); /* what the other CTAs did before they counted */
    BRAID_NO_UNROLL
    for (uint32_t hop = 1; hop < l->ranks; hop++)
        braid_ptx_store_relaxed_sys_u32(op_flag(w, l, op, 1, l->rank, pull_peer(l, hop), 0),
                                        op->flag);
    BRAID_NO_UNROLL
    for (uint32_t hop = 1; hop < l->ranks; hop++) {
        uint32_t peer = pull_peer(l, hop);

        op_wait_thread(c, op_flag(w, l, op, 1, peer, l->rank, 0), op->flag, BRAID_WAIT_RESULT, peer,
                       0);
    }
    return 1;
}

/* Sums `bytes` from `first` on of this rank's block; from(i) is the block's address in rank i's memory. Thread `thread` of `threads`. */
template <int NUMBER, int RANKS, class From>
BRAID_FN void pull_sum(const struct braid_devwin *input, const struct braid_devwin *result,
                       const struct braid_pull_args *a, From from, uint64_t first, uint64_t bytes,
                       uint32_t thread, uint32_t threads)
{
    const struct braid_ops_layout *l = &a->layout;

    auto source = [&](int i) -> uint64_t {
        return first + ((uint32_t)i == l->rank ? input->local + a->in : from(i));
    };
    auto sink = [&](uint64_t at, uint64_t part, const struct braid_vec16 &v) {
        BRAID_NO_UNROLL
        for (uint32_t hop = 1; a->results && hop < (RANKS == 2 ? 2 : l->ranks); hop++)
            op_put(braid_window_base(result, (int)pull_peer(l, hop)) + a->result + first + at, part,
                   a->aligned, v);
        op_put(a->out + first + at, part, a->aligned, v);
    };

    braid_reduce_group<NUMBER, RANKS>(source, (int)l->ranks, bytes, a->scale, (int)a->aligned, sink,
                                      thread, threads);
}

template <int NUMBER, int RANKS>
BRAID_FN void pull_reduce(const struct braid_devcomm *c, const struct braid_devwin *w,
                          const struct braid_devwin *input, const struct braid_devwin *result,
                          const struct braid_pull_args *a)
{
    const struct braid_ops_layout *l = &a->layout;
    struct op op = op_begin(c, l);
    int status = pull_begin(c, w, l, &op, a->tag);
    uint32_t count = 0;

    braid_ptx_allow_next_kernel();
    if (braid_ptx_thread() == 0)
        count = op_count_thread(c, l);
    if (status == 0)
        pull_sum<NUMBER, RANKS>(
            input, result, a, [&](int i) { return braid_window_base(input, i) + a->in; }, 0,
            a->bytes, braid_ptx_block() * braid_ptx_threads() + braid_ptx_thread(),
            braid_ptx_blocks() * braid_ptx_threads());
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0) {
        if (status == 0)
            pull_leave_thread(c, w, l, &op);
        op_end_thread(c, l, &op, count);
    }
}

#endif
