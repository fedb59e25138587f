"""Functions whose backward pass reads what is kept of a tensor instead of the tensor."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, ContextManager, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from clprune_library import Error
from clprune_saved import MASK, Layout, Source, in_memory_order, is_batched, keep_flat, layout_of


class _Place(torch.autograd.Function):
    """A tensor without elements that has x's place in the graph."""

    @staticmethod
    def forward(ctx, x: Tensor):
        return x.new_empty(0)

    @staticmethod
    def backward(ctx, _: Tensor):
        return None


class _Refusal(torch.autograd.Function):
    """Gradients as they are. Differentiating them by any of `sources` is an error."""

    @staticmethod
    def forward(ctx, name: str, advice: str, gradients: Sequence[Tensor], *sources: Tensor):
        ctx.name, ctx.advice = name, advice
        return tuple(gradient.detach() for gradient in gradients)

    @staticmethod
    def backward(ctx, *_: Tensor):
        raise Error(
            f"{ctx.name} has no second derivatives (create_graph=True, as gradient penalties and "
            f"Hessians need): {ctx.advice}")


class Once(torch.autograd.Function):
    """A function whose gradients cannot be differentiated again: trying it is an error. PyTorch passes over
    what no wanted gradient depends on, so the error depends on all that the function's inputs do."""

    advice = "leave it out with `skip`, or clprune.unconvert_ the model"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        forward, backward = cls.forward, cls.backward

        @functools.wraps(forward)
        def run(ctx, *args: Any):
            *args, ctx.places = args
            return forward(ctx, *args)

        @functools.wraps(backward)
        def differentiate(ctx, *dy: Tensor):
            with torch.no_grad():
                gradients = backward(ctx, *dy)
            if torch.is_grad_enabled():  # create_graph
                name = "clprune." + type(ctx).__name__.replace("FunctionBackward", "")
                made = [g for g in gradients if g is not None]
                refused = iter(_Refusal.apply(name, cls.advice, made, *ctx.places, *dy))
                gradients = tuple(g if g is None else next(refused) for g in gradients)
            return (*gradients, None)

        cls.forward, cls.backward = staticmethod(run), staticmethod(differentiate)

    @classmethod
    def apply(cls, *args: Any):
        return super().apply(*args, [
            _Place.apply(x) for x in args if isinstance(x, Tensor) and x.requires_grad])


def _as_it_is(x: Tensor) -> Tensor:
    return x


def _unseen() -> ContextManager:
    """In it, hooks of saved tensors do not see what is saved."""
    enabled = getattr(torch._C._autograd, "_saved_tensors_hooks_is_enabled", None)
    if enabled is not None and not enabled():  # there are none, and setting some is an error
        return contextlib.nullcontext()
    return torch.autograd.graph.saved_tensors_hooks(Tensor.detach, _as_it_is)


def _own(y: Tensor) -> Tensor:
    """y, as a tensor that is no view: in place operations may change it."""
    return y.new_empty(0).set_(y) if y._is_view() else y


def autocast_dtype() -> Optional[torch.dtype]:
    try:
        return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    except TypeError:  # before PyTorch 2.4
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


def cast(dtype: Optional[torch.dtype], *tensors: Optional[Tensor]) -> Sequence[Optional[Tensor]]:
    """The tensors as autocast casts them: parameters are kept as they are, and cast when used."""
    return [t.to(dtype) if t is not None and dtype is not None else t for t in tensors]


class LinearFunction(Once):
    """y = x * w^T + b"""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Optional[Tensor], source: Source,
                layout: Optional[Layout], *tensors: Tensor):
        ctx.source, ctx.rows, ctx.dtype = source, x.numel() // x.shape[-1], x.dtype
        ctx.layout = layout  # None: the rows of x lie one after the other
        ctx.contiguous = x.is_contiguous()
        ctx.save_for_backward(weight if ctx.needs_input_grad[0] else None, *tensors)
        return _own(F.linear(*cast(autocast_dtype(), x, weight, bias)))

    @staticmethod
    def backward(ctx, dy: Tensor):
        weight, *tensors = ctx.saved_tensors
        rows = dy.reshape(ctx.rows, dy.shape[-1])
        dx = dw = db = None
        if ctx.needs_input_grad[0]:  # y = x * w^T
            dx = dy.matmul(weight.to(dy.dtype)).to(ctx.dtype)
        if ctx.needs_input_grad[1]:
            rows = rows.to(torch.float32).contiguous()
            dw = (ctx.source.product_tn(tensors, rows) if ctx.layout is None else rows.t().mm(
                ctx.layout.shape(ctx.source.restore(tensors)).reshape(ctx.rows, -1)))
        if ctx.needs_input_grad[2]:  # y = ... + 1 * b
            dy = rows if ctx.contiguous or dy.dim() == 1 else dy  # in the order of PyTorch's own sums
            db = dy.sum(list(range(dy.dim() - 1)), dtype=torch.float32)
        return (dx, dw, db, None, None) + (None,) * len(tensors)


