"""Trains a small GPT with DDP and with FSDP for 20 steps over NCCL's sockets and over Braid: the losses must be equal bit for bit.

Two ranks, one seed, deterministic algorithms. Two ranks sum in one order only, so equality is exact. Start it through
tests/gpu/with_mps. Writes rows `torch_losses` to the folder OUT (default: print only). Exit code 1 if any loss differs.
"""
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import two_nodes  # noqa: E402

STEPS = 20


def train(rank, device, wrapper):
    """The losses of both ranks summed, a list of STEPS floats as hexadecimal text, so that nothing is rounded."""
    import torch
    import torch.distributed as dist

    import gpt

    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    model = gpt.GPT(gpt.TINY).to(device)
    if wrapper == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    else:
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(*gpt.batch(gpt.TINY, 8, step, rank, device))
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(float(total).hex())
    return losses


def main():
    out = os.environ.get("OUT")
    logs = tempfile.mkdtemp()
    rows, wrong = [], 0
    teams = [two_nodes.Team(transport, f"{logs}/{transport}") for transport in ("socket", "braid")]
    for wrapper in ("ddp", "fsdp"):
        losses = {team.transport: team.call(train, wrapper) for team in teams}
        equal = sum(a == b for rank in range(2) for a, b in zip(losses["socket"][rank], losses["braid"][rank])) // 2
        first, last = (float.fromhex(losses["braid"][0][i]) / 2 for i in (0, -1))
        print(f"{wrapper}: {equal} of {STEPS} losses equal, mean loss {first:.4f} -> {last:.4f}")
        wrong += equal != STEPS or not last < first
        rows += [{"bench": "torch_losses", "case": f"{wrapper}/braid", "metric": metric, "value": value, "runs": 1,
                  **two_nodes.row_base()} for metric, value in (("equal_count", equal), ("steps_count", STEPS))]
    two_nodes.close(teams)
    if out:
        pathlib.Path(out, "torch_losses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
