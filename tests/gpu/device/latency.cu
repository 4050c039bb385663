/*
 * Latency of the primitives beside their bare counterparts: ping-pong of one thread each (half a round trip is "one way"), and
 * barriers of one CTA each. Bare and Braid alternate in one run and use the same words, timed inside the kernel by the GPU's nanosecond
 * clock after a warm-up, median of RUNS; messages use words at another place in every run. What is written here by hand in PTX is the
 * counterpart: the least that could work, without any bound.
 */
#include "tests/gpu/device/harness.h"

#define CTA    128 /* threads of the modes that are a CTA's */
#define RUNS   16
#define WARM   200
#define SEEN   1024
#define ROUNDS 4000

static __device__ __forceinline__ void bare_release(void *p, uint64_t v)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

static __device__ __forceinline__ uint64_t bare_acquire(const void *p)
{
    uint64_t v;

    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

/* Bare waits end after so many polls (a second or more), so that a broken run does not hang; the count hides behind the load. */
#define BARE_POLLS 4000000u

static __device__ __forceinline__ void bare_wait(const void *p, uint64_t least)
{
    for (uint32_t polls = 0; bare_acquire(p) < least && polls < BARE_POLLS; polls++)
        ;
}

static __device__ __forceinline__ void bare_store16(void *p, uint64_t a, uint64_t b)
{
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(a), "l"(b) : "memory");
}

static __device__ __forceinline__ void bare_load16(const void *p, uint64_t *a, uint64_t *b)
{
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(*a), "=l"(*b)
                 : "l"(p)
                 : "memory");
}

/*
 * Where the words of a message lie in both ranks' windows. A word's place in the L2 cache is worth up to 0.1 us, so bare and Braid use the
 * same words, and every run another place: signal 0 of the communicator that the kernels get is the word at `flag`.
 */
struct place {
    uint32_t flag, data, packet;
};

enum mode {
    BARE_PACKET,
    PACKET,
    BARE_SIGNAL,
    SIGNAL_SET,
    SIGNAL_ADD,
    BARE_PUT,   /* 8 bytes, then a release flag */
    BARE_AGAIN, /* the same kernel later in the run: what of a difference is noise */
    PUT_SIGNAL, /* put_value_signal, set */
    PUT_SIGNAL_ADD,
    PUT_MEMORY,   /* put_signal of 8 bytes from memory */
    BOUNDED_WAIT, /* the bare send, Braid's wait */
    TILE,         /* put_value and tile_ready, tile_wait */
    BARE_WARP,    /* BARE_PUT of a warp: lane 0 sends, all lanes wait */
    TILE_WARP,
    BARE_CTA, /* of 128 threads: thread 0 sends, warp 0 waits */
    TILE_CTA,
    MODES
};

