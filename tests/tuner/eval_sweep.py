#!/usr/bin/env python3
"""Regret of the tuner on measured sweeps: fit on every second size, judge on the others, both ways round.

usage: eval_sweep.py BUILD_FOLDER [--rows FILE] [--guard TIMES] [--one-out] [--check]

--one-out: leave out one size at a time instead of every second one. --check: exit code 1 when the tuner does worse than NCCL on any sweep. Regret of a choice is its measured time over the best measured
time at that size, within reach of a tuner (no more channels than the communicator has; no LL128 where NCCL marks it unusable). Equal configurations are pooled: NCCL takes fewer channels than asked for when each would get too little, so
forced counts above that are the same configuration measured again. Intervals: 2000 bootstrap samples over (collective, size) cells
and over the measurements inside each pool.
"""
import argparse
import collections
import csv
import datetime
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# NCCL's threads of a channel times bytes a thread (tuner-plugin/profiles/nccl.facts).
CHANNEL_BYTES = {"ll": 512 * 8, "ll128": 640 * 8, "simple": 512 * 64}


def load(path):
    meta, rows = {}, []
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            key, _, value = line[2:].partition(" ")
            meta[key] = value
    body = [l for l in path.read_text().splitlines() if not l.startswith("#")]
    for r in csv.DictReader(body):
        rows.append({**r, "bytes": int(r["bytes"]), "channels": int(r["channels"]), "us": float(r["us"])})
    return meta, rows


