/*
 * What a process's environment and machine make of the tuner: see tuner_setup.c. Called by: abi/. Any thread.
 */
#ifndef BRAID_TUNER_SETUP_H
#define BRAID_TUNER_SETUP_H

#include "tuner-plugin/tuner.h"

/* The settings of the environment, without a channel ceiling. */
void braid_tuner_settings_read(struct braid_tuner_settings *settings);

/*
 * A tuner for a communicator: finds the profile, logs what it found, publishes this process's identity
 * (include/braid/wire/tuner_id.h). `ceiling` is the most channels that the calling interface's NCCL takes; domain_ranks the ranks
 * of the largest NVLink domain, 0 if unknown. NULL when there is nothing to say; all uses take NULL. Given back with close.
 */
struct braid_tuner *braid_tuner_open(size_t ranks, size_t nodes, size_t domain_ranks, int ceiling);
void braid_tuner_close(struct braid_tuner *tuner);

#endif
