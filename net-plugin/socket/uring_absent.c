/* Stands in for uring.c where the build found no liburing, or one older than 2.3: no ring, and the reason. */
#include "net-plugin/socket/uring.h"

#include <stdio.h>

bool braid_uring_open(char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "this build has none (liburing-dev 2.3 was missing)");
    return false;
}

struct braid_uring *braid_uring_new(braid_uring_told_fn told, void *owner)
{
    return NULL;
}

void braid_uring_free(struct braid_uring *ring)
{
}

int braid_uring_fd(const struct braid_uring *ring)
{
    return -1;
}

bool braid_uring_add(struct braid_uring *ring, struct braid_socket_lane *lane)
{
    return false;
}

void braid_uring_flush(struct braid_uring *ring)
{
}

void braid_uring_reap(struct braid_uring *ring)
{
}
