/* Knobs and counters of the second part of the fake CUDA driver (fake_cuda_ops.c), for tests in the same process. */
#ifndef BRAID_TESTS_FAKE_CUDA_OPS_H
#define BRAID_TESTS_FAKE_CUDA_OPS_H

#include "tests/unit/device/fake_cuda.h"

#define FAKE_FUNCTIONS 48

struct fake_cuda_ops {
    int copies; /* cuMemcpyAsync so far */
    int events; /* that exist */
    struct {
        const char *name; /* what cuModuleGetFunction is asked for; NULL ends the list */
        struct fake_function function;
    } functions[FAKE_FUNCTIONS];
};

extern struct fake_cuda_ops fake_cuda_ops;

#endif
