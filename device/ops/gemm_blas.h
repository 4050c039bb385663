/*
 * Matrix products by cuBLASLt, which is opened at run time: row-major y[rows, n] = x[rows, k] . w (+ acc), float accumulation.
 * An object holds one weight shape and one type; a product is one number of rows with or without an addend, with the library's
 * proposals for it and the index of the one in use.
 * Threading: one object, one thread. Called by: gemm.c.
 */
#ifndef BRAID_DEVICE_OPS_GEMM_BLAS_H
#define BRAID_DEVICE_OPS_GEMM_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cublasLt.h>

#define BRAID_GEMM_PROPOSALS 12

struct braid_gemm_product {
    int64_t rows;
    bool adds;
    int count, use; /* proposals, and which one runs */
    cublasLtMatrixLayout_t x, y;
    cublasLtMatmulHeuristicResult_t proposal[BRAID_GEMM_PROPOSALS];
};

struct braid_gemm_blas {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatmulPreference_t preference;
    cublasLtMatrixLayout_t w;
    cudaDataType_t type;
    int64_t n, k;
    uint32_t alignment;
    size_t workspace_bytes; /* the most that a proposal of the products made so far needs */
    struct braid_gemm_product *products;
    size_t count;
};

struct braid_gemm_blas_config {
    int dtype; /* enum braid_gemm_dtype */
    bool w_transposed;
    int64_t n, k;
    uint32_t alignment;     /* of all pointers, bytes */
    int sms;                /* SMs a product may use, 0 = all */
    size_t workspace_bytes; /* the most that a proposal may need */
};

/* 0; -ENOSYS without the library (`why` says what was tried); -EPROTO when it refuses. The CUDA context must be current. */
int braid_gemm_blas_open(struct braid_gemm_blas *blas, const struct braid_gemm_blas_config *config,
                         char *why, size_t why_bytes);
void braid_gemm_blas_close(struct braid_gemm_blas *blas);

/* Finds or makes the product; its index or a negative errno (-ENOMEM, -EPROTO when the library has no proposal). */
int braid_gemm_blas_product(struct braid_gemm_blas *blas, int64_t rows, bool adds);

/* Enqueues. `workspace` has blas->workspace_bytes and one stream at a time. `acc` may be NULL for a product without addend and must not be `y`. 0 or -EPROTO. */
int braid_gemm_blas_run(struct braid_gemm_blas *blas, int product, const void *x, const void *w,
                        const void *acc, void *y, void *workspace, cudaStream_t stream);

/* cuBLASLt's version, 0 when it is not there. Proposals are only comparable within one version. */
size_t braid_gemm_blas_version(void);

#endif
