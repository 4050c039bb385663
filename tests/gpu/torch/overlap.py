"""The 18 boundaries of tensor parallelism on two GPUs: Braid's default choice beside plain cuBLAS with copy-engine pushes (control),
PyTorch's async tensor parallelism, and NCCL + cuBLAS in series. One run, CUDA graphs, interleaved, the slower rank.

Usage: overlap.py [ROWS.jsonl]. BRAID_OVERLAP_PROFILE names the profile that braid-overlap --tune wrote (without it: the model).
OVERLAP_ROWS picks rows by number, e.g. 0,1,4. A row that ROWS.jsonl has from the same commit is not measured again, so a bounded run is
taken up where it stopped. Three to six seconds a row. The table has microseconds and, after each D, max(A, fastest B) / D.
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import traceback

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm
import torch.multiprocessing as mp

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/braid-overlap"))
import braid_overlap  # noqa: E402

SHAPES = ((8192, 14336, 8192), (8192, 4096, 8192), (2048, 14336, 8192), (16384, 2048, 4096), (16384, 1024, 8192), (8192, 1024, 4096),
          (512, 14336, 8192), (128, 14336, 8192), (64, 4096, 8192))
BF16 = torch.bfloat16


def target(a, b_fastest):
    """What the default choice is held to beside the control."""
    return 0.85 if b_fastest > a else 0.97 if a > 600 else 0.93 if a >= 300 else 0.0


class Control:
    """cuBLAS in two halves beside one copy-engine push each way; barriers of PyTorch's symmetric memory."""

    def __init__(self, rank, group, m, k):
        self.half, self.rank, self.side = m // 2, rank, torch.cuda.Stream(priority=-1)
        self.me = slice(rank * self.half, (rank + 1) * self.half)
        self.other = slice((1 - rank) * self.half, (2 - rank) * self.half)
        self.full = symm.empty(m, k, dtype=BF16, device="cuda")
        self.handle = symm.rendezvous(self.full, group)
        self.full.copy_(torch.randn(m, k, device="cuda"))
        self.peer = self.handle.get_buffer(1 - rank, (m, k), BF16)

    def gather(self, x, w, y):
        current = torch.cuda.current_stream()
        self.handle.barrier(0)
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            self.peer[self.me].copy_(x, non_blocking=True)
        torch.matmul(x, w, out=y[self.me])
        current.wait_stream(self.side)
        self.handle.barrier(1)
        torch.matmul(self.full[self.other], w, out=y[self.other])
        self.handle.barrier(2)

    def reduce(self, x, w, partial, out):
        current = torch.cuda.current_stream()
        torch.matmul(x[self.other], w, out=partial[self.other])
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            self.peer[: self.half].copy_(partial[self.other], non_blocking=True)
        torch.matmul(x[self.me], w, out=partial[self.me])
        current.wait_stream(self.side)
        self.handle.barrier(0)
        torch.add(partial[self.me], self.full[: self.half], out=out)
        self.handle.barrier(1)


def gather_variants(comm, rank, group, m, n, k):
    half = m // 2
    x = symm.empty(half, k, dtype=BF16, device="cuda")
    symm.rendezvous(x, group)
    x.copy_(torch.randn(half, k, device="cuda"))
    w = torch.randn(k, n, device="cuda").to(BF16)
    y = torch.empty(m, n, dtype=BF16, device="cuda")
    full = torch.randn(m, k, device="cuda").to(BF16)
    control, gemm = Control(rank, group, m, k), comm.gemm("ag_gemm", m, n, k)
    push = comm.bulk("ag_gemm", m, k, num_splits=1)

    def serial():
        dist.all_gather_into_tensor(full, x)
        torch.matmul(full, w, out=y)
    variants = {"A": lambda: torch.matmul(full, w, out=y), "A_lt": lambda: gemm.compute(full, w, y),
                "B_nccl": lambda: dist.all_gather_into_tensor(full, x), "B_ce": lambda: push.collective(x), "C": serial,
                "D_braid": lambda: gemm(x, w, y), "D_control": lambda: control.gather(x, w, y),
                "D_torch": lambda: torch.ops.symm_mem.fused_all_gather_matmul(x, [w], 0, group)}
    dist.all_gather_into_tensor(full, x)
    return variants, gemm, push, (lambda: gemm(x, w, y).float(), torch.matmul(full, w).float())


