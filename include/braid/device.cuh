/*
 * Braid's device library: include this in a kernel's source. Header only; nvcc and NVRTC (C++17), sm_80 and newer, tuned on sm_90a.
 * The host side (communicators and windows) is <braid/comm.h>.
 *
 *   __global__ void ping(const __grid_constant__ struct braid_devcomm c,
 *                        const __grid_constant__ struct braid_devwin w, const float *src)
 *   {
 *       int peer = c.world.rank ^ 1;
 *       braid_put_signal_cta(&c, &w, peer, 0, src, 4096, 0, BRAID_SIGNAL_ADD, 1); // data, then signal 0 of the peer
 *       if (braid_take_signal_cta(&c, 0, 1) != BRAID_DEV_OK)                      // its data is here, or the bound has passed
 *           return;                                                               // the host finds the reason
 *       const float *in = (const float *)braid_window_local(&w, 0);
 *       ...
 *   }
 *
 * Read in this order: window.cuh (addresses), put.cuh (data), signal.cuh (words that announce it), wait.cuh (what a wait promises),
 * tile.cuh (tiles), barrier.cuh, epoch.cuh (what makes graphs work), packet.cuh (a few KiB at the lowest latency).
 * Functions end in the group that calls them: _thread, _warp (32 converged lanes), _cta (all threads of a one-dimensional block).
 * Pass communicators and windows by value as `const __grid_constant__` parameters, and their addresses to the functions.
 * Kernels that wait for peers need all ranks' kernels on the GPUs together: see braid_comm_check_launch.
 */
#ifndef BRAID_DEVICE_CUH
#define BRAID_DEVICE_CUH

#include "device/arith.cuh"
#include "device/barrier.cuh"
#include "device/copy.cuh"
#include "device/epoch.cuh"
#include "device/packet.cuh"
#include "device/put.cuh"
#include "device/signal.cuh"
#include "device/tile.cuh"
#include "device/wait.cuh"
#include "device/window.cuh"
/* templates; bulk.cuh (TMA) is included by those who want it */
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#include "device/ll.cuh"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "device/rmsnorm.cuh"
#endif

#endif
