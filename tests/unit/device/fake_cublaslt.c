/*
 * cuBLASLt without a GPU, as libcublasLt.so.13 for tests: column-major products of bf16 or fp16 in float, at once. It offers three
 * "algorithms" that all do the same, each with a workspace that it fills. Threading: any.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cublasLt.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define API __attribute__((visibility("default")))

struct layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld;
};

struct operation {
    cublasOperation_t transpose;
};

static float load(const void *p, size_t i, cudaDataType_t type)
{
    uint16_t v = ((const uint16_t *)p)[i];
    uint32_t bits = (uint32_t)v << 16;
    float f;

    if (type == CUDA_R_16F) {
        int exponent = v >> 10 & 31, mantissa = v & 1023;

        f = exponent ? ldexpf((float)(mantissa + 1024), exponent - 25)
                     : ldexpf((float)mantissa, -24);
        return v >> 15 ? -f : f;
    }
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static void store(void *p, size_t i, float f, cudaDataType_t type)
{
    uint32_t bits;
    uint16_t v;

    if (type == CUDA_R_16F) { /* normal numbers only, to nearest */
        int exponent;
        float m = frexpf(fabsf(f), &exponent);
        uint32_t q = f == 0 ? 0 : (uint32_t)lrintf(ldexpf(m, 11));

        if (q == 2048) {
            q = 1024;
            exponent++;
        }
        v = f == 0 ? 0 : (uint16_t)((uint32_t)(exponent + 14) << 10 | (q & 1023));
        v |= f < 0 ? 0x8000 : 0;
    } else {
        memcpy(&bits, &f, sizeof(bits));
        v = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    ((uint16_t *)p)[i] = v;
}

API size_t cublasLtGetVersion(void)
{
    return 130000;
}

API cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                            cudaDataType_t scale)
{
    *desc = calloc(1, sizeof(struct operation));
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS
                                                                : CUBLAS_STATUS_NOT_SUPPORTED;
}

API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                  cublasLtMatmulDescAttributes_t which,
                                                  const void *value, size_t bytes)
{
    if (which == CUBLASLT_MATMUL_DESC_TRANSA)
        memcpy(&((struct operation *)desc)->transpose, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                              uint64_t rows, uint64_t columns, int64_t ld)
{
    struct layout *l = malloc(sizeof(*l));

    *l = (struct layout){type, rows, columns, ld};
    *layout = (cublasLtMatrixLayout_t)l;
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                        cublasLtMatmulPreferenceAttributes_t which,
                                                        const void *value, size_t bytes)
{
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t *results,
    int *count)
{
    const struct layout *la = (struct layout *)a, *lb = (struct layout *)b,
                        *ld = (struct layout *)d;
    bool t = ((struct operation *)desc)->transpose == CUBLAS_OP_T;

    if ((t ? la->columns : la->rows) != ld->rows || (t ? la->rows : la->columns) != lb->rows ||
        lb->columns != ld->columns)
        return CUBLAS_STATUS_INVALID_VALUE;
    *count = wanted < 3 ? wanted : 3;
    memset(results, 0, (size_t)*count * sizeof(*results));
    for (int i = 0; i < *count; i++) {
        results[i].workspaceSize = (size_t)(3 - i) * 1000 + 8 * ld->columns;
        results[i].algo.data[0] = results[i].workspaceSize;
    }
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                  const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                                  const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                                  const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                  cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                                  void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    const struct layout *la = (struct layout *)a_layout, *lb = (struct layout *)b_layout,
                        *ld = (struct layout *)d_layout;
    bool t = ((struct operation *)desc)->transpose == CUBLAS_OP_T;
    float scale = *(const float *)alpha, keep = *(const float *)beta;

    if (workspace == NULL || algo == NULL)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace_bytes < algo->data[0])
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(workspace, 0xa5, algo->data[0]);
    for (uint64_t j = 0; j < ld->columns; j++)
        for (uint64_t i = 0; i < ld->rows; i++) {
            size_t at = (size_t)(j * (uint64_t)ld->ld + i);
            float sum = 0;

            for (uint64_t k = 0; k < lb->rows; k++)
                sum += load(a, t ? i * (size_t)la->ld + k : k * (size_t)la->ld + i, la->type) *
                       load(b, j * (size_t)lb->ld + k, lb->type);
            sum *= scale;
            if (keep != 0)
                sum += keep * load(c, at, ld->type);
            store(d, at, sum, ld->type);
        }
    return CUBLAS_STATUS_SUCCESS;
}
