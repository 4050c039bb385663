# The fallback for machines nobody has measured: NCCL's own constants for start and hops, a Hopper's measured rate of one channel.
# trust 0: it never changes an algorithm or a protocol; it only turns an SM budget into channels. The machine's rates come from
# the topology where a tool has one; those here are one HGX H100's.
braid-profile 1
name generic
include nccl.facts
source nccl30 "NVIDIA/nccl v2.30.7-1 src/graph/tuning.cc: baseLatencies, hwLatencies"
source sweep "tests/tuner/data/h200x2-nvlink.sweep.csv: slope of one channel, by collective"
source hgx "vendor figures of HGX H100: 18 NVLinks of 25 GB/s, 8 ports of 400 Gb/s; PCIe 5.0 x16"
source public "tests/tuner/data/public.csv: ring 365-370 of 450 GB/s, NVLS 480 GB/s bus bandwidth on 8 GPUs, NDR 46-49 of 50 GB/s"
source beside "tests/gpu/results/overlap_channels-2026-11-29.jsonl: 0.20 to 0.30 take the best budget in all four cases, GEMMs lost 0.1 to 0.4 us a us (tests/tuner/overlap_choice.py --scan)"
source h100 "vendor figures of H100 SXM: 132 SMs"
source choice "Braid's choice"

trust 0 @choice
noise_ratio 0.05 @sweep
guard_ratio 0.05 @choice
sharpness 8 @choice
intra_link 0 @hgx
gpu_sms 132 @h100
exposed_ratio 0.25 @beside
channels 24 @sweep
channels_max 64 @choice
nvls_channels 16 @nccl30
rate_GBps port 450 @hgx
rate_GBps rail 50 @hgx
rails 8 @hgx

base_us * ring ll 6.6 @nccl30
base_us * ring ll128 14 @nccl30
base_us * ring simple 8.4 @nccl30
base_us all_reduce tree ll 6.8 @nccl30
base_us all_reduce tree ll128 14 @nccl30
base_us all_reduce tree simple 8.4 @nccl30
base_us * nvls simple 0 @nccl30
base_us all_reduce nvls_tree simple 0 @nccl30
base_us * collnet_direct simple 0 @nccl30
base_us all_reduce collnet_chain simple 0 @nccl30
base_us all_gather pat simple 8 @nccl30
base_us reduce_scatter pat simple 8 @nccl30
rank_us all_gather pat simple 2.8 @nccl30
rank_us reduce_scatter pat simple 2.8 @nccl30

hop_us nvlink ring ll 0.6 @nccl30
hop_us nvlink ring ll128 1.9 @nccl30
hop_us nvlink ring simple 3.4 @nccl30
hop_us nvlink tree ll 0.6 @nccl30
hop_us nvlink tree ll128 1.25 @nccl30
hop_us nvlink tree simple 4.0 @nccl30
hop_us nvlink nvls simple 25 @nccl30
hop_us nvlink nvls_tree simple 25 @nccl30
hop_us nvlink collnet_direct simple 3.7 @nccl30
hop_us nvlink collnet_chain simple 2.8 @nccl30
hop_us pci ring ll 1.0 @nccl30
hop_us pci ring ll128 2.5 @nccl30
hop_us pci ring simple 5.7 @nccl30
hop_us pci tree ll 1.0 @nccl30
hop_us pci tree ll128 1.9 @nccl30
hop_us pci tree simple 4.0 @nccl30
hop_us net ring ll 2.7 @nccl30
hop_us net ring ll128 4.0 @nccl30
hop_us net ring simple 14 @nccl30
hop_us net tree ll 5.0 @nccl30
hop_us net tree ll128 8.5 @nccl30
hop_us net tree simple 14 @nccl30
hop_us net nvls simple 18 @nccl30
hop_us net nvls_tree simple 20.9 @nccl30
hop_us net collnet_direct simple 31 @nccl30
hop_us net collnet_chain simple 30 @nccl30
hop_us net pat simple 4 @nccl30

# Bus bytes a channel moves, GB/s.
channel_GBps * ring ll 5.5 @sweep
channel_GBps * ring ll128 15 @sweep
channel_GBps * ring simple 20 @sweep
channel_GBps all_reduce tree ll 4.5 @sweep
channel_GBps all_reduce tree ll128 12 @sweep
channel_GBps all_reduce tree simple 18 @sweep
channel_GBps * nvls simple 40 @public
channel_GBps all_reduce nvls_tree simple 40 @public
channel_GBps * collnet_direct simple 22 @public
channel_GBps all_reduce collnet_chain simple 22 @public
channel_GBps all_gather pat simple 15 @sweep
channel_GBps reduce_scatter pat simple 15 @sweep

# Of the port's or the rails' rate.
reach_ratio * * ring simple 0.84 @public
reach_ratio * * ring ll128 0.76 @public
reach_ratio * * ring ll 0.4 @public
reach_ratio * * tree simple 0.7 @public
reach_ratio * * tree ll128 0.65 @public
reach_ratio * * tree ll 0.25 @public
reach_ratio * * nvls simple 0.68 @public
reach_ratio * * nvls_tree simple 0.68 @public
reach_ratio net * ring simple 0.95 @public
reach_ratio net * ring ll128 0.87 @public
reach_ratio net * ring ll 0.45 @public
reach_ratio net * tree simple 0.70 @public
reach_ratio net * tree ll128 0.66 @public
reach_ratio net * tree ll 0.45 @public
reach_ratio net * nvls_tree simple 0.70 @public
reach_ratio net * pat simple 0.71 @nccl30

# What NCCL cuts a pipeline into by itself.
chunk_bytes * * simple 131072 @nccl30
chunk_bytes * * ll128 30720 @nccl30
chunk_bytes * * ll 16384 @nccl30

# NCCL's search result on an HGX H100 node, for its own choice: 12 rings of 30 GB/s, NVLS 8 heads of 40.
nccl_compcap 2 @nccl30
nccl_ll128 1 @nccl30
nccl_nvls 1 @hgx
nccl_graph_channels ring 12 @public
nccl_graph_intra_GBps ring 30 @public
nccl_graph_inter_GBps ring 30 @public
nccl_graph_channels tree 12 @public
nccl_graph_intra_GBps tree 30 @public
nccl_graph_inter_GBps tree 30 @public
nccl_graph_channels nvls 8 @public
nccl_graph_intra_GBps nvls 40 @public
nccl_graph_inter_GBps nvls 40 @public
nccl_graph_channels nvls_tree 8 @public
nccl_graph_intra_GBps nvls_tree 40 @public
nccl_graph_inter_GBps nvls_tree 48 @public
nccl_graph_channels pat 12 @public
nccl_graph_intra_GBps pat 30 @public
nccl_graph_inter_GBps pat 30 @public
