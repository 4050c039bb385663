# Device library: what can be checked without a GPU, on a fake CUDA driver (device/fake_cuda.c).
add_library(fake_cuda SHARED device/fake_cuda.c device/fake_cuda_ops.c)
target_include_directories(fake_cuda PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(fake_cuda PRIVATE braid_options Threads::Threads)
set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fake_cuda)

braid_unit_test(device/host LINKS braid_device_host fake_cuda)
braid_unit_test(device/host_nccl LINKS braid_device_host fake_cuda)
set_target_properties(unit_device_host_nccl PROPERTIES ENABLE_EXPORTS ON) # it plays NCCL
braid_library(host_grid SOURCES device/host_grid.c LINKS Threads::Threads)
braid_unit_test(device/arith)
braid_unit_test(device/protocol LINKS braid_device_host fake_cuda host_grid)

# The mutant without releases: ThreadSanitizer must find races in it, or the test above would prove nothing.
if(BRAID_SANITIZE STREQUAL "thread")
  braid_program(unit_device_protocol_mutant SOURCES device/protocol_test.c
    LINKS braid_device_host fake_cuda host_grid cmocka)
  target_compile_definitions(unit_device_protocol_mutant PRIVATE BRAID_TESTS_NO_RELEASE)
  set_target_properties(unit_device_protocol_mutant PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unit)
  braid_test(unit/device/protocol_mutant LABELS unit COMMAND unit_device_protocol_mutant)
  set_tests_properties(unit/device/protocol_mutant PROPERTIES WILL_FAIL ON)
endif()

braid_unit_test(device/nvrtc)
set_tests_properties(unit/device/nvrtc PROPERTIES ENVIRONMENT
  "BRAID_SOURCE_TREE=${PROJECT_SOURCE_DIR};LD_LIBRARY_PATH=/usr/local/cuda/lib64:$ENV{LD_LIBRARY_PATH}")
if(BRAID_HAVE_CUDA)
  braid_unit_test(device/driver_layout LINKS CUDA::toolkit)
  braid_test(unit/device/calls LABELS unit COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/device/calls
    ${PROJECT_SOURCE_DIR} ${CMAKE_CUDA_COMPILER})
endif()

# Operators.
braid_unit_test(device/ops/gemm_choice LINKS braid_gemm_plan)
braid_unit_test(device/ops/gemm_plan LINKS braid_gemm_plan)
find_path(BRAID_CUBLASLT_HEADERS cublasLt.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(BRAID_HAVE_CUDA AND BRAID_CUBLASLT_HEADERS) # pip's nvcc comes without them
  add_library(fake_cublaslt SHARED device/fake_cublaslt.c)
  target_include_directories(fake_cublaslt SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${BRAID_CUBLASLT_HEADERS})
  target_link_libraries(fake_cublaslt PRIVATE braid_options m)
  set_target_properties(fake_cublaslt PROPERTIES OUTPUT_NAME cublasLt SOVERSION 13
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fake_cuda)
  braid_unit_test(device/ops/gemm LINKS braid_gemm braid_collectives braid_device_host fake_cuda fake_cublaslt)
endif()
braid_unit_test(tools/braid-overlap/stats LINKS braid_overlap_parts)

# Collectives.
braid_unit_test(device/ops/plan LINKS braid_collectives)
if(BRAID_HAVE_CUDA) # the kernels' image, cuda.h
  braid_unit_test(device/ops/engine LINKS braid_collectives braid_device_host fake_cuda)
  braid_unit_test(device/ops/cuda)
  target_include_directories(unit_device_ops_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
endif()
braid_program(overlap_sizes SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/tools/braid-overlap/sizes.c)
braid_test(unit/tools/braid-overlap/python LABELS unit
  COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/tools/braid-overlap/python_test.py $<TARGET_FILE:overlap_sizes>)
if(BRAID_HAVE_CUDA)
  braid_test(unit/tools/braid-overlap/options LABELS unit
    COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/tools/braid-overlap/options_test.py ${PROJECT_BINARY_DIR}/bin/braid-overlap)
  braid_test(unit/tools/braid-overlap/emulated TIMEOUT 240 LABELS unit
    COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/tools/braid-overlap/emulated_test.py $<TARGET_FILE:braid> $<TARGET_FILE_DIR:fake_cuda>)
endif()
