"""Megatron-core over Braid: 20 steps with data parallel 2 (distributed optimizer) and with tensor parallel 2, losses and step times.

Each case runs over NCCL alone and over Braid: the net plugin with two ranks as two nodes, the tuner over NVLink. Losses must be equal
bit for bit (two ranks sum in one order only). Times are of rounds of steps that the ways take in turns, in a new order each round. The model
is so small that the host decides how long a step takes, and hosts differ between processes: over NVLink other processes do the same as
"nvlink", and what they differ by is what cannot be told. Needs megatron-core on PYTHONPATH (transformer_impl local, no Transformer Engine) and
two GPUs, or one under tests/gpu/with_mps for the losses alone. Rows `torch_losses` and `ddp_step` go to the folder OUT.
"""
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import two_nodes  # noqa: E402

STEPS, ROUNDS, ROUND_STEPS = 20, 11, 6
BATCH, SEQUENCE, VOCABULARY = 4, 512, 8192

state = {}  # a rank's model and optimizer, from one call to the next


def build(tensor_parallel):
    """(model, optimizer) of a GPT of about 30 M parameters in bf16."""
    import torch
    from megatron.core import parallel_state, tensor_parallel as tp
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer.transformer_config import TransformerConfig

    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensor_parallel, create_gloo_process_groups=False)
    tp.model_parallel_cuda_manual_seed(7)
    config = TransformerConfig(
        num_layers=6, hidden_size=512, num_attention_heads=8, tensor_model_parallel_size=tensor_parallel,
        bf16=True, params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
        hidden_dropout=0.0, attention_dropout=0.0, gradient_accumulation_fusion=False, transformer_impl="local",
        finalize_model_grads_func=finalize_model_grads)
    model = GPTModel(config, get_gpt_layer_local_spec(), VOCABULARY, SEQUENCE).cuda().bfloat16()
    ddp = DistributedDataParallelConfig(grad_reduce_in_fp32=True, overlap_grad_reduce=True, use_distributed_optimizer=True,
                                        overlap_param_gather=False)
    model = DistributedDataParallel(config, ddp, model)
    model.broadcast_params()
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-3, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=True),
        [model], use_gloo_process_groups=False)
    return model, optimizer


def prepare(rank, device, tensor_parallel):
    import torch

    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    state.clear()
    state["model"], state["optimizer"] = build(tensor_parallel)


def train(rank, device, tensor_parallel, first, count):
    """(losses as hexadecimal text, times in seconds) of steps `first` and following."""
    import torch
    import torch.distributed as dist
    from megatron.core.distributed import finalize_model_grads

    model, optimizer = state["model"], state["optimizer"]
    data_rank = 0 if tensor_parallel > 1 else rank
    positions = torch.arange(SEQUENCE, device=device).expand(BATCH, -1)
    mask = torch.ones(1, 1, SEQUENCE, SEQUENCE, dtype=torch.bool, device=device).triu(1)
    losses, times = [], []
    for step in range(first, first + count):
        generator = torch.Generator().manual_seed(1_000_003 * step + data_rank)
        tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1), generator=generator).to(device)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        model.zero_grad_buffer()
        optimizer.zero_grad()
        loss = model(tokens[:, :-1].contiguous(), positions, mask, labels=tokens[:, 1:].contiguous()).float().mean()
        loss.backward()
        finalize_model_grads([model])
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(float(total / 2).hex())
    return losses, times


def round_us(ranks):
    """Median step of one round; of each step the slower rank counts."""
    return statistics.median(map(max, zip(*(times for _, times in ranks)))) * 1e6


def compare(case, tensor_parallel, teams):
    """Rows of one case for teams NCCL alone, perhaps NCCL alone again, and Braid; prints a line."""
    import megatron.core

    plain, braid = teams[0].transport, teams[-1].transport
    for team in teams:
        team.call(prepare, tensor_parallel)
    losses = {team.transport: team.call(train, tensor_parallel, 0, STEPS)[0][0] for team in teams}
    equal = sum(a == b for a, b in zip(losses[plain], losses[braid]))
    us = {team.transport: [] for team in teams}
    for number in range(ROUNDS):
        for team in random.Random(number).sample(teams, len(teams)):
            us[team.transport].append(round_us(team.call(train, tensor_parallel, STEPS + number * ROUND_STEPS, ROUND_STEPS)))
    step = {t: statistics.median(rounds) for t, rounds in us.items()}
    ratios = {t: sorted(mine / theirs for mine, theirs in zip(rounds, us[plain])) for t, rounds in us.items() if t != plain}
    by_round = "; ".join(f"{t} {statistics.median(r):.3f} ({r[1]:.3f} to {r[-2]:.3f})" for t, r in ratios.items())
    first, last = (float.fromhex(losses[braid][i]) for i in (0, -1))
    print(f"megatron {case}: {braid}: {equal} of {STEPS} losses equal to {plain}, loss {first:.4f} -> {last:.4f}, "
          f"step {step[braid] / 1e3:.1f} ms beside {step[plain] / 1e3:.1f} ms; over {plain} by round: {by_round}", flush=True)
    base = two_nodes.row_base(braid)
    base["versions"]["megatron-core"] = megatron.core.__version__
    spread = sorted(us[braid])
    return [{"bench": "torch_losses", "case": f"megatron-{case}/{braid}", "metric": "equal_count", "value": equal, "runs": 1, **base},
            {"bench": "torch_losses", "case": f"megatron-{case}/{braid}", "metric": "steps_count", "value": STEPS, "runs": 1, **base},
            {"bench": "ddp_step", "case": f"megatron-{case}/{braid}", "metric": "time_us", "value": round(step[braid], 1),
             "spread": [round(spread[1], 1), round(spread[-2], 1)], "runs": ROUNDS, "note": f"in turns; over {plain} by round: {by_round}",
             "peers": {"nccl_default": round(step[plain], 1), **{"nccl_again": round(step[t], 1) for t in step if t.endswith("/again")}}, **base}]


def main():
    try:
        import megatron.core  # noqa: F401
        import torch
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    logs, rows, wrong = tempfile.mkdtemp(), [], 0
    ways = [("socket", "braid")] + ([("nvlink", "nvlink/again", "nvlink+tuner")] if torch.cuda.device_count() > 1 else [])
    all_teams = [[two_nodes.Team(transport, f"{logs}/{transport.replace('/', '-')}") for transport in pair] for pair in ways]
    for case, tensor_parallel in (("dp2", 1), ("tp2", 2)):
        for teams in all_teams:
            try:
                rows += compare(case, tensor_parallel, teams)
                wrong += rows[-3]["value"] != STEPS
            except (RuntimeError, OSError) as error:
                print(f"FAILED: megatron {case}: {error}", flush=True)
                wrong += 1
    two_nodes.close(sum(all_teams, []))
    if os.environ.get("OUT"):
        pathlib.Path(os.environ["OUT"], "megatron.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
