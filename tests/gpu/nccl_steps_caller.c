/*
 * Plays NCCL for the profiler plugin nccl_steps, so that the plugin and nccl_steps.py are tested without a GPU.
 * Usage: nccl_steps_caller PLUGIN VERSION. Two communicators of one process are the two ranks; each operation has two steps each way, and
 * a message takes at least TRANSIT_US. Handles are used as NCCL uses them: those that are NULL are not reported on, a receive that the
 * network refuses is started again, and a handle may come from another process's plugin. What it leaves is judged by nccl_steps_test.sh.
 */
#include "nccl_steps_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS      2
#define CHANNELS   2
#define STEPS      2
#define OPERATIONS 3
#define TRANSIT_US 2000
#define GPU_US     1000
#define BYTES      4096

static struct {
    int version;
    const struct profiler_v4 *v4;
    const struct profiler_v5 *v5;
    int (*section)(const char *, int, int);
    void *context[RANKS];
    int mask[RANKS];
} plugin;

static void require(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "nccl_steps_caller: FAILED: version %d: %s\n", plugin.version, what);
    exit(1);
}

static void *begin(int rank, int type, struct profiler_event *e)
{
    void *handle = &plugin; /* must be overwritten */
    int rc;

    if (!(plugin.mask[rank] & type))
        return NULL;
    /* Version 4 leaves what is not its byte of the type undefined. */
    e->type = plugin.version == 4 ? (uint64_t)type | 0xabcd00u : (uint64_t)type;
    e->rank = rank;
    rc = plugin.v4 ? plugin.v4->start(plugin.context[rank], &handle, e)
                   : plugin.v5->start(plugin.context[rank], &handle, e);
    require(rc == 0 && handle != &plugin, "start");
    return handle;
}

static void state(void *handle, int state, size_t bytes)
{
    union profiler_state_args args = {.proxy_step.bytes = bytes};

    if (handle)
        require((plugin.v4 ? plugin.v4->record : plugin.v5->record)(handle, state, &args) == 0,
                "record");
}

static void end(void *handle)
{
    if (handle)
        require((plugin.v4 ? plugin.v4->stop : plugin.v5->stop)(handle) == 0, "stop");
}

static void proxy(int rank, const int *states, int count)
{
    struct profiler_event e = {0};
    void *handle = begin(rank, PROFILER_PROXY_CTRL, &e);

    for (int i = 0; i < count; i++)
        state(handle, states[i], 0);
    end(handle);
}

static void *begin_coll(int rank, int is_coll)
{
    static const char *const names[] = {"AllReduce", "Ring", "SIMPLE", "ncclFloat32", "Send"};
    struct profiler_event e = {0};

    if (!is_coll) {
        e.p2p.function = names[4];
        e.p2p.count = BYTES * CHANNELS / 4;
        e.p2p.datatype = names[3];
        e.p2p.channels = CHANNELS;
        return begin(rank, PROFILER_P2P, &e);
    }
    e.coll.function = names[0];
    e.coll.count = BYTES * CHANNELS / 4;
    e.coll.datatype = names[3];
    e.coll.channels = CHANNELS;
    e.coll.algorithm = names[1];
    e.coll.protocol = names[2];
    return begin(rank, PROFILER_COLL, &e);
}

static void *begin_op(int rank, void *parent, int channel, int is_send)
{
    struct profiler_event e = {.parent = parent,
                               .proxy_op = {.process = getpid(),
                                            .channel = (uint8_t)channel,
                                            .peer = 1 - rank,
                                            .steps = STEPS,
                                            .chunk_bytes = BYTES,
                                            .is_send = is_send}};
    void *handle = begin(rank, PROFILER_PROXY_OP, &e);

    state(handle, PROFILER_OP_IN_PROGRESS, 0);
    return handle;
}

static void *begin_step(int rank, void *op, int step)
{
    struct profiler_event e = {.parent = op, .proxy_step = {.step = step}};

    return begin(rank, PROFILER_PROXY_STEP, &e);
}

/* One operation: every channel sends and receives a message a step on both ranks at once. */
static void operation(int is_coll)
{
    void *ops[RANKS][CHANNELS][2];
    void *steps[RANKS][CHANNELS][2];
    void *colls[RANKS];

    for (int r = 0; r < RANKS; r++) {
        colls[r] = begin_coll(r, is_coll);
        end(colls[r]);
        proxy(r, (const int[]){PROFILER_CTRL_SLEEP, PROFILER_CTRL_WAKEUP}, 2);
        proxy(r, (const int[]){PROFILER_CTRL_APPEND, PROFILER_CTRL_APPEND_END}, 2);
        proxy(r, (const int[]){PROFILER_CTRL_ACTIVE}, 1);
        for (int c = 0; c < CHANNELS; c++)
            for (int way = 0; way < 2; way++)
                ops[r][c][way] = begin_op(r, colls[r], c, way);
    }
    for (int s = 0; s < STEPS; s++) {
        for (int r = 0; r < RANKS; r++)
            for (int c = 0; c < CHANNELS; c++) {
                steps[r][c][1] = begin_step(r, ops[r][c][1], s);
                state(steps[r][c][1], PROFILER_SEND_GPU_WAIT, 0);
                steps[r][c][0] = begin_step(r, ops[r][c][0], s);
                /* The network refuses; NCCL comes again with the same step. */
                steps[r][c][0] = begin_step(r, ops[r][c][0], s);
                state(steps[r][c][0], PROFILER_RECV_WAIT, 0);
            }
        usleep(GPU_US);
        for (int r = 0; r < RANKS; r++)
            for (int c = 0; c < CHANNELS; c++) {
                state(steps[r][c][1], PROFILER_SEND_PEER_WAIT, 0);
                state(steps[r][c][1], PROFILER_SEND_PEER_WAIT, 0);
                state(steps[r][c][1], PROFILER_SEND_WAIT, BYTES);
            }
        usleep(TRANSIT_US);
        for (int r = 0; r < RANKS; r++)
            for (int c = 0; c < CHANNELS; c++) {
                state(steps[r][c][0], PROFILER_RECV_FLUSH_WAIT, BYTES);
                state(steps[r][c][0], PROFILER_RECV_GPU_WAIT, BYTES);
                end(steps[r][c][1]);
                end(steps[r][c][0]);
            }
    }
    for (int r = 0; r < RANKS; r++) {
        proxy(r, (const int[]){PROFILER_CTRL_IDLE}, 1);
        for (int c = 0; c < CHANNELS; c++)
            for (int way = 0; way < 2; way++)
                end(ops[r][c][way]);
    }
}

static void kernel(int rank, void *parent, int number)
{
    struct profiler_event e = {
        .parent = parent, .kernel_ch = {.channel = 0, .ticks = (uint64_t)number * 10000 + 1000}};
    union profiler_state_args args = {.kernel_ch.ticks = (uint64_t)number * 10000 + 8000};
    void *handle = begin(rank, PROFILER_KERNEL_CH, &e);

    if (!handle)
        return;
    (plugin.v4 ? plugin.v4->record : plugin.v5->record)(handle, PROFILER_KERNEL_CH_STOP, &args);
    end(handle);
}

/* Events with parents that are nobody's, and functions that get nothing. */
static void oddities(void)
{
    struct profiler_event e = {.type = 1};
    void *handle = &plugin;

    (plugin.v4 ? plugin.v4->start : plugin.v5->start)(plugin.context[0], &handle, &e);
    require(handle == NULL, "an event that was not asked for has no handle");
    require(begin_step(0, NULL, 0) == NULL, "a step without an operation");
    require(begin_step(0, &plugin, 0) == NULL, "a step of a foreign operation");
    end(begin_op(0, &plugin, 1, 1));
    require((plugin.v4 ? plugin.v4->stop : plugin.v5->stop)(NULL) == 0, "stop of nothing");
    require((plugin.v4 ? plugin.v4->record : plugin.v5->record)(NULL, 8, NULL) == 0, "record");
}

static void start_plugin(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    char name[32];
    void *table;

    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    require(library != NULL, "dlopen");
    snprintf(name, sizeof(name), "ncclProfiler_v%d", plugin.version);
    table = dlsym(library, name);
    require(table != NULL, name);
    *(void **)&plugin.section = dlsym(library, "nccl_steps_section");
    require(plugin.section != NULL, "nccl_steps_section");
    require(plugin.section("none", 1, 1) == 0, "no communicator yet");
    plugin.v4 = plugin.version == 4 ? table : NULL;
    plugin.v5 = plugin.version == 4 ? NULL : table;
    for (int r = 0; r < RANKS; r++) {
        int rc =
            plugin.v4
                ? plugin.v4->init(&plugin.context[r], &plugin.mask[r], NULL, 7, 2, RANKS, r, NULL)
                : plugin.v5->init(&plugin.context[r], 7, &plugin.mask[r], NULL, 2, RANKS, r, NULL);

        require(rc == 0 && plugin.context[r], "init");
        require(plugin.mask[r] == 0, "nothing is asked for outside of sections");
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    plugin.version = atoi(argv[2]);
    setenv("NCCL_STEPS_SECTIONS", "1", 1);
    start_plugin(argv[1]);
    operation(1);
    require(plugin.section("all_reduce/1", 1, OPERATIONS) == RANKS, "two communicators");
    require(plugin.mask[0] == plugin.mask[1] && plugin.mask[0] & PROFILER_PROXY_STEP, "the mask");
    require(!(plugin.mask[0] & PROFILER_KERNEL_CH), "kernels are not asked for");
    for (int i = 0; i < OPERATIONS; i++)
        operation(1);
    require(plugin.section("", 0, 0) == RANKS && plugin.mask[0] == 0, "the end of a section");
    operation(1);
    plugin.section("all_reduce/1/kernels", 2, OPERATIONS);
    require(plugin.mask[0] & PROFILER_KERNEL_CH, "kernels are asked for");
    for (int i = 0; i < OPERATIONS; i++)
        for (int r = 0; r < RANKS; r++) {
            void *coll = begin_coll(r, 1);

            kernel(r, coll, i);
            end(coll);
        }
    plugin.section("all_reduce/2", 1, OPERATIONS);
    for (int i = 0; i < OPERATIONS; i++)
        operation(0);
    plugin.section("odd", 1, 1);
    oddities();
    for (int r = 0; r < RANKS; r++)
        require((plugin.v4 ? plugin.v4->finalize : plugin.v5->finalize)(plugin.context[r]) == 0,
                "finalize");
    require(plugin.mask[0] == 0, "nothing is asked for after the end");
    return 0;
}
