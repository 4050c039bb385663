/*
 * Both halves of connections over a transport made of queues: matching by tag and order, groups, eager and larger messages, credit, chunks
 * over several lanes in any order, oversized messages. Random traffic is checked against the rule of conn.h with contents that name
 * tag and ordinal. Everything runs in one thread, so that a failure comes back.
 */
#include "tests/unit/cmocka_all.h"

#include <stdio.h>

#include <stdlib.h>

#include "common/util.h"
#include "net-plugin/core/conn.h"
#include "net-plugin/core/landing.h"

#define QUEUE 4096
#define LANES 3

struct item {
    struct braid_rec rec;
    uint8_t *body;
};

struct test_lane {
    struct braid_lane base;
    struct test_lane *peer;
    struct item queue[QUEUE]; /* on the way to this lane */
    unsigned head, tail;
    struct braid_put puts[8]; /* fetched, not delivered */
    unsigned puts_count;
};

static struct braid_conn *sender, *receiver;
static struct test_lane *lanes[2][LANES];
static unsigned seed;
static bool squeeze; /* control() refuses at random */

static unsigned rnd(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static int test_control(struct braid_lane *base, const struct braid_rec *rec, const void *body,
                        bool more)
{
    struct test_lane *to = ((struct test_lane *)base)->peer;
    struct item *item = &to->queue[to->tail % QUEUE];

    if (to->tail - to->head == QUEUE || (squeeze && rnd(4) == 0))
        return -EAGAIN;
    item->rec = *rec;
    item->body = malloc(rec->body_bytes + 1);
    if (rec->body_bytes > 0)
        memcpy(item->body, body, rec->body_bytes);
    to->tail++;
    return 0;
}

static void deliver_put(struct test_lane *lane, unsigned i)
{
    struct braid_put put = lane->puts[i];
    struct braid_landing landing;
    struct braid_rec rec = {.type = BRAID_REC_CHUNK,
                            .arg = put.sub,
                            .shift = (uint8_t)put.shift,
                            .ack = put.chunks,
                            .value = put.offset,
                            .body_bytes = (uint32_t)put.bytes};

    lane->puts[i] = lane->puts[--lane->puts_count];
    assert_int_equal(braid_conn_land(&lane->peer->base, &rec, &landing), 0);
    assert_int_equal(landing.bytes, put.bytes);
    assert_int_equal(landing.chunk, put.chunk);
    memcpy(landing.dst, put.src, put.bytes);
    assert_int_equal(braid_conn_landed(&lane->peer->base, put.sub, put.chunk, put.chunks,
                                       put.offset + put.bytes),
                     0);
    braid_conn_put_done(&lane->base, put.owner, put.bytes, 0);
}

static int test_progress(struct braid_lane *base, size_t budget)
{
    struct test_lane *lane = (struct test_lane *)base;

    if (lane->head != lane->tail && rnd(3) > 0) {
        struct item *item = &lane->queue[lane->head++ % QUEUE];
        int err = braid_conn_on_record(base, &item->rec, item->body);
        free(item->body);
        assert_int_equal(err, 0);
    }
    if (lane->puts_count < 8 && rnd(2) > 0 &&
        braid_conn_next_put(base, &lane->puts[lane->puts_count]) == 0)
        lane->puts_count++;
    if (lane->puts_count > 0 && rnd(3) > 0)
        deliver_put(lane, rnd(lane->puts_count));
    return 1;
}

/* A lane that moves all it can in one call, as a socket with room does. */
static int greedy_progress(struct braid_lane *base, size_t budget)
{
    struct test_lane *lane = (struct test_lane *)base;

    while (lane->puts_count < 8 && braid_conn_next_put(base, &lane->puts[lane->puts_count]) == 0)
        lane->puts_count++;
    return 1;
}

static uint64_t kicked_bytes; /* that waited when threads were asked to help, the most */

static bool test_kick(struct braid_lane *lane)
{
    kicked_bytes = MAX(kicked_bytes, braid_conn_put_bytes(lane->conn));
    return false;
}

static void test_detach(struct braid_conn *conn)
{
}

static void test_lane_state(struct braid_lane *lane, char *buf, size_t buf_bytes)
{
    snprintf(buf, buf_bytes, "fine");
}

static void test_describe(struct braid_conn *conn, char *buf, size_t buf_bytes)
{
    buf[0] = '\0';
}

static const struct braid_transport test_transport = {
    .name = "test",
    .detach = test_detach,
    .describe = test_describe,
    .lane_state = test_lane_state,
    .mr_describe = braid_no_mr_describe,
    .mr_learn = braid_no_mr_learn,
    .control = test_control,
    .push = braid_no_push,
    .progress = test_progress,
    .kick = braid_no_kick,
    .fence = braid_no_fence,
};

/* Instead of core/transports.c, which would draw in the real rooms. */
int braid_no_mr_describe(struct braid_conn *conn, const struct braid_mr *mr, void *blob, size_t cap)
{
    return 0;
}

int braid_no_mr_learn(struct braid_conn *conn, uint32_t id, const void *blob, size_t bytes)
{
    return -EPROTO;
}

bool braid_no_kick(struct braid_lane *lane)
{
    return false;
}

int braid_no_push(struct braid_lane *lane)
{
    return 0;
}

int braid_no_fence(struct braid_lane *lane)
{
    return 0;
}

static int set_up(void **state)
{
    squeeze = false;
    seed = 1;
    sender = braid_conn_new(true, 0, -1);
    receiver = braid_conn_new(false, 0, -1);
    for (int side = 0; side < 2; side++) {
        struct braid_conn *conn = side == 0 ? sender : receiver;
        conn->ops = &test_transport;
        for (unsigned i = 0; i < LANES; i++) {
            lanes[side][i] = calloc(1, sizeof(struct test_lane));
            braid_lane_init(&lanes[side][i]->base, conn, &test_transport, i, 0);
            braid_conn_add_lane(conn, &lanes[side][i]->base);
        }
    }
    for (unsigned i = 0; i < LANES; i++) {
        lanes[0][i]->peer = lanes[1][i];
        lanes[1][i]->peer = lanes[0][i];
    }
    return 0;
}

static int tear_down(void **state)
{
    for (int side = 0; side < 2; side++) {
        for (unsigned i = 0; i < LANES; i++) {
            struct test_lane *lane = lanes[side][i];
            for (; lane->head != lane->tail; lane->head++)
                free(lane->queue[lane->head % QUEUE].body);
            free(lane);
        }
    }
    braid_conn_free(sender);
    braid_conn_free(receiver);
    return 0;
}

static struct braid_request *send_one(const void *data, size_t bytes, int tag)
{
    struct braid_request *request = NULL;
    int err = 0;

    for (int i = 0; i < 100000 && request == NULL && err == 0; i++) {
        err = braid_sender_isend(sender, data, bytes, tag, NULL, &request);
        if (err == -EAGAIN) {
            braid_conn_poll(receiver);
            err = 0;
        }
    }
    return request;
}

static struct braid_request *recv_group(int n, void **data, const size_t *sizes, const int *tags)
{
    struct braid_request *request = NULL;

    if (braid_receiver_irecv(receiver, n, data, sizes, tags, NULL, BRAID_NOT_POLLED, &request) != 0)
        return NULL;
    return request;
}

static bool send_done(struct braid_request *request)
{
    int got = braid_sender_test((struct braid_send *)request, NULL);

    assert_true(got >= 0);
    return got > 0;
}

static bool recv_done(struct braid_request *request, int *sizes)
{
    int got = braid_receiver_test((struct braid_recv *)request, sizes);

    assert_true(got >= 0);
    return got > 0;
}

static void finish_recv(struct braid_request *request, int *sizes)
{
    for (int i = 0; i < 100000; i++) {
        if (recv_done(request, sizes))
            return;
        braid_conn_poll(sender);
        braid_conn_pump(sender);
    }
    fail_msg("a receive does not end");
}

static void one_message(size_t bytes, bool receive_first)
{
    uint8_t *out = malloc(bytes + 1), *in = calloc(1, bytes + 1);
    struct braid_request *send, *recv = NULL;
    size_t capacity = bytes + 1;
    int tag = 3, size = -1;
    void *data = in;

    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(i * 7 + bytes);
    if (receive_first)
        recv = recv_group(1, &data, &capacity, &tag);
    send = send_one(out, bytes, tag);
    if (!receive_first) {
        for (int i = 0; i < 50; i++) {
            braid_conn_poll(sender);
            braid_conn_poll(receiver);
        }
        recv = recv_group(1, &data, &capacity, &tag);
    }
    finish_recv(recv, &size);
    assert_int_equal(size, bytes);
    assert_memory_equal(in, out, bytes);
    while (!send_done(send))
        braid_conn_poll(receiver);
    free(out);
    free(in);
}

static void single_messages(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 8192, 8193, 131072, 131073, 1000000, 40000000};

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        one_message(sizes[i], true);
        one_message(sizes[i], false);
    }
}

