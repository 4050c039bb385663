# Made by `braid-tune fit` from h200x2-nvlink-2.sweep.csv. Of 2 ranks on 1 node, NVIDIA H200.
# rms of ln(predicted / measured): 0.056 over 3481 rows; between equal configurations 0.048 (3069 pairs).
braid-profile 1
name h200x2-nvlink
include generic.profile
source fit "h200x2-nvlink-2.sweep.csv, NCCL 2.28.9, 2026-11-29; least squares by braid-tune fit"
match_gpu "h200"
uncover * * *
match_ranks_min 2 @fit
match_ranks_max 2 @fit
match_nodes_min 1 @fit
match_nodes_max 1 @fit
trust 1 @fit
base_us all_gather ring ll 4.66255 @fit
base_us all_gather ring ll128 8.56641 @fit
base_us all_gather ring simple 13.0457 @fit
base_us reduce_scatter ring ll 4.70471 @fit
base_us reduce_scatter ring ll128 10.5377 @fit
base_us reduce_scatter ring simple 10.1085 @fit
base_us all_reduce tree ll 4.28119 @fit
base_us all_reduce tree ll128 9.02909 @fit
base_us all_reduce tree simple 9.63798 @fit
base_us all_reduce ring ll 4.45394 @fit
base_us all_reduce ring ll128 10.0844 @fit
base_us all_reduce ring simple 11.3725 @fit
channel_us all_gather ring ll 0.0204534 @fit
channel_us all_gather ring ll128 0.0337381 @fit
channel_us all_gather ring simple 0.0888579 @fit
channel_us reduce_scatter ring ll 0.0114552 @fit
channel_us reduce_scatter ring ll128 0.0422754 @fit
channel_us reduce_scatter ring simple 0.0535135 @fit
channel_us all_reduce tree ll -0.0086903 @fit
channel_us all_reduce tree ll128 0.0342324 @fit
channel_us all_reduce tree simple -0.111056 @fit
channel_us all_reduce ring ll 0.013717 @fit
channel_us all_reduce ring ll128 0.0230329 @fit
channel_us all_reduce ring simple 0.0653427 @fit
channel_GBps all_gather ring ll 4.28179 @fit
channel_GBps all_gather ring ll128 12.708 @fit
channel_GBps all_gather ring simple 15.2897 @fit
channel_GBps reduce_scatter ring ll 6.35941 @fit
channel_GBps reduce_scatter ring ll128 13.6522 @fit
channel_GBps reduce_scatter ring simple 19.0074 @fit
channel_GBps all_reduce tree ll 4.77302 @fit
channel_GBps all_reduce tree ll128 10.7785 @fit
channel_GBps all_reduce tree simple 17.2496 @fit
channel_GBps all_reduce ring ll 6.38532 @fit
channel_GBps all_reduce ring ll128 16.1191 @fit
channel_GBps all_reduce ring simple 21.468 @fit
reach_ratio nvlink all_gather ring ll 0.593971 @fit
reach_ratio nvlink all_gather ring ll128 0.63569 @fit
reach_ratio nvlink all_gather ring simple 0.668018 @fit
reach_ratio nvlink reduce_scatter ring ll 0.320131 @fit
reach_ratio nvlink reduce_scatter ring ll128 0.518426 @fit
reach_ratio nvlink reduce_scatter ring simple 0.563417 @fit
reach_ratio nvlink all_reduce tree ll 0.508494 @fit
reach_ratio nvlink all_reduce tree ll128 0.668125 @fit
reach_ratio nvlink all_reduce tree simple 0.789097 @fit
reach_ratio nvlink all_reduce ring ll 0.404252 @fit
reach_ratio nvlink all_reduce ring ll128 0.697475 @fit
reach_ratio nvlink all_reduce ring simple 0.770197 @fit
sharpness 2 @fit
correct_ratio all_gather ring ll 1024 1.02311 @fit
correct_ratio all_gather ring ll 4096 0.998129 @fit
correct_ratio all_gather ring ll 16384 1.01107 @fit
correct_ratio all_gather ring ll 65536 1.02384 @fit
correct_ratio all_gather ring ll 262144 0.998582 @fit
correct_ratio all_gather ring ll 1048576 0.987474 @fit
correct_ratio all_gather ring ll 4194304 1.0005 @fit
correct_ratio all_gather ring ll 16777216 0.98816 @fit
correct_ratio all_gather ring ll 67108864 1.04127 @fit
correct_ratio all_gather ring ll128 1024 0.947977 @fit
correct_ratio all_gather ring ll128 4096 0.950059 @fit
correct_ratio all_gather ring ll128 16384 1.01285 @fit
correct_ratio all_gather ring ll128 65536 1.05348 @fit
correct_ratio all_gather ring ll128 262144 1.02144 @fit
correct_ratio all_gather ring ll128 1048576 0.991792 @fit
correct_ratio all_gather ring ll128 4194304 0.994495 @fit
correct_ratio all_gather ring ll128 16777216 0.983716 @fit
correct_ratio all_gather ring ll128 67108864 1.01283 @fit
correct_ratio all_gather ring simple 1024 0.827761 @fit
correct_ratio all_gather ring simple 4096 0.864517 @fit
correct_ratio all_gather ring simple 16384 1.03225 @fit
correct_ratio all_gather ring simple 65536 1.02636 @fit
correct_ratio all_gather ring simple 262144 1.02145 @fit
correct_ratio all_gather ring simple 1048576 1.01595 @fit
correct_ratio all_gather ring simple 4194304 1.02146 @fit
correct_ratio all_gather ring simple 16777216 0.986981 @fit
correct_ratio all_gather ring simple 67108864 0.988122 @fit
correct_ratio reduce_scatter ring ll 1024 1.0268 @fit
correct_ratio reduce_scatter ring ll 4096 1.01486 @fit
correct_ratio reduce_scatter ring ll 16384 1.03073 @fit
correct_ratio reduce_scatter ring ll 65536 1.04277 @fit
correct_ratio reduce_scatter ring ll 262144 1.00293 @fit
correct_ratio reduce_scatter ring ll 1048576 0.949714 @fit
correct_ratio reduce_scatter ring ll 4194304 0.943799 @fit
correct_ratio reduce_scatter ring ll 16777216 0.949718 @fit
correct_ratio reduce_scatter ring ll 67108864 1.30179 @fit
correct_ratio reduce_scatter ring ll128 1024 0.909359 @fit
correct_ratio reduce_scatter ring ll128 4096 0.912801 @fit
correct_ratio reduce_scatter ring ll128 16384 1.02291 @fit
correct_ratio reduce_scatter ring ll128 65536 1.07674 @fit
correct_ratio reduce_scatter ring ll128 262144 1.03272 @fit
correct_ratio reduce_scatter ring ll128 1048576 0.991712 @fit
correct_ratio reduce_scatter ring ll128 4194304 0.982569 @fit
correct_ratio reduce_scatter ring ll128 16777216 0.990799 @fit
correct_ratio reduce_scatter ring ll128 67108864 1.01592 @fit
correct_ratio reduce_scatter ring simple 1024 0.856254 @fit
correct_ratio reduce_scatter ring simple 4096 0.894235 @fit
correct_ratio reduce_scatter ring simple 16384 1.01475 @fit
correct_ratio reduce_scatter ring simple 65536 1.0594 @fit
correct_ratio reduce_scatter ring simple 262144 1.05514 @fit
correct_ratio reduce_scatter ring simple 1048576 1.01899 @fit
correct_ratio reduce_scatter ring simple 4194304 0.989982 @fit
correct_ratio reduce_scatter ring simple 16777216 0.971176 @fit
correct_ratio reduce_scatter ring simple 67108864 1.01177 @fit
correct_ratio all_reduce tree ll 1024 1.11107 @fit
correct_ratio all_reduce tree ll 4096 1.02496 @fit
correct_ratio all_reduce tree ll 16384 1.07449 @fit
correct_ratio all_reduce tree ll 65536 1.02028 @fit
correct_ratio all_reduce tree ll 262144 0.931205 @fit
correct_ratio all_reduce tree ll 1048576 0.985186 @fit
correct_ratio all_reduce tree ll 4194304 1.03117 @fit
correct_ratio all_reduce tree ll 16777216 1.01225 @fit
correct_ratio all_reduce tree ll 67108864 1.03406 @fit
correct_ratio all_reduce tree ll128 1024 1.0145 @fit
correct_ratio all_reduce tree ll128 4096 0.974196 @fit
correct_ratio all_reduce tree ll128 16384 0.960615 @fit
correct_ratio all_reduce tree ll128 65536 0.925925 @fit
correct_ratio all_reduce tree ll128 262144 0.94388 @fit
correct_ratio all_reduce tree ll128 1048576 1.1173 @fit
correct_ratio all_reduce tree ll128 4194304 1.12081 @fit
correct_ratio all_reduce tree ll128 16777216 0.971367 @fit
correct_ratio all_reduce tree ll128 67108864 0.931699 @fit
correct_ratio all_reduce tree simple 1024 0.998238 @fit
correct_ratio all_reduce tree simple 4096 0.995072 @fit
correct_ratio all_reduce tree simple 16384 0.980586 @fit
correct_ratio all_reduce tree simple 65536 0.989446 @fit
correct_ratio all_reduce tree simple 262144 0.964314 @fit
correct_ratio all_reduce tree simple 1048576 0.989185 @fit
correct_ratio all_reduce tree simple 4194304 1.06737 @fit
correct_ratio all_reduce tree simple 16777216 1.05172 @fit
correct_ratio all_reduce tree simple 67108864 0.947119 @fit
correct_ratio all_reduce ring ll 1024 1.05716 @fit
correct_ratio all_reduce ring ll 4096 1.0153 @fit
correct_ratio all_reduce ring ll 16384 0.998039 @fit
correct_ratio all_reduce ring ll 65536 1.0341 @fit
correct_ratio all_reduce ring ll 262144 1.00478 @fit
correct_ratio all_reduce ring ll 1048576 0.93783 @fit
correct_ratio all_reduce ring ll 4194304 0.933329 @fit
correct_ratio all_reduce ring ll 16777216 1.03259 @fit
correct_ratio all_reduce ring ll 67108864 1.16284 @fit
correct_ratio all_reduce ring ll128 1024 0.937953 @fit
correct_ratio all_reduce ring ll128 4096 0.937725 @fit
correct_ratio all_reduce ring ll128 16384 1.0313 @fit
correct_ratio all_reduce ring ll128 65536 1.03313 @fit
correct_ratio all_reduce ring ll128 262144 1.01844 @fit
correct_ratio all_reduce ring ll128 1048576 0.999114 @fit
correct_ratio all_reduce ring ll128 4194304 0.972877 @fit
correct_ratio all_reduce ring ll128 16777216 1.0061 @fit
correct_ratio all_reduce ring ll128 67108864 1.00991 @fit
correct_ratio all_reduce ring simple 1024 0.873871 @fit
correct_ratio all_reduce ring simple 4096 0.918427 @fit
correct_ratio all_reduce ring simple 16384 1.05635 @fit
correct_ratio all_reduce ring simple 65536 1.03578 @fit
correct_ratio all_reduce ring simple 262144 1.03327 @fit
correct_ratio all_reduce ring simple 1048576 1.01862 @fit
correct_ratio all_reduce ring simple 4194304 0.988711 @fit
correct_ratio all_reduce ring simple 16777216 0.997325 @fit
correct_ratio all_reduce ring simple 67108864 0.994565 @fit
correct_one_ratio all_gather ring ll 1024 1.01149 @fit
correct_one_ratio all_gather ring ll 4096 0.999064 @fit
correct_one_ratio all_gather ring ll 16384 0.965091 @fit
correct_one_ratio all_gather ring ll 65536 0.925124 @fit
correct_one_ratio all_gather ring ll 262144 0.976482 @fit
correct_one_ratio all_gather ring ll 1048576 0.996943 @fit
correct_one_ratio all_gather ring ll 4194304 0.999722 @fit
correct_one_ratio all_gather ring ll 16777216 1.01118 @fit
correct_one_ratio all_gather ring ll 67108864 1.07507 @fit
correct_one_ratio all_gather ring ll128 1024 0.973641 @fit
correct_one_ratio all_gather ring ll128 4096 0.97471 @fit
correct_one_ratio all_gather ring ll128 16384 1.02586 @fit
correct_one_ratio all_gather ring ll128 65536 0.997344 @fit
correct_one_ratio all_gather ring ll128 262144 1.01294 @fit
correct_one_ratio all_gather ring ll128 1048576 0.98053 @fit
correct_one_ratio all_gather ring ll128 4194304 0.987449 @fit
correct_one_ratio all_gather ring ll128 16777216 1.01016 @fit
correct_one_ratio all_gather ring ll128 67108864 1.0351 @fit
correct_one_ratio all_gather ring simple 1024 0.909814 @fit
correct_one_ratio all_gather ring simple 4096 0.929794 @fit
correct_one_ratio all_gather ring simple 16384 1.016 @fit
correct_one_ratio all_gather ring simple 65536 1.03793 @fit
correct_one_ratio all_gather ring simple 262144 1.09818 @fit
correct_one_ratio all_gather ring simple 1048576 1.05222 @fit
correct_one_ratio all_gather ring simple 4194304 0.959881 @fit
correct_one_ratio all_gather ring simple 16777216 0.982213 @fit
correct_one_ratio all_gather ring simple 67108864 1.00979 @fit
correct_one_ratio reduce_scatter ring ll 1024 1.01331 @fit
correct_one_ratio reduce_scatter ring ll 4096 1.0074 @fit
correct_one_ratio reduce_scatter ring ll 16384 0.984195 @fit
correct_one_ratio reduce_scatter ring ll 65536 0.901792 @fit
correct_one_ratio reduce_scatter ring ll 262144 0.941186 @fit
correct_one_ratio reduce_scatter ring ll 1048576 0.981917 @fit
correct_one_ratio reduce_scatter ring ll 4194304 1.00011 @fit
correct_one_ratio reduce_scatter ring ll 16777216 1.05209 @fit
correct_one_ratio reduce_scatter ring ll 67108864 1.80127 @fit
correct_one_ratio reduce_scatter ring ll128 1024 0.953603 @fit
correct_one_ratio reduce_scatter ring ll128 4096 0.955406 @fit
correct_one_ratio reduce_scatter ring ll128 16384 1.04634 @fit
correct_one_ratio reduce_scatter ring ll128 65536 1.01403 @fit
correct_one_ratio reduce_scatter ring ll128 262144 1.0285 @fit
correct_one_ratio reduce_scatter ring ll128 1048576 0.951474 @fit
correct_one_ratio reduce_scatter ring ll128 4194304 0.960161 @fit
correct_one_ratio reduce_scatter ring ll128 16777216 0.999342 @fit
correct_one_ratio reduce_scatter ring ll128 67108864 1.06492 @fit
correct_one_ratio reduce_scatter ring simple 1024 0.92534 @fit
correct_one_ratio reduce_scatter ring simple 4096 0.94564 @fit
correct_one_ratio reduce_scatter ring simple 16384 1.00735 @fit
correct_one_ratio reduce_scatter ring simple 65536 1.02825 @fit
correct_one_ratio reduce_scatter ring simple 262144 1.05453 @fit
correct_one_ratio reduce_scatter ring simple 1048576 1.01061 @fit
correct_one_ratio reduce_scatter ring simple 4194304 0.966813 @fit
correct_one_ratio reduce_scatter ring simple 16777216 0.999801 @fit
correct_one_ratio reduce_scatter ring simple 67108864 1.03731 @fit
correct_one_ratio all_reduce tree ll 1024 1.05408 @fit
correct_one_ratio all_reduce tree ll 4096 1.0124 @fit
correct_one_ratio all_reduce tree ll 16384 0.848141 @fit
correct_one_ratio all_reduce tree ll 65536 0.893093 @fit
correct_one_ratio all_reduce tree ll 262144 1.00434 @fit
correct_one_ratio all_reduce tree ll 1048576 1.04679 @fit
correct_one_ratio all_reduce tree ll 4194304 1.04695 @fit
correct_one_ratio all_reduce tree ll 16777216 1.10395 @fit
correct_one_ratio all_reduce tree ll 67108864 1.09622 @fit
correct_one_ratio all_reduce tree ll128 1024 1.00722 @fit
correct_one_ratio all_reduce tree ll128 4096 0.987014 @fit
correct_one_ratio all_reduce tree ll128 16384 0.899556 @fit
correct_one_ratio all_reduce tree ll128 65536 1.02129 @fit
correct_one_ratio all_reduce tree ll128 262144 1.34335 @fit
correct_one_ratio all_reduce tree ll128 1048576 1.01691 @fit
correct_one_ratio all_reduce tree ll128 4194304 0.944343 @fit
correct_one_ratio all_reduce tree ll128 16777216 0.921686 @fit
correct_one_ratio all_reduce tree ll128 67108864 0.813555 @fit
correct_one_ratio all_reduce tree simple 1024 0.999119 @fit
correct_one_ratio all_reduce tree simple 4096 0.997533 @fit
correct_one_ratio all_reduce tree simple 16384 0.990245 @fit
correct_one_ratio all_reduce tree simple 65536 0.952946 @fit
correct_one_ratio all_reduce tree simple 262144 1.01104 @fit
correct_one_ratio all_reduce tree simple 1048576 1.141 @fit
correct_one_ratio all_reduce tree simple 4194304 0.994294 @fit
correct_one_ratio all_reduce tree simple 16777216 0.919159 @fit
correct_one_ratio all_reduce tree simple 67108864 0.931285 @fit
correct_one_ratio all_reduce ring ll 1024 1.02818 @fit
correct_one_ratio all_reduce ring ll 4096 1.00762 @fit
correct_one_ratio all_reduce ring ll 16384 0.949612 @fit
correct_one_ratio all_reduce ring ll 65536 0.891348 @fit
correct_one_ratio all_reduce ring ll 262144 0.919527 @fit
correct_one_ratio all_reduce ring ll 1048576 0.966547 @fit
correct_one_ratio all_reduce ring ll 4194304 1.01035 @fit
correct_one_ratio all_reduce ring ll 16777216 1.22766 @fit
correct_one_ratio all_reduce ring ll 67108864 1.4534 @fit
correct_one_ratio all_reduce ring ll128 1024 0.96848 @fit
correct_one_ratio all_reduce ring ll128 4096 0.968362 @fit
correct_one_ratio all_reduce ring ll128 16384 1.0023 @fit
correct_one_ratio all_reduce ring ll128 65536 1.01324 @fit
correct_one_ratio all_reduce ring ll128 262144 1.02722 @fit
correct_one_ratio all_reduce ring ll128 1048576 0.958169 @fit
correct_one_ratio all_reduce ring ll128 4194304 0.97998 @fit
correct_one_ratio all_reduce ring ll128 16777216 1.01181 @fit
correct_one_ratio all_reduce ring ll128 67108864 1.05761 @fit
correct_one_ratio all_reduce ring simple 1024 0.93481 @fit
correct_one_ratio all_reduce ring simple 4096 0.958346 @fit
correct_one_ratio all_reduce ring simple 16384 1.02779 @fit
correct_one_ratio all_reduce ring simple 65536 1.00718 @fit
correct_one_ratio all_reduce ring simple 262144 1.04229 @fit
correct_one_ratio all_reduce ring simple 1048576 1.0103 @fit
correct_one_ratio all_reduce ring simple 4194304 0.973034 @fit
correct_one_ratio all_reduce ring simple 16777216 0.996585 @fit
correct_one_ratio all_reduce ring simple 67108864 1.02423 @fit
noise_ratio 0.0477554 @fit
guard_ratio 0.0346645 @fit
channels_max 24 @fit
nccl_nvls 0 @fit
