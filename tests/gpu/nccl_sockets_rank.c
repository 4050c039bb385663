/*
 * One rank of nccl_sockets: a process with a GPU and a communicator that does what the parent says. NCCL is opened at
 * run time (NCCL_SOCKETS_LIBRARY, else libnccl.so.2), so one binary serves every NCCL. Single-threaded; NCCL and the
 * plugin bring their own threads. Synchronisation blocks instead of spinning, so that CPU time is that of the transport.
 */
#include "nccl_sockets.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The few functions and numbers of NCCL's public interface that are used here. */
#define NCCL_UINT8   1
#define NCCL_FLOAT32 7
#define NCCL_SUM     0
#define ELEMENT_MOD  251

struct unique_id {
    char bytes[128];
};

static struct {
    int (*get_version)(int *);
    int (*get_unique_id)(struct unique_id *);
    int (*comm_init)(void **, int, struct unique_id, int);
    int (*comm_destroy)(void *);
    int (*comm_async_error)(void *, int *);
    const char *(*error_string)(int);
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, cudaStream_t);
    int (*all_gather)(const void *, void *, size_t, int, void *, cudaStream_t);
    int (*reduce_scatter)(const void *, void *, size_t, int, int, void *, cudaStream_t);
    int (*broadcast)(const void *, void *, size_t, int, int, void *, cudaStream_t);
    int (*reduce)(const void *, void *, size_t, int, int, int, void *, cudaStream_t);
    int (*send)(const void *, size_t, int, int, void *, cudaStream_t);
    int (*recv)(void *, size_t, int, int, void *, cudaStream_t);
    int (*group_start)(void);
    int (*group_end)(void);
} nccl;

static struct {
    int rank;
    void *comm;
    cudaStream_t stream;
    unsigned char *send;
    unsigned char *recv;
    unsigned char *host;
    uint64_t bytes;
    struct answer answer;
} self;

/* Puts the reason into the answer; returns 1 so that callers can end. */
__attribute__((format(printf, 1, 2))) static int fail(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(self.answer.text, sizeof(self.answer.text), fmt, args);
    va_end(args);
    self.answer.failed = 1;
    return 1;
}

static int cuda_failed(cudaError_t error, const char *what)
{
    return error == cudaSuccess ? 0 : fail("%s: %s", what, cudaGetErrorString(error));
}

static int nccl_failed(int result, const char *what)
{
    return result == 0 ? 0 : fail("%s: %s", what, nccl.error_string(result));
}

static int load(void)
{
    static const struct {
        const char *name;
        void **entry;
    } symbols[] = {{"ncclGetVersion", (void **)&nccl.get_version},
                   {"ncclGetUniqueId", (void **)&nccl.get_unique_id},
                   {"ncclCommInitRank", (void **)&nccl.comm_init},
                   {"ncclCommDestroy", (void **)&nccl.comm_destroy},
                   {"ncclCommGetAsyncError", (void **)&nccl.comm_async_error},
                   {"ncclGetErrorString", (void **)&nccl.error_string},
                   {"ncclAllReduce", (void **)&nccl.all_reduce},
                   {"ncclAllGather", (void **)&nccl.all_gather},
                   {"ncclReduceScatter", (void **)&nccl.reduce_scatter},
                   {"ncclBroadcast", (void **)&nccl.broadcast},
                   {"ncclReduce", (void **)&nccl.reduce},
                   {"ncclSend", (void **)&nccl.send},
                   {"ncclRecv", (void **)&nccl.recv},
                   {"ncclGroupStart", (void **)&nccl.group_start},
                   {"ncclGroupEnd", (void **)&nccl.group_end}};
    const char *name = getenv("NCCL_SOCKETS_LIBRARY");
    void *library = dlopen(name && *name ? name : "libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);

    if (!library)
        return fail("%s", dlerror());
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        *symbols[i].entry = dlsym(library, symbols[i].name);
        if (!*symbols[i].entry)
            return fail("NCCL has no %s", symbols[i].name);
    }
    return 0;
}

