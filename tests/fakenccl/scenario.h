/*
 * What the fake NCCL core can play: every scenario is a function that runs its ranks and returns 0
 * (right), 1 (wrong, printed) or 77 (cannot be played with this plugin, version or build; printed).
 * Each file ends with its table; main.c lists the tables.
 */
#ifndef FAKE_SCENARIO_H
#define FAKE_SCENARIO_H

#include "fake_rank.h"

struct scenario {
    const char *name;
    const char *help;
    int (*run)(const struct fake_options *options, const struct scenario *self);
    const void *data; /* what the file that owns it wants */
    bool extra;       /* not part of `all` */
};

struct scenario_table {
    const struct scenario *list;
    size_t count;
};

extern const struct scenario_table traffic_scenarios;
extern const struct scenario_table life_scenarios;
extern const struct scenario_table error_scenarios;
extern const struct scenario_table peer_scenarios;
extern const struct scenario_table wire_scenarios;

#endif
