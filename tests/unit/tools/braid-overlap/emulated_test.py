"""The PyTorch side of the fused products without a GPU: two processes, the real libbraid.so on the fake CUDA driver and the fake
cuBLASLt, CPU tensors in place of GPU memory. Runs the tensor-parallel MLP of device/examples/05 (forward, backward, three steps, against
float32) and tests/gpu/torch/overlap.py with small shapes. What streams, graphs and events do is left out; what is called with what is
not. Without PyTorch it is skipped.

Usage: emulated_test.py LIBBRAID FOLDER_OF_THE_FAKES
"""
import contextlib
import ctypes
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[4]
RANKS = 2
# The real CUDA libraries of PyTorch may be loaded under the names that libbraid opens: a copy of libbraid opens others.
RENAMED = {"libcublasLt.so.13": "libcublasLt.so.99", "libcuda.so.1": "libcuda.so.9"}


def copies(libbraid, fakes, folder):
    data = pathlib.Path(libbraid).read_bytes()
    for name, other in RENAMED.items():
        assert len(name) == len(other) and name.encode() + b"\0" in data, name
        data = data.replace(b"\0" + name.encode() + b"\0", b"\0" + other.encode() + b"\0")
        (folder / other).write_bytes((pathlib.Path(fakes) / name).read_bytes())
    (folder / "libbraid.so").write_bytes(data)


def fake_kernels(folder):
    """Gives the fake driver the kernels that an object asks for."""
    run = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint, ctypes.c_uint)

    class Function(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("run", run)]

    class Knobs(ctypes.Structure):
        _fields_ = [("copies", ctypes.c_int), ("events", ctypes.c_int), ("functions", Function * 48)]

    class Step(ctypes.Structure):
        _fields_ = [("word", ctypes.c_uint64), ("value", ctypes.c_uint32), ("kind", ctypes.c_uint32)]

    def number(arguments, i, kind=ctypes.c_uint64):
        return ctypes.cast(arguments[i], ctypes.POINTER(kind))[0]

    def copy(arguments, _ctas, _threads):
        ctypes.memmove(number(arguments, 0), number(arguments, 1), number(arguments, 2))

    def add(arguments, _ctas, _threads):
        import torch
        dst, src, slots, stride, count = (number(arguments, i) for i in range(5))
        rank, ranks = number(arguments, 5, ctypes.c_int32), number(arguments, 6, ctypes.c_int32)
        total = tensor_at(src, count).float()
        for peer in range(ranks):
            if peer != rank:
                total += tensor_at(slots + peer * stride, count).float()
        tensor_at(dst, count).copy_(total.to(torch.bfloat16))

    def flags(arguments, _ctas, _threads):
        steps = ctypes.cast(arguments[0], ctypes.POINTER(Step * 16))[0]
        for i in range(ctypes.cast(arguments[0] + 16 * 16, ctypes.POINTER(ctypes.c_uint32))[0]):
            word = ctypes.c_uint32.from_address(steps[i].word)
            while steps[i].kind == 0 and word.value != steps[i].value:
                time.sleep(1e-5)
            word.value = steps[i].value

    knobs = Knobs.in_dll(ctypes.CDLL(str(folder / RENAMED["libcuda.so.1"])), "fake_cuda_ops")
    for i, (name, function) in enumerate(((b"braid_gemm_copy", copy), (b"braid_gemm_add", add), (b"braid_gemm_flags", flags))):
        knobs.functions[i] = Function(name, run(function))
        fake_kernels.keep = getattr(fake_kernels, "keep", []) + [name, knobs.functions[i].run]


def tensor_at(address, count):
    import torch
    return torch.frombuffer((ctypes.c_char * (2 * count)).from_address(address), dtype=torch.bfloat16)


class Nothing:
    """A stream, an event, a graph, a handle of symmetric memory: takes every call and does nothing."""
    cuda_stream = 0

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        return lambda *_, **__: None

    def elapsed_time(self, _):
        return 0.001

    def get_buffer(self, _rank, sizes, dtype):
        import torch
        return torch.empty(sizes, dtype=dtype)


