/*
 * The device operations themselves, compiled for the host: ranks are communicators of one process on the fake CUDA driver, kernels are
 * grids of POSIX threads. Under ThreadSanitizer (preset tsan) every missing release or acquire is a reported race, because data
 * accesses are plain. All epochs start just below the 32-bit wrap.
 */
#include "tests/unit/cmocka_all.h"

#define BRAID_PTX_LAYER     "tests/unit/device/host_layer.h"
#define BRAID_DEVICE_CHECKS 1
#include "braid/device.cuh"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "tests/gpu/device/boot.h"
#include "tests/unit/device/fake_cuda.h"
#include "tests/unit/device/host_grid.h"

#define MAX_RANKS   6
#define FIRST_EPOCH 0xfffffffcu
#define ROUNDS      9
#define BYTES       8192

/* One rank of a scenario, and what its kernel gets. */
struct rank {
    const struct braid_devcomm *c;
    const struct braid_devwin *w;
    void (*kernel)(void *);
    struct braid_comm *comm;
    struct braid_window *window;
    struct boot boot;
    uint32_t ctas, threads, launches;
    uint64_t timeout_ns;
    int bad; /* line of the first wrong value, 0 = none */
    int status;
    uint8_t src[BYTES], dst[BYTES];
};

#define EXPECT(r, condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __atomic_store_n(&(r)->bad, __LINE__, __ATOMIC_RELAXED);                               \
    } while (0)

static void *rank_main(void *argument)
{
    struct rank *r = argument;
    struct braid_bootstrap callbacks = boot_callbacks(&r->boot);
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;

    config.device = r->boot.rank % 2;
    config.signals = 64;
    config.barriers = 16;
    config.slots = 16;
    config.timeout_ns = r->timeout_ns;
    config.first_epoch = FIRST_EPOCH;
    if (braid_comm_create(&r->comm, &callbacks, &config) != 0 ||
        braid_window_alloc(r->comm, 1 << 20, &r->window) != 0)
        abort();
    r->c = braid_comm_device(r->comm);
    r->w = braid_window_device(r->window);
    for (uint32_t i = 0; i < r->launches && r->kernel != NULL; i++)
        host_grid_run(r->kernel, r, r->ctas, r->threads);
    braid_comm_sync(r->comm);
    return NULL;
}

/* Runs `kernel` on all ranks; `missing` is a rank that launches nothing, -1 for none. */
static void run(struct rank *ranks, int n, void (*kernel)(void *), uint32_t ctas, uint32_t threads,
                uint32_t launches, uint64_t timeout_ns, int missing)
{
    struct boot_area *area = boot_area_new(n);
    pthread_t ids[MAX_RANKS];

    for (int i = 0; i < n; i++) {
        memset(&ranks[i], 0, sizeof(ranks[i]));
        ranks[i].boot = (struct boot){.area = area, .rank = i, .timeout_ms = 60000};
        ranks[i].kernel = i == missing ? NULL : kernel;
        ranks[i].ctas = ctas;
        ranks[i].threads = threads;
        ranks[i].launches = launches;
        ranks[i].timeout_ns = timeout_ns;
    }
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, rank_main, &ranks[i]), 0);
    for (int i = 0; i < n; i++)
        pthread_join(ids[i], NULL);
    boot_area_free(area);
}

static void finish(struct rank *ranks, int n, int healthy)
{
    char text[256];
    struct braid_devcomm_error reason;

    for (int i = 0; i < n; i++) {
        if (healthy && braid_comm_error(ranks[i].comm, &reason) != 0)
            print_message("rank %d: %s\n", i, braid_comm_error_text(&reason, text, sizeof(text)));
        if (healthy)
            assert_int_equal(braid_comm_error(ranks[i].comm, NULL), 0);
        assert_int_equal(ranks[i].bad, 0);
    }
    for (int i = 0; i < n; i++)
        assert_int_equal(braid_comm_destroy(ranks[i].comm), 0);
}

static uint8_t pattern(uint32_t rank, uint32_t round, uint32_t i)
{
    return (uint8_t)(rank * 31 + round * 7 + i * 3 + (i >> 8));
}

