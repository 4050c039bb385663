/*
 * The one-line synthetic form: "nodes:16 gpus:8 nvlink:18x25GB/s nics:8x400Gb/s". Grammar and
 * defaults are in README.md. Parsing fills a struct machine, building turns that into a topology.
 * No state; any thread.
 */
#include "common/topo/topo_build.h"
#include "common/topo/topo_spec.h"

#include <errno.h>
#include <string.h>

#define SOURCE "synthetic topology"
#define UNSET  (-1)

struct machine {
    int nodes, gpus, sm, nvlinks, nics, rails, numa, switches, pcie_gen, pcie_width, domain;
    int nvswitch; /* 0, 1 or UNSET */
    double nvlink_GBps, nic_GBps, c2c_GBps, cpu_GBps;
    char model[24], net[12], cpu[16];
};

/* Where the parser is; columns count from 1. */
struct scan {
    const char *text;
    const char *at;
    struct braid_topo_error *error;
};

static int column(const struct scan *s, const char *at)
{
    return (int)(at - s->text) + 1;
}

/* The word at `at`, cut for an error message. */
static const char *found(const char *at, char out[24])
{
    size_t length = strcspn(at, " \t\n");

    if (length == 0)
        return "the end of the word";
    snprintf(out, 24, "\"%.*s%s\"", (int)MIN(length, 16), at, length > 16 ? ".." : "");
    return out;
}

static int fail_at(struct scan *s, const char *at, const char *expected)
{
    char word[24];

    return braid_topo_fail(s->error, -EINVAL, SOURCE, 1, column(s, at), "expected %s, found %s",
                           expected, found(at, word));
}

static bool at_end(const char *at)
{
    return *at == '\0' || *at == ' ' || *at == '\t' || *at == '\n';
}

/* A whole number from low to high. */
static int take_int(struct scan *s, int low, int high, int *out)
{
    const char *p = s->at;
    long value = 0;
    char expected[64];

    snprintf(expected, sizeof(expected), "a whole number from %d to %d", low, high);
    if (*p < '0' || *p > '9')
        return fail_at(s, s->at, expected);
    for (; *p >= '0' && *p <= '9'; p++)
        value = MIN(value * 10 + (*p - '0'), 1000000000);
    if (value < low || value > high)
        return fail_at(s, s->at, expected);
    *out = (int)value;
    s->at = p;
    return 0;
}

/* "25GB/s" (bytes) or "400Gb/s" (bits), also M and T. */
static int take_rate(struct scan *s, double *GBps)
{
    static const char expected[] = "a rate such as 25GB/s (bytes) or 400Gb/s (bits)";
    const char *start = s->at, *p;
    double value;

    if (braid_topo_number(start, &value, &p) != 0)
        return fail_at(s, start, expected);
    if (*p == 'M')
        value /= 1000;
    else if (*p == 'T')
        value *= 1000;
    else if (*p != 'G')
        return fail_at(s, start, expected);
    p++;
    if (*p == 'b')
        value /= 8;
    else if (*p != 'B')
        return fail_at(s, start, expected);
    p++;
    if (strncmp(p, "/s", 2) != 0)
        return fail_at(s, start, expected);
    if (value <= 0 || value > 100000)
        return fail_at(s, start, "a rate above 0 and up to 100 TB/s");
    *GBps = value;
    s->at = p + 2;
    return 0;
}

/* "18x25GB/s", or "none". */
static int take_links(struct scan *s, int high, int *count, double *GBps)
{
    int rc;

    if (strncmp(s->at, "none", 4) == 0 && at_end(s->at + 4)) {
        *count = 0;
        s->at += 4;
        return 0;
    }
    rc = take_int(s, 0, high, count);
    if (rc == 0 && *s->at != 'x')
        return fail_at(s, s->at, "an x and a rate, as in 8x400Gb/s");
    if (rc == 0) {
        s->at++;
        rc = take_rate(s, GBps);
    }
    return rc;
}

static int take_word(struct scan *s, char *out, size_t size, const char *const *allowed,
                     const char *expected)
{
    size_t length = strcspn(s->at, " \t\n");

    if (length == 0 || length >= size)
        return fail_at(s, s->at, expected);
    for (; allowed != NULL; allowed++) {
        if (*allowed == NULL)
            return fail_at(s, s->at, expected);
        if (strlen(*allowed) == length && strncmp(*allowed, s->at, length) == 0)
            break;
    }
    memcpy(out, s->at, length);
    out[length] = '\0';
    s->at += length;
    return 0;
}

