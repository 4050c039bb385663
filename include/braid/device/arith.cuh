/*
 * Arithmetic of epochs, flags and packets: pure functions, the part of the protocols that unit tests check on the CPU.
 *
 * Counters wrap. Two values are compared by their signed difference, which is right while they are less than half the range apart
 * (2^31 operations of one slot, 2^63 units of one signal).
 */
#ifndef BRAID_DEVICE_ARITH_CUH
#define BRAID_DEVICE_ARITH_CUH

#include "config.cuh"

/* Has a 32-bit counter that reads `seen` reached `expected`? */
BRAID_FN int braid_reached_u32(uint32_t seen, uint32_t expected)
{
    return (int32_t)(seen - expected) >= 0;
}

/* Has a 64-bit counter that reads `seen` reached `expected`? */
BRAID_FN int braid_reached_u64(uint64_t seen, uint64_t expected)
{
    return (int64_t)(seen - expected) >= 0;
}

/* The flag that packets of `epoch` carry: never 0, so that zeroed memory is never taken for data; differs between any two epochs
 * less than 2^31 apart. */
BRAID_FN uint32_t braid_packet_flag(uint32_t epoch)
{
    return epoch | 0x80000000u;
}

/* Which of two buffers an operation uses. */
BRAID_FN uint32_t braid_epoch_parity(uint32_t epoch)
{
    return epoch & 1u;
}

/* A packet carries 8 bytes of data in 16: each 8-byte half is {4 bytes of data, flag}. */
#define BRAID_PACKET_BYTES 16u
#define BRAID_PACKET_DATA  8u

BRAID_FN struct braid_vec16 braid_packet_pack(uint64_t data, uint32_t flag)
{
    struct braid_vec16 v;

    v.lo = (uint64_t)flag << 32 | (data & 0xffffffffu);
    v.hi = (uint64_t)flag << 32 | data >> 32;
    return v;
}

/* Have both halves arrived? */
BRAID_FN int braid_packet_arrived(struct braid_vec16 v, uint32_t flag)
{
    return (uint32_t)(v.lo >> 32) == flag && (uint32_t)(v.hi >> 32) == flag;
}

BRAID_FN uint64_t braid_packet_data(struct braid_vec16 v)
{
    return (v.lo & 0xffffffffu) | v.hi << 32;
}

/* Packets that carry `bytes` of data, the last one partly filled. */
BRAID_FN uint64_t braid_packets(uint64_t bytes)
{
    return (bytes + BRAID_PACKET_DATA - 1) / BRAID_PACKET_DATA;
}

/* The value that a tile's word has reached when the tile is ready in `generation` (from 1), after `arrivals` in each one. */
BRAID_FN uint32_t braid_tile_target(uint32_t generation, uint32_t arrivals)
{
    return generation * arrivals;
}

#endif
