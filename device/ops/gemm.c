/* Operation objects, see gemm.h and the public header braid/gemm_ops.h. */
#include "device/ops/gemm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/param.h"
#include "common/util.h"

/* The image of gemm_kernels.cu, see gemm_image.c. */
extern const unsigned char braid_gemm_image[];

enum source { FROM_MODEL, FROM_FILE, FROM_LIBRARY };

/* What a rank tells the others while an object is made; a slot of the window's head. */
struct note {
    int32_t status;
    int32_t from; /* enum source */
    struct braid_gemm_desc desc;
    double model_us, model_serial_us;
};

#define NOTE_BYTES 512u
_Static_assert(sizeof(struct note) <= NOTE_BYTES, "a note fits in its slot");

static size_t align_up(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

int braid_gemm_enter(const struct braid_gemm *g)
{
    return braid_gemm_cuda_check(g->cuda->context_push(g->context), "cuCtxPushCurrent");
}

void braid_gemm_leave(const struct braid_gemm *g)
{
    CUcontext context;

    g->cuda->context_pop(&context);
}

static uint32_t flag_words(int ranks)
{
    return 2u * (uint32_t)ranks * (1 + BRAID_GEMM_MAX_SPLITS);
}

/* The head holds notes while the object is made, flags and the go word afterwards. */
static size_t head_bytes(int ranks)
{
    return align_up(MAX((size_t)ranks * NOTE_BYTES, (flag_words(ranks) + 1) * sizeof(uint32_t)));
}

/* Where each window buffer begins; returns the bytes of the window. */
static size_t lay_out(struct braid_gemm *g)
{
    const struct braid_gemm_desc *d = &g->desc;
    size_t rows = (size_t)(g->bulk ? d->bulk_m : d->m), at = head_bytes(g->ranks);
    bool gather = d->op == BRAID_AG_GEMM;

    if (gather) {
        g->offset[BRAID_GEMM_B_GATHER] = at;
        return at + align_up(rows * braid_gemm_row_bytes(g, BRAID_GEMM_B_GATHER));
    }
    g->offset[BRAID_GEMM_B_PART] = at;
    at += align_up(rows * braid_gemm_row_bytes(g, BRAID_GEMM_B_PART));
    if (d->op == BRAID_GEMM_AR) {
        g->offset[BRAID_GEMM_B_RESULT] = at;
        at += align_up(rows * braid_gemm_row_bytes(g, BRAID_GEMM_B_RESULT));
    }
    return at;
}

/*
 * Every rank's note to every rank, through the heads of the windows. A copy goes through the driver's own staging, so it is done when
 * the stream is; the barrier of the hosts does the rest.
 */
static int exchange(struct braid_gemm *g, const struct note *mine, struct note *all)
{
    char slot[NOTE_BYTES] = {0}, *head = NULL;
    int rc = 0, sync_rc;

    memcpy(slot, mine, sizeof(*mine));
    for (int p = 0; rc == 0 && p < g->ranks; p++)
        rc =
            braid_gemm_cuda_check(g->cuda->copy_to_device(g->base[p] + (size_t)g->rank * NOTE_BYTES,
                                                          slot, NOTE_BYTES, g->lanes->watch[0]),
                                  "copy of a note");
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->stream_synchronize(g->lanes->watch[0]), "note");
    sync_rc = braid_comm_sync(g->comm);
    if (sync_rc != 0)
        return sync_rc;
    head = malloc((size_t)g->ranks * NOTE_BYTES);
    if (head == NULL)
        rc = rc ? rc : -ENOMEM;
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->copy_to_host(head, g->base[g->rank],
                                                         (size_t)g->ranks * NOTE_BYTES,
                                                         g->lanes->watch[0]),
                                   "copy of notes");
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->stream_synchronize(g->lanes->watch[0]), "notes");
    for (int p = 0; rc == 0 && p < g->ranks; p++)
        memcpy(&all[p], head + (size_t)p * NOTE_BYTES, sizeof(all[p]));
    free(head);
    sync_rc = braid_comm_sync(g->comm); /* nobody overwrites a head that is still read */
    return sync_rc ? sync_rc : rc;
}

