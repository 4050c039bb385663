/*
 * What all collectives' kernels share: the operation's epoch, addresses in the operations window, and the wait of a whole warp for
 * flags of several peers. Included by the kernels of device/ops only.
 *
 * What all of them keep: a rank whose status is 0 after an operation has the whole and right result. So a rank that has failed, in this
 * operation or before it, never again tells a peer anything, and writes nothing into memory that a peer may be reading: the peer's
 * own waits then end with a status. What a rank said before it failed is right and stays valid.
 *   packets    sent before anything is waited for, hence always right; a kernel that begins after a failure sends none
 *   exchange   the CTA's roles share a word `failed`: set before what depends on a failed wait is passed on, read before a flag or
 *              a store to a peer
 *   pull       a CTA that has failed does not count itself as finished, so its grid never says that it is
 *   engine     what says that a copy is there is itself a copy of the sticky error word (engine.c)
 */
#ifndef BRAID_DEVICE_OPS_COMMON_CUH
#define BRAID_DEVICE_OPS_COMMON_CUH

#include <braid/device.cuh>
#include <braid/device/ptx/local.cuh>

#include "../args.h"

#define BRAID_KERNEL extern "C" __global__ void

/* The operation in progress. */
struct op {
    uint32_t epoch;
    uint32_t flag;   /* of all its packets and chunks */
    uint32_t parity; /* of the areas it uses */
};

/* A sum, or a part of one (less than 16 bytes at an end), to where it is wanted. */
BRAID_FN void op_put(uint64_t to, uint64_t part, uint32_t aligned, const struct braid_vec16 &v)
{
    if (aligned && part == 16)
        braid_ptx_store16((void *)to, v);
    else
        braid_store_part(to, part, v);
}

/* Begins an operation: any thread, all of the CTA. Nothing of the kernel may touch memory that earlier kernels use before this. */
BRAID_FN struct op op_begin(const struct braid_devcomm *c, const struct braid_ops_layout *l)
{
    struct op op;

    braid_ptx_wait_previous_kernel();
    op.epoch = braid_epoch_begin(c, l->epoch_slot);
    op.flag = braid_packet_flag(op.epoch);
    op.parity = braid_epoch_parity(op.epoch);
    return op;
}

/* The operation's two-step end (epoch.cuh): one thread a CTA, the first after a barrier that follows every op_begin. */
BRAID_FN uint32_t op_count_thread(const struct braid_devcomm *c, const struct braid_ops_layout *l)
{
    return braid_epoch_count_thread(c, l->epoch_slot);
}

BRAID_FN void op_end_thread(const struct braid_devcomm *c, const struct braid_ops_layout *l,
                            const struct op *op, uint32_t count)
{
    braid_epoch_advance_thread(c, l->epoch_slot, op->epoch, count);
}

/* The slot of what goes from rank `source` to rank `dest`. */
BRAID_FN uint32_t op_slot(const struct braid_ops_layout *l, uint32_t source, uint32_t dest)
{
    uint32_t apart = source + l->ranks - dest - 1;

    return apart < l->ranks ? apart : apart - l->ranks;
}

BRAID_FN uint64_t op_packets(const struct braid_devwin *w, const struct braid_ops_layout *l,
                             const struct op *op, uint32_t source, uint32_t dest)
{
    uint32_t slot = op->parity * (l->ranks - 1) + op_slot(l, source, dest);

    return braid_window_base(w, (int)dest) + l->packets + slot * l->packet_slot;
}

BRAID_FN uint64_t op_staging(const struct braid_devwin *w, const struct braid_ops_layout *l,
                             const struct op *op, uint32_t source, uint32_t dest)
{
    uint32_t slot = op->parity * (l->ranks - 1) + op_slot(l, source, dest);

    return braid_window_base(w, (int)dest) + l->staging + slot * l->staging_slot;
}

/* Flag of chunk `chunk` of what `source` sends to `dest`; kind 0 = data, 1 = result. */
BRAID_FN uint32_t *op_flag(const struct braid_devwin *w, const struct braid_ops_layout *l,
                           const struct op *op, uint32_t kind, uint32_t source, uint32_t dest,
                           uint32_t chunk)
{
    uint32_t row = (op->parity * 2 + kind) * l->ranks + source;

    return (uint32_t *)(braid_window_base(w, (int)dest) + l->flags) + row * BRAID_OPS_CHUNKS +
           chunk;
}

