#!/usr/bin/env python3
"""Draws rows of the bench `overlap` (braid-overlap --json, tests/gpu/torch/overlap.py): times A, B, C, D and the efficiency.

Usage: plot.py ROWS.jsonl [...] --out NAME      writes NAME.svg and NAME.png (needs matplotlib)
"""
import argparse
import json

KINDS = (("A_us", "A product alone", "#4477aa"), ("B_us", "B communication alone", "#ccbb44"), ("C_us", "C serial, NCCL", "#bbbbbb"),
         ("D_us", "D overlapped", "#228833"))
PEERS = (("control", "cuBLAS + copy engine", "o"), ("torch_async_tp", "PyTorch async TP", "s"), ("serial", "NCCL serial", "x"))


def load(paths):
    """{case: {metric: row}} of the default settings; later rows win."""
    cases = {}
    for path in paths:
        for line in open(path):
            row = json.loads(line)
            if row.get("bench") == "overlap" and row["case"].endswith("/default"):
                cases.setdefault(row["case"].removesuffix("/default"), {})[row["metric"]] = row
    return {case: rows for case, rows in cases.items() if "efficiency_ratio" in rows}


def label(case):
    """Operator, M, N and K, a line each."""
    operator, dims = case.split("/")[:2]
    return "\n".join([operator.replace("_", "+").upper(), *dims.split("x")])


def target(rows):
    """What the efficiency is held to: the row's own limit, else by the class that device/ops/README.md names; None without one."""
    a, b = (rows[metric]["value"] if metric in rows else 0 for metric in ("A_us", "B_us"))
    if rows["efficiency_ratio"].get("limit"):
        return rows["efficiency_ratio"]["limit"]
    return 0.85 if b > a > 0 else 0.97 if a > 600 else 0.93 if a >= 300 else None


def draw(cases, out):
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "braid", "svg.fonttype": "none"})  # the same rows give the same file, and a small one
    import matplotlib.pyplot as plt

    names = list(cases)
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(max(8, 0.9 * len(names)), 8), sharex=True)
    for i, (metric, text, colour) in enumerate(KINDS):
        at = [n + (i - 1.5) * 0.2 for n in range(len(names))]
        top.bar(at, [cases[c][metric]["value"] if metric in cases[c] else 0 for c in names], 0.19, color=colour, label=text)
    top.set_yscale("log")
    top.set_ylabel("microseconds, slower rank, median")
    top.legend(ncol=4, fontsize=8)
    rows = [cases[c]["efficiency_ratio"] for c in names]
    spread = [[r["value"] - r.get("spread", [r["value"]])[0] for r in rows], [r.get("spread", [r["value"]])[-1] - r["value"] for r in rows]]
    bottom.errorbar(range(len(names)), [r["value"] for r in rows], [[max(0, x) for x in s] for s in spread], fmt="D", color="#228833",
                    label="Braid, default choice")
    void = [(n, r["value"]) for n, r in enumerate(rows) if r.get("note", "").endswith("void")]
    if void:
        bottom.plot(*zip(*void), "D", color="white", markeredgecolor="#228833", label="void: the serial check failed", zorder=3)
    for peer, text, marker in PEERS:
        have = [(n, r["peers"][peer]) for n, r in enumerate(rows) if peer in r.get("peers", {})]
        if have:
            bottom.plot(*zip(*have), marker, label=text, alpha=0.8)
    limits = [(n, target(cases[c])) for n, c in enumerate(names) if target(cases[c])]
    if limits:
        bottom.plot(*zip(*limits), "_", color="red", markersize=16, markeredgewidth=2, label="target")
    bottom.set_ylabel("max(A, fastest B) / D")
    bottom.set_ylim(0.3, 1.05)
    bottom.grid(axis="y", alpha=0.3)
    bottom.axhline(1, color="black", linewidth=0.5)
    bottom.set_xticks(range(len(names)), [label(c) for c in names], fontsize=8)
    bottom.set_xlim(-0.6, len(names) - 0.4)
    bottom.set_xlabel("operator, M, N and K of the product")
    bottom.legend(ncol=4, fontsize=8, loc="lower left")
    origin = {f"{r['machine']}, {r['date']}" for r in rows}
    figure.suptitle("Overlap of products and communication, default choice; " + "; ".join(sorted(origin)))
    figure.tight_layout()
    figure.savefig(out + ".svg", metadata={"Date": None})
    figure.savefig(out + ".png", dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="+")
    parser.add_argument("--out", default="overlap")
    options = parser.parse_args()
    cases = load(options.rows)
    if not cases:
        raise SystemExit("no rows of the bench `overlap` with an efficiency in these files")
    draw(cases, options.out)
    print(f"{len(cases)} shapes: {options.out}.svg {options.out}.png")


if __name__ == "__main__":
    main()
