#!/bin/bash
# Second program of the guest, in the host's own userland: memory file systems, rails, then the job of vm.sh.
# It writes /out/log and /out/status (last, so that its presence means a result) and powers off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
# Not over /tmp, which is in memory like all that is written here: the tree may lie below it.
mount -t tmpfs none /run
mkdir -p /dev/shm /dev/pts
mount -t tmpfs none /dev/shm
mount -t devpts none /dev/pts
ln -sf /proc/self/fd /dev/fd
ulimit -l unlimited
ip link set lo up
. /out/job

finish() { echo "$1" > /out/status.new; mv /out/status.new /out/status; sync; busybox poweroff -f; }

(
    set -e
    . "$VM_GUEST_LIB"
    rails_create "$rails" "$mtu"
) > /out/log 2>&1 || { { dmesg | tail -n 20; cat /out/log; echo "guest: the rails could not be made"; } > /out/log.new; mv /out/log.new /out/log; finish 98; }

timeout -k 5 "$limit" "${command[@]}" >> /out/log 2>&1 < /dev/null
status=$?
[ $status = 124 ] && echo "guest: the command ran past $limit s" >> /out/log
dmesg > /out/dmesg
finish $status
