/* Tests of common/topo/topo_nccl.c, topo_nccl_write.c and topo_xml.c. Skipped where libexpat.so.1 is absent. */
#include "tests/unit/common/topo/topo_testing.h"

#include <errno.h>

#define PCI(busid, class, more)                                                                    \
    "<pci busid=\"" busid                                                                          \
    "\" class=\"" class "\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\" " more ">"

static const char small[] =
    "<system version=\"1\">\n"
    " <cpu numaid=\"1\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\" "
    "affinity=\"ff,00\">\n"
    "  " PCI(
        "0000:19:00.0", "0x060400",
        "") "\n"
            "   " PCI(
                "0000:1b:00.0", "0x030200",
                "vendor=\"0x10de\" device=\"0x2335\"") "\n"
                                                       "    <gpu dev=\"0\" sm=\"90\" "
                                                       "rank=\"0\" gdr=\"1\">\n"
                                                       "     <nvlink target=\"0000:05:00.0\" "
                                                       "count=\"9\" tclass=\"0x068000\"/>\n"
                                                       "     <nvlink target=\"0000:06:00.0\" "
                                                       "count=\"9\" tclass=\"0x068000\"/>\n"
                                                       "    </gpu></pci>\n"
                                                       "   " PCI(
                                                           "0000:1a:00.0", "0x020700",
                                                           "vendor=\"0x15b3\" "
                                                           "device=\"0x1021\"") "\n"
                                                                                "    <nic><net "
                                                                                "name=\"mlx5_"
                                                                                "0\" dev=\"0\" "
                                                                                "latency=\"0."
                                                                                "500000\" "
                                                                                "speed="
                                                                                "\"400000\" "
                                                                                "port=\"1\" "
                                                                                "guid="
                                                                                "\"0x1234\" "
                                                                                "maxconn="
                                                                                "\"131072\" "
                                                                                "gdr=\"1\" "
                                                                                "railId=\"2\"/"
                                                                                "></nic></"
                                                                                "pci>\n"
                                                                                "  </pci>\n"
                                                                                " </cpu>\n"
                                                                                " <cpu "
                                                                                "numaid=\"0\" "
                                                                                "arch=\"x86_"
                                                                                "64\" "
                                                                                "vendor="
                                                                                "\"GenuineIntel"
                                                                                "\">\n"
                                                                                "  " PCI(
                                                                                    "0000:2b:"
                                                                                    "00.0",
                                                                                    "0x030200",
                                                                                    "vendor="
                                                                                    "\"0x10de\""
                                                                                    " device="
                                                                                    "\"0x2335"
                                                                                    "\"") "<gpu"
                                                                                          " dev"
                                                                                          "=\"1"
                                                                                          "\" "
                                                                                          "sm="
                                                                                          "\"90"
                                                                                          "\" "
                                                                                          "rank"
                                                                                          "=\"1"
                                                                                          "\" "
                                                                                          "gdr="
                                                                                          "\"1"
                                                                                          "\">"
                                                                                          "<nvl"
                                                                                          "ink "
                                                                                          "targ"
                                                                                          "et="
                                                                                          "\"00"
                                                                                          "00:"
                                                                                          "05:"
                                                                                          "00."
                                                                                          "0\" "
                                                                                          "coun"
                                                                                          "t="
                                                                                          "\"18"
                                                                                          "\" "
                                                                                          "tcla"
                                                                                          "ss="
                                                                                          "\"0x"
                                                                                          "0680"
                                                                                          "00\""
                                                                                          "/><"
                                                                                          "late"
                                                                                          "r/"
                                                                                          "></"
                                                                                          "gpu>"
                                                                                          "</"
                                                                                          "pci>"
                                                                                          "\n"
                                                                                          " </"
                                                                                          "cpu>"
                                                                                          "\n"
                                                                                          "</"
                                                                                          "syst"
                                                                                          "em>"
                                                                                          "\n";

static struct braid_topo *parse(const char *text)
{
    struct braid_topo_error error;
    struct braid_topo *topo = NULL;
    char line[400];

    if (braid_topo_parse_nccl_xml(text, strlen(text), "test.xml", &topo, &error) != 0)
        fail_msg("%s", braid_topo_error_format(&error, line, sizeof(line)));
    return topo;
}

