# Sourced: sets NCCL_LIBRARY to the newest libnccl.so.2 here, of Python's packages first, then of the system.
if [ -z "${NCCL_LIBRARY:-}" ]; then
  NCCL_LIBRARY=$(python3 -c 'import importlib.util as u, pathlib as p
s = u.find_spec("nvidia.nccl")
print(next((str(f) for d in (s.submodule_search_locations if s else []) for f in p.Path(d).glob("lib/libnccl.so.2")), ""))' 2>/dev/null)
fi
export NCCL_LIBRARY=${NCCL_LIBRARY:-libnccl.so.2}
