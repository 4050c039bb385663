# Collectives (ops.h). Read by device/CMakeLists.txt; paths are relative to device/. Their kernels become one module inside libbraid.so,
# loaded through the driver; without nvcc the library has none, and braid_ops_create says so.
braid_library(braid_collectives
  SOURCES ops/collectives.c ops/cuda.c ops/engine.c ops/image.c ops/kernels.c ops/ops.c ops/plan.c
  LINKS braid_device_host braid_common)
target_compile_definitions(braid_collectives PRIVATE BRAID_KERNEL_ARCHS="${BRAID_CUDA_ARCHS}")
if(BRAID_HAVE_CUDA)
  set(image ${CMAKE_CURRENT_BINARY_DIR}/collectives.fatbin)
  set(codes)
  foreach(arch ${BRAID_CUDA_ARCHS})
    list(APPEND codes -gencode=arch=compute_${arch},code=sm_${arch})
  endforeach()
  add_custom_command(OUTPUT ${image}
    COMMAND ${CMAKE_CUDA_COMPILER} -std=c++17 -O3 ${codes} --Werror=all-warnings -diag-suppress=177
            -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR} -MD -MF ${image}.d -MT ${image}
            -fatbin -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/ops/kernels/kernels.cu
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/ops/kernels/kernels.cu
    DEPFILE ${image}.d COMMENT "Compiling the collectives' kernels" VERBATIM)
  set_source_files_properties(ops/image.c PROPERTIES OBJECT_DEPENDS ${image}
    COMPILE_DEFINITIONS "BRAID_KERNEL_IMAGE=\"${image}\"")
endif()
