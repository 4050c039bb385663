#!/usr/bin/env python3
"""A GEMM chain beside an all-reduce, as in data-parallel backward, under NCCL's default, BRAID_OVERLAP=1 and channel budgets.

usage: budget_step.py BUILD_FOLDER OUT_FOLDER [PROFILE]. Two GPUs. Called by run_budget.sh.
A: the GEMMs alone; B: the all-reduce alone; D: both, in one CUDA graph (one GEMM, then the all-reduce on NCCL's stream beside the
other GEMMs). All settings live on one communicator: Braid's sweep plugin makes NCCL take what the tuner decides for a budget, and the
graphs of all settings are replayed in turn, in a new order each round. Medians over 41 rounds of the slower rank; spread: the middle
80 %. Efficiency = max(A, fastest B) / D.
"""
import csv
import ctypes
import datetime
import json
import os
import pathlib
import random
import subprocess
import sys

BUILD, OUT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
PROFILE = sys.argv[3] if len(sys.argv) > 3 else "h200x2-nvlink"
PLUGIN = BUILD / "lib/libnccl-tuner-braid-sweep.so"
ROUNDS = 41
BUDGETS = [1, 2, 4, 6, 8, 12, 16, 20, 24]
ALGOS = ["tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"]
PROTOS = ["ll", "ll128", "simple"]
# m, n, k of one GEMM, how many, bytes of the all-reduce
CASES = [(8192, 4096, 4096, 4, 64 << 20), (8192, 4096, 4096, 8, 256 << 20), (4096, 4096, 4096, 6, 64 << 20), (8192, 8192, 8192, 4, 256 << 20)]


class Control(ctypes.Structure):
    """tuner-plugin/sweep_control.h"""
    _fields_ = [(n, ctypes.c_int32) for n in ("mode", "algo", "proto", "channels", "calls", "algos", "protos", "nccl_algo", "nccl_proto",
                                              "braid_algo", "braid_proto", "braid_channels")] + [("table", ctypes.c_float * 21)]


def decision(size, *flags):
    """(algo, proto, channels) of the tuner for an all-reduce, by the plugin's own code."""
    out = subprocess.run([f"{BUILD}/bin/braid-tune", "explain", "--profile", PROFILE, "--ranks", "2", "--coll", "all_reduce", "--bytes", str(size),
                          "--format", "csv", *flags], capture_output=True, text=True, check=True).stdout
    row = next(csv.DictReader(out.splitlines()))
    return ALGOS.index(row["algo"]), PROTOS.index(row["proto"]), int(row["channels"])


def settings(size):
    yield "nccl", None
    yield "overlap", decision(size, "--overlap")
    for budget in BUDGETS:
        yield f"budget{budget}", decision(size, "--budget", str(budget))


