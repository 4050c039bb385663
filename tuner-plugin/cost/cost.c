/*
 * The prediction. us = start + hops + channels (latency), + bytes over what they share (transfer), + the first chunk's way
 * through a pipeline (fill), times the profile's correction at that size.
 * Transfer: each resource alone would need bytes / (rate x reach); the narrowest decides, and near a tie both are felt, which a
 * p-norm of the times with the profile's `sharpness` p (1, 2, 4 or 8) says. Pure functions, any thread.
 * Called by: tuner.c, tools/braid-tune.
 */
#include "tuner-plugin/cost/cost.h"

/* __builtin_sqrt becomes the IEEE instruction under -fno-math-errno, so libm is not needed. */
static double root(double value, int power)
{
    for (; power > 1; power /= 2)
        value = __builtin_sqrt(value);
    return value;
}

static double raise(double value, int power)
{
    for (; power > 1; power /= 2)
        value *= value;
    return value;
}

static double or_else(double value, double fallback)
{
    return value == value ? value : fallback;
}

int braid_nccl_channels(const struct braid_profile *profile, const struct braid_shape *shape,
                        double bytes, enum braid_algo algo, enum braid_proto proto)
{
    double channels = or_else(profile->channels, 1);
    double threads = profile->nccl.threads[algo][proto];
    double threshold = profile->nccl.threshold_bytes[algo][proto];

    if (algo == BRAID_NVLS || algo == BRAID_NVLS_TREE)
        return (int)or_else(profile->nvls_channels, channels);
    if (threads == threads && threshold == threshold) {
        double each = threads * threshold;

        if (algo == BRAID_RING && proto == BRAID_LL)
            each *= shape->ranks;
        if (bytes < channels * each)
            channels = (double)(int)(bytes / each);
    }
    return channels < 1 ? 1 : (int)channels;
}

/* The time each resource would need alone. */
static void resource_times(const struct braid_profile *profile, const struct braid_load *load,
                           enum braid_coll coll, enum braid_algo algo, enum braid_proto proto,
                           int channels, double *times)
{
    enum braid_link intra = (enum braid_link)(int)or_else(profile->intra_link, BRAID_NVLINK);
    double intra_reach = or_else(profile->reach_ratio[intra][coll][algo][proto], 1);
    double net_reach = or_else(profile->reach_ratio[BRAID_NET][coll][algo][proto], 1);
    const double *rate = profile->rate_GBps;

    /* A GB/s is a thousand bytes a microsecond. */
    times[BRAID_SM] = load->sm_bytes / (1e3 * channels * profile->channel_GBps[coll][algo][proto]);
    times[BRAID_PORT] = load->port_bytes / (1e3 * or_else(rate[BRAID_PORT], 1e9) * intra_reach);
    times[BRAID_SWITCH] = load->port_bytes / (1e3 * or_else(rate[BRAID_SWITCH], 1e9) * intra_reach);
    times[BRAID_ROOT] = load->port_bytes * or_else(profile->gpus_per_root, 1) /
                        (1e3 * or_else(rate[BRAID_ROOT], 1e9) * intra_reach);
    times[BRAID_RAIL] = load->net_bytes / (1e3 * or_else(rate[BRAID_RAIL], 1e9) *
                                           or_else(profile->rails, 1) * net_reach);
    times[BRAID_HOST] = load->net_bytes / (1e3 * or_else(rate[BRAID_HOST], 1e9) * net_reach);
}

static double transfer_us(const double *times, int sharpness, enum braid_resource *limit_p)
{
    double largest = 0, sum = 0;

    *limit_p = BRAID_SM;
    for (int r = 0; r < BRAID_RESOURCES; r++) {
        if (times[r] > largest) {
            largest = times[r];
            *limit_p = (enum braid_resource)r;
        }
    }
    if (largest <= 0)
        return 0;
    for (int r = 0; r < BRAID_RESOURCES; r++)
        sum += raise(times[r] / largest, sharpness);
    return largest * root(sum, sharpness);
}

