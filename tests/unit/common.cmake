braid_unit_test(common/log LINKS braid_common)
braid_unit_test(common/param LINKS braid_common)
braid_unit_test(common/units LINKS braid_common)
braid_unit_test(common/dl LINKS braid_common)
