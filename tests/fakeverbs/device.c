/*
 * Devices, contexts, ports, GID tables, protection domains and asynchronous events: what libibverbs offers before any
 * queue pair exists. Values come from the fabric, which the script filled.
 */
#include "fakeverbs.h"
#include "objects.h"
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Older names of these exist as macros in the public header. */
#undef ibv_query_port
#undef ibv_query_gid_ex

_Atomic int64_t fv_live_objects;

int64_t fakeverbs_live_objects(void)
{
    return atomic_load(&fv_live_objects);
}

static struct fv_device_state *state_of(struct ibv_context *context)
{
    return &fv_fabric_get()->devices[((struct fv_context *)context)->device];
}

struct ibv_device **ibv_get_device_list(int *num)
{
    struct fv_script *script = fv_script_get();
    struct fv_fabric *fabric;
    struct ibv_device **list;

    if (fv_call_fails(__func__) || !(fabric = fv_fabric_get()))
        return NULL;
    list = calloc(script->device_count + 1, sizeof(*list));
    for (uint32_t i = 0; list && i < script->device_count; i++) {
        struct fv_device *device = calloc(1, sizeof(*device));
        int index;

        fv_fabric_lock(fabric);
        index = fv_fabric_find_device(fabric, script->node, script->devices[i].name);
        fv_fabric_unlock(fabric);
        if (!device || index < 0)
            abort();
        device->index = (uint32_t)index;
        device->device.node_type = IBV_NODE_CA;
        device->device.transport_type = IBV_TRANSPORT_IB;
        snprintf(device->device.name, sizeof(device->device.name), "%s", script->devices[i].name);
        snprintf(device->device.dev_name, sizeof(device->device.dev_name), "uverbs%u", i);
        snprintf(device->device.ibdev_path, sizeof(device->device.ibdev_path), "%s",
                 script->devices[i].path);
        list[i] = &device->device;
    }
    if (num)
        *num = (int)script->device_count;
    return list;
}

/* The real library keeps opened devices alive by reference counts; here an opened context has its own copy. */
void ibv_free_device_list(struct ibv_device **list)
{
    for (int i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    return fv_fabric_get()->devices[((struct fv_device *)device)->index].guid;
}

int ibv_get_device_index(struct ibv_device *device)
{
    return (int)((struct fv_device *)device)->index;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    (void)cq;
    (void)solicited_only;
    return EOPNOTSUPP;
}

/* A datagram socket with a kernel-chosen name: anyone who maps the fabric can send an event to it. */
static int open_event_socket(struct fv_open *entry)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (fd < 0)
        return -1;
    entry->event_address_bytes = sizeof(entry->event_address);
    if (bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)) != 0 ||
        getsockname(fd, (struct sockaddr *)&entry->event_address, &entry->event_address_bytes) !=
            0) {
        close(fd);
        return -1;
    }
    return fd;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct fv_fabric *fabric = fv_fabric_get();
    struct fv_context *context;
    struct fv_device *copy;

    if (fv_call_fails(__func__))
        return NULL;
    context = calloc(1, sizeof(*context));
    copy = malloc(sizeof(*copy));
    memcpy(copy, device, sizeof(*copy));
    context->context.device = &copy->device;
    context->device = copy->index;
    context->context.ops.post_send = fv_post_send;
    context->context.ops.post_recv = fv_post_recv;
    context->context.ops.poll_cq = fv_poll_cq;
    context->context.ops.req_notify_cq = req_notify_cq;
    context->context.cmd_fd = -1;
    context->context.async_fd = -1;
    context->context.num_comp_vectors = 1;
    pthread_mutex_init(&context->context.mutex, NULL);
    fv_fabric_lock(fabric);
    for (uint32_t i = 0; i < FV_MAX_OPENS && context->context.async_fd < 0; i++)
        if (!fabric->opens[i].used) {
            context->context.async_fd = open_event_socket(&fabric->opens[i]);
            context->open = i;
            fabric->opens[i].used = context->context.async_fd >= 0;
            fabric->opens[i].device = context->device;
            fabric->opens[i].pid = getpid();
        }
    fv_fabric_unlock(fabric);
    atomic_fetch_add(&fv_live_objects, 1);
    return &context->context;
}

