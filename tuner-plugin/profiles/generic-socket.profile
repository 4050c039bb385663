# The fallback for nodes that are joined by plain sockets: NCCL's Socket transport or Braid's, no RDMA device.
# trust 0: only turns an SM budget into channels.
braid-profile 1
name generic-socket
include generic.profile
source sockets "tests/tuner/data/h200x2-socket.sweep.csv: NCCL 2.28.9's Socket transport on loopback, order of magnitude"
source nccl30 "NVIDIA/nccl v2.30.7-1: socket speed default 10 Gb/s, LL128 off beyond PXB paths, NVLS needs two GPUs a node"
source choice "Braid's choice"
match_net *socket
match_nodes_min 2 @choice

channels 2 @sockets
channels_max 2 @sockets
# No NIC to be the limit: the host is.
rate_GBps rail 1000000 @choice
rails 1 @choice
rate_GBps host 10 @sockets
nccl_ll128 0 @nccl30
nccl_nvls 0 @nccl30
nccl_graph_channels ring 2 @sockets
nccl_graph_intra_GBps ring 1.2 @nccl30
nccl_graph_inter_GBps ring 1.2 @nccl30
nccl_graph_channels tree 2 @sockets
nccl_graph_intra_GBps tree 1.2 @nccl30
nccl_graph_inter_GBps tree 1.2 @nccl30
nccl_graph_channels pat 0 @choice

base_us all_reduce ring ll 40 @sockets
base_us all_reduce ring simple 50 @sockets
base_us all_reduce tree ll 24 @sockets
base_us all_reduce tree simple 28 @sockets
base_us all_gather ring ll 29 @sockets
base_us all_gather ring simple 45 @sockets
base_us reduce_scatter ring ll 31 @sockets
base_us reduce_scatter ring simple 35 @sockets
base_us broadcast ring ll 29 @sockets
base_us broadcast ring simple 45 @sockets
base_us reduce ring ll 31 @sockets
base_us reduce ring simple 35 @sockets
reach_ratio net * ring ll 0.085 @sockets
reach_ratio net * ring ll128 0.165 @sockets
reach_ratio net * ring simple 0.32 @sockets
reach_ratio net * tree ll 0.1 @sockets
reach_ratio net * tree ll128 0.14 @sockets
reach_ratio net * tree simple 0.35 @sockets
