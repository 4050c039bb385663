"""Runs functions as two ranks that pose as two nodes, so that NCCL sends everything through its network plugin.

Each rank is a process with its own NCCL_HOSTID; with one GPU both use it (start the script through tests/gpu/with_mps).
Used by the scripts beside it; runs nothing by itself.
"""
import datetime
import multiprocessing
import os
import pathlib
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

    As two nodes, everything through the network: "braid" (both plugins), "socket" (NCCL's own by default), "socket/<threads>x<sockets>".
    As one node over NVLink (two GPUs): "nvlink" (NCCL alone), "nvlink/again" (the same, for other processes), "nvlink+tuner" (with
    Braid's tuner).
    """
    env = {"NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET",
           "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET_PLUGIN_REF_COUNT": "1", "NCCL_CUMEM_HOST_ENABLE": "0"}
    if transport == "braid":
        return {**env, "NCCL_NET_PLUGIN": str(PLUGIN), "NCCL_TUNER_PLUGIN": str(TUNER)}
    env |= {"NCCL_NET_PLUGIN": "none", "NCCL_NET": "Socket"}
    if transport.startswith("nvlink"):
        return env | ({"NCCL_TUNER_PLUGIN": str(TUNER)} if transport.endswith("+tuner") else {})
    if "/" in transport:
        threads, sockets = transport.split("/")[1].split("x")
        env |= {"NCCL_SOCKET_NTHREADS": threads, "NCCL_NSOCKS_PERTHREAD": sockets}
    return env


def _rank_main(rank, transport, port, log, pipe):
    import torch
    import torch.distributed as dist

    env = transport_environment(transport) | {"NCCL_DEBUG_FILE": f"{log}.{rank}"}
    if not transport.startswith("nvlink"):
        env["NCCL_HOSTID"] = f"node{rank}"
    os.environ.update(env, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2",
                      # As torchrun says: the two share the processors, and nobody else does who may be alive beside them.
                      LOCAL_WORLD_SIZE="2", CUBLAS_WORKSPACE_CONFIG=":4096:8")
    torch.set_num_threads(2)
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=120), device_id=device)
    try:
        dist.barrier()
        pipe.send(None)
        for function, arguments in iter(pipe.recv, None):
            pipe.send(function(rank, device, *arguments))
    finally:
        dist.destroy_process_group()


class Team:
    """Two ranks over one transport that stay until close(teams); between calls they sleep, so that several teams can take turns.

    call(function, *arguments) returns [result of rank 0, result of rank 1] of function(rank, device, *arguments). Every wait is
    bounded; a rank that fails or is late ends the team with a RuntimeError that names it.
    """

    def __init__(self, transport, log):
        context = multiprocessing.get_context("spawn")
        port = free_port()
        self.transport, self.log, self.ranks, self.pipes, self.checked = transport, log, [], [], False
        for rank in range(2):
            ours, theirs = context.Pipe()
            process = context.Process(target=_rank_main, args=(rank, transport, port, log, theirs), daemon=True)
            process.start()
            theirs.close()
            self.ranks.append(process)
            self.pipes.append(ours)

    def _collect(self, timeout_s):
        results, deadline = [], time.monotonic() + timeout_s
        for rank, pipe in enumerate(self.pipes):
            late = not pipe.poll(max(0, deadline - time.monotonic()))
            try:
                if late:
                    raise EOFError
                results.append(pipe.recv())
            except (EOFError, ConnectionError):
                self.kill()
                raise RuntimeError(f"{self.transport}: rank {rank} {'is late' if late else 'failed'}, NCCL's log is {self.log}.*") from None
        return results

    def start(self, function, *arguments, timeout_s=200):
        """The first half of call, so that several teams can work at the same time; finish() is the second."""
        if not self.checked:
            self._collect(timeout_s)
            network, wanted = used_network(self.log), "Braid" if self.transport == "braid" else "Socket"
            if network != wanted:
                self.kill()
                raise RuntimeError(f"{self.transport}: NCCL's log says that it uses the network {network}, not {wanted}")
            self.checked = True
        for pipe in self.pipes:
            pipe.send((function, arguments))

    def finish(self, timeout_s=200):
        return self._collect(timeout_s)

    def call(self, function, *arguments, timeout_s=200):
        self.start(function, *arguments, timeout_s=timeout_s)
        return self.finish(timeout_s)

    def kill(self):
        for process in self.ranks:
            process.kill()


def close(teams):
    """Ends teams; ranks that are not gone after 10 s are killed (destroying process groups can wait for a peer that is gone)."""
    for team in teams:
        for pipe in team.pipes:
            try:
                pipe.send(None)
            except OSError:
                pass
    deadline = time.monotonic() + 10
    for team in teams:
        for process in team.ranks:
            process.join(max(0, deadline - time.monotonic()))
        team.kill()


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


def row_base(transport=""):
    """The fields that every result row of this machine and commit has; over NVLink the ranks are one node."""
    import torch

    count = torch.cuda.device_count()
    commit = os.environ.get("COMMIT") or subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"
    name = torch.cuda.get_device_name(0).replace("NVIDIA ", "")
    return {"machine": f"{count}x {name}" + (" under MPS, 2 ranks" if count == 1 else " NVLink" + ("" if transport.startswith("nvlink") else ", 2 ranks as 2 nodes")),
            "versions": {"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                         "cuda": torch.version.cuda or ""},
            "commit": commit, "date": datetime.date.today().isoformat()}
