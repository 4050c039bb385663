# Made by `braid-tune fit` from h200x2-nvlink.sweep.csv. Of two H200 of one host over NVLink.
# rms of ln(predicted / measured): 0.056 over 700 rows used, nan over 0 held out; between equal configurations 0.048 (254 pairs).
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
base_us all_gather ring ll 6.99556 @fit
base_us all_gather ring ll128 12.8955 @fit
base_us all_gather ring simple 16.3339 @fit
base_us reduce_scatter ring ll 6.81048 @fit
base_us reduce_scatter ring ll128 14.75 @fit
base_us reduce_scatter ring simple 13.4292 @fit
base_us all_reduce tree ll 7.82744 @fit
base_us all_reduce tree ll128 13.2867 @fit
base_us all_reduce tree simple 13.2428 @fit
base_us all_reduce ring ll 7.1185 @fit
base_us all_reduce ring ll128 14.2062 @fit
base_us all_reduce ring simple 15.1515 @fit
channel_us all_gather ring ll 0.0421502 @fit
channel_us all_gather ring ll128 0.0399727 @fit
channel_us all_gather ring simple 0.231863 @fit
channel_us reduce_scatter ring ll 0.0353851 @fit
channel_us reduce_scatter ring ll128 0.0937812 @fit
channel_us reduce_scatter ring simple 0.16288 @fit
channel_us all_reduce tree ll -0.00224627 @fit
channel_us all_reduce tree ll128 0.0364035 @fit
channel_us all_reduce tree simple 0.00815894 @fit
channel_us all_reduce ring ll 0.0442704 @fit
channel_us all_reduce ring ll128 0.0949237 @fit
channel_us all_reduce ring simple 0.147949 @fit
channel_GBps all_gather ring ll 4.2717 @fit
channel_GBps all_gather ring ll128 12.5954 @fit
channel_GBps all_gather ring simple 15.1477 @fit
channel_GBps reduce_scatter ring ll 6.03269 @fit
channel_GBps reduce_scatter ring ll128 13.3322 @fit
channel_GBps reduce_scatter ring simple 18.6567 @fit
channel_GBps all_reduce tree ll 4.68367 @fit
channel_GBps all_reduce tree ll128 11.117 @fit
channel_GBps all_reduce tree simple 17.7688 @fit
channel_GBps all_reduce ring ll 6.28765 @fit
channel_GBps all_reduce ring ll128 16.0387 @fit
channel_GBps all_reduce ring simple 21.2901 @fit
reach_ratio nvlink all_gather ring ll 0.739723 @fit
reach_ratio nvlink all_gather ring ll128 0.575579 @fit
reach_ratio nvlink all_gather ring simple 0.738912 @fit
reach_ratio nvlink reduce_scatter ring ll 0.327811 @fit
reach_ratio nvlink reduce_scatter ring ll128 0.506645 @fit
reach_ratio nvlink reduce_scatter ring simple 0.598342 @fit
reach_ratio nvlink all_reduce tree ll 0.489175 @fit
reach_ratio nvlink all_reduce tree ll128 0.722978 @fit
reach_ratio nvlink all_reduce tree simple 0.908769 @fit
reach_ratio nvlink all_reduce ring ll 0.539093 @fit
reach_ratio nvlink all_reduce ring ll128 0.726315 @fit
reach_ratio nvlink all_reduce ring simple 0.839809 @fit
sharpness 2 @fit
correct_ratio all_gather ring ll 1024 0.991709 @fit
correct_ratio all_gather ring ll 8192 1.00505 @fit
correct_ratio all_gather ring ll 65536 1.02503 @fit
correct_ratio all_gather ring ll 262144 0.999269 @fit
correct_ratio all_gather ring ll 1048576 0.993934 @fit
correct_ratio all_gather ring ll 4194304 0.976924 @fit
correct_ratio all_gather ring ll 16777216 0.977284 @fit
correct_ratio all_gather ring ll 67108864 1.02808 @fit
correct_ratio all_gather ring ll 268435456 1.02808 @fit
correct_ratio all_gather ring ll128 1024 0.960745 @fit
correct_ratio all_gather ring ll128 8192 1.02301 @fit
correct_ratio all_gather ring ll128 65536 1.03483 @fit
correct_ratio all_gather ring ll128 262144 0.993578 @fit
correct_ratio all_gather ring ll128 1048576 0.966901 @fit
correct_ratio all_gather ring ll128 4194304 1.01897 @fit
correct_ratio all_gather ring ll128 16777216 1.0234 @fit
correct_ratio all_gather ring ll128 67108864 0.981057 @fit
correct_ratio all_gather ring ll128 268435456 0.981057 @fit
correct_ratio all_gather ring simple 1024 0.92252 @fit
correct_ratio all_gather ring simple 8192 0.990756 @fit
correct_ratio all_gather ring simple 65536 1.05393 @fit
correct_ratio all_gather ring simple 262144 1.01875 @fit
correct_ratio all_gather ring simple 1048576 0.960107 @fit
correct_ratio all_gather ring simple 4194304 1.01884 @fit
correct_ratio all_gather ring simple 16777216 1.04539 @fit
correct_ratio all_gather ring simple 67108864 0.999492 @fit
correct_ratio all_gather ring simple 268435456 0.968479 @fit
correct_ratio reduce_scatter ring ll 1024 1.00203 @fit
correct_ratio reduce_scatter ring ll 8192 1.00372 @fit
correct_ratio reduce_scatter ring ll 65536 1.0336 @fit
correct_ratio reduce_scatter ring ll 262144 1.01388 @fit
correct_ratio reduce_scatter ring ll 1048576 0.983476 @fit
correct_ratio reduce_scatter ring ll 4194304 0.917571 @fit
correct_ratio reduce_scatter ring ll 16777216 0.963156 @fit
correct_ratio reduce_scatter ring ll 67108864 1.14926 @fit
correct_ratio reduce_scatter ring ll 268435456 1.14926 @fit
correct_ratio reduce_scatter ring ll128 1024 0.940579 @fit
correct_ratio reduce_scatter ring ll128 8192 1.03988 @fit
correct_ratio reduce_scatter ring ll128 65536 1.05058 @fit
correct_ratio reduce_scatter ring ll128 262144 0.998253 @fit
correct_ratio reduce_scatter ring ll128 1048576 0.960426 @fit
correct_ratio reduce_scatter ring ll128 4194304 1.00289 @fit
correct_ratio reduce_scatter ring ll128 16777216 1.01514 @fit
correct_ratio reduce_scatter ring ll128 67108864 0.997622 @fit
correct_ratio reduce_scatter ring ll128 268435456 0.997622 @fit
correct_ratio reduce_scatter ring simple 1024 0.928967 @fit
correct_ratio reduce_scatter ring simple 8192 0.981955 @fit
correct_ratio reduce_scatter ring simple 65536 1.07135 @fit
correct_ratio reduce_scatter ring simple 262144 1.03701 @fit
correct_ratio reduce_scatter ring simple 1048576 0.969238 @fit
correct_ratio reduce_scatter ring simple 4194304 0.997741 @fit
correct_ratio reduce_scatter ring simple 16777216 1.01907 @fit
correct_ratio reduce_scatter ring simple 67108864 1.02327 @fit
correct_ratio reduce_scatter ring simple 268435456 0.969557 @fit
correct_ratio all_reduce tree ll 1024 1.01758 @fit
correct_ratio all_reduce tree ll 8192 1.00295 @fit
correct_ratio all_reduce tree ll 65536 1.03585 @fit
correct_ratio all_reduce tree ll 262144 0.961737 @fit
correct_ratio all_reduce tree ll 1048576 0.974277 @fit
correct_ratio all_reduce tree ll 4194304 1.01863 @fit
correct_ratio all_reduce tree ll 16777216 1.02855 @fit
correct_ratio all_reduce tree ll 67108864 0.981927 @fit
correct_ratio all_reduce tree ll 268435456 0.981927 @fit
correct_ratio all_reduce tree ll128 1024 1.00558 @fit
correct_ratio all_reduce tree ll128 8192 0.967032 @fit
correct_ratio all_reduce tree ll128 65536 0.982187 @fit
correct_ratio all_reduce tree ll128 262144 0.972755 @fit
correct_ratio all_reduce tree ll128 1048576 1.01336 @fit
correct_ratio all_reduce tree ll128 4194304 1.16005 @fit
correct_ratio all_reduce tree ll128 16777216 0.983496 @fit
correct_ratio all_reduce tree ll128 67108864 0.941699 @fit
correct_ratio all_reduce tree ll128 268435456 0.941699 @fit
correct_ratio all_reduce tree simple 1024 1.00671 @fit
correct_ratio all_reduce tree simple 8192 0.99981 @fit
correct_ratio all_reduce tree simple 65536 0.985452 @fit
correct_ratio all_reduce tree simple 262144 0.978686 @fit
correct_ratio all_reduce tree simple 1048576 0.973706 @fit
correct_ratio all_reduce tree simple 4194304 1.03277 @fit
correct_ratio all_reduce tree simple 16777216 1.10314 @fit
correct_ratio all_reduce tree simple 67108864 0.976732 @fit
correct_ratio all_reduce tree simple 268435456 0.935672 @fit
correct_ratio all_reduce ring ll 1024 1.02588 @fit
correct_ratio all_reduce ring ll 8192 0.986559 @fit
correct_ratio all_reduce ring ll 65536 1.01712 @fit
correct_ratio all_reduce ring ll 262144 1.00038 @fit
correct_ratio all_reduce ring ll 1048576 0.986034 @fit
correct_ratio all_reduce ring ll 4194304 0.966443 @fit
correct_ratio all_reduce ring ll 16777216 0.93251 @fit
correct_ratio all_reduce ring ll 67108864 1.12126 @fit
correct_ratio all_reduce ring ll 268435456 1.12126 @fit
correct_ratio all_reduce ring ll128 1024 0.95916 @fit
correct_ratio all_reduce ring ll128 8192 1.02141 @fit
correct_ratio all_reduce ring ll128 65536 1.0347 @fit
correct_ratio all_reduce ring ll128 262144 0.994922 @fit
correct_ratio all_reduce ring ll128 1048576 0.96561 @fit
correct_ratio all_reduce ring ll128 4194304 1.02566 @fit
correct_ratio all_reduce ring ll128 16777216 1.00874 @fit
correct_ratio all_reduce ring ll128 67108864 0.987661 @fit
correct_ratio all_reduce ring ll128 268435456 0.987661 @fit
correct_ratio all_reduce ring simple 1024 0.953378 @fit
correct_ratio all_reduce ring simple 8192 0.987773 @fit
correct_ratio all_reduce ring simple 65536 1.03477 @fit
correct_ratio all_reduce ring simple 262144 1.02343 @fit
correct_ratio all_reduce ring simple 1048576 0.982148 @fit
correct_ratio all_reduce ring simple 4194304 1.00761 @fit
correct_ratio all_reduce ring simple 16777216 1.00732 @fit
correct_ratio all_reduce ring simple 67108864 1.01563 @fit
correct_ratio all_reduce ring simple 268435456 0.976635 @fit
noise_ratio 0.047911 @fit
guard_ratio 0.0559816 @fit
channels_max 24 @fit
nccl_nvls 0 @fit
