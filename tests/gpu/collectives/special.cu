/* Graphs, failures, and copy engines while every SM is held. */
#include "test.h"

/* ---- graphs: one captured sequence of different operations, replayed with changing inputs ---- */
static void capture_body(struct rank *r, int engine, int *rc)
{
    struct braid_op_options two = BRAID_OP_OPTIONS_INIT, ce = BRAID_OP_OPTIONS_INIT;
    uint64_t n = 5000, large = 1u << 20, block = 300000;

    two.method = BRAID_METHOD_TWO_SHOT;
    ce.method = BRAID_METHOD_ENGINE;
    count_kernel<<<1, 1, 0, r->stream>>>(r->found);
    fill_numbers<<<64, 256, 0, r->stream>>>(r->in, n, BRAID_BF16, r->rank, r->found, 0);
    *rc |= braid_all_reduce(r->ops, r->in, r->out, n, BRAID_BF16, NULL, r->stream);
    check_sum<<<64, 256, 0, r->stream>>>(r->out, n, 0, BRAID_BF16, ranks, 1.0, r->found, 0);
    fill_numbers<<<64, 256, 0, r->stream>>>(r->win, large, BRAID_BF16, r->rank, r->found, 1);
    *rc |= braid_all_reduce(r->ops, r->win, r->win, large, BRAID_BF16, &two, r->stream);
    check_sum<<<64, 256, 0, r->stream>>>(r->win, large, 0, BRAID_BF16, ranks, 1.0, r->found, 1);
    fill_bytes<<<64, 256, 0, r->stream>>>(r->in, block * ranks, r->rank, 0, r->found, 2);
    *rc |= braid_all_to_all(r->ops, r->in, r->win + (32u << 20), block, engine ? &ce : NULL,
                            r->stream);
    for (int p = 0; p < ranks; p++)
        check_bytes<<<64, 256, 0, r->stream>>>(r->win + (32u << 20) + p * block, block, p,
                                               r->rank * block, r->found, 2);
    fill_bytes<<<64, 256, 0, r->stream>>>(r->win + (32u << 20), block * ranks, r->rank, 0, r->found,
                                          3);
    *rc |= braid_all_to_all(r->ops, r->win + (32u << 20), r->win + (32u << 20), block,
                            engine ? &ce : NULL, r->stream);
    for (int p = 0; p < ranks; p++)
        check_bytes<<<64, 256, 0, r->stream>>>(r->win + (32u << 20) + p * block, block, p,
                                               r->rank * block, r->found, 3);
    CHECK(cudaMemsetAsync(r->out, 0xff, n * 2,
                          r->stream)); /* a node that is no kernel, before one that may overlap */
    *rc |= braid_all_reduce(r->ops, r->in, r->out, n, BRAID_BF16, NULL, r->stream);
    *rc |=
        braid_all_reduce(r->ops, r->in, r->out, n, BRAID_BF16, NULL, r->stream); /* back to back */
    fill_numbers<<<64, 256, 0, r->stream>>>(r->in, n, BRAID_BF16, r->rank, r->found, 4);
    *rc |= braid_reduce_scatter(r->ops, r->in, r->out, n / ranks, BRAID_BF16, NULL, r->stream);
    check_sum<<<64, 256, 0, r->stream>>>(r->out, n / ranks, r->rank * (n / ranks), BRAID_BF16,
                                         ranks, 1.0, r->found, 4);
}

int stage_graph(struct rank *r, double until)
{
    for (int engine = 0; engine < 2; engine++) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        char text[80];
        int rc = 0, replays = 0, most = gpus >= ranks ? (engine ? 1000 : 5000) : 300;

        CHECK(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal));
        capture_body(r, engine, &rc);
        CHECK(cudaStreamEndCapture(r->stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphUpload(exec, r->stream));
        CHECK(cudaStreamSynchronize(r->stream));
        pthread_barrier_wait(&barrier);
        for (; replays < most; replays++) {
            skew(r);
            CHECK(cudaGraphLaunch(exec, r->stream));
            if (replays % 50 == 49) {
                CHECK(cudaStreamSynchronize(r->stream));
                if (anyone_broken(now_s() > until || braid_comm_error(r->comm, NULL) != 0))
                    break;
            }
        }
        snprintf(text, sizeof(text), "graph%s, %d replays", engine ? " with copy engines" : "",
                 replays);
        rc = settle(r, text, rc, 0);
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        if (anyone_broken(rc))
            return 1;
        if (r->rank == 0)
            printf("graph%s: %d replays\n", engine ? " with copy engines" : "", replays);
    }
    return 0;
}

/* ---- failures that must end with a status ---- */
static void expect_failure(struct rank *r, const char *text, int rc, double begin, double most_s)
{
    struct braid_devcomm_error reason;
    char why[256];
    int status;
    double took;

    if (rc != 0)
        fail(r, "%s: returned %d", text, rc);
    CHECK(cudaStreamSynchronize(r->stream));
    took = now_s() - begin;
    status = braid_comm_error(r->comm, &reason);
    if (status == 0)
        fail(r, "%s: no status", text);
    else if (took > most_s)
        fail(r, "%s: took %.2f s", text, took);
    pthread_mutex_lock(&print_lock);
    printf("  %s, rank %d: %s, %.2f s\n", text, r->rank,
           braid_comm_error_text(&reason, why, sizeof(why)), took);
    pthread_mutex_unlock(&print_lock);
    if (braid_all_reduce(r->ops, r->in, r->out, 8, BRAID_F32, NULL, r->stream) != -EIO)
        fail(r, "%s: a failed communicator takes new work", text);
}

