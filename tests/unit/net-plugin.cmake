# Unit tests of net-plugin/, without verbs; read by CMakeLists.txt.
foreach(name core/handshake core/match core/landing core/reach socket/plan socket/probe socket/rails socket/lane)
  braid_unit_test(net-plugin/${name} LINKS braid_net_core braid_common)
endforeach()
