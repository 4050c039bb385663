/*
 * Parts of the verbs transport's life that ordinary traffic does not reach, in one process over the fake library:
 *   registrations of the same pages share one region; a dma-buf that the kernel does not take falls back to peer memory;
 *   a GPU buffer is flushed by a read on every rail, and no message to it is eager;
 *   after a port flap GIDs are at other indices, and new connections find them there;
 *   service level, traffic class, partition key, timeouts and ECE options are what the user and the communicator say.
 * The fake library does not know GPU memory, so host memory stands for it.
 * Usage: verbs_life PLUGIN FAKEVERBS host|gpu|settings (with a script and an environment that fit the part: see CMakeLists.txt).
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "nccl/net_v12.h"

#define BYTES   (64 * 1024)
#define WAIT_NS (60ull * 1000 * 1000 * 1000)

static ncclNet_v12_t *net;
static int64_t (*counter)(const char *name);
static int (*event)(const char *device, const char *name);
static int (*move_gid)(const char *device, int from, int to);
static int64_t (*path)(int nth, const char *what);
static atomic_int rereads; /* lines that say that a port's table was read again */
static void *ctx;
static char *source, *target;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct pair {
    void *listener, *send, *recv, *send_mr, *recv_mr;
};

static void log_line(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                     const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (strstr(text, "were read again") != NULL)
        atomic_fetch_add(&rereads, 1);
}

static void connect_pair(struct pair *p, int dev)
{
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    uint64_t start = braid_now_ns();

    CHECK(net->listen(ctx, dev, handle, &p->listener) == ncclSuccess);
    while (p->send == NULL || p->recv == NULL) {
        ncclNetDeviceHandle_v12_t *none = NULL;
        if (p->send == NULL)
            CHECK(net->connect(ctx, dev, handle, &p->send, &none) == ncclSuccess);
        if (p->recv == NULL)
            CHECK(net->accept(p->listener, &p->recv, &none) == ncclSuccess);
        CHECK(braid_now_ns() - start < WAIT_NS);
        usleep(200);
    }
}

static void wait_done(void *request)
{
    int done = 0, size = 0;
    uint64_t start = braid_now_ns();

    while (!done) {
        CHECK(net->test(request, &done, &size) == ncclSuccess);
        CHECK(braid_now_ns() - start < WAIT_NS);
    }
}

static void transfer(struct pair *p, size_t bytes)
{
    void *data[1] = {target}, *mrs[1] = {p->recv_mr}, *sent = NULL, *received = NULL;
    size_t sizes[1] = {bytes};
    int tags[1] = {3}, done = 0, size = 0;
    uint64_t start = braid_now_ns();

    memset(target, 0, bytes);
    while (received == NULL)
        CHECK(net->irecv(p->recv, 1, data, sizes, tags, mrs, NULL, &received) == ncclSuccess);
    while (sent == NULL)
        CHECK(net->isend(p->send, source, bytes, 3, p->send_mr, NULL, &sent) == ncclSuccess);
    for (int ends = 0;
         ends != 3;) { /* the receiver's announcement and the sender's chunks take turns */
        if (!(ends & 1)) {
            CHECK(net->test(sent, &done, &size) == ncclSuccess);
            ends |= done;
        }
        if (!(ends & 2)) {
            CHECK(net->test(received, &done, &size) == ncclSuccess);
            ends |= done << 1;
        }
        CHECK(braid_now_ns() - start < WAIT_NS);
    }
    CHECK(memcmp(source, target, bytes) == 0);
}

static void close_pair(struct pair *p)
{
    if (p->send_mr != NULL)
        net->deregMr(p->send, p->send_mr);
    if (p->recv_mr != NULL)
        net->deregMr(p->recv, p->recv_mr);
    net->closeSend(p->send);
    net->closeRecv(p->recv);
    net->closeListen(p->listener);
}

/* The same pages on two connections are one region of the NIC; a part of them too; others are not. */
static void check_registrations(void)
{
    struct pair p = {0};
    int64_t before;
    void *more[3];

    connect_pair(&p, 0);
    before = counter("mrs");
    CHECK(net->regMr(p.send, source, BYTES, NCCL_PTR_HOST, &more[0]) == ncclSuccess);
    CHECK(net->regMr(p.recv, source, BYTES, NCCL_PTR_HOST, &more[1]) == ncclSuccess);
    CHECK(net->regMr(p.recv, source + 4096, 100, NCCL_PTR_HOST, &more[2]) == ncclSuccess);
    CHECK(counter("mrs") == before + 1);
    CHECK(net->regMr(p.recv, target, BYTES, NCCL_PTR_HOST, &p.recv_mr) == ncclSuccess);
    CHECK(counter("mrs") == before + 2);
    CHECK(net->regMr(p.send, source, 0, NCCL_PTR_HOST, &p.send_mr) == ncclSuccess);
    CHECK(counter("mrs") == before + 2);
    net->deregMr(p.send, p.send_mr);
    net->deregMr(p.recv, more[1]);
    net->deregMr(p.recv, more[2]);
    p.send_mr = more[0]; /* the last user of the region */
    transfer(&p, BYTES);
    transfer(&p, 8);
    close_pair(&p);
}

