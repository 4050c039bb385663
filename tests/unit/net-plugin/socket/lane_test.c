/* Lanes over pairs of sockets: what two rails leave to each other, and which of several streams takes what waits. */
#include "tests/unit/cmocka_all.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "net-plugin/core/conn.h"
#include "net-plugin/core/net.h"
#include "net-plugin/socket/io.h"
#include "net-plugin/socket/lane.h"
#include "net-plugin/socket/rate.h"

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
    struct braid_socket_lane *first, *a, *b;
    struct braid_send *send;
    int peers[3];
    void *data = calloc(1, BYTES);

    assert_non_null(conn);
    assert_non_null(data);
    conn->ops = &braid_socket_transport;
    first = rail(conn, 0, &peers[2]);
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

    for (int i = 0; i < 3; i++)
        close(peers[i]);
    braid_socket_lane_free(first);
    braid_socket_lane_free(a);
    braid_socket_lane_free(b);
    conn->ops = NULL;
    braid_conn_free(conn);
    free(data);
}

/* A connection whose streams come in the order of `indices`, of which bulk wants one. In peers[] their other ends. */
static struct braid_conn *connection(const unsigned *indices, unsigned count, int *peers)
{
    static const struct braid_probe_plan one = {
        .device = "pairs", .guess = {.streams = 1}, .streams_min = 1, .streams_max = 1};
    struct braid_conn *conn = braid_conn_new(true, 0, -1);
    uint8_t offer[BRAID_OFFER_BYTES];
    char why[160];
    int bytes;

    assert_non_null(conn);
    conn->ops = &braid_socket_transport;
    bytes = conn->ops->offer(conn, 0, offer, sizeof(offer));
    assert_true(bytes > 0);
    assert_int_equal(conn->ops->agree(conn, offer, (size_t)bytes, why, sizeof(why)), 0);
    for (unsigned i = 0; i < count; i++) {
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        assert_int_equal(conn->ops->attach(conn, fds[0], indices[i]), 0);
        peers[i] = fds[1];
        if (i == 0)
            braid_probe_init(((struct braid_socket_lane *)conn->lanes[0])->probe, &one);
    }
    return conn;
}

/* One I/O thread, and up to three streams of which one is wanted. */
static void plan_threads(void)
{
    braid_socket_plan = (struct braid_socket_plan){.thread_bytes = BYTES / 4,
                                                   .lanes_max = 100,
                                                   .threads = 1,
                                                   .threads_help = true,
                                                   .guess = 1,
                                                   .streams = 3};
}

/* What waits leaves by one of the streams that are there, whichever of them came first, and if the first one never came. */
static void leaves_by_any_stream(const unsigned *indices, unsigned count, bool threads)
{
    uint64_t until = braid_now_ns() + 10 * BRAID_NS_PER_S;
    struct braid_conn *conn;
    struct braid_send *send;
    void *data = calloc(1, BYTES), *sink = malloc(BYTES);
    int peers[4];

    assert_non_null(data);
    assert_non_null(sink);
    plan_threads();
    if (threads)
        braid_io_open();
    conn = connection(indices, count, peers);
    send = &conn->tx->sends[0];
    send->base.conn = conn;
    send->data = data;
    send->bytes = BYTES;
    send->shift = 20;
    send->chunks = 1;
    atomic_store(&send->left, 1);
    braid_spin_lock(&conn->tx->put_lock);
    *conn->tx->active_end = send;
    conn->tx->active_end = &send->next;
    braid_spin_unlock(&conn->tx->put_lock);
    atomic_store(&conn->bulk_open, 1);
    atomic_store(&conn->tx->put_bytes, BYTES);
    while (atomic_load(&send->left) > 0 && braid_now_ns() < until) {
        braid_conn_poll(conn);
        for (unsigned i = 0; i < count; i++)
            if (read(peers[i], sink, BYTES) == 0)
                break;
    }
    assert_int_equal(atomic_load(&send->left), 0);
    assert_int_equal(atomic_load(&conn->lanes[1]->put_bytes), BYTES);

    conn->ops->detach(conn);
    conn->ops = NULL;
    braid_conn_free(conn);
    braid_io_stop();
    for (unsigned i = 0; i < count; i++)
        close(peers[i]);
    free(data);
    free(sink);
}

static void streams_come_in_any_order(void **state)
{
    leaves_by_any_stream((const unsigned[]){0, 1, 2, 3}, 4, true);
    leaves_by_any_stream((const unsigned[]){0, 2, 1, 3}, 4, true);
    leaves_by_any_stream((const unsigned[]){0, 3, 2, 1}, 4, true);
}

/* Where no I/O thread can be started, the callers move what waits. */
static void threads_never_come(void **state)
{
    leaves_by_any_stream((const unsigned[]){0, 1}, 2, false);
}

