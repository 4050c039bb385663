/*
 * A profiler plugin for NCCL (NCCL_PROFILER_PLUGIN): where the time of a network transfer goes, over any transport. NCCL's proxy
 * thread reports each change of a step's state, this file notes the time. NCCL_STEPS_FILE is the beginning of the names of
 * the files that each communicator leaves at its end; without it only a table on stdout. Called by the threads that launch
 * collectives and by one proxy thread a communicator; a record belongs to the one thread that reports it.
 */
#include "nccl_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "nccl_steps_abi.h"

#define EXPORTED __attribute__((visibility("default")))

static pthread_mutex_t contexts_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct steps_context *contexts;
static int contexts_made[256]; /* of each rank */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int mask_of(int what)
{
    int mask = PROFILER_COLL | PROFILER_P2P | PROFILER_PROXY_OP | PROFILER_PROXY_STEP |
               PROFILER_PROXY_CTRL;

    return what == 0 ? 0 : what == 1 ? mask : mask | PROFILER_KERNEL_CH;
}

static struct steps_section *current(struct steps_context *c)
{
    return &c->section_list[atomic_load_explicit(&c->section, memory_order_relaxed)];
}

static void close_section(struct steps_context *c, uint64_t now)
{
    struct steps_section *s = current(c);

    if (s->end || !s->begin)
        return;
    if (c->idle_since)
        s->idle_ns += now - c->idle_since;
    if (c->sleep_since)
        s->sleep_ns += now - c->sleep_since;
    s->end = now;
}

/* Section 0 takes what is not asked for, and what finds no room. */
static void open_section(struct steps_context *c, const char *label, int what, int operations)
{
    uint64_t now = now_ns();
    int index = what && c->sections < STEPS_SECTIONS ? c->sections++ : 0;

    close_section(c, now);
    atomic_store(&c->section, (unsigned)index);
    if (index) {
        struct steps_section *s = current(c);

        *s = (struct steps_section){.what = what, .operations = operations, .begin = now};
        snprintf(s->label, sizeof(s->label), "%s", label);
        /* Nothing is under way between sections, so the proxy thread sleeps. */
        c->idle_since = now;
        c->sleep_since = now;
    }
    __atomic_store_n(c->mask, index ? mask_of(what) : 0, __ATOMIC_RELAXED);
}

EXPORTED int nccl_steps_section(const char *label, int what, int operations)
{
    int told = 0;

    pthread_mutex_lock(&contexts_mutex);
    for (struct steps_context *c = contexts; c; c = c->next, told++) {
        pthread_mutex_lock(&c->mutex);
        open_section(c, label, what, operations);
        pthread_mutex_unlock(&c->mutex);
    }
    pthread_mutex_unlock(&contexts_mutex);
    return told;
}

static int init(void **context, int version, uint64_t comm_id, int *mask, int ranks, int rank)
{
    const char *sections = getenv("NCCL_STEPS_SECTIONS");
    struct steps_context *c = calloc(1, sizeof(*c));

    if (!c)
        return 1;
    c->records = mmap(NULL, STEPS_RECORDS * sizeof(*c->records), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->records == MAP_FAILED) {
        free(c);
        return 1;
    }
    pthread_mutex_init(&c->mutex, NULL);
    c->mask = mask;
    c->version = version;
    c->rank = rank;
    c->ranks = ranks;
    c->comm_id = comm_id;
    c->sections = 1;
    atomic_store(&c->count, 1);
    open_section(c, "all", sections && strcmp(sections, "1") == 0 ? 0 : 1, 0);
    pthread_mutex_lock(&contexts_mutex);
    c->number = contexts_made[rank & 255]++;
    c->next = contexts;
    contexts = c;
    pthread_mutex_unlock(&contexts_mutex);
    *context = c;
    return 0;
}

static int init_v4(void **context, int *mask, const char *comm_name, uint64_t comm_id, int nodes,
                   int ranks, int rank, profiler_log log)
{
    (void)comm_name, (void)nodes, (void)log;
    return init(context, 4, comm_id, mask, ranks, rank);
}

static int init_v5(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes,
                   int ranks, int rank, profiler_log log)
{
    (void)comm_name, (void)nodes, (void)log;
    return init(context, 5, comm_id, mask, ranks, rank);
}

static int init_v6(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes,
                   int ranks, int rank, profiler_log log)
{
    (void)comm_name, (void)nodes, (void)log;
    return init(context, 6, comm_id, mask, ranks, rank);
}

static int finalize(void *context)
{
    struct steps_context *c = context;

    if (!c)
        return 0;
    pthread_mutex_lock(&contexts_mutex);
    for (struct steps_context **at = &contexts; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&contexts_mutex);
    pthread_mutex_lock(&c->mutex);
    open_section(c, "", 0, 0);
    pthread_mutex_unlock(&c->mutex);
    steps_write(c);
    munmap(c->records, STEPS_RECORDS * sizeof(*c->records));
    pthread_mutex_destroy(&c->mutex);
    free(c);
    return 0;
}