/* All ranks bring a status and get the first failure. */
static int agree(struct braid_gemm *g, int status)
{
    struct note mine = {.status = status}, *all = calloc((size_t)g->ranks, sizeof(*all));
    int rc;

    if (all == NULL)
        return -ENOMEM;
    rc = exchange(g, &mine, all);
    for (int p = 0; rc == 0 && p < g->ranks; p++)
        rc = all[p].status;
    free(all);
    return rc;
}

static bool same_shape(const struct braid_gemm_desc *a, const struct braid_gemm_desc *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->flags == b->flags && a->m == b->m &&
           a->n == b->n && a->k == b->k && a->bulk_m == b->bulk_m && a->bulk_n == b->bulk_n &&
           a->alignment == b->alignment &&
           (a->settings.method == BRAID_GEMM_BULK) == (b->settings.method == BRAID_GEMM_BULK);
}

/* This rank's idea of the settings. */
static void propose(struct braid_gemm *g, struct note *note)
{
    const char *path = braid_param_str(BRAID_P_OVERLAP_PROFILE);
    struct braid_gemm_settings *set = &note->desc.settings, serial = {.method = BRAID_GEMM_SERIAL};
    int method = set->method;

    if (method == BRAID_GEMM_AUTO) {
        if (braid_gemm_profile_load(path, &g->desc, &g->on, set) == 0)
            note->from = FROM_FILE;
        else if (braid_gemm_profile_shipped(NULL, &g->desc, &g->on, set) == 0)
            note->from = FROM_LIBRARY;
        else
            braid_gemm_model_choose(&g->desc, &g->on, set);
    }
    braid_gemm_settings_complete(g->desc.op, set);
    braid_gemm_settings_complete(g->desc.op, &serial);
    if (method != BRAID_GEMM_BULK) {
        note->model_us = braid_gemm_model_us(&g->desc, &g->on, set);
        note->model_serial_us = braid_gemm_model_us(&g->desc, &g->on, &serial);
    }
}

static void explain(struct braid_gemm *g, const struct note *chosen)
{
    struct braid_gemm_info *info = &g->info;

    info->settings = chosen->desc.settings;
    info->model_us = chosen->model_us;
    info->model_serial_us = chosen->model_serial_us;
    if (g->asked)
        snprintf(info->reason, sizeof(info->reason), "caller");
    else if (chosen->from == FROM_LIBRARY)
        snprintf(info->reason, sizeof(info->reason), "the library's profile of this machine");
    else if (chosen->from == FROM_FILE)
        snprintf(info->reason, sizeof(info->reason), "profile %.120s",
                 braid_param_str(BRAID_P_OVERLAP_PROFILE));
    else
        snprintf(info->reason, sizeof(info->reason),
                 "model, never tuned: %.0f us, serial %.0f us; braid-overlap --tune measures it",
                 chosen->model_us, chosen->model_serial_us);
    BRAID_INFO(BRAID_LOG_TUNING, "gemm op %d %ld x %ld x %ld on %d ranks: %s, %d splits (%s)",
               g->desc.op, (long)g->desc.m, (long)g->desc.n, (long)g->desc.k, g->ranks,
               braid_gemm_method_name(info->settings.method), info->settings.num_splits,
               info->reason);
}

