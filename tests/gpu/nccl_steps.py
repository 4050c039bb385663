#!/usr/bin/env python3
"""Where the time of NCCL's transfers goes: reads what nccl_steps left of both ranks, matches sends with receives, compares transports.
Usage: nccl_steps.py FOLDER TRANSPORT ... (files steps-TRANSPORT-RANK.records and .threads.jsonl); rows go to FOLDER/nccl_steps.jsonl

A message is in flight from the moment at which the GPU has written it and NCCL calls isend until NCCL's test on the other rank says that it
is there. `in flight` is the time of an operation in which at least one message is, `gpu` that within the operation in which none is (the
GPUs compute and copy, or the proxy has not looked yet), `between` that from the last delivery of an operation to the first message of
the next one. The three add up to the whole. The ranks are processes of one host, so their clock is one. NCCL's proxy notes that a
receive is flushed one pass over all its operations after it noted that it is there, so that interval tells how long a pass is.
"""
import collections
import datetime
import json
import os
import pathlib
import statistics
import struct
import sys

RECORD = struct.Struct("<BBHHHII5Q")
COLL, OP, STEP, KERNEL = 1, 2, 3, 4
Step = collections.namedtuple("Step", "op number bytes start posted ready handed done way")


class Rank:
    """The records of one rank: steps by section, direction and channel in the order in which they go over the wire."""

    def __init__(self, path):
        data = path.read_bytes()
        if data[:8] != b"NSTEPS1\n":
            raise ValueError(f"{path}: no file of nccl_steps")
        size = int.from_bytes(data[8:16], "little")
        self.head = json.loads(data[16:16 + size])
        self.sections = {s["label"]: i for i, s in enumerate(self.head["sections"]) if s and s["label"] != "warm"}
        records = list(RECORD.iter_unpack(data[16 + size:]))
        self.steps = collections.defaultdict(list)
        self.kernels = collections.defaultdict(list)
        self.cases = collections.defaultdict(collections.Counter)
        self.first_posts = collections.defaultdict(list)
        self.unfinished = collections.Counter()
        for kind, is_send, section, channel, number, parent, size, *at in records:
            if kind == STEP:
                if min(at) == 0:
                    self.unfinished[section] += 1
                    continue
                self.steps[section, is_send, channel].append(Step(parent, number, size, *at, (self.head["rank"], channel)))
                if number == 0:
                    self.first_posts[section, is_send].append(at[1] - records[parent][7])
            elif kind == KERNEL and at[2] and at[3]:
                self.kernels[section].append((at[2], at[3], channel))
            elif kind == COLL:
                self.cases[section][self.head["cases"][parent] if parent < len(self.head["cases"]) else "?"] += 1
        for steps in self.steps.values():
            steps.sort(key=lambda s: (s.op, s.number))


def union(intervals):
    """The total length of what the intervals cover."""
    total, end = 0, 0
    for low, high in sorted(intervals):
        if high > end:
            total += high - max(low, end)
            end = high
    return total


