/*
 * Core's face to abi/: NCCL's net interface without NCCL's types or versions. Every function returns 0 or a negative errno and has
 * logged what a person needs to know; -EAGAIN means "call again", never an error.
 *
 * Threading: as NCCL calls them (include/nccl/README.md). One connection is driven by one thread at a time; connections are independent.
 * Contexts: init returns one, and whatever else is passed as context (NULL, another communicator's) is accepted, because NCCL does so.
 */
#ifndef BRAID_NET_NET_H
#define BRAID_NET_NET_H

#include "net-plugin/core/transport.h"

struct braid_listen;
struct braid_request;

#define BRAID_MAX_GROUP 8 /* widest grouped receive */

/* Whether a GPU may watch the buffer while data lands (core/landing.h). */
enum braid_polled {
    BRAID_NOT_POLLED,
    BRAID_POLLED_IF_SMALL, /* only messages up to BRAID_POLLED_BYTES can be of a protocol that polls */
    BRAID_POLLED,
};

/* Largest message that any device takes: what NCCL assumes where its interface has no field for it. */
#define BRAID_MAX_P2P_BYTES ((size_t)1 << 30)

/* Once a communicator; `ctx_p` may be NULL (interfaces before v11, which have no finalize). */
int braid_net_init(void **ctx_p, int traffic_class);
/* Ends one init. The last one joins all threads; the plugin may be unloaded or initialised again afterwards. */
int braid_net_finalize(void *ctx);

int braid_net_device_count(int *count_p);
int braid_net_device_props(int dev, struct braid_device_props *props);
/* Makes one device of several (NCCL's NIC fusion), or finds the one made before. Once a process, during init. */
int braid_net_make_vdevice(const int *devs, int count, int *dev_p);

/* `handle` has 128 bytes. */
int braid_net_listen(int dev, void *handle, struct braid_listen **listen_p);
/* 0 and *conn_p NULL: call again. Keeps its place in the handle. traffic_class -1: that of `ctx`. */
int braid_net_connect(void *ctx, int dev, int traffic_class, void *handle,
                      struct braid_conn **conn_p);
int braid_net_accept(struct braid_listen *listen, struct braid_conn **conn_p);
int braid_net_close_listen(struct braid_listen *listen);
/* Requests may be in flight: nothing touches their buffers afterwards. Does not wait for the peer. */
int braid_net_close(struct braid_conn *conn);

/* dmabuf_fd -1: plain memory. */
int braid_net_reg_mr(struct braid_conn *conn, void *addr, size_t bytes, int type, int dmabuf_fd,
                     uint64_t dmabuf_offset, struct braid_mr **mr_p);
int braid_net_dereg_mr(struct braid_conn *conn, struct braid_mr *mr);

/* *request_p NULL: call again. */
int braid_net_isend(struct braid_conn *conn, const void *data, size_t bytes, int tag,
                    struct braid_mr *mr, struct braid_request **request_p);
/* *request_p NULL: call again. */
int braid_net_irecv(struct braid_conn *conn, int n, void *const *data, const size_t *sizes,
                    const int *tags, struct braid_mr *const *mrs, enum braid_polled polled,
                    struct braid_request **request_p);
/* *request_p NULL: nothing to wait for. */
int braid_net_iflush(struct braid_conn *conn, int n, void *const *data, const int *sizes,
                     struct braid_mr *const *mrs, struct braid_request **request_p);
/* 1: done, and `sizes` (NULL allowed) has got one entry a send, n a receive, none a flush; 0: not yet. */
int braid_net_test(struct braid_request *request, int *sizes);

#endif