/* Rank 0's settings for all; -EINVAL when the ranks were asked for different things. */
static int settle(struct braid_gemm *g)
{
    struct note mine = {.desc = g->desc}, *all = calloc((size_t)g->ranks, sizeof(*all));
    int rc;

    if (all == NULL)
        return -ENOMEM;
    propose(g, &mine);
    rc = exchange(g, &mine, all);
    for (int p = 1; rc == 0 && p < g->ranks; p++)
        if (!same_shape(&all[p].desc, &all[0].desc)) {
            BRAID_WARN("rank %d creates another operation than rank 0: %d %ld x %ld x %ld, not %d "
                       "%ld x %ld x %ld",
                       p, all[p].desc.op, (long)all[p].desc.m, (long)all[p].desc.n,
                       (long)all[p].desc.k, all[0].desc.op, (long)all[0].desc.m,
                       (long)all[0].desc.n, (long)all[0].desc.k);
            rc = -EINVAL;
        }
    if (rc == 0) {
        g->desc.settings = all[0].desc.settings;
        explain(g, &all[0]);
    }
    free(all);
    return rc;
}

/* What every pointer of the program is a multiple of, when the caller's pointers are multiples of what he promised. */
static uint32_t inner_alignment(const struct braid_gemm *g)
{
    size_t bits = g->desc.alignment;

    for (size_t i = 0; i < g->program.count; i++) {
        const struct braid_gemm_instr *instr = &g->program.instr[i];

        if (instr->kind != BRAID_GEMM_I_GEMM)
            continue;
        bits |= (size_t)instr->src_row * braid_gemm_row_bytes(g, instr->src);
        bits |= (size_t)instr->dst_row * braid_gemm_row_bytes(g, instr->dst);
        if (instr->acc != BRAID_GEMM_B_NONE)
            bits |= (size_t)instr->acc_row * braid_gemm_row_bytes(g, instr->acc);
    }
    return (uint32_t)MIN(bits & -bits, 256);
}

static int open_blas(struct braid_gemm *g)
{
    const struct braid_gemm_settings *set = &g->desc.settings;
    struct braid_gemm_blas_config config = {
        .dtype = g->desc.dtype,
        .w_transposed = g->desc.flags & BRAID_GEMM_W_TRANSPOSED,
        .n = g->desc.n,
        .k = g->desc.k,
        .alignment = inner_alignment(g),
        .sms = set->sm_margin > 0 ? MAX(1, g->on.sms - set->sm_margin) : 0,
        .workspace_bytes = BRAID_GEMM_WORKSPACE,
    };
    char why[200] = "";
    int rc = braid_gemm_blas_open(&g->blas, &config, why, sizeof(why));

    if (rc != 0)
        BRAID_WARN("fused products need cuBLASLt: %s",
                   why[0] ? why : "it refused the shape or the type");
    return rc;
}

/* One product for each kind of instruction, and the algorithm that the settings name. */
static int prepare_products(struct braid_gemm *g)
{
    const struct braid_gemm_program *p = &g->program;

    g->product = malloc(p->count * sizeof(*g->product));
    if (g->product == NULL)
        return -ENOMEM;
    g->whole = braid_gemm_blas_product(&g->blas, g->desc.m, false);
    if (g->whole < 0)
        return g->whole;
    for (size_t i = 0; i < p->count; i++) {
        int found = -1;

        if (p->instr[i].kind == BRAID_GEMM_I_GEMM) {
            found = braid_gemm_blas_product(&g->blas, p->instr[i].rows,
                                            p->instr[i].acc != BRAID_GEMM_B_NONE);
            if (found < 0)
                return found;
        }
        g->product[i] = (int16_t)found;
    }
    for (int a = 0; a < BRAID_GEMM_MAX_ALGOS; a++)
        for (size_t i = 0; i < g->blas.count; i++) {
            const struct braid_gemm_algo *algo = &g->desc.settings.algos[a];
            struct braid_gemm_product *product = &g->blas.products[i];

            if (algo->rows == product->rows && (algo->adds != 0) == product->adds &&
                algo->proposal >= 0 && algo->proposal < product->count)
                product->use = algo->proposal;
        }
    return 0;
}

