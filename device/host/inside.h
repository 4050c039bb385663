/*
 * What the rooms beside device/host (device/ops) may use of a communicator beyond the public comm.h. Implemented in inside.c.
 */
#ifndef BRAID_DEVICE_HOST_INSIDE_H
#define BRAID_DEVICE_HOST_INSIDE_H

#include "braid/comm.h"

/* The user's window of this communicator that holds all of [pointer, pointer + bytes) on this rank, NULL if none does. Threading: as
 * calls for the communicator. */
struct braid_window *braid_window_find(const struct braid_comm *comm, const void *pointer,
                                       size_t bytes);

/* Records a failure that the host found (a copy engine's wait that was late): braid_comm_error returns it, and device waits of this
 * rank end. The first failure stays. Any thread. */
void braid_comm_record(struct braid_comm *comm, const struct braid_devcomm_error *reason);

#endif
