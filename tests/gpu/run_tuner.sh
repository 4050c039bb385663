#!/usr/bin/env bash
# Real NCCL under Braid's tuner with two ranks: its choices take effect (NCCL's TUNING log), results are right. About 80 s.
# Two GPUs: over NVLink. One GPU: two ranks as two nodes over sockets, under MPS. BRAID_BUILD names the build folder.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BRAID_BUILD:-build/dev}
unset BRAID_BUILD # not a setting of Braid itself
export OUT=${OUT:-$PWD/build/gpu-results}
mkdir -p "$OUT"
[ -x "$build/bin/braid-tune" ] || { echo "skipped: $build/bin/braid-tune is not built"; exit 77; }
. tests/gpu/nccl_library.sh
exec tests/gpu/with_mps python3 tests/gpu/tuner_check.py "$build" "$OUT"
