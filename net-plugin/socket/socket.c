/*
 * The socket transport: the operations of struct braid_transport that concern devices, connections and memory. One device for each network
 * interface; lanes are TCP streams (lane.c), bulk is helped along by a pool of threads (io.c). The template for other transports.
 */
#include "net-plugin/socket/socket.h"

#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/neighbours.h"
#include "common/param.h"
#include "common/thread.h"
#include "common/util.h"
#include "net-plugin/core/net.h"
#include "net-plugin/socket/io.h"
#include "net-plugin/socket/lane.h"
#include "net-plugin/socket/probe.h"
#include "net-plugin/socket/rails.h"
#include "net-plugin/socket/uring.h"

#define CHUNK_BYTES     (128 * 1024) /* the smallest */
#define UNSENT_BYTES    (256 * 1024)
#define MAX_DESCRIPTORS 65536
#define MAX_TRIED       8 /* streams of a connection */

struct braid_socket_plan braid_socket_plan;

/* A device: one interface, or all of them as its rails (BRAID_SOCKET_RAILS). */
struct socket_device {
    char name[64];
    int netifs[BRAID_SOCKET_RAILS];
    int count;
    int speed_Mbps;
    int numa_node; /* -1: unknown, or they differ */
    struct braid_probe probe;
};

static struct socket_device devices[BRAID_NETIF_MAX];
static int devices_count;

/* A connection's state here. */
struct socket_conn {
    int dev;
    unsigned streams;     /* agreed, besides stream 0 */
    atomic_uint reserved; /* of them, the most that were ever asked for */
    struct braid_socket_offer ours;
    struct braid_socket_route routes[BRAID_SOCKET_RAILS];
    int routes_count;
    struct braid_socket_lane *lanes;
    struct braid_stages *stages; /* once GPU memory was registered */
};

static atomic_uint reserved_streams; /* of all connections of this process */

static bool uses_cuda; /* BRAID_SOCKET_CUDA, and there is a driver */
static pthread_mutex_t stages_lock = PTHREAD_MUTEX_INITIALIZER; /* making of stages */

static unsigned online_processors(void)
{
    return MAX((unsigned)sysconf(_SC_NPROCESSORS_ONLN), braid_thread_processors());
}

/* Processors of `cpus` that are this one's of `ranks` processes on `online` processors. */
static unsigned share_of(unsigned cpus, unsigned online, unsigned ranks)
{
    return cpus / MAX((unsigned)((uint64_t)ranks * cpus / MAX(online, 1u)), 1u);
}

/*
 * The most threads: half of the processors that it may use, but not more than are this rank's share of them. On 32 processors two ranks with
 * 16 threads each moved a fifth to a third more bulk over NCCL's eight channels than with 8, for 15 to 21 % more CPU time a byte (rows of
 * nccl_sockets_sweep, `t16s2c8`, beside nccl_over_sockets at 247ce15: two runs). Threads that are not needed are not started, and sleep.
 * Ranks that were bound to different processors do not share them.
 */
unsigned braid_socket_threads_for(unsigned cpus, unsigned online, unsigned ranks)
{
    return cpus >= 6 ? MIN(MAX(MIN(share_of(cpus, online, ranks), cpus / 2), 2u), 16u) : 0;
}

unsigned braid_socket_threads_counted(unsigned cpus, unsigned online, unsigned processes)
{
    return MAX(share_of(cpus, online, processes), 2u);
}

/*
 * Where it was not told how many ranks share the processors, the processes that use Braid are counted, which are all there when bulk comes.
 * Together they have no more threads than there are processors.
 */
unsigned braid_socket_threads_now(void)
{
    static unsigned said; /* the caller holds the pool's lock */
    unsigned most = braid_socket_plan.threads, count, share;

    if (braid_socket_plan.counted_cpus == 0)
        return most;
    count = braid_neighbours_count();
    share =
        braid_socket_threads_counted(braid_socket_plan.counted_cpus, online_processors(), count);
    if (share < most && share != said) {
        BRAID_INFO(BRAID_LOG_NET,
                   "sockets: at most %u I/O threads, not %u: %u processes of this user on this "
                   "host use Braid and share its processors (BRAID_LOCAL_RANKS says how many do)",
                   share, most, count);
        said = share;
    }
    return MIN(most, share);
}

