/*
 * A machine from a topology (a file, a line, or this machine): the key by which the plugin chooses a profile there, how many ranks
 * a job has, and its rates into a profile instead of what the profile says. Latencies, channel rates and how much of a line rate
 * is reached stay the profile's. Single-threaded program. Called by: cmd_explain.c, cmd_predict.c.
 */
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "tools/braid-tune/tune.h"
#include "tuner-plugin/machine.h"

/* Line rates that NCCL reaches over PCIe by its own table: 12 of 15.75 GB/s, 24 of 31.5, 48 of 63. */
#define NCCL_PCIE_RATIO 0.762

static int load(const char *what, struct braid_topo_summary *summary)
{
    struct braid_topo_error error;
    struct braid_topo *topo = NULL;
    char text[400];
    int rc;

    if (!strcmp(what, "live")) {
        rc = braid_topo_open(&topo);
        snprintf(text, sizeof(text), "this machine: %s", strerror(-rc));
    } else {
        rc = braid_topo_load(what, &topo, &error);
        if (rc)
            braid_topo_error_format(&error, text, sizeof(text));
    }
    if (rc) {
        fprintf(stderr, "braid-tune: %s\n", text);
        return -1;
    }
    braid_topo_summarise(topo, summary);
    braid_topo_destroy(topo);
    if (summary->gpus_per_node < 1) {
        fprintf(stderr, "braid-tune: %s: expected a machine with a GPU\n", what);
        return -1;
    }
    return 0;
}

static void scale(double *values, double by)
{
    for (int algo = 0; algo < BRAID_ALGOS; algo++)
        values[algo] *= by;
}

static void set_intra(const struct braid_topo_summary *s, struct braid_profile *p)
{
    if (s->gpu_gpu_path <= BRAID_TOPO_PATH_NVB && s->nvlink_gpu_GBps > 0) {
        if (p->rate_GBps[BRAID_PORT] > 0)
            scale(p->nccl.graph_intra_GBps, s->nvlink_gpu_GBps / p->rate_GBps[BRAID_PORT]);
        p->intra_link = BRAID_NVLINK;
        p->rate_GBps[BRAID_PORT] = s->nvlink_gpu_GBps;
        return;
    }
    if (s->pcie_gpu_GBps <= 0)
        return;
    p->intra_link = BRAID_PCI;
    p->rate_GBps[BRAID_PORT] = s->pcie_gpu_GBps;
    p->rate_GBps[BRAID_ROOT] = s->pcie_root_GBps;
    p->gpus_per_root = 1; /* the root's rate is already a GPU's part of it */
    for (int algo = 0; algo < BRAID_ALGOS; algo++)
        p->nccl.graph_intra_GBps[algo] =
            s->pcie_root_GBps * NCCL_PCIE_RATIO / p->nccl.graph_channels[algo];
    p->nccl.nvls = 0;
}

static void set_net(const struct braid_topo_summary *s, struct braid_profile *p)
{
    double before = p->rate_GBps[BRAID_RAIL] * p->rails;

    if (s->nics_per_node < 1 || s->node_cut_GBps <= 0)
        return;
    if (before > 0)
        scale(p->nccl.graph_inter_GBps, s->node_cut_GBps / before);
    p->rails = s->nics_per_node;
    p->rate_GBps[BRAID_RAIL] = s->node_cut_GBps / s->nics_per_node;
}

/* What braid_machine_key_read() would say on that machine: every network without RDMA is sockets. */
static void set_key(const char *what, const struct braid_topo_summary *s,
                    struct braid_machine_key *key)
{
    bool rdma =
        !strcmp(s->net_kind, "ib") || !strcmp(s->net_kind, "roce") || !strcmp(s->net_kind, "efa");

    if (!strcmp(what, "live")) {
        braid_machine_key_read(key);
        return;
    }
    memset(key, 0, sizeof(*key));
    snprintf(key->gpu, sizeof(key->gpu), "%s", s->gpu);
    snprintf(key->net, sizeof(key->net), "%s", rdma ? s->net_kind : "socket");
}

int tune_machine_load(const char *what, struct tune_machine *machine)
{
    struct braid_topo_summary *s = &machine->summary;
    int gpus;

    if (load(what, s))
        return -1;
    set_key(what, s, &machine->key);
    gpus = s->nodes * s->gpus_per_node;
    machine->node_ranks = MIN(MAX(s->nvlink_domain_gpus, s->gpus_per_node), gpus);
    machine->nodes = (gpus + machine->node_ranks - 1) / machine->node_ranks;
    return 0;
}

void tune_machine_apply(const struct tune_machine *machine, struct braid_profile *profile)
{
    const struct braid_topo_summary *s = &machine->summary;

    set_intra(s, profile);
    set_net(s, profile);
    if (s->sm > 0)
        profile->nccl.compcap = s->sm >= 100 ? 3 : s->sm >= 90 ? 2 : s->sm >= 80 ? 1 : 0;
    if (s->sm > 0 && s->sm < 90)
        profile->nccl.nvls = 0;
    if (s->cpu_vendor[0])
        profile->nccl.cpu_amd = !strcmp(s->cpu_vendor, "AuthenticAMD");
}
