/*
 * Counts what a net plugin does for a message over the fake verbs library: work requests, doorbells, completions, packets; and
 * gives callgrind one function to look at. Both ends are in this process and one thread drives them in a fixed order, so that the
 * counts are the same in every run. Any plugin that exports ncclNetPlugin_v11 will do.
 * Usage: verbs_work PLUGIN BYTES MESSAGES, or verbs_work PLUGIN connect PEERS (set-up time, memory and queue pairs of as many
 * connections, both ends here); prints one JSON object. BRAID_VERBS_LIBRARY or LD_LIBRARY_PATH leads to the fake library; with
 * the real one (tests/vm/packets_guest.sh) nothing is counted here.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "nccl/net_v11.h"

#define WINDOW 8 /* NCCL_STEPS: receives and sends under way on a connection */

static const char *const counters[] = {"send_wqes",      "send_doorbells", "recv_wqes",
                                       "recv_doorbells", "completions",    "packets",
                                       "polls",          "rnr_waits"};
#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

static ncclNet_v11_t *net;
static void *ctx, *listener, *send_comm, *recv_comm, *send_mr, *recv_mr;
static char *source, *target;

static void die(const char *what)
{
    fprintf(stderr, "verbs_work: %s\n", what);
    exit(1);
}

static void must(ncclResult_t result, const char *what)
{
    if (result != ncclSuccess)
        die(what);
}

static void quiet(ncclDebugLogLevel level, unsigned long flags, const char *file, int line,
                  const char *fmt, ...)
{
}

static void *post_recv(char *to, size_t bytes)
{
    void *data[1] = {to}, *mrs[1] = {recv_mr}, *request = NULL;
    size_t sizes[1] = {bytes};
    int tags[1] = {1};

    must(net->irecv(recv_comm, 1, data, sizes, tags, mrs, NULL, &request), "irecv");
    return request;
}

static void *post_send(char *from, size_t bytes)
{
    void *request = NULL;

    must(net->isend(send_comm, from, bytes, 1, send_mr, NULL, &request), "isend");
    return request;
}

static int is_done(void *request)
{
    int done = 0, size = 0;

    must(net->test(request, &done, &size), "test");
    return done;
}

/* What callgrind collects (--toggle-collect=measured). Receives are posted ahead, then sends, then both are tested in order. */
__attribute__((noinline)) void measured(int messages, size_t bytes);
void measured(int messages, size_t bytes)
{
    void *recvs[WINDOW] = {0}, *sends[WINDOW] = {0};
    int posted_recvs = 0, posted_sends = 0, done_recvs = 0, done_sends = 0;

    while (done_recvs < messages || done_sends < messages) {
        if (posted_recvs < messages && posted_recvs - done_recvs < WINDOW) {
            recvs[posted_recvs % WINDOW] =
                post_recv(target + (size_t)(posted_recvs % WINDOW) * bytes, bytes);
            posted_recvs += recvs[posted_recvs % WINDOW] != NULL;
        }
        if (posted_sends < posted_recvs && posted_sends - done_sends < WINDOW) {
            sends[posted_sends % WINDOW] =
                post_send(source + (size_t)(posted_sends % WINDOW) * bytes, bytes);
            posted_sends += sends[posted_sends % WINDOW] != NULL;
        }
        if (done_sends < posted_sends)
            done_sends += is_done(sends[done_sends % WINDOW]);
        if (done_recvs < posted_recvs)
            done_recvs += is_done(recvs[done_recvs % WINDOW]);
    }
}

static void connect_both(void)
{
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    uint64_t start = braid_now_ns();

    must(net->listen(ctx, 0, handle, &listener), "listen");
    while (send_comm == NULL || recv_comm == NULL) {
        ncclNetDeviceHandle_v11_t *none = NULL;
        if (send_comm == NULL)
            must(net->connect(ctx, 0, handle, &send_comm, &none), "connect");
        if (recv_comm == NULL)
            must(net->accept(listener, &recv_comm, &none), "accept");
        if (braid_now_ns() - start > 60ull * 1000000000)
            die("connect and accept do not end");
        usleep(100);
    }
}

