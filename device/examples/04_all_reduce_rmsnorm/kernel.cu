/*
 * Tensor-parallel layers end with: all-reduce, add the residual, RMSNorm. Here all of it is one kernel. A CTA has some rows: it sends
 * them to every peer as packets, then takes row by row what the peers have sent, adds, normalises and stores.
 * Built as a shared library with a plain C interface, which op.py calls through ctypes. bf16, rows of at most 12288 numbers.
 */
#include <cstdint>

#include <braid/comm.h>
#include <braid/device.cuh>

/* The packets' window: [2 parities][ranks][rows_most][tiles][2048]; slot r has what rank r has sent. */
struct fused_arguments {
    const void *x;      /* [rows, hidden] this rank's partial sums */
    void *residual;     /* [rows, hidden] read and replaced by the sum */
    const void *weight; /* [hidden] */
    void *y;            /* [rows, hidden] */
    uint32_t rows, rows_most;
    uint32_t hidden_bytes; /* a multiple of 16 */
    uint32_t slot;         /* epoch slot */
    float epsilon;
};

/* Where row `row` of rank `source` is on rank `dest`. */
static __device__ uint64_t row_packets(const struct braid_devwin *w,
                                       const struct fused_arguments *a, uint32_t parity,
                                       uint32_t source, uint32_t dest, uint32_t row)
{
    uint64_t bytes = 2048 * braid_ll_tiles(a->hidden_bytes);

    return braid_window_base(w, (int)dest) +
           ((uint64_t)(parity * w->ranks + source) * a->rows_most + row) * bytes;
}

/* One row: this lane's three vectors of it. */
static __device__ void finish_row(const struct braid_devcomm *c, const struct braid_devwin *w,
                                  const struct fused_arguments *a, uint32_t epoch, uint32_t row,
                                  const struct braid_ll_spot *s, float *shared)
{
    uint64_t at = (uint64_t)row * a->hidden_bytes;
    struct braid_ll_vectors mine = braid_ll_load<true>((uint64_t)a->x + at, s);
    struct braid_ll_vectors old = braid_ll_load<true>((uint64_t)a->residual + at, s);
    struct braid_ll_vectors weight = braid_ll_load<true>((uint64_t)a->weight, s);
    float h[3][8] = {}, squares = 0.0f, scale;

    for (uint32_t r = 0; r < w->ranks; r++) { /* in rank order: the same bits on every rank */
        struct braid_ll_vectors v = mine;

        if (r != (uint32_t)c->world.rank)
            braid_ll_receive_warp(
                c, row_packets(w, a, braid_epoch_parity(epoch), r, (uint32_t)c->world.rank, row), s,
                braid_packet_flag(epoch), r, &v);
        for (int j = 0; j < 3; j++)
            braid_add16<BRAID_BF16>(h[j], v.v[j]);
    }
    for (int j = 0; j < 3; j++) {
        struct braid_vec16 sum = braid_add_residual16<BRAID_BF16>(h[j], old.v[j]);

        if (braid_ll_has(s, j))
            squares += braid_square_sum16<BRAID_BF16>(h[j]);
        braid_ll_store<true>((uint64_t)a->residual + at, s, j, sum);
    }
    scale = braid_rms_scale(braid_sum_cta(squares, shared), a->hidden_bytes / 2, a->epsilon);
    for (int j = 0; j < 3; j++)
        braid_ll_store<true>((uint64_t)a->y + at, s, j,
                             braid_norm16<BRAID_BF16>(h[j], scale, weight.v[j]));
}

extern "C" __global__ void __launch_bounds__(512)
    fused(const __grid_constant__ struct braid_devcomm c,
          const __grid_constant__ struct braid_devwin w,
          const __grid_constant__ struct fused_arguments a)
{
    __shared__ float shared[32];
    uint32_t warp = threadIdx.x / 32, epoch, count = 0;
    int failed;
    struct braid_ll_spot s = braid_ll_find(a.hidden_bytes, warp, braid_ptx_lane());

    braid_ptx_wait_previous_kernel();
    epoch = braid_epoch_begin(&c, a.slot);
    failed = braid_failed_thread(&c); /* earlier: then x may be garbage, and nobody shall get it */
    for (uint32_t row = blockIdx.x; row < a.rows && failed == 0; row += gridDim.x) {
        struct braid_ll_vectors x =
            braid_ll_load<true>((uint64_t)a.x + (uint64_t)row * a.hidden_bytes, &s);

        for (uint32_t hop = 1; hop < w.ranks; hop++) {
            uint32_t peer = ((uint32_t)c.world.rank + hop) % w.ranks;

            braid_ll_send_warp(
                row_packets(&w, &a, braid_epoch_parity(epoch), (uint32_t)c.world.rank, peer, row),
                &s, x, braid_packet_flag(epoch));
        }
    }
    braid_ptx_allow_next_kernel();
    __syncthreads();
    if (threadIdx.x == 0)
        count = braid_epoch_count_thread(&c, a.slot);
    for (uint32_t row = blockIdx.x; row < a.rows; row += gridDim.x)
        finish_row(&c, &w, &a, epoch, row, &s, shared);
    if (threadIdx.x == 0)
        braid_epoch_advance_thread(&c, a.slot, epoch, count);
}

/* Bytes of the packets' window. */
extern "C" uint64_t fused_window_bytes(uint32_t ranks, uint32_t rows_most, uint32_t hidden)
{
    return 2ull * ranks * rows_most * ((2ull * hidden + 1535) / 1536) * 2048;
}

/* Runs the kernel on `stream`; every rank with the same rows. 0 or a negative errno. */
extern "C" int fused_run(struct braid_comm *comm, struct braid_window *packets,
                         const struct fused_arguments *a, unsigned most_ctas, void *stream)
{
    unsigned threads = (a->hidden_bytes + 1535) / 1536 * 32;
    unsigned ctas = a->rows < most_ctas ? a->rows : most_ctas;
    struct braid_devcomm c = *braid_comm_device(comm);
    struct braid_devwin w = *braid_window_device(packets);
    cudaLaunchAttribute overlap = {};
    cudaLaunchConfig_t config = {};

    if (a->rows == 0)
        return 0;
    if (a->rows > a->rows_most || threads > 512 || a->hidden_bytes % 16 != 0)
        return -22;
    if (braid_comm_error(comm, NULL) != 0)
        return -5;
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3(ctas);
    config.blockDim = dim3(threads);
    config.stream = (cudaStream_t)stream;
    config.attrs = &overlap;
    config.numAttrs = braid_comm_gpu_ranks(comm) == 1;
    return cudaLaunchKernelEx(&config, fused, c, w, *a) == cudaSuccess ? 0 : -5;
}

/* CTAs that can wait for peers at the same time on this rank's share of the GPU; negative errno. Loads the kernel. */
extern "C" int fused_most_ctas(struct braid_comm *comm, uint32_t hidden)
{
    cudaFunction_t function;

    if (cudaGetFuncBySymbol(&function, (const void *)fused) != cudaSuccess)
        return -5;
    return braid_comm_max_ctas(comm, (void *)function, (2 * hidden + 1535) / 1536 * 32, 0);
}
