# The fallback for nodes joined by InfiniBand or RoCE.
# trust 0: only turns an SM budget into channels.
braid-profile 1
name generic-ib
include generic.profile
source nccl1649 "NVIDIA/nccl issue 1649, maintainer: a tree between nodes needs 32 SMs for its peak, NVLSTree 16"
source choice "Braid's choice"
match_net ib
match_nodes_min 2 @choice
trust 0 @choice
channels 32 @nccl1649