/* A ring: data to the right neighbour with a signal, room for the next one back to the left with another. */
static void ring_kernel(void *argument)
{
    struct rank *r = argument;
    int n = r->c->world.ranks, me = r->c->world.rank;
    int right = (me + 1) % n, left = (me + n - 1) % n;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t bytes = round == 3 ? 0 : 1 + (round * 977 + 13) % 3000;
        uint32_t at = round % 5 * 3, from = round % 7;
        uint8_t *in = braid_window_local(r->w, at);

        for (uint32_t i = braid_ptx_thread(); i < bytes; i += braid_ptx_threads())
            r->src[from + i] = pattern((uint32_t)me, round, i);
        if (round > 0)
            EXPECT(r, braid_take_signal_cta(r->c, 1, 1) ==
                          0); /* the neighbour has read the last one */
        braid_ptx_sync_cta();
        braid_put_signal_cta(r->c, r->w, right, at, r->src + from, bytes, 0, BRAID_SIGNAL_ADD, 1);
        EXPECT(r, braid_take_signal_cta(r->c, 0, 1) == 0);
        for (uint32_t i = braid_ptx_thread(); i < bytes; i += braid_ptx_threads())
            EXPECT(r, in[i] == pattern((uint32_t)left, round, i));
        braid_signal_cta(r->c, left, 1, BRAID_SIGNAL_ADD, 1);
    }
    EXPECT(r, braid_take_signal_cta(r->c, 1, 1) == 0);
}

static void test_put_signal(void **state)
{
    static struct rank ranks[MAX_RANKS];

    run(ranks, 2, ring_kernel, 1, 8, 3, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 2, 1);
    run(ranks, 3, ring_kernel, 1, 4, 2, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 3, 1);
    run(ranks, 1, ring_kernel, 1, 8, 2, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 1, 1);
}

/* Every CTA tells every rank a number, and reads everybody's after a barrier of its own slot; with sessions and without. */
static void barrier_kernel(void *argument)
{
    struct rank *r = argument;
    uint32_t block = braid_ptx_block(), n = (uint32_t)r->c->world.ranks;
    struct braid_barrier b = braid_barrier_open(r->c, block);

    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t row = (uint64_t)block * 4096 + round % 2 * 64;

        for (uint32_t p = braid_ptx_thread(); p < n; p += braid_ptx_threads())
            braid_put_value_thread(r->c, r->w, (int)p, row + 4u * (uint32_t)r->c->world.rank,
                                   round * 100 + (uint32_t)r->c->world.rank, 4);
        if (round % 3 == 0)
            EXPECT(r, braid_barrier_cta(r->c, 8 + block) == 0);
        else
            EXPECT(r, braid_barrier_sync_cta(r->c, &b) == 0);
        for (uint32_t p = braid_ptx_thread(); p < n; p += braid_ptx_threads())
            EXPECT(r, *(uint32_t *)braid_window_local(r->w, row + 4 * p) == round * 100 + p);
    }
    EXPECT(r, braid_barrier_sync_cta(r->c, &b) ==
                  0); /* two rows in turn: the last round must be read, too */
    braid_barrier_close_cta(r->c, &b);
    if (block == 0 && braid_ptx_thread() < BRAID_WARP_THREADS)
        EXPECT(r, braid_barrier_warp(r->c, 14) == 0);
    if (block == 0 && braid_ptx_thread() == 0) {
        EXPECT(r, braid_barrier_thread(r->c, 15) == 0);
        EXPECT(r, braid_barrier_thread(r->c, 15) == 0);
    }
}

static void test_barrier(void **state)
{
    static struct rank ranks[MAX_RANKS];

    run(ranks, 2, barrier_kernel, 2, 8, 3, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 2, 1);
    run(ranks, 4, barrier_kernel, 1, 4, 2, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 4, 1);
    run(ranks, 6, barrier_kernel, 1, 4, 2, 60 * BRAID_NS_PER_S, -1); /* more peers than lanes */
    finish(ranks, 6, 1);
    run(ranks, 1, barrier_kernel, 1, 4, 1, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 1, 1);
}

