/*
 * A rank that comes when the others' bound has passed, or just then: wherever a rank ends an operation with status 0, its result is whole
 * and right. By every method, on a communicator of its own each. First the last rank comes when the others have given up; they had more
 * operations in their streams, so from the second one on it must get a status: who has failed takes part in nothing. Then it comes
 * within a fraction of a millisecond of the bound, before it or after it.
 */
#include "test.h"

#define BOUND_NS 20000000ull
#define CLOSE_NS 5000000ull
/* operations in the streams: one a parity, so that the second leaves what the first has told */
#define BEHIND 2

struct late_case {
    const char *name;
    /* 's' all-reduce, 'r' reduce-scatter, 'g' all-gather, 'a' all-to-all, 'b' broadcast from the last rank */
    char what;
    uint32_t method;
    int in_place;   /* the input is the result's memory */
    uint64_t bytes; /* of the sum, or of a block */
};

/* Staging holds 8 MiB of a block (reduce-scatter 24): some of these wait for room. */
static const struct late_case methods[] = {
    {"all_reduce packets", 's', BRAID_METHOD_PACKETS, 0, 96u << 10},
    {"all_reduce packets in place", 's', BRAID_METHOD_PACKETS, 1, 900},
    {"all_reduce one_shot", 's', BRAID_METHOD_ONE_SHOT, 0, 20u << 20},
    {"all_reduce one_shot in place", 's', BRAID_METHOD_ONE_SHOT, 1, 1u << 20},
    {"all_reduce two_shot", 's', BRAID_METHOD_TWO_SHOT, 1, 2u << 20},
    {"all_reduce two_shot, large", 's', BRAID_METHOD_TWO_SHOT, 0, 40u << 20},
    {"all_reduce pull", 's', BRAID_METHOD_PULL, 1, 8u << 20},
    {"reduce_scatter packets", 'r', BRAID_METHOD_PACKETS, 0, 50000},
    {"reduce_scatter staged", 'r', BRAID_METHOD_STAGED, 0, 28u << 20},
    {"reduce_scatter pull", 'r', BRAID_METHOD_PULL, 0, 4u << 20},
    {"all_gather packets", 'g', BRAID_METHOD_PACKETS, 0, 5000},
    {"all_gather staged", 'g', BRAID_METHOD_STAGED, 0, 12u << 20},
    {"all_gather direct", 'g', BRAID_METHOD_DIRECT, 0, 4u << 20},
    {"all_gather engine", 'g', BRAID_METHOD_ENGINE, 0, 4u << 20},
    {"all_to_all staged", 'a', BRAID_METHOD_STAGED, 0, 12u << 20},
    {"all_to_all direct", 'a', BRAID_METHOD_DIRECT, 0, 4u << 20},
    {"all_to_all engine", 'a', BRAID_METHOD_ENGINE, 0, 1u << 20},
    {"all_to_all engine in place", 'a', BRAID_METHOD_ENGINE, 1, 4u << 20},
    {"broadcast staged", 'b', BRAID_METHOD_STAGED, 0, 12u << 20},
    {"broadcast direct", 'b', BRAID_METHOD_DIRECT, 0, 4u << 20},
};

static int fits(const struct late_case *k)
{
    return k->bytes * (k->what == 's' || k->what == 'b' ? 1 : ranks) <=
           (k->method == BRAID_METHOD_PULL ? BUFFER_BYTES / 2 : BUFFER_BYTES);
}

#define METHODS (int)(sizeof(methods) / sizeof(methods[0]))

/* Fills the input; what is not input in the result's memory is overwritten, as by what a late rank still does there. */
static char *prepare(struct rank *r, const struct late_case *k, uint32_t it)
{
    char *in = k->in_place                      ? r->win
               : k->method == BRAID_METHOD_PULL ? r->win + BUFFER_BYTES / 2
                                                : r->in;
    uint64_t all = strchr("ra", k->what) != NULL ? k->bytes * ranks : k->bytes;
    uint64_t result = strchr("ga", k->what) != NULL ? k->bytes * ranks : k->bytes;

    if (!k->in_place)
        CHECK(cudaMemsetAsync(r->win, 0xee, result, r->stream));
    if (strchr("sr", k->what) != NULL)
        fill_numbers<<<64, 256, 0, r->stream>>>(in, all / 2, BRAID_BF16, r->rank, r->found, it);
    else
        fill_bytes<<<64, 256, 0, r->stream>>>(in, all, r->rank, 0, r->found, it);
    return in;
}

/* Enqueues one operation and the check of its result. */
static int enqueue(struct rank *r, const struct late_case *k, uint32_t it)
{
    struct braid_op_options options = BRAID_OP_OPTIONS_INIT;
    char *in = prepare(r, k, it);
    uint64_t count = k->bytes / 2;
    int rc;

    options.method = k->method;
    switch (k->what) {
    case 's':
        rc = braid_all_reduce(r->ops, in, r->win, count, BRAID_BF16, &options, r->stream);
        check_sum<<<64, 256, 0, r->stream>>>(r->win, count, 0, BRAID_BF16, ranks, 1.0, r->found,
                                             it);
        return rc;
    case 'r':
        rc = braid_reduce_scatter(r->ops, in, r->win, count, BRAID_BF16, &options, r->stream);
        check_sum<<<64, 256, 0, r->stream>>>(r->win, count, r->rank * count, BRAID_BF16, ranks, 1.0,
                                             r->found, it);
        return rc;
    case 'b':
        rc = braid_broadcast(r->ops, in, r->win, k->bytes, ranks - 1, &options, r->stream);
        check_bytes<<<64, 256, 0, r->stream>>>(r->win, k->bytes, ranks - 1, 0, r->found, it);
        return rc;
    case 'g': rc = braid_all_gather(r->ops, in, r->win, k->bytes, &options, r->stream); break;
    default: rc = braid_all_to_all(r->ops, in, r->win, k->bytes, &options, r->stream);
    }
    for (int p = 0; p < ranks; p++)
        check_bytes<<<64, 256, 0, r->stream>>>(r->win + p * k->bytes, k->bytes, p,
                                               k->what == 'g' ? 0 : r->rank * k->bytes, r->found,
                                               it);
    return rc;
}

