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

# A killed writer leaves half a line, or a head without rows: both are gone on with.
sed -i '$d' b.csv; printf 'all_reduce,1024,ri' >>b.csv
tune calibrate --ranks 2 --comms 4 --bytes 1K:4M --sweep b.csv --out b.profile || fail "half a line"
grep -q "all_reduce,1024,ri$" b.csv && fail "half a line is still there"
grep '^#\|^coll' a.csv >head.csv
tune calibrate --ranks 2 --comms 1 --bytes 1M --sweep head.csv --out b.profile || fail "a head without rows"
tune fit head.csv --name 'two words' && fail "a name that no profile can have"
# Told to end: says that nothing is lost, exit code as of a signal.
FAKEGPU_SLOW_US=20000 "$build/bin/braid-tune" calibrate --ranks 2 --comms 50 --bytes 1K:4M --sweep s.csv --out s.profile >log 2>&1 &
pid=$!
for _ in $(seq 600); do grep -q ',nccl$' s.csv 2>/dev/null && break; sleep 0.1; done
kill -TERM $pid
rc=0; wait $pid || rc=$?
[ $rc = 143 ] || fail "exit code $rc after an interrupt"
grep -q "what was measured is kept" log || fail "an interrupt says nothing"
tune calibrate --ranks 2 --comms 1 --bytes 1K:4M --sweep s.csv --out s.profile || fail "going on after an interrupt"
# A place that cannot be written to is said before anything is measured.
tune calibrate --ranks 2 --comms 1 --bytes 1M --sweep w.csv --out nowhere/w.profile && fail "an output folder that is not there"
grep -q "no profile can be written to nowhere/" log && [ ! -e w.csv ] || fail "measured before it looked where to write"

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

tune calibrate --ranks 2 --bytes 1M --sweep g.csv --judge nothere && fail "judged by a profile that is not there"
grep -q "nothere.profile" log && [ ! -e g.csv ] || fail "measured before it looked for the profile to judge"
cp a.profile here.profile
tune calibrate --ranks 2 --comms 1 --bytes 1M --coll all_reduce --sweep e2.csv --judge here.profile || fail "a profile of this folder"
grep -q 'all_reduce,1048576,tree,simple,.*,braid' e2.csv || fail "judged by another profile than the one of this folder"
tune calibrate --ranks 2 --bytes 1M --sweep "$folder" --out g.profile && fail "took a folder as a sweep"
grep -q "Is a directory" log || fail "a folder as a sweep is not named"

# Wrong results, no GPU, too few ranks, another machine's sweep, a missing plugin name.
FAKEGPU_WRONG=1 tune calibrate --ranks 2 --comms 1 --bytes 1M --sweep f.csv --out f.profile && fail "wrong results accepted"
grep -q "wrong result" log || fail "wrong results not named"
FAKEGPU_OLD=1 tune calibrate --ranks 2 --sweep g.csv && fail "measured an NCCL that takes no tuner"
grep -q "NCCL did not ask its tuner" log || fail "an NCCL that takes no tuner is not named"
tune calibrate --ranks 2 --bytes 2,1K --sweep g.csv && fail "took a size that is too small for the ranks"
grep -q "at least 4 bytes" log || fail "a size that is too small is not named"
FAKEGPU_GPUS=0 tune calibrate --sweep g.csv && fail "ran without a GPU"
grep -q "no GPU" log || fail "no GPU not said"
FAKEGPU_GPUS=1 tune calibrate --sweep g.csv && fail "ran with one rank"
tune calibrate --ranks 2 --fake-nodes --bytes 1M --sweep a.csv && fail "took another machine's sweep"
grep -q "again starts over" log || fail "other machine not said"
FAKEGPU_GPUS=1 tune calibrate --ranks 2 --fake-nodes --comms 2 --bytes 1M --sweep h.csv --out h.profile || fail "two ranks on one GPU"

# Whose sockets they are is part of the key: Braid's network plugin is another transport than NCCL's own.
LD_PRELOAD=$build/lib/libnccl-net-braid.so tune calibrate --ranks 2 --fake-nodes --comms 1 --bytes 1M --sweep n.csv --out n.profile || fail "Braid's sockets"
grep -q "^# net braid-socket$" n.csv || fail "Braid's sockets are not told from NCCL's"
NCCL_NET=Socket LD_PRELOAD=$build/lib/libnccl-net-braid.so tune calibrate --ranks 2 --fake-nodes --comms 1 --bytes 1M --sweep o.csv --out o.profile || fail "NCCL's sockets"
grep -q "^# net socket$" o.csv || fail "NCCL_NET=Socket is not respected"

