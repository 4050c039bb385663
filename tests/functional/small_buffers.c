/* Preloaded into a process: the send buffers of its TCP streams are as small as the kernel lets them be, so that more waits in the process. */
#include <dlfcn.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol)
{
    int (*real)(int, int, int);
    int fd;

    *(void **)&real = dlsym(RTLD_NEXT, "socket");
    fd = real(domain, type, protocol);
    if (fd >= 0 && (domain == AF_INET || domain == AF_INET6))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int));
    return fd;
}
