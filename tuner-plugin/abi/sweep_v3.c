/*
 * The tuner plugin that braid-tune loads into NCCL while it measures: see sweep_control.h. Exports tuner v3 only, which every NCCL
 * from 2.22 on takes. Never installed as a user's tuner. Called by: NCCL, on the launching thread.
 */
#include <string.h>

#include "nccl/tuner_v3.h"
#include "tuner-plugin/sweep_control.h"
#include "tuner-plugin/tuner_setup.h"

extern __attribute__((visibility("default"))) struct braid_sweep_control braid_sweep_control;
struct braid_sweep_control braid_sweep_control;

static ncclResult_t init(size_t ranks, size_t nodes, ncclDebugLogger_t log, void **context)
{
    (void)log;
    *context = braid_tuner_open(ranks, nodes, 0, 64);
    return ncclSuccess;
}

static void record(const float *table, int algos, int protos)
{
    struct braid_sweep_control *control = &braid_sweep_control;
    float least = -1;

    control->calls++;
    control->algos = algos;
    control->protos = protos;
    control->nccl_algo = control->nccl_proto = -1;
    for (int i = 0; i < 7 * 3; i++)
        control->table[i] = -1;
    for (int i = 0; i < algos * protos && i < 7 * 3; i++) {
        control->table[i] = table[i];
        if (table[i] >= 0 && (least < 0 || table[i] < least)) {
            least = table[i];
            control->nccl_algo = i / protos;
            control->nccl_proto = i % protos;
        }
    }
}

static void force(float *table, int algos, int protos)
{
    const struct braid_sweep_control *control = &braid_sweep_control;
    int at = control->algo * protos + control->proto;

    if (control->algo >= algos || control->proto >= protos || !(table[at] >= 0))
        return;
    for (int i = 0; i < algos * protos; i++) {
        if (table[i] >= 0 && i != at)
            table[i] += 1e6f;
    }
    table[at] = 0;
}

static ncclResult_t get_coll_info(void *context, ncclFunc_t coll, size_t bytes, int ops,
                                  float **table, int algos, int protos, int *channels)
{
    struct braid_sweep_control *control = &braid_sweep_control;
    float *entries = (float *)(void *)table, copy[7 * 3];
    struct braid_tuner_decision decision = {0};
    struct braid_tuner_call call = {(enum braid_coll)coll, bytes, ops, false, copy, algos, protos};
    int wanted;

    if (algos * protos > 7 * 3)
        return ncclSuccess;
    record(entries, algos, protos);
    memcpy(copy, entries, (size_t)(algos * protos) * sizeof(float));
    wanted = braid_tuner_decide(context, &call, &decision);
    control->braid_algo = (int32_t)decision.algo;
    control->braid_proto = (int32_t)decision.proto;
    control->braid_channels = wanted;
    if (control->mode == SWEEP_FORCED) {
        force(entries, algos, protos);
        *channels = control->channels;
    } else if (control->mode == SWEEP_BRAID) {
        memcpy(entries, copy, (size_t)(algos * protos) * sizeof(float));
        *channels = wanted;
    }
    return ncclSuccess;
}

static ncclResult_t destroy(void *context)
{
    braid_tuner_close(context);
    return ncclSuccess;
}

extern const ncclTuner_v3_t ncclTunerPlugin_v3;
__attribute__((visibility("default"))) const ncclTuner_v3_t ncclTunerPlugin_v3 = {
    .name = "Braid sweep",
    .init = init,
    .getCollInfo = get_coll_info,
    .destroy = destroy,
};