/* Two warps meet by a signal that each takes: every lane polls and reads, lane 0 remembers. Two places in turn. */
static void warp_kernel(void *argument)
{
    struct rank *r = argument;
    const struct braid_tiles tiles = {516 * 1024, 1, 1};
    uint32_t epoch = braid_epoch_begin(r->c, 6);
    int peer = r->c->world.rank ^ 1;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t at = 515 * 1024 + round % 2 * 8, value = epoch * 1000ull + round;

        if (braid_ptx_lane() == 0)
            braid_put_value_thread(r->c, r->w, peer, at, value, 8);
        braid_signal_warp(r->c, peer, 11, BRAID_SIGNAL_ADD, 2);
        EXPECT(r, braid_take_signal_warp(r->c, 11, 1) == 0);
        EXPECT(r, braid_take_signal_warp(r->c, 11, 1) == 0);
        EXPECT(r, *(uint64_t *)braid_window_local(r->w, at) == value);
    }
    braid_tile_ready_warp(r->c, r->w, &tiles, peer, 0, epoch - FIRST_EPOCH + 1);
    EXPECT(r, braid_tile_wait_warp(r->c, r->w, &tiles, 0, epoch - FIRST_EPOCH + 1) == 0);
    EXPECT(r, braid_wait_signal_warp(r->c, 11, 2 * ROUNDS) == 0);
    braid_epoch_end_cta(r->c, 6);
}

static void test_warps(void **state)
{
    static struct rank ranks[MAX_RANKS];

    run(ranks, 2, warp_kernel, 1, BRAID_WARP_THREADS, 5, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 2, 1);
}

/* Two CTAs produce halves of a peer's tiles (counted tiles); the consumer frees them with a plain tile set the other way. */
#define TILES      3
#define TILE_BYTES 520

static void tile_kernel(void *argument)
{
    struct rank *r = argument;
    const struct braid_tiles full = {512 * 1024, TILES, 2}, empty = {513 * 1024, TILES, 1};
    uint32_t block = braid_ptx_block(), epoch = braid_epoch_begin(r->c, 2);
    /* The words start at 0 and the first generation must be 1. */
    uint32_t generation = epoch - FIRST_EPOCH + 1;
    int peer = r->c->world.rank ^ 1;

    for (uint32_t t = 0; t < TILES; t++) {
        uint64_t at = t * 2 * TILE_BYTES + block * TILE_BYTES;

        EXPECT(r, braid_tile_wait_cta(r->c, r->w, &empty, t, generation - 1) == 0);
        for (uint32_t i = braid_ptx_thread(); i < TILE_BYTES; i += braid_ptx_threads())
            r->src[at + i] = pattern((uint32_t)r->c->world.rank, generation + t, (uint32_t)at + i);
        braid_ptx_sync_cta();
        braid_put_cta(r->c, r->w, peer, at, r->src + at, TILE_BYTES);
        braid_tile_ready_cta(r->c, r->w, &full, peer, t, generation);
    }
    if (block == 0) {
        for (uint32_t t = 0; t < TILES; t++) {
            const uint8_t *in = braid_window_local(r->w, t * 2 * TILE_BYTES);

            EXPECT(r, braid_tile_wait_cta(r->c, r->w, &full, t, generation) == 0);
            EXPECT(r, braid_tile_test_thread(r->w, &full, t, generation));
            for (uint32_t i = braid_ptx_thread(); i < 2 * TILE_BYTES; i += braid_ptx_threads())
                EXPECT(r, in[i] == pattern((uint32_t)peer, generation + t, t * 2 * TILE_BYTES + i));
            braid_tile_ready_cta(r->c, r->w, &empty, peer, t, generation);
        }
    }
    braid_epoch_end_cta(r->c, 2);
}

static void test_tiles(void **state)
{
    static struct rank ranks[MAX_RANKS];

    run(ranks, 2, tile_kernel, 2, 8, 9, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 2, 1);
}

/* All to all in packets, two buffers in turn; sizes and alignments odd; the epoch passes its wrap. */
static void packet_kernel(void *argument)
{
    struct rank *r = argument;
    int n = r->c->world.ranks, me = r->c->world.rank;
    uint32_t epoch = braid_epoch_begin(r->c, 5), flag = braid_packet_flag(epoch);
    uint32_t bytes = 1 + (epoch * 37 & 127), shift = epoch & 3;
    uint64_t half = braid_epoch_parity(epoch) * 65536;

    for (uint32_t i = braid_ptx_thread(); i < bytes; i += braid_ptx_threads())
        r->src[shift + i] = pattern((uint32_t)me, epoch, i);
    braid_ptx_sync_cta();
    for (int p = 0; p < n; p++)
        braid_put_packets_cta(r->c, r->w, p, half + (uint64_t)me * 4096, r->src + shift, bytes,
                              flag);
    for (int p = 0; p < n; p++) {
        EXPECT(r, braid_get_packets_cta(r->c, r->w, p, half + (uint64_t)p * 4096, r->dst + shift,
                                        bytes, flag) == 0);
        for (uint32_t i = braid_ptx_thread(); i < bytes; i += braid_ptx_threads())
            EXPECT(r, r->dst[shift + i] == pattern((uint32_t)p, epoch, i));
        braid_ptx_sync_cta();
    }
    braid_epoch_end_cta(r->c, 5);
}

