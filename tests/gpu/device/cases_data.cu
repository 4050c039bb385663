/* put, get, put_value, put_signal at every scope, size and alignment, and packets; each against a host-known pattern with guards. */
#include "tests/gpu/device/harness.h"

enum { THREAD, WARP, CTA };

template <int SCOPE> __device__ __forceinline__ uint32_t member(void)
{
    return SCOPE == THREAD ? 0 : threadIdx.x;
}

template <int SCOPE> __device__ __forceinline__ uint32_t members(void)
{
    return SCOPE == THREAD ? 1 : blockDim.x;
}

template <int SCOPE> __device__ __forceinline__ void sync(void)
{
    if (SCOPE == WARP)
        __syncwarp();
    if (SCOPE == CTA)
        __syncthreads();
}

template <int SCOPE>
__device__ __forceinline__ void put_signal(const struct braid_devcomm *c,
                                           const struct braid_devwin *w, int peer, uint64_t offset,
                                           const void *src, uint64_t bytes, uint32_t signal)
{
    if (SCOPE == THREAD)
        braid_put_signal_thread(c, w, peer, offset, src, bytes, signal, BRAID_SIGNAL_ADD, 1);
    else if (SCOPE == WARP)
        braid_put_signal_warp(c, w, peer, offset, src, bytes, signal, BRAID_SIGNAL_ADD, 1);
    else
        braid_put_signal_cta(c, w, peer, offset, src, bytes, signal, BRAID_SIGNAL_ADD, 1);
}

template <int SCOPE>
__device__ __forceinline__ void get(const struct braid_devcomm *c, const struct braid_devwin *w,
                                    int peer, uint64_t offset, void *dst, uint64_t bytes)
{
    if (SCOPE == THREAD)
        braid_get_thread(c, w, peer, offset, dst, bytes);
    else if (SCOPE == WARP)
        braid_get_warp(c, w, peer, offset, dst, bytes);
    else
        braid_get_cta(c, w, peer, offset, dst, bytes);
}

template <int SCOPE>
__device__ __forceinline__ void signal(const struct braid_devcomm *c, int peer, uint32_t signal,
                                       uint64_t value)
{
    if (SCOPE == THREAD)
        braid_signal_thread(c, peer, signal, BRAID_SIGNAL_ADD, value);
    else if (SCOPE == WARP)
        braid_signal_warp(c, peer, signal, BRAID_SIGNAL_ADD, value);
    else
        braid_signal_cta(c, peer, signal, BRAID_SIGNAL_ADD, value);
}

template <int SCOPE>
__device__ __forceinline__ int take(const struct braid_devcomm *c, uint32_t signal, uint64_t count)
{
    if (SCOPE == THREAD)
        return braid_take_signal_thread(c, signal, count);
    if (SCOPE == WARP)
        return braid_take_signal_warp(c, signal, count);
    return braid_take_signal_cta(c, signal, count);
}

__device__ const uint32_t sizes[] = {
    0,   1,   2,   3,   4,   5,    7,    8,    12,   15,   16,    17,    31,      33,     64,
    100, 127, 128, 129, 255, 1000, 1024, 4095, 4096, 4097, 65536, 65537, 1048573, 1048576};
__device__ const uint32_t places[] = {0, 1, 2, 4, 8, 12, 16, 35};
#define SIZES  29u
#define PLACES 8u

/* Round -> size and alignments; every size meets every pair of alignments over three launches. */
__device__ __forceinline__ void choose(uint32_t round, uint32_t most, uint32_t *bytes, uint32_t *at,
                                       uint32_t *from)
{
    *bytes = sizes[round % SIZES];
    if (*bytes > most)
        *bytes = most - round % 5;
    *at = 64 + places[round / SIZES % PLACES];
    *from = places[(round / SIZES + round) % PLACES];
}

