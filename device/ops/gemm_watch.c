/*
 * The watchdog. A wait of a stream cannot time out, so a host thread looks after operations: the GPU writes RUNNING into a pinned word
 * of the lane before its first wait and IDLE after its last, and the watchdog replaces RUNNING by SEEN. A word that still says SEEN
 * later belongs to the same run, whatever replays a graph makes. When that lasts longer than the bound, all flags are set, again and
 * again until the run is over, and the one that was late is recorded; the object is unusable from then on.
 * One thread a process, alive while there are objects; it calls CUDA only for a late run. Threading: any.
 */
#include "device/ops/gemm.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "common/util.h"

#define PERIOD_NS 5000000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static struct braid_gemm_watch *first;
static bool running;
static pthread_t thread;

/* Sets all flags on one stream, if it is not stuck itself; before them go to 0, so that nothing is announced. Waits for nothing. */
static void let_go_by(struct braid_gemm_watch *w, int i)
{
    if (w->cuda->stream_query(w->streams[i]) == CUDA_SUCCESS &&
        w->cuda->copy_to_device(w->go, w->copy + 2 * w->flag_count, sizeof(uint32_t),
                                w->streams[i]) == CUDA_SUCCESS)
        w->cuda->copy_to_device(w->flags, w->copy + w->flag_count, w->flag_count * sizeof(uint32_t),
                                w->streams[i]);
}

/* On every stream: called again until the run is over. */
static void let_go(struct braid_gemm_watch *w)
{
    for (int i = 0; i < BRAID_GEMM_WATCH_STREAMS; i++)
        let_go_by(w, i);
}

/* Has one of the streams read the flags into the copy since the call before? */
static bool read_flags(struct braid_gemm_watch *w)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    bool asked[BRAID_GEMM_WATCH_STREAMS], done = false;

    for (int i = 0; i < BRAID_GEMM_WATCH_STREAMS; i++)
        asked[i] = w->cuda->stream_query(w->streams[i]) == CUDA_SUCCESS &&
                   w->cuda->copy_to_host(w->copy, w->flags, w->flag_count * sizeof(uint32_t),
                                         w->streams[i]) == CUDA_SUCCESS;
    nanosleep(&pause, NULL);
    for (int i = 0; i < BRAID_GEMM_WATCH_STREAMS; i++)
        done = done || (asked[i] && w->cuda->stream_query(w->streams[i]) == CUDA_SUCCESS);
    return done;
}

/*
 * Finds the wait that is late: sets all flags and looks which of them the streams take down again. Flags that had been used before
 * stay up. The first one in program order is the reason; what follows it could only be reached because of the release.
 */
static const struct braid_gemm_instr *find_late(struct braid_gemm_watch *w)
{
    for (int attempt = 0; attempt < 400; attempt++) {
        if (attempt % 25 ==
            0) /* one stream at a time: a second write would raise again what was taken down */
            let_go_by(w, attempt / 25 % BRAID_GEMM_WATCH_STREAMS);
        if (!read_flags(w))
            continue;
        for (size_t i = 0; i < w->program->count; i++) {
            const struct braid_gemm_instr *instr = &w->program->instr[i];

            if (instr->kind == BRAID_GEMM_I_WAIT && w->copy[instr->flag] == 0)
                return instr;
        }
    }
    return NULL;
}

static void record(struct braid_gemm_watch *w, uint64_t waited_ns)
{
    struct braid_gemm_error *e = &w->error;
    const struct braid_gemm_instr *late = find_late(w);
    double seconds = (double)waited_ns * 1e-9;

    e->status = -ETIMEDOUT;
    e->peer = -1;
    e->waited_ns = waited_ns;
    if (late == NULL) {
        snprintf(e->text, sizeof(e->text),
                 "rank %d: an operation runs since %.3f s and no flag is late", w->rank, seconds);
        return;
    }
    e->peer = late->peer;
    e->flag = late->flag;
    if (late->flag < w->program->credits)
        snprintf(e->text, sizeof(e->text),
                 "rank %d waited %.3f s for rank %d to begin the operation (word %u)", w->rank,
                 seconds, e->peer, e->flag);
    else
        snprintf(e->text, sizeof(e->text), "rank %d waited %.3f s for rows of rank %d (word %u)",
                 w->rank, seconds, e->peer, e->flag);
}

/* Nanoseconds since a lane is known to be waiting without a change; 0 when none is. */
static uint64_t waiting_ns(struct braid_gemm_watch *w)
{
    uint64_t now = braid_now_ns(), longest = 0;

    for (int lane = 0; lane < BRAID_GEMM_MAX_LANES; lane++) {
        uint32_t seen = BRAID_GEMM_RUNNING;

        if (atomic_compare_exchange_strong(&w->busy[lane], &seen, BRAID_GEMM_SEEN))
            w->since_ns[lane] = now - 1;
        else if (seen != BRAID_GEMM_SEEN)
            continue;
        longest = MAX(longest, now - w->since_ns[lane]);
    }
    return longest;
}

static void look(struct braid_gemm_watch *w)
{
    uint64_t waited_ns = waiting_ns(w);
    bool failed = atomic_load(&w->failed) != 0;
    CUcontext context;

    if (waited_ns == 0 || (!failed && waited_ns < w->timeout_ns))
        return;
    if (w->cuda->context_push(w->context) != CUDA_SUCCESS)
        return;
    if (!failed) {
        atomic_store(&w->failed, 1);
        record(w, waited_ns);
        atomic_store(&w->failed, 2);
        BRAID_WARN("fused product: %s; its streams are released, its results are garbage",
                   w->error.text);
    }
    let_go(w);
    w->cuda->context_pop(&context);
}

static void *watch_all(void *unused)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct timespec until;

    pthread_mutex_lock(&lock);
    if (first != NULL)
        first->cuda->exchange_capture_mode(&mode);
    while (first != NULL) {
        for (struct braid_gemm_watch *w = first; w != NULL; w = w->next)
            look(w);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PERIOD_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&wake, &lock, &until);
    }
    running = false;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int braid_gemm_watch_add(struct braid_gemm_watch *watch)
{
    int rc = 0;

    pthread_mutex_lock(&lock);
    watch->next = first;
    first = watch;
    if (!running) {
        rc = braid_thread_start(&thread, "braid-gemm", watch_all, NULL);
        if (rc == 0) {
            pthread_detach(thread);
            running = true;
        } else {
            first = watch->next;
        }
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void braid_gemm_watch_remove(struct braid_gemm_watch *watch)
{
    pthread_mutex_lock(&lock);
    for (struct braid_gemm_watch **at = &first; *at != NULL; at = &(*at)->next)
        if (*at == watch) {
            *at = watch->next;
            break;
        }
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
}