static void test_packets(void **state)
{
    static struct rank ranks[MAX_RANKS];

    run(ranks, 2, packet_kernel, 1, 8, 12, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 2, 1);
    run(ranks, 3, packet_kernel, 1, 4, 8, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 3, 1);
}

/* get after a barrier, words of 32 and 64 bits, put_value of every size, set and read of signals, flush. */
static void rest_kernel(void *argument)
{
    struct rank *r = argument;
    int peer = r->c->world.rank ^ 1;
    uint32_t me = (uint32_t)r->c->world.rank, epoch = braid_epoch_begin(r->c, 1);
    uint8_t *mine = braid_window_local(r->w, 0);

    for (uint32_t i = braid_ptx_thread(); i < 1000; i += braid_ptx_threads())
        mine[i] = pattern(me, epoch, i);
    EXPECT(r, braid_barrier_cta(r->c, 3) == 0);
    braid_get_cta(r->c, r->w, peer, 5, r->dst + 2, 990);
    braid_ptx_sync_cta();
    for (uint32_t i = braid_ptx_thread(); i < 990; i += braid_ptx_threads())
        EXPECT(r, r->dst[2 + i] == pattern((uint32_t)peer, epoch, 5 + i));
    if (braid_ptx_thread() == 0) {
        braid_put_value_thread(r->c, r->w, peer, 2048, 0x1122334455667788ull + epoch, 8);
        braid_put_value_thread(r->c, r->w, peer, 2056, 0xaabbccdd, 4);
        braid_put_value_thread(r->c, r->w, peer, 2060, 0x4567, 2);
        braid_put_value_signal_thread(r->c, r->w, peer, 2062, 0x89, 1, 9, BRAID_SIGNAL_SET, epoch);
        EXPECT(r, braid_wait_signal_thread(r->c, 9, epoch) == 0);
        EXPECT(r, braid_read_signal_thread(r->c, 9) == epoch);
        EXPECT(r, *(uint64_t *)(mine + 2048) == 0x1122334455667788ull + epoch);
        EXPECT(r, *(uint32_t *)(mine + 2056) == 0xaabbccdd);
        EXPECT(r, *(uint16_t *)(mine + 2060) == 0x4567 && mine[2062] == 0x89);
        braid_signal_word_thread(r->c, r->w, peer, 4096, BRAID_SIGNAL_ADD, 2);
        braid_signal_word32_thread(r->c, r->w, peer, 4104, BRAID_SIGNAL_SET,
                                   epoch - FIRST_EPOCH + 1);
        EXPECT(r, braid_wait_word_thread(r->c, r->w, 4096, 2ull * (epoch - FIRST_EPOCH + 1)) == 0);
        EXPECT(r, braid_wait_word32_thread(r->c, r->w, 4104, epoch - FIRST_EPOCH + 1) == 0);
    }
    braid_flush_cta(r->c);
    EXPECT(r, braid_barrier_cta(r->c, 3) == 0); /* nobody overwrites what is being read */
    braid_epoch_end_cta(r->c, 1);
}

static void test_rest(void **state)
{
    static struct rank ranks[MAX_RANKS];

    run(ranks, 2, rest_kernel, 1, 8, 3, 60 * BRAID_NS_PER_S, -1);
    finish(ranks, 2, 1);
}

/* The parts and scopes that the kernels above do not have; the same body runs on GPUs. */
#define PIECES_SEE(a, expected, seen)                                                              \
    EXPECT((struct rank *)(a)->report, (uint64_t)(expected) == (uint64_t)(seen))
#include "tests/gpu/device/pieces.h"

static void pieces_kernel(void *argument)
{
    struct rank *r = argument;
    struct pieces a = {r->c, r->w, r->src, r->dst, FIRST_EPOCH, r};

    pieces_run(&a);
}

static void test_pieces(void **state)
{
    static struct rank ranks[MAX_RANKS];

    run(ranks, 2, pieces_kernel, 1, 8, 6, 60 * BRAID_NS_PER_S, -1);
    for (int i = 0; i < 2; i++) {
        const struct braid_devslot *slot = (const struct braid_devslot *)ranks[i].c->slots;

        assert_int_equal(slot[PIECES_SLOT].epoch, (uint32_t)(FIRST_EPOCH + 6u));
        assert_int_equal(slot[PIECES_SLOT].arrived, 0);
    }
    finish(ranks, 2, 1);
}

