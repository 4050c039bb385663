/* Processes of one host, see ranks.h. */
#include "tools/braid-overlap/ranks.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

struct ranks {
    _Atomic unsigned arrived;
    _Atomic unsigned generation;
    unsigned char slot[RANKS_MAX][RANKS_BYTES];
};

int ranks_barrier(struct ranks_self *self)
{
    struct ranks *s = self->shared;
    unsigned generation = atomic_load(&s->generation);
    uint64_t start = braid_now_ns();

    if (atomic_fetch_add(&s->arrived, 1) + 1 == (unsigned)self->ranks) {
        atomic_store(&s->arrived, 0);
        atomic_fetch_add(&s->generation, 1);
        return 0;
    }
    for (unsigned polls = 0; atomic_load(&s->generation) == generation; polls++)
        if (polls % 4096 == 4095) {
            if (braid_now_ns() - start > RANKS_BOUND_NS)
                return -ETIMEDOUT;
            sched_yield();
        }
    return 0;
}

int ranks_allgather(struct ranks_self *self, const void *mine, void *all, size_t bytes)
{
    int rc;

    if (bytes > RANKS_BYTES)
        return -EMSGSIZE;
    memcpy(self->shared->slot[self->rank], mine, bytes);
    rc = ranks_barrier(self);
    for (int i = 0; rc == 0 && i < self->ranks; i++)
        memcpy((unsigned char *)all + (size_t)i * bytes, self->shared->slot[i], bytes);
    return rc ? rc : ranks_barrier(self);
}

double ranks_max(struct ranks_self *self, double value)
{
    double all[RANKS_MAX], most = value;

    if (ranks_allgather(self, &value, all, sizeof(value)) != 0)
        return -1;
    for (int i = 0; i < self->ranks; i++) {
        if (all[i] < 0)
            return all[i];
        most = all[i] > most ? all[i] : most;
    }
    return most;
}

int ranks_agree(struct ranks_self *self, int status)
{
    int all[RANKS_MAX], rc = ranks_allgather(self, &status, all, sizeof(status));

    for (int i = 0; rc == 0 && i < self->ranks; i++)
        rc = all[i];
    return rc;
}

static int boot_rank(void *context)
{
    return ((struct ranks_self *)context)->rank;
}

static int boot_ranks(void *context)
{
    return ((struct ranks_self *)context)->ranks;
}

/* Any length, in pieces. */
static int boot_allgather(void *context, const void *mine, void *all, size_t bytes)
{
    struct ranks_self *self = context;
    unsigned char piece[RANKS_MAX][RANKS_BYTES];
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < bytes; at += RANKS_BYTES) {
        size_t now = bytes - at < RANKS_BYTES ? bytes - at : RANKS_BYTES;

        rc = ranks_allgather(self, (const unsigned char *)mine + at, piece, now);
        for (int i = 0; rc == 0 && i < self->ranks; i++)
            memcpy((unsigned char *)all + (size_t)i * bytes + at, &piece[0][0] + (size_t)i * now,
                   now);
    }
    if (bytes == 0)
        rc = ranks_barrier(self);
    return rc;
}

struct braid_bootstrap ranks_bootstrap(struct ranks_self *self)
{
    return (struct braid_bootstrap){
        .context = self, .rank = boot_rank, .ranks = boot_ranks, .allgather = boot_allgather};
}

int ranks_run(int count, int (*body)(struct ranks_self *self, void *context), void *context)
{
    struct ranks_self self = {.ranks = count};
    pid_t child[RANKS_MAX] = {0};
    int rc = 0;

    self.shared =
        mmap(NULL, sizeof(*self.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (self.shared == MAP_FAILED)
        return -ENOMEM;
    fflush(NULL);
    for (int i = 1; i < count; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            self.rank = i;
            _exit(body(&self, context) == 0 ? 0 : 1);
        }
        if (child[i] < 0)
            rc = -errno;
    }
    rc = rc ? rc : body(&self, context);
    for (int i = 1; i < count; i++) {
        int status = 0;

        if (child[i] > 0 && rc != 0)
            kill(child[i], SIGTERM); /* a child of this call only */
        if (child[i] > 0 && waitpid(child[i], &status, 0) == child[i] && status != 0 && rc == 0)
            rc = -ECHILD;
    }
    munmap(self.shared, sizeof(*self.shared));
    return rc;
}
