/*
 * Fuzz target: what a broken peer can say to the verbs transport, and what a user can write in its settings. Byte 0 chooses: an offer
 * (parsed, and each of its ports paired with each), a control ring (read record by record as the lane does), or a text for the
 * grammars of NCCL_IB_HCA and of an address range.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "net-plugin/verbs/gid.h"
#include "net-plugin/verbs/hca.h"
#include "net-plugin/verbs/offer.h"
#include "net-plugin/verbs/ring.h"

const char *const braid_fuzz_words[] = {"mlx5_0:1", "^=", ",", "10.1.0.0/16", "fd00::/64", NULL};

static void try_offer(const uint8_t *data, size_t bytes)
{
    struct verbs_offer offer;
    char why[200];
    int own, peer;

    if (verbs_offer_parse(data, bytes, &offer, why, sizeof(why)) != 0)
        return;
    for (int i = 0; i < offer.rails; i++)
        for (int j = 0; j < offer.rails; j++)
            if (braid_gid_pair(&offer.rail[i], &offer.rail[j], &own, &peer, why, sizeof(why)) > 0 &&
                (own < 0 || own >= offer.rail[i].gid_count || peer < 0 ||
                 peer >= offer.rail[j].gid_count))
                abort();
}

static void try_ring(const uint8_t *data, size_t bytes)
{
    const size_t size = BRAID_VERBS_BACK_BYTES + BRAID_VERBS_RECORD_MAX;
    struct braid_ring_rx rx = {.memory = calloc(1, size), .size = BRAID_VERBS_BACK_BYTES};
    struct braid_ring_record record;
    uint32_t sum = 0;

    if (rx.memory == NULL)
        return;
    memcpy(rx.memory, data, MIN(bytes, size));
    for (int i = 0; i < 4096 && braid_ring_peek(&rx, 1, &record) == 1; i++) {
        for (uint32_t k = 0; k < record.rec.body_bytes; k++)
            sum += record.body[k]; /* the body lies inside the memory */
        braid_ring_consume(&rx, &record);
    }
    if (sum == UINT32_MAX)
        abort(); /* never; it keeps the reads */
    free(rx.memory);
}

static void try_text(const uint8_t *data, size_t bytes)
{
    struct braid_gid_wish wish = {0};
    char text[256], why[160];

    bytes = MIN(bytes, sizeof(text) - 1);
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    braid_hca_admits(text, "mlx5_0", 1);
    braid_hca_is_odd(text, why, sizeof(why));
    braid_gid_parse_range(text, &wish);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] % 3 == 0)
        try_offer(data + 1, bytes - 1);
    else if (data[0] % 3 == 1)
        try_ring(data + 1, bytes - 1);
    else
        try_text(data + 1, bytes - 1);
    return 0;
}
