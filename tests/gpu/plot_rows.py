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
    """Time of both over the longer one alone, against the channel budget; NCCL's default as a line, BRAID_OVERLAP=1 as a star."""
    cases = collections.defaultdict(dict)
    for row in rows:
        found = re.fullmatch(r"gemm_beside_all_reduce/([^/]+/\d+)/(\w+)", row["case"])
        if found and row["metric"] == "D_us":
            cases[found[1]][found[2]] = row
    if not cases:
        return
    figure, axes = plt.subplots(1, len(cases), figsize=(4.2 * len(cases), 4.2), squeeze=False, sharey=True)
    for axis, (label, d) in zip(axes[0], cases.items()):
        limit = d["nccl"]["limit"]
        budgets = sorted(int(k.removeprefix("budget")) for k in d if k.startswith("budget"))
        y = [d[f"budget{x}"]["value"] / limit for x in budgets]
        bars = [[abs(d[f"budget{x}"]["spread"][i] - d[f"budget{x}"]["value"]) / limit for x in budgets] for i in (0, 1)]
        axis.errorbar(budgets, y, yerr=bars, marker="o", capsize=2, linewidth=1.2, label="with so many channels (bars: spread)")
        nccl = d["nccl"]
        axis.axhspan(nccl["spread"][0] / limit, nccl["spread"][1] / limit, color="C3", alpha=0.12, linewidth=0)
        axis.axhline(nccl["value"] / limit, color="C3", linestyle="--", label="NCCL's default (band: spread)")
        taken = re.search(r"/(\d+)$", d["overlap"].get("note", "")) if "overlap" in d else None
        if taken:
            axis.plot([int(taken[1])], [d["overlap"]["value"] / limit], "*", color="red", markersize=13, zorder=5, label="BRAID_OVERLAP=1")
        gemm, _, size = label.partition("/")
        m, n, k, count = gemm.split("x")
        axis.set_title(f"{count} GEMMs {m} x {n} x {k},\nall-reduce {size_text(int(size))}", fontsize=9)
        axis.set_xlabel("channels")
        axis.set_xticks([b for b in budgets if b == 1 or b % 4 == 0])
        axis.set_ylim(0.98, 1.5)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.grid(True, alpha=0.3)
    axes[0][0].set_ylabel("time of both over the longer one alone")
    axes[0][0].legend(fontsize=7)
    figure.suptitle(f"GEMMs beside an all-reduce: {rows[0]['machine']}, {rows[0]['date']}", fontsize=10)
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
        plt.rcParams["svg.fonttype"] = "none"
    except ImportError:
        sys.exit("plot_rows.py: needs matplotlib")
    rows = [json.loads(line) for path in args.rows for line in path.read_text().splitlines() if line]
    for bench, draw in (("tuner_regret", regret), ("overlap_channels", budget)):
        mine = [row for row in rows if row["bench"] == bench]
        if mine:
            draw(plt, mine, args.out)


main()