static int take_model(struct scan *s, struct machine *m)
{
    const char *start = s->at;
    int rc = take_word(s, m->model, sizeof(m->model), NULL, "a GPU model such as h200");

    if (rc == 0 && braid_topo_spec_model(m->model) == NULL)
        return fail_at(s, start, "a GPU model that Braid knows, such as a100, h200, gb200 or l40s");
    return rc;
}

static int take_pcie(struct scan *s, struct machine *m)
{
    int rc = take_int(s, 1, 6, &m->pcie_gen);

    if (rc == 0 && *s->at != 'x')
        return fail_at(s, s->at, "an x and a width, as in 5x16");
    if (rc == 0) {
        s->at++;
        rc = take_int(s, 1, 16, &m->pcie_width);
    }
    return rc;
}

static int take_value(struct scan *s, struct machine *m, const char *key)
{
    static const char *const yes_no[] = {"yes", "no", NULL};
    static const char *const nets[] = {"ib", "roce", "efa", "eth", NULL};
    static const char *const cpus[] = {"intel", "amd", "arm", NULL};
    char word[8];
    int rc;

    if (strcmp(key, "nodes") == 0)
        return take_int(s, 1, 1000000, &m->nodes);
    if (strcmp(key, "gpus") == 0)
        return take_int(s, 1, 128, &m->gpus);
    if (strcmp(key, "gpu") == 0)
        return take_model(s, m);
    if (strcmp(key, "sm") == 0)
        return take_int(s, 50, 200, &m->sm);
    if (strcmp(key, "nvlink") == 0)
        return take_links(s, 1024, &m->nvlinks, &m->nvlink_GBps);
    if (strcmp(key, "nvdomain") == 0)
        return take_int(s, 1, 100000, &m->domain);
    if (strcmp(key, "nics") == 0)
        return take_links(s, 250, &m->nics, &m->nic_GBps);
    if (strcmp(key, "rails") == 0)
        return take_int(s, 1, 250, &m->rails);
    if (strcmp(key, "numa") == 0)
        return take_int(s, 1, 64, &m->numa);
    if (strcmp(key, "pcie") == 0)
        return take_pcie(s, m);
    if (strcmp(key, "pciswitches") == 0)
        return take_int(s, 0, 128, &m->switches);
    if (strcmp(key, "c2c") == 0)
        return take_rate(s, &m->c2c_GBps);
    if (strcmp(key, "cpulink") == 0)
        return take_rate(s, &m->cpu_GBps);
    if (strcmp(key, "net") == 0)
        return take_word(s, m->net, sizeof(m->net), nets, "ib, roce, efa or eth");
    if (strcmp(key, "cpu") == 0)
        return take_word(s, m->cpu, sizeof(m->cpu), cpus, "intel, amd or arm");
    rc = take_word(s, word, sizeof(word), yes_no, "yes or no"); /* nvswitch */
    m->nvswitch = rc == 0 && word[0] == 'y';
    return rc;
}

static const char *const keys[] = {"nodes",    "gpus", "gpu",         "sm",    "nvlink", "nvswitch",
                                   "nvdomain", "nics", "net",         "rails", "numa",   "cpu",
                                   "cpulink",  "pcie", "pciswitches", "c2c"};

static int take_pair(struct scan *s, struct machine *m, unsigned *seen)
{
    const char *start = s->at;
    size_t length = strcspn(start, ": \t\n");
    int rc;

    for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
        if (strlen(keys[k]) != length || strncmp(keys[k], start, length) != 0)
            continue;
        if (start[length] != ':')
            return fail_at(s, start + length, "a colon and a value after the key");
        if (*seen & (1u << k))
            return braid_topo_fail(s->error, -EINVAL, SOURCE, 1, column(s, start),
                                   "expected each key once, found \"%s\" again", keys[k]);
        *seen |= 1u << k;
        s->at = start + length + 1;
        rc = take_value(s, m, keys[k]);
        if (rc == 0 && !at_end(s->at))
            return fail_at(s, s->at, "a blank before the next key");
        return rc;
    }
    return fail_at(s, start,
                   "one of nodes gpus gpu sm nvlink nvswitch nvdomain nics net rails numa "
                   "cpu cpulink pcie pciswitches c2c");
}

static int check(struct scan *s, struct machine *m, unsigned seen)
{
    if ((seen & 2) == 0)
        return braid_topo_fail(s->error, -EINVAL, SOURCE, 1, column(s, s->at),
                               "expected gpus:N, found none");
    if (m->nvlinks > 0 && m->nvswitch == 0 && m->nvlinks < m->gpus - 1)
        return braid_topo_fail(
            s->error, -EINVAL, SOURCE, 0, 0,
            "expected nvswitch:yes or at least %d NVLinks to reach %d peers directly, "
            "found %d",
            m->gpus - 1, m->gpus - 1, m->nvlinks);
    if (m->domain > 0 && m->domain < m->gpus)
        return braid_topo_fail(s->error, -EINVAL, SOURCE, 0, 0,
                               "expected nvdomain to hold all %d GPUs of a node, found %d", m->gpus,
                               m->domain);
    if (m->rails > m->nics && m->rails != UNSET)
        return braid_topo_fail(s->error, -EINVAL, SOURCE, 0, 0,
                               "expected at most as many rails as NICs (%d), found %d", m->nics,
                               m->rails);
    return 0;
}

