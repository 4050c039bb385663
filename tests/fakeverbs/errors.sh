#!/bin/bash
# Peers that differ and things that go wrong, over the fake verbs library: what becomes of the traffic, and whether a person is told
# what to do. errors.sh FAKENCCL PLUGIN FAKEVERBS. Each case is a script of devices a rank and a pattern that must be in the log.
set -u
fakenccl=$1 plugin=$2
export BRAID_VERBS_LIBRARY=$3 BRAID_CONNECT_TIMEOUT_S=4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# script NAME: the rest of standard input is the script of that name.
script() { cat > "$scratch/$1"; }

# play RESULT RANK0 RANK1 PATTERN [fakenccl's arguments]: RESULT right or wrong; PATTERN must match the log ("" none).
play() {
    local want=$1 zero=$2 one=$3 pattern=$4 got=right
    shift 4
    timeout 90 "$fakenccl" --plugin "$plugin" --ranks 2 --timeout 15 --log info --scenario ring \
        --env 0:FAKEVERBS_NODE=1 --env 1:FAKEVERBS_NODE=2 --env 0:FAKEVERBS_SCRIPT="$scratch/$zero" \
        --env 1:FAKEVERBS_SCRIPT="$scratch/$one" "$@" > "$scratch/log" 2>&1 || got=wrong
    if [ $got != "$want" ]; then
        echo "$name: the traffic was $got" | tee -a "$scratch/failures"
    elif [ -n "$pattern" ] && ! grep -qE "$pattern" "$scratch/log"; then
        echo "$name: nobody said: $pattern" | tee -a "$scratch/failures"
    else
        echo "$name: passed"
        return
    fi
    { echo "$name failed:"; grep -E "WARN|FAILED" "$scratch/log" | cut -c1-300 | head -n 12; } | tee -a "$scratch/failures"
    failed=1
}

script roce << 'END'
device mlx5_0 link ethernet speed 100 subnet rail0
gid 0 v1 fe80::1%n
gid 1 v2 fe80::1%n
gid 3 v2 ::ffff:10.1.0.%n
END
script infiniband << 'END'
device mlx5_0 link infiniband speed 400 lid 7%n
gid 0 ib fe80::7%n
END
script none < /dev/null
script ipv6 << 'END'
device mlx5_0 link ethernet speed 100 subnet rail0
gid 5 v2 2001:db8::%n
END
script late << 'END'
# A container that shares the NIC: its entries come last, at other indices than on the peer.
device mlx5_0 link ethernet speed 100 subnet rail0
gid 14 v2 fe80::1%n
gid 17 v2 ::ffff:10.1.0.%n
END

name="RDMA here, none there: both take sockets"
play right roce none "over Socket"
name="RDMA here, none there, and sockets excluded: an error in time"
play wrong roce none "no common transport|no network|devices|transport" --env 0:BRAID_TRANSPORT=IB --env 1:BRAID_TRANSPORT=Socket
name="sockets named first: they are preferred"
play right roce roce "over Socket" --env 0:BRAID_TRANSPORT=Socket,IB --env 1:BRAID_TRANSPORT=socket,ib
name="a transport that does not exist: a warning lists those that do"
play right roce roce "\"verbz\" is no transport; there are: IB, Socket" --env 0:BRAID_TRANSPORT=verbz,IB --env 1:BRAID_TRANSPORT=IB
name="InfiniBand here, RoCE there: both take sockets"
play right infiniband roce "over Socket"
name="InfiniBand here, RoCE there, and sockets excluded: both name the difference"
play wrong infiniband roce "rank 0.*one is InfiniBand, the other Ethernet" --env 0:BRAID_TRANSPORT=IB --env 1:BRAID_TRANSPORT=IB
name="IPv4 here, IPv6 there, and sockets excluded: the difference is named"
play wrong roce ipv6 "no GIDs of the same RoCE version and address family" --env 0:BRAID_TRANSPORT=IB --env 1:BRAID_TRANSPORT=IB
name="GID tables that begin elsewhere: the right entries meet"
play right roce late "GID 3 to mlx5_0:1" --env 0:BRAID_TRANSPORT=IB --env 1:BRAID_TRANSPORT=IB
name="one queue pair here, four there: as many as both have"
play right roce roce "1 queue pair" --env 0:BRAID_TRANSPORT=IB --env 1:BRAID_TRANSPORT=IB --env 0:BRAID_IB_QPS=4
{ cat "$scratch/roce"; sed 's/mlx5_0/mlx5_1/; s/rail0/rail1/; s/10\.1\./10.2./; s/fe80::1/fe80::2/' "$scratch/roce"; } | script two
name="two rails here, one there: the one that both have"
play right two roce "IB" --env 0:BRAID_TRANSPORT=IB --env 1:BRAID_TRANSPORT=IB --fuse 2
name="two rails on both: a queue pair each"
play right two two "2 queue pairs" --env 0:BRAID_TRANSPORT=IB --env 1:BRAID_TRANSPORT=IB --fuse 2
name="a GID index that is empty: the port is left out, with the reason"
play right roce roce "mlx5_0:1 is not used: no GID fits" --env 0:BRAID_IB_GID_INDEX=9 --env 1:BRAID_IB_GID_INDEX=9