class ConvFunction(Once):
    """y = conv(x, w) + b"""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Optional[Tensor], how: tuple,
                source: Source, layout: Layout, *tensors: Tensor):
        ctx.source, ctx.layout, ctx.how, ctx.dtype = source, layout, how, x.dtype
        ctx.bias = None if bias is None else list(bias.shape)
        ctx.save_for_backward(weight, *tensors)
        stride, padding, dilation, groups = how
        x, weight, bias = cast(autocast_dtype(), x, weight, bias)
        return torch.convolution(x, weight, bias, stride, padding, dilation, False,
                                 [0] * len(stride), groups)

    @staticmethod
    def backward(ctx, dy: Tensor):
        weight, *tensors = ctx.saved_tensors
        x = ctx.layout.shape(ctx.source.restore(tensors)).to(dy.dtype)
        stride, padding, dilation, groups = ctx.how
        dx, dw, db = torch.ops.aten.convolution_backward(
            dy, x, weight.to(dy.dtype), ctx.bias, stride, padding, dilation, False,
            [0] * len(stride), groups, list(ctx.needs_input_grad[:3]))
        return (dx, dw, db, None, None, None) + (None,) * len(tensors)


class NormFunction(Once):
    """y = w * n + b of the normalised value n = (x - mean) / sqrt(var + eps), or x / sqrt(mean of
    x^2 + eps). Mean and variance are those of the axes `dims` of module._split(x)."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], module: Any,
                made: List[Any]):
        y = _own(module._original(x))
        dims, split = module._dims(x), module._split
        wide = split(x.float())
        n = torch.empty_like(y, dtype=torch.float32)
        parts = split(n)  # a view
        torch.sub(wide, wide.mean(dims, keepdim=True) if module.centred else 0, out=parts)
        rstd = torch.rsqrt_(parts.square().mean(dims, keepdim=True).add_(module._eps(x)))
        parts.mul_(rstd)
        source, tensors = module._keep_normalised(n)
        made += [source, tensors, layout_of(n)]
        ctx.source, ctx.layout, ctx.dims, ctx.centred = source, made[2], dims, module.centred
        ctx.sides, ctx.split = module._sides(x), split
        ctx.dtype = x.dtype
        ctx.save_for_backward(weight, rstd, *tensors)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):
        weight, rstd, *tensors = ctx.saved_tensors
        n = ctx.layout.shape(ctx.source.restore(tensors))
        dy = dy.float()
        dx = dw = db = None
        w = 1 if weight is None else weight.float().view(ctx.sides)
        others = [i for i, side in enumerate(ctx.sides) if side == 1]
        of_n, of_1 = dy * n, dy  # y = w * n + b
        if others:  # a sum over no axes is one over all
            of_n, of_1 = of_n.sum(others), of_1.sum(others)
        if ctx.needs_input_grad[0]:
            # n = (x - mean) * rstd. The mean of n is 0, but for the rounding of codes.
            if others == ctx.dims:
                count = n.numel() // of_n.numel()
                slope = of_n.view(ctx.sides) / count
                shift = slope * n.mean(ctx.dims, keepdim=True) - of_1.view(ctx.sides) / count
                dx = torch.addcmul(dy, slope, n, value=-1).add_(shift).mul_(w * rstd)
            else:
                g, n = ctx.split(dy * w), ctx.split(n)
                dx = torch.addcmul(g, (g * n).mean(ctx.dims, keepdim=True), n, value=-1)
                if ctx.centred:
                    dx -= dx.mean(ctx.dims, keepdim=True)
                dx = dx.mul_(rstd).reshape(dy.shape)
            dx = dx.to(ctx.dtype)
        if ctx.needs_input_grad[1]:
            dw = of_n.view(weight.shape)
        if ctx.needs_input_grad[2]:
            db = of_1.view(weight.shape)
        return dx, dw, db, None, None


class Again(Source):
    """y = f(x) of a module whose input is kept: its own class runs again. Tensors: those of x, then
    the parameters of `names`."""

    def __init__(self, module: Any, names: Sequence[str], x: Tensor, source: Source) -> None:
        self.own, self.names, self.x = module.own_class, names, source
        # `sources` may outlive the model: no hooks, and no parameters but those that are not in `names`.
        self.parts = {name: part for name, part in module.__dict__.items()
                      if not name.endswith("_hooks")}
        self.parts.update(_buffers=module._buffers_again(), _parameters={
            name: p for name, p in module._parameters.items() if name not in names})
        self.layout, self.dtype, self.autocast = layout_of(x), x.dtype, autocast_dtype()

    def split(self, tensors: Sequence[Tensor]) -> Tuple[Tensor, Sequence[Tensor]]:
        """x and the parameters."""
        count = len(tensors) - len(self.names)
        x = self.layout.shape(self.x.restore(tensors[:count])).to(self.dtype)
        return x, tensors[count:]

    def run(self, x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        module, own = self.own.__new__(self.own), self.parts["_parameters"]
        module.__dict__.update(
            self.parts, _parameters={**own, **dict(zip(self.names, parameters))})
        x = x.clone() if self.parts.get("inplace", False) else x
        with torch.autocast("cpu", self.autocast or torch.bfloat16, cache_enabled=False,
                            enabled=self.autocast is not None):
            return self.own.forward(module, x)

    def restore(self, tensors: Sequence[Tensor]) -> Tensor:
        with torch.no_grad():
            return in_memory_order(self.run(*self.split(tensors)))


class AgainFunction(Once):
    """y = f(x) of form "dense": the backward pass is PyTorch's own, of f(x) run again, so gradients
    have its bits."""

    @staticmethod
    def forward(ctx, x: Tensor, module: Any, names: Sequence[str], made: List[Any],
                *parameters: Tensor):
        source, tensors = keep_flat(module.keep, in_memory_order(x))
        ctx.again = Again(module, names, x, source)
        made += [ctx.again, (*tensors, *parameters), tensors]
        ctx.save_for_backward(*tensors, *parameters)
        y = module._original(x)
        if y is x:
            ctx.mark_dirty(x)
            return y
        return _own(y)

    @staticmethod
    def backward(ctx, dy: Tensor):
        x, parameters = ctx.again.split(ctx.saved_tensors)
        leaves = [leaf.detach() for leaf in (x, *parameters)]
        needs = [ctx.needs_input_grad[0], *ctx.needs_input_grad[4:4 + len(parameters)]]
        with torch.enable_grad(), _unseen():
            wanted = [leaf.requires_grad_() for leaf, need in zip(leaves, needs) if need]
            got = iter(torch.autograd.grad(ctx.again.run(leaves[0], leaves[1:]), wanted, dy))
        gradients = [next(got) if need else None for need in needs]
        return (gradients[0], None, None, None, *gradients[1:])


class ReLUFunction(Once):
    """y = x where x > 0, else 0"""

    @staticmethod
    def forward(ctx, x: Tensor, module: Any, made: List[Any]):
        y = module._original(x)
        made += keep_flat(MASK, in_memory_order(y))
        ctx.source, ctx.layout = made[0], layout_of(y)
        ctx.save_for_backward(*made[1])
        if y is x:
            ctx.mark_dirty(x)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):
        mask = ctx.layout.shape(ctx.source.restore(ctx.saved_tensors)).to(dy.dtype)
        return torch.ops.aten.threshold_backward(dy, mask, 0), None, None


class ActivationFunction(Once):
    """y = f(x), element by element; its derivative is kept."""

    @staticmethod
    def forward(ctx, x: Tensor, module: Any, made: List[Any]):
        # The hooks of the forward pass see only what is kept of it.
        with torch.enable_grad(), _unseen():
            leaf = x.detach().requires_grad_()
            y = module._original(leaf.clone() if getattr(module, "inplace", False) else leaf)
            slope, = torch.autograd.grad(y, leaf, torch.ones_like(y))
        y = _own(y.detach())
        made += keep_flat(module.keep, in_memory_order(slope))
        ctx.source, ctx.layout = made[0], layout_of(slope)
        ctx.save_for_backward(*made[1])
        if getattr(module, "inplace", False):
            y = x.copy_(y)
            ctx.mark_dirty(x)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):  # y = f(x)
        slope = ctx.layout.shape(ctx.source.restore(ctx.saved_tensors))
        dx = slope * dy if is_batched(dy) else slope.mul_(dy)
        return dx.to(dy.dtype), None, None


class DropoutFunction(Once):
    """y = noise * x, where noise is 0 or 1 / (1 - p)"""

    @staticmethod
    def forward(ctx, x: Tensor, p: float, made: List[Any]):
        noise = F.dropout(torch.ones_like(x), p)  # draws what dropout of x draws
        made += keep_flat(MASK, in_memory_order(noise))
        ctx.source, ctx.layout, ctx.scale = made[0], layout_of(noise), float(noise.max())
        ctx.save_for_backward(*made[1])
        return noise.mul_(x)

    @staticmethod
    def backward(ctx, dy: Tensor):
        noise = ctx.layout.shape(ctx.source.restore(ctx.saved_tensors).mul_(ctx.scale))
        return noise.to(dy.dtype) * dy, None, None


def _sized(dy: Tensor, layout: Layout) -> Tensor:
    """Stands for an image of which only the size and the memory format are read."""
    if layout.stride[-1] != 1 and len(layout.size) == 4:
        return dy.new_empty(layout.size).to(memory_format=torch.channels_last)
    return dy.new_empty(()).expand(layout.size)


class MaxPoolFunction(Once):
    """y = the largest x of each window; its place in the window is kept as a byte."""

    @staticmethod
    def forward(ctx, x: Tensor, window: Tuple[Sequence[int], ...], ceil_mode: bool,
                made: List[Any]):
        ctx.window, ctx.ceil_mode, ctx.layout = window, ceil_mode, layout_of(x)
        y, index = torch.ops.aten.max_pool2d_with_indices(x, *window, ceil_mode)
        row = torch.div(index, x.shape[-1], rounding_mode="floor")
        column = index.sub_(row * x.shape[-1])
        top, left = MaxPoolFunction._corners(window, y)
        (_, width), _, _, (down, right) = window
        place = row.sub_(top).div_(down, rounding_mode="floor").mul_(width).add_(
            column.sub_(left).div_(right, rounding_mode="floor")).to(torch.uint8)
        made.append((place,))
        ctx.save_for_backward(place)
        return y

    @staticmethod
    def _corners(window: Tuple[Sequence[int], ...], y: Tensor) -> Tuple[Tensor, Tensor]:
        """Row and column of x where each window begins, for windows that y has."""
        _, stride, padding, _ = window
        rows, columns = (torch.arange(size, device="cpu") for size in y.shape[-2:])
        return (rows * stride[0] - padding[0])[:, None], columns * stride[1] - padding[1]

    @staticmethod
    def backward(ctx, dy: Tensor):
        place = ctx.saved_tensors[0].long()
        (_, width), _, _, (down, right) = ctx.window
        top, left = MaxPoolFunction._corners(ctx.window, dy)
        row = torch.div(place, width, rounding_mode="floor")
        column = (place - row * width).mul_(right).add_(left)
        index = row.mul_(down).add_(top).mul_(ctx.layout.size[-1]).add_(column)
        dx = torch.ops.aten.max_pool2d_with_indices_backward(
            dy, _sized(dy, ctx.layout), *ctx.window, ctx.ceil_mode, index)
        return dx, None, None, None


class AvgPoolFunction(Once):
    """y = the mean of x in each window: nothing is kept. PyTorch's own keeps x, and reads its size."""

    @staticmethod
    def forward(ctx, x: Tensor, module: Any, backward: Callable, how: tuple):
        ctx.layout, ctx.dtype, ctx.backward_of, ctx.how = layout_of(x), x.dtype, backward, how
        return _own(module._original(x))

    @staticmethod
    def backward(ctx, dy: Tensor):
        dx = ctx.backward_of(dy, _sized(dy, ctx.layout), *ctx.how)
        return dx.to(ctx.dtype), None, None, None
