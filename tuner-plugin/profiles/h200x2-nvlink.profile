# Made by `braid-tune fit` from h200x2-nvlink.sweep.csv. Of two H200 of one host over NVLink.
# rms of ln(predicted / measured): 0.057 over 700 rows used, nan over 0 held out; between equal configurations 0.048 (254 pairs).
braid-profile 1
name h200x2-nvlink
include generic.profile
source fit "h200x2-nvlink.sweep.csv, NCCL 2.28.9, 2026-11-29; least squares by braid-tune fit"
match_gpu h200
uncover * * *
match_ranks_min 2 @fit
match_ranks_max 2 @fit
match_nodes_min 1 @fit
match_nodes_max 1 @fit
trust 1 @fit
base_us all_gather ring ll 6.98433 @fit
base_us all_gather ring ll128 12.8964 @fit
base_us all_gather ring simple 16.3342 @fit
base_us reduce_scatter ring ll 6.8067 @fit
base_us reduce_scatter ring ll128 14.7564 @fit
base_us reduce_scatter ring simple 13.4366 @fit
base_us all_reduce tree ll 7.81703 @fit
base_us all_reduce tree ll128 13.2766 @fit
base_us all_reduce tree simple 13.2232 @fit
base_us all_reduce ring ll 7.11049 @fit
base_us all_reduce ring ll128 14.2032 @fit
base_us all_reduce ring simple 15.1509 @fit
channel_us all_gather ring ll 0.0454463 @fit
channel_us all_gather ring ll128 0.041854 @fit
channel_us all_gather ring simple 0.233431 @fit
channel_us reduce_scatter ring ll 0.0379363 @fit
channel_us reduce_scatter ring ll128 0.0946841 @fit
channel_us reduce_scatter ring simple 0.16376 @fit
channel_us all_reduce tree ll 0.00146801 @fit
channel_us all_reduce tree ll128 0.0405414 @fit
channel_us all_reduce tree simple 0.018769 @fit
channel_us all_reduce ring ll 0.0465547 @fit
channel_us all_reduce ring ll128 0.098354 @fit
channel_us all_reduce ring simple 0.152225 @fit
channel_GBps all_gather ring ll 4.24334 @fit
channel_GBps all_gather ring ll128 12.3446 @fit
channel_GBps all_gather ring simple 14.8917 @fit
channel_GBps reduce_scatter ring ll 5.93477 @fit
channel_GBps reduce_scatter ring ll128 13.0165 @fit
channel_GBps reduce_scatter ring simple 18.129 @fit
channel_GBps all_reduce tree ll 4.64872 @fit
channel_GBps all_reduce tree ll128 10.9657 @fit
channel_GBps all_reduce tree simple 17.4236 @fit
channel_GBps all_reduce ring ll 6.22325 @fit
channel_GBps all_reduce ring ll128 15.7018 @fit
channel_GBps all_reduce ring simple 20.7779 @fit
reach_ratio nvlink all_gather ring ll 0.406379 @fit
reach_ratio nvlink all_gather ring ll128 0.453217 @fit
reach_ratio nvlink all_gather ring simple 0.565567 @fit
reach_ratio nvlink reduce_scatter ring ll 0.247115 @fit
reach_ratio nvlink reduce_scatter ring ll128 0.416106 @fit
reach_ratio nvlink reduce_scatter ring simple 0.507111 @fit
reach_ratio nvlink all_reduce tree ll 0.290496 @fit
reach_ratio nvlink all_reduce tree ll128 0.513471 @fit
reach_ratio nvlink all_reduce tree simple 0.69642 @fit
reach_ratio nvlink all_reduce ring ll 0.345208 @fit
reach_ratio nvlink all_reduce ring ll128 0.57474 @fit
reach_ratio nvlink all_reduce ring simple 0.684329 @fit
correct_ratio all_gather ring ll 1024 0.992783 @fit
correct_ratio all_gather ring ll 8192 1.00551 @fit
correct_ratio all_gather ring ll 65536 1.02381 @fit
correct_ratio all_gather ring ll 262144 0.99645 @fit
correct_ratio all_gather ring ll 1048576 0.994451 @fit
correct_ratio all_gather ring ll 4194304 0.981703 @fit
correct_ratio all_gather ring ll 16777216 0.984552 @fit
correct_ratio all_gather ring ll 67108864 1.03662 @fit
correct_ratio all_gather ring ll 268435456 1.03662 @fit
correct_ratio all_gather ring ll128 1024 0.960659 @fit
correct_ratio all_gather ring ll128 8192 1.02263 @fit
correct_ratio all_gather ring ll128 65536 1.03448 @fit
correct_ratio all_gather ring ll128 262144 0.99216 @fit
correct_ratio all_gather ring ll128 1048576 0.966482 @fit
correct_ratio all_gather ring ll128 4194304 1.02073 @fit
correct_ratio all_gather ring ll128 16777216 1.02723 @fit
correct_ratio all_gather ring ll128 67108864 0.98557 @fit
correct_ratio all_gather ring ll128 268435456 0.98557 @fit
correct_ratio all_gather ring simple 1024 0.922489 @fit
correct_ratio all_gather ring simple 8192 0.990573 @fit
correct_ratio all_gather ring simple 65536 1.05323 @fit
correct_ratio all_gather ring simple 262144 1.01931 @fit
correct_ratio all_gather ring simple 1048576 0.959601 @fit
correct_ratio all_gather ring simple 4194304 1.01917 @fit
correct_ratio all_gather ring simple 16777216 1.04648 @fit
correct_ratio all_gather ring simple 67108864 1.00055 @fit
correct_ratio all_gather ring simple 268435456 0.969397 @fit
correct_ratio reduce_scatter ring ll 1024 1.00229 @fit
correct_ratio reduce_scatter ring ll 8192 1.00305 @fit
correct_ratio reduce_scatter ring ll 65536 1.0336 @fit
correct_ratio reduce_scatter ring ll 262144 1.0117 @fit
correct_ratio reduce_scatter ring ll 1048576 0.984714 @fit
correct_ratio reduce_scatter ring ll 4194304 0.922202 @fit
correct_ratio reduce_scatter ring ll 16777216 0.96989 @fit
correct_ratio reduce_scatter ring ll 67108864 1.15801 @fit
correct_ratio reduce_scatter ring ll 268435456 1.15801 @fit
correct_ratio reduce_scatter ring ll128 1024 0.940251 @fit
correct_ratio reduce_scatter ring ll128 8192 1.03923 @fit
correct_ratio reduce_scatter ring ll128 65536 1.05055 @fit
correct_ratio reduce_scatter ring ll128 262144 0.997484 @fit
correct_ratio reduce_scatter ring ll128 1048576 0.960307 @fit
correct_ratio reduce_scatter ring ll128 4194304 1.00412 @fit
correct_ratio reduce_scatter ring ll128 16777216 1.01739 @fit
correct_ratio reduce_scatter ring ll128 67108864 1.00007 @fit
correct_ratio reduce_scatter ring ll128 268435456 1.00007 @fit
correct_ratio reduce_scatter ring simple 1024 0.928607 @fit
correct_ratio reduce_scatter ring simple 8192 0.981343 @fit
correct_ratio reduce_scatter ring simple 65536 1.07002 @fit
correct_ratio reduce_scatter ring simple 262144 1.03854 @fit
correct_ratio reduce_scatter ring simple 1048576 0.96867 @fit
correct_ratio reduce_scatter ring simple 4194304 0.997739 @fit
correct_ratio reduce_scatter ring simple 16777216 1.01906 @fit
correct_ratio reduce_scatter ring simple 67108864 1.02273 @fit
correct_ratio reduce_scatter ring simple 268435456 0.96877 @fit
correct_ratio all_reduce tree ll 1024 1.0182 @fit
correct_ratio all_reduce tree ll 8192 1.00255 @fit
correct_ratio all_reduce tree ll 65536 1.03538 @fit
correct_ratio all_reduce tree ll 262144 0.960639 @fit
correct_ratio all_reduce tree ll 1048576 0.975398 @fit
correct_ratio all_reduce tree ll 4194304 1.02191 @fit
correct_ratio all_reduce tree ll 16777216 1.03289 @fit
correct_ratio all_reduce tree ll 67108864 0.986377 @fit
correct_ratio all_reduce tree ll 268435456 0.986377 @fit
correct_ratio all_reduce tree ll128 1024 1.00597 @fit
correct_ratio all_reduce tree ll128 8192 0.966612 @fit
correct_ratio all_reduce tree ll128 65536 0.9822 @fit
correct_ratio all_reduce tree ll128 262144 0.971277 @fit
correct_ratio all_reduce tree ll128 1048576 1.0138 @fit
correct_ratio all_reduce tree ll128 4194304 1.16366 @fit
correct_ratio all_reduce tree ll128 16777216 0.988736 @fit
correct_ratio all_reduce tree ll128 67108864 0.947583 @fit
correct_ratio all_reduce tree ll128 268435456 0.947583 @fit
correct_ratio all_reduce tree simple 1024 1.00736 @fit
correct_ratio all_reduce tree simple 8192 0.999888 @fit
correct_ratio all_reduce tree simple 65536 0.983733 @fit
correct_ratio all_reduce tree simple 262144 0.97944 @fit
correct_ratio all_reduce tree simple 1048576 0.971164 @fit
correct_ratio all_reduce tree simple 4194304 1.03347 @fit
correct_ratio all_reduce tree simple 16777216 1.10724 @fit
correct_ratio all_reduce tree simple 67108864 0.982153 @fit
correct_ratio all_reduce tree simple 268435456 0.941459 @fit
correct_ratio all_reduce ring ll 1024 1.02649 @fit
correct_ratio all_reduce ring ll 8192 0.986146 @fit
correct_ratio all_reduce ring ll 65536 1.01698 @fit
correct_ratio all_reduce ring ll 262144 0.999051 @fit
correct_ratio all_reduce ring ll 1048576 0.98702 @fit
correct_ratio all_reduce ring ll 4194304 0.96948 @fit
correct_ratio all_reduce ring ll 16777216 0.93633 @fit
correct_ratio all_reduce ring ll 67108864 1.12618 @fit
correct_ratio all_reduce ring ll 268435456 1.12618 @fit
correct_ratio all_reduce ring ll128 1024 0.959231 @fit
correct_ratio all_reduce ring ll128 8192 1.02108 @fit
correct_ratio all_reduce ring ll128 65536 1.03425 @fit
correct_ratio all_reduce ring ll128 262144 0.99309 @fit
correct_ratio all_reduce ring ll128 1048576 0.965155 @fit
correct_ratio all_reduce ring ll128 4194304 1.02796 @fit
correct_ratio all_reduce ring ll128 16777216 1.0133 @fit
correct_ratio all_reduce ring ll128 67108864 0.993059 @fit
correct_ratio all_reduce ring ll128 268435456 0.993059 @fit
correct_ratio all_reduce ring simple 1024 0.953361 @fit
correct_ratio all_reduce ring simple 8192 0.987481 @fit
correct_ratio all_reduce ring simple 65536 1.03356 @fit
correct_ratio all_reduce ring simple 262144 1.02439 @fit
correct_ratio all_reduce ring simple 1048576 0.980712 @fit
correct_ratio all_reduce ring simple 4194304 1.00788 @fit
correct_ratio all_reduce ring simple 16777216 1.00922 @fit
correct_ratio all_reduce ring simple 67108864 1.01819 @fit
correct_ratio all_reduce ring simple 268435456 0.979263 @fit
noise_ratio 0.047911 @fit
guard_ratio 0.05698 @fit
channels 24 @fit
channels_max 24 @fit
nccl_nvls 0 @fit
