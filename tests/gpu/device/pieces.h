/*
 * Two ranks go through the calls of the device library that the other cases do not make by themselves: the parts of a barrier, flushes,
 * polls that do not wait, and the same calls at the scope of a thread, of a warp and of a CTA. One body for the GPU (cases_pieces.cu) and
 * for the CPU, where ThreadSanitizer follows it (tests/unit/device/protocol_test.c).
 * The includer has the device headers and defines PIECES_SEE(a, expected, seen), where `a` is a struct pieces. Run by one CTA of at least
 * two warps a rank, any number of times; the window's words start at zero.
 */
#ifndef BRAID_TESTS_DEVICE_PIECES_H
#define BRAID_TESTS_DEVICE_PIECES_H

enum pieces_scope { PIECES_THREAD, PIECES_WARP, PIECES_CTA };

/* Each scope has a page of the window, signals and a barrier slot of its own. */
#define PIECES_PAGE    2048u
#define PIECES_GET     512u  /* in the page: what the peer gets, */
#define PIECES_MAIL    1024u /* what comes with a signal, two in turn, */
#define PIECES_WORDS   1536u /* a 32-bit word, */
#define PIECES_PACKETS 1552u /* and two packets */
#define PIECES_END     1584u
#define PIECES_SIGNAL  20u
#define PIECES_BARRIER 4u
#define PIECES_SLOT    3u
#define PIECES_ROUNDS  6u

struct pieces {
    const struct braid_devcomm *c;
    const struct braid_devwin *w;
    uint8_t *src, *dst;   /* memory of this GPU, a page a scope each */
    uint32_t first_epoch; /* of the communicator */
    void *report;         /* for PIECES_SEE */
};

/* The number of a round of this launch among all rounds, from 0. */
BRAID_FN uint32_t pieces_number(const struct pieces *a, uint32_t round)
{
    return (braid_epoch_begin(a->c, PIECES_SLOT) - a->first_epoch) * PIECES_ROUNDS + round;
}

BRAID_FN uint8_t pieces_pattern(uint32_t rank, uint32_t round, uint32_t i)
{
    return (uint8_t)(rank * 31 + round * 7 + i * 3 + 1);
}

BRAID_FN uint32_t pieces_member(int scope)
{
    return scope == PIECES_THREAD ? 0
           : scope == PIECES_WARP ? braid_ptx_lane()
                                  : braid_ptx_thread();
}

BRAID_FN uint32_t pieces_members(int scope)
{
    return scope == PIECES_THREAD ? 1
           : scope == PIECES_WARP ? BRAID_WARP_THREADS
                                  : braid_ptx_threads();
}

BRAID_FN void pieces_sync(int scope)
{
    if (scope == PIECES_WARP)
        braid_ptx_sync_warp();
    if (scope == PIECES_CTA)
        braid_ptx_sync_cta();
}

/* put and flush, then a plain word: what was put is there when the word is. */
BRAID_FN void pieces_flush(const struct pieces *a, int scope, uint32_t round)
{
    uint32_t me = (uint32_t)a->c->world.rank, page = (uint32_t)scope * PIECES_PAGE;
    uint32_t m = pieces_member(scope), ms = pieces_members(scope), bytes = 200 + round * 3;
    uint32_t number = pieces_number(a, round) + 1;
    const uint8_t *in = (const uint8_t *)braid_window_local(a->w, page + round);
    int peer = (int)(me ^ 1);

    for (uint32_t i = m; i < bytes; i += ms)
        a->src[page + i] = pieces_pattern(me, round, i);
    pieces_sync(scope);
    if (scope == PIECES_THREAD) {
        braid_put_thread(a->c, a->w, peer, page + round, a->src + page, bytes);
        braid_flush_thread(a->c);
    } else if (scope == PIECES_WARP) {
        braid_put_warp(a->c, a->w, peer, page + round, a->src + page, bytes);
        braid_flush_warp(a->c);
    } else {
        braid_put_cta(a->c, a->w, peer, page + round, a->src + page, bytes);
        braid_flush_cta(a->c);
    }
    if (m == 0) {
        braid_ptx_store_relaxed_sys_u32(braid_window_pointer(a->w, peer, page + PIECES_WORDS),
                                        number);
        PIECES_SEE(a, 0, braid_wait_word32_thread(a->c, a->w, page + PIECES_WORDS, number));
    }
    pieces_sync(scope);
    for (uint32_t i = m; i < bytes; i += ms)
        PIECES_SEE(a, pieces_pattern((uint32_t)peer, round, i), ((const volatile uint8_t *)in)[i]);
}

