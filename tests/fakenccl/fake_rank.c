/*
 * Forked ranks, their shared board and their connections (see fake_rank.h). The parent only waits:
 * it loads no plugin, so that what a rank breaks stays in that rank.
 */
#include "fake_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77
#define WORDS   64
/* How much longer a wait may take on a busy machine. */
#define BUSY_FACTOR 4

struct board_handle {
    _Atomic uint64_t generation;
    unsigned char bytes[FAKE_HANDLE_BYTES];
};

enum { NOTE_MAIN, NOTE_SERVICE, NOTE_PROGRESS, NOTES };

struct fake_board {
    struct fake_note notes[FAKE_MAX_RANKS][NOTES];
    _Atomic uint64_t arrived;
    _Atomic int failed;
    _Atomic int skips; /* ranks that skipped: the first one's reason counts */
    char skip_reason[256];
    _Atomic uint64_t words[WORDS];
    /* [receiver][sender][channel], written by the receiver. */
    struct board_handle handles[FAKE_MAX_RANKS][FAKE_MAX_RANKS][FAKE_MAX_CHANNELS];
};

char fake_skip_reason[256];

static void print_line(const struct fake_rank *r, const char *kind, const char *fmt, va_list args)
{
    char text[1024];
    char version[16] = ""; /* not known before the plugin is open */

    vsnprintf(text, sizeof(text), fmt, args);
    if (r->net.version)
        snprintf(version, sizeof(version), " (v%d)", r->net.version);
    fflush(stdout);
    fprintf(stderr, "%s: rank %d%s: %s%s\n", program_invocation_short_name, r->rank, version, kind,
            text);
}

void fake_die(const struct fake_rank *r, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    print_line(r, "FAILED: ", fmt, args);
    va_end(args);
    if (r->board)
        r->board->failed = 1;
    _exit(1);
}

void fake_skip(const struct fake_rank *r, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    print_line(r, "skipped: ", fmt, args);
    va_end(args);
    va_start(args, fmt);
    if (r->board && r->board->skips++ == 0)
        vsnprintf(r->board->skip_reason, sizeof(r->board->skip_reason), fmt, args);
    va_end(args);
    _exit(SKIPPED);
}

void fake_say(const struct fake_rank *r, const char *fmt, ...)
{
    va_list args;

    if (!r->options->verbose)
        return;
    va_start(args, fmt);
    print_line(r, "", fmt, args);
    va_end(args);
}

void fake_must(const struct fake_rank *r, int result, const char *what)
{
    if (result != 0)
        fake_die(r, "%s returned %d (%s)", what, result, fake_result_name(result));
}

