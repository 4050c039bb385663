/* An ncclComm_t as bootstrap, on the fake CUDA driver: this program plays NCCL. */
#include "tests/unit/device/host_ranks.h"

#include <dlfcn.h>
#include <errno.h>

/* NCCL's part of a bootstrap, over the same all-gather; an "ncclComm_t" is a struct task. Found through dlopen(NULL). */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int ncclCommUserRank(void *comm, int *rank)
{
    *rank = ((struct task *)comm)->boot.rank;
    return 0;
}

EXPORTED int ncclCommCount(void *comm, int *count)
{
    *count = ((struct task *)comm)->boot.area->ranks;
    return 0;
}

EXPORTED int ncclCommCuDevice(void *comm, int *device)
{
    *device = ((struct task *)comm)->boot.rank % fake_cuda.gpus;
    return 0;
}

/* What NCCL does when asked for an all-gather, and what it says of itself afterwards. */
static struct {
    int in_progress; /* this many times "in progress" before it is done; negative: for good */
    int result;      /* then */
} nccl_says;

EXPORTED int ncclAllGather(const void *send, void *receive, size_t count, int type, void *comm,
                           void *stream)
{
    if (nccl_says.in_progress != 0)
        return boot_allgather(&((struct task *)comm)->boot, send, receive, count) != 0 ? 3 : 7;
    return type == 0 ? boot_allgather(&((struct task *)comm)->boot, send, receive, count) != 0 : 4;
}

EXPORTED int ncclCommGetAsyncError(void *comm, int *result)
{
    *result = nccl_says.in_progress != 0 ? 7 : nccl_says.result;
    if (nccl_says.in_progress > 0)
        nccl_says.in_progress--;
    return 0;
}

static int over_nccl(struct task *task)
{
    struct braid_comm *comm;
    struct braid_window *window;
    void *self = dlopen(NULL, RTLD_NOW);

    task->config.device = 5;
    CHECK(braid_comm_create_nccl(&comm, task, self, &task->config) == -EINVAL);
    task->config.device = -1;
    CHECK(braid_comm_create_nccl(&comm, task, self, &task->config) == 0);
    CHECK(braid_comm_gpu(comm) == task->boot.rank % fake_cuda.gpus);
    CHECK(braid_window_alloc(comm, BYTES, &window) == 0);
    CHECK(use_window(task, comm, window) == 0);
    CHECK(braid_comm_destroy(comm) == 0);
    return 0;
}

static void test_over_nccl(void **state)
{
    int before = fake_cuda.live;

    run_threads(3, over_nccl, 0);
    assert_int_equal(fake_cuda.live, before);
    run_processes(3, over_nccl, 0);
    nccl_says.in_progress = 5; /* a non-blocking communicator, once */
    run_processes(2, over_nccl, 0);
    nccl_says.in_progress = 0;
}

/* An NCCL that never ends the all-gather, or fails in it, ends the creation within its bound. argument: which way. */
static int over_bad_nccl(struct task *task)
{
    struct braid_comm *comm;
    uint64_t begin = braid_now_ns();
    int rc;

    task->config.device = -1;
    if (task->argument == 0)
        task->config.timeout_ns = 200 * BRAID_NS_PER_MS;
    nccl_says.in_progress = task->argument == 0 ? -1 : task->argument == 1 ? 3 : 0;
    nccl_says.result = task->argument == 0 ? 0 : 6; /* ncclRemoteError */
    fake_cuda.busy = task->argument == 2;           /* its kernel is on the stream */
    rc = braid_comm_create_nccl(&comm, task, dlopen(NULL, RTLD_NOW), &task->config);
    CHECK(rc == (task->argument == 0 ? -ETIMEDOUT : -EIO));
    CHECK(braid_now_ns() - begin < 20 * BRAID_NS_PER_S);
    return 0;
}

static void test_over_bad_nccl(void **state)
{
    for (int way = 0; way < 3; way++)
        run_processes(2, over_bad_nccl, way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_over_nccl),
        cmocka_unit_test(test_over_bad_nccl),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
