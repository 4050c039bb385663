#!/usr/bin/env bash
# Collectives on the GPUs at hand, every part bounded and run whatever the one before did. Usage: run_collectives.sh [PART ...]
#   test   function, failures, graphs, copy engines with every SM held; ranks 2       (at most  80 s)
#   wrap   a part of it with epochs that begin just below the wrap; ranks 2           (at most  30 s)
#   many   a part of it with 4 ranks, several on a GPU                                (at most  30 s)
#   blocks copy and reduce blocks by SM count                                         (at most  20 s, two GPUs)
#   example  the fused operator of device/examples/04 from PyTorch                    (at most  40 s; not by default)
#   bench  against NCCL and PyTorch symmetric memory; the fused operator              (at most 120 s, two GPUs)
#   ends   bench of 256 bytes, 256 MiB and 512 MiB                                    (at most 150 s, two GPUs; not by default)
#   sanitize  a part of `test` under compute-sanitizer                               (at most  90 s; not by default)
#   sweep  methods by SM count, for the crossovers                                    (at most  60 s, two GPUs; not by default)
#   attempts  the choices of device/ops/attempts.h side by side, target `attempts`    (at most  60 s, two GPUs; not by default)
# TRY=NAME runs a part with the libbraid of an attempt (tests/gpu/attempts.cmake) instead of build/dev/lib's.
# Rows go to $OUT/collectives.jsonl, logs to $OUT/collectives-PART.log; the ends of the logs are shown last.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export OUT=${OUT:-$PWD/build/gpu-results} BIN=${BIN:-build/dev/bin}
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 CUDA_MODULE_LOADING=EAGER CUDA_DEVICE_MAX_CONNECTIONS=32 PYTHONUNBUFFERED=1
export LD_LIBRARY_PATH="$PWD/build/dev/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
mkdir -p "$OUT"
if [ -n "${TRY:-}" ]; then
  # by the name that programs ask for
  TRY_LIBRARY=$OUT/try/$(readlink build/dev/lib/libbraid.so) || exit 1
  mkdir -p "$OUT/try" && cp "build/dev/lib/attempts/lib$TRY.so" "$TRY_LIBRARY" || exit 1
  export LD_LIBRARY_PATH="$OUT/try:$LD_LIBRARY_PATH" TRY_LIBRARY
fi
parts=${*:-test wrap many blocks bench}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
case "${CUDA_VISIBLE_DEVICES-}" in "" | *,*) ;; *) gpus=$((gpus > 0)) ;; esac
[ "${gpus:-0}" -gt 0 ] || { echo "skipped: no GPU (nvidia-smi lists none)"; exit 77; }
[ -x "$BIN/gpu_collectives" ] || { echo "skipped: $BIN/gpu_collectives is not built (needs nvcc)"; exit 77; }
failed=0 summary=""

# part NAME BOUND GPUS COMMAND...
part()
{
  local name=$1 bound=$2 needs=$3 begin=$SECONDS rc
  shift 3
  [[ " $parts " == *" $name "* ]] || return 0
  if [ "$gpus" -lt "$needs" ]; then
    summary+="$name: skipped: needs $needs GPUs, found $gpus"$'\n'
    return 0
  fi
  timeout -k 5 "$bound" "$@" >"$OUT/collectives-$name.log" 2>&1 </dev/null
  rc=$?
  [ $rc = 0 ] || [ $rc = 77 ] || failed=1
  summary+="$name: exit code $rc after $((SECONDS - begin)) s"$'\n'
}

part test 80 1 "$BIN/gpu_collectives" --seconds 60
part wrap 30 1 "$BIN/gpu_collectives" --seconds 20 --epoch 0xfffffff0 sums copies
part many 30 1 "$BIN/gpu_collectives" --seconds 20 --ranks 4 sums copies
part blocks 20 2 "$BIN/gpu_copy_blocks"
part example 40 1 tests/gpu/with_mps python3 device/examples/04_all_reduce_rmsnorm/op.py
part bench 120 2 python3 tests/gpu/bench_collectives.py small large gather fused micro
part ends 150 2 python3 tests/gpu/bench_collectives.py ends
part sweep 60 2 python3 tests/gpu/bench_collectives.py sweep
part attempts 60 2 python3 tests/gpu/bench_attempts.py
part sanitize 90 1 compute-sanitizer --tool memcheck --error-exitcode 9 "$BIN/gpu_collectives" --seconds 60 --bound 60 sums copies
for name in $parts; do
  [ -e "$OUT/collectives-$name.log" ] || continue
  echo "---- $name"
  case $name in
    bench | ends | sweep | attempts) grep -E "VERIFY|rank [01]:|failed|Error" "$OUT/collectives-$name.log" | tail -n 12
      tail -n 45 "$OUT/collectives-$name.log" | cut -c 1-330 ;;
    *) tail -n "${PART_LINES:-28}" "$OUT/collectives-$name.log" | cut -c 1-240 ;;
  esac
done
printf -- '----\n%s' "$summary"
exit $failed
