/*
 * One rank: see worker.h. Opens libcuda.so.1 and libnccl.so.2 through common/dl.h and declares the few functions that it calls, so
 * that braid-tune builds and runs (explain, fit) where neither exists.
 * A measurement: one eager call (which also lets NCCL connect what this algorithm needs, and is checked for right results), then
 * `repeat` calls captured into a graph, two warm launches, `launches` timed ones, the median. Single-threaded.
 */
#include "tools/braid-tune/worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dl.h"
#include "common/util.h"
#include "tuner-plugin/sweep_control.h"
#include "tuner-plugin/cost/kinds.h"

#define NCCL_BF16    9
#define NCCL_SUM     0
#define ELEMENT      2
#define CHECKED      (64u << 10) /* bytes compared at each end */
#define LAUNCHES_MAX 64

/* ncclUniqueId is passed by value. */
struct nccl_id {
    char bytes[128];
};

struct api {
    int (*cuInit)(unsigned);
    int (*cuDeviceGet)(int *, int);
    int (*cuDeviceGetCount)(int *);
    int (*cuDeviceGetName)(char *, int, int);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuMemAlloc)(unsigned long long *, size_t);
    int (*cuMemFree)(unsigned long long);
    int (*cuMemsetD16Async)(unsigned long long, unsigned short, size_t, void *);
    int (*cuMemcpyDtoH)(void *, unsigned long long, size_t);
    int (*cuStreamCreate)(void **, unsigned);
    int (*cuStreamSynchronize)(void *);
    int (*cuStreamBeginCapture)(void *, int);
    int (*cuStreamEndCapture)(void *, void **);
    int (*cuGraphInstantiate)(void **, void *, unsigned long long);
    int (*cuGraphLaunch)(void *, void *);
    int (*cuGraphGetNodes)(void *, void **, size_t *);
    int (*cuGraphNodeGetType)(void *, int *);
    int (*cuGraphKernelNodeGetParams)(void *, void *);
    int (*cuGraphExecDestroy)(void *);
    int (*cuGraphDestroy)(void *);
    int (*cuEventCreate)(void **, unsigned);
    int (*cuEventRecord)(void *, void *);
    int (*cuEventElapsedTime)(float *, void *, void *);
    int (*cuGetErrorString)(int, const char **);
};

struct nccl {
    int (*version)(int *);
    int (*unique_id)(struct nccl_id *);
    int (*init)(void **, int, struct nccl_id, int);
    int (*destroy)(void *);
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *);
    int (*all_gather)(const void *, void *, size_t, int, void *, void *);
    int (*reduce_scatter)(const void *, void *, size_t, int, int, void *, void *);
    int (*broadcast)(const void *, void *, size_t, int, int, void *, void *);
    int (*reduce)(const void *, void *, size_t, int, int, int, void *, void *);
    const char *(*error)(int);
    const char *(*last_error)(void *);
};

static const struct braid_dl_symbol cuda_symbols[] = {
    BRAID_DL_SYMBOL(struct api, cuInit, cuInit),
    BRAID_DL_SYMBOL(struct api, cuDeviceGet, cuDeviceGet),
    BRAID_DL_SYMBOL(struct api, cuDeviceGetCount, cuDeviceGetCount),
    BRAID_DL_SYMBOL(struct api, cuDeviceGetName, cuDeviceGetName),
    BRAID_DL_SYMBOL(struct api, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain),
    BRAID_DL_SYMBOL(struct api, cuCtxSetCurrent, cuCtxSetCurrent),
    BRAID_DL_SYMBOL(struct api, cuMemAlloc, cuMemAlloc_v2),
    BRAID_DL_SYMBOL(struct api, cuMemFree, cuMemFree_v2),
    BRAID_DL_SYMBOL(struct api, cuMemsetD16Async, cuMemsetD16Async),
    BRAID_DL_SYMBOL(struct api, cuMemcpyDtoH, cuMemcpyDtoH_v2),
    BRAID_DL_SYMBOL(struct api, cuStreamCreate, cuStreamCreate),
    BRAID_DL_SYMBOL(struct api, cuStreamSynchronize, cuStreamSynchronize),
    BRAID_DL_SYMBOL(struct api, cuStreamBeginCapture, cuStreamBeginCapture_v2),
    BRAID_DL_SYMBOL(struct api, cuStreamEndCapture, cuStreamEndCapture),
    BRAID_DL_SYMBOL(struct api, cuGraphInstantiate, cuGraphInstantiateWithFlags),
    BRAID_DL_SYMBOL(struct api, cuGraphLaunch, cuGraphLaunch),
    BRAID_DL_SYMBOL(struct api, cuGraphGetNodes, cuGraphGetNodes),
    BRAID_DL_SYMBOL(struct api, cuGraphNodeGetType, cuGraphNodeGetType),
    BRAID_DL_SYMBOL(struct api, cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2),
    BRAID_DL_SYMBOL(struct api, cuGraphExecDestroy, cuGraphExecDestroy),
    BRAID_DL_SYMBOL(struct api, cuGraphDestroy, cuGraphDestroy),
    BRAID_DL_SYMBOL(struct api, cuEventCreate, cuEventCreate),
    BRAID_DL_SYMBOL(struct api, cuEventRecord, cuEventRecord),
    BRAID_DL_SYMBOL(struct api, cuEventElapsedTime, cuEventElapsedTime),
    BRAID_DL_SYMBOL(struct api, cuGetErrorString, cuGetErrorString),
};

