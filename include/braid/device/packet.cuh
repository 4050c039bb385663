/*
 * LL packets: small data whose arrival needs no flag of its own, because every 8 bytes carry 4 bytes of data and a 4-byte flag.
 * The fastest way to move a few KiB: one crossing, no fence. Twice the bytes on the wire.
 *
 * A packet is 16 bytes, 16-byte aligned, and carries 8 bytes of data. Each half is written and read whole (the PTX memory model
 * promises it for 8-byte elements), so a reader needs no acquire: data and flag are one word.
 * The flag is braid_packet_flag(epoch): never 0, different for any two epochs less than 2^31 apart. Stale packets of a slot must
 * not carry the flag that is waited for, so every epoch that uses a packet buffer uses another flag, and
 * Reuse: a packet may be overwritten only when its reader has read it. Two buffers used in turn (braid_epoch_parity) are enough
 *        when in every epoch each rank hears from every rank that reads its packets; otherwise use credits (signal.cuh).
 * What a packet carries is visible to the thread that reads the packet. Other data of its sender is not: packets release nothing.
 */
#ifndef BRAID_DEVICE_PACKET_CUH
#define BRAID_DEVICE_PACKET_CUH

#include "window.cuh"

/* Writes one packet at `packet` (usually braid_window_pointer of a peer). One thread. */
BRAID_FN void braid_packet_store_thread(void *packet, uint64_t data, uint32_t flag)
{
    braid_ptx_store_packet(packet, braid_packet_pack(data, flag));
}

/* Nonzero when the packet has arrived, then *data is set. Does not wait. One thread. */
BRAID_FN int braid_packet_try_thread(const void *packet, uint32_t flag, uint64_t *data)
{
    struct braid_vec16 v = braid_ptx_load_packet(packet);

    *data = braid_packet_data(v);
    return braid_packet_arrived(v, flag);
}

/*
 * Waits for the packet with `flag` and sets *data. Returns a status (wait.cuh); after a failure *data is garbage. `peer` (-1: any)
 * and `index` only say in the error record what was waited for; it shows the flags expected and seen.
 */
BRAID_FN int braid_packet_load_thread(const struct braid_devcomm *c, const void *packet,
                                      uint32_t flag, uint64_t *data, int peer, uint32_t index)
{
    uint64_t start_ns = 0;
    struct braid_vec16 v;
    int polls, status;

    for (;;) {
        polls = 0;
        BRAID_NO_UNROLL
        do {
            v = braid_ptx_load_packet(packet);
            polls++;
        } while (!braid_packet_arrived(v, flag) && polls < BRAID_WAIT_POLLS);
        *data = braid_packet_data(v);
        if (BRAID_LIKELY(braid_packet_arrived(v, flag)))
            return BRAID_DEV_OK;
        status = braid_wait_check_thread(c, &start_ns);
        if (BRAID_UNLIKELY(status != 0))
            return braid_fail_thread(c, status, BRAID_WAIT_PACKET, peer, index, flag,
                                     (uint32_t)(v.lo >> 32) == flag ? v.hi >> 32 : v.lo >> 32,
                                     braid_ptx_now_ns() - start_ns);
    }
}

/* 8 bytes at `src`, or as many as there are before `end`, from any alignment. */
BRAID_FN uint64_t braid_packet_gather(uint64_t src, uint64_t end)
{
    uint64_t data = 0;

    if ((src & 7) == 0 && src + 8 <= end)
        return braid_ptx_load8((const void *)src);
    for (uint32_t i = 0; i < 8 && src + i < end; i++)
        data |= (uint64_t)braid_ptx_load1((const void *)(src + i)) << (8 * i);
    return data;
}

BRAID_FN void braid_packet_scatter(uint64_t dst, uint64_t end, uint64_t data)
{
    if ((dst & 7) == 0 && dst + 8 <= end) {
        braid_ptx_store8((void *)dst, data);
        return;
    }
    for (uint32_t i = 0; i < 8 && dst + i < end; i++)
        braid_ptx_store1((void *)(dst + i), (uint8_t)(data >> (8 * i)));
}

