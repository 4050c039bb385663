/*
 * Every kernel of the collectives in one module, which libbraid.so carries and loads through the driver. Kernel names: see
 * reduce.inc (reductions, one set a number format) and copy.cuh.
 */
#include "copy.cuh"

#if BRAID_ENGINE_MEET_BY_KERNEL
/* Every rank tells every other in the word at `member`, waits until every other has told it, and takes its words back. One warp. */
BRAID_KERNEL braid_engine_meet(const __grid_constant__ struct braid_devcomm c,
                               const __grid_constant__ struct braid_devwin w,
                               const __grid_constant__ struct braid_meet_args a)
{
    for (uint32_t peer = braid_ptx_lane(); peer < a.ranks; peer += 32) {
        if (peer != a.rank)
            braid_ptx_store_release_sys_u32(
                braid_window_pointer(&w, (int)peer, a.words + a.stride * a.rank + a.member), 1);
    }
    for (uint32_t peer = braid_ptx_lane(); peer < a.ranks; peer += 32) {
        uint32_t *word = (uint32_t *)braid_window_local(&w, a.words + a.stride * peer + a.member);

        if (peer != a.rank) {
            op_wait_thread(&c, word, 1, BRAID_WAIT_ENGINE, peer, 0);
            braid_ptx_store_relaxed_sys_u32(word, 0);
        }
    }
}
#endif

#define FORMAT      BRAID_F32
#define FORMAT_NAME f32
#include "reduce.inc"
#define FORMAT      BRAID_F16
#define FORMAT_NAME f16
#include "reduce.inc"
#define FORMAT      BRAID_BF16
#define FORMAT_NAME bf16
#include "reduce.inc"
#define FORMAT      BRAID_F8E4M3
#define FORMAT_NAME f8e4m3
#include "reduce.inc"
#define FORMAT      BRAID_F8E5M2
#define FORMAT_NAME f8e5m2
#include "reduce.inc"
