/* What the flag kernel of gemm_kernels.cu does for a lane, in order; gemm_exec.c fills it in. A launch parameter. */
#ifndef BRAID_DEVICE_OPS_GEMM_FLAGS_H
#define BRAID_DEVICE_OPS_GEMM_FLAGS_H

#include <stdint.h>

#define BRAID_GEMM_FLAG_STEPS 16

enum {
    BRAID_GEMM_F_WAIT,  /* until the word is `value` */
    BRAID_GEMM_F_WRITE, /* own or host memory */
    BRAID_GEMM_F_POST, /* memory of a peer, after everything before it on the lane; 0 once the go word is 0 */
};

struct braid_gemm_flag_step {
    uint64_t word;
    uint32_t value, kind;
};

struct braid_gemm_flag_list {
    struct braid_gemm_flag_step step[BRAID_GEMM_FLAG_STEPS];
    uint64_t go;
    uint32_t count, reserved;
};

#endif
