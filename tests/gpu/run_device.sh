#!/usr/bin/env bash
# The device library on GPUs: function, failures, latency. Rows go to $OUT/device.jsonl, logs beside it; the table is last.
# Usage: run_device.sh [function] [shared] [latency] [sanitizer] [examples] [death] [-- CASE ...]; no stage = all. About 3 minutes.
#   function   every case: ranks on GPUs of their own, or on one GPU under MPS when there is only one
#   shared     the same with all ranks on GPU 0 under MPS, when there are more GPUs
#   latency    primitives beside their bare counterparts
#   sanitizer  compute-sanitizer (memcheck, racecheck, synccheck) on small cases, ranks as threads of one process
#   examples   device/examples, from C++ and from PyTorch
#   death      ranks that are killed; last, because MPS may not survive it
# Needs build/dev/bin/{gpu_device,example_*} and build/dev/lib/libbraid.so*, which can be built without a GPU:
# cmake --build --preset dev --target gpu_device example_01_put_signal example_02_tile_pipeline braid
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export OUT=${OUT:-$PWD/build/gpu-results} NCCL_NVLS_ENABLE=0 CUDA_MODULE_LOADING=EAGER CUDA_DEVICE_MAX_CONNECTIONS=32
export COMMIT=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
mkdir -p "$OUT"
program=build/dev/bin/gpu_device
[ -x $program ] || { echo "skipped: $program is not built (needs nvcc)"; exit 77; }
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
case "${CUDA_VISIBLE_DEVICES-}" in "" | *,*) ;; *) gpus=$((gpus > 0)) ;; esac
[ "${gpus:-0}" -gt 0 ] || { echo "skipped: no GPU (nvidia-smi lists none)"; exit 77; }
torch_nccl=$(python3 -c 'import nvidia.nccl, os; print(os.path.join(list(nvidia.nccl.__path__)[0], "lib"))' 2>/dev/null || true)
[ -n "$torch_nccl" ] && export LD_LIBRARY_PATH=$torch_nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

stages="" cases=()
while [ $# -gt 0 ]; do
  case "$1" in
    function | shared | latency | sanitizer | examples | death) stages="$stages $1" ;;
    --) shift; cases=("$@"); break ;;
    *) sed -n '2,11s/^# //p' "$0"; exit 2 ;;
  esac
  shift
done
stages=${stages:-function shared latency sanitizer examples death}
failed=0 table=""

# stage NAME BOUND COMMAND...: runs it bounded, keeps its log, adds its last lines to the table.
stage() {
  local name=$1 bound=$2 begin=$SECONDS rc
  shift 2
  echo "== $name (at most $bound s)"
  timeout -k 15 "$bound" "$@" >"$OUT/device-$name.log" 2>&1 </dev/null
  rc=$?
  grep -vE '^ok  |^FAIL  [a-z_/0-9]+ +rank' "$OUT/device-$name.log" | tail -n "${STAGE_LINES:-45}"
  if [ $rc = 124 ] || [ $rc = 137 ]; then
    table+="$name: NOT FINISHED after $bound s; last: $(tail -n 1 "$OUT/device-$name.log")"$'\n'
    failed=1
  elif [ $rc = 77 ]; then
    table+="$name: $(tail -n 1 "$OUT/device-$name.log")"$'\n'
  else
    table+="$(grep -E '^FAIL  [a-z_/0-9]+ +(rank|did|a rank)|passed, ' "$OUT/device-$name.log" | sed "s/^/$name: /") ($((SECONDS - begin)) s)"$'\n'
    [ $rc = 0 ] || failed=1
  fi
}

# An error of a tool fails; a case of two ranks may time out where the tool serialises kernels.
sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "skipped: no compute-sanitizer"; return 77; }
  local bad=0 runs=0 tool name log errors
  while read -r tool name; do
    log=$OUT/device-sanitizer-$tool-${name//\//-}.log
    # The library asks the driver whether fabric handles work; the driver's no is not an error of ours.
    timeout -k 5 30 compute-sanitizer --tool "$tool" $([ "$tool" = memcheck ] && echo --report-api-errors no) $program --in-place "$name" >"$log" 2>&1 </dev/null
    errors=$(grep -hoE '(ERROR|RACECHECK) SUMMARY: [0-9]+' "$log" | awk '{sum += $3} END {print NR ? sum : "none"}')
    runs=$((runs + 1))
    echo "$tool $name: $errors errors, $(grep -oE '[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)"
    [ "$errors" = 0 ] || bad=$((bad + 1))
    case $name in *threads) ;; *) grep -q ' 0 failed' "$log" || bad=$((bad + 1)) ;; esac
  done <<'LIST'
memcheck put_signal/small
memcheck packets/small
memcheck barrier/small
memcheck put_signal/small_threads
memcheck packets/small_threads
memcheck barrier/small_threads
memcheck pieces/small_threads
racecheck tiles/small_threads
synccheck barrier/small
LIST
  echo "$((runs - bad)) passed, $bad failed under compute-sanitizer"
  [ $bad = 0 ]
}

# device/examples: each says "passed" or "FAILED" itself.
examples() {
  local bad=0 runs=0 name
  for name in example_01_put_signal example_02_tile_pipeline neighbour_sum.py; do
    case $name in
      *.py) python3 -c 'import torch' 2>/dev/null || { echo "$name left out: no PyTorch"; continue; }
        timeout 60 python3 device/examples/03_pytorch_ctypes/$name ;;
      *) timeout 30 build/dev/bin/$name ;;
    esac || { echo "$name FAILED"; bad=$((bad + 1)); }
    runs=$((runs + 1))
  done
  echo "$((runs - bad)) passed, $bad failed of the examples"
  [ $bad = 0 ]
}
export -f sanitize examples
export program

# Ranks that share a GPU under MPS share its hardware queues, too: four ranks with 32 each are more than it has.
few=CUDA_DEVICE_MAX_CONNECTIONS=$([ "$gpus" -gt 1 ] && echo 32 || echo 8)
for name in $stages; do
  case $name in
    function) stage function 130 env "$few" tests/gpu/with_mps $program "${cases[@]}" ;;
    shared) [ "$gpus" -gt 1 ] && CUDA_VISIBLE_DEVICES=0 stage shared 100 env CUDA_DEVICE_MAX_CONNECTIONS=8 tests/gpu/with_mps $program "${cases[@]}" ;;
    latency) stage latency 40 tests/gpu/with_mps $program --latency --rows "$OUT/device.jsonl" ;;
    sanitizer) stage sanitizer 75 bash -c sanitize ;;
    examples) stage examples 90 tests/gpu/with_mps bash -c examples ;;
    death) stage death 30 tests/gpu/with_mps $program --death ;;
  esac
done
echo "== table"
for name in $stages; do
  case $name in
    latency) grep -hE '^ {6}[a-z_/0-9]+:lat_us' "$OUT/device-$name.log" 2>/dev/null ;;
  esac
done
printf '%s' "$table"
exit $failed
