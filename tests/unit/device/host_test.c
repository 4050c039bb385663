/* The host side of the device library on a fake CUDA driver: threads of one process, forked processes, failures at every call. */
#include "tests/unit/device/host_ranks.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

static int windows(struct task *task)
{
    struct braid_comm *comm;
    struct braid_window *a, *b, *c;
    uint8_t *words;

    CHECK(create(task, &comm) == 0);
    CHECK(braid_comm_error(comm, NULL) == 0);
    for (int i = 0; i < braid_comm_ranks(comm); i++)
        CHECK(braid_comm_reachable(comm, i) == BRAID_ROAD_MEMORY);
    CHECK(braid_window_alloc(comm, BYTES, &a) == 0);
    words = braid_window_address(a, braid_comm_rank(comm));
    for (size_t i = 0; i < BYTES; i += 4096)
        CHECK(words[i] == 0);
    CHECK(braid_window_alloc(comm, 1, &b) == 0);
    CHECK(braid_window_bytes(b) == 16);
    CHECK(use_window(task, comm, a) == 0);
    braid_window_free(a);
    CHECK(braid_window_alloc(comm, 4096, &c) == 0);
    CHECK(use_window(task, comm, c) == 0);
    CHECK(braid_comm_sync(comm) == 0);
    CHECK(braid_comm_destroy(comm) == 0);
    return 0;
}

static void test_windows(void **state)
{
    int before = fake_cuda.live;

    run_threads(1, windows, 0);
    run_threads(2, windows, 0);
    run_threads(5, windows, 0);
    assert_int_equal(fake_cuda.live, before);
    run_processes(2, windows, 0);
    run_processes(11, windows, 0);
    fake_cuda.fabric = 1;
    run_processes(3, windows, 0);
    fake_cuda.fabric = 2; /* exported, but refused: descriptors take over */
    run_processes(3, windows, 0);
    fake_cuda.fabric = 0;
}

extern int cuMemAlloc_v2(uint64_t *address, size_t bytes);
extern int cuMemFree_v2(uint64_t address);

/* Windows over memory of the caller: at an odd offset of its own allocation, and with all addresses given. */
static int registered(struct task *task)
{
    struct braid_comm *comm;
    struct braid_window *a, *b;
    uint64_t memory, peers[BOOT_RANKS];

    CHECK(create(task, &comm) == 0);
    CHECK(cuMemAlloc_v2(&memory, BYTES) == 0);
    CHECK(braid_window_register(comm, (void *)(uintptr_t)(memory + 256), BYTES - 256, NULL, &a) ==
          0);
    CHECK(use_window(task, comm, a) == 0);
    CHECK(braid_comm_sync(comm) == 0);
    for (int i = 0; i < braid_comm_ranks(comm); i++)
        peers[i] = (uint64_t)(uintptr_t)braid_window_address(a, i);
    CHECK(braid_window_register(comm, (void *)(uintptr_t)(memory + 256), BYTES - 256, peers, &b) ==
          0);
    CHECK(use_window(task, comm, b) == 0);
    CHECK(braid_window_register(comm, (void *)(uintptr_t)memory, BYTES + 4096, NULL, &b) ==
          -EINVAL);
    CHECK(braid_window_register(comm, task, 64, NULL, &b) == -EINVAL);
    CHECK(braid_comm_sync(comm) == 0);
    CHECK(braid_comm_destroy(comm) == 0);
    CHECK(cuMemFree_v2(memory) == 0);
    return 0;
}

struct allocation {
    int type, handle_types, location_type, device;
    void *win32;
    uint8_t flags[8];
};
#define BY_FD     1
#define BY_FABRIC 8

extern int cuMemCreate(uint64_t *handle, size_t bytes, const struct allocation *allocation,
                       unsigned long long flags);
extern int cuMemRelease(uint64_t handle);
extern int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t hint,
                               unsigned long long flags);
extern int cuMemAddressFree(uint64_t address, size_t bytes);
extern int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
                    unsigned long long flags);
extern int cuMemUnmap(uint64_t address, size_t bytes);
extern int cuMemSetAccess(uint64_t address, size_t bytes, const void *access, size_t count);

#define VMM_BYTES ((size_t)4 << 20)

/* Memory as an allocator of the caller's makes it by the virtual memory calls; 0 = it cannot. */
static uint64_t vmm_memory(int handle_types)
{
    struct allocation allocation = {
        .type = 1, .handle_types = handle_types, .location_type = 1, .device = 0};
    uint64_t handle, address;

    if (cuMemCreate(&handle, VMM_BYTES, &allocation, 0) != 0)
        return 0;
    if (cuMemAddressReserve(&address, VMM_BYTES, 0, 0, 0) != 0 ||
        cuMemMap(address, VMM_BYTES, 0, handle, 0) != 0 ||
        cuMemSetAccess(address, VMM_BYTES, NULL, 1) != 0)
        abort();
    cuMemRelease(handle); /* the mapping keeps it */
    return address;
}

