/* cuBLASLt, see gemm_blas.h. It counts columns first: y^T[n, rows] = w^T . x^T, so w is its first operand. */
#include "device/ops/gemm_blas.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <braid/gemm_ops.h>

#include "common/dl.h"
#include "common/log.h"
#include "common/util.h"

struct lt_table {
    size_t (*version)(void);
    cublasStatus_t (*create)(cublasLtHandle_t *);
    cublasStatus_t (*destroy)(cublasLtHandle_t);
    cublasStatus_t (*desc_create)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t);
    cublasStatus_t (*desc_destroy)(cublasLtMatmulDesc_t);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *,
                               size_t);
    cublasStatus_t (*layout_create)(cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t,
                                    int64_t);
    cublasStatus_t (*layout_destroy)(cublasLtMatrixLayout_t);
    cublasStatus_t (*pref_create)(cublasLtMatmulPreference_t *);
    cublasStatus_t (*pref_destroy)(cublasLtMatmulPreference_t);
    cublasStatus_t (*pref_set)(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                               const void *, size_t);
    cublasStatus_t (*propose)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                              cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                              cublasLtMatmulHeuristicResult_t *, int *);
    cublasStatus_t (*matmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                             cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t,
                             const void *, const void *, cublasLtMatrixLayout_t, void *,
                             cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t,
                             cudaStream_t);
};

static const char *const library_names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                            "/usr/local/cuda/lib64/libcublasLt.so.13",
                                            "/usr/local/cuda/lib64/libcublasLt.so.12", NULL};

static const struct braid_dl_symbol symbols[] = {
    BRAID_DL_SYMBOL(struct lt_table, version, cublasLtGetVersion),
    BRAID_DL_SYMBOL(struct lt_table, create, cublasLtCreate),
    BRAID_DL_SYMBOL(struct lt_table, destroy, cublasLtDestroy),
    BRAID_DL_SYMBOL(struct lt_table, desc_create, cublasLtMatmulDescCreate),
    BRAID_DL_SYMBOL(struct lt_table, desc_destroy, cublasLtMatmulDescDestroy),
    BRAID_DL_SYMBOL(struct lt_table, desc_set, cublasLtMatmulDescSetAttribute),
    BRAID_DL_SYMBOL(struct lt_table, layout_create, cublasLtMatrixLayoutCreate),
    BRAID_DL_SYMBOL(struct lt_table, layout_destroy, cublasLtMatrixLayoutDestroy),
    BRAID_DL_SYMBOL(struct lt_table, pref_create, cublasLtMatmulPreferenceCreate),
    BRAID_DL_SYMBOL(struct lt_table, pref_destroy, cublasLtMatmulPreferenceDestroy),
    BRAID_DL_SYMBOL(struct lt_table, pref_set, cublasLtMatmulPreferenceSetAttribute),
    BRAID_DL_SYMBOL(struct lt_table, propose, cublasLtMatmulAlgoGetHeuristic),
    BRAID_DL_SYMBOL(struct lt_table, matmul, cublasLtMatmul),
};

static pthread_mutex_t lt_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lt_table lt;
static int lt_state; /* 0 not tried, 1 there, negative errno */
static char lt_why[200];

static int open_library(char *why, size_t why_bytes)
{
    int rc;

    pthread_mutex_lock(&lt_lock);
    if (lt_state == 0) {
        rc =
            braid_dl_open(library_names, symbols, ARRAY_SIZE(symbols), &lt, lt_why, sizeof(lt_why));
        lt_state = rc == 0 ? 1 : -ENOSYS;
    }
    rc = lt_state == 1 ? 0 : lt_state;
    if (why_bytes > 0) {
        strncpy(why, lt_why, why_bytes - 1);
        why[why_bytes - 1] = '\0';
    }
    pthread_mutex_unlock(&lt_lock);
    return rc;
}

size_t braid_gemm_blas_version(void)
{
    return open_library(NULL, 0) == 0 ? lt.version() : 0;
}

static int set_alignment(struct braid_gemm_blas *blas, uint32_t alignment)
{
    static const cublasLtMatmulPreferenceAttributes_t which[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};

    for (size_t i = 0; i < ARRAY_SIZE(which); i++)
        if (lt.pref_set(blas->preference, which[i], &alignment, sizeof(alignment)) != 0)
            return -EPROTO;
    return 0;
}

