# Products fused with communication (gemm_*). Read by device/CMakeLists.txt; paths are relative to device/.
# The schedule and the choice of settings are plain C and are built, and tested, everywhere. The rest needs the CUDA toolkit's headers
# and compiler at build time, and libcuda and libcublasLt only at run time.
braid_library(braid_gemm_plan SOURCES ops/gemm_choice.c ops/gemm_model.c ops/gemm_plan.c LINKS braid_common m)
if(BRAID_HAVE_CUDA)
  set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/gemm_kernels.fatbin)
  list(GET BRAID_CUDA_ARCHS 0 first)
  string(REGEX MATCH "^[0-9]+" ptx ${first})
  set(gencodes)
  foreach(arch ${BRAID_CUDA_ARCHS})
    list(APPEND gencodes -gencode=arch=compute_${arch},code=sm_${arch})
  endforeach()
  add_custom_command(OUTPUT ${fatbin}
    COMMAND ${CMAKE_CUDA_COMPILER} -std=c++17 -O3 -I${PROJECT_SOURCE_DIR} --Werror=all-warnings ${gencodes} -gencode=arch=compute_${ptx},code=compute_${ptx}
            -fatbin -o ${fatbin} ${CMAKE_CURRENT_SOURCE_DIR}/ops/gemm_kernels.cu
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/ops/gemm_kernels.cu ${CMAKE_CURRENT_SOURCE_DIR}/ops/gemm_flags.h VERBATIM)
  set_source_files_properties(ops/gemm_image.c PROPERTIES OBJECT_DEPENDS ${fatbin}
    COMPILE_DEFINITIONS "BRAID_GEMM_FATBIN=\"${fatbin}\"")
  braid_library(braid_gemm
    SOURCES ops/gemm.c ops/gemm_blas.c ops/gemm_cuda.c ops/gemm_exec.c ops/gemm_image.c ops/gemm_lanes.c ops/gemm_tune.c ops/gemm_watch.c
    LINKS braid_gemm_plan)
  target_include_directories(braid_gemm SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
else()
  braid_library(braid_gemm SOURCES ops/gemm_none.c LINKS braid_gemm_plan)
endif()
