"""Two PyTorch ranks: each sends its tensor to its neighbour inside a kernel, which adds what has arrived, in one launch.
Eager and in a captured graph, over a window of Braid's and, with two GPUs, over PyTorch's symmetric memory.

Run: tests/gpu/with_mps python3 device/examples/03_pytorch_ctypes/neighbour_sum.py
"""
import ctypes
import os
import socket
import sys

try:
    import torch
except ImportError:
    sys.exit("this example needs PyTorch: pip install torch")
import torch.distributed as dist
import torch.multiprocessing as mp

SOURCE = r"""
#include <braid/device.cuh>

// Every block sends its part of x to the right neighbour and adds the left neighbour's part to it: out = x + left(x).
extern "C" __global__ void neighbour_sum(const __grid_constant__ struct braid_devcomm c, const __grid_constant__ struct braid_devwin w,
                                         const float *x, float *out, uint32_t count)
{
    int right = (c.world.rank + 1) % c.world.ranks, left = (c.world.rank + c.world.ranks - 1) % c.world.ranks;
    uint32_t part = count / gridDim.x, first = blockIdx.x * part;
    uint32_t arrived = 2 * blockIdx.x, room = arrived + 1; // two signals a block

    braid_put_signal_cta(&c, &w, right, 4ull * first, x + first, 4ull * part, arrived, BRAID_SIGNAL_ADD, 1);
    if (braid_take_signal_cta(&c, arrived, 1) != BRAID_DEV_OK)
        return; // and tell nobody anything; the host reports
    const volatile float *in = (const volatile float *)braid_window_local(&w, 0);
    for (uint32_t i = first + threadIdx.x; i < first + part; i += blockDim.x)
        out[i] = x[i] + in[i];
    // The window may be written again when its owner has read it: tell the left neighbour, hear it from the right one.
    braid_signal_cta(&c, left, room, BRAID_SIGNAL_ADD, 1);
    braid_take_signal_cta(&c, room, 1);
}
"""


def rank_main(rank, ranks, port, failed):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    several = torch.cuda.device_count() >= ranks
    dist.init_process_group("cpu:gloo,cuda:nccl" if several else "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=ranks)
    import braid

    comm = braid.Comm(dist.group.WORLD)
    count = 1 << 16
    window = braid.Window(comm, (count,))
    kernel = braid.compile_kernel(SOURCE, "neighbour_sum")
    x, out = torch.empty(count, device="cuda"), torch.empty(count, device="cuda")
    arguments = (comm.device, window.device, ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_uint32(count))

    def run():
        comm.launch(kernel, 8, 256, *arguments)

    def verify(step):
        torch.cuda.synchronize()
        comm.raise_failure()
        everyone = [torch.empty(count) for _ in range(ranks)]
        dist.all_gather(everyone, x.cpu())
        torch.testing.assert_close(out.cpu(), everyone[rank] + everyone[(rank - 1) % ranks], rtol=0, atol=0, msg=f"step {step}")

    for step in range(5):
        x.copy_(torch.randn(count, generator=torch.Generator().manual_seed(100 * step + rank)))
        torch.cuda.synchronize()
        run()
        verify(step)

    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=side):
        run()
    for step in range(100):  # the same captured launch, other data
        x.mul_(0.5).add_(rank + step)
        graph.replay()
    verify("graph")
    if several:  # the same kernel over memory that PyTorch already shares
        import torch.distributed._symmetric_memory as symm_mem

        shared = symm_mem.empty(count, device="cuda")
        pointers = symm_mem.rendezvous(shared, dist.group.WORLD).buffer_ptrs
        symmetric = braid.Window.over(comm, shared, pointers)
        arguments = (comm.device, symmetric.device, *arguments[2:])
        x.normal_()
        torch.cuda.synchronize()
        comm.launch(kernel, 8, 256, *arguments)
        verify("symmetric memory")
    if rank == 0:
        print("neighbour sums of eager and captured launches are equal to the reference")
    dist.barrier()
    comm.close()
    dist.destroy_process_group()
    failed[rank] = 0


def main():
    ranks = 2
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    failed = mp.get_context("spawn").Array("i", [1] * ranks)
    mp.spawn(rank_main, args=(ranks, port, failed), nprocs=ranks)
    print("FAILED" if any(failed) else "passed")
    return any(failed)


if __name__ == "__main__":
    sys.exit(main())
