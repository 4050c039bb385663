/*
 * How the device headers are compiled: function qualifiers, compile-time choices, and which instruction layer is below them.
 * nvcc and NVRTC take device/ptx/; a host compiler (CPU tests of the protocols) names its own layer in BRAID_PTX_LAYER.
 * Every other device header includes this one first. Nothing here has state.
 *
 * Choices a user may define before the first include:
 *   BRAID_DEVICE_CHECKS        1 = range-check slots, tiles and offsets; a bad one is recorded as BRAID_DEV_INVALID. Default 0.
 *   BRAID_ONLY_INLINE_PEERS    1 = never more than BRAID_INLINE_PEERS ranks; saves a branch at each peer look-up. Default 0.
 *   BRAID_COPY_UNROLL          16-byte accesses that a thread keeps in flight in put and get: 1, 2, 4 or 8. Default 4.
 */
#ifndef BRAID_DEVICE_CONFIG_CUH
#define BRAID_DEVICE_CONFIG_CUH

#include "../wire/devcomm_v1.h"

#ifndef BRAID_DEVICE_CHECKS
#define BRAID_DEVICE_CHECKS 0
#endif
#ifndef BRAID_ONLY_INLINE_PEERS
#define BRAID_ONLY_INLINE_PEERS 0
#endif
#ifndef BRAID_COPY_UNROLL
#define BRAID_COPY_UNROLL 4
#endif

/* Which way a branch goes; keeps cold paths out of the way of hot ones. */
#define BRAID_LIKELY(x)   __builtin_expect(!!(x), 1)
#define BRAID_UNLIKELY(x) __builtin_expect(!!(x), 0)

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define BRAID_FN           static __device__ __forceinline__
#define BRAID_WARP_THREADS 32u
#define BRAID_NO_UNROLL    _Pragma("unroll 1")
#define BRAID_UNROLL       _Pragma("unroll")
#include "ptx/access.cuh"
#include "ptx/order.cuh"
#include "ptx/thread.cuh"
#elif defined(BRAID_PTX_LAYER)
#include BRAID_PTX_LAYER
#else
#error "braid/device headers need nvcc or NVRTC (or BRAID_PTX_LAYER, see tests/unit/device)"
#endif

#endif
