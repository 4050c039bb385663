/* A small complete profile for unit tests: two GPUs over one link, numbers that are easy to check by hand. */
#ifndef BRAID_TESTS_PROFILE_TEXT_H
#define BRAID_TESTS_PROFILE_TEXT_H

#include <stdlib.h>

#include "tuner-plugin/cost/profile.h"

#define PROFILE_HEAD                                                                               \
    "braid-profile 1\nname test\nsource t \"made up\"\n"                                           \
    "trust 1 @t\nnoise_ratio 0.05 @t\nguard_ratio 0.05 @t\nsharpness 8 @t\nintra_link 0 @t\n"      \
    "channels 8 @t\nchannels_max 8 @t\ngroup_batch 8 @t\n"
#define PROFILE_BODY                                                                               \
    "base_us * ring * 10 @t\nhop_us nvlink ring * 1 @t\nchannel_GBps * ring * 10 @t\n"             \
    "base_us all_reduce tree * 20 @t\nchannel_GBps all_reduce tree * 10 @t\n"                      \
    "rate_GBps port 40 @t\n"

/* Parses or ends the test program; free() the result. */
static inline struct braid_profile *test_profile(const char *text)
{
    struct braid_profile *profile = malloc(sizeof(*profile));
    struct braid_profile_error error;

    if (braid_profile_parse(text, strlen(text), profile, &error)) {
        printf("line %d: %s\n", error.line, error.text);
        abort();
    }
    return profile;
}

#endif
