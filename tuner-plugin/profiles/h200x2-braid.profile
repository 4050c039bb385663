# Made by `braid-tune fit` from h200x2-braid.sweep.csv. Of 2 ranks on 2 nodes, NVIDIA H200.
# rms of ln(predicted / measured): 0.188 over 1705 rows; between equal configurations 0.159 (1516 pairs).
braid-profile 1
name h200x2-braid
include generic-socket.profile
source fit "h200x2-braid.sweep.csv, NCCL 2.28.9, 2026-11-29; least squares by braid-tune fit"
match_gpu "h200"
match_net "braid-socket"
uncover * * *
match_ranks_min 2 @fit
match_ranks_max 2 @fit
match_nodes_max 2 @fit
trust 1 @fit
base_us all_gather ring ll 20.424 @fit
base_us all_gather ring simple 54.0903 @fit
base_us all_gather pat simple 26.689 @fit
base_us reduce_scatter ring ll 18.6699 @fit
base_us reduce_scatter ring simple 54.8011 @fit
base_us reduce_scatter pat simple 24.53 @fit
base_us all_reduce tree ll 23.6726 @fit
base_us all_reduce tree simple 29.2709 @fit
base_us all_reduce ring ll 26.7444 @fit
base_us all_reduce ring simple 106.652 @fit
channel_us all_gather ring ll 12.0905 @fit
channel_us all_gather ring simple 26.1349 @fit
channel_us all_gather pat simple 10.9066 @fit
channel_us reduce_scatter ring ll 10.9588 @fit
channel_us reduce_scatter ring simple 23.9736 @fit
channel_us reduce_scatter pat simple 14.3372 @fit
channel_us all_reduce tree ll 19.722 @fit
channel_us all_reduce tree simple 29.2965 @fit
channel_us all_reduce ring ll 21.1859 @fit
channel_us all_reduce ring simple 37.255 @fit
channel_GBps all_gather ring ll 3.04111 @fit
channel_GBps all_gather ring simple 2.6317 @fit
channel_GBps all_gather pat simple 0.631459 @fit
channel_GBps reduce_scatter ring ll 5.02303 @fit
channel_GBps reduce_scatter ring simple 2.49573 @fit
channel_GBps reduce_scatter pat simple 0.550473 @fit
channel_GBps all_reduce tree ll 0.832253 @fit
channel_GBps all_reduce tree simple 2.34959 @fit
channel_GBps all_reduce ring ll 1.61458 @fit
channel_GBps all_reduce ring simple 3.51933 @fit
reach_ratio net all_gather ring ll 0.0617026 @fit
reach_ratio net all_gather ring simple 1.30311 @fit
reach_ratio net all_gather pat simple 0.198183 @fit
reach_ratio net reduce_scatter ring ll 0.0582265 @fit
reach_ratio net reduce_scatter ring simple 1.51752 @fit
reach_ratio net reduce_scatter pat simple 0.250314 @fit
reach_ratio net all_reduce tree ll 0.174569 @fit
reach_ratio net all_reduce tree simple 0.99581 @fit
reach_ratio net all_reduce ring ll 0.0645386 @fit
reach_ratio net all_reduce ring simple 1.59303 @fit
sharpness 2 @fit
correct_ratio all_gather ring ll 1024 1.01925 @fit
correct_ratio all_gather ring ll 4096 0.985849 @fit
correct_ratio all_gather ring ll 16384 0.887654 @fit
correct_ratio all_gather ring ll 65536 0.990716 @fit
correct_ratio all_gather ring ll 262144 1.27433 @fit
correct_ratio all_gather ring ll 1048576 1.53504 @fit
correct_ratio all_gather ring ll 4194304 1.00857 @fit
correct_ratio all_gather ring ll 16777216 0.931094 @fit
correct_ratio all_gather ring simple 1024 0.650824 @fit
correct_ratio all_gather ring simple 4096 0.675473 @fit
correct_ratio all_gather ring simple 16384 0.724476 @fit
correct_ratio all_gather ring simple 65536 1.10599 @fit
correct_ratio all_gather ring simple 262144 1.02167 @fit
correct_ratio all_gather ring simple 1048576 1.45671 @fit
correct_ratio all_gather ring simple 4194304 0.994802 @fit
correct_ratio all_gather ring simple 16777216 0.968601 @fit
correct_ratio all_gather pat simple 1024 1.03821 @fit
correct_ratio all_gather pat simple 4096 1.02651 @fit
correct_ratio all_gather pat simple 16384 0.893156 @fit
correct_ratio all_gather pat simple 65536 1.05638 @fit
correct_ratio all_gather pat simple 262144 0.99572 @fit
correct_ratio all_gather pat simple 1048576 1.00102 @fit
correct_ratio all_gather pat simple 4194304 1.02836 @fit
correct_ratio all_gather pat simple 16777216 0.977566 @fit
correct_ratio reduce_scatter ring ll 1024 0.998201 @fit
correct_ratio reduce_scatter ring ll 4096 1.02773 @fit
correct_ratio reduce_scatter ring ll 16384 0.862226 @fit
correct_ratio reduce_scatter ring ll 65536 1.00829 @fit
correct_ratio reduce_scatter ring ll 262144 1.18357 @fit
correct_ratio reduce_scatter ring ll 1048576 1.53865 @fit
correct_ratio reduce_scatter ring ll 4194304 1.03202 @fit
correct_ratio reduce_scatter ring ll 16777216 0.925694 @fit
correct_ratio reduce_scatter ring simple 1024 0.593338 @fit
correct_ratio reduce_scatter ring simple 4096 0.623258 @fit
correct_ratio reduce_scatter ring simple 16384 0.698453 @fit
correct_ratio reduce_scatter ring simple 65536 1.07963 @fit
correct_ratio reduce_scatter ring simple 262144 1.01539 @fit
correct_ratio reduce_scatter ring simple 1048576 1.61813 @fit
correct_ratio reduce_scatter ring simple 4194304 0.99623 @fit
correct_ratio reduce_scatter ring simple 16777216 0.971801 @fit
correct_ratio reduce_scatter pat simple 1024 1.04959 @fit
correct_ratio reduce_scatter pat simple 4096 1.03032 @fit
correct_ratio reduce_scatter pat simple 16384 0.867058 @fit
correct_ratio reduce_scatter pat simple 65536 1.08232 @fit
correct_ratio reduce_scatter pat simple 262144 0.95439 @fit
correct_ratio reduce_scatter pat simple 1048576 1.05555 @fit
correct_ratio reduce_scatter pat simple 4194304 1.18212 @fit
correct_ratio reduce_scatter pat simple 16777216 0.43494 @fit
correct_ratio all_reduce tree ll 1024 0.907186 @fit
correct_ratio all_reduce tree ll 4096 0.945496 @fit
correct_ratio all_reduce tree ll 16384 0.766977 @fit
correct_ratio all_reduce tree ll 65536 1.50022 @fit
correct_ratio all_reduce tree ll 262144 2.87873 @fit
correct_ratio all_reduce tree ll 1048576 1.23273 @fit
correct_ratio all_reduce tree ll 4194304 0.857348 @fit
correct_ratio all_reduce tree ll 16777216 0.757371 @fit
correct_ratio all_reduce tree simple 1024 0.84605 @fit
correct_ratio all_reduce tree simple 4096 0.853102 @fit
correct_ratio all_reduce tree simple 16384 0.931193 @fit
correct_ratio all_reduce tree simple 65536 1.18043 @fit
correct_ratio all_reduce tree simple 262144 1.11636 @fit
correct_ratio all_reduce tree simple 1048576 1.22475 @fit
correct_ratio all_reduce tree simple 4194304 1.08535 @fit
correct_ratio all_reduce tree simple 16777216 0.864378 @fit
correct_ratio all_reduce ring ll 1024 1.04202 @fit
correct_ratio all_reduce ring ll 4096 0.977309 @fit
correct_ratio all_reduce ring ll 16384 0.842866 @fit
correct_ratio all_reduce ring ll 65536 1.06227 @fit
correct_ratio all_reduce ring ll 262144 1.02802 @fit
correct_ratio all_reduce ring ll 1048576 1.01856 @fit
correct_ratio all_reduce ring ll 4194304 1.02074 @fit
correct_ratio all_reduce ring ll 16777216 0.950327 @fit
correct_ratio all_reduce ring simple 1024 0.476383 @fit
correct_ratio all_reduce ring simple 4096 0.5065 @fit
correct_ratio all_reduce ring simple 16384 0.557994 @fit
correct_ratio all_reduce ring simple 65536 1.04804 @fit
correct_ratio all_reduce ring simple 262144 1.07278 @fit
correct_ratio all_reduce ring simple 1048576 1.52239 @fit
correct_ratio all_reduce ring simple 4194304 0.97814 @fit
correct_ratio all_reduce ring simple 16777216 0.955513 @fit
correct_one_ratio all_gather ring ll 1024 1.00958 @fit
correct_one_ratio all_gather ring ll 4096 0.992899 @fit
correct_one_ratio all_gather ring ll 16384 1.0055 @fit
correct_one_ratio all_gather ring ll 65536 1.17696 @fit
correct_one_ratio all_gather ring ll 262144 0.977067 @fit
correct_one_ratio all_gather ring ll 1048576 0.844932 @fit
correct_one_ratio all_gather ring ll 4194304 0.846839 @fit
correct_one_ratio all_gather ring ll 16777216 0.811358 @fit
correct_one_ratio all_gather ring simple 1024 0.806737 @fit
correct_one_ratio all_gather ring simple 4096 0.821872 @fit
correct_one_ratio all_gather ring simple 16384 0.851162 @fit
correct_one_ratio all_gather ring simple 65536 1.10486 @fit
correct_one_ratio all_gather ring simple 262144 1.19469 @fit
correct_one_ratio all_gather ring simple 1048576 1.05141 @fit
correct_one_ratio all_gather ring simple 4194304 0.96515 @fit
correct_one_ratio all_gather ring simple 16777216 0.869569 @fit
correct_one_ratio all_gather pat simple 1024 1.01893 @fit
correct_one_ratio all_gather pat simple 4096 1.01317 @fit
correct_one_ratio all_gather pat simple 16384 0.945069 @fit
correct_one_ratio all_gather pat simple 65536 1.0278 @fit
correct_one_ratio all_gather pat simple 262144 0.997858 @fit
correct_one_ratio all_gather pat simple 1048576 1.00051 @fit
correct_one_ratio all_gather pat simple 4194304 1.01408 @fit
correct_one_ratio all_gather pat simple 16777216 0.988719 @fit
correct_one_ratio reduce_scatter ring ll 1024 0.9991 @fit
correct_one_ratio reduce_scatter ring ll 4096 1.01377 @fit
correct_one_ratio reduce_scatter ring ll 16384 0.973152 @fit
correct_one_ratio reduce_scatter ring ll 65536 1.22443 @fit
correct_one_ratio reduce_scatter ring ll 262144 0.990106 @fit
correct_one_ratio reduce_scatter ring ll 1048576 0.79005 @fit
correct_one_ratio reduce_scatter ring ll 4194304 0.736163 @fit
correct_one_ratio reduce_scatter ring ll 16777216 0.771171 @fit
correct_one_ratio reduce_scatter ring simple 1024 0.770284 @fit
correct_one_ratio reduce_scatter ring simple 4096 0.789467 @fit
correct_one_ratio reduce_scatter ring simple 16384 0.835735 @fit
correct_one_ratio reduce_scatter ring simple 65536 1.09632 @fit
correct_one_ratio reduce_scatter ring simple 262144 1.23474 @fit
correct_one_ratio reduce_scatter ring simple 1048576 1.15409 @fit
correct_one_ratio reduce_scatter ring simple 4194304 0.948696 @fit
correct_one_ratio reduce_scatter ring simple 16777216 0.83695 @fit
correct_one_ratio reduce_scatter pat simple 1024 1.02449 @fit
correct_one_ratio reduce_scatter pat simple 4096 1.01505 @fit
correct_one_ratio reduce_scatter pat simple 16384 0.931159 @fit
correct_one_ratio reduce_scatter pat simple 65536 1.04034 @fit
correct_one_ratio reduce_scatter pat simple 262144 0.976929 @fit
correct_one_ratio reduce_scatter pat simple 1048576 1.0274 @fit
correct_one_ratio reduce_scatter pat simple 4194304 1.08725 @fit
correct_one_ratio reduce_scatter pat simple 16777216 0.659499 @fit
correct_one_ratio all_reduce tree ll 1024 0.952463 @fit
correct_one_ratio all_reduce tree ll 4096 0.972366 @fit
correct_one_ratio all_reduce tree ll 16384 1.01691 @fit
correct_one_ratio all_reduce tree ll 65536 1.76391 @fit
correct_one_ratio all_reduce tree ll 262144 1.13254 @fit
correct_one_ratio all_reduce tree ll 1048576 0.981706 @fit
correct_one_ratio all_reduce tree ll 4194304 0.836466 @fit
correct_one_ratio all_reduce tree ll 16777216 0.776713 @fit
correct_one_ratio all_reduce tree simple 1024 0.91981 @fit
correct_one_ratio all_reduce tree simple 4096 0.923635 @fit
correct_one_ratio all_reduce tree simple 16384 0.964983 @fit
correct_one_ratio all_reduce tree simple 65536 1.35885 @fit
correct_one_ratio all_reduce tree simple 262144 1.60816 @fit
correct_one_ratio all_reduce tree simple 1048576 1.2245 @fit
correct_one_ratio all_reduce tree simple 4194304 0.827615 @fit
correct_one_ratio all_reduce tree simple 16777216 0.706384 @fit
correct_one_ratio all_reduce ring ll 1024 1.0208 @fit
correct_one_ratio all_reduce ring ll 4096 0.988589 @fit
correct_one_ratio all_reduce ring ll 16384 1.01593 @fit
correct_one_ratio all_reduce ring ll 65536 1.16906 @fit
correct_one_ratio all_reduce ring ll 262144 0.986773 @fit
correct_one_ratio all_reduce ring ll 1048576 0.918411 @fit
correct_one_ratio all_reduce ring ll 4194304 0.832858 @fit
correct_one_ratio all_reduce ring ll 16777216 0.808736 @fit
correct_one_ratio all_reduce ring simple 1024 0.690205 @fit
correct_one_ratio all_reduce ring simple 4096 0.711688 @fit
correct_one_ratio all_reduce ring simple 16384 0.74699 @fit
correct_one_ratio all_reduce ring simple 65536 0.988083 @fit
correct_one_ratio all_reduce ring simple 262144 1.26948 @fit
correct_one_ratio all_reduce ring simple 1048576 0.96916 @fit
correct_one_ratio all_reduce ring simple 4194304 0.977 @fit
correct_one_ratio all_reduce ring simple 16777216 0.937952 @fit
noise_ratio 0.158661 @fit
guard_ratio 0.12235 @fit
channels 8 @fit
channels_max 8 @fit