def measure(torch, dist, graphs):
    """({name: median us}, {name: [low, high]}); both ranks go through the graphs in the same order."""
    times, order = {name: [] for name in graphs}, random.Random(1)
    for i in range(ROUNDS + 2):
        for name, graph in order.sample(sorted(graphs.items()), len(graphs)):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            dist.barrier()
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            if i >= 2:
                times[name].append(begin.elapsed_time(end) * 1e3)
    slower = torch.tensor(list(times.values()), device="cuda")
    dist.all_reduce(slower, op=dist.ReduceOp.MAX)
    ranked = [sorted(row) for row in slower.tolist()]
    return ({name: row[ROUNDS // 2] for name, row in zip(times, ranked)},
            {name: [row[ROUNDS // 10], row[-1 - ROUNDS // 10]] for name, row in zip(times, ranked)})


def capture(torch, body):
    body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph


def run_case(torch, dist, control, case, rank):
    m, n, k, count, size = case
    a, b = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((m, k), (k, n)))
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    x = torch.zeros(size // 2, device="cuda", dtype=torch.bfloat16)
    graphs, chosen = {}, {}

    def gemms(times):
        for _ in range(times):
            torch.matmul(a, b, out=c)

    def reduce():
        dist.all_reduce(x, async_op=True).wait()

    def both():
        gemms(1)
        work = dist.all_reduce(x, async_op=True)
        gemms(count - 1)
        work.wait()

    graphs["A"] = capture(torch, lambda: gemms(count))
    for name, choice in settings(size):
        if choice is None:
            control.mode = 0
        else:
            control.mode, (control.algo, control.proto, control.channels) = 1, choice
        graphs[f"B/{name}"] = capture(torch, reduce)
        graphs[f"D/{name}"] = capture(torch, both)
        algo, proto = (choice[:2] if choice else (control.nccl_algo, control.nccl_proto))
        chosen[name] = f"{ALGOS[algo]}/{PROTOS[proto]}/{choice[2] if choice and choice[2] else 'own'}"
    control.mode = 0
    us, spread = measure(torch, dist, graphs)
    fastest = min(v for key, v in us.items() if key.startswith("B/"))
    label = f"{m}x{n}x{k}x{count}/{size}"
    rows = []
    if rank == 0:
        print(f"{label}: GEMMs alone {us['A']:.0f} us, fastest all-reduce alone {fastest:.0f} us")
        print(f"  {'setting':10} {'choice':22} {'B us':>8} {'D us':>8} {'efficiency':>10} {'D, NCCL/this':>12}")
        for name in chosen:
            d, efficiency = us[f"D/{name}"], max(us["A"], fastest) / us[f"D/{name}"]
            print(f"  {name:10} {chosen[name]:22} {us[f'B/{name}']:8.0f} {d:8.0f} {efficiency:10.3f} {us['D/nccl'] / d:12.3f}")
            base = {"bench": "overlap_channels", "runs": ROUNDS, "peers": {"nccl": round(us["D/nccl"], 1)}, "note": chosen[name]}
            prefix = f"gemm_beside_all_reduce/{label}/{name}"
            rows.append({**base, "case": prefix, "metric": "D_us", "value": round(d, 1), "spread": [round(s, 1) for s in spread[f"D/{name}"]],
                         "limit": round(max(us["A"], fastest), 1)})
            rows.append({"bench": "overlap_channels", "runs": ROUNDS, "case": prefix, "metric": "B_us", "value": round(us[f"B/{name}"], 1)})
            rows.append({"bench": "overlap_channels", "runs": ROUNDS, "case": prefix, "metric": "efficiency_ratio", "value": round(efficiency, 4)})
        rows.append({"bench": "overlap_channels", "runs": ROUNDS, "case": f"gemm_beside_all_reduce/{label}", "metric": "A_us", "value": round(us["A"], 1)})
    return rows


def worker(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NCCL_TUNER_PLUGIN=str(PLUGIN), BRAID_TUNER_PROFILE="none", NCCL_NVLS_ENABLE="0")
    control = Control.in_dll(ctypes.CDLL(str(PLUGIN)), "braid_sweep_control")
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2, device_id=torch.device("cuda", rank))
    rows = []
    for case in CASES:
        rows += run_case(torch, dist, control, case, rank)
    if rank == 0:
        stamp = {"machine": f"2x {torch.cuda.get_device_name().removeprefix('NVIDIA ')} NVLink", "date": datetime.date.today().isoformat(),
                 "versions": {"nccl": ".".join(map(str, torch.cuda.nccl.version())), "torch": torch.__version__, "cuda": torch.version.cuda},
                 "commit": os.environ.get("COMMIT", "unknown")}
        path = OUT / f"overlap_channels-{stamp['date']}-21.jsonl"
        path.write_text("".join(json.dumps({**row, **stamp}) + "\n" for row in rows))
        print(f"rows: {path}")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    import torch.multiprocessing
    torch.multiprocessing.spawn(worker, args=(29700 + os.getpid() % 200,), nprocs=2)