/* Data to the right neighbour, its room back to the left one. After reading, the receiver poisons the place again. */
template <int SCOPE>
__global__ void ring(const __grid_constant__ struct braid_devcomm c,
                     const __grid_constant__ struct braid_devwin w, uint8_t *src, uint32_t rounds,
                     uint32_t most, struct verdict *v)
{
    int n = c.world.ranks, me = c.world.rank, right = (me + 1) % n, left = (me + n - 1) % n;
    uint8_t *in = (uint8_t *)braid_window_local(&w, 0);
    uint32_t m = member<SCOPE>(), ms = members<SCOPE>();

    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t bytes, at, from;

        choose(round, most, &bytes, &at, &from);
        for (uint32_t i = m; i < bytes; i += ms)
            src[from + i] = pattern((uint32_t)me, round, i);
        if (m == 0)
            skew((uint32_t)me, round);
        if (round > 0)
            SEE(v, round, 0, 0, take<SCOPE>(&c, 1, 1));
        sync<SCOPE>();
        put_signal<SCOPE>(&c, &w, right, at, src + from, bytes, 0);
        SEE(v, round, 1, 0, take<SCOPE>(&c, 0, 1));
        for (uint32_t i = m; i < bytes; i += ms) {
            SEE(v, round, i, pattern((uint32_t)left, round, i), in[at + i]);
            in[at + i] = POISON;
        }
        for (uint32_t i = m; i < 32; i += ms) {
            SEE(v, round, i, POISON, in[at - 32 + i]);
            SEE(v, round, i, POISON, in[at + bytes + i]);
        }
        signal<SCOPE>(&c, left, 1, 1);
    }
    if (rounds > 0)
        SEE(v, rounds, 0, 0, take<SCOPE>(&c, 1, 1));
}

static void put_signal_case(struct rank *r)
{
    poison(r);
    if (r->option[0] == 's') { /* small */
        ring<THREAD><<<1, 1, 0, r->stream>>>(*r->c, *r->w, r->src, 20, 40, r->verdict);
        ring<WARP><<<1, 32, 0, r->stream>>>(*r->c, *r->w, r->src, SIZES, 300, r->verdict);
        ring<CTA><<<1, 64, 0, r->stream>>>(*r->c, *r->w, r->src, SIZES * 2, 2000, r->verdict);
        settle(r, 40, 1);
        return;
    }
    for (int launch = 0; launch < 2; launch++) {
        ring<THREAD><<<1, 1, 0, r->stream>>>(*r->c, *r->w, r->src, SIZES * PLACES, 300, r->verdict);
        settle(r, 20, 1);
        ring<WARP>
            <<<1, 32, 0, r->stream>>>(*r->c, *r->w, r->src, SIZES * PLACES, 65537, r->verdict);
        settle(r, 20, 1);
        ring<CTA>
            <<<1, 256, 0, r->stream>>>(*r->c, *r->w, r->src, SIZES * PLACES, 2000000, r->verdict);
        settle(r, 20, 1);
        ring<CTA><<<1, 96, 0, r->stream>>>(*r->c, *r->w, r->src, SIZES * 3, 70000, r->verdict);
        settle(r, 20, 1);
    }
    CUDA(r, cudaGetLastError());
}

/* The neighbour's data is read, not sent. */
template <int SCOPE>
__global__ void read_ring(const __grid_constant__ struct braid_devcomm c,
                          const __grid_constant__ struct braid_devwin w, uint8_t *dst,
                          uint32_t rounds, uint32_t most, struct verdict *v)
{
    int n = c.world.ranks, me = c.world.rank, right = (me + 1) % n, left = (me + n - 1) % n;
    uint8_t *mine = (uint8_t *)braid_window_local(&w, 0);
    uint32_t m = member<SCOPE>(), ms = members<SCOPE>();

    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t bytes, at, to;

        choose(round, most, &bytes, &at, &to);
        to += 64;
        if (round > 0)
            SEE(v, round, 0, 0, take<SCOPE>(&c, 3, 1)); /* the reader has read the last one */
        for (uint32_t i = m; i < bytes; i += ms)
            mine[at + i] = pattern((uint32_t)me, round, i);
        if (m == 0)
            skew((uint32_t)me, round);
        signal<SCOPE>(&c, right, 2, 1);
        SEE(v, round, 1, 0, take<SCOPE>(&c, 2, 1));
        get<SCOPE>(&c, &w, left, at, dst + to, bytes);
        sync<SCOPE>();
        signal<SCOPE>(&c, left, 3, 1);
        for (uint32_t i = m; i < bytes; i += ms) {
            SEE(v, round, i, pattern((uint32_t)left, round, i), dst[to + i]);
            dst[to + i] = POISON;
        }
        for (uint32_t i = m; i < 32; i += ms) {
            SEE(v, round, i, POISON, dst[to - 32 + i]);
            SEE(v, round, i, POISON, dst[to + bytes + i]);
        }
        sync<SCOPE>();
    }
    if (rounds > 0)
        SEE(v, rounds, 0, 0, take<SCOPE>(&c, 3, 1));
}

