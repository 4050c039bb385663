#!/usr/bin/env bash
# What Braid sees of this machine, as a capture that becomes a fixture of tests/topo, and whether NCCL takes the topology file
# that Braid writes. Everything goes into $OUT/topo.tgz. About 20 s. Needs build/dev/bin/braid-info; the NCCL part needs PyTorch and is left out without.
set -u
OUT=${OUT:-build/gpu-results}
mkdir -p "$OUT"
all=$(mktemp -d)
trap 'tar -czf "$OUT/topo.tgz" -C "$all" . ; rm -rf "$all"' EXIT
info=build/dev/bin/braid-info
[ -x $info ] || { echo "build braid-info first"; exit 77; }
failed=0
check() { if [ "$2" = "$3" ]; then echo "ok    $1: $2"; else echo "FAIL  $1: Braid says $2, the other side $3"; failed=1; fi; }

$info topo --capture "$all/machine.capture" >"$all/topo_live.txt" || exit 1
$info topo --replay "$all/machine.capture" >"$all/topo_replay.txt" || exit 1
check "a replay shows the same machine" "$(sed 's/(live)//' "$all/topo_live.txt" | md5sum)" "$(sed 's/(capture)//' "$all/topo_replay.txt" | md5sum)"
$info topo --json >"$all/topo_live.json"
field() { python3 -c "import json,sys; print(json.load(open('$all/topo_live.json'))['summary'].get('$1', ''))"; }
check "GPUs" "$(field gpus_per_node)" "$(nvidia-smi -L | grep -c '^GPU')"
check "NVLinks a GPU" "$(field nvlinks_per_gpu)" "$(nvidia-smi nvlink -s -i 0 2>/dev/null | grep -c 'GB/s')"
command -v lstopo >/dev/null && lstopo --of xml -f --whole-io "$all/lstopo.xml" && $info topo --hwloc-xml "$all/lstopo.xml" >"$all/topo_hwloc.txt" &&
  { echo "-- hwloc alone:"; head -n 12 "$all/topo_hwloc.txt"; }
$info topo --time
$info topo --no-nvml --time

# One rank is enough for NCCL to read a topology file, complete it and dump what it made of it.
$info topo --write-nccl-xml "$all/topo_written.xml" >/dev/null
cat >"$all/one_rank.py" <<'PY'
import os, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29631", RANK="0", WORLD_SIZE="1")
torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
x = torch.ones(1024, device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
print("all_reduce", x.sum().item())
dist.destroy_process_group()
PY
if python3 -c 'import torch' 2>/dev/null; then
  NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV NCCL_TOPO_FILE="$all/topo_written.xml" NCCL_TOPO_DUMP_FILE="$all/nccl_dump.xml" \
    timeout 60 python3 "$all/one_rank.py" >"$all/topo_nccl.log" 2>&1
  check "NCCL runs with the written file" "$(grep -c 'all_reduce 1024' "$all/topo_nccl.log")" 1
  grep -iE 'topo.*file|xml' "$all/topo_nccl.log" | head -n 5
  [ -s "$all/nccl_dump.xml" ] && $info topo --nccl-xml "$all/nccl_dump.xml" && check "Braid reads NCCL's dump" "$?" 0
fi
echo "-- this machine:"
cat "$all/topo_live.txt"
exit $failed