static void own_wait_kernel(void *argument)
{
    struct rank *r = argument;

    if (braid_ptx_thread() == 0)
        EXPECT(r, pieces_own_wait(r->c, r->w) == BRAID_DEV_TIMEOUT);
}

/* A kernel author's own wait keeps the bound, and the host reads the reason that it gave. */
static void test_own_wait(void **state)
{
    static struct rank ranks[MAX_RANKS];
    struct braid_devcomm_error reason;

    run(ranks, 1, own_wait_kernel, 1, 4, 1, 100 * BRAID_NS_PER_MS, -1);
    assert_int_equal(braid_comm_error(ranks[0].comm, &reason), BRAID_DEV_TIMEOUT);
    assert_int_equal(reason.wait, PIECES_OWN_WAIT);
    assert_int_equal(reason.peer, 1);
    assert_int_equal(reason.index, 5);
    assert_int_equal(reason.expected, 9);
    assert_int_equal(reason.seen, 0);
    finish(ranks, 1, 0);
}

/* The epoch advances once a launch, whatever the grid. */
static void test_epochs(void **state)
{
    static struct rank ranks[MAX_RANKS];
    const struct braid_devslot *slot;

    run(ranks, 1, NULL, 1, 4, 0, BRAID_NS_PER_S, -1);
    slot = (const struct braid_devslot *)ranks[0].c->slots;
    assert_int_equal(slot[2].epoch, FIRST_EPOCH);
    for (uint32_t i = 1; i < 9; i++) {
        ranks[0].kernel = NULL;
        host_grid_run(packet_kernel, &ranks[0], 1, 4 * i);
        assert_int_equal(slot[5].epoch, FIRST_EPOCH + i);
        assert_int_equal(slot[5].arrived, 0);
    }
    finish(ranks, 1, 1);
}

/* Everything is waited for in turn while rank 1 is not there: the first wait names it, the rest end fast. */
static void lonely_kernel(void *argument)
{
    struct rank *r = argument;
    const struct braid_tiles tiles = {512 * 1024, 8, 1};

    if (braid_ptx_block() != 0)
        return;
    EXPECT(r, braid_barrier_cta(r->c, 6) == BRAID_DEV_TIMEOUT);
    EXPECT(r, braid_wait_signal_cta(r->c, 3, 1) != 0);
    EXPECT(r, braid_take_signal_warp(r->c, 3, 1) != 0);
    EXPECT(r, braid_tile_wait_warp(r->c, r->w, &tiles, 2, 1) != 0);
    EXPECT(r, braid_get_packets_cta(r->c, r->w, 1, 0, r->dst, 100, 77) != 0);
    EXPECT(r, braid_failed_thread(r->c) == BRAID_DEV_TIMEOUT);
}

static void test_rank_that_never_comes(void **state)
{
    static struct rank ranks[MAX_RANKS];
    struct braid_devcomm_error reason;
    uint64_t begin = braid_now_ns();

    run(ranks, 3, lonely_kernel, 2, 8, 1, 300 * BRAID_NS_PER_MS, 1);
    assert_true(braid_now_ns() - begin < 60 * BRAID_NS_PER_S);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(braid_comm_error(ranks[i].comm, &reason), BRAID_DEV_TIMEOUT);
        assert_int_equal(reason.wait, BRAID_WAIT_BARRIER);
        assert_int_equal(reason.peer, 1);
        assert_int_equal(reason.index, 6);
        assert_int_equal((uint32_t)reason.expected, FIRST_EPOCH);
        assert_int_equal((uint32_t)reason.seen, FIRST_EPOCH - 1);
        assert_true(reason.waited_ns >= 300 * BRAID_NS_PER_MS);
    }
    assert_int_equal(braid_comm_error(ranks[1].comm, &reason), 0);
    finish(ranks, 3, 0);
}

/* The thread that failed first is still writing the record: another one that fails does not go on before the GPU knows. */
static void *record_slowly(void *argument)
{
    struct braid_devcomm_state *state = argument;

    braid_sleep_ns(20 * BRAID_NS_PER_MS);
    __atomic_store_n(&state->error, BRAID_DEV_ABORTED, __ATOMIC_RELEASE);
    return NULL;
}

