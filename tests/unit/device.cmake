braid_unit_test(device/ops/gemm_choice LINKS braid_gemm_plan)
braid_unit_test(device/ops/gemm_plan LINKS braid_gemm_plan)
