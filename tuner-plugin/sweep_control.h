/*
 * How braid-tune steers NCCL: the plugin libnccl-tuner-braid-sweep.so, loaded by NCCL as its tuner, does in each call what this
 * struct says and leaves in it what it saw. So every candidate is measured through NCCL's own tuner interface, on one communicator,
 * and nothing is measured that a tuner could not reach. The tool finds the struct with dlsym under BRAID_SWEEP_CONTROL.
 * Threading: written between collectives by the thread that launches them, which is also the one that NCCL calls the tuner on.
 */
#ifndef BRAID_TUNER_SWEEP_CONTROL_H
#define BRAID_TUNER_SWEEP_CONTROL_H

#include <stdint.h>

#define BRAID_SWEEP_CONTROL "braid_sweep_control"

enum sweep_mode {
    SWEEP_NCCL,   /* leave everything to NCCL */
    SWEEP_FORCED, /* this algorithm, protocol and channel count */
    SWEEP_BRAID   /* what Braid's tuner decides with the profile of this process */
};

struct braid_sweep_control {
    int32_t mode;
    int32_t algo, proto, channels; /* of SWEEP_FORCED; 0 channels = NCCL's count */
    int32_t calls;                 /* made since the tool cleared it */
    int32_t algos, protos;         /* of the last call */
    int32_t nccl_algo, nccl_proto; /* NCCL's own choice in the last call */
    int32_t braid_algo, braid_proto, braid_channels; /* Braid's, whatever the mode */
    float table[7 * 3]; /* NCCL's estimates in the last call, us; negative = unusable */
};

#endif