static int free_vmm(struct task *task, uint64_t address)
{
    CHECK(cuMemUnmap(address, VMM_BYTES) == 0);
    CHECK(cuMemAddressFree(address, VMM_BYTES) == 0);
    return 0;
}

/* Memory that CUDA IPC does not know goes by descriptor, if it was made for that; argument: its handle types. */
static int registered_vmm(struct task *task)
{
    struct braid_comm *comm;
    struct braid_window *window;
    uint64_t memory;
    int rc;

    CHECK(create(task, &comm) == 0);
    memory = vmm_memory(task->argument);
    CHECK(memory != 0);
    rc = braid_window_register(comm, (void *)(uintptr_t)(memory + 4096), BYTES, NULL, &window);
    CHECK(rc == ((task->argument & BY_FD) ? 0 : -ENOTSUP));
    if (rc == 0) {
        CHECK(use_window(task, comm, window) == 0);
        CHECK(braid_comm_sync(comm) == 0);
        braid_window_free(window);
    }
    CHECK(braid_comm_sync(comm) == 0);
    CHECK(braid_comm_destroy(comm) == 0);
    return free_vmm(task, memory);
}

static void test_registered(void **state)
{
    run_threads(3, registered, 0);
    run_processes(3, registered, 0);
    run_processes(3, registered_vmm, BY_FD);
    run_processes(3, registered_vmm, 0);
}

/* Given addresses that are not of one's own memory, or on one rank only, and memory of another GPU: all ranks fail. */
static int wrong_peers(struct task *task)
{
    struct braid_comm *comm;
    struct braid_window *window;
    uint64_t memory, peers[2];

    CHECK(create(task, &comm) == 0);
    CHECK(cuMemAlloc_v2(&memory, BYTES) == 0);
    peers[0] = peers[1] = memory + (task->boot.rank == 1 ? 512 : 0);
    CHECK(braid_window_register(comm, (void *)(uintptr_t)memory, BYTES, peers, &window) == -EINVAL);
    peers[0] = peers[1] = memory;
    CHECK(braid_window_register(comm, (void *)(uintptr_t)memory, BYTES,
                                task->boot.rank == 1 ? NULL : peers, &window) == -EINVAL);
    fake_cuda.memory_gpu = 0; /* right for rank 0, wrong for rank 1 */
    CHECK(braid_window_register(comm, (void *)(uintptr_t)memory, BYTES, NULL, &window) == -EINVAL);
    fake_cuda.memory_gpu = task->config.device;
    CHECK(braid_window_register(comm, (void *)(uintptr_t)memory, BYTES, NULL, &window) == 0);
    CHECK(braid_comm_sync(comm) == 0);
    CHECK(braid_comm_destroy(comm) == 0);
    CHECK(cuMemFree_v2(memory) == 0);
    return 0;
}

static void test_wrong_peers(void **state)
{
    run_processes(2, wrong_peers, 0);
}

/* Ranks that differ fail together. argument: which way. */
static int disagree(struct task *task)
{
    struct braid_comm *comm;
    struct braid_window *window;
    bool odd = task->boot.rank == 1;

    if (task->argument == 0 && odd)
        task->config.signals = 17;
    if (task->argument == 1 && odd)
        task->config.device = 7; /* no such GPU there */
    if (task->argument <= 1) {
        CHECK(create(task, &comm) == (task->argument == 0 ? -EINVAL : -ENODEV));
        return 0;
    }
    CHECK(create(task, &comm) == 0);
    CHECK(braid_window_alloc(comm, odd ? 4096 : 8192, &window) == -EINVAL);
    CHECK(braid_window_alloc(comm, odd ? 0 : 8192, &window) == -EINVAL);
    CHECK(braid_window_alloc(comm, 4096, &window) == 0);
    if (odd)
        braid_comm_abort(comm);
    CHECK(braid_window_alloc(comm, 4096, &window) == -EIO);
    CHECK(braid_comm_error(comm, NULL) == (odd ? -ECANCELED : 0));
    CHECK(braid_comm_destroy(comm) == 0);
    return 0;
}

static void test_disagree(void **state)
{
    for (int way = 0; way < 3; way++) {
        run_threads(3, disagree, way);
        run_processes(2, disagree, way);
    }
}

