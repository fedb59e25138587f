"""Operations that only move elements, as padding, shifts, indices, repeated dimensions: what they make of the elements' numbers
tells where each goes. Several become one layer, gather, when another operation reads what they make."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, fx

from clprune.tracing.products import HIDDEN, Products
from clprune.tracing.program import FLOATS, Axis, Extent, Layer, Places, Pool
from clprune.tracing.views import Constant, NotSupported, Order, Scores, Value, View, check_applied, reshaped

__all__ = ["Moved", "Moves"]


@dataclasses.dataclass(frozen=True, eq=False)
class Moved:
    """A tensor whose elements are those of a layer, in any places.

    places  1 + the number of the element of all samples that each is; 0: none
    plus    what is added
    first   dimension 1 is the features, as of images; else the last one
    """

    layer: int
    elements: int  # of a sample of the layer
    places: Tensor
    plus: Tensor
    first: bool

    def after(self, change: Callable[[Tensor], Any], result: Any) -> Any:
        """What a function makes of it, whose result has this shape; None unless it only moves elements, and adds numbers."""
        draw = torch.Generator().manual_seed(1)
        numbers = torch.cat([torch.zeros(1), torch.randn(int(self.places.max()), generator=draw)]).double()
        try:
            none, places, plus, values = (change(x.clone()) for x in (
                torch.zeros_like(self.plus), self.places.double(), self.plus, numbers[self.places] + self.plus))
        except (RuntimeError, TypeError, IndexError, ValueError):
            return None
        if isinstance(result, Tensor):
            return self._one(none, places, plus, values, result)
        if not isinstance(result, (tuple, list)) or not all(isinstance(x, Tensor) for x in result):
            return None
        parts = tuple(self._one(*part) for part in zip(none, places, plus, values, result))
        return None if None in parts else parts

    def _one(self, none: Any, places: Any, plus: Any, values: Any, result: Tensor) -> Optional["Moved"]:
        if not all(isinstance(x, Tensor) and x.shape == result.shape and x.is_floating_point()
                   for x in (none, places, plus, values)):
            return None
        places = torch.where(none == 0, places, 0.0)
        if places.numel() == 0 or bool((places != places.round()).any()) or int(places.min()) < 0 or \
                int(places.max()) > int(self.places.max()):
            return None
        places, draw = places.long(), torch.Generator().manual_seed(1)
        numbers = torch.cat([torch.zeros(1), torch.randn(int(self.places.max()), generator=draw)]).double()
        if not torch.equal(numbers[places] + plus, values):
            return None
        return dataclasses.replace(self, places=places, plus=plus, first=self.first and places.dim() == 4)


class Moves(Products):
    def moved(self, x: Any) -> Optional[Moved]:
        """A value's elements, where they are."""
        if isinstance(x, Moved):
            return x
        if not isinstance(x, (Value, View, Scores)) or isinstance(x, Value) and "C" not in x.sizes:
            return None
        first = isinstance(x, Value) and x.axes[:1] == ("C",)
        x = self._view(x)
        check_applied(x)
        if x.scale != 1 or x.picked:
            x = self._over(x, "scale", 1.0)
        memory = "N" + x.rows + x.left
        numbers = torch.arange(1, 1 + x.size(memory)).view([x.sizes[axis] for axis in memory])
        order = [axis for group in x.groups for axis in group]
        missing = [axis for axis in memory if axis not in order]
        if any(x.sizes[axis] > 1 for axis in missing):
            return None
        numbers = numbers.permute([memory.index(axis) for axis in (*order, *missing)])
        numbers = numbers.reshape([x.size(group) for group in x.groups])
        return Moved(x.layer, x.size(memory[1:]), numbers, torch.zeros(numbers.shape, dtype=torch.float64), first)

    def moved_by(self, n: fx.Node) -> Any:
        """What an operation makes of its one value, if it only moves elements; else None."""
        values = [i for i in n.all_input_nodes if not isinstance(self.noted.get(i), Constant) and i in self.noted]
        constants = [self.noted[i] for i in n.all_input_nodes if isinstance(self.noted.get(i), Constant)]
        if len(values) == 1 and isinstance(self.env[values[0]], tuple):  # of an attention module
            return self.noted[values[0]] if n.args[1] == 0 else None
        if self.drew or len(values) != 1 or self.changed not in ([], values) or any(
                c.mask or self._parameters_of(c) or c.name in self.named for c in constants):
            return None
        if n.op == "call_module" and any(True for _ in self.fetch_attr(str(n.target)).parameters()):
            return None
        try:
            x = self.moved(self.noted[values[0]])
        except NotSupported:
            return None
        if x is None or tuple(x.places.shape) != tuple(self.env[values[0]].shape):
            return None

        def change(tensor: Tensor) -> Any:
            args, kwargs = fx.node.map_arg((n.args, n.kwargs), lambda i: tensor if i is values[0] else self.env[i])
            if n.op == "call_method":
                return getattr(args[0], str(n.target))(*args[1:], **kwargs)
            return (self.fetch_attr(str(n.target)) if n.op == "call_module" else n.target)(*args, **kwargs)

        with torch.no_grad():
            made = x.after(change, self.result)
        if made is not None and self.stops:
            raise NotSupported("its gradient is stopped; no layer of a net does so")
        if made is not None:
            self._read(*constants)
        return made

    def placed(self, x: Any, features: Optional[int] = None, grid: Optional[Extent] = None) -> Value:
        """As a value. features: the dimension that they are; None: dimension 1 of images, else the last one. grid: of an image
        whose rows are one dimension."""
        if not isinstance(x, Moved):
            return x
        if features is None and id(x.places) in self.gathered:
            return self.gathered[id(x.places)][0]
        shape = tuple(x.places.shape)
        whole = NotSupported(f"a tensor of {shape}, whose elements are not those of one sample after the other")
        if shape[0] % self.batch or x.places.dim() < 2:
            raise whole
        windows, sizes = shape[0] // self.batch, shape[1:]
        places, plus = (t.reshape(self.batch, windows, *sizes) for t in (x.places, x.plus))
        own = places - 1 - x.elements * torch.arange(self.batch).view(-1, *[1] * (places.dim() - 1))
        own = torch.where(places == 0, -1, own)
        if bool((own != own[:1]).any()) or int(own.max()) >= x.elements or int(own.min()) < -1 or bool((plus != plus[:1]).any()):
            raise whole
        last = features or (1 if x.first else len(sizes))
        others = [d for d in range(1, 1 + len(sizes)) if d != last and (sizes[d - 1] > 1 or x.first and windows == 1)]
        if len(others) > 4:
            raise NotSupported(f"a tensor of {shape} in this order")
        names = dict(zip(others, "T" if len(others) == 1 else "HWXY"))
        axes = tuple("C" if d == last else names.get(d, "") for d in range(1, 1 + len(sizes)))
        value = Value(0, axes, {**({"B": windows} if windows > 1 else {}), **{names[d]: sizes[d - 1] for d in others},
                                "C": sizes[last - 1]})
        order = [0, *others, *(d for d in range(1, 1 + len(sizes)) if d != last and d not in others), last]
        own, plus = (t[0].permute(order).reshape(-1, sizes[last - 1]) for t in (own, plus))
        grid = Extent(value.sizes["H"], value.sizes["W"]) if value.rows == "HW" else grid or Extent(0, 0)
        if torch.equal(own.flatten(), torch.arange(x.elements)):
            layer = self._push("permute", (x.layer,), Order((x.elements,), (0,)), own.shape[1], grid)
        else:
            layer = self._push("gather", (x.layer,), Places(*own.shape, grid, own.int().contiguous()))
        if bool(plus.any()):
            name = self._name()
            self.program.layers.append(Layer("positions", name, (layer,)))
            layer = len(self.program.layers) - 1
            self._param(name, None, plus.clamp(min=HIDDEN).float().contiguous())
        value = dataclasses.replace(value, layer=layer)
        if features is None:
            self.gathered[id(x.places)] = value, x  # which lives as long as its id is used
        return value

    def placed_if(self, x: Any) -> Any:
        """As a value, if it can be one; numbers alone stay, whose first dimension need not have samples."""
        if isinstance(x, Moved) and not x.places.any():
            return x
        try:
            return self.placed(x)
        except NotSupported:
            return x

    def _settle(self, x: View) -> Value:
        try:
            return super()._settle(x)
        except NotSupported:
            moved = self.moved(x)
            if moved is None:
                raise
            return self.placed(moved)

    def _changed(self, x: Any, change: Callable[[Tensor], Tensor]) -> Moved:
        """x, moved by a function of its tensor."""
        moved = self.moved(x)
        made = moved and moved.after(change, change(moved.plus))
        if made is None:
            raise NotSupported("a tensor whose elements are not those of one sample after the other")
        return made

    def _fresh(self, layer: int, shape: Sequence[int]) -> Moved:
        """What a layer computes, whose elements lie as in a tensor of this shape, as one of the result's."""
        return self.of_places(layer, torch.arange(1, 1 + torch.Size(shape).numel()).view(self.result.shape))

    def of_places(self, layer: int, places: Tensor, elements: int = 0) -> Moved:
        """A layer's elements, all of them or some of so many of a sample, in these places."""
        elements = elements or places.numel() // self.batch
        return Moved(layer, elements, places, torch.zeros(places.shape, dtype=torch.float64), False)

    def product(self, a: View, b: View, factor: float = 1.0) -> Union[Value, View]:
        """Also of tensors of which one is broadcast, or of which more than windows are in the dimension of the samples."""
        sizes = [[x.size(group) for group in x.groups] for x in (a, b)]
        if len(sizes[0]) == len(sizes[1]) and sizes[0][:-2] != sizes[1][:-2]:
            most = [max(pair) for pair in zip(*(of[:-2] for of in sizes))]
            a, b = (x if of[:-2] == most else self._view(self.placed(self._changed(x, lambda t: t.expand(*most, *t.shape[-2:]))))
                    for x, of in zip((a, b), sizes))
        try:
            return super().product(a, b, factor)
        except NotSupported:
            if sizes[0][0] == self.batch:
                raise
        a, b = (reshaped(x, (self.batch, of[0] // self.batch, *of[1:])) for x, of in zip((a, b), sizes))
        y = self._view(super().product(a, b, factor))
        return self._plain(reshaped(y, (sizes[0][0], *sizes[0][1:-1], sizes[1][-1])))

    def image(self, x: Any) -> Value:
        """A tensor of (N, C, H, W), as an image."""
        moved = x if isinstance(x, Value) and x.axes == ("C", "H", "W") else self.moved(x)
        if isinstance(moved, Value):
            return moved
        if moved is None or moved.places.dim() != 4 or moved.places.shape[0] != self.batch:
            raise NotSupported("an operation on images of a tensor that is not (N, C, H, W)")
        return self.placed(dataclasses.replace(moved, first=True), 1)

    def laid_as(self, x: Value, like: Value) -> Value:
        try:
            return super().laid_as(x, like)
        except NotSupported:
            return x

    def _in_place_of(self, x: Moved, like: Value) -> Value:
        """As a value of the shape of another one, laid out as that is."""
        letters = "NB"[:1 + (like.windows > 1)] + "".join(like.axes)
        rest = [axis for axis in "N" + like.stored if axis not in letters and like.sizes[axis] == 1]
        memory = [axis for axis in "N" + like.stored if axis not in rest]
        sizes = {**like.sizes, "N": self.batch}
        if sorted(letters) != sorted(memory) or "C" in rest:
            raise NotSupported("tensors of two layouts together")
        moved = x.after(lambda t: t.reshape([sizes[axis] for axis in letters]).permute(
            [letters.index(axis) for axis in memory]).reshape(self.batch, -1, sizes["C"]), x.places.reshape(
                self.batch, -1, sizes["C"]).double())
        if moved is None:
            raise NotSupported("tensors of two layouts together")
        grid = Extent(sizes["H"], sizes["W"]) if like.rows == "HW" else None
        return dataclasses.replace(like, layer=self.placed(moved, 2, grid).layer)

    def filled(self, constant: Constant, x: Any) -> View:
        """A parameter, or what is computed from some, as a value of each sample: 0 * x + the parameter."""
        x, value = self.moved(x), constant.value
        rank = 0 if x is None else x.places.dim()
        if constant.mask or not 1 < value.dim() <= rank:
            raise NotSupported("a parameter where a tensor is expected")
        shape = (len(x.places), *[1] * (rank - 1 - value.dim()), *value.shape[value.dim() == rank:])
        if value.dim() == rank and len(value) not in (1, len(x.places)):
            raise NotSupported("a parameter of others than each sample")
        nothing = torch.zeros(shape, dtype=torch.int64)
        view = self._view(self.placed(dataclasses.replace(x, places=nothing, plus=nothing.double(), first=False)))
        return self.plus(view, constant)

    def in_windows(self, x: Any, kernel: Tuple[int, int], stride: Tuple[int, int], padding: int, run: Callable[[Value], Value]
                   ) -> Moved:
        """An operation on the image of each window, as of one image in which these are below each other."""
        x, (tall, step), wide = self.moved(x), (kernel[0], stride[0]), self.result.shape[3]
        if x is None or x.places.dim() != 4:
            raise NotSupported("an operation on windows that is not one of each row")
        samples, channels, height, width = x.places.shape
        windows, out, results = samples // self.batch, self.result.shape[2], self.result
        each = -(-(height + 2 * padding) // step) * step
        image = self._changed(x, lambda t: torch.nn.functional.pad(t, (0, 0, padding, each - height - padding)).view(
            self.batch, windows, channels, each, width).transpose(1, 2).reshape(self.batch, channels, windows * each, width))
        self.result = torch.empty(self.batch, results.shape[1], (windows * each - tall) // step + 1, wide)
        rows = (torch.arange(windows)[:, None] * (each // step) + torch.arange(out)).flatten()
        y = self._changed(run(self.image(image)), lambda t: t[:, :, rows].view(
            self.batch, -1, windows, out, wide).transpose(1, 2).reshape(results.shape))
        self.result = results
        return y

    def alike(self, a: Value, b: Value) -> Tuple[Value, Value]:
        """Two values, broadcast to the shape of the result and laid out alike."""
        shape = tuple(self.result.shape)
        whole = next((x for x in (a, b) if (self.batch * x.windows, *x.shape) == shape and "C" in x.axes), None)
        if whole is None:
            whole = self.placed(self._changed(a, lambda t: t.expand(shape)))
        found = []
        for x in (a, b):
            if x.layout != whole.layout:
                x = self._in_place_of(self._changed(x, lambda t: t.expand(shape)), whole)
            found.append(x)
        return found[0], found[1]

    def _last(self, x: Any, dims: Any) -> Moved:
        """x with some dimensions in one, as the last but one."""
        rank = len(self._view(x).groups)
        over = sorted(d % rank for d in ([dims] if isinstance(dims, int) else dims))
        others = [d for d in range(rank) if d not in over]
        if 0 in over:
            raise NotSupported("a sum or maximum over the samples")
        if len(others) == 1:
            return self._changed(x, lambda t: t.reshape(len(t), -1, 1))
        return self._changed(x, lambda t: t.permute(*others[:-1], *over, others[-1]).reshape(
            *(t.shape[d] for d in others[:-1]), -1, t.shape[others[-1]]))

    def summed(self, x: Any, dims: Any, factor: float = 1.0) -> Moved:
        """Sums over some dimensions, but not the samples: of a few elements one by one, else by a linear layer."""
        x = self._last(x, dims)
        *others, count, features = x.places.shape
        if count <= 8:
            parts = [self.placed(self._changed(x, lambda t: t[..., i, :])) for i in range(count)]
            layer = functools.reduce(lambda a, b: self._push("add", (a, b.layer)), parts[1:], parts[0].layer)
            layer, shape = layer if factor == 1 else self._push("scale", (layer,), factor), (*others, features)
            return self._fresh(layer, shape)
        layer, name = self.placed(self._changed(x, lambda t: t.transpose(-1, -2)), len(others) + 1).layer, self._name()
        self.program.layers.append(Layer("linear", name, (layer,), (1,)))
        self._param(f"{name}.weight", None, torch.full((1, count), factor))
        self._param(f"{name}.bias", None, torch.zeros(1, **FLOATS))
        return self._fresh(len(self.program.layers) - 1, (*others, features))

    def amax(self, x: Any, dim: Any = (), keepdim: bool = False) -> Moved:
        """The largest along some dimensions: 16 at a time, as of lines of an image."""
        x = self._last(x, dim)
        value, (*others, count, features) = self.placed(x, x.places.dim() - 1), x.places.shape
        rows, layer = torch.Size(others).numel() // self.batch, value.layer
        while count > 1:
            order = Order((rows * count, features), (0, 1))
            layer, taps = self._push("permute", (layer,), order, features, Extent(rows, count)), min(count, 16)
            layer, count = self._push("max_pool", (layer,), Pool((1, taps), (1, taps), (0, 0), True)), -(-count // taps)
        return self._fresh(layer, (*others, features))

    def joined_along(self, tensors: Sequence[Any], dim: int) -> Value:
        """Tensors behind each other along any dimension."""
        parts = [self.placed(dataclasses.replace(self._changed(x, lambda t: t), first=False), dim) for x in tensors]
        if any((x.axes, {**x.sizes, "C": 0}) != (parts[0].axes, {**parts[0].sizes, "C": 0}) for x in parts):
            raise NotSupported("torch.cat of tensors that are laid out differently")
        layer = functools.reduce(lambda a, b: self._push("concat", (a, b.layer), Axis.FEATURES), parts[1:], parts[0].layer)
        return dataclasses.replace(parts[0], layer=layer, sizes={**parts[0].sizes, "C": sum(x.sizes["C"] for x in parts)})

    def beside(self, tensors: Sequence[Any], dim: int) -> Moved:
        """Tensors of a shape, along a new dimension."""
        parts = [self.placed(self._changed(x, lambda t: t), len(self._view(x).groups) - 1) for x in tensors]
        layer = functools.reduce(lambda a, b: self._push("concat", (a, b.layer), Axis.FEATURES), parts[1:], parts[0].layer)
        shape = list(self._changed(tensors[0], lambda t: t).places.shape)
        size = [*shape[:-1], len(parts), shape[-1]]
        return self.of_places(layer, torch.arange(1, 1 + torch.Size(size).numel()).view(size).movedim(-2, dim))

    def plus_number(self, x: Any, number: float) -> Value:
        x, name = self._use(x, True), self._name()
        self.program.layers.append(Layer("affine", name, (x.layer,)))
        self._param(f"{name}.alpha", None, torch.ones(x.sizes["C"], **FLOATS))
        self._param(f"{name}.beta", None, torch.full((x.sizes["C"],), float(number)))
        return dataclasses.replace(x, layer=len(self.program.layers) - 1)
