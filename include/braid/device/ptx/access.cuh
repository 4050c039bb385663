/*
 * Memory accesses as PTX, one function an instruction. All addresses are generic addresses of global memory (this GPU's, a peer's
 * or pinned host memory); generic and global addresses are the same number there, so `.global` is named and saves the look-up.
 * Names: braid_ptx_<what>_<order>_<scope>_<type>; plain (weak) accesses of 1 to 16 bytes are braid_ptx_load<n>/store<n>.
 * Nothing uses ld.global.nc: windows change while a kernel runs. All carry a "memory" clobber, so the compiler moves no other
 * access across them.
 */
#ifndef BRAID_DEVICE_PTX_ACCESS_CUH
#define BRAID_DEVICE_PTX_ACCESS_CUH

#include "../config.cuh"

/* 16 bytes in two registers pairs. */
struct braid_vec16 {
    uint64_t lo, hi;
};

#define BRAID_PTX_LOAD(name, inst, type, constraint)                                               \
    BRAID_FN type name(const void *p)                                                              \
    {                                                                                              \
        type v;                                                                                    \
        asm volatile(inst " %0, [%1];" : "=" constraint(v) : "l"(p) : "memory");                   \
        return v;                                                                                  \
    }
#define BRAID_PTX_STORE(name, inst, type, constraint)                                              \
    BRAID_FN void name(void *p, type v)                                                            \
    {                                                                                              \
        asm volatile(inst " [%0], %1;" ::"l"(p), constraint(v) : "memory");                        \
    }

/* Flags: words that two GPUs, or a GPU and the host, exchange. */
BRAID_PTX_LOAD(braid_ptx_load_acquire_sys_u32, "ld.acquire.sys.global.u32", uint32_t, "r")
BRAID_PTX_LOAD(braid_ptx_load_acquire_sys_u64, "ld.acquire.sys.global.u64", uint64_t, "l")
BRAID_PTX_LOAD(braid_ptx_load_relaxed_sys_u32, "ld.relaxed.sys.global.u32", uint32_t, "r")
BRAID_PTX_LOAD(braid_ptx_load_relaxed_sys_u64, "ld.relaxed.sys.global.u64", uint64_t, "l")
BRAID_PTX_LOAD(braid_ptx_load_relaxed_gpu_u32, "ld.relaxed.gpu.global.u32", uint32_t, "r")
BRAID_PTX_LOAD(braid_ptx_load_relaxed_gpu_u64, "ld.relaxed.gpu.global.u64", uint64_t, "l")
BRAID_PTX_STORE(braid_ptx_store_release_sys_u32, "st.release.sys.global.u32", uint32_t, "r")
BRAID_PTX_STORE(braid_ptx_store_release_sys_u64, "st.release.sys.global.u64", uint64_t, "l")
BRAID_PTX_STORE(braid_ptx_store_relaxed_sys_u32, "st.relaxed.sys.global.u32", uint32_t, "r")
BRAID_PTX_STORE(braid_ptx_store_relaxed_sys_u64, "st.relaxed.sys.global.u64", uint64_t, "l")
BRAID_PTX_STORE(braid_ptx_store_release_gpu_u32, "st.release.gpu.global.u32", uint32_t, "r")
BRAID_PTX_STORE(braid_ptx_store_relaxed_gpu_u32, "st.relaxed.gpu.global.u32", uint32_t, "r")
BRAID_PTX_STORE(braid_ptx_store_relaxed_gpu_u64, "st.relaxed.gpu.global.u64", uint64_t, "l")

/* Data: weak accesses, ordered only by the flags around them. */
BRAID_PTX_LOAD(braid_ptx_load8, "ld.global.L1::no_allocate.u64", uint64_t, "l")
BRAID_PTX_LOAD(braid_ptx_load4, "ld.global.L1::no_allocate.u32", uint32_t, "r")
BRAID_PTX_LOAD(braid_ptx_load2, "ld.global.L1::no_allocate.u16", uint16_t, "h")
BRAID_PTX_STORE(braid_ptx_store8, "st.global.u64", uint64_t, "l")
BRAID_PTX_STORE(braid_ptx_store4, "st.global.u32", uint32_t, "r")
BRAID_PTX_STORE(braid_ptx_store2, "st.global.u16", uint16_t, "h")

BRAID_FN uint8_t braid_ptx_load1(const void *p)
{
    uint32_t v;

    asm volatile("ld.global.L1::no_allocate.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return (uint8_t)v;
}

BRAID_FN void braid_ptx_store1(void *p, uint8_t v)
{
    asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"((uint32_t)v) : "memory");
}

BRAID_FN struct braid_vec16 braid_ptx_load16(const void *p)
{
    struct braid_vec16 v;

    asm volatile("ld.global.L1::no_allocate.v2.u64 {%0, %1}, [%2];"
                 : "=l"(v.lo), "=l"(v.hi)
                 : "l"(p)
                 : "memory");
    return v;
}

BRAID_FN void braid_ptx_store16(void *p, struct braid_vec16 v)
{
    asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.lo), "l"(v.hi) : "memory");
}

/* Packets: two 8-byte elements, each of which is read and written whole; the pair is not. */
BRAID_FN struct braid_vec16 braid_ptx_load_packet(const void *p)
{
    struct braid_vec16 v;

    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(v.lo), "=l"(v.hi)
                 : "l"(p)
                 : "memory");
    return v;
}

BRAID_FN void braid_ptx_store_packet(void *p, struct braid_vec16 v)
{
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(p), "l"(v.lo), "l"(v.hi)
                 : "memory");
}

/* Atomic updates. The result of red is not returned, so nobody waits for it. */
BRAID_FN void braid_ptx_add_release_sys_u32(void *p, uint32_t v)
{
    asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

BRAID_FN void braid_ptx_add_release_sys_u64(void *p, uint64_t v)
{
    asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

BRAID_FN uint32_t braid_ptx_fetch_add_acq_rel_gpu_u32(void *p, uint32_t v)
{
    uint32_t old;

    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(p), "r"(v)
                 : "memory");
    return old;
}

/* Stores `v` if the word is `expected`; returns what it was. */
BRAID_FN uint32_t braid_ptx_cas_gpu_u32(void *p, uint32_t expected, uint32_t v)
{
    uint32_t old;

    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(p), "r"(expected), "r"(v)
                 : "memory");
    return old;
}

#undef BRAID_PTX_LOAD
#undef BRAID_PTX_STORE

#endif