static int shares(struct task *task)
{
    struct braid_comm *comm;
    struct fake_function function = {NULL};
    struct braid_devteam local;

    CHECK(create(task, &comm) == 0);
    CHECK(braid_comm_gpu_ranks(comm) == 3);
    CHECK(braid_comm_gpu_rank(comm) == task->boot.rank);
    CHECK(braid_comm_sm_count(comm) == 44);
    CHECK(braid_comm_device(comm)->sm_count == 44);
    CHECK(braid_comm_max_ctas(comm, &function, 128, 0) == 88);
    CHECK(braid_comm_check_launch(comm, &function, 88, 128, 0) == 0);
    CHECK(braid_comm_check_launch(comm, &function, 89, 128, 0) == -EAGAIN);
    CHECK(braid_comm_check_launch(comm, &function, 1, 2048, 0) == -EAGAIN);
    CHECK(braid_comm_launch(comm, &function, 132, 128, 0, NULL, NULL) == -EAGAIN);
    local = braid_comm_local(comm);
    CHECK(local.ranks == 3 && local.rank == task->boot.rank && local.first == 0 &&
          local.stride == 1);
    braid_comm_abort(comm);
    CHECK(braid_comm_check_launch(comm, &function, 1, 128, 0) == -EIO);
    CHECK(braid_comm_destroy(comm) == 0);
    return 0;
}

static void test_shares(void **state)
{
    fake_cuda.gpus = 1;
    run_threads(3, shares, 0);
    run_processes(3, shares, 0);
    fake_cuda.gpus = 2;
}

/* Without peer access the creation fails, or, if asked to, ends with less reach. */
static int no_peer(struct task *task)
{
    struct braid_comm *comm;
    struct braid_window *window;
    struct braid_devteam local;

    task->config.allow_partial = (uint32_t)task->argument;
    if (task->argument == 0) {
        CHECK(create(task, &comm) == -EHOSTUNREACH);
        return 0;
    }
    CHECK(create(task, &comm) == 0);
    local = braid_comm_local(comm); /* ranks 0 and 2 share GPU 0, ranks 1 and 3 GPU 1 */
    CHECK(local.ranks == 2 && local.first == task->boot.rank % 2 && local.stride == 2);
    CHECK(local.rank == task->boot.rank / 2);
    CHECK(braid_window_alloc(comm, 4096, &window) == 0);
    for (int i = 0; i < 4; i++) {
        bool same = i % 2 == task->boot.rank % 2;

        CHECK((braid_window_address(window, i) != NULL) == same);
        CHECK((braid_comm_reachable(comm, i) == BRAID_ROAD_MEMORY) == same);
    }
    CHECK(braid_comm_sync(comm) == 0);
    CHECK(braid_comm_destroy(comm) == 0);
    return 0;
}

static void test_no_peer(void **state)
{
    fake_cuda.no_peer = 1;
    for (int partial = 0; partial < 2; partial++) {
        run_threads(4, no_peer, partial);
        run_processes(4, no_peer, partial);
    }
    fake_cuda.no_peer = 0;
}

/* Rank 1 moves to another network namespace: both ranks get -EXDEV; with fabric handles it does not matter. */
static int namespaces(struct task *task)
{
    struct braid_comm *comm;

    if (task->boot.rank == 1)
        CHECK(unshare(CLONE_NEWNET) == 0);
    if (task->argument == 0) {
        CHECK(create(task, &comm) == -EXDEV);
        return 0;
    }
    CHECK(create(task, &comm) == 0);
    CHECK(braid_comm_sync(comm) == 0);
    CHECK(braid_comm_destroy(comm) == 0);
    return 0;
}

/* The same for a PID namespace, which only a child enters. */
static int pid_namespace(struct task *task)
{
    struct braid_comm *comm;
    int status = 0;
    pid_t pid = 0;

    if (task->boot.rank == 1) {
        CHECK(unshare(CLONE_NEWPID) == 0);
        pid = fork();
    }
    if (pid > 0) {
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return 0;
    }
    status = create(task, &comm);
    if (task->boot.rank == 1)
        _exit(status != -EXDEV);
    CHECK(status == -EXDEV);
    return 0;
}

/*
 * Across containers with fabric handles: Braid's own windows work; memory of the caller's does if it was made for fabric handles, else
 * both ranks hear that it cannot be shared, at once. argument: its handle types, 0 = cudaMalloc.
 */
