/*
 * Preloaded into a process: it seems to have 32 processors, so that sockets have streams for bulk and trials change their number; and the
 * first further stream of a connection comes last, because its connect() is refused once: STREAM_REFUSED is the number of that call
 * in the process, from 1. With STREAM_NEVER set, all calls from that number on are refused: such streams never come.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#define PROCESSORS 32

static bool is_refused(int call)
{
    const char *once = getenv("STREAM_REFUSED"), *never = getenv("STREAM_NEVER");

    return (once != NULL && call == atoi(once)) || (never != NULL && call >= atoi(never));
}

int connect(int fd, const struct sockaddr *peer, socklen_t bytes)
{
    static atomic_int calls;
    int (*real)(int, const struct sockaddr *, socklen_t);

    *(void **)&real = dlsym(RTLD_NEXT, "connect");
    if ((peer->sa_family == AF_INET || peer->sa_family == AF_INET6) &&
        is_refused(atomic_fetch_add(&calls, 1) + 1)) {
        errno = ECONNREFUSED;
        return -1;
    }
    return real(fd, peer, bytes);
}

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < PROCESSORS; i++)
        CPU_SET_S(i, bytes, set);
    return 0;
}