/* Ranks in different network namespaces are different hosts to a plugin. */
static void enter_netns(const struct fake_rank *r)
{
    const char *name = r->options->netns;
    char path[300];
    int count = 1;
    int fd;

    for (const char *p = name; *p; p++)
        count += *p == ',';
    for (int skip = r->rank % count; skip > 0; skip--)
        name = strchr(name, ',') + 1;
    snprintf(path, sizeof(path), "/var/run/netns/%.*s", (int)strcspn(name, ","), name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
        fake_die(r, "cannot enter network namespace %s: %s", path, strerror(errno));
    close(fd);
}

static void set_note(void *note)
{
    fake_note = note;
}

static void set_env(const struct fake_options *options, int rank)
{
    for (int i = 0; i < options->env_count; i++) {
        char name[256];
        const char *text = strchr(options->env[i], ':') + 1;
        const char *value = strchr(text, '=') + 1;

        snprintf(name, sizeof(name), "%.*s", (int)(value - text - 1), text);
        if (atoi(options->env[i]) == rank)
            setenv(name, value, 1);
    }
}

static void child_main(const struct fake_options *options, struct fake_board *board, int rank,
                       fake_rank_main run, void *arg)
{
    struct fake_rank *r = calloc(1, sizeof(*r));

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    r->rank = rank;
    r->options = options;
    r->device = options->device;
    set_env(options, rank);
    r->board = board;
    if (options->netns)
        enter_netns(r);
    snprintf(fake_log_prefix, sizeof(fake_log_prefix), "[rank %d] ", rank);
    fake_worker_start(&r->service, "fake service");
    fake_worker_start(&r->progress, "fake progress");
    fake_note = &board->notes[rank][NOTE_MAIN];
    fake_worker_run(&r->service, set_note, &board->notes[rank][NOTE_SERVICE]);
    fake_worker_run(&r->progress, set_note, &board->notes[rank][NOTE_PROGRESS]);
    run(r, arg);
    fake_worker_stop(&r->service);
    fake_worker_stop(&r->progress);
    free(r);
    exit(0);
}

/* The exit of one child as 0, 1 or 77. */
static int judge(int rank, int status, bool may_die)
{
    if (WIFSIGNALED(status)) {
        if (may_die && WTERMSIG(status) == SIGKILL)
            return 0;
        fprintf(stderr, "fakenccl: rank %d: FAILED: killed by signal %d (%s)\n", rank,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
        return 1;
    }
    if (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SKIPPED)
        return WEXITSTATUS(status);
    return 1;
}

static void kill_others(const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGKILL);
}

struct watch {
    uint64_t calls;
    uint64_t since_ns;
};

/* Whether the machine has so much to do that whoever waits hardly gets a turn: then waits may take longer. */
static bool is_busy(void)
{
    double load = 0;

    return getloadavg(&load, 1) == 1 && load > 3 * (double)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Kills a rank that is inside one call of the plugin for much longer than any wait may take. */
static void watch_calls(struct fake_board *board, const struct fake_options *options,
                        const pid_t *pids, struct watch *watches)
{
    static const char *const threads[] = {"user", "service", "progress"};
    uint64_t bound = (options->timeout_s + 2) * FAKE_NS_PER_S * (is_busy() ? BUSY_FACTOR : 1);
    uint64_t now = fake_now_ns();

    for (int i = 0; i < options->ranks * NOTES; i++) {
        struct fake_note *note = &board->notes[i / NOTES][i % NOTES];
        const char *inside = note->inside;
        uint64_t calls = note->calls;

        if (!inside || calls != watches[i].calls || !watches[i].since_ns) {
            watches[i] = (struct watch){calls, now};
        } else if (now - watches[i].since_ns > bound && pids[i / NOTES] > 0) {
            fprintf(stderr, "fakenccl: rank %d: FAILED: its %s thread is inside %s for %.0f s\n",
                    i / NOTES, threads[i % NOTES], inside,
                    (double)(now - watches[i].since_ns) / 1e9);
            kill(pids[i / NOTES], SIGKILL);
            watches[i].since_ns = now;
            board->failed = 1;
        }
    }
}

/* Collects every child; the first failure ends the others after a moment to print their own. */
static int reap(struct fake_board *board, const struct fake_options *options, pid_t *pids,
                unsigned may_die)
{
    struct watch watches[FAKE_MAX_RANKS * NOTES] = {{0, 0}};
    int count = options->ranks;
    int result = 0;
    uint64_t failed_ns = 0;

    for (int left = count; left > 0;) {
        int status;
        int rank = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid <= 0) {
            if (failed_ns && fake_now_ns() - failed_ns > FAKE_NS_PER_S)
                kill_others(pids, count);
            watch_calls(board, options, pids, watches);
            fake_sleep_ms(1);
            continue;
        }
        while (rank < count && pids[rank] != pid)
            rank++;
        if (rank == count)
            continue;
        pids[rank] = 0;
        left--;
        if (!failed_ns) {
            int one = judge(rank, status, (may_die >> rank) & 1);

            result = one ? one : result;
            if (one)
                failed_ns = fake_now_ns();
        }
    }
    return result;
}

int fake_ranks_run(const struct fake_options *options, unsigned may_die, fake_rank_main run,
                   void *arg)
{
    pid_t pids[FAKE_MAX_RANKS] = {0};
    struct fake_board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int result;

    if (board == MAP_FAILED) {
        fprintf(stderr, "fakenccl: cannot map the board: %s\n", strerror(errno));
        return 1;
    }
    fflush(stdout);
    fflush(stderr);
    for (int rank = 0; rank < options->ranks; rank++) {
        pids[rank] = fork();
        if (pids[rank] < 0) {
            fprintf(stderr, "fakenccl: fork: %s\n", strerror(errno));
            kill_others(pids, rank);
        }
        if (pids[rank] == 0)
            child_main(options, board, rank, run, arg);
    }
    result = reap(board, options, pids, may_die);
    if (board->skips > 0)
        snprintf(fake_skip_reason, sizeof(fake_skip_reason), "%s", board->skip_reason);
    munmap(board, sizeof(*board));
    return result;
}

void fake_rank_load(struct fake_rank *r)
{
    char why[512];
    int devices = 0, fuse;
    int rc;

    if (r->options->cuda && !fake_gpu_used()) {
        setenv("BRAID_CUDA_LIBRARY", r->options->cuda, 1);
        if (!fake_gpu_open(r->options->cuda, why, sizeof(why)))
            fake_die(r, "cannot open the fake CUDA driver: %s", why);
    }
    rc = fake_net_open(r->options->plugin, r->options->version, &r->net, why, sizeof(why));

    if (rc == -ENOSYS && r->options->version)
        fake_skip(r, "%s", why);
    if (rc)
        fake_die(r, "cannot open the plugin: %s", why);
    fake_must(r, fake_net_init(&r->net, &r->ctx), "init");
    fake_must(r, fake_net_devices(&r->net, &devices), "devices");
    if (devices <= r->device)
        fake_skip(r, "%s has %d devices, device %d was asked for", r->net.name, devices, r->device);
    r->device = r->options->device;
    fuse = r->options->fuse < devices - r->device ? r->options->fuse : devices - r->device;
    if (fuse > 1 && r->net.version >= 9)
        fake_must(r, fake_net_make_vdevice(&r->net, r->device, fuse, &r->device), "makeVDevice");
    fake_must(r, fake_net_properties(&r->net, r->device, &r->props), "getProperties");
    if (r->options->cuda && !(r->props.ptr_support & FAKE_PTR_CUDA))
        fake_skip(r, "%s takes no GPU memory in version %d", r->net.name, r->net.version);
    if (!r->props.name || r->props.max_recvs < 1 || r->props.max_comms < 1)
        fake_die(r, "getProperties: name '%s', maxRecvs %d, maxComms %d",
                 r->props.name ? r->props.name : "(null)", r->props.max_recvs, r->props.max_comms);
}

void fake_rank_unload(struct fake_rank *r)
{
    fake_must(r, fake_net_finalize(&r->net, r->ctx), "finalize");
    fake_net_close(&r->net);
    r->ctx = NULL;
}

bool fake_late(const struct fake_rank *r, uint64_t since_ns)
{
    uint64_t waited = fake_now_ns() - since_ns, bound = r->options->timeout_s * FAKE_NS_PER_S;

    return waited > bound && (waited > BUSY_FACTOR * bound || !is_busy());
}

void fake_barrier(struct fake_rank *r, int count, const char *what)
{
    uint64_t start = fake_now_ns();
    uint64_t want = ++r->barriers * (uint64_t)count;

    r->board->arrived++;
    while (r->board->arrived < want) {
        if (r->board->failed)
            _exit(1);
        if (fake_late(r, start))
            fake_die(r, "waited %u s at barrier '%s': %llu of %llu arrivals", r->options->timeout_s,
                     what, (unsigned long long)r->board->arrived, (unsigned long long)want);
        usleep(100);
    }
}

_Atomic uint64_t *fake_board_word(struct fake_rank *r, int key)
{
    return &r->board->words[key % WORDS];
}

void fake_listen_and_post(struct fake_conn *c)
{
    struct fake_rank *r = c->r;
    struct board_handle *slot = &r->board->handles[r->rank][c->peer][c->channel];

    fake_must(r, fake_net_listen(&r->net, c->ctx, r->device, c->handle, &c->listener), "listen");
    if (!c->listener)
        fake_die(r, "listen for rank %d returned success and no listen comm", c->peer);
    memcpy(slot->bytes, c->handle, FAKE_HANDLE_BYTES);
    slot->generation++;
}

bool fake_fetch_handle(struct fake_conn *c)
{
    struct fake_rank *r = c->r;
    struct board_handle *slot = &r->board->handles[c->peer][r->rank][c->channel];

    if (c->have_handle)
        return true;
    if (slot->generation <= r->handles[c->peer][c->channel])
        return false;
    r->handles[c->peer][c->channel]++;
    memcpy(c->handle, slot->bytes, FAKE_HANDLE_BYTES);
    c->have_handle = true;
    return true;
}

/* One connect or accept call; NULL comm means again. */
static void advance(struct fake_conn *c)
{
    struct fake_rank *r = c->r;

    if (c->sends) {
        if (fake_fetch_handle(c))
            fake_must(r, fake_net_connect(&r->net, c->ctx, r->device, c->handle, &c->comm),
                      "connect");
        return;
    }
    fake_must(r, fake_net_accept(&r->net, c->listener, &c->comm), "accept");
    if (!c->comm)
        return;
    fake_must(r, fake_net_close_listen(&r->net, c->listener), "closeListen");
    c->listener = NULL;
}

struct conn_list {
    struct fake_rank *r;
    struct fake_conn *conns;
    int count;
};

/* NCCL's bootstrap has exchanged all handles before the first connect. */
static void wait_handles(struct conn_list *list, uint64_t start)
{
    struct fake_rank *r = list->r;

    for (int i = 0; i < list->count; i++)
        while (list->conns[i].sends && !fake_fetch_handle(&list->conns[i])) {
            if (r->board->failed)
                _exit(1);
            if (fake_late(r, start))
                fake_die(r, "waited %u s for the handle of rank %d, channel %d",
                         r->options->timeout_s, list->conns[i].peer, list->conns[i].channel);
            usleep(50);
        }
}

static void connect_job(void *arg)
{
    struct conn_list *list = arg;
    struct fake_rank *r = list->r;
    uint64_t start = fake_now_ns();
    int waiting;

    for (int i = 0; i < list->count; i++)
        if (!list->conns[i].sends)
            fake_listen_and_post(&list->conns[i]);
    wait_handles(list, start);
    do {
        waiting = 0;
        for (int i = 0; i < 2 * list->count; i++) {
            struct fake_conn *c = &list->conns[i % list->count];

            /* Connects before accepts, as NCCL does it. */
            if (c->comm || c->sends != (i < list->count))
                continue;
            advance(c);
            c->setup_ns = fake_now_ns() - start;
            waiting += !c->comm;
            if (!c->comm && fake_late(r, start))
                fake_die(r, "waited %u s to %s rank %d, channel %d", r->options->timeout_s,
                         c->sends ? "connect to" : "accept", c->peer, c->channel);
        }
        if (r->board->failed)
            _exit(1);
        if (waiting)
            sched_yield();
    } while (waiting);
}

void fake_connect_all(struct fake_rank *r, struct fake_conn *conns, int count)
{
    struct conn_list list = {r, conns, count};

    fake_worker_run(&r->service, connect_job, &list);
}

static void close_job(void *arg)
{
    struct conn_list *list = arg;
    const struct fake_net *net = &list->r->net;

    for (int i = 0; i < list->count; i++) {
        struct fake_conn *c = &list->conns[i];
        uint64_t start = fake_now_ns();

        if (c->comm && c->sends)
            fake_must(c->r, fake_net_close_send(net, c->comm), "closeSend");
        else if (c->comm)
            fake_must(c->r, fake_net_close_recv(net, c->comm), "closeRecv");
        if (c->listener)
            fake_must(c->r, fake_net_close_listen(net, c->listener), "closeListen");
        if (fake_late(c->r, start))
            fake_die(c->r, "closing the connection with rank %d took %.1f s", c->peer,
                     (double)(fake_now_ns() - start) / 1e9);
        c->comm = NULL;
        c->listener = NULL;
    }
}

void fake_close_all(struct fake_rank *r, struct fake_conn *conns, int count)
{
    struct conn_list list = {r, conns, count};

    fake_worker_run(&r->service, close_job, &list);
}

bool fake_talks_ring(int from, int to, int ranks)
{
    return to == (from + 1) % ranks;
}

bool fake_talks_all(int from, int to, int ranks)
{
    (void)ranks;
    return from != to;
}

bool fake_talks_pair(int from, int to, int ranks)
{
    (void)ranks;
    return from == 0 && to == 1;
}

bool fake_talks_self(int from, int to, int ranks)
{
    (void)ranks;
    return from == to;
}

int fake_conns_make(struct fake_rank *r, struct fake_conn *conns, int max,
                    bool (*talks)(int from, int to, int ranks))
{
    int ranks = r->options->ranks;
    int count = 0;

    for (int channel = 0; channel < r->options->channels; channel++)
        for (int peer = 0; peer < ranks; peer++)
            for (int sends = 0; sends < 2; sends++) {
                int from = sends ? r->rank : peer;
                int to = sends ? peer : r->rank;

                if (!talks(from, to, ranks))
                    continue;
                if (count == max)
                    fake_die(r, "more than %d connections", max);
                conns[count++] = (struct fake_conn){
                    .r = r, .peer = peer, .channel = channel, .sends = sends, .ctx = r->ctx};
            }
    return count;
}
