/*
 * braid-tune waves: how many SMs a GEMM leaves for nothing. Called by: main.c.
 */
#include <stdio.h>

#include "common/util.h"
#include "tools/braid-tune/tune.h"
#include "tuner-plugin/cost/cost.h"

static const char usage[] = "braid-tune waves --mnk M,N,K [--tile M,N] [--per-sm TILES] [--sms N]\n"
                            "The most channels that cost a GEMM of M x N x K no extra wave, and "
                            "its waves at other channel counts.\n";

int cmd_waves(int argc, char **argv)
{
    const char *mnk = "", *tile = "128,256";
    int size[3], tiles[2], q = 1, m = 132, free_channels;
    const struct tune_option options[] = {TUNE_TEXT("--mnk", &mnk), TUNE_TEXT("--tile", &tile),
                                          TUNE_INT("--per-sm", &q, 1, 64),
                                          TUNE_INT("--sms", &m, 1, 1024)};

    if (tune_options(argc, argv, options, ARRAY_SIZE(options), NULL, 0) < 0 ||
        tune_numbers(mnk, size, 3) != 3 || tune_numbers(tile, tiles, 2) != 2)
        return tune_usage(usage);
    free_channels = braid_waves_free_channels(size[0], size[1], tiles[0], tiles[1], q, m);
    printf("%d x %d x %d in tiles of %d x %d, %d a SM, on %d SMs: %d channels cost no extra wave\n",
           size[0], size[1], size[2], tiles[0], tiles[1], q, m, free_channels);
    printf("%8s %6s\n", "channels", "waves");
    for (int c = 0; c <= 32 && c < m; c += c < 4 ? 1 : 4)
        printf("%8d %6lld\n", c,
               (long long)braid_waves_count(size[0], size[1], tiles[0], tiles[1], q, m, c));
    return 0;
}
