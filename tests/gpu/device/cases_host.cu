/* The host API on real GPUs: what creation finds out, registered memory, launches and shares, NCCL as bootstrap. */
#include "tests/gpu/device/harness.h"

#include <dlfcn.h>

/* Everybody writes a word into everybody's part at `at`, and reads all of them back. */
__global__ void touch(const __grid_constant__ struct braid_devcomm c,
                      const __grid_constant__ struct braid_devwin w, uint64_t at, uint32_t tag,
                      struct verdict *v)
{
    for (int p = 0; p < c.world.ranks; p++)
        braid_put_value_thread(&c, &w, p, at + 4 * c.world.rank, tag + c.world.rank, 4);
    SEE(v, tag, 0, 0, braid_barrier_thread(&c, 0));
    for (int p = 0; p < c.world.ranks; p++)
        SEE(v, tag, p, tag + p, *(volatile uint32_t *)(w.local + at + 4 * p));
    SEE(v, tag, 1, 0, braid_barrier_thread(&c, 0));
}

static void use(struct rank *r, struct braid_window *window, uint32_t tag)
{
    touch<<<1, 1, 0, r->stream>>>(*r->c, *braid_window_device(window),
                                  (braid_window_bytes(window) - 64) & ~3ull, tag, r->verdict);
    settle(r, 10, 1);
}

static void create_case(struct rank *r)
{
    struct braid_window *window = NULL;
    void *function = NULL;
    cudaFunction_t handle = NULL;
    uint32_t *words;
    int rc, most, expected;

    if (r->rank == 0)
        printf(
            "      %d ranks, GPU %d, %d on it, %d SMs, road %u, local team of %d, timeout %.1f s\n",
            r->ranks, braid_comm_gpu(r->comm), braid_comm_gpu_ranks(r->comm),
            braid_comm_sm_count(r->comm), braid_comm_reachable(r->comm, r->ranks - 1),
            braid_comm_local(r->comm).ranks, (double)braid_comm_timeout_ns(r->comm) / 1e9);
    for (int p = 0; p < r->ranks; p++)
        EXPECT(r, braid_comm_reachable(r->comm, p) == BRAID_ROAD_MEMORY, "rank %d", p);
    expected = 0;
    for (int p = 0; p < r->ranks; p++)
        expected += p % r->gpus == r->gpu;
    EXPECT(r, braid_comm_gpu_ranks(r->comm) == expected, "%d ranks on this GPU, expected %d",
           braid_comm_gpu_ranks(r->comm), expected);
    use(r, r->window, 100);
    for (int i = 0; i < 8; i++) { /* windows come and go */
        rc = braid_window_alloc(r->comm, (1u << 20) * (1 + i) + 5, &window);
        if (!EXPECT(r, rc == 0, "window %d: %s", i, strerror(-rc)))
            return;
        words = (uint32_t *)malloc(4096);
        CUDA(r, cudaMemcpy(words, braid_window_address(window, r->rank), 4096,
                           cudaMemcpyDeviceToHost));
        for (int k = 0; k < 1024; k++)
            EXPECT(r, words[k] == 0, "word %d of a new window is %x", k, words[k]);
        free(words);
        use(r, window, 200 + i);
        if (i % 2 == 0)
            braid_window_free(window);
    }
    CUDA(r, cudaGetFuncBySymbol(&handle, (const void *)touch));
    function = (void *)handle;
    most = braid_comm_max_ctas(r->comm, function, 128, 0);
    EXPECT(r, most >= braid_comm_sm_count(r->comm), "at most %d CTAs", most);
    EXPECT(r, braid_comm_check_launch(r->comm, function, most, 128, 0) == 0);
    EXPECT(r, braid_comm_check_launch(r->comm, function, most + 1, 128, 0) == -EAGAIN);
    rc = braid_comm_launch(r->comm, function, most + 1, 128, 0, r->stream, NULL);
    EXPECT(r, rc == -EAGAIN, "launch beyond the share: %d", rc);
    {
        struct braid_devcomm c = *r->c;
        struct braid_devwin w = *r->w;
        uint64_t at = 256;
        uint32_t tag = 900;
        void *arguments[] = {&c, &w, &at, &tag, &r->verdict};

        rc = braid_comm_launch(r->comm, function, 1, 1, 0, r->stream, arguments);
        EXPECT(r, rc == 0, "launch: %s", strerror(-rc));
        settle(r, 10, 1);
    }
    EXPECT(r, braid_comm_sync(r->comm) == 0);
}

/* Plain cudaMalloc at an odd offset (CUDA IPC, or pointers inside a process), and addresses that the caller knows. */
static void register_case(struct rank *r)
{
    struct braid_window *a = NULL, *b = NULL;
    uint64_t peers[BOOT_RANKS];
    char *memory = NULL;
    int rc;

    CUDA(r, cudaMalloc((void **)&memory, 3 << 20));
    rc = braid_window_register(r->comm, memory + 1024, (2 << 20) + 16, NULL, &a);
    if (!EXPECT(r, rc == 0, "registration of cudaMalloc: %s", strerror(-rc)))
        return;
    use(r, a, 300);
    for (int p = 0; p < r->ranks; p++)
        peers[p] = (uint64_t)(uintptr_t)braid_window_address(a, p);
    rc = braid_window_register(r->comm, memory + 1024, (2 << 20) + 16, peers, &b);
    if (!EXPECT(r, rc == 0, "registration with addresses: %s", strerror(-rc)))
        return;
    use(r, b, 400);
    rc = braid_window_register(r->comm, memory, (3 << 20) + 4096 * 1024, NULL, &b);
    EXPECT(r, rc == -EINVAL, "beyond the allocation: %d", rc);
    rc = braid_window_register(r->comm, r, 64, NULL, &b);
    EXPECT(r, rc == -EINVAL, "host memory: %d", rc);
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    braid_window_free(a);
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    CUDA(
        r,
        cudaFree(
            memory)); /* waits for the GPU: no rank of this process may have a kernel that waits for us yet */
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    use(r, r->window, 500);
}