/* -- small messages share system calls ---------------------------------------------------------------------------------------------- */

static int pushes;

static int counting_push(struct braid_lane *base)
{
    pushes++;
    return 0;
}

static void small_messages_gather(void **state)
{
    struct braid_transport streams = test_transport;
    struct braid_request *requests[32];
    char data[1024] = "";

    streams.flags = BRAID_T_STREAM;
    streams.push = counting_push;
    sender->ops = &streams;
    for (unsigned i = 0; i < LANES; i++)
        lanes[0][i]->base.ops = &streams;

    pushes = 0;
    requests[0] = send_one(data, 64, 1);
    assert_int_equal(pushes, 1); /* nothing was under way */
    for (int i = 1; i < 8; i++)
        requests[i] = send_one(data, 64, 1);
    assert_int_equal(pushes, 1);
    assert_true(send_done(requests[0]));
    assert_false(send_done(requests[1])); /* another came since the last test: more may */
    assert_int_equal(pushes, 1);
    for (int i = 1; i < 8; i++)
        assert_true(send_done(requests[i])); /* none came: all go */
    assert_int_equal(pushes, 2);

    requests[0] = send_one(data, 64, 1);
    pushes = 0;
    for (int i = 1; i < 32; i++)
        requests[i] = send_one(data, sizeof(data), 1);
    assert_in_range(pushes, 31 * sizeof(data) / BRAID_GATHER_BYTES,
                    31 * sizeof(data) / BRAID_GATHER_BYTES + 1); /* never much */
    for (int i = 0; i < 32; i++)
        while (!send_done(requests[i]))
            ;
    sender->ops = &test_transport;
}

