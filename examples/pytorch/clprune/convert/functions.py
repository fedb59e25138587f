"""Functions whose backward pass reads what is kept of a tensor instead of the tensor."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, ContextManager, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from clprune.convert.layout import Layout, Part, in_memory_order, layout_of
from clprune.convert.sources import MASK, Source, is_batched, keep_flat
from clprune.library import Error


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


def _whole(part: Tensor, size: int, axis: int = 0, dtype: Optional[torch.dtype] = None) -> Tensor:
    """Room for a tensor of `size` along an axis, in the memory format of a part of it."""
    shape, inner = list(part.shape), part.numel() // part.shape[axis]
    shape[axis] = size
    stride = [inner if i == axis else stride for i, stride in enumerate(part.stride())]
    if any(part.shape[i] > 1 and stride[i] > inner for i in range(part.dim())):
        return part.new_empty(shape, dtype=dtype)
    return part.new_empty_strided(shape, stride, dtype=dtype)


def _by_parts(dy: Tensor, layout: Layout, use: Callable[[Tensor, Part], Tensor]) -> Tensor:
    """What `use` makes of the parts of dy, in dy's type."""
    parts = [layout.whole()] if is_batched(dy) else layout.parts()
    dx = None
    for part in parts:
        made = use(part.of(dy), part)
        if len(parts) == 1:
            return made.to(dy.dtype)
        if dx is None:
            dx = _whole(made, dy.shape[part.axis], part.axis, dy.dtype)
        part.of(dx).copy_(made)
    return dx


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
        weight, (stride, padding, dilation, groups) = weight.to(dy.dtype), ctx.how

        def backward(dy: Tensor, part: Part) -> Sequence[Optional[Tensor]]:
            x = ctx.source.part(tensors, part.start, part.stop)
            return torch.ops.aten.convolution_backward(
                dy, part.layout.shape(x).to(dy.dtype), weight, ctx.bias, stride, padding, dilation, False,
                [0] * len(stride), groups, list(ctx.needs_input_grad[:3]))

        parts = ctx.layout.parts(0)
        if len(parts) == 1 or not ctx.source.coded or is_batched(dy):
            dx, dw, db = backward(dy, ctx.layout.whole())
        else:
            dx = None
            sums: List[Any] = [None, None]
            for part in parts:
                of_x, *others = backward(part.of(dy), part)
                if of_x is not None:
                    dx = _whole(of_x, dy.shape[0]) if dx is None else dx
                    part.of(dx).copy_(of_x)
                sums = [more if more is None else more.float() if sum is None else sum.add_(more)
                        for sum, more in zip(sums, others)]
            dw, db = sums
        return (dx, dw, db, None, None, None) + (None,) * len(tensors)


