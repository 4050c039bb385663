#!/bin/bash
# Packets a message on Soft-RoCE, from the port's own counters: packets_guest.sh DRIVER PLUGIN ... (driver: verbs_work).
# Both ends are queue pairs of one device, so the packets sent are those of both directions, acknowledgements included. The difference
# between a short and a long run leaves out what runs once. Prints one line a plugin and size.
set -eu
. "$VM_GUEST_LIB"
driver=$1
shift
export BRAID_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo BRAID_TRANSPORT=IB NCCL_IB_HCA==rxe0a NCCL_PLUGIN_P2P=ib
export NCCL_IB_RETRY_CNT=6 NCCL_IB_TIMEOUT=20 NCCL_IB_GID_INDEX=1
packets() {
    local before
    before=$(rail_counter rxe0a sent_pkts)
    "$driver" "$1" "$2" "$3" > /dev/null
    echo $(($(rail_counter rxe0a sent_pkts) - before))
}
for plugin in "$@"; do
    for size in 64 4096 1048576; do
        few=$([ $size -gt 65536 ] && echo 20 || echo 200)
        a=$(packets "$plugin" $size $few)
        b=$(packets "$plugin" $size $((few * 3)))
        echo "$(basename "$plugin") $size $(awk "BEGIN { printf \"%.3f\", ($b - $a) / ($few * 2) }")"
    done
done
