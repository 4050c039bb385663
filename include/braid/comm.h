/*
 * Device communicators and windows: the host side of <braid/device.cuh>. In libbraid.so; plain C, no CUDA header needed.
 *
 * A communicator joins ranks, each with one GPU, and gives kernels what they need to reach each other's memory and to wait for each
 * other with a bound. Windows are pieces of GPU memory that every rank of the communicator contributes and can reach.
 *
 *     struct braid_comm *comm;
 *     struct braid_window *window;
 *     braid_comm_create(&comm, &bootstrap, NULL);            // collective
 *     braid_window_alloc(comm, 1 << 20, &window);            // collective
 *     kernel<<<grid, block, 0, stream>>>(*braid_comm_device(comm), *braid_window_device(window), ...);
 *     cudaStreamSynchronize(stream);
 *     if (braid_comm_error(comm, &reason) != 0)              // a wait failed: reason says which
 *         ...
 *     braid_window_free(window);
 *     braid_comm_destroy(comm);
 *
 * Errors: functions return 0 or a negative errno number; the reason is logged once, on stderr. Collective functions fail on all ranks
 * together wherever they can still talk to each other.
 * Threading: calls for one communicator must not overlap, except braid_comm_abort, braid_comm_error and the getters, which any
 * thread may call at any time before braid_comm_destroy. Different communicators are independent. One process may hold
 * many communicators, also of several ranks (one thread a rank for the collective calls).
 * CUDA: the library opens libcuda.so.1 at run time and uses the primary context of the GPU (the one that the CUDA runtime and
 * PyTorch use). It is loaded and linked without any GPU; braid_comm_create then returns -ENODEV.
 * Kernels that wait for a peer need that peer's kernel to run at the same time. So when ranks share a GPU, ask
 * braid_comm_check_launch before a launch, and let processes share it through CUDA MPS (without, the GPU runs one process at a time).
 * Ranks that are threads of one process need non-blocking streams of their own (kernels of the legacy stream run one by one) and, set
 * before CUDA starts, CUDA_DEVICE_MAX_CONNECTIONS of at least the number of these streams (up to 32); and none of them makes a call that waits
 * for the GPU (cudaFree, cudaMalloc, loading a module) while another's kernel waits for it.
 * NVLink multicast is never used.
 */
#ifndef BRAID_COMM_H
#define BRAID_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/devcomm_v1.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BRAID_API __attribute__((visibility("default")))
#else
#define BRAID_API
#endif

struct braid_comm;
struct braid_window;

/*
 * How the ranks find each other: three callbacks over whatever the caller has (torch.distributed, MPI, threads of one process).
 * Called by collective functions only, on the calling thread.
 */
struct braid_bootstrap {
    void *context; /* passed back; owned by the caller, must live as long as the communicator */
    int (*rank)(void *context);
    int (*ranks)(void *context);
    /*
     * Gathers `bytes` bytes from every rank: rank i's `mine` lands at all + i * bytes on every rank. `mine` and `all` do not
     * overlap. Returns 0 or a negative errno number. Should itself be bounded; Braid cannot interrupt it.
     */
    int (*allgather)(void *context, const void *mine, void *all, size_t bytes);
};

/* Choices at creation. Fill with BRAID_COMM_CONFIG_INIT or braid_comm_config_init, then change fields. Equal on all ranks except
 * `device`. */
struct braid_comm_config {
    size_t size;       /* sizeof(struct braid_comm_config) */
    int device;        /* CUDA device ordinal; -1 = the calling thread's current one */
    uint32_t signals;  /* signal slots on each rank */
    uint32_t barriers; /* barrier slots: one for each CTA that uses barriers at the same time */
    uint32_t slots;    /* epoch slots */
    /* bound of one device wait; 0 = BRAID_DEVICE_TIMEOUT_MS, 60 s by default */
    uint64_t timeout_ns;
    /* where all 32-bit epochs start; tests set it just below the wrap. Normally 1 */
    uint32_t first_epoch;
    /* 0: fail with -EHOSTUNREACH unless all ranks reach each other by memory; 1: see braid_comm_reachable */
    uint32_t allow_partial;
};

#define BRAID_COMM_CONFIG_INIT                                                                     \
    {                                                                                              \
        sizeof(struct braid_comm_config), -1, 4096, 512, 256, 0, 1, 0                              \
    }

BRAID_API void braid_comm_config_init(struct braid_comm_config *config);

