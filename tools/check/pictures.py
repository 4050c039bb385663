"""The pictures that READMEs show of committed rows, as {path: SVG text}; `results` checks and writes them with its tables."""
import functools

import svg

RED, GREY, GREEN, BLUE, VIOLET, LIGHT, AMBER = "#c2410c", "#475569", "#0f766e", "#2563eb", "#7c3aed", "#a3a3a3", "#d97706"


def measured(rows):
    used = sorted({f"{row['machine']}, {row['date']}, commit {row['commit'][:7]}" for row in rows})
    return "Measured on " + "; ".join(used) + "."


def pick(rows, bench, metric):
    """{case split at '/': row}"""
    return {tuple(case.split("/")): row for (b, case, m), row in rows.items() if b == bench and m == metric}


def collectives(rows):
    times, used = pick(rows, "collectives", "time_us"), []
    styles = {"Braid": (RED, False), "NCCL": (GREY, False), "torch one-shot": (GREEN, False), "torch two-shot": (BLUE, False),
              "copy engine alone": (LIGHT, True)}
    ticks = [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000]
    panels = []
    for key, title in (("all_reduce", "All-reduce, bf16, us by bytes"), ("all_gather", "All-gather, us by total bytes"),
                       ("reduce_scatter", "Reduce-scatter, bf16, us by total bytes"), ("all_to_all", "All-to-all, us by total bytes")):
        series = {}
        for case, row in times.items():
            if case[0] != key or len(case) != 3:
                continue
            used.append(row)
            values = {"Braid": row["value"], "NCCL": row["peers"].get("nccl"), "torch one-shot": row["peers"].get("torch_one_shot"),
                      "torch two-shot": row["peers"].get("torch_two_shot"), "copy engine alone": row.get("limit")}
            for name, value in values.items():
                if value:
                    series.setdefault(name, []).append((int(case[2]), value))
        if series:
            panels.append(functools.partial(svg.lines, title, series, styles, svg.size_text, ticks, True))
    names = {"copy_push": "stores", "copy_pull": "loads", "copy_tma_push": "TMA stores", "copy_tma_pull": "TMA loads"}
    styles = {"stores": (RED, False), "loads": (BLUE, False), "TMA stores": (GREEN, False), "TMA loads": (VIOLET, False),
              "copy engine alone": (LIGHT, True)}
    series = {}
    for case, row in pick(rows, "collectives", "bw_GBps").items():
        if case[0] in names and len(case) == 4 and int(case[2]) == 64 << 20:
            used.append(row)
            sms = int(case[3].removeprefix("sms"))
            series.setdefault(names[case[0]], []).append((sms, row["value"]))
            series.setdefault("copy engine alone", []).append((sms, row["limit"]))
    if series:
        panels.append(functools.partial(svg.lines, "Copies of 64 MiB both ways, GB/s each way by SMs", series, styles, str,
                                        range(0, 401, 50), False))
    return svg.page(panels, measured(used))


def sockets(rows):
    """Real NCCL over sockets, then the plugin's interface between two processes."""
    bandwidth, times = pick(rows, "nccl_over_sockets", "busbw_GBps"), pick(rows, "nccl_over_sockets", "time_us")
    used, panels = list(bandwidth.values()), []
    styles = {"Braid": (RED, False), "NCCL, best of six": (BLUE, False), "NCCL, default": (GREY, False), "plain TCP, both ways": (LIGHT, True)}
    for key, title in (("all_reduce", "All-reduce"), ("all_gather", "All-gather"), ("reduce_scatter", "Reduce-scatter"),
                       ("all_to_all", "All-to-all")):
        groups = []
        for case in sorted((c for c in bandwidth if c[0] == key), key=lambda c: int(c[1])):
            row = bandwidth[case]
            values = {"Braid": row["value"], "NCCL, best of six": row["peers"].get("nccl_best"),
                      "NCCL, default": row["peers"].get("nccl_default"), "plain TCP, both ways": row.get("limit")}
            groups.append((svg.size_text(int(case[1])), {n: v for n, v in values.items() if v}))
        if groups:
            panels.append(functools.partial(svg.bars, f"{title} of NCCL, two H200 as two nodes, GB/s", groups, styles, range(0, 101, 5)))
    small = {}
    for case, row in times.items():
        used.append(row)
        for name, value in (("Braid", row["value"]), ("NCCL, best of six", row["peers"].get("nccl_best")),
                            ("NCCL, default", row["peers"].get("nccl_default"))):
            if value:
                small.setdefault(name, []).append((int(case[1]), value))
    if small:
        panels.append(functools.partial(svg.lines, "Small all-reduces of NCCL, us by bytes", small, styles, svg.size_text,
                                        [10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500], True))
    styles = {"Braid": (RED, False), "NCCL's sockets": (GREY, False), "FastSocket": (AMBER, False), "plain TCP": (LIGHT, True)}
    series = {}
    for case, row in pick(rows, "netperf", "lat_us").items():
        if case[:2] != ("socket", "latency") or case[3] != "1":
            continue
        used.append(row)
        for name, value in (("Braid", row["value"]), ("NCCL's sockets", row["peers"].get("socket")),
                            ("FastSocket", row["peers"].get("fastsocket")), ("plain TCP", row.get("limit"))):
            if value:
                series.setdefault(name, []).append((int(case[2]), value))
    if series:
        panels.append(functools.partial(svg.lines, "One way through the plugin's interface, us by bytes", series, styles, svg.size_text,
                                        [2, 3, 5, 10, 20, 30, 50], True))
    return svg.page(panels, measured(used))


def pictures(rows):
    return {"device/collectives.svg": collectives(rows), "net-plugin/sockets.svg": sockets(rows)}
