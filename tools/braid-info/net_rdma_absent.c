/* Stands in for net_rdma.c in a build without rdma-core's headers. */
#include "tools/braid-info/info.h"

#include <stdio.h>

int braid_info_net_rdma(void)
{
    printf("\nRDMA\n  not used: this build has no verbs transport (libibverbs-dev was missing)\n");
    return 0;
}
