#!/usr/bin/env python3
"""The cost model against published measurements, leaving out one table at a time.

usage: eval_public.py BUILD_FOLDER [--rows FILE] [--misses] [--theta]
The shipped generic profiles with a machine's rates from its topology predict each row. A few numbers that all machines share (how much
of a link's rate is reached, hops, starts) are multiplied by factors fitted to the tables: Gauss-Newton steps on the logarithm of time
with limited influence of outliers; for a table the factors are those that the other tables give. Nothing of a table's own is used to
judge it. Pairs are judged with the factors that the bandwidth tables other than the pair's own give.
"""
import argparse
import collections
import csv
import datetime
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# What is fitted: a name, and the profile rows (keyword, selectors) that its factor multiplies.
FACTORS = {
    "reach of a ring in the node": [("reach_ratio", "nvlink * ring simple"), ("reach_ratio", "nvlink * ring ll128")],
    "reach of NVLS": [("reach_ratio", "nvlink * nvls simple"), ("reach_ratio", "nvlink * nvls_tree simple")],
    "reach of NVLS, Blackwell": [("reach_ratio", "nvlink * nvls simple"), ("reach_ratio", "nvlink * nvls_tree simple")],
    "reach of rails": [("reach_ratio", f"net * {a} {p}") for a, p in (("ring", "simple"), ("tree", "simple"), ("tree", "ll128"), ("nvls_tree", "simple"))],
    "channel, Simple": [("channel_GBps", "* ring simple"), ("channel_GBps", "all_reduce tree simple")],
    "hop, Simple": [("hop_us", f"{l} {a} simple") for l in ("nvlink", "net") for a in ("ring", "tree")],
    "NVLS start": [("hop_us", f"{l} {a} simple") for l in ("nvlink", "net") for a in ("nvls", "nvls_tree")],
    "LL and LL128 start and hop": [("base_us", f"{c} {a} {p}") for c, a in (("*", "ring"), ("all_reduce", "tree")) for p in ("ll", "ll128")]
    + [("hop_us", f"{l} {a} {p}") for l in ("nvlink", "net") for a in ("ring", "tree") for p in ("ll", "ll128")],
}
SUSPECT = {"nccl-2409"}  # its reporter suspects the fabric: judged, but nothing is fitted to it
# NVLink SHARP of another generation is another thing.
ONLY = {"reach of NVLS, Blackwell": {"generic-blackwell"}}
NEVER = {"reach of NVLS": {"generic-blackwell"}}
PULL = 0.5  # of a factor towards 1, against what one row says


def read(name):
    lines = (HERE / "data" / name).read_text().splitlines()
    return list(csv.DictReader(l for l in lines if not l.startswith("#")))


class Model:
    def __init__(self, build):
        self.build = build
        self.share = pathlib.Path(build, "share/braid/profiles")
        self.values = {}
        self.efa_hop = None

    def value(self, profile, keyword, selectors):
        """The number that a profile ends up with, by its files."""
        found, path = None, self.share / f"{profile}.profile"

        def scan(file):
            nonlocal found
            for line in file.read_text().splitlines():
                words = line.split()
                if words[:1] == ["include"]:
                    scan(self.share / words[1])
                elif words[:1] == [keyword] and all(w == "*" or s == "*" or w == s for w, s in zip(words[1:], selectors.split())):
                    found = float(words[1 + len(selectors.split())])
        scan(path)
        return found

    def scaled(self, profile, theta, folder):
        rows = []
        for factor, name in zip(theta, FACTORS):
            if profile not in ONLY.get(name, {profile}) or profile in NEVER.get(name, ()):
                continue
            for keyword, selectors in FACTORS[name]:
                key = (profile, keyword, selectors)
                if key not in self.values:
                    self.values[key] = self.value(*key)
                if self.values[key] is not None:
                    rows.append(f"{keyword} {selectors} {self.values[key] * math.exp(factor):.6g} @eval")
        if self.efa_hop and profile == "generic-efa":
            rows += [f"hop_us net {a} simple {self.efa_hop} @eval" for a in ("ring", "tree", "nvls", "nvls_tree")]
        path = pathlib.Path(folder, f"eval-{profile}.profile")
        path.write_text(f"braid-profile 1\ninclude {profile}.profile\nname eval\nsource eval \"eval_public.py\"\n" + "\n".join(rows) + "\n")
        return path

    def predict(self, queries, theta):
        """[(us, NCCL's estimate)] of (profile, machine, coll, ranks, nodes, bytes, algo, proto)."""
        groups, answers = collections.defaultdict(list), {}
        for i, q in enumerate(queries):
            groups[q[0], q[1]].append(i)
        with tempfile.TemporaryDirectory() as folder:
            for f in self.share.iterdir():
                pathlib.Path(folder, f.name).write_text(f.read_text())
            for (profile, machine), members in groups.items():
                text = "".join(",".join(map(str, queries[i][2:])) + "\n" for i in members)
                done = subprocess.run([f"{self.build}/bin/braid-tune", "predict", "--profile", str(self.scaled(profile, theta, folder)), "--machine", machine],
                                      input=text, capture_output=True, text=True)
                if done.returncode:
                    sys.exit(f"{machine}: {done.stderr}")
                for i, row in zip(members, csv.DictReader(done.stdout.splitlines())):
                    answers[i] = (float(row["us"]), float(row["nccl_us"]))
        return [answers[i] for i in range(len(queries))]


