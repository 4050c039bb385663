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

# Pulls: loads on their way.
braid_attempt(pull512 BRAID_PULL_THREADS=512u)
braid_attempt(pull1024x2 BRAID_PULL_THREADS=1024u BRAID_REDUCE_UNROLL=2)
braid_attempt(pull384x8 BRAID_PULL_THREADS=384u BRAID_REDUCE_UNROLL=8)
# Pulls with copy engines beside them: 64ths of the block, parts, 16ths of the CTAs.
braid_attempt(push24 BRAID_PULL_ENGINE=24u BRAID_PULL_ENGINE_CTAS=6u)
braid_attempt(push32 BRAID_PULL_ENGINE=32u BRAID_PULL_ENGINE_CTAS=8u)
braid_attempt(push32_parts4 BRAID_PULL_ENGINE=32u BRAID_PULL_ENGINE_CTAS=8u BRAID_PULL_ENGINE_PARTS=4u)
braid_attempt(push48_parts4 BRAID_PULL_ENGINE=48u BRAID_PULL_ENGINE_CTAS=10u BRAID_PULL_ENGINE_PARTS=4u)
braid_attempt(push64_parts4 BRAID_PULL_ENGINE=64u BRAID_PULL_ENGINE_CTAS=16u BRAID_PULL_ENGINE_PARTS=4u)
# Copy engines with SMs beside them: their number, 64ths of the blocks that they push.
braid_attempt(ce_sm1 BRAID_ENGINE_SMS=1u)
braid_attempt(ce_sm2_12 BRAID_ENGINE_SMS=2u BRAID_ENGINE_SM_SHARE=12u BRAID_COPY_UNROLL=8)
braid_attempt(ce_sm4_20 BRAID_ENGINE_SMS=4u BRAID_ENGINE_SM_SHARE=20u BRAID_COPY_UNROLL=8)
braid_attempt(ce_sm4_28 BRAID_ENGINE_SMS=4u BRAID_ENGINE_SM_SHARE=28u BRAID_COPY_UNROLL=8)
braid_attempt(ce_sm8_20 BRAID_ENGINE_SMS=8u BRAID_ENGINE_SM_SHARE=20u BRAID_COPY_UNROLL=8)
braid_attempt(ce_sm8_32 BRAID_ENGINE_SMS=8u BRAID_ENGINE_SM_SHARE=32u BRAID_COPY_UNROLL=8)
