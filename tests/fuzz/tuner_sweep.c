/* Fuzz target: sweep files, and the profile that is fitted to whatever was accepted: jobs must be able to read it. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/braid-tune/fit.h"
#include "tools/braid-tune/sweep.h"

const char *const braid_fuzz_words[] = {"# ranks 2\n",
                                        "# nodes 2\n",
                                        "# channels 64\n",
                                        "# nvls 1\n",
                                        "# gpu a\"b\n",
                                        "# net x y\n",
                                        "# nccl \"\n",
                                        "coll,bytes,algo,proto,channels,us,comm,what\n",
                                        "all_reduce,1024,ring,ll,0,5.5,0,nccl\n",
                                        "all_gather,64T,ring,simple,2,1e8,3,forced\n",
                                        "reduce_scatter,1,pat,simple,64,1e-9,1,braid\n",
                                        "all_gather,1024,ring,ll,1,7.9e6,0,forced\n",
                                        "all_gather,1024,ring,ll,1,1e-6,0,forced\n",
                                        "all_reduce,1K,default,default,0,9,0\n",
                                        ",",
                                        "\n",
                                        "-1",
                                        "nan",
                                        NULL};

static const char start[] =
    "braid-profile 1\nname start\nsource s \"x\"\ntrust 0 @s\nnoise_ratio 0.05 @s\n"
    "guard_ratio 0.05 @s\nsharpness 8 @s\nintra_link 0 @s\nchannels 24 @s\nchannels_max 64 @s\n"
    "group_batch 1 @s\nbase_us * * * 8 @s\nhop_us * * * 3 @s\nchannel_GBps * * * 10 @s\n"
    "reach_ratio * * * * 0.5 @s\nrate_GBps port 100 @s\nrate_GBps rail 50 @s\nrails 1 @s\n";

static void use_sweep(const struct sweep *sweep)
{
    static struct braid_profile base, fitted, read;
    const struct fit_options options = {-1, 1};
    struct braid_profile_error error;
    struct fit_result result;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (!out || braid_profile_parse(start, sizeof(start) - 1, &base, &error))
        abort();
    fitted = base;
    if (fit_profile(sweep, &options, &fitted, &result) ||
        fit_write(out, "fuzzed", NULL, sweep, &base, &fitted, &result, "fuzz.csv") || fclose(out) ||
        braid_profile_parse(text, bytes, &read, &error)) {
        fprintf(stderr, "line %d: %s\n%s", error.line, error.text, text);
        abort();
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sweep sweep;
    char why[256] = "", *copy = malloc(bytes + 1);
    FILE *file;

    if (!copy || !bytes)
        goto out;
    memcpy(copy, data, bytes);
    file = fmemopen(copy, bytes, "r");
    if (!file)
        goto out;
    if (!sweep_parse(file, "fuzz.csv", &sweep, why, sizeof(why))) {
        /* A fit takes milliseconds a combination. */
        if (sweep.count && sweep.count < 40)
            use_sweep(&sweep);
        sweep_free(&sweep);
    } else if (!why[0]) {
        abort();
    }
    fclose(file);
out:
    free(copy);
    return 0;
}
