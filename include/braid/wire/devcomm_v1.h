/*
 * Layout of a device communicator and of its windows, version 1: written by libbraid (host), read by kernels.
 * Fixed width, no functions. Pointers are 64-bit addresses so that every compiler agrees on the layout; the device headers
 * turn them into pointers. Kernels receive struct braid_devcomm and struct braid_devwin by value, declared
 * `const __grid_constant__`, so that their fields are constant-bank reads.
 *
 * Memory behind the addresses:
 *   control window   one a rank, symmetric, in GPU memory: signals, barrier inboxes (written by peers), and after them the
 *                    words only this GPU uses (what was consumed, barrier epochs, epoch slots, struct braid_devcomm_state)
 *   host words       pinned host memory: the abort word (host writes) and struct braid_devcomm_error (GPU writes once)
 * Included by: device headers, device/host, tests. Includes nothing of Braid.
 */
#ifndef BRAID_WIRE_DEVCOMM_V1_H
#define BRAID_WIRE_DEVCOMM_V1_H

#if defined(__CUDACC_RTC__)
/* NVRTC has no <stdint.h>. Define BRAID_HAVE_STDINT when your source brings these names itself. */
#ifndef BRAID_HAVE_STDINT
typedef signed int int32_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned long long uintptr_t;
#endif
#else
#include <stdint.h>
#endif

#if defined(__cplusplus)
#define BRAID_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define BRAID_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