/* Pages that this process holds in memory. */
static long resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size = 0, resident = 0;

    if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2)
        die("/proc/self/statm");
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* All at once, as NCCL does: every listen, then turns of connect and accept until all are up. */
static void connect_many(int peers, int64_t (*counter)(const char *name))
{
    char(*handles)[NCCL_NET_HANDLE_MAXSIZE] = calloc((size_t)peers, sizeof(*handles));
    void **listens = calloc((size_t)peers, sizeof(void *)),
         **sends = calloc((size_t)peers, sizeof(void *));
    void **recvs = calloc((size_t)peers, sizeof(void *));
    long memory = resident_bytes();
    int64_t qps = counter != NULL ? counter("qps") : 0;
    uint64_t start = braid_now_ns();

    for (int i = 0; i < peers; i++)
        must(net->listen(ctx, 0, handles[i], &listens[i]), "listen");
    for (int left = 2 * peers; left > 0;) {
        for (int i = 0; i < peers; i++) {
            ncclNetDeviceHandle_v11_t *none = NULL;
            if (sends[i] == NULL) {
                must(net->connect(ctx, 0, handles[i], &sends[i], &none), "connect");
                left -= sends[i] != NULL;
            }
            if (recvs[i] == NULL) {
                must(net->accept(listens[i], &recvs[i], &none), "accept");
                left -= recvs[i] != NULL;
            }
        }
        if (braid_now_ns() - start > 100ull * 1000000000)
            die("connect and accept do not end");
    }
    printf("{\"peers\": %d, \"setup_us\": %.0f, \"memory_bytes\": %.0f, \"qps\": %.2f}\n", peers,
           (double)(braid_now_ns() - start) / 1e3,
           (double)(resident_bytes() - memory) / (2 * peers),
           counter != NULL ? (double)(counter("qps") - qps) / (2 * peers) : 0);
    fflush(stdout);
    _exit(0);
}

static void read_counters(int64_t (*counter)(const char *name), int64_t *values)
{
    for (size_t i = 0; i < COUNTERS; i++)
        values[i] = counter(counters[i]);
}

int main(int argc, char **argv)
{
    ncclNetCommConfig_v11_t config = {.trafficClass = -1};
    const char *own = getenv("BRAID_VERBS_LIBRARY");
    void *plugin = argc == 4 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
    void *fake = dlopen(own != NULL ? own : "libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    int64_t (*counter)(const char *name) = NULL;
    int64_t before[COUNTERS], after[COUNTERS];
    size_t bytes;
    int messages;

    if (plugin == NULL || fake == NULL)
        die(dlerror());
    *(void **)&counter = dlsym(fake, "fakeverbs_counter");
    net = dlsym(plugin, "ncclNetPlugin_v11");
    if (net == NULL)
        die("the plugin does not export ncclNetPlugin_v11");
    bytes = strtoul(argv[2], NULL, 0);
    messages = atoi(argv[3]);
    source = aligned_alloc(4096, (bytes * WINDOW + 4095) / 4096 * 4096);
    target = aligned_alloc(4096, (bytes * WINDOW + 4095) / 4096 * 4096);
    memset(source, 'x', bytes * WINDOW);
    must(net->init(&ctx, 1, &config, quiet, NULL), "init");
    if (strcmp(argv[2], "connect") == 0)
        connect_many(messages, counter);
    connect_both();
    must(net->regMr(send_comm, source, bytes * WINDOW, NCCL_PTR_HOST, &send_mr), "regMr");
    must(net->regMr(recv_comm, target, bytes * WINDOW, NCCL_PTR_HOST, &recv_mr), "regMr");
    measured(WINDOW * 40, bytes); /* registrations told, credits in their stride */
    if (counter != NULL)
        read_counters(counter, before);
    measured(messages, bytes);
    if (counter == NULL) { /* the real library: whoever runs this reads the port's counters */
        printf("{\"bytes\": %zu, \"messages\": %d}\n", bytes, messages);
        fflush(stdout);
        _exit(0);
    }
    read_counters(counter, after);
    if (memcmp(source, target, bytes * WINDOW) != 0)
        die("wrong data");
    printf("{\"bytes\": %zu, \"messages\": %d", bytes, messages);
    for (size_t i = 0; i < COUNTERS; i++)
        printf(", \"%s\": %.4f", counters[i], (double)(after[i] - before[i]) / messages);
    printf("}\n");
    fflush(stdout);
    _exit(0); /* not every plugin survives being closed at once */
}
