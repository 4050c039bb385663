# How everything is compiled: language level, warnings, sanitizers. Read once by the top CMakeLists.txt.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
find_package(Threads REQUIRED)

add_library(braid_options INTERFACE)
# glibc_compat.h binds to symbol versions that old systems have, so that the plugins load there (see tools/check/glibc).
target_compile_options(braid_options INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;$<$<BOOL:${BRAID_WERROR}>:-Werror>;-Wno-unused-parameter;-Wshadow;-Wvla;-Wmissing-prototypes;-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-fno-strict-aliasing;-fno-common;-D_GNU_SOURCE>
  $<$<COMPILE_LANGUAGE:C>:SHELL:-include ${PROJECT_SOURCE_DIR}/common/glibc_compat.h>)
if(BRAID_SANITIZE)
  target_compile_options(braid_options INTERFACE $<$<COMPILE_LANGUAGE:C>:-fsanitize=${BRAID_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=undefined>)
  target_link_options(braid_options INTERFACE -fsanitize=${BRAID_SANITIZE})
  target_compile_definitions(braid_options INTERFACE BRAID_SANITIZED=1)
endif()

include(braid_cuda)
message(STATUS "Braid: CUDA parts ${BRAID_HAVE_CUDA}, sanitizers '${BRAID_SANITIZE}'")
