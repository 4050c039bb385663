/*
 * A look-alike of libcuda.so.1 and libnccl.so.2 in one object, for testing braid-tune calibrate without a GPU. Memory is host memory;
 * a stream runs at once; a graph records which collectives it holds. Collectives ask the tuner that NCCL_TUNER_PLUGIN names (v3),
 * with a table as NCCL would pass it, "take" a time from a small model with noise by communicator, and write right results for
 * operands that are constant on each rank, which is what the tool sends.
 * With NCCL_HOSTID set its transport is like NCCL's sockets between two nodes: two channels, each more of which costs a hop.
 * FAKEGPU_GPUS: how many (default 2). FAKEGPU_WRONG=1: wrong results. FAKEGPU_DIE=N: the N-th collective ends the process.
 * FAKEGPU_OLD=1: an NCCL that takes no tuner. FAKEGPU_SLOW_US=N: each launch of a graph takes so long of real time.
 * FAKEGPU_NOISE=P: each configuration differs by P % (standard deviation) from communicator to communicator.
 * Each process is one rank; nothing is exchanged between ranks.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl/tuner_v3.h"

#define EXPORT     __attribute__((visibility("default")))
#define PROTOTYPES _Pragma("GCC diagnostic ignored \"-Wmissing-prototypes\"")
PROTOTYPES

struct graph {
    double us;
    unsigned blocks;
};

struct event {
    double us;
};

static double now_us; /* the stream's clock */
static struct graph *capturing;

static int number(const char *name, int none)
{
    const char *text = getenv(name);

    return text ? atoi(text) : none;
}

/* ---- CUDA ---- */

EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    return number("FAKEGPU_GPUS", 2) > 0 ? 0 : 100;
}
EXPORT int cuDeviceGet(int *device, int index)
{
    *device = index;
    return index < number("FAKEGPU_GPUS", 2) ? 0 : 101;
}
EXPORT int cuDeviceGetCount(int *count)
{
    *count = number("FAKEGPU_GPUS", 2);
    return 0;
}
EXPORT int cuDeviceGetName(char *name, int bytes, int device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "NVIDIA F100 80GB");
    return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = &now_us;
    return 0;
}
EXPORT int cuCtxSetCurrent(void *context)
{
    (void)context;
    return 0;
}
EXPORT int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
    *address = (unsigned long long)(uintptr_t)malloc(bytes);
    return *address ? 0 : 2;
}
EXPORT int cuMemFree_v2(unsigned long long address)
{
    free((void *)(uintptr_t)address);
    return 0;
}
EXPORT int cuMemsetD16Async(unsigned long long address, unsigned short value, size_t count,
                            void *stream)
{
    unsigned short *at = (void *)(uintptr_t)address;

    (void)stream;
    for (size_t i = 0; i < count; i++)
        at[i] = value;
    return 0;
}
EXPORT int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}
EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    *stream = &now_us;
    return 0;
}
EXPORT int cuStreamSynchronize(void *stream)
{
    (void)stream;
    return 0;
}
EXPORT int cuStreamBeginCapture_v2(void *stream, int mode)
{
    (void)stream;
    (void)mode;
    capturing = calloc(1, sizeof(*capturing));
    return capturing ? 0 : 2;
}
EXPORT int cuStreamEndCapture(void *stream, void **graph)
{
    (void)stream;
    *graph = capturing;
    capturing = NULL;
    return 0;
}
EXPORT int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    (void)flags;
    *exec = graph;
    return 0;
}
EXPORT int cuGraphLaunch(void *exec, void *stream)
{
    (void)stream;
    usleep((unsigned)number("FAKEGPU_SLOW_US", 0));
    now_us += ((struct graph *)exec)->us * (1 + 0.01 * (rand() % 100) / 100);
    return 0;
}
EXPORT int cuGraphGetNodes(void *graph, void **nodes, size_t *count)
{
    nodes[0] = graph;
    *count = 1;
    return 0;
}
EXPORT int cuGraphNodeGetType(void *node, int *type)
{
    (void)node;
    *type = 0;
    return 0;
}
EXPORT int cuGraphKernelNodeGetParams_v2(void *node, void *params)
{
    memcpy((char *)params + sizeof(void *), &((struct graph *)node)->blocks, sizeof(unsigned));
    return 0;
}
EXPORT int cuGraphExecDestroy(void *exec)
{
    (void)exec;
    return 0;
}
EXPORT int cuGraphDestroy(void *graph)
{
    free(graph);
    return 0;
}
EXPORT int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(struct event));
    return *event ? 0 : 2;
}
EXPORT int cuEventRecord(void *event, void *stream)
{
    (void)stream;
    ((struct event *)event)->us = now_us;
    return 0;
}
EXPORT int cuEventElapsedTime(float *ms, void *from, void *to)
{
    *ms = (float)((((struct event *)to)->us - ((struct event *)from)->us) / 1e3);
    return 0;
}
EXPORT int cuGetErrorString(int code, const char **text)
{
    (void)code;
    *text = "fake error";
    return 0;
}

