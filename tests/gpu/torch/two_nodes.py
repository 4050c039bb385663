"""Runs a function as two ranks that pose as two nodes, so that NCCL sends everything through its network plugin.

Each rank is a process with its own NCCL_HOSTID; with one GPU both use it (start the script through tests/gpu/with_mps).
Used by the scripts beside it; runs nothing by itself.
"""
import datetime
import multiprocessing
import os
import pathlib
import queue
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
PLUGIN = ROOT / "build/dev/lib/libnccl-net-braid.so"
TUNER = ROOT / "build/dev/lib/libnccl-tuner-braid.so"
# The settings of NCCL's own sockets that a careful user would try: threads x sockets a thread.
HAND_SETTINGS = ["1x1", "2x4", "4x4", "8x4", "4x8", "8x8"]


def transport_environment(transport):
    """Environment of a way to communicate.

    As two nodes, everything through the network: "braid", "socket" (NCCL's own by default), "socket/<threads>x<sockets>".
    As one node over NVLink (two GPUs): "nvlink" (NCCL alone), "nvlink+tuner" (with Braid's tuner).
    """
    env = {"NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,TUNING",
           "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET_PLUGIN_REF_COUNT": "1", "NCCL_CUMEM_HOST_ENABLE": "0"}
    if transport == "braid":
        return {**env, "NCCL_NET_PLUGIN": str(PLUGIN)}
    env |= {"NCCL_NET_PLUGIN": "none", "NCCL_NET": "Socket"}
    if transport.startswith("nvlink"):
        return env | ({"NCCL_TUNER_PLUGIN": str(TUNER)} if transport.endswith("+tuner") else {})
    if "/" in transport:
        threads, sockets = transport.split("/")[1].split("x")
        env |= {"NCCL_SOCKET_NTHREADS": threads, "NCCL_NSOCKS_PERTHREAD": sockets}
    return env


def _rank_main(function, rank, transport, port, log, results, arguments):
    import torch
    import torch.distributed as dist

    env = transport_environment(transport) | {"NCCL_DEBUG_FILE": f"{log}.{rank}"}
    if not transport.startswith("nvlink"):
        env["NCCL_HOSTID"] = f"node{rank}"
    os.environ.update(env, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2",
                      CUBLAS_WORKSPACE_CONFIG=":4096:8")
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=120), device_id=device)
    try:
        results.put((rank, function(rank, device, *arguments)))
        dist.barrier()
    finally:
        dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def used_network(log):
    """The network that NCCL's own log names, such as "Braid" or "Socket"; "?" if it names none."""
    for rank in range(2):
        path = pathlib.Path(f"{log}.{rank}")
        for line in path.read_text(errors="replace").split("\n") if path.exists() else []:
            if "Using network " in line:
                return line.split("Using network ")[1].strip()
    return "?"


def run(function, transport, *arguments, log, timeout_s=240):
    """[result of rank 0, result of rank 1] of function(rank, device, *arguments); RuntimeError if a rank fails or is late."""
    context = multiprocessing.get_context("spawn")
    results, port = context.Queue(), free_port()
    ranks = [context.Process(target=_rank_main, args=(function, r, transport, port, log, results, arguments)) for r in range(2)]
    for process in ranks:
        process.start()
    found, deadline = {}, time.monotonic() + timeout_s
    try:
        while len(found) < 2:
            try:
                rank, value = results.get(timeout=1)
                found[rank] = value
            except queue.Empty:
                dead = [r for r, p in enumerate(ranks) if p.exitcode not in (None, 0)]
                if dead or time.monotonic() > deadline:
                    raise RuntimeError(f"{transport}: rank {dead or 'unknown'} {'failed' if dead else 'is late'}, NCCL's log is {log}.*") from None
        for process in ranks:
            process.join(max(1, deadline - time.monotonic()))
    finally:
        for process in ranks:
            if process.is_alive():
                process.kill()
    network = used_network(log)
    wanted = "Braid" if transport == "braid" else "Socket"
    if network != wanted:
        raise RuntimeError(f"{transport}: NCCL's log says that it used the network {network}, not {wanted}")
    return [found[0], found[1]]


def row_base():
    """The fields that every result row of this machine and commit has."""
    import torch

    count = torch.cuda.device_count()
    commit = os.environ.get("COMMIT") or subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"
    name = torch.cuda.get_device_name(0).replace("NVIDIA ", "")
    return {"machine": f"{count}x {name}" + (" under MPS, 2 ranks" if count == 1 else " NVLink, 2 ranks as 2 nodes"),
            "versions": {"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                         "cuda": torch.version.cuda or ""},
            "commit": commit, "date": datetime.date.today().isoformat()}