/*
 * Collective. Creates a communicator over the ranks of `bootstrap`; `config` may be NULL. At most BRAID_MAX_RANKS ranks.
 * Errors: -ENODEV no usable CUDA driver or GPU; -EINVAL bad argument or ranks disagree about `config`; -EHOSTUNREACH some ranks
 * cannot reach each other's GPU memory (the log says which pair and why); -EXDEV they could, but run in different containers
 * (network or PID namespaces differ) and fabric handles are not available; -ETIMEDOUT a rank stopped taking part; -ENOMEM.
 */
BRAID_API int braid_comm_create(struct braid_comm **comm_p, const struct braid_bootstrap *bootstrap,
                                const struct braid_comm_config *config);

/*
 * Collective. The same over the ranks of an ncclComm_t (any NCCL from 2.19), which serves as bootstrap only and may be used for
 * other things between Braid's collective calls; it must outlive the communicator. `nccl_library` is a handle of dlopen for the
 * NCCL that made it, or NULL: then the process's global symbols and libnccl.so.2 are searched. -ENOSYS when NCCL is not found.
 * A call waits for NCCL within timeout_ns; after -ETIMEDOUT the ncclComm_t has work that never ended: abort it.
 */
BRAID_API int braid_comm_create_nccl(struct braid_comm **comm_p, void *nccl_comm,
                                     void *nccl_library, const struct braid_comm_config *config);

/*
 * Not collective; waits for no peer. Sets the abort word, which ends all device waits of this rank; waits until the GPU is idle,
 * at most timeout_ns; frees the communicator and its windows. Peers keep what they have mapped until they destroy theirs.
 * Returns 0, or -ETIMEDOUT when kernels still run: then the device memory is leaked on purpose, because they may still use it.
 * NULL is allowed.
 */
BRAID_API int braid_comm_destroy(struct braid_comm *comm);

/* Ends all device waits of this rank, now and in the future: they return BRAID_DEV_ABORTED. Never blocks. Async-signal-safe. */
BRAID_API void braid_comm_abort(struct braid_comm *comm);

/*
 * The communicator's health: 0, or the status of the first failed device wait (BRAID_DEV_TIMEOUT, ...), described in *reason (may
 * be NULL); BRAID_DEV_ABORTED after braid_comm_abort, also when no wait has noticed it yet. Reads host memory only: no CUDA call,
 * usable while kernels run. After a failure the communicator is unusable and can only be destroyed; the process, the GPU and other
 * communicators are not affected.
 *
 * Collectives (braid/ops.h): a rank whose status is 0 when an operation has ended has its whole and right result, also when a peer gave
 * it up as too late: a rank that has failed tells nobody anything any more, in the operation that failed or in later ones (of its
 * streams, of captured graphs), so its peers get the right result of what it had told before, or a status of their own within their
 * bound. A rank can thus be one operation behind in learning that a peer has failed. The one thing that cannot be taken back are copies
 * by copy engines: BRAID_METHOD_ENGINE may overwrite a late peer's `out` before that peer has begun the operation, in which it then
 * fails; what was there until then is lost. The windows of a rank that has failed may still be written by peers that come later, until
 * they have failed or destroyed the communicator, too. Kernels of your own keep the same if they skip what tells a peer after a failed wait
 * (braid/device/wait.cuh); fused products have a status and a rule of their own (braid/gemm_ops.h).
 * Before a step counts as done on all ranks, let them exchange this status (the bootstrap will do), or let the rank that failed end
 * the job, as NCCL's users do.
 */
BRAID_API int braid_comm_error(const struct braid_comm *comm, struct braid_devcomm_error *reason);

/* One line about *reason for people: what was waited for, peer, expected, seen, how long. Returns `text`. */
BRAID_API const char *braid_comm_error_text(const struct braid_devcomm_error *reason, char *text,
                                            size_t bytes);

/* What kernels take, by value. Valid until braid_comm_destroy. */
BRAID_API const struct braid_devcomm *braid_comm_device(const struct braid_comm *comm);

BRAID_API int braid_comm_rank(const struct braid_comm *comm);
BRAID_API int braid_comm_ranks(const struct braid_comm *comm);

/* CUDA device ordinal of this rank's GPU. */
BRAID_API int braid_comm_gpu(const struct braid_comm *comm);

/* The road to `peer` (BRAID_ROAD_MEMORY, ...; to itself too), BRAID_ROAD_NONE when there is none. */
BRAID_API uint32_t braid_comm_reachable(const struct braid_comm *comm, int peer);

/* All ranks, and those that this one reaches by memory. */
BRAID_API struct braid_devteam braid_comm_world(const struct braid_comm *comm);
BRAID_API struct braid_devteam braid_comm_local(const struct braid_comm *comm);

/* Ranks on this rank's GPU (equal UUID), this one included, and which of them this is. */
BRAID_API int braid_comm_gpu_ranks(const struct braid_comm *comm);
BRAID_API int braid_comm_gpu_rank(const struct braid_comm *comm);

