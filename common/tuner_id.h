/*
 * Finding what the tuner plugin of this process decides by (include/braid/wire/tuner_id.h), without knowing the tuner. Walks the
 * loaded objects once a call: for connection set-up, not for the data path. Any thread. Called by: the net plugin's handshake.
 */
#ifndef BRAID_COMMON_TUNER_ID_H
#define BRAID_COMMON_TUNER_ID_H

#include <stdbool.h>

#include "braid/wire/tuner_id.h"

/* Copies it to *id. False, with *id zeroed, when no Braid tuner has been initialised in this process. */
bool braid_tuner_id_find(struct braid_wire_tuner_id *id);

#endif
