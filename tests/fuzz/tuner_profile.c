/* Fuzz target: tuner profiles, and decisions by whatever profile was accepted. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "tuner-plugin/tuner.h"

const char *const braid_fuzz_words[] = {"braid-profile 1\n",
                                        "name x\n",
                                        "source s \"t\"\n",
                                        "include generic.profile\n",
                                        "uncover * * *\n",
                                        "rule_budget all_reduce 1K 1G 8\n",
                                        "rule_chunk * * * 1 1T 1 9 65536\n",
                                        "base_us all_reduce ring ll 0 @t\n",
                                        "channel_GBps * * * 1e-6 @t\n",
                                        "correct_ratio all_reduce ring ll 1024 20 @t\n",
                                        "correct_one_ratio all_reduce ring ll 1024 0.05 @t\n",
                                        "sharpness 8 @t\n",
                                        "channels 64 @t\n",
                                        "channels_max 1 @t\n",
                                        "match_gpu \"*\"\n",
                                        "\"",
                                        "#",
                                        "@t",
                                        "*",
                                        " 1e308",
                                        "-1",
                                        NULL};

/* Whatever a profile says, decisions stay within what NCCL can take. */
static void use_profile(const struct braid_profile *profile)
{
    struct braid_tuner_settings settings = {
        .channel_ceiling = 64, .overlap = true, .overlap_ratio = 0.025};
    struct braid_shape shape = braid_shape_make(100000, 12500);
    struct braid_tuner *tuner;

    if (braid_tuner_create(profile, &shape, &settings, &tuner))
        return;
    for (int coll = 0; coll < BRAID_COLLS; coll++) {
        for (uint64_t bytes = 1; bytes < 1ull << 42; bytes *= 37) {
            float table[BRAID_ALGOS][BRAID_PROTOS];
            struct braid_tuner_call call = {(enum braid_coll)coll, bytes,       3,           false,
                                            &table[0][0],          BRAID_ALGOS, BRAID_PROTOS};
            int channels;

            for (int i = 0; i < BRAID_ALGOS * BRAID_PROTOS; i++)
                table[i / BRAID_PROTOS][i % BRAID_PROTOS] = i % 4 == 3 ? -1.0f : (float)(10 + i);
            channels = braid_tuner_decide(tuner, &call, NULL);
            if (channels < 0 || channels > 64 ||
                !braid_tuner_chunk(tuner, call.coll, bytes, BRAID_RING, BRAID_LL, 100))
                abort();
            for (int i = 0; i < BRAID_ALGOS * BRAID_PROTOS; i++) {
                float us = table[i / BRAID_PROTOS][i % BRAID_PROTOS];

                if (i % 4 == 3 ? us != -1.0f : !(us >= 0 && us < 1e30f))
                    abort();
            }
        }
    }
    braid_tuner_destroy(tuner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct braid_profile profile;
    struct braid_profile_error error;

    if (!braid_profile_parse((const char *)data, bytes, &profile, &error))
        use_profile(&profile);
    else if (!error.text[0])
        abort();
    return 0;
}
