"""Attention as a layer of a program, as a whole or from its operations: products, what is added to scores, rotary positions."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from clprune.tracing.products import Products
from clprune.tracing.program import Attention, Axis, Extent
from clprune.tracing.views import (
    Angles, Bias, Constant, Cut, Heads, NotSupported, Order, Scores, Value, View, hides_later, swapped, theta_of)

__all__ = ["Attentions"]


class Attentions(Products):
    def attention(self, x: Value, qkv: Sequence[Optional[Constant]],
                  proj: Sequence[Optional[Constant]], heads: int, rate: float,
                  causal: bool = False, masked: bool = False, window: int = 0,
                  biases: Sequence[Constant] = (), cosines: Optional[Constant] = None) -> Value:
        """Self-attention with its linear layers: (weight, bias) each. cosines: of Swin V2, the logarithm of each head's scale."""
        x = self.last_features(x)
        axes = x.axes
        if "".join(axes[:-1]) == x.rows and x.windows == 1:
            x = dataclasses.replace(x, axes=(x.rows, "C"))
        if len(x.axes) != 2:
            raise NotSupported("attention over a tensor that is not (N, T, C)")
        window = x.size(x.axes[0]) if x.windows > 1 else window
        base = self._name()
        for name, (weight, bias) in (("qkv", qkv), ("proj", proj)):
            apart, out = cosines is not None and name == "qkv", weight.value.shape[0]
            layer = self._linear_of(self._name(f"{base}.{name}"), x.layer, weight, None if apart else bias)
            x = dataclasses.replace(x, layer=layer, sizes={**x.sizes, "C": out})
            if apart:
                x = dataclasses.replace(x, layer=self._cosines(x, bias, heads, cosines))
            if name == "qkv":
                self.attentions += 1
                self.masked += masked
                layer = self._core(x.layer, Attention(heads, rate, causal, window=window), x.size(x.rows), biases)
                x = dataclasses.replace(x, layer=layer, sizes={**x.sizes, "C": out // 3})
        return dataclasses.replace(x, axes=axes)

    def attention_to(self, q: Value, kv: Value, qkv: Sequence[Optional[Constant]], proj: Sequence[Optional[Constant]], heads: int,
                     rate: float) -> Value:
        """Attention of q's rows to those of another value, with its linear layers, of which the weight of queries is a part."""
        q, kv = (self.last_features(self._use(x)) for x in (q, kv))
        if (len(q.axes), len(kv.axes), q.windows, kv.windows) != (2, 2, 1, 1):
            raise NotSupported("attention over tensors that are not (N, T, C)")
        width, layers, base = q.sizes["C"], [], self._name()
        for name, x, first, count in (("q", q, 0, width), ("kv", kv, width, 2 * width)):
            parts = (None if whole is None else whole.after("narrow", 0, first, count) for whole in qkv)
            layers.append(self._linear_of(self._name(f"{base}.{name}"), x.layer, *parts))
        self.attentions += 1
        layer = self._linear_of(self._name(f"{base}.proj"), self._push("cross_attention", tuple(layers), heads, 0, rate), *proj)
        return dataclasses.replace(q, layer=layer, sizes={**q.sizes, "C": proj[0].value.shape[0]})

    def _cosines(self, x: Value, bias: Optional[Constant], heads: int, scale: Constant) -> int:
        """q, k and v of Swin V2: q and k have norm 1, q times its head's scale; keys have no bias."""
        out, layer = x.sizes["C"] // 3, None
        features = out // heads
        norm = torch.full((features,), features ** -0.5)
        gain = (("clamp", (None, math.log(100.0))), ("exp", ()), ("mul", (features ** 0.5,)), ("reshape", (-1, 1)),
                ("expand", (heads, features)), ("reshape", (-1,)))
        scales = scale.value.detach()
        for step, args in gain:
            scales = getattr(scales, step)(*args)
        for part in range(3):
            of = Value(self._push("slice", (x.layer,), Axis.FEATURES, part * out, out), ("C",), {"C": out})
            if bias is not None and part != 1:
                of = self._affine(None, bias.after("narrow", 0, part * out, out), of)
            if part < 2:
                view = View(of.layer, ("N", "T", "a", "b"), {"N": 1, "T": 1, "a": heads, "b": features}, "T", "ab")
                of = dataclasses.replace(of, layer=self.head_norm(view, None, 1e-24 / features, norm).layer)
            if part == 0:
                of = self._affine(dataclasses.replace(scale, value=scales.requires_grad_(scale.value.requires_grad),
                                                      then=(*scale.then, *gain)), None, of)
            layer = of.layer if layer is None else self._push("concat", (layer, of.layer), Axis.FEATURES)
        return layer

    def shifted_window_attention(
            self, x: Value, qkv_weight: Constant, proj_weight: Constant, relative_position_bias: Constant,
            window_size: Sequence[int], num_heads: int, shift_size: Sequence[int], attention_dropout: float = 0.0,
            dropout: float = 0.0, qkv_bias: Optional[Constant] = None, proj_bias: Optional[Constant] = None,
            logit_scale: Optional[Constant] = None, training: bool = True) -> Value:
        """torchvision's: padded to whole windows, rolled, cut into windows, and back."""
        x = self._use(x)
        if x.axes != ("H", "W", "C"):
            raise NotSupported("attention in windows of (N, C, H, W)")
        sides = x.sizes["H"], x.sizes["W"]
        (tall, wide), counts = window_size, [-(-side // window) for side, window in zip(sides, window_size)]
        height, width = tall * counts[0], wide * counts[1]
        shifts = [0 if window >= padded else shift for shift, window, padded in zip(shift_size, window_size, (height, width))]
        if (height, width) != sides or any(shifts):
            x = self._resampled(x, lambda t: F.pad(t, (0, width - sides[1], 0, height - sides[0])).roll(
                [-shift for shift in shifts], (2, 3)))
        biases = [relative_position_bias]
        if any(shifts):
            lines = [sum((torch.arange(n) >= n - edge).int() for edge in (window, shift)) if shift else torch.zeros(n).int()
                     for n, window, shift in zip((height, width), window_size, shifts)]
            part = (3 * lines[0][:, None] + lines[1]).view(counts[0], tall, counts[1], wide).permute(0, 2, 1, 3)
            part = part.reshape(-1, 1, tall * wide)
            biases.append(Constant(None, torch.where(part == part.transpose(1, 2), 0.0, -100.0)[:, None]))
        layer = self._push("permute", (x.layer,), Order((counts[0], tall, counts[1], wide, x.sizes["C"]), (0, 2, 1, 3, 4)),
                           x.sizes["C"], Extent(0, 0))
        y = self.attention(Value(layer, ("T", "C"), {"T": height * width, "C": x.sizes["C"]}), (qkv_weight, qkv_bias),
                           (proj_weight, proj_bias), num_heads, attention_dropout if training else 0.0,
                           window=tall * wide, biases=biases, cosines=logit_scale)
        layer = self._push("permute", (y.layer,), Order((*counts, tall, wide, y.sizes["C"]), (0, 2, 1, 3, 4)), y.sizes["C"],
                           Extent(height, width))
        x = dataclasses.replace(x, layer=layer, sizes={"H": height, "W": width, "C": y.sizes["C"]})
        if (height, width) != sides or any(shifts):
            x = self._resampled(x, lambda t: t.roll(shifts, (2, 3))[:, :, :sides[0], :sides[1]])
        return self.dropout(x, dropout, training)

    def _cut(self, x: Any) -> Cut:
        return x if isinstance(x, Cut) else Cut.of(self._view(x))

    def _cut_of(self, x: Any, index: Sequence[Any]) -> Optional[Cut]:
        """Some features of each head, where the last dimension is those of a head."""
        *others, last = index
        if not isinstance(x, (View, Cut)) or not isinstance(last, slice) or \
                not all(i in (Ellipsis, slice(None)) for i in others) or \
                Ellipsis not in others and len(index) != self.result.dim():
            return None
        try:
            x = self._cut(x)
        except NotSupported:
            return None
        first, end, step = last.indices(x.count)
        if step != 1:
            raise NotSupported("rotary positions other than Llama's")
        return x.narrow(first, end - first)

    def neg(self, x: Any) -> Union[Cut, Value]:
        return dataclasses.replace(x, sign=-x.sign) if isinstance(x, Cut) else self.mul(x, -1)

    def _turns(self, x: View, table: Constant) -> bool:
        """Whether it has a number for each row and feature of a head."""
        shape, last = tuple(table.value.shape), x.groups[-2:]
        if last not in ((x.rows, x.left[1:]), (x.left[:1], x.left[1:])) or x.turned > 0 or self._parameters_of(table):
            return False
        rows = x.size(x.rows)
        return shape[-2:] == (rows, x.size(last[1])) if last[0] == x.rows else shape[-3:] == (rows, 1, x.size(last[1]))

    def angles_of(self, *tables: Constant) -> None:
        """Tables of rotary positions; fails if they are computed from parameters: the net's are constants."""
        names = [name for table in tables for name in self._parameters_of(table)]
        if names:
            raise NotSupported(f"rotary positions by angles that are computed from a parameter, {names[0]}")
        self._read(*tables)

    def _bias(self, constants: Sequence[Constant], heads: int, rows: int, windows: int
              ) -> Tuple[Bias, Optional[Constant], bool]:
        """What is added to scores; its table, if any, and whether heads are the first axis of that."""
        plain, table = torch.zeros(windows, heads, rows, rows, dtype=torch.float64), None
        for constant in constants:
            names = self._parameters_of(constant)
            if constant.mask or names and table is not None:
                raise NotSupported("a bias of attention that is another one for each sample, or several")
            if names and constant.value.dtype == torch.bool:
                raise NotSupported(f"a mask of attention that is computed from a parameter, {names[0]}")
            if names:
                table = constant, names[0]
            else:
                plain = plain + Bias.shaped(constant.value, heads, rows, windows, self.batch)
        if table is None:
            bias, numbers = Bias.of_numbers(plain)
            self._read(*constants)
            return bias, None if numbers is None else Constant(None, numbers), False
        constant, name = table
        others = [other for other in constants if other is not constant]
        if len(self._parameters_of(constant)) > 1 or constant.then:
            self._read(*others)
            return self._computed_bias(constant, plain, heads, rows, windows)
        tensor = self.named[name].detach()

        def with_table(values: Tensor) -> Tensor:
            return Bias.shaped(self._computed(constant.node, {name: values}, {}), heads, rows, windows, self.batch)

        with torch.no_grad():
            numbers = torch.arange(tensor.numel(), dtype=torch.float64).view(tensor.shape)
            zero = with_table(torch.zeros_like(numbers))
            ids = (with_table(numbers) - zero).round().long()
            if int(ids.min()) < 0 or int(ids.max()) >= tensor.numel() or not self._alike(
                    name, with_table, lambda values: torch.where(zero <= -1e4, zero, values.flatten()[ids] + zero)):
                self._read(*others)
                return self._computed_bias(constant, plain, heads, rows, windows)
        bias, transposed = Bias.of_table(ids, plain + zero, tensor.shape)
        self._read(*constants)
        return bias, Constant(name, self.named[name]), transposed

    def _computed_bias(self, constant: Constant, plain: Tensor, heads: int, rows: int, windows: int
                       ) -> Tuple[Bias, Optional[Constant], bool]:
        """As a table of its own, which is computed from parameters."""
        value = Bias.shaped(constant.value.detach(), heads, rows, windows, self.batch)
        rest = None if not bool(plain.any()) else Bias.of_numbers(plain)[0]
        if not bool((value == value[:1]).all()) or rest is not None and rest.index is not None:
            raise NotSupported("a bias of attention of other numbers for each window")
        shape, count = (heads, rows * rows), constant.value.numel()
        steps = (("reshape", shape),) if count in (heads * rows * rows, self.batch * heads * rows * rows) else (
            ("expand", (heads, rows, rows)), ("reshape", shape))
        of = value[0].float().reshape(shape).requires_grad_(constant.value.requires_grad)
        return Bias(rows * rows, torch.arange(rows * rows, dtype=torch.int32).view(rows, rows), rest and rest.mask), \
            dataclasses.replace(constant, value=of, then=(*constant.then, *steps)), True

    def _core(self, layer: int, attention: Attention, rows: int, biases: Sequence[Constant]) -> int:
        """The layer of attention itself, over `rows` rows of a sample."""
        table = None
        if biases:
            of = attention.window or rows
            bias, table, transposed = self._bias(biases, attention.heads, of, rows // of)
            attention = dataclasses.replace(attention, bias=bias)
        layer = self._push("attention", (layer,), attention)
        if table is not None:
            ours, heads = f"{self.program.layers[layer].name}.table", attention.heads
            shape = (heads, attention.bias.entries) if transposed else (attention.bias.entries, heads)
            self._param(ours, table if table.name or table.node is not None else None, table.value, shape,
                        (1, 0) if transposed else (0, 1))
        return layer

    def matmul(self, a: Any, b: Any) -> Any:
        if isinstance(a, Scores):
            return self._attend(a, self._view(b))
        if isinstance(a, (Value, View)) and isinstance(b, Constant) and b.value.dim() == 2:
            return self._of_matrix(a, b)
        if isinstance(a, Constant) != isinstance(b, Constant):
            a, b = (self.filled(x, other) if isinstance(x, Constant) else x for x, other in ((a, b), (b, a)))
            return self.product(self._view(a), self._view(b))
        return self._scores_of(self._view(a), self._view(b), 1.0)

    def _scores_of(self, a: View, b: View, scale: float) -> Union[Value, View, Scores]:
        """A product that may be of queries and keys, which shows later; else it is one of any values."""
        try:
            return Scores.of(Heads.of(a), Heads.of(b, True), scale)
        except NotSupported:
            return self.product(a, b, scale)

    def _of_matrix(self, x: Any, b: Constant) -> Value:
        """A product with a parameter, or with one that is transposed."""
        names = self._parameters_of(b)
        p = self.named[names[0]] if len(names) == 1 and self._of_one(b) else None
        for transposed in (False, True):
            if p is not None and p.dim() == 2 and self._alike(
                    names[0], lambda values: self._computed(b.node, {names[0]: values}, {}),
                    lambda values: values if transposed else values.t()):
                return self.linear(x, Constant(names[0], p), None, transposed)
        if self._is_fixed(b) or not names and b.node is None:
            raise NotSupported("a product with a matrix that is no parameter")
        return self.linear(x, b, None, True)

    def baddbmm(self, input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Scores:
        if not isinstance(input, Constant) or beta != 1:
            raise NotSupported("baddbmm is supported for scores of attention and what is added to them")
        return self._hide_later(dataclasses.replace(self.matmul(batch1, batch2), scale=float(alpha)), input)

    def einsum(self, equation: str, a: Any, b: Any) -> Any:
        """As a product of matrices: ...id,...jd->...ij or ...ij,...jd->...id."""
        terms, _, out = equation.replace(" ", "").replace(".", "").partition("->")
        first, _, second = terms.partition(",")
        if min(map(len, (first, second, out))) >= 3 and first[:-2] == second[:-2] == out[:-2] and out[-2] == first[-2]:
            if (first[-1], out[-1]) == (second[-2], second[-1]) and isinstance(a, Scores):
                return self.matmul(a, b)
            if (first[-1], out[-1]) == (second[-1], second[-2]):
                return self._scores_of(self._view(a), swapped(self._view(b)), 1.0)
        if first[:1] == out[:1] and isinstance(b, Constant) and sorted(first[1:-1]) == sorted(out[1:-1]) and \
                second[-1:] == first[-1:] and second[-2:-1] == out[-1:] and set(second[:-2]) <= set(first[1:-1]):
            parts = [second[:-2], "".join(i for i in first[1:-1] if i not in second)]
            dims = [first.index(i) for i in (first[0], *parts[0], *parts[1], first[-1])]
            x = self._changed(a, lambda t: t.permute(dims).reshape(
                len(t), *(t.shape[first.index(i)] for i in parts[0]), -1, t.shape[-1]))
            y = self.product(self._view(self.placed(x)), swapped(self.filled(b, x)))
            sizes = dict(zip(out, self.result.shape))
            order = (out[0], *parts[0], *parts[1], out[-1])
            return self._changed(y, lambda t: t.reshape([sizes[i] for i in order]).permute([order.index(i) for i in out]))
        raise NotSupported(f"einsum of {equation!r}, unless it is a product in attention, or with a parameter")

    def softmax(self, x: Any, dim: Optional[int] = None, **_: Any) -> Any:
        if dim is None:
            raise NotSupported("a softmax without a dimension")
        if isinstance(x, Scores) and not x.soft and dim % self.result.dim() == self.result.dim() - 1:
            return dataclasses.replace(x, soft=True)
        return self.softmax_of(x, dim)

    def masked_fill(self, x: Any, mask: Any, value: float) -> Scores:
        if not isinstance(x, Scores) or not isinstance(mask, Constant) or value > -1e4:
            raise NotSupported("masked_fill is supported for scores of attention, with -inf")
        return self._hide_later(x, dataclasses.replace(mask, value=~mask.value.bool()))

    def where(self, mask: Any, x: Any, other: Any) -> Scores:
        if isinstance(other, Scores) and isinstance(mask, Constant):
            mask, x, other = dataclasses.replace(mask, value=~mask.value), other, x
        value = float(other.value) if isinstance(other, Constant) and other.value.numel() == 1 else other
        if not isinstance(x, Scores) or not isinstance(mask, Constant) or not isinstance(value, (int, float)) or value > -1e4:
            raise NotSupported("where is supported for scores of attention and a mask, with -inf")
        return self._hide_later(x, mask)

    def _hide_later(self, x: Scores, mask: Optional[Constant]) -> Scores:
        if x.soft or mask is None:
            raise NotSupported("a mask of attention that is not added to scores")
        names = self._parameters_of(mask)
        if names and mask.value.dtype == torch.bool:
            raise NotSupported(f"a mask of attention that is computed from a parameter, {names[0]}")
        if names:
            return dataclasses.replace(x, biases=(*x.biases, mask))
        try:
            causal = self.hides(mask, x.q.rows)
        except NotSupported:
            if mask.mask:
                raise
            return dataclasses.replace(x, biases=(*x.biases, mask))
        self._read(mask)
        return dataclasses.replace(x, causal=causal or x.causal, masked=mask.mask or x.masked)

    def hides(self, mask: Constant, rows: int) -> bool:
        """Of a mask of attention: whether it hides later rows."""
        if isinstance(self.result, Tensor) and self.result.dim() == 3 == mask.value.dim():  # one head, without a dimension
            mask = dataclasses.replace(mask, value=mask.value[:, None])
        return hides_later(mask, rows, self.lengths)

    def scaled_dot_product_attention(
            self, q: Any, k: Any, v: Any, attn_mask: Optional[Constant] = None, dropout_p: float = 0.0,
            is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Union[Value, View]:
        q, k, v = map(self._view, (q, k, v))
        if attn_mask is not None and not isinstance(attn_mask, Constant):
            return self._attend_by(q, k, v, attn_mask, scale, dropout_p > 0 or is_causal)
        scale = q.size(q.groups[-1]) ** -0.5 if scale is None else scale
        try:
            scores = Scores.of(Heads.of(q), Heads.of(k), scale)
        except NotSupported:
            if attn_mask is not None or is_causal or dropout_p > 0:
                raise
            self.attentions += 1
            y = self._view(self.softmax_of(self.product(q, swapped(k), scale), -1))
            return self.product(y, v)
        if attn_mask is not None:
            scores = self._hide_later(scores, attn_mask)
        return self._attend(dataclasses.replace(scores, causal=is_causal or scores.causal, soft=True, rate=dropout_p), v)

    def _attend_by(self, q: View, k: View, v: View, scores: Any, scale: Optional[float], more: bool) -> Union[Value, View]:
        """Attention with scores that the net computes, on top of those of queries and keys."""
        if more:
            raise NotSupported("attention with scores that the net computes, and dropout or a mask")
        y = self.product(q, swapped(k), q.size(q.groups[-1]) ** -0.5 if scale is None else scale)
        self.result, result = torch.empty([self._view(y).size(group) for group in self._view(y).groups]), self.result
        self.attentions += 1
        probabilities = self.softmax_of(self.add(self._use(y, True), scores), -1)
        self.result = result
        return self.product(self._view(probabilities), v)

    def _attend(self, scores: Scores, v: View) -> Union[Value, View]:
        """The fused layer; where it does not have such attention, products."""
        before = self.attentions, self.masked
        try:
            y = self._fused(scores, Heads.of(v))
            if scores.draw:
                self.dropped[scores.draw] = None
            return y
        except NotSupported:
            self.attentions, self.masked = before
            if scores.masked:
                raise
        return self.product(self._view(self.scores(scores)), v)

    def _fused(self, scores: Scores, v: Heads) -> Union[Value, View]:
        q, k, of = scores.q, scores.k, (scores.q, scores.k, v)
        if not scores.soft or not v.serves(q) or (v.count, v.rows) != (k.count, k.rows) or v.view.turned > 0:
            raise NotSupported("a product with scores that is not attention's")
        if scores.draw in self.dropped:
            raise NotSupported("probabilities of attention of which some are dropped, and that are used twice")
        if v.view.scale != 1:
            raise NotSupported("values of attention that are scaled")
        if scores.gain is not None and scores.cap > 0:
            raise NotSupported("a cap of scores that heads multiply by numbers of their own")
        scale = scores.scale * (scores.cap or 1) * q.features ** 0.5
        if k.rows != q.rows:
            return self._plain(dataclasses.replace(q.view, layer=self._cross(scores, v, scale), features=q.view.left, picked=(),
                                                   scale=1.0))
        beside = all(x.view.layer == q.view.layer and x.view.first == first
                     for x, first in zip(of, (0, q.all, q.all + k.all)))
        if beside and q.view.size(q.view.features) == q.all + 2 * k.all and abs(scale - 1) < 1e-6 and scores.gain is None:
            layer = q.view.layer
        else:
            layers = [self._part_of(x.view) for x in (dataclasses.replace(q, view=self.gained(scores, q.view)), k, v)]
            if abs(scale - 1) >= 1e-6:
                layers[0] = self._push("scale", (layers[0],), scale)
            layer = layers[0]
            for other in layers[1:]:
                layer = self._push("concat", (layer, other), Axis.FEATURES)
        if q.view.turned > 0 and isinstance(q.view.theta, Angles):
            angles = dataclasses.replace(q.view.theta, adjacent=q.view.adjacent)
            if angles.radians.dim() == 2 and len(angles.radians) != q.rows * q.windows:
                raise NotSupported(f"rotary positions of {len(angles.radians)} rows, in attention of {q.rows * q.windows}")
            layer = self._push("rotary_by", (layer,), q.count, k.count, angles)
        elif q.view.turned > 0:
            layer = self._push("rotary", (layer,), q.count, k.count, q.view.turned, q.view.theta, q.view.adjacent)
        self.attentions += 1
        self.masked += scores.masked
        window = 0 if q.windows == 1 else q.rows
        layer = self._core(layer, Attention(q.count, scores.rate, scores.causal, k.count, window, scores.cap), q.rows * q.windows,
                           scores.biases)
        like = next((x for x in (q.view, v.view) if tuple(map(x.size, x.groups)) == tuple(self.result.shape)), q.view)
        return self._plain(dataclasses.replace(like, layer=layer, features=like.left, picked=(), scale=1.0, theta=0.0,
                                               turned=0, adjacent=False, repeats=1))

    def _cross(self, scores: Scores, v: Heads, scale: float) -> int:
        """Attention to the rows of another value."""
        q, k = scores.q, scores.k
        if scores.causal or scores.masked or scores.biases or scores.cap > 0 or q.view.turned > 0 or scores.gain is not None:
            raise NotSupported("a mask, a bias, a cap or rotary positions in attention to other rows")
        layer, kv = self._part_of(q.view), k.view.layer
        if abs(scale - 1) >= 1e-6:
            layer = self._push("scale", (layer,), scale)
        if v.view.layer != kv or (k.view.first, v.view.first) != (0, k.all) or k.view.size(k.view.features) != 2 * k.all:
            kv = self._push("concat", (self._part_of(k.view), self._part_of(v.view)), Axis.FEATURES)
        self.attentions += 1
        return self._push("cross_attention", (layer, kv), q.count, k.count, scores.rate)

    def rotary(self, *args: Any, **named: Any) -> Any:
        """apply_rotary_pos_emb of transformers: of queries and keys by cos and sin, or of either by sin and cos. What it makes of
        random numbers tells how."""
        tables, single = [x for x in (*args, *named.values()) if isinstance(x, Constant)], isinstance(self.result, Tensor)
        self.angles_of(*tables)
        parts, given = [], self.node.args[:1 if single else len(self.result)]
        draw = torch.Generator().manual_seed(1)
        values = {node: torch.randn(self.env[node].shape, generator=draw) for node in given}
        results = self.node.target(*fx.node.map_arg(self.node.args, lambda i: values.get(i, self.env[i])),
                                   **fx.node.map_arg(self.node.kwargs, lambda i: self.env[i]))
        for x, node, result in zip(args, given, [results] if single else results):
            x = self._cut(x)
            cos, sin, adjacent = self._rotation(x, values[node], result, [table.value for table in tables[:2]])
            turned = 2 * cos.shape[-1]
            part = x.narrow(0, turned).turned(theta_of(cos, sin), adjacent)
            parts.append((part if turned == x.count else part.joined(x.narrow(turned, x.count - turned))).whole)
        return parts[0] if single else tuple(parts)

    @staticmethod
    def _rotation(x: Cut, value: Tensor, result: Tensor, tables: Sequence[Tensor]) -> Tuple[Tensor, Tensor, bool]:
        """What turns it: cosines and sines of each row and pair; whether pairs are neighbours. Models have these tables of each
        pair or feature, in either order."""
        heads = -2 if x.view.groups[-2] != x.view.rows else -3
        of_pairs = (lambda t: t, lambda t: t[..., :t.shape[-1] // 2], lambda t: t[..., ::2])
        for pairs, order, adjacent in itertools.product(of_pairs, (1, -1), (False, True)):
            cos, sin = map(pairs, tables[::order])
            c, s, turned = cos.unsqueeze(heads), sin.unsqueeze(heads), 2 * cos.shape[-1]
            if result.shape == value.shape and turned <= x.count:
                part, rest = value[..., :turned], value[..., turned:]
                a, b = (part[..., ::2], part[..., 1::2]) if adjacent else part.chunk(2, -1)
                halves = a * c - b * s, b * c + a * s
                want = torch.stack(halves, -1).flatten(-2) if adjacent else torch.cat(halves, -1)
                if torch.allclose(result, torch.cat([want, rest], -1), atol=1e-4):
                    return cos, sin, adjacent
        raise NotSupported("rotary positions other than Llama's or GPT-J's")

    def mask_of(self, **_: Any) -> Constant:
        """A mask that a function of transformers makes of that of the samples' lengths."""
        return Constant(None, self.result, mask=self.lengths is not None)

    def repeat_kv(self, x: Any, repeats: int) -> View:
        return dataclasses.replace(self._view(x), repeats=repeats)