static const struct braid_dl_symbol nccl_symbols[] = {
    BRAID_DL_SYMBOL(struct nccl, version, ncclGetVersion),
    BRAID_DL_SYMBOL(struct nccl, unique_id, ncclGetUniqueId),
    BRAID_DL_SYMBOL(struct nccl, init, ncclCommInitRank),
    BRAID_DL_SYMBOL(struct nccl, destroy, ncclCommDestroy),
    BRAID_DL_SYMBOL(struct nccl, all_reduce, ncclAllReduce),
    BRAID_DL_SYMBOL(struct nccl, all_gather, ncclAllGather),
    BRAID_DL_SYMBOL(struct nccl, reduce_scatter, ncclReduceScatter),
    BRAID_DL_SYMBOL(struct nccl, broadcast, ncclBroadcast),
    BRAID_DL_SYMBOL(struct nccl, reduce, ncclReduce),
    BRAID_DL_SYMBOL(struct nccl, error, ncclGetErrorString),
    BRAID_DL_OPTIONAL(struct nccl, last_error, ncclGetLastError),
};

struct worker {
    struct worker_setup setup;
    struct api cuda;
    struct nccl nccl;
    struct braid_sweep_control *control;
    void *stream, *event[2], *comm;
    /* a communicator that lives as long as the process, so that NCCL keeps its plugins loaded */
    void *anchor;
    unsigned long long send, recv;
    char gpu[64];
};

static int open_cuda(struct api *cuda, char *why, size_t why_bytes)
{
    static const char *const names[] = {"libcuda.so.1", NULL};

    return braid_dl_open(names, cuda_symbols, ARRAY_SIZE(cuda_symbols), cuda, why, why_bytes);
}

int worker_gpu_count(void)
{
    struct api cuda;
    char why[256];
    int count = -1;

    if (open_cuda(&cuda, why, sizeof(why)) || cuda.cuInit(0) || cuda.cuDeviceGetCount(&count))
        return -1;
    return count;
}

static int cuda_failed(const struct worker *worker, int rc, const char *what, char *why,
                       size_t why_bytes)
{
    const char *text = NULL;

    worker->cuda.cuGetErrorString(rc, &text);
    snprintf(why, why_bytes, "%s: %s", what, text ? text : "unknown CUDA error");
    return -EIO;
}

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        int cuda_rc_ = worker->cuda.call;                                                          \
        if (cuda_rc_)                                                                              \
            return cuda_failed(worker, cuda_rc_, #call, why, why_bytes);                           \
    } while (0)

static int nccl_failed(const struct worker *worker, int rc, const char *what, char *why,
                       size_t why_bytes)
{
    const char *last = worker->nccl.last_error ? worker->nccl.last_error(worker->comm) : "";

    snprintf(why, why_bytes, "%s: %s. %s", what, worker->nccl.error(rc), last ? last : "");
    return -EIO;
}

