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
    """meta, {(coll, bytes): {(algo, proto, channels): [us]}} within the channels that NCCL has, {(coll, bytes): [us]} of an unnamed default."""
    meta, cells, default = {}, collections.defaultdict(lambda: collections.defaultdict(list)), collections.defaultdict(list)
    lines = path.read_text().splitlines()
    for line in lines:
        if line.startswith("# "):
            key, _, value = line[2:].partition(" ")
            meta[key] = value
    own, ll128 = int(meta.get("channels", 0)) or 10**6, meta.get("ll128") != "0"
    for r in csv.DictReader(l for l in lines if not l.startswith("#")):
        cell, channels = (r["coll"], int(r["bytes"])), int(r["channels"])
        if r["algo"] == "default":
            default[cell].append(float(r["us"]))
        elif channels <= own and (r["proto"] != "ll128" or ll128):
            cells[cell][r["algo"], r["proto"], channels or own].append(float(r["us"]))
    return meta, cells, default


def tool(program, *args):
    done = subprocess.run([program, *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"braid-tune {args[0]}: {done.stderr.strip()}")
    return list(csv.DictReader(done.stdout.splitlines()))


def interval(values):
    """Centre and half of a 95 % interval in relative terms, over communicators; 0 for fewer than three, where it would say nothing."""
    logs = [math.log(v) for v in values]
    centre = math.exp(statistics.fmean(logs))
    if len(logs) < 3:
        return centre, 0.0
    t = [0, 0, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26][min(len(logs) - 1, 9)]
    return centre, t * statistics.stdev(logs) / math.sqrt(len(logs))


def bus_factor(coll, ranks):
    return {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "reduce_scatter": (ranks - 1) / ranks}.get(coll, 1)


def size_text(size, _=None):
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size / unit:g}{letter}"
    return f"{size:g}"


def nearest(pool, algo, proto, channels):
    """What was measured of that choice, or None."""
    same = [c for c in pool if c[:2] == (algo, proto)]
    return interval(pool[min(same, key=lambda c: abs(math.log(c[2] / channels)))]) if same else None


def choices(coll, sizes, cells, default, decided):
    """Points (size, us, half) of NCCL's choice and of the tuner's."""
    nccl, tuner = [], []
    for size in sizes:
        d, pool, theirs, mine = decided.get((coll, size)), cells[coll, size], None, None
        if d:
            theirs = nearest(pool, d["nccl_algo"], d["nccl_proto"], int(d["nccl_channels"]) or 10**6)
            mine = nearest(pool, d["algo"], d["proto"], int(d["channels"]) or 10**6)
        if default.get((coll, size)):
            theirs = interval(default[coll, size])
        nccl += [(size, *theirs)] if theirs else []
        tuner += [(size, *mine)] if mine else []
    return nccl, tuner


def draw_candidates(axis, scale, cells, coll, sizes, labels=False):
    """Each algorithm and protocol with all its channels as a line with bars, with fewer as dots."""
    lines, dots = collections.defaultdict(list), collections.defaultdict(list)
    for size in sizes:
        for algo, proto in {c[:2] for c in cells[coll, size]}:
            counts = sorted(c[2] for c in cells[coll, size] if c[:2] == (algo, proto))
            for count in counts:
                us, half = interval(cells[coll, size][algo, proto, count])
                y = scale(size, us)
                if y:
                    (lines if count == counts[-1] else dots)[algo, proto].append((size, y, y * (math.exp(half) - 1)))
    for (algo, proto), points in sorted(lines.items()):
        x, y, bars = zip(*points)
        axis.errorbar(x, y, yerr=bars, color=COLOURS.get(algo, "gray"), linestyle=STYLES[proto], marker=".", capsize=2, linewidth=1.2,
                      label=f"{algo} {proto}" if labels else None)
    first = True
    for (algo, proto), points in sorted(dots.items()):
        axis.scatter([p[0] for p in points], [p[1] for p in points], s=12, color=COLOURS.get(algo, "gray"), alpha=0.35, linewidths=0,
                     label="with fewer channels" if labels and first else None)
        first = False