export BRAID_TRANSPORT=IB
broken() { { cat "$scratch/roce"; echo "$1"; } | script broken; }
name="registration without locked memory: the limit is quoted"
broken "fail ibv_reg_mr 12 ENOMEM"
(ulimit -l 8192 2> /dev/null; play wrong broken roce "RLIMIT_MEMLOCK of this process is [0-9]+ KiB"; exit $failed) || failed=1
name="no queue pair to be had: the limit is quoted"
broken "fail ibv_create_qp * ENOMEM"
play wrong broken roce "creating a queue pair on mlx5_0:1 failed.*RLIMIT_MEMLOCK"
name="no route to the peer: both GIDs and the advice"
broken "fail ibv_modify_qp_rtr * ETIMEDOUT"
play wrong broken roce "cannot reach.*RTR.*GID 3 10.1.0.[12], peer's GID 10.1.0.[12].*no route"
name="the kernel refuses the GID: the advice"
broken "fail ibv_modify_qp_rtr * ENODEV"
play wrong broken roce "RTR.*source GID does not fit"
name="retries exhausted (12, vendor 129): peer, port, GIDs and advice"
broken "status 60 RETRY_EXC_ERR 129"
play wrong broken roce "peer .*port mlx5_0:1, GID 10.1.0.1 to 10.1.0.2.*status 12, vendor code 0x81.*did not answer"
name="the peer's end hears of it"
play wrong broken roce "rank 1.*(the peer reports: a send on port mlx5_0:1|lost peer)"
name="remote access error (10, vendor 136): the advice"
broken "status 60 REM_ACCESS_ERR 136"
play wrong broken roce "status 10, vendor code 0x88.*refused the key"
name="local protection error (4): the advice"
broken "status 60 LOC_PROT_ERR 81"
play wrong broken roce "status 4, vendor code 0x51.*outside its registration"
name="the port goes down: said at once, and the connection says so"
broken "event 20 mlx5_0 port_err"
play wrong broken roce "rank 0.*port mlx5_0:1 went down"
# Which end's retries run out first, and on which of the two connections, is a matter of time; the other end may only see that one go.
play wrong broken roce "the port is down|rank [01].*the peer reports|rank 0.*lost peer"
name="a fatal error of the NIC"
broken "event 20 mlx5_0 device_fatal"
play wrong broken roce "NIC mlx5_0 reports a fatal error"
name="a NIC without relaxed ordering and ECE: nothing is lost"
{ sed 's/subnet rail0/subnet rail0 without relaxed/' "$scratch/roce"; echo "fail ibv_query_ece * EOPNOTSUPP"; } | script broken
play right broken roce ""
name="a GID that cannot be read: the others serve"
broken "fail ibv_query_gid_ex 4 EIO"
play right broken roce "GID 1"
[ $failed = 0 ] || { echo "-- what failed, once more:"; cat "$scratch/failures"; }
exit $failed