static int make_events(struct braid_gemm *g)
{
    size_t edges = 0;
    int rc = 0;

    for (int lane = 0; lane < BRAID_GEMM_MAX_LANES; lane++)
        g->first_wait[lane] = g->last_wait[lane] = g->program.count;
    for (size_t i = 0; i < g->program.count; i++) {
        const struct braid_gemm_instr *instr = &g->program.instr[i];

        edges += instr->kind == BRAID_GEMM_I_EDGE;
        if (instr->kind != BRAID_GEMM_I_WAIT)
            continue;
        if (g->first_wait[instr->lane] == g->program.count)
            g->first_wait[instr->lane] = i;
        g->last_wait[instr->lane] = i;
    }
    g->events = calloc(edges + 1, sizeof(CUevent));
    if (g->events == NULL)
        return -ENOMEM;
    while (rc == 0 && g->event_count < edges) {
        rc = braid_gemm_cuda_check(
            g->cuda->event_create(&g->events[g->event_count], CU_EVENT_DISABLE_TIMING), "event");
        g->event_count += rc == 0;
    }
    return rc;
}

static int allocate(struct braid_gemm *g, CUdeviceptr *address, size_t bytes)
{
    int rc = braid_gemm_cuda_check(g->cuda->mem_alloc(address, bytes), "scratch memory");

    if (rc == 0)
        g->info.scratch_bytes += bytes;
    return rc;
}

static int make_scratch(struct braid_gemm *g)
{
    bool staged = false;
    int rc = 0;

    for (size_t i = 0; i < g->program.count; i++)
        staged = staged || g->program.instr[i].dst == BRAID_GEMM_B_STAGE;
    if (staged)
        rc =
            allocate(g, &g->stage, (size_t)g->desc.m * braid_gemm_row_bytes(g, BRAID_GEMM_B_STAGE));
    for (uint32_t lane = 0; rc == 0 && lane < BRAID_GEMM_LANE_PUSH; lane++)
        if (lane == 0 || g->program.lanes & 1u << lane)
            rc = allocate(g, &g->workspace[lane], MAX(g->blas.workspace_bytes, 256));
    return rc;
}

static int load_kernels(struct braid_gemm *g)
{
    int rc = braid_gemm_cuda_check(g->cuda->module_load(&g->module, braid_gemm_image),
                                   "loading Braid's kernels");

    if (rc == 0)
        rc = braid_gemm_cuda_check(
            g->cuda->module_function(&g->copy_kernel, g->module, "braid_gemm_copy"), "kernel");
    if (rc == 0)
        rc = braid_gemm_cuda_check(
            g->cuda->module_function(&g->add_kernel, g->module, "braid_gemm_add"), "kernel");
    if (rc == 0)
        rc = braid_gemm_cuda_check(
            g->cuda->module_function(&g->flags_kernel, g->module, "braid_gemm_flags"), "kernel");
    return rc;
}

/* Flags to 0, go to 1. After this and a barrier operations may run. */
static int reset_flags(struct braid_gemm *g)
{
    CUdeviceptr head = g->base[g->rank];
    CUstream stream = g->lanes->watch[0];
    size_t words = head_bytes(g->ranks) / sizeof(uint32_t);
    int rc = braid_gemm_cuda_check(g->cuda->fill32(head, 0, words, stream), "flags");

    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->fill32(g->watch.go, 1, 1, stream), "flags");
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->stream_synchronize(stream), "flags");
    return rc;
}

/*
 * Runs every product once on memory of no meaning. The library loads its kernels at the first use, and loading waits for the GPU: in
 * an operation it would wait for whatever that operation waits for, and hold up the watchdog with it.
 */
static int warm_up(struct braid_gemm *g)
{
    size_t m = (size_t)g->desc.m, n = (size_t)g->desc.n, k = (size_t)g->desc.k;
    size_t bytes = 2 * MAX(m * k, MAX(n * k, m * n));
    CUstream stream = g->lanes->watch[0];
    CUdeviceptr memory = 0;
    int rc = braid_gemm_cuda_check(g->cuda->mem_alloc(&memory, bytes), "memory for a first run");
    void *p = (void *)(uintptr_t)memory;

    for (size_t i = 0; rc == 0 && i < g->blas.count; i++)
        rc = braid_gemm_blas_run(&g->blas, (int)i, p, p, g->blas.products[i].adds ? p : NULL, p,
                                 (void *)(uintptr_t)g->workspace[0], stream);
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->stream_synchronize(stream), "first run of products");
    if (memory)
        g->cuda->mem_free(memory);
    return rc;
}

