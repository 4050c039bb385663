/*
 * The ranks of a measurement as one thing: rank 0 leads, sends a command to all and collects their answers. Over TCP, started by a
 * launcher or by fork on one host. Every wait is bounded and says for whom. Single-threaded.
 */
#ifndef BRAID_TUNE_GROUP_H
#define BRAID_TUNE_GROUP_H

#include <stdbool.h>

#include "tools/braid-tune/worker.h"

#define GROUP_RANKS_MAX 1024

struct group_options {
    int ranks;       /* 0 = one a GPU of this host; ignored under a launcher */
    bool fake_nodes; /* each rank poses as its own node; ranks may share a GPU */
    int port;        /* under a launcher: rank 0 listens here; 0 = MASTER_PORT + 1 */
    uint64_t max_bytes;
    const char *nccl_path, *plugin_path;
    const char *judge; /* the profile whose choices are measured as well; "" = none */
};

struct group {
    int ranks, nodes;
    int fd[GROUP_RANKS_MAX];
    struct worker *worker;
    struct worker_reply reply[GROUP_RANKS_MAX];
    char nccl[32], gpu[64];
};

/*
 * Starts or joins. On rank 0 returns 0 with a group to lead; on others it serves until the leader quits and returns 1. Negative
 * errno when something is missing, said on stderr.
 */
int group_start(const struct group_options *options, struct group *group);

/*
 * One command on all ranks. Returns 0 with group->reply filled, or a negative errno after saying on stderr which rank failed how.
 */
int group_run(struct group *group, const struct worker_command *command);

/* A new communicator over all ranks; close it before the next. */
int group_connect(struct group *group);
int group_disconnect(struct group *group);

/* Sets the communicator aside instead: it stays open, unused, so that NCCL's plugins stay loaded while others come and go. */
int group_keep(struct group *group);

void group_stop(struct group *group);

#endif