static void streams_never_come(void **state)
{
    leaves_by_any_stream((const unsigned[]){0, 2}, 2, true);
    leaves_by_any_stream((const unsigned[]){0, 3, 2}, 3, true);
}

/*
 * A small message that found the stream for control full goes as soon as there is room, though its sender asks no more: for it the message is
 * done. The START before it of a larger one, whose chunks have gone by another stream, has waited for it, and goes first.
 */
static void what_is_promised_goes(void **state)
{
    static const unsigned indices[] = {0, 2};
    uint64_t until = braid_now_ns() + 10 * BRAID_NS_PER_S;
    struct braid_request *request = NULL;
    struct braid_socket_lane *control;
    struct braid_conn *conn;
    struct braid_send *send;
    bool left = true;
    void *data = calloc(1, BYTES), *sink = malloc(BYTES);
    int peers[2];

    assert_non_null(data);
    assert_non_null(sink);
    plan_threads();
    braid_io_open();
    conn = connection(indices, 2, peers);
    control = (struct braid_socket_lane *)conn->lanes[0];
    while (write(control->fd, data, BYTES) > 0)
        ;
    conn->tx->words[0] = (struct braid_recv_word){.capacity = BYTES};
    conn->tx->words_tail = 1;
    assert_int_equal(braid_sender_isend(conn, data, BYTES, 0, NULL, &request), 0);
    send = (struct braid_send *)request;
    while (atomic_load(&send->left) > 0 && braid_now_ns() < until)
        if (read(peers[1], sink, BYTES) == 0)
            break;
    assert_int_equal(atomic_load(&send->left), 0);
    assert_int_equal(braid_sender_test(send, NULL), 1);
    assert_int_equal(control->tx_have - control->tx_sent, sizeof(struct braid_rec));
    assert_int_equal(braid_sender_isend(conn, data, 8, 0, NULL, &request), 0);
    while (braid_sender_test((struct braid_send *)request, NULL) == 0)
        ;
    while (left && braid_now_ns() < until) {
        if (read(peers[0], sink, BYTES) == 0)
            break;
        if (!braid_lane_trylock(&control->base))
            continue;
        left = control->tx_sent != control->tx_have;
        braid_lane_unlock(&control->base);
    }
    assert_false(left);

    conn->ops->detach(conn);
    conn->ops = NULL;
    braid_conn_free(conn);
    braid_io_stop();
    for (int i = 0; i < 2; i++)
        close(peers[i]);
    free(data);
    free(sink);
}

/* What was promised before a close arrives, and the goodbye behind it, however little room there was left for that. */
static void the_last_words_go(void **state)
{
    static const unsigned indices[] = {0};
    uint64_t until = braid_now_ns() + 10 * BRAID_NS_PER_S;
    uint8_t body[BRAID_BODY_MAX] = {0};
    struct braid_rec rec = {.type = BRAID_REC_EAGER};
    size_t fill = 0, sent = 0, got = 0;
    uint8_t *sink = malloc(BYTES);
    struct braid_conn *conn;
    ssize_t count;
    int peer;

    assert_non_null(sink);
    plan_threads();
    conn = connection(indices, 1, &peer);
    while ((count = write(((struct braid_socket_lane *)conn->lanes[0])->fd, body, sizeof(body))) >
           0)
        fill += (size_t)count;
    for (rec.body_bytes = 1024; rec.body_bytes > 0; rec.body_bytes /= 2)
        while (conn->ops->control(conn->lanes[0], &rec, body, true) == 0)
            sent += sizeof(rec) + rec.body_bytes;
    while (conn->ops->control(conn->lanes[0], &rec, body, true) == 0)
        sent += sizeof(rec);
    braid_maint_lock();
    assert_int_equal(braid_maint_start(), 0);
    conn->ops->detach(conn);
    braid_maint_unlock();
    while (braid_now_ns() < until && (count = read(peer, sink + got, BYTES - got)) != 0)
        got += count > 0 ? (size_t)count : 0;
    assert_int_equal(got, fill + sent + sizeof(rec));
    memcpy(&rec, sink + got - sizeof(rec), sizeof(rec));
    assert_int_equal(rec.type, BRAID_REC_BYE);

    close(peer);
    braid_maint_stop();
    conn->ops = NULL;
    braid_conn_free(conn);
    free(sink);
}

/* Sanitizers hold locks of their own while the handler runs. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define HAS_HANDLER
/* What the handler shares with the test: a connection in pages of its own, and a stream that comes when somebody writes there. */
static struct {
    struct braid_conn *conn;
    size_t bytes;
    struct braid_lane lane;
} late;

static int fence_nothing(struct braid_lane *lane)
{
    return 0;
}

static void forget_mr(struct braid_mr *mr)
{
}

static void bring_a_stream(int signal)
{
    if (mprotect(late.conn, late.bytes, PROT_READ | PROT_WRITE) != 0)
        abort();
    braid_conn_add_lane(late.conn, &late.lane);
}