/* Everything of this rank that a failure of another rank does not touch. */
static int build(struct braid_gemm *g)
{
    int rc = braid_gemm_program_make(&g->desc, &g->desc.settings, g->rank, g->ranks, &g->program);

    if (rc != 0)
        return rc;
    rc = open_blas(g);
    if (rc == 0)
        rc = prepare_products(g);
    if (rc == 0)
        rc = make_events(g);
    if (rc == 0)
        rc = make_scratch(g);
    if (rc == 0)
        rc = load_kernels(g);
    return rc ? rc : warm_up(g);
}

static int make_watch(struct braid_gemm *g)
{
    struct braid_gemm_watch *w = &g->watch;
    void *word = NULL, *copy = NULL;
    int rc;

    w->cuda = g->cuda;
    w->context = g->context;
    w->rank = g->rank;
    w->timeout_ns = braid_comm_timeout_ns(g->comm);
    w->program = &g->program;
    w->flag_count = flag_words(g->ranks);
    rc = braid_gemm_lanes_get(g->cuda, g->comm, &g->lanes);
    w->streams = rc == 0 ? g->lanes->watch : NULL;
    if (rc == 0)
        rc = braid_gemm_cuda_check(
            g->cuda->host_alloc(&word, 128, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE),
            "pinned memory");
    w->busy = word;
    if (rc == 0)
        rc =
            braid_gemm_cuda_check(g->cuda->host_device_pointer(&g->busy, word, 0), "pinned memory");
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->host_alloc(&copy,
                                                       (2 * w->flag_count + 1) * sizeof(uint32_t),
                                                       CU_MEMHOSTALLOC_PORTABLE),
                                   "pinned memory");
    w->copy = copy;
    for (uint32_t i = 0; rc == 0 && i <= 2 * w->flag_count; i++)
        w->copy[i] = i < 2 * w->flag_count;
    if (rc == 0)
        for (int lane = 0; lane < BRAID_GEMM_MAX_LANES; lane++)
            atomic_store(&w->busy[lane], BRAID_GEMM_IDLE);
    return rc;
}

static int open_window(struct braid_gemm *g)
{
    int rc;

    g->info.window_bytes = lay_out(g);
    rc = braid_window_alloc(g->comm, g->info.window_bytes, &g->window);
    for (int p = 0; rc == 0 && p < g->ranks; p++) {
        g->base[p] = (CUdeviceptr)(uintptr_t)braid_window_address(g->window, p);
        if (g->base[p] == 0) {
            BRAID_WARN("rank %d has no memory road to rank %d; fused products need one", g->rank,
                       p);
            rc = -ENOTSUP;
        }
    }
    g->watch.flags = g->base[g->rank];
    g->watch.go = g->watch.flags + g->watch.flag_count * sizeof(uint32_t);
    return rc;
}

static bool usable(const struct braid_gemm *g)
{
    const struct braid_gemm_desc *d = &g->desc;

    if (d->op < BRAID_AG_GEMM || d->op > BRAID_GEMM_AR || d->dtype < BRAID_GEMM_BF16 ||
        d->dtype > BRAID_GEMM_FP16 || d->m <= 0 || d->n <= 0 || d->k <= 0 || d->n % 8 != 0 ||
        d->k % 8 != 0 || d->m % g->ranks != 0 || d->alignment % 16 != 0)
        return false;
    if (d->flags & BRAID_GEMM_KEEP_GATHERED && d->op != BRAID_AG_GEMM)
        return false;
    return !g->bulk || (d->bulk_m > 0 && d->bulk_n > 0 && d->bulk_n % 8 == 0 &&
                        d->bulk_m % g->ranks == 0 && d->op != BRAID_GEMM_AR);
}