static void get_case(struct rank *r)
{
    poison(r);
    read_ring<THREAD>
        <<<1, 1, 0, r->stream>>>(*r->c, *r->w, r->dst, SIZES * PLACES, 300, r->verdict);
    settle(r, 20, 1);
    read_ring<WARP>
        <<<1, 32, 0, r->stream>>>(*r->c, *r->w, r->dst, SIZES * PLACES, 65537, r->verdict);
    settle(r, 20, 1);
    read_ring<CTA>
        <<<1, 256, 0, r->stream>>>(*r->c, *r->w, r->dst, SIZES * PLACES, 2000000, r->verdict);
    settle(r, 20, 1);
    CUDA(r, cudaGetLastError());
}

/* Values of every width, words of windows, set and add, flush with a word of one's own, 64-bit signals across their wrap. */
__global__ void values(const __grid_constant__ struct braid_devcomm c,
                       const __grid_constant__ struct braid_devwin w, uint32_t rounds,
                       struct verdict *v)
{
    int peer = c.world.rank ^ 1;
    const volatile uint8_t *in = (const volatile uint8_t *)braid_window_local(&w, 0);

    braid_signal_thread(&c, peer, 12, BRAID_SIGNAL_SET, ~0ull - 20);
    SEE(v, 0, 0, 0, braid_barrier_thread(&c, 40));
    for (uint32_t round = 1; round <= rounds; round++) {
        uint64_t x = mix(round) * 0x100000001ull ^ 0x1122334455667788ull;
        uint64_t at = 4096 + round % 2 * 256;

        skew((uint32_t)c.world.rank, round);
        braid_put_value_thread(&c, &w, peer, at, x, 8);
        braid_put_value_thread(&c, &w, peer, at + 8, x, 4);
        braid_put_value_thread(&c, &w, peer, at + 12, x, 2);
        braid_put_value_thread(&c, &w, peer, at + 14, x, 1);
        braid_put_value_signal_thread(&c, &w, peer, at + 15, x + 1, 1, 10, BRAID_SIGNAL_SET, round);
        SEE(v, round, 0, 0, braid_wait_signal_thread(&c, 10, round));
        SEE(v, round, 1, x, *(const volatile uint64_t *)(in + at));
        SEE(v, round, 2, (uint32_t)x, *(const volatile uint32_t *)(in + at + 8));
        SEE(v, round, 3, (uint16_t)x, *(const volatile uint16_t *)(in + at + 12));
        SEE(v, round, 4, (uint8_t)x, in[at + 14]);
        SEE(v, round, 5, (uint8_t)(x + 1), in[at + 15]);
        SEE(v, round, 6, POISON, in[at + 16]);
        braid_signal_word_thread(&c, &w, peer, 8192, BRAID_SIGNAL_ADD, 3);
        SEE(v, round, 7, 0, braid_wait_word_thread(&c, &w, 8192, 3ull * round));
        braid_signal_word32_thread(&c, &w, peer, 8200, BRAID_SIGNAL_ADD, 5);
        SEE(v, round, 8, 0, braid_wait_word32_thread(&c, &w, 8200, 5 * round));
        braid_signal_thread(&c, peer, 12, BRAID_SIGNAL_ADD, 1); /* passes 2^64 in round 21 */
        SEE(v, round, 9, 0, braid_wait_signal_thread(&c, 12, ~0ull - 20 + round));
        SEE(v, round, 10, 0,
            braid_reached_u64(braid_read_signal_thread(&c, 12), ~0ull - 20 + round + 2));
        braid_put_value_thread(&c, &w, peer, 12288, round, 8);
        braid_flush_thread(&c);
        braid_ptx_store_relaxed_sys_u32(braid_window_pointer(&w, peer, 12296), round);
        SEE(v, round, 11, 0, braid_wait_word32_thread(&c, &w, 12296, round));
        SEE(v, round, 12, round, *(const volatile uint64_t *)(in + 12288));
        SEE(v, round, 13, 0, braid_barrier_thread(&c, 40));
    }
}