/*
 * The threads are asked to share each message before the caller moves it: NCCL hands over one of 128 KiB at a time, which the caller could
 * well move alone, and did.
 */
static void threads_are_asked_first(void **state)
{
    static uint8_t data[128 * 1024], room[sizeof(data)];
    struct braid_transport greedy = test_transport;
    struct braid_request *sent, *got;

    greedy.progress = greedy_progress;
    greedy.kick = test_kick;
    sender->ops = &greedy;
    for (unsigned i = 0; i < LANES; i++)
        lanes[0][i]->base.ops = &greedy;
    for (int i = 0; i < 4; i++) {
        kicked_bytes = 0;
        got = recv_group(1, (void *[]){room}, (size_t[]){sizeof(room)}, (int[]){1});
        for (int j = 0; j < 1000 && sender->tx->words_head == sender->tx->words_tail; j++) {
            recv_done(got, NULL); /* announces */
            test_progress(&lanes[0][0]->base, 0);
        }
        sent = send_one(data, sizeof(data), 1);
        assert_non_null(sent);
        assert_false(braid_conn_has_puts(sender)); /* the caller has taken all of it */
        assert_int_equal(kicked_bytes, sizeof(data));
        while (lanes[0][0]->puts_count > 0)
            deliver_put(lanes[0][0], 0);
        finish_recv(got, NULL);
        assert_true(send_done(sent));
    }
    sender->ops = &test_transport;
}

/* -- random traffic ------------------------------------------------------------------------------------------------------------- */

#define TAGS     5
#define MESSAGES 1000

struct message {
    int tag;
    uint32_t ordinal; /* among those with its tag */
    size_t bytes;
    uint8_t *data;
    struct braid_request *request;
    bool done;
};

struct group {
    int n, first; /* in subs */
    struct braid_request *request;
    bool done;
};

static struct message *messages;
static uint8_t *landing_zone[MESSAGES];
static size_t capacities[MESSAGES];
static int sub_tag[MESSAGES];
static uint32_t sub_ordinal[MESSAGES];
static struct group groups[MESSAGES];

static uint8_t pattern(int tag, uint32_t ordinal, size_t i)
{
    return (uint8_t)((uint32_t)tag * 31 + ordinal * 7 + i);
}

static size_t random_size(void)
{
    switch (rnd(8)) {
    case 0: return 0;
    case 1: return 8;
    case 2: return rnd(8192);
    case 3: return 8192 + rnd(10);
    case 4: return rnd(300000);
    default: return rnd(200);
    }
}