static int find_machine(struct braid_gemm *g)
{
    char why[200];
    int major = 0, minor = 0, rc = braid_gemm_cuda_get(&g->cuda, why, sizeof(why));

    if (rc != 0) {
        BRAID_WARN("fused products need the CUDA driver: %s", why);
        return rc;
    }
    rc = braid_gemm_cuda_check(g->cuda->device_get(&g->device, braid_comm_gpu(g->comm)), "GPU");
    if (rc == 0)
        rc = braid_gemm_cuda_check(g->cuda->primary_retain(&g->context, g->device), "GPU context");
    if (rc != 0)
        return rc;
    g->cuda->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g->device);
    g->cuda->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g->device);
    g->on = (struct braid_gemm_machine){.ranks = g->ranks,
                                        .arch = 10 * major + minor,
                                        .sms = braid_comm_sm_count(g->comm),
                                        .lt_version = (long)braid_gemm_blas_version()};
    return 0;
}

/*
 * The collectives of SERIAL with num_sm. Each object has its own, so that objects on different streams do not meet. A choice of ours
 * falls back to the copy engine where there are none; a caller's does not.
 */
static int open_collectives(struct braid_gemm *g)
{
    struct braid_ops_config config = BRAID_OPS_CONFIG_INIT;
    uint32_t slots = braid_comm_device(g->comm)->slot_count;
    int rc;

    if (g->desc.settings.method != BRAID_GEMM_SERIAL || g->desc.settings.num_sm == 0 ||
        g->ranks == 1)
        return 0;
    config.slot = slots - 2 - g->lanes->slots++ % MAX(1u, slots / 2);
    config.staging_bytes = (size_t)16 << 20;
    rc = agree(g, braid_ops_create(&g->ops, g->comm, &config));
    if (rc == 0)
        return 0;
    braid_ops_destroy(g->ops);
    g->ops = NULL;
    if (g->asked)
        return rc;
    g->desc.settings.num_sm = g->info.settings.num_sm = 0;
    return 0;
}

/* The collective part: from here on every rank goes through the same barriers whatever happens to it. */
static int make_together(struct braid_gemm *g)
{
    int rc = open_window(g);

    if (rc != 0)
        return rc;
    rc = settle(g);
    if (rc != 0)
        return rc;
    rc = open_collectives(g);
    rc = rc ? rc : agree(g, build(g));
    if (rc == 0)
        rc = reset_flags(g);
    if (rc == 0)
        rc = braid_comm_sync(g->comm);
    return rc ? rc : braid_gemm_watch_add(&g->watch);
}

static void tear_down(struct braid_gemm *g)
{
    for (size_t i = 0; i < g->event_count; i++)
        g->cuda->event_destroy(g->events[i]);
    for (uint32_t lane = 0; lane < BRAID_GEMM_LANE_PUSH; lane++)
        if (g->workspace[lane])
            g->cuda->mem_free(g->workspace[lane]);
    if (g->stage)
        g->cuda->mem_free(g->stage);
    if (g->module)
        g->cuda->module_unload(g->module);
    braid_gemm_blas_close(&g->blas);
    if (g->ops)
        braid_ops_destroy(g->ops);
    braid_window_free(g->window);
    if (g->watch.busy)
        g->cuda->host_free((void *)g->watch.busy);
    if (g->watch.copy)
        g->cuda->host_free(g->watch.copy);
    if (g->lanes)
        braid_gemm_lanes_put(g->cuda, g->lanes);
}

static void release(struct braid_gemm *g)
{
    if (g->context && braid_gemm_enter(g) == 0) {
        tear_down(g);
        braid_gemm_leave(g);
    }
    if (g->context)
        g->cuda->primary_release(g->device);
    braid_gemm_program_free(&g->program);
    free(g->product);
    free(g->events);
    free(g);
}

