# The fallback for nodes joined by EFA: NCCL's constants are those of InfiniBand, an EFA hop takes longer.
# trust 0: only turns an SM budget into channels.
braid-profile 1
name generic-efa
include generic.profile
source aws "aws/aws-ofi-nccl 2daf7d30, model tuner: 18 us a network hop on P5en, 20 us on P5; rails 2 x 25 and 4 x 12.5 GB/s a GPU"
source regions "the same, region tuner: LL128 gives way to Simple at 14 to 18 MiB a rank for all-gather and reduce-scatter of 16 to 384 ranks, which takes 40 to 55 us more a hop"
source choice "Braid's choice"
match_net efa
match_nodes_min 2 @choice
trust 0 @choice
source nccl1649 "NVIDIA/nccl issue 1649, maintainer: a tree between nodes needs 32 SMs for its peak, NVLSTree 16"
channels 32 @nccl1649
hop_us net * ll 18 @aws
hop_us net * ll128 18 @aws
hop_us net * simple 60 @regions
hop_us net pat simple 18 @aws
