/*
 * Ping-pong: a block of each rank sends a message to the other and waits for the answer. Data and the news of it are one call;
 * the wait ends within the communicator's bound, whatever happens to the peer.
 */
#include "../ranks.h"

#include <braid/device.cuh>

#define FLOATS 1024
#define ROUNDS 1000

__global__ void ping_pong(const __grid_constant__ struct braid_devcomm c,
                          const __grid_constant__ struct braid_devwin w, float *message, int *wrong)
{
    int peer = c.world.rank ^ 1;
    const volatile float *inbox = (const volatile float *)braid_window_local(&w, 0);

    for (int round = 0; round < ROUNDS; round++) {
        if (c.world.rank == 0) { /* serve */
            message[threadIdx.x] = round + threadIdx.x;
            __syncthreads(); /* put reads what all threads of the block wrote */
            braid_put_signal_cta(&c, &w, peer, 0, message, FLOATS * 4, 0, BRAID_SIGNAL_ADD, 1);
        }
        if (braid_take_signal_cta(&c, 0, 1) != BRAID_DEV_OK)
            return; /* all threads of the block return together; the host reads the reason */
        if (c.world.rank == 0) {
            if (inbox[threadIdx.x] != -(round + (float)threadIdx.x))
                *wrong = 1;
        } else { /* return: every number negated */
            message[threadIdx.x] = -inbox[threadIdx.x];
            __syncthreads();
            braid_put_signal_cta(&c, &w, peer, 0, message, FLOATS * 4, 0, BRAID_SIGNAL_ADD, 1);
        }
        /* The inbox is reused at once: a rank writes only after it has heard the answer to its last message. */
    }
}

static void rank_main(struct member *self)
{
    struct braid_comm *comm = make_comm(self);
    struct braid_window *window;
    cudaEvent_t begin, end;
    cudaStream_t stream;
    float *message, ms;
    int *wrong, answer;

    CHECK(braid_window_alloc(comm, FLOATS * 4, &window));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&message, FLOATS * 4));
    CHECK(cudaMalloc((void **)&wrong, 4));
    CHECK(cudaMemset(wrong, 0, 4));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int i = 0; i < 3; i++) {
        CHECK(braid_comm_sync(
            comm)); /* so that the time below is not the time to wait for the peer's launch */
        CHECK(cudaEventRecord(begin, stream));
        ping_pong<<<1, FLOATS, 0, stream>>>(*braid_comm_device(comm), *braid_window_device(window),
                                            message, wrong);
        CHECK(cudaEventRecord(end, stream));
        finish(comm, stream);
    }
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    CHECK(cudaMemcpy(&answer, wrong, 4, cudaMemcpyDeviceToHost));
    CHECK(answer);
    if (self->rank == 0)
        printf("4 KiB there and back with 1024 threads: %.2f us\n", ms * 1e3 / ROUNDS);
    CHECK(braid_comm_sync(comm));
    CHECK(braid_comm_destroy(comm));
}

int main(void)
{
    return run_ranks(rank_main);
}
