/*
 * braid-info topo: a machine as a tree or as JSON, from this machine, a file or a one-line description; and the same machine as
 * NCCL's topology file or as a capture. Prints one line to stderr for an input that cannot be read.
 */
#include "common/clock.h"
#include "common/param.h"
#include "common/topo/topo.h"
#include "common/util.h"
#include "tools/braid-info/info.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *any, *synthetic, *hwloc_xml, *nccl_xml, *replay;
    const char *write_nccl_xml, *capture;
    struct braid_topo_live live;
    bool json, resources, time;
};

static const char usage[] =
    "Usage: braid-info topo [SOURCE] [OPTIONS]\n\n"
    "Shows the machine as Braid models it. SOURCE is one of\n"
    "  live                 this machine (the default, unless BRAID_TOPO or NCCL_TOPO_FILE name "
    "one)\n"
    "  FILE or LINE         one of the forms below, told by what is in it\n"
    "  --synthetic TEXT     one line, such as \"nodes:16 gpus:8 nvlink:18x25GB/s nics:8x400Gb/s\"\n"
    "  --nccl-xml FILE      a file as in NCCL_TOPO_FILE\n"
    "  --hwloc-xml FILE     an export of hwloc, lstopo --of xml\n"
    "  --replay FILE        a capture of another machine\n"
    "Options:\n"
    "  --json               everything as JSON instead of a tree\n"
    "  --resources          also list what traffic contends for\n"
    "  --write-nccl-xml FILE  write a file for NCCL_TOPO_FILE (- for standard output, no tree "
    "then)\n"
    "  --capture FILE       write what this machine's sysfs and NVML say, to be replayed "
    "elsewhere\n"
    "  --sysfs DIR          live: read DIR instead of /sys\n"
    "  --nvml FILE          live: open FILE instead of libnvidia-ml.so.1\n"
    "  --no-nvml, --hwloc   live: leave NVML out, ask hwloc too\n"
    "  --time               load 21 times and print how long it took instead of the machine\n";

static int fail(const char *what, const char *cause)
{
    fprintf(stderr, "braid-info topo: %s: %s\n", what, cause);
    return INFO_FAILED;
}

/* Takes the value of an option that needs one; false: there is none. */
static bool take(const char **out, int argc, char **argv, int *i)
{
    if (*i + 1 >= argc)
        return false;
    *out = argv[++*i];
    return true;
}

static int parse(int argc, char **argv, struct options *o)
{
    const struct {
        const char *name;
        const char **value;
    } valued[] = {
        {"--synthetic", &o->synthetic},   {"--nccl-xml", &o->nccl_xml},
        {"--hwloc-xml", &o->hwloc_xml},   {"--replay", &o->replay},
        {"--capture", &o->capture},       {"--write-nccl-xml", &o->write_nccl_xml},
        {"--sysfs", &o->live.sysfs_root}, {"--nvml", &o->live.nvml_path},
    };

    bool live = false;

    o->live.use = BRAID_TOPO_USE_SYSFS | BRAID_TOPO_USE_NVML;
    for (int i = 1; i < argc; i++) {
        size_t v = 0, count = ARRAY_SIZE(valued);

        while (v < count && strcmp(argv[i], valued[v].name) != 0)
            v++;
        if (v < count) {
            if (!take(valued[v].value, argc, argv, &i)) {
                fprintf(stderr, "braid-info topo: %s needs a value\n", valued[v].name);
                return INFO_USAGE;
            }
        } else if (strcmp(argv[i], "--json") == 0) {
            o->json = true;
        } else if (strcmp(argv[i], "--resources") == 0) {
            o->resources = true;
        } else if (strcmp(argv[i], "--time") == 0) {
            o->time = true;
        } else if (strcmp(argv[i], "--no-nvml") == 0) {
            o->live.use &= ~(unsigned)BRAID_TOPO_USE_NVML;
        } else if (strcmp(argv[i], "--hwloc") == 0) {
            o->live.use |= BRAID_TOPO_USE_HWLOC;
        } else if (strcmp(argv[i], "live") == 0) {
            live = true;
        } else if (argv[i][0] != '-' && o->any == NULL) {
            o->any = argv[i];
        } else {
            fprintf(stderr, "braid-info topo: unknown option \"%s\" (--help lists them)\n",
                    argv[i]);
            return INFO_USAGE;
        }
    }
    if (!!o->any + !!o->synthetic + !!o->nccl_xml + !!o->hwloc_xml + !!o->replay > 1) {
        fprintf(stderr, "braid-info topo: give one source, not several\n");
        return INFO_USAGE;
    }
    if (!live && !o->any && !o->synthetic && !o->nccl_xml && !o->hwloc_xml && !o->replay &&
        !o->live.sysfs_root && !o->live.nvml_path && *braid_param_str(BRAID_P_TOPO) != '\0')
        o->any = braid_param_str(BRAID_P_TOPO);
    return INFO_OK;
}