/*
 * Callers that spin and threads that copy need a processor each; where there are few, callers alone are faster. That is where trials
 * begin (probe.h), unless a setting says how many streams there are.
 */
void braid_socket_make_plan(char *text, size_t text_bytes)
{
    unsigned cpus = braid_thread_processors();
    unsigned ranks = (unsigned)braid_param_int(BRAID_P_LOCAL_RANKS);
    unsigned threads = braid_socket_threads_for(cpus, online_processors(), ranks);
    unsigned guess = cpus >= 6 ? 2 : 0;
    int64_t threads_set = braid_param_int(BRAID_P_SOCKET_THREADS);
    int64_t streams_set = braid_param_int(BRAID_P_SOCKET_STREAMS);
    bool rails = braid_param_bool(BRAID_P_SOCKET_RAILS);
    struct rlimit files;

    if (threads_set >= 0)
        threads = (unsigned)threads_set;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur > MAX_DESCRIPTORS)
        files.rlim_cur = MAX_DESCRIPTORS;
    braid_socket_plan = (struct braid_socket_plan){
        .lanes_max = (unsigned)files.rlim_cur / 2,
        .threads = threads == 0 && (rails || threads_set < 0) ? 1 : threads,
        .threads_help = threads > 0 || rails,
        .thread_bytes = (size_t)braid_param_int(BRAID_P_SOCKET_THREAD_BYTES),
        .zerocopy = (int)braid_param_int(BRAID_P_SOCKET_ZEROCOPY),
        .counted_cpus = threads_set < 0 && ranks == 0 && threads > 0 ? cpus : 0,
    };
    if (braid_socket_plan.threads > 0) { /* only they move streams for bulk */
        braid_socket_plan.guess = streams_set >= 0 ? (unsigned)streams_set : guess;
        /* Rails have streams of their own, and each stream has pinned memory where GPU memory is staged. */
        braid_socket_plan.streams =
            streams_set >= 0 || rails || braid_param_bool(BRAID_P_SOCKET_CUDA)
                ? braid_socket_plan.guess
                : MAX_TRIED;
    }
    snprintf(text, text_bytes,
             "at most %u I/O threads; streams of a connection for bulk: %u%s; %u processors, at "
             "most %u streams a process",
             braid_socket_plan.threads, braid_socket_plan.guess,
             braid_socket_plan.streams == braid_socket_plan.guess
                 ? ", fixed"
                 : " to begin with, 1 to 8 by measurement when bulk comes",
             cpus, braid_socket_plan.lanes_max);
}

void braid_socket_make_engine(char *text, size_t text_bytes)
{
    const char *engine = braid_param_str(BRAID_P_SOCKET_ENGINE);
    bool known =
        strcmp(engine, "auto") == 0 || strcmp(engine, "epoll") == 0 || strcmp(engine, "uring") == 0;
    char why[160];

    if (!known)
        BRAID_WARN("BRAID_SOCKET_ENGINE=%s is none of auto, epoll, uring; auto is used", engine);
    braid_socket_plan.uring = strcmp(engine, "uring") == 0;
    braid_socket_plan.rings = false;
    if (strcmp(engine, "epoll") == 0) {
        snprintf(text, text_bytes, "I/O threads do without io_uring (BRAID_SOCKET_ENGINE)");
        return;
    }
    braid_socket_plan.rings = braid_uring_open(why, sizeof(why));
    if (braid_socket_plan.rings)
        snprintf(text, text_bytes, "I/O threads use io_uring%s",
                 braid_socket_plan.uring ? " (BRAID_SOCKET_ENGINE)"
                                         : " where measurement says that it saves CPU time");
    else
        snprintf(text, text_bytes, "I/O threads do without io_uring: %s", why);
    if (braid_socket_plan.uring && !braid_socket_plan.rings)
        BRAID_WARN("BRAID_SOCKET_ENGINE=uring, but there is no io_uring: %s", why);
}

