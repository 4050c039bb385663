#!/usr/bin/env bash
# Calibrates this machine with two ranks and judges the result on fresh communicators: NCCL alone, NCCL with Braid's tuner and the
# fresh profile, and the best forced candidate, interleaved on each communicator. Rows go to $OUT.
# Usage: run_calibrate.sh [nvlink|sockets|braid ...]   nvlink needs two GPUs; sockets (NCCL's own) and braid (Braid's net plugin) take
# two GPUs, or one under MPS. Without an argument: nvlink where there are two GPUs, and sockets.
# MINUTES bounds each half (default 1.3), COMMS is the communicators of a half (default 8): about 130 s (nvlink) or 80 s (the others), at most 190.
# What was measured stays in $OUT, and the same command goes on with it.
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
unset BRAID_TUNER_PROFILE BRAID_SM_BUDGET BRAID_OVERLAP NCCL_ALGO NCCL_PROTO NCCL_TUNER_PLUGIN
export NCCL_NVLS_ENABLE=0 NCCL_DEBUG=${NCCL_DEBUG:-WARN} NCCL_NET_PLUGIN=none
export COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}

# A job of this machine takes the fresh profile by the machine's key, without being told.
picked_up() {
  local name=$1
  shift
  mkdir -p "$OUT/fresh" && cp "$OUT/$name.profile" "$OUT/fresh/" || return 1
  rm -f "$OUT/$name.job.log"
  BRAID_PROFILE_DIRS=$OUT/fresh:$BRAID_PROFILE_DIRS NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING NCCL_DEBUG_FILE="$OUT/$name.job.log" \
    "$build/bin/braid-tune" exercise --tuner "$PWD/$build/lib/libnccl-tuner-braid.so" --ranks 2 --bytes 1M --coll all_reduce --nccl "$NCCL_LIBRARY" "$@" >/dev/null
  if grep -q "tuner: profile '$name'" "$OUT/$name.job.log"; then
    echo "a job takes it by the machine's key: yes"
  else
    echo "FAILED: a job does not take $name by the machine's key: $(grep -m1 'tuner: ' "$OUT/$name.job.log")"
    return 1
  fi
}

# NAME NUMBER BYTES [OPTION ...]: NUMBER tells the files of rows of one day apart.
one() {
  local name=$1 number=$2 bytes=$3
  shift 3
  local common=(--ranks 2 --minutes "${MINUTES:-1.3}" --comms "${COMMS:-8}" --bytes "$bytes" --nccl "$NCCL_LIBRARY" "$@")
  echo "== $name: calibrate"
  "$build/bin/braid-tune" calibrate "${common[@]}" --sweep "$OUT/$name-a.sweep.csv" --out "$OUT/$name.profile" --name "$name" || return 1
  echo "== $name: judge"
  # What was judged by another profile, that of a run with less time, is not gone on with.
  local again=()
  cmp -s "$OUT/$name.profile" "$OUT/$name.judged" || again=(--again)
  cp "$OUT/$name.profile" "$OUT/$name.judged"
  "$build/bin/braid-tune" calibrate "${common[@]}" "${again[@]}" --sweep "$OUT/$name-b.sweep.csv" --judge "$OUT/$name.profile" || return 1
  python3 tests/gpu/calibrate_eval.py "$build" "$name" "$OUT" "$OUT/tuner_regret-$(date +%F)-$number.jsonl" || return 1
  local fake=()
  [[ " $* " != *" --fake-nodes "* ]] || fake=(--fake-nodes)
  rm -rf "$OUT/fresh"
  picked_up "$name" "${fake[@]}" || return 1
  # A picture needs matplotlib, which GPU machines often lack; `braid-tune plot` draws the same from the sweep later.
  python3 -c 'import matplotlib' 2>/dev/null || return 0
  "$build/bin/braid-tune" plot "$OUT/$name-a.sweep.csv" --profile "$OUT/$name.profile" --out "$OUT/$name"
}

run() {
  case $1 in
    nvlink) one h200x2-nvlink-fresh 21 1K:64M ;;
    sockets)
      export NCCL_NET=Socket NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo} NCCL_CUMEM_HOST_ENABLE=0
      one h200x2-socket-fresh 22 1K:16M --fake-nodes
      ;;
    braid)
      export NCCL_NET_PLUGIN=$PWD/$build/lib/libnccl-net-braid.so NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo} NCCL_CUMEM_HOST_ENABLE=0
      [ -e "$NCCL_NET_PLUGIN" ] || { echo "skipped: $NCCL_NET_PLUGIN is not built"; return 77; }
      one h200x2-braid-fresh 23 1K:16M --fake-nodes
      ;;
    *) echo "unknown: $1"; return 2 ;;
  esac
}

if [ "${1:-}" = --inside ]; then
  run "$2"
  exit
fi
failed=0 skipped=0 all=0
for what in ${*:-$([ "$gpus" -ge 2 ] && echo nvlink) sockets}; do
  all=$((all + 1))
  if [ "$what" = nvlink ] && [ "$gpus" -lt 2 ]; then
    echo "skipped: nvlink needs two GPUs, found $gpus"
    skipped=$((skipped + 1))
    continue
  fi
  tests/gpu/with_mps tests/gpu/run_calibrate.sh --inside "$what"
  rc=$?
  [ $rc = 77 ] && skipped=$((skipped + 1))
  [ $rc = 0 ] || [ $rc = 77 ] || failed=1
done
[ $skipped = $all ] && exit 77
exit $failed
