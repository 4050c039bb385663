/*
 * libibverbs, opened at run time. The fast path (post, poll) needs no symbol: it is inline through the context's own table.
 * BRAID_VERBS_LIBRARY names the library; by default libibverbs.so.1. Versions are asked for by name, because libibverbs keeps
 * incompatible older ones under the same symbol.
 * Threading: opened once at transport init; read-only afterwards.
 */
#ifndef BRAID_VERBS_IBV_H
#define BRAID_VERBS_IBV_H

#include <infiniband/verbs.h>
#include <stddef.h>

/* The public header makes macros of these names. */
#undef ibv_query_port
#undef ibv_reg_mr

struct braid_ibv {
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
    int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
    int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
                        struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes);
    int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t bytes, int access);
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
                                   unsigned int access);
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
    int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
    int (*fork_init)(void);
    const char *(*wc_status_str)(enum ibv_wc_status status);
    const char *(*event_type_str)(enum ibv_event_type event);
};

extern struct braid_ibv braid_ibv;

/* Opens the library. 0, -ENOENT (none here) or -ENOSYS (too old); `why` gets one line. May be called again. */
int braid_ibv_open(char *why, size_t why_bytes);

#endif