class Efa:
    """A Simple hop over EFA, the one number that only the EFA regions tell: for a table of regions it is chosen by the others."""
    CHOICES = (25, 40, 60, 80)

    def __init__(self, model, pairs, thetas):
        self.right = {}
        for hop in self.CHOICES:
            model.efa_hop = hop
            for table in dict.fromkeys(p["table"] for p in pairs if p["profile"] == "generic-efa"):
                mine = [p for p in pairs if p["table"] == table]
                both = [query(p, w) for p in mine for w in ("better", "worse")]
                us = [u for u, _ in model.predict(both, thetas(table))]
                self.right[hop, table] = sum(us[2 * i] < us[2 * i + 1] for i in range(len(mine)))
        model.efa_hop = None

    def without(self, table):
        totals = {hop: sum(n for (h, t), n in self.right.items() if h == hop and t != table) for hop in self.CHOICES}
        best = [hop for hop in self.CHOICES if totals[hop] == max(totals.values())]
        return best[len(best) // 2]


def query(pair, which):
    return (pair["profile"], pair["machine"], pair["coll"], pair["ranks"], pair["nodes"], pair["bytes"], *pair[which].split("/"))


def bus_factor(coll, n):
    return 2 * (n - 1) / n if coll == "all_reduce" else (n - 1) / n


def solve(matrix, vector):
    n = len(vector)
    m = [row[:] + [vector[i]] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(m[r][i]))
        m[i], m[pivot] = m[pivot], m[i]
        for r in range(n):
            if r != i:
                f = m[r][i] / m[i][i]
                m[r] = [a - f * b for a, b in zip(m[r], m[i])]
    return [m[i][n] / m[i][i] for i in range(n)]


def step(theta, residuals, jacobian, keep):
    """One Gauss-Newton step on the rows of `keep`, Cauchy weights, and the pull towards 1."""
    n = len(theta)
    a = [[PULL if i == j else 0.0 for j in range(n)] for i in range(n)]
    b = [-PULL * t for t in theta]
    for i in keep:
        r = residuals[i]
        if math.isnan(r):
            continue
        w = 1 / (1 + (r / 0.2) ** 2)
        for j in range(n):
            b[j] -= w * jacobian[i][j] * r
            for k in range(n):
                a[j][k] += w * jacobian[i][j] * jacobian[i][k]
    return [t + max(-0.5, min(0.5, d)) for t, d in zip(theta, solve(a, b))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rows")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--theta", action="store_true")
    args = parser.parse_args()
    model, rows, pairs = Model(args.build), read("public.csv"), read("public_pairs.csv")
    queries = [(r["profile"], r["machine"], r["coll"], r["ranks"], r["nodes"], r["bytes"], r["algo"], r["proto"]) for r in rows]
    measured = [float(r["value"]) if r["unit"] == "us" else float(r["bytes"]) * bus_factor(r["coll"], int(r["ranks"])) / float(r["value"]) / 1e3 for r in rows]

    def residuals(theta):
        return [math.log(p / m) for (p, _), m in zip(model.predict(queries, theta), measured)]

    def derivative(theta, at):
        columns = []
        for j in range(len(theta)):
            moved = residuals([t + (0.05 if i == j else 0) for i, t in enumerate(theta)])
            columns.append([(a - b) / 0.05 for a, b in zip(moved, at)])
        return list(zip(*columns))
    theta = [0.0] * len(FACTORS)
    sound = [i for i, r in enumerate(rows) if r["table"] not in SUSPECT]
    for _ in range(3):
        at = residuals(theta)
        jacobian = derivative(theta, at)
        theta = step(theta, at, jacobian, sound)
    at = residuals(theta)
    jacobian = derivative(theta, at)
    if args.theta:
        for name, t in zip(FACTORS, theta):
            print(f"{name:32} x {math.exp(t):.3f}")
    errors, start, by_table = {}, [math.log(p / m) for (p, _), m in zip(model.predict(queries, [0.0] * len(FACTORS)), measured)], collections.defaultdict(list)
    tables = {t: [i for i, r in enumerate(rows) if r["table"] == t] for t in dict.fromkeys(r["table"] for r in rows)}
    without = {}
    for table, members in tables.items():
        without[table] = step(theta, at, jacobian, [i for i in sound if i not in members])
        for i, (us, _) in zip(members, model.predict([queries[i] for i in members], without[table])):
            errors[i] = measured[i] / us - 1  # of bandwidth
            by_table[table].append(abs(errors[i]))
    nccl = [abs(m / n - 1) for (_, n), m in zip(model.predict(queries, theta), measured) if not math.isnan(n)]
    print(f"bandwidth: median error {100 * statistics.median(map(abs, errors.values())):.1f} % over {len(rows)} rows of {len(tables)} tables left out in turn; "
          f"untouched generic profiles {100 * statistics.median(abs(math.exp(-r) - 1) for r in start):.1f} %; NCCL's own model {100 * statistics.median(nccl):.1f} % ({len(nccl)} rows)")
    for table in tables:
        print(f"    {table:20} {100 * statistics.median(by_table[table]):6.1f} %  ({len(by_table[table])} rows)")
    right, nccl_right, nccl_all, out = 0, 0, 0, []
    stamp = {"machine": "published tables", "versions": {}, "date": datetime.date.today().isoformat(),
             "commit": subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE).stdout.strip() or "unknown"}
    efa = Efa(model, pairs, lambda table: without.get(table, theta))
    for number, pair in enumerate(pairs):
        both = [query(pair, w) for w in ("better", "worse")]
        model.efa_hop = efa.without(pair["table"]) if pair["profile"] == "generic-efa" else None
        (better, nccl_better), (worse, nccl_worse) = model.predict(both, without.get(pair["table"], theta))
        good = better < worse
        right += good
        nccl_good = None
        if not math.isnan(nccl_better) and not math.isnan(nccl_worse):
            nccl_good = nccl_better < nccl_worse
            nccl_all += 1
            nccl_right += nccl_good
        if args.misses or not good:
            print(f"    {'hit ' if good else 'MISS'} {pair['table']:18} {pair['coll']:14} {pair['ranks']:>5} ranks {pair['bytes']:>12} B  {pair['better']:17} {better:10.1f} us  over {pair['worse']:17} {worse:10.1f} us"
                  f"   NCCL's model {'right' if nccl_good else 'wrong' if nccl_good is False else '-'}")
        out.append({"bench": "tuner_public", "case": f"{pair['table']}/{number:02d}/{pair['coll']}/{pair['ranks']}/{pair['bytes']}/{pair['better']}", "metric": "right_count", "value": int(good), "runs": 1,
                    "peers": {} if nccl_good is None else {"nccl_model": int(nccl_good)}, "note": f"over {pair['worse']}", **stamp})
    print(f"pairs: {right} of {len(pairs)} right ({100 * right / len(pairs):.0f} %); NCCL's own model {nccl_right} of {nccl_all} ({100 * nccl_right / max(nccl_all, 1):.0f} %)")
    out.append({"bench": "tuner_public", "case": "pairs", "metric": "right_count", "value": right, "runs": len(pairs), "peers": {"nccl_model": nccl_right}, "limit": len(pairs), **stamp})
    out.append({"bench": "tuner_public", "case": "all", "metric": "bandwidth_error_pct", "value": round(100 * statistics.median(map(abs, errors.values())), 2), "runs": len(rows),
                "peers": {"nccl_model": round(100 * statistics.median(nccl), 2)}, "limit": 0, **stamp})
    for table in tables:
        out.append({"bench": "tuner_public", "case": table, "metric": "bandwidth_error_pct", "value": round(100 * statistics.median(by_table[table]), 2), "runs": len(by_table[table]), "limit": 0, **stamp})
    if args.rows:
        pathlib.Path(args.rows).write_text("".join(json.dumps(row) + "\n" for row in out))


main()
