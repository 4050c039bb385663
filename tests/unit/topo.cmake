foreach(name topo topo_synthetic topo_path topo_cut topo_summary topo_nccl)
  braid_unit_test(common/topo/${name} LINKS braid_topo)
endforeach()
