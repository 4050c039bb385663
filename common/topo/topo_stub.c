#include "common/topo/topo_build.h"
#include <errno.h>
int braid_topo_load_hwloc_xml(const char *p, struct braid_topo **o, struct braid_topo_error *e)
{
    return braid_topo_fail(e, -ENOSYS, p, 0, 0, "no hwloc");
}
int braid_topo_load_capture(const char *p, struct braid_topo **o, struct braid_topo_error *e)
{
    return braid_topo_fail(e, -ENOSYS, p, 0, 0, "no");
}
int braid_topo_load_live(const struct braid_topo_live *live, struct braid_topo **out, char *notes,
                         size_t notes_size, struct braid_topo_error *e)
{
    return braid_topo_fail(e, -ENOSYS, "live", 0, 0, "no");
}
int braid_topo_capture(const struct braid_topo_live *live, FILE *out, struct braid_topo_error *e)
{
    return braid_topo_fail(e, -ENOSYS, "live", 0, 0, "no");
}
