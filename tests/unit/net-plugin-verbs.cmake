# Unit tests of net-plugin/verbs/; read by CMakeLists.txt.
foreach(test hca gid keys ring words)
  braid_unit_test(net-plugin/verbs/${test} LINKS braid_net_verbs)
endforeach()