/* A barrier in its two halves, then one in one call, all in one session; between them the peer's memory is read. */
BRAID_FN void pieces_barrier(const struct pieces *a, int scope, uint32_t round)
{
    uint32_t page = (uint32_t)scope * PIECES_PAGE, m = pieces_member(scope),
             ms = pieces_members(scope);
    uint32_t slot = PIECES_BARRIER + (uint32_t)scope, bytes = 150;
    struct braid_barrier b = braid_barrier_open(a->c, slot);
    int peer = a->c->world.rank ^ 1;
    uint8_t *mine = (uint8_t *)braid_window_local(a->w, page + PIECES_GET),
            *dst = a->dst + page + 1;

    for (uint32_t i = m; i < bytes; i += ms)
        mine[i] = pieces_pattern((uint32_t)a->c->world.rank, round + 50, i);
    if (scope == PIECES_THREAD) {
        braid_barrier_arrive_thread(a->c, &b);
        PIECES_SEE(a, 0, braid_barrier_wait_thread(a->c, &b));
        braid_get_thread(a->c, a->w, peer, page + PIECES_GET, dst, bytes);
        PIECES_SEE(a, 0, braid_barrier_sync_thread(a->c, &b));
        braid_barrier_close_thread(a->c, &b);
    } else if (scope == PIECES_WARP) {
        braid_barrier_arrive_warp(a->c, &b);
        PIECES_SEE(a, 0, braid_barrier_wait_warp(a->c, &b));
        braid_get_warp(a->c, a->w, peer, page + PIECES_GET, dst, bytes);
        PIECES_SEE(a, 0, braid_barrier_sync_warp(a->c, &b));
        braid_barrier_close_warp(a->c, &b);
    } else {
        braid_barrier_arrive_cta(a->c, &b);
        PIECES_SEE(a, 0, braid_barrier_wait_cta(a->c, &b));
        braid_get_cta(a->c, a->w, peer, page + PIECES_GET, dst, bytes);
        PIECES_SEE(a, 0, braid_barrier_sync_cta(a->c, &b));
        braid_barrier_close_cta(a->c, &b);
    }
    pieces_sync(scope);
    for (uint32_t i = m; i < bytes; i += ms)
        PIECES_SEE(a, pieces_pattern((uint32_t)peer, round + 50, i), dst[i]);
    pieces_sync(scope);
}

/* put with a signal that is set, and a wait that takes nothing: the value says the round. */
BRAID_FN void pieces_signal(const struct pieces *a, int scope, uint32_t round)
{
    uint32_t me = (uint32_t)a->c->world.rank, page = (uint32_t)scope * PIECES_PAGE;
    uint32_t m = pieces_member(scope), ms = pieces_members(scope), bytes = 77;
    uint32_t signal = PIECES_SIGNAL + (uint32_t)scope;
    const volatile uint8_t *in =
        (const volatile uint8_t *)braid_window_local(a->w, page + PIECES_MAIL + round % 2 * 128);
    uint64_t at = page + PIECES_MAIL + round % 2 * 128;
    uint64_t value = pieces_number(a, round) + 1;
    int peer = (int)(me ^ 1), status;

    for (uint32_t i = m; i < bytes; i += ms)
        a->src[page + i] = pieces_pattern(me, round + 90, i);
    pieces_sync(scope);
    if (scope == PIECES_THREAD) {
        braid_put_signal_thread(a->c, a->w, peer, at, a->src + page, bytes, signal,
                                BRAID_SIGNAL_SET, value);
        status = braid_wait_signal_thread(a->c, signal, value);
    } else if (scope == PIECES_WARP) {
        braid_put_signal_warp(a->c, a->w, peer, at, a->src + page, bytes, signal, BRAID_SIGNAL_SET,
                              value);
        status = braid_wait_signal_warp(a->c, signal, value);
    } else {
        braid_put_signal_cta(a->c, a->w, peer, at, a->src + page, bytes, signal, BRAID_SIGNAL_SET,
                             value);
        status = braid_wait_signal_cta(a->c, signal, value);
    }
    PIECES_SEE(a, 0, status);
    for (uint32_t i = m; i < bytes; i += ms)
        PIECES_SEE(a, pieces_pattern((uint32_t)peer, round + 90, i), in[i]);
    pieces_sync(scope);
}

