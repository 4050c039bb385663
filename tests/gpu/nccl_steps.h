/*
 * What nccl_steps (NCCL's profiler plugin of these tests) keeps: one record for every collective, proxy operation, proxy step and
 * kernel of a channel, with the times at which it changed its state, and sums of what the proxy thread did. nccl_steps.c fills them,
 * nccl_steps_out.c writes them when the communicator ends. Times are CLOCK_MONOTONIC in ns, so those of two ranks on one host
 * can be compared; nccl_steps.py does so.
 */
#ifndef NCCL_STEPS_H
#define NCCL_STEPS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define STEPS_SECTIONS 64
#define STEPS_CASES    64
#define STEPS_CHANNELS 64
#define STEPS_RECORDS  (1u << 21)
#define STEPS_SLOTS    8 /* NCCL has at most so many steps of an operation under way */

enum steps_kind { STEPS_COLL = 1, STEPS_OP, STEPS_STEP, STEPS_KERNEL };

/* Index into `at`; an interval is named for its beginning. */
enum {
    COLL_START = 0,
    COLL_STOP = 1,
    OP_START = 0,
    OP_PROGRESS = 1,
    OP_STOP = 2,
    OP_NEWEST = 3,   /* index of the step that was started last */
    STEP_START = 0,  /* NCCL wants to give a buffer to the GPU (send) or to the network (receive) */
    STEP_POSTED = 1, /* it did: the GPU may write (send), the network took the receive */
    /* the GPU has written and isend is called (send); the network has delivered (receive) */
    STEP_READY = 2,
    STEP_HANDED = 3, /* isend took it (send); the GPU may read (receive) */
    STEP_DONE = 4,   /* the network says that it is sent (send); the GPU has read (receive) */
    KERNEL_SEEN_START = 0,
    KERNEL_SEEN_STOP = 1,
    KERNEL_START = 2, /* by the GPU's clock */
    KERNEL_STOP = 3,
};

/* The file's form too: little-endian, no padding. Records are never used twice. */
struct steps_record {
    uint8_t kind;
    uint8_t is_send;
    uint16_t section;
    uint16_t channel; /* STEPS_COLL: how many */
    uint16_t step;    /* STEPS_OP: how many */
    uint32_t parent;  /* a record's index, 0: none; STEPS_COLL: index of the case */
    uint32_t bytes;   /* STEPS_OP: the largest step */
    uint64_t at[5];
};
_Static_assert(sizeof(struct steps_record) == 56, "nccl_steps.py reads this");

/* A stretch of the run with a name, between two calls of nccl_steps_section(). */
struct steps_section {
    char label[48];
    int what;
    int operations; /* how many the caller runs in it, 0: not said */
    uint64_t begin;
    uint64_t end;
    uint64_t idle_ns; /* the proxy thread found nothing to do, asleep or polling */
    uint64_t sleep_ns;
    uint64_t append_ns;
    uint64_t idles;
    uint64_t sleeps;
    uint64_t appends;
};

struct steps_case {
    const void *function; /* NCCL's strings, compared by address */
    const void *algorithm;
    const void *protocol;
    uint64_t count;
    int channels;
    char name[96];
};

struct steps_context {
    uint8_t kind; /* 0: a handle that points here is the proxy thread's own */
    struct steps_context *next;
    int *mask; /* NCCL's; what it reports */
    int version;
    int rank;
    int ranks;
    int number; /* of this communicator among those of this rank in this process */
    uint64_t comm_id;
    struct steps_record *records;
    atomic_uint count;
    atomic_uint lost;
    atomic_uint section;   /* the current one */
    pthread_mutex_t mutex; /* sections, cases and what is below */
    uint64_t idle_since;   /* 0: active */
    uint64_t sleep_since;
    uint64_t append_since;
    int sections;
    int cases;
    struct steps_section section_list[STEPS_SECTIONS];
    struct steps_case case_list[STEPS_CASES];
};

/* Writes the table, the rows and the records; nccl_steps.c calls it once, when nothing is reported any more. */
void steps_write(struct steps_context *context);

/*
 * Begins a section of that name for all communicators of this process, or ends the last one (`what` 0). `what` 1: operations, steps and
 * the proxy thread; 2: kernels too. Programs find it with dlsym in the plugin that NCCL has loaded; without any call
 * all goes into one section, unless NCCL_STEPS_SECTIONS=1.
 */
int nccl_steps_section(const char *label, int what, int operations);

#endif