/* ---- NCCL ---- */

struct id {
    char bytes[128];
};

struct comm {
    int rank, ranks;
    double luck; /* of this communicator, common to all ranks */
    unsigned id;
    int sockets; /* ranks are nodes */
    const ncclTuner_v3_t *tuner;
    void *context;
};

/* What the tuner logs goes where NCCL's log goes. */
static void to_log(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                   const char *fmt, ...)
{
    FILE *log = getenv("NCCL_DEBUG_FILE") ? fopen(getenv("NCCL_DEBUG_FILE"), "a") : NULL;
    va_list args;

    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    if (!log)
        return;
    va_start(args, fmt);
    vfprintf(log, fmt, args);
    va_end(args);
    fputc('\n', log);
    fclose(log);
}

EXPORT int ncclGetVersion(int *version)
{
    *version = 22809;
    return 0;
}
EXPORT int ncclGetUniqueId(struct id *id)
{
    static int count;

    memset(id, 0, sizeof(*id));
    id->bytes[0] = (char)(++count + 7 * (int)getpid());
    return 0;
}
EXPORT int ncclCommInitRank(void **comm_p, int ranks, struct id id, int rank)
{
    struct comm *comm = calloc(1, sizeof(*comm));
    const char *plugin = getenv("NCCL_TUNER_PLUGIN");
    void *library = plugin && !getenv("FAKEGPU_OLD") ? dlopen(plugin, RTLD_NOW | RTLD_LOCAL) : NULL;
    const char *host = getenv("NCCL_HOSTID");

    if (!comm)
        return 1;
    comm->rank = rank;
    comm->ranks = ranks;
    comm->id = (unsigned char)id.bytes[0];
    comm->sockets = host != NULL;
    comm->luck = 1 + 0.03 * sin(id.bytes[0] * 2.399);
    comm->tuner = library ? dlsym(library, "ncclTunerPlugin_v3") : NULL;
    if (comm->tuner && getenv("NCCL_DEBUG_FILE") && rank == 0) {
        FILE *file = fopen(getenv("NCCL_DEBUG_FILE"), "a");

        if (file) {
            fprintf(file, "TUNER/Plugin: Using %s (v3)\n", comm->tuner->name);
            fclose(file);
        }
    }
    if (comm->tuner)
        comm->tuner->init((size_t)ranks, host ? (size_t)ranks : 1, to_log, &comm->context);
    *comm_p = comm;
    return 0;
}
EXPORT int ncclCommDestroy(void *comm)
{
    struct comm *c = comm;

    if (c->tuner)
        c->tuner->destroy(c->context);
    free(c);
    return 0;
}
EXPORT const char *ncclGetErrorString(int code)
{
    (void)code;
    return "fake NCCL error";
}

#define CHANNELS 16

/* Truth: rings with LL start early and move slowly; trees are good in the middle, where this NCCL does not take them. */
static double truth_us(int algo, int proto, int channels, double bytes)
{
    static const double start[2][3] = {{7, 12, 14}, {9, 15, 22}}, rate[3] = {6, 15, 20};
    double transfer = bytes / (1e3 * fmin(channels * rate[proto], proto == 2 ? 250 : 140));

    return start[algo][proto] + transfer * (algo == 0 ? 1.25 : 1);
}

/* The same over sockets: one thread moves all channels, so a second one gains little and costs a round of its own. */
static double sockets_us(int coll, int algo, int proto, int channels, double bytes)
{
    static const double start[2][3] = {{30, 45, 50}, {22, 35, 42}}, rate[3] = {0.85, 1.6, 2.4};
    int hops = coll == ncclFuncAllReduce ? 2 : 1;
    double transfer = bytes * hops / 2 / (1e3 * rate[proto] * (1 + 0.25 * (channels - 1)));

    return start[algo][proto] + (algo ? 10 * hops : 0) + 12 * hops * (channels - 1) +
           transfer * (algo == 0 ? 1.1 : 1);
}

/* A number of about standard normal distribution, the same on all ranks. */
static double noise_of(unsigned a, unsigned b)
{
    uint64_t x = (a * 0x9E3779B97F4A7C15ull) ^ (b * 0xC2B2AE3D27D4EB4Full);
    double sum = 0;

    for (int i = 0; i < 12; i++) {
        x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9ull;
        sum += (double)((x ^ (x >> 29)) & 0xFFFFFF) / 0x1000000;
    }
    return sum - 6;
}

static double time_us(const struct comm *comm, int coll, int algo, int proto, int channels,
                      double bytes)
{
    double us = comm->sockets ? sockets_us(coll, algo, proto, channels, bytes)
                              : truth_us(algo, proto, channels, bytes);
    unsigned config = (unsigned)(((coll * 8 + algo) * 4 + proto) * 64 + channels);

    return us * comm->luck * exp(number("FAKEGPU_NOISE", 0) / 100.0 * noise_of(comm->id, config));
}

