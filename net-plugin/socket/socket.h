/* What others see of this room: the transport's table (core/transports.c) and what it would do here (braid-info). */
#ifndef BRAID_SOCKET_SOCKET_H
#define BRAID_SOCKET_SOCKET_H

#include "net-plugin/core/transport.h"

extern const struct braid_transport braid_socket_transport;

/* The most I/O threads of a process on `cpus` of `online` processors, with `ranks` processes on the host (0: not known). */
unsigned braid_socket_threads_for(unsigned cpus, unsigned online, unsigned ranks);
/* The same for processes that were counted, of which some may be idle. */
unsigned braid_socket_threads_counted(unsigned cpus, unsigned online, unsigned processes);
/* Divides the work by settings and processors, and says how in one line. At init. */
void braid_socket_make_plan(char *text, size_t text_bytes);
/* Finds out whether io_uring may be used, and says it. After the plan. */
void braid_socket_make_engine(char *text, size_t text_bytes);

#endif
