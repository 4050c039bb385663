#!/usr/bin/env python3
"""Work a message of the verbs transport: counts from the fake library, instructions from callgrind, held against bounds.

count.py --driver verbs_work --fake libibverbs.so.1 --plugin libnccl-net-braid.so [--peer NAME=PLUGIN] [--rows FILE]

Instructions are those of the plugin itself and of what it calls (memcpy, clock), without the fake library and the driver, for
both ends together. With --peer the same driver counts another plugin; with --rows the result rows are written.
Without valgrind the instructions are left out. Exit 1 when a bound is passed.
"""
import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SIZES = {64: 2000, 4096: 2000, 1 << 20: 200}
# Per message, both ends together: what may not be passed. Instructions are a tenth above what was seen at -O2.
BOUNDS = {
    64: {"send_wqes": 1.02, "send_doorbells": 1.02, "completions": 0.05, "packets": 1.02, "polls": 0.2, "rnr_waits": 0, "instructions": 934},
    4096: {"send_wqes": 1.2, "send_doorbells": 0.4, "completions": 1.2, "packets": 1.2, "polls": 0.7, "rnr_waits": 0, "instructions": 1180},
    1 << 20: {"send_wqes": 1.2, "send_doorbells": 0.4, "completions": 1.2, "packets": 257, "polls": 0.8, "rnr_waits": 0, "instructions": 1290},
}


def environment(args, braid):
    env = dict(os.environ, FAKEVERBS_FABRIC=os.path.join(args.scratch, "fabric"), FAKEVERBS_SCRIPT=args.script)
    if braid:
        env["BRAID_VERBS_LIBRARY"] = args.fake
        env["BRAID_TRANSPORT"] = "IB"
    else:
        folder = os.path.dirname(os.path.abspath(args.fake))
        env["LD_LIBRARY_PATH"] = folder + ":" + env.get("LD_LIBRARY_PATH", "")
        env["NCCL_SOCKET_IFNAME"] = "lo"
    return env


def instructions(path, plugin):
    """Sum of the self cost of the plugin's functions and the inclusive cost of what they call outside, without libibverbs."""
    names = {"ob": {}, "fn": {}}
    total = 0
    obj = called_obj = ""
    expect_call = False

    def resolve(kind, text):
        match = re.match(r"\((\d+)\)(?: (.*))?", text)
        if match.group(2):
            names[kind][match.group(1)] = match.group(2)
        return names[kind].get(match.group(1), "")

    for line in open(path):
        line = line.rstrip("\n")
        if line.startswith("ob="):
            obj = resolve("ob", line[3:])
        elif line.startswith("fn="):
            resolve("fn", line[3:])
            called_obj = obj
        elif line.startswith("cob="):
            called_obj = resolve("ob", line[4:])
        elif line.startswith("cfn="):
            resolve("fn", line[4:])
        elif line.startswith("calls="):
            expect_call = True
        elif re.match(r"^[+\-*\d]", line):
            cost = int(line.split()[1]) if len(line.split()) > 1 else 0
            mine = os.path.basename(obj) == os.path.basename(plugin)
            if expect_call:
                outside = os.path.basename(called_obj) != os.path.basename(plugin) and "ibverbs" not in called_obj
                total += cost if mine and outside else 0
                called_obj = obj
            else:
                total += cost if mine else 0
            expect_call = False
    return total


def count(args, plugin, braid):
    result = {}
    for size, messages in SIZES.items():
        command = [args.driver, plugin, str(size), str(messages)]
        out = subprocess.run(command, env=environment(args, braid), capture_output=True, text=True, timeout=200)
        if out.returncode:
            sys.exit(f"{' '.join(command)}: {out.stderr.strip()}")
        result[size] = json.loads(out.stdout.strip().splitlines()[-1])
        if not shutil.which("valgrind") or args.sanitized:
            continue
        file = os.path.join(args.scratch, "callgrind.out")
        costs = []
        for times in (messages // 4, messages):  # the difference leaves out what runs once
            if os.path.exists(file):
                os.remove(file)
            subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=measured", f"--callgrind-out-file={file}",
                            *command[:3], str(times)], env=environment(args, braid), capture_output=True, timeout=200, check=True)
            costs.append(instructions(file, plugin))
        result[size]["instructions"] = (costs[1] - costs[0]) / (messages - messages // 4)
    return result


def row(size, metric, value, peers, args):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            cwd=os.path.dirname(os.path.abspath(__file__))).stdout.strip()
    return {"bench": "verbs_work", "case": f"{args.case}/{size}", "metric": metric + "_count", "value": round(value, 3), "runs": 1,
            "peers": {name: round(v, 3) for name, v in peers.items()}, "machine": "build machine, 2 cores", "emulated": "fakeverbs", "versions": {"libibverbs": "tests/fakeverbs"},
            "commit": commit, "date": datetime.date.today().isoformat()}


def main():
    parser = argparse.ArgumentParser()
    for name in ("driver", "fake", "plugin"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--rows")
    parser.add_argument("--case", default="one_way", help="what the rows call it")
    args = parser.parse_args()
    args.scratch = tempfile.mkdtemp()
    args.script = os.path.join(args.scratch, "script")
    args.sanitized = b"__asan_init" in open(args.plugin, "rb").read() or b"__tsan_init" in open(args.plugin, "rb").read()
    with open(args.script, "w") as script:
        script.write("device mlx5_0 link infiniband speed 100 lid 1\ngid 0 ib fe80::1\n")
    try:
        ours = count(args, args.plugin, True)
        peers = {name: count(args, plugin, False) for name, plugin in (p.split("=", 1) for p in args.peer)}
    finally:
        shutil.rmtree(args.scratch)
    failed = 0
    rows = []
    for size, counts in ours.items():
        for metric, value in counts.items():
            if metric in ("bytes", "messages"):
                continue
            others = {name: result[size][metric] for name, result in peers.items() if metric in result[size]}
            bound = BOUNDS[size].get(metric)
            wrong = bound is not None and value > bound
            failed += wrong
            text = "".join(f", {name} {v:.2f}" for name, v in others.items())
            print(f"{size:>8} bytes  {metric:<15} {value:10.2f}{text}" + (f"  bound {bound}" if bound is not None else "") +
                  ("  PASSED THE BOUND" if wrong else ""))
            if others:
                rows.append(row(size, metric, value, others, args))
    if args.rows and rows:
        with open(args.rows, "w") as file:
            file.writelines(json.dumps(r) + "\n" for r in rows)
    sys.exit(1 if failed else 0)


main()
