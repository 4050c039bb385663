/*
 * Reading the peer's offer. See offer.h. Called by conn.c on the control path.
 */
#include "net-plugin/verbs/offer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A name goes into log lines. */
static void make_printable(char *name, size_t bytes)
{
    name[bytes - 1] = '\0';
    for (; *name != '\0'; name++)
        if (*name < ' ' || *name > '~')
            *name = '?';
}

int verbs_offer_parse(const uint8_t *bytes, size_t count, struct verbs_offer *out, char *why,
                      size_t why_bytes)
{
    struct braid_verbs_offer head;
    size_t at = sizeof(head);

    if (count < sizeof(head))
        goto malformed;
    memcpy(&head, bytes, sizeof(head));
    if (head.version != BRAID_VERBS_OFFER_VERSION || head.ring_bytes != BRAID_VERBS_RING_BYTES) {
        snprintf(why, why_bytes, "the verbs transports of both sides differ in version: %u and %u",
                 head.version, BRAID_VERBS_OFFER_VERSION);
        return -EPROTO;
    }
    if (head.rails == 0 || head.rails > BRAID_VERBS_RAILS || head.lanes == 0 ||
        head.lanes > BRAID_LANES_MAX ||
        count != at + head.rails * sizeof(struct braid_verbs_rail) +
                     head.lanes * sizeof(struct braid_verbs_lane))
        goto malformed;
    out->rails = head.rails;
    out->lanes = head.lanes;
    memcpy(out->rail, bytes + at, head.rails * sizeof(struct braid_verbs_rail));
    at += head.rails * sizeof(struct braid_verbs_rail);
    memcpy(out->lane, bytes + at, head.lanes * sizeof(struct braid_verbs_lane));
    for (int i = 0; i < out->rails; i++) {
        make_printable(out->rail[i].name, sizeof(out->rail[i].name));
        if (out->rail[i].gid_count > BRAID_VERBS_GIDS || out->rail[i].mtu < 1 ||
            out->rail[i].mtu > 5)
            goto malformed;
    }
    for (int i = 0; i < out->lanes; i++)
        if (out->lane[i].rail >= out->rails || out->lane[i].recvs <= 8)
            goto malformed;
    return 0;
malformed:
    snprintf(why, why_bytes, "malformed offer of the verbs transport (%zu bytes)", count);
    return -EPROTO;
}
