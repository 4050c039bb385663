# Unit tests of common/; read by CMakeLists.txt.
braid_unit_test(common/log LINKS braid_common)
braid_unit_test(common/param LINKS braid_common)
braid_unit_test(common/units LINKS braid_common)
braid_unit_test(common/dl LINKS braid_common)
braid_unit_test(common/hmac LINKS braid_common)
braid_unit_test(common/netif LINKS braid_common)
braid_unit_test(common/sock LINKS braid_common)
braid_unit_test(common/thread LINKS braid_common)