static struct steps_record *new_record(struct steps_context *c, uint8_t kind, uint32_t parent)
{
    unsigned index = atomic_fetch_add_explicit(&c->count, 1, memory_order_relaxed);
    struct steps_record *r;

    if (index >= STEPS_RECORDS) {
        atomic_fetch_sub_explicit(&c->count, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->lost, 1, memory_order_relaxed);
        return NULL;
    }
    r = &c->records[index];
    r->kind = kind;
    r->section = (uint16_t)atomic_load_explicit(&c->section, memory_order_relaxed);
    r->parent = parent;
    r->at[0] = now_ns();
    return r;
}

/* Index of the record that NCCL names as parent; 0 for none, or where the handle is that of another process's plugin. */
static uint32_t index_of(const struct steps_context *c, const void *handle)
{
    uintptr_t at = (uintptr_t)handle - (uintptr_t)c->records;

    if (!handle || at >= STEPS_RECORDS * sizeof(*c->records) || at % sizeof(*c->records) != 0)
        return 0;
    return (uint32_t)(at / sizeof(*c->records));
}

static int bytes_of_type(const char *name)
{
    static const struct {
        const char *end;
        int bytes;
    } types[] = {{"64", 8},     {"Double", 8}, {"32", 4},   {"Int", 4},   {"Float", 4},
                 {"loat16", 2}, {"Half", 2},   {"Int8", 1}, {"Uint8", 1}, {"Char", 1}};
    size_t length = name ? strlen(name) : 0;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        size_t end = strlen(types[i].end);

        if (length >= end && strcmp(name + length - end, types[i].end) == 0)
            return types[i].bytes;
    }
    return 1;
}

static uint32_t case_of(struct steps_context *c, const struct steps_case *wanted,
                        const char *datatype)
{
    uint32_t i;

    pthread_mutex_lock(&c->mutex);
    for (i = 0; i < (uint32_t)c->cases; i++) {
        const struct steps_case *k = &c->case_list[i];

        if (k->function == wanted->function && k->count == wanted->count &&
            k->algorithm == wanted->algorithm && k->protocol == wanted->protocol &&
            k->channels == wanted->channels)
            break;
    }
    if (i == (uint32_t)c->cases && i < STEPS_CASES) {
        struct steps_case *k = &c->case_list[c->cases++];
        const char *algorithm = wanted->algorithm;
        const char *protocol = wanted->protocol;

        *k = *wanted;
        snprintf(k->name, sizeof(k->name), "%s/%llu%s%s%s%s/%dch", (const char *)k->function,
                 (unsigned long long)k->count * (unsigned)bytes_of_type(datatype),
                 algorithm ? "/" : "", algorithm ? algorithm : "", protocol ? "/" : "",
                 protocol ? protocol : "", k->channels);
    }
    pthread_mutex_unlock(&c->mutex);
    return i < STEPS_CASES ? i : STEPS_CASES - 1;
}

static struct steps_record *start_coll(struct steps_context *c, const struct profiler_event *e,
                                       int is_coll)
{
    struct steps_case k = {.function = is_coll ? e->coll.function : e->p2p.function,
                           .count = is_coll ? e->coll.count : e->p2p.count,
                           .channels = is_coll ? e->coll.channels : e->p2p.channels};
    struct steps_record *r;

    if (!k.function)
        return NULL;
    if (is_coll) {
        k.algorithm = e->coll.algorithm;
        k.protocol = e->coll.protocol;
    }
    r = new_record(c, STEPS_COLL, case_of(c, &k, is_coll ? e->coll.datatype : e->p2p.datatype));
    if (r)
        r->channel = (uint16_t)k.channels;
    return r;
}

static struct steps_record *start_op(struct steps_context *c, const struct profiler_event *e)
{
    struct steps_record *r = new_record(c, STEPS_OP, index_of(c, e->parent));

    if (!r)
        return NULL;
    r->channel = e->proxy_op.channel;
    r->is_send = e->proxy_op.is_send != 0;
    r->step = (uint16_t)e->proxy_op.steps;
    r->bytes = (uint32_t)e->proxy_op.chunk_bytes;
    return r;
}

/* NCCL starts a receive's step again for each time that the network refuses it: the first one counts. */
static struct steps_record *start_step(struct steps_context *c, const struct profiler_event *e)
{
    uint32_t parent = index_of(c, e->parent);
    struct steps_record *op = &c->records[parent];
    struct steps_record *newest = &c->records[op->at[OP_NEWEST]];
    struct steps_record *r;

    if (!parent || op->kind != STEPS_OP)
        return NULL;
    if (op->at[OP_NEWEST] && newest->step == (uint16_t)e->proxy_step.step)
        return newest;
    r = new_record(c, STEPS_STEP, parent);
    if (!r)
        return NULL;
    r->channel = op->channel;
    r->is_send = op->is_send;
    r->step = (uint16_t)e->proxy_step.step;
    op->at[OP_NEWEST] = (uint64_t)(r - c->records);
    return r;
}

static struct steps_record *start_kernel(struct steps_context *c, const struct profiler_event *e)
{
    struct steps_record *r = new_record(c, STEPS_KERNEL, index_of(c, e->parent));

