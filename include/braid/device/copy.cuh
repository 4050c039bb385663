/*
 * Copying by a group of threads, any length and alignment: what put and get are made of, usable alone for any set of threads
 * (a few warps of a warp-specialised kernel, say). No synchronisation and no ordering inside; pair it with a barrier of the group
 * and a release by one thread (braid_signal_thread, braid_tile_ready_thread).
 * 16-byte accesses when source and destination are aligned alike modulo 16, 4-byte ones when alike modulo 4, bytes otherwise.
 */
#ifndef BRAID_DEVICE_COPY_CUH
#define BRAID_DEVICE_COPY_CUH

#include "config.cuh"

/* Thread `thread` of `threads`; `count` elements of 16 bytes; both addresses 16-byte aligned. */
BRAID_FN void braid_copy16(uint64_t dst, uint64_t src, uint64_t count, uint32_t thread,
                           uint32_t threads)
{
    uint64_t stride = 16ull * threads;
    uint64_t end = src + 16 * count;

    src += 16ull * thread;
    dst += 16ull * thread;
    BRAID_NO_UNROLL
    while (src + (BRAID_COPY_UNROLL - 1) * stride < end) {
        struct braid_vec16 v[BRAID_COPY_UNROLL];

        BRAID_UNROLL
        for (int k = 0; k < BRAID_COPY_UNROLL; k++)
            v[k] = braid_ptx_load16((const void *)(src + k * stride));
        BRAID_UNROLL
        for (int k = 0; k < BRAID_COPY_UNROLL; k++)
            braid_ptx_store16((void *)(dst + k * stride), v[k]);
        src += BRAID_COPY_UNROLL * stride;
        dst += BRAID_COPY_UNROLL * stride;
    }
    BRAID_NO_UNROLL
    for (; src < end; src += stride, dst += stride)
        braid_ptx_store16((void *)dst, braid_ptx_load16((const void *)src));
}

BRAID_FN void braid_copy4(uint64_t dst, uint64_t src, uint64_t count, uint32_t thread,
                          uint32_t threads)
{
    BRAID_NO_UNROLL
    for (uint64_t i = thread; i < count; i += threads)
        braid_ptx_store4((void *)(dst + 4 * i), braid_ptx_load4((const void *)(src + 4 * i)));
}

BRAID_FN void braid_copy1(uint64_t dst, uint64_t src, uint64_t count, uint32_t thread,
                          uint32_t threads)
{
    BRAID_NO_UNROLL
    for (uint64_t i = thread; i < count; i += threads)
        braid_ptx_store1((void *)(dst + i), braid_ptx_load1((const void *)(src + i)));
}

/*
 * Copies `bytes` from src to dst: this is thread `thread` of the `threads` that share the work; all pass the same addresses and
 * length. The ranges must not overlap.
 */
BRAID_FN void braid_copy_group(void *dst_p, const void *src_p, uint64_t bytes, uint32_t thread,
                               uint32_t threads)
{
    uint64_t dst = (uint64_t)dst_p;
    uint64_t src = (uint64_t)src_p;
    uint32_t apart = (uint32_t)(dst ^ src);
    uint64_t unit = (apart & 15u) == 0 ? 16 : (apart & 3u) == 0 ? 4 : 1;
    uint64_t head = (0 - dst) & (unit - 1); /* bytes before the first aligned unit */
    uint64_t body;

    if (head > bytes)
        head = bytes;
    if (head != 0)
        braid_copy1(dst, src, head, thread, threads);
    dst += head;
    src += head;
    bytes -= head;
    body = bytes & ~(unit - 1);
    if (unit == 16)
        braid_copy16(dst, src, body / 16, thread, threads);
    else if (unit == 4)
        braid_copy4(dst, src, body / 4, thread, threads);
    else
        braid_copy1(dst, src, body, thread, threads);
    if (body != bytes)
        braid_copy1(dst + body, src + body, bytes - body, thread, threads);
}

#endif
