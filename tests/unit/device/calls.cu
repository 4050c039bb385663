/*
 * One kernel a call of the device library, with arguments that the compiler cannot know: what tests/unit/device/calls measures
 * (registers and instructions) and what nvrtc_test.c compiles at run time. `empty` is the cost of a kernel that calls nothing.
 * Needs no include besides the library.
 */
#include <braid/device.cuh>

#define KERNEL(name, call)                                                                         \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        name(const __grid_constant__ struct braid_devcomm c,                                       \
             const __grid_constant__ struct braid_devwin w,                                        \
             const __grid_constant__ struct braid_tiles t, int p, uint32_t i, uint64_t x, void *m, \
             uint64_t n, int *out)                                                                 \
    {                                                                                              \
        call;                                                                                      \
    }

KERNEL(empty, *out = p)
KERNEL(window_pointer, *out = (int)(uint64_t)braid_window_pointer(&w, p, x))
KERNEL(put_value_thread, braid_put_value_thread(&c, &w, p, x, n, 8))
KERNEL(put_thread, braid_put_thread(&c, &w, p, x, m, n))
KERNEL(put_warp, braid_put_warp(&c, &w, p, x, m, n))
KERNEL(put_cta, braid_put_cta(&c, &w, p, x, m, n))
KERNEL(get_thread, braid_get_thread(&c, &w, p, x, m, n))
KERNEL(get_warp, braid_get_warp(&c, &w, p, x, m, n))
KERNEL(get_cta, braid_get_cta(&c, &w, p, x, m, n))
KERNEL(flush_thread, braid_flush_thread(&c))
KERNEL(flush_warp, braid_flush_warp(&c))
KERNEL(flush_cta, braid_flush_cta(&c))
KERNEL(signal_set_thread, braid_signal_thread(&c, p, i, BRAID_SIGNAL_SET, n))
KERNEL(signal_add_thread, braid_signal_thread(&c, p, i, BRAID_SIGNAL_ADD, n))
KERNEL(signal_warp, braid_signal_warp(&c, p, i, BRAID_SIGNAL_ADD, n))
KERNEL(signal_cta, braid_signal_cta(&c, p, i, BRAID_SIGNAL_ADD, n))
KERNEL(signal_word_thread, braid_signal_word_thread(&c, &w, p, x, BRAID_SIGNAL_ADD, n))
KERNEL(signal_word32_thread, braid_signal_word32_thread(&c, &w, p, x, BRAID_SIGNAL_SET, i))
KERNEL(put_signal_thread, braid_put_signal_thread(&c, &w, p, x, m, n, i, BRAID_SIGNAL_ADD, 1))
KERNEL(put_signal_warp, braid_put_signal_warp(&c, &w, p, x, m, n, i, BRAID_SIGNAL_ADD, 1))
KERNEL(put_value_signal_thread,
       braid_put_value_signal_thread(&c, &w, p, x, n, 8, i, BRAID_SIGNAL_SET, x))
KERNEL(put_signal_cta, braid_put_signal_cta(&c, &w, p, x, m, n, i, BRAID_SIGNAL_ADD, 1))
KERNEL(read_signal_thread, *out = (int)braid_read_signal_thread(&c, i))
KERNEL(wait_signal_thread, *out = braid_wait_signal_thread(&c, i, n))
KERNEL(wait_signal_warp, *out = braid_wait_signal_warp(&c, i, n))
KERNEL(wait_signal_cta, *out = braid_wait_signal_cta(&c, i, n))
KERNEL(take_signal_thread, *out = braid_take_signal_thread(&c, i, n))
KERNEL(take_signal_warp, *out = braid_take_signal_warp(&c, i, n))
KERNEL(take_signal_cta, *out = braid_take_signal_cta(&c, i, n))
KERNEL(wait_word_thread, *out = braid_wait_word_thread(&c, &w, x, n))
KERNEL(wait_word32_thread, *out = braid_wait_word32_thread(&c, &w, x, i))
KERNEL(barrier_thread, *out = braid_barrier_thread(&c, i))
KERNEL(barrier_warp, *out = braid_barrier_warp(&c, i))
KERNEL(barrier_cta, *out = braid_barrier_cta(&c, i))
KERNEL(barrier_sync_cta, struct braid_barrier b = braid_barrier_open(&c, i);
       *out = braid_barrier_sync_cta(&c, &b); braid_barrier_close_cta(&c, &b))
