#!/usr/bin/env python3
"""BRAID_OVERLAP=1 beside what was measured: for each case of the `overlap_channels` rows, the budget it takes against the best one.

usage: overlap_choice.py BUILD_FOLDER [--scan] [ROWS.jsonl ...]
Times are those over NCCL's default of the same run, in the geometric mean over the runs (files), because the same setting under two names
(`budget24` and NCCL's default, `budget20` and `overlap`) differs by up to 3 % within one. Exit code 1 when a choice is more than 2 % slower than
the best budget or than NCCL's default, or all together more than 0.5 % slower than the best single budget.
--scan prints which values of the profile row exposed_ratio take the best budgets when nothing else bounds the choice; the shipped
value was chosen with it. It also says what the GEMMs lost beside each budget, from which the row's meaning comes.
"""
import csv
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASE, TOGETHER = 1.02, 1.005


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def load(paths):
    """{case: {setting: us}} of both together and of the all-reduce alone, {case: us} of the GEMMs alone: the mean over the runs, in which NCCL's
    default is what a run is measured by."""
    runs = []
    for path in paths:
        both, alone, gemms = {}, {}, {}
        for row in map(json.loads, path.read_text().splitlines()):
            found = re.fullmatch(r"gemm_beside_all_reduce/([^/]+/\d+)(?:/(\w+))?", row["case"])
            if not found:
                continue
            if row["metric"] == "A_us":
                gemms[found[1]] = row["value"]
            elif row["metric"] in ("D_us", "B_us"):
                (both if row["metric"] == "D_us" else alone).setdefault(found[1], {})[found[2]] = row["value"]
        if both:
            runs.append((both, alone, gemms))
    if not runs:
        sys.exit("overlap_choice.py: no rows of gemm_beside_all_reduce")

    def mean(which, case, setting):
        return geomean([r[0][case]["nccl"] for r in runs]) * geomean([r[which][case][setting] / r[0][case]["nccl"] for r in runs])

    first = runs[0]
    settings = {case: [s for s in first[0][case] if all(s in r[0][case] for r in runs)] for case in first[0]}
    both, alone = ({case: {s: mean(which, case, s) for s in settings[case]} for case in settings} for which in (0, 1))
    return both, alone, {case: geomean([r[2][case] for r in runs]) for case in settings}


def choice(build, size, *profile):
    out = subprocess.run([f"{build}/bin/braid-tune", "explain", "--profile", *profile, "--ranks", "2", "--nodes", "1", "--coll", "all_reduce",
                          "--bytes", str(size), "--overlap", "--format", "csv"], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return int(next(csv.DictReader(out.stdout.splitlines()))["channels"])


def nearest(settings, channels):
    """The measured budget next to a channel count; 0 is NCCL's own."""
    return f"budget{min((int(s[6:]) for s in settings if s.startswith('budget')), key=lambda b: abs(b - (channels or 64)))}"


def scan(build, both):
    """For each exposed_ratio the time of the choice over the best, a column a case."""
    os.environ["BRAID_OVERLAP_TOLERANCE"] = "1000"
    with tempfile.TemporaryDirectory() as folder:
        profiles = pathlib.Path(build, "share/braid/profiles")
        for f in profiles.iterdir():
            pathlib.Path(folder, f.name).write_text(f.read_text())
        text = pathlib.Path(profiles, "h200x2-nvlink.profile").read_text()
        for step in range(0, 61, 2):
            pathlib.Path(folder, "try.profile").write_text(text + f"exposed_ratio {step / 100} @fit\n")
            line = []
            for case, settings in both.items():
                channels = choice(build, case.split("/")[1], f"{folder}/try.profile")
                line.append(f"{channels:3} {settings[nearest(settings, channels)] / min(settings.values()):.3f}")
            print(f"exposed_ratio {step / 100:.2f}:  " + "   ".join(line))


def main():
    arguments = [a for a in sys.argv[1:] if a != "--scan"]
    build = arguments[0]
    paths = [pathlib.Path(p) for p in arguments[1:]] or sorted((HERE.parent / "gpu/results").glob("overlap_channels-*.jsonl"),
                                                                key=lambda p: (p.name[:27], len(p.name), p.name))
    both, alone, gemms = load(paths)
    if "--scan" in sys.argv:
        scan(build, both)
        for case, settings in both.items():
            print(case + ": GEMMs slower by us per us of all-reduce: " + ", ".join(
                f"{s[6:]} channels {(settings[s] - gemms[case]) / alone[case][s]:.2f}" for s in settings if s.startswith("budget") and int(s[6:]) >= 8))
        return 0
    wrong, taken_us = 0, []
    print(f"{'case':34} {'takes':>6} {'us':>7} {'over best':>10} {'over NCCL':>10}")
    for case, settings in both.items():
        taken = nearest(settings, choice(build, case.split("/")[1], "h200x2-nvlink"))
        us = settings[taken]
        over = us / min(settings.values()), us / settings["nccl"]
        wrong += max(over) > CASE
        taken_us.append(us)
        print(f"{case:34} {taken[6:]:>6} {us:7.0f} {over[0]:10.3f} {over[1]:10.3f}")
    budgets = {s: geomean([settings[s] for settings in both.values()]) for s in next(iter(both.values())) if s.startswith("budget")}
    best = min(budgets, key=budgets.get)
    together = geomean(taken_us) / budgets[best]
    wrong += together > TOGETHER
    print(f"together {together:.3f} of the best single budget, {best[6:]}")
    print("within the bounds" if not wrong else f"FAILED: {wrong} beyond {CASE} a case, or {TOGETHER} together")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