/*
 * A stream that comes at the very moment at which the connection is given up, just before that is written down, is fenced like the others: the
 * caller frees its memory next.
 */
static void none_comes_behind_a_fence(void **state)
{
    static const struct braid_transport ops = {.fence = fence_nothing, .mr_dereg = forget_mr};
    struct sigaction action = {.sa_handler = bring_a_stream}, before;
    struct braid_mr *mr = calloc(1, sizeof(*mr));

    late.bytes = (sizeof(*late.conn) + 65535) & ~(size_t)65535;
    late.conn = mmap(NULL, late.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(late.conn != MAP_FAILED);
    assert_non_null(mr);
    atomic_store(&mr->uses, 1);
    late.conn->ops = &ops;
    braid_lane_init(&late.lane, late.conn, &ops, 1, 0);
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    assert_int_equal(mprotect(late.conn, late.bytes, PROT_READ), 0);
    braid_net_dereg_mr(late.conn, mr);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(braid_conn_lanes(late.conn), 1);
    assert_int_equal(atomic_load(&late.lane.state), BRAID_LANE_FENCED);
    munmap(late.conn, late.bytes);
}
#endif

static char said[4096];

static void take_line(int level, unsigned long subsys, const char *file, int line,
                      const char *format, ...)
{
    size_t at = strlen(said);
    va_list args;

    va_start(args, format);
    vsnprintf(said + at, sizeof(said) - at, format, args);
    va_end(args);
}

/* What does not move for 10 s is described once: the message, and each lane. */
static void a_stall_is_described(void **state)
{
    static const unsigned indices[] = {0, 2};
    int peers[2];
    struct braid_conn *conn = connection(indices, 2, peers);
    struct braid_send *send = &conn->tx->sends[0];

    send->base = (struct braid_request){BRAID_REQUEST_SEND, conn};
    send->bytes = BYTES;
    send->chunks = 4;
    atomic_store(&send->left, 3);
    atomic_store(&send->state, BRAID_SEND_ACTIVE);
    braid_log_set_sink(take_line);
    said[0] = '\0';
    braid_stall_look(&send->base);
    conn->stall_ns -= 11 * BRAID_NS_PER_S;
    conn->seq_in++; /* something has come */
    braid_stall_look(&send->base);
    assert_string_equal(said, "");
    conn->stall_ns -= 11 * BRAID_NS_PER_S;
    for (int i = 0; i < 2; i++)
        braid_stall_look(&send->base);
    braid_log_set_sink(NULL);
    assert_non_null(strstr(said, "3 of 4 chunks to go"));
    assert_non_null(strstr(said, "lane 1, number 2, up: "));
    assert_null(strstr(strstr(said, "nothing has moved") + 1, "nothing has moved"));

    conn->ops->detach(conn);
    conn->ops = NULL;
    braid_conn_free(conn);
    for (int i = 0; i < 2; i++)
        close(peers[i]);
}

/* A rate that grew while nothing was measured gives way to the first measurement. */
static void guesses_give_way(void **state)
{
    struct braid_conn *conn = braid_conn_new(true, 0, -1);
    struct braid_socket_lane *lane;
    uint8_t data[1000] = {0};
    int peer;

    assert_non_null(conn);
    conn->ops = &braid_socket_transport;
    lane = rail(conn, 1, &peer);
    atomic_store(&lane->base.rate_Bps, 1000);
    for (int i = 0; i < 100; i++) {
        lane->rated_ns = braid_now_ns() - BRAID_NS_PER_S;
        braid_rate_measure(lane);
    }
    assert_true(atomic_load(&lane->base.rate_Bps) >= 1ull << 40);
    assert_true(atomic_load(&lane->base.rate_Bps) < 1ull << 42);

    assert_int_equal(write(lane->fd, data, sizeof(data)), sizeof(data)); /* not acknowledged yet */
    atomic_store(&lane->base.put_bytes, 100 * BYTES);
    lane->sampled_ns = braid_now_ns() - BRAID_NS_PER_S;
    lane->sampled_bytes = 0;
    braid_rate_measure(lane);
    assert_true(atomic_load(&lane->base.rate_Bps) < 100 * BYTES);

    close(peer);
    braid_socket_lane_free(lane);
    conn->ops = NULL;
    braid_conn_free(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef HAS_HANDLER
        cmocka_unit_test(none_comes_behind_a_fence),
#endif
        cmocka_unit_test(one_always_takes_it),       cmocka_unit_test(streams_come_in_any_order),
        cmocka_unit_test(streams_never_come),        cmocka_unit_test(threads_never_come),
        cmocka_unit_test(what_is_promised_goes),     cmocka_unit_test(a_stall_is_described),
        cmocka_unit_test(the_last_words_go),         cmocka_unit_test(guesses_give_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
