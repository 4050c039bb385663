#!/usr/bin/env bash
# braid-tune calibrate from end to end on a look-alike of CUDA and NCCL: measures, fits, resumes, refuses.
# usage: calibrate_test.sh BUILD_FOLDER
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")
folder=$(mktemp -d)
trap "[ -n \"\${KEEP:-}\" ] || rm -rf \"$folder\"" EXIT
ln -s "$build/fakegpu/libfakegpu.so" "$folder/libcuda.so.1"
ln -s "$build/fakegpu/libfakegpu.so" "$folder/libnccl.so.2"
export LD_LIBRARY_PATH=$folder
unset RANK WORLD_SIZE LOCAL_RANK
cd "$folder"
fail() { echo "FAILED: $*"; cat log 2>/dev/null; exit 1; }
tune() { "$build/bin/braid-tune" "$@" >log 2>&1; }

# A whole run: the fitted profile must find the tree that this NCCL leaves out, and know its rates.
tune calibrate --ranks 2 --comms 4 --bytes 1K:4M --sweep a.csv --out a.profile --name a || fail "calibrate"
grep -q "^written: a.profile" log || fail "no profile"
grep -Eq "all_reduce +1048576 .* real +tree/simple" log || fail "the better choice at 1 MiB was not found"
tune explain --profile ./a.profile --ranks 2 --coll all_reduce --bytes 1M --format csv || fail "explain"
cells=$(cut -d, -f1,2,7 a.csv | grep -v '^#' | sort -u | grep -vc coll)
[ "$cells" = 84 ] || fail "$cells cells instead of 3 collectives x 7 sizes x 4 communicators"

# Interrupted: the second rank dies, rows so far stay, the next run goes on and measures each cell once.
FAKEGPU_DIE=1500 tune calibrate --ranks 2 --comms 4 --bytes 1K:4M --sweep b.csv --out b.profile && fail "a dead rank was not noticed"
before=$(wc -l <b.csv)
[ "$before" -gt 20 ] || fail "nothing was kept of the interrupted run"
tune calibrate --ranks 2 --comms 4 --bytes 1K:4M --sweep b.csv --out b.profile || fail "resume"
grep -q "going on with" log || fail "did not resume"
[ "$(sort b.csv | grep -c ',nccl$')" = 84 ] || fail "cells were measured twice or lost"

# No time: says so, keeps what there is, and does not pretend.
tune calibrate --ranks 2 --comms 4000 --minutes 0.01 --bytes 1K:16M --sweep c.csv --out c.profile && fail "4000 communicators accepted"
tune calibrate --ranks 2 --comms 900 --minutes 0.01 --bytes 1K:16M --sweep c.csv --out c.profile || fail "out of time"
grep -q "The time is over" log || fail "did not say that time was over"

# One communicator cannot tell gain from noise: the profile changes nothing.
tune calibrate --ranks 2 --comms 1 --bytes 64K:1M --coll broadcast --sweep d.csv --out d.profile || fail "one communicator"
grep -q "Too few repeats" log || fail "concluded from one communicator"
grep -q "^trust 0\|^# trust" d.profile || ! grep -q "^trust 1" d.profile || fail "trusts one communicator"

# Judging: Braid's choice is measured through the plugin.
tune calibrate --ranks 2 --comms 2 --bytes 1M --coll all_reduce --sweep e.csv --judge "$folder/a.profile" || fail "judge"
[ "$(grep -c ',braid$' e.csv)" = 2 ] || fail "Braid's choice was not measured"
grep -q 'all_reduce,1048576,tree,simple,.*,braid' e.csv || fail "the tuner's choice did not take effect"

# Wrong results, no GPU, too few ranks, another machine's sweep, a missing plugin name.
FAKEGPU_WRONG=1 tune calibrate --ranks 2 --comms 1 --bytes 1M --sweep f.csv --out f.profile && fail "wrong results accepted"
grep -q "wrong result" log || fail "wrong results not named"
FAKEGPU_GPUS=0 tune calibrate --sweep g.csv && fail "ran without a GPU"
grep -q "no GPU" log || fail "no GPU not said"
FAKEGPU_GPUS=1 tune calibrate --sweep g.csv && fail "ran with one rank"
tune calibrate --ranks 2 --fake-nodes --bytes 1M --sweep a.csv && fail "took another machine's sweep"
grep -q "again starts over" log || fail "other machine not said"
FAKEGPU_GPUS=1 tune calibrate --ranks 2 --fake-nodes --comms 2 --bytes 1M --sweep h.csv --out h.profile || fail "two ranks on one GPU"

# Under a launcher: two processes find each other.
(RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)) "$build/bin/braid-tune" calibrate --comms 1 --bytes 1M --sweep x.csv >log1 2>&1) &
RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000)) tune calibrate --comms 1 --bytes 1M --sweep i.csv --out i.profile || fail "launcher"
wait
[ ! -e x.csv ] || fail "rank 1 wrote a sweep"

# The check that runs on GPU machines, against the look-alike's log.
printf '#!/bin/sh\necho GPU 0: x; echo GPU 1: y\n' >nvidia-smi; chmod +x nvidia-smi
PATH=$folder:$PATH NCCL_LIBRARY=libnccl.so.2 BRAID_PROFILE_DIRS=$build/share/braid/profiles \
  python3 "$source/tests/gpu/tuner_check.py" "$build" "$folder" >log 2>&1 || fail "tuner_check.py"

# The end-to-end evaluation on the same look-alike.
(cd "$source" && PATH=$folder:$PATH OUT=$folder/e2e NCCL_LIBRARY=libnccl.so.2 BRAID_BUILD=$(realpath --relative-to="$source" "$build") COMMS=3 \
  tests/gpu/run_calibrate.sh sockets) >log 2>&1 || fail "run_calibrate.sh"
grep -q "^rows:" log || fail "run_calibrate.sh made no rows"

# Pictures, where matplotlib is there; otherwise it must say what is missing.
cp "$build"/share/braid/profiles/{nccl.facts,generic.profile} .
if python3 -c 'import matplotlib' 2>/dev/null; then
  tune plot a.csv --profile ./a.profile --out pic || fail "plot"
  [ -s pic.html ] && [ -s pic-all_reduce.png ] && [ -s pic-all_reduce.svg ] || fail "pictures are missing"
else
  tune plot a.csv && fail "plot without matplotlib"
  grep -q "needs matplotlib" log || fail "does not say that matplotlib is missing"
fi

# Default place: where jobs look.
BRAID_PROFILE_DIRS=$folder/own tune calibrate --ranks 2 --comms 3 --bytes 64K:1M --sweep j.csv || fail "default place"
[ -e own/f100x2-node.profile ] || fail "not written to the first profile folder"
BRAID_PROFILE_DIRS=$folder/own tune explain --profile f100x2-node --ranks 2 --bytes 1M || fail "not found by name"
echo "calibrate: all right"
