"""Products of two values of a program, in any order of their dimensions, and what attention of other shapes than the fused
layer's is made of beside them: softmax, norms, numbers that are added."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

from clprune.tracing.layers import Layers
from clprune.tracing.program import Extent, Layer, Product
from clprune.tracing.views import Constant, NotSupported, Order, Scores, Value, View, check_applied, swapped

__all__ = ["Products"]

HIDDEN = -1e30  # what is added to a score that does not count: its probability is 0


@dataclasses.dataclass(frozen=True)
class _Layout:
    """How an operand of a product lies in memory: its other dimensions than the matrix's, as rows around the matrix, and side
    by side as parts of the features; whether the matrix is transposed."""

    parts: Tuple[int, ...]
    heads: Tuple[int, ...]
    transposed: bool

    @property
    def order(self) -> Tuple[int, ...]:
        return self.parts + self.heads


class Products(Layers):
    def _groups(self, x: View) -> List[str]:
        """The axes of each dimension; of the first one, without the samples."""
        if x.groups[0][:1] != "N" or any("N" in group for group in x.groups[1:]):
            raise NotSupported("a product of tensors whose first dimension is not the samples")
        return [x.groups[0][1:], *x.groups[1:]]

    def _dims(self, x: View) -> Optional[Tuple[List[int], List[int]]]:
        """The dimensions that are its rows, and its features, in the order of memory; None if one is of both, or not in one
        piece."""
        groups, found = self._groups(x), []
        for axes in (x.rows, x.left):
            dims: List[int] = []
            while axes:
                dim = next((d for d, group in enumerate(groups) if group and axes.startswith(group)), None)
                if dim is None:
                    return None
                dims.append(dim)
                axes = axes[len(groups[dim]):]
            found.append(dims)
        return found[0], found[1]

    def _laid(self, layer: int, sizes: Sequence[int], rows: Sequence[int], features: Sequence[int], scale: float = 1.0) -> View:
        """What a layer computes, by the dimensions that its rows and features are. sizes[0]: windows of a sample."""
        rows = [d for d in rows if sizes[d] > 1]
        *parts, last = features
        parts = [d for d in parts if sizes[d] > 1]
        inner = [d for d in rows if d > 0]
        if len(inner) > 4 or 0 in features or 0 in rows[1:]:
            raise NotSupported("a product of tensors of so many dimensions")
        names = {0: "B", **dict(zip(inner, "T" if len(inner) == 1 else "HWXY")), **dict(zip(parts, "abcd")), last: "C"}
        if parts:
            names[last] = "e"
        axes = {d: names[d] for d in (*rows, *parts, last)}
        groups = ["N" + axes.get(0, ""), *(axes.get(d, "") for d in range(1, len(sizes)))]
        return View(layer, tuple(groups), {"N": self.batch, **{axis: sizes[d] for d, axis in axes.items()}},
                    "".join(axes[d] for d in rows), "".join(axes[d] for d in (*parts, last)), scale=scale)

    def _relaid(self, x: View, others: Sequence[int], last: int) -> View:
        """x with its elements in the order of these dimensions, the last one as features."""
        check_applied(x)
        groups, old = self._groups(x), x.rows + x.left
        new = "".join(groups[d] for d in (*others, last))
        if sorted(new) != sorted(old) or groups[last] == "":
            raise NotSupported(f"a tensor of {tuple(map(x.size, x.groups))} in this order")
        layer, order = self._part_of(x), Order(tuple(x.sizes[axis] for axis in old), tuple(old.index(axis) for axis in new))
        if (layer, order) not in self.ordered:
            self.ordered[layer, order] = self._push("permute", (layer,), order, x.size(groups[last]), Extent(0, 0))
        return self._laid(self.ordered[layer, order], [x.size(group) for group in groups], others, [last], x.scale)

    def by_features(self, x: View, dim: int) -> View:
        """x with a dimension as its features."""
        check_applied(x)
        dims = self._dims(x)
        if dims is not None and dims[1] == [dim] and x.features == x.left:
            return x
        return self._relaid(x, [d for d in range(len(x.groups)) if d != dim], dim)

    def last_features(self, x: Any) -> Value:
        """x, whose last dimension is the features."""
        x = self._use(x, True)
        if x.axes[-1] == "C":
            return x
        view = self._view(x)
        return self._use(self.by_features(view, len(view.groups) - 1), True)

    def laid_as(self, x: Value, like: Value) -> Value:
        """x; if it has the shape of another one, laid out as that is."""
        if x.layout == like.layout or x.shape != like.shape or x.windows != like.windows or x.factor or like.factor:
            return x
        dims = self._dims(self._view(like))
        if dims is None or len(dims[1]) != 1:
            return x
        rows, (last,) = dims
        single = [d for d, size in enumerate(like.shape, 1) if size == 1]  # in either
        if set(rows) | {last} | set(single) | ({0} if x.windows > 1 else set()) < set(range(1, 1 + len(like.shape))):
            return x
        return dataclasses.replace(like, layer=self._relaid(self._view(x), rows, last).layer)

    def _layout(self, x: View) -> Optional[_Layout]:
        dims, rank = self._dims(x), len(x.groups)
        sizes = [x.size(group) for group in self._groups(x)]
        if dims is None:
            return None
        for transposed in (False, True):
            (rows, features), (row, column) = dims, ((rank - 1, rank - 2) if transposed else (rank - 2, rank - 1))
            parts = rows[:-1] if rows[-1:] == [row] else rows if sizes[row] == 1 else None
            heads = features[:-1] if features[-1:] == [column] else features if sizes[column] == 1 else None
            if parts is not None and heads is not None and max((*parts, *heads), default=0) < rank - 2:
                return _Layout(tuple(d for d in parts if sizes[d] > 1), tuple(d for d in heads if sizes[d] > 1), transposed)
        return None

    def product(self, a: View, b: View, factor: float = 1.0) -> Union[Value, View]:
        """The products of the matrices that the last two dimensions of both are."""
        rank = len(a.groups)
        sizes = [[x.size(group) for group in self._groups(x)] for x in (a, b)]
        if rank < 3 or len(b.groups) != rank or sizes[0][:-2] != sizes[1][:-2] or sizes[0][-1] != sizes[1][-2]:
            raise NotSupported(f"a product of {tuple(map(a.size, a.groups))} and {tuple(map(b.size, b.groups))}")
        check_applied(a)
        check_applied(b)
        natural = tuple(d for d in range(rank - 2) if sizes[0][d] > 1)
        of_a, of_b = self._layout(a), self._layout(b)
        if of_b is None or of_a is not None and of_b.order != of_a.order and not (of_b.heads and not of_a.heads):
            b = self._relaid(b, (*(of_a.order if of_a else natural), rank - 2), rank - 1)
            of_b = self._layout(b)
        if of_a is None or of_a.order != of_b.order:
            a = self._relaid(a, (*of_b.order, rank - 2), rank - 1)
            of_a = self._layout(a)
        if of_a.heads and of_b.heads and of_a.heads != of_b.heads:
            b = self._relaid(b, (*of_a.order, rank - 2), rank - 1)
            of_b = self._layout(b)
        heads = of_a.heads or of_b.heads
        parts = of_a.order[:len(of_a.order) - len(heads)]
        layers = [self._part_of(x) for x in (a, b)]
        # values stay as they are: the heads of y are side by side where those of one operand alone are
        swapped = bool(of_b.heads) and not of_a.heads and of_b.transposed
        beside = swapped or bool(of_b.heads) != bool(of_a.heads) and not (of_a.heads and of_a.transposed)
        below = [not of.heads for of in (of_a, of_b)]
        flags, row, column = [of_a.transposed, of_b.transposed], rank - 2, rank - 1
        if swapped:  # y^T = b^T a^T
            layers, below, flags = layers[::-1], below[::-1], [not flag for flag in flags[::-1]]
            row, column = column, row
        count = {dims: self._count(sizes[0], dims) for dims in (parts, heads)}
        layer = self._push("product", tuple(layers), Product(
            count[parts], count[heads], *flags, *below, not beside, factor * a.scale * b.scale))
        shape = [*sizes[0][:-1], sizes[1][-1]]
        inner = (*parts, row) if beside else (*parts, *heads, row)
        return self._plain(self._laid(layer, shape, inner, (*heads, column) if beside else (column,)))

    @staticmethod
    def _count(sizes: Sequence[int], dims: Sequence[int]) -> int:
        count = 1
        for d in dims:
            count *= sizes[d]
        return count

    def _over(self, x: View, function: str, *more: Any) -> View:
        """An operation on each row, or each element."""
        layer = self._part_of(x)
        if x.scale != 1:
            layer = self._push("scale", (layer,), x.scale)
        return dataclasses.replace(x, layer=self._push(function, (layer,), *more), features=x.left, picked=(), scale=1.0)

    def softmax_of(self, x: Any, dim: int) -> Union[Value, View]:
        x = self._view(x)
        return self._plain(self._over(self.by_features(x, dim % len(x.groups)), "softmax"))

    def normalize(self, x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None) -> Union[Value, View]:
        """x / max(|x|, eps) along a dimension: an RMS norm by 1 / sqrt(count)."""
        x = self._view(x)
        dim = dim % len(x.groups)
        count = x.size(x.groups[dim])
        if p != 2 or count < 2:
            raise NotSupported("a normalisation by another norm than the root of the sum of squares")
        weight = torch.full((count,), count ** -0.5)
        if len(x.left) == 2 and dim == len(x.groups) - 1 and x.groups[dim] == x.left[1]:
            return self.head_norm(x, None, eps ** 2 / count, weight)
        x = self.by_features(x, dim)
        layer, name = self._part_of(x), self._name()
        self.program.layers.append(Layer("rms_norm", name, (layer,), (), eps ** 2 / count))
        self._param(f"{name}.weight", None, weight)
        return self._plain(dataclasses.replace(x, layer=len(self.program.layers) - 1, features=x.left, picked=(), scale=1.0))

    def head_norm(self, x: View, weight: Optional[Constant], eps: float, value: Optional[torch.Tensor] = None) -> View:
        """Of the features of each head."""
        if x.turned > 0 or x.repeats > 1 or x.scale != 1:
            raise NotSupported("a norm of heads behind rotary positions or a scale")
        layer, name = self._part_of(x), self._layer_of(weight)
        heads, features = (x.sizes[axis] for axis in x.left)
        self.program.layers.append(Layer("head_norm", name, (layer,), (0, heads, features), eps))
        self._param(f"{name}.weight", weight, torch.ones(features) if value is None else value)
        return dataclasses.replace(x, layer=len(self.program.layers) - 1, features=x.left, picked=())

    def spread(self, constant: Constant, shape: Sequence[int]) -> Constant:
        """A constant that is broadcast to the shape of each sample."""
        value, shape = constant.value, tuple(shape)
        if value.dim() == 1 + len(shape) and value.shape[0] == self.batch and bool((value == value[:1]).all()):
            value = value[0]  # of each sample
        while value.dim() > len(shape) and value.shape[0] == 1:
            value = value[0]
        if value.dim() == len(shape) and value.shape[0] == self.batch * shape[0] > 0 and \
                torch.equal(value, value[:shape[0]].repeat(self.batch, *[1] * (len(shape) - 1))):
            value, constant = value[:shape[0]], dataclasses.replace(constant, then=(*constant.then, ("narrow", (0, 0, shape[0]))))
        if tuple(value.shape) == shape:
            return dataclasses.replace(constant, value=value)
        try:
            value = value.expand(shape)
        except RuntimeError:
            raise NotSupported(f"{constant.name or 'a constant'} of {tuple(constant.value.shape)} with a tensor of "
                               f"(N, {', '.join(map(str, shape))})") from None
        steps = () if constant.value.dim() <= len(shape) else (("reshape", constant.value.shape[-len(shape):]),)
        return dataclasses.replace(constant, value=value, then=(*constant.then, *steps, ("expand", shape)))

    def _placed(self, x: View, layer: int, constant: Constant, hides: bool = False) -> int:
        """layer, which lies as x does, plus a number for each element of a sample. hides: what is added to scores, which truth
        shows."""
        groups = self._groups(x)
        sizes, memory = [x.size(group) for group in groups], x.rows + x.left
        axes = "".join(groups)
        if sorted(axes) != sorted(memory):
            raise NotSupported("numbers for each element of a tensor in this order")
        constant = self.spread(constant, sizes if sizes[0] > 1 else sizes[1:])
        value = constant.value.float()
        if hides:
            value = (torch.where(constant.value, 0.0, HIDDEN) if constant.value.dtype == torch.bool else value).clamp(min=HIDDEN)
        fixed = constant.name is None and constant.node is None or self._is_fixed(constant)
        if not fixed and constant.value.dtype == torch.bool:
            raise NotSupported("a mask that is computed from the model's tensors")
        name, order = self._name(), tuple(axes.index(axis) for axis in memory)
        self.program.layers.append(Layer("positions", name, (layer,)))
        placed = len(self.program.layers) - 1
        in_order = order == tuple(range(len(order)))
        self._param(name, None if fixed else constant, value.contiguous() if fixed else None,
                    split=() if in_order else tuple(x.sizes[axis] for axis in axes),
                    order=() if in_order else order)
        return placed

    def plus(self, x: View, constant: Constant, hides: bool = False) -> View:
        x = self._over(x, "scale", 1.0) if x.scale != 1 or x.picked else x
        return dataclasses.replace(x, layer=self._placed(x, x.layer, constant, hides))

    def times(self, x: View, constant: Constant) -> View:
        """x times a parameter that is broadcast to it, which becomes a value: 0 * x + the parameter."""
        if x.picked:
            x = dataclasses.replace(x, layer=self._part_of(x), features=x.left, picked=())
        factor = self._placed(x, self._push("scale", (x.layer,), 0.0), constant)
        return dataclasses.replace(x, layer=self._push("gate", (x.layer, factor)))

    def scores(self, s: Scores) -> Union[Value, View]:
        """Scores, or probabilities, as a tensor."""
        if s.masked:
            raise NotSupported("a mask of lengths in attention whose scores are tensors")
        if s.draw in self.dropped:
            if self.dropped[s.draw] is None:
                raise NotSupported("probabilities of attention of which some are dropped, and that are used twice")
            return self.dropped[s.draw]
        q, k = (dataclasses.replace(x.view, scale=1.0) for x in (s.q, s.k))
        y = self._view(self.product(self.gained(s, q), swapped(k), s.scale))
        if s.cap > 0:
            y = self._over(self._over(y, "tanh"), "scale", s.cap)
        biases = list(s.biases)
        if s.causal:
            biases.append(Constant(None, torch.full((s.q.rows, s.k.rows), HIDDEN).triu(1)))
        for bias in biases:
            y = self.plus(y, bias, True)
        if s.soft:
            self.attentions += 1
            y = self._over(self.by_features(y, len(y.groups) - 1), "softmax")
        if s.rate > 0:
            y = self._over(y, "dropout", s.rate)
        y = self._plain(y)
        if s.draw:
            self.dropped[s.draw] = y
        return y

    def gained(self, s: Scores, q: View) -> View:
        """Queries, times the numbers of their heads by which scores are multiplied."""
        if s.gain is None:
            return q
        name, layer, features = self._name(), self._part_of(q), s.q.features
        gain = dataclasses.replace(s.gain, value=s.gain.value.reshape(-1, 1).expand(s.q.count, features).reshape(-1), then=(
            *s.gain.then, ("reshape", (-1, 1)), ("expand", (s.q.count, features)), ("reshape", (-1,))))
        self.program.layers.append(Layer("affine", name, (layer,)))
        layer = len(self.program.layers) - 1
        self._param(f"{name}.alpha", gain)
        self._param(f"{name}.beta", None, torch.zeros(s.q.all))
        return dataclasses.replace(q, layer=layer, features=q.left, picked=())