# Under a launcher: two processes find each other, by the variables of torchrun, mpirun or srun; that one shows each its own GPU only.
launch() { # NAME "VARIABLES OF RANK 0" "VARIABLES OF RANK 1"
  local port=$((20000 + RANDOM % 12000)) common=(calibrate --comms 1 --bytes 1M)
  # shellcheck disable=SC2086
  env MASTER_ADDR=127.0.0.1 MASTER_PORT=$port $3 "$build/bin/braid-tune" "${common[@]}" --sweep "$1-1.csv" >log1 2>&1 &
  # shellcheck disable=SC2086
  env MASTER_ADDR=127.0.0.1 MASTER_PORT=$port $2 "$build/bin/braid-tune" "${common[@]}" --sweep "$1.csv" --out "$1.profile" >log 2>&1 || fail "$1"
  wait
  [ ! -e "$1-1.csv" ] || fail "$1: rank 1 wrote a sweep"
}
launch torchrun "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0" "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1"
launch mpirun "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0" "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1"
launch srun "FAKEGPU_GPUS=1 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0" "FAKEGPU_GPUS=1 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1"

# Ranks that were told different things would hang or write past a buffer.
port=$((20000 + RANDOM % 12000))
MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 "$build/bin/braid-tune" calibrate --bytes 1M >log1 2>&1 &
MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 tune calibrate --bytes 1G --sweep r.csv --out r.profile && fail "ranks with other sizes"
wait $! && fail "a rank that was refused ends well"
grep -q "all need the same options" log || fail "ranks with other sizes are not named"
port=$((20000 + RANDOM % 12000))
MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 FAKEGPU_DIE=900 "$build/bin/braid-tune" calibrate --comms 2 --bytes 1K:1M >log1 2>&1 &
MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 tune calibrate --comms 2 --bytes 1K:1M --sweep r.csv --out r.profile && fail "a dead rank"
wait
grep -q "rank 1 is gone" log && grep -q "kept in r.csv" log || fail "a dead rank is not named, or what becomes of the rows"

# The check that runs on GPU machines, against the look-alike's log.
printf '#!/bin/sh\necho GPU 0: x; echo GPU 1: y\n' >nvidia-smi; chmod +x nvidia-smi
PATH=$folder:$PATH NCCL_LIBRARY=libnccl.so.2 BRAID_PROFILE_DIRS=$build/share/braid/profiles \
  python3 "$source/tests/gpu/tuner_check.py" "$build" "$folder" >log 2>&1 || fail "tuner_check.py"

# The end-to-end evaluation on the same look-alike.
(cd "$source" && PATH=$folder:$PATH OUT=$folder/e2e NCCL_LIBRARY=libnccl.so.2 BRAID_BUILD=$(realpath --relative-to="$source" "$build") COMMS=3 \
  tests/gpu/run_calibrate.sh sockets) >log 2>&1 || fail "run_calibrate.sh"
grep -q "^rows:" log || fail "run_calibrate.sh made no rows"

# Pictures, where matplotlib is there; otherwise it must say what is missing.
if python3 -c 'import matplotlib' 2>/dev/null; then
  tune plot a.csv --profile ./a.profile --out pic || fail "plot"
  [ -s pic.html ] && [ -s pic-all_reduce.png ] && [ -s pic-all_reduce.svg ] || fail "pictures are missing"
else
  tune plot a.csv && fail "plot without matplotlib"
  grep -q "needs matplotlib" log || fail "does not say that matplotlib is missing"
fi

# Default place, where jobs look: found by name, and by the machine's key without one, before a shipped profile that fits as well.
here="BRAID_PROFILE_DIRS=$folder/own:$build/share/braid/profiles"
BRAID_PROFILE_DIRS=$folder/own:$build/share/braid/profiles tune calibrate --ranks 2 --comms 3 --bytes 64K:1M --sweep j.csv || fail "default place"
[ -e own/f100x2-node.profile ] || fail "not written to the first profile folder"
[ "$(ls own)" = f100x2-node.profile ] || fail "other files than the profile were written: $(ls own)"
BRAID_PROFILE_DIRS=$folder/own tune explain --profile f100x2-node --ranks 2 --bytes 1M || fail "not found by name, or needs other files"
# A job finds it by what CUDA calls the GPU where nothing else shows one.
job() {
  rm -f job.log
  env "$here" NCCL_DEBUG=INFO NCCL_DEBUG_FILE="$folder/job.log" "$build/bin/braid-tune" exercise --tuner "$build/lib/libnccl-tuner-braid.so" --ranks 2 --bytes 1M >log 2>&1 || fail "a job"
}
job
grep -q "profile 'f100x2-node' .* for 2 ranks on 1 nodes" job.log || fail "a job does not pick the fresh profile up by CUDA's name"
export BRAID_TOPO="gpus:2 gpu:h200 nics:none"
env "$here" "$build/bin/braid-tune" calibrate --ranks 2 --comms 3 --bytes 64K:1M --sweep k.csv >log 2>&1 || fail "a known machine"
env "$here" "$build/bin/braid-tune" explain --machine live --coll all_reduce --bytes 1M >log 2>&1 || fail "explain by key"
grep -q "2 ranks, 1 node, profile h200x2-node$" log || fail "the fresh profile is not the one that explain takes"
job
grep -q "profile 'h200x2-node' .* for 2 ranks on 1 nodes" job.log || fail "a job does not pick the fresh profile up"
echo "calibrate: all right"
