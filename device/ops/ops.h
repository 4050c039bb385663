/*
 * What the files of device/ops share: the object behind struct braid_ops, its kernels and its copy-engine half.
 * Only device/ops includes this. Threading: as include/braid/ops.h says; the watchdog thread touches only what engine.c gives it.
 */
#ifndef BRAID_DEVICE_OPS_OPS_H
#define BRAID_DEVICE_OPS_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/ops.h"
#include "device/ops/args.h"
#include "device/ops/cuda.h"
#include "device/ops/plan.h"

/* A kernel of the module, by what it is for. */
enum braid_kernel {
    BRAID_KERNEL_LL_COPY,
    BRAID_KERNEL_EXCHANGE_COPY,
    BRAID_KERNEL_LL_REDUCE, /* [number][2]: 2 ranks, any */
    BRAID_KERNEL_EXCHANGE_REDUCE = BRAID_KERNEL_LL_REDUCE + 2 * BRAID_NUMBER_COUNT, /* likewise */
    BRAID_KERNEL_PULL_REDUCE = BRAID_KERNEL_EXCHANGE_REDUCE + 2 * BRAID_NUMBER_COUNT,
    BRAID_KERNELS = BRAID_KERNEL_PULL_REDUCE + 2 * BRAID_NUMBER_COUNT,
};

struct braid_engine;

struct braid_ops {
    struct braid_comm *comm;
    const struct braid_ops_cuda *cuda;
    void *context; /* retained primary context */
    int gpu;
    struct braid_window *window;
    struct braid_ops_layout layout;
    uint64_t engine_words; /* offset in the window of the copy engines' flags */
    uint64_t packet_limit;
    uint64_t staging_limit;
    bool overlap; /* launches may overlap: this rank has its GPU for itself */
    void *module;
    void *function[BRAID_KERNELS];
    struct braid_engine *engine;
};

/* The module's image, NULL when built without nvcc. */
extern const void *const braid_kernel_image;

int braid_ops_enter(struct braid_ops *ops);
void braid_ops_leave(struct braid_ops *ops);

/* kernels.c: loads the module and finds its kernels, and gives it back. The context is current. */
int braid_ops_load(struct braid_ops *ops);
void braid_ops_unload(struct braid_ops *ops);

/* Launches; the context is current. `arguments` as for cuLaunchKernel. */
int braid_ops_launch(struct braid_ops *ops, int kernel, const struct braid_op_plan *plan,
                     uint32_t flags, void *stream, void **arguments);

/* engine.c: all-gather and all-to-all by copy engines. `block` bytes from each rank to each. The context is current. */
struct braid_engine_job {
    uint64_t in, out;
    uint64_t block;
    bool same;                         /* all-gather: `in` is one block for everybody */
    bool in_place;                     /* all-to-all on one buffer */
    const struct braid_window *result; /* has `out` */
    uint64_t offset;                   /* of `out` in it */
};

int braid_engine_create(struct braid_ops *ops, struct braid_engine **engine_p);
int braid_engine_run(struct braid_ops *ops, const struct braid_engine_job *job, void *stream);
void braid_engine_destroy(struct braid_engine *engine);

/* Words of the copy engines' flags in the operations window. */
#define BRAID_ENGINE_PIECES 2u
#define BRAID_ENGINE_WORDS  (2u + BRAID_ENGINE_PIECES) /* a rank: ready, undone, a flag a piece */

#endif
