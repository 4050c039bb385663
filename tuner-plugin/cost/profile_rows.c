/*
 * The table of profile rows and the words that select in it. Data and pure functions, any thread.
 * Called by: profile.c (parser, walker).
 */
#include "tuner-plugin/cost/profile_rows.h"

#include <string.h>

#include "common/units.h"
#include "common/util.h"

const char *const braid_const_names[BRAID_CONST_KINDS] = {"ll_max", "ring_ll128", "tree_ll128",
                                                          "tree_simple", "nvls_tree"};
const char *const braid_compcap_names[BRAID_COMPCAPS] = {"volta", "ampere", "hopper", "blackwell"};
const char *const braid_scale_names[BRAID_SCALES] = {"1node", "2nodes", "4nodes"};

const char *const braid_nccl_factor_names[BRAID_NCCL_FACTORS] = {
    "ring_ll",    "ring_ll128",  "tree",           "tree_ll",        "tree_ll128_1node",
    "tree_ll128", "pat",         "collnet_nic",    "collnet_hopper", "collnet_arity_us",
    "pat_hops",   "pat_rank_us", "simple_overhead"};

#define US_MAX   1e7
#define GBPS_MAX 1e6
#define ROW(name, selectors, member, min, max)                                                     \
    {                                                                                              \
        name, selectors, offsetof(struct braid_profile, member), min, max                          \
    }

const struct braid_row_kind braid_row_kinds[] = {
    ROW("match_ranks_min", "", match_ranks[0], 1, 1e9),
    ROW("match_ranks_max", "", match_ranks[1], 1, 1e9),
    ROW("match_nodes_min", "", match_nodes[0], 1, 1e9),
    ROW("match_nodes_max", "", match_nodes[1], 1, 1e9),
    ROW("trust", "", trust, 0, 1),
    ROW("intra_link", "", intra_link, 0, BRAID_LINKS - 1),
    ROW("base_us", "cap", base_us, 0, US_MAX),
    ROW("channel_us", "cap", channel_us, -1e3, 1e3),
    ROW("rank_us", "cap", rank_us, 0, 1e3),
    ROW("channel_GBps", "cap", channel_GBps, 1e-6, GBPS_MAX),
    ROW("hop_us", "lap", hop_us, 0, US_MAX),
    ROW("reach_ratio", "lcap", reach_ratio, 1e-3, 100),
    ROW("rate_GBps", "r", rate_GBps, 1e-3, GBPS_MAX),
    ROW("rails", "", rails, 1, 64),
    ROW("gpus_per_root", "", gpus_per_root, 1, 64),
    ROW("group_batch", "", group_batch, 1, 1024),
    ROW("sharpness", "", sharpness, 1, 8),
    ROW("chunk_bytes", "cap", chunk_bytes, 1, 1e9),
    ROW("correct_ratio", "capz", correct_ratio, 0.05, 20),
    ROW("correct_one_ratio", "capz", correct_one_ratio, 0.05, 20),
    ROW("noise_ratio", "", noise_ratio, 0, 10),
    ROW("guard_ratio", "", guard_ratio, 0, 10),
    ROW("gpu_sms", "", gpu_sms, 1, 4096),
    ROW("exposed_ratio", "", exposed_ratio, 0, 10),
    ROW("channels", "", channels, 1, BRAID_CHANNELS),
    ROW("channels_max", "", channels_max, 1, BRAID_CHANNELS),
    ROW("nvls_channels", "", nvls_channels, 1, BRAID_CHANNELS),
    ROW("efficiency_ctas", "cs", efficiency_ctas, 1, 1024),
    ROW("nccl_base_us", "ap", nccl.base_us, 0, US_MAX),
    ROW("nccl_hop_us", "lap", nccl.hop_us, 0, US_MAX),
    ROW("nccl_table_GBps", "Kks", nccl.table_GBps, 0, GBPS_MAX),
    ROW("nccl_nvls_efficiency", "k", nccl.nvls_efficiency, 0, 1),
    ROW("nccl_tree_correction", "pz", nccl.tree_correction, 0.01, 2),
    ROW("nccl_threads", "ap", nccl.threads, 32, 1024),
    ROW("nccl_threshold_bytes", "ap", nccl.threshold_bytes, 1, 1e6),
    ROW("nccl_compcap", "", nccl.compcap, 0, BRAID_COMPCAPS - 1),
    ROW("nccl_cpu_amd", "", nccl.cpu_amd, 0, 1),
    ROW("nccl_factor", "F", nccl.factor, 1e-3, 100),
    ROW("nccl_net_overhead_us", "", nccl.net_overhead_us, 0, 1e3),
    ROW("nccl_plateau_ratio", "", nccl.plateau_ratio, 1, 10),
    ROW("nccl_graph_channels", "a", nccl.graph_channels, 0, BRAID_CHANNELS),
    ROW("nccl_graph_intra_GBps", "a", nccl.graph_intra_GBps, 0, GBPS_MAX),
    ROW("nccl_graph_inter_GBps", "a", nccl.graph_inter_GBps, 0, GBPS_MAX),
    ROW("nccl_graph_latency_us", "a", nccl.graph_latency_us, 0, US_MAX),
    ROW("nccl_ll128", "", nccl.ll128, 0, 1),
    ROW("nccl_nvls", "", nccl.nvls, 0, 1),
    ROW("set_base_us", "ap", edits.base_us, 0, US_MAX),
    ROW("set_hop_us", "lap", edits.hop_us, 0, US_MAX),
    ROW("set_table_GBps", "Kks", edits.table_GBps, 0, GBPS_MAX),
};
const int braid_row_kind_count = ARRAY_SIZE(braid_row_kinds);

int braid_selector_count(char selector)
{
    switch (selector) {
    case 'c': return BRAID_COLLS;
    case 'a': return BRAID_ALGOS;
    case 'p': return BRAID_PROTOS;
    case 'l': return BRAID_LINKS;
    case 'r': return BRAID_RESOURCES;
    case 'z': return BRAID_SIZES;
    case 'K': return BRAID_CONST_KINDS;
    case 'F': return BRAID_NCCL_FACTORS;
    case 'k': return BRAID_COMPCAPS;
    case 's': return BRAID_SCALES;
    default: return 0;
    }
}

static const char *const *selector_names(char selector)
{
    switch (selector) {
    case 'c': return braid_coll_names;
    case 'a': return braid_algo_names;
    case 'p': return braid_proto_names;
    case 'l': return braid_link_names;
    case 'r': return braid_resource_names;
    case 'K': return braid_const_names;
    case 'F': return braid_nccl_factor_names;
    case 'k': return braid_compcap_names;
    case 's': return braid_scale_names;
    default: return NULL;
    }
}

int braid_selector_find(char selector, const char *word)
{
    const char *const *names = selector_names(selector);

    if (names)
        return braid_kind_find(names, braid_selector_count(selector), word);
    if (selector == 'z') {
        int64_t bytes;
        int z = 0;

        if (braid_parse_bytes(word, &bytes) || bytes <= 0 || (bytes & (bytes - 1)))
            return -1;
        while (bytes > 1) {
            bytes >>= 1;
            z++;
        }
        return z < BRAID_SIZES ? z : -1;
    }
    return -1;
}

const char *braid_selector_name(char selector, int index, char *buf, size_t buf_bytes)
{
    const char *const *names = selector_names(selector);

    if (names)
        return names[index];
    snprintf(buf, buf_bytes, "%llu", 1ull << index);
    return buf;
}
