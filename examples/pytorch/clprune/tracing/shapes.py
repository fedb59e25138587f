"""Dimensions that are joined, split, taken in parts and laid out anew."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Sequence, Union

import torch

from clprune.tracing.moves import Moves
from clprune.tracing.program import Axis, Extent, Layer, Parts, Stacked
from clprune.tracing.views import Constant, Cut, NotSupported, Scores, Value, View, first_part, permuted, picked, reshaped


class Shapes(Moves):
    """Dimensions, as a part of the tracer."""

    def _view(self, x: Any) -> View:
        return super()._view(self._unstacked(x))

    def _use(self, x: Any, windows: bool = False) -> Value:
        return super()._use(self._unstacked(x), windows)

    def _unstacked(self, x: Any) -> Any:
        """Values that were stacked, as one."""
        return self.placed(self.beside(x, x.dim)) if isinstance(x, Stacked) else self.placed(x)

    def cat(self, tensors: Sequence[Any], dim: int = 0) -> Value:
        if isinstance(tensors, Parts):
            tensors = [self._part(tensors, i) for i in range(len(tensors.sizes))]
        try:
            return self._cat(tensors, dim)
        except NotSupported:
            if dim % self.result.dim() == 0 or any(isinstance(x, Constant) for x in tensors):
                raise
            return self.joined_along(tensors, dim % self.result.dim())

    def _cat(self, tensors: Sequence[Any], dim: int) -> Value:
        """Features or rows behind each other, two values at a time; a list that begins as an earlier one did goes
        on from there, as DenseNet's do."""
        if len(tensors) == 2 and isinstance(tensors[0], Cut) and dim % self.result.dim() == self.result.dim() - 1:
            return tensors[0].joined(self._cut(tensors[1])).whole
        if len(tensors) > 1 and all(isinstance(x, Constant) and x.value.shape[1:2] == (1,) for x in tensors[:-1]):
            x = self._use(tensors[-1])
            for token in reversed(tensors[:-1]):
                x = self._class_token(token, x, dim)
            if x.shape != tuple(self.result.shape[1:]):
                raise NotSupported("class tokens of another size")
            return x
        values = [x if isinstance(x, Constant) else self._use(x) for x in tensors]
        most = max((x for x in values if isinstance(x, Value)), key=lambda x: x.size(x.rows))
        if self.result.dim() == 2 and all(isinstance(x, Value) for x in values) and any(x.axes != ("C",) for x in values):
            values = [x if x.axes == ("C",) else self._use(self.by_features(self._view(x), 1)) for x in values]  # flattened
            most = values[0]
        values = [self._rows_like(x, most, dim) if isinstance(x, Constant) else self._one_row(x, dim) for x in values]
        axis, group = self._axis(values[0], dim % (1 + len(values[0].axes)), "torch.cat")
        at = values[0].axes.index(group)
        whole = values[0]
        for x in values[1:]:
            others = [(y.shape[:at], y.shape[at + 1:], self._axis(y, 1 + at, "torch.cat")[0]) if len(y.axes) > at
                      else None for y in (values[0], x)]
            if others[0] != others[1] or x.axes.index("C") != values[0].axes.index("C"):
                raise NotSupported("torch.cat of tensors that are laid out differently")
        layers = tuple(x.layer for x in values)
        done = max((i for i in range(2, 1 + len(layers)) if (axis, layers[:i]) in self.joined), default=1)
        layer, size = self.joined.get((axis, layers[:done]), layers[0]), sum(x.shape[at] for x in values)
        for i in range(done, len(layers)):
            layer = self._push("concat", (layer, layers[i]), axis)
            self.joined[axis, layers[:i + 1]] = layer
        return self._resized(whole, layer, at, axis, size)

    @staticmethod
    def _one_row(x: Value, dim: int) -> Value:
        """x; if it has one row, of this dimension."""
        at = dim % (1 + len(x.axes)) - 1
        if at < 0 or x.rows != "" or x.axes[at] != "" or "C" not in x.axes:
            return x
        return Value(x.layer, (*x.axes[:at], "T", *x.axes[at + 1:]), {"T": 1, "C": x.sizes["C"]})

    def stack(self, tensors: Sequence[Any], dim: int = 0) -> tuple:
        """Values beside each other, of which a sum or a mean follows."""
        return Stacked((self._use(x) for x in tensors), dim % self.result.dim())

    def _class_token(self, token: Constant, x: Value, dim: int) -> Value:
        """A parameter as a row before the rows."""
        if dim != 1 or len(x.axes) != 2 or x.axes[1] != "C" or token.value.shape[1:] != (1, x.sizes["C"]):
            raise NotSupported("a class token is 1 x 1 x features, before rows of features")
        name = self._name(token.name or self.node.name)
        self.program.layers.append(Layer("class_token", name, (x.layer,)))
        value = Value(len(self.program.layers) - 1, ("T", "C"), {"T": x.size(x.axes[0]) + 1, "C": x.sizes["C"]})
        self._param(name, token)
        return value

    def _rows_like(self, rows: Constant, x: Value, dim: int) -> Value:
        """A parameter as rows of a value like x: 0 times as many rows of x, plus the parameter."""
        shape = tuple(rows.value.shape)
        if dim != 1 or len(shape) != 3 or x.axes != (x.rows, "C") or shape[2] != x.sizes["C"] or shape[1] > x.size(x.rows):
            raise NotSupported("rows of a parameter are 1 x rows x features, with no more rows than those beside them have")
        zeros = self._slice(x, 1, 0, shape[1])
        zeros = dataclasses.replace(zeros, layer=self._push("scale", (zeros.layer,), 0.0))
        name = self._name(rows.name or self.node.name)
        self.program.layers.append(Layer("positions", name, (zeros.layer,)))
        self._param(name, rows)
        return dataclasses.replace(zeros, layer=len(self.program.layers) - 1)

    def split(self, x: Value, _: Any = None, dim: int = 0, **__: Any) -> Parts:
        """Also chunks: the sizes are those of the results."""
        sizes = tuple(part.shape[dim] for part in self.result)
        if isinstance(x, View) and len(set(sizes)) == 1:
            shape, dim = list(map(x.size, x.groups)), dim % len(x.groups)
            shape[dim:dim + 1] = len(sizes), sizes[0]
            return Parts(reshaped(x, shape), dim)
        x = self._use(x, True)
        return Parts(x, dim % (1 + len(x.axes)), sizes)

    def unbind(self, x: Any, dim: int = 0) -> Parts:
        x = self._view(x)
        return Parts(x, dim % len(x.groups))

    def _part(self, parts: Parts, i: int) -> Union[Value, View]:
        if parts.sizes is None:
            return self._plain(self._picked(parts.of, parts.dim, i))
        i %= len(parts.sizes)
        return self._slice(parts.of, parts.dim, sum(parts.sizes[:i]), parts.sizes[i])

    def _slice(self, x: Value, dim: int, first: int, count: int) -> Value:
        x = self._use(x, True)
        if sorted(x.axes) == ["C", "H", "W"] and x.axes[dim - 1] != "C":
            side, = self._sides(x, (dim,), "a part")
            return self._resampled(x, lambda t: t.narrow(side, first, count))
        try:
            axis, _ = self._axis(x, dim, "a part")
        except NotSupported:
            return self.placed(self._changed(x, lambda t: t.narrow(dim, first, count)))
        if count == x.shape[dim - 1]:
            return x
        return self._resized(x, self._push("slice", (x.layer,), axis, first, count), dim - 1, axis, count)

    def _picked(self, x: View, dim: int, index: int) -> View:
        """x[..., index, ...]: of a part of the features."""
        other = first_part(x, dim)
        if other is not None:
            order, x = other
            features = math.prod(order.extents[1:])
            key = x.layer, order
            if key not in self.ordered:
                self.ordered[key] = self._push("permute", (x.layer,), order, features, Extent(0, 0))
            x = dataclasses.replace(x, layer=self.ordered[key])
        return picked(x, dim, index)

    def _index(self, x: View, at: Sequence[Any]) -> Union[Value, View]:
        """Some of the parts of the features."""
        dim = 0
        for index in at:
            if isinstance(index, int):
                x = self._picked(x, dim, index)
                continue
            first, end, _ = index.indices(x.size(x.groups[dim]))
            if end - first < x.size(x.groups[dim]):
                part = x.size(x.left[1:])
                layer = self._push("slice", (x.layer,), Axis.FEATURES, x.first + first * part, (end - first) * part)
                x = dataclasses.replace(x, layer=layer, sizes={**x.sizes, x.left[0]: end - first}, features=x.left, picked=())
            dim += 1
        return self._plain(x)

    def getitem(self, x: Any, at: Any) -> Union[Value, View]:
        """A part along one dimension, one row of each sample, or the output of an attention module."""
        if isinstance(x, Parts):
            return self._part(x, at)
        if isinstance(x, tuple):
            return x[at]
        if isinstance(self.env[self.node.args[0]], tuple):
            if at != 0:
                raise NotSupported("the weights of nn.MultiheadAttention")
            return x
        index = list(at) if isinstance(at, tuple) else [at]
        if isinstance(x, View) and None not in index:
            if Ellipsis in index:
                here = index.index(Ellipsis)
                index[here:here + 1] = [slice(None)] * (1 + len(x.groups) - len(index))
            index = [slice(i[0], i[0] + 1 or None) if isinstance(i, list) and len(i) == 1 else i for i in index]
            parts = x.left[0] if len(x.left) > 1 else None  # of which some may be taken
            if all(isinstance(i, int) or isinstance(i, slice) and (
                    i.indices(x.size(group)) == (0, x.size(group), 1) or group == parts and i.step in (None, 1))
                   for i, group in zip(index, x.groups)):
                return self._index(x, index)
        cut = self._cut_of(x, index)
        if cut is not None:
            return cut
        x = self._use(x)
        if None in index:
            if any(i is not None and i is not Ellipsis and i != slice(None) for i in index):
                raise NotSupported(f"[{at}] of parts and new dimensions at once")
            return self.reshape(x)
        if Ellipsis in index:
            here = index.index(Ellipsis)
            index[here:here + 1] = [slice(None)] * (2 + len(x.axes) - len(index))
        sizes = (self.batch, *x.shape)
        parts = [(dim, *i.indices(size)) if isinstance(i, slice) else (dim, i, i, 0)
                 for dim, (i, size) in enumerate(zip(index, sizes))
                 if i != slice(None) and (not isinstance(i, slice) or i.indices(size) != (0, size, 1))]
        if not parts:
            return x
        if sorted(x.axes) == ["C", "H", "W"] and all(dim > 0 and x.axes[dim - 1] != "C" and isinstance(index[dim], slice)
                                                     for dim, *_ in parts):
            of = {x.axes[dim - 1]: index[dim] for dim, *_ in parts}
            return self._resampled(x, lambda t: t[:, :, of.get("H", slice(None)), of.get("W", slice(None))])
        (dim, first, end, step), *others = parts
        if not others and step == 0 and dim == 1 and isinstance(first, int) and len(x.axes) == 2 and x.axes[1] == "C":
            return self._add("row", self._name(), (x.layer,), (first % sizes[1],), ("C",), {"C": x.sizes["C"]})
        if others or step != 1 or dim == 0:
            raise NotSupported(f"[{at}] is supported as a part along one dimension, or [:, row] of (N, T, C)")
        return self._slice(x, dim, first, end - first)

    def expand(self, x: Any, *_: Any) -> Value:
        """Of features of a sample, as gates of pixels; what reads it takes it as it is."""
        one = self._vector(self._use(x))
        if one.rows != "" or len(one.axes) + 1 != self.result.dim():
            return self._changed(x, lambda t: t.expand(self.result.shape))
        return one

    def permute(self, x: Any, *dims: Any) -> Union[Value, View]:
        x = x if isinstance(x, View) else self._use(x, True)
        rank = len(x.groups) if isinstance(x, View) else 1 + len(x.axes)
        dims = [d % rank for d in (dims[0] if isinstance(dims[0], (tuple, list)) else dims)]
        if isinstance(x, View) or dims[0] != 0:
            return self._plain(permuted(self._view(x), dims))
        return dataclasses.replace(x, axes=tuple(x.axes[d - 1] for d in dims[1:]))

    def transpose(self, x: Any, dim0: int, dim1: int) -> Union[Value, View]:
        dims = list(range(self.result.dim()))
        dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
        return self.permute(x, dims)

    def reshape(self, x: Any, *_: Any, **__: Any) -> Union[Value, View]:
        """Joins and splits dimensions."""
        if isinstance(x, Scores) and self.result.shape[-2:] == (x.q.rows, x.q.rows):  # samples, windows and heads
            return x
        if isinstance(x, View):
            try:
                return self._plain(reshaped(x, self.result.shape))
            except NotSupported:  # its axes, in the order of memory, may be split elsewhere
                x = self._use(x, True)
        if isinstance(x, Value) and self.result.shape == (self.batch * x.windows, *x.shape):
            return x
        x = self._use(x, True)
        try:
            return self._dealt(x)
        except NotSupported:
            if len(x.axes) == 1 and x.rows != "" and x.windows == 1:
                raise
            return self._plain(reshaped(self._view(x), self.result.shape))

    def _dealt(self, x: Value) -> Value:
        """The axes one by one, dealt out again by the sizes."""
        shape = tuple(self.result.shape[1:])
        left = [axis for group in x.axes for axis in group]
        axes = []
        for size in shape:
            group = ""
            while left and x.size(group) < size:
                group += left.pop(0)
            axes.append(group)
        if left and axes and x.size("".join(left)) == 1:
            axes[-1] += "".join(left)
        value = dataclasses.replace(x, axes=tuple(axes))
        if len(x.axes) == 1 and x.rows != "" and value.axes != x.axes and x.windows == 1:
            raise NotSupported("a flattened tensor cannot be split again")
        apart = "X" in x.rows and any(group not in x.rows + "C" for group in axes)
        if value.shape != shape or self.result.shape[0] != self.batch or x.windows > 1 or apart:
            raise NotSupported(f"a tensor of (N, {', '.join(map(str, x.shape))}) as "
                               f"{tuple(self.result.shape)}")
        return self._whole(value)

    def reshape_as(self, x: Any, _: Any) -> Union[Value, View]:
        return self.reshape(x)

    def to(self, x: Any, *_: Any, **__: Any) -> Any:
        if self.result.dtype != torch.float32:
            raise NotSupported(f"a conversion to {self.result.dtype}")
        return x
