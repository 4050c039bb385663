# A libbraid for each choice of device/ops/attempts.h that is to be compared on GPUs, in build/dev/lib/attempts; see run_collectives.sh.
# Not part of `all`: cmake --build --preset dev --target attempts
if(NOT BRAID_HAVE_CUDA)
  return()
endif()
add_custom_target(attempts)

# braid_attempt(NAME DEFINITION ...)
function(braid_attempt name)
  set(ops ${PROJECT_SOURCE_DIR}/device/ops)
  set(image ${CMAKE_CURRENT_BINARY_DIR}/attempt_${name}.fatbin)
  set(codes)
  foreach(arch ${BRAID_CUDA_ARCHS})
    list(APPEND codes -gencode=arch=compute_${arch},code=sm_${arch})
  endforeach()
  list(TRANSFORM ARGN PREPEND -D OUTPUT_VARIABLE flags)
  add_custom_command(OUTPUT ${image}
    COMMAND ${CMAKE_CUDA_COMPILER} -std=c++17 -O3 ${codes} --Werror=all-warnings -diag-suppress=177 ${flags}
            -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR} -MD -MF ${image}.d -MT ${image}
            -fatbin -o ${image} ${ops}/kernels/kernels.cu
    DEPENDS ${ops}/kernels/kernels.cu DEPFILE ${image}.d COMMENT "Compiling the kernels of attempt ${name}" VERBATIM)
  configure_file(${ops}/image.c ${CMAKE_CURRENT_BINARY_DIR}/attempt_${name}.c COPYONLY)
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/attempt_${name}.c PROPERTIES OBJECT_DEPENDS ${image}
    COMPILE_DEFINITIONS "BRAID_KERNEL_IMAGE=\"${image}\"")
  add_library(attempt_${name} SHARED EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/attempt_${name}.c
    ${ops}/collectives.c ${ops}/cuda.c ${ops}/engine.c ${ops}/kernels.c ${ops}/ops.c ${ops}/plan.c
    $<TARGET_OBJECTS:braid_device_host>)
  target_compile_definitions(attempt_${name} PRIVATE BRAID_KERNEL_ARCHS="${BRAID_CUDA_ARCHS}" ${ARGN})
  target_include_directories(attempt_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(attempt_${name} PRIVATE braid_common braid::headers braid_options Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(attempt_${name} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/device/braid.map)
  set_target_properties(attempt_${name} PROPERTIES OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/attempts)
  add_dependencies(attempts attempt_${name})
endfunction()

# None at present; an example:
# braid_attempt(ring64 BRAID_SCATTER_RING=64u)
