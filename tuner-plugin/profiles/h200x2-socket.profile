# Made by `braid-tune fit` from h200x2-socket.sweep.csv. Of two H200 as two nodes (one rank each) over NCCL's Socket transport on loopback.
# rms of ln(predicted / measured): 0.105 over 180 rows used, nan over 0 held out; between equal configurations 0.115 (76 pairs).
braid-profile 1
name h200x2-socket
include generic-socket.profile
source fit "h200x2-socket.sweep.csv, NCCL 2.28.9, 2026-11-29; least squares by braid-tune fit"
match_gpu h200
match_net socket
uncover * * *
match_ranks_min 2 @fit
match_ranks_max 2 @fit
match_nodes_max 2 @fit
trust 1 @fit
base_us all_gather ring ll 28.8594 @fit
base_us all_gather ring ll128 32.7919 @fit
base_us all_gather ring simple 45.3926 @fit
base_us reduce_scatter ring ll 31.2272 @fit
base_us reduce_scatter ring ll128 35.0267 @fit
base_us reduce_scatter ring simple 34.6109 @fit
base_us all_reduce tree ll 23.8732 @fit
base_us all_reduce tree ll128 40.3629 @fit
base_us all_reduce tree simple 27.9621 @fit
base_us all_reduce ring ll 42.1324 @fit
base_us all_reduce ring ll128 53.4325 @fit
base_us all_reduce ring simple 52.128 @fit
channel_us all_gather ring ll 0.146585 @fit
channel_us all_gather ring ll128 0.0476997 @fit
channel_us all_gather ring simple 0.051134 @fit
channel_us reduce_scatter ring ll 0.0850822 @fit
channel_us reduce_scatter ring ll128 0.0604617 @fit
channel_us reduce_scatter ring simple 0.0766632 @fit
channel_us all_reduce tree ll -0.0789723 @fit
channel_us all_reduce tree ll128 -0.084231 @fit
channel_us all_reduce tree simple -0.0301973 @fit
channel_us all_reduce ring ll 0.0933251 @fit
channel_us all_reduce ring ll128 0.150656 @fit
channel_us all_reduce ring simple 0.041075 @fit
channel_GBps all_gather ring ll 5.5352 @fit
channel_GBps all_gather ring ll128 15.0321 @fit
channel_GBps all_gather ring simple 2.95735 @fit
channel_GBps reduce_scatter ring ll 5.52508 @fit
channel_GBps reduce_scatter ring ll128 15.0562 @fit
channel_GBps reduce_scatter ring simple 3.00302 @fit
channel_GBps all_reduce tree ll 0.973187 @fit
channel_GBps all_reduce tree ll128 12.021 @fit
channel_GBps all_reduce tree simple 3.18529 @fit
channel_GBps all_reduce ring ll 5.45406 @fit
channel_GBps all_reduce ring ll128 15.0846 @fit
channel_GBps all_reduce ring simple 19.832 @fit
reach_ratio net all_gather ring ll 0.0820068 @fit
reach_ratio net all_gather ring ll128 0.164293 @fit
reach_ratio net all_gather ring simple 0.331475 @fit
reach_ratio net reduce_scatter ring ll 0.0849582 @fit
reach_ratio net reduce_scatter ring ll128 0.163934 @fit
reach_ratio net reduce_scatter ring simple 0.295396 @fit
reach_ratio net all_reduce tree ll 0.102305 @fit
reach_ratio net all_reduce tree ll128 0.138251 @fit
reach_ratio net all_reduce tree simple 0.354144 @fit
reach_ratio net all_reduce ring ll 0.0867166 @fit
reach_ratio net all_reduce ring ll128 0.176188 @fit
reach_ratio net all_reduce ring simple 0.321835 @fit
sharpness 4 @fit
correct_ratio all_gather ring ll 1024 0.977871 @fit
correct_ratio all_gather ring ll 16384 1.07278 @fit
correct_ratio all_gather ring ll 262144 0.937068 @fit
correct_ratio all_gather ring ll 4194304 1.07247 @fit
correct_ratio all_gather ring ll 33554432 0.989124 @fit
correct_ratio all_gather ring ll128 1024 0.993452 @fit
correct_ratio all_gather ring ll128 16384 0.990284 @fit
correct_ratio all_gather ring ll128 262144 1.09303 @fit
correct_ratio all_gather ring ll128 4194304 0.978821 @fit
correct_ratio all_gather ring ll128 33554432 0.988599 @fit
correct_ratio all_gather ring simple 1024 1.02168 @fit
correct_ratio all_gather ring simple 16384 1.00727 @fit
correct_ratio all_gather ring simple 262144 1.10705 @fit
correct_ratio all_gather ring simple 4194304 1.02709 @fit
correct_ratio all_gather ring simple 33554432 0.937666 @fit
correct_ratio reduce_scatter ring ll 1024 0.992582 @fit
correct_ratio reduce_scatter ring ll 16384 1.04301 @fit
correct_ratio reduce_scatter ring ll 262144 0.995926 @fit
correct_ratio reduce_scatter ring ll 4194304 1.03587 @fit
correct_ratio reduce_scatter ring ll 33554432 0.974917 @fit
correct_ratio reduce_scatter ring ll128 1024 0.982703 @fit
correct_ratio reduce_scatter ring ll128 16384 0.996519 @fit
correct_ratio reduce_scatter ring ll128 262144 1.10923 @fit
correct_ratio reduce_scatter ring ll128 4194304 1.00558 @fit
correct_ratio reduce_scatter ring ll128 33554432 0.974546 @fit
correct_ratio reduce_scatter ring simple 1024 0.956808 @fit
correct_ratio reduce_scatter ring simple 16384 0.970588 @fit
correct_ratio reduce_scatter ring simple 262144 1.15237 @fit
correct_ratio reduce_scatter ring simple 4194304 1.01988 @fit
correct_ratio reduce_scatter ring simple 33554432 0.916219 @fit
correct_ratio all_reduce tree ll 1024 1.04403 @fit
correct_ratio all_reduce tree ll 16384 0.90397 @fit
correct_ratio all_reduce tree ll 262144 1.06572 @fit
correct_ratio all_reduce tree ll 4194304 1.01454 @fit
correct_ratio all_reduce tree ll 33554432 0.985196 @fit
correct_ratio all_reduce tree ll128 1024 1.12797 @fit
correct_ratio all_reduce tree ll128 16384 0.804868 @fit
correct_ratio all_reduce tree ll128 262144 1.10325 @fit
correct_ratio all_reduce tree ll128 4194304 1.06957 @fit
correct_ratio all_reduce tree ll128 33554432 0.892553 @fit
correct_ratio all_reduce tree simple 1024 0.975826 @fit
correct_ratio all_reduce tree simple 16384 1.05933 @fit
correct_ratio all_reduce tree simple 262144 0.862886 @fit
correct_ratio all_reduce tree simple 4194304 1.03222 @fit
correct_ratio all_reduce tree simple 33554432 1.04395 @fit
correct_ratio all_reduce ring ll 1024 0.949197 @fit
correct_ratio all_reduce ring ll 16384 1.12755 @fit
correct_ratio all_reduce ring ll 262144 0.956146 @fit
correct_ratio all_reduce ring ll 4194304 0.977735 @fit
correct_ratio all_reduce ring ll 33554432 1.01134 @fit
correct_ratio all_reduce ring ll128 1024 0.924409 @fit
correct_ratio all_reduce ring ll128 16384 1.18984 @fit
correct_ratio all_reduce ring ll128 262144 1.18924 @fit
correct_ratio all_reduce ring ll128 4194304 0.963743 @fit
correct_ratio all_reduce ring ll128 33554432 0.999268 @fit
correct_ratio all_reduce ring simple 1024 0.948629 @fit
correct_ratio all_reduce ring simple 16384 0.991148 @fit
correct_ratio all_reduce ring simple 262144 1.14244 @fit
correct_ratio all_reduce ring simple 4194304 0.995582 @fit
correct_ratio all_reduce ring simple 33554432 0.92026 @fit
noise_ratio 0.115114 @fit
guard_ratio 0.115114 @fit
