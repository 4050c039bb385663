/* Every scope of the calls that other cases make only inside larger ones; see pieces.h. */
#include "tests/gpu/device/harness.h"

#define FIRST_EPOCH 0xffffff80u /* the 200 launches pass the wrap */
#define PIECES_SEE(a, expected, seen)                                                              \
    SEE((struct verdict *)(a)->report, 0, threadIdx.x, (expected), (seen))

#include "tests/gpu/device/pieces.h"

__global__ void pieces(const __grid_constant__ struct braid_devcomm c,
                       const __grid_constant__ struct braid_devwin w, uint8_t *src, uint8_t *dst,
                       uint32_t first_epoch, uint32_t epoch, struct verdict *v)
{
    struct pieces a = {&c, &w, src, dst, first_epoch, v};

    SEE(v, 1, threadIdx.x, epoch, pieces_run(&a));
}

__global__ void own_wait(const __grid_constant__ struct braid_devcomm c,
                         const __grid_constant__ struct braid_devwin w, int *status)
{
    *status = pieces_own_wait(&c, &w);
}

/* The words among the poison start at zero. */
static void clear_words(struct rank *r)
{
    poison(r);
    for (int i = 0; i < 4; i++)
        CUDA(r, cudaMemsetAsync((char *)braid_window_address(r->window, r->rank) + i * PIECES_PAGE +
                                    (i < 3 ? PIECES_WORDS : 0),
                                0, i < 3 ? PIECES_END - PIECES_WORDS : 4, r->stream));
    CUDA(r, cudaStreamSynchronize(r->stream));
    EXPECT(r, braid_comm_sync(r->comm) == 0);
}

static void pieces_case(struct rank *r)
{
    clear_words(r);
    for (uint32_t launch = 0; launch < (r->option[0] == 's' ? 2 : 200); launch++)
        pieces<<<1, launch % 3 == 0 ? 64 : 256, 0, r->stream>>>(
            *r->c, *r->w, r->src, r->dst, FIRST_EPOCH, FIRST_EPOCH + launch, r->verdict);
    settle(r, 20, 1);
    CUDA(r, cudaGetLastError());
}

/* A kernel author's own wait is bounded, too, and the host reads the reason that it was given. */
static void own_wait_case(struct rank *r)
{
    struct braid_devcomm_error reason;
    int *status = (int *)r->dst, got = 0;
    char text[256];

    clear_words(r);
    CUDA(r, cudaMemsetAsync(status, 0, 4, r->stream));
    own_wait<<<1, 1, 0, r->stream>>>(*r->c, *r->w, status);
    settle(r, 5, 0);
    CUDA(r, cudaMemcpy(&got, status, 4, cudaMemcpyDeviceToHost));
    EXPECT(r, got == BRAID_DEV_TIMEOUT, "status %d", got);
    EXPECT(r, braid_comm_error(r->comm, &reason) == BRAID_DEV_TIMEOUT);
    EXPECT(r,
           reason.wait == PIECES_OWN_WAIT && reason.peer == 1 && reason.index == 5 &&
               reason.expected == 9 && reason.seen == 0,
           "%s", braid_comm_error_text(&reason, text, sizeof(text)));
}

const struct test_case piece_cases[] = {
    {"pieces", pieces_case, 2, 30, 5000, FIRST_EPOCH, "", 0},
    {"pieces/threads", pieces_case, 2, 30, 5000, FIRST_EPOCH, "", CASE_THREADS},
    {"pieces/small_threads", pieces_case, 2, 30, 5000, FIRST_EPOCH, "small",
     CASE_SMALL | CASE_THREADS},
    {"own_wait", own_wait_case, 2, 30, 300, 1, "", 0},
    {NULL, NULL, 0, 0, 0, 0, NULL, 0},
};
