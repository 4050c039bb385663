/*
 * Memory regions. A key is the region's index in the fabric plus a generation, so that a stale key is refused as a NIC
 * refuses it.
 */
#include "objects.h"
#include "script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static struct ibv_mr *region_create(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                    unsigned access)
{
    struct fv_fabric *fabric = fv_fabric_get();
    struct fv_mr *mr = calloc(1, sizeof(*mr));
    uint32_t device = ((struct fv_context *)pd->context)->device;
    struct fv_mr_state *state = NULL;

    fv_fabric_lock(fabric);
    if (fabric->devices[device].live_mrs < fabric->devices[device].max_mr)
        for (uint32_t i = 0; i < FV_MAX_MRS && !state; i++) {
            uint32_t index = (fabric->mr_rotor + i) % FV_MAX_MRS;
            if (!fabric->mrs[index].used) {
                state = &fabric->mrs[index];
                mr->index = index;
                fabric->mr_rotor = index + 1;
            }
        }
    if (state) {
        state->used = true;
        state->pid = getpid();
        state->pd = ((struct fv_pd *)pd)->id;
        state->access = access;
        state->device = device;
        state->address = (uintptr_t)address;
        state->length = length;
        state->iova = iova;
        fabric->devices[device].live_mrs++;
    }
    fv_fabric_unlock(fabric);
    if (!state) {
        free(mr);
        errno = ENOMEM;
        return NULL;
    }
    mr->mr.context = pd->context;
    mr->mr.pd = pd;
    mr->mr.addr = address;
    mr->mr.length = length;
    mr->mr.lkey = mr->mr.rkey = mr->index + 1;
    FV_COUNT(mrs, 1);
    atomic_fetch_add(&fv_live_objects, 1);
    return &mr->mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                unsigned access)
{
    if (fv_call_fails("ibv_reg_mr"))
        return NULL;
    if (access & IBV_ACCESS_RELAXED_ORDERING &&
        fv_fabric_get()->devices[((struct fv_context *)pd->context)->device].flags &
            FV_NO_RELAXED) {
        errno = EINVAL;
        return NULL;
    }
    return region_create(pd, address, length, iova, access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                               int access)
{
    return ibv_reg_mr_iova2(pd, address, length, iova, (unsigned)access);
}

/* The fake has no memory behind a file descriptor, so the success path takes the iova as the address. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    (void)offset;
    if (fv_call_fails(__func__))
        return NULL;
    if (fv_fabric_get()->devices[((struct fv_context *)pd->context)->device].flags & FV_NO_DMABUF) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (fd < 0) {
        errno = EBADF;
        return NULL;
    }
    return region_create(pd, (void *)(uintptr_t)iova, length, iova, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
    struct fv_mr *mr = (struct fv_mr *)ibv;
    struct fv_fabric *fabric = fv_fabric_get();

    fv_fabric_lock(fabric);
    fabric->mrs[mr->index].used = false;
    fabric->devices[fabric->mrs[mr->index].device].live_mrs--;
    fv_fabric_unlock(fabric);
    free(mr);
    atomic_fetch_sub(&fv_live_objects, 1);
    return 0;
}