template <int MODE>
static __device__ __forceinline__ void send(const struct braid_devcomm *c,
                                            const struct braid_devwin *w, const struct place *p,
                                            int peer, uint8_t *to, uint64_t *src, uint64_t i)
{
    const struct braid_tiles tiles = {p->flag, 1, 1};

    if (MODE == BARE_PACKET) {
        bare_store16(to + p->packet, i * 3, i);
    } else if (MODE == PACKET) {
        braid_packet_store_thread(to + p->packet, i * 3, (uint32_t)i);
    } else if (MODE == BARE_SIGNAL) {
        bare_release(to + p->flag, i);
    } else if (MODE == SIGNAL_SET) {
        braid_signal_thread(c, peer, 0, BRAID_SIGNAL_SET, i);
    } else if (MODE == SIGNAL_ADD) {
        braid_signal_thread(c, peer, 0, BRAID_SIGNAL_ADD, 1);
    } else if (MODE == BARE_PUT || MODE == BARE_AGAIN || MODE == BOUNDED_WAIT) {
        *(volatile uint64_t *)(to + p->data) = i * 3;
        bare_release(to + p->flag, i);
    } else if (MODE == PUT_SIGNAL) {
        braid_put_value_signal_thread(c, w, peer, p->data, i * 3, 8, 0, BRAID_SIGNAL_SET, i);
    } else if (MODE == PUT_SIGNAL_ADD) {
        braid_put_value_signal_thread(c, w, peer, p->data, i * 3, 8, 0, BRAID_SIGNAL_ADD, 1);
    } else if (MODE == PUT_MEMORY) {
        *src = i * 3;
        braid_put_signal_thread(c, w, peer, p->data, src, 8, 0, BRAID_SIGNAL_SET, i);
    } else if (MODE == BARE_WARP || MODE == BARE_CTA) {
        if (MODE == BARE_CTA)
            __syncthreads();
        else
            __syncwarp();
        if (threadIdx.x == 0) {
            *(volatile uint64_t *)(to + p->data) = i * 3;
            bare_release(to + p->flag, i);
        }
    } else if (MODE == TILE_WARP) {
        if (threadIdx.x == 0)
            braid_put_value_thread(c, w, peer, p->data, i * 3, 8);
        braid_tile_ready_warp(c, w, &tiles, peer, 0, (uint32_t)i);
    } else if (MODE == TILE_CTA) {
        if (threadIdx.x == 0)
            braid_put_value_thread(c, w, peer, p->data, i * 3, 8);
        braid_tile_ready_cta(c, w, &tiles, peer, 0, (uint32_t)i);
    } else {
        braid_put_value_thread(c, w, peer, p->data, i * 3, 8);
        braid_tile_ready_thread(c, w, &tiles, peer, 0, (uint32_t)i);
    }
}

template <int MODE>
static __device__ __forceinline__ uint64_t receive(const struct braid_devcomm *c,
                                                   const struct braid_devwin *w,
                                                   const struct place *p, const uint8_t *at,
                                                   uint64_t i, uint32_t *bad)
{
    const struct braid_tiles tiles = {p->flag, 1, 1};
    uint64_t a = 0, b = 0;

    if (MODE == BARE_PACKET) {
        for (uint32_t polls = 0; b != i && polls < BARE_POLLS; polls++)
            bare_load16(at + p->packet, &a, &b);
        return a;
    }
    if (MODE == PACKET) {
        *bad += braid_packet_load_thread(c, at + p->packet, (uint32_t)i, &a, -1, 0) != 0;
        return a;
    }
    if (MODE == BARE_SIGNAL || MODE == BARE_PUT || MODE == BARE_AGAIN || MODE == BARE_WARP) {
        bare_wait(at + p->flag, i);
        if (MODE == BARE_WARP)
            __syncwarp();
    } else if (MODE == BARE_CTA) {
        if (braid_ptx_any_active(threadIdx.x < BRAID_WARP_THREADS))
            bare_wait(at + p->flag, i);
        __syncthreads();
    } else if (MODE == TILE) {
        *bad += braid_tile_wait_thread(c, w, &tiles, 0, (uint32_t)i) != 0;
    } else if (MODE == TILE_WARP) {
        *bad += braid_tile_wait_warp(c, w, &tiles, 0, (uint32_t)i) != 0;
    } else if (MODE == TILE_CTA) {
        *bad += braid_tile_wait_cta(c, w, &tiles, 0, (uint32_t)i) != 0;
    } else {
        *bad += braid_wait_signal_thread(c, 0, i) != 0;
    }
    if (MODE == BARE_SIGNAL || MODE == SIGNAL_SET || MODE == SIGNAL_ADD)
        return i * 3;
    return *(const volatile uint64_t *)(at + p->data);
}

/*
 * Values base + 1 .. base + WARM + ROUNDS, so that launches need no reset. *ns = time of ROUNDS round trips at the first rank.
 * The second rank puts what it has read into memory after its send and looks at it in the end: if it looked at once, the compiler would
 * wait for what is read before the send, in some modes and not in others: 0.1 us.
 */
