/* What every topology target does with a topology that a parser accepted: ask it everything, write it, read that again. */
#ifndef BRAID_TESTS_FUZZ_TOPO_USE_H
#define BRAID_TESTS_FUZZ_TOPO_USE_H

#include "common/topo/topo.h"

#include <stdio.h>
#include <stdlib.h>

static inline void use_topology(const struct braid_topo *topo)
{
    static FILE *sink;
    struct braid_topo_summary summary;
    struct braid_topo_error error;
    struct braid_topo *again = NULL;
    struct braid_topo_route route;
    char *xml = NULL;
    size_t bytes = 0;
    FILE *file;

    if (sink == NULL && (sink = fopen("/dev/null", "w")) == NULL)
        abort();
    /* Large machines take long to describe in full; what they can break shows in the paths too. */
    for (int a = 0; a < braid_topo_objects(topo) && a < 48; a++)
        for (int b = 0; b < braid_topo_objects(topo) && b < 48; b++)
            braid_topo_route(topo, a, b, &route);
    if (braid_topo_objects(topo) > 300)
        return;
    braid_topo_summarise(topo, &summary);
    braid_topo_print_tree(topo, sink);
    braid_topo_print_json(topo, sink);
    file = open_memstream(&xml, &bytes);
    if (file == NULL)
        abort();
    braid_topo_write_nccl_xml(topo, file);
    fclose(file);
    if (braid_topo_parse_nccl_xml(xml, bytes, "written", &again, &error) == 0)
        braid_topo_destroy(again);
    else if (error.line > 0) {
        fprintf(stderr, "what was written is not read: line %d: %s\n%s", error.line, error.text,
                xml);
        abort();
    }
    free(xml);
}

#endif