    if (!r)
        return NULL;
    r->channel = e->kernel_ch.channel;
    r->at[KERNEL_START] = e->kernel_ch.ticks;
    return r;
}

static int start(void *context, void **handle, struct profiler_event *e, uint64_t type)
{
    struct steps_context *c = context;

    *handle = NULL;
    if (!c)
        return 0;
    if (type == PROFILER_PROXY_CTRL)
        *handle = c;
    else if (atomic_load_explicit(&c->section, memory_order_relaxed) == 0)
        return 0;
    else if (type == PROFILER_COLL || type == PROFILER_P2P)
        *handle = start_coll(c, e, type == PROFILER_COLL);
    else if (type == PROFILER_PROXY_OP)
        *handle = start_op(c, e);
    else if (type == PROFILER_PROXY_STEP)
        *handle = start_step(c, e);
    else if (type == PROFILER_KERNEL_CH)
        *handle = start_kernel(c, e);
    return 0;
}

static int start_v4(void *context, void **handle, struct profiler_event *e)
{
    return start(context, handle, e, e->type & 0xff);
}

static int start_v5(void *context, void **handle, struct profiler_event *e)
{
    return start(context, handle, e, e->type);
}

static int stop(void *handle)
{
    static const uint8_t slots[] = {[STEPS_COLL] = COLL_STOP,
                                    [STEPS_OP] = OP_STOP,
                                    [STEPS_STEP] = STEP_DONE,
                                    [STEPS_KERNEL] = KERNEL_SEEN_STOP};
    struct steps_record *r = handle;

    if (r && r->kind)
        r->at[slots[r->kind]] = now_ns();
    return 0;
}

/* Of a step; a state that is reported again, because the network refused, keeps its first time. */
static void record_step(struct steps_record *r, int state, const union profiler_state_args *args)
{
    int slot;

    switch (state) {
    case PROFILER_SEND_GPU_WAIT:
    case PROFILER_RECV_WAIT: slot = STEP_POSTED; break;
    case PROFILER_SEND_PEER_WAIT:
    case PROFILER_RECV_FLUSH_WAIT: slot = STEP_READY; break;
    case PROFILER_SEND_WAIT:
    case PROFILER_RECV_GPU_WAIT: slot = STEP_HANDED; break;
    default: return;
    }
    if (r->at[slot])
        return;
    r->at[slot] = now_ns();
    if (args && (state == PROFILER_SEND_WAIT || state == PROFILER_RECV_FLUSH_WAIT))
        r->bytes = (uint32_t)args->proxy_step.bytes;
}

static void record_proxy(struct steps_context *c, int state)
{
    uint64_t now = now_ns();
    struct steps_section *s;

    pthread_mutex_lock(&c->mutex);
    s = current(c);
    switch (state) {
    case PROFILER_CTRL_IDLE:
        c->idle_since = now;
        s->idles++;
        break;
    case PROFILER_CTRL_ACTIVE:
        if (c->idle_since && now > c->idle_since)
            s->idle_ns += now - c->idle_since;
        c->idle_since = 0;
        c->sleep_since = 0;
        break;
    case PROFILER_CTRL_SLEEP:
        c->sleep_since = now;
        s->sleeps++;
        break;
    case PROFILER_CTRL_WAKEUP:
    case PROFILER_CTRL_APPEND:
        /* The wakeup of a sleep that began before the section is not reported. */
        if (c->sleep_since && now > c->sleep_since)
            s->sleep_ns += now - c->sleep_since;
        c->sleep_since = 0;
        c->append_since = now;
        break;
    case PROFILER_CTRL_APPEND_END:
        if (c->append_since && now > c->append_since)
            s->append_ns += now - c->append_since;
        c->append_since = 0;
        s->appends++;
        break;
    default: break;
    }
    pthread_mutex_unlock(&c->mutex);
}

static int record(void *handle, int state, union profiler_state_args *args)
{
    struct steps_record *r = handle;

    if (!r)
        return 0;
    switch (r->kind) {
    case 0: record_proxy(handle, state); break;
    case STEPS_OP:
        if (state == PROFILER_OP_IN_PROGRESS)
            r->at[OP_PROGRESS] = now_ns();
        break;
    case STEPS_STEP: record_step(r, state, args); break;
    case STEPS_KERNEL:
        if (state == PROFILER_KERNEL_CH_STOP && args)
            r->at[KERNEL_STOP] = args->kernel_ch.ticks;
        break;
    default: break;
    }
    return 0;
}

extern const struct profiler_v4 ncclProfiler_v4;
extern const struct profiler_v5 ncclProfiler_v5;
extern const struct profiler_v5 ncclProfiler_v6;

EXPORTED const struct profiler_v4 ncclProfiler_v4 = {"nccl_steps", init_v4, start_v4,
                                                     stop,         record,  finalize};
EXPORTED const struct profiler_v5 ncclProfiler_v5 = {"nccl_steps", init_v5, start_v5,
                                                     stop,         record,  finalize};
EXPORTED const struct profiler_v5 ncclProfiler_v6 = {"nccl_steps", init_v6, start_v5,
                                                     stop,         record,  finalize};
