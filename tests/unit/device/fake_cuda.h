/*
 * Knobs of the fake CUDA driver (fake_cuda.c), for tests in the same process. All are read when a call happens.
 */
#ifndef BRAID_TESTS_FAKE_CUDA_H
#define BRAID_TESTS_FAKE_CUDA_H

struct fake_cuda {
    int gpus; /* visible GPUs, 1 to 8 */
    int fabric; /* 0: no fabric handles; 1: they work; 2: they can be exported but not imported elsewhere */
    int no_peer; /* 1: different GPUs cannot reach each other */
    int busy;    /* cuCtxSynchronize blocks while this is set, and streams are not ready */
    int fail_at; /* the fail_at-th call from now on fails with "out of memory"; 0 = none */
    int calls;   /* counted since the start */
    int live;    /* handles, mappings, reservations, allocations, streams and contexts that exist */
    int max_ctas_per_sm;
    int memory_gpu; /* the GPU of all memory that is asked about; -1: not known */
};

extern struct fake_cuda fake_cuda;

/* A "kernel" of cuLaunchKernel is a pointer to this. */
struct fake_function {
    void (*run)(void **arguments, unsigned ctas, unsigned threads);
};

#endif
