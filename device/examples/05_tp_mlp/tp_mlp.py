"""The two linear layers of a tensor-parallel MLP with sequence parallelism, fused with their communication by Braid.

    x [tokens / ranks, hidden]  --all-gather + up-->  h [tokens, ffn / ranks]  --gelu, down + reduce-scatter-->  y [tokens / ranks, hidden]

Forward and backward of both layers are custom operators of PyTorch (torch.library), so autograd, torch.compile and CUDA graphs see
them as single nodes. What overlaps:
    up, forward      all-gather of x                with  x . W1^T       braid_ag_gemm
    up, backward     all-gather of x again          with  dh . W1        bulk: a collective beside an independent product
                     reduce-scatter of dx           with  dW1 = dh^T . x bulk
    down, forward    h . W2^T                       with  reduce-scatter braid_gemm_rs
    down, backward   all-gather of dy               with  dy . W2        braid_ag_gemm, which keeps the gathered dy for dW2 = dy^T . h
"""
import torch

import braid_overlap

_layers = []  # an operator takes plain numbers and tensors: the layer goes by its index


class _Layer:
    def __init__(self, comm, tokens, hidden, ffn):
        part = ffn // comm.ranks
        self.comm, self.side = comm, torch.cuda.Stream()
        self.up = comm.gemm("ag_gemm", tokens, part, hidden, w_transposed=True)
        self.down = comm.gemm("gemm_rs", tokens, hidden, part, w_transposed=True)
        self.down_backward = comm.gemm("ag_gemm", tokens, part, hidden, keep_gathered=True)
        self.gather_x = comm.bulk("ag_gemm", tokens, hidden)
        self.scatter_dx = comm.bulk("gemm_rs", tokens, hidden)
        self.index = len(_layers)
        _layers.append(self)

    def beside(self, collective):
        """Runs `collective` on the side stream; call what is returned where its result is needed."""
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            result = collective()

        def join():
            main.wait_stream(self.side)
            return result
        return join


@torch.library.custom_op("braid::up", mutates_args=())
def up(x: torch.Tensor, weight: torch.Tensor, layer: int) -> torch.Tensor:
    return _layers[layer].up(x, weight)


@up.register_fake
def _(x, weight, layer):
    return x.new_empty(_layers[layer].up.m, weight.shape[0])


@torch.library.custom_op("braid::up_backward", mutates_args=())
def up_backward(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    one = _layers[layer]
    gathered = one.beside(lambda: one.gather_x.collective(x))
    partial = grad @ weight  # of all rows; every rank has a part of the sum
    everything = gathered()
    dx = torch.empty_like(x)
    scattered = one.beside(lambda: one.scatter_dx.collective(partial, dx))
    dweight = grad.t() @ everything
    scattered()
    return dx, dweight


@up_backward.register_fake
def _(grad, x, weight, layer):
    return torch.empty_like(x), torch.empty_like(weight)


@torch.library.custom_op("braid::down", mutates_args=())
def down(h: torch.Tensor, weight: torch.Tensor, layer: int) -> torch.Tensor:
    return _layers[layer].down(h, weight)


@down.register_fake
def _(h, weight, layer):
    one = _layers[layer]
    return h.new_empty(h.shape[0] // one.comm.ranks, weight.shape[0])


@torch.library.custom_op("braid::down_backward", mutates_args=())
def down_backward(grad: torch.Tensor, h: torch.Tensor, weight: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    one = _layers[layer]
    dh = one.down_backward(grad, weight)
    return dh, one.down_backward.gathered().t() @ h


@down_backward.register_fake
def _(grad, h, weight, layer):
    return torch.empty_like(h), torch.empty_like(weight)


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
    ctx.layer = inputs[2]


up.register_autograd(lambda ctx, grad: (*up_backward(grad.contiguous(), *ctx.saved_tensors, ctx.layer), None), setup_context=_keep)
down.register_autograd(lambda ctx, grad: (*down_backward(grad.contiguous(), *ctx.saved_tensors, ctx.layer), None), setup_context=_keep)


class TensorParallelMLP(torch.nn.Module):
    """This rank's share: w1 [ffn / ranks, hidden], w2 [hidden, ffn / ranks], both as torch.nn.Linear keeps them."""

    def __init__(self, comm: braid_overlap.Comm, tokens, w1, w2):
        super().__init__()
        self.w1, self.w2 = torch.nn.Parameter(w1.contiguous()), torch.nn.Parameter(w2.contiguous())
        self.layer = _Layer(comm, tokens, w1.shape[1], w1.shape[0] * comm.ranks).index

    def forward(self, x):
        return down(torch.nn.functional.gelu(up(x, self.w1, self.layer)), self.w2, self.layer)
