/*
 * What the sub-commands of braid-tune share: options, lists, finding a profile. Single-threaded program.
 */
#ifndef BRAID_TUNE_H
#define BRAID_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/topo/topo.h"
#include "tuner-plugin/cost/cost.h"

/* One command-line option: a flag, or a name and a value. Made by the macros below. */
struct tune_option {
    const char *name;
    bool *flag_p;
    const char **text_p;
    int *int_p;
    double *real_p;
    double min, max; /* of a number */
};

#define TUNE_FLAG(name, p)                                                                         \
    {                                                                                              \
        name, p, NULL, NULL, NULL, 0, 0                                                            \
    }
#define TUNE_TEXT(name, p)                                                                         \
    {                                                                                              \
        name, NULL, p, NULL, NULL, 0, 0                                                            \
    }
#define TUNE_INT(name, p, min, max)                                                                \
    {                                                                                              \
        name, NULL, NULL, p, NULL, min, max                                                        \
    }
#define TUNE_REAL(name, p, min, max)                                                               \
    {                                                                                              \
        name, NULL, NULL, NULL, p, min, max                                                        \
    }

/*
 * Reads options and up to `max` other words. Returns the number of words, or -1 after saying what is wrong; the caller then returns
 * tune_usage(), which prints the text for --help (exit status 0) as for a mistake (2).
 */
int tune_options(int argc, char **argv, const struct tune_option *options, size_t count,
                 const char **words, int max);
int tune_usage(const char *usage);

/* "all_reduce,all_gather" into collectives, each once. Returns the count, or -1 after saying what is wrong. */
int tune_colls(const char *text, int *colls);

/* "1K,4M", or "1K:1G" (from, to, four times the last each) or "1K:1G:x2". Returns the count or -1. */
int tune_sizes(const char *text, uint64_t *sizes, int max);

/* "8,16" into numbers. Returns the count or -1. */
int tune_numbers(const char *text, int *numbers, int max);

/* A profile by path or by name in the profile folders. Returns 0, or -1 after saying what is wrong. */
int tune_profile(const char *name, struct braid_profile *profile);

/* The table that NCCL would pass to a tuner, by its restated model: [algos][protos]. Returns how many entries are usable. */
int tune_nccl_table(const struct braid_profile *profile, const struct braid_shape *shape,
                    enum braid_coll coll, uint64_t bytes, float *table);

/* A machine given by its topology, and what a job on all of it has. */
struct tune_machine {
    struct braid_topo_summary summary;
    struct braid_machine_key key; /* as the plugin would find it there */
    int node_ranks; /* GPUs of a node; nodes are NVLink domains, as NCCL counts them */
    int nodes;
};

/* `what` is "live", a file or a line as braid-info topo takes them. Returns 0, or -1 after saying what is wrong. */
int tune_machine_load(const char *what, struct tune_machine *machine);

/* Puts the rates of a machine into a profile. */
void tune_machine_apply(const struct tune_machine *machine, struct braid_profile *profile);

int cmd_calibrate(int argc, char **argv);
int cmd_exercise(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_fit(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_judge(int argc, char **argv);
int cmd_predict(int argc, char **argv);
int cmd_waves(int argc, char **argv);

#endif
