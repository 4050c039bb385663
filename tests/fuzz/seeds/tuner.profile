braid-profile 1
name seed
source t "made up"
trust 1 @t
noise_ratio 0.05 @t
guard_ratio 0.05 @t
sharpness 4 @t
intra_link 0 @t
channels 8 @t
channels_max 8 @t
group_batch 8 @t
base_us * ring * 10 @t
hop_us nvlink ring * 1 @t
channel_GBps * ring * 10 @t
base_us all_reduce tree * 20 @t
channel_GBps all_reduce tree * 10 @t
rate_GBps port 40 @t
reach_ratio * * * * 0.8 @t
correct_ratio all_reduce ring ll 1024 1.1 @t
correct_ratio all_reduce ring ll 1048576 0.9 @t
rule_budget all_reduce 1K 1M 4
rule_chunk all_reduce tree ll128 1M 1G 1 64 65536
