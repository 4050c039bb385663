#!/usr/bin/env bash
# GEMMs beside an all-reduce under NCCL's default, BRAID_OVERLAP=1 and budgets of 1 to 24 channels. Two GPUs over NVLink, about 40 s.
# Usage: run_budget.sh [PROFILE], a name or a file; without one, the profile that ships for two H200.
# Rows and table go to $OUT; tests/gpu/plot_rows.py draws the rows.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${BRAID_BUILD:-build/dev}
unset BRAID_BUILD # not a setting of Braid itself
export OUT=${OUT:-$PWD/build/gpu-results} BRAID_PROFILE_DIRS=$PWD/$build/share/braid/profiles
mkdir -p "$OUT"
[ -x "$build/bin/braid-tune" ] || { echo "skipped: $build/bin/braid-tune is not built"; exit 77; }
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
[ "${gpus:-0}" -ge 2 ] || { echo "skipped: needs two GPUs, found ${gpus:-0}"; exit 77; }
python3 -c 'import torch' 2>/dev/null || { echo "skipped: no PyTorch"; exit 77; }
export COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
exec python3 tests/gpu/budget_step.py "$build" "$OUT" "$@"
