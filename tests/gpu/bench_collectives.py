#!/usr/bin/env python3
"""Collectives on two GPUs: Braid, NCCL and PyTorch symmetric memory in CUDA graphs, interleaved, the slower rank, median of rounds.

Writes rows of bench `collectives` to $OUT/collectives.jsonl and prints a short table last. Usage: bench_collectives.py [--quick] [GROUP ...]
Groups: small large gather fused sweep micro ends. Each variant is checked against NCCL's result before it is timed. About 100 s for all
groups but `ends`, the smallest and the largest sizes (256 bytes, 256 and 512 MiB), which takes as long alone."""
import datetime
import json
import os
import struct
import subprocess
import sys
import time
import traceback

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
os.environ.setdefault("BRAID_DEVICE_TIMEOUT_MS", "3000")
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm
import torch.multiprocessing as mp

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import braid_torch as bt

KI, MI = 1 << 10, 1 << 20
ROUNDS = 11


class Bench:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.cpu = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=40))
        self.group = dist.group.WORLD
        self.name = dist.group.WORLD.group_name
        self.open()
        self.rows = []
        self.table = []
        self.started = time.time()

    def open(self, size=256 * MI):
        """A communicator and a window: its first half is for operations, the last quarters for copies that are their limit."""
        self.braid = bt.Braid(self.cpu)
        self.size = size
        self.window, self.memory = self.braid.window(size)

    def say(self, *text):
        if self.rank == 0:
            print(*text, flush=True)

    def agree(self, ok):
        flag = torch.tensor([0 if ok else 1])
        dist.all_reduce(flag, group=self.cpu)
        return flag.item() == 0

    def capture(self, f, n):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                f()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(n):
                f()
        return graph

    def measure(self, variants, n):
        """{name: function} -> {name: sorted times of the slower rank, us}; a variant that fails on any rank is left out."""
        graphs = {}
        for name, f in variants.items():
            error = None
            try:
                graph = self.capture(f, n)
                torch.cuda.synchronize()
                error = self.braid.error()
            except Exception as e:
                error = str(e).split("\n")[0][:160]
            if error:
                print(f"rank {self.rank}: {name}: {error}", flush=True)
            if self.agree(error is None):
                graphs[name] = graph
        times = {name: [] for name in graphs}
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        order = list(graphs)
        for turn in range(ROUNDS + 2):
            for name in order:
                torch.cuda.synchronize()
                dist.barrier(group=self.cpu)
                begin.record()
                graphs[name].replay()
                end.record()
                torch.cuda.synchronize()
                if turn >= 2:
                    times[name].append(begin.elapsed_time(end) * 1e3 / n)
            order = order[1:] + order[:1]
        out = {}
        for name, mine in times.items():
            slower = torch.tensor(mine)
            dist.all_reduce(slower, op=dist.ReduceOp.MAX, group=self.cpu)
            out[name] = sorted(slower.tolist())
        if self.braid.error():
            raise RuntimeError(self.braid.error())
        return out

    def engine_copy(self, size):
        """The bare limit: one copy by copy engine into the peer's window, both ways at once."""
        src = self.memory.data_ptr() + self.size // 2
        dst = self.braid.address(self.window, 1 - self.rank) + self.size // 4 * 3
        memcpy = self.libcudart().cudaMemcpyAsync

        def go():
            memcpy(bt.C.c_void_p(dst), bt.C.c_void_p(src), bt.C.c_size_t(size), bt.C.c_int(4), bt.C.c_void_p(torch.cuda.current_stream().cuda_stream))
        return go

    @staticmethod
    def libcudart():
        for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
            try:
                return bt.C.CDLL(name)
            except OSError:
                continue
        raise OSError("no libcudart")

    def verify(self, name, run, out, want):
        """Runs a variant once and compares with NCCL's result."""
        error = None
        try:
            out.fill_(float("nan")) if out.is_floating_point() else out.fill_(0x5A)
            run()
            torch.cuda.synchronize()
            error = self.braid.error()
            if error is None and not torch.allclose(out.float(), want.float(), rtol=2e-2, atol=2e-2):
                error = f"wrong result, {(out.float() - want.float()).abs().max().item():.3g} off at most"
        except Exception as e:
            error = str(e).split("\n")[0][:160]
        if error:
            print(f"rank {self.rank}: VERIFY {name}: {error}", flush=True)
        return self.agree(error is None)

    def record(self, case, times, ours, peers, limit=None, shown=()):
        """One row for each name of `ours` ({suffix of the case: name}); the others are peers."""
        median = {name: v[len(v) // 2] for name, v in times.items()}
        for suffix, name in ours.items():
            if name not in times:
                continue
            row = {"bench": "collectives", "case": case + suffix, "metric": "time_us", "value": round(median[name], 2),
                   "spread": [round(times[name][1], 2), round(times[name][-2], 2)], "runs": ROUNDS,
                   "peers": {p: round(median[p], 2) for p in peers if p in median}}
            if limit and limit in median:
                row["limit"] = round(median[limit], 2)
                row["limit_name"] = "copy_engine"
            self.rows.append(row)
        line = f"{case:34} " + " ".join(f"{n}={median[n]:.2f}" for n in median)
        self.table.append(line)
        self.say(f"[{time.time() - self.started:5.1f} s] {line}")

    # ---- groups ----
    def all_reduce(self, sizes, sweep=False):
        b = self.braid
        for size in sizes:
            n = size // 2
            x = torch.randn(n, device="cuda").bfloat16()
            win = self.memory[:size].view(torch.bfloat16)
            want = x.clone()
            dist.all_reduce(want)
            plain = torch.empty_like(x)
            calls = {}

            def ours(method, sms=0, flags=0, window=True):
                how = bt.options(method, sms, 1.0, flags)
                return lambda: b.all_reduce(win, win, how) if window else b.all_reduce(x, plain, how)

            def tried(name, call, out):
                def run():
                    if out is win:
                        win.copy_(x)
                    call()
                if self.verify(f"all_reduce/{size}/{name}", run, out, want):
                    calls[name] = call
            tried("braid", ours(bt.AUTO), win)
            if not sweep:
                tried("braid_plain", ours(bt.AUTO, window=False), plain)
                calls["nccl"] = lambda: dist.all_reduce(x)
                try:
                    s = symm.empty(n, dtype=torch.bfloat16, device="cuda")
                    symm.rendezvous(s, self.name)
                    s.copy_(x)
                    if size <= 4 * MI:
                        calls["torch_one_shot"] = lambda: torch.ops.symm_mem.one_shot_all_reduce(s, "sum", self.name)
                    calls["torch_two_shot"] = lambda: torch.ops.symm_mem.two_shot_all_reduce_(s, "sum", self.name)
                except Exception as e:
                    self.say("symmetric memory:", str(e)[:100])
                if size <= 256 * KI:
                    tried("braid_no_overlap", ours(bt.AUTO, flags=bt.NO_OVERLAP), win)
                if 64 * KI < size <= 4 * MI:
                    tried("packets", ours(bt.PACKETS), win)
                if 256 * KI <= size <= 64 * MI:
                    tried("one_shot", ours(bt.ONE_SHOT), win)
                if size >= 256 * KI:
                    tried("two_shot", ours(bt.TWO_SHOT), win)
                    tried("pull", ours(bt.PULL), win)
                if size >= 256 * KI:
                    calls["copy_engine"] = self.engine_copy(size)
                if size >= 16 * MI:
                    for sms in (8, 12, 16):
                        tried(f"two_shot_sms{sms}", ours(bt.TWO_SHOT, sms), win)
                        tried(f"pull_sms{sms}", ours(bt.PULL, sms), win)
            else:
                for method, name in ((bt.PACKETS, "packets"), (bt.ONE_SHOT, "one_shot"), (bt.TWO_SHOT, "two_shot")):
                    if method == bt.PACKETS and size > 4 * MI or method != bt.PACKETS and size < 128 * KI:
                        continue
                    for sms in (1, 2, 4, 8, 16, 24, 32, 64, 128):
                        if size <= 64 * KI and sms > 16 or size > 64 * KI and sms < 8:
                            continue
                        tried(f"{name}_sms{sms}", ours(method, sms), win)
            win.copy_(x)
            repeats = 50 if size <= MI else 20 if size <= 4 * MI else 6 if size <= 64 * MI else 2
            times = self.measure(calls, repeats)
            case = f"all_reduce/bf16/{size}"
            mine = {"": "braid", "/plain": "braid_plain", "/no_overlap": "braid_no_overlap"}
            mine.update({"/" + k.replace("_sms", "/sms"): k for k in calls if k.startswith(("packets", "one_shot", "two_shot", "pull"))})
            self.record(case, times, mine, ("nccl", "torch_one_shot", "torch_two_shot"), "copy_engine")

    def gathers(self, sizes):
        b = self.braid
        for size in sizes:
            block = size // self.world
            lo, hi = self.rank * block, (self.rank + 1) * block
            win = self.memory[:size]
            src = torch.randint(0, 120, (size,), device="cuda", dtype=torch.uint8)
            mine = src[lo:hi].clone()
            want = torch.empty_like(src)
            repeats = 50 if size <= MI else 20 if size <= 16 * MI else 5 if size <= 128 * MI else 2
            limit = {"copy_engine": self.engine_copy(block)} if size >= MI else {}

            dist.all_gather_into_tensor(want, mine)
            calls = {"nccl": lambda: dist.all_gather_into_tensor(want, mine)}
            reference = want.clone()
            for name, method in (("braid", bt.AUTO), ("packets", bt.PACKETS), ("staged", bt.STAGED), ("direct", bt.DIRECT), ("engine", bt.ENGINE)):
                if method == bt.PACKETS and block > 4 * MI:
                    continue
                how = bt.options(method)
                call = lambda how=how: b.all_gather(win[lo:hi], win, how)  # in place

                def run(call=call):
                    win[lo:hi].copy_(mine)
                    call()
                if self.verify(f"all_gather/{size}/{name}", run, win, reference):
                    calls[name] = call
            if size >= 16 * MI:
                for sms in (4, 8, 16):
                    calls[f"direct_sms{sms}"] = lambda how=bt.options(bt.DIRECT, sms): b.all_gather(win[lo:hi], win, how)
            calls.update(limit)
            win[lo:hi].copy_(mine)
            suffix = {"": "braid", "/packets": "packets", "/staged": "staged", "/direct": "direct", "/ce": "engine",
                      "/direct/sms4": "direct_sms4", "/direct/sms8": "direct_sms8", "/direct/sms16": "direct_sms16"}
            self.record(f"all_gather/u8/{size}", self.measure(calls, repeats), suffix, ("nccl",), "copy_engine")

            out = torch.empty_like(src)
            dist.all_to_all_single(out, src)
            reference = out.clone()
            calls = {"nccl": lambda: dist.all_to_all_single(out, src)}
            for name, method, in_place in (("braid", bt.AUTO, False), ("packets", bt.PACKETS, False), ("staged", bt.STAGED, False), ("direct", bt.DIRECT, False),
                                           ("engine", bt.ENGINE, False), ("engine_in_place", bt.ENGINE, True), ("staged_in_place", bt.STAGED, True)):
                if method == bt.PACKETS and block > 4 * MI or method == bt.ENGINE and in_place and size > 128 * MI:
                    continue  # the second goes through the staging, which is smaller
                how = bt.options(method)
                call = lambda how=how, a=win if in_place else src: b.all_to_all(a, win, how)

                def run(call=call, in_place=in_place):
                    if in_place:
                        win.copy_(src)
                    call()
                if self.verify(f"all_to_all/{size}/{name}", run, win, reference):
                    calls[name] = call
            if size >= 16 * MI:
                for sms in (8, 16, 32):
                    calls[f"direct_sms{sms}"] = lambda how=bt.options(bt.DIRECT, sms): b.all_to_all(src, win, how)
            calls.update(limit)
            suffix = {"": "braid", "/packets": "packets", "/staged": "staged", "/direct": "direct", "/ce": "engine",
                      "/direct/sms8": "direct_sms8", "/direct/sms16": "direct_sms16", "/direct/sms32": "direct_sms32",
                      "/in_place/ce": "engine_in_place", "/in_place/staged": "staged_in_place"}
            self.record(f"all_to_all/u8/{size}", self.measure(calls, repeats), suffix, ("nccl",), "copy_engine")

            x = torch.randn(size // 2, device="cuda").bfloat16()
            half = torch.empty(size // 2 // self.world, device="cuda", dtype=torch.bfloat16)
            dist.reduce_scatter_tensor(half, x)
            reference = half.clone()
            buffer = self.memory[:size].view(torch.bfloat16)
            block_view = buffer[lo // 2:hi // 2]
            calls = {"nccl": lambda: dist.reduce_scatter_tensor(half, x)}
            methods = [("braid", bt.AUTO, 0), ("packets", bt.PACKETS, 0), ("staged", bt.STAGED, 0), ("pull", bt.PULL, 0)]
            if size >= 16 * MI:
                methods += [(f"staged_sms{s}", bt.STAGED, s) for s in (8, 16, 24, 32, 64)] + [(f"pull_sms{s}", bt.PULL, s) for s in (8, 16, 24)]
            for name, method, sms in methods:
                if method == bt.PACKETS and block > 4 * MI:
                    continue
                how = bt.options(method, sms)
                call = lambda how=how: b.reduce_scatter(buffer, block_view, how)  # in place

                def run(call=call):
                    buffer.copy_(x)
                    call()
                    half.copy_(block_view)
                if self.verify(f"reduce_scatter/{size}/{name}", run, half, reference):
                    calls[name] = call
            calls.update(limit)
            buffer.copy_(x)
            suffix = {"": "braid"}
            suffix.update({"/" + k.replace("_sms", "/sms"): k for k in calls if k.startswith(("packets", "staged", "pull"))})
            self.record(f"reduce_scatter/bf16/{size}", self.measure(calls, repeats), suffix, ("nccl",), "copy_engine")

    def ends(self):
        self.open(2048 * MI)
        for size in (256, 256 * MI, 512 * MI):
            self.all_reduce([size])
            self.gathers([size])
            torch.cuda.empty_cache()
            self.flush()

    def fused(self):
        """All-reduce + residual + RMSNorm: the kernel of example 04 against NCCL and PyTorch's kernels, eager and compiled."""
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../device/examples/04_all_reduce_rmsnorm"))
        import op
        hidden = 8192
        fused = op.FusedNorm(self.braid.comm, 1024, hidden, self.braid.lib)

        def run(x, residual, weight):
            return torch.ops.braid_example.all_reduce_rmsnorm(x, residual, weight, 1e-6, fused.key)
        for rows in (1, 16, 128, 1024):
            error = None
            try:
                op.check(fused, self.cpu, rows, rows, run)
                error = self.braid.error()
            except Exception as e:
                error = str(e).strip().split("\n")[0][:200]
            if error:
                print(f"rank {self.rank}: VERIFY fused/{rows}: {error}", flush=True)
            if not self.agree(error is None):
                continue
            x, residual = (torch.randn(rows, hidden, device="cuda").bfloat16() for _ in range(2))
            weight = torch.randn(hidden, device="cuda").bfloat16()

            def norm():
                residual.add_(x)
                torch.nn.functional.rms_norm(residual, (hidden,), weight, 1e-6)

            def nccl():
                dist.all_reduce(x)
                norm()

            def braid_unfused():
                self.braid.all_reduce(x, x)
                norm()

            def kernel():
                fused.run(x, residual, weight, 1e-6)
            calls = {"fused": kernel, "nccl_unfused": nccl, "braid_unfused": braid_unfused, "norm_only": norm}
            times = self.measure(calls, 50 if rows < 1024 else 20)
            self.record(f"all_reduce_rmsnorm/bf16/{rows}x{hidden}", times, {"": "fused", "/unfused": "braid_unfused"}, ("nccl_unfused", "norm_only"))

    def micro(self):
        """What the pieces of an operation by copy engines cost in a graph, us a node; nothing here is a row."""
        C, words = bt.C, 200 * MI
        cuda = C.CDLL("libcuda.so.1")
        mine, peer = (self.braid.address(self.window, r) + words for r in (self.rank, 1 - self.rank))
        memcpy = self.libcudart().cudaMemcpyAsync
        host = torch.zeros(64, dtype=torch.int32).pin_memory()

        def batch(*ops):
            """ops: ("write" or "wait", address, value)"""
            raw = b"".join(struct.pack("<iiQQIIQQ", 2 if kind == "write" else 1, 0, address, value, 0 if kind == "write" else 1, 0, 0, 0)
                           for kind, address, value in ops)
            array = C.create_string_buffer(raw, len(raw))
            rc = cuda.cuStreamBatchMemOp_v2(C.c_void_p(torch.cuda.current_stream().cuda_stream), C.c_uint(len(ops)), array, C.c_uint(0))
            if rc != 0:
                raise RuntimeError(f"cuStreamBatchMemOp: {rc}")

        def copy(dst, size):
            memcpy(C.c_void_p(dst), C.c_void_p(mine + 4 * MI), C.c_size_t(size), C.c_int(4), C.c_void_p(torch.cuda.current_stream().cuda_stream))

        def both(*calls):
            def go():
                for call in calls:
                    call()
            return go
        local = [("write", mine + 4096 + 64 * i, 1) for i in range(6)]
        meet = [("write", peer, 1), ("wait", mine, 1), ("write", mine, 0)]
        leave = [("write", peer + 64, 1), ("wait", mine + 64, 1), ("write", mine + 64, 0)]
        flag = [("write", host.data_ptr(), 1)]
        calls = {
            "write_local_1": lambda: batch(*local[:1]), "write_local_3": lambda: batch(*local[:3]), "write_local_6": lambda: batch(*local),
            "write_host_1": lambda: batch(*flag), "write_peer_1": lambda: batch(("write", peer + 4096, 1)),
            "copy_peer_4K": lambda: copy(peer + 2 * MI, 4096), "copy_peer_4K_twice": both(lambda: copy(peer + 2 * MI, 4096), lambda: copy(peer + 3 * MI, 4096)),
            "copy_4K_then_write": both(lambda: copy(peer + 2 * MI, 4096), lambda: batch(("write", peer + 4096, 1))),
            "meet_leave_one_batch": lambda: batch(*meet, *leave),
            "meet_copy_leave": both(lambda: batch(*meet), lambda: copy(peer + 2 * MI, 4096), lambda: batch(*leave)),
            "meet_copy_leave_flags": both(lambda: batch(*flag, *meet), lambda: copy(peer + 2 * MI, 4096), lambda: batch(*leave, *flag)),
        }
        torch.cuda.synchronize()
        dist.barrier(group=self.cpu)
        times = self.measure(calls, 50)
        self.say("pieces of copy-engine operations, us: " + " ".join(f"{n}={v[len(v) // 2]:.2f}" for n, v in times.items()))
        self.table.append("pieces, us: " + " ".join(f"{n}={v[len(v) // 2]:.2f}" for n, v in times.items()))

    def flush(self, name="collectives.jsonl"):
        """Writes the rows there are: a group that hangs must not lose the ones before it."""
        if self.rank != 0:
            return
        commit = os.environ.get("COMMIT", "")
        if not commit:
            try:
                commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
            except OSError:
                pass
        rows, self.rows = self.rows, []
        names = {torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}
        common = {"machine": f"{torch.cuda.device_count()}x {'/'.join(names)} NVLink", "commit": commit, "date": time.strftime("%Y-%m-%d"),
                  "versions": {"nccl": ".".join(map(str, torch.cuda.nccl.version())), "cuda": torch.version.cuda, "torch": torch.__version__}}
        with open(os.path.join(os.environ.get("OUT", "."), name), "a") as f:
            for row in rows:
                f.write(json.dumps({**row, **common}) + "\n")


def main(rank, world, port, groups):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    bench = Bench(rank, world)
    work = {
        "small": lambda: bench.all_reduce([KI, 8 * KI, 16 * KI, 64 * KI, 256 * KI, MI]),
        "large": lambda: bench.all_reduce([4 * MI, 16 * MI, 64 * MI]),
        "gather": lambda: bench.gathers([KI, 64 * KI, MI, 4 * MI, 16 * MI, 128 * MI]),
        "fused": bench.fused,
        "micro": bench.micro,
        "ends": bench.ends,
        "sweep": lambda: bench.all_reduce([16 * KI, 64 * KI, 256 * KI, 512 * KI, MI, 2 * MI, 4 * MI, 16 * MI, 64 * MI], sweep=True),
    }
    failed = False
    for group in groups:
        try:
            work[group]()
        except Exception:
            failed = True
            print(f"rank {rank}: group {group} failed:\n{traceback.format_exc(limit=6)}", flush=True)
            failed_here = True
        else:
            failed_here = False
        bench.flush()
        if not bench.agree(not failed_here):
            failed = True
            bench.open()  # a failed communicator stays failed; the old one is left alone
    bench.say("\n".join(bench.table))
    bench.say("device library:", bench.braid.error() or "no failure")
    os._exit(1 if failed else 0)  # a captured NCCL communicator can hang when it is destroyed


if __name__ == "__main__":
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")] or ["small", "large", "gather", "fused", "sweep"]
    if torch.cuda.device_count() < 2:
        print("skipped: needs two GPUs")
        sys.exit(77)
    mp.spawn(main, args=(2, int(os.environ.get("PORT", "29611")), wanted), nprocs=2)
