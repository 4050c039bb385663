/*
 * Reduction of tiles: the sum of N tiles to one place or to several, in float32, rounded once.
 *
 * A tile is `bytes` of numbers; every source has it in its own memory (this GPU's, a peer's, a staging buffer that peers have
 * filled). The sum is taken in the order of the sources 0, 1, ..., so equal sources in equal order give equal bits on every rank.
 * Alignment: 16 bytes for full speed; with `aligned` = 0 any address that is a multiple of the number's size is right, only slower.
 * Before: what the sources hold has been acquired by the calling group (a wait and the group's barrier).
 * After:  each thread sees its own stores; others, here or on a peer, after the group's barrier and a release by one thread.
 * Source and destination may be the same memory (each 16 bytes are read before they are written, by one thread).
 * No synchronisation, no waiting inside. Any set of threads: this is thread `thread` of `threads`.
 */
#ifndef BRAID_DEVICE_REDUCE_CUH
#define BRAID_DEVICE_REDUCE_CUH

#include "number.cuh"
#include "ptx/local.cuh"

/* 16-byte vectors that a thread of braid_reduce_group has in flight from each source. */
#ifndef BRAID_REDUCE_UNROLL
#define BRAID_REDUCE_UNROLL 4
#endif
/* And sources that it loads at the same time when their number is not known at compile time. */
#define BRAID_REDUCE_BATCH 4

/* The sum of `sources` vectors at source(i) + offset, `bytes` of each (16 unless at the end). */
template <int NUMBER, int SOURCES, class Source>
BRAID_FN struct braid_vec16 braid_sum_at(Source source, int sources, uint64_t offset,
                                         uint64_t bytes, float scale)
{
    float sum[braid_number<NUMBER>::lanes];

    braid_unpack16<NUMBER>(braid_load_part(source(0) + offset, bytes), sum);
    BRAID_NO_UNROLL
    for (int i = 1; i < (SOURCES != 0 ? SOURCES : sources); i++)
        braid_add16<NUMBER>(sum, braid_load_part(source(i) + offset, bytes));
    BRAID_UNROLL
    for (int i = 0; i < braid_number<NUMBER>::lanes; i++)
        sum[i] *= scale;
    return braid_pack16<NUMBER>(sum);
}

/* UNROLL whole aligned vectors, `stride` bytes apart, summed and handed to sink(offset, 16, vector). */
template <int NUMBER, int SOURCES, int UNROLL, class Source, class Sink>
BRAID_FN void braid_sum_vectors(Source source, int sources, uint64_t offset, uint64_t stride,
                                float scale, Sink sink)
{
    constexpr int LANES = braid_number<NUMBER>::lanes;

    if constexpr (SOURCES == 2) {
        struct braid_vec16 a[UNROLL], b[UNROLL];
        uint64_t pa = source(0) + offset, pb = source(1) + offset;

        BRAID_UNROLL
        for (int k = 0; k < UNROLL; k++) {
            a[k] = braid_ptx_load16((const void *)(pa + k * stride));
            b[k] = braid_ptx_load16((const void *)(pb + k * stride));
        }
        BRAID_UNROLL
        for (int k = 0; k < UNROLL; k++) {
            float sum[LANES];

            braid_unpack16<NUMBER>(a[k], sum);
            braid_add16<NUMBER>(sum, b[k]);
            BRAID_UNROLL
            for (int i = 0; i < LANES; i++)
                sum[i] *= scale;
            sink(offset + k * stride, 16ull, braid_pack16<NUMBER>(sum));
        }
    } else {
        float sum[UNROLL][LANES] = {};

        BRAID_NO_UNROLL
        for (int s = 0; s < sources; s += BRAID_REDUCE_BATCH) {
            struct braid_vec16 a[BRAID_REDUCE_BATCH][UNROLL];

            BRAID_UNROLL
            for (int j = 0; j < BRAID_REDUCE_BATCH; j++) {
                uint64_t p = s + j < sources ? source(s + j) + offset : 0;

                BRAID_UNROLL
                for (int k = 0; k < UNROLL; k++) {
                    a[j][k].lo = 0; /* what is not there adds 0 */
                    a[j][k].hi = 0;
                    braid_ptx_load16_if(&a[j][k], (const void *)(p + k * stride), p != 0);
                }
            }
            BRAID_UNROLL
            for (int j = 0; j < BRAID_REDUCE_BATCH; j++) {
                BRAID_UNROLL
                for (int k = 0; k < UNROLL; k++)
                    braid_add16<NUMBER>(sum[k], a[j][k]);
            }
        }
        BRAID_UNROLL
        for (int k = 0; k < UNROLL; k++) {
            BRAID_UNROLL
            for (int i = 0; i < LANES; i++)
                sum[k][i] *= scale;
            sink(offset + k * stride, 16ull, braid_pack16<NUMBER>(sum[k]));
        }
    }
}

/*
 * N to one or to N: sums the tiles at source(0), source(1), ... (addresses), multiplies by `scale` (1 for the plain sum) and hands
 * each vector to sink(offset in the tile, bytes of it, vector), which stores it wherever it is wanted: one place, or every peer's
 * window. SOURCES is their number when it is known at compile time (2 is tuned), else 0 and `sources` counts.
 */
template <int NUMBER, int SOURCES, class Source, class Sink>
BRAID_FN void braid_reduce_group(Source source, int sources, uint64_t bytes, float scale,
                                 int aligned, Sink sink, uint32_t thread, uint32_t threads)
{
    constexpr int UNROLL = SOURCES == 2                      ? BRAID_REDUCE_UNROLL
                           : braid_number<NUMBER>::lanes > 8 ? 1
                                                             : 2;
    uint64_t stride = 16ull * threads;
    uint64_t whole = aligned ? bytes & ~15ull : 0;
    uint64_t offset = 16ull * thread;

    BRAID_NO_UNROLL
    for (; offset + (UNROLL - 1) * stride < whole; offset += UNROLL * stride)
        braid_sum_vectors<NUMBER, SOURCES, UNROLL>(source, sources, offset, stride, scale, sink);
    BRAID_NO_UNROLL
    for (; offset < whole; offset += stride)
        braid_sum_vectors<NUMBER, SOURCES, 1>(source, sources, offset, stride, scale, sink);
    BRAID_NO_UNROLL
    for (; offset < bytes; offset += stride) {
        uint64_t part = bytes - offset < 16 ? bytes - offset : 16;

        sink(offset, part, braid_sum_at<NUMBER, SOURCES>(source, sources, offset, part, scale));
    }
}

#endif
