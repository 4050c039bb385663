# Unit tests of include/nccl/: layouts; read by CMakeLists.txt.
braid_unit_test(nccl/net_layout)
braid_unit_test(nccl/tuner_layout)
