# Made by `braid-tune fit` from h200x2-socket.sweep.csv. Of two H200 as two nodes (one rank each) over NCCL's Socket transport on loopback.
# rms of ln(predicted / measured): 0.078 over 180 rows; between equal configurations 0.115 (76 pairs).
braid-profile 1
name h200x2-socket
include generic-socket.profile
source fit "h200x2-socket.sweep.csv, NCCL 2.28.9, 2026-11-29; least squares by braid-tune fit"
match_gpu "h200"
match_net "socket"
uncover * * *
match_ranks_min 2 @fit
match_ranks_max 2 @fit
match_nodes_max 2 @fit
trust 1 @fit
base_us all_gather ring ll 26.5656 @fit
base_us all_gather ring ll128 31.6718 @fit
base_us all_gather ring simple 47.3521 @fit
base_us reduce_scatter ring ll 29.7817 @fit
base_us reduce_scatter ring ll128 33.6431 @fit
base_us reduce_scatter ring simple 33.4811 @fit
base_us all_reduce tree ll 24.0432 @fit
base_us all_reduce tree ll128 42.1696 @fit
base_us all_reduce tree simple 27.7897 @fit
base_us all_reduce ring ll 38.8663 @fit
base_us all_reduce ring ll128 47.4041 @fit
base_us all_reduce ring simple 50.2969 @fit
channel_us all_gather ring ll 8.86901 @fit
channel_us all_gather ring ll128 4.08265 @fit
channel_us all_gather ring simple 11.9476 @fit
channel_us reduce_scatter ring ll 6.63494 @fit
channel_us reduce_scatter ring ll128 5.08718 @fit
channel_us reduce_scatter ring simple 15.7273 @fit
channel_us all_reduce tree ll -1.35239 @fit
channel_us all_reduce tree ll128 -3.071 @fit
channel_us all_reduce tree simple -2.51895 @fit
channel_us all_reduce ring ll 17.2493 @fit
channel_us all_reduce ring ll128 32.8352 @fit
channel_us all_reduce ring simple 28.0955 @fit
channel_GBps all_gather ring ll 6.28485 @fit
channel_GBps all_gather ring ll128 16.6392 @fit
channel_GBps all_gather ring simple 3.72541 @fit
channel_GBps reduce_scatter ring ll 6.01351 @fit
channel_GBps reduce_scatter ring ll128 17.751 @fit
channel_GBps reduce_scatter ring simple 3.81064 @fit
channel_GBps all_reduce tree ll 1.36511 @fit
channel_GBps all_reduce tree ll128 13.1509 @fit
channel_GBps all_reduce tree simple 4.13783 @fit
channel_GBps all_reduce ring ll 1.94028 @fit
channel_GBps all_reduce ring ll128 18.1277 @fit
channel_GBps all_reduce ring simple 6.17591 @fit
reach_ratio net all_gather ring ll 0.0834902 @fit
reach_ratio net all_gather ring ll128 0.165612 @fit
reach_ratio net all_gather ring simple 0.374574 @fit
reach_ratio net reduce_scatter ring ll 0.0861988 @fit
reach_ratio net reduce_scatter ring ll128 0.165329 @fit
reach_ratio net reduce_scatter ring simple 0.331431 @fit
reach_ratio net all_reduce tree ll 0.107257 @fit
reach_ratio net all_reduce tree ll128 0.138375 @fit
reach_ratio net all_reduce tree simple 0.385249 @fit
reach_ratio net all_reduce ring ll 0.0930339 @fit
reach_ratio net all_reduce ring ll128 0.178916 @fit
reach_ratio net all_reduce ring simple 0.358353 @fit
sharpness 2 @fit
correct_ratio all_gather ring ll 1024 1.04189 @fit
correct_ratio all_gather ring ll 16384 1.01434 @fit
correct_ratio all_gather ring ll 262144 0.904145 @fit
correct_ratio all_gather ring ll 4194304 1.11019 @fit
correct_ratio all_gather ring ll 33554432 1.00995 @fit
correct_ratio all_gather ring ll128 1024 1.02017 @fit
correct_ratio all_gather ring ll128 16384 0.944301 @fit
correct_ratio all_gather ring ll128 262144 1.10881 @fit
correct_ratio all_gather ring ll128 4194304 0.981748 @fit
correct_ratio all_gather ring ll128 33554432 1.00283 @fit
correct_ratio all_gather ring simple 1024 0.995106 @fit
correct_ratio all_gather ring simple 16384 0.981211 @fit
correct_ratio all_gather ring simple 262144 1.01799 @fit
correct_ratio all_gather ring simple 4194304 1.02795 @fit
correct_ratio all_gather ring simple 33554432 0.95945 @fit
correct_ratio reduce_scatter ring ll 1024 1.03026 @fit
correct_ratio reduce_scatter ring ll 16384 0.986094 @fit
correct_ratio reduce_scatter ring ll 262144 0.990791 @fit
correct_ratio reduce_scatter ring ll 4194304 1.05476 @fit
correct_ratio reduce_scatter ring ll 33554432 0.977652 @fit
correct_ratio reduce_scatter ring ll128 1024 1.01255 @fit
correct_ratio reduce_scatter ring ll128 16384 0.937488 @fit
correct_ratio reduce_scatter ring ll128 262144 1.13692 @fit
correct_ratio reduce_scatter ring ll128 4194304 1.02277 @fit
correct_ratio reduce_scatter ring ll128 33554432 0.989522 @fit
correct_ratio reduce_scatter ring simple 1024 0.972146 @fit
correct_ratio reduce_scatter ring simple 16384 0.986415 @fit
correct_ratio reduce_scatter ring simple 262144 1.05678 @fit
correct_ratio reduce_scatter ring simple 4194304 1.03389 @fit
correct_ratio reduce_scatter ring simple 33554432 0.936265 @fit
correct_ratio all_reduce tree ll 1024 1.04509 @fit
correct_ratio all_reduce tree ll 16384 0.898828 @fit
correct_ratio all_reduce tree ll 262144 1.04552 @fit
correct_ratio all_reduce tree ll 4194304 1.01028 @fit
correct_ratio all_reduce tree ll 33554432 0.996828 @fit
correct_ratio all_reduce tree ll128 1024 1.11273 @fit
correct_ratio all_reduce tree ll128 16384 0.796067 @fit
correct_ratio all_reduce tree ll128 262144 1.10122 @fit
correct_ratio all_reduce tree ll128 4194304 1.09106 @fit
correct_ratio all_reduce tree ll128 33554432 0.915452 @fit
correct_ratio all_reduce tree simple 1024 0.975858 @fit
correct_ratio all_reduce tree simple 16384 1.0692 @fit
correct_ratio all_reduce tree simple 262144 0.843735 @fit
correct_ratio all_reduce tree simple 4194304 1.0476 @fit
correct_ratio all_reduce tree simple 33554432 1.06678 @fit
correct_ratio all_reduce ring ll 1024 1.00299 @fit
correct_ratio all_reduce ring ll 16384 1.01841 @fit
correct_ratio all_reduce ring ll 262144 0.935472 @fit
correct_ratio all_reduce ring ll 4194304 0.98581 @fit
correct_ratio all_reduce ring ll 33554432 1.04461 @fit
correct_ratio all_reduce ring ll128 1024 1.00367 @fit
correct_ratio all_reduce ring ll128 16384 0.991692 @fit
correct_ratio all_reduce ring ll128 262144 1.16324 @fit
correct_ratio all_reduce ring ll128 4194304 0.979324 @fit
correct_ratio all_reduce ring ll128 33554432 1.0153 @fit
correct_ratio all_reduce ring simple 1024 0.962455 @fit
correct_ratio all_reduce ring simple 16384 1.00739 @fit
correct_ratio all_reduce ring simple 262144 1.05474 @fit
correct_ratio all_reduce ring simple 4194304 1.01561 @fit
correct_ratio all_reduce ring simple 33554432 0.946541 @fit
correct_one_ratio all_gather ring ll 1024 1.02073 @fit
correct_one_ratio all_gather ring ll 16384 0.878082 @fit
correct_one_ratio all_gather ring ll 262144 1.01105 @fit
correct_one_ratio all_gather ring ll 4194304 1.00294 @fit
correct_one_ratio all_gather ring ll 33554432 0.956558 @fit
correct_one_ratio all_gather ring ll128 1024 1.01004 @fit
correct_one_ratio all_gather ring ll128 16384 0.972659 @fit
correct_one_ratio all_gather ring ll128 262144 0.996433 @fit
correct_one_ratio all_gather ring ll128 4194304 0.975238 @fit
correct_one_ratio all_gather ring ll128 33554432 0.945434 @fit
correct_one_ratio all_gather ring simple 1024 0.99755 @fit
correct_one_ratio all_gather ring simple 16384 0.990561 @fit
correct_one_ratio all_gather ring simple 262144 1.0669 @fit
correct_one_ratio all_gather ring simple 4194304 1.08761 @fit
correct_one_ratio all_gather ring simple 33554432 0.926469 @fit
correct_one_ratio reduce_scatter ring ll 1024 1.01502 @fit
correct_one_ratio reduce_scatter ring ll 16384 0.933853 @fit
correct_one_ratio reduce_scatter ring ll 262144 0.961656 @fit
correct_one_ratio reduce_scatter ring ll 4194304 1.01093 @fit
correct_one_ratio reduce_scatter ring ll 33554432 0.999768 @fit
correct_one_ratio reduce_scatter ring ll128 1024 1.00625 @fit
correct_one_ratio reduce_scatter ring ll128 16384 1.00272 @fit
correct_one_ratio reduce_scatter ring ll128 262144 0.952747 @fit
correct_one_ratio reduce_scatter ring ll128 4194304 0.951706 @fit
correct_one_ratio reduce_scatter ring ll128 33554432 0.92425 @fit
correct_one_ratio reduce_scatter ring simple 1024 0.985975 @fit
correct_one_ratio reduce_scatter ring simple 16384 0.993184 @fit
correct_one_ratio reduce_scatter ring simple 262144 1.13707 @fit
correct_one_ratio reduce_scatter ring simple 4194304 1.04774 @fit
correct_one_ratio reduce_scatter ring simple 33554432 0.926571 @fit
correct_one_ratio all_reduce tree ll 1024 1.0223 @fit
correct_one_ratio all_reduce tree ll 16384 0.933833 @fit
correct_one_ratio all_reduce tree ll 262144 1.2011 @fit
correct_one_ratio all_reduce tree ll 4194304 1.02511 @fit
correct_one_ratio all_reduce tree ll 33554432 0.908472 @fit
correct_one_ratio all_reduce tree ll128 1024 1.05486 @fit
correct_one_ratio all_reduce tree ll128 16384 0.787734 @fit
correct_one_ratio all_reduce tree ll128 262144 1.17418 @fit
correct_one_ratio all_reduce tree ll128 4194304 1.00094 @fit
correct_one_ratio all_reduce tree ll128 33554432 0.742904 @fit
correct_one_ratio all_reduce tree simple 1024 0.987856 @fit
correct_one_ratio all_reduce tree simple 16384 1.03402 @fit
correct_one_ratio all_reduce tree simple 262144 0.967633 @fit
correct_one_ratio all_reduce tree simple 4194304 1.02365 @fit
correct_one_ratio all_reduce tree simple 33554432 1.00223 @fit
correct_one_ratio all_reduce ring ll 1024 1.00149 @fit
correct_one_ratio all_reduce ring ll 16384 0.984862 @fit
correct_one_ratio all_reduce ring ll 262144 1.00177 @fit
correct_one_ratio all_reduce ring ll 4194304 1.05247 @fit
correct_one_ratio all_reduce ring ll 33554432 0.998137 @fit
correct_one_ratio all_reduce ring ll128 1024 1.00184 @fit
correct_one_ratio all_reduce ring ll128 16384 0.946548 @fit
correct_one_ratio all_reduce ring ll128 262144 0.960774 @fit
correct_one_ratio all_reduce ring ll128 4194304 0.897931 @fit
correct_one_ratio all_reduce ring ll128 33554432 0.984984 @fit
correct_one_ratio all_reduce ring simple 1024 0.981048 @fit
correct_one_ratio all_reduce ring simple 16384 1.00369 @fit
correct_one_ratio all_reduce ring simple 262144 1.08764 @fit
correct_one_ratio all_reduce ring simple 4194304 1.03773 @fit
correct_one_ratio all_reduce ring simple 33554432 0.960947 @fit
noise_ratio 0.115114 @fit
guard_ratio 0.0875 @fit
