# The vocabulary of every room's CMakeLists.txt: a room says what it builds from which files, these functions say how.
# Source paths are relative to the calling room. No globbing: a file that is not named is not built.

# braid_library(NAME SOURCES ... [LINKS ...]): a static, position-independent library of one room.
function(braid_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC braid::headers ${arg_LINKS} PRIVATE braid_options)
endfunction()

# braid_module(NAME KIND MAP ...): shared by braid_plugin and braid_shared. Only the names in MAP are exported.
function(braid_module name kind)
  cmake_parse_arguments(arg "" "MAP" "SOURCES;LINKS" ${ARGN})
  add_library(${name} ${kind} ${arg_SOURCES})
  set(map ${CMAKE_CURRENT_SOURCE_DIR}/${arg_MAP})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} braid::headers braid_options Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(${name} PRIVATE -Wl,--version-script=${map} -Wl,-z,relro -Wl,-z,now -Wl,--gc-sections -Wl,--as-needed)
  if(NOT BRAID_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(${name} PROPERTIES LINK_DEPENDS ${map} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()

# braid_plugin(NAME MAP x.map SOURCES ... LINKS ...): a shared object that NCCL opens; NAME is the file name without lib and .so.
function(braid_plugin name)
  braid_module(${name} SHARED ${ARGN})
  set_target_properties(${name} PROPERTIES NO_SONAME ON)
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# braid_shared(NAME MAP x.map SOURCES ... LINKS ...): a shared library that programs link, here and through the CMake package.
function(braid_shared name)
  braid_module(${name} SHARED ${ARGN})
  target_link_libraries(${name} INTERFACE braid::headers)
  target_link_options(${name} PRIVATE -Wl,-z,nodelete) # a watchdog that a hung GPU holds may outlast dlclose
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  install(TARGETS ${name} EXPORT BraidTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# braid_program(NAME SOURCES ... [LINKS ...]): a program for tests; braid_tool installs it too.
function(braid_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} braid::headers braid_options Threads::Threads ${CMAKE_DL_LIBS} m)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

function(braid_tool name)
  braid_program(${name} ${ARGN})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# braid_test(NAME [TIMEOUT seconds] [LABELS ...] COMMAND ...): one CTest entry. Exit code 77 means skipped, reason on the last line.
function(braid_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;COMMAND" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77 LABELS "${arg_LABELS}")
endfunction()

# braid_unit_test(common/param [LINKS ...]): tests/unit/common/param_test.c, a cmocka program, as test unit/common/param.
function(braid_unit_test path)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  string(REPLACE "/" "_" name "unit_${path}")
  braid_program(${name} SOURCES ${PROJECT_SOURCE_DIR}/tests/unit/${path}_test.c LINKS ${arg_LINKS} cmocka)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/unit)
  braid_test(unit/${path} TIMEOUT 600 LABELS unit COMMAND ${name})
endfunction()

# braid_cuda_options(NAME): real code for BRAID_CUDA_ARCHS, static runtime, so that the binary can be carried to a GPU machine.
function(braid_cuda_options name)
  foreach(arch ${BRAID_CUDA_ARCHS})
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-gencode=arch=compute_${arch},code=sm_${arch}>")
  endforeach()
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings;-lineinfo>)
  set_target_properties(${name} PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_SEPARABLE_COMPILATION OFF)
  target_link_libraries(${name} PRIVATE CUDA::cudart_static)
endfunction()

# braid_cuda_program(NAME SOURCES a.cu b.c [LINKS ...]): nothing when no CUDA compiler was found.
function(braid_cuda_program name)
  if(NOT BRAID_HAVE_CUDA)
    return()
  endif()
  braid_program(${name} ${ARGN})
  braid_cuda_options(${name})
endfunction()
