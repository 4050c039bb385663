/*
 * NCCL's profiler interface as far as nccl_steps uses it: versions 4 (NCCL 2.27), 5 (2.28, 2.29) and 6 (2.30). Own declarations of a
 * public binary interface; the offsets below were compared with the headers of 2.27.7, 2.28.9 and 2.30.7 on x86-64. Version 4 has one
 * byte where later ones have eight for the type, and no parent_group; version 6 only adds kinds of events that are not asked for here.
 */
#ifndef NCCL_STEPS_ABI_H
#define NCCL_STEPS_ABI_H

#include <stddef.h>
#include <stdint.h>

enum profiler_event_type {
    PROFILER_COLL = 1 << 1,
    PROFILER_P2P = 1 << 2,
    PROFILER_PROXY_OP = 1 << 3,
    PROFILER_PROXY_STEP = 1 << 4,
    PROFILER_PROXY_CTRL = 1 << 5,
    PROFILER_KERNEL_CH = 1 << 6,
};

enum profiler_state {
    PROFILER_SEND_GPU_WAIT = 8,
    PROFILER_SEND_WAIT = 9,
    PROFILER_RECV_WAIT = 10,
    PROFILER_RECV_FLUSH_WAIT = 11,
    PROFILER_RECV_GPU_WAIT = 12,
    PROFILER_CTRL_IDLE = 13,
    PROFILER_CTRL_ACTIVE = 14,
    PROFILER_CTRL_SLEEP = 15,
    PROFILER_CTRL_WAKEUP = 16,
    PROFILER_CTRL_APPEND = 17,
    PROFILER_CTRL_APPEND_END = 18,
    PROFILER_OP_IN_PROGRESS = 19,
    PROFILER_SEND_PEER_WAIT = 20,
    PROFILER_KERNEL_CH_STOP = 22,
};

/* Of versions 5 and 6; in version 4 only the lowest byte of `type` counts, the rest of that word is padding. */
struct profiler_event {
    uint64_t type;
    void *parent; /* the handle that the plugin gave for the event above this one */
    int rank;
    union {
        struct {
            uint64_t sequence;
            const char *function;
            const void *send;
            void *recv;
            size_t count;
            int root;
            const char *datatype;
            uint8_t channels;
            uint8_t warps;
            const char *algorithm;
            const char *protocol;
            void *parent_group; /* not in version 4 */
        } coll;
        struct {
            const char *function;
            void *buffer;
            const char *datatype;
            size_t count;
            int peer;
            uint8_t channels;
            void *parent_group; /* not in version 4 */
        } p2p;
        struct {
            int process; /* that launched it; its handles are those of another process's plugin if it is not this one */
            uint8_t channel;
            int peer;
            int steps;
            int chunk_bytes;
            int is_send;
        } proxy_op;
        struct {
            int step;
        } proxy_step;
        struct {
            uint8_t channel;
            uint64_t ticks; /* the GPU's clock in ns when the kernel began on this channel */
        } kernel_ch;
    };
};

union profiler_state_args {
    struct {
        size_t bytes;
    } proxy_step;
    struct {
        int appended;
    } proxy_ctrl;
    struct {
        uint64_t ticks;
    } kernel_ch;
};

typedef void (*profiler_log)(int level, unsigned long flags, const char *file, int line,
                             const char *format, ...);

struct profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_id, int nodes,
                int ranks, int rank, profiler_log log);
    int (*start)(void *context, void **handle, struct profiler_event *event);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, union profiler_state_args *args);
    int (*finalize)(void *context);
};

/* Version 6 has the same functions. */
struct profiler_v5 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes,
                int ranks, int rank, profiler_log log);
    int (*start)(void *context, void **handle, struct profiler_event *event);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, union profiler_state_args *args);
    int (*finalize)(void *context);
};

#define PROFILER_AT(field, offset)                                                                 \
    _Static_assert(offsetof(struct profiler_event, field) == (offset), #field)
PROFILER_AT(parent, 8);
PROFILER_AT(rank, 16);
PROFILER_AT(coll.sequence, 24);
PROFILER_AT(coll.function, 32);
PROFILER_AT(coll.send, 40);
PROFILER_AT(coll.recv, 48);
PROFILER_AT(coll.count, 56);
PROFILER_AT(coll.root, 64);
PROFILER_AT(coll.datatype, 72);
PROFILER_AT(coll.channels, 80);
PROFILER_AT(coll.warps, 81);
PROFILER_AT(coll.algorithm, 88);
PROFILER_AT(coll.protocol, 96);
PROFILER_AT(coll.parent_group, 104);
PROFILER_AT(p2p.function, 24);
PROFILER_AT(p2p.buffer, 32);
PROFILER_AT(p2p.datatype, 40);
PROFILER_AT(p2p.count, 48);
PROFILER_AT(p2p.peer, 56);
PROFILER_AT(p2p.channels, 60);
PROFILER_AT(p2p.parent_group, 64);
PROFILER_AT(proxy_op.process, 24);
PROFILER_AT(proxy_op.channel, 28);
PROFILER_AT(proxy_op.peer, 32);
PROFILER_AT(proxy_op.steps, 36);
PROFILER_AT(proxy_op.chunk_bytes, 40);
PROFILER_AT(proxy_op.is_send, 44);
PROFILER_AT(proxy_step.step, 24);
PROFILER_AT(kernel_ch.channel, 24);
PROFILER_AT(kernel_ch.ticks, 32);
#undef PROFILER_AT
_Static_assert(sizeof(struct profiler_event) == 112, "version 5");
_Static_assert(sizeof(union profiler_state_args) == 8, "versions 4 to 6");
_Static_assert(sizeof(struct profiler_v4) == 48 && sizeof(struct profiler_v5) == 48, "six words");

#endif
