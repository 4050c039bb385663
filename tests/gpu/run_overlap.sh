#!/usr/bin/env bash
# Fused products on GPUs: correctness, settings found and kept, the 18 boundaries with the four-way measurement.
# Usage: run_overlap.sh [check|tune|table|torch|example ...]   without an argument: check tune table torch
#   check    numbers, replay, skew, late and absent rank (two ranks; one GPU is shared under MPS)   about 15 s
#   tune     searches settings for the 18 boundaries, profile to $OUT/overlap.profile              about 80 s, two GPUs
#   table    the 18 boundaries with that profile (else the model), rows to $OUT                    about 10 s, two GPUs
#   torch    the same beside PyTorch's async tensor parallelism and plain cuBLAS + copy engine     about 120 s, two GPUs
#   example  the tensor-parallel MLP from PyTorch                                                  about 40 s
# Each part is bounded and goes on after a failure of another. BRAID_BUILD names the build folder (default build/dev).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BRAID_BUILD:-build/dev}
export OUT=${OUT:-$PWD/build/gpu-results}
mkdir -p "$OUT"
tool=$build/bin/braid-overlap

gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
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
export CUDA_DEVICE_MAX_CONNECTIONS=32 NCCL_DEBUG=${NCCL_DEBUG:-WARN}
export COMMIT=${COMMIT:-${BRAID_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}}
unset BRAID_COMMIT BRAID_BUILD # no settings of the library
profile=$OUT/overlap.profile
rows=$OUT/overlap-$(date -u +%Y-%m-%d).jsonl

two_gpus() {
  [ "$gpus" -ge 2 ] && return 0
  echo "skipped: $1 needs two GPUs, found $gpus"
  return 1
}

part() { # NAME BOUND COMMAND...
  local name=$1 bound=$2 begin=$SECONDS rc
  shift 2
  echo "== overlap $name (at most $bound s)"
  timeout -k 10 "$bound" "$@" 2>&1 | tee "$OUT/overlap-$name.log" | tail -n "${PART_LINES:-70}"
  rc=${PIPESTATUS[0]}
  summary+="overlap $name: $([ $rc -eq 0 ] && echo passed || echo "FAILED with exit code $rc") ($((SECONDS - begin)) s)"$'\n'
  [ $rc -eq 0 ] || failed=1
}

failed=0 summary=""
[ $# -gt 0 ] || set -- check tune table torch
for name in "$@"; do
  case $name in
    check) part check 45 tests/gpu/with_mps "$tool" --check --timeout 1 --ranks 2 ;;
    tune) two_gpus tune && part tune ${TUNE_BOUND:-150} "$tool" --tune --resume --profile "$profile" --rounds 7 --quiet --commit "$COMMIT" \
      --json "$OUT/overlap-tune.jsonl" ;;
    table) two_gpus table && part table 60 "$tool" --profile "$profile" --quiet --json "$rows" --commit "$COMMIT" ;;
    torch) two_gpus torch && BRAID_OVERLAP_PROFILE=$profile part torch ${TORCH_BOUND:-150} python3 tests/gpu/torch/overlap.py "$rows" ;;
    example) part example 60 tests/gpu/with_mps python3 device/examples/05_tp_mlp/main.py ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
printf '%s' "$summary"
exit $failed