def effective(algo, proto, size, asked, own, ranks):
    each = CHANNEL_BYTES[proto] * (ranks if (algo, proto) == ("ring", "ll") else 1)
    return max(1, min(asked or own, size // each))


def tune(build, *args):
    out = subprocess.run([f"{build}/bin/braid-tune", *map(str, args)], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"braid-tune {' '.join(map(str, args))}: {out.stderr}")
    return out


def explain(build, profile, meta, sizes, budget):
    out = tune(build, "explain", "--profile", profile, "--ranks", meta["ranks"], "--nodes", meta["nodes"], "--format", "csv",
               "--bytes", ",".join(map(str, sizes)), *(["--budget", budget] if budget else []))
    return {(r["coll"], int(r["bytes"])): r for r in csv.DictReader(out.stdout.splitlines())}


def judged(build, path, profile, sizes, budget):
    """The same for a sweep that says what NCCL chose: the tuner's decision given that choice."""
    out = tune(build, "judge", path, "--profile", profile, *(["--budget", budget] if budget else []))
    return {(r["coll"], int(r["bytes"])): r for r in csv.DictReader(out.stdout.splitlines()) if int(r["bytes"]) in sizes}


def pools(rows, own, ranks, decisions, cap, ll128):
    """{(coll, bytes): {(algo, proto, channels): [us]}} within reach, NCCL's default joined to the configuration that it is."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    default = {}
    for r in rows:
        cell = (r["coll"], r["bytes"])
        if cell not in decisions:
            continue
        algo, proto, asked = r["algo"], r["proto"], r["channels"]
        if algo == "default":
            algo, proto = decisions[cell]["nccl_algo"], decisions[cell]["nccl_proto"]
        if asked > own or (proto == "ll128" and not ll128):
            continue
        count = effective(algo, proto, r["bytes"], asked, own, ranks)
        if r["algo"] == "default" or r.get("what") == "nccl":
            default[cell] = (algo, proto, count)
        if count <= cap:
            found[cell][(algo, proto, count)].append(r["us"])
    return found, default


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def nearest(pool, algo, proto, count):
    """The pool of the choice; a count that was not measured is judged by the nearest one that was."""
    fits = [k for k in pool if k[:2] == (algo, proto)]
    return min(fits, key=lambda k: abs(math.log(k[2] / count))) if fits else None


def judge(build, path, meta, rows, profile, sizes, budget):
    own, ranks = int(meta["channels"]), int(meta["ranks"])
    decisions = judged(build, path, profile, sizes, budget) if "what" in rows[0] else explain(build, profile, meta, sizes, budget)
    found, default = pools(rows, own, ranks, decisions, budget or 10**9, meta.get("ll128") != "0")
    cells = {}
    for cell, pool in found.items():
        d = decisions[cell]
        count = effective(d["algo"], d["proto"], cell[1], int(d["channels"]), own, ranks)
        d_algo, d_proto, d_count = default[cell]
        # NCCL capped to the budget by the user: its own choice of algorithm at the budget's channels.
        cells[cell] = (pool, nearest(pool, d["algo"], d["proto"], min(count, budget or count)),
                       nearest(pool, d_algo, d_proto, min(d_count, budget or d_count)))
    return cells


def regret(cells, sample=None):
    """Geometric means (tuner, NCCL) over cells; `sample` draws a bootstrap replicate."""
    total, n = [0.0, 0.0], 0
    keys = list(cells)
    if sample:
        keys = [sample.choice(keys) for _ in keys]
    for key in keys:
        pool, *choices = cells[key]
        drawn = {k: mean([sample.choice(v) for _ in v]) if sample else mean(v) for k, v in pool.items()}
        best = min(drawn.values())
        for i, choice in enumerate(choices):
            total[i] += math.log(drawn[choice] / best)
        n += 1
    return [math.exp(t / n) for t in total]


def interval(cells):
    sample = random.Random(1)
    draws = [regret(cells, sample) for _ in range(2000)]
    return [(sorted(d[i] for d in draws)[50], sorted(d[i] for d in draws)[1949]) for i in (0, 1)]


def fit_without(build, path, held_out, folder, guard):
    """A profile fitted to the sweep without some sizes; all its files lie in `folder`."""
    for f in pathlib.Path(build, "share/braid/profiles").iterdir():
        pathlib.Path(folder, f.name).write_text(f.read_text())
    part, profile = pathlib.Path(folder, path.name), pathlib.Path(folder, "fitted.profile")
    kept = [l for l in path.read_text().splitlines() if l.startswith(("#", "coll,")) or int(l.split(",")[1]) not in held_out]
    part.write_text("\n".join(kept) + "\n")
    tune(build, "fit", part, "--out", profile, "--guard", guard)
    return profile


def commit():
    out = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE)
    return out.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rows")
    parser.add_argument("--guard", default="1")
    parser.add_argument("--one-out", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    worse, out, stamp = [], [], {"commit": commit(), "date": datetime.date.today().isoformat()}
    print(f"{'sweep':24}{'budget':>7} {'tuner':>8} {'interval':>16} {'NCCL':>8} {'interval':>16}  cells")
    for path in sorted((HERE / "data").glob("*.sweep.csv")):
        name = path.name.removesuffix(".sweep.csv")
        meta, rows = load(path)
        sizes = sorted({r["bytes"] for r in rows})
        for budget in (0, 8):
            cells = {}
            for held_out in [[size] for size in sizes] if args.one_out else [sizes[1::2], sizes[0::2]]:
                with tempfile.TemporaryDirectory() as folder:
                    profile = fit_without(args.build, path, held_out, folder, args.guard)
                    cells.update(judge(args.build, path, meta, rows, profile, held_out, budget))
            (mine, nccl), spans = regret(cells), interval(cells)
            suffix = "/budget8" if budget else ""
            if mine > nccl:
                worse.append(f"{name}{suffix}")
            print(f"{name:24}{budget or '-':>7} {mine:8.3f} {spans[0][0]:8.3f}-{spans[0][1]:.3f} {nccl:9.3f} {spans[1][0]:8.3f}-{spans[1][1]:.3f}  {len(cells)}")
            base = {"bench": "tuner_regret", "metric": "regret_ratio", "machine": meta["machine"], "versions": {"nccl": meta["nccl"]}, **stamp}
            out.append({**base, "case": f"{name}/geomean{suffix}", "value": round(mine, 4), "spread": [round(x, 4) for x in spans[0]],
                        "runs": len(cells), "peers": {"nccl_default": round(nccl, 4)}, "limit": 1})
            for (coll, size), cell in sorted(cells.items()):
                one = regret({0: cell})
                if max(one) > 1.02:
                    print(f"    {coll:15}{size:>11} tuner {cell[1]} {one[0]:.3f}   NCCL {cell[2]} {one[1]:.3f}")
                out.append({**base, "case": f"{name}/{coll}/{size}{suffix}", "value": round(one[0], 4), "runs": len(cell[0][cell[1]]),
                            "peers": {"nccl_default": round(one[1], 4)}, "limit": 1})
    if args.rows:
        pathlib.Path(args.rows).write_text("".join(json.dumps(row) + "\n" for row in out))
    if args.check and worse:
        sys.exit(f"FAILED: worse than NCCL on {', '.join(worse)}")


main()
