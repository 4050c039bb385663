/*
 * Braid's host API in one include. Kernels include <braid/device.cuh>.
 * Version: BRAID_VERSION_STRING is the headers', braid_version() the library's; equal major and minor numbers fit together.
 */
#ifndef BRAID_H
#define BRAID_H

#include "comm.h"
#include "gemm_ops.h"
#include "ops.h"
#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, for example "0.1.0". Static string. */
BRAID_API const char *braid_version(void);

#ifdef __cplusplus
}
#endif

#endif