int ibv_close_device(struct ibv_context *ctx)
{
    struct fv_context *context = (struct fv_context *)ctx;
    struct fv_fabric *fabric = fv_fabric_get();

    fv_fabric_lock(fabric);
    fabric->opens[context->open].used = false;
    fv_fabric_unlock(fabric);
    close(ctx->async_fd);
    free(ctx->device);
    free(context);
    atomic_fetch_sub(&fv_live_objects, 1);
    return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct fv_event_message message;

    if (recv(context->async_fd, &message, sizeof(message), 0) != sizeof(message))
        return -1;
    memset(event, 0, sizeof(*event));
    event->event_type = (enum ibv_event_type)message.event;
    event->element.port_num = 1;
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    const struct fv_device_state *state = state_of(context);
    int error = fv_call_fails(__func__);

    if (error)
        return error;
    memset(attr, 0, sizeof(*attr));
    snprintf(attr->fw_ver, sizeof(attr->fw_ver), "fake");
    attr->node_guid = state->guid;
    attr->sys_image_guid = state->guid;
    attr->max_mr_size = UINT64_MAX;
    attr->vendor_id = state->vendor_id;
    attr->vendor_part_id = state->vendor_part_id;
    attr->max_qp = (int)state->max_qp;
    attr->max_qp_wr = (int)state->max_wr;
    attr->max_sge = (int)state->max_sge;
    attr->max_cq = FV_MAX_CQS;
    attr->max_cqe = (int)state->max_cqe;
    attr->max_mr = (int)state->max_mr;
    attr->max_pd = 1 << 16;
    attr->max_qp_rd_atom = 16;
    attr->max_qp_init_rd_atom = 16;
    attr->atomic_cap = state->atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
    attr->max_pkeys = 1;
    attr->phys_port_cnt = 1;
    return 0;
}

/* Speed and width codes of the InfiniBand specification whose product is the scripted rate. */
static void speed_codes(uint32_t gbps, struct ibv_port_attr *attr)
{
    static const struct {
        uint32_t gbps;
        uint8_t width, speed;
    } rows[] = {{10, 1, 8},  {25, 1, 32},  {40, 2, 8},   {50, 1, 64},
                {56, 2, 16}, {100, 2, 32}, {200, 2, 64}, {400, 2, 128}};

    attr->active_width = 2;
    attr->active_speed = 32;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].gbps == gbps) {
            attr->active_width = rows[i].width;
            attr->active_speed = rows[i].speed;
        }
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *out)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)out;
    const struct fv_device_state *state = state_of(context);
    int error = fv_call_fails(__func__);

    if (error || port != 1)
        return error ? error : EINVAL;
    /* Old programs pass the struct without its last members; the real library leaves those alone as well. */
    memset(attr, 0, offsetof(struct ibv_port_attr, port_cap_flags2));
    attr->state = (enum ibv_port_state)state->port_state;
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = (enum ibv_mtu)state->mtu;
    attr->gid_tbl_len = FV_MAX_GIDS;
    attr->max_msg_sz = 1u << 30;
    attr->pkey_tbl_len = 1;
    attr->lid = (uint16_t)(state->link_layer == IBV_LINK_LAYER_INFINIBAND ? state->lid : 0);
    attr->phys_state = 5;
    attr->link_layer = (uint8_t)state->link_layer;
    speed_codes(state->speed_gbps, attr);
    return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    const struct fv_device_state *state = state_of(context);
    int error = fv_call_fails(__func__);

    if (error)
        return error;
    if (port != 1 || index < 0 || index >= FV_MAX_GIDS)
        return -1;
    memset(gid, 0, sizeof(*gid));
    if (state->gids[index].valid)
        *gid = state->gids[index].gid;
    return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes)
{
    const struct fv_device_state *state = state_of(context);
    int error = fv_call_fails("ibv_query_gid_ex");

    (void)entry_bytes;
    if (error)
        return error;
    if (port != 1 || index >= FV_MAX_GIDS || flags)
        return EINVAL;
    if (!state->gids[index].valid)
        return ENODATA;
    entry->gid = state->gids[index].gid;
    entry->gid_index = index;
    entry->port_num = port;
    entry->gid_type = state->gids[index].type;
    entry->ndev_ifindex = 0;
    return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void)context;
    (void)port;
    *pkey = htobe16(index == 0 ? 0xffff : 0x8000 + index);
    return index < FV_PKEYS ? 0 : -1;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct fv_fabric *fabric = fv_fabric_get();
    struct fv_pd *pd;

    if (fv_call_fails(__func__))
        return NULL;
    pd = calloc(1, sizeof(*pd));
    pd->pd.context = context;
    fv_fabric_lock(fabric);
    pd->id = ++fabric->next_pd;
    fv_fabric_unlock(fabric);
    atomic_fetch_add(&fv_live_objects, 1);
    return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    atomic_fetch_sub(&fv_live_objects, 1);
    return 0;
}

int ibv_fork_init(void)
{
    return fv_call_fails(__func__);
}
