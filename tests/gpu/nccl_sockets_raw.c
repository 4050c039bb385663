/*
 * What TCP over loopback gives two processes that do nothing else: `streams` connections in each direction, both
 * directions at once, one thread a connection end. It is the limit that a socket transport between two ranks of one
 * machine can reach. Called by the parent of nccl_sockets while the ranks are idle.
 */
#include "nccl_sockets.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK       (1 << 20)
#define MAX_STREAMS 16

struct stream {
    int fd;
    int sends;
    _Atomic uint64_t *received; /* shared by both processes */
    _Atomic int *stop;
};

static void *pump(void *arg)
{
    struct stream *s = arg;
    char *block = calloc(1, BLOCK);

    while (block && !*s->stop) {
        ssize_t n =
            s->sends ? send(s->fd, block, BLOCK, MSG_NOSIGNAL) : recv(s->fd, block, BLOCK, 0);

        if (n <= 0)
            break;
        if (!s->sends)
            *s->received += (uint64_t)n;
    }
    free(block);
    return NULL;
}

static void pump_all(const int *fds, int streams, int side, _Atomic uint64_t *received,
                     _Atomic int *stop)
{
    pthread_t threads[2 * MAX_STREAMS];
    struct stream args[2 * MAX_STREAMS];

    for (int i = 0; i < 2 * streams; i++) {
        args[i] = (struct stream){fds[i], i % 2 == side, &received[side], stop};
        if (pthread_create(&threads[i], NULL, pump, &args[i]) != 0)
            _exit(1);
    }
    while (!*stop)
        usleep(1000);
    for (int i = 0; i < 2 * streams; i++)
        shutdown(fds[i], SHUT_RDWR);
    for (int i = 0; i < 2 * streams; i++)
        pthread_join(threads[i], NULL);
}

/* Connected pairs over loopback; 0 when all are there. */
static int make_pairs(int *near, int *far, int count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int made = 0;

    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        listen(listener, 64) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &length) == 0)
        for (; made < count; made++) {
            near[made] = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(near[made], (struct sockaddr *)&address, sizeof(address)) != 0)
                break;
            far[made] = accept(listener, NULL, NULL);
        }
    close(listener);
    return made == count ? 0 : -1;
}

double raw_tcp_rate(int streams, double seconds)
{
    int near[2 * MAX_STREAMS];
    int far[2 * MAX_STREAMS];
    _Atomic uint64_t *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    _Atomic int *stop = (_Atomic int *)(shared + 16);
    double rate = 0;
    pid_t pids[2];

    if (shared == MAP_FAILED || streams > MAX_STREAMS || make_pairs(near, far, 2 * streams) != 0)
        return 0;
    for (int side = 0; side < 2; side++) {
        pids[side] = fork();
        if (pids[side] == 0) {
            pump_all(side ? far : near, streams, side, shared, stop);
            _exit(0);
        }
    }
    usleep(100000);
    shared[2] = shared[0] + shared[1];
    usleep((useconds_t)(seconds * 1e6));
    rate = (double)(shared[0] + shared[1] - shared[2]) / seconds / 2;
    *stop = 1;
    for (int side = 0; side < 2; side++)
        if (pids[side] > 0)
            waitpid(pids[side], NULL, 0);
    for (int i = 0; i < 2 * streams; i++) {
        close(near[i]);
        close(far[i]);
    }
    munmap((void *)shared, 4096);
    return rate;
}