static void start_probe(struct socket_device *device)
{
    bool tried = braid_socket_plan.streams != braid_socket_plan.guess;
    bool rings = braid_socket_plan.rings;
    struct braid_probe_plan plan = {
        .device = device->name,
        .guess = {.streams = (uint8_t)braid_socket_plan.guess},
        .streams_min =
            (uint8_t)(tried ? MIN(braid_socket_plan.guess, 1u) : braid_socket_plan.guess),
        .streams_max = (uint8_t)braid_socket_plan.streams,
        .try_zerocopy = braid_socket_plan.zerocopy == BRAID_ZEROCOPY_TRY,
        .try_uring = rings && !braid_socket_plan.uring,
    };
    char why[100];

    plan.guess.zerocopy = braid_socket_plan.zerocopy > 0;
    plan.guess.uring = rings && braid_socket_plan.uring;
    braid_probe_init(&device->probe, &plan);
    if (braid_socket_plan.zerocopy != BRAID_ZEROCOPY_NEVER &&
        !braid_zerocopy_is_known(why, sizeof(why)))
        braid_probe_refuse(&device->probe, BRAID_PROBE_ZEROCOPY, why);
}

static void add_rail(struct socket_device *device, const struct braid_netif *netif, int index)
{
    size_t at = strlen(device->name);

    snprintf(device->name + at, sizeof(device->name) - at, "%s%s", at > 0 ? "+" : "", netif->name);
    device->numa_node =
        device->count == 0 || device->numa_node == netif->numa_node ? netif->numa_node : -1;
    device->netifs[device->count++] = index;
    device->speed_Mbps += netif->speed_Mbps;
}

static int socket_init(void)
{
    bool joined = braid_param_bool(BRAID_P_SOCKET_RAILS);
    char why[160], plan[240];
    int count;
    const struct braid_netif *netifs = braid_netifs(&count);

    braid_socket_make_plan(plan, sizeof(plan));
    BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET, "sockets: %s", plan);
    braid_neighbours_join(NULL); /* or nobody is counted */
    braid_socket_make_engine(plan, sizeof(plan));
    BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET, "sockets: %s", plan);
    braid_io_open();
    memset(devices, 0, sizeof(devices));
    devices_count = 0;
    uses_cuda = braid_param_bool(BRAID_P_SOCKET_CUDA);
    if (uses_cuda && braid_cuda_find(why, sizeof(why)) != 0) {
        BRAID_WARN("BRAID_SOCKET_CUDA=1, but there is no CUDA driver: %s", why);
        uses_cuda = false;
    }
    for (int i = 0; i < count; i++) {
        struct socket_device *device = &devices[joined ? 0 : i];
        char text[BRAID_ADDR_TEXT];
        if (device->count == BRAID_SOCKET_RAILS)
            break;
        add_rail(device, &netifs[i], i);
        devices_count = joined ? 1 : i + 1;
        BRAID_INFO(BRAID_LOG_INIT | BRAID_LOG_NET, "socket device %d: %s, %s, %d Mbit/s",
                   joined ? 0 : i, netifs[i].name,
                   braid_addr_text(&netifs[i].addrs[0], text, sizeof(text)), netifs[i].speed_Mbps);
    }
    for (int i = 0; i < devices_count; i++)
        start_probe(&devices[i]);
    return 0;
}

static void socket_fini(void)
{
    braid_io_stop();
    braid_neighbours_leave();
    braid_cuda_stop();
}

static int socket_device_count(void)
{
    return devices_count;
}

static int socket_device_props(int dev, struct braid_device_props *props)
{
    int count;
    const struct socket_device *device = &devices[dev];
    const struct braid_netif *first = &braid_netifs(&count)[device->netifs[0]];

    *props = (struct braid_device_props){
        .name = device->name,
        .pci_path = first->pci_path[0] != '\0' ? first->pci_path : NULL,
        .netif = first->name,
        .guid = (uint64_t)dev,
        .ptr_support = BRAID_PTR_HOST | (uses_cuda ? BRAID_PTR_CUDA : 0),
        .staged = uses_cuda,
        .speed_Mbps = device->speed_Mbps,
        .port = 0,
        .max_comms = 65536,
        .max_recvs = 8,
        .max_p2p_bytes = BRAID_MAX_P2P_BYTES,
        .rail_id = -1,
        .plane_id = -1,
        .devs = {dev},
        .ndevs = 1,
    };
    return 0;
}

/* -- connections ------------------------------------------------------------------------------------------------------------------ */