int stage_fail(struct rank *r, double)
{
    static const char *const names[] = {"size mismatch by packets",
                                        "size mismatch by chunks",
                                        "a rank never comes (two-shot)",
                                        "a rank never comes (copy engine)",
                                        "abort",
                                        "a rank never comes (pull)",
                                        "inputs at different offsets (pull)"};
    const int kinds = sizeof(names) / sizeof(names[0]);

    for (int what = 0; what < kinds; what++) {
        struct braid_op_options options = BRAID_OP_OPTIONS_INIT;
        int last = r->rank == ranks - 1, rc = 0;
        double begin;

        open_comm(r, what == 4 ? 20000000000ull : 500000000ull, 8u << 20);
        pthread_barrier_wait(&barrier);
        begin = now_s();
        switch (what) {
        case 0:
            rc = braid_all_reduce(r->ops, r->in, r->out, last ? 4000 : 8000, BRAID_BF16, NULL,
                                  r->stream);
            break;
        case 1:
            options.method = BRAID_METHOD_ONE_SHOT;
            rc = braid_all_reduce(r->ops, r->in, r->out, last ? 1u << 20 : 2u << 20, BRAID_BF16,
                                  &options, r->stream);
            break;
        case 2:
            options.method = BRAID_METHOD_TWO_SHOT;
            if (!last)
                rc = braid_all_reduce(r->ops, r->win, r->win, 1u << 20, BRAID_BF16, &options,
                                      r->stream);
            break;
        case 3:
            options.method = BRAID_METHOD_ENGINE;
            if (!last)
                rc = braid_all_gather(r->ops, r->in, r->win, 1u << 20, &options, r->stream);
            break;
        case 4:
            if (!last) {
                rc = braid_all_reduce(r->ops, r->in, r->out, 1000, BRAID_BF16, NULL, r->stream);
                usleep(100000);
                braid_comm_abort(r->comm);
            }
            break;
        case 5:
        case 6:
            options.method = BRAID_METHOD_PULL;
            if (what == 6 || !last)
                rc = braid_reduce_scatter(r->ops, r->win + (what == 6 && last ? 4096 : 0), r->out,
                                          1u << 20, BRAID_BF16, &options, r->stream);
            break;
        }
        if (!last)
            expect_failure(r, names[what], rc, begin, 3.0);
        else
            CHECK(cudaStreamSynchronize(r->stream));
        pthread_barrier_wait(&barrier);
        close_comm(r);
    }
    if (r->rank == 0)
        __atomic_add_fetch(&cases, kinds, __ATOMIC_RELAXED);
    return 0;
}

/* ---- copy engines while every SM is held ---- */
int stage_engine(struct rank *r, double)
{
    struct braid_op_options options = BRAID_OP_OPTIONS_INIT;
    uint64_t block = 4u << 20;
    cudaStream_t holder;
    int *held, *let_go, sms, seen = 0, rc = 0, done = 0;
    double begin;

    if (gpus < ranks) {
        if (r->rank == 0)
            printf("engine: skipped: every rank needs a GPU of its own\n");
        return 0;
    }
    options.method = BRAID_METHOD_ENGINE;
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, r->gpu));
    CHECK(cudaStreamCreateWithFlags(&holder, cudaStreamNonBlocking));
    CHECK(cudaHostAlloc(&held, 64, cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&let_go, 64, cudaHostAllocMapped));
    CHECK(
        cudaFuncSetAttribute(hold_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    for (int what = 0; what < 3; what++) {
        *held = 0;
        *let_go = 0;
        fill_bytes<<<64, 256, 0, r->stream>>>(what == 2 ? r->win : r->in, block * ranks, r->rank, 0,
                                              r->found, what);
        CHECK(cudaStreamSynchronize(r->stream));
        pthread_barrier_wait(&barrier);
        hold_kernel<<<sms, 1024, 200 << 10, holder>>>(held, let_go);
        for (begin = now_s(); (seen = *(volatile int *)held) < sms && now_s() < begin + 2;) {
        }
        rc = what == 0   ? braid_all_gather(r->ops, r->in, r->win, block, &options, r->stream)
             : what == 1 ? braid_all_to_all(r->ops, r->in, r->win, block, &options, r->stream)
                         : braid_all_to_all(r->ops, r->win, r->win, block, &options, r->stream);
        for (begin = now_s(), done = 0; !done && now_s() < begin + 3;)
            done = cudaStreamQuery(r->stream) == cudaSuccess;
        pthread_mutex_lock(&print_lock);
        if (r->rank == 0)
            printf("engine: %s with %d of %d SMs held: %s after %.3f ms\n",
                   what == 0   ? "all_gather"
                   : what == 1 ? "all_to_all"
                               : "all_to_all in place",
                   seen, sms, done ? "completed" : "NOT COMPLETED", 1e3 * (now_s() - begin));
        pthread_mutex_unlock(&print_lock);
        if (!done || seen < sms)
            fail(r, "engine: %d of %d SMs held, completed: %d", seen, sms, done);
        *let_go = 1;
        CHECK(cudaStreamSynchronize(holder));
        for (int p = 0; p < ranks; p++)
            check_bytes<<<64, 256, 0, r->stream>>>(r->win + p * block, block, p,
                                                   what == 0 ? 0 : r->rank * block, r->found, what);
        if (anyone_broken(settle(r, "copy engines with all SMs held", rc, 0)))
            return 1;
    }
    CHECK(cudaStreamDestroy(holder));
    return 0;
}