/* A flush reads over every rail; a message of 8 bytes into GPU memory is not eager, so it is written, not stored. */
static void check_gpu(int dev, int rails)
{
    struct pair p = {0};
    void *data[2] = {target, target + 8}, *mrs[2], *request = NULL;
    int sizes[2] = {8, 8}, none[2] = {0, 0};
    int64_t reads, imms;

    connect_pair(&p, dev);
    CHECK(net->regMr(p.send, source, BYTES, NCCL_PTR_CUDA, &p.send_mr) == ncclSuccess);
    CHECK(net->regMrDmaBuf(p.recv, target, BYTES, NCCL_PTR_CUDA, 0, 1, &p.recv_mr) == ncclSuccess);
    imms = counter("writes_imm");
    transfer(&p, 8);
    CHECK(counter("writes_imm") == imms + 1);
    transfer(&p, BYTES);
    mrs[0] = mrs[1] = p.recv_mr;
    reads = counter("reads");
    CHECK(net->iflush(p.recv, 2, data, none, mrs, &request) == ncclSuccess);
    CHECK(request == NULL); /* nothing came: done at once */
    CHECK(net->iflush(p.recv, 2, data, sizes, mrs, &request) == ncclSuccess);
    CHECK(request != NULL);
    wait_done(request);
    CHECK(counter("reads") == reads + rails);
    close_pair(&p);
}

/* The port goes down and comes back with its GID elsewhere; a stale index would be refused (ENODEV). */
static void check_flap(void)
{
    struct pair p = {0}, q = {0};
    uint64_t start;

    connect_pair(&p, 0);
    close_pair(&p);
    atomic_store(&rereads, 0);
    CHECK(event("mlx5_0", "port_err") == 0);
    CHECK(move_gid("mlx5_0", 3, 5) == 0);
    CHECK(event("mlx5_0", "port_active") == 0);
    for (start = braid_now_ns(); atomic_load(&rereads) == 0; usleep(1000))
        CHECK(braid_now_ns() - start < WAIT_NS);
    connect_pair(&q, 0);
    CHECK(net->regMr(q.send, source, BYTES, NCCL_PTR_HOST, &q.send_mr) == ncclSuccess);
    CHECK(net->regMr(q.recv, target, BYTES, NCCL_PTR_HOST, &q.recv_mr) == ncclSuccess);
    transfer(&q, BYTES);
    close_pair(&q);
}

/* Two ports as one device. */
static int fuse(void)
{
    ncclNetVDeviceProps_v12_t both = {.ndevs = 2, .devs = {0, 1}};
    int dev = -1;

    CHECK(net->makeVDevice(&dev, &both) == ncclSuccess && dev == 2);
    return dev;
}

/* The accepting end, which receives, comes to RTR first. The environment is that of CMakeLists.txt. */
static void check_path(int nth, int traffic_class)
{
    CHECK(path(nth, "traffic_class") == traffic_class);
    CHECK(path(nth, "sl") == 3);
    CHECK(path(nth, "pkey_index") == 1);
    CHECK(path(nth, "sgid_index") == 3);
    CHECK(path(nth, "timeout") == 18);
    CHECK(path(nth, "retry_cnt") == 5);
    CHECK(path(nth, "ece_options") == 0x30000002);
}

static void check_settings(void)
{
    ncclNetCommConfig_v12_t own = {.trafficClass = 12};
    void *first = ctx;
    struct pair p = {0}, q = {0};

    connect_pair(&p, 0);
    check_path(0, 96); /* the receiver carries control */
    check_path(1, 40);
    CHECK(net->init(&ctx, 2, &own, log_line, NULL) == ncclSuccess);
    connect_pair(&q, 0);
    check_path(2, 96);
    check_path(3, 12); /* the communicator's own counts for more than the environment's */
    close_pair(&p);
    close_pair(&q);
    CHECK(net->finalize(ctx) == ncclSuccess);
    ctx = first;
}

int main(int argc, char **argv)
{
    ncclNetCommConfig_v12_t config = {.trafficClass = -1};
    void *fake = argc == 4 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *plugin = fake != NULL ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int devices = 0;

    if (plugin == NULL) {
        fprintf(stderr, "usage: verbs_life PLUGIN FAKEVERBS host|gpu|settings: %s\n",
                argc == 4 ? dlerror() : "");
        return 2;
    }
    net = dlsym(plugin, "ncclNetPlugin_v12");
    *(void **)&counter = dlsym(fake, "fakeverbs_counter");
    *(void **)&event = dlsym(fake, "fakeverbs_event");
    *(void **)&move_gid = dlsym(fake, "fakeverbs_move_gid");
    *(void **)&path = dlsym(fake, "fakeverbs_path");
    CHECK(path != NULL && net != NULL && counter != NULL && event != NULL && move_gid != NULL);
    source = aligned_alloc(4096, BYTES);
    target = aligned_alloc(4096, BYTES);
    CHECK(source != NULL && target != NULL);
    for (int i = 0; i < BYTES; i++)
        source[i] = (char)(i * 31 + 7);
    CHECK(net->init(&ctx, 1, &config, log_line, NULL) == ncclSuccess);
    CHECK(net->devices(&devices) == ncclSuccess && devices > 0);
    if (strcmp(argv[3], "gpu") == 0) {
        check_gpu(0, 1);
        check_gpu(fuse(), 2);
    } else if (strcmp(argv[3], "settings") == 0) {
        check_settings();
    } else {
        check_registrations();
        check_flap();
    }
    CHECK(net->finalize(ctx) == ncclSuccess);
    free(source);
    free(target);
    puts("passed");
    return 0;
}
