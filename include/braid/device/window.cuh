/*
 * Addresses: windows, peers and teams.
 *
 * A window is the same number of bytes on every rank. braid_window_pointer gives the address at which this GPU reaches a peer's
 * part; loads and stores to it travel over NVLink, PCIe, or stay on the GPU when two ranks share one. Ordinary C++ accesses
 * through these pointers are allowed, with two rules:
 *   - never through `const T *__restrict__` or __ldg: the compiler may then use the non-coherent cache (ld.global.nc);
 *   - what a peer writes is visible only after a wait of this library (or your own acquire at system scope).
 */
#ifndef BRAID_DEVICE_WINDOW_CUH
#define BRAID_DEVICE_WINDOW_CUH

#include "wait.cuh"

/* Base address of `peer`'s part of the window, a world rank; 0 if it is not reached by memory. */
BRAID_FN uint64_t braid_window_base(const struct braid_devwin *w, int peer)
{
#if !BRAID_ONLY_INLINE_PEERS
    if ((uint32_t)peer >= BRAID_INLINE_PEERS)
        return braid_ptx_load_relaxed_gpu_u64((const uint64_t *)w->table + peer);
#endif
    return w->base[peer];
}

/* Pointer to byte `offset` of `peer`'s part of the window. Undefined when braid_reachable(c, w, peer) is false. */
BRAID_FN void *braid_window_pointer(const struct braid_devwin *w, int peer, uint64_t offset)
{
    return (void *)(braid_window_base(w, peer) + offset);
}

/* Pointer to byte `offset` of this rank's part. */
BRAID_FN void *braid_window_local(const struct braid_devwin *w, uint64_t offset)
{
    return (void *)(w->local + offset);
}

/* Is `peer`'s part reached by loads and stores? */
BRAID_FN int braid_reachable(const struct braid_devwin *w, int peer)
{
    return braid_window_base(w, peer) != 0;
}

/* World rank of member `i` of a team (c->world or c->local). */
BRAID_FN int braid_team_peer(const struct braid_devteam *team, int i)
{
    return team->first + i * team->stride;
}

#endif