static int load(const struct options *o, struct braid_topo **topo)
{
    struct braid_topo_error error;
    char text[400], notes[1024] = "";
    int rc;

    if (o->any != NULL)
        rc = braid_topo_load(o->any, topo, &error);
    else if (o->synthetic != NULL)
        rc = braid_topo_load_synthetic(o->synthetic, topo, &error);
    else if (o->nccl_xml != NULL)
        rc = braid_topo_load_nccl_xml(o->nccl_xml, topo, &error);
    else if (o->hwloc_xml != NULL)
        rc = braid_topo_load_hwloc_xml(o->hwloc_xml, topo, &error);
    else if (o->replay != NULL)
        rc = braid_topo_load_capture(o->replay, topo, &error);
    else
        rc = braid_topo_load_live(&o->live, topo, notes, sizeof(notes), &error);
    if (notes[0] != '\0' && !o->time)
        fputs(notes, stderr);
    if (rc != 0)
        fprintf(stderr, "braid-info topo: %s\n",
                braid_topo_error_format(&error, text, sizeof(text)));
    return rc;
}

static void print_resources(const struct braid_topo *topo)
{
    static struct braid_topo_resource all[20000];
    int count = braid_topo_resources(topo, all, 20000);

    printf("resources (one way):\n");
    for (int i = 0; i < count && i < 20000; i++)
        printf("  %-32s %-12s %8.1f GB/s  used by %d GPU%s\n", all[i].name,
               braid_topo_resource_name(all[i].kind), all[i].each_way_GBps, all[i].gpus,
               all[i].gpus == 1 ? "" : "s");
}

/* Opens a file to write, "-" being standard output. */
static FILE *open_out(const char *path)
{
    return strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
}

static int close_out(FILE *file, const char *path, int rc)
{
    if (file != stdout && fclose(file) != 0 && rc == 0)
        rc = -errno;
    return rc == 0 ? INFO_OK : fail(path, strerror(-rc));
}

static int capture(const struct options *o)
{
    struct braid_topo_error error;
    FILE *file = open_out(o->capture);
    char text[400];
    int rc;

    if (file == NULL)
        return fail(o->capture, strerror(errno));
    rc = braid_topo_capture(&o->live, file, &error);
    if (rc != 0)
        fprintf(stderr, "braid-info topo: %s\n",
                braid_topo_error_format(&error, text, sizeof(text)));
    return close_out(file, o->capture, rc);
}

static int show(const struct options *o, const struct braid_topo *topo)
{
    int rc = INFO_OK;

    if (o->write_nccl_xml != NULL) {
        FILE *file = open_out(o->write_nccl_xml);

        if (file == NULL)
            return fail(o->write_nccl_xml, strerror(errno));
        rc = close_out(file, o->write_nccl_xml, braid_topo_write_nccl_xml(topo, file));
        if (file == stdout)
            return rc;
    }
    if (o->json)
        return braid_topo_print_json(topo, stdout) == 0 ? rc : INFO_FAILED;
    braid_topo_print_tree(topo, stdout);
    if (o->resources)
        print_resources(topo);
    return rc;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* What a plugin pays at init: loading and summarising, the first time and the median of later ones. */
static int time_load(const struct options *o)
{
    uint64_t ns[21], first;

    for (size_t i = 0; i < ARRAY_SIZE(ns); i++) {
        uint64_t start = braid_now_ns();
        struct braid_topo_summary summary;
        struct braid_topo *topo;

        if (load(o, &topo) != 0)
            return INFO_FAILED;
        braid_topo_summarise(topo, &summary);
        ns[i] = braid_now_ns() - start;
        braid_topo_destroy(topo);
    }
    first = ns[0];
    qsort(ns, ARRAY_SIZE(ns), sizeof(ns[0]), by_value);
    printf("load and summary: first %.3f ms, median %.3f ms, fastest %.3f ms\n",
           (double)first / 1e6, (double)ns[ARRAY_SIZE(ns) / 2] / 1e6, (double)ns[0] / 1e6);
    return INFO_OK;
}

static int run_topo(int argc, char **argv)
{
    struct options options = {0};
    struct braid_topo *topo;
    int rc = parse(argc, argv, &options);

    if (rc != INFO_OK)
        return rc;
    if (options.capture != NULL && (rc = capture(&options)) != INFO_OK)
        return rc;
    if (options.capture != NULL && strcmp(options.capture, "-") == 0)
        return INFO_OK;
    if (options.time)
        return time_load(&options);
    if (load(&options, &topo) != 0)
        return INFO_FAILED;
    rc = show(&options, topo);
    braid_topo_destroy(topo);
    return rc;
}

const struct braid_info_command braid_info_topo = {
    .name = "topo",
    .brief = "the machine: GPUs, NVLink, PCIe, NUMA nodes, NICs, rails, as a tree or JSON",
    .usage = usage,
    .run = run_topo,
};
