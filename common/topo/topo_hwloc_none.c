/* Stands in for topo_hwloc.c where Braid is built without hwloc's header. */
#include "common/topo/topo_live.h"

#include <errno.h>

int braid_topo_hwloc(struct braid_topo *topo, const char *xml_path, struct braid_topo_error *error)
{
    return braid_topo_fail(
        error, -ENOSYS, xml_path != NULL ? xml_path : "hwloc", 0, 0,
        "this Braid was built without hwloc (package libhwloc-dev or hwloc-devel)");
}

int braid_topo_load_hwloc_xml(const char *path, struct braid_topo **out,
                              struct braid_topo_error *error)
{
    return braid_topo_hwloc(NULL, path, error);
}
