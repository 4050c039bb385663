/*
 * braid-info: what Braid sees and would do on a machine, one subcommand a file. Adding one: a file cmd_<name>.c with a const
 * struct braid_info_command, its declaration here, its row in main.c and its name in CMakeLists.txt.
 */
#ifndef BRAID_TOOLS_INFO_H
#define BRAID_TOOLS_INFO_H

#include <stdbool.h>

/* Exit codes of every subcommand. */
enum { INFO_OK = 0, INFO_FAILED = 1, INFO_USAGE = 2 };

struct braid_info_command {
    const char *name;  /* "topo"; main.c also takes "--topo" */
    const char *brief; /* one line for the list of subcommands */
    const char *usage; /* whole help, ends in a newline */
    bool no_options;   /* main.c refuses every argument */
    /* argv[0] is the subcommand's name. Returns an exit code. */
    int (*run)(int argc, char **argv);
};

/* net: prints the RDMA half; returns how many ports can be used. */
int braid_info_net_rdma(void);

extern const struct braid_info_command braid_info_net;
extern const struct braid_info_command braid_info_params;
extern const struct braid_info_command braid_info_topo;

#endif
