/*
 * Scenarios about the life of a plugin in a process: loaded again and again, with other or no
 * contexts, asked after it was finalized, and forked in the middle.
 */
#include "fake_flow.h"
#include "scenario.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_CONNS 64

static const struct fake_traffic little = {
    .bytes = 100000, .steps = 12, .depth = 8, .group = 1, .vary = true};

/* Connects a ring, moves some messages, closes. */
static void ring_once(struct fake_rank *r, void *sender_ctx, void *receiver_ctx)
{
    struct fake_conn conns[MAX_CONNS];
    int count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_ring);

    for (int i = 0; i < count; i++)
        conns[i].ctx = conns[i].sends ? sender_ctx : receiver_ctx;
    fake_connect_all(r, conns, count);
    fake_traffic_run(r, conns, count, &little);
    if (r->options->close_together)
        fake_barrier(r, r->options->ranks, "all done");
    fake_close_all(r, conns, count);
    fake_barrier(r, r->options->ranks, "ring");
}

/* Threads beyond `before`. The kernel lists one that was joined for a moment longer, on a slow machine for some milliseconds. */
static int threads_left(int before)
{
    for (int ms = 0; ms < 2000 && fake_proc_count("task") > before; ms += 10)
        fake_sleep_ms(10);
    return fake_proc_count("task") - before;
}

static void reload_main(struct fake_rank *r, void *arg)
{
    int files = fake_proc_count("fd");
    int threads = fake_proc_count("task");

    (void)arg;
    for (int i = 0; i < 3; i++) {
        fake_rank_load(r);
        ring_once(r, r->ctx, r->ctx);
        fake_rank_unload(r);
        fake_say(r, "unloaded, %d descriptors, %d threads", fake_proc_count("fd"),
                 fake_proc_count("task"));
    }
    if (fake_proc_count("fd") > files)
        fake_die(r, "%d descriptors stay open after the library is unloaded",
                 fake_proc_count("fd") - files);
    threads = threads_left(threads);
    if (threads > 0)
        fake_die(r, "%d threads run after the library is unloaded", threads);
}

static void context_main(struct fake_rank *r, void *arg)
{
    void *second = NULL;

    (void)arg;
    fake_rank_load(r);
    if (r->net.version < 11)
        fake_skip(r, "version %d has no contexts", r->net.version);
    ring_once(r, NULL, NULL);
    fake_must(r, fake_net_init(&r->net, &second), "the second init");
    ring_once(r, second, r->ctx);
    ring_once(r, NULL, second);
    fake_must(r, fake_net_finalize(&r->net, second), "finalize of the second context");
    ring_once(r, r->ctx, r->ctx);
    fake_rank_unload(r);
}

/* What NCCL may still ask: results do not matter, coming back does. */
static void ask_after_finalize(struct fake_rank *r)
{
    unsigned char handle[FAKE_HANDLE_BYTES] = {0};
    struct fake_props props;
    void *listener = NULL;
    int devices = 0;

    fake_must(r, fake_net_devices(&r->net, &devices), "devices after finalize");
    fake_must(r, fake_net_properties(&r->net, r->device, &props), "getProperties after finalize");
    if (fake_net_listen(&r->net, r->ctx, r->device, handle, &listener) == 0 && listener)
        fake_must(r, fake_net_close_listen(&r->net, listener), "closeListen after finalize");
    (void)fake_net_finalize(&r->net, NULL);
}

static void finalize_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];
    int count;

    (void)arg;
    fake_rank_load(r);
    if (r->net.version < 11)
        fake_skip(r, "version %d has no finalize", r->net.version);
    ring_once(r, r->ctx, r->ctx);
    count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_ring);
    fake_connect_all(r, conns, count);
    fake_traffic_run(r, conns, count, &little);
    fake_must(r, fake_net_finalize(&r->net, r->ctx), "finalize with connections open");
    fake_close_all(r, conns, count);
    ask_after_finalize(r);
    fake_barrier(r, r->options->ranks, "finalized");
    fake_must(r, fake_net_init(&r->net, &r->ctx), "init after finalize");
    ring_once(r, r->ctx, r->ctx);
    fake_rank_unload(r);
}

/* Listen comms that nobody connects to: NCCL closes them when a communicator is aborted. */
static void listen_main(struct fake_rank *r, void *arg)
{
    unsigned char handle[FAKE_HANDLE_BYTES];
    int files;

    (void)arg;
    fake_rank_load(r);
    ring_once(r, r->ctx, r->ctx);
    files = fake_proc_count("fd");
    for (int i = 0; i < 200; i++) {
        void *listener = NULL;
        void *comm = NULL;

        memset(handle, 0, sizeof(handle));
        fake_must(r, fake_net_listen(&r->net, r->ctx, r->device, handle, &listener), "listen");
        fake_must(r, fake_net_accept(&r->net, listener, &comm), "accept before any connect");
        if (comm)
            fake_die(r, "accept returned a comm although nobody connected");
        fake_must(r, fake_net_close_listen(&r->net, listener), "closeListen");
    }
    if (fake_proc_count("fd") > files + 2)
        fake_die(r, "200 listen comms left %d descriptors open", fake_proc_count("fd") - files);
    fake_barrier(r, r->options->ranks, "listened");
    ring_once(r, r->ctx, r->ctx);
    fake_rank_unload(r);
}

/* Forks a child that ends in one of four ways; returns its pid. */
static pid_t fork_child(struct fake_rank *r, int kind)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        fake_die(r, "fork failed");
    if (pid > 0)
        return pid;
    switch (kind) {
    case 0: _exit(0);
    case 1: execl("/bin/true", "true", (char *)NULL); _exit(127);
    case 2: fake_net_close(&r->net); _exit(0);
    default: fake_sleep_ms(1500); _exit(0);
    }
}

static void fork_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];
    int count;
    pid_t sleeper;
    int status;

    (void)arg;
    fake_rank_load(r);
    count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_ring);
    fake_connect_all(r, conns, count);
    fake_traffic_run(r, conns, count, &little);
    for (int kind = 0; kind < 3; kind++) {
        pid_t pid = fork_child(r, kind);

        fake_traffic_run(r, conns, count, &little);
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fake_die(r, "forked child of kind %d ended with status 0x%x", kind, status);
    }
    /* This child holds copies of every descriptor while the parent goes on and closes. */
    sleeper = fork_child(r, 3);
    fake_traffic_run(r, conns, count, &little);
    fake_close_all(r, conns, count);
    fake_barrier(r, r->options->ranks, "closed beside a child");
    ring_once(r, r->ctx, r->ctx);
    fake_rank_unload(r);
    waitpid(sleeper, &status, 0);
}

static int life_run(const struct fake_options *options, const struct scenario *self)
{
    struct fake_options o = *options;

    if (o.ranks > 3)
        o.ranks = 3;
    return fake_ranks_run(&o, 0, (fake_rank_main)self->data, NULL);
}

static const struct scenario list[] = {
    {"reload", "three times loaded, used and unloaded; no thread and no descriptor stays", life_run,
     (const void *)reload_main, false},
    {"context", "NULL contexts, and different ones for listen and connect", life_run,
     (const void *)context_main, false},
    {"finalize", "finalize with open connections, calls after it, init again", life_run,
     (const void *)finalize_main, false},
    {"listen", "200 listen comms that nobody connects to", life_run, (const void *)listen_main,
     false},
    {"fork", "the process forks between transfers, children end in four ways", life_run,
     (const void *)fork_main, false},
};

const struct scenario_table life_scenarios = {list, FAKE_COUNT(list)};
