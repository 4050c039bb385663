# Made by `braid-tune fit` from h200x2-nvlink.sweep.csv. Of two H200 of one host over NVLink.
# rms of ln(predicted / measured): 0.044 over 700 rows; between equal configurations 0.048 (254 pairs).
braid-profile 1
name h200x2-nvlink
include generic.profile
source fit "h200x2-nvlink.sweep.csv, NCCL 2.28.9, 2026-11-29; least squares by braid-tune fit"
match_gpu "h200"
uncover * * *
match_ranks_min 2 @fit
match_ranks_max 2 @fit
match_nodes_min 1 @fit
match_nodes_max 1 @fit
trust 1 @fit
base_us all_gather ring ll 6.99512 @fit
base_us all_gather ring ll128 12.8943 @fit
base_us all_gather ring simple 16.3203 @fit
base_us reduce_scatter ring ll 6.81013 @fit
base_us reduce_scatter ring ll128 14.746 @fit
base_us reduce_scatter ring simple 13.4222 @fit
base_us all_reduce tree ll 7.82748 @fit
base_us all_reduce tree ll128 13.2759 @fit
base_us all_reduce tree simple 13.2423 @fit
base_us all_reduce ring ll 7.11785 @fit
base_us all_reduce ring ll128 14.2011 @fit
base_us all_reduce ring simple 15.1407 @fit
channel_us all_gather ring ll 0.0422748 @fit
channel_us all_gather ring ll128 0.0402245 @fit
channel_us all_gather ring simple 0.23632 @fit
channel_us reduce_scatter ring ll 0.0354852 @fit
channel_us reduce_scatter ring ll128 0.0945879 @fit
channel_us reduce_scatter ring simple 0.165204 @fit
channel_us all_reduce tree ll -0.00223551 @fit
channel_us all_reduce tree ll128 0.0420229 @fit
channel_us all_reduce tree simple 0.00841297 @fit
channel_us all_reduce ring ll 0.0444715 @fit
channel_us all_reduce ring ll128 0.0959692 @fit
channel_us all_reduce ring simple 0.151569 @fit
channel_GBps all_gather ring ll 4.27172 @fit
channel_GBps all_gather ring ll128 12.5952 @fit
channel_GBps all_gather ring simple 15.1462 @fit
channel_GBps reduce_scatter ring ll 6.03265 @fit
channel_GBps reduce_scatter ring ll128 13.3314 @fit
channel_GBps reduce_scatter ring simple 18.6552 @fit
channel_GBps all_reduce tree ll 4.68367 @fit
channel_GBps all_reduce tree ll128 11.1291 @fit
channel_GBps all_reduce tree simple 17.7688 @fit
channel_GBps all_reduce ring ll 6.28761 @fit
channel_GBps all_reduce ring ll128 16.0377 @fit
channel_GBps all_reduce ring simple 21.2885 @fit
reach_ratio nvlink all_gather ring ll 0.740128 @fit
reach_ratio nvlink all_gather ring ll128 0.575711 @fit
reach_ratio nvlink all_gather ring simple 0.740602 @fit
reach_ratio nvlink reduce_scatter ring ll 0.327857 @fit
reach_ratio nvlink reduce_scatter ring ll128 0.506916 @fit
reach_ratio nvlink reduce_scatter ring simple 0.598901 @fit
reach_ratio nvlink all_reduce tree ll 0.489189 @fit
reach_ratio nvlink all_reduce tree ll128 0.702026 @fit
reach_ratio nvlink all_reduce tree simple 0.908889 @fit
reach_ratio nvlink all_reduce ring ll 0.539298 @fit
reach_ratio nvlink all_reduce ring ll128 0.726811 @fit
reach_ratio nvlink all_reduce ring simple 0.840872 @fit
sharpness 2 @fit
correct_ratio all_gather ring ll 1024 0.990225 @fit
correct_ratio all_gather ring ll 8192 1.00605 @fit
correct_ratio all_gather ring ll 65536 1.0288 @fit
correct_ratio all_gather ring ll 262144 0.998649 @fit
correct_ratio all_gather ring ll 1048576 0.995916 @fit
correct_ratio all_gather ring ll 4194304 0.980066 @fit
correct_ratio all_gather ring ll 16777216 0.979967 @fit
correct_ratio all_gather ring ll 67108864 1.03735 @fit
correct_ratio all_gather ring ll 268435456 1.03735 @fit
correct_ratio all_gather ring ll128 1024 0.95367 @fit
correct_ratio all_gather ring ll128 8192 1.02744 @fit
correct_ratio all_gather ring ll128 65536 1.04527 @fit
correct_ratio all_gather ring ll128 262144 1.00934 @fit
correct_ratio all_gather ring ll128 1048576 0.986446 @fit
correct_ratio all_gather ring ll128 4194304 1.02596 @fit
correct_ratio all_gather ring ll128 16777216 1.02713 @fit
correct_ratio all_gather ring ll128 67108864 0.982104 @fit
correct_ratio all_gather ring ll128 268435456 0.982104 @fit
correct_ratio all_gather ring simple 1024 0.909344 @fit
correct_ratio all_gather ring simple 8192 0.989677 @fit
correct_ratio all_gather ring simple 65536 1.06271 @fit
correct_ratio all_gather ring simple 262144 1.02221 @fit
correct_ratio all_gather ring simple 1048576 0.980237 @fit
correct_ratio all_gather ring simple 4194304 1.03177 @fit
correct_ratio all_gather ring simple 16777216 1.03018 @fit
correct_ratio all_gather ring simple 67108864 0.989927 @fit
correct_ratio all_gather ring simple 268435456 0.964702 @fit
correct_ratio reduce_scatter ring ll 1024 1.00246 @fit
correct_ratio reduce_scatter ring ll 8192 1.00446 @fit
correct_ratio reduce_scatter ring ll 65536 1.03851 @fit
correct_ratio reduce_scatter ring ll 262144 1.01055 @fit
correct_ratio reduce_scatter ring ll 1048576 0.971307 @fit
correct_ratio reduce_scatter ring ll 4194304 0.905699 @fit
correct_ratio reduce_scatter ring ll 16777216 0.954489 @fit
correct_ratio reduce_scatter ring ll 67108864 1.24371 @fit
correct_ratio reduce_scatter ring ll 268435456 1.24371 @fit
correct_ratio reduce_scatter ring ll128 1024 0.93011 @fit
correct_ratio reduce_scatter ring ll128 8192 1.04772 @fit
correct_ratio reduce_scatter ring ll128 65536 1.0627 @fit
correct_ratio reduce_scatter ring ll128 262144 1.00915 @fit
correct_ratio reduce_scatter ring ll128 1048576 0.976489 @fit
correct_ratio reduce_scatter ring ll128 4194304 0.99776 @fit
correct_ratio reduce_scatter ring ll128 16777216 1.01716 @fit
correct_ratio reduce_scatter ring ll128 67108864 1.00095 @fit
correct_ratio reduce_scatter ring ll128 268435456 1.00095 @fit
correct_ratio reduce_scatter ring simple 1024 0.91665 @fit
correct_ratio reduce_scatter ring simple 8192 0.979004 @fit
correct_ratio reduce_scatter ring simple 65536 1.08864 @fit
correct_ratio reduce_scatter ring simple 262144 1.04483 @fit
correct_ratio reduce_scatter ring simple 1048576 0.978092 @fit
correct_ratio reduce_scatter ring simple 4194304 1.00222 @fit
correct_ratio reduce_scatter ring simple 16777216 1.01163 @fit
correct_ratio reduce_scatter ring simple 67108864 1.01842 @fit
correct_ratio reduce_scatter ring simple 268435456 0.96601 @fit
correct_ratio all_reduce tree ll 1024 1.02089 @fit
correct_ratio all_reduce tree ll 8192 1.00902 @fit
correct_ratio all_reduce tree ll 65536 1.01633 @fit
correct_ratio all_reduce tree ll 262144 0.952177 @fit
correct_ratio all_reduce tree ll 1048576 0.978106 @fit
correct_ratio all_reduce tree ll 4194304 1.01878 @fit
correct_ratio all_reduce tree ll 16777216 1.03222 @fit
correct_ratio all_reduce tree ll 67108864 0.995088 @fit
correct_ratio all_reduce tree ll 268435456 0.995088 @fit
correct_ratio all_reduce tree ll128 1024 1.00729 @fit
correct_ratio all_reduce tree ll128 8192 0.96166 @fit
correct_ratio all_reduce tree ll128 65536 0.969376 @fit
correct_ratio all_reduce tree ll128 262144 0.964728 @fit
correct_ratio all_reduce tree ll128 1048576 1.07204 @fit
correct_ratio all_reduce tree ll128 4194304 1.14479 @fit
correct_ratio all_reduce tree ll128 16777216 0.978471 @fit
correct_ratio all_reduce tree ll128 67108864 0.925237 @fit
correct_ratio all_reduce tree ll128 268435456 0.925237 @fit
correct_ratio all_reduce tree simple 1024 1.00798 @fit
correct_ratio all_reduce tree simple 8192 0.999795 @fit
correct_ratio all_reduce tree simple 65536 0.98486 @fit
correct_ratio all_reduce tree simple 262144 0.967661 @fit
correct_ratio all_reduce tree simple 1048576 0.983595 @fit
correct_ratio all_reduce tree simple 4194304 1.06662 @fit
correct_ratio all_reduce tree simple 16777216 1.10309 @fit
correct_ratio all_reduce tree simple 67108864 0.973942 @fit
correct_ratio all_reduce tree simple 268435456 0.929079 @fit
correct_ratio all_reduce ring ll 1024 1.03085 @fit
correct_ratio all_reduce ring ll 8192 0.984135 @fit
correct_ratio all_reduce ring ll 65536 1.02078 @fit
correct_ratio all_reduce ring ll 262144 0.989271 @fit
correct_ratio all_reduce ring ll 1048576 0.96844 @fit
correct_ratio all_reduce ring ll 4194304 0.956723 @fit
correct_ratio all_reduce ring ll 16777216 0.932365 @fit
correct_ratio all_reduce ring ll 67108864 1.1782 @fit
correct_ratio all_reduce ring ll 268435456 1.1782 @fit
correct_ratio all_reduce ring ll128 1024 0.951983 @fit
correct_ratio all_reduce ring ll128 8192 1.02571 @fit
correct_ratio all_reduce ring ll128 65536 1.04593 @fit
correct_ratio all_reduce ring ll128 262144 1.00627 @fit
correct_ratio all_reduce ring ll128 1048576 0.984977 @fit
correct_ratio all_reduce ring ll128 4194304 1.02615 @fit
correct_ratio all_reduce ring ll128 16777216 1.01426 @fit
correct_ratio all_reduce ring ll128 67108864 0.992999 @fit
correct_ratio all_reduce ring ll128 268435456 0.992999 @fit
correct_ratio all_reduce ring simple 1024 0.94537 @fit
correct_ratio all_reduce ring simple 8192 0.985962 @fit
correct_ratio all_reduce ring simple 65536 1.04549 @fit
correct_ratio all_reduce ring simple 262144 1.02922 @fit
correct_ratio all_reduce ring simple 1048576 1.00122 @fit
correct_ratio all_reduce ring simple 4194304 1.0279 @fit
correct_ratio all_reduce ring simple 16777216 1.00009 @fit
correct_ratio all_reduce ring simple 67108864 1.00599 @fit
correct_ratio all_reduce ring simple 268435456 0.972824 @fit
correct_one_ratio all_gather ring ll 1024 0.9951 @fit
correct_one_ratio all_gather ring ll 8192 1.00302 @fit
correct_one_ratio all_gather ring ll 65536 0.956917 @fit
correct_one_ratio all_gather ring ll 262144 0.966809 @fit
correct_one_ratio all_gather ring ll 1048576 0.987822 @fit
correct_one_ratio all_gather ring ll 4194304 1.00002 @fit
correct_one_ratio all_gather ring ll 16777216 0.99977 @fit
correct_one_ratio all_gather ring ll 67108864 1.0438 @fit
correct_one_ratio all_gather ring ll 268435456 1.0438 @fit
correct_one_ratio all_gather ring ll128 1024 0.97656 @fit
correct_one_ratio all_gather ring ll128 8192 1.01363 @fit
correct_one_ratio all_gather ring ll128 65536 0.955035 @fit
correct_one_ratio all_gather ring ll128 262144 0.974271 @fit
correct_one_ratio all_gather ring ll128 1048576 0.953902 @fit
correct_one_ratio all_gather ring ll128 4194304 0.989889 @fit
correct_one_ratio all_gather ring ll128 16777216 0.997342 @fit
correct_one_ratio all_gather ring ll128 67108864 1.00524 @fit
correct_one_ratio all_gather ring ll128 268435456 1.00524 @fit
correct_one_ratio all_gather ring simple 1024 0.953595 @fit
correct_one_ratio all_gather ring simple 8192 0.994825 @fit
correct_one_ratio all_gather ring simple 65536 1.08732 @fit
correct_one_ratio all_gather ring simple 262144 1.09448 @fit
correct_one_ratio all_gather ring simple 1048576 1.05128 @fit
correct_one_ratio all_gather ring simple 4194304 1.00598 @fit
correct_one_ratio all_gather ring simple 16777216 0.975677 @fit
correct_one_ratio all_gather ring simple 67108864 0.990825 @fit
correct_one_ratio all_gather ring simple 268435456 0.994921 @fit
correct_one_ratio reduce_scatter ring ll 1024 1.00123 @fit
correct_one_ratio reduce_scatter ring ll 8192 1.00223 @fit
correct_one_ratio reduce_scatter ring ll 65536 0.945846 @fit
correct_one_ratio reduce_scatter ring ll 262144 0.939211 @fit
correct_one_ratio reduce_scatter ring ll 1048576 0.935756 @fit
correct_one_ratio reduce_scatter ring ll 4194304 0.950078 @fit
correct_one_ratio reduce_scatter ring ll 16777216 0.951379 @fit
correct_one_ratio reduce_scatter ring ll 67108864 1.41387 @fit
correct_one_ratio reduce_scatter ring ll 268435456 1.41387 @fit
correct_one_ratio reduce_scatter ring ll128 1024 0.964422 @fit
correct_one_ratio reduce_scatter ring ll128 8192 1.02358 @fit
correct_one_ratio reduce_scatter ring ll128 65536 0.983242 @fit
correct_one_ratio reduce_scatter ring ll128 262144 0.99051 @fit
correct_one_ratio reduce_scatter ring ll128 1048576 0.955899 @fit
correct_one_ratio reduce_scatter ring ll128 4194304 0.985371 @fit
correct_one_ratio reduce_scatter ring ll128 16777216 0.986081 @fit
correct_one_ratio reduce_scatter ring ll128 67108864 1.02746 @fit
correct_one_ratio reduce_scatter ring ll128 268435456 1.02746 @fit
correct_one_ratio reduce_scatter ring simple 1024 0.957418 @fit
correct_one_ratio reduce_scatter ring simple 8192 0.989446 @fit
correct_one_ratio reduce_scatter ring simple 65536 1.04126 @fit
correct_one_ratio reduce_scatter ring simple 262144 1.05572 @fit
correct_one_ratio reduce_scatter ring simple 1048576 1.01941 @fit
correct_one_ratio reduce_scatter ring simple 4194304 0.983841 @fit
correct_one_ratio reduce_scatter ring simple 16777216 0.984642 @fit
correct_one_ratio reduce_scatter ring simple 67108864 1.00501 @fit
correct_one_ratio reduce_scatter ring simple 268435456 1.01158 @fit
correct_one_ratio all_reduce tree ll 1024 1.01039 @fit
correct_one_ratio all_reduce tree ll 8192 0.935566 @fit
correct_one_ratio all_reduce tree ll 65536 0.909332 @fit
correct_one_ratio all_reduce tree ll 262144 0.976757 @fit
correct_one_ratio all_reduce tree ll 1048576 1.01327 @fit
correct_one_ratio all_reduce tree ll 4194304 1.01687 @fit
correct_one_ratio all_reduce tree ll 16777216 1.01917 @fit
correct_one_ratio all_reduce tree ll 67108864 1.02693 @fit
correct_one_ratio all_reduce tree ll 268435456 1.02693 @fit
correct_one_ratio all_reduce tree ll128 1024 1.00364 @fit
correct_one_ratio all_reduce tree ll128 8192 0.980643 @fit
correct_one_ratio all_reduce tree ll128 65536 1.02431 @fit
correct_one_ratio all_reduce tree ll128 262144 1.26435 @fit
correct_one_ratio all_reduce tree ll128 1048576 1.06325 @fit
correct_one_ratio all_reduce tree ll128 4194304 1.00795 @fit
correct_one_ratio all_reduce tree ll128 16777216 0.945213 @fit
correct_one_ratio all_reduce tree ll128 67108864 0.894893 @fit
correct_one_ratio all_reduce tree ll128 268435456 0.894893 @fit
correct_one_ratio all_reduce tree simple 1024 1.00398 @fit
correct_one_ratio all_reduce tree simple 8192 0.999898 @fit
correct_one_ratio all_reduce tree simple 65536 0.957431 @fit
correct_one_ratio all_reduce tree simple 262144 1.00733 @fit
correct_one_ratio all_reduce tree simple 1048576 1.11849 @fit
correct_one_ratio all_reduce tree simple 4194304 1.01808 @fit
correct_one_ratio all_reduce tree simple 16777216 0.959993 @fit
correct_one_ratio all_reduce tree simple 67108864 0.959716 @fit
correct_one_ratio all_reduce tree simple 268435456 0.958925 @fit
correct_one_ratio all_reduce ring ll 1024 1.01531 @fit
correct_one_ratio all_reduce ring ll 8192 0.992036 @fit
correct_one_ratio all_reduce ring ll 65536 0.925852 @fit
correct_one_ratio all_reduce ring ll 262144 0.925264 @fit
correct_one_ratio all_reduce ring ll 1048576 0.946551 @fit
correct_one_ratio all_reduce ring ll 4194304 0.963498 @fit
correct_one_ratio all_reduce ring ll 16777216 0.969166 @fit
correct_one_ratio all_reduce ring ll 67108864 1.23851 @fit
correct_one_ratio all_reduce ring ll 268435456 1.23851 @fit
correct_one_ratio all_reduce ring ll128 1024 0.975696 @fit
correct_one_ratio all_reduce ring ll128 8192 1.01278 @fit
correct_one_ratio all_reduce ring ll128 65536 0.976166 @fit
correct_one_ratio all_reduce ring ll128 262144 0.978101 @fit
correct_one_ratio all_reduce ring ll128 1048576 0.970184 @fit
correct_one_ratio all_reduce ring ll128 4194304 0.971736 @fit
correct_one_ratio all_reduce ring ll128 16777216 0.989074 @fit
correct_one_ratio all_reduce ring ll128 67108864 1.01482 @fit
correct_one_ratio all_reduce ring ll128 268435456 1.01482 @fit
correct_one_ratio all_reduce ring simple 1024 0.972302 @fit
correct_one_ratio all_reduce ring simple 8192 0.992956 @fit
correct_one_ratio all_reduce ring simple 65536 0.992247 @fit
correct_one_ratio all_reduce ring simple 262144 1.03479 @fit
correct_one_ratio all_reduce ring simple 1048576 1.01444 @fit
correct_one_ratio all_reduce ring simple 4194304 0.984124 @fit
correct_one_ratio all_reduce ring simple 16777216 0.985477 @fit
correct_one_ratio all_reduce ring simple 67108864 1.00152 @fit
correct_one_ratio all_reduce ring simple 268435456 1.00729 @fit
noise_ratio 0.047911 @fit
guard_ratio 0.0391233 @fit
channels_max 24 @fit
nccl_nvls 0 @fit
