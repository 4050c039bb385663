/*
 * Wave quantisation of a GEMM: T tiles on M SMs that hold q tiles each run in ceil(T / qM) waves, and the last one leaves SMs idle.
 * Pure functions, any thread. Called by: tools/braid-tune; users through it.
 */
#include "tuner-plugin/cost/cost.h"

int64_t braid_waves_count(int64_t m, int64_t n, int tile_m, int tile_n, int per_sm, int sms,
                          int channels)
{
    int64_t tiles, slots;

    if (m < 1 || n < 1 || tile_m < 1 || tile_n < 1 || per_sm < 1 || channels < 0 || sms <= channels)
        return 0;
    tiles = ((m - 1) / tile_m + 1) * ((n - 1) / tile_n + 1);
    slots = (int64_t)per_sm * (sms - channels);
    return (tiles + slots - 1) / slots;
}

int braid_waves_free_channels(int64_t m, int64_t n, int tile_m, int tile_n, int per_sm, int sms)
{
    int64_t waves = braid_waves_count(m, n, tile_m, tile_n, per_sm, sms, 0), tiles, needed;

    if (!waves)
        return 0;
    tiles = ((m - 1) / tile_m + 1) * ((n - 1) / tile_n + 1);
    needed = (tiles + per_sm * waves - 1) / (per_sm * waves);
    return (int)(sms - needed);
}