int braid_gemm_create(struct braid_comm *comm, const struct braid_gemm_desc *desc,
                      struct braid_gemm **gemm_p)
{
    struct braid_gemm *g;
    int rc;

    if (comm == NULL || desc == NULL || gemm_p == NULL || desc->size != sizeof(*desc))
        return -EINVAL;
    if (desc->settings.method == BRAID_GEMM_TILE)
        return -EOPNOTSUPP;
    g = calloc(1, sizeof(*g));
    if (g == NULL)
        return -ENOMEM;
    g->comm = comm;
    g->desc = *desc;
    g->desc.alignment = desc->alignment ? desc->alignment : 16;
    g->bulk = desc->settings.method == BRAID_GEMM_BULK;
    g->asked = desc->settings.method != BRAID_GEMM_AUTO;
    g->rank = braid_comm_rank(comm);
    g->ranks = braid_comm_ranks(comm);
    g->part = (g->bulk ? desc->bulk_m : desc->m) / g->ranks;
    rc = usable(g) ? find_machine(g) : -EINVAL;
    if (rc == 0)
        rc = braid_gemm_enter(g);
    if (rc == 0) {
        rc = make_watch(g);
        rc = rc ? rc : make_together(g);
        braid_gemm_leave(g);
    }
    if (rc != 0) {
        release(g);
        return rc;
    }
    *gemm_p = g;
    return 0;
}

void braid_gemm_destroy(struct braid_gemm *g)
{
    if (g == NULL)
        return;
    if (braid_gemm_enter(g) == 0) {
        for (uint32_t lane = 1; lane < BRAID_GEMM_MAX_LANES; lane++)
            g->cuda->stream_synchronize(g->lanes->stream[lane]); /* the watchdog bounds it */
        braid_gemm_watch_remove(&g->watch);
        for (int i = 0; i < BRAID_GEMM_WATCH_STREAMS; i++)
            g->cuda->stream_synchronize(g->lanes->watch[i]); /* its late writes, too */
        braid_gemm_leave(g);
    } else {
        braid_gemm_watch_remove(&g->watch);
    }
    release(g);
}

static bool aligned(const struct braid_gemm *g, const void *pointer)
{
    return pointer != NULL && (uintptr_t)pointer % g->desc.alignment == 0;
}

static int run(struct braid_gemm *g, const struct braid_gemm_call *call,
               enum braid_gemm_share share)
{
    int rc;

    if (share != BRAID_GEMM_NO_PRODUCTS &&
        (!aligned(g, call->x) || !aligned(g, call->w) || !aligned(g, call->y)))
        return -EINVAL;
    if (atomic_load_explicit(&g->watch.failed, memory_order_relaxed) != 0 ||
        (g->ops != NULL && braid_comm_error(g->comm, NULL) != 0))
        return -EIO;
    rc = braid_gemm_enter(g);
    if (rc != 0)
        return rc;
    rc = braid_gemm_enqueue(g, call, share);
    braid_gemm_leave(g);
    return rc;
}

static int run_fused(struct braid_gemm *g, int op, const void *x, const void *w, void *y,
                     void *stream)
{
    struct braid_gemm_call call = {.x = x, .w = w, .y = y, .stream = stream};

    if (g == NULL || g->desc.op != op || g->bulk)
        return -EINVAL;
    return run(g, &call, BRAID_GEMM_ALL);
}

int braid_ag_gemm(struct braid_gemm *gemm, const void *x, const void *w, void *y, void *stream)
{
    return run_fused(gemm, BRAID_AG_GEMM, x, w, y, stream);
}

int braid_gemm_rs(struct braid_gemm *gemm, const void *x, const void *w, void *y, void *stream)
{
    return run_fused(gemm, BRAID_GEMM_RS, x, w, y, stream);
}

int braid_gemm_ar(struct braid_gemm *gemm, const void *x, const void *w, void *y, void *stream)
{
    return run_fused(gemm, BRAID_GEMM_AR, x, w, y, stream);
}