/* What was not said; README.md lists these. */
static void set_defaults(struct machine *m)
{
    const struct braid_topo_gpu_spec *spec = braid_topo_spec_model(m->model);

    if (spec != NULL) {
        m->sm = m->sm == UNSET ? spec->sm : m->sm;
        if (m->nvlinks == UNSET && spec->nvlinks > 0 && m->gpus > 1) {
            m->nvlinks = spec->nvlinks;
            m->nvlink_GBps = spec->nvlink_GBps;
        }
    }
    m->sm = MAX(m->sm, 0);
    m->nvlinks = MAX(m->nvlinks, 0);
    m->nics = MAX(m->nics, 0);
    if (m->nvswitch == UNSET)
        m->nvswitch = m->gpus > 2 || m->domain > m->gpus;
    if (m->rails == UNSET)
        m->rails = m->nics;
    if (m->numa == UNSET)
        m->numa = m->gpus >= 4 ? 2 : 1;
    if (m->switches == UNSET && m->nics > 1 && (m->gpus % m->nics == 0 || m->nics % m->gpus == 0))
        m->switches = MIN(m->gpus, m->nics);
    m->switches = MAX(m->switches, 0);
}

static int add_numa(struct braid_topo *topo, const struct machine *m)
{
    static const char *const names[][3] = {{"intel", "GenuineIntel", "x86_64"},
                                           {"amd", "AuthenticAMD", "x86_64"},
                                           {"arm", "ARM", "arm64"}};

    for (int i = 0; i < m->numa; i++) {
        int id = braid_topo_add(topo, BRAID_TOPO_NUMA, "", "");

        if (id < 0)
            return id;
        topo->objects[id].numa_id = i;
        for (size_t c = 0; c < ARRAY_SIZE(names); c++)
            if (strcmp(m->cpu, names[c][0]) == 0) {
                braid_topo_copy(topo->objects[id].cpu_vendor, 16, names[c][1]);
                braid_topo_copy(topo->objects[id].cpu_arch, 16, names[c][2]);
            }
    }
    for (int i = 0; i < m->numa && m->cpu_GBps > 0; i++)
        for (int j = i + 1; j < m->numa; j++) {
            int edge = braid_topo_link(topo, BRAID_TOPO_LINK_CPU, i, j, 1, m->cpu_GBps,
                                       BRAID_TOPO_FROM_SYNTHETIC);

            if (edge < 0)
                return edge;
        }
    return 0;
}

/* Bus ids that no two devices share: the kind is the domain, the position the bus. */
static int add_device(struct braid_topo *topo, const struct machine *m, enum braid_topo_type type,
                      int position, int kind, int parent)
{
    int lanes = m->pcie_gen != UNSET ? m->pcie_width : 0, id, edge;
    char busid[BRAID_TOPO_BUSID_LEN];

    snprintf(busid, sizeof(busid), "%04x:%02x:00.0", kind, 1 + position);
    id = braid_topo_add(topo, type, "", busid);
    if (id < 0)
        return id;
    edge = braid_topo_attach(topo, id, parent, lanes, braid_topo_spec_pcie_lane_GBps(m->pcie_gen),
                             BRAID_TOPO_FROM_SYNTHETIC);
    return edge < 0 ? edge : id;
}

/* Devices of a kind are dealt out over NUMA nodes and switches in blocks. */
static int parent_of(const struct machine *m, const int *switches, int index, int count)
{
    if (m->switches > 0)
        return switches[(int)((long)index * m->switches / count)];
    return (int)((long)index * m->numa / count);
}