/* Communicator and collectives with that bound for waits, but time enough for what the hosts do. */
static void open_bounded(struct rank *r, uint64_t bound_ns)
{
    open_comm(r, 5000000000ull, BUFFER_BYTES);
    CHECK(cudaMemsetAsync(r->found, 0, sizeof(*r->found), r->stream));
    CHECK(cudaStreamSynchronize(r->stream));
    braid_comm_set_timeout_ns(r->comm, bound_ns);
}

static void close_bounded(struct rank *r)
{
    braid_comm_set_timeout_ns(r->comm, 5000000000ull);
    pthread_barrier_wait(&barrier);
    close_comm(r);
}

/* The status now, after the stream; 0 only on right results. */
static int judge(struct rank *r, const char *text, int rc)
{
    struct findings f;
    int status;

    CHECK(cudaMemcpyAsync(&f, r->found, sizeof(f), cudaMemcpyDeviceToHost, r->stream));
    CHECK(cudaStreamSynchronize(r->stream));
    CHECK(cudaGetLastError());
    status = braid_comm_error(r->comm, NULL);
    if (rc != 0 && !(rc == -EIO && status != 0))
        fail(r, "%s: returned %d", text, rc);
    if (status == 0 && f.wrong != 0)
        fail(r, "%s: status 0 with %llu wrong, one at %llu", text, f.wrong, f.first);
    return status;
}

/* The last rank comes when the others have failed, with more operations behind the first. */
static void come_late(struct rank *r, const struct late_case *k)
{
    int last = r->rank == ranks - 1, rc = 0, first, end;
    char text[80];

    open_bounded(r, BOUND_NS);
    snprintf(text, sizeof(text), "%s, late", k->name);
    pthread_barrier_wait(&barrier);
    for (uint32_t it = 0; !last && it < BEHIND; it++)
        rc = enqueue(r, k, it + 1);
    if (!last && judge(r, text, rc) == 0)
        fail(r, "%s: no status without the last rank", text);
    pthread_barrier_wait(&barrier);
    if (last) {
        rc = enqueue(r, k, 1);
        first = judge(r, text, rc);
        for (uint32_t it = 1; it < BEHIND && (rc == 0 || rc == -EIO); it++)
            rc = enqueue(r, k, it + 1);
        CHECK(cudaStreamSynchronize(r->stream));
        end = braid_comm_error(r->comm, NULL);
        printf("  %s: %s, then %s\n", text, first != 0 ? "a status" : "right data",
               end != 0 ? "a status" : "NONE");
        if (end == 0)
            fail(r, "%s: no status after operations without the others", text);
    }
    close_bounded(r);
}

/* The last rank comes `shift_us` after the others' bound. Counts how many ranks got a status. */
static void come_close(struct rank *r, const struct late_case *k, int shift_us, int *statuses)
{
    int last = r->rank == ranks - 1, rc = 0;
    double begin;
    char text[80];

    open_bounded(r, CLOSE_NS);
    prepare(r, k, 1); /* loads and places what the first call would */
    CHECK(cudaStreamSynchronize(r->stream));
    snprintf(text, sizeof(text), "%s, %d us after the bound", k->name, shift_us);
    pthread_barrier_wait(&barrier);
    for (begin = now_s(); last && now_s() - begin < CLOSE_NS * 1e-9 + shift_us * 1e-6;) {
    }
    for (uint32_t it = 0; it < 2 && rc == 0; it++)
        rc = enqueue(r, k, it + 1);
    if (judge(r, text, rc) != 0)
        __atomic_add_fetch(statuses, 1, __ATOMIC_RELAXED);
    close_bounded(r);
}

int stage_late(struct rank *r, double until)
{
    static const int shifts_us[] = {150, 400, 0, 800, -200};
    static int statuses;
    int tries = 0;

    for (int i = 0; i < METHODS; i++) {
        if (!fits(&methods[i]))
            continue;
        come_late(r, &methods[i]);
        if (r->rank == 0)
            __atomic_add_fetch(&cases, 1, __ATOMIC_RELAXED);
    }
    for (int s = 0; s < 5; s++) {
        for (int i = 0; i < METHODS; i++) {
            if (!fits(&methods[i]))
                continue;
            if (anyone_broken(now_s() > until))
                break;
            come_close(r, &methods[i], shifts_us[s], &statuses);
            tries++;
        }
    }
    if (r->rank == 0) {
        printf("late: %d methods; %d times close to the bound, %d of %d ranks got a status\n",
               METHODS, tries, statuses, tries * ranks);
        __atomic_add_fetch(&cases, tries, __ATOMIC_RELAXED);
    }
    return 0;
}
