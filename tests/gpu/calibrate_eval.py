#!/usr/bin/env python3
"""What calibration bought, judged on communicators that it has not seen.

usage: calibrate_eval.py BUILD_FOLDER NAME OUT_FOLDER ROWS_FILE
NAME-a.sweep.csv was calibrated on; NAME-b.sweep.csv is of other communicators and also holds NCCL's own choice (twice) and what Braid's
tuner did with the profile. The best candidate is chosen on a and judged on b, as are NCCL's and Braid's choices, always as a ratio
of times on the same communicator. Geometric means over cells; intervals by 2000 bootstrap samples over communicators and cells.
"""
import collections
import csv
import datetime
import json
import math
import os
import pathlib
import random
import subprocess
import sys

BUILD, NAME, OUT, ROWS = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])


def load(path):
    """meta, {(coll, bytes): {comm: {(algo, proto, channels): [us]}}}, {.. NCCL's config}, {.. Braid's config}"""
    meta, cells, nccl, braid = {}, collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list))), {}, {}
    lines = path.read_text().splitlines()
    for line in lines:
        if line.startswith("# "):
            key, _, value = line[2:].partition(" ")
            meta[key] = value
    for r in csv.DictReader(l for l in lines if not l.startswith("#")):
        cell, config = (r["coll"], int(r["bytes"])), (r["algo"], r["proto"], int(r["channels"]))
        cells[cell][int(r["comm"])][config].append(float(r["us"]))
        if r["what"] == "nccl":
            nccl[cell] = config
        elif r["what"] == "braid":
            braid[cell] = config
    return meta, cells, nccl, braid


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def overall(comms, config):
    """Time of a configuration over communicators; None where one lacks it."""
    if not all(config in pool for pool in comms.values()):
        return None
    return mean([mean(pool[config]) for pool in comms.values()])


def best_of(comms, most):
    configs = {c for pool in comms.values() for c in pool if c[2] <= most}
    timed = {c: overall(comms, c) for c in configs}
    timed = {c: t for c, t in timed.items() if t}
    return min(timed, key=timed.get) if timed else None


def nearest(comms, choice):
    """The measured configuration of the choice's algorithm and protocol with the nearest channel count."""
    configs = {c for pool in comms.values() for c in pool if c[:2] == choice[:2]}
    return min(configs, key=lambda c: abs(math.log(c[2] / max(choice[2], 1)))) if configs else None


def decisions(sweep, budget):
    out = subprocess.run([f"{BUILD}/bin/braid-tune", "judge", str(sweep), "--profile", str(OUT / f"{NAME}.profile"), "--budget", str(budget)],
                         capture_output=True, text=True, check=True).stdout
    return {(r["coll"], int(r["bytes"])): (r["algo"], r["proto"], int(r["channels"])) for r in csv.DictReader(out.splitlines())}


def ratios(cells_a, cells_b, choice, most):
    """{cell: {comm: time of the choice over time of the candidate that was best on a}}"""
    found = {}
    for cell, comms in cells_b.items():
        best = best_of(cells_a[cell], most) if cell in cells_a else None
        mine = choice(cell, comms)
        if not best or not mine:
            continue
        per_comm = {k: mean(pool[mine]) / mean(pool[best]) for k, pool in comms.items() if mine in pool and best in pool}
        if per_comm:
            found[cell] = per_comm
    return found


def geomean(found, draw=None):
    cells = list(found)
    if draw:
        cells = [draw.choice(cells) for _ in cells]
    logs = []
    for cell in cells:
        values = list(found[cell].values())
        if draw:
            values = [draw.choice(values) for _ in values]
        logs.append(sum(map(math.log, values)) / len(values))
    return math.exp(sum(logs) / len(logs))


def interval(found):
    draw = random.Random(1)
    draws = sorted(geomean(found, draw) for _ in range(2000))
    return [round(draws[50], 4), round(draws[1949], 4)]


def main():
    meta, a, _, _ = load(OUT / f"{NAME}-a.sweep.csv")
    _, b, nccl, braid = load(OUT / f"{NAME}-b.sweep.csv")
    whole = min(len(comms) for half in (a, b) for comms in half.values())
    if whole < min(5, int(os.environ.get("COMMS", 5))) or b.keys() != a.keys():
        sys.exit(f"{NAME}: only {whole} communicators measured every cell of both halves: no rows. The same command goes on; MINUTES gives it more time")
    commit = os.environ.get("COMMIT") or subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip() or "unknown"
    base = {"bench": "tuner_regret", "metric": "regret_ratio", "machine": meta["machine"], "versions": {"nccl": meta["nccl"]}, "commit": commit,
            "date": datetime.date.today().isoformat(), "limit": 1, "note": "choose on half of the communicators, judge on the others"}
    rows = []
    print(f"{'':10}{'budget':>7} {'with Braid':>11} {'interval':>16} {'NCCL alone':>11} {'interval':>16}  cells")
    for budget in (0, 8):
        most = budget or 10**9
        decided = decisions(OUT / f"{NAME}-b.sweep.csv", budget)
        if budget:
            mine = ratios(a, b, lambda cell, comms: nearest(comms, (*decided[cell][:2], min(decided[cell][2] or nccl[cell][2], budget))), most)
            theirs = ratios(a, b, lambda cell, comms: nearest(comms, (*nccl[cell][:2], min(nccl[cell][2], budget))), most)
        else:
            mine = ratios(a, b, lambda cell, comms: braid.get(cell), most)
            theirs = ratios(a, b, lambda cell, comms: nccl.get(cell), most)
        if not mine or not theirs:
            sys.exit("no cell was measured in both halves")
        spans = interval(mine), interval(theirs)
        print(f"{NAME if not budget else '':10}{budget or '-':>7} {geomean(mine):11.3f} {spans[0][0]:8.3f}-{spans[0][1]:.3f} {geomean(theirs):11.3f} {spans[1][0]:8.3f}-{spans[1][1]:.3f}  {len(mine)}")
        suffix = "/budget8" if budget else ""
        comms = len(next(iter(b.values())))
        rows.append({**base, "case": f"{NAME}/geomean{suffix}", "value": round(geomean(mine), 4), "spread": spans[0], "runs": comms,
                     "peers": {"nccl_default": round(geomean(theirs), 4)}})
        for cell in sorted(mine):
            one, other = geomean({0: mine[cell]}), geomean({0: theirs[cell]}) if cell in theirs else None
            rows.append({**base, "case": f"{NAME}/{cell[0]}/{cell[1]}{suffix}", "value": round(one, 4), "runs": len(mine[cell]),
                         "peers": {"nccl_default": round(other, 4)} if other else {}})
            if not budget and (braid.get(cell) != nccl.get(cell) or one > 1.03):
                print(f"    {cell[0]:15}{cell[1]:>11}  NCCL {'/'.join(map(str, nccl[cell])):18} Braid {'/'.join(map(str, braid[cell])):18} "
                      f"best on a {'/'.join(map(str, best_of(a[cell], most))):18} NCCL {other:.3f} Braid {one:.3f}")
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"rows: {ROWS}")


main()
