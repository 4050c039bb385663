#!/usr/bin/env bash
# Real NCCL over Braid's sockets: checks every collective, then measures beside NCCL's own sockets. About 3.5 minutes.
# Usage: run_nccl_sockets.sh [check] [check-cuda] [bench] [sweep] [steps]  (check and bench without an argument; check-cuda hands GPU memory to the sockets; sweep tries settings, the table that SWEEP names: streams or channels of Braid's own, or nccl, variables of NCCL; steps shows where the time goes, about half a minute, also with the setting NAME=VALUE that STEPS_ALSO names). Rows go to $OUT (default build/gpu-results).
# BUILD names the build folder (default build/dev), NCCL_SOCKETS_LIBRARY the libnccl.so.2 to use.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BUILD:-build/dev}
export OUT=${OUT:-$PWD/build/gpu-results}
mkdir -p "$OUT"

command -v nvidia-smi >/dev/null || { echo "skipped: no GPU here (no nvidia-smi)"; exit 77; }
[ -x "$build/bin/nccl_sockets" ] || { echo "skipped: $build/bin/nccl_sockets is not built (needs nvcc)"; exit 77; }
[ -e "$build/lib/libnccl-net-braid.so" ] || { echo "skipped: $build/lib/libnccl-net-braid.so is not built"; exit 77; }

# The newest NCCL: of Python's packages first, then of the system.
if [ -z "${NCCL_SOCKETS_LIBRARY:-}" ]; then
  NCCL_SOCKETS_LIBRARY=$(python3 -c 'import importlib.util as u, pathlib as p
s = u.find_spec("nvidia.nccl")
print(next((str(f) for d in (s.submodule_search_locations if s else []) for f in p.Path(d).glob("lib/libnccl.so.2")), ""))' 2>/dev/null)
fi
[ -n "$NCCL_SOCKETS_LIBRARY" ] || NCCL_SOCKETS_LIBRARY=libnccl.so.2
export NCCL_SOCKETS_LIBRARY NCCL_NVLS_ENABLE=0
export COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}

# GPU memory handed to the socket transport: every collective again, and NCCL's log must say that it used it ("GDRDMA").
check_cuda() {
  local folder=$OUT/cuda used
  mkdir -p "$folder"
  rm -f "$folder"/nccl-*.log
  BRAID_SOCKET_CUDA=1 NCCL_NET_GDR_LEVEL=SYS NCCL_NET_GDR_READ=1 NCCL_PROTO=${NCCL_PROTO:-Simple} timeout -k 10 110 \
    tests/gpu/with_mps "$build/bin/nccl_sockets" check --plugin "$PWD/$build/lib/libnccl-net-braid.so" --folder "$folder" || return
  used=$(cat "$folder"/nccl-*.log | grep -c "via NET/Braid/.*GDRDMA")
  echo "check-cuda: NCCL's log has $used channel ends with GPU memory over Braid, $(cat "$folder"/nccl-*.log | grep "via NET/Braid" | grep -vc GDRDMA) without"
  [ "$used" -gt 0 ] || { grep -h "GDR\|GPU Direct" "$folder"/nccl-*.log | head; return 1; }
}

# A profiler plugin in NCCL: where the time of a transfer goes. The large files of the ranks are only read here.
steps() {
  local folder=$OUT/steps rc
  mkdir -p "$folder"
  rm -f "$folder"/steps* "$folder"/nccl-*.log
  timeout -k 10 100 tests/gpu/with_mps "$build/bin/nccl_sockets" steps --plugin "$PWD/$build/lib/libnccl-net-braid.so" \
    --folder "$folder" --max-bytes 67108864
  rc=$?
  [ $rc -eq 77 ] && return 77
  timeout -k 10 100 tests/gpu/nccl_steps.py "$folder" default best braid braid_s10 ${STEPS_ALSO:+braid_also} || rc=$?
  [ -n "${STEPS_KEEP:-}" ] || rm -f "$folder"/*.records
  return $rc
}

failed=0
for mode in ${*:-check bench}; do
  if [ "$mode" = check-cuda ]; then
    check_cuda
    rc=$?
    [ $rc -eq 77 ] && exit 77
    [ $rc -eq 0 ] || { echo "nccl_sockets check-cuda: exit code $rc"; failed=1; }
    continue
  fi
  if [ "$mode" = steps ]; then
    steps
    rc=$?
    [ $rc -eq 77 ] && exit 77
    [ $rc -eq 0 ] || { echo "nccl_sockets steps: exit code $rc"; failed=1; }
    continue
  fi
  # One GPU is shared under MPS, which with_mps starts in a folder of its own and always quits.
  timeout -k 10 "$([ "$mode" = check ] && echo 80 || echo 150)" tests/gpu/with_mps "$build/bin/nccl_sockets" "$mode" \
    --plugin "$PWD/$build/lib/libnccl-net-braid.so" --folder "$OUT" --seconds "${BENCH_SECONDS:-95}" --table "${SWEEP:-streams}"
  rc=$?
  [ $rc -eq 77 ] && exit 77
  [ $rc -eq 0 ] || { echo "nccl_sockets $mode: exit code $rc"; failed=1; }
done
exit $failed
