/* Loading and launching the collectives' kernels. Called by ops.c and collectives.c; see ops.h. */
#include <errno.h>
#include <stdio.h>

#include "common/log.h"
#include "common/util.h"
#include "device/host/driver.h"
#include "device/ops/ops.h"

static const char *const number_names[BRAID_NUMBER_COUNT] = {"f32", "f16", "bf16", "f8e4m3",
                                                             "f8e5m2"};

/* The kernels that push chunks; they take the ring. */
static unsigned shared_of(int k)
{
    return k == BRAID_KERNEL_EXCHANGE_COPY ||
                   (k >= BRAID_KERNEL_EXCHANGE_REDUCE && k < BRAID_KERNEL_PULL_REDUCE)
               ? BRAID_OPS_RING_BYTES
               : 0;
}

/* Threads of its largest CTA. */
static int threads_of(int k)
{
    return k >= BRAID_KERNEL_PULL_REDUCE ? BRAID_PULL_THREADS
           : shared_of(k) != 0           ? 32 * BRAID_OPS_WARPS
                                         : 512;
}

/* The name of kernel `k` in the module. */
static void name_of(int k, char *name, size_t bytes)
{
    static const char *const kinds[] = {"ll", "exchange", "pull"};
    int i = k - BRAID_KERNEL_LL_REDUCE, kind = i / (2 * BRAID_NUMBER_COUNT);

    if (k < BRAID_KERNEL_LL_REDUCE)
        snprintf(name, bytes, "braid_%s_copy", kinds[k == BRAID_KERNEL_EXCHANGE_COPY]);
    else
        snprintf(name, bytes, "braid_%s_reduce_%s_%s", kinds[kind],
                 number_names[i / 2 % BRAID_NUMBER_COUNT], i % 2 == 0 ? "2" : "n");
}

int braid_ops_load(struct braid_ops *ops)
{
    char name[64] = "cuModuleLoadData";
    int result;

    if (braid_kernel_image == NULL) {
        BRAID_WARN("this libbraid.so was built without nvcc and has no collectives");
        return -EOPNOTSUPP;
    }
    result = ops->cuda->module_load(&ops->module, braid_kernel_image);
    if (result != BRAID_CU_SUCCESS)
        goto err_log;
    for (int k = 0; k < BRAID_KERNELS; k++) {
        unsigned shared = shared_of(k);
        int ctas;

        name_of(k, name, sizeof(name));
        result = ops->cuda->module_function(&ops->function[k], ops->module, name);
        if (result == BRAID_CU_SUCCESS && shared != 0)
            result = ops->cuda->function_set(ops->function[k], BRAID_CU_FUNCTION_DYNAMIC_SHARED,
                                             (int)shared);
        if (result != BRAID_CU_SUCCESS)
            goto err_log;
        /* This also loads the kernel now, not while another kernel waits for a peer. */
        ctas = braid_comm_max_ctas(ops->comm, ops->function[k], threads_of(k), shared);
        if (ctas <= 0) {
            BRAID_WARN("kernel %s does not fit on GPU %d", name, ops->gpu);
            return ctas != 0 ? ctas : -EOPNOTSUPP;
        }
    }
    return 0;

err_log:
    BRAID_WARN("the collectives' kernels cannot be loaded on GPU %d (%s): %s; this libbraid.so has "
               "code for sm_%s",
               ops->gpu, name, braid_cuda_name(result), BRAID_KERNEL_ARCHS);
    return -EOPNOTSUPP;
}

void braid_ops_unload(struct braid_ops *ops)
{
    if (ops->module != NULL)
        ops->cuda->module_unload(ops->module);
}

int braid_ops_launch(struct braid_ops *ops, int kernel, const struct braid_op_plan *plan,
                     uint32_t flags, void *stream, void **arguments)
{
    struct braid_cu_launch_attribute overlap = {.id = BRAID_CU_LAUNCH_OVERLAP, .value.on = 1};
    struct braid_cu_launch config = {
        .grid = {plan->ctas, 1, 1},
        .block = {plan->threads, 1, 1},
        .shared_bytes = shared_of(kernel),
        .stream = stream,
        .attributes = &overlap,
        .attribute_count = ops->overlap && (flags & BRAID_OP_NO_OVERLAP) == 0,
    };
    int result = ops->cuda->launch(&config, ops->function[kernel], arguments, NULL);

    if (result != BRAID_CU_SUCCESS)
        BRAID_WARN("launch of a collective's kernel %d with %u CTAs failed: %s", kernel, plan->ctas,
                   braid_cuda_name(result));
    return braid_cuda_errno(result);
}