static int add_nvlinks(struct braid_topo *topo, const struct machine *m, const int *gpus)
{
    int nvswitch = -1, edge = 0;

    if (m->nvlinks == 0)
        return 0;
    if (m->nvswitch) {
        nvswitch = braid_topo_add(topo, BRAID_TOPO_NVSWITCH, "nvswitch", "");
        if (nvswitch < 0)
            return nvswitch;
    }
    for (int g = 0; g < m->gpus && edge >= 0; g++) {
        if (m->nvswitch)
            edge = braid_topo_link(topo, BRAID_TOPO_LINK_NVLINK, gpus[g], nvswitch, m->nvlinks,
                                   m->nvlink_GBps, BRAID_TOPO_FROM_SYNTHETIC);
        for (int p = g + 1; p < m->gpus && !m->nvswitch && edge >= 0; p++)
            edge = braid_topo_link(topo, BRAID_TOPO_LINK_NVLINK, gpus[g], gpus[p],
                                   m->nvlinks / (m->gpus - 1), m->nvlink_GBps,
                                   BRAID_TOPO_FROM_SYNTHETIC);
    }
    return MIN(edge, 0);
}

static int build(struct braid_topo *topo, const struct machine *m)
{
    int switches[128], gpus[128], rc = add_numa(topo, m);

    for (int i = 0; i < m->switches && rc == 0; i++) {
        switches[i] =
            add_device(topo, m, BRAID_TOPO_BRIDGE, i, 0, (int)((long)i * m->numa / m->switches));
        rc = MIN(switches[i], 0);
        if (rc == 0)
            topo->objects[switches[i]].pci_class = 0x060400;
    }
    for (int i = 0; i < m->gpus && rc == 0; i++) {
        const struct braid_topo_gpu_spec *spec = braid_topo_spec_model(m->model);
        struct braid_topo_object *gpu;

        gpus[i] = add_device(topo, m, BRAID_TOPO_GPU, i, 1, parent_of(m, switches, i, m->gpus));
        rc = MIN(gpus[i], 0);
        if (rc != 0)
            break;
        gpu = &topo->objects[gpus[i]];
        gpu->cuda_dev = i;
        gpu->sm = m->sm;
        gpu->gdr = m->nics > 0;
        gpu->pci_vendor = 0x10de;
        gpu->pci_class = 0x030200;
        gpu->pci_device = spec != NULL ? spec->pci_device : 0;
        gpu->in_fabric = m->domain > m->gpus;
        braid_topo_copy(gpu->model, sizeof(gpu->model), m->model);
        if (m->c2c_GBps > 0)
            rc = MIN(braid_topo_link(topo, BRAID_TOPO_LINK_C2C, gpus[i],
                                     (int)((long)i * m->numa / m->gpus), 1, m->c2c_GBps,
                                     BRAID_TOPO_FROM_SYNTHETIC),
                     0);
    }
    for (int i = 0; i < m->nics && rc == 0; i++) {
        int id = add_device(topo, m, BRAID_TOPO_NIC, i, 2, parent_of(m, switches, i, m->nics));
        struct braid_topo_object *nic;

        rc = MIN(id, 0);
        if (rc != 0)
            break;
        nic = &topo->objects[id];
        nic->rate_Gbps = m->nic_GBps * 8;
        nic->rate_from = BRAID_TOPO_FROM_SYNTHETIC;
        nic->rail = i % m->rails;
        nic->port = 1;
        nic->pci_class = strcmp(m->net, "ib") == 0 ? 0x020700 : 0x020000;
        braid_topo_copy(nic->net_kind, sizeof(nic->net_kind), m->net);
    }
    return rc == 0 ? add_nvlinks(topo, m, gpus) : rc;
}

int braid_topo_load_synthetic(const char *text, struct braid_topo **out,
                              struct braid_topo_error *error)
{
    struct machine m = {.nodes = 1,
                        .sm = UNSET,
                        .nvlinks = UNSET,
                        .nics = UNSET,
                        .rails = UNSET,
                        .numa = UNSET,
                        .switches = UNSET,
                        .pcie_gen = UNSET,
                        .nvswitch = UNSET};
    struct scan s = {.text = text, .at = text, .error = error};
    unsigned seen = 0;
    struct braid_topo *topo;
    int rc = 0;

    for (s.at += strspn(s.at, " \t\n"); *s.at != '\0' && rc == 0; s.at += strspn(s.at, " \t\n"))
        rc = take_pair(&s, &m, &seen);
    if (rc == 0)
        rc = check(&s, &m, seen);
    if (rc != 0)
        return rc;
    set_defaults(&m);
    topo = braid_topo_new("synthetic");
    if (topo == NULL)
        return braid_topo_fail(error, -ENOMEM, SOURCE, 0, 0, "out of memory");
    topo->nodes = m.nodes;
    topo->nvlink_domain = m.domain;
    topo->nvlink_known = true;
    rc = build(topo, &m);
    if (rc != 0)
        braid_topo_fail(error, rc, SOURCE, 0, 0, "%s", strerror(-rc));
    else
        rc = braid_topo_finish(topo, error);
    if (rc != 0) {
        braid_topo_destroy(topo);
        return rc;
    }
    *out = topo;
    return 0;
}
