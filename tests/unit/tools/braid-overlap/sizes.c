/* Prints the sizes and offsets that the ctypes declarations of braid_overlap.py must have; python_test.py compares. */
#include <stddef.h>
#include <stdio.h>

#include <braid/gemm_ops.h>

int main(void)
{
    printf("%zu %zu %zu %zu %zu %zu %d\n", sizeof(struct braid_gemm_settings),
           sizeof(struct braid_gemm_desc), offsetof(struct braid_gemm_desc, settings),
           sizeof(struct braid_gemm_info), sizeof(struct braid_gemm_error),
           sizeof(struct braid_bootstrap), BRAID_GEMM_MAX_ALGOS);
    return 0;
}