class NormFunction(Once):
    """y = w * n + b of the normalised value n = (x - mean) / sqrt(var + eps), or x / sqrt(mean of
    x^2 + eps). Mean and variance are those of the axes `dims` of module._split(x)."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], module: Any,
                made: List[Any]):
        y = _own(module._original(x))
        dims, split = module._dims(x), module._split
        ctx.dims, ctx.sides, ctx.split, ctx.centred = dims, module._sides(x), split, module.centred
        ctx.layout, ctx.dtype = layout_of(torch.empty_like(y, device="meta")), x.dtype
        parts = NormFunction._parts(ctx)
        mean = 0 if not module.centred or 0 not in dims else (
            split(x).mean(dims, keepdim=True, dtype=torch.float32))

        def shifted(part: Part) -> Tensor:
            wide = split(part.of(x).float())
            return wide - (wide.mean(dims, keepdim=True) if module.centred and 0 not in dims else mean)

        def rstd_of(square: Tensor) -> Tensor:
            return torch.rsqrt_(square.add_(module._eps(x)))

        def normalised(part: Part) -> Tensor:
            n = shifted(part)
            if 0 not in dims:
                rstds.append(rstd_of(n.square().mean(dims, keepdim=True)))
            return n.mul_(rstds[-1]).reshape(part.layout.size)

        rstds: List[Tensor] = []
        if 0 in dims:
            square = sum(shifted(part).square_().sum(dims, keepdim=True) for part in parts)
            rstds.append(rstd_of(square.div_(split(x).numel() // square.numel())))
        ctx.source, tensors = module.keep_normalised(x, ctx.layout, parts, normalised)
        made += [ctx.source, tensors, ctx.layout]
        ctx.save_for_backward(weight, torch.cat(rstds) if len(rstds) > 1 else rstds[0], *tensors)
        return y

    @staticmethod
    def _parts(ctx) -> List[Part]:
        others = [i for i, side in enumerate(ctx.sides) if side == 1]
        apart = others[:1] == [0] and (0 not in ctx.dims or others == ctx.dims)
        return ctx.layout.parts(0) if apart else [ctx.layout.whole()]

    @staticmethod
    def backward(ctx, dy: Tensor):
        weight, rstd, *tensors = ctx.saved_tensors
        parts = [ctx.layout.whole()] if is_batched(dy) else NormFunction._parts(ctx)
        # In float32 the parts of dx take the places of those of n.
        n = ctx.source.restore(tensors) if dy.dtype == ctx.dtype == torch.float32 or len(parts) == 1 else None
        dx = dw = db = None
        if ctx.needs_input_grad[0] and len(parts) > 1:
            dx = ctx.layout.shape(n if n is not None else torch.empty(
                parts[-1].stop, dtype=ctx.dtype, device="cpu"))
        w = 1 if weight is None else weight.float().view(ctx.sides)
        others = [i for i, side in enumerate(ctx.sides) if side == 1]

        def read(part: Part) -> Tuple[Tensor, Tensor]:
            flat = ctx.source.part(tensors, part.start, part.stop) if n is None else n[part.start:part.stop]
            return part.of(dy).float(), part.layout.shape(flat)

        def total(x: Tensor) -> Tensor:
            return x.sum(others) if others else x  # a sum over no axes is one over all

        def of_rows(part: Part, dy: Tensor, n: Tensor) -> Tensor:
            g, n = ctx.split(dy * w), ctx.split(n)
            dx = torch.addcmul(g, (g * n).mean(ctx.dims, keepdim=True), n, value=-1)
            if ctx.centred:
                dx -= dx.mean(ctx.dims, keepdim=True)
            return dx.mul_(part.of(rstd)).reshape(dy.shape)

        def put(part: Part, values: Tensor) -> Tensor:
            if dx is None:
                return values.to(ctx.dtype)
            part.of(dx).copy_(values)
            return dx

        # n = (x - mean) * rstd. The mean of n is 0, but for the rounding of codes.
        of_n: Any = 0
        of_1: Any = 0
        of_mean: Any = 0
        for part in parts:
            g, p = read(part)
            of_n, of_1 = of_n + total(g * p), of_1 + total(g)  # y = w * n + b
            if others == ctx.dims:
                of_mean = of_mean + p.sum(ctx.dims, keepdim=True)
            elif ctx.needs_input_grad[0]:
                dx = put(part, of_rows(part, g, p))
        if ctx.needs_input_grad[0] and others == ctx.dims:
            count = dy.numel() // of_n.numel()
            slope, shift = of_n.view(ctx.sides) / count, of_1.view(ctx.sides) / count
            shift, scale = slope * of_mean / count - shift, w * rstd
            for part in parts:
                g, p = read(part)
                dx = put(part, torch.addcmul(g, slope, p, value=-1).add_(shift).mul_(scale))
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
        source, tensors = keep_flat(module.keep, x)
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
        made += keep_flat(MASK, y)
        ctx.source, ctx.layout = made[0], layout_of(y)
        ctx.save_for_backward(*made[1])
        if y is x:
            ctx.mark_dirty(x)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):
        tensors = ctx.saved_tensors

        def of_part(dy: Tensor, part: Part) -> Tensor:
            mask = part.layout.shape(ctx.source.part(tensors, part.start, part.stop)).to(dy.dtype)
            return torch.ops.aten.threshold_backward(dy, mask, 0)

        return _by_parts(dy, ctx.layout, of_part), None, None


class ActivationFunction(Once):
    """y = f(x), element by element; its derivative is kept."""

    @staticmethod
    def forward(ctx, x: Tensor, module: Any, made: List[Any]):
        in_place = getattr(module, "inplace", False)
        layout = layout_of(torch.empty_like(x, device="meta"))

        def slope(part: Part) -> Tensor:
            # The hooks of the forward pass see only what is kept of it.
            with torch.enable_grad(), _unseen():
                leaf = part.of(x).detach().requires_grad_()
                y = module._original(leaf.clone() if in_place else leaf)
                return torch.autograd.grad(y, leaf, torch.ones_like(y))[0]

        made += keep_flat(module.keep, x, layout=layout, make=slope)
        ctx.source, ctx.layout = made[0], layout
        ctx.save_for_backward(*made[1])
        y = module._original(x)
        if y is x:
            ctx.mark_dirty(x)
            return y
        return _own(y)

    @staticmethod
    def backward(ctx, dy: Tensor):  # y = f(x)
        tensors = ctx.saved_tensors

        def of_part(dy: Tensor, part: Part) -> Tensor:
            slope = part.layout.shape(ctx.source.part(tensors, part.start, part.stop))
            return slope * dy if is_batched(dy) else slope.mul_(dy)

        return _by_parts(dy, ctx.layout, of_part), None, None


class DropoutFunction(Once):
    """y = noise * x, where noise is 0 or 1 / (1 - p)"""

    @staticmethod
    def forward(ctx, x: Tensor, p: float, made: List[Any]):
        noise = F.dropout(torch.ones_like(x), p)  # draws what dropout of x draws
        made += keep_flat(MASK, noise)
        ctx.source, ctx.layout, ctx.scale = made[0], layout_of(noise), float(noise.max())
        ctx.save_for_backward(*made[1])
        return noise.mul_(x)

    @staticmethod
    def backward(ctx, dy: Tensor):
        tensors = ctx.saved_tensors

        def of_part(dy: Tensor, part: Part) -> Tensor:
            noise = ctx.source.part(tensors, part.start, part.stop).mul_(ctx.scale)
            return part.layout.shape(noise).to(dy.dtype) * dy

        return _by_parts(dy, ctx.layout, of_part), None, None


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
        (_, width), _, _, (down, right) = window
        y = place = None
        for part in ctx.layout.parts(0):
            of_y, index = torch.ops.aten.max_pool2d_with_indices(part.of(x), *window, ceil_mode)
            row = torch.div(index, x.shape[-1], rounding_mode="floor")
            column = index.sub_(row * x.shape[-1])
            top, left = MaxPoolFunction._corners(window, of_y)
            of_place = row.sub_(top).div_(down, rounding_mode="floor").mul_(width).add_(
                column.sub_(left).div_(right, rounding_mode="floor"))
            if y is None:
                y, place = _whole(of_y, x.shape[0]), _whole(of_y, x.shape[0], dtype=torch.uint8)
            part.of(y).copy_(of_y)
            part.of(place).copy_(of_place)
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
        places, = ctx.saved_tensors
        (_, width), _, _, (down, right) = ctx.window
        top, left = MaxPoolFunction._corners(ctx.window, dy)
        dx = None
        parts = [ctx.layout.whole()] if is_batched(dy) else ctx.layout.parts(0)
        for part in parts:
            place = part.of(places).long()
            row = torch.div(place, width, rounding_mode="floor")
            column = (place - row * width).mul_(right).add_(left)
            index = row.mul_(down).add_(top).mul_(ctx.layout.size[-1]).add_(column)
            of_x = torch.ops.aten.max_pool2d_with_indices_backward(
                part.of(dy), _sized(dy, part.layout), *ctx.window, ctx.ceil_mode, index)
            if len(parts) == 1:
                return of_x, None, None, None
            dx = _whole(of_x, dy.shape[0]) if dx is None else dx
            part.of(dx).copy_(of_x)
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
