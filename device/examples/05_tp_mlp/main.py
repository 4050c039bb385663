"""Trains one step of the fused tensor-parallel MLP on two ranks and compares it with the unfused model on one GPU.

Run: python3 main.py (two GPUs), or tests/gpu/with_mps python3 device/examples/05_tp_mlp/main.py (one GPU shared by both ranks).
Options by environment: TOKENS, HIDDEN, FFN.
"""
import os
import pathlib
import sys

try:
    import torch
except ImportError:
    sys.exit("this example needs PyTorch: pip install torch")
import torch.distributed as dist
import torch.multiprocessing as mp

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent.parent / "tools/braid-overlap")]
RANKS = 2
TOKENS, HIDDEN, FFN = (int(os.environ.get(name, value)) for name, value in (("TOKENS", 2048), ("HIDDEN", 1024), ("FFN", 4096)))
BOUND = 2e-2  # relative error of a bf16 model with two layers against float32


def reference(x, w1, w2, target):
    """The same step on one GPU in float32: result and gradients."""
    x, w1, w2 = (t.float().requires_grad_() for t in (x, w1, w2))
    y = torch.nn.functional.gelu(x @ w1.t()) @ w2.t()
    (y * target.float()).sum().backward()
    return y.detach(), x.grad, w1.grad, w2.grad


def apart(a, b):
    return ((a.float() - b).norm() / b.norm()).item()


def run(rank, port):
    import braid_overlap
    import tp_mlp

    shared = torch.cuda.device_count() < RANKS
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo" if shared else "nccl", rank=rank, world_size=RANKS)
    torch.manual_seed(1)  # all ranks make the same whole model and take their share of it
    whole = [(torch.randn(*shape, device="cuda") * scale).bfloat16() for shape, scale in
             (((TOKENS, HIDDEN), 1), ((FFN, HIDDEN), HIDDEN ** -0.5), ((HIDDEN, FFN), FFN ** -0.5), ((TOKENS, HIDDEN), 1))]
    x, w1, w2, target = whole
    rows = slice(rank * TOKENS // RANKS, (rank + 1) * TOKENS // RANKS)
    part = slice(rank * FFN // RANKS, (rank + 1) * FFN // RANKS)
    exact = reference(*whole)
    comm = braid_overlap.Comm(timeout_s=20)
    model = tp_mlp.TensorParallelMLP(comm, TOKENS, w1[part], w2[:, part])
    mine, worst = x[rows].contiguous().requires_grad_(), 0.0
    for step in range(3):  # the operators are used again without a pause
        mine.grad = model.w1.grad = model.w2.grad = None
        y = model(mine)
        (y * target[rows]).sum().backward()
        errors = [apart(y.detach(), exact[0][rows]), apart(mine.grad, exact[1][rows]), apart(model.w1.grad, exact[2][part]),
                  apart(model.w2.grad, exact[3][:, part])]
        worst = max(worst, *errors)
    if rank == 0:
        print("relative error against float32: y %.1e, dx %.1e, dw1 %.1e, dw2 %.1e (bound %.0e)" % (*errors, BOUND), flush=True)
        print("up:", tp_mlp._layers[0].up.info()["reason"], flush=True)
    torch.cuda.synchronize()
    comm.close()
    dist.barrier()
    if not worst < BOUND:
        print(f"rank {rank}: FAILED, error {worst:.1e}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        sys.exit(77)
    mp.spawn(run, args=(20000 + os.getpid() % 20000,), nprocs=RANKS)
    print("the fused model equals the unfused one")
