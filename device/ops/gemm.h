/*
 * What the gemm_* files share: an operation object and its parts.
 *   gemm.c        creating, agreeing with the other ranks, destroying, the public calls
 *   gemm_plan.c   the schedule
 *   gemm_exec.c   the schedule as stream operations
 *   gemm_lanes.c  the streams that the objects of a communicator share
 *   gemm_watch.c  the thread that ends late waits
 *   gemm_tune.c   timing of cuBLASLt's proposals
 *   gemm_choice.c settings from the profile or the model, gemm_model.c the model
 *   gemm_blas.c, gemm_cuda.c  the libraries, opened at run time
 * Threading: an object belongs to one thread at a time; `watch` is shared with the watchdog.
 */
#ifndef BRAID_DEVICE_OPS_GEMM_H
#define BRAID_DEVICE_OPS_GEMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <braid/comm.h>
#include <braid/gemm_ops.h>
#include <braid/ops.h>

#include "device/ops/gemm_blas.h"
#include "device/ops/gemm_choice.h"
#include "device/ops/gemm_cuda.h"
#include "device/ops/gemm_flags.h"
#include "device/ops/gemm_plan.h"

#define BRAID_GEMM_WORKSPACE                                                                       \
    ((size_t)32 << 20) /* the most that a product may need beside its operands */

/*
 * States of a lane's busy word in pinned memory. The GPU writes RUNNING before the lane's first wait and IDLE after its last one; the
 * watchdog turns RUNNING into SEEN.
 */
enum { BRAID_GEMM_IDLE = 0, BRAID_GEMM_RUNNING = 1, BRAID_GEMM_SEEN = 2 };

/*
 * Streams may share a hardware queue with one that waits for ever. Not all of these do: they have the caller's priority, and what
 * waits first, the push lane, has another.
 */
#define BRAID_GEMM_WATCH_STREAMS 4

/* What the watchdog needs; lives inside the object, in the watchdog's list from create to destroy. */
struct braid_gemm_watch {
    struct braid_gemm_watch *next;
    const struct braid_gemm_cuda *cuda;
    CUcontext context;
    const CUstream *streams; /* lanes->watch */
    _Atomic uint32_t *busy;  /* pinned, one word a lane */
    CUdeviceptr flags;       /* own flag words */
    /* the word behind them: 1, what this rank announces is right; 0 for good once a wait was released */
    CUdeviceptr go;
    uint32_t flag_count;
    const struct braid_gemm_program *program;
    int rank;
    uint64_t timeout_ns;
    uint64_t since_ns[BRAID_GEMM_MAX_LANES]; /* when RUNNING was turned into SEEN */
    uint32_t *copy;     /* pinned: flag_count words to read into, as many ones to write, and a 0 */
    _Atomic int failed; /* 0, 1 being described, 2 described in error */
    struct braid_gemm_error error;
};

/* Pointers of one run. */
struct braid_gemm_call {
    const void *x, *w, *send;
    void *y, *recv;
    CUstream stream;
};

/*
 * Streams beside the caller's: one set a communicator, because a GPU has few hardware
 * queues and a stream that waits blocks the ones that share its queue. All ranks run their operations in the same order, so one set
 * cannot deadlock.
 */
struct braid_gemm_lanes {
    struct braid_gemm_lanes *next;
    struct braid_comm *comm;
    int users;
    uint32_t slots; /* epoch slots handed out to objects, from the end of the communicator's */
    CUstream stream[BRAID_GEMM_MAX_LANES];    /* [0] is unused */
    CUstream watch[BRAID_GEMM_WATCH_STREAMS]; /* of the watchdog and of set-up */
};

struct braid_gemm {
    struct braid_comm *comm;
    struct braid_gemm_lanes *lanes;
    struct braid_gemm_desc desc; /* settings: the agreed ones */
    struct braid_gemm_info info;
    struct braid_gemm_machine on;
    int rank, ranks;
    bool bulk;
    bool asked;   /* the caller named a method */
    int64_t part; /* rows a rank, of the communication */

    const struct braid_gemm_cuda *cuda;
    CUcontext context;
    CUdevice device;
    CUmodule module;
    CUfunction copy_kernel, add_kernel, flags_kernel;

    struct braid_gemm_program program;
    int16_t *product; /* of each instruction, -1 none */
    int whole;        /* product of all rows */
    struct braid_gemm_blas blas;

    struct braid_ops *ops; /* SERIAL with num_sm only */
    struct braid_window *window;
    size_t offset[BRAID_GEMM_B_COUNT]; /* of window buffers; the flags are at 0 */
    CUdeviceptr base[BRAID_MAX_RANKS]; /* the window of each rank */
    CUdeviceptr stage;
    /*
     * For products, one a compute lane. Lanes are shared streams, but in replayed graphs of several objects nothing orders what was
     * captured on the same lane, so the memory is the object's own.
     */
    CUdeviceptr workspace[BRAID_GEMM_LANE_PUSH];
    CUevent *events;
    size_t event_count;
    CUdeviceptr busy; /* the busy words as the GPU sees them */
    /* instruction of each lane; program.count without one */
    size_t first_wait[BRAID_GEMM_MAX_LANES];
    size_t last_wait[BRAID_GEMM_MAX_LANES];
    struct braid_gemm_watch watch;
};

/* Bytes of a row of `buffer`. */
size_t braid_gemm_row_bytes(const struct braid_gemm *g, int buffer);

/* gemm_exec.c: enqueues the program, or only its collective (BULK), or only its products (for measurements). */
enum braid_gemm_share { BRAID_GEMM_ALL, BRAID_GEMM_NO_PRODUCTS, BRAID_GEMM_ONLY_PRODUCTS };
int braid_gemm_enqueue(struct braid_gemm *g, const struct braid_gemm_call *call,
                       enum braid_gemm_share share);

/* gemm_lanes.c: the communicator's set, made at the first use; 0 or a negative errno. The context is current. */
int braid_gemm_lanes_get(const struct braid_gemm_cuda *cuda, struct braid_comm *comm,
                         struct braid_gemm_lanes **lanes_p);
void braid_gemm_lanes_put(const struct braid_gemm_cuda *cuda, struct braid_gemm_lanes *lanes);

/* gemm_watch.c: from add to remove the watchdog looks at the object. Remove waits until it does not any more. */
int braid_gemm_watch_add(struct braid_gemm_watch *watch);
void braid_gemm_watch_remove(struct braid_gemm_watch *watch);

/* Makes the context current and undoes it. */
int braid_gemm_enter(const struct braid_gemm *g);
void braid_gemm_leave(const struct braid_gemm *g);

#endif
