/*
 * What the tuner plugin of a process decides by, as a value that other parts of the process and its peers can compare.
 *
 * libnccl-tuner-braid.so exports one object of this struct under the name BRAID_WIRE_TUNER_ID_SYMBOL. Its magic is zero until the
 * plugin has been initialised for a communicator, which NCCL does before it connects anything; from then on it does not change,
 * whatever communicators follow. Finding it: the tuner is opened with RTLD_LOCAL and under any name, so go through the loaded
 * objects (dl_iterate_phdr), open each again with RTLD_NOLOAD and ask it for the symbol; no symbol or a zero magic means that no
 * Braid tuner decides in this process. common/tuner_id.h does that.
 * Two connected ranks must agree: equal `hash`, or both without a tuner. Otherwise they may choose different algorithms for one
 * collective, which hangs or corrupts it. The side that compares names both hashes and profiles in its error.
 * Fixed width, native byte order; a peer sends `hash` in its own handshake's byte order.
 */
#ifndef BRAID_WIRE_TUNER_ID_H
#define BRAID_WIRE_TUNER_ID_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define BRAID_WIRE_TUNER_ID_SYMBOL "braid_tuner_id"
#define BRAID_WIRE_TUNER_ID_MAGIC  0x44495442u /* "BTID" */
#define BRAID_WIRE_TUNER_ID_NAME   48

struct braid_wire_tuner_id {
    uint32_t magic; /* 0 until known; read it first, with acquire */
    uint32_t bytes; /* of this struct, for growth at its end */
    uint64_t hash;  /* the profiles that fit this machine and every setting that decides; not 0 */
    char name
        [BRAID_WIRE_TUNER_ID_NAME]; /* of the profile chosen first, for messages; ends in zero */
};

static_assert(sizeof(struct braid_wire_tuner_id) == 64, "tuner identity layout");
static_assert(offsetof(struct braid_wire_tuner_id, hash) == 8, "tuner identity layout");
static_assert(offsetof(struct braid_wire_tuner_id, name) == 16, "tuner identity layout");

#endif