struct nccl_id {
    char bytes[128];
};

/* ncclConfig_t as NCCL 2.19 has it; newer versions take it by its size and version. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
};
#define NCCL_UNSET ((int)0x80000000)

enum { NCCL_IN_PROGRESS = 7 };

/* ncclCommInitRankConfig of a communicator whose calls return before they are done; waits until it is ready. */
static int init_nonblocking(struct rank *r, void *library, void **comm, struct nccl_id id)
{
    struct nccl_config config = {sizeof(config), 0xcafebeefu, 21903, 0,         NCCL_UNSET,
                                 NCCL_UNSET,     NCCL_UNSET,  NULL,  NCCL_UNSET};
    int (*init)(void **, int, struct nccl_id, int, struct nccl_config *);
    int (*async_error)(void *, int *);
    double end = now_s() + 20;
    int rc;

    *(void **)&init = dlsym(library, "ncclCommInitRankConfig");
    *(void **)&async_error = dlsym(library, "ncclCommGetAsyncError");
    rc = init(comm, r->ranks, id, r->rank, &config);
    while (rc == NCCL_IN_PROGRESS && now_s() < end)
        if (async_error(*comm, &rc) != 0)
            return -1;
    return rc;
}

/* NCCL as bootstrap. On one GPU the ranks pose as two hosts, because NCCL takes a GPU only once a host. */
static void nccl_case(struct rank *r)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    int (*get_id)(struct nccl_id *);
    int (*init)(void **, int, struct nccl_id, int);
    int (*destroy)(void *);
    struct braid_comm_config config = BRAID_COMM_CONFIG_INIT;
    struct nccl_id mine, all[BOOT_RANKS];
    void *comm = NULL;
    char host[16];
    int rc;

    if (library == NULL) {
        if (r->rank == 0)
            printf("      left out: libnccl.so.2 is not here\n");
        return;
    }
    snprintf(host, sizeof(host), "host%d", r->rank);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (r->gpus < r->ranks) {
        setenv("NCCL_HOSTID", host, 1);
        setenv("NCCL_MNNVL_ENABLE", "0", 1);
        setenv("NCCL_SOCKET_IFNAME", "lo", 0);
        setenv("NCCL_NET_PLUGIN", "none", 0);
    }
    *(void **)&get_id = dlsym(library, "ncclGetUniqueId");
    *(void **)&init = dlsym(library, "ncclCommInitRank");
    *(void **)&destroy = dlsym(library, "ncclCommDestroy");
    memset(&mine, 0, sizeof(mine));
    if (r->rank == 0)
        EXPECT(r, get_id(&mine) == 0);
    EXPECT(r, boot_allgather(&r->boot, &mine, all, sizeof(mine)) == 0);
    rc = r->option[0] == 'n' ? init_nonblocking(r, library, &comm, all[0])
                             : init(&comm, r->ranks, all[0], r->rank);
    if (!EXPECT(r, rc == 0, "ncclCommInitRank: %d", rc))
        return;
    config.timeout_ns = 10000000000ull;
    rc = braid_comm_create_nccl(&r->comm, comm, library, &config);
    if (!EXPECT(r, rc == 0, "braid_comm_create_nccl: %s", strerror(-rc)))
        return;
    EXPECT(r, braid_comm_rank(r->comm) == r->rank && braid_comm_ranks(r->comm) == r->ranks);
    rc = braid_window_alloc(r->comm, WINDOW_BYTES, &r->window);
    if (!EXPECT(r, rc == 0, "window: %s", strerror(-rc)))
        return;
    r->c = braid_comm_device(r->comm);
    r->w = braid_window_device(r->window);
    use(r, r->window, 600);
    EXPECT(r, braid_comm_sync(r->comm) == 0);
    rc = braid_comm_destroy(r->comm);
    EXPECT(r, rc == 0, "destroy: %s", strerror(-rc));
    r->comm = NULL;
    rc = destroy(comm);
    EXPECT(r, rc == 0 || (rc == NCCL_IN_PROGRESS && r->option[0] == 'n'), "ncclCommDestroy: %d",
           rc);
}

const struct test_case host_cases[] = {
    {"create", create_case, 2, 30, 5000, 1, "", 0},
    {"create/threads", create_case, 2, 30, 5000, 1, "", CASE_THREADS},
    {"create/1_rank", create_case, 1, 30, 5000, 1, "", 0},
    {"create/4_ranks", create_case, 4, 30, 5000, 1, "", 0},
    {"create/9_threads", create_case, 9, 30, 5000, 1, "", CASE_THREADS},
    {"register", register_case, 2, 30, 5000, 1, "", 0},
    {"register/threads", register_case, 2, 30, 5000, 1, "", CASE_THREADS},
    {"nccl", nccl_case, 2, 30, 10000, 1, "", CASE_NO_SETUP},
    {"nccl/nonblocking", nccl_case, 2, 40, 10000, 1, "nonblocking", CASE_NO_SETUP},
    {NULL, NULL, 0, 0, 0, 0, NULL, 0},
};