/* The ready word of `source` on `dest`: {tag, flag}. */
BRAID_FN uint64_t *op_ready(const struct braid_devwin *w, const struct braid_ops_layout *l,
                            const struct op *op, uint32_t source, uint32_t dest)
{
    return (uint64_t *)(braid_window_base(w, (int)dest) + l->ready) + op->parity * l->ranks +
           source;
}

/* Tells every peer that this rank has begun, and how large the operation is here: tag(peer). One warp of the grid. After a failure nobody. */
template <class Tag>
BRAID_FN void op_tell_warp(const struct braid_devcomm *c, const struct braid_devwin *w,
                           const struct braid_ops_layout *l, const struct op *op, Tag tag)
{
    int failed = braid_failed_thread(c);

    BRAID_NO_UNROLL
    for (uint32_t peer = braid_ptx_lane(); peer < l->ranks && failed == 0; peer += 32) {
        if (peer != l->rank)
            braid_ptx_store_release_sys_u64(op_ready(w, l, op, l->rank, peer),
                                            (uint64_t)op->flag << 32 | tag(peer));
    }
}

/* Waits until *word is `flag`. One thread. */
BRAID_FN int op_wait_thread(const struct braid_devcomm *c, const uint32_t *word, uint32_t flag,
                            uint32_t wait, uint32_t peer, uint32_t index)
{
    uint64_t start_ns = 0;
    uint32_t seen = 0;
    int status;

    do {
        BRAID_NO_UNROLL
        for (int poll = 0; poll < BRAID_LL_POLLS; poll++) {
            seen = braid_ptx_load_acquire_sys_u32(word);
            if (seen == flag)
                return BRAID_DEV_OK;
        }
        status = braid_wait_check_thread(c, &start_ns);
    } while (status == 0);
    return braid_fail_thread(c, status, wait, (int)peer, index, flag, seen,
                             braid_ptx_now_ns() - start_ns);
}

/*
 * A warp waits for one flag a lane: until every lane with `word` != NULL has seen `flag` there. All 32 lanes; no divergence. Ends with
 * the warp's barrier, after which every lane sees what any lane acquired. On failure the lanes that miss their flag record it.
 */
BRAID_FN int op_wait_warp(const struct braid_devcomm *c, const uint32_t *word, uint32_t flag,
                          uint32_t wait, uint32_t peer, uint32_t index)
{
    uint64_t start_ns = 0;
    uint32_t seen = flag;
    int status;

    do {
        BRAID_NO_UNROLL
        for (int poll = 0; poll < BRAID_LL_POLLS; poll++) {
            if (word != nullptr)
                seen = braid_ptx_load_acquire_sys_u32(word);
            if (braid_ptx_all_in_warp(seen == flag)) {
                braid_ptx_sync_warp();
                return BRAID_DEV_OK;
            }
        }
        status = braid_wait_check_warp(c, &start_ns);
    } while (status == 0);
    if (seen != flag)
        braid_fail_thread(c, status, wait, (int)peer, index, flag, seen,
                          braid_ptx_now_ns() - start_ns);
    braid_ptx_sync_warp();
    return status;
}

/* Hears that every peer has begun, with the size that is expected of it: tag(peer). One warp, all lanes. Nonzero in a lane that has failed. */
template <class Tag>
BRAID_FN int op_hear_warp(const struct braid_devcomm *c, const struct braid_devwin *w,
                          const struct braid_ops_layout *l, const struct op *op, Tag tag)
{
    int failed = 0;

    BRAID_NO_UNROLL
    for (uint32_t first = 0; first < l->ranks; first += 32) {
        uint32_t peer = first + braid_ptx_lane();
        const uint32_t *word = nullptr;
        int status;

        if (peer < l->ranks && peer != l->rank)
            word = (const uint32_t *)op_ready(w, l, op, peer, l->rank);
        status = op_wait_warp(c, word != nullptr ? word + 1 : nullptr, op->flag, BRAID_WAIT_BEGIN,
                              peer, 0);
        if (status == 0 && word != nullptr) {
            uint32_t seen = braid_ptx_load_acquire_sys_u32(word);

            if (seen != tag(peer))
                status = braid_fail_thread(c, BRAID_DEV_INVALID, BRAID_WAIT_BEGIN, (int)peer, 0,
                                           tag(peer), seen, 0);
        }
        failed |= status;
        braid_ptx_sync_warp();
    }
    return failed;
}

#endif