/* One thread: a packet by hand, looked for without waiting; teams and reach. */
BRAID_FN void pieces_packet(const struct pieces *a, uint32_t round)
{
    int peer = a->c->world.rank ^ 1;
    uint32_t flag = braid_packet_flag(pieces_number(a, round) + 1);
    uint64_t at = PIECES_PACKETS + round % 2 * 16, data = 0, start_ns = 0;

    PIECES_SEE(a, 1, braid_reachable(a->w, peer));
    PIECES_SEE(a, peer, braid_team_peer(&a->c->world, peer));
    PIECES_SEE(a, a->c->world.rank, braid_team_peer(&a->c->local, a->c->local.rank));
    braid_packet_store_thread(braid_window_pointer(a->w, peer, at), 0x123456789abcull * (round + 1),
                              flag);
    while (!braid_packet_try_thread(braid_window_local(a->w, at), flag, &data) &&
           braid_wait_check_thread(a->c, &start_ns) == 0)
        ;
    PIECES_SEE(a, 0x123456789abcull * (round + 1), data);
    PIECES_SEE(a, 0, braid_packet_try_thread(braid_window_local(a->w, at), flag + 1, &data));
}

BRAID_FN void pieces_rounds(const struct pieces *a, int scope)
{
    for (uint32_t round = 0; round < PIECES_ROUNDS; round++) {
        pieces_flush(a, scope, round);
        pieces_barrier(a, scope, round);
        pieces_signal(a, scope, round);
        if (scope == PIECES_THREAD)
            pieces_packet(a, round);
    }
}

/* The kernel: the scopes one after the other, then every warp of the grid is a party of an epoch slot. Returns the slot's epoch. */
BRAID_FN uint32_t pieces_run(const struct pieces *a)
{
    uint32_t epoch = braid_epoch_begin(a->c, PIECES_SLOT);

    if (braid_ptx_thread() == 0)
        pieces_rounds(a, PIECES_THREAD);
    if (braid_ptx_thread() < BRAID_WARP_THREADS)
        pieces_rounds(a, PIECES_WARP);
    braid_ptx_sync_cta();
    pieces_rounds(a, PIECES_CTA);
    braid_ptx_sync_warp();
    if (braid_ptx_lane() == 0)
        braid_epoch_end_thread(a->c, PIECES_SLOT,
                               braid_ptx_blocks() * (braid_ptx_threads() / BRAID_WARP_THREADS));
    return epoch;
}

/* A wait of the kernel author's own, for a word that nobody writes: ends with a status and the reason that it was given. */
#define PIECES_OWN_WAIT (BRAID_WAIT_USER + 3)

BRAID_FN int pieces_own_wait(const struct braid_devcomm *c, const struct braid_devwin *w)
{
    const void *word = braid_window_local(w, 3 * PIECES_PAGE);
    uint64_t start_ns = 0;
    uint32_t seen;
    int status = 0;

    do {
        for (int polls = 0; polls < BRAID_WAIT_POLLS; polls++) {
            seen = braid_ptx_load_acquire_sys_u32(word);
            if (braid_reached_u32(seen, 9))
                return BRAID_DEV_OK;
        }
        status = braid_wait_check_thread(c, &start_ns);
    } while (status == 0);
    return braid_fail_thread(c, status, PIECES_OWN_WAIT, 1, 5, 9, seen,
                             braid_ptx_now_ns() - start_ns);
}

#endif
