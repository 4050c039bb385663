/* What a user's kernel looks like: compiled against an installed Braid by ../check, run where a GPU is. */
#include <braid/comm.h>
#include <braid/device.cuh>

__global__ void ping(const __grid_constant__ struct braid_devcomm c,
                     const __grid_constant__ struct braid_devwin w, const float *src)
{
    int peer = c.world.rank ^ 1;

    braid_put_signal_cta(&c, &w, peer, 0, src, 4096, 0, BRAID_SIGNAL_ADD, 1);
    (void)braid_take_signal_cta(&c, 0, 1);
}

int main()
{
    struct cudaFuncAttributes attributes;

    braid_comm_destroy(nullptr);
    return cudaFuncGetAttributes(&attributes, ping) == cudaErrorInvalidDeviceFunction;
}