static int socket_offer(struct braid_conn *conn, int dev, void *offer, size_t cap)
{
    struct socket_conn *sc = calloc(1, sizeof(*sc));

    if (sc == NULL)
        return -ENOMEM;
    sc->dev = dev;
    sc->ours.streams = braid_socket_plan.streams;
    braid_rails_offer(devices[dev].netifs, devices[dev].count, &sc->ours);
    braid_conn_set_tp(conn, sc);
    memcpy(offer, &sc->ours, sizeof(sc->ours));
    return sizeof(sc->ours);
}

static int socket_agree(struct braid_conn *conn, const void *offer, size_t bytes, char *why,
                        size_t why_bytes)
{
    struct socket_conn *sc = braid_conn_tp(conn);
    struct braid_socket_offer theirs;

    if (bytes < sizeof(struct braid_socket_offer)) {
        snprintf(why, why_bytes, "malformed offer of the socket transport (%zu bytes)", bytes);
        return -EPROTO;
    }
    memcpy(&theirs, offer, sizeof(theirs));
    sc->routes_count = braid_rails_pair(&sc->ours, &theirs, sc->routes);
    sc->streams = MIN(theirs.streams, braid_socket_plan.streams);
    if (sc->routes_count > 1) /* a stream for each rail, and as many on each */
        sc->streams = MAX(sc->streams, 1u) + (unsigned)sc->routes_count - 1;
    sc->streams = MIN(sc->streams, BRAID_LANES_MAX - 1u);
    return 0;
}

static unsigned rail_of(const struct socket_conn *sc, unsigned index)
{
    return index == 0 || sc->routes_count == 0 ? 0 : (index - 1) % (unsigned)sc->routes_count;
}

/* From which address of ours to which of the peer's stream `index` goes. */
static int socket_route(struct braid_conn *conn, unsigned index, union braid_addr *source,
                        union braid_addr *peer)
{
    struct socket_conn *sc = braid_conn_tp(conn);
    const struct braid_socket_route *route;

    if (sc->routes_count == 0)
        return -EOPNOTSUPP;
    route = &sc->routes[rail_of(sc, index)];
    *source = route->source;
    *peer = route->peer;
    return 0;
}

/*
 * A stream within this host meets no congestion, but where the system's congestion control paces (BBR), a timer holds each 64 KiB back:
 * a fifth of the sender's time and up to half of the bandwidth. Any path that leaves the host keeps what the system is set to.
 */
static void skip_pacing(int fd)
{
    union braid_addr ours, peer;
    socklen_t ours_len = sizeof(ours), peer_len = sizeof(peer);

    memset(&ours, 0, sizeof(ours));
    memset(&peer, 0, sizeof(peer));
    if (getsockname(fd, &ours.sa, &ours_len) != 0 || getpeername(fd, &peer.sa, &peer_len) != 0)
        return;
    braid_addr_set_port(&ours, 0);
    braid_addr_set_port(&peer, 0);
    if (ours_len == peer_len && memcmp(&ours, &peer, ours_len) == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", sizeof("reno"));
}

static int socket_attach(struct braid_conn *conn, int fd, unsigned index)
{
    struct socket_conn *sc = braid_conn_tp(conn);
    struct braid_socket_lane *lane = braid_socket_lane_new(conn, fd, index, rail_of(sc, index));
    int err;

    if (lane == NULL) {
        close(fd);
        return -ENOMEM;
    }
    skip_pacing(fd);
    lane->probe = &devices[sc->dev].probe;
    lane->numa_node = devices[sc->dev].numa_node;
    lane->rails = sc->routes_count > 1;
    if (lane->rails && index > 0) /* what waits in the kernel cannot go another way any more */
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){UNSENT_BYTES}, sizeof(int));
    lane->next = sc->lanes;
    sc->lanes = lane;
    err = braid_conn_add_lane(conn, &lane->base);
    if (err == 0 && index > 0)
        braid_io_arm(lane);
    return err;
}

/* What the kernel may still read (an abort) it drops now, while the lane's thread is there to hear of it. */
static void let_go(struct braid_socket_lane *lane)
{
    while (!braid_lane_trylock(&lane->base))
        sched_yield();
    if (braid_zerocopy_is_busy(&lane->zerocopy)) {
        atomic_store(&lane->base.state, BRAID_LANE_FENCED);
        braid_zerocopy_abort(lane);
    }
    braid_lane_unlock(&lane->base);
}