#define NCCL(call, what)                                                                           \
    do {                                                                                           \
        int nccl_rc_ = worker->nccl.call;                                                          \
        if (nccl_rc_)                                                                              \
            return nccl_failed(worker, nccl_rc_, what, why, why_bytes);                            \
    } while (0)

static int open_gpu(struct worker *worker, char *why, size_t why_bytes)
{
    void *context;
    int device, count;

    CUDA(cuInit(0));
    CUDA(cuDeviceGetCount(&count));
    if (count < 1) {
        snprintf(why, why_bytes, "the driver shows no GPU");
        return -ENODEV;
    }
    /* A launcher may show each process its own GPU only, as device 0. */
    CUDA(cuDeviceGet(&device, worker->setup.gpu % count));
    CUDA(cuDeviceGetName(worker->gpu, sizeof(worker->gpu), device));
    CUDA(cuDevicePrimaryCtxRetain(&context, device));
    CUDA(cuCtxSetCurrent(context));
    CUDA(cuMemAlloc(&worker->send, worker->setup.max_bytes));
    CUDA(cuMemAlloc(&worker->recv, worker->setup.max_bytes));
    CUDA(cuStreamCreate(&worker->stream, 1));
    CUDA(cuEventCreate(&worker->event[0], 0));
    CUDA(cuEventCreate(&worker->event[1], 0));
    return 0;
}

