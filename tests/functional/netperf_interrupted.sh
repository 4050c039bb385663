#!/usr/bin/env bash
# Ctrl-C in the middle of braid-netperf: it ends at once, with exit code 130, and table and rows have what was measured until then.
# Usage: netperf_interrupted.sh NETPERF PLUGIN
set -u
netperf=$1 plugin=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for wait in 3 6 12 24; do # on a busy machine nothing may have been measured yet
  "$netperf" --plugin "$plugin" --rounds 15 --patterns bandwidth,both-ways --no-raw --json "$folder/rows" >"$folder/out" 2>&1 &
  pid=$!
  sleep "$wait"
  begin=$(date +%s%N)
  kill -INT $pid
  kill -INT $pid # as programs do that signal a process and its group
  wait $pid
  rc=$?
  took=$((($(date +%s%N) - begin) / 1000000))
  rows=$(wc -l <"$folder/rows")
  echo "after $wait s: exit code $rc in $took ms, $rows rows"
  [ $rc = 130 ] && [ $took -lt 10000 ] && grep -q '^interrupted' "$folder/out" || { cat "$folder/out"; exit 1; }
  [ "$rows" -gt 0 ] || continue
  lines=$(grep -c '^latency\|^bandwidth\|^both-ways\|^rate\|^cpu\|^calls' "$folder/out")
  [ "$lines" -ge "$rows" ] && [ "$lines" -lt 24 ] || { cat "$folder/out"; exit 1; }
  python3 -c 'import json, sys; [json.loads(line)["value"] for line in open(sys.argv[1])]' "$folder/rows" || exit 1
  for _ in $(seq 50); do # its processes have its command line
    pgrep -f "$folder/rows" >/dev/null || exit 0
    sleep 0.1
  done
  echo "processes are left"
  exit 1
done
echo "skipped: this machine is too busy, nothing was measured in 24 s"
exit 77
