/*
 * Reduce-scatter and all-reduce without staging, pushers and chunk flags: every CTA reads its part of this rank's block from all ranks'
 * inputs, and for an all-reduce stores the sums into every result. An operation begins when all ranks have begun, and ends when all have
 * finished: then nobody reads this rank's input or writes its result any more.
 * The input is in a window, at the same place on every rank (the tags tell). In place is right: nobody but this rank reads or writes its block
 * of any buffer, and each 16 bytes of it are read before they are written, by one thread. Ranks may run different grids.
 * A rank that has not heard from all peers leaves their memory alone.
 */
#ifndef BRAID_DEVICE_OPS_PULL_CUH
#define BRAID_DEVICE_OPS_PULL_CUH

#include <braid/device/reduce.cuh>

#include "common.cuh"

BRAID_FN uint32_t pull_peer(const struct braid_ops_layout *l, uint32_t hop)
{
    return l->rank + hop < l->ranks ? l->rank + hop : l->rank + hop - l->ranks;
}

/* This rank has begun, and have all others, with the same tag? All threads of the CTA; a status. */
BRAID_FN int pull_begin(const struct braid_devcomm *c, const struct braid_devwin *w,
                        const struct braid_ops_layout *l, const struct op *op, uint32_t tag)
{
    auto same = [&](uint32_t) { return tag; };
    int status = 0;

    if (braid_ptx_thread() < 32) {
        if (braid_ptx_block() == 0)
            op_tell_warp(w, l, op, same);
        status = op_hear_warp(c, w, l, op, same);
    }
    return braid_ptx_sync_cta_any(status);
}

/* This CTA has finished; the last one of the grid does `before`, tells the peers and waits for them. One thread, after the CTA's barrier. */
template <class Before>
BRAID_FN void pull_leave_thread(const struct braid_devcomm *c, const struct braid_devwin *w,
                                const struct braid_ops_layout *l, const struct op *op,
                                Before before)
{
    uint32_t last = braid_ptx_blocks() - 1;
    uint32_t *finished = op_flag(w, l, op, 0, l->rank, l->rank, 0); /* no other use of it */

    braid_ptx_fence_sys();
    if (last != 0 && braid_ptx_count_gpu_u32(finished, last) != last)
        return;
    before();
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
    auto put = [&](uint64_t to, uint64_t part, const struct braid_vec16 &v) {
        if (a->aligned && part == 16)
            braid_ptx_store16((void *)to, v);
        else
            braid_store_part(to, part, v);
    };
    auto sink = [&](uint64_t at, uint64_t part, const struct braid_vec16 &v) {
        BRAID_NO_UNROLL
        for (uint32_t hop = 1; a->results && hop < (RANKS == 2 ? 2 : l->ranks); hop++)
            put(braid_window_base(result, (int)pull_peer(l, hop)) + a->result + first + at, part,
                v);
        put(a->out + first + at, part, v);
    };

    braid_reduce_group<NUMBER, RANKS>(source, (int)l->ranks, bytes, a->scale, (int)a->aligned, sink,
                                      thread, threads);
}

/* The word of part `k` that comes from `source` by copy engine. */
BRAID_FN uint32_t *beside_word(const struct braid_devwin *w, const struct braid_beside_args *b,
                               uint32_t source, uint32_t k)
{
    return (uint32_t *)(w->local + b->words + (uint64_t)b->stride * source) + k;
}

/* All parts have been seen by all CTAs. One thread. */
BRAID_FN void beside_clear(const struct braid_devwin *w, const struct braid_ops_layout *l,
                           const struct braid_beside_args *b)
{
    for (uint32_t source = 0; source < l->ranks; source++)
        for (uint32_t k = 0; source != l->rank && k < b->parts; k++)
            braid_ptx_store_relaxed_sys_u32(beside_word(w, b, source, k), 0);
}

