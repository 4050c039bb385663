/*
 * Number formats that reductions know, as numbers that the host API, kernels and results files share. No functions.
 * Included by: ops.h, device headers, device/ops, tests. Includes nothing of Braid.
 */
#ifndef BRAID_WIRE_NUMBER_V1_H
#define BRAID_WIRE_NUMBER_V1_H

#define BRAID_F32          0 /* IEEE binary32 */
#define BRAID_F16          1 /* IEEE binary16 */
#define BRAID_BF16         2 /* bfloat16 */
#define BRAID_F8E4M3       3 /* OCP 8-bit float, 4 exponent bits, no infinity */
#define BRAID_F8E5M2       4 /* OCP 8-bit float, 5 exponent bits */
#define BRAID_NUMBER_COUNT 5

#endif
