/*
 * Scenarios with strangers on the listening ports: whoever finds the port says nonsense, says too
 * little, says it slowly or says nothing, while and after the real connections are set up. The
 * traffic must not notice. Ports are found in /proc/net, so no plugin's handle is interpreted.
 */
#include "fake_flow.h"
#include "scenario.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_CONNS  64
#define MAX_PORTS  32
#define MAX_SILENT 40
#define LISTENING  0x0a
#define SLOW_BYTES 40

struct port {
    int family;
    struct sockaddr_storage addr;
    socklen_t length;
};

/* Is this socket inode one of our descriptors? */
static bool own_inode(unsigned long inode)
{
    char want[64];
    char path[300];
    char target[64];
    struct dirent *entry;
    bool found = false;
    DIR *dir = opendir("/proc/self/fd");

    snprintf(want, sizeof(want), "socket:[%lu]", inode);
    while (dir && !found && (entry = readdir(dir))) {
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        n = readlink(path, target, sizeof(target) - 1);
        if (n > 0) {
            target[n] = 0;
            found = strcmp(target, want) == 0;
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

static void fill_port(struct port *p, int family, const char *address, unsigned number)
{
    unsigned words[4] = {0};

    memset(p, 0, sizeof(*p));
    p->family = family;
    sscanf(address, "%8x%8x%8x%8x", &words[0], &words[1], &words[2], &words[3]);
    if (family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)&p->addr;

        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)number);
        in->sin_addr.s_addr = words[0] ? words[0] : htonl(INADDR_LOOPBACK);
        p->length = sizeof(*in);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&p->addr;

        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)number);
        memcpy(&in6->sin6_addr, words, 16);
        if (!(words[0] | words[1] | words[2] | words[3]))
            in6->sin6_addr = in6addr_loopback;
        p->length = sizeof(*in6);
    }
}

static int find_ports_in(const char *path, int family, struct port *ports, int count)
{
    FILE *file = fopen(path, "r");
    char line[512];

    while (file && count < MAX_PORTS && fgets(line, sizeof(line), file)) {
        char address[40];
        unsigned number;
        unsigned state;
        unsigned long inode;

        if (sscanf(line, "%*d: %39[0-9A-F]:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", address,
                   &number, &state, &inode) != 4)
            continue;
        if (state == LISTENING && own_inode(inode))
            fill_port(&ports[count++], family, address, number);
    }
    if (file)
        fclose(file);
    return count;
}

static int find_ports(struct port *ports)
{
    int count = find_ports_in("/proc/self/net/tcp", AF_INET, ports, 0);

    return find_ports_in("/proc/self/net/tcp6", AF_INET6, ports, count);
}

