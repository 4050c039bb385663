/*
 * Finds a net plugin and calls it through the interface version asked for. The only file of the
 * fake NCCL core that sees include/nccl. A call is one switch over the version; nothing is cached.
 */
#include "fake_net.h"
#include "fake_util.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <nccl/net_v10.h>
#include <nccl/net_v11.h>
#include <nccl/net_v12.h>
#include <nccl/net_v6.h>
#include <nccl/net_v7.h>
#include <nccl/net_v8.h>
#include <nccl/net_v9.h>

int fake_log_level = 1;
_Atomic int fake_log_warnings;
char fake_log_prefix[32];
_Thread_local struct fake_note *fake_note;

#define TABLE(v) ((const ncclNet_v##v##_t *)net->table)
/* One case of a switch over the version: calls entry `fn` of version v. */
#define CASE(v, fn, ...)                                                                           \
    case v: enter(#fn); return leave((int)TABLE(v)->fn(__VA_ARGS__))

static void enter(const char *call)
{
    if (fake_note)
        atomic_store_explicit(&fake_note->inside, call, memory_order_relaxed);
}

static int leave(int result)
{
    if (!fake_note)
        return result;
    atomic_store_explicit(&fake_note->inside, NULL, memory_order_relaxed);
    atomic_fetch_add_explicit(&fake_note->calls, 1, memory_order_relaxed);
    return result;
}

static void log_line(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                     const char *fmt, ...)
{
    static const char *const names[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
    char text[1024];
    va_list args;

    (void)flags;
    if (level == NCCL_LOG_WARN)
        fake_log_warnings++;
    if (fake_log_level == 0 || (fake_log_level == 1 && level != NCCL_LOG_WARN))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(stderr, "%s%s %s:%d %s\n", fake_log_prefix,
            (unsigned)level < 6 ? names[(unsigned)level] : "?", file ? file : "?", line, text);
}

static ncclResult_t profile(void **event, int type, void *parent, int64_t plugin, void *data)
{
    (void)type;
    (void)parent;
    (void)plugin;
    (void)data;
    if (event)
        *event = NULL;
    return ncclSuccess;
}

static void *open_library(const char *plugin, char *why, size_t size)
{
    char name[512];
    size_t length = strlen(plugin);
    void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);

    if (library)
        return library;
    snprintf(why, size, "%s", dlerror());
    if (strchr(plugin, '/') ||
        (strncmp(plugin, "lib", 3) == 0 && length > 6 && strcmp(plugin + length - 3, ".so") == 0))
        return NULL;
    snprintf(name, sizeof(name), "libnccl-net-%s.so", plugin);
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(why, size, "%s", dlerror());
    return library;
}

static const void *symbol_of(void *library, int version)
{
    char symbol[64];

    snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
    return dlsym(library, symbol);
}

bool fake_net_has(const struct fake_net *net, int version)
{
    return symbol_of(net->library, version) != NULL;
}

int fake_net_open(const char *plugin, int version, struct fake_net *net, char *why, size_t size)
{
    int newest = version ? version : FAKE_NEWEST;
    int oldest = version ? version : FAKE_OLDEST;

    memset(net, 0, sizeof(*net));
    net->library = open_library(plugin, why, size);
    if (!net->library)
        return -ENOENT;
    for (int v = newest; v >= oldest && !net->table; v--) {
        net->table = symbol_of(net->library, v);
        net->version = v;
    }
    if (!net->table) {
        if (oldest == newest)
            snprintf(why, size, "%s has no ncclNetPlugin_v%d", plugin, newest);
        else
            snprintf(why, size, "%s has no ncclNetPlugin_v%d..v%d", plugin, oldest, newest);
        fake_net_close(net);
        return -ENOSYS;
    }
    net->name = *(const char *const *)net->table;
    return 0;
}

void fake_net_close(struct fake_net *net)
{
    if (net->library)
        dlclose(net->library);
    memset(net, 0, sizeof(*net));
}

int fake_net_init(const struct fake_net *net, void **ctx)
{
    static ncclNetCommConfig_v11_t config11 = {.trafficClass = -1};
    static ncclNetCommConfig_v12_t config12 = {.trafficClass = -1};

    *ctx = NULL;
    switch (net->version) {
        CASE(6, init, log_line);
        CASE(7, init, log_line);
        CASE(8, init, log_line);
        CASE(9, init, log_line);
        CASE(10, init, log_line, profile);
        CASE(11, init, ctx, 0x1234, &config11, log_line, profile);
        CASE(12, init, ctx, 0x1234, &config12, log_line, profile);
    }
    return ncclInternalError;
}

int fake_net_finalize(const struct fake_net *net, void *ctx)
{
    switch (net->version) {
        CASE(11, finalize, ctx);
        CASE(12, finalize, ctx);
    }
    return ncclSuccess;
}

int fake_net_devices(const struct fake_net *net, int *count)
{
    switch (net->version) {
        CASE(6, devices, count);
        CASE(7, devices, count);
        CASE(8, devices, count);
        CASE(9, devices, count);
        CASE(10, devices, count);
        CASE(11, devices, count);
        CASE(12, devices, count);
    }
    return ncclInternalError;
}

/* Fields that every version has. */
#define COPY_PROPS(p)                                                                              \
    do {                                                                                           \
        props->name = (p).name;                                                                    \
        props->pci_path = (p).pciPath;                                                             \
        props->guid = (p).guid;                                                                    \
        props->ptr_support = (p).ptrSupport;                                                       \
        props->speed_mbps = (p).speed;                                                             \
        props->port = (p).port;                                                                    \
        props->latency_us = (p).latency;                                                           \
        props->max_comms = (p).maxComms;                                                           \
        props->max_recvs = (p).maxRecvs;                                                           \
    } while (0)
#define CASE_PROPS(v, ...)                                                                         \
    case v: {                                                                                      \
        ncclNetProperties_v##v##_t p;                                                              \
        memset(&p, 0, sizeof(p));                                                                  \
        enter("getProperties");                                                                    \
        result = leave((int)TABLE(v)->getProperties(dev, &p));                                     \
        COPY_PROPS(p);                                                                             \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }
#define COPY_V7 props->device_type = (int)p.netDeviceType
#define COPY_V8 props->reg_is_global = p.regIsGlobal
#define COPY_V9 props->force_flush = p.forceFlush, props->max_p2p_bytes = p.maxP2pBytes

int fake_net_properties(const struct fake_net *net, int dev, struct fake_props *props)
{
    int result = ncclInternalError;

    memset(props, 0, sizeof(*props));
    props->max_p2p_bytes = NCCL_NET_LEGACY_MAX_P2P_BYTES;
    switch (net->version) {
        CASE_PROPS(6, (void)0)
        CASE_PROPS(7, COPY_V7)
        CASE_PROPS(8, COPY_V7, COPY_V8)
        CASE_PROPS(9, COPY_V7, COPY_V8, COPY_V9)
        CASE_PROPS(10, COPY_V7, COPY_V8, COPY_V9)
        CASE_PROPS(11, COPY_V7, COPY_V8, COPY_V9)
        CASE_PROPS(12, COPY_V7, COPY_V8, COPY_V9)
    }
    return result;
}

#define CASE_FUSE(v)                                                                               \
    case v: {                                                                                      \
        ncclNetVDeviceProps_v##v##_t p = {.ndevs = count};                                         \
        for (int i = 0; i < count; i++)                                                            \
            p.devs[i] = first + i;                                                                 \
        enter("makeVDevice");                                                                      \
        return leave((int)TABLE(v)->makeVDevice(dev, &p));                                         \
    }

int fake_net_make_vdevice(const struct fake_net *net, int first, int count, int *dev)
{
    switch (net->version) {
        CASE_FUSE(9)
        CASE_FUSE(10)
        CASE_FUSE(11)
        CASE_FUSE(12)
    }
    return ncclInternalError;
}

int fake_net_listen(const struct fake_net *net, void *ctx, int dev, void *handle, void **comm)
{
    switch (net->version) {
        CASE(6, listen, dev, handle, comm);
        CASE(7, listen, dev, handle, comm);
        CASE(8, listen, dev, handle, comm);
        CASE(9, listen, dev, handle, comm);
        CASE(10, listen, dev, handle, comm);
        CASE(11, listen, ctx, dev, handle, comm);
        CASE(12, listen, ctx, dev, handle, comm);
    }
    return ncclInternalError;
}

int fake_net_connect(const struct fake_net *net, void *ctx, int dev, void *handle, void **comm)
{
    static ncclNetCommConfig_v10_t config = {.trafficClass = -1};
    ncclNetDeviceHandle_v7_t *offload = NULL;

    switch (net->version) {
        CASE(6, connect, dev, handle, comm);
        CASE(7, connect, dev, handle, comm, &offload);
        CASE(8, connect, dev, handle, comm, &offload);
        CASE(9, connect, dev, handle, comm, &offload);
        CASE(10, connect, dev, &config, handle, comm, &offload);
        CASE(11, connect, ctx, dev, handle, comm, &offload);
        CASE(12, connect, ctx, dev, handle, comm, &offload);
    }
    return ncclInternalError;
}

int fake_net_accept(const struct fake_net *net, void *listener, void **comm)
{
    ncclNetDeviceHandle_v7_t *offload = NULL;

    switch (net->version) {
        CASE(6, accept, listener, comm);
        CASE(7, accept, listener, comm, &offload);
        CASE(8, accept, listener, comm, &offload);
        CASE(9, accept, listener, comm, &offload);
        CASE(10, accept, listener, comm, &offload);
        CASE(11, accept, listener, comm, &offload);
        CASE(12, accept, listener, comm, &offload);
    }
    return ncclInternalError;
}

int fake_net_reg(const struct fake_net *net, void *comm, void *data, size_t size, void **mh)
{
    if (net->version < 8 && size > INT_MAX)
        return FAKE_TOO_LARGE;
    switch (net->version) {
        CASE(6, regMr, comm, data, (int)size, fake_gpu_used() ? NCCL_PTR_CUDA : NCCL_PTR_HOST, mh);
        CASE(7, regMr, comm, data, (int)size, fake_gpu_used() ? NCCL_PTR_CUDA : NCCL_PTR_HOST, mh);
        CASE(8, regMr, comm, data, size, fake_gpu_used() ? NCCL_PTR_CUDA : NCCL_PTR_HOST, mh);
        CASE(9, regMr, comm, data, size, fake_gpu_used() ? NCCL_PTR_CUDA : NCCL_PTR_HOST, mh);
        CASE(10, regMr, comm, data, size, fake_gpu_used() ? NCCL_PTR_CUDA : NCCL_PTR_HOST, mh);
        CASE(11, regMr, comm, data, size, fake_gpu_used() ? NCCL_PTR_CUDA : NCCL_PTR_HOST, mh);
        CASE(12, regMr, comm, data, size, fake_gpu_used() ? NCCL_PTR_CUDA : NCCL_PTR_HOST, mh);
    }
    return ncclInternalError;
}

int fake_net_dereg(const struct fake_net *net, void *comm, void *mh)
{
    switch (net->version) {
        CASE(6, deregMr, comm, mh);
        CASE(7, deregMr, comm, mh);
        CASE(8, deregMr, comm, mh);
        CASE(9, deregMr, comm, mh);
        CASE(10, deregMr, comm, mh);
        CASE(11, deregMr, comm, mh);
        CASE(12, deregMr, comm, mh);
    }
    return ncclInternalError;
}

int fake_net_isend(const struct fake_net *net, void *comm, void *data, size_t size, int tag,
                   void *mh, void **request)
{
    if (net->version < 9 && size > NCCL_NET_LEGACY_MAX_P2P_BYTES)
        return FAKE_TOO_LARGE;
    switch (net->version) {
        CASE(6, isend, comm, data, (int)size, tag, mh, request);
        CASE(7, isend, comm, data, (int)size, tag, mh, request);
        CASE(8, isend, comm, data, (int)size, tag, mh, request);
        CASE(9, isend, comm, data, size, tag, mh, request);
        CASE(10, isend, comm, data, size, tag, mh, NULL, request);
        CASE(11, isend, comm, data, size, tag, mh, NULL, request);
        CASE(12, isend, comm, data, size, tag, mh, NULL, request);
    }
    return ncclInternalError;
}

int fake_net_irecv(const struct fake_net *net, void *comm, int n, void **data, const size_t *sizes,
                   int *tags, void **mh, void **request)
{
    void *phandles[FAKE_MAX_GROUP] = {NULL};
    size_t wide[FAKE_MAX_GROUP];
    int narrow[FAKE_MAX_GROUP];

    for (int i = 0; i < n; i++) {
        if (net->version < 9 && sizes[i] > NCCL_NET_LEGACY_MAX_P2P_BYTES)
            return FAKE_TOO_LARGE;
        wide[i] = sizes[i];
        narrow[i] = (int)sizes[i];
    }
    if (net->version < 9)
        *request = NULL;
    switch (net->version) {
        CASE(6, irecv, comm, n, data, narrow, tags, mh, request);
        CASE(7, irecv, comm, n, data, narrow, tags, mh, request);
        CASE(8, irecv, comm, n, data, narrow, tags, mh, request);
        CASE(9, irecv, comm, n, data, wide, tags, mh, request);
        CASE(10, irecv, comm, n, data, wide, tags, mh, phandles, request);
        CASE(11, irecv, comm, n, data, wide, tags, mh, phandles, request);
        CASE(12, irecv, comm, n, data, wide, tags, mh, phandles, request);
    }
    return ncclInternalError;
}

int fake_net_iflush(const struct fake_net *net, void *comm, int n, void **data, int *sizes,
                    void **mh, void **request)
{
    switch (net->version) {
        CASE(6, iflush, comm, n, data, sizes, mh, request);
        CASE(7, iflush, comm, n, data, sizes, mh, request);
        CASE(8, iflush, comm, n, data, sizes, mh, request);
        CASE(9, iflush, comm, n, data, sizes, mh, request);
        CASE(10, iflush, comm, n, data, sizes, mh, request);
        CASE(11, iflush, comm, n, data, sizes, mh, request);
        CASE(12, iflush, comm, n, data, sizes, mh, request);
    }
    return ncclInternalError;
}

int fake_net_test(const struct fake_net *net, void *request, int *done, int *sizes)
{
    switch (net->version) {
        CASE(6, test, request, done, sizes);
        CASE(7, test, request, done, sizes);
        CASE(8, test, request, done, sizes);
        CASE(9, test, request, done, sizes);
        CASE(10, test, request, done, sizes);
        CASE(11, test, request, done, sizes);
        CASE(12, test, request, done, sizes);
    }
    return ncclInternalError;
}

/* A close of one comm: the same signature in every version. */
#define CLOSE(function, entry)                                                                     \
    int function(const struct fake_net *net, void *comm)                                           \
    {                                                                                              \
        switch (net->version) {                                                                    \
            CASE(6, entry, comm);                                                                  \
            CASE(7, entry, comm);                                                                  \
            CASE(8, entry, comm);                                                                  \
            CASE(9, entry, comm);                                                                  \
            CASE(10, entry, comm);                                                                 \
            CASE(11, entry, comm);                                                                 \
            CASE(12, entry, comm);                                                                 \
        }                                                                                          \
        return ncclInternalError;                                                                  \
    }

CLOSE(fake_net_close_send, closeSend)
CLOSE(fake_net_close_recv, closeRecv)
CLOSE(fake_net_close_listen, closeListen)

const char *fake_result_name(int result)
{
    static const char *const names[] = {"success",        "unhandled CUDA error", "system error",
                                        "internal error", "invalid argument",     "invalid usage",
                                        "remote error",   "in progress"};

    if (result == FAKE_TOO_LARGE)
        return "too large for this interface version";
    if (result < 0 || result > 7)
        return "unknown result";
    return names[result];
}
