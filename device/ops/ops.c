/*
 * Creating and destroying a braid_ops: its window, its layout, its kernels. The operations are in collectives.c.
 * Threading: as include/braid/ops.h says.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"
#include "device/host/driver.h"
#include "device/ops/ops.h"

int braid_ops_enter(struct braid_ops *ops)
{
    return braid_cuda_errno(ops->cuda->context_push(ops->context));
}

void braid_ops_leave(struct braid_ops *ops)
{
    void *context;

    ops->cuda->context_pop(&context);
}

/* Fills ops->layout and the limits; returns the bytes of the window. */
static uint64_t lay_out(struct braid_ops *ops, const struct braid_ops_config *config)
{
    struct braid_ops_layout *l = &ops->layout;
    uint64_t page = 4096, pairs = MAX(l->ranks - 1, 1u);
    uint64_t tile = BRAID_OPS_TILE_WIRE, at = 0;

    l->packet_slot = MAX(config->packet_bytes / pairs / tile, 1) * tile;
    l->staging_slot = MAX(config->staging_bytes / pairs / 65536, 1) * 65536;
    ops->packet_limit = l->packet_slot / tile * BRAID_OPS_TILE;
    ops->staging_limit = l->staging_slot;

    l->flags = at;
    at += 4ull * 2 * 2 * l->ranks * BRAID_OPS_CHUNKS;
    l->ready = at;
    at += 8ull * 2 * l->ranks;
    ops->engine_words = at;
    at += 4ull * BRAID_ENGINE_WORDS * l->ranks;
    at = (at + page - 1) / page * page;
    l->packets = at;
    at += 2 * pairs * l->packet_slot;
    at = (at + 65535) / 65536 * 65536;
    l->staging = at;
    return at + 2 * pairs * l->staging_slot;
}

/* Checks what can be checked without talking to anyone. */
static int check(struct braid_ops *ops, const struct braid_ops_config *config)
{
    const struct braid_devcomm *d = braid_comm_device(ops->comm);
    uint32_t slot = config->slot == UINT32_MAX ? d->slot_count - 1 : config->slot;

    if (config->size != sizeof(*config) || slot >= d->slot_count) {
        BRAID_WARN("braid_ops_config: size %zu (this library's %zu), epoch slot %u of %u",
                   config->size, sizeof(*config), slot, d->slot_count);
        return -EINVAL;
    }
    ops->layout.epoch_slot = slot;
    ops->layout.ranks = (uint32_t)braid_comm_ranks(ops->comm);
    ops->layout.rank = (uint32_t)braid_comm_rank(ops->comm);
    if (ops->layout.ranks > BRAID_OPS_RANKS) {
        BRAID_WARN("collectives serve at most %d ranks, this communicator has %u", BRAID_OPS_RANKS,
                   ops->layout.ranks);
        return -EINVAL;
    }
    for (uint32_t i = 0; i < ops->layout.ranks; i++) {
        if (braid_comm_reachable(ops->comm, (int)i) != BRAID_ROAD_MEMORY) {
            BRAID_WARN("collectives need a memory road to every rank; there is none to rank %u", i);
            return -EHOSTUNREACH;
        }
    }
    return 0;
}

int braid_ops_create(struct braid_ops **ops_p, struct braid_comm *comm,
                     const struct braid_ops_config *config)
{
    const struct braid_ops_config defaults = BRAID_OPS_CONFIG_INIT;
    struct braid_ops *ops;
    char why[200];
    int rc, loaded = 0;

    if (ops_p == NULL || comm == NULL)
        return -EINVAL;
    config = config != NULL ? config : &defaults;
    ops = calloc(1, sizeof(*ops));
    if (ops == NULL)
        return -ENOMEM;
    ops->comm = comm;
    ops->gpu = braid_comm_gpu(comm);
    ops->overlap = braid_comm_gpu_ranks(comm) == 1;
    rc = check(ops, config);
    if (rc != 0)
        goto err_free;
    rc = braid_ops_cuda_get(&ops->cuda, why, sizeof(why));
    if (rc != 0) {
        BRAID_WARN("no collectives: %s", why);
        goto err_free;
    }
    rc = braid_cuda_errno(ops->cuda->primary_retain(&ops->context, ops->gpu));
    if (rc != 0)
        goto err_free;
    rc = braid_ops_enter(ops);
    if (rc != 0)
        goto err_release;
    loaded = braid_ops_load(ops);
    if (loaded == 0)
        loaded = braid_engine_create(ops, &ops->engine);
    /* Collective, whatever happened here: the others must not wait for this rank. */
    rc = braid_window_alloc(comm, lay_out(ops, config), &ops->window);
    if (rc == 0)
        rc = loaded;
    if (rc != 0)
        goto err_unload;
    braid_ops_leave(ops);
    *ops_p = ops;
    return 0;

err_unload:
    braid_engine_destroy(ops->engine);
    braid_window_free(ops->window);
    braid_ops_unload(ops);
    braid_ops_leave(ops);
err_release:
    ops->cuda->primary_release(ops->gpu);
err_free:
    free(ops);
    return rc;
}

void braid_ops_destroy(struct braid_ops *ops)
{
    if (ops == NULL)
        return;
    if (braid_ops_enter(ops) == 0) {
        braid_engine_destroy(ops->engine);
        braid_window_free(ops->window);
        braid_ops_unload(ops);
        braid_ops_leave(ops);
    }
    ops->cuda->primary_release(ops->gpu);
    free(ops);
}
