/*
 * What this machine is, for choosing profiles: rank-local facts that must come out the same on equal machines.
 * Called by: tuner_setup.c, tools/braid-tune. Any thread.
 */
#ifndef BRAID_TUNER_MACHINE_H
#define BRAID_TUNER_MACHINE_H

#include "tuner-plugin/cost/profile.h"

/* Fills what can be found; the rest stays "". */
void braid_machine_key_read(struct braid_machine_key *key);

/* "NVIDIA H100 80GB HBM3" into "h100", as a key has it; leaves `model` alone when no word holds a digit. */
void braid_machine_model(const char *name, char *model, size_t model_bytes);

/*
 * The folders that hold profiles, separated by ':', into `dirs`: BRAID_PROFILE_DIRS, the user's own
 * (~/.local/share/braid/profiles) and those installed beside this shared object or program. Returns `dirs`.
 */
char *braid_profile_dirs(char *dirs, size_t dirs_bytes);

#endif
