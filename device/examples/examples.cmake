# Examples for people to read and run; they use the public headers and libbraid.so only.
foreach(example 01_put_signal 02_tile_pipeline)
  braid_cuda_program(example_${example} SOURCES examples/${example}/main.cu LINKS braid)
  if(BRAID_HAVE_CUDA)
    set_target_properties(example_${example} PROPERTIES BUILD_RPATH_USE_ORIGIN ON)
  endif()
endforeach()

# A kernel with a C interface, for PyTorch; see its README.
if(BRAID_HAVE_CUDA)
  add_library(example_04_all_reduce_rmsnorm MODULE examples/04_all_reduce_rmsnorm/kernel.cu)
  target_link_libraries(example_04_all_reduce_rmsnorm PRIVATE braid braid::headers)
  braid_cuda_options(example_04_all_reduce_rmsnorm)
  target_compile_options(example_04_all_reduce_rmsnorm PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-diag-suppress=177>)
  set_target_properties(example_04_all_reduce_rmsnorm PROPERTIES CUDA_VISIBILITY_PRESET default BUILD_RPATH "$ORIGIN/../lib"
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endif()