def reduce_variants(comm, rank, group, m, n, k):
    x, w = torch.randn(m, k, device="cuda").to(BF16), torch.randn(k, n, device="cuda").to(BF16)
    partial = torch.randn(m, n, device="cuda").to(BF16)
    out, mine = (torch.empty(m // 2, n, dtype=BF16, device="cuda") for _ in range(2))
    control, gemm = Control(rank, group, m, n), comm.gemm("gemm_rs", m, n, k)
    push = comm.bulk("gemm_rs", m, n, num_splits=4 if m >= 2048 else 1)

    def serial():
        torch.matmul(x, w, out=partial)
        dist.reduce_scatter_tensor(out, partial)
    variants = {"A": lambda: torch.matmul(x, w, out=partial), "A_lt": lambda: gemm.compute(x, w, partial),
                "B_nccl": lambda: dist.reduce_scatter_tensor(out, partial), "B_ce": lambda: push.collective(partial, out),
                "C": serial, "D_braid": lambda: gemm(x, w, mine), "D_control": lambda: control.reduce(x, w, partial, out),
                "D_torch": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(x, w, "sum", 0, group)}
    exact = torch.matmul(x, w).float()
    dist.all_reduce(exact)
    return variants, gemm, push, (lambda: gemm(x, w, mine).float(), exact[rank * (m // 2):(rank + 1) * (m // 2)])


def this_commit():
    return os.environ.get("COMMIT") or subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True,
                                                  text=True).stdout.strip() or "unknown"


def measured_before(path):
    """Cases that the file of rows has from this commit."""
    if not path or not pathlib.Path(path).exists():
        return set()
    rows = [json.loads(line) for line in open(path) if line.endswith("\n")]
    return {row["case"] for row in rows if row["metric"] == "efficiency_ratio" and row["commit"] == this_commit()}


def row_base():
    return {"machine": f"{torch.cuda.device_count()}x {torch.cuda.get_device_name(0).replace('NVIDIA ', '')} NVLink",
            "versions": {"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                         "cuda": torch.version.cuda or ""}, "commit": this_commit(), "date": datetime.date.today().isoformat()}


def write_rows(log, name, found, us, b_fastest, info, sound):
    base = {"bench": "overlap", "case": name, "runs": len(found["A"].values)}
    best = {"A_us": "A", "B_us": min((k for k in us if k[0] == "B"), key=us.get), "C_us": "C", "D_us": "D_braid"}
    a = min(us["A"], us["A_lt"])
    if us["A_lt"] < us["A"]:
        best["A_us"] = "A_lt"
    for metric, key in best.items():
        low, high = found[key].interval
        log.write(json.dumps({**base, "metric": metric, "value": round(us[key], 2), "spread": [round(low, 2), round(high, 2)],
                              **row_base()}) + "\n")
    ideal = max(a, b_fastest)
    low, high = found["D_braid"].interval
    peers = {peer: round(ideal / us[key], 4) for peer, key in
             (("control", "D_control"), ("torch_async_tp", "D_torch"), ("serial", "C")) if key in us}
    log.write(json.dumps({**base, "metric": "efficiency_ratio", "value": round(ideal / us["D_braid"], 4),
                          "spread": [round(ideal / high, 4), round(ideal / low, 4)], "peers": peers,
                          **({"limit": target(a, b_fastest), "limit_name": "target"} if target(a, b_fastest) else {}),
                          "note": f"{info['method']}, {info['num_splits']} splits ({without_folders(info['reason'])}); serial check {sound:+.3f}"
                                  + ("" if abs(sound) <= 0.1 else ", void"), **row_base()}) + "\n")
    log.flush()


def without_folders(reason):
    """Where a profile lies on this machine is nothing for a row."""
    return re.sub(r"(?<=profile )\S*/", "", reason)


def case(op, m, n, k):
    return f"{op}/{m}x{n}x{k}/bf16/default"


def one_row(comm, rank, group, op, m, n, k, log):
    make = gather_variants if op == "ag_gemm" else reduce_variants
    variants, gemm, push, (run, exact) = make(comm, rank, group, m, n, k)
    found = braid_overlap.measure(variants, rounds=33 if 2 * m * n * k > 4e11 else 11)  # power limits the long ones, which is noise
    us = {name: times.median for name, times in found.items()}
    error = ((run() - exact).norm() / exact.norm()).item()
    b_fastest = min(v for name, v in us.items() if name[0] == "B")
    a, sound, info = min(us["A"], us["A_lt"]), 1 - (us["C"] - us["A"]) / us["B_nccl"], gemm.info()
    if rank == 0:
        ideal, need = max(a, b_fastest), target(a, b_fastest)
        eff = {key: ideal / us[key] for key in us if key[0] == "D"}
        verdict = "ok" if eff["D_braid"] >= max(need, eff.get("D_control", 0)) and us["D_braid"] <= us["C"] else "MISS"
        print(f"{op} {f'{m},{n},{k}':17s} A {a:7.1f} B {b_fastest:6.1f} C {us['C']:7.1f}"
              + "".join(f" {key[2:]} {us[key]:7.1f} {eff[key]:.3f}" if key in us else f" {key[2:]} not run"
                        for key in ("D_braid", "D_control", "D_torch"))
              + f" need {need:.2f} {verdict}{'' if abs(sound) <= 0.1 else f' VOID {100 * sound:+.0f} %'}"
              + f" {info['method']}/{info['num_splits']}{'/direct' if info['direct'] else ''}{'/kernel' if info['signal'] == 3 else ''} {info['reason'].split(':')[0][:12]}"
              + f" A_lt {us['A_lt']:.1f}", flush=True)
        if log:
            write_rows(log, case(op, m, n, k), found, us, b_fastest, info, sound)
    if gemm.status():
        raise RuntimeError(gemm.status())
    if not error < 1e-2:
        raise RuntimeError(f"wrong numbers: relative error {error}")
    torch.cuda.synchronize()
    gemm.close()
    push.close()


def run(rank, path, before):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29589")
    torch.cuda.set_device(rank)
    torch.manual_seed(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2, device_id=torch.device("cuda", rank))
    group, comm, failed = dist.group.WORLD.group_name, braid_overlap.Comm(timeout_s=20), 0
    log = open(path, "a") if rank == 0 and path else None
    rows = [(op, m, *(nk if op == "ag_gemm" else reversed(nk))) for m, *nk in SHAPES for op in ("ag_gemm", "gemm_rs")]
    wanted = os.environ.get("OVERLAP_ROWS")
    for i in map(int, wanted.split(",")) if wanted else range(len(rows)):
        if case(*rows[i]) in before:
            continue
        begin = time.time()
        try:
            one_row(comm, rank, group, *rows[i], log)
        except Exception:
            failed = 1
            traceback.print_exc()
            break  # the ranks may not be in step any more
        if rank == 0 and os.environ.get("VERBOSE"):
            print(f"  {time.time() - begin:.1f} s", flush=True)
        torch.cuda.empty_cache()
    sys.stdout.flush()
    os._exit(failed)


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        print("skipped: needs two GPUs")
        sys.exit(77)
    rows_file = sys.argv[1] if len(sys.argv) > 1 else None
    mp.spawn(run, args=(rows_file, measured_before(rows_file)), nprocs=2)
