/*
 * Starting a helper thread: named, all signals blocked (they belong to the application). No state; any thread.
 * Called by: core's maintenance thread, the socket transport's I/O threads, proxies.
 */
#ifndef BRAID_COMMON_THREAD_H
#define BRAID_COMMON_THREAD_H

#include <pthread.h>

/* `name` has at most 15 characters. 0 or a negative errno. The caller joins. */
int braid_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

#endif
