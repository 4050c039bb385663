#!/bin/busybox sh
# First program of the guest. It loads the modules that reach the host's files over 9p, puts an overlay in
# memory above them, and becomes bash in that file system, running guest_main.sh. vm.sh packs it as /init.
b=/bin/busybox
setting() { $b sed -n "s/.*$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
give_up() { echo "guest_init: $*"; $b poweroff -f; }

$b mkdir -p /proc /sys /dev /lower /upper /merged
$b mount -t proc none /proc
$b mount -t sysfs none /sys
$b mount -t devtmpfs none /dev
while read -r module; do
    $b insmod "/modules/$module" || give_up "cannot load $module"
done < /modules/order

nine="trans=virtio,version=9p2000.L,msize=512000"
$b mount -t 9p -o "$nine,cache=loose,ro" hostroot /lower || give_up "cannot mount the host's files"
$b mount -t tmpfs none /upper
$b mkdir /upper/files /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work none /merged ||
    give_up "cannot mount the overlay"
# The modules of this kernel must be where request_module looks, or Soft-RoCE fails with "No such file".
$b mkdir -p /merged/lib/modules /merged/out /merged/proc /merged/sys /merged/dev /merged/run
$b mount --bind "/lower$(setting braid.kernel)/lib/modules" /merged/lib/modules
$b mount -t 9p -o "$nine" out /merged/out || give_up "cannot mount the result folder"
main=$(setting braid.main)
for folder in proc sys dev; do
    $b mount --move "/$folder" "/merged/$folder"
done
exec $b switch_root /merged /bin/bash "$main"