/* Which way bulk went: what a person asks first who finds it slow. */
static void say_traffic(struct braid_conn *conn)
{
    unsigned count = braid_conn_lanes(conn);
    char text[240] = "";
    uint64_t all = 0;
    size_t at = 0;

    if (!braid_conn_is_sender(conn))
        return;
    for (unsigned i = 0; i < count; i++) {
        uint64_t bytes = atomic_load(&braid_conn_lane(conn, i)->put_bytes);
        all += bytes;
        if (at < sizeof(text))
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.1f", i > 0 ? ", " : "",
                                   (double)bytes / (1024 * 1024));
    }
    if (all > 0)
        BRAID_INFO(BRAID_LOG_NET, "sockets: chunks sent to %s: %s MiB on streams 0 to %u",
                   braid_conn_peer(conn), text, count - 1);
}

static void socket_detach(struct braid_conn *conn)
{
    struct socket_conn *sc = braid_conn_tp(conn);
    struct braid_socket_lane *lane, *next;

    if (sc == NULL)
        return;
    /*
     * An I/O thread that moves one lane may look at another, and arm it. So first no lane can be armed any more, then all leave
     * their threads, which waits for whoever moves one, then those leave that were being armed meanwhile; only then they are freed.
     */
    for (lane = sc->lanes; lane != NULL; lane = lane->next) {
        atomic_store(&lane->io_gone, true);
        let_go(lane);
    }
    say_traffic(conn);
    for (int pass = 0; pass < 2; pass++)
        for (lane = sc->lanes; lane != NULL; lane = lane->next)
            braid_io_remove(lane);
    for (lane = sc->lanes; lane != NULL; lane = next) {
        next = lane->next;
        braid_socket_lane_free(lane);
    }
    braid_stages_free(sc->stages);
    atomic_fetch_sub(&reserved_streams, atomic_load(&sc->reserved));
    free(sc);
    braid_conn_set_tp(conn, NULL);
}

static void socket_describe(struct braid_conn *conn, char *buf, size_t buf_bytes)
{
    struct socket_conn *sc = braid_conn_tp(conn);

    snprintf(buf, buf_bytes, "TCP over %s", devices[sc->dev].name);
}

/* -- memory ------------------------------------------------------------------------------------------------------------------------ */

unsigned braid_socket_streams(const struct braid_conn *conn)
{
    const struct socket_conn *sc = braid_conn_tp(conn);

    return sc->streams;
}

struct braid_stage *braid_socket_stage(const struct braid_conn *conn, unsigned index)
{
    const struct socket_conn *sc = braid_conn_tp(conn);

    return &sc->stages->stage[index];
}

/* GPU memory: the connection gets its pinned pieces with the first registration, which NCCL makes before it sends. */
static int stage_conn(struct braid_conn *conn, struct braid_gpu *gpu)
{
    struct socket_conn *sc = braid_conn_tp(conn);
    size_t bytes = (size_t)braid_param_int(BRAID_P_SOCKET_STAGE_BYTES) / BRAID_STAGE_PIECES;

    pthread_mutex_lock(&stages_lock);
    if (sc->stages == NULL)
        sc->stages = braid_stages_new(gpu, sc->streams + 1, bytes & ~(size_t)4095);
    pthread_mutex_unlock(&stages_lock);
    return sc->stages != NULL ? 0 : -ENOMEM;
}

static int socket_mr_reg(struct braid_mr *mr)
{
    struct braid_gpu *gpu;
    char why[160] = "no pinned memory left";
    int err;

    if (mr->type == BRAID_PTR_HOST)
        return 0;
    if (mr->type != BRAID_PTR_CUDA)
        return -EOPNOTSUPP;
    err = braid_gpu_of(mr->addr, &gpu, why, sizeof(why));
    if (err == 0)
        err = stage_conn(mr->conn, gpu);
    if (err != 0)
        BRAID_WARN("cannot stage GPU memory at %p for sockets: %s", mr->addr, why);
    else
        mr->tp = gpu;
    return err;
}

static void socket_mr_dereg(struct braid_mr *mr)
{
}

/*
 * Whether the process has descriptors for `streams` of this connection, `missing` of which do not exist yet. What is asked for counts until
 * the connection ends, since others ask before it is there. Half of what bulk may have is for what peers open towards this process.
 */
