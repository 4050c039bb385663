/*
 * The verbs transport's face to core and to braid-info.
 */
#ifndef BRAID_VERBS_VERBS_H
#define BRAID_VERBS_VERBS_H

#include "net-plugin/core/transport.h"

extern const struct braid_transport braid_verbs_transport;

#endif