/*
 * Sends `bytes` from `src` (any alignment) as braid_packets(bytes) packets to byte `offset` (16-byte aligned) of the peer's window.
 * Group form: thread `thread` of `threads`. No barrier inside; the source may be overwritten after the group's next barrier.
 */
BRAID_FN void braid_put_packets_group(const struct braid_devcomm *c, const struct braid_devwin *w,
                                      int peer, uint64_t offset, const void *src, uint64_t bytes,
                                      uint32_t flag, uint32_t thread, uint32_t threads)
{
    uint64_t packet = (uint64_t)braid_window_pointer(w, peer, offset) + 16ull * thread;
    uint64_t end = (uint64_t)src + bytes;

    (void)c;
    BRAID_NO_UNROLL
    for (uint64_t s = (uint64_t)src + 8ull * thread; s < end; s += 8ull * threads) {
        braid_packet_store_thread((void *)packet, braid_packet_gather(s, end), flag);
        packet += 16ull * threads;
    }
}

BRAID_FN void braid_put_packets_warp(const struct braid_devcomm *c, const struct braid_devwin *w,
                                     int peer, uint64_t offset, const void *src, uint64_t bytes,
                                     uint32_t flag)
{
    braid_put_packets_group(c, w, peer, offset, src, bytes, flag, braid_ptx_lane(),
                            BRAID_WARP_THREADS);
}

BRAID_FN void braid_put_packets_cta(const struct braid_devcomm *c, const struct braid_devwin *w,
                                    int peer, uint64_t offset, const void *src, uint64_t bytes,
                                    uint32_t flag)
{
    braid_put_packets_group(c, w, peer, offset, src, bytes, flag, braid_ptx_thread(),
                            braid_ptx_threads());
}

/*
 * Receives what `peer` sent with braid_put_packets to byte `offset` of this rank's window: waits for each packet and writes `bytes`
 * of data to `dst` (any alignment). Every thread polls its own packets. Returns a status; _group: this thread's own; _warp and _cta:
 * all threads 0 or all a failure, and they end with the group's barrier, after which every thread sees all of `dst`.
 */
BRAID_FN int braid_get_packets_group(const struct braid_devcomm *c, const struct braid_devwin *w,
                                     int peer, uint64_t offset, void *dst, uint64_t bytes,
                                     uint32_t flag, uint32_t thread, uint32_t threads)
{
    uint64_t packet = (uint64_t)braid_window_local(w, offset) + 16ull * thread;
    uint64_t end = (uint64_t)dst + bytes;
    uint32_t index = thread;
    int status = 0;

    BRAID_NO_UNROLL
    for (uint64_t d = (uint64_t)dst + 8ull * thread; d < end && status == 0; d += 8ull * threads) {
        uint64_t data;

        status = braid_packet_load_thread(c, (const void *)packet, flag, &data, peer, index);
        if (status == 0)
            braid_packet_scatter(d, end, data);
        packet += 16ull * threads;
        index += threads;
    }
    return status;
}

BRAID_FN int braid_get_packets_warp(const struct braid_devcomm *c, const struct braid_devwin *w,
                                    int peer, uint64_t offset, void *dst, uint64_t bytes,
                                    uint32_t flag)
{
    return braid_share_status_warp(c,
                                   braid_get_packets_group(c, w, peer, offset, dst, bytes, flag,
                                                           braid_ptx_lane(), BRAID_WARP_THREADS));
}

BRAID_FN int braid_get_packets_cta(const struct braid_devcomm *c, const struct braid_devwin *w,
                                   int peer, uint64_t offset, void *dst, uint64_t bytes,
                                   uint32_t flag)
{
    return braid_share_status_cta(c,
                                  braid_get_packets_group(c, w, peer, offset, dst, bytes, flag,
                                                          braid_ptx_thread(), braid_ptx_threads()));
}

#endif
