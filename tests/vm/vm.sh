#!/bin/bash
# Runs a command inside a QEMU guest that has a real verbs stack (Soft-RoCE).
#
#   vm.sh check                     say whether a guest can be run here (exit 0, or 77 and the reason)
#   vm.sh prepare                   download and unpack the kernel once, into the cache
#   vm.sh run [-t seconds] [-r rails] [-m mtu] [-o folder] -- command [argument ...]
#
# The guest sees the whole file system of the host, read-only below an overlay in memory, so a program and its
# .so files are found at the same paths as outside and nothing that the guest writes reaches the host, except
# what it writes to /out (the folder of -o). Each rail is a veth pair with one Soft-RoCE device an end:
# rxe0a and rxe0b are the ends of rail 0, rxe1a and rxe1b of rail 1. A command finds lib_guest.sh at
# $VM_GUEST_LIB (loss, dead rails, counters).
#
# Exit status: the command's own; 77 with a reason on the last line where no guest can be had; 99 when the
# emulator died three times without a result. Only the emulator (TCG) is used: /dev/kvm often opens on build
# machines and then does not work. Emulated CPUs say nothing about time.
#
# Environment: VM_CACHE (kernel and initramfs, default ~/.cache/braid/vm), VM_KERNEL_DEB (a kernel
# package to use instead of the newest that apt knows).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/braid/vm}
modules_for_boot="virtio_pci 9pnet_virtio 9p overlay"
tools_needed="qemu-system-x86_64 busybox depmod modprobe cpio xz rdma tc ibv_devices"

skip() { echo "skipped: $*"; exit 77; }

check_host() {
    local tool
    [ "$(uname -m)" = x86_64 ] || skip "the guest is x86_64 and this machine is $(uname -m)"
    [ "$(id -u)" = 0 ] || skip "the guest shares the host's files, which needs root"
    for tool in $tools_needed; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || skip "$tool is not installed"
    done
    case $(busybox --list 2>/dev/null) in *switch_root*) ;; *) skip "busybox-static is not installed" ;; esac
    ldd "$(command -v busybox)" >/dev/null 2>&1 && skip "busybox is not the static one (busybox-static)"
    [ -f "$cache/ready" ] || [ -n "${VM_KERNEL_DEB:-}" ] || [ -n "$(kernel_package)" ] ||
        skip "apt knows no linux-image-6.12-amd64 (Debian's kernel), and VM_KERNEL_DEB is not set"
}

# The newest 6.12 kernel that apt knows; its name changes with each security update.
kernel_package() {
    apt-cache depends linux-image-6.12-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }' || true
}

unpack_kernel() {
    local deb=${VM_KERNEL_DEB:-}
    if [ -z "$deb" ]; then
        local package
        package=$(kernel_package)
        (cd "$1" && apt-get download -qq "$package" >/dev/null 2>&1) || skip "apt could not download $package"
        deb=$(echo "$1/$package"_*.deb)
    fi
    dpkg -x "$deb" "$1/kernel"
    rm -f "$1"/*.deb
    depmod -b "$1/kernel" "$(ls "$1/kernel/lib/modules")"
}

# A small first file system: busybox, the modules that reach the host's files, and guest_init.sh as /init.
build_initramfs() {
    local root=$1/initramfs version file name
    version=$(ls "$1/kernel/lib/modules")
    mkdir -p "$root/bin" "$root/modules"
    cp "$(command -v busybox)" "$root/bin/busybox"
    install -m 755 "$here/guest_init.sh" "$root/init"
    modprobe -d "$1/kernel" -S "$version" --show-depends $modules_for_boot >/dev/null
    for name in $modules_for_boot; do
        modprobe -d "$1/kernel" -S "$version" --show-depends "$name"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
        name=$(basename "${file%.xz}")
        case $file in *.xz) xz -dc "$file" ;; *) cat "$file" ;; esac > "$root/modules/$name"
        echo "$name" >> "$root/modules/order"
    done
    (cd "$root" && find . -print0 | cpio --null -o -H newc --quiet | gzip -1) > "$1/initramfs.img"
    rm -rf "$root"
}

prepare() {
    check_host
    mkdir -p "$cache"
    exec 9> "$cache/lock"
    flock 9
    if [ ! -f "$cache/ready" ] || ! cmp -s "$here/guest_init.sh" "$cache/ready"; then
        rm -f "$cache/ready" "$cache/initramfs.img"
        [ -d "$cache/kernel/boot" ] || unpack_kernel "$cache"
        build_initramfs "$cache"
        cp "$here/guest_init.sh" "$cache/ready"
    fi
    flock -u 9
}

# One boot. The result is the file "status" in the shared folder; without it the emulator died.
boot() {
    local out=$1 limit=$2
    rm -f "$out/status"
    timeout -k 5 "$limit" qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max -smp 2 -m 2G \
        -nodefaults -no-reboot -display none -serial stdio \
        -kernel "$(echo "$cache"/kernel/boot/vmlinuz-*)" -initrd "$cache/initramfs.img" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr braid.kernel=$cache/kernel braid.main=$here/guest_main.sh" \
        -virtfs local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap \
        -virtfs local,path="$out",mount_tag=out,security_model=none \
        < /dev/null > "$out/console.log" 2>&1 || true
    [ -f "$out/status" ]
}

run() {
    local limit=180 rails=2 mtu=9000 out="" own_out="" attempt option
    while getopts t:r:m:o: option; do
        case $option in
        t) limit=$OPTARG ;;
        r) rails=$OPTARG ;;
        m) mtu=$OPTARG ;;
        o) out=$OPTARG ;;
        *) exit 2 ;;
        esac
    done
    shift $((OPTIND - 1))
    [ $# -gt 0 ] || { echo "usage: vm.sh run [options] -- command ..." >&2; exit 2; }
    prepare
    if [ -z "$out" ]; then
        out=$(mktemp -d /tmp/braid-vm.XXXXXX)
        own_out=$out
        trap 'rm -rf "$own_out"' EXIT
    fi
    out=$(cd "$out" && pwd)
    {
        printf 'rails=%q mtu=%q limit=%q\ncd %q\n' "$rails" "$mtu" "$limit" "$PWD"
        printf 'export VM_GUEST_LIB=%q\n' "$here/lib_guest.sh"
        printf 'command=('; printf '%q ' "$@"; printf ')\n'
    } > "$out/job"
    for attempt in 1 2 3; do
        if boot "$out" "$((limit + 60))"; then
            cat "$out/log" 2>/dev/null || true
            exit "$(cat "$out/status")"
        fi
        echo "vm.sh: the emulator gave no result (attempt $attempt); last console lines:" >&2
        tail -n 5 "$out/console.log" >&2
    done
    exit 99
}

export PATH=$PATH:/usr/sbin:/sbin
case ${1:-} in
check) check_host; echo "a guest can be run here" ;;
prepare) prepare ;;
run) shift; run "$@" ;;
*) echo "usage: vm.sh check | prepare | run [options] -- command ..." >&2; exit 2 ;;
esac
