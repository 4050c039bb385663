/*
 * The pool of I/O threads: a capped number a process, started at first need. A thread takes part in a lane while bulk data is under way on
 * it, or while something that was promised to be sent waits for room in the socket. A thread that finds nothing sleeps in epoll: looking on
 * saved no time, and others needed the processor. Small messages never wake it.
 * Threading: each function says who may call it.
 */
#ifndef BRAID_SOCKET_IO_H
#define BRAID_SOCKET_IO_H

#include "net-plugin/socket/lane.h"
#include "net-plugin/socket/socket.h"

/* Lets a thread take part in this lane until nothing moves there any more. Any thread, lane lock held or not; starts the pool. */
void braid_io_arm(struct braid_socket_lane *lane);

/* Takes the lane away from its thread; when it returns the thread knows nothing of it. Not from an I/O thread. */
void braid_io_remove(struct braid_socket_lane *lane);

/* From here on threads may be started, when they are needed. */
void braid_io_open(void);

/* Joins all threads; no more are started. Lanes may still exist; they are then moved by their callers alone. */
void braid_io_stop(void);

#endif