template <int MODE>
__global__ void ping_pong(const __grid_constant__ struct braid_devcomm c,
                          const __grid_constant__ struct braid_devwin w,
                          const __grid_constant__ struct place p, uint64_t base, uint64_t *src,
                          uint64_t *ns, struct verdict *v)
{
    int peer = c.world.rank ^ 1, first = c.world.rank == 0;
    uint8_t *to = (uint8_t *)braid_window_pointer(&w, peer, 0);
    const uint8_t *at = (const uint8_t *)w.local;
    volatile uint64_t *seen = src + 64;
    uint64_t begin = 0, x;
    uint32_t bad = 0, wrong_values = 0;

    for (uint64_t i = base + 1; i <= base + WARM + ROUNDS && bad + wrong_values == 0; i++) {
        if (i == base + WARM + 1)
            begin = braid_ptx_now_ns();
        if (first) {
            send<MODE>(&c, &w, &p, peer, to, src, i);
            x = receive<MODE>(&c, &w, &p, at, i, &bad);
        } else {
            x = receive<MODE>(&c, &w, &p, at, i, &bad);
            send<MODE>(&c, &w, &p, peer, to, src, i);
            seen[i % SEEN] = x;
            x = i * 3;
        }
        wrong_values += x != i * 3;
    }
    for (uint64_t i = base + WARM + ROUNDS; !first && bad == 0 && i > base + WARM + ROUNDS - SEEN;
         i--)
        wrong_values += seen[i % SEEN] != i * 3;
    *ns = braid_ptx_now_ns() - begin;
    SEE(v, 0, MODE, 0, bad);
    SEE(v, 1, MODE, 0, wrong_values);
}

enum barrier_mode { BARE_BARRIER, SESSION, ONE_CALL };

/* No bound, no status, no loops over peers. */
static __device__ __forceinline__ void bare_barrier(struct braid_barrier *b)
{
    b->epoch++;
    __syncthreads();
    if (threadIdx.x < BRAID_WARP_THREADS && b->tell != 0) {
        braid_ptx_store_release_sys_u32((void *)b->tell, b->epoch);
        for (uint32_t polls = 0;
             !braid_reached_u32(braid_ptx_load_acquire_sys_u32((const void *)b->hear), b->epoch) &&
             polls < BARE_POLLS;
             polls++)
            ;
    }
    __syncthreads();
}

/* All modes use the words and epochs of slot 0: a word's place in the L2 cache is worth up to 0.1 us. */
template <int MODE>
__global__ void barriers(const __grid_constant__ struct braid_devcomm c, uint64_t *ns,
                         struct verdict *v)
{
    struct braid_barrier b = braid_barrier_open(&c, 0);
    uint64_t begin = 0;
    int bad = 0;

