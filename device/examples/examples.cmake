# Examples for people to read and run; they use the public headers and libbraid.so only.
foreach(example 01_put_signal 02_tile_pipeline)
  braid_cuda_program(example_${example} SOURCES examples/${example}/main.cu LINKS braid)
  if(BRAID_HAVE_CUDA)
    set_target_properties(example_${example} PROPERTIES BUILD_RPATH_USE_ORIGIN ON)
  endif()
endforeach()
