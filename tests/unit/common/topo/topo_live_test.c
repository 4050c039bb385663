/*
 * Tests of common/topo/topo_live.c, topo_sysfs.c and topo_nvml.c: a machine made of a folder in place of /sys and a fake NVML
 * (tests/topo/fakenvml.c), whole and with every kind of thing missing.
 */
#include "tests/unit/common/topo/topo_testing.h"

#include "common/topo/topo_live.h"
#include "tests/topo/fakenvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fake_nvml *nvml;
static char root[64];

static void make_folders(char *path)
{
    for (char *p = strchr(path + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
}

static void put_link(const char *path, const char *target)
{
    const char *device = strstr(target, "devices/");
    char folder[1024];

    if (device != NULL) {
        snprintf(folder, sizeof(folder), "%s/%s/", root, device);
        make_folders(folder);
    }
    if (symlink(target, path) != 0)
        fail_msg("%s: %s", path, strerror(errno));
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    if (file == NULL)
        fail_msg("%s: %s", path, strerror(errno));
    for (const char *p = text != NULL ? text : ""; *p != '\0'; p++) {
        if (*p == '\\' && p[1] == 'n') {
            fputc('\n', file);
            p++;
        } else {
            fputc(*p, file);
        }
    }
    fputc('\n', file);
    fclose(file);
}

/* Lays a capture's lines of one kind out below root. */
static void lay_out_kind(const char *capture, const char *wanted)
{
    char *text, *rest, *line, path[1024];
    size_t bytes;

    assert_int_equal(braid_topo_slurp(capture, &text, &bytes, NULL), 0);
    for (rest = text; (line = strsep(&rest, "\n")) != NULL;) {
        char *kind = strsep(&line, " "), *name = line != NULL ? strsep(&line, " ") : NULL;

        if (name == NULL || strcmp(kind, wanted) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", root, name);
        make_folders(path);
        if (kind[0] == 'l')
            put_link(path, line);
        else
            put_file(path, line);
    }
    free(text);
}

/* As in sysfs, files below a class or bus folder are reached through its links, so these come first. */
static void lay_out(const char *capture)
{
    lay_out_kind(capture, "link");
    lay_out_kind(capture, "file");
}

static int setup(void **state)
{
    void *library = dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        fail_msg("%s", dlerror());
    nvml = dlsym(library, "fake_nvml");
    assert_non_null(nvml);
    memset(nvml, 0, sizeof(*nvml));
    strcpy(root, "/tmp/braid_topo_live_XXXXXX");
    assert_non_null(mkdtemp(root));
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    assert_int_equal(nvml->opened, 0);
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

static struct braid_topo *load(const char *library, char notes[1024])
{
    struct braid_topo_live live = {.sysfs_root = root, .nvml_path = library};
    struct braid_topo_error error;
    struct braid_topo *topo = NULL;
    char text[400];

    if (braid_topo_load_live(&live, &topo, notes, 1024, &error) != 0)
        fail_msg("%s", braid_topo_error_format(&error, text, sizeof(text)));
    return topo;
}

/* `count` GPUs with `links` NVLinks each. */
static void set_gpus(unsigned int count, const char *const *busids, int links)
{
    nvml->gpus = count;
    for (unsigned int i = 0; i < count; i++)
        nvml->gpu[i] = (struct fake_nvml_gpu){.busid = busids[i],
                                              .name = "NVIDIA H200",
                                              .device = 0x2335,
                                              .sm = 90,
                                              .pcie_gen = 5,
                                              .pcie_width = 16,
                                              .links = links,
                                              .link_MBps = 26562,
                                              .link_version = 6,
                                              .remote_type = 2};
}

static const char *const four[] = {"00000000:1B:00.0", "00000000:43:00.0", "00000000:52:00.0",
                                   "00000000:61:00.0"};

static void nvswitches_by_bus_id(void **state)
{
    static const char *const switches[] = {"00000000:05:00.0", "00000000:06:00.0",
                                           "00000000:07:00.0", "00000000:08:00.0"};
    struct braid_topo *t;
    char notes[1024];

    set_gpus(4, four, 18);
    for (int g = 0; g < 4; g++) {
        nvml->gpu[g].remotes = 4;
        memcpy(nvml->gpu[g].remote, switches, sizeof(switches));
    }
    t = load(FAKE_NVML, notes);
    assert_near(braid_topo_gpu_cut_GBps(t, 3), 450);
    assert_int_equal(braid_topo_object(t, braid_topo_id(t, BRAID_TOPO_NVSWITCH, 0))->chips, 4);
    assert_int_equal(braid_topo_object(t, gpu_id(t, 2))->cuda_dev, 2);
    assert_string_equal(braid_topo_object(t, gpu_id(t, 0))->model, "h200");
    /* An old driver does not tell what kind of device is at the far end. */
    braid_topo_destroy(t);
    nvml = dlsym(dlopen(FAKE_NVML_OLD, RTLD_NOW | RTLD_LOCAL), "fake_nvml");
    set_gpus(2, four, 12);
    nvml->gpu[0].remotes = nvml->gpu[1].remotes = 1;
    nvml->gpu[0].remote[0] = nvml->gpu[1].remote[0] = switches[0];
    t = load(FAKE_NVML_OLD, notes);
    assert_near(braid_topo_gpu_cut_GBps(t, 0), 300);
    assert_string_equal(notes, "sysfs shows no PCI devices (No such file or directory)\n");
    braid_topo_destroy(t);
}

static void nvswitches_that_are_hidden(void **state)
{
    struct braid_topo_summary s;
    struct braid_topo *t;
    char notes[1024];

    set_gpus(2, four, 18);
    t = load(FAKE_NVML, notes);
    braid_topo_summarise(t, &s);
    assert_string_equal(s.key, "h200x2-nvl18x25s-pcie5x16");
    assert_int_equal(braid_topo_edge(t, braid_topo_object(t, gpu_id(t, 0))->uplink)->bandwidth_from,
                     BRAID_TOPO_FROM_NVML);
    braid_topo_destroy(t);
}

static void direct_links_between_gpus(void **state)
{
    struct braid_topo *t;
    char notes[1024];

    set_gpus(2, four, 4);
    for (int g = 0; g < 2; g++) {
        nvml->gpu[g].device = 0x2230;
        nvml->gpu[g].sm = 86;
        nvml->gpu[g].link_MBps = 14062;
        nvml->gpu[g].remote_type = 0;
        nvml->gpu[g].remotes = 1;
        nvml->gpu[g].remote[0] = four[1 - g];
    }
    t = load(FAKE_NVML, notes);
    assert_near(braid_topo_gpu_cut_GBps(t, 0), 56.25);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_NVSWITCH), 0);
    braid_topo_destroy(t);
    /* A peer that this system may not use does not count. */
    nvml->gpus = 1;
    t = load(FAKE_NVML, notes);
    assert_int_equal(braid_topo_nvlink_domain(t), 1);
    braid_topo_destroy(t);
}

static void c2c_and_the_domain_of_a_rack(void **state)
{
    static const char *const trays[] = {"00000008:01:00.0", "00000009:01:00.0"};
    const struct braid_topo_object *gpu;
    struct braid_topo *t;
    char notes[1024];

    set_gpus(2, trays, 18);
    for (int g = 0; g < 2; g++) {
        nvml->gpu[g].device = 0x2941;
        nvml->gpu[g].sm = 100;
        nvml->gpu[g].link_MBps = 53125;
        nvml->gpu[g].c2c_links = 10;
        nvml->gpu[g].c2c_MBps = 44712;
        nvml->gpu[g].fabric_state = 3;
        nvml->gpu[g].cluster[0] = 0xab;
        nvml->gpu[g].clique = 7;
    }
    t = load(FAKE_NVML, notes);
    gpu = braid_topo_object(t, gpu_id(t, 0));
    assert_string_equal(gpu->fabric, "ab000000000000000000000000000000.7");
    assert_true(gpu->in_fabric);
    assert_near(braid_topo_gpu_cut_GBps(t, 0), 900);
    assert_int_equal(braid_topo_path(t, gpu_id(t, 0), braid_topo_id(t, BRAID_TOPO_NUMA, 0)),
                     BRAID_TOPO_PATH_C2C);
    braid_topo_destroy(t);
    /* A domain that is not formed yet, or has no name. */
    nvml->gpu[0].fabric_state = 2;
    nvml->gpu[1].cluster[0] = 0;
    t = load(FAKE_NVML, notes);
    assert_false(braid_topo_object(t, gpu_id(t, 0))->in_fabric);
    assert_false(braid_topo_object(t, gpu_id(t, 1))->in_fabric);
    braid_topo_destroy(t);
}

static void a_folder_shows_what_its_capture_shows(void **state)
{
    static const char file[] = FIXTURES "/l40s-pcie.capture";
    struct braid_topo *replay = NULL, *live, *again = NULL;
    struct braid_topo_live how = {.sysfs_root = root, .nvml_path = FAKE_NVML};
    char notes[1024], busids[8][32], *text = NULL;
    size_t bytes;
    FILE *out;

    assert_int_equal(braid_topo_load_capture(file, &replay, NULL), 0);
    lay_out(file);
    nvml->gpus = 8;
    for (int g = 0; g < 8; g++) {
        snprintf(busids[g], sizeof(busids[g]), "0000%s",
                 braid_topo_object(replay, gpu_id(replay, g))->busid);
        nvml->gpu[g] = (struct fake_nvml_gpu){
            .busid = busids[g], .name = "NVIDIA L40S", .device = 0x26b9, .sm = 89};
    }
    live = load(FAKE_NVML, notes);
    assert_string_equal(notes, "");
    assert_same_tree(live, replay);
    /* And a capture of the folder replays as the same machine. */
    out = open_memstream(&text, &bytes);
    assert_int_equal(braid_topo_capture(&how, out, NULL), 0);
    fclose(out);
    assert_int_equal(braid_topo_parse_capture(text, bytes, "again", &again, NULL), 0);
    assert_same_tree(again, replay);
    free(text);
    braid_topo_destroy(live);
    braid_topo_destroy(again);
    /* A container that is given two of the GPUs. */
    nvml->gpus = 2;
    live = load(FAKE_NVML, notes);
    assert_int_equal(braid_topo_count(live, BRAID_TOPO_GPU), 2);
    assert_non_null(strstr(notes, "is on the PCI bus but not shown by NVML"));
    braid_topo_destroy(live);
    braid_topo_destroy(replay);
}

static void without_nvml(void **state)
{
    struct braid_topo_summary s;
    struct braid_topo *t;
    char notes[1024];

    lay_out(FIXTURES "/h200-vm-emulated-switches.capture");
    t = load("/nonexistent/libnvidia-ml.so.1", notes);
    assert_non_null(strstr(notes, "no NVML"));
    braid_topo_summarise(t, &s);
    assert_string_equal(s.key, "h200x8-nvl18x25s-ib8x400-pcie5x16");
    braid_topo_destroy(t);
    nvml->init_rc = 9;
    t = load(FAKE_NVML, notes);
    assert_non_null(strstr(notes, "NVML does not work here (Unknown Error)"));
    braid_topo_destroy(t);
    nvml->init_rc = 0;
    nvml->count_rc = 999;
    t = load(FAKE_NVML, notes);
    assert_non_null(strstr(notes, "NVML does not work here"));
    braid_topo_destroy(t);
}

static void a_lost_gpu_is_named(void **state)
{
    struct braid_topo *t;
    char notes[1024];

    set_gpus(4, four, 18);
    nvml->gpu[2].lost = 1;
    t = load(FAKE_NVML, notes);
    assert_non_null(strstr(notes, "NVML cannot tell about GPU 2 (GPU is lost)"));
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_GPU), 3);
    braid_topo_destroy(t);
}