static void a_dump_is_understood(void **state)
{
    struct braid_topo *t = parse(small);
    const struct braid_topo_object *nic, *gpu;
    struct braid_topo_summary s;

    braid_topo_summarise(t, &s);
    assert_string_equal(s.key, "h200x2-nvl18x25s-ib1x400-rails3-pcie5x16");
    nic = braid_topo_object(t, braid_topo_find(t, "mlx5_0"));
    assert_int_equal(nic->rail, 2);
    assert_int_equal(nic->max_connections, 131072);
    assert_int_equal((long)nic->guid, 0x1234);
    assert_near(nic->latency_us, 0.5);
    gpu = braid_topo_object(t, braid_topo_find(t, "0000:1b:00.0"));
    assert_int_equal(gpu->index, 0);
    assert_true(gpu->gdr);
    assert_int_equal(braid_topo_object(t, 0)->numa_id, 0);
    assert_int_equal(braid_topo_object(t, 1)->cpu_model, 143);
    assert_int_equal(braid_topo_path(t, gpu_id(t, 0), nic_id(t, 0)), BRAID_TOPO_PATH_PIX);
    assert_int_equal(braid_topo_path(t, gpu_id(t, 1), nic_id(t, 0)), BRAID_TOPO_PATH_SYS);
    braid_topo_destroy(t);
}

static char *written(const struct braid_topo *topo)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);

    assert_int_equal(braid_topo_write_nccl_xml(topo, file), 0);
    fclose(file);
    return text;
}

/* Reading what was written gives the same machine, and writing that the same text. */
static void writing_loses_nothing(void **state)
{
    static const char *const machines[] = {
        "gpus:8 gpu:h200 nics:8x400Gb/s net:ib pcie:5x16",
        "gpus:8 gpu:l40s nics:2x100Gb/s net:ib pcie:4x16",
        "gpus:4 gpu:a100 nvswitch:no nics:4x200Gb/s net:ib pcie:4x16",
        "gpus:4 gpu:gb200 c2c:450GB/s nics:4x400Gb/s net:ib pcie:5x16",
    };

    for (size_t i = 0; i <= ARRAY_SIZE(machines); i++) {
        struct braid_topo *t = i < ARRAY_SIZE(machines) ? machine(machines[i]) : parse(small);
        char *first = written(t), *second;
        struct braid_topo *again = parse(first);
        struct braid_topo_summary a, b;

        braid_topo_summarise(t, &a);
        braid_topo_summarise(again, &b);
        if (i < ARRAY_SIZE(machines))
            assert_string_equal(a.key, b.key);
        assert_near(a.gpu_cut_GBps, b.gpu_cut_GBps);
        assert_near(a.node_cut_GBps, b.node_cut_GBps);
        second = written(again);
        assert_string_equal(first, second);
        free(first);
        free(second);
        braid_topo_destroy(t);
        braid_topo_destroy(again);
    }
}

static void a_bare_pci_tree_is_completed_by_part_number(void **state)
{
    struct braid_topo *t =
        parse("<system version=\"1\"><cpu numaid=\"0\">"
              "<pci busid=\"01:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b2\"/>"
              "<pci busid=\"02:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b2\"/>"
              "<pci busid=\"03:00.0\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x101b\"/>"
              "</cpu></system>");
    struct braid_topo_summary s;

    braid_topo_summarise(t, &s);
    assert_string_equal(s.key, "a100x2-nvl12x25s-ib1x200");
    assert_int_equal(braid_topo_edge(t, braid_topo_edges(t) - 1)->type, BRAID_TOPO_LINK_NET);
    braid_topo_destroy(t);
}

static void two_ports_of_a_function_share_its_link(void **state)
{
    struct braid_topo *t = parse("<system version=\"1\"><cpu numaid=\"0\">" PCI(
        "0000:01:00.0", "0x030200",
        "") "<gpu dev=\"0\" sm=\"70\"/></pci>" PCI("0000:02:00.0", "0x020700",
                                                   "") "<nic><net name=\"a\" speed=\"400000\" "
                                                       "port=\"1\"/>"
                                                       "<net name=\"b\" speed=\"400000\" "
                                                       "port=\"2\"/></nic></pci></cpu></system>");

    assert_int_equal(braid_topo_count(t, BRAID_TOPO_NIC), 2);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_BRIDGE), 1);
    assert_near(braid_topo_node_cut_GBps(t), 63.02);
    assert_int_equal(braid_topo_path(t, gpu_id(t, 0), nic_id(t, 0)), BRAID_TOPO_PATH_PHB);
    braid_topo_destroy(t);
}

