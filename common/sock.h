/*
 * TCP helpers: addresses as text, and the options that all of Braid's sockets want. No state; any thread.
 * Every function returns 0 or a descriptor, or a negative errno, and logs nothing: the caller knows peer and purpose.
 * Called by: core (listener, handshakes), socket transport, tools.
 */
#ifndef BRAID_COMMON_SOCK_H
#define BRAID_COMMON_SOCK_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define BRAID_ADDR_TEXT 80 /* "[2001:db8::1%eth0]:65535" fits */

union braid_addr {
    struct sockaddr sa;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* From 4 (AF_INET) or 16 (AF_INET6) raw bytes and a port in host order. -EAFNOSUPPORT for another family. */
int braid_addr_from_bytes(union braid_addr *addr, int family, const void *bytes, uint16_t port);
/* "10.0.0.1:4711" or "[fe80::1]:4711" into `buf`; returns `buf`. An IPv4-mapped address is shown as IPv4. */
char *braid_addr_text(const union braid_addr *addr, char *buf, size_t buf_bytes);
socklen_t braid_addr_len(const union braid_addr *addr);
uint16_t braid_addr_port(const union braid_addr *addr);
void braid_addr_set_port(union braid_addr *addr, uint16_t port);

/* "45000-45999" as its two ports, "" as 0 and 0 (any); -EINVAL for anything else. */
int braid_sock_ports(const char *text, uint16_t *first, uint16_t *last);

/*
 * A listening socket on every address: dual-stack where IPv6 is there and `family` is AF_UNSPEC or AF_INET6, else IPv4. The port
 * is the first free one of [port_min, port_max], or any when both are 0. Non-blocking, closed on exec. *port_p gets the port. With
 * `netif` (NULL: all interfaces) only requests that come in by that interface are taken, and what is accepted stays on it.
 */
int braid_sock_listen(int family, uint16_t port_min, uint16_t port_max, const char *netif,
                      uint16_t *port_p);

/*
 * Starts a non-blocking connect from `source` (NULL or AF_UNSPEC: the kernel chooses; its port must be 0) to `peer`, leaving by interface
 * `netif` whatever the routes say (NULL or "": as they say; also where an old kernel does not permit it). Returns the descriptor;
 * it becomes writable when connected or failed, braid_sock_error() tells which.
 */
int braid_sock_connect(const union braid_addr *peer, const union braid_addr *source,
                       const char *netif);
/* The pending error of a socket as a negative errno, 0 for none. */
int braid_sock_error(int fd);

/*
 * Options of a data stream: no delay, keep-alive and user timeout so that a dead peer is noticed within about `dead_s` seconds
 * (0: the kernel's defaults).
 */
void braid_sock_tune(int fd, unsigned dead_s);

#endif
