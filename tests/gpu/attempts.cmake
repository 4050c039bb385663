# A libbraid for each choice of device/ops/attempts.h that is to be compared on GPUs, in build/dev/lib/attempts; see run_collectives.sh.
# Not part of `all`: cmake --build --preset dev --target attempts
if(NOT BRAID_HAVE_CUDA)
  return()
endif()
add_custom_target(attempts)

# braid_attempt(NAME DEFINITION ...): names that begin with ce_ change copy engines only.
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

# Two-shot and reduce-scatter.
set(deep2 BRAID_OPS_PUSHERS=2u BRAID_OPS_PIECE=16384u BRAID_OPS_LAG=3u)
braid_attempt(deep2 ${deep2})
braid_attempt(deep2_chunk64 ${deep2} BRAID_OPS_STAGED_CHUNK=65536u BRAID_OPS_IDLE_NS=64u)
braid_attempt(deep1_chunk32 BRAID_OPS_PUSHERS=1u BRAID_OPS_PIECE=16384u BRAID_OPS_STAGES=10u BRAID_OPS_LAG=5u
  BRAID_OPS_STAGED_CHUNK=32768u BRAID_OPS_IDLE_NS=64u)
braid_attempt(chunk64 BRAID_OPS_STAGED_CHUNK=65536u)
braid_attempt(idle BRAID_OPS_IDLE_NS=64u)
braid_attempt(quiet BRAID_OPS_QUIET_POLLS=1 BRAID_OPS_IDLE_NS=32u)
braid_attempt(quiet_deep2 ${deep2} BRAID_OPS_STAGED_CHUNK=32768u BRAID_OPS_QUIET_POLLS=1 BRAID_OPS_IDLE_NS=32u)
braid_attempt(ring24 "BRAID_OPS_RING=(24u<<20)")
braid_attempt(pull BRAID_OPS_PULL=1)
braid_attempt(pull6 BRAID_OPS_PULL=1 BRAID_REDUCE_UNROLL=6)
braid_attempt(engine_reduce BRAID_ENGINE_REDUCE=1 BRAID_ENGINE_TELL_BY_COPY=1 BRAID_ENGINE_MEET_BY_KERNEL=1)
# Copy engines.
braid_attempt(ce_unwatched BRAID_ENGINE_UNWATCHED=1)
braid_attempt(ce_tell BRAID_ENGINE_TELL_BY_COPY=1 BRAID_ENGINE_OWN_LAST=1)
braid_attempt(ce_parts2 BRAID_ENGINE_PARTS=2u)
braid_attempt(ce_parts4 BRAID_ENGINE_PARTS=4u)
braid_attempt(ce_kernel BRAID_ENGINE_MEET_BY_KERNEL=1)
braid_attempt(ce_swap BRAID_ENGINE_TELL_BY_COPY=1 BRAID_ENGINE_SWAP_BY_STAGING=1)