/* A plan of subs in groups of 1 to 8 with distinct tags, and the messages in an order that keeps each tag's. */
static int make_plan(void)
{
    uint32_t next[TAGS] = {0};
    int count = 0, groups_count = 0;

    messages = calloc(MESSAGES, sizeof(*messages));
    while (count + 8 < MESSAGES) {
        struct group *g = &groups[groups_count++];
        int first_tag = (int)rnd(TAGS);
        *g = (struct group){.n = 1 + (int)rnd(rnd(3) == 0 ? TAGS : 1), .first = count};
        for (int i = 0; i < g->n; i++, count++) {
            int tag = (first_tag + i) % TAGS;
            size_t bytes = random_size();
            sub_tag[count] = tag;
            sub_ordinal[count] = next[tag];
            capacities[count] = bytes + rnd(3) * 10000;
            landing_zone[count] = calloc(1, capacities[count] + 1);
            messages[count] = (struct message){.tag = tag, .ordinal = next[tag]++, .bytes = bytes};
            messages[count].data = malloc(bytes + 1);
            for (size_t b = 0; b < bytes; b++)
                messages[count].data[b] = pattern(tag, messages[count].ordinal, b);
        }
    }
    for (int i = 0; i + 1 < count;
         i++) { /* swap neighbours of different tags: the sender's order is its own */
        struct message m = messages[i];
        if (m.tag != messages[i + 1].tag && rnd(2) == 0) {
            messages[i] = messages[i + 1];
            messages[i + 1] = m;
        }
    }
    return groups_count;
}

static size_t size_of(int tag, uint32_t ordinal, int count)
{
    for (int i = 0; i < count; i++)
        if (messages[i].tag == tag && messages[i].ordinal == ordinal)
            return messages[i].bytes;
    return SIZE_MAX;
}

static void check_group(struct group *g, const int *sizes, int count)
{
    for (int i = 0; i < g->n; i++) {
        int sub = g->first + i;
        assert_int_equal(sizes[i], size_of(sub_tag[sub], sub_ordinal[sub], count));
        for (int b = 0; b < sizes[i]; b++)
            assert_int_equal(landing_zone[sub][b],
                             pattern(sub_tag[sub], sub_ordinal[sub], (size_t)b));
    }
}

static void try_post(struct group *g)
{
    void *data[8];

    for (int i = 0; i < g->n; i++)
        data[i] = landing_zone[g->first + i];
    g->request = recv_group(g->n, data, &capacities[g->first], &sub_tag[g->first]);
}

static void play(bool refuse)
{
    int groups_count, count, sent = 0, sent_done = 0, posted = 0, received = 0, sizes[8];
    long turns = 0;

    squeeze = refuse;
    groups_count = make_plan();
    count = groups[groups_count - 1].first + groups[groups_count - 1].n;
    while (sent_done < count || received < groups_count) {
        assert_true(turns++ < 10000000);
        if (sent < count && sent - sent_done < 200 && rnd(2) == 0) {
            struct message *m = &messages[sent];
            if (braid_sender_isend(sender, m->data, m->bytes, m->tag, NULL, &m->request) == 0)
                sent++;
        }
        if (posted < groups_count && posted - received < 30 && rnd(3) == 0) {
            try_post(&groups[posted]);
            posted += groups[posted].request != NULL;
        }
        for (int i = sent_done; i < sent && i < sent_done + 8; i++)
            if (!messages[i].done)
                messages[i].done = send_done(messages[i].request);
        while (sent_done < sent && messages[sent_done].done)
            sent_done++;
        if (received < posted && recv_done(groups[received].request, sizes)) {
            check_group(&groups[received], sizes, count);
            received++;
        }
    }
    for (int i = 0; i < count; i++) {
        free(messages[i].data);
        free(landing_zone[i]);
    }
    free(messages);
}

static void random_traffic(void **state)
{
    for (unsigned s = 1; s <= 4; s++) {
        seed = s * 977;
        play(s % 2 == 0);
    }
}

/* -- errors -------------------------------------------------------------------------------------------------------------------------- */

static void oversized(size_t bytes, size_t capacity, bool sender_knows)
{
    uint8_t *out = calloc(1, bytes), *in = calloc(1, capacity + 64);
    struct braid_request *send, *recv;
    int tag = 0, err = 0;
    void *data = in;

    memset(out, 1, bytes);
    recv = recv_group(1, &data, &capacity, &tag);
    send = send_one(out, bytes, tag);
    for (int i = 0; i < 1000; i++) {
        braid_sender_test((struct braid_send *)send, NULL); /* a small one is done at once */
        err = braid_receiver_test((struct braid_recv *)recv, NULL);
        assert_true(err <= 0);
    }
    assert_int_equal(err, -EMSGSIZE);
    assert_int_equal(atomic_load(&sender->error), -EMSGSIZE);
    for (size_t i = capacity; i < capacity + 64; i++)
        assert_int_equal(in[i], 0);
    free(out);
    free(in);
}

static void oversized_eager(void **state)
{
    oversized(9, 8, false);
}

static void oversized_large(void **state)
{
    oversized(1000000, 100000, true);
}