static int set_up(struct braid_gemm_blas *blas, const struct braid_gemm_blas_config *c)
{
    cublasOperation_t transpose = c->w_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint64_t rows = (uint64_t)(c->w_transposed ? c->k : c->n);
    uint64_t columns = (uint64_t)(c->w_transposed ? c->n : c->k);
    int32_t sms = c->sms;

    if (lt.create(&blas->handle) != 0 ||
        lt.desc_create(&blas->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) != 0 ||
        lt.desc_set(blas->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof(transpose)) !=
            0 ||
        lt.layout_create(&blas->w, blas->type, rows, columns, (int64_t)rows) != 0 ||
        lt.pref_create(&blas->preference) != 0 ||
        lt.pref_set(blas->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &c->workspace_bytes,
                    sizeof(c->workspace_bytes)) != 0)
        return -EPROTO;
    if (sms > 0 &&
        lt.desc_set(blas->operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &sms, sizeof(sms)) != 0)
        return -EPROTO;
    return set_alignment(blas, c->alignment);
}

int braid_gemm_blas_open(struct braid_gemm_blas *blas, const struct braid_gemm_blas_config *config,
                         char *why, size_t why_bytes)
{
    int rc = open_library(why, why_bytes);

    memset(blas, 0, sizeof(*blas));
    if (rc != 0)
        return rc;
    blas->type = config->dtype == BRAID_GEMM_FP16 ? CUDA_R_16F : CUDA_R_16BF;
    blas->n = config->n;
    blas->alignment = config->alignment;
    blas->k = config->k;
    rc = set_up(blas, config);
    if (rc != 0) {
        if (why_bytes > 0)
            why[0] = '\0';
        braid_gemm_blas_close(blas);
    }
    return rc;
}

void braid_gemm_blas_close(struct braid_gemm_blas *blas)
{
    for (size_t i = 0; i < blas->count; i++) {
        lt.layout_destroy(blas->products[i].x);
        lt.layout_destroy(blas->products[i].y);
    }
    free(blas->products);
    if (blas->preference)
        lt.pref_destroy(blas->preference);
    if (blas->w)
        lt.layout_destroy(blas->w);
    if (blas->operation)
        lt.desc_destroy(blas->operation);
    if (blas->handle)
        lt.destroy(blas->handle);
    memset(blas, 0, sizeof(*blas));
}

static int make_product(struct braid_gemm_blas *blas, struct braid_gemm_product *p)
{
    uint64_t rows = (uint64_t)p->rows;
    cublasStatus_t status;

    if (lt.layout_create(&p->x, blas->type, (uint64_t)blas->k, rows, blas->k) != 0)
        return -ENOMEM;
    if (lt.layout_create(&p->y, blas->type, (uint64_t)blas->n, rows, blas->n) != 0) {
        lt.layout_destroy(p->x);
        return -ENOMEM;
    }
    status = lt.propose(blas->handle, blas->operation, blas->w, p->x, p->y, p->y, blas->preference,
                        BRAID_GEMM_PROPOSALS, p->proposal, &p->count);
    if (status != 0 || p->count < 1) {
        BRAID_WARN("cuBLASLt has no algorithm for a product of %ld x %ld x %ld (status %d)",
                   (long)p->rows, (long)blas->n, (long)blas->k, (int)status);
        lt.layout_destroy(p->x);
        lt.layout_destroy(p->y);
        return -EPROTO;
    }
    return 0;
}

int braid_gemm_blas_product(struct braid_gemm_blas *blas, int64_t rows, bool adds)
{
    struct braid_gemm_product *grown, fresh = {.rows = rows, .adds = adds};
    int rc;

    for (size_t i = 0; i < blas->count; i++)
        if (blas->products[i].rows == rows && blas->products[i].adds == adds)
            return (int)i;
    rc = make_product(blas, &fresh);
    if (rc != 0)
        return rc;
    grown = realloc(blas->products, (blas->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        lt.layout_destroy(fresh.x);
        lt.layout_destroy(fresh.y);
        return -ENOMEM;
    }
    for (int i = 0; i < fresh.count; i++)
        blas->workspace_bytes = MAX(blas->workspace_bytes, fresh.proposal[i].workspaceSize);
    blas->products = grown;
    grown[blas->count] = fresh;
    return (int)blas->count++;
}

int braid_gemm_blas_run(struct braid_gemm_blas *blas, int product, const void *x, const void *w,
                        const void *acc, void *y, void *workspace, cudaStream_t stream)
{
    struct braid_gemm_product *p = &blas->products[product];
    const float alpha = 1.0f, beta = acc != NULL ? 1.0f : 0.0f;
    cublasStatus_t status = lt.matmul(
        blas->handle, blas->operation, &alpha, w, blas->w, x, p->x, &beta, acc != NULL ? acc : y,
        p->y, y, p->y, &p->proposal[p->use].algo, workspace, blas->workspace_bytes, stream);

    return status == CUBLAS_STATUS_SUCCESS ? 0 : -EPROTO;
}
