/*
 * Which source to take: by what a file holds, and for plugins by BRAID_TOPO. The only file of this
 * room that reads a parameter or logs. Any thread.
 */
#include "common/log.h"
#include "common/param.h"
#include "common/topo/topo_build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The loader for the text of a file; hwloc opens the file itself. */
static int load_text(const char *path, const char *text, size_t bytes, struct braid_topo **out,
                     struct braid_topo_error *error)
{
    if (strncmp(text, "braid-topo-capture", 18) == 0)
        return braid_topo_parse_capture(text, bytes, path, out, error);
    if (strstr(text, "<topology") != NULL)
        return braid_topo_load_hwloc_xml(path, out, error);
    if (strchr(text, '<') != NULL)
        return braid_topo_parse_nccl_xml(text, bytes, path, out, error);
    return braid_topo_load_synthetic(text, out, error);
}

int braid_topo_load(const char *file_or_line, struct braid_topo **out,
                    struct braid_topo_error *error)
{
    size_t bytes;
    char *text;
    int rc;

    /* No path of a file has "gpus:" in it unless one is there by that name. */
    if (access(file_or_line, F_OK) != 0 && strstr(file_or_line, "gpus:") != NULL)
        return braid_topo_load_synthetic(file_or_line, out, error);
    rc = braid_topo_slurp(file_or_line, &text, &bytes, error);
    if (rc != 0)
        return rc;
    rc = load_text(file_or_line, text, bytes, out, error);
    free(text);
    return rc;
}

int braid_topo_open(struct braid_topo **out)
{
    const char *setting = braid_param_str(BRAID_P_TOPO);
    struct braid_topo_error error;
    char text[400], notes[1024];
    char *line, *rest = notes;
    int rc;

    if (setting[0] != '\0') {
        rc = braid_topo_load(setting, out, &error);
        if (rc == 0)
            return 0;
        BRAID_WARN("topology %s; the machine is looked at instead",
                   braid_topo_error_format(&error, text, sizeof(text)));
    }
    rc = braid_topo_load_live(NULL, out, notes, sizeof(notes), &error);
    if (rc != 0)
        return rc;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0] != '\0')
            BRAID_INFO(BRAID_LOG_GRAPH, "topology: %s", line);
    return 0;
}
