# What a user's build finds after `cmake --install`: the CMake package Braid (Braid::braid, Braid::headers) and braid.pc.
include(CMakePackageConfigHelpers)
# Layouts that only Braid's own processes exchange (net_*, device_hello*) stay here.
install(DIRECTORY include/braid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh"
  PATTERN "net_*.h" EXCLUDE PATTERN "device_hello*.h" EXCLUDE)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT BraidTargets NAMESPACE Braid:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Braid)
configure_package_config_file(tools/cmake/BraidConfig.cmake.in ${PROJECT_BINARY_DIR}/BraidConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Braid)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BraidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/BraidConfig.cmake ${PROJECT_BINARY_DIR}/BraidConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Braid)
# braid.pc tells the prefix from where it lies, so that an installation can be moved; absolute folders stay absolute.
set(BRAID_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
set(BRAID_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
set(BRAID_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH up /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
  set(BRAID_PC_PREFIX "\${pcfiledir}/${up}")
  set(BRAID_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(BRAID_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(tools/cmake/braid.pc.in ${PROJECT_BINARY_DIR}/braid.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/braid.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
