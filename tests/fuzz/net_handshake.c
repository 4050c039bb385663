/*
 * Fuzz target: whatever a peer sends during the handshake, in either role. Byte 0 chooses role and piece size, the rest is the peer's
 * stream. The MAC is all zeros here, so that inputs get past it.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "net-plugin/core/handshake.h"

const char *const braid_fuzz_words[] = {"BRHS\1", "BRHS\2", "BRHS\3", "BRHS\4",
                                        "BRHS\5", "BRHS\6", NULL};

static int no_mac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                  uint8_t mac[32])
{
    memset(mac, 0, 32);
    return 0;
}

static void walk_offers(struct braid_hs *hs)
{
    volatile uint8_t sum = 0;
    const void *bytes;
    uint32_t transport;
    size_t at = 0, count;

    while (braid_hs_next_offer(hs, &at, &transport, &bytes, &count))
        for (size_t i = 0; i < count; i++)
            sum += ((const uint8_t *)bytes)[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct braid_hs *hs = malloc(sizeof(*hs));
    struct braid_hs_identity self = {.host = "fuzz"};
    struct braid_hs_hello hello = {.id = 1};
    uint8_t key[32] = {0};
    size_t at = 1, piece;

    if (bytes == 0 || hs == NULL) {
        free(hs);
        return 0;
    }
    piece = data[0] >> 1 == 0 ? SIZE_MAX : data[0] >> 1;
    if (data[0] & 1) {
        braid_hs_connect(hs, no_mac, &self, key, &hello);
        braid_hs_add_offer(hs, 1, "offer", 5);
    } else {
        braid_hs_accept(hs, no_mac, &self);
    }
    while (at < bytes && braid_hs_want(hs) > 0) {
        size_t n = MIN(MIN(braid_hs_want(hs), bytes - at), piece);
        enum braid_hs_action action;
        memcpy(braid_hs_in(hs), data + at, n);
        at += n;
        action = braid_hs_received(hs, n);
        hs->out_sent = hs->out_have;
        if (action == BRAID_HS_KEY) {
            braid_hs_set_key(hs, key);
        } else if (action == BRAID_HS_CHOOSE) {
            walk_offers(hs);
            if (data[0] & 1)
                braid_hs_ready(hs);
            else
                braid_hs_answer(hs, 5);
        } else if (action == BRAID_HS_FAILED && strlen(hs->why) == 0) {
            abort(); /* a failure says why */
        }
        hs->out_sent = hs->out_have;
    }
    free(hs);
    return 0;
}