static bool reserve_streams(struct socket_conn *sc, unsigned streams, unsigned missing)
{
    unsigned had = atomic_load_explicit(&sc->reserved, memory_order_relaxed), more;

    if (streams <= had)
        return true;
    more = streams - had;
    if (atomic_load_explicit(&braid_socket_lanes, memory_order_relaxed) + missing >
            braid_socket_plan.lanes_max ||
        atomic_load_explicit(&reserved_streams, memory_order_relaxed) + more >
            braid_socket_plan.lanes_max / 2)
        return false;
    if (atomic_fetch_add(&reserved_streams, more) + more > braid_socket_plan.lanes_max / 2 ||
        !atomic_compare_exchange_strong(&sc->reserved, &had, streams)) {
        atomic_fetch_sub(&reserved_streams, more);
        return false; /* no room, or another thread was here: the next kick looks again */
    }
    return true;
}

static struct braid_socket_lane *lane_at(const struct braid_conn *conn, unsigned i)
{
    return (struct braid_socket_lane *)braid_conn_lane(conn, i);
}

/*
 * Wakes as many streams below `count` as there are chunks that wait and nobody has been called for. One that is at a chunk already would be
 * late, and one whose socket is full will be told by it.
 */
static void arm_few(struct braid_conn *conn, unsigned count)
{
    uint64_t wanted = (braid_conn_put_bytes(conn) + CHUNK_BYTES - 1) / CHUNK_BYTES;

    for (unsigned i = 1; i < count && wanted > 0; i++)
        wanted -= atomic_load(&lane_at(conn, i)->io_called);
    for (unsigned i = 1; i < count && wanted > 0; i++) {
        struct braid_socket_lane *lane = lane_at(conn, i);
        if (atomic_load(&lane->io_armed) || atomic_load(&lane->io_full))
            continue;
        braid_io_arm(lane);
        wanted--;
    }
}

/*
 * Bulk waits: the streams for it are made when it comes for the first time, and their threads woken. Stream 0 asks for help itself. With
 * rails all are woken, because some of them may find that they had better leave it to others.
 */
static bool socket_kick(struct braid_lane *base)
{
    struct braid_socket_lane *first = (struct braid_socket_lane *)base;
    struct braid_conn *conn = base->conn;
    struct socket_conn *sc = braid_conn_tp(conn);
    unsigned count = braid_conn_lanes(conn), streams = sc->streams;

    if (braid_socket_plan.threads == 0 ||
        braid_conn_put_bytes(conn) <= braid_socket_plan.thread_bytes)
        return false;
    if (!first->rails)
        streams = MIN(streams, braid_probe_choice(first->probe).streams);
    if (streams < count || reserve_streams(sc, streams, streams + 1 - count))
        braid_conn_want_streams(conn, streams);
    count = MIN(count, streams + 1);
    if (!first->rails)
        arm_few(conn, count);
    for (unsigned i = 1; i < count && first->rails; i++)
        braid_io_arm(lane_at(conn, i));
    return count > 1;
}

static void socket_drain(struct braid_lane *base)
{
    int unread = 0;

    if (ioctl(((struct braid_socket_lane *)base)->fd, FIONREAD, &unread) == 0 && unread > 0)
        braid_socket_progress(base, BRAID_EAGER_WINDOW);
}

const struct braid_transport braid_socket_transport = {
    .name = "Socket",
    .id = 1,
    .flags = BRAID_T_STREAM | BRAID_T_STAGES_GPU,
    .init = socket_init,
    .fini = socket_fini,
    .device_count = socket_device_count,
    .device_props = socket_device_props,
    .device_fuse = braid_no_device_fuse,
    .offer = socket_offer,
    .agree = socket_agree,
    .route = socket_route,
    .attach = socket_attach,
    .detach = socket_detach,
    .describe = socket_describe,
    .mr_reg = socket_mr_reg,
    .mr_dereg = socket_mr_dereg,
    .mr_describe = braid_no_mr_describe,
    .mr_learn = braid_no_mr_learn,
    .flush = braid_no_flush,
    .flush_test = braid_no_flush_test,
    .control = braid_socket_control,
    .put = braid_no_put,
    .push = braid_socket_push,
    .progress = braid_socket_progress,
    .kick = socket_kick,
    .fence = braid_socket_fence,
    .drain = socket_drain,
    .lane_state = braid_socket_lane_state,
};
