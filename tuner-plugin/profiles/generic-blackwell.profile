# The fallback for B200 and GB200: twice Hopper's NVLink, NCCL's Blackwell rows.
# trust 0: only turns an SM budget into channels.
braid-profile 1
name generic-blackwell
include generic.profile
source b200 "vendor figures of B200: 148 SMs, 18 NVLinks of 50 GB/s; 8 ports of 400 Gb/s"
source nccl30 "NVIDIA/nccl v2.30.7-1 src/graph/tuning.cc: Blackwell rows; efficiency policy: 6 of 8 heads for reduce-scatter"
source pr2343 "NVIDIA/nccl pull request 2343: Ring LL128 on 2 B200 reaches 384 GB/s of 640 predicted, 16 channels"
source choice "Braid's choice: Blackwell's channels move what its per-channel caps are to Hopper's"
match_gpu *b200
trust 0 @choice
rate_GBps port 900 @b200
nccl_compcap 3 @nccl30
gpu_sms 148 @b200
channels 16 @nccl30
nvls_channels 24 @nccl30
channel_GBps * ring ll 9 @choice
channel_GBps * ring ll128 24 @pr2343
channel_GBps * ring simple 48 @choice
channel_GBps all_reduce tree ll 8 @choice
channel_GBps all_reduce tree ll128 20 @choice
channel_GBps all_reduce tree simple 40 @choice
channel_GBps * nvls simple 60 @choice
channel_GBps all_reduce nvls_tree simple 60 @choice
# NCCL credits NVLS on Blackwell with 0.74 where Hopper has 0.85.
reach_ratio * * nvls simple 0.59 @nccl30
reach_ratio * * nvls_tree simple 0.59 @nccl30
efficiency_ctas reduce_scatter 1node 6 @nccl30
nccl_graph_channels ring 16 @nccl30
nccl_graph_channels tree 16 @nccl30
nccl_graph_intra_GBps ring 45 @nccl30
nccl_graph_intra_GBps tree 45 @nccl30
nccl_graph_intra_GBps nvls 80 @nccl30
nccl_graph_intra_GBps nvls_tree 80 @nccl30
# Where the estimate is known to be wrong NCCL's constants are put right at init (only once trusted).
set_table_GBps ring_ll128 blackwell 1node 24 @pr2343