/* Some CTAs pull the first bytes of the block, the others sum what copy engines bring into staging. All threads. */
template <int NUMBER, int RANKS>
BRAID_FN void pull_beside(const struct braid_devcomm *c, const struct braid_devwin *w,
                          const struct braid_devwin *input, const struct braid_devwin *result,
                          const struct braid_pull_args *a, const struct op *op)
{
    const struct braid_ops_layout *l = &a->layout;
    const struct braid_beside_args *b = &a->beside;
    uint32_t blocks = braid_ptx_blocks(), threads = braid_ptx_threads(), t = braid_ptx_thread();
    uint32_t share = blocks * BRAID_PULL_ENGINE_CTAS / 16, others = share != 0 ? share : 1;
    uint32_t pulling = blocks - others, block = braid_ptx_block();
    uint64_t cut = a->bytes - b->bytes, part = b->bytes / b->parts;

    if (block < pulling || pulling == 0)
        pull_sum<NUMBER, RANKS>(
            input, result, a, [&](int i) { return braid_window_base(input, i) + a->in; }, 0, cut,
            block * threads + t, (pulling != 0 ? pulling : blocks) * threads);
    if (block < pulling)
        return;
    BRAID_NO_UNROLL
    for (uint32_t k = 0; k < b->parts; k++) {
        if (t < l->ranks && t != l->rank)
            op_wait_thread(c, beside_word(w, b, t, k), 1, BRAID_WAIT_CHUNK, t, k);
        braid_ptx_sync_cta();
        pull_sum<NUMBER, RANKS>(
            input, result, a,
            [&](int i) {
                return w->local + b->staging + op_slot(l, (uint32_t)i, l->rank) * l->staging_slot -
                       cut;
            },
            cut + k * part, part, (block - pulling) * threads + t, others * threads);
    }
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
    if (status == 0 && BRAID_PULL_ENGINE != 0 && a->beside.parts != 0)
        pull_beside<NUMBER, RANKS>(c, w, input, result, a, &op);
    else if (status == 0)
        pull_sum<NUMBER, RANKS>(
            input, result, a, [&](int i) { return braid_window_base(input, i) + a->in; }, 0,
            a->bytes, braid_ptx_block() * braid_ptx_threads() + braid_ptx_thread(),
            braid_ptx_blocks() * braid_ptx_threads());
    braid_ptx_sync_cta();
    if (braid_ptx_thread() == 0) {
        pull_leave_thread(c, w, l, &op, [&]() {
            if (BRAID_PULL_ENGINE != 0)
                beside_clear(w, l, &a->beside);
        });
        op_end_thread(c, l, &op, count);
    }
}

#if BRAID_ENGINE_SMS
/*
 * All-gather and all-to-all: lets this rank's copy engines go when all peers have begun, pushes the last part of each block into the peers'
 * results, and ends when all of them, and the peers' copy engines, have finished. Bounded waits, so the copy engines need no watchdog: they
 * may go in any case.
 */
BRAID_KERNEL __launch_bounds__(1024, 1)
    braid_beside_copy(const __grid_constant__ struct braid_devcomm c,
                      const __grid_constant__ struct braid_devwin w,
                      const __grid_constant__ struct braid_devwin result,
                      const __grid_constant__ struct braid_beside_copy_args a)
{
    const struct braid_ops_layout *l = &a.layout;
    struct op op = op_begin(&c, l);
    int status = pull_begin(&c, &w, l, &op, a.tag);
    uint32_t thread = braid_ptx_block() * braid_ptx_threads() + braid_ptx_thread();
    uint32_t threads = braid_ptx_blocks() * braid_ptx_threads(), count = 0;

    if (thread == 0)
        braid_ptx_store_release_sys_u32((void *)(w.local + a.beside.go), 1);
    if (braid_ptx_thread() == 0)
        count = op_count_thread(&c, l);
    BRAID_NO_UNROLL
    for (uint32_t hop = 1; status == 0 && hop < l->ranks; hop++) {
        uint32_t peer = pull_peer(l, hop);

        braid_copy_group((void *)(braid_window_base(&result, (int)peer) + a.to + a.first),
                         (const void *)(a.from + a.stride * peer + a.first), a.bytes - a.first,
                         thread, threads);
    }
    if (a.own != 0)
        braid_copy_group((void *)a.own, (const void *)(a.from + a.stride * l->rank), a.bytes,
                         thread, threads);
    braid_ptx_sync_cta();
    if (braid_ptx_thread() != 0)
        return;
    pull_leave_thread(&c, &w, l, &op, [&]() {
        for (uint32_t hop = 1; status == 0 && hop < l->ranks; hop++) {
            uint32_t peer = pull_peer(l, hop);

            op_wait_thread(&c, beside_word(&w, &a.beside, peer, 0), 1, BRAID_WAIT_ENGINE, peer, 0);
        }
        beside_clear(&w, l, &a.beside);
    });
    op_end_thread(&c, l, &op, count);
}
#endif

#endif
