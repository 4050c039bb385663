/* Lanes over pairs of sockets: what two rails leave to each other. */
#include "tests/unit/cmocka_all.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "net-plugin/core/conn.h"
#include "net-plugin/socket/lane.h"

#define BYTES (1024 * 1024)

extern const struct braid_transport braid_socket_transport;

static struct braid_socket_lane *rail(struct braid_conn *conn, unsigned index, int *peer)
{
    static struct braid_probe nothing_tried;
    struct braid_socket_lane *lane;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    lane = braid_socket_lane_new(conn, fds[0], index, index);
    assert_non_null(lane);
    lane->rails = true;
    lane->probe = &nothing_tried;
    assert_int_equal(braid_conn_add_lane(conn, &lane->base), 0);
    *peer = fds[1];
    return lane;
}

static void set_rate(struct braid_socket_lane *lane, uint64_t rate)
{
    lane->rated_ns = braid_now_ns(); /* fresh */
    atomic_store(&lane->base.rate_Bps, rate);
}

/* A rail that was slower rests; when the other one has become the slower one and declines too, the first must be asked again. */
static void one_always_takes_it(void **state)
{
    struct braid_conn *conn = braid_conn_new(true, 0, -1);
    struct braid_socket_lane *a, *b;
    struct braid_send *send;
    int peers[2];
    void *data = calloc(1, BYTES);

    assert_non_null(conn);
    assert_non_null(data);
    conn->ops = &braid_socket_transport;
    a = rail(conn, 1, &peers[0]);
    b = rail(conn, 2, &peers[1]);
    send = &conn->tx->sends[0];
    send->base.conn = conn;
    send->data = data;
    send->bytes = BYTES;
    send->shift = 20;
    send->chunks = 1;
    atomic_store(&send->left, 1);
    *conn->tx->active_end = send;
    conn->tx->active_end = &send->next;
    atomic_store(&conn->tx->put_bytes, BYTES);

    set_rate(a, 1000000);
    set_rate(b, 100000000);
    assert_int_equal(braid_socket_move(a, BYTES), 0);
    assert_false(braid_socket_lane_wants_puts(a));
    assert_true(braid_socket_lane_wants_puts(b));
    set_rate(b, 10000);
    assert_int_equal(braid_socket_move(b, BYTES), 0);
    assert_false(braid_socket_lane_wants_puts(b));
    assert_true(braid_socket_lane_wants_puts(a));
    assert_true(braid_socket_move(a, BYTES) > 0);
    assert_true(a->put_active || atomic_load(&send->left) == 0);

    for (int i = 0; i < 2; i++)
        close(peers[i]);
    braid_socket_lane_free(a);
    braid_socket_lane_free(b);
    conn->ops = NULL;
    braid_conn_free(conn);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_always_takes_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
