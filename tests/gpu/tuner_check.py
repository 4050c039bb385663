#!/usr/bin/env python3
"""NCCL under Braid's tuner: every choice of a profile made to disagree with NCCL is found in NCCL's own TUNING log, results are right.

usage: tuner_check.py BUILD_FOLDER OUT_FOLDER. Exit code 0: all promises hold. Called by run_tuner.sh, which sets NCCL_LIBRARY.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

BUILD, OUT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
LINE = re.compile(r"(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")
SIZES = "1K,64K,1M,16M"
NAMES = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "Broadcast": "broadcast", "Reduce": "reduce"}


def gpus():
    out = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return out.stdout.count("GPU ")


def exercise(name, tuner, env):
    """{(coll, bytes): {(algo, proto, channels)}} from NCCL's log, and whether all results were right."""
    log = OUT / f"tuner_{name}.log"
    log.unlink(missing_ok=True)
    args = [f"{BUILD}/bin/braid-tune", "exercise", "--ranks", "2", "--bytes", SIZES, "--nccl", os.environ["NCCL_LIBRARY"]]
    if tuner:
        args += ["--tuner", tuner]
    if gpus() < 2:
        args.append("--fake-nodes")
    full = {**os.environ, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING,INIT,ENV", "NCCL_DEBUG_FILE": str(log), **env}
    full.pop("NCCL_TUNER_PLUGIN", None)
    done = subprocess.run(args, env=full, capture_output=True, text=True, timeout=60)
    if done.returncode:
        print(f"{name}: {done.stderr.strip()[-500:]}")
    text = log.read_text(errors="replace") if log.exists() else ""
    found = collections.defaultdict(set)
    for func, size, algo, proto, low, high in LINE.findall(text):
        total = int(size) * (2 if func in ("AllGather", "ReduceScatter") else 1)
        found[NAMES[func], total].add((algo.lower(), proto.lower(), int(high) - int(low) + 1))
    return found, done.returncode == 0, text


def profile(name, rows):
    path = OUT / f"{name}.profile"
    for included in ("generic.profile", "generic-socket.profile", "nccl.facts"):
        (OUT / included).write_text((BUILD / "share/braid/profiles" / included).read_text())
    base = "generic" if gpus() > 1 else "generic-socket"
    path.write_text(f"braid-profile 1\ninclude {base}.profile\nname {name}\nsource test \"made to disagree with NCCL\"\n{rows}")
    return str(path)


def main():
    plugin = f"{BUILD}/lib/libnccl-tuner-braid.so"
    simple = profile("only-simple", "trust 1 @test\nbase_us * ring simple 0.001 @test\nhop_us * ring simple 0 @test\n"
                     "base_us * ring ll 5000 @test\nbase_us * ring ll128 5000 @test\nbase_us all_reduce tree * 5000 @test\n"
                     "base_us * nvls simple 5000 @test\n")
    tree = profile("only-tree", "trust 1 @test\nbase_us all_reduce tree ll 0.001 @test\nhop_us * tree ll 0 @test\nchannel_GBps all_reduce tree ll 1000 @test\n"
                   "reach_ratio * all_reduce tree ll 4 @test\nrate_GBps host 100000 @test\nrate_GBps port 100000 @test\n")
    problems, rows = [], []

    def case(name, tuner, env, want):
        found, right, text = exercise(name, tuner, env)
        wrong = [] if right and found else [f"{name}: did not run to its end" if not right else f"{name}: no TUNING lines in NCCL's log"]
        for (coll, size), choices in sorted(found.items()):
            for choice in choices:
                if not want(coll, size, choice):
                    wrong.append(f"{name}: {coll} {size}: {choice}")
        if tuner and "Braid" not in text:
            wrong.append(f"{name}: NCCL did not load the plugin")
        rows.append((name, len(found), "right" if right else "WRONG", "as promised" if not wrong else f"{len(wrong)} problems"))
        problems.extend(wrong)
        return found

    alone = case("nccl_alone", None, {"NCCL_TUNER_PLUGIN": ""}, lambda *a: True)

    def same(coll, size, choice):
        return choice in alone[coll, size]
    case("no_profile", plugin, {"BRAID_TUNER_PROFILE": "none"}, same)
    case("untrusted", plugin, {"BRAID_TUNER_PROFILE": "generic"}, same)
    case("only_simple", plugin, {"BRAID_TUNER_PROFILE": simple}, lambda c, s, x: x[:2] == ("ring", "simple"))
    case("only_tree", plugin, {"BRAID_TUNER_PROFILE": tree}, lambda c, s, x: c != "all_reduce" or x[:2] == ("tree", "ll"))
    case("budget_1", plugin, {"BRAID_TUNER_PROFILE": simple, "BRAID_SM_BUDGET": "1"}, lambda c, s, x: x[2] == 1)
    case("stand_down", plugin, {"BRAID_TUNER_PROFILE": tree, "NCCL_ALGO": "ring"}, lambda c, s, x: x[0] == "ring")
    case("overlap", plugin, {"BRAID_TUNER_PROFILE": simple, "BRAID_OVERLAP": "1"}, lambda c, s, x: x[:2] == ("ring", "simple"))
    for line in problems[:40]:
        print(line)
    print(f"{'case':14} {'cells':>6} {'results':>8}  choices")
    for row in rows:
        print(f"{row[0]:14} {row[1]:6} {row[2]:>8}  {row[3]}")
    (OUT / "tuner_check.json").write_text(json.dumps({"cases": rows, "problems": problems}, indent=1) + "\n")
    print("tuner: all choices took effect, all results right" if not problems else f"tuner: {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
