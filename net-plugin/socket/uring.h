/*
 * io_uring as an engine of the I/O threads: the sends and receives of all lanes that a thread works on go to the kernel by one system call,
 * where each lane makes two otherwise. Each of them ends in that call (MSG_DONTWAIT), so that nothing of a lane is in the kernel when its lock is
 * free, except what IORING_OP_SEND_ZC holds, whose notifications count for zerocopy.h.
 * liburing is opened at run time; without it, or where the kernel refuses io_uring, `why` says so and nothing else changes. Whether the engine is
 * used is measured (probe.h).
 * Threading: a ring belongs to its I/O thread; braid_uring_open() at init.
 */
#ifndef BRAID_SOCKET_URING_H
#define BRAID_SOCKET_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct braid_socket_lane;
struct braid_uring;

/* Whether io_uring can be used by this process. May be called again. */
bool braid_uring_open(char *why, size_t why_bytes);

/* A call for a chunk of lane `id` (io_id) is over, and whether the kernel had copied. */
typedef void (*braid_uring_told_fn)(void *owner, uint64_t id, unsigned slot, bool copied);

/* `told(owner, ...)` is called from flush and reap. NULL when the kernel gives none. */
struct braid_uring *braid_uring_new(braid_uring_told_fn told, void *owner);
/* Accepts NULL. */
void braid_uring_free(struct braid_uring *ring);
/* Readable when notifications wait. */
int braid_uring_fd(const struct braid_uring *ring);

/* Takes the lane, whose lock is held until the flush, into the next call. False: it is full. */
bool braid_uring_add(struct braid_uring *ring, struct braid_socket_lane *lane);
/* Makes the calls of all lanes added; for each, io_moved is what braid_socket_move() would have returned. */
void braid_uring_flush(struct braid_uring *ring);
/* Takes in notifications. */
void braid_uring_reap(struct braid_uring *ring);

#endif
