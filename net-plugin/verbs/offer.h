/*
 * The peer's offer of the verbs transport: foreign bytes, checked and copied. A pure function, so that a fuzzer drives it.
 */
#ifndef BRAID_VERBS_OFFER_H
#define BRAID_VERBS_OFFER_H

#include <stddef.h>
#include "braid/wire/net_verbs.h"
#include "net-plugin/core/transport.h"

struct verbs_offer {
    int rails, lanes;
    struct braid_verbs_rail rail[BRAID_VERBS_RAILS];
    struct braid_verbs_lane lane[BRAID_LANES_MAX];
};

/* 0 and *out, whose members beyond `rails` and `lanes` are left alone; or -EPROTO with the reason in `why`. */
int verbs_offer_parse(const uint8_t *bytes, size_t count, struct verbs_offer *out, char *why,
                      size_t why_bytes);

#endif