static int registered_elsewhere(struct task *task)
{
    struct braid_comm *comm;
    struct braid_window *window;
    uint64_t memory, begin;
    int rc;

    if (task->boot.rank == 1)
        CHECK(unshare(CLONE_NEWNET) == 0);
    CHECK(create(task, &comm) == 0);
    CHECK(braid_window_alloc(comm, BYTES, &window) == 0);
    CHECK(use_window(task, comm, window) == 0);
    if (task->argument == 0)
        CHECK(cuMemAlloc_v2(&memory, VMM_BYTES) == 0);
    else
        memory = vmm_memory(task->argument);
    begin = braid_now_ns();
    rc = braid_window_register(comm, (void *)(uintptr_t)memory, BYTES, NULL, &window);
    CHECK(rc == ((task->argument & BY_FABRIC) ? 0 : -EXDEV));
    CHECK(braid_now_ns() - begin < 10 * BRAID_NS_PER_S); /* not the bound of a wait */
    if (rc == 0)
        CHECK(use_window(task, comm, window) == 0);
    CHECK(braid_comm_sync(comm) == 0);
    CHECK(braid_comm_destroy(comm) == 0);
    return task->argument == 0 ? cuMemFree_v2(memory) : free_vmm(task, memory);
}

static void test_namespaces(void **state)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(unshare(CLONE_NEWNET) != 0);
    waitpid(pid, &status, 0);
    if (WEXITSTATUS(status) != 0) {
        print_message("skipped: network namespaces need root\n");
        skip();
    }
    run_processes(2, namespaces, 0);
    run_processes(2, pid_namespace, 0);
    fake_cuda.fabric = 1;
    run_processes(2, namespaces, 1);
    run_processes(2, registered_elsewhere, 0);
    run_processes(2, registered_elsewhere, BY_FD);
    run_processes(2, registered_elsewhere, BY_FABRIC);
    fake_cuda.fabric = 0;
}

/* A stranger that floods the socket of rank 0 with descriptors and a wrong secret is ignored. */
static int intruder(struct task *task)
{
    struct braid_comm *comm;
    struct braid_window *window;
    FILE *unix_sockets;
    char line[256];
    int hits = 0;

    CHECK(create(task, &comm) == 0);
    unix_sockets = fopen("/proc/net/unix", "r");
    while (unix_sockets != NULL && fgets(line, sizeof(line), unix_sockets) != NULL) {
        char *name = strstr(line, "@braid-device-");
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        char junk[32] = "junk";

        if (name != NULL) {
            name[strcspn(name, "\n")] = '\0';
            memcpy(address.sun_path + 1, name + 1, strlen(name + 1));
            hits += sendto(s, junk, sizeof(junk), 0, (struct sockaddr *)&address,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))) > 0;
        }
        close(s);
    }
    if (unix_sockets != NULL)
        fclose(unix_sockets);
    CHECK(hits > 0);
    CHECK(braid_window_alloc(comm, 4096, &window) == 0);
    CHECK(use_window(task, comm, window) == 0);
    CHECK(braid_comm_destroy(comm) == 0);
    return 0;
}

static void test_intruder(void **state)
{
    run_processes(2, intruder, 0);
}

/* Rank 1 dies between the hello and its memory: the others end within their bounds. */
static int die_later(void *argument)
{
    int *left = argument;

    if ((*left)-- == 0)
        _exit(0);
    return 0;
}

static int deserted(struct task *task)
{
    struct braid_comm *comm;
    int left = task->argument, rc;
    uint64_t begin = braid_now_ns();

    if (task->boot.rank == 1) {
        task->boot.before = die_later;
        task->boot.argument = &left;
    }
    task->boot.timeout_ms = 1500;
    task->config.timeout_ns = 1000 * BRAID_NS_PER_MS;
    rc = create(task, &comm);
    CHECK(rc != 0);
    CHECK(braid_now_ns() - begin < 20 * BRAID_NS_PER_S);
    return 0;
}

static void test_deserted(void **state)
{
    for (int step = 0; step < 5; step++)
        run_processes(3, deserted, step);
}

/* Destroy with a kernel that does not end: the bound holds and nothing is freed under it. */
static int stuck(struct task *task)
{
    struct braid_comm *comm;
    uint64_t begin;
    int before = fake_cuda.live;

    CHECK(create(task, &comm) == 0);
    CHECK(braid_comm_set_timeout_ns(comm, 50 * BRAID_NS_PER_MS) == 0);
    fake_cuda.busy = 1;
    begin = braid_now_ns();
    CHECK(braid_comm_destroy(comm) == -ETIMEDOUT);
    CHECK(braid_now_ns() - begin < 2 * BRAID_NS_PER_S);
    CHECK(fake_cuda.live > before);
    __atomic_store_n(&fake_cuda.busy, 0, __ATOMIC_RELEASE);
    braid_sleep_ns(20 * BRAID_NS_PER_MS);
    return 0;
}

