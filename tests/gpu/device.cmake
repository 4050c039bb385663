# The device library on GPUs: function, failures and latency. Runs through tests/gpu/run_device.sh.
braid_cuda_program(gpu_device
  SOURCES device/main.cu device/cases_data.cu device/cases_sync.cu device/cases_tile.cu device/cases_graph.cu device/cases_fail.cu
          device/cases_host.cu device/cases_pieces.cu device/latency.cu
  LINKS braid_device_host)