static double correction(const double *ratio, double bytes)
{
    uint64_t whole = bytes < 1 ? 1 : bytes > 1e14 ? 100000000000000ull : (uint64_t)bytes;
    int z = braid_log2_floor(whole);
    double part = bytes / (double)(1ull << z) - 1;

    if (z >= BRAID_SIZES - 1)
        return ratio[BRAID_SIZES - 1];
    if (part < 0 || part > 1)
        part = part < 0 ? 0 : 1;
    return ratio[z] + (ratio[z + 1] - ratio[z]) * part;
}

/* Between one channel and all of them the correction follows the time that one channel's part of the bytes takes. */
static double channel_correction(const struct braid_profile *profile, enum braid_coll coll,
                                 enum braid_algo algo, enum braid_proto proto, double bytes,
                                 int channels, int most)
{
    double all = correction(profile->correct_ratio[coll][algo][proto], bytes), one;

    if (channels >= most)
        return all;
    one = correction(profile->correct_one_ratio[coll][algo][proto], bytes);
    return all + (one - all) * (most - channels) / ((double)channels * (most - 1));
}

static double latency_us(const struct braid_profile *profile, const struct braid_shape *shape,
                         const struct braid_load *load, enum braid_coll coll, enum braid_algo algo,
                         enum braid_proto proto, int channels)
{
    enum braid_link intra = (enum braid_link)(int)or_else(profile->intra_link, BRAID_NVLINK);

    return profile->base_us[coll][algo][proto] +
           load->intra_hops * or_else(profile->hop_us[intra][algo][proto], 0) +
           load->net_hops * or_else(profile->hop_us[BRAID_NET][algo][proto], 0) +
           (channels - 1) * or_else(profile->channel_us[coll][algo][proto], 0) +
           shape->ranks * or_else(profile->rank_us[coll][algo][proto], 0);
}

/* The first chunk passes all stages but one before the last stage is busy. */
static double fill_us(const struct braid_load *load, double transfer, double chunk_bytes,
                      int channels)
{
    double a_channel = load->sm_bytes / channels;

    if (load->depth < 2 || a_channel <= 0 || chunk_bytes <= 0)
        return 0;
    return (load->depth - 1) * transfer * (chunk_bytes < a_channel ? chunk_bytes / a_channel : 1);
}

struct braid_prediction braid_cost_predict(const struct braid_profile *profile,
                                           const struct braid_shape *shape, enum braid_coll coll,
                                           double bytes, enum braid_algo algo,
                                           enum braid_proto proto, int channels, double chunk_bytes)
{
    struct braid_prediction out = {__builtin_nan(""), 0, 0, 0, BRAID_SM};
    struct braid_load load;
    double times[BRAID_RESOURCES], ratio;
    int most;

    if (!braid_kind_valid(coll, algo, proto) || shape->ranks < 2 ||
        profile->base_us[coll][algo][proto] != profile->base_us[coll][algo][proto] ||
        profile->channel_GBps[coll][algo][proto] != profile->channel_GBps[coll][algo][proto])
        return out;
    most = braid_nccl_channels(profile, shape, bytes, algo, proto);
    if (channels <= 0 || channels > most)
        channels = most;
    if (chunk_bytes <= 0)
        chunk_bytes = or_else(profile->chunk_bytes[coll][algo][proto], 0);
    load = braid_load_of(shape, coll, algo, bytes);
    resource_times(profile, &load, coll, algo, proto, channels, times);
    ratio = channel_correction(profile, coll, algo, proto, bytes, channels, most);
    out.transfer_us = ratio * transfer_us(times, (int)profile->sharpness, &out.limit);
    out.latency_us = ratio * latency_us(profile, shape, &load, coll, algo, proto, channels);
    out.fill_us = fill_us(&load, out.transfer_us, chunk_bytes, channels);
    out.us = out.latency_us + out.transfer_us + out.fill_us;
    if (out.us < 1e-3)
        out.us = 1e-3;
    return out;
}
