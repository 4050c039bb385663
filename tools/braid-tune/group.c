/*
 * Ranks started and led: see group.h. Messages are fixed structs in native byte order, since all ranks run the same program on
 * equal machines; a hello with the struct sizes refuses others. Single-threaded. Called by: cmd_calibrate.c, cmd_exercise.c.
 */
#include "tools/braid-tune/group.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/param.h"
#include "common/util.h"

#define CONNECT_SECONDS 60
#define ANSWER_SECONDS  90 /* one measurement, or the set-up of a communicator */

struct hello {
    uint32_t magic, command_bytes, reply_bytes;
    int32_t rank, rc;
    char nccl[32], gpu[64], host[64], text[160];
    char settings[192]; /* what the command line asked for, as far as all ranks must agree */
};

#define HELLO_MAGIC 0x42545549u

static int move_all(int fd, void *data, size_t bytes, int sending)
{
    char *at = data;

    while (bytes) {
        ssize_t n = sending ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -ECONNRESET : errno == EAGAIN ? -ETIMEDOUT : -errno;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static void bound_waits(int fd)
{
    struct timeval time = {ANSWER_SECONDS, 0};
    int one = 1;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* A listening socket; on loopback only when all ranks are of this host. */
static int listen_on(int port, int local, int *port_p)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    address.sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 128) ||
        getsockname(fd, (struct sockaddr *)&address, &length)) {
        fprintf(stderr, "braid-tune: cannot listen on port %d: %s\n", port, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -EIO;
    }
    *port_p = ntohs(address.sin_port);
    return fd;
}

static int dial(const char *host, int port)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    char service[16];
    int rc;

    snprintf(service, sizeof(service), "%d", port);
    rc = getaddrinfo(host, service, &hints, &found);
    if (rc) {
        fprintf(stderr, "braid-tune: %s: %s\n", host, gai_strerror(rc));
        return -EINVAL;
    }
    for (int tries = 0; tries < CONNECT_SECONDS * 10; tries++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && !connect(fd, found->ai_addr, found->ai_addrlen)) {
            freeaddrinfo(found);
            return fd;
        }
        if (fd >= 0)
            close(fd);
        usleep(100000);
    }
    freeaddrinfo(found);
    fprintf(stderr, "braid-tune: rank 0 at %s:%d did not answer for %d s\n", host, port,
            CONNECT_SECONDS);
    return -ETIMEDOUT;
}

/* The GPUs of this host, asked in a child: a process that has touched CUDA must not fork. */
static int count_gpus(void)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        int count = worker_gpu_count();

        _exit(count < 0 ? 255 : count > 254 ? 254 : count);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) == 255)
        return -1;
    return WEXITSTATUS(status);
}

static void pose_as_node(int rank)
{
    char name[32];

    snprintf(name, sizeof(name), "braid-tune-%d", rank);
    setenv("NCCL_HOSTID", name, 1);
    setenv("NCCL_MNNVL_ENABLE", "0", 1);
}

static int open_worker(const struct group_options *options, int rank, int ranks, int gpu,
                       struct worker **worker_p, struct hello *hello)
{
    struct worker_setup setup = {
        rank, ranks, gpu, options->max_bytes, options->nccl_path, options->plugin_path};

    memset(hello, 0, sizeof(*hello));
    if (options->fake_nodes)
        pose_as_node(rank);
    hello->magic = HELLO_MAGIC;
    hello->command_bytes = sizeof(struct worker_command);
    hello->reply_bytes = sizeof(struct worker_reply);
    hello->rank = rank;
    gethostname(hello->host, sizeof(hello->host) - 1);
    snprintf(hello->settings, sizeof(hello->settings), "sizes up to %llu%s%s%.120s",
             (unsigned long long)options->max_bytes, options->fake_nodes ? " --fake-nodes" : "",
             options->judge[0] ? " --judge " : "", options->judge);
    hello->rc = worker_open(&setup, worker_p, hello->text, sizeof(hello->text));
    if (!hello->rc)
        worker_describe(*worker_p, hello->nccl, sizeof(hello->nccl), hello->gpu,
                        sizeof(hello->gpu));
    return hello->rc;
}

static const char *volatile alarm_text = "";

static void too_late(int number)
{
    (void)number;
    if (write(2, "\nbraid-tune: ", 13) < 0 || write(2, alarm_text, strlen(alarm_text)) < 0 ||
        write(2, " did not end in time; a rank may have died, see NCCL_DEBUG=INFO\n", 65) < 0)
        _exit(3);
    _exit(2);
}

