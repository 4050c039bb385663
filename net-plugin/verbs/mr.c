/*
 * Registrations. NCCL registers the same buffers once a connection; a NIC needs them once. So each NIC keeps its regions sorted by
 * address with reference counts, and a request that an existing region covers takes that one. Ranges are rounded to pages.
 * Relaxed ordering is for data; the transport's own memory is registered without it (verbs_mr_own).
 * Threading: control path; regions of a NIC under its regions_lock. verbs_mr_rkey and verbs_mr_lkey: data path, read only.
 */
#include "net-plugin/verbs/conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/log.h"
#include "common/param.h"
#include "common/util.h"

#define DATA_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct braid_verbs_region {
    uintptr_t start;
    size_t bytes;
    int type; /* BRAID_PTR_* */
    int users;
    struct ibv_mr *mr;
};

/* What mr->tp points to: one region a rail of the device. */
struct verbs_mr {
    int count;
    struct braid_verbs_region *regions[BRAID_VDEV_MAX];
    struct braid_verbs_nic *nics[BRAID_VDEV_MAX];
};

static void reg_failed(const struct braid_verbs_nic *nic, const struct braid_mr *mr, int err)
{
    struct rlimit limit = {0, 0};
    const char *peer = braid_verbs_peer_memory();

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (mr->type != BRAID_PTR_HOST)
        BRAID_WARN(
            "%s cannot register %zu bytes of GPU memory at %p: %s; peer memory: %s, dma-buf: %s",
            nic->name, mr->bytes, mr->addr, strerror(err),
            peer != NULL ? peer : "not loaded (modprobe nvidia_peermem)",
            nic->dmabuf ? "yes" : "no");
    else if (err == ENOMEM && limit.rlim_cur != RLIM_INFINITY)
        BRAID_WARN("%s cannot register %zu bytes at %p: %s; RLIMIT_MEMLOCK of this process is %llu "
                   "KiB: raise it with `ulimit "
                   "-l unlimited` where the job is started (for containers --ulimit memlock=-1)",
                   nic->name, mr->bytes, mr->addr, strerror(err),
                   (unsigned long long)limit.rlim_cur / 1024);
    else
        BRAID_WARN("%s cannot register %zu bytes at %p: %s", nic->name, mr->bytes, mr->addr,
                   strerror(err));
}

/* By dma-buf if there is a descriptor; where the kernel or the NIC does not offer that, through peer memory. */
static struct ibv_mr *reg_region(struct braid_verbs_nic *nic, const struct braid_mr *mr,
                                 uintptr_t start, size_t bytes)
{
    unsigned int access = DATA_ACCESS;
    struct ibv_mr *region;

    errno = 0;
    if (mr->dmabuf_fd >= 0 && braid_ibv.reg_dmabuf_mr != NULL) {
        region = braid_ibv.reg_dmabuf_mr(
            nic->pd, mr->dmabuf_offset, mr->bytes, (uintptr_t)mr->addr, mr->dmabuf_fd,
            (int)(access | (nic->relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0)));
        if (region != NULL || (errno != EOPNOTSUPP && errno != EPROTONOSUPPORT && errno != ENOTSUP))
            return region;
        BRAID_INFO(
            BRAID_LOG_NET,
            "%s: the kernel or the NIC does not register dma-buf; falling back to peer memory",
            nic->name);
    }
    if (nic->relaxed) {
        region = braid_ibv.reg_mr_iova2(nic->pd, (void *)start, bytes, start,
                                        access | IBV_ACCESS_RELAXED_ORDERING);
        if (region != NULL || errno != EINVAL)
            return region;
        nic->relaxed = false; /* the NIC does not have it */
    }
    return braid_ibv.reg_mr(nic->pd, (void *)start, bytes, (int)access);
}

