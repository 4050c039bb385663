#!/usr/bin/env bash
# Plays fakenccl between two network namespaces joined by a virtual cable, which to a plugin are two hosts. Needs root.
# Usage: netns.sh FAKENCCL PLUGIN CASE
#   ipv4, ipv6    traffic over that family alone
#   shaped        200 Mbit/s in each direction
#   lossy         one packet in a hundred is lost
#   rails         two cables of 400 Mbit/s, one device over both: each carries its part
#   rails_unequal as rails, one of 100 Mbit/s: each carries the part that its rate allows
#   rails_near    as rails, both in one subnet
#   blackhole     a second cable; the first, which both sides name first, swallows everything: they meet over the second
#   rails_cut     as rails, unequal, and one cable is cut in the middle of a transfer: both sides report within their own bound
#   neighbours    a second cable in the subnet of the first, which the routes prefer: all goes over the second, which alone is to be used
#   bound         a second cable, which alone is to be used although the routes name the first; on a listening port of our choice
#   flows         every TCP stream gets 400 Mbit/s and no more: measurement must come to several streams
#   link          the cable gets 400 Mbit/s: measurement must stay with few
#   reasons       interfaces of many kinds: each that is not used is named at INFO with its reason; what is wrong with a setting is said
#   unplugged     the cable is cut in the middle of a transfer: both sides report within their own bound
set -u
play=$1 plugin=$2 case=$3
tag=braid$$
a=$tag-a b=$tag-b

skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "ip (iproute2) is not installed"
log=$(mktemp)
cleanup() { rm -f "$log"; ip netns del "$a" 2>/dev/null; ip netns del "$b" 2>/dev/null; }
trap cleanup EXIT
ip netns add "$a" 2>/dev/null && ip netns add "$b" || skip "this machine does not allow network namespaces"
ip link add bn0 netns "$a" type veth peer name bn0 netns "$b" || skip "this kernel has no virtual Ethernet"
for end in "$a:1" "$b:2"; do
  ns=${end%:*} number=${end#*:}
  ip -n "$ns" link set lo up
  ip -n "$ns" link set bn0 up
  [ "$case" = ipv6 ] || ip -n "$ns" addr add "10.77.0.$number/24" dev bn0
  [ "$case" != ipv6 ] || ip -n "$ns" addr add "fd77::$number/64" dev bn0 nodad
done

plugged() { # CABLE: the kernel says so somewhat later, on a busy machine; one without a carrier is not used
  for ns in "$a" "$b"; do
    for _ in $(seq 100); do
      ip -n "$ns" -o link show dev "$1" | grep -q "state UP" && break
      sleep 0.1
    done
  done
}
plugged bn0

traffic() { "$play" --plugin "$plugin" --netns "$a,$b" --timeout 30 --scenario "$@"; }
discipline() { # for both ends
  for ns in "$a" "$b"; do
    tc -n "$ns" qdisc add dev bn0 root "$@" 2>/dev/null || skip "this kernel has no $1 queue"
  done
}
second_cable() {
  ip link add bn1 netns "$a" type veth peer name bn1 netns "$b"
  for end in "$a:1" "$b:2"; do
    ip -n "${end%:*}" link set bn1 up
    ip -n "${end%:*}" addr add "10.78.0.${end#*:}/24" dev bn1
  done
  plugged bn1
}
second_cable_beside() { # in the subnet of the first, which the routes prefer
  ip link add bn1 netns "$a" type veth peer name bn1 netns "$b"
  for end in "$a:1" "$b:2"; do
    ns=${end%:*}
    ip -n "$ns" link set bn1 up
    ip -n "$ns" addr add "10.77.0.1${end#*:}/24" dev bn1
    ip netns exec "$ns" sh -c 'echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter' >/dev/null
  done
  plugged bn1
}
shape() { # CABLE RATE
  for ns in "$a" "$b"; do
    tc -n "$ns" qdisc add dev "$1" root tbf rate "$2" burst 256kb latency 100ms 2>/dev/null || skip "this kernel has no tbf queue"
  done
}
blackhole() {
  second_cable
  ip -n "$a" neigh replace 10.77.0.2 lladdr 02:00:00:00:00:99 dev bn0 # a card that is not there
  ip -n "$b" neigh replace 10.77.0.1 lladdr 02:00:00:00:00:99 dev bn0
  traffic ring,zero --ranks 2 --log info >"$log" 2>&1
  rc=$?
  grep "no way to\|connected device\|right" "$log" | tail -8
  [ $rc = 0 ] && grep -q "no way to.*by bn0" "$log"
}
sent() { ip netns exec "$a" cat "/sys/class/net/$1/statistics/tx_bytes"; } # CABLE
both_carry() {
  shape bn0 400mbit
  shape bn1 400mbit
  for try in 1 2 3; do # on a busy machine the processor's turns may decide
    before=$(sent bn0) before1=$(sent bn1)
    BRAID_SOCKET_RAILS=1 traffic ring,alltoall --ranks 2 --max-bytes 4M --iterations 8 || return 1
    first=$(($(sent bn0) - before)) second=$(($(sent bn1) - before1))
    echo "bytes sent: $first over bn0, $second over bn1"
    [ $((second * 4)) -gt "$first" ] && [ $((first * 4)) -gt "$second" ] && return 0
  done
  return 1
}
rails() {
  second_cable
  both_carry
}
rails_unequal() {
  second_cable
  shape bn0 400mbit
  shape bn1 100mbit
  # 3 times: at first nothing is known of the cables, and this machine may be busy.
  for try in 1 2 3; do
    before=$(sent bn0) before1=$(sent bn1)
    BRAID_SOCKET_RAILS=1 traffic bulk --max-bytes 4M --iterations 2 --ranks 2 || return 1
    first=$(($(sent bn0) - before)) second=$(($(sent bn1) - before1))
    echo "bytes sent: $first over bn0, $second over bn1"
    [ "$first" -gt $((second * 2)) ] && [ $((second * 12)) -gt "$first" ] && return 0
  done
  return 1
}
rails_near() {
  second_cable_beside
  both_carry
}
rails_cut() {
  second_cable
  shape bn0 400mbit
  shape bn1 200mbit
  # Not before both connections have a stream over the cable: without one, its loss is nobody's error.
  cat >"$log" <<END
for try in \$(seq 200); do
  [ "\$(ip netns exec $a ss -Hnt state established src 10.78.0.1 | wc -l)" -ge 2 ] && break
  sleep 0.1
done
sleep 0.3
ip -n $a link set bn1 down
END
  BRAID_SOCKET_RAILS=1 BRAID_PEER_TIMEOUT_S=3 traffic hook --hook "sh $log"
}
# Bulk, N times 64 MiB each way, and what was decided about its streams.
decisions() { # N
  traffic bulk --max-bytes 4M --iterations "$1" --log info >"$log" 2>&1
  rc=$?
  grep "by measurement:\|right" "$log" | sed 's/.*braid: //'
  [ $rc = 0 ]
}
flows() { # a class for each source port that the connecting side may get
  ip netns exec "$a" sh -c 'echo 32768 32799 >/proc/sys/net/ipv4/ip_local_port_range' || skip "the range of ports cannot be set"
  tc -n "$a" qdisc add dev bn0 root handle 1: htb 2>/dev/null || skip "this kernel has no htb queue"
  for ((port = 0; port < 32; port++)); do
    tc -n "$a" class add dev bn0 parent 1: classid 1:$((port + 1)) htb rate 400mbit burst 256k quantum 200000 &&
      tc -n "$a" filter add dev bn0 parent 1: protocol ip prio 1 u32 match ip sport $port 0x1f flowid 1:$((port + 1)) 2>/dev/null ||
      skip "this kernel does not sort packets by port"
  done
  for try in 1 2 3; do # each process measures again, and this machine may be busy
    decisions 6 || return 1
    grep -Eq ': [2-8] streams for bulk, by measurement:' "$log" && return 0
  done
  return 1
}
link() {
  shape bn0 400mbit
  for try in 1 2 3; do # as above; with too little CPU time nothing may be decided within this traffic
    decisions 4 || return 1
    grep -q 'by measurement:' "$log" && ! grep -Eq ': [4-8] streams for bulk, by measurement:' "$log" && return 0
  done
  return 1
}
# Each side's address on the second cable can be reached over either; the first side's routes prefer the first cable.
bound() {
  second_cable
  for end in "$a:1" "$b:2"; do
    ns=${end%:*} number=${end#*:}
    ip -n "$ns" addr add "10.78.1.$number/32" dev bn1
    ip -n "$ns" route add "10.78.1.$((3 - number))/32" dev bn0 metric $((2 * number))
    ip -n "$ns" route add "10.78.1.$((3 - number))/32" dev bn1 metric 3
    ip -n "$ns" addr del "10.78.0.$number/24" dev bn1
  done
  BRAID_SOCKET_IFNAME==bn1 BRAID_PORT_RANGE=45000-45000 traffic ring --ranks 2 --log info >"$log" 2>&1
  rc=$?
  first=$(sent bn0) second=$(sent bn1)
  grep "right\|FAIL\|no way" "$log" | sort -u | head -4
  echo "bytes sent: $first over bn0, $second over bn1"
  [ $rc = 0 ] && grep -q "connected device.*10.78.1.2:45000" "$log" && [ "$second" -gt $((first * 10)) ]
}
# Neither side's routes lead over the second cable, so answers leave by it only if the listener is tied to it.
neighbours() {
  second_cable_beside
  BRAID_SOCKET_IFNAME==bn1 traffic ring --ranks 2 --channels 2 --log info >"$log" 2>&1
  rc=$?
  grep "right\|FAIL\|no way\|connected device" "$log" | sed 's/.*braid: //' | sort | uniq -c | head -8
  for ns in "$a" "$b"; do
    first=$(ip netns exec "$ns" cat /sys/class/net/bn0/statistics/tx_bytes)
    second=$(ip netns exec "$ns" cat /sys/class/net/bn1/statistics/tx_bytes)
    echo "bytes sent: $first over bn0, $second over bn1"
    [ "$first" -lt 10000 ] && [ "$second" -gt 1000000 ] || rc=1
  done
  [ $rc = 0 ] && ! grep -q "no way" "$log"
}
said() { grep -Eq -- "$1" "$log" || { echo "nobody said: $1"; rc=1; }; }
reasons() {
  ip -n "$a" link add br-walk type bridge && ip -n "$a" link set br-walk up && ip -n "$a" addr add 172.30.0.1/24 dev br-walk
  ip -n "$a" link add leads type dummy 2>/dev/null && ip -n "$a" link set leads up && ip -n "$a" addr add 172.31.0.1/24 dev leads
  ip link add bn2 netns "$a" type veth peer name bn2 netns "$b" && ip -n "$a" addr add 10.79.0.1/24 dev bn2 # stays down
  ip link add bn3 netns "$a" type veth peer name bn3 netns "$b" && ip -n "$a" link set bn3 up &&            # without a carrier
    ip -n "$a" addr add 10.80.0.1/24 dev bn3
  ip link add bn4 netns "$a" type veth peer name bn4 netns "$b" && ip -n "$a" link set bn4 up && ip -n "$b" link set bn4 up
  ip -n "$a" link add link bn0 name bn0.7 type vlan id 7 2>/dev/null && ip -n "$a" link set bn0.7 up &&
    ip -n "$a" addr add 10.81.0.1/24 dev bn0.7
  ip link add bn5 netns "$a" type veth peer name bn5 netns "$b" && ip -n "$a" link set bn5 up && ip -n "$b" link set bn5 up &&
    ip -n "$a" addr add 10.77.0.1/32 dev bn5 # the address of the first cable
  plugged bn4
  plugged bn5
  traffic zero --ranks 2 --log info >"$log" 2>&1
  rc=$?
  grep "interface\|right" "$log" | sed 's/.*braid: //' | sort -u
  said "interface lo: not used, it is the loopback"
  said "interface bn2: not used, it is down"
  said "interface bn3: not used, .*carrier"
  said "interface bn4: not used, it has no address|interface bn4: not used, .*link-local"
  said "interface bn5: not used, bn0 has the same address"
  said "interface br-walk: not used, (it is a bridge|by its name)" # a process of another namespace's sysfs has only the name
  said "socket device 0: bn0, 10.77.0.1"
  NCCL_SOCKET_IFNAME="bn0, bn1" traffic zero --ranks 2 --log info >"$log" 2>&1 || rc=1
  said 'WARN .*NCCL_SOCKET_IFNAME is "bn0, bn1": " bn1" contains a blank'
  said 'interface bn5: not used, the setting "bn0, bn1" excludes it'
  BRAID_SOCKET_IFNAME==eth7 traffic zero --ranks 2 --log info >"$log" 2>&1
  said 'WARN .*BRAID_SOCKET_IFNAME is "=eth7": no interface has such a name; there are: lo, .*bn0'
  BRAID_SOCKET_IFNAME==bn2 traffic zero --ranks 2 --log info >"$log" 2>&1
  said 'WARN .*network interface bn2 cannot be used: it is down'
  ip netns exec "$a" "$(dirname "$play")/braid-info" net >"$log" 2>&1 || rc=1 # which has the namespace's sysfs
  grep "used" "$log"
  said "^  br-walk  *not used: it is a bridge without a port in hardware"
  said "^  bn0  *used"
  ! ip -n "$a" link show bn0.7 >/dev/null 2>&1 || said "^  bn0.7  *not used: .*bn0"
  ! ip -n "$a" link show leads >/dev/null 2>&1 || said "^  leads  *not used: it leads nowhere"
  [ $rc = 0 ]
}
case $case in
  bound) bound ;;
  reasons) reasons ;;
  neighbours) neighbours ;;
  flows) flows ;;
  link) link ;;
  rails) rails ;;
  rails_unequal) rails_unequal ;;
  rails_near) rails_near ;;
  rails_cut) rails_cut ;;
  blackhole) blackhole ;;
  ipv4 | ipv6) traffic ring,group,poll-ll,killed --ranks 2 ;;
  shaped) discipline tbf rate 200mbit burst 64kb latency 50ms && traffic ring,lagging --ranks 2 --max-bytes 256K ;;
  lossy) discipline netem loss 1% delay 200us && traffic ring,alltoall,poll-ll128 --ranks 2 --max-bytes 128K ;;
  unplugged) BRAID_PEER_TIMEOUT_S=3 traffic hook --hook "ip -n $a link set bn0 down" ;;
  *) echo "unknown case $case"; exit 2 ;;
esac
