/*
 * Sixteen bytes of numbers as float32 and back: what reductions compute with. NUMBER is one of BRAID_F32, BRAID_F16, BRAID_BF16,
 * BRAID_F8E4M3, BRAID_F8E5M2 (wire/number_v1.h). Widening is exact; narrowing rounds to nearest, ties to even, and saturates
 * for the 8-bit formats only. Also accesses to the odd ends of arrays. Registers only, no synchronisation, any thread.
 */
#ifndef BRAID_DEVICE_NUMBER_CUH
#define BRAID_DEVICE_NUMBER_CUH

#include "../wire/number_v1.h"
#include "config.cuh"
#include "ptx/convert.cuh"

/* Numbers in 16 bytes. */
template <int NUMBER> struct braid_number {
    static constexpr int bytes = NUMBER == BRAID_F32 ? 4 : NUMBER <= BRAID_BF16 ? 2 : 1;
    static constexpr int lanes = 16 / bytes;
};

/* Word `w` of the four in `v`; a constant. */
BRAID_FN uint32_t braid_word16(const struct braid_vec16 &v, int w)
{
    uint64_t half = w < 2 ? v.lo : v.hi;

    return (w & 1) != 0 ? (uint32_t)(half >> 32) : (uint32_t)half;
}

BRAID_FN struct braid_vec16 braid_words16(const uint32_t *w)
{
    struct braid_vec16 v;

    v.lo = (uint64_t)w[1] << 32 | w[0];
    v.hi = (uint64_t)w[3] << 32 | w[2];
    return v;
}

/* The numbers of `v` to out[0 .. lanes). */
template <int NUMBER> BRAID_FN void braid_unpack16(const struct braid_vec16 &v, float *out)
{
    BRAID_UNROLL
    for (int i = 0; i < 4; i++) {
        uint32_t w = braid_word16(v, i);

        if constexpr (NUMBER == BRAID_F32) {
            out[i] = braid_ptx_float(w);
        } else if constexpr (NUMBER == BRAID_BF16) {
            out[2 * i] = braid_ptx_float(w << 16);
            out[2 * i + 1] = braid_ptx_float(w & 0xffff0000u);
        } else if constexpr (NUMBER == BRAID_F16) {
            out[2 * i] = braid_ptx_unpack_f16(w & 0xffffu);
            out[2 * i + 1] = braid_ptx_unpack_f16(w >> 16);
        } else {
            uint32_t low = NUMBER == BRAID_F8E4M3 ? braid_ptx_unpack_e4m3x2(w & 0xffffu)
                                                  : braid_ptx_unpack_e5m2x2(w & 0xffffu);
            uint32_t high = NUMBER == BRAID_F8E4M3 ? braid_ptx_unpack_e4m3x2(w >> 16)
                                                   : braid_ptx_unpack_e5m2x2(w >> 16);

            out[4 * i] = braid_ptx_unpack_f16(low & 0xffffu);
            out[4 * i + 1] = braid_ptx_unpack_f16(low >> 16);
            out[4 * i + 2] = braid_ptx_unpack_f16(high & 0xffffu);
            out[4 * i + 3] = braid_ptx_unpack_f16(high >> 16);
        }
    }
}

/* in[0 .. lanes) rounded to NUMBER. */
template <int NUMBER> BRAID_FN struct braid_vec16 braid_pack16(const float *in)
{
    uint32_t w[4];

    BRAID_UNROLL
    for (int i = 0; i < 4; i++) {
        if constexpr (NUMBER == BRAID_F32)
            w[i] = braid_ptx_bits(in[i]);
        else if constexpr (NUMBER == BRAID_BF16)
            w[i] = braid_ptx_pack_bf16x2(in[2 * i], in[2 * i + 1]);
        else if constexpr (NUMBER == BRAID_F16)
            w[i] = braid_ptx_pack_f16x2(in[2 * i], in[2 * i + 1]);
        else if constexpr (NUMBER == BRAID_F8E4M3)
            w[i] = braid_ptx_pack_e4m3x2(in[4 * i], in[4 * i + 1]) |
                   braid_ptx_pack_e4m3x2(in[4 * i + 2], in[4 * i + 3]) << 16;
        else
            w[i] = braid_ptx_pack_e5m2x2(in[4 * i], in[4 * i + 1]) |
                   braid_ptx_pack_e5m2x2(in[4 * i + 2], in[4 * i + 3]) << 16;
    }
    return braid_words16(w);
}

/* sum[i] += the numbers of `v`. */
template <int NUMBER> BRAID_FN void braid_add16(float *sum, const struct braid_vec16 &v)
{
    float x[braid_number<NUMBER>::lanes];

    braid_unpack16<NUMBER>(v, x);
    BRAID_UNROLL
    for (int i = 0; i < braid_number<NUMBER>::lanes; i++)
        sum[i] += x[i];
}

/* The next `bytes` (at most 16) bytes from any address; the rest of the result is 0. Reads nothing else. */
BRAID_FN struct braid_vec16 braid_load_part(uint64_t p, uint64_t bytes)
{
    uint32_t unit = (p & 3) == 0 ? 4 : (p & 1) == 0 ? 2 : 1;
    uint32_t end = bytes < 16 ? (uint32_t)bytes : 16;
    struct braid_vec16 v = {0, 0};
    uint32_t i = 0;

    if (end == 16 && (p & 15) == 0)
        return braid_ptx_load16((const void *)p);
    BRAID_NO_UNROLL
    while (i < end) {
        uint64_t x;

        if (i + unit > end)
            unit = 1;
        x = unit == 4   ? braid_ptx_load4((const void *)(p + i))
            : unit == 2 ? braid_ptx_load2((const void *)(p + i))
                        : braid_ptx_load1((const void *)(p + i));
        if (i < 8)
            v.lo |= x << (8 * i);
        else
            v.hi |= x << (8 * (i - 8));
        i += unit;
    }
    return v;
}

/* The first `bytes` (at most 16) bytes of `v` to any address. Writes nothing else. */
BRAID_FN void braid_store_part(uint64_t p, uint64_t bytes, const struct braid_vec16 &v)
{
    uint32_t unit = (p & 3) == 0 ? 4 : (p & 1) == 0 ? 2 : 1;
    uint32_t end = bytes < 16 ? (uint32_t)bytes : 16;
    uint32_t i = 0;

    if (end == 16 && (p & 15) == 0) {
        braid_ptx_store16((void *)p, v);
        return;
    }
    BRAID_NO_UNROLL
    while (i < end) {
        uint64_t x = i < 8 ? v.lo >> (8 * i) : v.hi >> (8 * (i - 8));

        if (i + unit > end)
            unit = 1;
        if (unit == 4)
            braid_ptx_store4((void *)(p + i), (uint32_t)x);
        else if (unit == 2)
            braid_ptx_store2((void *)(p + i), (uint16_t)x);
        else
            braid_ptx_store1((void *)(p + i), (uint8_t)x);
        i += unit;
    }
}

#endif
