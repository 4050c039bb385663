foreach(name core/handshake core/match core/landing)
  braid_unit_test(net-plugin/${name} LINKS braid_net_core braid_common)
endforeach()
