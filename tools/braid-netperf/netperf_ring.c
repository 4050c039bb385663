/*
 * The ring pattern: all-reduces of two ranks as NCCL's ring and its proxy thread play them, in host memory and without the GPU's work on
 * them. A channel halves its part between the ranks, moves chunks of at most 2 MiB, and each of them in two messages; of the messages of
 * a loop the first half goes at once, each of the second half when its counterpart has come. At most 4 are under way a connection and
 * direction. A rank begins the next operation when its last message has come on every channel.
 * Threading: the side's progress thread.
 */
#include "netperf_side.h"

#include <sched.h>

#define SLICES        2 /* messages a chunk */
#define LOOP_MESSAGES (2 * SLICES)
#define MOST          ((size_t)1 << 20) /* a message */
#define TIMES         64 /* of arrivals that are kept; more than LOOP_MESSAGES and the depth */

/* One channel: positions count messages from the task's begin. */
struct channel {
    struct lane *in, *out;
    uint64_t came_ns[TIMES]; /* when message i came, at i modulo TIMES */
};

size_t ring_message(const struct task *task, uint64_t *count)
{
    size_t part = task->bytes / SIDES / (size_t)task->comms; /* that each rank begins with */
    size_t loops, message;

    part = part > SLICES * 64 ? part : SLICES * 64;
    loops = (part + SLICES * MOST - 1) / (SLICES * MOST);
    message = part / loops / SLICES;
    *count = loops * LOOP_MESSAGES;
    return message;
}

/* From when on message `i` may go; UINT64_MAX while what it waits for has not come. */
static uint64_t due(const struct side *s, const struct channel *c, uint64_t i, uint64_t begin_ns)
{
    uint64_t in_loop = i % LOOP_MESSAGES;
    uint64_t needs = in_loop < SLICES ? i - in_loop : i - SLICES + 1; /* messages that came */
    uint64_t think_ns = (uint64_t)(s->settings.think_us * 1e3);

    if (needs > c->in->done)
        return UINT64_MAX;
    return needs == 0 || c->came_ns[(needs - 1) % TIMES] < begin_ns
               ? begin_ns
               : c->came_ns[(needs - 1) % TIMES] + think_ns;
}

/* One call of each kind that the channel has a use for, in the order of NCCL's proxy. Whether anything moved. */
static bool turn(struct side *s, struct channel *c, uint64_t allowed, uint64_t begin_ns)
{
    struct lane *in = c->in, *out = c->out;
    bool moved = false;

    if (out->posted < allowed && out->posted - out->done < (uint64_t)out->depth &&
        due(s, c, out->posted, begin_ns) <= fake_now_ns())
        moved = side_post(s, out);
    else if (out->done < out->posted)
        moved = side_finish(s, out);
    if (in->posted < allowed && in->posted - in->done < (uint64_t)in->depth)
        moved |= side_post(s, in);
    else if (in->done < in->posted && side_finish(s, in)) {
        c->came_ns[(in->done - 1) % TIMES] = fake_now_ns();
        moved = true;
    }
    return moved;
}

static void play_one(struct side *s, struct channel *channels, uint64_t upto)
{
    uint64_t begin_ns = fake_now_ns() + (uint64_t)(s->settings.think_us * 1e3), idle_ns = begin_ns;
    bool open = true;

    for (unsigned idle = 1; open; idle++) {
        open = false;
        for (int i = 0; i < s->task.comms; i++) {
            struct channel *c = &channels[i];
            if (c->in->done == upto && c->out->done == upto)
                continue;
            open = true;
            if (turn(s, c, upto, begin_ns))
                idle = 0;
        }
        if (idle > 0)
            sched_yield();
        if (idle == 1024)
            idle_ns = fake_now_ns();
        if (idle > 0 && idle % 1024 == 0)
            side_check_late(s, idle_ns, "an all-reduce");
    }
}

void ring_play(struct side *s)
{
    struct channel channels[MAX_COMMS] = {0};
    uint64_t count;

    ring_message(&s->task, &count);
    for (int i = 0; i < s->task.comms; i++)
        channels[i] = (struct channel){side_lane(s, false, i), side_lane(s, true, i), {0}};
    for (uint64_t op = 1; op <= s->task.messages; op++)
        play_one(s, channels, op * count);
}