static int open_gpu(void)
{
    struct cudaDeviceProp properties;
    int gpus = 0;

    if (cuda_failed(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount"))
        return 1;
    if (cuda_failed(cudaInitDevice(self.rank % gpus, cudaDeviceScheduleBlockingSync,
                                   cudaInitDeviceFlagsAreValid),
                    "cudaInitDevice") ||
        cuda_failed(cudaSetDevice(self.rank % gpus), "cudaSetDevice") ||
        cuda_failed(cudaGetDeviceProperties(&properties, self.rank % gpus), "properties") ||
        cuda_failed(cudaStreamCreateWithFlags(&self.stream, cudaStreamNonBlocking), "stream") ||
        cuda_failed(cudaMalloc((void **)&self.send, self.bytes), "cudaMalloc") ||
        cuda_failed(cudaMalloc((void **)&self.recv, self.bytes), "cudaMalloc") ||
        cuda_failed(cudaMemset(self.send, 0, self.bytes), "cudaMemset"))
        return 1;
    self.answer.gpus = gpus;
    snprintf(self.answer.text, sizeof(self.answer.text), "%.200s", properties.name);
    return 0;
}

static int make_comm(const struct command *c)
{
    struct unique_id id;

    if (!self.stream && open_gpu())
        return 1;
    memcpy(&id, c->id, sizeof(id));
    return nccl_failed(nccl.comm_init(&self.comm, RANKS, id, self.rank), "ncclCommInitRank");
}

/* One operation; `count` is what the rank contributes (reduce-scatter: receives; all-to-all: for each peer). */
static int launch(int op, size_t count, int type)
{
    size_t size = type == NCCL_FLOAT32 ? 4 : 1;
    int peer = 1 - self.rank;
    int rc = 0;

    switch (op) {
    case ALL_REDUCE:
        rc = nccl.all_reduce(self.send, self.recv, count, type, NCCL_SUM, self.comm, self.stream);
        break;
    case ALL_GATHER:
        rc = nccl.all_gather(self.send, self.recv, count, type, self.comm, self.stream);
        break;
    case REDUCE_SCATTER:
        rc = nccl.reduce_scatter(self.send, self.recv, count, type, NCCL_SUM, self.comm,
                                 self.stream);
        break;
    case BROADCAST:
        rc = nccl.broadcast(self.send, self.recv, count, type, 1, self.comm, self.stream);
        break;
    case REDUCE:
        rc = nccl.reduce(self.send, self.recv, count, type, NCCL_SUM, 1, self.comm, self.stream);
        break;
    case ALL_TO_ALL:
        nccl.group_start();
        for (int r = 0; r < RANKS && rc == 0; r++) {
            size_t at = (size_t)r * count * size;

            rc = nccl.send(self.send + at, count, type, r, self.comm, self.stream);
            if (rc == 0)
                rc = nccl.recv(self.recv + at, count, type, r, self.comm, self.stream);
        }
        rc = nccl.group_end() || rc;
        break;
    case SEND_RECV:
        nccl.group_start();
        rc = nccl.send(self.send, count, type, peer, self.comm, self.stream);
        if (rc == 0)
            rc = nccl.recv(self.recv, count, type, peer, self.comm, self.stream);
        rc = nccl.group_end() || rc;
        break;
    default: return fail("unknown operation %d", op);
    }
    return nccl_failed(rc, operation_names[op]);
}

static int finish(const char *what)
{
    int error = 0;

    if (cuda_failed(cudaStreamSynchronize(self.stream), what))
        return 1;
    if (nccl_failed(nccl.comm_async_error(self.comm, &error), "ncclCommGetAsyncError"))
        return 1;
    return nccl_failed(error, what);
}

/* Element i that rank `rank` sends; small integers, so that float sums are exact. */
static unsigned element(int rank, uint64_t i)
{
    return (unsigned)((i * 2654435761u >> 7) + (uint64_t)rank * 97 + i) % ELEMENT_MOD;
}

static unsigned summed(uint64_t i)
{
    return element(0, i) + element(1, i);
}

/* What the host says that element i of the receive buffer must be. */
static unsigned expected(int op, uint64_t count, uint64_t i)
{
    int peer = 1 - self.rank;

    switch (op) {
    case ALL_GATHER: return element((int)(i / count), i % count);
    case REDUCE_SCATTER: return summed((uint64_t)self.rank * count + i);
    case ALL_TO_ALL: return element((int)(i / count), (uint64_t)self.rank * count + i % count);
    case BROADCAST: return element(1, i);
    case SEND_RECV: return element(peer, i);
    default: return summed(i);
    }
}

static void store(unsigned char *at, uint64_t i, int is_bytes, unsigned value)
{
    if (is_bytes)
        at[i] = (unsigned char)value;
    else
        ((float *)at)[i] = (float)value;
}

static int compare(const struct command *c, uint64_t elements)
{
    for (uint64_t i = 0; i < elements; i++) {
        unsigned want = expected(c->op, c->count, i);
        double seen = c->is_bytes ? self.host[i] : ((float *)self.host)[i];

        if (seen != (c->is_bytes ? want & 255u : want))
            return fail("element %llu of %llu is %g, the host says %u", (unsigned long long)i,
                        (unsigned long long)elements, seen, want);
    }
    return 0;
}

static int check(const struct command *c)
{
    size_t size = c->is_bytes ? 1 : 4;
    uint64_t sent = c->count * (c->op == REDUCE_SCATTER || c->op == ALL_TO_ALL ? RANKS : 1);
    uint64_t received = c->count * (c->op == ALL_GATHER || c->op == ALL_TO_ALL ? RANKS : 1);

    if (sent * size > self.bytes || received * size > self.bytes)
        return fail("%llu elements do not fit the buffers", (unsigned long long)c->count);
    if (!self.host && cuda_failed(cudaMallocHost((void **)&self.host, self.bytes), "host buffer"))
        return 1;
    for (uint64_t i = 0; i < sent; i++)
        store(self.host, i, c->is_bytes, element(self.rank, i));
    if (cuda_failed(cudaMemcpy(self.send, self.host, sent * size, cudaMemcpyHostToDevice),
                    "copy") ||
        cuda_failed(cudaMemset(self.recv, 0xee, received * size), "cudaMemset") ||
        launch(c->op, c->count, c->is_bytes ? NCCL_UINT8 : NCCL_FLOAT32) ||
        finish(operation_names[c->op]))
        return 1;
    if (c->op == REDUCE && self.rank != 1)
        return 0;
    if (cuda_failed(cudaMemcpy(self.host, self.recv, received * size, cudaMemcpyDeviceToHost),
                    "copy"))
        return 1;
    return compare(c, received);
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double cpu_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Tells the profiler plugin, which NCCL has loaded, that something begins (or ends: label NULL). */
static int tell_profiler(const char *label, int what, int operations)
{
    static int (*section)(const char *, int, int);
    const char *path = getenv("NCCL_PROFILER_PLUGIN");

    if (!section) {
        void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;

        if (!library)
            return fail("NCCL has not loaded the profiler plugin %.200s", path ? path : "");
        *(void **)&section = dlsym(library, "nccl_steps_section");
    }
    if (!section || section(label ? label : "", label ? what : 0, operations) == 0)
        return fail("the profiler plugin knows no communicator");
    return 0;
}

static void write_threads(const struct command *c, const struct thread_use *then, int then_count)
{
    static const char *const passes[] = {"plain", "threads", "steps", "kernels"};
    static struct thread_use now[MAX_THREADS];
    int now_count = threads_read(now, MAX_THREADS);
    const char *stem = getenv("NCCL_STEPS_FILE");
    char path[600];
    FILE *file;

    snprintf(path, sizeof(path), "%s-%d.threads.jsonl", stem ? stem : "steps", self.rank);
    file = fopen(path, "a");
    if (!file)
        return;
    fprintf(file,
            "{\"case\": \"%s/%llu\", \"pass\": \"%s\", \"operations\": %d, \"us\": %.2f, "
            "\"threads\": ",
            operation_names[c->op], (unsigned long long)c->bytes, passes[c->pass], c->iterations,
            self.answer.us);
    threads_write(file, then, then_count, now, now_count);
    fprintf(file, "}\n");
    fclose(file);
}

static int repeat(const struct command *c, size_t count)
{
    double begin = now_s();
    double cpu = cpu_s();

    for (int i = 0; i < c->iterations; i++)
        if (launch(c->op, count, NCCL_FLOAT32))
            return 1;
    if (finish(operation_names[c->op]))
        return 1;
    self.answer.us = (now_s() - begin) * 1e6 / c->iterations;
    self.answer.cpu_s = (cpu_s() - cpu) / c->iterations;
    return 0;
}

static int repeat_watched(const struct command *c, size_t count)
{
    static struct thread_use then[MAX_THREADS];
    int what = c->pass == PASS_STEPS ? 1 : c->pass == PASS_KERNELS ? 2 : 0;
    char label[48];
    int then_count;

    snprintf(label, sizeof(label), "%s/%llu%s", operation_names[c->op],
             (unsigned long long)c->bytes, what == 2 ? "/kernels" : "");
    /* With kernels NCCL makes connections of its own for the first operation. */
    if (what && (tell_profiler("warm", what, 1) || launch(c->op, count, NCCL_FLOAT32) ||
                 finish(operation_names[c->op]) || tell_profiler(NULL, 0, 0)))
        return 1;
    usleep(5000); /* what is still under way goes to its end */
    then_count = threads_read(then, MAX_THREADS);
    if ((what && tell_profiler(label, what, c->iterations)) || repeat(c, count) ||
        (what && tell_profiler(NULL, 0, 0)))
        return 1;
    write_threads(c, then, then_count);
    return 0;
}

static int measure(const struct command *c)
{
    int shared = c->op == ALL_GATHER || c->op == REDUCE_SCATTER || c->op == ALL_TO_ALL;
    size_t count = c->bytes / 4 / (shared ? RANKS : 1);

    if (c->bytes > self.bytes)
        return fail("%llu bytes do not fit the buffers", (unsigned long long)c->bytes);
    /* The first one brings both ranks together and warms up. */
    if (launch(c->op, count, NCCL_FLOAT32) || finish(operation_names[c->op]))
        return 1;
    return c->pass == PASS_PLAIN ? repeat(c, count) : repeat_watched(c, count);
}

/* Both directions between pinned host memory and this GPU at once; GB/s each way. */
static int measure_pcie(void)
{
    size_t size = (size_t)64 << 20;
    cudaStream_t other;
    double begin;

    if (!self.host && cuda_failed(cudaMallocHost((void **)&self.host, self.bytes), "host buffer"))
        return 1;
    if (2 * size > self.bytes ||
        cuda_failed(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "stream"))
        return fail("no room for the copies");
    for (int round = 0; round < 2; round++) {
        begin = now_s();
        for (int i = 0; i < 10; i++) {
            cudaMemcpyAsync(self.host, self.send, size, cudaMemcpyDeviceToHost, self.stream);
            cudaMemcpyAsync(self.recv, self.host + size, size, cudaMemcpyHostToDevice, other);
        }
        if (cuda_failed(cudaStreamSynchronize(self.stream), "copy") ||
            cuda_failed(cudaStreamSynchronize(other), "copy"))
            return 1;
        self.answer.us = (double)size * 10 / (now_s() - begin) / 1e9;
    }
    cudaStreamDestroy(other);
    return 0;
}

static int obey(const struct command *c)
{
    struct unique_id id;

    switch (c->verb) {
    case VERB_ID:
        if (nccl_failed(nccl.get_unique_id(&id), "ncclGetUniqueId"))
            return 1;
        memcpy(self.answer.id, &id, sizeof(id));
        return 0;
    case VERB_INIT: return make_comm(c);
    case VERB_CHECK: return check(c);
    case VERB_TIME: return measure(c);
    case VERB_PCIE: return measure_pcie();
    case VERB_DESTROY: return nccl_failed(nccl.comm_destroy(self.comm), "ncclCommDestroy");
    default: return fail("unknown command %d", c->verb);
    }
}

void rank_main(int rank, uint64_t buffer_bytes)
{
    struct command c;
    int broken;

    self.rank = rank;
    self.bytes = buffer_bytes;
    broken = load();
    while (read(COMMAND_FD, &c, sizeof(c)) == (ssize_t)sizeof(c)) {
        char why[sizeof(self.answer.text)];

        memcpy(why, self.answer.text, sizeof(why));
        memset(&self.answer, 0, sizeof(self.answer));
        if (broken)
            broken = fail("%.250s", why);
        else if (c.verb != VERB_EXIT)
            obey(&c);
        if (!broken)
            nccl.get_version(&self.answer.nccl_version);
        if (write(COMMAND_FD, &self.answer, sizeof(self.answer)) != (ssize_t)sizeof(self.answer) ||
            c.verb == VERB_EXIT)
            break;
    }
    exit(broken ? 1 : 0);
}
