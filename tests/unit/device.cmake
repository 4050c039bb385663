# Device library: what can be checked without a GPU.
braid_test(unit/device/headers TIMEOUT 180 LABELS unit
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/device/headers.sh ${PROJECT_SOURCE_DIR} ${CMAKE_CUDA_COMPILER})
