"""Megatron-core over Braid: 20 steps with data parallel 2 (distributed optimizer) and with tensor parallel 2, losses and step times.

Each case runs over NCCL alone and over Braid: the net plugin with two ranks as two nodes, the tuner over NVLink. Losses must be equal
bit for bit (two ranks sum in one order only). Needs megatron-core on PYTHONPATH (transformer_impl local, no Transformer Engine) and
two GPUs, or one under tests/gpu/with_mps for the losses alone. Rows `torch_losses` and `ddp_step` go to the folder OUT.
"""
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import two_nodes  # noqa: E402

STEPS, WARM_UP, BATCH, SEQUENCE, VOCABULARY = 20, 5, 4, 512, 8192


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


def train(rank, device, tensor_parallel):
    """(losses as hexadecimal text, median step in microseconds)."""
    import torch
    import torch.distributed as dist
    from megatron.core.distributed import finalize_model_grads

    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model, optimizer = build(tensor_parallel)
    data_rank = 0 if tensor_parallel > 1 else rank
    positions = torch.arange(SEQUENCE, device=device).expand(BATCH, -1)
    mask = torch.ones(1, 1, SEQUENCE, SEQUENCE, dtype=torch.bool, device=device).triu(1)
    losses, times = [], []
    for step in range(STEPS):
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
    return losses, statistics.median(times[WARM_UP:]) * 1e6


def compare(case, tensor_parallel, teams):
    """Rows of one case for a pair of teams (NCCL alone, Braid); prints a line."""
    plain, braid = (team.transport for team in teams)
    runs = {team.transport: team.call(train, tensor_parallel) for team in teams}
    equal = sum(a == b for a, b in zip(runs[plain][0][0], runs[braid][0][0]))
    step = {t: max(rank[1] for rank in runs[t]) for t in runs}
    first, last = (float.fromhex(runs[braid][0][0][i]) for i in (0, -1))
    print(f"megatron {case}: {braid}: {equal} of {STEPS} losses equal to {plain}, loss {first:.4f} -> {last:.4f}, "
          f"step {step[braid] / 1e3:.1f} ms beside {step[plain] / 1e3:.1f} ms", flush=True)
    base = {"runs": 1, **two_nodes.row_base()}
    return [{"bench": "torch_losses", "case": f"megatron-{case}/{braid}", "metric": "equal_count", "value": equal, **base},
            {"bench": "torch_losses", "case": f"megatron-{case}/{braid}", "metric": "steps_count", "value": STEPS, **base},
            {"bench": "ddp_step", "case": f"megatron-{case}/{braid}", "metric": "time_us", "value": step[braid], "note": "one run each, not interleaved",
             "peers": {"nccl_default": step[plain]}, **base, "runs": STEPS - WARM_UP}]


def main():
    try:
        import megatron.core  # noqa: F401
        import torch
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    logs, rows, wrong = tempfile.mkdtemp(), [], 0
    pairs = [("socket", "braid")] + ([("nvlink", "nvlink+tuner")] if torch.cuda.device_count() > 1 else [])
    all_teams = [[two_nodes.Team(transport, f"{logs}/{transport}") for transport in pair] for pair in pairs]
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