def match(ranks, label, operations):
    """Pairs (send, receive, iteration) over both directions, and how many steps had no fitting partner."""
    pairs, lost = [], 0
    for me, peer in ((0, 1), (1, 0)):
        section, other = ranks[me].sections[label], ranks[peer].sections[label]
        for (at, is_send, channel), sends in list(ranks[me].steps.items()):
            if at != section or not is_send:
                continue
            receives = ranks[peer].steps.get((other, 0, channel), [])
            ops = {op: k for k, op in enumerate(sorted({s.op for s in sends}))}
            each = len(ops) // operations if operations and len(ops) % operations == 0 else 1
            fitting = [(s, r, ops[s.op] // max(each, 1)) for s, r in zip(sends, receives) if s.bytes == r.bytes]
            lost += max(len(sends), len(receives)) - len(fitting)
            pairs += fitting
    return pairs, lost


def mean(values):
    values = list(values)
    return statistics.fmean(values) if values else 0.0


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def chains(pairs):
    """Of an all-reduce, means in us on a rank and channel: from the arrival of what the GPU reduces to the readiness of the result, and from
    an operation's last arrival to the next one's first message."""
    arrivals, departures = {}, {}
    for s, r, k in pairs:
        # A message of this sender arrives at the other rank: seen from there it is that rank's arrival.
        departures[s.way, k, s.number] = s.ready
        arrivals[r.way, k, r.number] = r.ready
    gpu, after = [], []
    last = max(number for _, _, number in departures)
    lag = (last + 1) // 2  # of a ring of two, the first half is reduced and the second half are the results
    for (way, k, number), there in arrivals.items():
        if (way, k, number + lag) in departures:
            gpu.append(departures[way, k, number + lag] - there)
        if number == last and (way, k + 1, 0) in departures:
            after.append(departures[way, k + 1, 0] - there)
    return {"gpu": mean(gpu) / 1e3, "next": mean(after) / 1e3}


def timeline(ranks, label):
    """The numbers of one section, in us."""
    head = [r.head["sections"][r.sections[label]] for r in ranks]
    operations = head[0]["operations"] or 1
    pairs, lost = match(ranks, label, operations)
    found = {"operations": operations, "unmatched": lost}
    if not pairs:
        return found
    flights = [(s.ready, r.ready) for s, r, _ in pairs if r.ready > s.ready]
    spans = {}
    for s, r, k in pairs:
        low, high = spans.get(k, (s.ready, r.ready))
        spans[k] = min(low, s.ready), max(high, r.ready)
    whole = max(high for _, high in spans.values()) - min(low for low, _ in spans.values())
    flying, open_ = union(flights), union(spans.values())
    us = 1e3
    chain = chains(pairs) if label.startswith("all_reduce/") else {"gpu": None, "next": None}
    found.update({
        "whole_us": whole / us / operations,
        "in_flight_us": flying / us / operations,
        "gpu_us": (open_ - flying) / us / operations,
        "between_us": (whole - open_) / us / operations,
        "in_flight_count": sum(b - a for a, b in flights) / max(flying, 1),
        "channels_count": len({c for sec, _, c in ranks[0].steps if sec == ranks[0].sections[label]}),
        "messages_count": len(pairs) / operations / 2,
        "message_bytes": mean(s.bytes for s, _, _ in pairs),
        "transit_us": mean(r.ready - s.ready for s, r, _ in pairs) / us,
        "transit_p10_us": percentile([r.ready - s.ready for s, r, _ in pairs], 0.1) / us,
        "transit_p90_us": percentile([r.ready - s.ready for s, r, _ in pairs], 0.9) / us,
        "chain_gpu_us": chain["gpu"], "chain_next_us": chain["next"],
        "proxy_active_us": mean((h["end"] - h["begin"] - h["idle_ns"]) / 1e3 / operations for h in head),
        "proxy_isend_us": sum(s.handed - s.ready for s, _, _ in pairs) / us / operations / 2,
        "proxy_irecv_us": sum(r.posted - r.start for _, r, _ in pairs) / us / operations / 2,
        "send_slot_us": mean(s.posted - s.start for s, _, _ in pairs) / us,
        "send_gpu_us": mean(s.ready - s.posted for s, _, _ in pairs) / us,
        "send_isend_us": mean(s.handed - s.ready for s, _, _ in pairs) / us,
        "send_net_us": mean(s.done - s.handed for s, _, _ in pairs) / us,
        "recv_post_us": mean(r.posted - r.start for _, r, _ in pairs) / us,
        "recv_net_us": mean(r.ready - r.posted for _, r, _ in pairs) / us,
        "recv_flush_us": mean(r.handed - r.ready for _, r, _ in pairs) / us,
        "recv_gpu_us": mean(r.done - r.handed for _, r, _ in pairs) / us,
        "sent_after_delivery_us": mean(s.done - r.ready for s, r, _ in pairs) / us,
        "receive_late_ratio": mean(r.posted > s.ready for s, r, _ in pairs),
        "first_post_us": mean(v for r in ranks for way in (0, 1) for v in r.first_posts[r.sections[label], way]) / us,
        "proxy_idle_ratio": mean(h["idle_ns"] / max(h["end"] - h["begin"], 1) for h in head),
        "proxy_sleep_ratio": mean(h["sleep_ns"] / max(h["end"] - h["begin"], 1) for h in head),
        "proxy_sleeps_count": mean(h["sleeps"] for h in head) / operations,
        "proxy_idles_count": mean(h["idles"] for h in head) / operations,
        "unfinished": sum(r.unfinished[r.sections[label]] for r in ranks),
    })
    by_number = collections.defaultdict(list)
    for s, r, k in pairs:
        by_number[s.number].append((s.ready - spans[k][0], s.handed - spans[k][0], r.ready - spans[k][0]))
    found["steps"] = [(n, *(mean(x) / us for x in zip(*by_number[n]))) for n in sorted(by_number)[:8]]
    found["case"] = ", ".join(name for name, _ in ranks[0].cases[ranks[0].sections[label]].most_common(2))
    return found


def kernels(ranks, label):
    """How long the kernels of an operation run by the GPU's clock, and the time from one to the next one's beginning."""
    lengths, gaps = [], []
    for rank in ranks:
        found = sorted(rank.kernels.get(rank.sections.get(label, -1), []))
        merged = []
        for low, high, _ in found:
            # Blocks of one kernel begin together; the next kernel of the stream begins after the last block ended.
            if merged and low < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        lengths += [high - low for low, high in merged]
        gaps += [b[0] - a[1] for a, b in zip(merged, merged[1:])]
    return {"kernel_us": statistics.median(lengths) / 1e3, "kernel_gap_us": statistics.median(gaps) / 1e3} if gaps else {}


def threads(folder, transport):
    """CPU time and context switches of an operation by kind of thread, both ranks together, and the time of one operation."""
    use, times = collections.defaultdict(lambda: collections.defaultdict(list)), collections.defaultdict(list)
    for rank in (0, 1):
        path = folder / f"steps-{transport}-{rank}.threads.jsonl"
        for line in path.read_text().splitlines() if path.exists() else []:
            row = json.loads(line)
            times[row["case"], row["pass"], rank].append(row["us"])
            if row["pass"] != "threads":
                continue
            for t in row["threads"]:
                n = row["operations"]
                use[row["case"]][t["kind"]].append((t["threads"], t["cpu_us"] / n, t["wait_us"] / n, t["voluntary"] / n, t["involuntary"] / n,
                                                    t["system_us"] / max(t["system_us"] + t["user_us"], 1e-9)))
    slower = {}
    for (case, name, rank), values in times.items():
        slower[case, name] = max(slower.get((case, name), 0), statistics.median(values))
    return use, slower


LINES = [
    ("us, unprofiled", "plain_us"), ("us, steps profiled", "steps_us"), ("us, kernels too", "kernels_us"),
    ("  in flight", "in_flight_us"), ("  gpu", "gpu_us"), ("  between", "between_us"),
    ("channels", "channels_count"), ("messages an op, a way", "messages_count"), ("bytes a message", "message_bytes"),
    ("messages in flight", "in_flight_count"),
    ("message in flight", "transit_us"), ("  fastest tenth", "transit_p10_us"), ("  slowest tenth", "transit_p90_us"),
    ("  of it isend", "send_isend_us"), ("  sent before receive, share", "receive_late_ratio"),
    ("there to result ready", "chain_gpu_us"), ("last there to next op", "chain_next_us"),
    ("kernel", "kernel_us"), ("kernel to kernel", "kernel_gap_us"),
    ("recv waits for the GPU", "recv_gpu_us"), ("send known as done after", "sent_after_delivery_us"),
    ("proxy busy an op", "proxy_active_us"), ("  of it isend", "proxy_isend_us"), ("  of it irecv", "proxy_irecv_us"),
    ("  one pass, about", "recv_flush_us"), ("  share of time idle", "proxy_idle_ratio"), ("  sleeps an op", "proxy_sleeps_count"),
    ("steps unmatched", "unmatched"), ("steps without an end", "unfinished")]


def analyse(folder, transport):
    paths = [folder / f"steps-{transport}-{rank}.records" for rank in (0, 1)]
    if not all(p.exists() for p in paths):
        print(f"nccl_steps: no records of {transport}")
        return {}, {}
    ranks = [Rank(p) for p in paths]
    use, times = threads(folder, transport)
    cases = {}
    for label in ranks[0].sections:
        if label.endswith("/kernels") or label not in ranks[1].sections:
            continue
        cases[label] = timeline(ranks, label)
        if label + "/kernels" in ranks[1].sections:
            cases[label].update(kernels(ranks, label + "/kernels"))
        for name, key in (("threads", "plain_us"), ("steps", "steps_us"), ("kernels", "kernels_us")):
            if (label, name) in times:
                cases[label][key] = times[label, name]
    return cases, use


def show(label, transports, found, uses):
    print(f"== {label}")
    print(f"{'':28}" + "".join(f"{t:>14}" for t in transports))
    for title, key in LINES:
        values = [found[t].get(label, {}).get(key) for t in transports]
        if any(v is not None for v in values) and (any(values) or key not in ("unmatched", "unfinished")):
            print(f"{title:28}" + "".join(f"{'-' if v is None else f'{v:.0f}' if key == 'message_bytes' else f'{v:.2f}':>14}" for v in values))
    for t in transports:
        case = found[t].get(label, {})
        if "steps" in case:
            print(f"  {t}: {case['case']}; steps, us after the operation's first: "
                  + ", ".join(f"{n}: {a:.0f} isend {b:.0f} there {c:.0f}" for n, a, b, c in case["steps"]))
    kinds = sorted({k for t in transports for k, rows in uses[t].get(label, {}).items() if max(r[1] for r in rows) >= 0.5})
    print(f"{'CPU us an op (threads)':28}" + "".join(f"{t:>14}" for t in transports) + "   switches an op: voluntary/not, share of time in the kernel")
    for kind in kinds:
        cells, notes = "", []
        for t in transports:
            rows = uses[t].get(label, {}).get(kind, [])
            if not rows:
                cells += f"{'-':>14}"
                continue
            count, cpu, _, voluntary, involuntary, system = (statistics.median(r[i] for r in rows) for i in range(6))
            cells += f"{f'{2 * cpu:.1f} ({2 * count:.0f})':>14}"
            notes.append(f"{t} {2 * voluntary:.1f}/{2 * involuntary:.2f} {system:.1f}")
        print(f"  {kind:26}{cells}   " + "; ".join(notes))


ROWS = """plain_us whole_us in_flight_us gpu_us between_us in_flight_count channels_count messages_count message_bytes transit_us transit_p10_us
transit_p90_us send_isend_us chain_gpu_us chain_next_us kernel_us kernel_gap_us proxy_active_us proxy_isend_us proxy_irecv_us pass_us
proxy_idle_ratio cpu_us cpu_proxy_us switches_count""".split()


def values_of(case, uses):
    """What goes into rows: the table's numbers, and CPU time and context switches of both ranks together."""
    values = {**case, "pass_us": case.get("recv_flush_us")}
    rows = {kind: [statistics.median(r[i] for r in found) * 2 for i in (1, 3, 4)] for kind, found in uses.items()}
    if rows:
        values["cpu_us"] = sum(r[0] for r in rows.values())
        values["cpu_proxy_us"] = sum(r[0] for kind, r in rows.items() if kind.startswith("NCCL Progress"))
        values["switches_count"] = sum(r[1] + r[2] for r in rows.values())
    return {metric: float(f"{values[metric]:.4g}") for metric in ROWS if values.get(metric) is not None}


def write_rows(folder, transports, found, uses):
    """The value is Braid's (or that of the first transport), the others are its peers."""
    about = json.loads((folder / "steps.json").read_text()) if (folder / "steps.json").exists() else {}
    common = {"runs": 1, "machine": about.get("machine", "unknown"), "versions": about.get("versions", {}),
              "commit": os.environ.get("COMMIT", "unknown"), "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat()}
    own = "braid" if "braid" in transports else transports[0]
    names = {"default": "nccl_default", "best": "nccl_best"}
    with open(folder / "nccl_steps.jsonl", "w") as file:
        for label in found[own]:
            values = {t: values_of(found[t].get(label, {}), uses[t].get(label, {})) for t in transports}
            for metric, value in values[own].items():
                peers = {names.get(t, t): values[t][metric] for t in transports if t != own and metric in values[t]}
                row = {"bench": "nccl_steps", "case": label, "metric": metric, "value": value, "peers": peers, **common}
                file.write(json.dumps(row) + "\n")


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    folder, transports = pathlib.Path(sys.argv[1]), sys.argv[2:]
    found, uses = {}, {}
    for t in transports:
        found[t], uses[t] = analyse(folder, t)
    labels = list(dict.fromkeys(label for t in transports for label in found[t]))
    for label in labels:
        show(label, transports, found, uses)
    write_rows(folder, transports, found, uses)
    return 0 if labels else 1


if __name__ == "__main__":
    sys.exit(main())
