#!/usr/bin/env bash
# tests/gpu/stages without GPUs: what passes is not run again, what fails, hangs or cannot run is said; no stage may take more than 4 minutes.
# Usage: stages.sh SOURCE_TREE
set -u
cd "$1" || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/out"
printf '#!/bin/sh\necho "GPU 0: none"\n' >"$folder/bin/nvidia-smi"
chmod +x "$folder/bin/nvidia-smi"
export PATH="$folder/bin:$PATH" OUT="$folder/out"
failed=0
expect() { grep -Eq -- "$1" "$folder/log" || { echo "missing: $1"; cat "$folder/log"; failed=1; }; }

longest=$(tests/gpu/stages --list | awk '{print $2}' | sort -n | tail -1)
[ "$longest" -le 240 ] || { echo "a stage may take $longest s"; failed=1; }

export STAGES="
good|20|1|echo run >>$folder/good; echo fine
bad|20|1|echo broken; exit 3
late|4|1|echo begun; sleep 30
unable|20|1|echo skipped: no ear; exit 77
pair|20|2|echo two
flags|20|1|[ \"\$NCCL_NVLS_ENABLE\$TORCH_SYMM_MEM_DISABLE_MULTICAST\" = 01 ]
"
tests/gpu/stages >"$folder/log" 2>&1 && { echo "failures were not reported"; failed=1; }
expect '^good: passed'
expect '^bad: FAILED with exit code 3, log in .*/bad.log'
expect '^late: FAILED: not finished after 4 s'
expect '^unable: skipped: no ear'
expect '^pair: skipped: needs 2 GPU\(s\), found 1'
expect '^flags: passed'
[ "$(tail -6 "$folder/log" | cut -d: -f1 | tr '\n' ' ')" = "good bad late unable pair flags " ] || { echo "the summary is not last"; failed=1; }
grep -q begun "$folder/out/late.log" || { echo "the log of what hung is lost"; failed=1; }
tests/gpu/stages good bad >"$folder/log" 2>&1 # taken up where it stopped
expect '^good: done before'
expect '^bad: FAILED'
tests/gpu/stages --again good >"$folder/log" 2>&1 || { echo "--again good failed"; failed=1; }
expect '^good: passed'
[ "$(wc -l <"$folder/good")" = 2 ] || { echo "good ran $(wc -l <"$folder/good") times"; failed=1; }
tests/gpu/stages nosuch >"$folder/log" 2>&1
[ $? = 2 ] || failed=1
expect 'there is no stage nosuch'
[ $failed = 0 ] && echo "stages: all right"
exit $failed
