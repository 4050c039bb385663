"""torch.ops.braid_example.all_reduce_rmsnorm: y = RMSNorm(residual + sum over ranks of x) * weight, in one kernel.

    from op import FusedNorm
    fused = FusedNorm(comm.handle, 1024, 8192, braid.lib)   # collective; comm: braid.Comm of example 03
    y = torch.ops.braid_example.all_reduce_rmsnorm(x, residual, weight, 1e-6, fused.key)   # residual is replaced

Run as a program it checks eager and captured calls of two ranks against the unfused reference.
"""
import ctypes
import os
import pathlib
import socket
import sys

try:
    import torch
except ImportError:
    sys.exit("this example needs PyTorch: pip install torch")
import torch.distributed as dist
import torch.multiprocessing as mp

HERE = pathlib.Path(__file__).resolve().parent
SLOT = 7  # this operator's epoch slot in the communicator


class Arguments(ctypes.Structure):
    _fields_ = [("x", ctypes.c_void_p), ("residual", ctypes.c_void_p), ("weight", ctypes.c_void_p), ("y", ctypes.c_void_p),
                ("rows", ctypes.c_uint32), ("rows_most", ctypes.c_uint32), ("hidden_bytes", ctypes.c_uint32), ("slot", ctypes.c_uint32),
                ("epsilon", ctypes.c_float)]


class FusedNorm:
    """One communicator's operator: the packets' window and the kernel. Found again by `key`, because operators take no objects."""

    instances = {}

    def __init__(self, comm, rows_most, hidden, braid_lib):
        """comm: handle of a struct braid_comm (ctypes.c_void_p); braid_lib: libbraid.so as a ctypes.CDLL."""
        path = os.environ.get("EXAMPLE_LIBRARY", str(HERE.parents[2] / "build/dev/bin/libexample_04_all_reduce_rmsnorm.so"))
        self.lib = ctypes.CDLL(path)
        self.lib.fused_window_bytes.restype = ctypes.c_uint64
        self.comm, self.rows_most, self.hidden = comm, rows_most, hidden
        self.ctas = self.lib.fused_most_ctas(comm, ctypes.c_uint32(hidden))
        if self.ctas <= 0:
            raise RuntimeError("the kernel does not fit on this GPU")
        ranks = braid_lib.braid_comm_ranks(comm)
        self.window = ctypes.c_void_p()
        size = self.lib.fused_window_bytes(ctypes.c_uint32(ranks), ctypes.c_uint32(rows_most), ctypes.c_uint32(hidden))
        rc = braid_lib.braid_window_alloc(comm, ctypes.c_size_t(size), ctypes.byref(self.window))
        if rc != 0:
            raise OSError(-rc, "window for packets")
        self.key = len(FusedNorm.instances)
        FusedNorm.instances[self.key] = self

    def run(self, x, residual, weight, epsilon):
        y = torch.empty_like(x)
        rows = x.numel() // self.hidden
        a = Arguments(x.data_ptr(), residual.data_ptr(), weight.data_ptr(), y.data_ptr(), rows, self.rows_most, 2 * self.hidden, SLOT, epsilon)
        rc = self.lib.fused_run(self.comm, self.window, ctypes.byref(a), ctypes.c_uint(self.ctas),
                                ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        if rc != 0:
            raise OSError(-rc, "all_reduce_rmsnorm")
        return y


@torch.library.custom_op("braid_example::all_reduce_rmsnorm", mutates_args=("residual",))
def all_reduce_rmsnorm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float, key: int) -> torch.Tensor:
    fused = FusedNorm.instances[key]
    for t in (x, residual, weight):
        if t.dtype != torch.bfloat16 or not t.is_contiguous() or t.shape[-1] != fused.hidden:
            raise ValueError("contiguous bf16 tensors with rows of the operator's size are needed")
    return fused.run(x, residual, weight, epsilon)


@all_reduce_rmsnorm.register_fake
def _(x, residual, weight, epsilon, key):
    return torch.empty_like(x)


def reference(parts, residual, weight, epsilon):
    """The same in float64 from every rank's x, rounded where the kernel rounds: (y, new residual)."""
    h = (sum(p.double() for p in parts) + residual.double()).to(torch.bfloat16)
    y = h.double() * torch.rsqrt(h.double().pow(2).mean(-1, keepdim=True) + epsilon) * weight.double()
    return y, h


def check(fused, group, rows, seed, call):
    """One call on random input of this rank against the reference; all ranks' inputs are known from the seed."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)

    def random(which, *shape):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed * 100 + which)).bfloat16().cuda()
    parts = [random(r, rows, fused.hidden) for r in range(ranks)]
    residual, weight = random(50, rows, fused.hidden), random(51, fused.hidden)
    want_y, want_h = reference(parts, residual, weight, 1e-6)
    y = call(parts[rank], residual, weight)
    torch.cuda.synchronize()
    # One rounding of h may fall the other way when float32 and float64 sums differ: one unit in the last place.
    torch.testing.assert_close(residual.float(), want_h.float(), rtol=2 ** -7, atol=1e-6)
    torch.testing.assert_close(y.float(), want_y.float(), rtol=2 ** -6, atol=2 ** -8)


def rank_main(rank, ranks, port, failed):
    sys.path.insert(0, str(HERE.parent / "03_pytorch_ctypes"))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    import braid

    comm = braid.Comm(dist.group.WORLD)
    fused = FusedNorm(comm.handle, 256, 8192, braid.lib)

    def call(x, residual, weight):
        return torch.ops.braid_example.all_reduce_rmsnorm(x, residual, weight, 1e-6, fused.key)
    for seed, rows in enumerate((1, 3, 16, 200, 256, 1, 2)):
        check(fused, dist.group.WORLD, rows, seed, call)
        comm.raise_failure()
    x, residual, weight = (torch.zeros(s, device="cuda", dtype=torch.bfloat16) for s in ((16, 8192), (16, 8192), (8192,)))
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = call(x, residual, weight)

    def replay(x_new, residual_new, weight_new):
        for to, new in ((x, x_new), (residual, residual_new), (weight, weight_new)):
            to.copy_(new)
        graph.replay()
        residual_new.copy_(residual)
        return y
    for seed in range(50):
        check(fused, dist.group.WORLD, 16, 1000 + seed, replay)
    comm.raise_failure()
    if rank == 0:
        print("all_reduce_rmsnorm: eager and captured calls agree with the reference")
    dist.barrier()
    comm.close()
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