/* SMs that kernels of this rank may fill: the GPU's, divided by braid_comm_gpu_ranks. */
BRAID_API int braid_comm_sm_count(const struct braid_comm *comm);

/* Bound of one device wait, nanoseconds; kernels launched from now on use it (through braid_comm_device). */
BRAID_API uint64_t braid_comm_timeout_ns(const struct braid_comm *comm);
BRAID_API int braid_comm_set_timeout_ns(struct braid_comm *comm, uint64_t timeout_ns);

/*
 * Collective. A barrier of the hosts: all-gather of nothing. For setting up and tearing down, not for the data path.
 */
BRAID_API int braid_comm_sync(struct braid_comm *comm);

/*
 * Can `ctas` CTAs of kernel `function` (a CUfunction or cudaFunction_t: cudaGetFuncBySymbol) of `threads` threads and `shared_bytes`
 * dynamic shared memory be on this rank's SMs all at once? Kernels that wait for peers need that, or they starve the peer that they
 * wait for. 0; -EAGAIN when the launch is beyond this rank's share of the GPU; -EIO after a failure of the communicator; -EINVAL.
 * Loads the kernel if it is still lazily unloaded, because loading it later could wait for a kernel that spins: call it once before
 * the first launch, and not first while a stream is being captured.
 */
BRAID_API int braid_comm_check_launch(struct braid_comm *comm, void *function, unsigned ctas,
                                      unsigned threads, size_t shared_bytes);

/* The largest `ctas` that braid_comm_check_launch accepts; negative errno. */
BRAID_API int braid_comm_max_ctas(struct braid_comm *comm, void *function, unsigned threads,
                                  size_t shared_bytes);

/*
 * braid_comm_check_launch, then cuLaunchKernel of a one-dimensional grid on `stream` (CUstream or cudaStream_t; NULL = the legacy
 * stream). `arguments` as for cuLaunchKernel: pointers to the values. For callers without the <<<>>> syntax (C, ctypes).
 */
BRAID_API int braid_comm_launch(struct braid_comm *comm, void *function, unsigned ctas,
                                unsigned threads, size_t shared_bytes, void *stream,
                                void **arguments);

/*
 * Collective. A window of `bytes` (equal on all ranks, at least 1; rounded up to 16) from Braid's allocator: zeroed, aligned to the
 * allocation granularity (2 MiB), reachable by every rank that has a memory road. When it returns on one rank, all ranks may access
 * it.
 * Errors: -ENOMEM; -EINVAL ranks disagree about `bytes`; -ETIMEDOUT; -EIO after a failure of the communicator.
 */
BRAID_API int braid_window_alloc(struct braid_comm *comm, size_t bytes,
                                 struct braid_window **window_p);

/*
 * Collective. A window over `bytes` of memory that the caller owns, on the communicator's GPU.
 *   peers != NULL  the ranks already reach each other's memory (PyTorch symmetric memory's buffer_ptrs): peers[i] is the address
 *                  here of rank i's part, 0 if not reachable; peers[own rank] must be `pointer`
 *   peers == NULL  memory of cudaMalloc (or VMM memory exportable as a file descriptor), at any offset inside its allocation;
 *                  Braid exchanges CUDA IPC handles, or passes pointers inside one process. Ranks that only fabric handles reach
 *                  (other hosts, other containers) need VMM memory made for fabric handles
 * The memory is not zeroed and must stay allocated until every rank has freed the window.
 * Errors: as braid_window_alloc; -ENOTSUP the memory's kind cannot be shared this way, -EXDEV or -EHOSTUNREACH not with ranks
 * in other containers or on other hosts.
 */
BRAID_API int braid_window_register(struct braid_comm *comm, void *pointer, size_t bytes,
                                    const uint64_t *peers, struct braid_window **window_p);

/*
 * Not collective. Unmaps this rank's view of the peers and frees this rank's part (a peer process keeps what it has mapped; inside
 * one process the memory lives until the last rank has freed). No kernel of this rank may use the window any more; kernels of
 * peers may, until they free theirs. NULL is allowed. braid_comm_destroy frees what is left.
 */
BRAID_API void braid_window_free(struct braid_window *window);

/* What kernels take, by value. Valid until braid_window_free. */
BRAID_API const struct braid_devwin *braid_window_device(const struct braid_window *window);

/* Device address of `peer`'s part in this process (own rank: the local memory); NULL when not reachable. For copy engines and
 * stream memory operations. */
BRAID_API void *braid_window_address(const struct braid_window *window, int peer);

BRAID_API size_t braid_window_bytes(const struct braid_window *window);

#ifdef __cplusplus
}
#endif

#endif