/* A collective that hangs would hang the tool: the process ends instead, and rows written so far stay. */
static void run_bounded(struct worker *worker, const struct worker_command *command,
                        struct worker_reply *reply)
{
    static const char *const verbs[] = {"ncclCommInitRank", "a measurement", "ncclCommDestroy", "",
                                        ""};
    struct sigaction action = {.sa_handler = too_late};

    sigaction(SIGALRM, &action, NULL);
    alarm_text = verbs[MIN(command->verb, WORKER_QUIT)];
    alarm(ANSWER_SECONDS - 10);
    worker_run(worker, command, reply);
    alarm(0);
}

/* A rank that is not the leader: answers until it is told to quit or the leader is gone. */
static int serve(const struct group_options *options, int rank, int ranks, int gpu,
                 const char *host, int port)
{
    struct worker *worker = NULL;
    struct worker_command command;
    struct worker_reply reply;
    struct hello hello;
    int fd = dial(host, port), rc;

    if (fd < 0)
        return fd;
    rc = open_worker(options, rank, ranks, gpu, &worker, &hello);
    if (move_all(fd, &hello, sizeof(hello), 1) || rc)
        return rc ? rc : -ECONNRESET;
    while (!rc) {
        rc = move_all(fd, &command, sizeof(command), 0);
        if (rc || command.verb == WORKER_QUIT)
            break;
        run_bounded(worker, &command, &reply);
        rc = move_all(fd, &reply, sizeof(reply), 1);
    }
    close(fd);
    worker_close(worker);
    return rc ? rc : 1;
}

/* What all ranks must have alike, or the measurement would hang or write past a buffer. */
static int compare_ranks(const struct hello *own, const struct hello *other)
{
    if (strcmp(other->nccl, own->nccl) || strcmp(other->gpu, own->gpu)) {
        fprintf(stderr,
                "braid-tune: ranks differ: rank 0 has %s and NCCL %s, rank %d on %s has %s and "
                "NCCL %s\n",
                own->gpu, own->nccl, other->rank, other->host, other->gpu, other->nccl);
        return -EINVAL;
    }
    if (strcmp(other->settings, own->settings)) {
        fprintf(stderr,
                "braid-tune: ranks differ: rank 0 was started with %s, rank %d on %s with %s; all "
                "need the same options\n",
                own->settings, other->rank, other->host, other->settings);
        return -EINVAL;
    }
    return 0;
}

/* Takes the connection of one more rank. */
static int welcome(struct group *group, int listener, const struct hello *own, char (*hosts)[64])
{
    struct pollfd wait = {listener, POLLIN, 0};
    struct hello hello;
    int fd, missing = 0;

    if (poll(&wait, 1, CONNECT_SECONDS * 1000) != 1) {
        for (int r = 1; r < group->ranks; r++)
            missing += group->fd[r] < 0;
        fprintf(stderr, "braid-tune: %d of %d ranks did not come within %d s\n", missing,
                group->ranks, CONNECT_SECONDS);
        return -ETIMEDOUT;
    }
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    bound_waits(fd);
    if (move_all(fd, &hello, sizeof(hello), 0) || hello.magic != HELLO_MAGIC ||
        hello.command_bytes != own->command_bytes || hello.reply_bytes != own->reply_bytes ||
        hello.rank < 1 || hello.rank >= group->ranks || group->fd[hello.rank] >= 0) {
        fprintf(stderr, "braid-tune: a connection that is no rank of this run was dropped\n");
        close(fd);
        return 0;
    }
    if (hello.rc) {
        fprintf(stderr, "braid-tune: rank %d on %s: %s\n", hello.rank, hello.host, hello.text);
        close(fd);
        return hello.rc;
    }
    if (compare_ranks(own, &hello)) {
        close(fd);
        return -EINVAL;
    }
    group->fd[hello.rank] = fd;
    snprintf(hosts[hello.rank], 64, "%s", hello.host);
    return 1;
}

static int count_hosts(const struct group *group, char (*hosts)[64])
{
    int count = 0;

    for (int i = 0; i < group->ranks; i++) {
        int first = 1;

        for (int j = 0; j < i && first; j++)
            first = strcmp(hosts[i], hosts[j]) != 0;
        count += first;
    }
    return count;
}

static int lead(const struct group_options *options, struct group *group, int listener, int gpu)
{
    static char hosts[GROUP_RANKS_MAX][64];
    struct hello own;
    int rc = open_worker(options, 0, group->ranks, gpu, &group->worker, &own);

    if (rc) {
        fprintf(stderr, "braid-tune: rank 0: %s\n", own.text);
        return rc;
    }
    snprintf(group->nccl, sizeof(group->nccl), "%s", own.nccl);
    snprintf(group->gpu, sizeof(group->gpu), "%s", own.gpu);
    snprintf(hosts[0], sizeof(hosts[0]), "%s", own.host);
    for (int r = 0; r < group->ranks; r++)
        group->fd[r] = -1;
    for (int found = 1; found < group->ranks;) {
        rc = welcome(group, listener, &own, hosts);
        if (rc < 0)
            return rc;
        found += rc;
    }
    close(listener);
    group->nodes = options->fake_nodes ? group->ranks : count_hosts(group, hosts);
    return 0;
}

