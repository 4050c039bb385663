/*
 * Starting a helper thread: named, all signals blocked (they belong to the application). No state; any thread.
 * Called by: core's maintenance thread, the socket transport's I/O threads, the device library's watchdogs.
 */
#ifndef BRAID_COMMON_THREAD_H
#define BRAID_COMMON_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

/* `name` has at most 15 characters. 0 or a negative errno. The caller joins, or detaches. */
int braid_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

/* Processors that this thread, and so the threads that it will start, may run on; at least 1. */
unsigned braid_thread_processors(void);

/* "0-3,8" as a set of processors. False when the text is none. */
bool braid_cpu_list_parse(const char *text, cpu_set_t *set);
/*
 * Keeps `thread` on the processors of NUMA node `node` that it may already use. 0; -ENOENT for a node that is not known (-1, for one),
 * -EINVAL when none of its processors may be used: then nothing changes.
 */
int braid_thread_bind(pthread_t thread, int node);

#endif