/* NVRTC cannot name offsets; it shares the sizes, and the offsets with nvcc. */
#if defined(__CUDACC_RTC__)
#define BRAID_OFFSET_ASSERT(type, member, offset) BRAID_STATIC_ASSERT(1, "")
#else
#define BRAID_OFFSET_ASSERT(type, member, offset)                                                  \
    BRAID_STATIC_ASSERT(__builtin_offsetof(struct type, member) == offset, #type "." #member)
#endif

#define BRAID_DEVCOMM_VERSION 1u
#define BRAID_INLINE_PEERS    8u  /* peers whose window base travels in the kernel's parameters */
#define BRAID_MAX_RANKS       128 /* ranks of one device communicator */
/* a wait that polls one word leaves its loop for the cold path once in so many polls */
#define BRAID_WAIT_POLLS 64

/* What a wait, a barrier or a packet read returns. The values are negative Linux errno numbers. */
#define BRAID_DEV_OK      0
#define BRAID_DEV_INVALID (-22)  /* an argument is out of range (only with BRAID_DEVICE_CHECKS) */
#define BRAID_DEV_TIMEOUT (-110) /* the bound passed */
#define BRAID_DEV_ABORTED (-125) /* the host set the abort word */

/* Roads: how a peer is reached. Only the memory road is implemented; the others have their numbers. */
#define BRAID_ROAD_NONE   0u
#define BRAID_ROAD_MEMORY 1u /* loads and stores: NVLink, PCIe peer memory, the same GPU */
#define BRAID_ROAD_NIC    2u /* work queue that the GPU drives */
#define BRAID_ROAD_PROXY  3u /* queue that a CPU thread drains */

/* What a wait was waiting for. */
#define BRAID_WAIT_NONE    0u
#define BRAID_WAIT_SIGNAL  1u /* index = signal slot */
#define BRAID_WAIT_WORD    2u /* index = byte offset in the window / 4 */
#define BRAID_WAIT_BARRIER 3u /* index = barrier slot, peer = the rank that did not come */
#define BRAID_WAIT_PACKET  4u /* index = packet */
#define BRAID_WAIT_TILE    5u /* index = tile */
#define BRAID_WAIT_CHUNK   6u /* collectives: index = chunk of the peer's data */
#define BRAID_WAIT_RESULT  7u /* collectives: index = chunk of the peer's result */
/* collectives: the peer has not begun, or (BRAID_DEV_INVALID) works on another size */
#define BRAID_WAIT_BEGIN  8u
#define BRAID_WAIT_ENGINE 9u  /* an operation by copy engines; found by the host */
#define BRAID_WAIT_USER   16u /* from here on: a kernel author's own waits */

/* How a signal changes its word. */
#define BRAID_SIGNAL_ADD 0u
#define BRAID_SIGNAL_SET 1u

/* The first failed wait of a communicator; pinned host memory. `status` is written last, with release at system scope. */
struct braid_devcomm_error {
    int32_t status;     /* BRAID_DEV_TIMEOUT, ...; 0 = nothing failed */
    uint32_t wait;      /* BRAID_WAIT_* */
    int32_t peer;       /* the rank that was waited for, -1 when any rank could have come */
    uint32_t index;     /* which signal, barrier, packet or tile, see BRAID_WAIT_* */
    uint64_t expected;  /* the value that would have ended the wait */
    uint64_t seen;      /* the value at the last poll */
    uint64_t waited_ns; /* from the wait's first look at the clock to the end */
    uint32_t block;     /* blockIdx.x of the wait */
    uint32_t thread;    /* threadIdx.x of the polling lane */
    uint32_t reserved[4];
};
BRAID_STATIC_ASSERT(sizeof(struct braid_devcomm_error) == 64, "error record is one line");

/* Words of this GPU alone, in device memory. */
struct braid_devcomm_state {
    int32_t error; /* sticky: the status of the first failed wait; waits end early once it is set */
    uint32_t claim;   /* taken by the thread that writes the error record */
    uint32_t looking; /* 1 while a warp looks at the clock and at the abort word */
    uint32_t reserved[29];
};
BRAID_STATIC_ASSERT(sizeof(struct braid_devcomm_state) == 128, "state is one GPU cache line");

/* An epoch slot: one counter for all CTAs of a kernel, advanced by the last one. Device memory of this GPU. */
struct braid_devslot {
    uint32_t epoch;   /* of the operation in progress; the first one is 1 */
    uint32_t arrived; /* CTAs of this operation that are done */
};
BRAID_STATIC_ASSERT(sizeof(struct braid_devslot) == 8, "epoch slot");

/* Some ranks of a communicator: rank i of the team is world rank first + i * stride. */
struct braid_devteam {
    int32_t rank; /* this rank inside the team */
    int32_t ranks;
    int32_t first;
    int32_t stride;
};
BRAID_STATIC_ASSERT(sizeof(struct braid_devteam) == 16, "team");

/* A window: the same number of bytes on every rank, each reachable by every peer that has a road. */
struct braid_devwin {
    uint64_t bytes;
    uint32_t ranks;
    uint32_t serial; /* number of the window in its communicator, equal on all ranks */
    uint64_t local;  /* this rank's memory */
    /* const uint64_t[ranks] in GPU memory: each rank's base here; 0 = no memory road */
    uint64_t table;
    uint64_t keys; /* for the NIC road; 0 now */
    uint64_t reserved[3];
    uint64_t base[BRAID_INLINE_PEERS]; /* the first entries of the table */
};
BRAID_STATIC_ASSERT(sizeof(struct braid_devwin) == 128, "window");

/* A device communicator. */
struct braid_devcomm {
    uint32_t version; /* BRAID_DEVCOMM_VERSION */
    uint32_t bytes;   /* sizeof(struct braid_devcomm) of the library that filled it */
    struct braid_devteam world;
    struct braid_devteam local; /* the ranks that this one reaches by memory, itself included */

    uint64_t timeout_ns; /* bound of one wait */
    uint64_t abort;      /* uint32_t in pinned host memory: nonzero ends every wait */
    uint64_t error;      /* struct braid_devcomm_error in pinned host memory */
    uint64_t state;      /* struct braid_devcomm_state */

    uint64_t signals; /* uint64_t[signal_count], written by peers; local view */
    /* uint64_t[signal_count]: how much of each signal braid_take_signal has consumed */
    uint64_t consumed;
    /* uint32_t[barrier_count][inbox_stride], written by peers; local view */
    uint64_t barrier_inbox;
    uint64_t barrier_epochs; /* uint32_t[barrier_count] */
    uint64_t slots;          /* struct braid_devslot[slot_count] */

    uint32_t signal_count;
    uint32_t barrier_count;
    uint32_t slot_count;
    uint32_t inbox_stride;   /* words a barrier: ranks rounded up to 32 */
    uint32_t signals_offset; /* of the signals in the control window, in bytes */
    uint32_t inbox_offset;   /* of the barrier inboxes in the control window, in bytes */
    /* SMs of this GPU that this rank may fill; less than all when ranks share the GPU */
    uint32_t sm_count;
    uint32_t roads; /* bit 1 << BRAID_ROAD_* for every kind that some peer needs */

    uint64_t peers; /* for the NIC and proxy roads; 0 now */
    uint64_t reserved[2];
    struct braid_devwin control;
};
BRAID_STATIC_ASSERT(sizeof(struct braid_devcomm) == 296, "communicator");
BRAID_OFFSET_ASSERT(braid_devcomm, timeout_ns, 40);
BRAID_OFFSET_ASSERT(braid_devcomm, signals, 72);
BRAID_OFFSET_ASSERT(braid_devcomm, signal_count, 112);
BRAID_OFFSET_ASSERT(braid_devcomm, peers, 144);
BRAID_OFFSET_ASSERT(braid_devcomm, control, 168);
BRAID_OFFSET_ASSERT(braid_devwin, base, 64);

#endif
