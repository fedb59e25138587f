"""Layers with weights: linear ones, norms, embeddings, parameters that are added."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Sequence, Tuple, Union

import torch

from clprune.tracing.moves import Moves
from clprune.tracing.program import FLOATS, Axis, Extent, Layer, Param
from clprune.tracing.views import Constant, NotSupported, Order, Value, View


class Weights(Moves):
    """Layers with weights, as a part of the tracer."""

    def scaled_more(self, x: Any, weight: Constant) -> Union[Value, View]:
        """x * (1 + weight)"""
        if isinstance(x, View) and len(x.left) == 2 and x.groups[-1] == x.left[1]:  # of each head, as a row
            rows, heads, features = x.size(x.rows), *(x.sizes[axis] for axis in x.left)
            order, flat = Order((rows, heads, features), (0, 1, 2)), Extent(0, 0)
            layer = self._push("permute", (self._part_of(x),), order, features, flat)
            name = self._name()
            self.program.layers.append(Layer("layerscale", name, (layer, layer)))
            self._param(name, weight)
            layer = self._push("permute", (len(self.program.layers) - 1,), order, heads * features, flat)
            return dataclasses.replace(x, layer=layer, features=x.left, picked=())
        x = self._use(x, True)
        self._per_feature(weight, x)
        name = self._name()
        value = self._add("layerscale", name, (x.layer, x.layer), (), x.axes, x.sizes)
        self._param(name, weight)
        return value

    def linear(self, x: Value, weight: Constant, bias: Optional[Constant] = None, transposed: bool = False) -> Value:
        """transposed: the weight is in x out."""
        if bias is not None and bias.name is None:
            return self._positions(self.linear(x, weight, None, transposed), bias)
        x = self._use(x, True)
        name, out = self._layer_of(weight), weight.value.shape[1 if transposed else 0]
        split: Tuple[int, ...] = ()
        order: Tuple[int, ...] = ()
        if x.axes[-1] not in ("", "C", x.rows) and len(x.axes) > 1:
            x = self.last_features(x)
        group = x.axes[-1]
        if group == "C" or len(x.axes) == 1:
            sizes = {"C": out}
            axes = (*x.axes[:-1], "C")
            if len(x.axes) > 1 or x.windows > 1:
                sizes.update((axis, x.sizes[axis]) for axis in x.rows)
            elif group != x.stored:  # the net's value has features last
                split = (out, *(x.sizes[axis] for axis in group))
                order = (0, *(1 + group.index(axis) for axis in x.stored))
            value = self._add("linear", name, (x.layer,), (out,), axes, sizes)
        elif group != "" and group == x.rows and "C" in x.axes:
            sizes = {"C": x.sizes["C"], "T": out}
            axes = (*x.axes[:-1], "T")
            value = self._add("linear_rows", name, (x.layer,), (out,), axes, sizes)
        else:
            raise NotSupported("a linear layer over a dimension that is neither the features nor "
                                "all rows")
        if transposed:
            if split:
                raise NotSupported("a transposed linear layer of a flattened image")
            split, order = tuple(weight.value.shape), (1, 0)
        self._param(f"{name}.weight", weight, split=split, order=order)
        self._param(f"{name}.bias", bias, torch.zeros(out, **FLOATS))
        return value

    def batch_norm(self, x: Value, mean: Optional[Constant], var: Optional[Constant],
                   weight: Optional[Constant] = None, bias: Optional[Constant] = None,
                   training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Value:
        x = self._use(x, True)
        if not training:
            raise NotSupported("a batch norm that uses running statistics in training")
        if x.axes[0] != "C":
            x = self._use(self.by_features(self._view(x), 1), True)
        if x.axes[0] != "C":
            raise NotSupported("a batch norm over dimension 1, which is not the features")
        if mean is None or momentum is None:
            raise NotSupported("a batch norm without running statistics or momentum is not "
                                "supported")
        if any(state.theirs == mean.name for state in self.program.states):
            raise NotSupported("a batch norm that runs twice")
        name = self._layer_of(weight or mean)
        value = self._add("batch_norm", name, (x.layer,), (), x.axes, x.sizes, eps, momentum)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **FLOATS))
        self._param(f"{name}.bias", bias, torch.zeros(x.sizes["C"], **FLOATS))
        for ours, constant in (("running_mean", mean), ("running_var", var)):
            self.program.states.append(Param(f"{name}.{ours}", constant.name,
                                             tuple(constant.value.shape)))
        self.program.counters.append(mean.name.rpartition(".")[0] + ".num_batches_tracked")
        return value

    def embedding(self, x: Any, weight: Constant, padding_idx: Optional[int] = None, max_norm: Optional[float] = None,
                  norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Value:
        if not isinstance(x, Value) or "C" in x.sizes or max_norm is not None or scale_grad_by_freq or sparse:
            raise NotSupported("an embedding of others than the tokens, or with more than a table")
        if padding_idx is not None:
            self.program.paddings.append(padding_idx % weight.value.shape[0])
        name, (vocabulary, features) = self._layer_of(weight), weight.value.shape
        value = self._add("embedding", name, (x.layer,), (vocabulary, features), ("T", "C"), {**x.sizes, "C": features})
        self._param(f"{name}.weight", weight)
        return value

    def position_ids(self, ids: Any, padding: int, past: int = 0) -> Constant:
        """RoBERTa's, of tokens without padding: those behind the index of padding."""
        if not isinstance(ids, Value) or past != 0:
            raise NotSupported("positions of others than the tokens")
        self.program.paddings.append(padding)
        self.program.pads_positions = True
        return Constant(None, torch.arange(padding + 1, padding + 1 + ids.sizes["T"]).expand(self.batch, -1))

    def layer_norm(self, x: Value, shape: Sequence[int], weight: Optional[Constant] = None,
                   bias: Optional[Constant] = None, eps: float = 1e-5) -> Value:
        x = self.last_features(x)
        if len(shape) != 1:
            raise NotSupported("a layer norm over several dimensions")
        name = self._layer_of(weight)
        value = self._add("layer_norm", name, (x.layer,), (), x.axes, x.sizes, eps)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **FLOATS))
        self._param(f"{name}.bias", bias, torch.zeros(x.sizes["C"], **FLOATS))
        return value

    def group_norm(self, x: Value, groups: int, weight: Optional[Constant] = None,
                   bias: Optional[Constant] = None, eps: float = 1e-5) -> Value:
        x = self._use(x)
        if x.axes[0] != "C":
            x = self._use(self.by_features(self._view(x), 1))
        if x.axes[0] != "C":
            raise NotSupported("a group norm over dimension 1, which is not the features")
        name = self._layer_of(weight)
        value = self._add("group_norm", name, (x.layer,), (groups,), x.axes, x.sizes, eps)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **FLOATS))
        self._param(f"{name}.bias", bias, torch.zeros(x.sizes["C"], **FLOATS))
        return value

    def rms_norm(self, x: Any, weight: Optional[Constant], eps: float) -> Union[Value, View]:
        if isinstance(x, View) and len(x.left) == 2 and x.groups[-1] == x.left[1]:
            return self.head_norm(x, weight, eps)
        x = self.last_features(x)
        name = self._layer_of(weight)
        value = self._add("rms_norm", name, (x.layer,), (), x.axes, x.sizes, eps)
        self._param(f"{name}.weight", weight, torch.ones(x.sizes["C"], **FLOATS))
        return value

    def _positions(self, x: Value, constant: Constant) -> Value:
        """x + a parameter with a value for each row and feature, or for each feature."""
        same = constant.value
        if same.dim() == 1 + len(x.axes) and same.shape[0] == self.batch and bool((same == same[:1]).all()):
            constant = dataclasses.replace(constant, value=same[:1])  # of each sample
        shape, axes = tuple(constant.value.shape), "".join(x.axes)
        if constant.rows is not None:
            return self._rows_of(x, constant)
        if shape not in (x.shape, (1, *x.shape)):
            if constant.name is None and constant.node is not None and constant.node.target in (torch.cat, torch.concat):
                return self._beside(x, [self.noted[i] for i in constant.node.args[0]], constant)
            try:
                per_feature = self._of_features(constant, x)
            except NotSupported:
                if constant.mask:
                    raise
                return self._use(self._plain(self.plus(self._view(x), constant)), True)
            return self._affine(None, per_feature, x)
        if sorted(axes) != sorted(x.stored):
            return self._use(self._plain(self.plus(self._view(x), constant)), True)
        name = self._name(constant.name or self.node.name)
        value = self._add("positions", name, (x.layer,), (), x.axes, x.sizes)
        order = tuple(axes.index(axis) for axis in x.stored)
        in_order = order == tuple(range(len(axes)))
        self._param(name, constant, split=() if in_order else tuple(x.sizes[axis] for axis in axes),
                    order=() if in_order else order)
        return value

    def _beside(self, x: Value, parts: Sequence[Constant], whole: Constant) -> Value:
        """x + joined parameters, one for each part of the features, as biases of queries and values alone."""
        self._per_feature(whole, x)
        if not all(part.value.dim() == 1 for part in parts):
            raise NotSupported("joined parameters other than those of features")
        first, layer = 0, None
        for part in parts:
            count = part.value.numel()
            of = Value(self._push("slice", (x.layer,), Axis.FEATURES, first, count), x.axes, {**x.sizes, "C": count})
            if not self._is_zero(part):
                of = self._affine(None, part, of)
            layer = of.layer if layer is None else self._push("concat", (layer, of.layer), Axis.FEATURES)
            first += count
        return dataclasses.replace(x, layer=layer)

    def _is_zero(self, part: Constant) -> bool:
        """Whether it is 0 with other values of the model's tensors, too, and has no gradient."""
        if part.node is None or part.name in self.named or part.name in self.state or part.value.requires_grad:
            return False
        others = {name: torch.ones_like(self.fetch_attr(name)) for name in self._parameters_of(part, self.state)}
        return not bool(part.value.any()) and not bool(self._computed(part.node, others, {}).any())

    def _rows_of(self, x: Value, constant: Constant) -> Value:
        """x + rows of a table, one for each row, or one for all."""
        rows, first, table = len(constant.rows), constant.rows[0], self.named[constant.name]
        count = 1 if set(constant.rows) == {first} else rows
        if x.axes != (x.rows, "C") or x.windows > 1 or rows not in (1, x.size(x.rows)) or table.shape[1] != x.sizes["C"] \
                or count > 1 and constant.rows != tuple(range(first, first + rows)):
            raise NotSupported(f"rows of {constant.name} other than one behind the other, for each row of the tensor")
        name = self._name(constant.name)
        value = self._add("positions_of", name, (x.layer,), (first, count, table.shape[0]), x.axes, x.sizes)
        self._param(name, Constant(constant.name, table))
        return value
