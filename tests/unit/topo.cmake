# Unit tests of common/topo/; read by CMakeLists.txt.
foreach(name topo topo_synthetic topo_path topo_cut topo_summary topo_nccl topo_files topo_capture topo_live topo_open)
  braid_unit_test(common/topo/${name} LINKS braid_topo)
endforeach()
foreach(name topo_capture topo_live topo_open)
  target_compile_definitions(unit_common_topo_${name} PRIVATE FIXTURES="${PROJECT_SOURCE_DIR}/tests/topo"
    FAKE_NVML="$<TARGET_FILE:fakenvml_new>" FAKE_NVML_OLD="$<TARGET_FILE:fakenvml_old>")
  add_dependencies(unit_common_topo_${name} fakenvml_new fakenvml_old)
endforeach()