def pretend(folder):
    """CPU tensors where a GPU's are asked for."""
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm

    def here(function):
        def call(*arguments, **options):
            options.pop("device", None)
            return function(*arguments, **options)
        return call

    for name in ("empty", "randn", "zeros", "tensor"):
        setattr(torch, name, here(getattr(torch, name)))
    to = torch.Tensor.to
    torch.Tensor.to = lambda self, *a, **k: to(self, *("cpu" if str(x).startswith("cuda") else x for x in a), **k)

    def reduce_scatter(out, whole):
        total = whole.float()
        dist.all_reduce(total)
        out.copy_(total.chunk(RANKS)[dist.get_rank()])

    def fused(name):
        schema = getattr(torch.ops.symm_mem, name).default._schema
        wanted = [a for a in schema.arguments if not a.kwarg_only]

        def call(*arguments):
            assert len(arguments) == len(wanted), (str(schema), arguments)
        return call

    symm_ops = type("Ops", (), {name: staticmethod(fused(name)) for name in ("fused_all_gather_matmul", "fused_matmul_reduce_scatter")})
    torch.ops = type("TorchOps", (), {"__getattr__": lambda self, name, real=torch.ops: symm_ops if name == "symm_mem" else getattr(real, name)})()
    for name in ("Stream", "Event", "CUDAGraph"):
        setattr(torch.cuda, name, Nothing)
    torch.cuda.stream = torch.cuda.graph = lambda *_: contextlib.nullcontext()
    torch.cuda.current_stream = Nothing
    for name in ("synchronize", "set_device", "empty_cache", "_sleep"):
        setattr(torch.cuda, name, lambda *_: None)
    torch.cuda.device_count, torch.cuda.is_available = (lambda: 1), (lambda: True)
    torch.cuda.get_device_name, torch.cuda.nccl.version = (lambda _: "NVIDIA emulated"), (lambda: (0, 0, 0))
    symm.empty, symm.rendezvous = torch.empty, (lambda *_: Nothing())
    start, dist.reduce_scatter_tensor = dist.init_process_group, reduce_scatter
    dist.init_process_group = lambda _, rank, world_size, **__: start("gloo", rank=rank, world_size=world_size)

    sys.path[:0] = [str(ROOT / name) for name in ("tools/braid-overlap", "tests/gpu/torch", "device/examples/05_tp_mlp")]
    fake_kernels(folder)
    import braid_overlap
    braid_overlap.ALIGNMENT = 64  # PyTorch's allocations on the CPU
    braid_overlap._view = lambda address, rows, width, dtype: tensor_at(address, rows * width).view(rows, width)


def settings(rank):
    """Every operation with settings that only a search chooses, tuned, against plain sums."""
    import braid_overlap
    import torch
    import torch.distributed as dist
    dist.init_process_group("", rank=rank, world_size=RANKS)
    torch.manual_seed(3)
    comm, m, n, k = braid_overlap.Comm(timeout_s=30), 48, 24, 16
    xs, ws = torch.randn(RANKS, m, k).bfloat16(), torch.randn(RANKS, k, n).bfloat16()
    total = sum(x.float() @ w.float() for x, w in zip(xs, ws))
    half, mine = m // RANKS, slice(rank * m // RANKS, (rank + 1) * m // RANKS)
    shards = torch.cat([x[:half] for x in xs]).float()
    for op, x, want in (("ag_gemm", xs[rank][:half], shards @ ws[rank].float()), ("gemm_rs", xs[rank], total[mine]), ("gemm_ar", xs[rank], total)):
        for how in ({}, {"num_splits": 3, "taper": 2, "signal": 1, "num_sm": 4}, {"num_splits": 2, "direct": 1, "signal": 2, "lanes": 3},
                    {"num_splits": 3, "signal": 3}, {"num_splits": 3, "direct": 1, "signal": 3}):
            gemm = comm.gemm(op, m, n, k, method="ring_exchange", **how)
            gemm.tune()
            y = gemm(x.contiguous(), ws[rank])
            error = ((y.float() - want).norm() / want.norm()).item()
            assert error < 1e-2 and gemm.status() is None and gemm.info()["direct"] == how.get("direct", 0), (op, how, error)
            gemm.close()
    comm.close()
    dist.destroy_process_group()


def child(folder, part, rank):
    pretend(folder)
    if part == "settings":
        settings(rank)
        return
    if part == "mlp":
        import main
        import torch
        main.run(rank, int(os.environ["MASTER_PORT"]))
        torch.distributed.destroy_process_group()
        return
    import overlap
    overlap.SHAPES = ((64, 32, 16), (256, 16, 64))
    overlap.run(rank, str(folder / "rows.jsonl"), set())


def part(folder, name, environment):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    environment = {**environment, "MASTER_PORT": str(port), "TOKENS": "64", "HIDDEN": "32", "FFN": "128", "COMMIT": "abc1234"}
    children = [subprocess.Popen([sys.executable, str(HERE), "--rank", str(folder), name, str(rank)], env=environment)
                for rank in range(RANKS)]
    try:
        codes = [c.wait(timeout=100) for c in children]
    finally:
        for c in children:
            c.kill()
    assert codes == [0] * RANKS, (name, codes)


def main():
    try:
        import torch  # noqa: F401
    except ImportError:
        print("skipped: no PyTorch (python3 cannot import torch)")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copies(sys.argv[1], sys.argv[2], folder)
        environment = {**os.environ, "LIBBRAID": str(folder / "libbraid.so"), "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1",
                       "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        part(folder, "settings", environment)
        part(folder, "mlp", environment)
        part(folder, "overlap", environment)
        rows = [json.loads(line) for line in open(folder / "rows.jsonl")]
        assert len(rows) == 4 * 5 and {r["metric"] for r in rows} == {"A_us", "B_us", "C_us", "D_us", "efficiency_ratio"}
        assert all(set(r["peers"]) == {"control", "torch_async_tp", "serial"} for r in rows if r["metric"] == "efficiency_ratio")
    print("passed")
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--rank":
        child(pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        sys.exit(main())
