/*
 * Number formats to and from float32 as PTX. To a narrower format: round to nearest, ties to even; the 8-bit formats saturate at
 * their largest finite value, the 16-bit ones overflow to infinity. 8-bit formats need sm_89 or newer.
 */
#ifndef BRAID_DEVICE_PTX_CONVERT_CUH
#define BRAID_DEVICE_PTX_CONVERT_CUH

#include "../config.cuh"

BRAID_FN float braid_ptx_float(uint32_t bits)
{
    return __uint_as_float(bits);
}

BRAID_FN uint32_t braid_ptx_bits(float v)
{
    return __float_as_uint(v);
}

/* Two bf16, the first in the low half. */
BRAID_FN uint32_t braid_ptx_pack_bf16x2(float first, float second)
{
    uint32_t v;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(second), "f"(first));
    return v;
}

BRAID_FN uint32_t braid_ptx_pack_f16x2(float first, float second)
{
    uint32_t v;

    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(second), "f"(first));
    return v;
}

BRAID_FN float braid_ptx_unpack_f16(uint32_t low)
{
    float v;

    asm("{\n .reg .b16 h;\n cvt.u16.u32 h, %1;\n cvt.f32.f16 %0, h;\n}" : "=f"(v) : "r"(low));
    return v;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
/* Two 8-bit floats of a 16-bit word as two f16. */
BRAID_FN uint32_t braid_ptx_unpack_e4m3x2(uint32_t low)
{
    uint32_t v;

    asm("{\n .reg .b16 h;\n cvt.u16.u32 h, %1;\n cvt.rn.f16x2.e4m3x2 %0, h;\n}"
        : "=r"(v)
        : "r"(low));
    return v;
}

BRAID_FN uint32_t braid_ptx_unpack_e5m2x2(uint32_t low)
{
    uint32_t v;

    asm("{\n .reg .b16 h;\n cvt.u16.u32 h, %1;\n cvt.rn.f16x2.e5m2x2 %0, h;\n}"
        : "=r"(v)
        : "r"(low));
    return v;
}

BRAID_FN uint32_t braid_ptx_pack_e4m3x2(float first, float second)
{
    uint32_t v;

    asm("{\n .reg .b16 h;\n cvt.rn.satfinite.e4m3x2.f32 h, %1, %2;\n cvt.u32.u16 %0, h;\n}"
        : "=r"(v)
        : "f"(second), "f"(first));
    return v;
}

BRAID_FN uint32_t braid_ptx_pack_e5m2x2(float first, float second)
{
    uint32_t v;

    asm("{\n .reg .b16 h;\n cvt.rn.satfinite.e5m2x2.f32 h, %1, %2;\n cvt.u32.u16 %0, h;\n}"
        : "=r"(v)
        : "f"(second), "f"(first));
    return v;
}
#else
BRAID_FN uint32_t braid_ptx_unpack_e4m3x2(uint32_t)
{
    asm volatile("trap;");
    return 0;
}
BRAID_FN uint32_t braid_ptx_unpack_e5m2x2(uint32_t)
{
    asm volatile("trap;");
    return 0;
}
BRAID_FN uint32_t braid_ptx_pack_e4m3x2(float, float)
{
    asm volatile("trap;");
    return 0;
}
BRAID_FN uint32_t braid_ptx_pack_e5m2x2(float, float)
{
    asm volatile("trap;");
    return 0;
}
#endif

BRAID_FN float braid_ptx_rsqrt(float v)
{
    return rsqrtf(v);
}

/* Lane i's value plus, minus ... : the value of the lane whose number differs in the bits of `mask`. */
BRAID_FN float braid_ptx_exchange_lanes(float v, uint32_t mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}

#endif
