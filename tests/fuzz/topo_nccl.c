/* Fuzz target: NCCL's topology XML. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/topo_use.h"

const char *const braid_fuzz_words[] = {"<cpu numaid=\"0\">",
                                        "</cpu>",
                                        "<pci busid=\"0000:01:00.0\" class=\"0x060400\">",
                                        "</pci>",
                                        "<gpu dev=\"0\" sm=\"90\">",
                                        "</gpu>",
                                        "<nvlink target=\"0000:01:00.0\" count=\"4\"/>",
                                        "<c2c bw=\"1\" count=\"1\"/>",
                                        "<nic>",
                                        "</nic>",
                                        "<net name=\"a\" speed=\"400000\"/>",
                                        "link_width=\"16\"",
                                        "railId=\"255\"",
                                        "host_hash=\"0x2\"",
                                        "class=\"0x030200\"",
                                        "class=\"0x068000\"",
                                        "<!DOCTYPE a>",
                                        "&#65;",
                                        "<![CDATA[",
                                        NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct braid_topo *topo = NULL;
    struct braid_topo_error error;

    if (braid_topo_parse_nccl_xml((const char *)data, bytes, "fuzz", &topo, &error) == 0)
        use_topology(topo);
    braid_topo_destroy(topo);
    return 0;
}
