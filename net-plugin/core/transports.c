/* The list of transports and the stubs for operations that a transport lacks; see transport.h. */
#include "net-plugin/core/transport.h"

/* Each room's table; rooms see core, core sees nothing of them but these names. */
extern const struct braid_transport braid_verbs_transport, braid_socket_transport;

const struct braid_transport *const braid_transports[] = {
    &braid_verbs_transport,
    &braid_socket_transport,
    NULL,
};

int braid_no_init(void)
{
    return 0;
}

void braid_no_fini(void)
{
}

int braid_no_device_count(void)
{
    return 0;
}

int braid_no_device_props(int dev, struct braid_device_props *props)
{
    return -EOPNOTSUPP;
}

int braid_no_device_fuse(const int *devs, int count)
{
    return -EOPNOTSUPP;
}

int braid_no_mr_describe(struct braid_conn *conn, const struct braid_mr *mr, void *blob, size_t cap)
{
    return 0;
}

int braid_no_mr_learn(struct braid_conn *conn, uint32_t id, const void *blob, size_t bytes)
{
    return -EPROTO;
}

int braid_no_flush(struct braid_conn *conn, int n, void *const *addrs, struct braid_mr *const *mrs,
                   void **token_p)
{
    *token_p = NULL;
    return 0;
}

int braid_no_flush_test(struct braid_conn *conn, void *token)
{
    return 1;
}

int braid_no_route(struct braid_conn *conn, unsigned index, union braid_addr *source,
                   union braid_addr *peer)
{
    return -EOPNOTSUPP;
}

bool braid_no_kick(struct braid_lane *lane)
{
    return false;
}

int braid_no_put(struct braid_lane *lane, const struct braid_put *put)
{
    return -EOPNOTSUPP;
}

int braid_no_push(struct braid_lane *lane)
{
    return 0;
}

int braid_no_fence(struct braid_lane *lane)
{
    return 0;
}

void braid_no_drain(struct braid_lane *lane)
{
}

void braid_no_lane_state(struct braid_lane *lane, char *buf, size_t buf_bytes)
{
    if (buf_bytes > 0)
        buf[0] = '\0';
}
