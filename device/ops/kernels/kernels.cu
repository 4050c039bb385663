/*
 * Every kernel of the collectives in one module, which libbraid.so carries and loads through the driver. Kernel names: see
 * reduce.inc (reductions, one set a number format) and copy.cuh.
 */
#include "copy.cuh"

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