int braid_gemm_bulk(struct braid_gemm *g, const void *send, void *recv, const void *x,
                    const void *w, void *y, void *stream)
{
    struct braid_gemm_call call = {
        .x = x, .w = w, .y = y, .send = send, .recv = recv, .stream = stream};

    if (g == NULL || !g->bulk || !aligned(g, send) ||
        (g->desc.op == BRAID_GEMM_RS && !aligned(g, recv)))
        return -EINVAL;
    return run(g, &call, x != NULL ? BRAID_GEMM_ALL : BRAID_GEMM_NO_PRODUCTS);
}

int braid_gemm_compute(struct braid_gemm *g, const void *x, const void *w, void *y, void *stream)
{
    int rc;

    if (g == NULL || !aligned(g, x) || !aligned(g, w) || !aligned(g, y))
        return -EINVAL;
    rc = braid_gemm_enter(g);
    if (rc != 0)
        return rc;
    rc = braid_gemm_blas_run(&g->blas, g->whole, x, w, NULL, y, (void *)(uintptr_t)g->workspace[0],
                             stream);
    braid_gemm_leave(g);
    return rc;
}

int braid_gemm_products(struct braid_gemm *g, const void *x, const void *w, void *y, void *stream)
{
    struct braid_gemm_call call = {.x = x, .w = w, .y = y, .stream = stream};

    if (g == NULL || g->bulk)
        return -EINVAL;
    return run(g, &call, BRAID_GEMM_ONLY_PRODUCTS);
}

void *braid_gemm_gathered(struct braid_gemm *g)
{
    if (g == NULL || g->desc.op != BRAID_AG_GEMM ||
        !(g->bulk || g->desc.flags & BRAID_GEMM_KEEP_GATHERED))
        return NULL;
    return (void *)(uintptr_t)(g->base[g->rank] + g->offset[BRAID_GEMM_B_GATHER]);
}

int braid_gemm_describe(const struct braid_gemm *g, struct braid_gemm_info *info)
{
    if (g == NULL || info == NULL)
        return -EINVAL;
    *info = g->info;
    return 0;
}

/* A wait inside a kernel of the collectives. */
static int kernel_status(struct braid_gemm *g, struct braid_gemm_error *error)
{
    struct braid_devcomm_error reason;
    int status = g->ops != NULL ? braid_comm_error(g->comm, &reason) : 0;

    if (status == 0)
        return 0;
    if (error != NULL) {
        error->status = status;
        error->peer = reason.status ? reason.peer : -1;
        error->waited_ns = reason.waited_ns;
        braid_comm_error_text(&reason, error->text, sizeof(error->text));
    }
    return -EIO;
}

int braid_gemm_status(struct braid_gemm *g, struct braid_gemm_error *error)
{
    if (g == NULL)
        return -EINVAL;
    if (error != NULL)
        memset(error, 0, sizeof(*error));
    if (kernel_status(g, error) != 0)
        return -EIO;
    if (atomic_load(&g->watch.failed) == 0)
        return 0;
    /* The streams are let go a moment before the reason is known. */
    for (int i = 0; error != NULL && i < 2000 && atomic_load(&g->watch.failed) == 1; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (error != NULL && atomic_load(&g->watch.failed) == 2)
        *error = g->watch.error;
    return -EIO;
}

int braid_gemm_profile_save(const char *path, struct braid_comm *comm,
                            const struct braid_gemm_desc *desc)
{
    struct braid_gemm g = {.comm = comm, .ranks = braid_comm_ranks(comm)};
    int rc = find_machine(&g);

    if (rc != 0)
        return rc;
    g.cuda->primary_release(g.device);
    if (path == NULL)
        path = braid_param_str(BRAID_P_OVERLAP_PROFILE);
    if (path[0] == '\0')
        return -ENOENT;
    return braid_gemm_profile_store(path, desc, &g.on, &desc->settings);
}
