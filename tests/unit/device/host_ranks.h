/*
 * Ranks for the tests of the device library's host side: threads of one process, or forked processes, on the fake CUDA driver. A rank is
 * a struct task; what it runs returns 0, or the line of its first failed check.
 */
#ifndef BRAID_TESTS_HOST_RANKS_H
#define BRAID_TESTS_HOST_RANKS_H

#include "tests/unit/cmocka_all.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "braid/braid.h"
#include "common/clock.h"
#include "tests/gpu/device/boot.h"
#include "tests/unit/device/fake_cuda.h"

#define BYTES (3u << 20)

/* What a rank does; its result is the process's exit code or the thread's result. 0 = fine, a line number where it failed. */
struct task {
    int (*run)(struct task *task);
    struct boot boot;
    struct braid_comm_config config;
    int argument;
    int result;
};

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d: line %d: %s\n", task->boot.rank, __LINE__, #condition);      \
            return __LINE__;                                                                       \
        }                                                                                          \
    } while (0)

static inline int create(struct task *task, struct braid_comm **comm)
{
    struct braid_bootstrap callbacks = boot_callbacks(&task->boot);

    return braid_comm_create(comm, &callbacks, &task->config);
}

static void prepare(struct task *tasks, struct boot_area *area, int (*run)(struct task *),
                    int argument)
{
    for (int i = 0; i < area->ranks; i++) {
        memset(&tasks[i], 0, sizeof(tasks[i]));
        tasks[i].run = run;
        tasks[i].argument = argument;
        tasks[i].boot = (struct boot){.area = area, .rank = i, .timeout_ms = 30000};
        braid_comm_config_init(&tasks[i].config);
        tasks[i].config.device = i % fake_cuda.gpus;
        tasks[i].config.timeout_ns = 30 * BRAID_NS_PER_S; /* test machines can be slow */
    }
}

static void *thread_main(void *argument)
{
    struct task *task = argument;

    task->result = task->run(task);
    return NULL;
}

static void run_threads(int ranks, int (*run)(struct task *), int argument)
{
    struct boot_area *area = boot_area_new(ranks);
    struct task tasks[BOOT_RANKS];
    pthread_t threads[BOOT_RANKS];

    prepare(tasks, area, run, argument);
    for (int i = 0; i < ranks; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, &tasks[i]), 0);
    for (int i = 0; i < ranks; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(tasks[i].result, 0);
    }
    boot_area_free(area);
}

/* Lines do not fit into an exit code: 1 means "a check failed", which has printed its line. */
static void run_processes(int ranks, int (*run)(struct task *), int argument)
{
    struct boot_area *area = boot_area_new(ranks);
    struct task tasks[BOOT_RANKS];
    pid_t pids[BOOT_RANKS];
    int status;

    prepare(tasks, area, run, argument);
    for (int i = 0; i < ranks; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
            _exit(run(&tasks[i]) != 0);
        }
    }
    for (int i = 0; i < ranks; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    boot_area_free(area);
}

/* Every rank writes its number into every rank's part of a window, and finds all numbers in its own. */
static int use_window(struct task *task, struct braid_comm *comm, struct braid_window *window)
{
    int ranks = braid_comm_ranks(comm), rank = braid_comm_rank(comm);
    size_t last = braid_window_bytes(window) / 4 - (size_t)ranks;
    const struct braid_devwin *d = braid_window_device(window);

    CHECK(d->local == (uint64_t)(uintptr_t)braid_window_address(window, rank));
    CHECK(braid_comm_sync(comm) == 0);
    for (int peer = 0; peer < ranks; peer++) {
        uint32_t *words = braid_window_address(window, peer);

        CHECK(words != NULL);
        if (peer < (int)BRAID_INLINE_PEERS)
            CHECK(d->base[peer] == (uint64_t)(uintptr_t)words);
        if (d->table != 0)
            CHECK(((uint64_t *)(uintptr_t)d->table)[peer] == (uint64_t)(uintptr_t)words);
        words[last + (size_t)rank] = 0xabc00u + (uint32_t)rank;
    }
    CHECK((d->table != 0) == (ranks > (int)BRAID_INLINE_PEERS));
    CHECK(braid_comm_sync(comm) == 0);
    for (int peer = 0; peer < ranks; peer++) {
        uint32_t *words = braid_window_address(window, rank);

        CHECK(words[last + (size_t)peer] == 0xabc00u + (uint32_t)peer);
    }
    return 0;
}

#endif
