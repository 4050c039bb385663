/*
 * Strangers who speak Braid's handshake, as far as one can without the handle's secret: right magic and listener id with a wrong
 * proof, a version nobody speaks, messages out of turn, cut short, or larger than any message is. Each must be dropped without
 * disturbing the connection that is being set up meanwhile. Only for a plugin whose name is Braid; decodes include/braid/wire.
 */
#include "fake_flow.h"
#include "scenario.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <braid/wire/net_handshake.h>

#define MAX_CONNS 8
#define ROUNDS    12

struct caller {
    struct fake_rank *r;
    struct braid_handle handle;
    int rejected; /* REJECT messages that came back */
    int closed;   /* streams that were closed on us */
};

static int dial(const struct braid_handle *h)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(h->port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(h->port)};
    bool four = h->addrs[0].family == 4;
    int fd = socket(four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc;

    memcpy(&in.sin_addr, h->addrs[0].bytes, 4);
    memcpy(&in6.sin6_addr, h->addrs[0].bytes, 16);
    rc = four ? connect(fd, (struct sockaddr *)&in, sizeof(in))
              : connect(fd, (struct sockaddr *)&in6, sizeof(in6));
    if (rc != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void say(int fd, const void *data, size_t bytes)
{
    (void)!send(fd, data, bytes, MSG_NOSIGNAL);
}

static void say_message(int fd, int type, int version, const void *body, size_t bytes,
                        uint32_t claimed)
{
    struct braid_hs_header header = {.magic = BRAID_HS_MAGIC,
                                     .type = (uint16_t)type,
                                     .version = (uint16_t)version,
                                     .body_bytes = claimed};

    say(fd, &header, sizeof(header));
    if (bytes)
        say(fd, body, bytes);
}

static struct braid_hs_hello hello_of(const struct caller *c)
{
    struct braid_hs_hello hello = {.version_oldest = BRAID_WIRE_OLDEST,
                                   .version_newest = BRAID_WIRE_VERSION,
                                   .kind = BRAID_HS_NEW,
                                   .macs = 1,
                                   .id = c->handle.listen_id};

    memset(hello.nonce, 0x5a, sizeof(hello.nonce));
    return hello;
}

/* Reads for up to 300 ms and notes what the listener did with us. */
static void listen_back(struct caller *c, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct braid_hs_header header;
    unsigned char rest[4096];

    for (int i = 0; i < 3 && poll(&p, 1, 300) == 1; i++) {
        ssize_t n = recv(fd, &header, sizeof(header), MSG_WAITALL);

        if (n <= 0) {
            c->closed++;
            return;
        }
        if (header.type == BRAID_HS_REJECT)
            c->rejected++;
        if (header.body_bytes <= sizeof(rest))
            (void)!recv(fd, rest, header.body_bytes, MSG_WAITALL);
    }
}

static void wrong_proof(struct caller *c, int fd)
{
    struct braid_hs_hello hello = hello_of(c);
    struct braid_hs_proof proof = {.offers = 0};
    struct {
        struct braid_hs_header header;
        struct braid_hs_challenge challenge;
    } answer;

    say_message(fd, BRAID_HS_HELLO, BRAID_WIRE_VERSION, &hello, sizeof(hello), sizeof(hello));
    if (recv(fd, &answer, sizeof(answer), MSG_WAITALL) != (ssize_t)sizeof(answer) ||
        answer.header.type != BRAID_HS_CHALLENGE)
        fake_die(c->r, "no CHALLENGE to a right HELLO");
    memset(proof.mac, 0x77, sizeof(proof.mac));
    say_message(fd, BRAID_HS_PROOF, BRAID_WIRE_VERSION, &proof, sizeof(proof), sizeof(proof));
    say_message(fd, BRAID_HS_READY, BRAID_WIRE_VERSION, NULL, 0, 0);
}

static void wrong_version(struct caller *c, int fd)
{
    struct braid_hs_hello hello = hello_of(c);

    hello.version_oldest = 900;
    hello.version_newest = 901;
    say_message(fd, BRAID_HS_HELLO, 901, &hello, sizeof(hello), sizeof(hello));
}

static void wrong_listener(struct caller *c, int fd)
{
    struct braid_hs_hello hello = hello_of(c);

    hello.id ^= 0x1234567;
    say_message(fd, BRAID_HS_HELLO, BRAID_WIRE_VERSION, &hello, sizeof(hello), sizeof(hello));
}

static void stream_of_nothing(struct caller *c, int fd)
{
    struct braid_hs_hello hello = hello_of(c);

    hello.kind = BRAID_HS_STREAM;
    hello.stream = 3;
    say_message(fd, BRAID_HS_HELLO, BRAID_WIRE_VERSION, &hello, sizeof(hello), sizeof(hello));
}

static void out_of_turn(struct caller *c, int fd)
{
    struct braid_hs_proof proof = {.offers = 1};

    (void)c;
    say_message(fd, BRAID_HS_PROOF, BRAID_WIRE_VERSION, &proof, sizeof(proof), sizeof(proof));
}

static void huge(struct caller *c, int fd)
{
    (void)c;
    say_message(fd, BRAID_HS_HELLO, BRAID_WIRE_VERSION, NULL, 0, 0xfffffff0u);
}

static void cut_short(struct caller *c, int fd)
{
    struct braid_hs_hello hello = hello_of(c);

    say_message(fd, BRAID_HS_HELLO, BRAID_WIRE_VERSION, &hello, 20, sizeof(hello));
    shutdown(fd, SHUT_WR);
}

static void no_macs(struct caller *c, int fd)
{
    struct braid_hs_hello hello = hello_of(c);

    hello.macs = 0;
    say_message(fd, BRAID_HS_HELLO, BRAID_WIRE_VERSION, &hello, sizeof(hello), sizeof(hello));
}

static void call_all(void *arg)
{
    static void (*const calls[])(struct caller *, int) = {
        wrong_proof, wrong_version, wrong_listener, stream_of_nothing,
        out_of_turn, huge,          cut_short,      no_macs};
    struct caller *c = arg;

    for (size_t i = 0; i < FAKE_COUNT(calls); i++) {
        int fd = dial(&c->handle);

        if (fd < 0)
            fake_die(c->r, "stranger %zu cannot reach port %u: %s", i, c->handle.port,
                     strerror(errno));
        calls[i](c, fd);
        listen_back(c, fd);
        close(fd);
    }
}

/* Rank 1 listens; rank 0 plays the strangers with rank 1's handle before it connects as itself. */
static void fetch_job(void *arg)
{
    while (!fake_fetch_handle(arg))
        fake_sleep_ms(1);
}

static void post_job(void *arg)
{
    fake_listen_and_post(arg);
}

static void connect_rest_job(void *arg)
{
    struct fake_conn *c = arg;
    struct fake_rank *r = c->r;
    uint64_t start = fake_now_ns();

    while (!c->comm) {
        fake_must(r,
                  c->sends ? fake_net_connect(&r->net, c->ctx, 0, c->handle, &c->comm)
                           : fake_net_accept(&r->net, c->listener, &c->comm),
                  c->sends ? "connect" : "accept");
        if (fake_late(r, start))
            fake_die(r, "waited %u s for the real connection beside strangers",
                     r->options->timeout_s);
        fake_sleep_ms(1);
    }
    if (!c->sends)
        fake_must(r, fake_net_close_listen(&r->net, c->listener), "closeListen");
    c->listener = NULL;
}

static void wire_main(struct fake_rank *r, void *arg)
{
    static const struct fake_traffic traffic = {
        .bytes = 100000, .steps = 20, .depth = 8, .group = 1, .vary = true};
    struct fake_conn conns[MAX_CONNS];
    struct caller caller = {.r = r};

    (void)arg;
    fake_rank_load(r);
    if (strcmp(r->net.name, "Braid") != 0)
        fake_skip(r, "%s does not speak Braid's handshake", r->net.name);
    for (int round = 0; round < ROUNDS; round++) {
        int count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_pair);

        if (r->rank == 0) {
            fake_worker_run(&r->service, fetch_job, &conns[0]);
            memcpy(&caller.handle, conns[0].handle, sizeof(caller.handle));
            if (caller.handle.magic != BRAID_HANDLE_MAGIC)
                fake_die(r, "the handle's magic is 0x%x", caller.handle.magic);
            if (round % 2 == 0)
                call_all(&caller);
        } else {
            fake_worker_run(&r->service, post_job, &conns[0]);
        }
        fake_worker_run(&r->service, connect_rest_job, &conns[0]);
        fake_traffic_run(r, conns, count, &traffic);
        fake_close_all(r, conns, count);
        fake_barrier(r, 2, "a round with strangers");
    }
    fake_say(r, "strangers: %d rejected with a reason, %d closed", caller.rejected, caller.closed);
    if (r->rank == 0 && caller.rejected + caller.closed == 0)
        fake_die(r, "no stranger was turned away");
    fake_rank_unload(r);
}

static int wire_run(const struct fake_options *options, const struct scenario *self)
{
    struct fake_options o = *options;

    (void)self;
    o.ranks = 2;
    o.channels = 1;
    return fake_ranks_run(&o, 0, wire_main, NULL);
}

static const struct scenario list[] = {
    {"strangers-braid", "wrong proofs, versions and messages in Braid's own handshake", wire_run,
     NULL, false},
};

const struct scenario_table wire_scenarios = {list, FAKE_COUNT(list)};
