/* The fused products of a library that was built without the CUDA toolkit: every call says -ENOSYS. */
#include <errno.h>
#include <string.h>

#include <braid/gemm_ops.h>

#include "common/log.h"

int braid_gemm_create(struct braid_comm *comm, const struct braid_gemm_desc *desc,
                      struct braid_gemm **gemm_p)
{
    BRAID_WARN("this libbraid was built without the CUDA toolkit and has no fused products");
    return -ENOSYS;
}

void braid_gemm_destroy(struct braid_gemm *gemm)
{
}

int braid_ag_gemm(struct braid_gemm *gemm, const void *x, const void *w, void *y, void *stream)
{
    return -ENOSYS;
}

int braid_gemm_rs(struct braid_gemm *gemm, const void *x, const void *w, void *y, void *stream)
{
    return -ENOSYS;
}

int braid_gemm_ar(struct braid_gemm *gemm, const void *x, const void *w, void *y, void *stream)
{
    return -ENOSYS;
}

int braid_gemm_bulk(struct braid_gemm *gemm, const void *send, void *recv, const void *x,
                    const void *w, void *y, void *stream)
{
    return -ENOSYS;
}

int braid_gemm_compute(struct braid_gemm *gemm, const void *x, const void *w, void *y, void *stream)
{
    return -ENOSYS;
}

int braid_gemm_products(struct braid_gemm *gemm, const void *x, const void *w, void *y,
                        void *stream)
{
    return -ENOSYS;
}

void *braid_gemm_gathered(struct braid_gemm *gemm)
{
    return NULL;
}

int braid_gemm_describe(const struct braid_gemm *gemm, struct braid_gemm_info *info)
{
    return -ENOSYS;
}

int braid_gemm_status(struct braid_gemm *gemm, struct braid_gemm_error *error)
{
    if (error != NULL)
        memset(error, 0, sizeof(*error));
    return -ENOSYS;
}

int braid_gemm_tune(struct braid_gemm *gemm, void *stream)
{
    return -ENOSYS;
}

int braid_gemm_profile_save(const char *path, struct braid_comm *comm,
                            const struct braid_gemm_desc *desc)
{
    return -ENOSYS;
}
