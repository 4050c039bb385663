#!/usr/bin/env python3
"""The choices of device/ops/attempts.h side by side on two GPUs: each is a libbraid of its own (build/dev/lib/attempts, target `attempts`).

In CUDA graphs, interleaved, the slower rank, median of rounds; every choice is checked against NCCL's result first, and one that fails is
left out. Prints one table; rows with case `.../try_<name>` go to $OUT/attempts.jsonl. About 25 s. Usage: bench_attempts.py [NAME ...]"""
import glob
import os
import sys
import traceback

import bench_collectives as bc
from bench_collectives import MI, bt, dist, mp, torch

LIBRARIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/dev/lib/attempts/lib*.so")
NAMES = {bt.PACKETS: "packets", bt.ONE_SHOT: "one_shot", bt.TWO_SHOT: "two_shot", bt.STAGED: "staged", bt.DIRECT: "direct", bt.ENGINE: "ce", bt.PULL: "pull"}


class Everyone:
    """All libraries' errors as one."""

    def __init__(self, libraries):
        self.libraries = libraries

    def error(self):
        return next((f"{name}: {b.error()}" for name, (b, _, _) in self.libraries.items() if b.error()), None)


class Attempts(bc.Bench):
    def open(self):
        self.libraries = {}
        self.size = 256 * MI
        paths = {"default": None}
        paths.update({os.path.basename(p)[3:-3]: p for p in sorted(glob.glob(LIBRARIES))})
        for name, path in paths.items():
            if self.wanted and name != "default" and name not in self.wanted:
                continue
            os.environ.pop("TRY_LIBRARY", None)
            if path:
                os.environ["TRY_LIBRARY"] = path
            braid = bt.Braid(self.cpu)
            self.libraries[name] = (braid, *braid.window(self.size))
        self.first = self.libraries["default"]
        self.braid, self.window, self.memory = self.first  # the copy engine's bare copy

    def compare(self, case, size, call, fill, want, part, repeats):
        """call(braid, memory) runs it; fill(memory) sets its input; part(memory) is its result."""
        calls = {}
        for name, (braid, _, memory) in self.libraries.items():
            self.braid = braid

            def run(braid=braid, memory=memory):
                fill(memory)
                call(braid, memory)
                out.copy_(part(memory))
            out = torch.empty_like(want)
            if self.verify(f"{case}/{name}", run, out, want):
                calls[name] = lambda braid=braid, memory=memory: call(braid, memory)
        ours = list(calls)
        self.braid, self.window, self.memory = self.first
        calls["copy_engine"] = self.engine_copy(size)
        self.braid = Everyone(self.libraries)
        self.record(case, self.measure(calls, repeats), {f"/try_{n}": n for n in ours}, ("nccl",), "copy_engine")

    def all_reduce(self, size, method, sms):
        x = torch.randn(size // 2, device="cuda").bfloat16()
        want = x.clone()
        dist.all_reduce(want)
        how = bt.options(method, sms)

        def view(memory):
            return memory[:size].view(torch.bfloat16)
        self.compare(f"all_reduce/bf16/{size}/{NAMES[method]}/sms{sms}", size, lambda b, m: b.all_reduce(view(m), view(m), how),
                     lambda m: view(m).copy_(x), want, view, 6 if size > 16 * MI else 20 if size > MI else 100)

    def reduce_scatter(self, size, method, sms):
        block = size // self.world
        lo = self.rank * block
        x = torch.randn(size // 2, device="cuda").bfloat16()
        want = torch.empty(block // 2, device="cuda", dtype=torch.bfloat16)
        dist.reduce_scatter_tensor(want, x)
        how = bt.options(method, sms)

        def mine(memory):
            return memory[lo:lo + block].view(torch.bfloat16)
        self.compare(f"reduce_scatter/bf16/{size}/{NAMES[method]}/sms{sms}", block,
                     lambda b, m: b.reduce_scatter(m[:size].view(torch.bfloat16), mine(m), how),
                     lambda m: m[:size].view(torch.bfloat16).copy_(x), want, mine, 5)

    def all_to_all(self, size, method, sms):
        src = torch.randint(0, 120, (size,), device="cuda", dtype=torch.uint8)
        want = torch.empty_like(src)
        dist.all_to_all_single(want, src)
        how = bt.options(method, sms)
        self.compare(f"all_to_all/u8/{size}/{NAMES[method]}/sms{sms}", size // self.world, lambda b, m: b.all_to_all(src, m[:size], how),
                     lambda m: None, want, lambda m: m[:size], 5)

    def prune(self):
        """A library whose waits have failed on any rank is left out from here on."""
        for name in list(self.libraries):
            if not self.agree(self.libraries[name][0].error() is None):
                failed = self.libraries.pop(name)[0]
                self.say(f"{name} has failed and is left out: {failed.error()}")

    def run(self):
        """False if a case could not be measured."""
        fine = True
        for work in (lambda: self.reduce_scatter(128 * MI, bt.STAGED, 16), lambda: self.reduce_scatter(128 * MI, bt.STAGED, 32),
                     lambda: self.reduce_scatter(128 * MI, bt.STAGED, 64), lambda: self.reduce_scatter(128 * MI, bt.PULL, 16),
                     lambda: self.reduce_scatter(64 * MI, bt.STAGED, 32), lambda: self.reduce_scatter(64 * MI, bt.PULL, 16),
                     lambda: self.all_reduce(64 * MI, bt.TWO_SHOT, 16), lambda: self.all_reduce(64 * MI, bt.PULL, 12),
                     lambda: self.all_to_all(128 * MI, bt.DIRECT, 16), lambda: self.all_to_all(128 * MI, bt.DIRECT, 32),
                     lambda: self.all_to_all(128 * MI, bt.ENGINE, 0), lambda: self.all_to_all(MI, bt.ENGINE, 0),
                     lambda: self.all_to_all(4 * MI, bt.STAGED, 32), lambda: self.all_reduce(1024, bt.PACKETS, 64),
                     lambda: self.all_reduce(65536, bt.PACKETS, 64), lambda: self.all_reduce(MI, bt.PACKETS, 64),
                     lambda: self.all_reduce(MI, bt.ONE_SHOT, 32)):
            try:
                work()
            except Exception:
                print(f"rank {self.rank}:\n{traceback.format_exc(limit=6)}", flush=True)
                fine = False
            self.flush("attempts.jsonl")
            self.prune()
        return fine


def main(rank, world, port, wanted):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    Attempts.wanted = wanted
    bench = Attempts(rank, world)
    fine = bench.run()
    bench.say("\n".join(bench.table))
    os._exit(0 if fine else 1)  # as in bench_collectives.py


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        print("skipped: needs two GPUs")
        sys.exit(77)
    mp.spawn(main, args=(2, int(os.environ.get("PORT", "29613")), sys.argv[1:]), nprocs=2)
