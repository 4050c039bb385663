/*
 * Stands in for the verbs transport where it was built without rdma-core's headers: finds no device and says why.
 */
#include "net-plugin/verbs/verbs.h"

#include "common/log.h"

static int absent_init(void)
{
    BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET,
               "RDMA is not used: this build has no verbs transport (libibverbs-dev was missing)");
    return -ENODEV;
}

const struct braid_transport braid_verbs_transport = {
    .name = "IB",
    .id = 2,
    .init = absent_init,
    .fini = braid_no_fini,
    .device_count = braid_no_device_count,
    .device_props = braid_no_device_props,
};