/* The line that real NCCL logs for a collective. */
static void log_choice(const struct comm *comm, int coll, size_t bytes, int algo, int proto,
                       int channels)
{
    static const char *const colls[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                        "AllReduce"};
    static const char *const algos[] = {"TREE", "RING"}, *const protos[] = {"LL", "LL128",
                                                                            "SIMPLE"};
    const char *path = getenv("NCCL_DEBUG_FILE");
    FILE *file = path && comm->rank == 0 ? fopen(path, "a") : NULL;

    if (!file)
        return;
    if (coll == ncclFuncAllGather || coll == ncclFuncReduceScatter)
        bytes /= (size_t)comm->ranks;
    fprintf(file,
            "host:1:1 [0] NCCL INFO %s: %zu Bytes -> Algo %s proto %s channel{Lo..Hi}={0..%d}\n",
            colls[coll], bytes, algos[algo], protos[proto], channels - 1);
    fclose(file);
}

static double ask(struct comm *comm, int coll, size_t bytes, unsigned *blocks)
{
    const int each[3] = {8192, 5120, 32768}, own = comm->sockets ? 2 : CHANNELS;
    float table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS], least = 1e30f;
    int channels = 0, algo = 1, proto = 2, most;

    for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++)
        table[i / 3][i % 3] = -1;
    for (int p = 0; p < 3; p++) {
        table[1][p] = (float)(p == 0 ? 8 : p == 1 ? 30 : 15) + (float)bytes / (p ? 2e5f : 1e5f);
        if (coll == ncclFuncAllReduce && !getenv("NCCL_ALGO"))
            table[0][p] = table[1][p] + 10;
        if (p == 1 && comm->sockets)
            table[0][p] = table[1][p] = -1;
    }
    if (comm->tuner)
        comm->tuner->getCollInfo(comm->context, (ncclFunc_t)coll, bytes, 1, (float **)(void *)table,
                                 NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS, &channels);
    for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++) {
        if (table[i / 3][i % 3] >= 0 && table[i / 3][i % 3] < least) {
            least = table[i / 3][i % 3];
            algo = i / 3;
            proto = i % 3;
        }
    }
    most = (int)(bytes / (size_t)each[proto]);
    most = most < 1 ? 1 : most > own ? own : most;
    if (!channels || channels > most)
        channels = most;
    *blocks = (unsigned)channels;
    log_choice(comm, coll, bytes, algo, proto, channels);
    return time_us(comm, coll, algo, proto, channels, (double)bytes);
}

static unsigned short bf16(int value)
{
    float f = (float)(value + number("FAKEGPU_WRONG", 0));
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return (unsigned short)(bits >> 16);
}

static void fill(void *at, size_t count, int value)
{
    cuMemsetD16Async((unsigned long long)(uintptr_t)at, bf16(value), count, NULL);
}

static int run(struct comm *comm, int coll, size_t elements, void *recv)
{
    static int calls;
    unsigned blocks;
    double us = ask(comm, coll, 2 * elements, &blocks);
    size_t part = elements / (size_t)comm->ranks;
    int sum = comm->ranks * (comm->ranks + 1) / 2;

    if (++calls == number("FAKEGPU_DIE", -1))
        _Exit(9);
    if (capturing) {
        capturing->us += us;
        capturing->blocks = blocks;
        return 0;
    }
    now_us += us;
    if (coll == ncclFuncAllGather) {
        for (int r = 0; r < comm->ranks; r++)
            fill((unsigned short *)recv + (size_t)r * part, part, r + 1);
    } else if (coll == ncclFuncBroadcast) {
        fill(recv, elements, 1);
    } else {
        fill(recv, coll == ncclFuncReduceScatter ? part : elements, sum);
    }
    return 0;
}

EXPORT int ncclAllReduce(const void *send, void *recv, size_t n, int type, int op, void *comm,
                         void *stream)
{
    (void)send, (void)type, (void)op, (void)stream;
    return run(comm, ncclFuncAllReduce, n, recv);
}
EXPORT int ncclAllGather(const void *send, void *recv, size_t n, int type, void *comm, void *stream)
{
    (void)send, (void)type, (void)stream;
    return run(comm, ncclFuncAllGather, n * (size_t)((struct comm *)comm)->ranks, recv);
}
EXPORT int ncclReduceScatter(const void *send, void *recv, size_t n, int type, int op, void *comm,
                             void *stream)
{
    (void)send, (void)type, (void)op, (void)stream;
    return run(comm, ncclFuncReduceScatter, n * (size_t)((struct comm *)comm)->ranks, recv);
}
EXPORT int ncclBroadcast(const void *send, void *recv, size_t n, int type, int root, void *comm,
                         void *stream)
{
    (void)send, (void)type, (void)root, (void)stream;
    return run(comm, ncclFuncBroadcast, n, recv);
}
EXPORT int ncclReduce(const void *send, void *recv, size_t n, int type, int op, int root,
                      void *comm, void *stream)
{
    (void)send, (void)type, (void)op, (void)root, (void)stream;
    return run(comm, ncclFuncReduce, n, recv);
}