static void any_call_may_fail(void **state)
{
    char notes[1024];
    int calls;

    set_gpus(2, four, 18);
    nvml->gpu[1].fabric_state = 3;
    nvml->gpu[1].c2c_links = 1;
    braid_topo_destroy(load(FAKE_NVML, notes));
    calls = nvml->calls;
    assert_true(calls > 100);
    for (int n = 1; n <= calls; n++)
        for (int rest = 0; rest < 2; rest++) {
            nvml->calls = 0;
            nvml->fail_call = n;
            nvml->fail_rest = rest;
            braid_topo_destroy(load(FAKE_NVML, notes));
            assert_int_equal(nvml->opened, 0);
        }
}

static void nothing_at_all(void **state)
{
    struct braid_topo *t;
    char notes[1024];

    t = load("/nonexistent", notes);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_GPU), 0);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_NUMA), 1);
    assert_non_null(strstr(notes, "no GPU and no network adapter was found"));
    braid_topo_destroy(t);
}

static void hwloc_fills_in_or_is_noted(void **state)
{
    struct braid_topo_live live = {
        .use = BRAID_TOPO_USE_ALL, .sysfs_root = root, .nvml_path = FAKE_NVML};
    struct braid_topo *t = NULL;
    char notes[1024];

    assert_int_equal(braid_topo_load_live(&live, &t, notes, sizeof(notes), NULL), 0);
    braid_topo_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nvswitches_by_bus_id, setup, teardown),
        cmocka_unit_test_setup_teardown(nvswitches_that_are_hidden, setup, teardown),
        cmocka_unit_test_setup_teardown(direct_links_between_gpus, setup, teardown),
        cmocka_unit_test_setup_teardown(c2c_and_the_domain_of_a_rack, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_shows_what_its_capture_shows, setup, teardown),
        cmocka_unit_test_setup_teardown(without_nvml, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_gpu_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(any_call_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_at_all, setup, teardown),
        cmocka_unit_test_setup_teardown(hwloc_fills_in_or_is_noted, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
