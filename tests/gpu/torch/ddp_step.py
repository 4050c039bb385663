"""Times a data-parallel training step (GPT, 125 M parameters, bf16) over Braid and over NCCL's sockets as two nodes.

Variants: compute only (no gradient exchange), NCCL's sockets by default and under each hand setting, Braid. Each variant is
measured in every round, in a new order each round, by processes that stay; the slower rank counts. Two GPUs; start it through tests/gpu/with_mps,
which exits with 77 where there is none. Rows `ddp_step` go to the folder OUT. Exposed communication = step minus compute only.
"""
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import two_nodes  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "3"))
STEPS, BATCH = 3, 8


state = {}  # a rank's model, optimizer and data, made by its first call


def prepare(rank, device):
    import torch

    import gpt

    torch.manual_seed(7)
    with device:
        model = gpt.GPT(gpt.GPT_125M)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True)
    state.update(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True),
                 data=gpt.batch(gpt.GPT_125M, BATCH, 0, rank, device))
    step_times(rank, device, True)


def step_times(rank, device, synchronise):
    """Seconds of STEPS steps, each ended by a device synchronisation."""
    import contextlib

    import torch

    model, optimizer = state["model"], state["optimizer"]
    times = []
    for step in range(1 + STEPS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with contextlib.nullcontext() if synchronise else model.no_sync():
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(*state["data"])
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return times[1:]


def main():
    import torch

    if torch.cuda.device_count() < 2:
        print("skipped: needs two GPUs (two ranks on one GPU share its SMs, so no step time means anything)")
        return 77
    logs = tempfile.mkdtemp()
    variants = ["compute_only", "braid", "socket"] + [f"socket/{s}" for s in two_nodes.HAND_SETTINGS]
    times = {variant: [] for variant in variants}
    teams = {v: two_nodes.Team(v, f"{logs}/{v.replace('/', '-')}") for v in variants if v != "compute_only"}
    for team in teams.values():
        team.start(prepare)
    for team in teams.values():
        team.finish()
    print(f"{len(teams)} teams of two ranks are ready", flush=True)
    for round_number in range(ROUNDS):
        random.Random(round_number).shuffle(variants)
        for variant in variants:
            team = teams["socket" if variant == "compute_only" else variant]
            ranks = team.call(step_times, variant != "compute_only")
            print(f"round {round_number + 1} of {ROUNDS}: {variant}", flush=True)
            times[variant].append(statistics.median(max(pair) for pair in zip(*ranks)) * 1e6)
    two_nodes.close(teams.values())
    median = {variant: statistics.median(values) for variant, values in times.items()}
    best = min((v for v in variants if v.startswith("socket")), key=median.get)
    compute = median["compute_only"]
    for variant in sorted(variants, key=median.get):
        print(f"{variant:14} step {median[variant] / 1e3:8.1f} ms, exposed communication {(median[variant] - compute) / 1e3:8.1f} ms")
    print(f"exposed over Braid / over NCCL's best ({best}): {(median['braid'] - compute) / (median[best] - compute):.3f}")
    row = {"bench": "ddp_step", "case": "gpt125m/braid", "metric": "time_us", "value": median["braid"],
           "spread": [min(times["braid"]), max(times["braid"])], "runs": ROUNDS,
           "peers": {"nccl_default": median["socket"], "nccl_best": median[best], "compute_only": compute},
           "note": f"nccl_best is {best}", **two_nodes.row_base()}
    if os.environ.get("OUT"):
        pathlib.Path(os.environ["OUT"], "ddp_step.jsonl").write_text(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