static void values_case(struct rank *r)
{
    poison(r);
    CUDA(r, cudaMemsetAsync(braid_window_address(r->window, r->rank), 0, 16, r->stream));
    CUDA(r, cudaMemsetAsync((char *)braid_window_address(r->window, r->rank) + 8192, 0, 4352,
                            r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    values<<<1, 1, 0, r->stream>>>(*r->c, *r->w, 500, r->verdict);
    settle(r, 20, 1);
    CUDA(r, cudaGetLastError());
}

/* All to all in packets: every rank sends to all (itself too) and hears from all; two buffers in turn, epochs across the wrap. */
__global__ void packets(const __grid_constant__ struct braid_devcomm c,
                        const __grid_constant__ struct braid_devwin w, uint8_t *src, uint8_t *dst,
                        uint32_t rounds, int warp, struct verdict *v)
{
    uint32_t n = (uint32_t)c.world.ranks, me = (uint32_t)c.world.rank;

    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t epoch = braid_epoch_begin(&c, 20), flag = braid_packet_flag(epoch);
        uint32_t bytes = round % 16 == 15 ? 16384 : 1 + (mix(epoch) & 1023), shift = epoch % 9;
        uint64_t half = (uint64_t)braid_epoch_parity(epoch) << 20;

        for (uint32_t i = threadIdx.x; i < bytes; i += blockDim.x)
            src[shift + i] = pattern(me, epoch, i);
        if (threadIdx.x == 0)
            skew(me, epoch);
        __syncthreads();
        for (uint32_t p = 0; p < n; p++) {
            if (!warp)
                braid_put_packets_cta(&c, &w, (int)p, half + me * 65536, src + shift, bytes, flag);
            else if (threadIdx.x < 32)
                braid_put_packets_warp(&c, &w, (int)p, half + me * 65536, src + shift, bytes, flag);
        }
        for (uint32_t p = 0; p < n; p++) {
            int status = 0;

            if (!warp)
                status = braid_get_packets_cta(&c, &w, (int)p, half + p * 65536, dst + shift, bytes,
                                               flag);
            else if (threadIdx.x < 32)
                status = braid_get_packets_warp(&c, &w, (int)p, half + p * 65536, dst + shift,
                                                bytes, flag);
            SEE(v, epoch, p, 0, status);
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < bytes; i += blockDim.x) {
                SEE(v, epoch, i, pattern(p, epoch, i), dst[shift + i]);
                dst[shift + i] = POISON;
            }
            if (threadIdx.x == 0)
                SEE(v, epoch, bytes, POISON, dst[shift + bytes]);
            __syncthreads();
        }
        braid_epoch_end_cta(&c, 20);
        __syncthreads(); /* the next begin of this kernel reads what the end has stored */
    }
}

static void packets_case(struct rank *r)
{
    poison(r);
    if (r->option[0] == 's') {
        packets<<<1, 64, 0, r->stream>>>(*r->c, *r->w, r->src, r->dst, 17, 0, r->verdict);
        settle(r, 40, 1);
        return;
    }
    packets<<<1, 256, 0, r->stream>>>(*r->c, *r->w, r->src, r->dst, 400, 0, r->verdict);
    settle(r, 20, 1);
    packets<<<1, 64, 0, r->stream>>>(*r->c, *r->w, r->src, r->dst, 200, 1, r->verdict);
    settle(r, 20, 1);
    CUDA(r, cudaGetLastError());
}

const struct test_case data_cases[] = {
    {"put_signal", put_signal_case, 2, 30, 5000, 1, "", 0},
    {"put_signal/3_ranks", put_signal_case, 3, 30, 5000, 1, "", 0},
    {"put_signal/threads", put_signal_case, 2, 30, 5000, 1, "", CASE_THREADS},
    {"put_signal/self", put_signal_case, 1, 30, 5000, 1, "", 0},
    {"get", get_case, 2, 30, 5000, 1, "", 0},
    {"values", values_case, 2, 30, 5000, 1, "", 0},
    {"put_signal/small", put_signal_case, 1, 30, 20000, 1, "small", CASE_SMALL},
    {"put_signal/small_threads", put_signal_case, 2, 30, 5000, 1, "small",
     CASE_SMALL | CASE_THREADS},
    {"packets/small", packets_case, 1, 30, 20000, 1, "small", CASE_SMALL},
    {"packets/small_threads", packets_case, 2, 30, 5000, 1, "small", CASE_SMALL | CASE_THREADS},
    {"packets", packets_case, 2, 30, 5000, 0xffffff00u, "", 0},
    {"packets/3_ranks", packets_case, 3, 30, 5000, 0x7fffff00u, "", 0},
    {NULL, NULL, 0, 0, 0, 0, NULL, 0},
};
