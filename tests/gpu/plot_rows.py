#!/usr/bin/env python3
"""Pictures of the tuner's rows: regret by collective and size, and GEMMs beside an all-reduce by channel budget.

usage: plot_rows.py [--out FOLDER] ROWS.jsonl ...      (needs matplotlib; runs on any machine)
Writes regret-<sweep>.{png,svg} for `tuner_regret` rows and budget.{png,svg} for `overlap_channels` rows of gemm_beside_all_reduce.
"""
import argparse
import collections
import json
import pathlib
import re
import sys


def size_text(size):
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size / unit:g}{letter}"
    return f"{size:g}"


def save(plt, figure, path):
    figure.tight_layout()
    for ending in ("png", "svg"):
        figure.savefig(f"{path}.{ending}", dpi=110)
    plt.close(figure)
    print(f"{path}.png and .svg")


def regret(plt, rows, out):
    """Time over the best forced candidate, NCCL's and the tuner's, one panel a collective; whole and within 8 channels."""
    sweeps, titles = collections.defaultdict(lambda: collections.defaultdict(list)), {}
    for row in rows:
        found = re.fullmatch(r"([^/]+)/(\w+)/(\d+)(/budget8)?", row["case"])
        if found:
            name, coll, size, budget = found.groups()
            label = name + ("-budget8" if budget else "")
            titles[label] = f"{label}: {row['machine']}, {row['date']}"
            sweeps[label][coll].append((int(size), row["value"], row.get("peers", {}).get("nccl_default")))
    for name, colls in sweeps.items():
        figure, axes = plt.subplots(1, len(colls), figsize=(4.8 * len(colls), 3.8), squeeze=False, sharey=True)
        for axis, (coll, points) in zip(axes[0], sorted(colls.items())):
            points.sort()
            x = range(len(points))
            axis.bar([i - 0.2 for i in x], [(p[2] or 1) - 1 for p in points], 0.4, bottom=1, color="lightgray", edgecolor="gray", label="NCCL's choice")
            axis.bar([i + 0.2 for i in x], [p[1] - 1 for p in points], 0.4, bottom=1, color="tab:red", label="the tuner's")
            axis.axhline(1, color="black", linewidth=0.8)
            axis.set_xticks(list(x), [size_text(p[0]) for p in points])
            axis.set_title(coll, fontsize=10)
            axis.set_xlabel("bytes")
            axis.grid(True, axis="y", alpha=0.3)
        axes[0][0].set_ylabel("time over the best measured")
        axes[0][0].legend(fontsize=8)
        figure.suptitle(titles[name], fontsize=10)
        save(plt, figure, out / f"regret-{name}")


def budget(plt, rows, out):
    """D and B against the channel budget; lines for NCCL's default, BRAID_OVERLAP=1 and the GEMMs alone."""
    cases = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        found = re.fullmatch(r"gemm_beside_all_reduce/([^/]+/\d+)(?:/(\w+))?", row["case"])
        if found:
            cases[found[1]][row["metric"]][found[2]] = row["value"]
    if not cases:
        return
    figure, axes = plt.subplots(1, len(cases), figsize=(4.6 * len(cases), 4.2), squeeze=False)
    for axis, (label, metrics) in zip(axes[0], cases.items()):
        d, b, a = metrics["D_us"], metrics["B_us"], metrics["A_us"][None]
        budgets = sorted(int(k.removeprefix("budget")) for k in d if k.startswith("budget"))
        axis.plot(budgets, [d[f"budget{x}"] for x in budgets], "o-", label="both, by budget")
        axis.plot(budgets, [b[f"budget{x}"] for x in budgets], "s--", label="all-reduce alone")
        axis.axhline(d["nccl"], color="C3", label="both, NCCL's default")
        axis.axhline(d["overlap"], color="C2", label="both, BRAID_OVERLAP=1")
        axis.axhline(a, color="gray", linestyle=":", label="GEMMs alone")
        gemm, _, size = label.partition("/")
        m, n, k, count = gemm.split("x")
        axis.set_title(f"{count} GEMMs {m} x {n} x {k}, all-reduce {size_text(int(size))}", fontsize=9)
        axis.set_xlabel("channels")
        axis.set_ylabel("us")
        axis.set_ylim(0, 1.6 * max(d["nccl"], a))
        axis.grid(True, alpha=0.3)
    axes[0][0].legend(fontsize=7)
    figure.suptitle(f"{rows[0]['machine']}, {rows[0]['date']}", fontsize=10)
    save(plt, figure, out / "budget")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("rows", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("plot_rows.py: needs matplotlib")
    rows = [json.loads(line) for path in args.rows for line in path.read_text().splitlines() if line]
    for bench, draw in (("tuner_regret", regret), ("overlap_channels", budget)):
        mine = [row for row in rows if row["bench"] == bench]
        if mine:
            draw(plt, mine, args.out)


main()
