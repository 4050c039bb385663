# What a user's build finds after `cmake --install`: the CMake package Braid (Braid::braid, Braid::headers) and braid.pc.
include(CMakePackageConfigHelpers)
install(DIRECTORY include/braid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
install(EXPORT BraidTargets NAMESPACE Braid:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Braid)
configure_package_config_file(tools/cmake/BraidConfig.cmake.in ${PROJECT_BINARY_DIR}/BraidConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Braid)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BraidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/BraidConfig.cmake ${PROJECT_BINARY_DIR}/BraidConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Braid)
configure_file(tools/cmake/braid.pc.in ${PROJECT_BINARY_DIR}/braid.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/braid.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
