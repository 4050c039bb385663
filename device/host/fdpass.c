/* File descriptors between the ranks of one host, see fdpass.h. */
#include "device/host/fdpass.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/util.h"

/* The abstract name of a socket; returns the length of the address. */
static socklen_t make_address(struct sockaddr_un *address, uint64_t name)
{
    int length;

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "braid-device-%016llx",
                      (unsigned long long)name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

int braid_fdpass_open(struct braid_hello *hello)
{
    struct sockaddr_un address;
    int s, rc;

    if (getrandom(&hello->socket_name, sizeof(hello->socket_name), 0) !=
            (ssize_t)sizeof(hello->socket_name) ||
        getrandom(hello->secret, sizeof(hello->secret), 0) != (ssize_t)sizeof(hello->secret))
        return -EIO;
    s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return -errno;
    if (bind(s, (struct sockaddr *)&address, make_address(&address, hello->socket_name)) != 0) {
        rc = -errno;
        close(s);
        return rc;
    }
    return s;
}

void braid_fdpass_close(int socket)
{
    if (socket >= 0)
        close(socket);
}

/* 0 when the datagram was taken by the receiver's queue, -EAGAIN when it is full, another negative errno. */
static int send_one(int socket, const struct braid_hello *to, int rank, uint32_t serial, int fd)
{
    struct braid_fd_message message = {
        .version = BRAID_HELLO_VERSION, .rank = rank, .serial = serial};
    struct sockaddr_un address;
    struct iovec data = {&message, sizeof(message)};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr header = {
        .msg_name = &address,
        .msg_namelen = make_address(&address, to->socket_name),
        .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&header);

    memcpy(message.secret, to->secret, sizeof(message.secret));
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    if (sendmsg(socket, &header, MSG_NOSIGNAL) == (ssize_t)sizeof(message))
        return 0;
    return errno == EWOULDBLOCK || errno == ENOBUFS || errno == EINTR || errno == ETOOMANYREFS
               ? -EAGAIN
               : -errno;
}

/* Receives one datagram: *fd_p is its descriptor or -1. Returns 0 for any datagram, -EAGAIN when there is none. */
static int receive_one(int socket, struct braid_fd_message *message, size_t *bytes_p, int *fd_p)
{
    struct iovec data = {message, sizeof(*message)};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(8 * sizeof(int))];
    } control = {0};
    struct msghdr header = {
        .msg_iov = &data,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    ssize_t n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);

    *fd_p = -1;
    if (n < 0)
        return errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN : -errno;
    *bytes_p = (size_t)n;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c != NULL; c = CMSG_NXTHDR(&header, c)) {
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (*fd_p < 0)
                *fd_p = fd;
            else
                close(fd); /* nobody of ours sends more than one */
        }
    }
    return 0;
}

/* Compares in constant time; 0 when equal. */
static int differ(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    int bits = 0;

    for (size_t i = 0; i < bytes; i++)
        bits |= a[i] ^ b[i];
    return bits;
}

/* Takes one datagram out of the socket and keeps its descriptor if it is one that is waited for. 1 = kept, 0 = dropped. */
static int take_one(int socket, const struct braid_hello *self, int ranks, uint32_t serial,
                    const uint8_t *from, int *fds)
{
    struct braid_fd_message message;
    size_t bytes = 0;
    int fd, rc = receive_one(socket, &message, &bytes, &fd);

    if (rc != 0)
        return rc;
    if (fd >= 0 && bytes == sizeof(message) && message.version == BRAID_HELLO_VERSION &&
        !differ(message.secret, self->secret, sizeof(self->secret)) && message.serial == serial &&
        message.rank >= 0 && message.rank < ranks && from[message.rank] && fds[message.rank] < 0) {
        fds[message.rank] = fd;
        return 1;
    }
    if (fd >= 0)
        close(fd);
    return 0;
}

static int first_missing(const uint8_t *wanted, const int *fds, int ranks)
{
    for (int i = 0; i < ranks; i++) {
        if (wanted[i] && fds[i] < 0)
            return i;
    }
    return -1;
}

int braid_fdpass_exchange(int socket, const struct braid_hello *hello, int rank, int ranks,
                          uint32_t serial, int fd, const uint8_t *send_to, const uint8_t *from,
                          int *fds, uint64_t deadline_ns, int *missing_p)
{
    int next = 0, rc;

    for (int i = 0; i < ranks; i++)
        fds[i] = -1;
    for (;;) {
        struct pollfd p = {socket, POLLIN, 0};

        while (next < ranks) {
            rc = fd >= 0 && send_to[next] ? send_one(socket, &hello[next], rank, serial, fd) : 0;
            if (rc == -EAGAIN)
                break; /* its queue is full: take what came to us, so that nobody waits in a circle */
            *missing_p = next;
            if (rc != 0)
                goto err_close;
            next++;
        }
        do {
            rc = take_one(socket, &hello[rank], ranks, serial, from, fds);
        } while (rc >= 0);
        *missing_p = rank;
        if (rc != -EAGAIN)
            goto err_close;
        *missing_p = next < ranks ? next : first_missing(from, fds, ranks);
        if (*missing_p < 0)
            return 0;
        rc = -ETIMEDOUT;
        if (braid_now_ns() >= deadline_ns)
            goto err_close;
        poll(&p, 1, next < ranks ? 1 : 20);
    }

err_close:
    for (int i = 0; i < ranks; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
    return rc;
}