static void direct_links_are_counted_once(void **state)
{
    struct braid_topo *t = parse("<system version=\"1\"><cpu numaid=\"0\">" PCI(
        "0000:01:00.0", "0x030200",
        "") "<gpu dev=\"0\" sm=\"86\"><nvlink target=\"0000:02:00.0\" count=\"4\" "
            "tclass=\"0x030200\"/></gpu></pci>" PCI("0000:02:00.0", "0x030200",
                                                    "") "<gpu dev=\"1\" sm=\"86\"><nvlink "
                                                        "target=\"0000:01:00.0\" count=\"4\" "
                                                        "tclass=\"0x030200\"/>"
                                                        "<nvlink target=\"0000:09:00.0\" "
                                                        "count=\"4\" "
                                                        "tclass=\"0x030200\"/></gpu></pci></cpu></"
                                                        "system>");

    assert_near(braid_topo_gpu_cut_GBps(t, 0), 56.25);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_NVSWITCH), 0);
    braid_topo_destroy(t);
}

static void several_hosts_make_one_domain(void **state)
{
    struct braid_topo *t = parse("<system version=\"1\"><cpu numaid=\"0\" host_hash=\"0x1\">" PCI(
        "0000:01:00.0", "0x030200",
        "") "<gpu dev=\"0\" sm=\"100\"><nvlink target=\"fffffff:ffff:ff\" count=\"18\" "
            "tclass=\"0x068000\"/></gpu></pci>"
            "</cpu><cpu numaid=\"0\" host_hash=\"0x2\">" PCI(
                "0000:01:00.0", "0x030200", "") "<gpu dev=\"0\" sm=\"100\"/></pci></cpu></system>");

    assert_int_equal(braid_topo_nodes(t), 2);
    assert_int_equal(braid_topo_count(t, BRAID_TOPO_GPU), 1);
    assert_int_equal(braid_topo_nvlink_domain(t), 2);
    braid_topo_destroy(t);
}

static void bad_files_name_line_and_expectation(void **state)
{
    static const struct {
        const char *text;
        int line;
        const char *part;
    } bad[] = {
        {"", 1, "expected well-formed XML"},
        {"<system version=\"1\">\n<cpu numaid=\"0\">", 2, "expected well-formed XML"},
        {"<topology/>", 1, "expected <system>, found <topology>"},
        {"<system version=\"2\"/>", 1, "expected version=\"1\""},
        {"<system version=\"1\"/>", 0, "expected at least one <cpu>"},
        {"<system version=\"1\">\n<cpu/></system>", 2, "expected numaid in <cpu>"},
        {"<system version=\"1\">\n<cpu numaid=\"x\"/></system>", 2,
         "expected a number from -1 to 65535 in numaid, found \"x\""},
        {"<system version=\"1\"><cpu numaid=\"0\">\n\n<pci/></cpu></system>", 3, "expected busid="},
        {"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0:1:2\"/></cpu></system>", 1,
         "expected busid="},
        {"<system version=\"1\"><cpu numaid=\"0\">\n<pci busid=\"01:00.0\" "
         "link_speed=\"fast\"/></cpu></system>",
         2, "expected a PCIe speed"},
        {"<system version=\"1\"><gpu/></system>", 1, "expected <gpu> inside <pci>"},
        {"<system version=\"1\"><cpu numaid=\"0\"><net/></cpu></system>", 1,
         "expected <net> inside <nic>"},
        {"<system version=\"1\"><pci/></system>", 1, "expected <pci> inside"},
        {"<!DOCTYPE a [<!ENTITY b \"c\">]><system version=\"1\"/>", 1, "expected no DOCTYPE"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct braid_topo_error error = {0};
        struct braid_topo *t = NULL;

        if (braid_topo_parse_nccl_xml(bad[i].text, strlen(bad[i].text), "bad.xml", &t, &error) !=
                -EINVAL ||
            error.line != bad[i].line || strncmp(error.text, bad[i].part, strlen(bad[i].part)) != 0)
            fail_msg("\"%s\": line %d, \"%s\"", bad[i].text, error.line, error.text);
    }
}

static void a_missing_file_is_told(void **state)
{
    struct braid_topo_error error = {0};
    struct braid_topo *t = NULL;

    assert_int_equal(braid_topo_load_nccl_xml("/nonexistent/topo.xml", &t, &error), -ENOENT);
    assert_non_null(strstr(error.text, "cannot be opened"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump_is_understood),
        cmocka_unit_test(writing_loses_nothing),
        cmocka_unit_test(a_bare_pci_tree_is_completed_by_part_number),
        cmocka_unit_test(two_ports_of_a_function_share_its_link),
        cmocka_unit_test(direct_links_are_counted_once),
        cmocka_unit_test(several_hosts_make_one_domain),
        cmocka_unit_test(bad_files_name_line_and_expectation),
        cmocka_unit_test(a_missing_file_is_told),
    };
    struct braid_topo_error error;
    struct braid_topo *topo = NULL;

    if (braid_topo_parse_nccl_xml("<", 1, "probe", &topo, &error) == -ENOSYS) {
        printf("skipped: %s\n", error.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
