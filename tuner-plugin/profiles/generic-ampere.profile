# The fallback for A100: half of Hopper's rate a channel, no NVLink SHARP, NCCL's Ampere rows.
# trust 0: only turns an SM budget into channels.
braid-profile 1
name generic-ampere
include generic.profile
source a100 "vendor figures of HGX A100: 108 SMs, 12 NVLinks of 25 GB/s, 8 ports of 200 Gb/s"
source nccl30 "NVIDIA/nccl v2.30.7-1 src/graph/tuning.cc: Ampere rows"
source choice "Braid's choice: Ampere's channels move what its per-channel LL128 cap is to Hopper's"
match_gpu a100
trust 0 @choice
rate_GBps port 300 @a100
rate_GBps rail 25 @a100
nccl_compcap 1 @nccl30
nccl_nvls 0 @nccl30
gpu_sms 108 @a100
channels 24 @nccl30
channel_GBps * ring ll 3 @choice
channel_GBps * ring ll128 9 @choice
channel_GBps * ring simple 12 @choice
channel_GBps all_reduce tree ll 2.5 @choice
channel_GBps all_reduce tree ll128 7.5 @choice
channel_GBps all_reduce tree simple 11 @choice
nccl_graph_intra_GBps ring 20 @nccl30
nccl_graph_intra_GBps tree 20 @nccl30
nccl_graph_inter_GBps ring 16 @nccl30
nccl_graph_inter_GBps tree 16 @nccl30
