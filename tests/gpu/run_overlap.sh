#!/usr/bin/env bash
# Fused products on GPUs: correctness, settings found and kept, the 18 boundaries with the four-way measurement.
# Usage: run_overlap.sh [check|table|tune|torch|example ...]   without an argument: check table tune torch
#   check    numbers, replay, skew, late and absent rank (two ranks; one GPU is shared under MPS)   about 15 s
#   table    the 18 boundaries with the default choice: $OUT/overlap.profile, else the library's      about 10 s, two GPUs
#   tune     searches settings for the 18 boundaries, profile to $OUT/overlap.profile              about 60 s, two GPUs
#   torch    the same beside PyTorch's async tensor parallelism and plain cuBLAS + copy engine     about 30 s, two GPUs
#   example  the tensor-parallel MLP from PyTorch                                                  about 30 s
# Each part is bounded and goes on after a failure of another. Rows go to $OUT/overlap-PART.jsonl, logs to $OUT/overlap-PART.log. tune and
# torch leave out what they have done before in the same $OUT. BRAID_BUILD names the build folder (default build/dev).
# What was found ships with `tools/braid-overlap/ship $OUT/overlap.profile`.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
build=${BRAID_BUILD:-build/dev}
export OUT=${OUT:-$PWD/build/gpu-results}
mkdir -p "$OUT"
tool=$build/bin/braid-overlap

gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
case "${CUDA_VISIBLE_DEVICES-}" in "" | *,*) ;; *) gpus=$((gpus > 0)) ;; esac
[ "${gpus:-0}" -gt 0 ] || { echo "skipped: no GPU here (nvidia-smi lists none)"; exit 77; }
[ -x "$tool" ] || { echo "skipped: $tool is not built (needs nvcc)"; exit 77; }

# NCCL and cuBLASLt of PyTorch's packages first, so that the tool and PyTorch are compared on the same libraries.
for part in nccl cu13 cublas; do
  for folder in $(python3 -c 'import importlib.util as u, sys
s = u.find_spec("nvidia")
for d in (s.submodule_search_locations if s else []): print(d + "/" + sys.argv[1] + "/lib")' $part 2>/dev/null); do
    [ -d "$folder" ] && LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  done
done
export LD_LIBRARY_PATH=$PWD/$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export CUDA_DEVICE_MAX_CONNECTIONS=32 PYTHONUNBUFFERED=1 NCCL_DEBUG=${NCCL_DEBUG:-WARN}
export COMMIT=${COMMIT:-${BRAID_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}}
unset BRAID_COMMIT BRAID_BUILD # no settings of the library
profile=$OUT/overlap.profile

two_gpus() {
  [ "$gpus" -ge 2 ] && return 0
  reason="skipped: $1 needs two GPUs, found $gpus"
  echo "$reason"
  return 1
}

part() { # NAME BOUND LINES COMMAND...
  local name=$1 bound=$2 lines=$3 begin=$SECONDS rc
  shift 3
  echo "== overlap $name (at most $bound s)"
  timeout -k 10 "$bound" "$@" >"$OUT/overlap-$name.log" 2>&1 </dev/null
  rc=$?
  tail -n "$lines" "$OUT/overlap-$name.log" | cut -c 1-240
  case $rc in
    0) rc=passed ran=1 ;;
    77) rc=$(tail -n 1 "$OUT/overlap-$name.log") reason=$rc ;;
    124 | 137) rc="FAILED: not finished after $bound s" failed=1 ran=1 ;;
    *) rc="FAILED with exit code $rc" failed=1 ran=1 ;;
  esac
  summary+="overlap $name: $rc ($((SECONDS - begin)) s)"$'\n'
}

failed=0 ran=0 reason="" summary=""
[ $# -gt 0 ] || set -- check table tune torch
for name in "$@"; do
  case $name in
    check) part check 100 12 tests/gpu/with_mps "$tool" --check --timeout 1 --ranks 2
      grep -h '^FAIL' "$OUT/overlap-check.log" ;;
    table) two_gpus table && part table 60 50 "$tool" --profile "$profile" --quiet --json "$OUT/overlap-table.jsonl" --commit "$COMMIT" ;;
    tune) two_gpus tune && part tune "${TUNE_BOUND:-200}" 110 "$tool" --tune --resume --profile "$profile" --rounds 7 --quiet \
      --json "$OUT/overlap-tune.jsonl" --commit "$COMMIT" ;;
    torch) two_gpus torch && BRAID_OVERLAP_PROFILE=$profile part torch "${TORCH_BOUND:-200}" 30 tests/gpu/with_torch tests/gpu/torch/overlap.py \
      "$OUT/overlap-torch.jsonl" ;;
    example) part example 60 12 tests/gpu/with_torch device/examples/05_tp_mlp/main.py ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
printf '%s' "$summary"
[ $ran = 1 ] || { echo "$reason"; exit 77; }
exit $failed
