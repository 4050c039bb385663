#!/bin/bash
# The verbs transport over Soft-RoCE, in the guest: verbs_guest.sh FAKENCCL PLUGIN PART ...
#   traffic   the newest interface, both rails as one device
#   versions  all interface versions
#   loss      1 and 5 % of the packets lost on both rails
#   rail      a rail goes down under traffic: both sides end with an error, in time
#   killed    a rank is killed: the others end with an error
#   reload    unload and load again, calls after finalize
# Rank 0 uses the a ends of the rails, rank 1 the b ends, as two nodes would.
set -u
. "$VM_GUEST_LIB"
fakenccl=$1 plugin=$2
shift 2
if [ $# -gt 1 ]; then
    for part in "$@"; do
        echo "== $part"
        "$0" "$fakenccl" "$plugin" "$part" || exit
    done
    exit 0
fi
part=$1
export BRAID_SOCKET_IFNAME=lo
# Soft-RoCE takes a retry count of 7 as for ever: on a busy host the guest stands still for longer than any count lasts, and a peer that
# is gone shows on its TCP stream. Only the rail that dies is found by the count.
export BRAID_IB_RETRY_CNT=7 BRAID_IB_TIMEOUT=14

# On failure the reasons once more: the end of the output is what a reader of the test's log sees first.
play() {
    play_once "$@" 2>&1 | tee /tmp/play.log
    [ "${PIPESTATUS[0]}" = 0 ] && return
    echo "-- $part failed:"
    grep -aE "WARN|FAILED|WRONG|aborted|Sanitizer" /tmp/play.log | cut -c1-400 | tail -n 12
    return 1
}

play_once() {
    "$fakenccl" --plugin "$plugin" --ranks 2 --timeout 60 --log "${log:-warn}" \
        --env 0:BRAID_IB_HCA==rxe0a,rxe1a --env 1:BRAID_IB_HCA==rxe0b,rxe1b "$@"
}

sent() { echo $(($(rail_counter rxe${1}a sent_pkts) + $(rail_counter rxe${1}b sent_pkts))); }

case $part in
traffic)
    before0=$(sent 0) before1=$(sent 1)
    play --fuse 2 --max-bytes 1M \
        --scenario ring,group,group-zero,sizes,outstanding-group,poll-ll,oob,oversize,inflight,left || exit 1
    echo "packets: rail 0 $(($(sent 0) - before0)), rail 1 $(($(sent 1) - before1))"
    [ $(($(sent 1) - before1)) -gt 100 ] || { echo "rail 1 carried nothing"; exit 1; }
    ;;
versions)
    play --version all --scenario ring,group --max-bytes 256K
    ;;
loss)
    for percent in 1 5; do
        rail_loss 0 $percent
        rail_loss 1 $percent
        play --fuse 2 --scenario ring,group --max-bytes 256K || exit 1
        echo "lost $percent %: right"
    done
    ;;
rail)
    # The transfer must end with an error on both sides: fakenccl then fails, and both ranks say why.
    log=/tmp/rail.log
    export BRAID_IB_RETRY_CNT=6
    (log=info play_once --scenario ring --iterations 2000 --device 0 > /tmp/rail.log 2>&1; echo "status $?" >> /tmp/rail.log) &
    for ((i = 0; i < 150; i++)); do grep -q "queue pair" /tmp/rail.log 2> /dev/null && break; sleep 0.2; done
    sleep 1
    rail_down 0
    SECONDS=0
    wait
    grep -E "WARN|FAILED|status" /tmp/rail.log | cut -c1-400
    echo "ended after $SECONDS s"
    grep -q "status 1" /tmp/rail.log && [ $SECONDS -lt 30 ] || exit 1
    grep -q "rank 0.*WARN.*connection to peer\|rank 0.*WARN.*lost peer" /tmp/rail.log || { echo "rank 0 did not say why"; exit 1; }
    grep -q "rank 1.*WARN.*connection to peer\|rank 1.*WARN.*lost peer" /tmp/rail.log || { echo "rank 1 did not say why"; exit 1; }
    ;;
killed)
    "$fakenccl" --plugin "$plugin" --ranks 3 --timeout 60 --env 0:BRAID_IB_HCA==rxe0a --env 1:BRAID_IB_HCA==rxe0b \
        --env 2:BRAID_IB_HCA==rxe0a --scenario killed
    ;;
reload)
    play --scenario reload,context,finalize --max-bytes 64K
    ;;
*)
    echo "unknown part $part"
    exit 2
    ;;
esac