static int dial(const struct port *p)
{
    int fd = socket(p->family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&p->addr, p->length) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void say(int fd, const void *data, size_t size)
{
    if (fd >= 0)
        (void)!send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void hang_up_hard(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}

struct strangers {
    struct fake_rank *r;
    pthread_t thread;
    int silent[MAX_SILENT];
    int silent_count;
    _Atomic bool stop;
    _Atomic int rounds;
};

static void visit(struct strangers *s, const struct port *p)
{
    unsigned char noise[4096];
    int fd;

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (unsigned char)fake_mix(i + (uint64_t)s->rounds * 7919);
    close(dial(p));
    hang_up_hard(dial(p));
    fd = dial(p);
    say(fd, noise, 1);
    hang_up_hard(fd);
    fd = dial(p);
    say(fd, noise, sizeof(noise));
    close(fd);
    fd = dial(p);
    say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    close(fd);
    memset(noise, 0, sizeof(noise));
    fd = dial(p);
    say(fd, noise, 512);
    close(fd);
    memset(noise, 0xff, sizeof(noise));
    fd = dial(p);
    say(fd, noise, 2048);
    if (s->silent_count < MAX_SILENT)
        s->silent[s->silent_count++] = fd;
    else
        close(fd);
    if (s->silent_count < MAX_SILENT)
        s->silent[s->silent_count++] = dial(p);
}

/* One byte after the other, to a plugin that would wait for a whole message. */
static void visit_slowly(struct strangers *s, const struct port *p)
{
    int fd = dial(p);

    for (int i = 0; i < SLOW_BYTES && !s->stop && fd >= 0; i++) {
        say(fd, "B", 1);
        fake_sleep_ms(10);
    }
    if (fd >= 0)
        close(fd);
}

static void *strangers_main(void *arg)
{
    struct strangers *s = arg;
    struct port ports[MAX_PORTS];

    while (!s->stop) {
        int count = find_ports(ports);

        for (int i = 0; i < count; i++)
            visit(s, &ports[i]);
        if (count) {
            s->rounds++;
            visit_slowly(s, &ports[0]);
        }
        fake_sleep_ms(1);
    }
    return NULL;
}

static void strangers_main_rank(struct fake_rank *r, void *arg)
{
    static const struct fake_traffic traffic = {
        .bytes = 200000, .steps = 40, .depth = 8, .group = 1, .vary = true};
    struct strangers s = {.r = r};
    struct fake_conn conns[MAX_CONNS];
    uint64_t start = fake_now_ns();
    int connections = 0;

    (void)arg;
    fake_rank_load(r);
    if (pthread_create(&s.thread, NULL, strangers_main, &s) != 0)
        fake_die(r, "cannot create a thread");
    /* The same number of rounds on every rank: the first one decides when it has seen enough. */
    do {
        int count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_ring);

        fake_connect_all(r, conns, count);
        fake_traffic_run(r, conns, count, &traffic);
        if (r->options->close_together)
            fake_barrier(r, r->options->ranks, "all done");
        fake_close_all(r, conns, count);
        connections++;
        if (r->rank == 0 && fake_now_ns() - start > 3 * FAKE_NS_PER_S)
            *fake_board_word(r, 3) = 1;
        fake_barrier(r, r->options->ranks, "a round with strangers");
    } while (!*fake_board_word(r, 3));
    s.stop = true;
    pthread_join(s.thread, NULL);
    for (int i = 0; i < s.silent_count; i++)
        if (s.silent[i] >= 0)
            close(s.silent[i]);
    if (!s.rounds)
        fake_skip(r, "found no listening TCP port of this process");
    fake_say(r, "%d connections were right beside %d rounds of strangers", connections,
             (int)s.rounds);
    fake_rank_unload(r);
}

static int strangers_run(const struct fake_options *options, const struct scenario *self)
{
    struct fake_options o = *options;

    (void)self;
    o.ranks = 2;
    return fake_ranks_run(&o, 0, strangers_main_rank, NULL);
}

#define SHORT_MS 1500

/* Accepts for a while without a free descriptor: it says so and sleeps. Then there are some, and the peer gets in. */
static void short_job(void *arg)
{
    struct fake_conn *c = arg;
    struct fake_rank *r = c->r;
    struct rlimit limit, none;
    uint64_t start, cpu;
    int warnings;

    fake_listen_and_post(c);
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = (rlim_t)dup(0);
    close((int)none.rlim_cur);
    setrlimit(RLIMIT_NOFILE, &none);
    *fake_board_word(r, 6) = 1;
    warnings = fake_log_warnings;
    cpu = fake_process_cpu_ns();
    for (int i = 0; i < SHORT_MS / 10; i++) {
        fake_must(r, fake_net_accept(&r->net, c->listener, &c->comm), "accept");
        if (c->comm)
            fake_die(r, "accept returned a comm without a descriptor to be had");
        fake_sleep_ms(10);
    }
    cpu = fake_process_cpu_ns() - cpu;
    warnings = fake_log_warnings - warnings;
    setrlimit(RLIMIT_NOFILE, &limit);
    fake_say(r, "without descriptors: %d warnings, %.0f ms of CPU time in %d ms", warnings,
             (double)cpu / 1e6, SHORT_MS);
    if (warnings == 0 || warnings > 10)
        fake_die(r, "%d warnings in %d ms without descriptors", warnings, SHORT_MS);
    if (cpu > SHORT_MS * 1000000ull / 4)
        fake_die(r, "%.0f ms of CPU time in %d ms without descriptors", (double)cpu / 1e6,
                 SHORT_MS);
    start = fake_now_ns();
    while (!c->comm) {
        fake_must(r, fake_net_accept(&r->net, c->listener, &c->comm), "accept");
        if (fake_late(r, start))
            fake_die(r, "no connection although there are descriptors again");
        fake_sleep_ms(1);
    }
}

static void short_main(struct fake_rank *r, void *arg)
{
    struct fake_conn conns[MAX_CONNS];
    int count;

    (void)arg;
    fake_rank_load(r);
    count = fake_conns_make(r, conns, MAX_CONNS, fake_talks_pair);
    if (r->rank == 1)
        fake_worker_run(&r->service, short_job, &conns[0]);
    while (!*fake_board_word(r, 6))
        fake_sleep_ms(1);
    if (r->rank == 0)
        fake_connect_all(r, conns, count);
    fake_barrier(r, 2, "connected");
    fake_close_all(r, conns, count);
    fake_rank_unload(r);
}

static int short_run(const struct fake_options *options, const struct scenario *self)
{
    struct fake_options o = *options;

    (void)self;
    o.ranks = 2;
    o.channels = 1;
    return fake_ranks_run(&o, 0, short_main, NULL);
}

static const struct scenario list[] = {
    {"short", "no descriptor is left for a stream that comes in, and later there are some",
     short_run, NULL, true},
    {"strangers", "garbage, short, slow and silent peers on the listening ports", strangers_run,
     NULL, false},
};

const struct scenario_table peer_scenarios = {list, FAKE_COUNT(list)};