static int start_here(const struct group_options *options, struct group *group)
{
    int gpus = count_gpus(), port = 0, listener;

    if (gpus < 1) {
        fprintf(stderr, "braid-tune: no GPU here (libcuda.so.1 is missing or finds none)\n");
        return -ENODEV;
    }
    group->ranks = options->ranks ? options->ranks : gpus;
    if (group->ranks < 2 || group->ranks > GROUP_RANKS_MAX ||
        (group->ranks > gpus && !options->fake_nodes)) {
        fprintf(stderr,
                "braid-tune: %d ranks on %d GPUs: needs two ranks, and a GPU each unless "
                "--fake-nodes\n",
                group->ranks, gpus);
        return -EINVAL;
    }
    listener = listen_on(0, 1, &port);
    if (listener < 0)
        return listener;
    for (int rank = 1; rank < group->ranks; rank++) {
        pid_t child = fork();

        if (child < 0)
            return -errno;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(listener);
            _exit(serve(options, rank, group->ranks, rank % gpus, "127.0.0.1", port) == 1 ? 0 : 1);
        }
    }
    return lead(options, group, listener, 0);
}

int group_start(const struct group_options *options, struct group *group)
{
    struct braid_launch launch;
    int port;

    memset(group, 0, sizeof(*group));
    braid_param_launch(&launch);
    if (!launch.ranks)
        return start_here(options, group);
    if (launch.ranks < 2 || launch.ranks > GROUP_RANKS_MAX) {
        fprintf(stderr, "braid-tune: 2 to %d ranks are needed, the launcher made %d\n",
                GROUP_RANKS_MAX, launch.ranks);
        return -EINVAL;
    }
    port = options->port ? options->port : launch.port ? launch.port + 1 : 29601;
    if (launch.rank > 0) {
        if (!launch.host[0]) {
            fprintf(stderr, "braid-tune: set MASTER_ADDR to the host of rank 0\n");
            return -EINVAL;
        }
        return serve(options, launch.rank, launch.ranks, launch.local_rank, launch.host, port);
    }
    group->ranks = launch.ranks;
    port = listen_on(port, 0, &port);
    return port < 0 ? port : lead(options, group, port, launch.local_rank);
}

int group_run(struct group *group, const struct worker_command *command)
{
    int rc = 0, first = 0;

    for (int r = 1; r < group->ranks; r++) {
        rc = move_all(group->fd[r], (void *)command, sizeof(*command), 1);
        if (rc) {
            fprintf(stderr, "\nbraid-tune: rank %d is gone: %s\n", r, strerror(-rc));
            return rc;
        }
    }
    run_bounded(group->worker, command, &group->reply[0]);
    for (int r = 1; r < group->ranks; r++) {
        rc = move_all(group->fd[r], &group->reply[r], sizeof(group->reply[r]), 0);
        if (rc) {
            if (rc == -ETIMEDOUT)
                fprintf(stderr, "\nbraid-tune: rank %d did not answer within %d s\n", r,
                        ANSWER_SECONDS);
            else
                fprintf(stderr, "\nbraid-tune: rank %d is gone: %s\n", r, strerror(-rc));
            return rc;
        }
    }
    for (int r = 0; r < group->ranks; r++) {
        if (group->reply[r].rc && !first) {
            fprintf(stderr, "\nbraid-tune: rank %d: %s\n", r, group->reply[r].text);
            first = group->reply[r].rc;
        }
    }
    return first;
}

int group_connect(struct group *group)
{
    struct worker_command command = {.verb = WORKER_COMM};

    if (worker_unique_id(group->worker, command.unique_id)) {
        fprintf(stderr, "braid-tune: ncclGetUniqueId failed\n");
        return -EIO;
    }
    return group_run(group, &command);
}

int group_disconnect(struct group *group)
{
    const struct worker_command command = {.verb = WORKER_CLOSE};

    return group_run(group, &command);
}

int group_keep(struct group *group)
{
    const struct worker_command command = {.verb = WORKER_KEEP};

    return group_run(group, &command);
}

void group_stop(struct group *group)
{
    struct worker_command command = {.verb = WORKER_QUIT};

    for (int r = 1; r < group->ranks; r++) {
        if (group->fd[r] >= 0) {
            move_all(group->fd[r], &command, sizeof(command), 1);
            close(group->fd[r]);
        }
    }
    worker_close(group->worker);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}