def draw(plt, coll, meta, cells, default, decided, bounds):
    from matplotlib.ticker import FuncFormatter, NullFormatter
    factor = bus_factor(coll, int(meta["ranks"]))
    sizes = sorted({s for c, s in cells if c == coll} | {s for c, s in default if c == coll})
    nccl, tuner = choices(coll, sizes, cells, default, decided)
    base = {size: us for size, us, _ in nccl}
    panels = (("us", lambda size, us: us), ("bus bandwidth, GB/s", lambda size, us: size * factor / us / 1e3),
              ("times NCCL's choice", lambda size, us: us / base[size] if size in base else None))
    figure, axes = plt.subplots(1, 3, figsize=(18, 5.6))
    for axis, (name, scale) in zip(axes, panels):
        first = axis is axes[0]
        draw_candidates(axis, scale, cells, coll, sizes, labels=first)
        for label, points, look in (("NCCL's choice", nccl, {"marker": "o", "s": 95, "facecolors": "none", "edgecolors": "black"}),
                                    ("the tuner's", tuner, {"marker": "*", "s": 70, "facecolors": "red", "edgecolors": "red"})):
            points = [(size, scale(size, us)) for size, us, _ in points if scale(size, us)]
            if points:
                axis.scatter(*zip(*points), label=label if first else None, zorder=5, **look)
        line = [(s, bounds[coll, s]) for s in sizes if bounds.get((coll, s), 0) >= 0.05]
        if line and axis is not axes[2]:
            axis.plot([s for s, _ in line], [scale(s, b) for s, b in line], color="gray", linewidth=2, alpha=0.5, label="bound" if first else None)
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes[:: 1 + len(sizes) // 12])
        axis.xaxis.set_major_formatter(FuncFormatter(size_text))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_yscale("log")
        axis.set_xlabel("bytes")
        axis.set_ylabel(name)
        axis.grid(True, which="major", alpha=0.3)
    axes[0].set_ylim(bottom=0.7 * min(interval(v)[0] for s in sizes for v in cells[coll, s].values()))
    axes[0].legend(fontsize=8, ncol=2)
    axes[2].axhline(1, color="black", linewidth=0.8)
    axes[2].set_ylim(0.45, 3)
    axes[2].set_yticks([0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 3])
    axes[2].yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes[2].yaxis.set_minor_formatter(NullFormatter())
    many = max((len(v) for s in sizes for v in cells[coll, s].values()), default=1) > 2
    figure.suptitle(f"{coll}: {meta.get('machine', '')}\nNCCL {meta.get('nccl', '')}, {meta.get('date', '')}; "
                    + ("bars: 95 % over communicators" if many else "too few communicators for intervals"), fontsize=11)
    figure.tight_layout()
    return figure


def table(cells, decided):
    rows = ["<tr><th>collective<th>bytes<th>NCCL's choice<th>us<th>best measured<th>us<th>gain<th>the tuner takes<th>us</tr>"]

    def time(found):
        return f"{found[0]:.1f}" + (f" &plusmn; {100 * found[1]:.1f} %" if found[1] else "")
    for (coll, size), d in decided.items():
        pool = cells[coll, size]
        best = min(pool, key=lambda c: interval(pool[c])[0])
        theirs = nearest(pool, d["nccl_algo"], d["nccl_proto"], int(d["nccl_channels"]) or 10**6)
        mine = nearest(pool, d["algo"], d["proto"], int(d["channels"]) or 10**6)
        choice = "/".join((d["nccl_algo"], d["nccl_proto"], d["nccl_channels"] if d["nccl_channels"] != "0" else "own"))
        taken = "/".join((d["algo"], d["proto"], d["channels"] if d["channels"] != "0" else "own"))
        rows.append(f"<tr><td>{coll}<td>{size_text(size)}<td>{choice}<td>{time(theirs) if theirs else '-'}<td>{'/'.join(map(str, best))}<td>{time(interval(pool[best]))}"
                    f"<td>{theirs[0] / interval(pool[best])[0]:.2f}<td>{taken}<td>{time(mine) if mine else '-'}</tr>" if theirs else "")
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
    meta, cells, default = load(args.sweep)
    if not cells:
        sys.exit(f"braid-tune plot: {args.sweep}: no measurements")
    sizes = ",".join(str(s) for s in sorted({s for _, s in cells}))
    explained = {(r["coll"], int(r["bytes"])): r for r in tool(args.tool, "explain", "--profile", args.profile, "--ranks", meta["ranks"], "--nodes", meta["nodes"],
                 "--coll", ",".join(sorted({c for c, _ in cells})), "--bytes", sizes, "--format", "csv")}
    bounds = {cell: float(r["bound_us"]) for cell, r in explained.items()}
    # A sweep that names what NCCL chose is judged by that; otherwise NCCL's model says it.
    judged = {(r["coll"], int(r["bytes"])): r for r in tool(args.tool, "judge", str(args.sweep), "--profile", args.profile)}
    decided = {cell: d for cell, d in {**explained, **judged}.items() if cell in cells}
    page = [f"<!doctype html><meta charset=utf-8><title>{html.escape(args.sweep.name)}</title>"
            "<style>body{font-family:sans-serif;max-width:75em;margin:2em auto}table{border-collapse:collapse}td,th{padding:.2em .6em;border-bottom:1px solid #ddd;text-align:right}"
            "td:first-child{text-align:left}img{max-width:100%}</style>",
            f"<h1>{html.escape(meta.get('machine', ''))}</h1><p>NCCL {html.escape(meta.get('nccl', ''))}, {meta.get('date', '')}, {meta['ranks']} ranks on {meta['nodes']} node{'s' if meta['nodes'] != '1' else ''}, "
            f"profile {html.escape(args.profile)}. {html.escape(meta.get('note', ''))}. Bars and &plusmn;: 95 % over communicators. Lines: all channels that NCCL takes; dots: fewer. Circle: NCCL's choice; star: the tuner's; grey: no algorithm can be faster.</p>"]
    for coll in sorted({c for c, _ in cells}):
        figure = draw(plt, coll, meta, cells, default, decided, bounds)
        for ending in ("png", "svg"):
            figure.savefig(f"{prefix}-{coll}.{ending}", dpi=110)
        picture = base64.b64encode(pathlib.Path(f"{prefix}-{coll}.png").read_bytes()).decode()
        page.append(f'<h2>{coll}</h2><img alt="{coll}" src="data:image/png;base64,{picture}">')
        plt.close(figure)
    if decided:
        page.append("<h2>Every size</h2>" + table(cells, decided))
    pathlib.Path(prefix + ".html").write_text("\n".join(page) + "\n")
    print(f"{prefix}.html, {prefix}-<collective>.png and .svg")


main()
