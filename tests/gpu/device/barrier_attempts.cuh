/*
 * Ways to run a barrier of two ranks that are compared on GPUs before one of them moves into braid/device/barrier.cuh. All use the words
 * and the epochs of barrier slot 0, so that no way has luckier addresses than another (a word's place in the L2 cache is worth up to 0.1 us).
 * Only for teams of at most 32 ranks. Included by latency.cu.
 */
#ifndef BRAID_TESTS_BARRIER_ATTEMPTS_CUH
#define BRAID_TESTS_BARRIER_ATTEMPTS_CUH

#include <braid/device.cuh>

enum barrier_attempt {
    TRY_BARE,    /* no bound, no status, no loops over peers: the counterpart */
    TRY_SESSION, /* braid_barrier_sync_cta */
    TRY_STRAIGHT, /* a session: tell and wait in one branch, the wait leaves its loop by the first exit */
    TRY_STRAIGHT_CHEAP, /* the same, but polls are relaxed; one acquire when the word has come */
    TRY_STRAIGHT_WORD, /* the same, but the status reaches the CTA through shared memory and a plain barrier */
    TRY_ONE_CALL, /* braid_barrier_cta */
    TRY_ONE_ADD, /* one call: the peer's word is added to, so that nothing waits for the epoch before the wait */
    TRY_ONE_FENCE, /* one call: the release fence while the epoch is on its way */
    TRIES
};
static const char *const barrier_attempts[TRIES] = {
    "bare",          "session",  "straight", "straight_relaxed",
    "straight_word", "one_call", "one_add",  "one_fence",
};

/* Like braid_wait_u32_thread. */
template <bool RELAXED>
static __device__ __forceinline__ int straight_wait(const struct braid_devcomm *c,
                                                    const uint32_t *word, uint32_t expected)
{
    uint64_t start_ns = 0;
    uint32_t seen = 0;
    int status;

    do {
        BRAID_NO_UNROLL
        for (int polls = 0; polls < BRAID_WAIT_POLLS; polls++) {
            seen = RELAXED ? braid_ptx_load_relaxed_sys_u32(word)
                           : braid_ptx_load_acquire_sys_u32(word);
            if (BRAID_LIKELY(braid_reached_u32(seen, expected))) {
                if (RELAXED)
                    braid_ptx_load_acquire_sys_u32(word);
                return BRAID_DEV_OK;
            }
        }
        status = braid_wait_check_thread(c, &start_ns);
    } while (status == 0);
    return braid_fail_thread(c, status, BRAID_WAIT_BARRIER, -1, 0, expected, seen,
                             braid_ptx_now_ns() - start_ns);
}

static __device__ __forceinline__ void bare_meet(const struct braid_barrier *b)
{
    braid_ptx_store_release_sys_u32((void *)b->tell, b->epoch);
    for (uint32_t polls = 0;
         !braid_reached_u32(braid_ptx_load_acquire_sys_u32((const void *)b->hear), b->epoch) &&
         polls < 4000000u;
         polls++)
        ;
}

/* One call with its own ways to tell. */
template <int KIND> static __device__ __forceinline__ int one_call(const struct braid_devcomm *c)
{
    struct braid_barrier b = braid_barrier_open(c, 0);
    int status = 0;

    braid_ptx_sync_cta();
    if (braid_ptx_thread() < BRAID_WARP_THREADS && b.tell != 0) {
        if (KIND == TRY_ONE_ADD) {
            braid_ptx_add_release_sys_u32((void *)b.tell, 1);
        } else {
            braid_ptx_fence_sys();
            braid_ptx_store_relaxed_sys_u32((void *)b.tell, b.epoch + 1);
        }
        status = straight_wait<false>(c, (const uint32_t *)b.hear, b.epoch + 1);
    }
    if (braid_ptx_thread() == 0)
        braid_ptx_store_relaxed_gpu_u32((uint32_t *)c->barrier_epochs, b.epoch + 1);
    return braid_share_status_cta(c, status);
}

/* One barrier of the CTA with its peers. b: a session of slot 0; word: in shared memory, 0. */
template <int KIND>
static __device__ __forceinline__ int try_barrier(const struct braid_devcomm *c,
                                                  struct braid_barrier *b, int *word)
{
    int status = 0;

    if (KIND == TRY_SESSION)
        return braid_barrier_sync_cta(c, b);
    if (KIND == TRY_ONE_CALL)
        return braid_barrier_cta(c, 0);
    if (KIND == TRY_ONE_ADD || KIND == TRY_ONE_FENCE)
        return one_call<KIND>(c);
    b->epoch++;
    braid_ptx_sync_cta();
    if (braid_ptx_thread() < BRAID_WARP_THREADS && b->tell != 0) {
        if (KIND == TRY_BARE) {
            bare_meet(b);
        } else {
            braid_ptx_store_release_sys_u32((void *)b->tell, b->epoch);
            status =
                straight_wait<KIND == TRY_STRAIGHT_CHEAP>(c, (const uint32_t *)b->hear, b->epoch);
            if (KIND == TRY_STRAIGHT_WORD && BRAID_UNLIKELY(status != 0))
                *word = status;
        }
    }
    if (KIND == TRY_STRAIGHT_WORD || KIND == TRY_BARE) {
        braid_ptx_sync_cta();
        return KIND == TRY_BARE ? 0 : *(volatile int *)word;
    }
    return braid_share_status_cta(c, status);
}

#endif
