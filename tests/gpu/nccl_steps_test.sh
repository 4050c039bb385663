#!/usr/bin/env bash
# nccl_steps and nccl_steps.py without a GPU: events that nccl_steps_caller plays, for each version of the interface.
# Usage: nccl_steps_test.sh CALLER PLUGIN FOLDER. Times are only bounded from below: the machine may be busy.
set -eu
caller=$1 plugin=$2 folder=$3
here=$(dirname "${BASH_SOURCE[0]}")
rm -rf "$folder"
mkdir -p "$folder"
for version in 4 5 6; do
  NCCL_STEPS_FILE="$folder/steps-v$version" "$caller" "$plugin" "$version"
done
printf '{"machine": "no GPU", "versions": {"nccl": "none"}}\n' >"$folder/steps.json"
for rank in 0 1; do
  printf '{"case": "all_reduce/1", "pass": "threads", "operations": 3, "us": 9.5, "threads": [{"kind": "NCCL Progress", "threads": 1, "cpu_us": 30, "user_us": 10, "system_us": 20, "wait_us": 1, "voluntary": 6, "involuntary": 0}]}\n' \
    >"$folder/steps-v4-$rank.threads.jsonl"
done
COMMIT=none "$here/nccl_steps.py" "$folder" v4 v5 v6 >"$folder/table.txt"
python3 - "$folder" <<'EOP'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
rows = {}
for row in map(json.loads, (folder / "nccl_steps.jsonl").read_text().splitlines()):
    for name, value in {"v4": row["value"], **row["peers"]}.items():
        rows[f"{name}/{row['case']}", row["metric"]] = value
text = (folder / "table.txt").read_text()
bad = []
def need(right, what):
    if not right:
        bad.append(what)
for version in (4, 5, 6):
    for section, name in (("all_reduce/1", "AllReduce/8192/Ring/SIMPLE/2ch"), ("all_reduce/2", "Send/8192/2ch")):
        case = f"v{version}/{section}"
        get = lambda metric: rows.get((case, metric), -1)
        need(get("transit_us") >= 2000 and get("transit_p10_us") >= 2000, f"{case}: a message takes at least 2 ms, found {get('transit_us')}")
        need(get("in_flight_us") >= 3999, f"{case}: two steps are at least 4 ms in flight, found {get('in_flight_us')}")
        need(get("gpu_us") >= 999, f"{case}: the GPU takes at least 1 ms between them, found {get('gpu_us')}")
        need(get("between_us") >= 666, f"{case}: and before the first of two in three, found {get('between_us')}")
        need(get("chain_gpu_us") >= 999 and get("chain_next_us") >= 999, f"{case}: GPU after an arrival")
        total = get("in_flight_us") + get("gpu_us") + get("between_us")
        need(abs(total / get("whole_us") - 1) < 0.01, f"{case}: the parts add up to {total} of {get('whole_us')}")
        need(get("messages_count") == 4 and get("channels_count") == 2 and get("message_bytes") == 4096, f"{case}: counts")
        table = (folder / f"steps-v{version}-0.txt").read_text()
        line = [l for l in table.splitlines() if l.startswith(section + " ") and name in l and " send " in l]
        need(len(line) == 1 and line[0].split()[4:7] == ["6", "2.0", "4096"], f"{case}: table line {line}")
    need(rows.get((f"v{version}/all_reduce/1", "kernel_us")) == 7 and rows.get((f"v{version}/all_reduce/1", "kernel_gap_us")) == 3, f"v{version}: kernels by the GPU's clock")
    need(table.count("(3 times; asleep") == 2 and table.count("%, 3 times)") == 2, f"v{version}: the proxy thread slept once an operation")
    channels = [json.loads(l) for l in (folder / f"steps-v{version}-1.jsonl").read_text().splitlines()]
    first = [c for c in channels if c["section"] == "all_reduce/1"]
    need(len(first) == 4 and all(c["ops"] == 3 and c["steps"] == 6 for c in first), f"v{version}: a row for each way and channel: {first}")
need("message in flight" in text and "unmatched" not in text and "without an end" not in text, "every step has its partner")
need(rows.get(("v4/all_reduce/1", "cpu_proxy_us")) == 20, "CPU time of both ranks an operation")
need(rows.get(("v4/all_reduce/1", "plain_us")) == 9.5, "the unprofiled time")
for line in bad:
    print("FAILED:", line)
sys.exit(1 if bad else 0)
EOP
echo "nccl_steps: interface versions 4, 5 and 6 right"
