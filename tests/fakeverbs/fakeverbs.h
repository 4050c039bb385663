/*
 * What the fake verbs library exports beside libibverbs' own functions, for tests that run in one process with it
 * (found by dlsym) and for the control program. Any thread.
 */
#ifndef FAKEVERBS_FAKEVERBS_H
#define FAKEVERBS_FAKEVERBS_H

#include <stdint.h>

/* Makes the nth call from now (1 = the next one) that may fail fail with ENOMEM, whichever it is; 0 = none. */
void fakeverbs_fail_nth(int64_t nth);
/* Calls that may fail since the last fakeverbs_fail_nth(). */
int64_t fakeverbs_calls(void);
/* Contexts, protection domains, regions, completion queues and queue pairs that this process has alive. */
int64_t fakeverbs_live_objects(void);
/* One of the counters of this process by name (fabric.h, struct fv_counters); -1 when there is none. */
int64_t fakeverbs_counter(const char *name);
/* Sends the event `name` for `device` of this process's node, with the port state that goes with it. 0, or -1. */
int fakeverbs_event(const char *device, const char *name);
/*
 * How the nth queue pair of this process, 0 the first, was told to reach its peer. -1 when there were not so many or `what` is
 * none of: sl traffic_class sgid_index pkey_index timeout retry_cnt ece_options (0: not set).
 */
int64_t fakeverbs_path(int nth, const char *what);
/* Moves an entry of the GID table of `device` of this process's node to another index, without an event. 0, or -1. */
int fakeverbs_move_gid(const char *device, int from, int to);

#endif
