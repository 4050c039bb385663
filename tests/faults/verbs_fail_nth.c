/*
 * Fails the nth call of libibverbs, for every n, over a whole life of the plugin in one process: init, connect and accept,
 * registration, a small and a large message, close, finalize. Whatever fails, calls must return (an error or success),
 * nothing may crash (run it under the asan preset), and at the end no verbs object may be left.
 * Usage: verbs_fail_nth PLUGIN FAKEVERBS. The fake library (tests/fakeverbs) counts and fails the calls.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "nccl/net_v12.h"

#define LARGE   (256 * 1024)
#define SMALL   64
#define WAIT_NS (10ull * 1000 * 1000 * 1000)

static ncclNet_v12_t *net;
static void (*fail_nth)(int64_t nth);
static int64_t (*calls)(void);
static int64_t (*live_objects)(void);

static char source[LARGE], target[LARGE];
static int lines;

static void quiet(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                  const char *fmt, ...)
{
    lines++;
}

struct pair {
    void *ctx, *listener, *send, *recv, *send_mr, *recv_mr;
};

/* Until both ends are up (true), one failed, or the bound passed (the test then fails). */
static bool connect_pair(struct pair *p)
{
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    uint64_t start = braid_now_ns();

    if (net->listen(p->ctx, 0, handle, &p->listener) != ncclSuccess)
        return false;
    while (p->send == NULL || p->recv == NULL) {
        ncclNetDeviceHandle_v12_t *none = NULL;
        if (p->send == NULL && net->connect(p->ctx, 0, handle, &p->send, &none) != ncclSuccess)
            return false;
        if (p->recv == NULL && net->accept(p->listener, &p->recv, &none) != ncclSuccess)
            return false;
        if (braid_now_ns() - start > WAIT_NS) {
            fprintf(stderr, "connect and accept do not end\n");
            exit(1);
        }
        usleep(200);
    }
    return true;
}

/* One message; false when it failed. */
static bool transfer(struct pair *p, size_t bytes)
{
    void *data[1] = {target}, *mrs[1] = {p->recv_mr}, *sent = NULL, *received = NULL;
    size_t sizes[1] = {bytes};
    int tags[1] = {3}, done = 0, got = 0;
    uint64_t start = braid_now_ns();

    memset(target, 0, bytes);
    while (sent == NULL || received == NULL) {
        if (received == NULL &&
            net->irecv(p->recv, 1, data, sizes, tags, mrs, NULL, &received) != ncclSuccess)
            return false;
        if (sent == NULL &&
            net->isend(p->send, source, bytes, 3, p->send_mr, NULL, &sent) != ncclSuccess)
            return false;
    }
    for (int ends = 0; ends != 3;) {
        if (!(ends & 1)) {
            if (net->test(sent, &done, &got) != ncclSuccess)
                return false;
            ends |= done ? 1 : 0;
        }
        if (!(ends & 2)) {
            if (net->test(received, &done, &got) != ncclSuccess)
                return false;
            ends |= done ? 2 : 0;
        }
        if (braid_now_ns() - start > WAIT_NS) {
            fprintf(stderr, "a transfer of %zu bytes does not end\n", bytes);
            exit(1);
        }
    }
    if (memcmp(source, target, bytes) != 0) {
        fprintf(stderr, "wrong data in a transfer of %zu bytes\n", bytes);
        exit(1);
    }
    return true;
}

/* A whole life; true when nothing failed. */
static bool life(void)
{
    struct pair p = {0};
    ncclNetCommConfig_v12_t config = {.trafficClass = -1};
    int devices = 0;
    bool right = net->init(&p.ctx, 1, &config, quiet, NULL) == ncclSuccess;

    if (!right)
        return false;
    right = net->devices(&devices) == ncclSuccess && devices > 0 && connect_pair(&p);
    right = right && net->regMr(p.send, source, LARGE, NCCL_PTR_HOST, &p.send_mr) == ncclSuccess;
    right = right && net->regMr(p.recv, target, LARGE, NCCL_PTR_HOST, &p.recv_mr) == ncclSuccess;
    for (int i = 0; i < 3 && right; i++)
        right = transfer(&p, SMALL) && transfer(&p, LARGE);
    if (p.send_mr != NULL)
        net->deregMr(p.send, p.send_mr);
    if (p.recv_mr != NULL)
        net->deregMr(p.recv, p.recv_mr);
    if (p.send != NULL)
        net->closeSend(p.send);
    if (p.recv != NULL)
        net->closeRecv(p.recv);
    if (p.listener != NULL)
        net->closeListen(p.listener);
    net->finalize(p.ctx);
    return right;
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int argc, char **argv)
{
    void *fake = argc == 3 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *plugin = fake != NULL ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int64_t total, right = 0;

    if (plugin == NULL) {
        fprintf(stderr, "usage: verbs_fail_nth PLUGIN FAKEVERBS: %s\n", argc == 3 ? dlerror() : "");
        return 2;
    }
    net = symbol(plugin, "ncclNetPlugin_v12");
    *(void **)&fail_nth = symbol(fake, "fakeverbs_fail_nth");
    *(void **)&calls = symbol(fake, "fakeverbs_calls");
    *(void **)&live_objects = symbol(fake, "fakeverbs_live_objects");
    for (int i = 0; i < LARGE; i++)
        source[i] = (char)(i * 31 + 7);
    fail_nth(0);
    if (!life() || live_objects() != 0) {
        fprintf(stderr, "it fails without a failing call (%ld objects left)\n",
                (long)live_objects());
        return 1;
    }
    total = calls();
    for (int64_t n = 1; n <= total; n++) {
        lines = 0;
        fail_nth(n);
        if (life())
            right++; /* a call whose failure is made good for, such as a GID that cannot be read */
        else if (lines == 0)
            fprintf(stderr, "call %ld of %ld: failed without a word\n", (long)n, (long)total);
        fail_nth(0);
        if (live_objects() != 0) {
            fprintf(stderr, "call %ld of %ld: %ld verbs objects are left\n", (long)n, (long)total,
                    (long)live_objects());
            return 1;
        }
    }
    printf("%ld calls failed one by one, %ld of them without consequence\n", (long)total,
           (long)right);
    return 0;
}
