/* TCP helpers; see sock.h. */
#include "common/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int braid_addr_from_bytes(union braid_addr *addr, int family, const void *bytes, uint16_t port)
{
    memset(addr, 0, sizeof(*addr));
    if (family == AF_INET) {
        addr->v4.sin_family = AF_INET;
        addr->v4.sin_port = htons(port);
        memcpy(&addr->v4.sin_addr, bytes, 4);
        return 0;
    }
    if (family == AF_INET6) {
        addr->v6.sin6_family = AF_INET6;
        addr->v6.sin6_port = htons(port);
        memcpy(&addr->v6.sin6_addr, bytes, 16);
        return 0;
    }
    return -EAFNOSUPPORT;
}

char *braid_addr_text(const union braid_addr *addr, char *buf, size_t buf_bytes)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (addr->sa.sa_family == AF_INET) {
        inet_ntop(AF_INET, &addr->v4.sin_addr, host, sizeof(host));
        snprintf(buf, buf_bytes, "%s:%u", host, ntohs(addr->v4.sin_port));
    } else if (addr->sa.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr)) {
        inet_ntop(AF_INET, &addr->v6.sin6_addr.s6_addr[12], host, sizeof(host));
        snprintf(buf, buf_bytes, "%s:%u", host, ntohs(addr->v6.sin6_port));
    } else if (addr->sa.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &addr->v6.sin6_addr, host, sizeof(host));
        snprintf(buf, buf_bytes, "[%s]:%u", host, ntohs(addr->v6.sin6_port));
    } else {
        snprintf(buf, buf_bytes, "(address family %d)", addr->sa.sa_family);
    }
    return buf;
}

socklen_t braid_addr_len(const union braid_addr *addr)
{
    return addr->sa.sa_family == AF_INET6 ? sizeof(addr->v6) : sizeof(addr->v4);
}

uint16_t braid_addr_port(const union braid_addr *addr)
{
    return ntohs(addr->sa.sa_family == AF_INET6 ? addr->v6.sin6_port : addr->v4.sin_port);
}

void braid_addr_set_port(union braid_addr *addr, uint16_t port)
{
    if (addr->sa.sa_family == AF_INET6)
        addr->v6.sin6_port = htons(port);
    else
        addr->v4.sin_port = htons(port);
}

static int tie(int fd, const char *netif)
{
    socklen_t len = (socklen_t)strlen(netif) + 1;

    return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, netif, len) == 0 ? 0 : -errno;
}

static int bind_in_range(int fd, union braid_addr *any, uint16_t port_min, uint16_t port_max)
{
    int err = -EADDRINUSE;

    for (unsigned port = port_min; port <= port_max; port++) {
        if (any->sa.sa_family == AF_INET6)
            any->v6.sin6_port = htons((uint16_t)port);
        else
            any->v4.sin_port = htons((uint16_t)port);
        if (bind(fd, &any->sa, braid_addr_len(any)) == 0 && listen(fd, 1024) == 0)
            return 0;
        err = -errno;
        if (errno != EADDRINUSE)
            break;
    }
    return err;
}

static int listen_family(int family, uint16_t port_min, uint16_t port_max, const char *netif,
                         uint16_t *port_p)
{
    union braid_addr any;
    socklen_t len = sizeof(any);
    static const uint8_t zeros[16];
    int off = 0, err;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    braid_addr_from_bytes(&any, family, zeros, 0);
    err = netif != NULL ? tie(fd, netif) : 0;
    if (err == 0)
        err = bind_in_range(fd, &any, port_min, port_max);
    if (err == 0 && getsockname(fd, &any.sa, &len) != 0)
        err = -errno;
    if (err != 0) {
        close(fd);
        return err;
    }
    *port_p = braid_addr_port(&any);
    return fd;
}

int braid_sock_ports(const char *text, uint16_t *first, uint16_t *last)
{
    unsigned a = 0, b = 0;
    char tail;

    *first = *last = 0;
    if (*text == '\0')
        return 0;
    if (sscanf(text, "%5u-%5u%c", &a, &b, &tail) != 2 || a == 0 || b < a || b > 65535)
        return -EINVAL;
    *first = (uint16_t)a;
    *last = (uint16_t)b;
    return 0;
}

int braid_sock_listen(int family, uint16_t port_min, uint16_t port_max, const char *netif,
                      uint16_t *port_p)
{
    int fd = -EAFNOSUPPORT;

    if (family != AF_INET)
        fd = listen_family(AF_INET6, port_min, port_max, netif, port_p);
    if (fd < 0 && fd != -EADDRINUSE && family != AF_INET6)
        fd = listen_family(AF_INET, port_min, port_max, netif, port_p);
    return fd;
}

int braid_sock_connect(const union braid_addr *peer, const union braid_addr *source,
                       const char *netif)
{
    int one = 1, err;
    int fd = socket(peer->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    err = netif != NULL && netif[0] != '\0' ? tie(fd, netif) : 0;
    if (err != 0 && err != -EPERM)
        goto err_close;
    if (source != NULL && source->sa.sa_family == peer->sa.sa_family) {
#ifdef IP_BIND_ADDRESS_NO_PORT
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
#endif
        if (bind(fd, &source->sa, braid_addr_len(source)) != 0) {
            err = -errno;
            goto err_close;
        }
    }
    if (connect(fd, &peer->sa, braid_addr_len(peer)) != 0 && errno != EINPROGRESS) {
        err = -errno;
        goto err_close;
    }
    return fd;
err_close:
    close(fd);
    return err;
}

int braid_sock_error(int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        return -errno;
    return -error;
}

void braid_sock_tune(int fd, unsigned dead_s)
{
    int one = 1, idle, interval, count = 3;
    unsigned timeout_ms = dead_s * 1000;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (dead_s == 0)
        return;
    idle = dead_s > 4 ? (int)dead_s / 4 : 1;
    interval = idle;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}
