"""Arithmetic on tensors of a program: functions of each element, sums, products, means, and what several of them are together."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Optional, Tuple, Union

from clprune.tracing.moves import Moves
from clprune.tracing.program import Axis, Extent, Layer, Pool, Stacked
from clprune.tracing.views import Constant, Cut, NotSupported, Order, Scores, Value, View


class Arithmetic(Moves):
    """Arithmetic, as a part of the tracer."""

    def relu(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("relu", x)

    def relu6(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("relu6", x)

    def hardtanh(self, x: Value, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
                 ) -> Value:
        if (min_val, max_val) != (0, 6):
            raise NotSupported(f"hardtanh from {min_val} to {max_val}, only from 0 to 6, ReLU6")
        return self._elementwise("relu6", x)

    def leaky_relu(self, x: Value, negative_slope: float = 0.01, inplace: bool = False) -> Value:
        """slope * x + (1 - slope) * relu(x)"""
        x = self._use(x)
        steep = self._elementwise("scale", self.relu(x), 1 - negative_slope)
        return self.add(self._elementwise("scale", x, float(negative_slope)), steep)

    def sigmoid(self, x: Value) -> Value:
        return self._elementwise("sigmoid", x)

    def hard_sigmoid(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("hard_sigmoid", x)

    def hard_swish(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("hard_swish", x)

    def silu(self, x: Value, inplace: bool = False) -> Value:
        return self._elementwise("silu", x)

    def tanh(self, x: Any) -> Union[Value, Scores]:
        if isinstance(x, Scores) and not (x.cap or x.soft or x.biases or x.causal or x.masked):
            return dataclasses.replace(x, cap=1.0)
        return self._elementwise("tanh", x)

    def gelu(self, x: Value, approximate: str = "none") -> Value:
        return self._elementwise("gelu_tanh" if approximate == "tanh" else "gelu", x)

    def erf(self, x: Value) -> Value:
        """A part of GELU, which mul finds: no net has such a layer."""
        return self._elementwise("erf", x)

    def _gelu_of(self, x: Value, g: Value) -> Optional[Value]:
        """x * g, if that is factor * GELU: x is a number times y, and g is 1 + erf(y / sqrt 2)."""
        (layer, factor), of_erf = self._unscaled(x.layer), self._of(g, "erf")
        if of_erf is None or of_erf.more != (1,) or x.layout != g.layout:
            return None
        other, root = self._unscaled(of_erf.inputs[0])
        if other != layer or abs(root * 2 ** 0.5 - 1) > 1e-6:
            return None
        return self._elementwise("scale", self.gelu(dataclasses.replace(x, layer=layer)), 2 * factor)

    def _of(self, x: Any, function: str) -> Optional[Layer]:
        """The layer of x, if it is one of this function."""
        of = self.program.layers[x.layer] if isinstance(x, Value) else None
        return of if of is not None and of.function == function else None

    def _unscaled(self, layer: int) -> Tuple[int, float]:
        """The layer that one is a number times, and the number."""
        factor, of = 1.0, self.program.layers[layer]
        while of.function == "scale":
            factor, layer = factor * of.more[0], of.inputs[0]
            of = self.program.layers[layer]
        return layer, factor

    def dropout(self, x: Value, p: float = 0.5, training: bool = True, inplace: bool = False
                ) -> Value:
        if isinstance(x, Scores) and (p == 0 or not training):
            return x
        if isinstance(x, Scores) and x.soft and x.rate == 0:
            return dataclasses.replace(x, rate=float(p), draw=self.node.name)
        return self._elementwise("dropout", x, float(p)) if p > 0 and training else x

    def dropout_of_features(self, x: Value, p: float, training: bool) -> Value:
        if p > 0 and training:
            raise NotSupported("dropout of whole features")
        return x

    def stochastic_depth(self, x: Value, p: float, mode: str, training: bool = True) -> Value:
        if p <= 0 or not training:
            return x
        if mode != "row" or p >= 1:
            raise NotSupported(f"stochastic depth of {p} and mode {mode!r}, only below 1 and of rows")
        return self._elementwise("drop_path", x, float(p))

    def norm(self, x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *, ord: Any = 2, **more: Any) -> Value:
        """Of each feature over all rows: a part of GRN, norm / (mean of the norms + eps), which div finds."""
        x = self._use(x)
        dims = sorted(d % (1 + len(x.axes)) for d in ([dim] if isinstance(dim, int) else dim or ()))
        over = "".join(x.axes[d - 1] for d in dims if d > 0)
        more = [name for name, value in more.items() if value is not None]
        if p not in (2, "fro") or ord != 2 or more or 0 in dims or x.rows == "" or sorted(over) != sorted(x.rows):
            raise NotSupported("a norm of others than each feature over all rows")
        axes = [group if group == "C" else "" for d, group in enumerate(x.axes, 1) if keepdim or d not in dims]
        return self._add("norm", self._name(), (x.layer,), (), axes, {"C": x.sizes["C"]})

    def mean(self, x: Any, dim=None, keepdim: bool = False, **more: Any) -> Value:
        if isinstance(x, Stacked) and dim in (x.dim, (x.dim,), [x.dim]) and not keepdim and not more:
            return self._elementwise("scale", functools.reduce(self.add, x), 1 / len(x))
        of = self._of(x, "norm")
        if of is not None and isinstance(dim, int) and keepdim and x.axes[dim % (1 + len(x.axes)) - 1] == "C":
            return Value(self._push("norms_mean", of.inputs), ("",) * len(x.axes), {"C": 1})
        x = self._use(x)
        dims = [dim] if isinstance(dim, int) else list(dim or ())
        rank = 1 + len(x.axes)
        dims = sorted(d % rank for d in dims)
        over = "".join(x.axes[d - 1] for d in dims if d > 0)
        left = [d for d, group in enumerate(x.axes, 1) if d not in dims and x.size(group) > 1]
        if 0 not in dims and not more and "C" in over and len(left) == 1 and x.windows == 1:
            x = self._use(self.by_features(self._view(x), left[0]))
            over = "".join(x.axes[d - 1] for d in dims if d > 0)
        if not dims or 0 in dims or more:
            raise NotSupported("a mean over other dimensions than those of a sample")
        if sorted(over) != sorted(x.rows) or "C" not in x.axes:
            return self.summed(x, dims, 1 / math.prod(((1, *x.shape)[d]) for d in dims))
        return self._mean(x, [group if group == "C" else ""
                              for d, group in enumerate(x.axes, 1) if keepdim or d not in dims])

    def sum(self, x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
        if isinstance(x, Stacked) and dim in (x.dim, (x.dim,), [x.dim]) and not keepdim:
            return functools.reduce(self.add, x)
        if dim is None:
            raise NotSupported("a sum of all elements")
        return self.summed(x, dim)

    def max(self, x: Any, dim: Any = None, keepdim: bool = False) -> tuple:
        """Over all rows, 16 at a time, as of an image of one line; without the indices."""
        x = self._use(x)
        if not isinstance(dim, int):
            raise NotSupported("max is supported along a dimension")
        if x.rows == "" or x.axes[dim % (1 + len(x.axes)) - 1] != x.rows or "C" not in x.axes:
            self.result = self.result[0]
            return (self.amax(x, dim),)
        rows, layer = x.size(x.rows), x.layer
        while rows > 1:
            line = self._push("permute", (layer,), Order((rows, x.sizes["C"]), (0, 1)), x.sizes["C"], Extent(1, rows))
            taps = min(rows, 16)
            layer, rows = self._push("max_pool", (line,), Pool((1, taps), (1, taps), (0, 0), True)), -(-rows // taps)
        at = dim % (1 + len(x.axes)) - 1
        axes = tuple(group if group == "C" else "" for d, group in enumerate(x.axes) if keepdim or d != at)
        return (Value(self._push("flatten", (layer,)), axes, {"C": x.sizes["C"]}),)

    def add(self, a: Any, b: Any, alpha: float = 1, out: None = None) -> Value:
        if isinstance(a, (Constant, int, float)):
            a, b = b, a
        if isinstance(a, Cut) and isinstance(b, Cut) and alpha == 1:
            return a.plus(b).whole
        if isinstance(a, Scores) and isinstance(b, Constant) and alpha == 1 and not a.soft:
            return self._hide_later(a, b)
        a, b = (self._view(x) if isinstance(x, Scores) else x for x in (a, b))
        if isinstance(b, (int, float)) and b == 0:
            return a
        a, b = (self._use(x, True) if isinstance(x, View) else x for x in (a, b))
        means, erf = self._of(a, "norms_mean"), self._of(a, "erf")
        if means is not None and isinstance(b, float) and b > 0 and alpha == 1:
            return self._add("norms_mean", self._name(), means.inputs, (), a.axes, a.sizes, means.eps + b)
        if erf is not None and erf.more == () and b == 1 and alpha == 1:
            return self._add("erf", self._name(), erf.inputs, (1,), a.axes, a.sizes)
        if isinstance(b, (int, float)) and isinstance(a, Value):
            return self.plus_number(a, alpha * b)
        if isinstance(b, Constant) and alpha == 1:
            return self._positions(self._use(a, True), b)
        if alpha != 1 or not isinstance(a, Value) or not isinstance(b, Value):
            raise NotSupported("an addition needs two tensors of the model's operations")
        if a.layout != b.layout:
            a, b = (self._of_one_row(x) for x in (a, b))
            b = self.laid_as(b, a)
            a = a if a.layout == b.layout else self.laid_as(a, b)
        if a.layout != b.layout:
            a, b = self.alike(self._use(a, True), self._use(b, True))
        if b.factor is None and a.factor is not None:
            a, b = b, a
        a = self._use(a, True)
        if b.factor is None or len(b.axes) == 1:
            b = self._use(b, True)
            return self._add("add", self._name(), (a.layer, b.layer), (), a.axes, a.sizes)
        name = self._name(b.factor.name or self.node.name)
        value = self._add("layerscale", name, (a.layer, b.layer), (), a.axes, a.sizes)
        self._param(name, b.factor)
        return value

    @staticmethod
    def _of_one_row(x: Value) -> Value:
        """x; where its rows are one, without them."""
        if x.windows > 1 or x.size(x.rows) > 1:
            return x
        axes = tuple("".join(axis for axis in group if axis == "C") for group in x.axes)
        return dataclasses.replace(x, axes=axes, sizes={"C": x.sizes["C"]})

    def sub(self, a: Any, b: Any, alpha: float = 1) -> Value:
        if isinstance(b, (int, float)):
            return self.add(a, -alpha * b)
        if isinstance(b, Constant) and not b.mask and alpha == 1:
            return self.add(a, dataclasses.replace(b, value=-b.value, then=(*b.then, ("neg", ()))))
        if not isinstance(b, (Value, View)) or alpha != 1:
            raise NotSupported("a subtraction needs two tensors of the model's operations")
        b = self._use(b, True)
        return self.add(dataclasses.replace(b, layer=self._push("scale", (b.layer,), -1.0)), a)

    def mul(self, a: Any, b: Any, out: None = None) -> Value:
        if not isinstance(a, (Value, View, Cut, Scores, Stacked)):
            a, b = b, a
        if isinstance(a, Stacked) or isinstance(b, Stacked):
            return self._weighted(a, b) if isinstance(a, Stacked) else self._weighted(b, a)
        if isinstance(b, Constant) and (isinstance(a, Cut) or isinstance(a, View) and self._turns(a, b)):
            self.angles_of(b)
            return self._cut(a).times(b.value)
        if isinstance(b, Constant) and b.value.numel() == 1 and not b.mask and self._is_fixed(b):
            b = float(b.value)
        if isinstance(a, Scores):
            number = isinstance(b, (int, float))
            gain = isinstance(b, Constant) and not b.mask and b.value.numel() == a.q.count and (
                a.q.count == 1 or b.value.dim() > 2 and b.value.shape[-3] == a.q.count)
            if a.soft or a.rate > 0 or a.biases or a.causal or a.masked or not number and (a.cap > 0 or a.gain or not gain) or \
                    number and a.cap > 0 and b <= 0:
                a = self._view(a)
            elif not number:
                return dataclasses.replace(a, gain=b)
            elif a.cap > 0:
                return dataclasses.replace(a, cap=a.cap * b)
        b = self._view(b) if isinstance(b, Scores) else b
        if isinstance(a, (View, Scores)) and isinstance(b, (int, float)):
            return dataclasses.replace(a, scale=a.scale * b)
        a, b = (self._use(x, True) if isinstance(x, View) else x for x in (a, b))
        if isinstance(b, (int, float)):
            return self._elementwise("scale", a, float(b))
        if isinstance(b, Value):
            a, b = self._use(a, True), self._use(b, True)
            return self._gelu_of(a, b) or self._gelu_of(b, a) or self._gate(a, b)
        if not isinstance(b, Constant):
            raise NotSupported("a product of two tensors is not supported")
        a = self._use(a, True)
        try:
            b = self._of_features(b, a)
        except NotSupported:
            if b.mask:
                raise
            return self._plain(self.times(self._view(a), b))
        return dataclasses.replace(a, factor=b)

    def _weighted(self, x: Stacked, weights: Any) -> Stacked:
        """Stacked values times a value for each feature of each of them."""
        weights = self._view(weights)
        sizes = list(map(weights.size, weights.groups))
        inner = [d for d, size in enumerate(sizes) if d > 0 and size > 1]
        if len(inner) != 2 or x.dim not in inner or sizes[x.dim] != len(x) or len(sizes) != self.result.dim():
            raise NotSupported("a product of tensors that were stacked with others than a value for each feature of each of them")
        feature, = (d for d in inner if d != x.dim)
        groups = ["C" if d == feature else "" for d in range(1, len(sizes)) if d != x.dim]
        layer = self._part_of(self.by_features(weights, feature))
        found = []
        for i, part in enumerate(x):
            if tuple("C" if group == "C" else "" for group in part.axes) != tuple(groups) or part.sizes["C"] != sizes[feature]:
                raise NotSupported("a product of tensors that were stacked with one of other features")
            weight = self._push("slice", (layer,), Axis.ROWS, i, 1)
            found.append(dataclasses.replace(part, layer=self._push("gate", (part.layer, weight))))
        return Stacked(found, x.dim)

    def _gate(self, x: Value, g: Value) -> Value:
        """A product of two tensors; or the features of each sample times numbers of its own, which have one row."""
        if x.layout == g.layout:
            return self._add("gate", self._name(), (x.layer, g.layer), (), x.axes, x.sizes)
        for one, other in ((x, g), (g, x)):
            as_one = self.laid_as(other, one)
            if as_one is not other:
                return self._add("gate", self._name(), (one.layer, as_one.layer), (), one.axes, one.sizes)
        both = x, g
        if x.rows == "":
            x, g = g, x
        g = self._vector(g)
        if x.windows > 1 or g.windows > 1 or g.rows != "" or g.sizes["C"] != x.sizes["C"] or \
                g.axes != tuple("C" if group == "C" else "" for group in x.axes):
            x, g = self.alike(*both)
        return self._add("gate", self._name(), (x.layer, g.layer), (), x.axes, x.sizes)

    def _vector(self, x: Value) -> Value:
        """x; if all its elements are one dimension, as features of one row."""
        shown, stored = ([axis for axis in axes if x.sizes[axis] > 1] for axes in ("".join(x.axes), x.stored))
        if x.rows == "" or shown != stored or sum(size > 1 for size in x.shape) != 1:
            return x
        axes = tuple("C" if x.size(group) > 1 else "" for group in x.axes)
        return Value(self._push("flatten", (x.layer,)), axes, {"C": math.prod(x.shape)})

    def square(self, x: Any) -> Value:
        x = self._use(x, True)
        return self._gate(x, x)

    def pow(self, x: Any, exponent: Any) -> Value:
        if exponent not in (2, 3):
            raise NotSupported(f"the power {exponent}, only 2 or 3")
        return self.square(x) if exponent == 2 else self._gate(self.square(x), self._use(x, True))

    def div(self, a: Any, b: Any) -> Value:
        norms, means = self._of(a, "norm"), self._of(b, "norms_mean")
        if norms is not None and means is not None and norms.inputs == means.inputs and means.eps > 0:
            return self._add("response", self._name(), norms.inputs, (), a.axes, a.sizes, means.eps)
        if isinstance(b, Constant) and not b.mask:
            return self.mul(a, dataclasses.replace(b, value=1 / b.value, then=(*b.then, ("reciprocal", ()))))
        if not isinstance(b, (int, float)):
            b = self._use(b, True)
            return self.mul(a, dataclasses.replace(b, layer=self._push("reciprocal", (b.layer,))))
        return self.mul(a, 1 / b)

    def addcmul(self, beta: Any, a: Any, b: Any, value: float = 1) -> Value:
        if not isinstance(b, Value):
            a, b = b, a
        if value != 1 or not isinstance(beta, Constant) or not isinstance(a, Constant):
            raise NotSupported("addcmul needs a parameter + a parameter * a tensor")
        return self._affine(a, beta, self._use(b))