static void test_stuck(void **state)
{
    run_processes(1, stuck, 0);
}

/* One rank, so that its failure is nobody else's: every call fails once, and nothing is left behind. */
static void test_fail_every_call(void **state)
{
    struct boot_area *area = boot_area_new(1);
    struct boot boot = {.area = area, .timeout_ms = 1000};
    struct braid_bootstrap callbacks = boot_callbacks(&boot);
    int before = fake_cuda.live, rc = -1, tries = 0;

    for (int n = 1; rc != 0 && n < 200; n++, tries++) {
        struct braid_comm *comm = NULL;
        struct braid_window *a = NULL, *b = NULL;

        fake_cuda.fail_at = n;
        rc = braid_comm_create(&comm, &callbacks, NULL);
        assert_true(rc == 0 || rc == -ENOMEM);
        if (rc == 0)
            rc = braid_window_alloc(comm, BYTES, &a);
        if (rc == 0)
            rc = braid_window_alloc(comm, BYTES, &b);
        braid_comm_destroy(comm);
        assert_int_equal(fake_cuda.live, before);
    }
    fake_cuda.fail_at = 0;
    assert_int_equal(rc, 0);
    assert_true(tries > 15);
    boot_area_free(area);
}

/* The same with two ranks in processes: the other rank never hangs and gets the same error. */
static int fail_one(struct task *task)
{
    struct braid_comm *comm = NULL;
    struct braid_window *window;
    int rc;

    if (task->boot.rank == 1)
        fake_cuda.fail_at = task->argument;
    rc = create(task, &comm);
    if (rc == 0) {
        rc = braid_window_alloc(comm, BYTES, &window);
        CHECK(rc == 0 || rc == -ENOMEM);
        braid_comm_destroy(comm);
    }
    CHECK(rc == 0 || rc == -ENOMEM);
    CHECK(fake_cuda.live == 0);
    return 0;
}

static void test_fail_one_rank(void **state)
{
    for (int n = 1; n < 40; n++)
        run_processes(2, fail_one, n);
}

static void test_arguments(void **state)
{
    struct boot_area *area = boot_area_new(1);
    struct boot boot = {.area = area, .timeout_ms = 1000};
    struct braid_bootstrap callbacks = boot_callbacks(&boot);
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;
    struct braid_comm *comm;

    assert_int_equal(braid_comm_create(NULL, &callbacks, NULL), -EINVAL);
    assert_int_equal(braid_comm_create(&comm, NULL, NULL), -EINVAL);
    config.size--;
    assert_int_equal(braid_comm_create(&comm, &callbacks, &config), -EINVAL);
    braid_comm_config_init(&config);
    config.barriers = 0;
    assert_int_equal(braid_comm_create(&comm, &callbacks, &config), -EINVAL);
    callbacks.allgather = NULL;
    assert_int_equal(braid_comm_create(&comm, &callbacks, NULL), -EINVAL);
    assert_int_equal(braid_comm_create_nccl(&comm, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(braid_comm_destroy(NULL), 0);
    braid_window_free(NULL);
    assert_string_equal(braid_version(), BRAID_VERSION_STRING);
    boot_area_free(area);
}

static void test_error_text(void **state)
{
    struct braid_devcomm_error e = {.status = BRAID_DEV_TIMEOUT,
                                    .wait = BRAID_WAIT_BARRIER,
                                    .peer = 3,
                                    .index = 7,
                                    .expected = 12,
                                    .seen = 11,
                                    .waited_ns = 2500000};
    char text[256];

    braid_comm_error_text(&e, text, sizeof(text));
    assert_non_null(strstr(text, "barrier 7 from rank 3 timed out after 2.500 ms"));
    assert_non_null(strstr(text, "expected 12"));
    e.peer = -1;
    e.wait = BRAID_WAIT_USER + 4;
    assert_non_null(
        strstr(braid_comm_error_text(&e, text, sizeof(text)), "user wait 7 from any rank"));
    braid_comm_error_text(&e, text, 8); /* cut, still a string */
    assert_int_equal(strlen(text), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),       cmocka_unit_test(test_registered),
        cmocka_unit_test(test_disagree),      cmocka_unit_test(test_shares),
        cmocka_unit_test(test_no_peer),       cmocka_unit_test(test_namespaces),
        cmocka_unit_test(test_intruder),      cmocka_unit_test(test_deserted),
        cmocka_unit_test(test_stuck),         cmocka_unit_test(test_fail_every_call),
        cmocka_unit_test(test_fail_one_rank), cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_error_text),    cmocka_unit_test(test_wrong_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
