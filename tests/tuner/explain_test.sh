#!/usr/bin/env bash
# braid-tune explain --machine takes the profile that a job on that machine would get, and says for how many ranks and nodes.
# usage: explain_test.sh BUILD_FOLDER
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/../topo"
unset BRAID_TUNER_PROFILE BRAID_SM_BUDGET BRAID_OVERLAP NCCL_ALGO NCCL_PROTO
export BRAID_PROFILE_DIRS=$build/share/braid/profiles
failed=0

# MACHINE "OPTIONS" "WHAT IT SAYS OF SHAPES AND PROFILES" "RANKS,NODES OF THE ROWS"
expect() {
    local out said rows
    # shellcheck disable=SC2086
    if ! out=$("$build/bin/braid-tune" explain --machine "$1" $2 --coll all_reduce --bytes 1M --format csv 2>&1); then
        echo "FAILED: $1 $2: $out"
        failed=1
        return
    fi
    said=$(sed -n 's/^machine [^,]*, //p' <<<"$out" | paste -sd ';')
    rows=$(sed -n 's/^all_reduce,\([0-9]*,[0-9]*\),1048576,.*/\1/p' <<<"$out" | paste -sd ';')
    if [ "$said" != "$3" ] || [ "$rows" != "$4" ]; then
        echo "FAILED: $1 $2: '$said' rows '$rows', expected '$3' rows '$4'"
        failed=1
    fi
}

expect h200x2.capture "--ranks 2 --nodes 1" "2 ranks, 1 node, profile h200x2-nvlink" 2,1
expect h200x2.capture "" "2 ranks, 1 node, profile h200x2-nvlink" 2,1
expect h200x2.capture "--ranks 2 --nodes 2" "2 ranks, 2 nodes, profile h200x2-socket" 2,2
expect h200x2.capture "--nodes 2" "4 ranks, 2 nodes, profile generic-socket" 4,2
expect h200x2.capture "--profile generic" "2 ranks, 1 node, profile generic" 2,1
expect dgx-h100.nccl.xml "--nodes 16" "128 ranks, 16 nodes, profile generic-ib" 128,16
expect dgx-h100.nccl.xml "--nodes 16 --ranks 16" "16 ranks, 16 nodes, profile generic-ib" 16,16
expect dgx-h100.nccl.xml "--ranks 8,16" "8 ranks, 1 node, profile generic;16 ranks, 2 nodes, profile generic-ib" "8,1;16,2"
expect dgx-a100.nccl.xml "" "8 ranks, 1 node, profile generic-ampere" 8,1
expect aws-p5.nccl.xml "--nodes 2" "16 ranks, 2 nodes, profile generic-efa" 16,2
expect hgx-h200.synthetic "" "128 ranks, 16 nodes, profile generic-ib" 128,16
expect gb200-nvl72.synthetic "--nodes 2" "144 ranks, 2 nodes, profile generic-blackwell" 144,2
expect l40s-sockets.synthetic "" "32 ranks, 4 nodes, profile generic-socket" 32,4

# The environment of a job counts as in one, and an option goes before it.
says() { # "ENVIRONMENT" "OPTIONS" PATTERN
    local out
    # shellcheck disable=SC2086
    out=$(env $1 "$build/bin/braid-tune" explain $2 --coll all_reduce --bytes 64M --format csv 2>&1) || true
    grep -Eq "$3" <<<"$out" || { echo "FAILED: $1 $2: expected '$3', found: $out"; failed=1; }
}
here="--machine h200x2.capture"
says BRAID_TUNER_PROFILE=generic "$here" "profile generic$"
says BRAID_TUNER_PROFILE=generic.profile "$here" "profile generic$"
says "BRAID_TUNER_PROFILE=$BRAID_PROFILE_DIRS/generic.profile" "$here" "profile generic$"
says BRAID_TUNER_PROFILE=generic "$here --profile h200x2-nvlink" "profile h200x2-nvlink$"
says BRAID_TUNER_PROFILE=none "$here" "none: NCCL decides by itself"
says BRAID_TUNER_PROFILE=none "$here --profile generic" "profile generic$"
says BRAID_TUNER_PROFILE=h200x2-nvlink "--machine dgx-a100.nccl.xml" "for GPU 'h200', the machine has 'a100'"
says BRAID_TUNER_PROFILE=h200x2-nvlink "--ranks 2" "all_reduce,2,1,67108864,ring,simple,24,[0-9.]+,"
says BRAID_TUNER_PROFILE=nowhere "--ranks 2" "nowhere.profile: cannot open"
says BRAID_SM_BUDGET=4 "--profile h200x2-nvlink --ranks 2" ",4,[0-9.,]*,best within the SM budget"
says BRAID_SM_BUDGET=4 "--profile h200x2-nvlink --ranks 2 --budget 2" ",2,[0-9.,]*,best within the SM budget"
says BRAID_SM_BUDGET=4 "--profile h200x2-nvlink --ranks 2 --budget 0" ",24,[0-9.,]*,|,0,[0-9.,]*,no gain"
says NCCL_ALGO=ring "--profile h200x2-nvlink --ranks 2" "NCCL_ALGO or NCCL_PROTO is set"
[ "$failed" = 0 ] && echo "explain: all right"
