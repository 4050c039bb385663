# Functions for scripts that run in the guest (sourced; see vm.sh). A rail is a number, an end is a or b.
# Both ends of a rail are in one network namespace: Soft-RoCE looks routes up in the first namespace only.

# rails_create COUNT MTU: veth pairs veth<i>a/veth<i>b with 10.<i+1>.0.1 and .2, Soft-RoCE rxe<i>a and rxe<i>b.
rails_create() {
    local i end key
    modprobe -a rdma_rxe ib_uverbs veth sch_netem
    # Two addresses of one host talk over the veth pair only with these (set before the links exist).
    for key in all default; do
        sysctl -qw net.ipv4.conf.$key.accept_local=1 net.ipv4.conf.$key.rp_filter=0 \
            net.ipv4.conf.$key.arp_ignore=1 net.ipv4.conf.$key.arp_announce=2
    done
    for ((i = 0; i < $1; i++)); do
        ip link add "veth${i}a" mtu "$2" type veth peer name "veth${i}b" mtu "$2"
        for end in a b; do
            ip addr add "10.$((i + 1)).0.$([ $end = a ] && echo 1 || echo 2)/24" dev "veth$i$end"
            ip link set "veth$i$end" up
            rdma link add "rxe$i$end" type rxe netdev "veth$i$end"
        done
    done
    for ((i = 0; i < $1; i++)); do
        for end in a b; do
            rail_wait_gid "rxe$i$end"
        done
        # The first address resolution takes up to a second; do it before anything is measured.
        ping -c 1 -W 2 -I "veth${i}a" "10.$((i + 1)).0.2" > /dev/null 2>&1 || true
    done
}

# rail_wait_gid DEVICE: until the IPv4 GID (index 1) is there; 10 s at most.
rail_wait_gid() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        grep -qs ffff: "/sys/class/infiniband/$1/ports/1/gids/1" && return 0
        sleep 0.1
    done
    echo "guest: $1 has no IPv4 GID" >&2
    return 1
}

# rail_loss RAIL PERCENT: drop packets in both directions; 0 takes it away.
rail_loss() {
    local end
    for end in a b; do
        tc qdisc del dev "veth$1$end" root 2> /dev/null || true
        [ "$2" = 0 ] || tc qdisc add dev "veth$1$end" root netem loss "$2%"
    done
}

rail_down() { ip link set "veth$1a" down; }
rail_up() { ip link set "veth$1a" up; }

# rail_counter DEVICE NAME: one of the hardware counters of Soft-RoCE, such as sent_pkts or rcvd_pkts.
rail_counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }
