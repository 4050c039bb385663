/*
 * The building blocks of the device library that are templates or are included by name (reduce.cuh, ll.cuh, rmsnorm.cuh, bulk.cuh), used
 * once each, for nvrtc_test.c: nothing compiles a template that nobody calls. sm_90 and newer.
 */
#include <braid/device/bulk.cuh>
#include <braid/device.cuh>

#define ROW_THREADS 256

/* all-reduce of one row by LL packets from a peer, residual and RMSNorm; then the row by bulk copy to two places. */
template <int NUMBER>
static __device__ void row(const struct braid_devcomm &c, const struct braid_devwin &w, uint64_t x,
                           uint64_t residual, uint64_t weight, uint64_t y, uint32_t bytes)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ float sums[32];
    uint32_t flag = braid_packet_flag(braid_epoch_begin(&c, 0)), thread = threadIdx.x;
    int peer = c.world.rank ^ 1;
    float h[braid_number<NUMBER>::lanes];
    struct braid_vec16 packed;

    for (uint64_t tile = threadIdx.x / 32; tile < braid_ll_tiles(bytes); tile += blockDim.x / 32) {
        struct braid_ll_spot s = braid_ll_find(bytes, tile, braid_ptx_lane());
        struct braid_ll_vectors v = braid_ll_load<true>(x, &s);

        braid_ll_send_warp((uint64_t)braid_window_pointer(&w, peer, 0), &s, v, flag);
        braid_ll_receive_warp(&c, (uint64_t)braid_window_local(&w, 0), &s, flag, (uint32_t)peer,
                              &v);
        for (int j = 0; j < 3; j++)
            braid_ll_store<false>(y, &s, j, v.v[j]);
    }
    __syncthreads();
    braid_reduce_group<NUMBER, 2>([&](int i) { return i == 0 ? x : y; }, 2, bytes, 1.0f, 1,
                                  [&](uint64_t at, uint64_t part, const struct braid_vec16 &v) {
                                      braid_store_part(y + at, part, v);
                                  },
                                  thread, blockDim.x);
    __syncthreads();
    braid_unpack16<NUMBER>(braid_load_part(y + 16ull * thread, 16), h);
    packed = braid_add_residual16<NUMBER>(h, braid_load_part(residual + 16ull * thread, 16));
    braid_store_part(residual + 16ull * thread, 16, packed);
    packed =
        braid_norm16<NUMBER>(h,
                             braid_rms_scale(braid_sum_cta(braid_square_sum16<NUMBER>(h), sums),
                                             bytes / braid_number<NUMBER>::bytes, 1e-6f),
                             braid_load_part(weight + 16ull * thread, 16));
    braid_store_part(y + 16ull * thread, 16, packed);
    __syncthreads();
    if (thread == 0) {
        uint64_t to[2] = {(uint64_t)braid_window_pointer(&w, peer, 1 << 20),
                          (uint64_t)braid_window_local(&w, 1 << 20)};
        struct braid_bulk ring = braid_bulk_open_thread(shared);

        braid_ptx_fence_proxy_async_global();
        braid_bulk_copy_thread(&ring, to, 2, y, bytes);
        braid_bulk_drain();
    }
    braid_epoch_end_cta(&c, 0);
}

#define KERNEL(name, number)                                                                       \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS)                                      \
        name(const __grid_constant__ struct braid_devcomm c,                                       \
             const __grid_constant__ struct braid_devwin w, uint64_t x, uint64_t residual,         \
             uint64_t weight, uint64_t y, uint32_t bytes)                                          \
    {                                                                                              \
        row<number>(c, w, x, residual, weight, y, bytes);                                          \
    }

KERNEL(row_f32, BRAID_F32)
KERNEL(row_f16, BRAID_F16)
KERNEL(row_bf16, BRAID_BF16)
