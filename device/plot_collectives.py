#!/usr/bin/env python3
"""device/collectives.svg from the committed rows of bench `collectives`: time by size for each operation, and copies by SM count.

Usage: device/plot_collectives.py [--check]   writes the picture, or fails when it is not what the rows give."""
import glob
import json
import math
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
WIDTH, HEIGHT, LEFT, TOP = 470, 330, 58, 34
COLOURS = {"Braid": "#c2410c", "NCCL": "#475569", "torch one-shot": "#0f766e", "torch two-shot": "#2563eb", "copy engine alone": "#a3a3a3",
           "stores": "#c2410c", "loads": "#2563eb", "TMA stores": "#0f766e", "TMA loads": "#7c3aed"}


def load():
    """The newest row of each case."""
    rows = {}
    def age(path):
        return [int(n) for n in re.findall(r"\d+", pathlib.Path(path).stem)]  # year, month, day, number of the run
    for path in sorted(glob.glob(str(HERE.parent / "tests/gpu/results/collectives-*.jsonl")), key=age):
        for line in open(path):
            row = json.loads(line)
            if row["bench"] == "collectives" and (row["case"] not in rows or row["date"] >= rows[row["case"]]["date"]):
                rows[row["case"]] = row
    return rows


def by_size(rows, operation):
    """Series of one operation: {name: [(bytes, us)]}, from the rows of Braid's own choice."""
    series = {}
    for case, row in rows.items():
        parts = case.split("/")
        if parts[0] != operation or len(parts) != 3 or row["metric"] != "time_us":
            continue
        values = {"Braid": row["value"], "NCCL": row["peers"].get("nccl"), "torch one-shot": row["peers"].get("torch_one_shot"),
                  "torch two-shot": row["peers"].get("torch_two_shot"), "copy engine alone": row.get("limit")}
        for name, value in values.items():
            if value:
                series.setdefault(name, []).append((int(parts[2]), value))
    return series


def by_sms(rows, size):
    series, names = {}, {"copy_push": "stores", "copy_pull": "loads", "copy_tma_push": "TMA stores", "copy_tma_pull": "TMA loads"}
    for case, row in rows.items():
        parts = case.split("/")
        if parts[0] in names and len(parts) == 4 and int(parts[2]) == size:
            sms = int(parts[3].removeprefix("sms"))
            series.setdefault(names[parts[0]], []).append((sms, row["value"]))
            series.setdefault("copy engine alone", []).append((sms, row["limit"]))
    return series


def bytes_text(n):
    return f"{n >> 20} MiB" if n >= 1 << 20 else f"{n >> 10} KiB"


def panel(title, series, x_text, y_ticks, log_y, at):
    """One panel as SVG lines."""
    xs = sorted({x for points in series.values() for x, _ in points})
    top = max(y for points in series.values() for _, y in points)
    low = min(y for points in series.values() for _, y in points)
    y_low, y_high = (math.log(low / 1.3), math.log(top * 1.15)) if log_y else (0.0, top * 1.08)
    w, h = WIDTH - LEFT - 30, HEIGHT - TOP - 78

    def px(x):
        return LEFT + w * (math.log2(x / xs[0]) / max(math.log2(xs[-1] / xs[0]), 1))

    def py(y):
        return TOP + h * (1 - ((math.log(y) if log_y else y) - y_low) / (y_high - y_low))

    out = [f'<g transform="translate({at[0]},{at[1]})">', f'<text x="{LEFT}" y="20" font-weight="bold">{title}</text>']
    for tick in y_ticks:
        value = math.log(tick) if log_y else tick
        if y_low <= value <= y_high:
            out.append(f'<line x1="{LEFT}" x2="{LEFT + w}" y1="{py(tick):.1f}" y2="{py(tick):.1f}" stroke="#e5e5e5"/>')
            out.append(f'<text x="{LEFT - 6}" y="{py(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for i, x in enumerate(xs):
        if len(xs) <= 8 or i % 2 == 0:
            out.append(f'<text x="{px(x):.1f}" y="{TOP + h + 16}" text-anchor="middle">{x_text(x)}</text>')
    for i, (name, points) in enumerate(sorted(series.items(), key=lambda item: list(COLOURS).index(item[0]))):
        points = sorted(set(points))
        colour, dash = COLOURS[name], ' stroke-dasharray="5 4"' if name == "copy engine alone" else ""
        line = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{2.4 if name == "Braid" else 1.6}"{dash}/>')
        if not dash:
            out += [f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="2.6" fill="{colour}"/>' for x, y in points]
        lx, ly = LEFT + (i % 3) * 137, TOP + h + 40 + (i // 3) * 18
        out.append(f'<line x1="{lx}" x2="{lx + 18}" y1="{ly - 4}" y2="{ly - 4}" stroke="{colour}" stroke-width="2.4"{dash}/>')
        out.append(f'<text x="{lx + 23}" y="{ly}">{name}</text>')
    out.append("</g>")
    return out


def picture(rows):
    ticks = [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300]
    panels = [(f"{name}, us by {what}", by_size(rows, key), bytes_text, ticks, True)
              for key, name, what in (("all_reduce", "All-reduce, bf16", "bytes"), ("all_gather", "All-gather", "total bytes"),
                                      ("reduce_scatter", "Reduce-scatter, bf16", "total bytes"), ("all_to_all", "All-to-all", "total bytes"))]
    panels.append(("Copies of 64 MiB both ways, GB/s each way by SMs", by_sms(rows, 64 << 20), str, range(0, 401, 50), False))
    panels = [p for p in panels if p[1]]
    rows_of_panels = (len(panels) + 1) // 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{rows_of_panels * HEIGHT}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, (title, series, x_text, y_ticks, log_y) in enumerate(panels):
        out += panel(title, series, x_text, y_ticks, log_y, ((i % 2) * WIDTH, (i // 2) * HEIGHT))
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    target = HERE / "collectives.svg"
    text = picture(load())
    if "--check" in sys.argv[1:]:
        if not target.exists() or target.read_text() != text:
            print("device/collectives.svg is not what the rows give; run device/plot_collectives.py")
            return 1
        return 0
    target.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
