#!/bin/bash
# Proves the test bed itself: a ping-pong by the stock tools on each rail, and again with 1 % of loss on rail 0.
set -e
. "$VM_GUEST_LIB"

pingpong() {
    local rail=$1
    timeout 40 ibv_rc_pingpong -d "rxe${rail}b" -g 1 -n 200 > /tmp/server.log 2>&1 &
    local server=$!
    until ss -ltn | grep -q :18515; do sleep 0.1; done
    timeout 40 ibv_rc_pingpong -d "rxe${rail}a" -g 1 -n 200 127.0.0.1 | tail -n 1
    wait $server
}

for rail in 0 1; do
    before=$(rail_counter "rxe${rail}a" sent_pkts)
    pingpong $rail
    echo "rail $rail: $(($(rail_counter "rxe${rail}a" sent_pkts) - before)) packets sent"
done
rail_loss 0 1
pingpong 0
rail_loss 0 0
echo "guest up $(cut -d' ' -f1 /proc/uptime) s"
