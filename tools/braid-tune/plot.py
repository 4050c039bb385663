#!/usr/bin/env python3
"""Pictures of a sweep: time and bus bandwidth against size, every candidate with its interval, NCCL's choice, the tuner's and the bound.

usage: braid-tune plot SWEEP [--profile NAME|FILE] [--out PREFIX]
Writes PREFIX-<collective>.png and .svg, and PREFIX.html, one page that stands alone. Needs matplotlib. Started by `braid-tune plot`,
which adds --tool PATH of itself.
"""
import argparse
import base64
import collections
import csv
import html
import math
import pathlib
import statistics
import subprocess
import sys

COLOURS = {"ring": "tab:blue", "tree": "tab:green", "nvls": "tab:red", "nvls_tree": "tab:purple", "pat": "tab:brown",
           "collnet_direct": "tab:olive", "collnet_chain": "tab:cyan"}
STYLES = {"ll": ":", "ll128": "--", "simple": "-"}


def load(path):
    meta, cells = {}, collections.defaultdict(lambda: collections.defaultdict(list))
    lines = path.read_text().splitlines()
    for line in lines:
        if line.startswith("# "):
            key, _, value = line[2:].partition(" ")
            meta[key] = value
    for r in csv.DictReader(l for l in lines if not l.startswith("#")):
        if r["algo"] != "default":
            cells[r["coll"], int(r["bytes"])][r["algo"], r["proto"], int(r["channels"])].append(float(r["us"]))
    return meta, cells


def tool(program, *args):
    done = subprocess.run([program, *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"braid-tune {args[0]}: {done.stderr.strip()}")
    return list(csv.DictReader(done.stdout.splitlines()))


def interval(values):
    """Centre and half of a 95 % interval in relative terms, over communicators."""
    logs = [math.log(v) for v in values]
    centre = math.exp(statistics.fmean(logs))
    if len(logs) < 2:
        return centre, 0.0
    t = [0, 12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26][min(len(logs) - 1, 9)]
    return centre, t * statistics.stdev(logs) / math.sqrt(len(logs))


def bus_factor(coll, ranks):
    return {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "reduce_scatter": (ranks - 1) / ranks}.get(coll, 1)


def draw(plt, coll, meta, cells, decided, bounds):
    ranks = int(meta["ranks"])
    sizes = sorted(s for c, s in cells if c == coll)
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.5))
    series = collections.defaultdict(list)
    for size in sizes:
        best = {}
        for (algo, proto, channels), values in cells[coll, size].items():
            if channels >= best.get((algo, proto), (0,))[0]:
                best[algo, proto] = (channels, values)
        for combo, (channels, values) in best.items():
            series[combo].append((size, *interval(values)))
    for (algo, proto), points in sorted(series.items()):
        x, us, half = zip(*points)
        style = {"color": COLOURS.get(algo, "gray"), "linestyle": STYLES[proto], "marker": ".", "capsize": 2, "linewidth": 1.2}
        left.errorbar(x, us, yerr=[u * (math.exp(h) - 1) for u, h in zip(us, half)], label=f"{algo} {proto}", **style)
        rate = [s * bus_factor(coll, ranks) / u / 1e3 for s, u in zip(x, us)]
        right.errorbar(x, rate, yerr=[r * (math.exp(h) - 1) for r, h in zip(rate, half)], **style)
    marks = (("NCCL's choice", "o", "black", lambda d: (d["nccl_algo"], d["nccl_proto"], int(d["nccl_channels"]))),
             ("the tuner's", "*", "red", lambda d: (d["algo"], d["proto"], int(d["channels"]) or 10**6)))
    for label, marker, colour, config in marks:
        points = []
        for size in sizes:
            if (coll, size) not in decided:
                continue
            want = config(decided[coll, size])
            same = [c for c in cells[coll, size] if c[:2] == want[:2]]
            if same:
                near = min(same, key=lambda c: abs(math.log(c[2] / want[2])))
                points.append((size, interval(cells[coll, size][near])[0]))
        if points:
            hollow = {"marker": marker, "s": 90 if marker == "o" else 60, "facecolors": "none" if marker == "o" else colour, "edgecolors": colour, "zorder": 5}
            left.scatter(*zip(*points), label=label, **hollow)
            right.scatter([p[0] for p in points], [p[0] * bus_factor(coll, ranks) / p[1] / 1e3 for p in points], **hollow)
    line = [(s, bounds[coll, s]) for s in sizes if bounds.get((coll, s), 0) > 0]
    if line:
        left.plot(*zip(*line), color="gray", linewidth=2, alpha=0.5, label="bound")
        right.plot([s for s, _ in line], [s * bus_factor(coll, ranks) / b / 1e3 for s, b in line], color="gray", linewidth=2, alpha=0.5)
    for axis, name in ((left, "us"), (right, "bus bandwidth, GB/s")):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("bytes")
        axis.set_ylabel(name)
        axis.grid(True, which="major", alpha=0.3)
    low = min(interval(v)[0] for s in sizes for v in cells[coll, s].values())
    left.set_ylim(bottom=low * 0.7)
    left.legend(fontsize=8, ncol=2)
    figure.suptitle(f"{coll}: {meta.get('machine', '')}, NCCL {meta.get('nccl', '')}, {meta.get('date', '')}; bars: 95 % over communicators")
    figure.tight_layout()
    return figure


def table(cells, decided):
    rows = ["<tr><th>collective<th>bytes<th>NCCL's choice<th>us<th>best measured<th>us<th>gain<th>the tuner takes</tr>"]
    for (coll, size), d in decided.items():
        pool = cells[coll, size]
        nccl = (d["nccl_algo"], d["nccl_proto"], int(d["nccl_channels"]))
        best = min(pool, key=lambda c: interval(pool[c])[0])
        n, b = interval(pool[nccl]), interval(pool[best])
        taken = "/".join((d["algo"], d["proto"], d["channels"] if d["channels"] != "0" else "own"))
        rows.append(f"<tr><td>{coll}<td>{size}<td>{'/'.join(map(str, nccl))}<td>{n[0]:.1f} &plusmn; {100 * n[1]:.1f} %<td>{'/'.join(map(str, best))}"
                    f"<td>{b[0]:.1f} &plusmn; {100 * b[1]:.1f} %<td>{n[0] / b[0]:.2f}<td>{taken}</tr>")
    return "<table>" + "\n".join(rows) + "</table>"


def main():
    parser = argparse.ArgumentParser(prog="braid-tune plot", description=__doc__.split("\n")[0])
    parser.add_argument("sweep", type=pathlib.Path)
    parser.add_argument("--profile", default="generic")
    parser.add_argument("--out", default=None)
    parser.add_argument("--tool", default="braid-tune", help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("braid-tune plot: needs matplotlib (Debian, Ubuntu: python3-matplotlib; or pip install matplotlib)")
    prefix = args.out or str(args.sweep).removesuffix(".csv").removesuffix(".sweep")
    meta, cells = load(args.sweep)
    if not cells:
        sys.exit(f"braid-tune plot: {args.sweep}: no measurements")
    sizes = ",".join(str(s) for s in sorted({s for _, s in cells}))
    decided = {(r["coll"], int(r["bytes"])): r for r in tool(args.tool, "judge", str(args.sweep), "--profile", args.profile)}
    bounds = {(r["coll"], int(r["bytes"])): float(r["bound_us"]) for r in tool(args.tool, "explain", "--profile", args.profile, "--ranks", meta["ranks"], "--nodes", meta["nodes"],
              "--coll", ",".join(sorted({c for c, _ in cells})), "--bytes", sizes, "--format", "csv")}
    page = [f"<!doctype html><meta charset=utf-8><title>{html.escape(args.sweep.name)}</title>"
            "<style>body{font-family:sans-serif;max-width:75em;margin:2em auto}table{border-collapse:collapse}td,th{padding:.2em .6em;border-bottom:1px solid #ddd;text-align:right}"
            "td:first-child{text-align:left}img{max-width:100%}</style>",
            f"<h1>{html.escape(meta.get('machine', ''))}</h1><p>NCCL {html.escape(meta.get('nccl', ''))}, {meta.get('date', '')}, {meta['ranks']} ranks on {meta['nodes']} nodes, "
            f"profile {html.escape(args.profile)}. Bars and &plusmn;: 95 % over communicators. Circle: NCCL's choice; star: the tuner's; grey: no algorithm can be faster.</p>"]
    for coll in sorted({c for c, _ in cells}):
        figure = draw(plt, coll, meta, cells, decided, bounds)
        for ending in ("png", "svg"):
            figure.savefig(f"{prefix}-{coll}.{ending}", dpi=110)
        picture = base64.b64encode(pathlib.Path(f"{prefix}-{coll}.png").read_bytes()).decode()
        page.append(f'<h2>{coll}</h2><img alt="{coll}" src="data:image/png;base64,{picture}">')
        plt.close(figure)
    page.append("<h2>Every size</h2>" + table(cells, decided))
    pathlib.Path(prefix + ".html").write_text("\n".join(page) + "\n")
    print(f"{prefix}.html, {prefix}-<collective>.png and .svg")


main()
