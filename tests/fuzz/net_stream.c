/*
 * Fuzz target: whatever an authentic but broken peer sends on a stream. Byte 0 chooses the side and the piece size; the rest goes through the
 * lane's receive buffer as if it came from the socket. The receiving side has receives posted in buffers of exact size, so that a byte
 * too far is seen.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "net-plugin/core/conn.h"
#include "net-plugin/socket/lane.h"

#define RECEIVES 6

const char *const braid_fuzz_words[] = {NULL};

extern const struct braid_transport braid_socket_transport;

static void hush(int level, unsigned long subsys, const char *file, int line, const char *fmt, ...)
{
}

/* As the caller of test would, without a socket. */
static void feed(struct braid_socket_lane *lane, const uint8_t *data, size_t bytes, size_t piece)
{
    while (bytes > 0) {
        size_t n = MIN(MIN(bytes, piece), sizeof(lane->rx) - lane->rx_have);
        if (n == 0)
            abort(); /* the buffer must never fill up for good */
        memcpy(lane->rx + lane->rx_have, data, n);
        lane->rx_have += n;
        data += n;
        bytes -= n;
        if (braid_socket_parse(lane) != 0)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const size_t sizes[RECEIVES] = {0, 8, 100, 9000, 200000, 64};
    bool sender = bytes > 0 && (data[0] & 1);
    struct braid_conn *conn = braid_conn_new(sender, 0, -1);
    struct braid_socket_lane *lane;
    void *buffers[RECEIVES] = {0};

    braid_log_set_sink(hush);
    if (conn == NULL || bytes == 0) {
        braid_conn_free(conn);
        return 0;
    }
    conn->ops = &braid_socket_transport;
    lane = braid_socket_lane_new(conn, -1, 0, 0);
    braid_conn_add_lane(conn, &lane->base);
    for (int i = 0; i < RECEIVES; i++) {
        struct braid_request *request;
        int tag = i % 2;
        buffers[i] = malloc(sizes[i] > 0 ? sizes[i] : 1);
        if (sender)
            braid_sender_isend(conn, buffers[i], sizes[i], tag, NULL, &request);
        else
            braid_receiver_irecv(conn, 1, &buffers[i], &sizes[i], &tag, NULL, i % 3, &request);
    }
    feed(lane, data + 1, bytes - 1, data[0] >> 1 == 0 ? SIZE_MAX : data[0] >> 1);
    braid_socket_lane_free(lane);
    conn->ops = NULL;
    braid_conn_free(conn);
    for (int i = 0; i < RECEIVES; i++)
        free(buffers[i]);
    return 0;
}
