#!/usr/bin/env bash
# Calibrates this machine with two ranks and judges the result on fresh communicators: NCCL alone, NCCL with Braid's tuner and the
# fresh profile, and the best forced candidate, interleaved in one run. Rows go to $OUT.
# Usage: run_calibrate.sh [nvlink|sockets ...]   nvlink needs two GPUs (about 3 minutes), sockets one (about 4 minutes, under MPS).
# Without an argument: what the machine can. MINUTES bounds one half (default 1.5), COMMS is the communicators of a half (default 5).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BRAID_BUILD:-${TUNER_BUILD:-build/dev}}
unset BRAID_BUILD # not a setting of Braid itself
export TUNER_BUILD=$build OUT=${OUT:-$PWD/build/gpu-results} BRAID_PROFILE_DIRS=$PWD/$build/share/braid/profiles
mkdir -p "$OUT"
[ -x "$build/bin/braid-tune" ] || { echo "skipped: $build/bin/braid-tune is not built"; exit 77; }
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
[ "${gpus:-0}" -gt 0 ] || { echo "skipped: no GPU (nvidia-smi lists none)"; exit 77; }
. tests/gpu/nccl_library.sh
export NCCL_NVLS_ENABLE=0 NCCL_DEBUG=${NCCL_DEBUG:-WARN}
export COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}

one() {
  local name=$1 bytes=$2 failed=0
  shift 2
  local common=(--ranks 2 --minutes "${MINUTES:-1.5}" --comms "${COMMS:-5}" --bytes "$bytes" --nccl "$NCCL_LIBRARY" "$@")
  echo "== $name: calibrate"
  "$build/bin/braid-tune" calibrate "${common[@]}" --sweep "$OUT/$name-a.sweep.csv" --out "$OUT/$name.profile" --name "$name" || failed=1
  echo "== $name: judge"
  [ $failed = 1 ] || "$build/bin/braid-tune" calibrate "${common[@]}" --sweep "$OUT/$name-b.sweep.csv" --judge "$OUT/$name.profile" || failed=1
  [ $failed = 1 ] || python3 tests/gpu/calibrate_eval.py "$build" "$name" "$OUT" || failed=1
  return $failed
}

run() {
  case $1 in
    nvlink) [ "$gpus" -ge 2 ] && one h200x2-nvlink-fresh 1K:64M ;;
    sockets) one h200x2-socket-fresh 1K:16M --fake-nodes ;;
    *) echo "unknown: $1"; return 2 ;;
  esac
}

if [ "${1:-}" = --inside ]; then shift; run "$@"; exit; fi
failed=0
for what in ${*:-$([ "$gpus" -ge 2 ] && echo nvlink) sockets}; do
  tests/gpu/with_mps "$0" --inside "$what" || failed=1
done
exit $failed