static void test_failure_is_known(void **state)
{
    static struct rank ranks[MAX_RANKS];
    struct braid_devcomm_state *words;
    pthread_t id;

    run(ranks, 1, NULL, 1, 4, 0, BRAID_NS_PER_S, -1);
    words = (struct braid_devcomm_state *)(uintptr_t)ranks[0].c->state;
    words->claim = 1;
    assert_int_equal(pthread_create(&id, NULL, record_slowly, words), 0);
    assert_int_equal(
        braid_fail_thread(ranks[0].c, BRAID_DEV_TIMEOUT, BRAID_WAIT_USER, -1, 0, 1, 0, 0),
        BRAID_DEV_ABORTED);
    assert_int_equal(braid_failed_thread(ranks[0].c), BRAID_DEV_ABORTED);
    pthread_join(id, NULL);
    finish(ranks, 1, 0);
}

static void endless_kernel(void *argument)
{
    struct rank *r = argument;

    EXPECT(r, braid_wait_signal_cta(r->c, 3, 1) == BRAID_DEV_ABORTED);
}

static void *abort_later(void *argument)
{
    struct rank *r = argument;

    while (__atomic_load_n(&r->status, __ATOMIC_ACQUIRE) == 0)
        braid_sleep_ns(BRAID_NS_PER_MS);
    braid_sleep_ns(20 * BRAID_NS_PER_MS);
    braid_comm_abort(r->comm);
    return NULL;
}

static void test_abort(void **state)
{
    static struct rank ranks[MAX_RANKS];
    struct braid_devcomm_error reason;
    pthread_t id;

    run(ranks, 1, NULL, 1, 4, 0, 60 * BRAID_NS_PER_S, -1);
    assert_int_equal(pthread_create(&id, NULL, abort_later, &ranks[0]), 0);
    __atomic_store_n(&ranks[0].status, 1, __ATOMIC_RELEASE);
    host_grid_run(endless_kernel, &ranks[0], 1, 8);
    pthread_join(id, NULL);
    assert_int_equal(braid_comm_error(ranks[0].comm, &reason), BRAID_DEV_ABORTED);
    assert_int_equal(reason.wait, BRAID_WAIT_SIGNAL);
    finish(ranks, 1, 0);
}

/* While another thread looks at the clock and the abort word, a wait goes on without them; afterwards it sees both. */
static void test_one_thread_looks(void **state)
{
    static struct rank ranks[MAX_RANKS];
    struct braid_devcomm_state *words;
    uint64_t start_ns = 0;

    run(ranks, 1, NULL, 1, 4, 0, BRAID_NS_PER_S, -1);
    words = (struct braid_devcomm_state *)(uintptr_t)ranks[0].c->state;
    assert_int_equal(words->looking, 0);
    assert_int_equal(braid_wait_check_thread(ranks[0].c, &start_ns), 0);
    assert_true(start_ns != 0);
    assert_int_equal(words->looking, 0);
    start_ns = 1; /* long ago */
    words->looking = 1;
    assert_int_equal(braid_wait_check_thread(ranks[0].c, &start_ns), 0);
    assert_int_equal(words->looking, 1);
    words->looking = 0;
    assert_int_equal(braid_wait_check_thread(ranks[0].c, &start_ns), BRAID_DEV_TIMEOUT);
    braid_comm_abort(ranks[0].comm);
    assert_int_equal(braid_wait_check_thread(ranks[0].c, &start_ns), BRAID_DEV_ABORTED);
    assert_int_equal(words->looking, 0);
    finish(ranks, 1, 0);
}

/* Indexes out of range are refused and recorded (BRAID_DEVICE_CHECKS). */
static void wrong_kernel(void *argument)
{
    struct rank *r = argument;

    EXPECT(r, braid_wait_signal_cta(r->c, 64, 1) != 0);
    braid_signal_thread(r->c, 0, 1u << 30, BRAID_SIGNAL_ADD, 1);
}

static void test_checks(void **state)
{
    static struct rank ranks[MAX_RANKS];
    struct braid_devcomm_error reason;

    run(ranks, 1, wrong_kernel, 1, 4, 1, BRAID_NS_PER_S, -1);
    assert_int_equal(braid_comm_error(ranks[0].comm, &reason), BRAID_DEV_INVALID);
    assert_int_equal(reason.index, 64);
    finish(ranks, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_signal),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_warps),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_packets),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_own_wait),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_rank_that_never_comes),
        cmocka_unit_test(test_failure_is_known),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_one_thread_looks),
        cmocka_unit_test(test_checks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
