# The collectives on GPUs: function and failures (gpu_collectives), copy blocks by SM count (gpu_copy_blocks). Run through
# tests/gpu/run_collectives.sh. The first uses libbraid.so beside it, as a user would; the second only headers.
braid_cuda_program(gpu_collectives
  SOURCES collectives/main.cu collectives/values.cu collectives/sums.cu collectives/copies.cu collectives/special.cu
          collectives/late.cu LINKS braid)
braid_cuda_program(gpu_copy_blocks SOURCES collectives/blocks.cu)
if(TARGET gpu_collectives)
  set_target_properties(gpu_collectives PROPERTIES BUILD_RPATH "$ORIGIN/../lib")
endif()
include(attempts.cmake)
