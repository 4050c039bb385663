/*
 * What a user's host program looks like. Succeeds when headers and library fit together and when creating a communicator either
 * works or, without a GPU, returns -ENODEV. Built by ../check against an installed Braid.
 */
#include <braid/braid.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int zero(void *context)
{
    return 0;
}

static int one(void *context)
{
    return 1;
}

static int gather(void *context, const void *mine, void *all, size_t bytes)
{
    memcpy(all, mine, bytes);
    return 0;
}

int main(void)
{
    const struct braid_bootstrap alone = {NULL, zero, one, gather};
    struct braid_comm *comm = NULL;
    int rc;

    if (strcmp(braid_version(), BRAID_VERSION_STRING) != 0) {
        printf("headers %s, library %s\n", BRAID_VERSION_STRING, braid_version());
        return 1;
    }
    (void)&braid_gemm_create; /* braid.h has everything */
    rc = braid_comm_create(&comm, &alone, NULL);
    printf("braid %s: a communicator of one rank: %s\n", braid_version(), strerror(-rc));
    braid_comm_destroy(comm);
    return rc == 0 || rc == -ENODEV ? 0 : 1;
}
