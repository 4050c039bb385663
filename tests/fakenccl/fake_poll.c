/* The polling reader of fake_poll.h. */
#include "fake_poll.h"

#include "fake_flow.h"

#include <sched.h>
#include <string.h>

#define LINE_WORDS 16

/* The poller races with the plugin's copy on purpose; that is what it tests. */
#if defined(__SANITIZE_THREAD__)
#define RACES_ON_PURPOSE __attribute__((no_sanitize("thread"), noinline))
#else
#define RACES_ON_PURPOSE __attribute__((noinline))
#endif

static uint64_t flag_of(uint64_t step)
{
    return step + 1;
}

/* 8 bytes of an LL message, or of the data part of an LL128 line. */
static uint64_t word_of(int kind, uint64_t step, size_t index)
{
    uint64_t data = fake_mix(step * 1000003 + index);

    if (kind == FAKE_POLL_LL)
        return (data & 0xffffffffu) | (flag_of(step) << 32);
    return index % LINE_WORDS == LINE_WORDS - 1 ? flag_of(step) : data;
}

void fake_poll_fill(void *data, size_t size, int kind, uint64_t step)
{
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t w = word_of(kind, step, i);

        memcpy((char *)data + i * 8, &w, 8);
    }
}

RACES_ON_PURPOSE static uint64_t load(const volatile uint64_t *words, size_t index)
{
    uint64_t w = words[index];

    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return w;
}

/* Waits until the flag in word `index` is that of the step; the word itself is returned. */
static uint64_t wait_flag(struct fake_poller *p, const uint64_t *words, size_t index, uint64_t step)
{
    int kind = p->traffic->poll;
    uint64_t want = flag_of(step);
    uint64_t start = fake_now_ns();

    for (unsigned spin = 1;; spin++) {
        uint64_t w = load(words, index);

        if ((kind == FAKE_POLL_LL ? w >> 32 : w) == want)
            return w;
        if (spin % 64 == 0)
            sched_yield();
        if (spin % 4096 == 0 && fake_late(p->r, start))
            fake_die(p->r,
                     "polled %u s for word %zu of receive %llu from rank %d: flag %llu expected, "
                     "word 0x%llx seen",
                     p->r->options->timeout_s, index, (unsigned long long)step, p->peer,
                     (unsigned long long)want, (unsigned long long)w);
    }
}

static void check_word(struct fake_poller *p, uint64_t word, size_t index, uint64_t step)
{
    uint64_t want = word_of(p->traffic->poll, step, index);

    if (word != want)
        fake_die(p->r,
                 "receive %llu from rank %d: word %zu was seen with its flag and wrong data: "
                 "0x%llx expected, 0x%llx seen (torn, or the flag came first)",
                 (unsigned long long)step, p->peer, index, (unsigned long long)want,
                 (unsigned long long)word);
}

static void poll_message(struct fake_poller *p, const uint64_t *words, uint64_t step)
{
    size_t count = p->traffic->bytes / 8;

    for (size_t i = 0; i < count; i++) {
        /* Every third message is read from its end, where a hasty flag would show first. */
        size_t at = step % 3 == 2 ? count - 1 - i : i;

        if (p->traffic->poll == FAKE_POLL_LL) {
            check_word(p, wait_flag(p, words, at, step), at, step);
        } else if (at % LINE_WORDS == LINE_WORDS - 1) {
            wait_flag(p, words, at, step);
            for (size_t k = at - (LINE_WORDS - 1); k < at; k++)
                check_word(p, load(words, k), k, step);
        }
    }
}

static void *poller_main(void *arg)
{
    struct fake_poller *p = arg;
    uint64_t start = fake_now_ns();

    while (p->seen < p->traffic->steps) {
        uint64_t step = p->seen;

        if (p->armed <= step) {
            sched_yield();
            if (fake_late(p->r, start))
                fake_die(p->r, "receive %llu from rank %d was not posted in %u s",
                         (unsigned long long)step, p->peer, p->r->options->timeout_s);
            continue;
        }
        poll_message(p, p->buffers[step % (uint64_t)p->traffic->depth], step);
        p->seen = step + 1;
        start = fake_now_ns();
    }
    return NULL;
}

void fake_poller_start(struct fake_poller *p, const struct fake_rank *r,
                       const struct fake_traffic *traffic, int peer)
{
    p->r = r;
    p->traffic = traffic;
    p->peer = peer;
    if (pthread_create(&p->thread, NULL, poller_main, p) != 0)
        fake_die(r, "cannot create a polling thread");
}

void fake_poller_arm(struct fake_poller *p, uint64_t step, void *buffer)
{
    p->buffers[step % (uint64_t)p->traffic->depth] = buffer;
    p->armed = step + 1;
}

uint64_t fake_poller_done(const struct fake_poller *p)
{
    return p->seen;
}

void fake_poller_stop(struct fake_poller *p)
{
    pthread_join(p->thread, NULL);
}