static int open_control(struct worker *worker, char *why, size_t why_bytes)
{
    void *library;

    if (!worker->setup.plugin_path[0])
        return 0;
    library = dlopen(worker->setup.plugin_path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        worker->control = dlsym(library, BRAID_SWEEP_CONTROL);
    if (!worker->control) {
        snprintf(why, why_bytes, "the sweep plugin: %s", dlerror());
        return -ENOENT;
    }
    setenv("NCCL_TUNER_PLUGIN", worker->setup.plugin_path, 1);
    return 0;
}

int worker_open(const struct worker_setup *setup, struct worker **worker_p, char *why,
                size_t why_bytes)
{
    const char *names[] = {setup->nccl_path[0] ? setup->nccl_path : "libnccl.so.2", NULL};
    struct worker *worker = calloc(1, sizeof(*worker));
    int rc;

    if (!worker) {
        snprintf(why, why_bytes, "out of memory");
        return -ENOMEM;
    }
    worker->setup = *setup;
    /* NCCL 2.26 to 2.29 forgets the name of a network plugin when the last communicator ends, and the next one goes without. */
    setenv("NCCL_NET_PLUGIN_REF_COUNT", "1", 0);
    rc = open_cuda(&worker->cuda, why, why_bytes);
    if (!rc)
        rc = open_gpu(worker, why, why_bytes);
    if (!rc)
        rc = open_control(worker, why, why_bytes);
    if (!rc)
        rc = braid_dl_open(names, nccl_symbols, ARRAY_SIZE(nccl_symbols), &worker->nccl, why,
                           why_bytes);
    if (rc) {
        free(worker);
        return rc;
    }
    *worker_p = worker;
    return 0;
}

/* The process ends next; the driver takes its memory back. */
void worker_close(struct worker *worker)
{
    free(worker);
}

void worker_describe(struct worker *worker, char *nccl, size_t nccl_bytes, char *gpu,
                     size_t gpu_bytes)
{
    int version = 0;

    worker->nccl.version(&version);
    snprintf(nccl, nccl_bytes, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    snprintf(gpu, gpu_bytes, "%s", worker->gpu);
}

int worker_unique_id(struct worker *worker, char *id)
{
    struct nccl_id unique;

    if (worker->nccl.unique_id(&unique))
        return -EIO;
    memcpy(id, unique.bytes, sizeof(unique.bytes));
    return 0;
}

/* ---- One collective ---- */

static int launch(struct worker *worker, const struct worker_command *command, char *why,
                  size_t why_bytes)
{
    size_t all = command->bytes / ELEMENT, part = all / (size_t)worker->setup.ranks;
    void *send = (void *)worker->send, *recv = (void *)worker->recv;

    switch (command->coll) {
    case BRAID_ALL_REDUCE:
        NCCL(all_reduce(send, recv, all, NCCL_BF16, NCCL_SUM, worker->comm, worker->stream),
             "ncclAllReduce");
        break;
    case BRAID_ALL_GATHER:
        NCCL(all_gather(send, recv, part, NCCL_BF16, worker->comm, worker->stream),
             "ncclAllGather");
        break;
    case BRAID_REDUCE_SCATTER:
        NCCL(reduce_scatter(send, recv, part, NCCL_BF16, NCCL_SUM, worker->comm, worker->stream),
             "ncclReduceScatter");
        break;
    case BRAID_BROADCAST:
        NCCL(broadcast(send, recv, all, NCCL_BF16, 0, worker->comm, worker->stream),
             "ncclBroadcast");
        break;
    default:
        NCCL(reduce(send, recv, all, NCCL_BF16, NCCL_SUM, 0, worker->comm, worker->stream),
             "ncclReduce");
    }
    return 0;
}

static unsigned short bf16(int value)
{
    float number = (float)value;
    uint32_t bits;

    memcpy(&bits, &number, sizeof(bits));
    return (unsigned short)(bits >> 16);
}

/* What element `i` of the result must be when rank r sent r + 1 everywhere; -1 = anything. */
static int expected(const struct worker *worker, const struct worker_command *command, size_t i)
{
    int ranks = worker->setup.ranks, sum = ranks * (ranks + 1) / 2;
    size_t part = command->bytes / ELEMENT / (size_t)ranks;

    switch (command->coll) {
    case BRAID_ALL_GATHER: return (int)(i / part) + 1;
    case BRAID_BROADCAST: return 1;
    case BRAID_REDUCE: return worker->setup.rank == 0 ? sum : -1;
    default: return sum;
    }
}

static int check_result(struct worker *worker, const struct worker_command *command, char *why,
                        size_t why_bytes)
{
    static unsigned short got[CHECKED / ELEMENT];
    size_t bytes = command->bytes / (size_t)worker->setup.ranks * (size_t)worker->setup.ranks;

    if (command->coll == BRAID_REDUCE_SCATTER)
        bytes /= (size_t)worker->setup.ranks;
    for (int end = 0; end < 2; end++) {
        size_t length = bytes < CHECKED ? bytes : CHECKED, from = end ? bytes - length : 0;

        from -= from % ELEMENT;
        CUDA(cuMemcpyDtoH(got, worker->recv + from, length - length % ELEMENT));
        for (size_t i = 0; i < length / ELEMENT; i++) {
            int want = expected(worker, command, from / ELEMENT + i);

            if (want < 0 || got[i] == bf16(want))
                continue;
            snprintf(why, why_bytes, "wrong result at element %zu: bf16 bits %04x, expected %04x",
                     from / ELEMENT + i, got[i], bf16(want));
            return -EBADMSG;
        }
    }
    return 0;
}

static int eager(struct worker *worker, const struct worker_command *command, char *why,
                 size_t why_bytes)
{
    int rc;

    if (command->check) {
        CUDA(cuMemsetD16Async(worker->send, bf16(worker->setup.rank + 1), command->bytes / ELEMENT,
                              worker->stream));
        CUDA(cuMemsetD16Async(worker->recv, 0, command->bytes / ELEMENT, worker->stream));
    }
    rc = launch(worker, command, why, why_bytes);
    if (rc)
        return rc;
    CUDA(cuStreamSynchronize(worker->stream));
    return command->check ? check_result(worker, command, why, why_bytes) : 0;
}

/* The channels of a captured collective: NCCL launches one block a channel. */
static int read_grid(struct worker *worker, void *graph, int *grid_p, char *why, size_t why_bytes)
{
    void *nodes[256];
    size_t count = ARRAY_SIZE(nodes);

    CUDA(cuGraphGetNodes(graph, nodes, &count));
    *grid_p = 0;
    for (size_t i = 0; i < count && i < ARRAY_SIZE(nodes); i++) {
        unsigned char params[256] = {0}; /* CUDA_KERNEL_NODE_PARAMS: a pointer, then gridDimX */
        unsigned blocks;
        int type = -1;

        CUDA(cuGraphNodeGetType(nodes[i], &type));
        if (type != 0)
            continue;
        CUDA(cuGraphKernelNodeGetParams(nodes[i], params));
        memcpy(&blocks, params + sizeof(void *), sizeof(blocks));
        if ((int)blocks > *grid_p)
            *grid_p = (int)blocks;
    }
    return 0;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int time_graph(struct worker *worker, const struct worker_command *command, void *exec,
                      double *us_p, char *why, size_t why_bytes)
{
    int launches = MIN(command->launches, LAUNCHES_MAX);
    double us[LAUNCHES_MAX];

    for (int i = -2; i < launches; i++) {
        float ms = 0;

        CUDA(cuEventRecord(worker->event[0], worker->stream));
        CUDA(cuGraphLaunch(exec, worker->stream));
        CUDA(cuEventRecord(worker->event[1], worker->stream));
        CUDA(cuStreamSynchronize(worker->stream));
        CUDA(cuEventElapsedTime(&ms, worker->event[0], worker->event[1]));
        if (i >= 0)
            us[i] = (double)ms * 1e3 / command->repeat;
    }
    qsort(us, (size_t)launches, sizeof(us[0]), compare_double);
    *us_p = us[launches / 2];
    return 0;
}

static int capture(struct worker *worker, const struct worker_command *command,
                   struct worker_reply *reply, char *why, size_t why_bytes)
{
    void *graph = NULL, *exec = NULL;
    int rc = 0, end;

    CUDA(cuStreamBeginCapture(worker->stream, 1));
    for (int i = 0; i < command->repeat && !rc; i++)
        rc = launch(worker, command, why, why_bytes);
    end = worker->cuda.cuStreamEndCapture(worker->stream, &graph);
    if (rc)
        return rc;
    if (end)
        return cuda_failed(worker, end, "cuStreamEndCapture", why, why_bytes);
    CUDA(cuGraphInstantiate(&exec, graph, 0));
    rc = read_grid(worker, graph, &reply->grid, why, why_bytes);
    if (!rc)
        rc = time_graph(worker, command, exec, &reply->us, why, why_bytes);
    worker->cuda.cuGraphExecDestroy(exec);
    worker->cuda.cuGraphDestroy(graph);
    return rc;
}

static int measure(struct worker *worker, const struct worker_command *command,
                   struct worker_reply *reply)
{
    struct braid_sweep_control *control = worker->control;
    int rc;

    if (control) {
        control->mode = command->mode;
        control->algo = command->algo;
        control->proto = command->proto;
        control->channels = command->channels;
        control->calls = 0;
    }
    rc = eager(worker, command, reply->text, sizeof(reply->text));
    if (!rc && control && !control->calls) {
        snprintf(
            reply->text, sizeof(reply->text),
            "NCCL did not ask its tuner: it needs to be 2.22 or newer, and NCCL_TUNER_PLUGIN as "
            "braid-tune sets it");
        return -ENOTSUP;
    }
    if (!rc && command->launches > 0)
        rc = capture(worker, command, reply, reply->text, sizeof(reply->text));
    if (control) {
        reply->nccl_algo = control->nccl_algo;
        reply->nccl_proto = control->nccl_proto;
        reply->braid_algo = control->braid_algo;
        reply->braid_proto = control->braid_proto;
        reply->braid_channels = control->braid_channels;
        memcpy(reply->table, control->table, sizeof(reply->table));
    }
    return rc;
}

static int connect_comm(struct worker *worker, const struct worker_command *command, char *why,
                        size_t why_bytes)
{
    struct nccl_id id;

    memcpy(id.bytes, command->unique_id, sizeof(id.bytes));
    NCCL(init(&worker->comm, worker->setup.ranks, id, worker->setup.rank), "ncclCommInitRank");
    return 0;
}

void worker_run(struct worker *worker, const struct worker_command *command,
                struct worker_reply *reply)
{
    memset(reply, 0, sizeof(*reply));
    switch (command->verb) {
    case WORKER_COMM:
        reply->rc = connect_comm(worker, command, reply->text, sizeof(reply->text));
        break;
    case WORKER_MEASURE: reply->rc = measure(worker, command, reply); break;
    case WORKER_CLOSE:
        if (worker->comm)
            worker->nccl.destroy(worker->comm);
        worker->comm = NULL;
        break;
    case WORKER_KEEP:
        worker->anchor = worker->comm;
        worker->comm = NULL;
        break;
    default: break;
    }
}
