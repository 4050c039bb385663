/*
 * What the C++ examples share: two ranks as forked processes, and the all-gather over shared memory with which they find each other.
 * A program of yours has MPI, torch.distributed or an ncclComm_t instead, and needs none of this.
 */
#ifndef BRAID_EXAMPLES_RANKS_H
#define BRAID_EXAMPLES_RANKS_H

#include <cuda_runtime.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <braid/braid.h>

#define RANKS 2

/* Ends the rank with a message when a CUDA or Braid call fails. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        int rc_ = (int)(call);                                                                     \
        if (rc_ != 0) {                                                                            \
            fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #call, rc_);            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct meeting {
    int arrived, phase;
    unsigned char data[RANKS][4096];
};

struct member {
    struct meeting *meeting;
    int rank;
};

static int member_rank(void *context)
{
    return ((struct member *)context)->rank;
}

static int member_ranks(void *context)
{
    (void)context;
    return RANKS;
}

/* Everybody waits for everybody, 30 seconds at most. */
static int meet(struct meeting *m)
{
    int phase = __atomic_load_n(&m->phase, __ATOMIC_ACQUIRE);

    if (__atomic_add_fetch(&m->arrived, 1, __ATOMIC_ACQ_REL) == RANKS) {
        m->arrived = 0;
        __atomic_store_n(&m->phase, phase + 1, __ATOMIC_RELEASE);
        return 0;
    }
    for (int i = 0; i < 300000; i++) {
        if (__atomic_load_n(&m->phase, __ATOMIC_ACQUIRE) != phase)
            return 0;
        usleep(100);
    }
    return -110; /* -ETIMEDOUT */
}

static int member_allgather(void *context, const void *mine, void *all, size_t bytes)
{
    struct member *self = (struct member *)context;
    int rc;

    if (bytes > sizeof(self->meeting->data[0]))
        return -90; /* -EMSGSIZE */
    memcpy(self->meeting->data[self->rank], mine, bytes);
    rc = meet(self->meeting);
    if (rc != 0)
        return rc;
    for (int i = 0; i < RANKS; i++)
        memcpy((char *)all + i * bytes, self->meeting->data[i], bytes);
    return meet(self->meeting);
}

/* A communicator of two ranks; rank r uses GPU r, or GPU 0 when there is only one. */
static struct braid_comm *make_comm(struct member *self)
{
    struct braid_bootstrap bootstrap = {self, member_rank, member_ranks, member_allgather};
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;
    struct braid_comm *comm;
    int gpus;

    CHECK(cudaGetDeviceCount(&gpus));
    CHECK(cudaSetDevice(self->rank % gpus));
    config.device = self->rank % gpus;
    config.timeout_ns = 10000000000ull; /* of one wait in a kernel: 10 s */
    CHECK(braid_comm_create(&comm, &bootstrap, &config));
    return comm;
}

/* Runs rank_main in RANKS processes; returns nonzero when one failed. */
static int run_ranks(void (*rank_main)(struct member *self))
{
    struct meeting *meeting = (struct meeting *)mmap(
        NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = 0, status;

    /* Asked of the device files, because CUDA must not be started before a fork. */
    if (access("/dev/nvidiactl", F_OK) != 0 && access("/dev/dxg", F_OK) != 0) {
        printf("skipped: no GPU here (there is no /dev/nvidiactl)\n");
        exit(77);
    }
    for (int r = 0; r < RANKS; r++) {
        if (fork() == 0) {
            struct member self = {meeting, r};

            rank_main(&self);
            exit(0);
        }
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    printf(failed ? "FAILED\n" : "passed\n");
    return failed;
}

/* Waits for the kernel, then asks the communicator whether all its waits ended well. */
static void finish(struct braid_comm *comm, cudaStream_t stream)
{
    struct braid_devcomm_error reason;
    char text[256];

    CHECK(cudaStreamSynchronize(stream));
    if (braid_comm_error(comm, &reason) != 0) {
        fprintf(stderr, "%s\n", braid_comm_error_text(&reason, text, sizeof(text)));
        exit(1);
    }
}

#endif