    for (int i = 0; i < WARM + ROUNDS && !bad; i++) {
        if (i == WARM && threadIdx.x == 0)
            begin = braid_ptx_now_ns();
        if (MODE == BARE_BARRIER)
            bare_barrier(&b);
        else if (MODE == SESSION)
            bad = braid_barrier_sync_cta(&c, &b);
        else
            bad = braid_barrier_cta(&c, 0);
    }
    if (MODE != ONE_CALL)
        braid_barrier_close_cta(&c, &b);
    if (threadIdx.x == 0) {
        *ns = braid_ptx_now_ns() - begin;
        SEE(v, 0, MODE, 0, bad);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

struct sample {
    double us[RUNS];
};

static void finish(struct sample *s)
{
    qsort(s->us, RUNS, sizeof(s->us[0]), by_value);
}

static void result(struct rank *r, const char *name, const struct sample *s,
                   const struct sample *bare)
{
    if (r->rank == 0)
        measured(r, name, s->us[RUNS / 2], s->us[RUNS / 4], s->us[RUNS * 3 / 4],
                 bare ? bare->us[RUNS / 2] : 0, RUNS);
}

/* One measurement: all ranks meet, launch, and the first reads its clock. `trips` one-way messages in a round. */
static double once(struct rank *r, uint64_t *ns, double trips)
{
    uint64_t took = 0;

    settle(r, 30, 1);
    CUDA(r, cudaMemcpy(&took, ns, sizeof(took), cudaMemcpyDeviceToHost));
    return (double)took * 1e-3 / ROUNDS / trips;
}

struct messages {
    struct braid_devcomm c;
    struct place place;
    uint64_t base; /* of the next launch */
};

template <int MODE> static double ping(struct rank *r, struct messages *m)
{
    int threads = MODE == BARE_CTA || MODE == TILE_CTA     ? CTA
                  : MODE == BARE_WARP || MODE == TILE_WARP ? BRAID_WARP_THREADS
                                                           : 1;
    uint64_t *ns = (uint64_t *)(r->dst + 4096);

    EXPECT(r, braid_comm_sync(r->comm) == 0);
    ping_pong<MODE><<<1, threads, 0, r->stream>>>(m->c, *r->w, m->place, m->base,
                                                  (uint64_t *)r->src, ns, r->verdict);
    m->base += WARM + ROUNDS;
    return once(r, ns, 2);
}

template <int MODE> static double meet(struct rank *r, int threads)
{
    uint64_t *ns = (uint64_t *)(r->dst + 4096);

    EXPECT(r, braid_comm_sync(r->comm) == 0);
    barriers<MODE><<<1, threads, 0, r->stream>>>(*r->c, ns, r->verdict);
    return once(r, ns, 1);
}

static void clear(struct rank *r)
{
    CUDA(r, cudaMemsetAsync(braid_window_address(r->window, r->rank), 0, 1 << 20, r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    EXPECT(r, braid_comm_sync(r->comm) == 0);
}

/* The words of run `run`: nothing has used them before. */
static struct messages messages_at(struct rank *r, int run)
{
    struct messages m;

    m.place.flag = (uint32_t)run * 331 * 128;
    m.place.data = (4u << 20) + (uint32_t)run * 577 * 128;
    m.place.packet = m.place.flag + 128;
    m.base = 0;
    m.c = *r->c;
    m.c.control = *r->w;
    m.c.signals = r->w->local + m.place.flag;
    m.c.signals_offset = m.place.flag;
    return m;
}

/* What a mode takes beyond bare in the same run. */
static void cost(struct rank *r, const char *name, const struct sample *s,
                 const struct sample *bare, const struct sample *again)
{
    struct sample d;

    for (int run = 0; run < RUNS; run++)
        d.us[run] = s->us[run] - (bare->us[run] + again->us[run]) / 2;
    finish(&d);
    result(r, name, &d, NULL);
}

static void messages_case(struct rank *r)
{
    static struct sample s[MODES];

    CUDA(r, cudaMemsetAsync(braid_window_address(r->window, r->rank), 0, WINDOW_BYTES, r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    for (int run = 0; run < RUNS && r->report->failed == 0; run++) {
        struct messages m = messages_at(r, run);

        s[BARE_PACKET].us[run] = ping<BARE_PACKET>(r, &m);
        s[PACKET].us[run] = ping<PACKET>(r, &m);
        s[BARE_SIGNAL].us[run] = ping<BARE_SIGNAL>(r, &m);
        s[SIGNAL_SET].us[run] = ping<SIGNAL_SET>(r, &m);
        s[SIGNAL_ADD].us[run] = ping<SIGNAL_ADD>(r, &m);
        s[BARE_PUT].us[run] = ping<BARE_PUT>(r, &m);
        s[PUT_SIGNAL].us[run] = ping<PUT_SIGNAL>(r, &m);
        s[PUT_SIGNAL_ADD].us[run] = ping<PUT_SIGNAL_ADD>(r, &m);
        s[PUT_MEMORY].us[run] = ping<PUT_MEMORY>(r, &m);
        s[BOUNDED_WAIT].us[run] = ping<BOUNDED_WAIT>(r, &m);
        s[TILE].us[run] = ping<TILE>(r, &m);
        s[BARE_WARP].us[run] = ping<BARE_WARP>(r, &m);
        s[TILE_WARP].us[run] = ping<TILE_WARP>(r, &m);
        s[BARE_CTA].us[run] = ping<BARE_CTA>(r, &m);
        s[TILE_CTA].us[run] = ping<TILE_CTA>(r, &m);
        s[BARE_AGAIN].us[run] = ping<BARE_AGAIN>(r, &m);
    }
    cost(r, "bare/beyond_bare:lat_us", &s[BARE_PUT], &s[BARE_PUT], &s[BARE_AGAIN]);
    cost(r, "put_signal/8/beyond_bare:lat_us", &s[PUT_SIGNAL], &s[BARE_PUT], &s[BARE_AGAIN]);
    cost(r, "bounded_wait/beyond_bare:lat_us", &s[BOUNDED_WAIT], &s[BARE_PUT], &s[BARE_AGAIN]);
    cost(r, "tile/8/beyond_bare:lat_us", &s[TILE], &s[BARE_PUT], &s[BARE_AGAIN]);
    for (int m = 0; m < MODES; m++)
        finish(&s[m]);
    result(r, "packet:lat_us", &s[PACKET], &s[BARE_PACKET]);
    result(r, "signal/set:lat_us", &s[SIGNAL_SET], &s[BARE_SIGNAL]);
    result(r, "signal/add:lat_us", &s[SIGNAL_ADD], &s[BARE_SIGNAL]);
    result(r, "put_signal/8:lat_us", &s[PUT_SIGNAL], &s[BARE_PUT]);
    result(r, "put_signal/8/add:lat_us", &s[PUT_SIGNAL_ADD], &s[BARE_PUT]);
    result(r, "put_signal/8/from_memory:lat_us", &s[PUT_MEMORY], &s[BARE_PUT]);
    result(r, "bounded_wait:lat_us", &s[BOUNDED_WAIT], &s[BARE_PUT]);
    result(r, "tile/8:lat_us", &s[TILE], &s[BARE_PUT]);
    result(r, "tile/8/warp:lat_us", &s[TILE_WARP], &s[BARE_WARP]);
    result(r, "tile/8/cta:lat_us", &s[TILE_CTA], &s[BARE_CTA]);
}

static void barriers_case(struct rank *r)
{
    static struct sample bare[2], session[2], one[2];
    static const int threads[2] = {128, 1024};
    char name[40];

    clear(r);
    for (int run = 0; run < RUNS && r->report->failed == 0; run++) {
        for (int k = 0; k < 2; k++) {
            bare[k].us[run] = meet<BARE_BARRIER>(r, threads[k]);
            session[k].us[run] = meet<SESSION>(r, threads[k]);
            one[k].us[run] = meet<ONE_CALL>(r, threads[k]);
        }
    }
    for (int k = 0; k < 2; k++) {
        finish(&bare[k]);
        finish(&session[k]);
        finish(&one[k]);
        snprintf(name, sizeof(name), "barrier/%d%s:lat_us", r->ranks, k ? "/1024_threads" : "");
        result(r, name, &session[k], &bare[k]);
        snprintf(name, sizeof(name), "barrier/%d/one_call%s:lat_us", r->ranks, k ? "/1024" : "");
        result(r, name, &one[k], &bare[k]);
    }
}

const struct test_case latency_cases[] = {
    {"latency/messages", messages_case, 2, 60, 5000, 1, "", CASE_LATENCY},
    {"latency/barrier", barriers_case, 2, 60, 5000, 1, "", CASE_LATENCY},
    {NULL, NULL, 0, 0, 0, 0, NULL, 0},
};