/* What a broken or hostile peer may send once it is authentic: refused, nothing stored. */
static void foreign_records(void **state)
{
    struct braid_rec rec;
    struct braid_recv_word words[2] = {{.sub = 0},
                                       {.sub = 1, .capacity = 3, .flags = BRAID_RECV_USED}};
    struct braid_landing landing;
    uint8_t body[64] = {0};
    size_t capacity = 100000;
    int tag = 0;
    void *data = malloc(capacity);

    /* a chunk for a receive that nobody posted */
    rec = (struct braid_rec){
        .type = BRAID_REC_CHUNK, .arg = 5, .shift = 17, .ack = 1, .body_bytes = 8};
    assert_int_equal(braid_conn_land(&lanes[1][0]->base, &rec, &landing), -EPROTO);
    assert_int_equal(braid_conn_landed(&lanes[1][0]->base, 5, 0, 1, 8), -EPROTO);
    /* chunks that do not fit the posted one */
    recv_group(1, &data, &capacity, &tag);
    rec.arg = 0;
    rec.value = 131072;
    assert_int_equal(braid_conn_land(&lanes[1][0]->base, &rec, &landing), -EPROTO);
    rec.value = 0;
    rec.body_bytes = 100001;
    assert_int_equal(braid_conn_land(&lanes[1][0]->base, &rec, &landing), -EPROTO);
    rec.value = UINT64_MAX - 3;
    rec.body_bytes = 8;
    assert_int_equal(braid_conn_land(&lanes[1][0]->base, &rec, &landing), -EPROTO);
    rec.value = 4; /* not on a chunk's boundary */
    assert_int_equal(braid_conn_land(&lanes[1][0]->base, &rec, &landing), -EPROTO);
    /* one of two that is not a whole chunk, the second of one, one of none */
    rec.value = 0;
    rec.ack = 2;
    assert_int_equal(braid_conn_land(&lanes[1][0]->base, &rec, &landing), -EPROTO);
    rec.shift = 3;
    rec.value = 8;
    rec.ack = 1;
    assert_int_equal(braid_conn_land(&lanes[1][0]->base, &rec, &landing), -EPROTO);
    rec.value = 0;
    rec.ack = 0;
    assert_int_equal(braid_conn_land(&lanes[1][0]->base, &rec, &landing), -EPROTO);
    /* START for it that is too large, has too many chunks, or a wild shift */
    rec = (struct braid_rec){
        .type = BRAID_REC_START, .seq = 1, .arg = 0, .shift = 17, .value = 100001};
    assert_int_equal(braid_conn_on_record(&lanes[1][0]->base, &rec, body), -EPROTO);
    rec = (struct braid_rec){
        .type = BRAID_REC_START, .seq = 2, .arg = 0, .shift = 1, .value = 100000};
    assert_int_equal(braid_conn_on_record(&lanes[1][0]->base, &rec, body), -EPROTO);
    rec =
        (struct braid_rec){.type = BRAID_REC_START, .seq = 3, .arg = 0, .shift = 200, .value = 100};
    assert_int_equal(braid_conn_on_record(&lanes[1][0]->base, &rec, body), -EPROTO);
    /* a gap in the sequence */
    rec = (struct braid_rec){.type = BRAID_REC_CREDIT, .seq = 9};
    assert_int_equal(braid_conn_on_record(&lanes[1][0]->base, &rec, body), -EPROTO);
    /* sender: words that cannot be, credit that was never used, receiver's records */
    rec = (struct braid_rec){.type = BRAID_REC_RECV, .seq = 1, .body_bytes = 31};
    assert_int_equal(braid_conn_on_record(&lanes[0][0]->base, &rec, body), -EPROTO);
    rec = (struct braid_rec){.type = BRAID_REC_RECV, .seq = 2, .body_bytes = sizeof(words)};
    assert_int_equal(braid_conn_on_record(&lanes[0][0]->base, &rec, words), -EPROTO);
    rec = (struct braid_rec){.type = BRAID_REC_CREDIT, .seq = 3, .credit = 10};
    assert_int_equal(braid_conn_on_record(&lanes[0][0]->base, &rec, body), -EPROTO);
    rec = (struct braid_rec){.type = BRAID_REC_EAGER, .seq = 4, .body_bytes = 8};
    assert_int_equal(braid_conn_on_record(&lanes[0][0]->base, &rec, body), -EPROTO);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(single_messages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_messages_gather, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_are_asked_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_traffic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(oversized_eager, set_up, tear_down),
        cmocka_unit_test_setup_teardown(oversized_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_records, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