KERNEL(barrier_sync_thread, struct braid_barrier b = braid_barrier_open(&c, i);
       *out = braid_barrier_sync_thread(&c, &b); braid_barrier_close_thread(&c, &b))
KERNEL(barrier_sync_warp, struct braid_barrier b = braid_barrier_open(&c, i);
       *out = braid_barrier_sync_warp(&c, &b); braid_barrier_close_warp(&c, &b))
KERNEL(barrier_arrive_thread, struct braid_barrier b = braid_barrier_open(&c, i);
       braid_barrier_arrive_thread(&c, &b); braid_barrier_close_thread(&c, &b))
KERNEL(barrier_arrive_warp, struct braid_barrier b = braid_barrier_open(&c, i);
       braid_barrier_arrive_warp(&c, &b); braid_barrier_close_warp(&c, &b))
KERNEL(barrier_arrive_cta, struct braid_barrier b = braid_barrier_open(&c, i);
       braid_barrier_arrive_cta(&c, &b); braid_barrier_close_cta(&c, &b))
KERNEL(barrier_wait_thread, struct braid_barrier b = braid_barrier_open(&c, i);
       *out = braid_barrier_wait_thread(&c, &b))
KERNEL(barrier_wait_warp, struct braid_barrier b = braid_barrier_open(&c, i);
       *out = braid_barrier_wait_warp(&c, &b))
KERNEL(barrier_wait_cta, struct braid_barrier b = braid_barrier_open(&c, i);
       *out = braid_barrier_wait_cta(&c, &b))
KERNEL(packet_store_thread, braid_packet_store_thread(m, n, i))
KERNEL(packet_try_thread, uint64_t d; *out = braid_packet_try_thread(m, i, &d); *(uint64_t *)m = d)
KERNEL(packet_load_thread, uint64_t d = 0; *out = braid_packet_load_thread(&c, m, i, &d, p, i);
       *(uint64_t *)m = d)
KERNEL(put_packets_cta, braid_put_packets_cta(&c, &w, p, x, m, n, i))
KERNEL(put_packets_warp, braid_put_packets_warp(&c, &w, p, x, m, n, i))
KERNEL(get_packets_warp, *out = braid_get_packets_warp(&c, &w, p, x, m, n, i))
KERNEL(get_packets_cta, *out = braid_get_packets_cta(&c, &w, p, x, m, n, i))
KERNEL(tile_ready_thread, braid_tile_ready_thread(&c, &w, &t, p, i, (uint32_t)n))
KERNEL(tile_ready_cta, braid_tile_ready_cta(&c, &w, &t, p, i, (uint32_t)n))
KERNEL(tile_ready_warp, braid_tile_ready_warp(&c, &w, &t, p, i, (uint32_t)n))
KERNEL(tile_ready_tma_thread, braid_tile_ready_tma_thread(&c, &w, &t, p, i, (uint32_t)n))
KERNEL(tile_test_thread, *out = braid_tile_test_thread(&w, &t, i, (uint32_t)n))
KERNEL(tile_wait_thread, *out = braid_tile_wait_thread(&c, &w, &t, i, (uint32_t)n))
KERNEL(tile_wait_tma_thread, *out = braid_tile_wait_tma_thread(&c, &w, &t, i, (uint32_t)n))
KERNEL(tile_wait_cta, *out = braid_tile_wait_cta(&c, &w, &t, i, (uint32_t)n))
KERNEL(tile_wait_warp, *out = braid_tile_wait_warp(&c, &w, &t, i, (uint32_t)n))
KERNEL(epoch_begin, *out = (int)braid_epoch_begin(&c, i))
KERNEL(epoch_end_cta, braid_epoch_end_cta(&c, i))
KERNEL(epoch_end_thread, braid_epoch_end_thread(&c, i, (uint32_t)n))
KERNEL(epoch_count_thread, *out = (int)braid_epoch_count_thread(&c, i))
KERNEL(epoch_advance_thread, braid_epoch_advance_thread(&c, i, (uint32_t)n, (uint32_t)x))
KERNEL(fail_thread, *out = braid_fail_thread(&c, -1, 16, p, i, n, x, n))
KERNEL(failed_thread, *out = braid_failed_thread(&c))
KERNEL(wait_check_thread, uint64_t d = n; *out = braid_wait_check_thread(&c, &d);
       *(uint64_t *)m = d)