/* First region that begins after `start`. */
static int upper_bound(const struct braid_verbs_nic *nic, uintptr_t start)
{
    int low = 0, high = nic->regions_count;

    while (low < high) {
        int middle = (low + high) / 2;
        if (nic->regions[middle]->start <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A region that covers the range. No region is wider than regions_widest, which bounds how far back it can begin. */
static struct braid_verbs_region *find_region(const struct braid_verbs_nic *nic, uintptr_t start,
                                              size_t bytes, int type)
{
    for (int i = upper_bound(nic, start) - 1; i >= 0; i--) {
        struct braid_verbs_region *region = nic->regions[i];
        if (start - region->start > nic->regions_widest)
            return NULL;
        if (region->type == type && start + bytes <= region->start + region->bytes)
            return region;
    }
    return NULL;
}

static int keep_region(struct braid_verbs_nic *nic, struct braid_verbs_region *region)
{
    int at;

    if (nic->regions_count == nic->regions_room) {
        int room = nic->regions_room > 0 ? 2 * nic->regions_room : 64;
        void *more = realloc(nic->regions, (size_t)room * sizeof(*nic->regions));
        if (more == NULL)
            return -ENOMEM;
        nic->regions = more;
        nic->regions_room = room;
    }
    at = upper_bound(nic, region->start);
    memmove(&nic->regions[at + 1], &nic->regions[at],
            (size_t)(nic->regions_count - at) * sizeof(*nic->regions));
    nic->regions[at] = region;
    nic->regions_count++;
    nic->regions_widest = MAX(nic->regions_widest, region->bytes);
    return 0;
}

/* The region for `mr` on one NIC, new or shared. Lock held. */
static int take_region(struct braid_verbs_nic *nic, const struct braid_mr *mr,
                       struct braid_verbs_region **region_p)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    bool exact = mr->dmabuf_fd >= 0; /* a dma-buf is registered as it was exported */
    uintptr_t start = exact ? (uintptr_t)mr->addr : (uintptr_t)mr->addr & ~(page - 1);
    size_t bytes =
        exact ? mr->bytes
              : (((uintptr_t)mr->addr + MAX(mr->bytes, 1) + page - 1) & ~(page - 1)) - start;
    struct braid_verbs_region *region = find_region(nic, start, bytes, mr->type);
    int err;

    if (region == NULL) {
        region = calloc(1, sizeof(*region));
        if (region == NULL)
            return -ENOMEM;
        region->start = start;
        region->bytes = bytes;
        region->type = mr->type;
        region->mr = reg_region(nic, mr, start, bytes);
        if (region->mr == NULL) {
            err = errno != 0 ? errno : ENOMEM;
            reg_failed(nic, mr, err);
            free(region);
            return -err;
        }
        err = keep_region(nic, region);
        if (err != 0) {
            braid_ibv.dereg_mr(region->mr);
            free(region);
            return err;
        }
    }
    region->users++;
    *region_p = region;
    return 0;
}

static void drop_region(struct braid_verbs_nic *nic, struct braid_verbs_region *region)
{
    if (--region->users > 0)
        return;
    for (int i = 0; i < nic->regions_count; i++)
        if (nic->regions[i] == region) {
            nic->regions_count--;
            memmove(&nic->regions[i], &nic->regions[i + 1],
                    (size_t)(nic->regions_count - i) * sizeof(*nic->regions));
            break;
        }
    braid_ibv.dereg_mr(region->mr); /* returns when the NIC cannot touch it any more */
    free(region);
}

static void release(struct verbs_mr *own)
{
    for (int i = 0; i < own->count; i++) {
        pthread_mutex_lock(&own->nics[i]->regions_lock);
        if (own->regions[i] != NULL)
            drop_region(own->nics[i], own->regions[i]);
        pthread_mutex_unlock(&own->nics[i]->regions_lock);
        braid_verbs_nic_put(own->nics[i]);
    }
    free(own);
}

int verbs_mr_reg(struct braid_mr *mr)
{
    const struct braid_verbs_device *device = &braid_verbs_devices[mr->dev];
    struct verbs_mr *own = calloc(1, sizeof(*own));
    int err = 0;

    if (mr->dev >= braid_verbs_device_count || own == NULL) {
        free(own);
        return mr->dev >= braid_verbs_device_count ? -ENODEV : -ENOMEM; /* after finalize */
    }
    for (int i = 0; i < device->count && err == 0; i++) {
        struct braid_verbs_nic *nic = braid_verbs_port_of(mr->dev, i)->nic;
        pthread_mutex_lock(&nic->regions_lock);
        if (mr->bytes > 0) /* nothing is ever read from or written to an empty buffer */
            err = take_region(nic, mr, &own->regions[i]);
        pthread_mutex_unlock(&nic->regions_lock);
        if (err != 0)
            break;
        braid_verbs_nic_get(nic);
        own->nics[own->count++] = nic;
    }
    if (err != 0) {
        release(own);
        return err;
    }
    mr->tp = own;
    return 0;
}

void verbs_mr_dereg(struct braid_mr *mr)
{
    if (mr->tp != NULL)
        release(mr->tp);
    mr->tp = NULL;
}

struct ibv_mr *verbs_mr_own(struct braid_verbs_nic *nic, void *addr, size_t bytes)
{
    struct braid_mr as_data = {
        .type = BRAID_PTR_HOST, .dmabuf_fd = -1, .addr = addr, .bytes = bytes};
    struct ibv_mr *mr;

    errno = 0;
    mr = braid_ibv.reg_mr(nic->pd, addr, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (mr == NULL)
        reg_failed(nic, &as_data, errno != 0 ? errno : ENOMEM);
    return mr;
}

/* -- keys of the peer ------------------------------------------------------------------------------------------------------- */

int verbs_mr_describe(struct braid_conn *core, const struct braid_mr *mr, void *blob, size_t cap)
{
    const struct verbs_mr *own = mr->tp;
    struct braid_verbs_keys keys = {0};

    (void)core;
    if (own == NULL || cap < sizeof(keys))
        return -EINVAL;
    keys.count = (uint32_t)own->count;
    for (int i = 0; i < own->count; i++)
        keys.rkeys[i] = own->regions[i] != NULL ? own->regions[i]->mr->rkey : 0;
    memcpy(blob, &keys, sizeof(keys));
    return (int)sizeof(keys);
}

int verbs_mr_learn(struct braid_conn *core, uint32_t id, const void *blob, size_t bytes)
{
    struct verbs_conn *conn = braid_conn_tp(core);
    struct braid_verbs_keys keys;

    if (bytes != sizeof(keys) || id == 0 || conn->keys == NULL)
        return -EPROTO;
    memcpy(&keys, blob, sizeof(keys));
    if (keys.count > BRAID_VERBS_RAILS)
        return -EPROTO;
    braid_keys_learn(conn->keys, id, &keys);
    return 0;
}

uint32_t verbs_mr_rkey(const struct braid_mr *mr, unsigned rail)
{
    const struct verbs_mr *own = mr->tp;

    return own->regions[rail] != NULL ? own->regions[rail]->mr->rkey : 0;
}

uint32_t verbs_mr_lkey(const struct verbs_conn *conn, const struct braid_mr *mr, unsigned rail)
{
    const struct verbs_mr *own = mr->tp;

    (void)conn;
    return own->regions[rail] != NULL ? own->regions[rail]->mr->lkey : 0;
}
