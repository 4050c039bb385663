#!/bin/bash
# braid-info net over the fake verbs library: what a person is told about each device, port and GID. info.sh BRAID_INFO FAKEVERBS
set -u
info=$1
export BRAID_VERBS_LIBRARY=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export FAKEVERBS_SCRIPT=$scratch/devices FAKEVERBS_FABRIC=$scratch/fabric
failed=0

cat > "$FAKEVERBS_SCRIPT" << 'END'
device mlx5_0 link ethernet speed 100
gid 0 v1 fe80::1
gid 1 v2 fe80::1
gid 3 v2 ::ffff:10.1.0.1
device mlx5_1 link infiniband speed 400 lid 7 with dmabuf
gid 0 ib fe80::7
device mlx5_2 link ethernet speed 100 state down
gid 3 v2 ::ffff:10.2.0.1
device rxe0 link ethernet speed 10 path /sys/devices/virtual/infiniband/rxe0
END

# says PATTERN [VARIABLE=value ...]: a line of braid-info net with these variables set.
says() {
    local pattern=$1
    shift
    [ $# = 0 ] && [ -s "$scratch/plain" ] || env "$@" "$info" net > "$scratch/log" 2>&1 || true
    if [ $# = 0 ]; then # one run serves all questions without settings
        [ -s "$scratch/plain" ] || cp "$scratch/log" "$scratch/plain"
        cp "$scratch/plain" "$scratch/log"
    fi
    grep -qE -- "$pattern" "$scratch/log" && return
    echo "with ${*:-no settings} nobody said: $pattern"
    sed -n '/^RDMA/,/^Settings/p' "$scratch/log"
    failed=1
}

says "mlx5_0: vendor 0x2c9 part 4129 firmware .*, at most [0-9]+ queue pairs, dma-buf no"
says "mlx5_1: .*dma-buf yes"
says "port 1: RoCE, active, 100000 Mbit/s, MTU 4096"
says "port 1: InfiniBand, active, .*, LID 7"
says "GID 3 +10.1.0.1 +RoCE v2 first choice"
says "GID 0 +fe80::1 +RoCE v1 offered"
says "not used: the port is not active"
says "not used: no GID fits"
says "rxe0: .*software: every record waits for its completion"
says "locked memory:"
says "peer memory .*:"
says "BRAID_IB_SL +3 +\(NCCL's variable\)" NCCL_IB_SL=3
says "BRAID_IB_TC +40 +\(BRAID\)" NCCL_IB_TC=3 BRAID_IB_TC=40
says "BRAID_IB_TIMEOUT +20 +\(default\)"
says "GID 3 +10.1.0.1 .*not offered: another index" BRAID_IB_GID_INDEX=1
says "GID 0 +fe80::1 +RoCE v1 not offered: another RoCE version" NCCL_IB_ROCE_VERSION_NUM=2
says "GID 1 +fe80::1 .*not offered: another address family" NCCL_IB_ADDR_FAMILY=AF_INET
says "GID 3 +10.1.0.1 .*not offered: outside the address range" NCCL_IB_ADDR_RANGE=10.9.0.0/16
says 'not used: BRAID_IB_HCA="=mlx5_1" leaves it out' NCCL_IB_HCA==mlx5_1
says "not used: BRAID_IB_DISABLE is set" NCCL_IB_DISABLE=1
says "not used: .*nothing.so" BRAID_VERBS_LIBRARY="$scratch/nothing.so"
: > "$scratch/empty"
says "no device: no kernel driver offers one" FAKEVERBS_SCRIPT="$scratch/empty"
[ $failed = 0 ] && echo passed
exit $failed
