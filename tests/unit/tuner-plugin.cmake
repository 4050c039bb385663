# Unit tests of tuner-plugin/; read by CMakeLists.txt.
braid_unit_test(tuner-plugin/tuner LINKS braid_tuner braid_common)
braid_unit_test(tuner-plugin/machine LINKS braid_tuner braid_topo braid_common)
foreach(part cost load nccl_model profile profile_set waves)
  braid_unit_test(tuner-plugin/cost/${part} LINKS braid_tuner braid_common)
endforeach()
target_compile_definitions(unit_tuner-plugin_cost_nccl_model PRIVATE BRAID_SHARE="${PROJECT_BINARY_DIR}/share/braid")
