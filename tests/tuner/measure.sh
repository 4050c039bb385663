#!/usr/bin/env bash
# Makes the tuner's rows under tests/results: regret on the sweeps, the public tables, call times. About a minute.
# usage: measure.sh [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build/dev}
day=$(date +%F)
python3 tests/tuner/eval_sweep.py "$build" --rows "tests/results/tuner_regret-$day.jsonl"
python3 tests/tuner/eval_public.py "$build" --rows "tests/results/tuner_public-$day.jsonl"
"$build/bin/tuner_call_time" "$build/lib/libnccl-tuner-braid.so" "$build/tests/profiles" "$(git rev-parse --short HEAD)" | tee "tests/results/tuner_call-$day.jsonl"
