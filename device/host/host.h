/*
 * What the files of device/host share: the communicator and the window behind comm.h's opaque names.
 * Only device/host includes this. Threading: as comm.h says; the fields below `words` that other threads may read are set once.
 */
#ifndef BRAID_DEVICE_HOST_HOST_H
#define BRAID_DEVICE_HOST_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "braid/comm.h"
#include "braid/wire/device_hello_v1.h"
#include "device/host/driver.h"
#include "device/host/fdpass.h"
#include "device/host/segment.h"

/* How this rank gets at a peer's memory. */
enum braid_share {
    BRAID_SHARE_NONE = 0,
    BRAID_SHARE_SELF,
    BRAID_SHARE_PROCESS, /* same address space: the owner's address is good here */
    BRAID_SHARE_HANDLE,  /* file descriptor, fabric or IPC handle */
};

/* Pinned host memory that kernels look at. Abort word and error record are in lines of their own. */
struct braid_host_words {
    _Atomic uint32_t abort;
    uint32_t pad[31];
    struct braid_devcomm_error error;
};

/* One rank's memory, held by every rank of the process that uses it; the last one frees it. */
struct braid_shared_segment {
    _Atomic int references;
    int gpu;                      /* whose primary context it was made in */
    struct braid_segment segment; /* address 0: the memory is the caller's */
};

/* This rank's view of one peer's part of a window. */
struct braid_view {
    uint64_t address;                    /* 0 = not reachable */
    struct braid_segment segment;        /* mapped from a handle */
    uint64_t ipc;                        /* base opened by cuIpcOpenMemHandle, 0 = none */
    struct braid_shared_segment *shared; /* a reference held inside the process */
};

struct braid_window {
    struct braid_comm *comm;
    struct braid_window *next; /* in comm->windows */
    uint64_t bytes;
    uint64_t local;
    uint64_t table; /* GPU memory with all bases; 0 with few ranks */
    uint32_t serial;
    struct braid_view *views; /* [ranks]; the own one holds the reference to the own memory */
    struct braid_devwin device;
};

struct braid_comm {
    struct braid_bootstrap boot;
    struct braid_nccl_boot *nccl; /* owned, when made from an ncclComm_t */
    struct braid_comm_config config;
    const struct braid_cuda *cuda;
    void *context; /* retained primary context of gpu */
    void *stream;  /* for filling and copying small things; non-blocking */
    int rank, ranks, gpu;
    int gpu_ranks, gpu_rank, sm_count;
    int socket;      /* takes file descriptors; -1 = none */
    int handle_type; /* BRAID_CU_HANDLE_* of memory that Braid allocates */
    uint32_t next_serial;
    struct braid_hello *hello; /* [ranks] */
    uint8_t *share;            /* [ranks], enum braid_share */
    uint8_t *reach;            /* [ranks], BRAID_ROAD_* */
    struct braid_host_words *words;
    struct braid_window *control;
    struct braid_window *windows; /* all that are alive, the control window too */
    struct braid_devcomm device;
};

/* Makes the communicator's context current for the calling thread, and undoes it. */
int braid_comm_enter(struct braid_comm *comm);
void braid_comm_leave(struct braid_comm *comm);

/*
 * Collective: every rank brings its status, all get the same answer: 0, or the status of the lowest rank that failed (`who` says
 * which one, may be NULL). A bootstrap that fails gives its own error.
 */
int braid_comm_agree(struct braid_comm *comm, int status, int *who);

/* Collective: comm.h's braid_window_alloc, also for the control window. The context is current; status != 0 means that this rank
 * only takes part to let the others fail. */
int braid_window_make(struct braid_comm *comm, uint64_t bytes, int status,
                      struct braid_window **window_p);

/* Creates over comm->boot with config->device as GPU; on failure the communicator is freed. `nccl` becomes owned either way. */
int braid_comm_build(struct braid_comm **comm_p, const struct braid_bootstrap *bootstrap,
                     const struct braid_comm_config *config, struct braid_nccl_boot *nccl);

/* The given configuration with its defaults filled in. 0 or -EINVAL (logged). */
int braid_config_resolve(const struct braid_comm_config *given, struct braid_comm_config *config);

/* reach.c, collective: fills comm->share, comm->reach and comm->handle_type from the hellos. */
int braid_reach_settle(struct braid_comm *comm);

/* Fills hello with what this process and GPU are. */
int braid_identity_fill(const struct braid_cuda *cuda, int gpu, struct braid_hello *hello);

/* May rank i and j be reached over file descriptors? 0; -EXDEV in other containers of the same host; -EHOSTUNREACH elsewhere. */
int braid_identity_same_host(const struct braid_hello *a, const struct braid_hello *b);
bool braid_identity_same_process(const struct braid_hello *a, const struct braid_hello *b);

/* nccl.c */
int braid_nccl_boot_open(struct braid_nccl_boot **boot_p, void *nccl_comm, void *nccl_library,
                         uint64_t timeout_ns, struct braid_bootstrap *bootstrap, int *gpu_p);
void braid_nccl_boot_close(struct braid_nccl_boot *boot);

#endif
